# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action of the module vm_sizes."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto, match
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Mapping


class ActionModule(ActionBase):
    """Find the VM sizes of machines, and remember them; runs only on the control node."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the sizes by host; the task fails if a machine fits none."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {"machines": {"type": "dict", "required": True}, "path": {"type": "path", "required": True}}
        __, arguments = self.validate_argument_spec(argument_spec=spec)
        sizes, problems = judged(arguments["machines"])
        known = auto.read(arguments["path"])
        if sizes and {**known, **sizes} != known:
            auto.write(arguments["path"], {**known, **sizes})
        failed = {"failed": True, "msg": "\n".join([*problems, _ADVICE])} if problems else {}
        return {**result, "changed": False, "sizes": sizes, **failed}


_ADVICE = (
    "Nothing was changed. Set gpucluster_vm_size for these machines to use a size in spite of differences, or describe"
    " the hardware with gpucluster_vm_size_record."
)


def judged(machines: Mapping[str, t.Any]) -> tuple[dict[str, str], list[str]]:
    """Return the sizes by host, and one sentence for each reason why machines have none."""
    sizes, hosts = {}, t.cast("dict[str, list[str]]", {})
    for host, answer in machines.items():
        machine = answer.get("machine")
        fit = match.find(machine) if machine else None
        if fit and fit.size:
            sizes[host] = fit.size
        else:
            reason = fit.problem if fit else f"the machine could not be read: {answer.get('msg', 'no answer')}"
            hosts.setdefault(reason, []).append(host)
    return sizes, [f"gpucluster_vm_size: auto: {_listed(names)}: {reason}" for reason, names in hosts.items()]


def _listed(names: list[str]) -> str:
    try:
        return hostlist.compress(names)
    except ValueError:
        return ", ".join(names)
