# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import signal
import subprocess
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.processes import end, processes_of
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS

if t.TYPE_CHECKING:
    from pathlib import Path


def test_every_of_the_three_ids_counts(tmp_path: Path) -> None:
    for pid, ids in {"10": "0\t2001\t0\t0", "9": "2001\t0\t0\t0", "8": "0\t0\t2001\t0", "7": "0\t0\t0\t2001"}.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "status").write_text(f"Name:\tsleep\nUid:\t{ids}\nGid:\t2001\t0\t0\t0\n")
    (tmp_path / "11").mkdir()  # ended while we looked
    (tmp_path / "sys").mkdir()

    assert processes_of(2001, tmp_path) == [8, 9, 10]


def test_this_process_is_found() -> None:
    assert os.getpid() in processes_of(os.getuid())


def test_a_process_ends_and_one_that_has_ended_is_no_error() -> None:
    process = subprocess.Popen(["sleep", str(HANGS)])

    end(process.pid, signal.SIGKILL)

    assert process.wait() == -signal.SIGKILL
    end(process.pid, signal.SIGKILL)
