# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The sudo rules of groups and users: one drop-in file, which visudo checks before it is installed."""

from __future__ import annotations

import os
import tempfile
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Accounts
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

HEADER = "# Written by Ansible (hpcai.gpucluster.accounts); changes are lost."


def sudo_text(accounts: Accounts) -> str:
    """Return the drop-in file with all rules, or an empty string if there are none."""
    groups = [f"%{group.name} {group.sudo}" for group in accounts.groups if group.sudo and group.present]
    users = [f"{user.name} {user.sudo}" for user in accounts.users if user.sudo]
    return "\n".join([HEADER, *groups, *users]) + "\n" if groups or users else ""


class SudoDropIn:
    """The drop-in file. sudo ignores names with a dot, so it never reads a temporary file."""

    def __init__(self, path: Path, run: Runner, visudo: str | None) -> None:
        """Set the path, the runner and the path of visudo (None if sudo is not installed)."""
        self._path = path
        self._run = run
        self._visudo = visudo

    def current(self) -> str:
        """Return the current rules."""
        try:
            return self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def problems(self, text: str) -> list[str]:
        """Return the reasons why sudo would reject the rules."""
        if not text:
            return []
        if self._visudo is None:
            return ["sudo: rules are wanted, and visudo is not on this machine; install sudo or leave the rules out"]
        handle, name = tempfile.mkstemp()
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            rc, out, err = self._run([self._visudo, "-cf", name])
        finally:
            Path(name).unlink()
        reason = (err or out).strip().replace(name, str(self._path))
        return [f"sudo: visudo refuses the rules: {reason}"] if rc else []

    def write(self, text: str) -> None:
        """Write rules that visudo has accepted. Remove the file if there are none."""
        if not text:
            self._path.unlink()
            return
        whole_file.replace(str(self._path), text.encode(), 0o440)
