# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the commands of README.md and docs/tour.md on the lab, in their order, and compare what they print with the page.

Usage: tests/tour/run.py [--page docs/tour.md] [--have registry]
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Shell = Callable[[str], tuple[int, str]]

CHECKOUT = Path(__file__).parents[2]
PAGES = (CHECKOUT / "README.md", CHECKOUT / "docs/tour.md")
_BLOCK = re.compile(r"^```console(?: needs=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# These only ask Slurm, so they are asked again until Slurm has come that far.
_ASKS = re.compile(r"\b(sinfo|squeue|scontrol --details show)\b")
# What srun says while it waits, which a quick machine does not show.
_WAITS = re.compile(r"^srun: job \d+ (queued and waiting|has been allocated) .*\n?", re.MULTILINE)
PATIENCE_SECONDS = 600 * int(os.environ.get("GPUCLUSTER_TEST_PATIENCE") or 1)
LONGEST_SECONDS = 2 * PATIENCE_SECONDS
# The lines of a long output that tell why it is another one than the page shows.
_TELLS = re.compile(r"fatal:|ERROR|FAIL|WARN|UNREACHABLE|unhealthy|^ *msg:")
MOST_LINES = 8


class Step(t.NamedTuple):
    """One command of the page."""

    command: str
    expected: str
    needs: str


class Fault(t.NamedTuple):
    """A command that did not do what the page shows."""

    step: Step
    status: int
    printed: str

    def text(self) -> str:
        """Return the whole fault."""
        head = f"$ {self.step.command}\nexit status {self.status}"
        return f"{head}, expected:\n{self.step.expected}\nprinted:\n{self.printed}"

    def cause(self) -> str:
        """Return the fault with those lines of a long output that tell the cause, or else with its last ones."""
        lines = self.printed.splitlines()
        if len(lines) > MOST_LINES:
            lines = ([line for line in lines if _TELLS.search(line)] or lines)[-MOST_LINES:]
        return "\n".join([f"$ {self.step.command}: exit status {self.status}", *lines])


def steps(page: str) -> list[Step]:
    """Return the commands of all console blocks, each with what the page shows below it."""
    found = []
    for needs, block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _newline, expected = part.partition("\n")
            found.append(Step(command, expected, needs))
    return found


def matches(expected: str, printed: str) -> bool:
    """Tell whether a text is the one of the page, in which ... is any text; spaces at line ends do not count."""
    pattern = ".*".join(re.escape(part) for part in _tidy(expected).split("..."))
    return re.fullmatch(pattern, _tidy(_WAITS.sub("", printed)), re.DOTALL) is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if line.strip())


def run(page: str, shell: Shell, have: Sequence[str] = (), sleep: Callable[[float], None] = time.sleep) -> Fault | None:
    """Run the page and return its first fault, or nothing."""
    for step in steps(page):
        if step.needs and step.needs not in have:
            print(f"not run (no {step.needs}): {step.command}", flush=True)
            continue
        began = time.monotonic()
        status, printed = _until_it_fits(step, shell, sleep)
        print(f"{time.monotonic() - began:6.1f} s  {step.command}", flush=True)
        if status or not matches(step.expected, printed):
            return Fault(step, status, printed)
    return None


def _until_it_fits(step: Step, shell: Shell, sleep: Callable[[float], None]) -> tuple[int, str]:
    """Return the exit status and the output of the last try; only what asks Slurm is tried again."""
    tries = PATIENCE_SECONDS // 2 if _ASKS.search(step.command) else 1
    for attempt in range(tries):
        if attempt:
            sleep(2)
        status, printed = shell(step.command)
        if not status and matches(step.expected, printed):
            break
    return status, printed


def bash(command: str) -> tuple[int, str]:
    """Run one command as a user types it in the checkout."""
    done = subprocess.run(
        ["timeout", "--kill-after=5", str(LONGEST_SECONDS), "bash", "-o", "pipefail", "-c", command],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def main() -> int:
    """Run the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, action="append", help="default: README.md and docs/tour.md")
    parser.add_argument(
        "--have", action="append", default=[], help="what the lab has of that which parts of the page need"
    )
    options = parser.parse_args()
    pages = (page.read_text(encoding="utf-8") for page in options.page or PAGES)
    fault = next((fault for page in pages if (fault := run(page, bash, options.have))), None)
    if not fault:
        return 0
    print(fault.text())
    print(fault.cause(), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
