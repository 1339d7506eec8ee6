# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
An AnsibleModule that hides the values of unknown options.

Ansible rejects an unknown option, but prints all options with -vvv. The value of a misspelt option may be a password.
"""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class QuietModule(AnsibleModule):  # type: ignore[misc]
    """An AnsibleModule for modules that have secret options."""

    def _load_params(self) -> None:
        super()._load_params()
        self.no_log_values.update(unknown_values(self.params, self.argument_spec))


def unknown_values(given: Mapping[str, t.Any], spec: Mapping[str, t.Any]) -> set[str]:
    """Return the values of options that are not in the spec, including suboptions at every level."""
    known = {alias: option for name, option in spec.items() for alias in (name, *option.get("aliases", ()))}
    found: set[str] = set()
    for name, value in given.items():
        if str(name).startswith("_ansible_"):
            continue
        if name not in known:
            found.update(_texts(value))
            continue
        options = known[name].get("options")
        for part in (value if isinstance(value, list) else [value]) if options else ():
            if isinstance(part, dict):
                found |= unknown_values(part, options)
    return found


def _texts(value: t.Any) -> Iterator[str]:
    """Yield each value as a string, including nested values. Skip booleans and empty strings."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, bool) and str(value):
        yield str(value)
