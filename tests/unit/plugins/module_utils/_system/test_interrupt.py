# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import interrupt
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE

if t.TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
    import sys, time
    from pathlib import Path
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import interrupt

    with interrupt.cleaned_up(lambda: Path(sys.argv[1]).write_text("cleaned"), poll=0.05):
        print("ready", flush=True)
        time.sleep(float(sys.argv[2]))  # fault: hangs
"""


@pytest.fixture
def program(tmp_path: Path) -> t.Iterator[tuple[subprocess.Popen[str], Path]]:
    mark = tmp_path / "mark"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(mark), str(HANGS)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process, mark
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_cleans_up(program: tuple[subprocess.Popen[str], Path], number: signal.Signals) -> None:
    process, mark = program
    process.send_signal(number)

    assert process.wait(PATIENCE) == 128 + number
    assert mark.read_text(encoding="utf-8") == "cleaned"


def test_nobody_listening_any_more_cleans_up(program: tuple[subprocess.Popen[str], Path]) -> None:
    process, mark = program
    assert process.stdout is not None
    process.stdout.close()

    assert process.wait(PATIENCE) == 1
    assert mark.read_text(encoding="utf-8") == "cleaned"


def test_a_block_that_ends_well_cleans_up_nothing() -> None:
    calls: list[int] = []
    before = signal.getsignal(signal.SIGTERM)
    with interrupt.cleaned_up(lambda: calls.append(1), poll=0.01):
        time.sleep(0.05)  # absence: the watcher has looked several times

    assert calls == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_lineage_starts_with_this_process_and_its_parent() -> None:
    assert interrupt.lineage()[0] == (os.getpid(), os.getppid())
