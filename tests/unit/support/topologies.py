# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topology files, and what a real NCCL 2.28.9 on two H200 did with each."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "fixtures/nccl/2.28.9-h200-x2"
VERDICTS: dict[str, dict[str, t.Any]] = json.loads((FOLDER / "verdicts.json").read_text(encoding="utf-8"))

# Files that NCCL took without an error, to the harm of the job or not at all, and what it did not say.
SILENT = {
    "busid_junk.xml": "busid 'junk'",
    "cpu_affinity_0x.xml": "affinity is '0xffff'",
    "cpu_affinity_list.xml": "affinity is '0-15'",
    "cpu_arch_bogus.xml": "arch is 'sparc'",
    "empty_file.xml": "has no element",
    "gpu_children_nvlink_absent.xml": "which is not in the file",
    "gpu_children_nvlink_self.xml": "leads to the GPU itself",
    "gpu_class_wrong.xml": "names no GPU",
    "gpus_on_two_numas.xml": "overlaps",
    "no_cpu.xml": "names no GPU",
    "only_newline.xml": "has no element",
    "pci_no_busid.xml": "no busid",
    "root_other.xml": "must be <system>",
    "speed_16_0.xml": "'16.0 GT/s', which NCCL takes for generation 3",
    "speed_5_0.xml": "'5.0 GT/s', which NCCL takes for generation 3",
    "speed_gen4.xml": "'Gen4', which NCCL takes for generation 3",
    "width_text.xml": "link_width is 'x16'",
}
# 300 more bridges in ok_base.xml.
MADE = "many_pci_300.xml"


def text(name: str) -> str:
    """Return a file byte by byte; the one with carriage returns is kept without them, as tools dislike such files."""
    if name == MADE:
        base, bus = text("ok_base.xml"), "0000:00:07.0"
        line = next(line for line in base.splitlines(keepends=True) if bus in line)
        return base.replace(line, line + "".join(line.replace(bus, f"{512 + more:04x}:00:00.0") for more in range(300)))
    contents = (FOLDER / name).read_bytes().decode("latin-1")
    return contents.replace("\n", "\r\n") if name == "crlf.xml" else contents
