#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that loads the rules of the host firewall; the action of the same name reconnects and confirms them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall
short_description: Let only the cluster and the allowed sources reach a machine
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Manages one table of nftables, C(inet gpucluster), with one chain for incoming packets. Other tables stay, such as
    those of container engines.
  - Lets in answers, ICMP, DHCP, everything from O(cluster), ssh from O(ssh), and what O(allow) lists. Drops everything
    else.
  - C(nft) checks the rules before it loads them, in one step. Then a timer on the machine restores the previous rules
    after O(seconds), unless Ansible can make a new connection with the new rules. So a wrong rule locks out nobody.
  - Only confirmed rules are written to the disk. A unit of systemd loads them at boot, before the network starts.
  - It is an action, and needs nftables on the managed node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Also on a machine without nftables. Then nft does not check the rules.
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
  cluster:
    description: Addresses and networks of the machines of the cluster. They reach every port.
    type: list
    elements: str
    default: []
  ssh:
    description: Addresses and networks from which anyone may connect to ssh. The control node must be among them.
    type: list
    elements: str
    default: [0.0.0.0/0, "::/0"]
  ssh_ports:
    description: Ports of ssh.
    type: list
    elements: int
    default: [22]
  allow:
    description: Further ports that others may reach.
    type: list
    elements: dict
    default: []
    suboptions:
      ports:
        description: Port numbers.
        type: list
        elements: int
        required: true
      protocol:
        description: Protocol of the ports.
        type: str
        choices: [tcp, udp]
        default: tcp
      sources:
        description: Addresses and networks that reach the ports. The default is every address.
        type: list
        elements: str
  seconds:
    description: Seconds after which the machine restores its previous rules if no connection confirms the new ones.
    type: int
    default: 60
  step:
    description: For the action only.
    type: str
    choices: [load, confirm]
    default: load
seealso:
  - name: nftables
    description: Manual of nft.
    link: https://netfilter.org/projects/nftables/manpage.html
"""

EXAMPLES = r"""
- name: Let in the cluster, ssh, and Prometheus from the monitoring network
  hpcai.gpucluster.firewall:
    cluster: [10.0.0.0/16]
    allow:
      - {ports: [9100, 9400], sources: [10.9.0.0/24]}
  become: true
"""

RETURN = r"""
pending:
  description: Whether the rules are on trial. The action confirms them.
  returned: success
  type: bool
unused:
  description: After O(state=absent), whether a role of the collection installed nftables and nothing else uses it.
  returned: success
  type: bool
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import guard, lasting, ruleset
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host


def load(module: AnsibleModule, host: Host) -> dict[str, t.Any]:
    """Load the wanted rules on trial, and return the result of the module."""
    settings = ruleset.settings(module.params)
    faults = ruleset.problems(settings)
    if faults:
        module.fail_json(msg="; ".join(faults))
    content, found = ruleset.render(settings), guard.FIREWALL.state(host)
    changed = lasting.differs(content, found)
    if changed and not module.check_mode:
        guard.load(content, module.params["seconds"], host)
    pending = changed and not module.check_mode
    return {"changed": changed, "pending": pending, "unused": False, "diff": _diff(found.rules, content)}


def remove(module: AnsibleModule, host: Host) -> dict[str, t.Any]:
    """Remove the firewall, and return the result of the module."""
    changed, before = guard.FIREWALL.present(host), host.read(guard.FIREWALL.rules)
    unused = lasting.unused(guard.FIREWALL, host)
    if changed and not module.check_mode:
        guard.remove(host)
    return {"changed": changed, "pending": False, "unused": unused, "diff": _diff(before, "")}


def _diff(before: str, after: str) -> dict[str, str]:
    return {
        "before_header": guard.FIREWALL.rules,
        "after_header": guard.FIREWALL.rules,
        "before": before,
        "after": after,
    }


def main() -> None:
    """Run the module."""
    anyone = ["0.0.0.0/0", "::/0"]
    allow = {
        "ports": {"type": "list", "elements": "int", "required": True},
        "protocol": {"type": "str", "choices": ["tcp", "udp"], "default": "tcp"},
        "sources": {"type": "list", "elements": "str"},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "cluster": {"type": "list", "elements": "str", "default": []},
            "ssh": {"type": "list", "elements": "str", "default": anyone},
            "ssh_ports": {"type": "list", "elements": "int", "default": [22]},
            "allow": {"type": "list", "elements": "dict", "default": [], "options": allow},
            "seconds": {"type": "int", "default": 60},
            "step": {"type": "str", "choices": ["load", "confirm"], "default": "load"},
        },
        supports_check_mode=True,
    )
    host = Host(bounded_run.feeding_runner(bounded_run.ASK))
    try:
        if module.params["step"] == "confirm":
            guard.confirm(host)
            module.exit_json(changed=True, pending=False)
        result = (load if module.params["state"] == "present" else remove)(module, host)
    except (lasting.FirewallError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
