# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Run the tests that the command line names.

The last screen says what passed, what failed, what did not run, and what was flaky.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
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
LINT = ("style", "types", "ansible-lint", "sanity", "package")
# A part that was never timed may be the longest. And how much longer one takes beside other work.
UNKNOWN_SECONDS = 1500
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


def summary(results: Sequence[Result], not_run: Mapping[str, Sequence[str]], logs: Path, seconds: int) -> Iterator[str]:
    """Yield what fits on one screen. C(not_run) has the names for each reason."""
    failed = [result.name for result in results if result.failed]
    for name in failed:
        log = logs / f"{name}.log"
        yield f"\n== {name} failed; its output is in {log}"
        yield from failure_summary.summary([log.read_text("utf-8", "replace") if log.exists() else "There is no log."])
    passed = ", ".join(f"{result.name} {result.seconds}" for result in results if not result.failed)
    yield f"\n== {seconds} s. Passed, each with its seconds: {passed or 'nothing'}"
    yield from (f"not run: {', '.join(names)} ({reason})" for reason, names in not_run.items() if names)
    yield from (f"flaky: {result.name}: {result.flaky}" for result in results if result.flaky)
    yield from [f"failed: {', '.join(failed)}"] * bool(failed)
    yield f"{len(results) - len(failed)} passed, {len(failed)} failed"


def main(words: list[str]) -> int:
    """Run the parts that the words name; return 0 if all of them passed."""
    # Without a terminal, what hangs must end while its task can still be named. A person sees it and interrupts it.
    limit = os.environ.get("GPUCLUSTER_TEST_SECONDS") or ("5000" if words in ([], ["test"]) else "20000")
    machine = Machine(None if sys.stdin.isatty() else float(limit))
    budget = float(os.environ.get("GPUCLUSTER_CI_SECONDS") or 3600) if not words else float("inf")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="gpucluster-test-") as name, _alone():
        folder = Path(name)
        stage = folder / "ansible_collections/hpcai/gpucluster"
        test, rest, missing = every_part(stage, folder)
        known = proofs.read(ROOT)
        # With a mirror, scenarios test more.
        mirror = "+mirror" if os.environ.get("GPUCLUSTER_MIRROR") else ""

        def digest(scenario: str) -> str:
            return proofs.Tree(ROOT, proofs.tracked(ROOT)).digest(scenario) + mirror

        try:
            planned = plan(words, test, rest, known, digest)
        except KeyError as exc:
            names = " ".join(part.name for part in [*test, *rest])
            print(f"{exc} is no part of the tests.\n{USAGE.format(proved=proofs.PROVED, names=names)}", file=sys.stderr)
            return 2
        _prepare(stage, planned)
        copied = digest("*")

        def prove(part: Part, seconds: int, now: str) -> None:
            # Unit tests run on the copy.
            if part.applies != "*" or now == copied:
                proofs.write(ROOT, part.name, now, seconds)

        lanes = Lanes(machine, LOGS, _say, digest, prove)
        lanes.run(planned.test, lambda _part: True)
        red = not words and any(result.failed for result in lanes.results)

        def fits(part: Part) -> bool:
            return not red and machine.seconds() + expected(part, known) <= budget

        left = lanes.run(planned.rest, fits)
    because = "another part failed" if red else "no time"
    not_run = {
        "stopped": lanes.stopped,
        f"{because}; passed before with other files": [name for name in left if name in known],
        f"{because}; never passed": [name for name in left if name not in known],
        **(missing if planned.rest or planned.proved else {}),
        f"passed with these files: {proofs.PROVED}": planned.proved,
        **_said(LOGS),
    }
    print("\n".join(summary(lanes.results, not_run, LOGS, machine.seconds())))
    return 1 if lanes.stopped or any(result.failed for result in lanes.results) else 0


def _said(logs: Path) -> dict[str, list[str]]:
    """Return what the logs say that they did not run, for each reason."""
    found = dict[str, list[str]]()
    for line in failure_summary.not_run(path.read_text("utf-8", "replace") for path in sorted(logs.glob("*.log"))):
        what, _bracket, reason = line.partition(" (")
        found.setdefault(reason.replace(")", "", 1), []).append(what)
    return found


def every_part(stage: Path, folder: Path) -> tuple[list[Part], list[Part], dict[str, list[str]]]:
    """Return what every run has, what else there is, and for each reason what cannot run on this machine."""
    machines = {part.name: part for part in parts.scenarios(ROOT, folder)}
    # The cluster from nothing takes the longest, so it begins first. It runs each time, so nobody asks for its proof.
    test = [machines.pop(parts.MAIN)._replace(applies=""), *parts.gates(stage)]
    machines.pop("cores")
    missing = dict[str, list[str]]()
    if not os.environ.get("GPUCLUSTER_MIRROR"):
        machines.pop("upstream")
        missing["no mirror"] = ["upstream", "parts of login, health and bundle"]
    cores = parts.cores(stage, folder)
    if not cores:
        missing[f"no Python {parts.PYTHONS[-1]} or newer"] = [f"core-{release}" for release in parts.CORES]
    return test, [*machines.values(), parts.pylint(stage), *cores], missing


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Refuse a second run in this checkout: its logs and proofs are the same."""
    LOGS.parent.mkdir(parents=True, exist_ok=True)
    with (LOGS.parent / "test.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit("Other tests run in this checkout. Use another clone, with GPUCLUSTER_LAB=110.")
        yield


def _prepare(stage: Path, planned: Plan) -> None:
    """Empty the logs, and copy the collection."""
    if os.geteuid() != 0 and any(part.repeat for part in planned.test):
        sys.exit("Scenarios need root: podman gives the host a way to containers only then.")
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    for name in proofs.tracked(ROOT):
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, stage / name, follow_symlinks=False)
    # ansible-test makes its own environments and would download pip from elsewhere than PyPI.
    cache = Path.home() / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in ("24_2", "25_2"):
        shutil.copy2(ROOT / ".ci/get_pip.py", cache / f"get_pip_{version}.py")


def _say(line: str) -> None:
    # The tests go on where nobody reads any more.
    with contextlib.suppress(OSError):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
