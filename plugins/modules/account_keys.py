#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module that creates ssh key pairs of users once and keeps them."""

from __future__ import annotations

DOCUMENTATION = r"""
module: account_keys
short_description: Create ssh key pairs of users once, keep them on one machine and return them
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Creates an Ed25519 key pair without a passphrase for every user that has none, and returns all pairs.
  - The pairs are in a directory that only root can read. Run the module on one machine of the cluster and pass
    RV(key_pairs) to M(hpcai.gpucluster.accounts) on the machines that own home directories. Users can then log in from
    each of them to all others.
  - Private keys are returned only to a task with C(no_log).
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
    details: Pairs that would be made are not returned.
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - C(ssh-keygen)
options:
  names:
    description: Login names of the users that get a key pair.
    type: list
    elements: str
    required: true
  removed:
    description: Login names of the users whose key pair is deleted.
    type: list
    elements: str
    default: []
  path:
    description: Directory of the pairs, one directory per user. It is created with mode C(0700).
    type: path
    default: /var/lib/gpucluster/user-keys
seealso:
  - module: hpcai.gpucluster.accounts
"""

EXAMPLES = r"""
- name: Create the key pairs
  hpcai.gpucluster.account_keys:
    names: [alice, bob]
  delegate_to: control
  run_once: true
  no_log: true
  register: pairs

- name: Apply the list of users
  hpcai.gpucluster.accounts:
    users: "{{ users }}"
    key_pairs: "{{ pairs.key_pairs }}"
"""

RETURN = r"""
key_pairs:
  description: Key pairs by user name. Only returned to a task with C(no_log).
  returned: success
  type: dict
  contains:
    private:
      description: Private key in OpenSSH format.
      type: str
    public:
      description: Public key in one line.
      type: str
made:
  description: Users whose pair was created, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [alice]
removed:
  description: Users whose pair was deleted, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [mallory]
"""

import contextlib
import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.key_pairs import KeyStore, KeyStoreError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import NAME
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run


def keep(store: KeyStore, names: list[str], removed: list[str], check: bool) -> dict[str, t.Any]:
    """Create and remove pairs, and return what changed."""
    with contextlib.nullcontext() if check else store.locked():
        made, gone = store.missing(names), store.present(removed)
        if not check:
            for name in made:
                store.make(name)
            for name in gone:
                store.remove(name)
    return {
        "changed": bool(made or gone),
        "made": made,
        "removed": gone,
        "key_pairs": {name: store.pair(name) for name in store.present(names)},
        "diff": {"before": {"key_pairs": gone}, "after": {"key_pairs": made}},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "removed": {"type": "list", "elements": "str", "default": []},
            "path": {"type": "path", "default": "/var/lib/gpucluster/user-keys"},
        },
        supports_check_mode=True,
    )
    names, removed = module.params["names"], module.params["removed"]
    bad = [name for name in [*names, *removed] if not NAME.fullmatch(name)]
    if bad:
        module.fail_json(msg=f"names: {bad[0]!r} is no login name; allowed: {NAME.pattern}")
    if not module.no_log:
        module.fail_json(msg="the task returns private keys; allowed: only with no_log: true")
    keygen = module.get_bin_path("ssh-keygen", required=True)
    try:
        run = bounded_run.feeding_runner(bounded_run.ASK)
        result = keep(KeyStore(Path(module.params["path"]), run, keygen), names, removed, module.check_mode)
    except (KeyStoreError, OSError) as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
