# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What validate runs in a container to prove MPI there, with a stand-in for mpi4py."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

VARIABLES = Path(__file__).parents[3] / "roles/validate/vars/main.yml"
STANDS_IN = """
import os
class COMM_WORLD:
    rank = 0
    allreduce = staticmethod(lambda one: one * int(os.environ["MET"]))
class MPI:
    COMM_WORLD = COMM_WORLD
"""


@pytest.mark.parametrize(
    ("package", "met", "expected"),
    [
        (STANDS_IN, "2", (0, "MPI in it over 2 of 2 nodes\n")),
        (STANDS_IN, "1", (1, "MPI in it over 1 of 2 nodes\n")),  # each task for itself
        ("raise ImportError", "2", (0, "MPI in it not proved: the image has no mpi4py\n")),
    ],
)
def test_mpi_in_a_container_counts_the_nodes_that_met(tmp_path: Path, package: str, met: str, expected: t.Any) -> None:
    script = yaml.safe_load(VARIABLES.read_text(encoding="utf-8"))["__validate_container_mpi_script"]
    (tmp_path / "mpi4py.py").write_text(package, encoding="utf-8")

    done = subprocess.run(
        ["sh", "-c", script, "sh", "2"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "MET": met, "SLURM_PROCID": "0"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == expected
