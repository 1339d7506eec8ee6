# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""scripts/real_gpus.py divides the GPUs of a machine, with recorded output of nvidia-smi."""

from __future__ import annotations

import json
import os
import subprocess
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
XML = ROOT / "tests/unit/fixtures/nvidia_smi/580.159.04/h200-x4-q.xml"
# A stand-in answers with the recorded output; of the links it says that one is up.
SMI = """#!/bin/sh
case $1 in nvlink) echo "   Link 0: 26.562 GB/s" ;; *) cat {file} ;; esac
"""


def _divide(path: Path, text: str | None, *nodes: str) -> subprocess.CompletedProcess[str]:
    (path / "bin").mkdir()
    if text is not None:
        (path / "smi.xml").write_text(text, encoding="utf-8")
        (path / "bin/nvidia-smi").write_text(SMI.format(file=path / "smi.xml"), encoding="utf-8")
        (path / "bin/nvidia-smi").chmod(0o755)
    command = ["python3", str(ROOT / "scripts/real_gpus.py"), str(path / "notes"), *nodes]
    environment = os.environ | {"PATH": f"{path / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [(["gpu1", "gpu2"], [[0, 1], [2, 3]]), (["gpu1", "gpu2", "gpu3"], [[0, 1], [2, 3], []])],
)
def test_each_node_gets_its_share_and_a_valid_record(tmp_path: Path, nodes: list[str], shares: list[list[int]]) -> None:
    assert _divide(tmp_path, XML.read_text(encoding="utf-8"), *nodes).stderr == ""

    found = [json.loads((tmp_path / f"notes/{node}.yml").read_text(encoding="utf-8")) for node in nodes]
    kept: list[t.Any] = [records.find("", node["gpucluster_vm_size_record"])["gpus"] for node in found]
    assert [node["lab_gpus"] for node in found] == shares
    assert [gpus["count"] for gpus in kept] == [len(share) for share in shares]
    assert (kept[1]["model"], kept[1]["memory_mib"], kept[1]["first_device"], kept[1]["nvlinks"]) == (
        "H200",
        143771,
        2,
        1,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _text: None, "found no GPU"),
        (lambda _text: "<nvidia_smi_log/>", "found no GPU"),
        (lambda text: text.replace("NVIDIA H200<", "NVIDIA T4<", 1), "several kinds"),
        (lambda text: text.replace("<current_mig>Disabled", "<current_mig>Enabled", 1), "MIG"),
        (lambda text: text[: len(text) // 2], "not understood"),
        (lambda text: text.replace("<minor_number>0<", "<minor_number>N/A<", 1), "not understood"),
    ],
)
def test_what_cannot_be_divided_is_refused_in_one_line(
    tmp_path: Path, change: t.Callable[[str], str | None], reason: str
) -> None:
    done = _divide(tmp_path, change(XML.read_text(encoding="utf-8")), "gpu1", "gpu2")

    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "notes").exists()


def test_a_run_without_nodes_is_refused(tmp_path: Path) -> None:
    done = _divide(tmp_path, XML.read_text(encoding="utf-8"))

    assert (done.returncode, done.stderr) == (1, "usage: real_gpus.py DIRECTORY NODE...\n")


def test_a_validation_that_wrote_no_report_has_not_the_verdict_of_the_one_before(tmp_path: Path) -> None:
    """tests/gpu/run shows the verdict of each fault that it causes."""
    text = (ROOT / "tests/gpu/run").read_text(encoding="utf-8")
    functions = text[text.index("\nnewest() ") : text.index("\nresume() ")]
    (tmp_path / "report").write_text('{"verdict": "pass", "checks": [], "summary": "ok"}', encoding="utf-8")
    place = tmp_path / "root/state"
    place.mkdir(parents=True)
    known = functions.replace(
        "/var/lib/gputest/root/$layout/control/home/ops/.local/state/gpucluster/validation", str(place)
    )
    program = f"""set -euo pipefail
work={tmp_path} results={tmp_path} here={ROOT}/tests/gpu seconds=1 recap=failed=1
play() {{
  [ "$1" != passed ] || {{ cp {tmp_path}/report {place}/report.json; touch -d 'next hour' {place}/report.json; }}
}}
{known}
validation passed
touch -d 'last hour' {place}/report.json
validation broken
"""

    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stdout.splitlines() == ["PASS; ok, 1 s", "no report: failed=1, 1 s"]
