# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Run the tests that the command line names.

The last screen says what passed, what failed, what did not run, and what was flaky.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import failure_summary
import parts
import proofs
from lanes import Lanes, Machine, Part, Result

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = parts.ROOT
LOGS = ROOT / ".cache/test"
USAGE = """Usage: .ci/run [test | all | PART...]
  (nothing)  what CI runs: test, then what {proved} does not have for these files, the shortest first, as time allows
  test       gates, unit tests, integration tests, and a cluster from nothing
  all        test, and everything else that {proved} does not have for these files
  PART...    these parts, proved or not: {names}"""
LINT = ("style", "types", "lint", "sanity", "package")
# A part that was never timed, and how much longer one takes beside other work.
UNKNOWN_SECONDS = 600
SLOWER = 1.5


Digest = t.Callable[[str], str]


class Plan(t.NamedTuple):
    """What always runs, what runs afterwards if it fits, and what has passed with these files before."""

    test: list[Part]
    rest: list[Part]
    proved: list[str]


def plan(
    words: list[str], test: list[Part], rest: list[Part], known: Mapping[str, proofs.Proof], digest: Digest
) -> Plan:
    """Plan what the command line names. Raises KeyError with a name that is none."""
    if words and words != ["all"]:
        named = {part.name: [part] for part in [*test, *rest]}
        named |= {"test": test, "lint": [part for part in test if part.name in LINT]}
        return Plan([*{part.name: part for word in words for part in named[word]}.values()], [], [])
    proved = [part.name for part in rest if part.name in known and known[part.name].digest == digest(part.applies)]
    left = sorted((part for part in rest if part.name not in proved), key=lambda part: expected(part, known))
    # Two lanes end together if the longest begin first; CI proves the most with the shortest.
    return Plan(test, left[::-1] if words else left, proved)


def expected(part: Part, known: Mapping[str, proofs.Proof]) -> float:
    """Return the seconds that a part takes beside another one."""
    return SLOWER * known[part.name].seconds if part.name in known else UNKNOWN_SECONDS


def summary(results: Sequence[Result], not_run: Sequence[str], logs: Path, seconds: int) -> Iterator[str]:
    """Yield what fits on one screen."""
    failed = [result for result in results if result.failed]
    for result in failed:
        log = logs / f"{result.name}.log"
        yield f"\n== {result.name} failed; its output is in {log}"
        yield from failure_summary.summary([log.read_text(encoding="utf-8", errors="replace")])
    passed = ", ".join(f"{result.name} {result.seconds}" for result in results if not result.failed)
    yield f"\n== {seconds} s. Passed, each with its seconds: {passed or 'nothing'}"
    yield from (f"not run: {reason}" for reason in not_run)
    yield from (f"flaky: {result.name}: {result.flaky}" for result in results if result.flaky)
    yield f"{len(results) - len(failed)} passed, {len(failed)} failed"


def main(words: list[str]) -> int:
    """Run the parts that the words name; return 0 if all of them passed."""
    # Without a terminal, what hangs must end while its task can still be named. A person sees it and interrupts it.
    machine = Machine(None if sys.stdin.isatty() else float(os.environ.get("GPUCLUSTER_TEST_SECONDS", "5000")))
    budget = float(os.environ.get("GPUCLUSTER_CI_SECONDS", "3600")) if not words else float("inf")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="gpucluster-test-") as name:
        folder = Path(name)
        stage = folder / "ansible_collections/hpcai/gpucluster"
        test, rest, missing = every_part(stage, folder)
        tree, known = proofs.Tree(ROOT, proofs.tracked(ROOT)), proofs.read(ROOT)
        try:
            planned = plan(words, test, rest, known, tree.digest)
        except KeyError as exc:
            names = " ".join(part.name for part in [*test, *rest])
            print(f"{exc} is no part of the tests.\n{USAGE.format(proved=proofs.PROVED, names=names)}", file=sys.stderr)
            return 2
        _prepare(stage)
        lanes = Lanes(machine, LOGS, _say, tree.digest, _note)

        def fits(part: Part) -> bool:
            # A red run stays red, so CI ends then.
            red = not words and any(result.failed for result in lanes.results)
            return not red and machine.seconds() + expected(part, known) <= budget

        lanes.run(planned.test, lambda _part: True)
        left = lanes.run(planned.rest, fits)
    not_run = [f"{name} (stopped)" for name in lanes.stopped]
    not_run += [f"{name} ({_last(known.get(name))})" for name in left] + missing * bool(planned.rest or planned.proved)
    not_run += [f"{', '.join(planned.proved)} (passed with these files: {proofs.PROVED})"] * bool(planned.proved)
    not_run += failure_summary.not_run(path.read_text("utf-8", "replace") for path in sorted(LOGS.glob("*.log")))
    print("\n".join(summary(lanes.results, not_run, LOGS, machine.seconds())))
    return 1 if lanes.stopped or any(result.failed for result in lanes.results) else 0


def every_part(stage: Path, folder: Path) -> tuple[list[Part], list[Part], list[str]]:
    """Return what every run has, what else there is, and what cannot run on this machine."""
    machines = {part.name: part for part in parts.scenarios(ROOT, folder)}
    # The cluster from nothing takes the longest, so it begins first.
    test = [machines.pop(parts.MAIN), *parts.gates(stage)]
    machines.pop("cores")
    missing = []
    if not os.environ.get("GPUCLUSTER_MIRROR"):
        machines.pop("upstream")
        missing.append("upstream (no mirror)")
    cores = parts.cores(stage, folder)
    if not cores:
        missing.append(f"ansible-core {', '.join(parts.CORES)} (no Python {parts.PYTHONS[-1]} or newer)")
    return test, [*machines.values(), *cores], missing


def _prepare(stage: Path) -> None:
    """Empty the logs, and copy the collection."""
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, stage / name, follow_symlinks=False)
    # ansible-test makes its own environments and would download pip from elsewhere than PyPI.
    cache = Path.home() / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in ("24_2", "25_2"):
        shutil.copy2(ROOT / ".ci/get_pip.py", cache / f"get_pip_{version}.py")


def _note(part: Part, seconds: int, digest: str) -> None:
    proofs.write(ROOT, part.name, digest, seconds)


def _last(proof: proofs.Proof | None) -> str:
    return f"no time; it passed on {proof.date} with other files" if proof else "no time; it never passed"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
