"""Measure the callback progress: the error of its estimate on recorded runs, and the cost of an event.

Usage: make bench, or tests/benchmark/progress.py
It replays the runs of site.yml on the lab that are in tests/unit/fixtures/progress.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
# The collection under its full name, so that the script runs from a checkout.
sys.path.insert(0, str(CHECKOUT / ".collections"))

from ansible.plugins.loader import init_plugin_loader  # noqa: E402

init_plugin_loader([str(CHECKOUT / ".collections")])

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import history  # noqa: E402
from ansible_collections.hpcai.gpucluster.tests.unit.support import progress_replay as replays  # noqa: E402

# docs/progress.md: the error of the estimated end from 30 % of a second run on, and the seconds of an event.
MOST_ERROR = 0.2
MOST_SECONDS = 0.001


def errors() -> dict[str, float]:
    """Return the error of each second run, as a part of its time."""
    shipped = history.read(history.SHIPPED)
    events = replays.stream("third")
    found = {}
    for scale in (0.4, 1.0, 2.5):
        # A slower machine was also slower in its first run.
        first = replays.replay(replays.at_pace(replays.stream("first"), scale, 0.3, 99), [], []).as_run()
        for seed in range(10):
            second = replays.at_pace(events, scale, 0.3, seed)
            found[f"second run, {scale} of the recorded seconds, noise {seed}"] = replays.replay(
                second, [first], shipped
            ).error(0.3)
    return found


def errors_at_another_speed() -> dict[str, list[float]]:
    """Return the errors of second runs that are faster or slower than the first one was, or become so in the middle."""
    shipped = history.read(history.SHIPPED)
    events = replays.stream("third")
    first = replays.replay(replays.at_pace(replays.stream("first"), 1.0, 0.3, 99), [], []).as_run()
    known = [replays.replay(replays.stream(name), [], []).as_run() for name in ("second", "first")]
    seeds = range(200)
    found = {
        f"second run, {scale} of the seconds of the first one": [
            replays.replay(replays.at_pace(events, scale, 0.3, seed), [first], shipped).error(0.3) for seed in seeds
        ]
        for scale in (0.5, 1.0, 2.0)
    }
    for before, later in ((0.5, 1.0), (1.0, 2.0), (1.0, 0.5), (2.0, 1.0)):
        runs = [replays.replay(replays.at_pace(events, before, 0.3, seed, later), known, shipped) for seed in seeds]
        name = f"second half at {later} instead of {before} of the recorded seconds"
        found[f"{name}, from 30 % on"] = [run.error(0.3) for run in runs]
        change = before / (before + later)
        for part in (0.15, 0.25):
            found[f"{name}, {part:.0%} of the run after the change"] = [run.error(change + part) for run in runs]
    return found


def seconds_of_an_event(hosts: int) -> float:
    """Return the seconds of an event, with a full file of earlier runs and the line once for each task."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "site.json"
        for name in ("first", "second", "third", "check") * 2:
            history.add(path, replays.replay(replays.stream(name), [], []).as_run())
        return replays.seconds_of_an_event(hosts, history.read(path), time.perf_counter)


def main() -> int:
    """Measure, print and judge."""
    failed = False
    for name, error in errors().items():
        failed |= error > MOST_ERROR
        print(f"{name}: error {error:.0%} (budget {MOST_ERROR:.0%})")
    for name, several in errors_at_another_speed().items():
        over, middle = sum(error > MOST_ERROR for error in several), sorted(several)[len(several) // 2]
        print(f"{name}: error {middle:.0%}, at most {max(several):.0%}, {over} of {len(several)} over {MOST_ERROR:.0%}")
    for hosts in (1, 100, 10_000):
        seconds = seconds_of_an_event(hosts)
        failed |= seconds > MOST_SECONDS
        print(f"{hosts} hosts: {seconds * 1e6:.1f} us an event (budget {MOST_SECONDS * 1e6:.0f} us)")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
