# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write, generate or check the topology file that NCCL reads."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_topology
author:
  - HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Write, generate or check the topology file that NCCL reads
description:
  - Generates the file from a hardware record or from the running machine (PCI tree, NUMA nodes, processor), or accepts
    its content.
  - Checks the content as NCCL does, and also for faults that NCCL accepts silently but that harm every job. Content
    that NCCL would refuse, ignore or misuse is never written.
  - Compares the content with the machine. A file that names none of the machine's GPUs belongs to another type of
    machine and is refused. A machine without visible GPUs is not compared.
  - Writes atomically and can keep a backup of the present file. A link in its place is replaced by a file.
  - Skips the Ethernet adapter of Azure's accelerated networking, because NCCL does not use it.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - ansible.builtin.files
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  path:
    description: Path of the file on the machine. A missing directory is created with mode V(0755).
    type: path
    required: true
  link:
    description: Second path of the file, a symbolic link to it, such as the path that newer images expect.
    type: path
    version_added: 0.3.0
  state:
    description:
      - V(present) writes the file.
      - V(checked) checks the present file and changes nothing. It fails where V(present) would refuse to write.
    type: str
    choices: [present, checked]
    default: present
  record:
    description: Hardware record to generate from, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
  content:
    description: Content to write unchanged, if it is valid.
    type: str
  machine_check:
    description:
      - Action if file and machine differ.
      - V(fail) fails on any difference. V(warn) warns, but still refuses the file of another type of machine. V(skip)
        does not compare.
    type: str
    choices: [fail, warn, skip]
    default: warn
  gpus_per_bridge:
    description:
      - Only when the file is generated from the machine. A virtual machine does not show the PCI switches between its
        devices. This option puts so many GPUs, and an equal share of the adapters of their NUMA node, below one switch.
      - V(0) writes the topology that the machine shows.
    type: int
    default: 0
  exclude:
    description: PCI addresses such as V(0101:00:00.0) that NCCL must not use.
    type: list
    elements: str
    default: []
  backup:
    description: Whether to keep a copy, with the time in its name, of a replaced file.
    type: bool
    default: true
  mode:
    description: Permissions of the file, in the format of M(ansible.builtin.file).
    type: raw
    default: "0644"
  sysfs:
    description: Mount point of sysfs. Another path is for tests and for images of machines.
    type: path
    default: /sys
  procfs:
    description: Mount point of procfs.
    type: path
    default: /proc
seealso:
  - plugin: hpcai.gpucluster.nccl_topology
    plugin_type: filter
  - name: Environment variables of NCCL
    description: NVIDIA's description of E(NCCL_TOPO_FILE).
    link: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

EXAMPLES = r"""
- name: Install the file of a VM size
  hpcai.gpucluster.nccl_topology:
    path: /opt/microsoft/ndv4/topo.xml
    record: "{{ 'Standard_ND96asr_v4' | hpcai.gpucluster.vm_size }}"

- name: Generate the file from the machine, with two GPUs behind each PCI switch
  hpcai.gpucluster.nccl_topology:
    path: /opt/gpucluster/nccl/topo.xml
    gpus_per_bridge: 2

- name: Check a file from another source
  hpcai.gpucluster.nccl_topology:
    path: /opt/microsoft/ndv5-topo.xml
    state: checked
    machine_check: fail
"""

