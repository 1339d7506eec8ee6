# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The line that says why a job failed: that of the program wins over those of Slurm."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output

LIBRARY = "all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file"
COMPILER = "torch.compile needs a C compiler (install gcc, or set CC) on each node; or use --compile=none"
EXECVE = "slurmstepd: error: execve(): all_reduce_perf: No such file or directory"
ENDS = """srun: Terminating StepId=1.0
slurmstepd: error: *** STEP 1.0 ON gpu1 CANCELLED AT 2026-11-25T17:11:27 ***
srun: error: gpu1: task 0: Exited with exit code %d
srun: error: gpu2: task 1: Killed
"""


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        pytest.param((f"{ENDS % 127}{LIBRARY}\n",), LIBRARY, id="library"),
        pytest.param((f"{COMPILER}\n{ENDS % 64}",), COMPILER, id="compiler"),
        pytest.param((ENDS % 1, "the data are not for this recipe\n"), "the data are not for this recipe", id="stdout"),
        pytest.param((f"srun: error: gpu1: task 0: Exited with exit code 2\n{EXECVE}",), EXECVE, id="program"),
        pytest.param((ENDS % 5,), "srun: error: gpu1: task 0: Exited with exit code 5", id="only-slurm"),
        pytest.param(("srun: error: Task launch failed",), "srun: error: Task launch failed", id="launch"),
        pytest.param(
            ("slurmstepd: error: Detected 1 oom_kill event\nsrun: error: gpu1: task 0: Out Of Memory\n", "all well"),
            "all well / slurmstepd: error: Detected 1 oom_kill event",
            id="memory",
        ),
        pytest.param(
            (
                "pyxis: importing docker image: a/b\nslurmstepd: error: pyxis: failed to import docker image\n"
                "slurmstepd: error: pyxis:     [ERROR] URL https://a returned error code: 401 Unauthorized\n",
            ),
            "slurmstepd: error: pyxis:     [ERROR] URL https://a returned error code: 401 Unauthorized",
            id="container",
        ),
        pytest.param(
            ("# nccl-tests version 2.19.6\n  1048576  262144 float sum\ngpu1:1:2 [0] NCCL INFO x\nbad\n",),
            "bad",
            id="table",
        ),
        pytest.param(
            (
                "[rank0]: RuntimeError: [./gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:37272\n"
                "[rank3]: ValueError: bad sample\n",
            ),
            "[rank3]: ValueError: bad sample",
            id="peer",
        ),
        pytest.param(
            ("NCCL WARN Got completion with status=IBV_WC_RETRY_EXC_ERR(12)\nUserWarning: the key foo is missing\n",),
            "NCCL WARN Got completion with status=IBV_WC_RETRY_EXC_ERR(12)",
            id="link",
        ),
        pytest.param(
            ("ConnectionResetError: [Errno 104] Connection reset by peer\nwarning: no such option\n",),
            "ConnectionResetError: [Errno 104] Connection reset by peer",
            id="only-peer",
        ),
        pytest.param(("",), "", id="nothing"),
    ],
)
def test_the_line_of_the_program_wins(texts: tuple[str, ...], expected: str) -> None:
    assert output.cause(*texts) == expected
