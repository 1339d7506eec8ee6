# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module program."""

from __future__ import annotations

import hashlib
import tempfile
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.hashing import checksum

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import copied, zipapp


class ActionModule(ActionBase):
    """Build a program on the control node, and copy it to the managed node with the files that it needs."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of the modules copy and file_set; the latter alone if the node has the program."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {
            "entry": {"type": "str", "required": True},
            "dest": {"type": "str", "required": True},
            "interpreter": {"type": "str", "default": "/usr/bin/python3"},
            "files": {"type": "list", "elements": "dict", "default": []},
        }
        __, arguments = self.validate_argument_spec(argument_spec=spec)
        try:
            source = built(arguments["entry"], arguments["interpreter"], Path(arguments["dest"]).name)
        except zipapp.BuildError as exc:
            raise AnsibleError(str(exc)) from exc
        copy = copied.Copy(str(source), arguments["dest"], "0755")
        result.update(copied.write(self, [copy], {"files": arguments["files"]}, task_vars))
        return {**result, "checksum": checksum(copy.src), "dest": copy.dest}


def built(entry: str, interpreter: str, name: str) -> Path:
    """
    Return the file of a program. It is built once in a run, not once for each node.

    Ansible removes the temporary directory of the run at its end. The processes of the tasks share it.
    """
    key = hashlib.sha256(f"{entry} {interpreter}".encode()).hexdigest()[:16]
    source = Path(constants.DEFAULT_LOCAL_TMP) / f"program-{key}" / name  # type: ignore[attr-defined]
    if not source.is_file():
        program = zipapp.build(entry, interpreter)
        source.parent.mkdir(exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=source.parent, delete=False) as partial:
            partial.write(program)
        Path(partial.name).replace(source)
    return source
