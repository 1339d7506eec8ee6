#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that keeps users of a machine in Azure from its metadata service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: azure_metadata
short_description: Let only root reach the metadata service of a machine in Azure
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - The metadata service C(169.254.169.254) gives a token of the identity of the machine to every process that asks, and
    begins scheduled events. So does the wire server C(168.63.129.16), on its ports 80 and 32526, with settings of
    extensions.
  - Manages one table of nftables, C(ip gpucluster_azure). It refuses packets of all users but root and O(uids) to the
    metadata service, and of all users but root to the wire server. Other tables stay. DNS of Azure stays open.
  - Containers with a network of their own reach neither.
  - A unit of systemd loads the rules at boot, before the network starts. It needs nftables on the managed node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Also on a machine without nftables.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  state:
    description: Whether the rules are loaded, now and at boot.
    type: str
    choices: [present, absent]
    default: present
  uids:
    description: UIDs of users that reach the metadata service as well. Root always does.
    type: list
    elements: int
    default: []
seealso:
  - module: hpcai.gpucluster.firewall
"""

EXAMPLES = r"""
- name: Let only root and the user 22078 reach the metadata service
  hpcai.gpucluster.azure_metadata:
    uids: [22078]
  become: true
"""

RETURN = r"""
unused:
  description: After O(state=absent), whether a role of the collection installed nftables and nothing else uses it.
  returned: success
  type: bool
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting, metadata
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def load(module: AnsibleModule, host: Host) -> dict[str, t.Any]:
    """Load the rules, and return the result of the module."""
    faults = metadata.problems(module.params["uids"])
    if faults:
        module.fail_json(msg=f"uids: {'; '.join(faults)}")
    content, found = metadata.render(module.params["uids"]), metadata.TABLE.state(host)
    changed = lasting.differs(content, found)
    if changed and not module.check_mode:
        metadata.load(content, host)
    return {"changed": changed, "unused": False, "diff": _diff(found.rules, content)}


def remove(module: AnsibleModule, host: Host) -> dict[str, t.Any]:
    """Remove the rules, and return the result of the module."""
    changed, before = metadata.TABLE.present(host), host.read(metadata.TABLE.rules)
    unused = lasting.unused(metadata.TABLE, host)
    if changed and not module.check_mode:
        metadata.TABLE.remove(host)
    return {"changed": changed, "unused": unused, "diff": _diff(before, "")}


def _diff(before: str, after: str) -> dict[str, str]:
    path = metadata.TABLE.rules
    return {"before_header": path, "after_header": path, "before": before, "after": after}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "uids": {"type": "list", "elements": "int", "default": []},
        },
        supports_check_mode=True,
    )
    host = Host(bounded_run.feeding_runner(bounded_run.ASK))
    try:
        result = (load if module.params["state"] == "present" else remove)(module, host)
    except (lasting.FirewallError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
