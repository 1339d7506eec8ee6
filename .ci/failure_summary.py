# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Say which steps failed, and why, from the logs of the tests.

Also what the scenarios say that they did not run, such as what needs a mirror.
"""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_LINES = 18
MOST_CAUSES = 7
MOST_LAST = 3
MOST_OF_ONE = 3  # lines of pytest about one failure
WIDTH = 400
_DECORATION = re.compile(r"\x1b\[[0-9;]*m")
_MOLECULE_MARGIN = re.compile(r"^\s*│ ?")
_GATE = re.compile(r"^== (.+) \(\d+ s\)$")
# Molecule writes "munge ➜ verify: " with colours, and "[munge > verify] " without.
_STEP = r"\[?(\S+) (?:➜|>) (\S+?)(?::|\])"
_EXECUTING = re.compile(rf"^INFO\s+{_STEP} Executing$")
_FAILED = re.compile(rf"^ERROR\s+{_STEP} Executed: Failed")
_TASK = re.compile(r"^(?:TASK|RUNNING HANDLER) \[(.+?)(?:\](?: \*+)?)?$")
_FATAL = re.compile(r"^(?:fatal: \[(.+?)\].*?(?:FAILED|UNREACHABLE)!|failed: \[(.+?)\] \(item=.*\) =>)")
_DETAIL = re.compile(r"^    ((?:assertion|msg|stderr|stdout): +(?!''|\"\"|non-zero return code).+)$")
_CONTINUED = re.compile(r"^(?: {2}| {8} *)(\S.*)$")  # wrapped by Molecule or by YAML, or a line of a text block
_NOT_RUN = re.compile(r"^ +msg: +['\"]?not run: (.+?)['\"]?$")
_SKIPPED = re.compile(r"^SKIPPED \[\d+\] (\S+?)(?::\d+)?: (?:not run: (?P<what>.+)|(?P<reason>.+))$")
# ruff, yamllint, mypy and ansible-lint name a file and a line; ansible-test writes ERROR in front of them.
_PLACE = re.compile(r"^[\w./-]+\.\w+:\d+[: ]")
_PYTEST_SAYS = re.compile(r"^E( |$)")
_PYTEST_FRAME = re.compile(r"^\S+:\d+: in \S+$")
_TOOL_SAYS = re.compile(r"^(?:FAILED (?!- RETRYING)|ERROR:? |E  +|.*Idempotence test failed|\* )")


class Step:
    """A step of the tests, with the causes of a failure seen in its output so far."""

    def __init__(self, name: str) -> None:
        """Begin without a cause."""
        self.name = name
        self.causes: list[str] = []
        self._last: list[str] = []
        self._of_one = 0
        self._task = ""
        self._in_detail = False

    def read(self, line: str) -> None:
        """Take one line of the step's output."""
        self._last = [*self._last, line][-MOST_LAST:] if line else self._last
        self._of_one = self._of_one + 1 if _PYTEST_SAYS.match(line) else 0
        if self._in_detail and not line:
            return
        if self._in_detail and (match := _CONTINUED.match(line)):
            self.causes[-1] += f" {match[1]}"
            return
        self._in_detail = bool(self.causes and _DETAIL.match(line))
        if match := _TASK.match(line):
            self._task = match[1]
        elif match := _FATAL.match(line):
            self.causes.append(f"{match[1] or match[2]}: {self._task}")
        elif match := _DETAIL.match(line):
            self.causes += [f"  {match[1]}"] if self.causes else []
        elif line.startswith("...ignoring"):
            self.causes = []
        elif _TOOL_SAYS.match(line) or (_PLACE.match(line) and not self.name.startswith("scenario ")):
            self._keep(line)

    def _keep(self, line: str) -> None:
        """Keep what a tool says: each line once, a few of each failure, and no way through the program."""
        known = any(line.split() == cause.split() for cause in self.causes)
        if not known and self._of_one <= MOST_OF_ONE and not _PYTEST_FRAME.match(line):
            self.causes.append(line)

    def lines(self) -> Iterator[str]:
        """Yield what to print of a failed step."""
        yield f"failed: {self.name}"
        last = [f"task: {self._task}"] * bool(self._task) + self._last
        yield from (f"    {line}" for line in self.causes[:MOST_CAUSES] or last)


def plain(log: str) -> list[str]:
    """Return the lines of a log without colours and margins."""
    return [_plain(line) for line in log.splitlines()]


def not_run(logs: Iterable[str]) -> list[str]:
    """Return what scenarios and pytest say that they did not run."""
    found, scenario = list[str](), ""
    for line in (line for log in logs for line in plain(log)):
        if match := _EXECUTING.match(line):
            scenario = match[1]
        elif match := _NOT_RUN.match(line):
            found.append(f"{match[1]} [scenario {scenario}]")
        elif match := _SKIPPED.match(line):
            found.append(match["what"] or f"{match[1]} ({match['reason']})")
    return list(dict.fromkeys(found))


def executing(line: str) -> str:
    """Return the step of Molecule that a line begins, or nothing."""
    match = _EXECUTING.match(_plain(line))
    return match[2] if match else ""


def failures(log: str) -> list[str]:
    """Return the failed steps of a log; where none is marked as failed, the last step is the one that failed."""
    step, found = Step("before the first step"), list[str]()
    for line in plain(log):
        if match := _EXECUTING.match(line):
            step = Step(f"scenario {match[1]}, step {match[2]}")
        elif match := _GATE.match(line):
            step = Step(match[1])
        elif _FAILED.match(line):
            found += step.lines()
        else:
            step.read(line)
    return found or [*step.lines()]


def summary(logs: Iterable[str]) -> list[str]:
    """Return at most the lines that one screen holds."""
    return [_shortened(line) for log in logs for line in failures(log)][:MOST_LINES]


def _plain(line: str) -> str:
    return _MOLECULE_MARGIN.sub("", _DECORATION.sub("", line)).rstrip()


def _shortened(line: str) -> str:
    """Keep both ends of a line; the last words of an error tell the most."""
    return line if len(line) <= WIDTH else f"{line[: WIDTH // 4]} ... {line[5 - 3 * WIDTH // 4 :]}"
