# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell programs of roles and playbooks are files, which shellcheck reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALL = re.compile(r"\bsh['\"]?, ['\"]?-[a-z]*c['\"]?, (.*)|ansible\.builtin\.shell:()|^ *- -[a-z]*c$()", re.MULTILINE)
# A file; a command that the site names; and one that is shorter than the name of a file.
ALLOWED = re.compile(
    r"\"?(\{\{ )?lookup\('ansible\.builtin\.file', |\"\{\{ __maintenance_command \}\}\"|'[^'\n]{1,60}'\]$"
)


def in_yaml(text: str) -> list[str]:
    """Return the shell programs of a text that are in no file."""
    return [found[0] for found in CALL.finditer(text) if not ALLOWED.match(found[1] or "")]


def test_a_shell_program_is_a_file() -> None:
    paths = [path for part in ("roles", "playbooks") for path in (ROOT / part).rglob("*.yml")]

    assert {path: found for path in paths if (found := in_yaml(path.read_text(encoding="utf-8")))} == {}


def test_a_program_in_yaml_is_found() -> None:
    assert in_yaml('argv: [sh, -euc, "{{ __a_program }}"]')
    assert in_yaml("ansible.builtin.shell:\n  cmd: a | b")
    assert in_yaml("argv:\n  - sh\n  - -c\n  - a")
    assert not in_yaml("argv: [sh, -c, '. /etc/os-release && echo $ID']")
