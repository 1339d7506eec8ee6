# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi nvlink prints about links, and which of its counters are errors."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import nvlink
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError

STATE = (
    "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
    "GPU 1: NVIDIA H200 (UUID: GPU-2)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"
)
COUNTERS = (
    "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: Replay Errors: 3\n\t Link 0: FEC Errors - 0: 99\n"
    "\t Link 0: Tx packets: 7\n\t Link 0: Effective BER: 15e-255\n"
)


def test_links_are_sorted_by_gpu() -> None:
    assert nvlink.parse(STATE) == {0: [(0, "26.562 GB/s"), (1, "<inactive>")], 1: []}


def test_only_errors_are_counted() -> None:
    assert nvlink.errors(nvlink.parse(COUNTERS)) == {"GPU 0 link 0 Replay Errors": 3}


@pytest.mark.parametrize(
    "line",
    ["WARNING: infoROM is corrupted", "Unable to determine the device handle for GPU0: 0000:0A:00.0: Unknown Error"],
)
def test_notes_between_links_are_passed_over(line: str) -> None:
    assert nvlink.parse(f"{line}\n{STATE}") == nvlink.parse(STATE)


@pytest.mark.parametrize("text", ["", "nonsense\n", f"{STATE}\t Lnk 2: 26 GB/s\n"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        nvlink.parse(text)
