# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Runs ansible-lint, with one syntax check of all playbooks.

By itself, ansible-lint starts ansible-playbook for each playbook, each role and each import of a playbook, which took
most of its time. It also asks again and again which kind of file a path is. The names that are replaced here are
private to ansible-lint; patch raises AttributeError if a release lacks one.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import typing as t
from unittest.mock import patch

from ansible_compat.runtime import Runtime
from ansiblelint import file_utils
from ansiblelint.__main__ import _run_cli_entrypoint
from ansiblelint.runner import Runner

if t.TYPE_CHECKING:
    from ansiblelint.file_utils import Lintable

LIMIT = 3000  # seconds, also on a slow machine


def _syntax(runner: Runner, _matches: list[t.Any]) -> list[Lintable]:
    files = runner._collect_syntax_check_files()
    playbooks = sorted({str(file.path) for file in files if file.kind == "playbook"})
    command = ["ansible-playbook", "--syntax-check", *playbooks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode != 0 or not playbooks:
        sys.exit(f"{done.stderr}\nThe syntax check of {len(playbooks)} playbooks failed.")
    return files


if __name__ == "__main__":
    with (
        patch.object(Runner, "_run_syntax_check_phase", _syntax),
        # The syntax of a playbook that another one imports is checked with all others.
        patch.object(Runtime, "has_playbook", lambda *_words, **_more: True),
        patch.object(file_utils, "kind_from_path", functools.cache(file_utils.kind_from_path)),
    ):
        _run_cli_entrypoint()
