#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Divide the GPUs of this machine among nodes, and write what each node has to DIRECTORY/NODE.yml.

Usage: real_gpus.py DIRECTORY NODE...    (reads only; changes no setting of a GPU)
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path
from xml.etree import ElementTree


def main(directory: Path, nodes: list[str]) -> None:
    """Write the files, or end with one line that says why not."""
    text = _run("nvidia-smi", "-q", "-x") if shutil.which("nvidia-smi") else "<none/>"
    # The driver's program wrote it.
    found = ElementTree.fromstring(text).findall("gpu")  # noqa: S314
    gpus = sorted(found, key=lambda gpu: int(gpu.findtext("minor_number") or 0))
    if not gpus:
        sys.exit("found no GPU: nvidia-smi is missing or lists none, so there is nothing to divide")
    if {gpu.findtext("product_name") for gpu in gpus} != {gpus[0].findtext("product_name")}:
        sys.exit("found GPUs of several kinds; allowed: GPUs of one kind")
    if any(gpu.findtext("mig_mode/current_mig") == "Enabled" for gpu in gpus):
        sys.exit("found a GPU in MIG mode; allowed: whole GPUs")
    if [gpu.findtext("minor_number") for gpu in gpus] != [str(number) for number in range(len(gpus))]:
        sys.exit("the device files of the GPUs are not /dev/nvidia0, /dev/nvidia1 and so on")
    share = -(-len(gpus) // len(nodes))
    driver = _driver()
    toolkit = _run("nvidia-ctk", "cdi", "list").split() if shutil.which("nvidia-ctk") else []
    directory.mkdir(parents=True, exist_ok=True)
    for place, node in enumerate(nodes):
        own = list(range(len(gpus)))[place * share : (place + 1) * share]
        values = {
            "gpucluster_vm_size_record": _record(gpus, own, len(nodes)),
            "lab_cdi": [name for gpu in own if (name := f"nvidia.com/gpu={gpu}") in toolkit],
            "lab_gpus": own,
            "lab_driver": driver,
        }
        (directory / f"{node}.yml").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
        print(f"{node}: {len(own)} of {len(gpus)} {gpus[0].findtext('product_name')}")


def _record(gpus: list[ElementTree.Element], own: list[int], nodes: int) -> dict[str, t.Any]:
    cpu = {row["field"].rstrip(":"): row["data"] for row in json.loads(_run("lscpu", "-J"))["lscpu"]}
    memory = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1]) // 1024
    count = {"sockets": "Socket(s)", "cores_per_socket": "Core(s) per socket", "threads_per_core": "Thread(s) per core"}
    identity = {"vendor": "Vendor ID", "family": "CPU family", "model": "Model"}
    numbers = {key: int(cpu[name]) for key, name in count.items()}
    known = {key: cpu[name] for key, name in identity.items() if name in cpu}
    cpus = {key: int(value) if value.isdigit() else value for key, value in known.items()}
    kind = re.search(r"[A-Z]*\d+[A-Z]*", gpus[0].findtext("product_name") or "")
    model = kind[0] if kind else "GPU"
    record: dict[str, t.Any] = {
        "name": f"real-{model.lower()}",
        "cpus": {
            "architecture": cpu["Architecture"],
            **numbers,
            **cpus,
        },
        "numa_nodes": int(cpu.get("NUMA node(s)", 1)),
        "memory_mib": memory // nodes,
        "gpus": {"count": len(own)},
    }
    if own:
        first = gpus[0]  # all are of one kind
        link = "pci/pci_gpu_link_info/"
        limits = {
            "memory_mib": _number(first, "fb_memory_usage/total"),
            "first_device": own[0],
            "pcie_generation": _number(first, f"{link}pcie_gen/max_link_gen"),
            "pcie_width": _number(first, f"{link}link_widths/max_link_width"),
            "nvlinks": len(re.findall(r"GB/s", _run("nvidia-smi", "nvlink", "-s", "-i", str(own[0])))),
        }
        record["gpus"] |= {"model": model} | {key: value for key, value in limits.items() if value}
        record["topology"] = [{"index": index, "numa_node": _numa(gpus[gpu])} for index, gpu in enumerate(own)]
        # Some hypervisors break with NVLink's multicast: NCCL of a job keeps what this machine has.
        if os.environ.get("NCCL_NVLS_ENABLE"):
            record["nccl"] = {"environment": {"NCCL_NVLS_ENABLE": int(os.environ["NCCL_NVLS_ENABLE"])}}
    return record


def _driver() -> list[str]:
    """Return the files of the driver as volumes of a container, named as programs look for them."""
    smi = f"{Path(shutil.which('nvidia-smi') or '').resolve()}:/usr/bin/nvidia-smi:ro"
    if Path("/usr/local/nvidia/lib64").is_dir():
        return ["/usr/local/nvidia/lib64:/usr/local/nvidia/lib64:ro", smi]
    libraries = r"^\t(lib(?:nvidia-|cuda\.|cudadebugger)\S+) .*x86-64.* => (\S+)$"
    files = re.findall(libraries, _run("ldconfig", "-p"), re.MULTILINE)
    return [f"{Path(path).resolve()}:/usr/local/nvidia/lib64/{name}:ro" for name, path in sorted(files)] + [smi]


def _number(gpu: ElementTree.Element, path: str) -> int:
    found = re.match(r"\d+", gpu.findtext(path) or "")
    return int(found[0]) if found else 0


def _numa(gpu: ElementTree.Element) -> int:
    """Return the NUMA node of a GPU; the kernel says -1 if it does not know."""
    address = (gpu.get("id") or "").lower()[-12:]
    try:
        return max(0, int(Path(f"/sys/bus/pci/devices/{address}/numa_node").read_text(encoding="utf-8")))
    except OSError:
        return 0


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        sys.exit(f"{command[0]}: {exc}")
    if done.returncode and command[1] != "nvlink":
        sys.exit(f"{' '.join(command)}: {(done.stdout + done.stderr).strip() or done.returncode}")
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: real_gpus.py DIRECTORY NODE...")
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except (KeyError, ValueError, ElementTree.ParseError) as error:
        sys.exit(f"nvidia-smi or lscpu printed something that is not understood: {error!r}")
