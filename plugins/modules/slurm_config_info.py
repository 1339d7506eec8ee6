#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that reads Slurm's configuration on a controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config_info
short_description: Read Slurm's configuration on a controller
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the files of C(/etc/slurm) by name, the pending actions of an interrupted run of
    M(hpcai.gpucluster.slurm_config), and the control groups that systemd delegates to a service.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  files:
    description: Names of the files.
    type: list
    elements: str
    default: [slurm.conf]
  delegated:
    description: Whether to return the control groups that systemd delegates to a service with C(Delegate=yes), such as
      slurmd.
    type: bool
    default: false
  jobs:
    description: Whether to return what a change may put at risk, nodes on which slurmd has run, and jobs.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Read slurm.conf
  hpcai.gpucluster.slurm_config_info:
    files: [slurm.conf]
  become: true
"""

RETURN = r"""
files:
  description:
    - Existing files by name. C(content) is the content of a file, and C(right) is true if root owns it and its mode is
      0644.
  returned: success
  type: dict
  sample: {slurm.conf: {content: "ClusterName=lab\n", right: true}}
pending:
  description: Pending actions of an interrupted run.
  returned: success
  type: list
  elements: dict
delegated:
  description: Control groups that systemd delegates to a service, or none with O(delegated=false).
  returned: success
  type: list
  elements: str
at_risk:
  description: Nodes and jobs that a change may put at risk, or none with O(jobs=false).
  returned: success
  type: list
  elements: str
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import config_state
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

RIGHT = (0o644, 0, 0)


def look(path: Path) -> config_state.File | None:
    """Return the present file; raises OSError if it exists but cannot be read."""
    try:
        status = path.stat()
        content = path.read_text(encoding="utf-8", errors="surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return config_state.File(content, (status.st_mode & 0o7777, status.st_uid, status.st_gid) == RIGHT)


def info(params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the present configuration of the controller; raises ConfigError and OSError."""
    found = {name: look(Path(config_state.DIRECTORY) / name) for name in params["files"]}
    noted = look(Path(config_state.PENDING))
    run = bounded_run.feeding_runner(bounded_run.ASK)
    return {
        "files": {name: file._asdict() for name, file in found.items() if file},
        "pending": config_state.pending(noted.content if noted else ""),
        "delegated": config_state.delegated(run) if params["delegated"] else None,
        "at_risk": config_state.at_risk(run) if params["jobs"] else None,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "str", "default": ["slurm.conf"]},
            "delegated": {"type": "bool", "default": False},
            "jobs": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        found = info(module.params)
    except (config_state.ConfigError, OSError) as exc:
        module.fail_json(msg=f"Slurm's configuration cannot be read: {exc}")
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
