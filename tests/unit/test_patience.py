# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No test depends on the speed of the machine: it waits for events, with one deadline that a user can raise."""

from __future__ import annotations

import re
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests import patience

ROOT = Path(__file__).parents[2]
PATHS = sorted(
    path
    for folder in ("molecule", "tests")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".sh", ".yml")
    and path.is_file()
    and not {"fixtures", "benchmark"} & set(path.parts)
    and path not in (Path(__file__), ROOT / "tests/patience.py")
)
# Figures that a slow machine exceeds: pauses, limits, numbers of tries, and comparisons with a clock.
FIGURE = re.compile(
    r"\bsleep [0-9]"
    r"|\btimeout (?:-\S+ )*[0-9]"
    r"|\b(?:retries|timeout): [0-9]"
    r"|\btimeout, \"[0-9]"
    r"|\btime\.sleep\((?!HANGS)"
    r"|(?<![-\w])timeout=[0-9]"
    r"|\b(?:feeding_runner|Machine)\([0-9]"
    r"|TIMEOUT\"\] = \"[0-9]"
    r"|ConnectTimeout=[0-9]"
    r"|\.(?:communicate|join|result|wait)\([0-9]"
    r"|\b(?:monotonic|perf_counter|process_time|time)\(\) - \w+\)? *<"
)
REASON = re.compile(r"# (?:absence|bound|fault|work): \S")
LINES_OF_A_LOOP = 6


def faults(text: str) -> t.Iterator[tuple[int, str]]:
    """Yield the lines whose figure is not the patience and has no reason, with their numbers."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        loop = "\n".join(lines[max(0, number - LINES_OF_A_LOOP) : number + 1]).lower()
        reason = REASON.search("\n".join(lines[max(0, number - 1) : number + 1]))
        if FIGURE.search(line) and not reason and "patience" not in loop:
            yield number + 1, line.strip()


def test_no_wait_ends_because_a_machine_is_slow() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in PATHS
        for number, line in faults(path.read_text(encoding="utf-8"))
    ]

    assert not found, "\n".join(
        [
            *found,
            "Wait for an event, with the deadline of molecule/patience.yml or tests/patience.py (wait_until, within).",
            "If the figure is right, say why on the line or above it: '# absence: what may not happen',",
            "'# bound: the limit of the product', '# fault: what hangs or is slow', '# work: what takes time'.",
        ]
    )


@pytest.mark.parametrize(
    "line",
    [
        "  retries: 30",
        "  timeout: 60",
        "sleep 5",
        "timeout -k 5 60 srun true",
        'argv: [timeout, "60", srun]',
        "time.sleep(0.3)",
        "subprocess.run(command, timeout=30)",
        "Host(feeding_runner(60))",
        "lanes.Machine(1)",
        "ssh -o ConnectTimeout=10 gpu1",
        'environment["ANSIBLE_TASK_TIMEOUT"] = "25"',
        "process.wait(10)",
        "assert time.monotonic() - begin < 8",
        "assert (time.process_time() - began) < 8",
    ],
)
def test_a_figure_needs_a_reason(line: str) -> None:
    assert list(faults(f"one\n{line}\n")) == [(2, line.strip())]
    assert not list(faults(f"{line}  # absence: a second start\n"))
    assert not list(faults(f"# bound: of the module\n{line}\n"))
    assert not list(faults(f'for _ in $(seq "$patience"); do\n{line}\n'))
    assert list(faults(f"{line}  # a moment\n"))


def test_the_deadline_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.2)

    with pytest.raises(AssertionError, match=r"waited 0.2 s for this: a file; there was: \['another'\]"):
        patience.wait_until("a file", lambda: False, lambda: ["another"])
    with pytest.raises(AssertionError, match="the run: took"), patience.within("the run"):
        time.sleep(0.3)  # fault: hangs
    with pytest.raises(AssertionError, match="of processor time"), patience.cheap(0):
        sum(range(100_000))


def test_molecule_reads_the_same_variable() -> None:
    inventory = (ROOT / "molecule/patience.yml").read_text(encoding="utf-8")
    assert "600 * (lookup('ansible.builtin.env', 'GPUCLUSTER_TEST_PATIENCE') | default(1, true) | int)" in inventory
    assert "600 * int(os.environ.get(" in (ROOT / "tests/patience.py").read_text(encoding="utf-8")
    for path in [ROOT / ".config/molecule/config.yml", *ROOT.glob("molecule/*/molecule.yml")]:
        text = path.read_text(encoding="utf-8")
        assert "--inventory=" not in text or "/molecule/patience.yml" in text, f"{path}: add molecule/patience.yml"