RETURN = r"""
path:
  description: Path of the file.
  returned: always
  type: str
content:
  description: Present or predicted content of the file.
  returned: success
  type: str
gpus:
  description: PCI addresses of the GPUs that the file names.
  returned: success
  type: list
  elements: str
  sample: ["0001:00:00.0", "0002:00:00.0"]
notes:
  description: Unusual parts of the file without known harm.
  returned: success
  type: list
  elements: str
differences:
  description: Differences between file and machine.
  returned: success
  type: list
  elements: str
backup_file:
  description: Path of the copy of the replaced file.
  returned: changed and there was one
  type: str
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import build, compare, judge
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file


class RefusedError(Exception):
    """The content must not be used; the message gives the reason and the remedy."""


def wanted(params: dict[str, t.Any], machine: hardware_machine.Machine) -> bytes:
    """Return the content to check: from the present file, the task, a record or the machine."""
    if params["state"] == "checked":
        try:
            return Path(params["path"]).read_bytes()
        except OSError as exc:
            raise RefusedError(
                f"NCCL would ignore {params['path']} without an error, it cannot be read: {exc}"
            ) from exc
    if params["content"] is not None:
        return str(params["content"]).encode()
    try:
        if params["record"]:
            return build.from_record(params["record"]).encode()
        return build.from_machine(machine, params["gpus_per_bridge"], params["exclude"]).encode()
    except build.TopologyError as exc:
        raise RefusedError(str(exc)) from exc
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as exc:
        raise RefusedError(f"record is not of the form that the filter vm_size returns: {exc!r}") from exc


def judged(text: bytes, params: dict[str, t.Any], machine: hardware_machine.Machine) -> dict[str, t.Any]:
    """Return the findings about the content; raises RefusedError if it must not be used."""
    verdict = judge.judge(text.decode("latin-1"))
    wrong = verdict.of(judge.FATAL, judge.IGNORED, judge.FAULT)
    if wrong or verdict.system is None:
        raise RefusedError(f"{params['path']}: not a topology that NCCL would use rightly: {'; '.join(wrong)}")
    difference = compare.Difference([], False)
    if params["machine_check"] != "skip":
        difference = compare.compare(verdict.system, machine, params["exclude"])
    if difference.foreign:
        raise RefusedError(
            f"{params['path']}: this is the topology of another kind of machine, none of its GPUs is here: "
            f"{'; '.join(difference.texts)}. Give the record of this machine, or machine_check=skip"
        )
    if difference.texts and params["machine_check"] == "fail":
        raise RefusedError(f"{params['path']}: file and machine differ: {'; '.join(difference.texts)}")
    devices = judge.devices(verdict.system)
    return {
        "changed": False,
        "gpus": sorted(bus for bus, (pci, _cpu) in devices.items() if judge.is_gpu(pci)),
        "notes": verdict.of(judge.NOTE),
        "differences": difference.texts,
    }


def write(module: AnsibleModule, path: str, text: bytes) -> dict[str, t.Any]:
    """Write the content and the permissions of the file, and return what changed."""
    target = Path(path)
    try:
        before = target.read_bytes() if target.exists() else None
    except OSError as exc:
        raise RefusedError(f"cannot read {path}: {exc}") from exc
    changed = before != text or target.is_symlink()
    result: dict[str, t.Any] = {
        "diff": {
            "before_header": path,
            "after_header": path,
            "before": (before or b"").decode("utf-8", "replace"),
            "after": text.decode(),
        }
    }
    if changed and not module.check_mode:
        result.update(_replace(module, target, text, before is not None))
    arguments = module.load_file_common_arguments(module.params, path=path)
    if target.exists():
        changed = module.set_fs_attributes_if_different(arguments, changed)
    result["changed"] = changed
    return result


def link(module: AnsibleModule, path: str, name: str | None) -> bool:
    """Make the symbolic link to the file, if one is wanted; return whether it was missing or another one."""
    if not name or (Path(name).is_symlink() and str(Path(name).readlink()) == path):
        return False
    if not module.check_mode:
        try:
            Path(name).parent.mkdir(0o755, parents=True, exist_ok=True)
            temporary = Path(f"{name}.gpucluster")
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(path)
            temporary.replace(name)
        except OSError as exc:
            raise RefusedError(f"cannot make the link {name}: {exc}") from exc
    return True


def _replace(module: AnsibleModule, target: Path, text: bytes, there: bool) -> dict[str, t.Any]:
    target.parent.mkdir(0o755, parents=True, exist_ok=True)
    result = {}
    if there and module.params["backup"]:
        result["backup_file"] = module.backup_local(str(target))
    whole_file.replace(str(target), text, 0o644)
    return result


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "link": {"type": "path"},
            "state": {"type": "str", "choices": ["present", "checked"], "default": "present"},
            "record": {"type": "dict"},
            "content": {"type": "str"},
            "machine_check": {"type": "str", "choices": ["fail", "warn", "skip"], "default": "warn"},
            "gpus_per_bridge": {"type": "int", "default": 0},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "backup": {"type": "bool", "default": True},
            "mode": {"type": "raw", "default": "0644"},
            "sysfs": {"type": "path", "default": "/sys"},
            "procfs": {"type": "path", "default": "/proc"},
        },
        mutually_exclusive=[("record", "content")],
        add_file_common_args=True,
        supports_check_mode=True,
    )
    params = module.params
    machine = hardware_machine.read(params["sysfs"], params["procfs"])
    try:
        text = wanted(params, machine)
        result = judged(text, params, machine)
        if params["state"] == "present":
            result.update(write(module, params["path"], text))
            result["changed"] |= link(module, params["path"], params["link"])
    except RefusedError as exc:
        module.fail_json(msg=str(exc), path=params["path"])
    for difference in result["differences"]:
        module.warn(f"{params['path']}: {difference}")
    module.exit_json(path=params["path"], content=text.decode("utf-8", "replace"), **result)


if __name__ == "__main__":
    main()
