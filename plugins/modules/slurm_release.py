#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that refuses a release of Slurm to which the cluster cannot be upgraded."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_release
short_description: Refuse a release of Slurm to which the cluster cannot be upgraded
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the installed release of slurmctld, and fails for a downgrade and for an upgrade that Slurm does not support.
    The error names the intermediate releases.
  - Releases up to 24.05 read the state of the two previous major releases, those from 24.11 on that of the three
    previous ones. The source is SchedMD's upgrade guide (doc/html/upgrades.shtml, section Compatibility Window).
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  version:
    description: The wanted release, such as V(26.05.4).
    type: str
    required: true
  upgrade:
    description: Whether another major release is allowed. Without it only another build of the same one is allowed.
    type: bool
    default: false
  package:
    description: Name of the package whose version is read.
    type: str
    default: slurm-smd-slurmctld
"""

EXAMPLES = r"""
- name: Refuse an upgrade that Slurm does not support
  hpcai.gpucluster.slurm_release:
    version: 26.05.4
    upgrade: true
"""

RETURN = r"""
present:
  description: Installed version; empty if the package is not installed.
  returned: success
  type: str
  sample: 24.11.5-1+gpucluster.883b557fd694
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

_UNKNOWN = 1  # dpkg-query has no such package


def present(run: Runner, package: str) -> str:
    """Return the version of a package; empty if it is not installed."""
    code, out, err = run(["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", package])
    if code not in (0, _UNKNOWN):
        raise release.VersionError(f"dpkg-query exited {code}: {err.strip() or out.strip()}")
    status, __, version = out.strip().partition(" ")
    return version if code == 0 and status == "installed" else ""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "required": True},
            "upgrade": {"type": "bool", "default": False},
            "package": {"type": "str", "default": "slurm-smd-slurmctld"},
        },
        supports_check_mode=True,
    )
    try:
        found = present(bounded_run.feeding_runner(bounded_run.ASK), module.params["package"])
        reason = release.refusal(found, module.params["version"], module.params["upgrade"]) if found else ""
    except release.VersionError as exc:
        module.fail_json(msg=str(exc))
    if reason:
        module.fail_json(msg=reason, present=found)
    module.exit_json(changed=False, present=found)


if __name__ == "__main__":
    main()
