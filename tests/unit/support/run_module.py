# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module as Ansible does, from its options to its result, in this process."""

from __future__ import annotations

import json
import typing as t
from unittest import mock

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

if t.TYPE_CHECKING:
    from pathlib import Path


class RunModule:
    """Calls the function main of modules; a result with failed is one of fail_json."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Take what catches the output."""
        self._capsys = capsys

    def __call__(self, main: t.Callable[[], None], check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Return the result of a module with the given options."""
        self._capsys.readouterr()
        warnings: list[str] = []
        given = patch_module_args({**options, "_ansible_check_mode": check_mode})
        # Ansible shows a warning at once where its own code runs, and returns it from a managed node.
        told = mock.patch.object(AnsibleModule, "warn", lambda _module, text: warnings.append(text))
        with given, told, pytest.raises(SystemExit) as ended:
            main()
        found: dict[str, t.Any] = json.loads(self._capsys.readouterr().out)
        assert bool(ended.value.code) == bool(found.get("failed"))
        return {**found, "warnings": warnings}


def program(folder: Path, name: str, text: str) -> None:
    """Write a shell script that acts as a program; it notes its arguments in the file calls beside it."""
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/calls\n{text}\n', encoding="utf-8")
    path.chmod(0o755)
