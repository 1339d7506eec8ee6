"""
Measure C(ansible-inventory --list) of the Azure inventory against a stand-in for Azure on this machine.

    python tests/benchmark/azure_inventory.py [--repeat 3] [--output azure.json]

For each number of machines and each time per request: seconds, requests, peak memory and the time that the process
computed. Resource Graph's quota of 15 queries in 5 seconds is part of the stand-in, as in Azure. On a machine that is
busy with something else, C(alone) is the seconds less those that the process was ready and got no processor (Linux
counts them); on an idle machine both are the same. Budgets are for C(alone), and the best of the repetitions counts.
The exit status is 1 if a budget is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a plain checkout is no package

from azure_server.client import SUBSCRIPTION, Azure  # type: ignore[import-not-found]

Row = dict[str, t.Any]

# At 100 ms per request: seconds, MB and requests that are allowed; seconds of the fetch alone.
BUDGETS = {5000: (7.0, 250, 30), 10000: (15.0, 450, 30)}
FETCH_BUDGET = {5000: 3.0}
KEYED = [{"key": "tags.owner", "prefix": "owner"}, {"key": "azure_vm_size", "prefix": "size"}]


def measure(azure: t.Any, machines: int, milliseconds: int, uniform: bool, repeat: int) -> Row:
    """Return the best of some runs, and one run with a cache."""
    kind: Row = {"uniform": [[f"hpc{number}", machines // 4] for number in range(4)]} if uniform else {"vms": machines}
    azure.control(subscriptions=[{"id": SUBSCRIPTION, **kind}], delay=0, quota=False)
    options = azure.options(keyed_groups=KEYED, include_vmss_resource_groups=["*"])
    _checked(azure.inventory(options), machines)  # the stand-in prepares its pages
    runs = []
    for _number in range(repeat):
        azure.setting(delay=milliseconds / 1000, quota=True)
        run = azure.inventory(options, "-v")
        _checked(run, machines)
        seconds = float(run.out.split(" requests, ")[1].split(" s")[0]) if " requests, " in run.out else 0.0
        runs.append(_row(run, seconds, azure))
    best = min(runs, key=lambda row: float(row["alone"]))
    best["fetch"] = min(row["fetch"] for row in runs)
    return {
        "machines": machines,
        "ms": milliseconds,
        "kind": "instances" if uniform else "machines",
        **best,
        "runs": runs,
    }


def cached(azure: t.Any, machines: int) -> Row:
    """Return a run that finds everything in the cache."""
    folder = azure.folder / f"cache{machines}"
    options = azure.options(
        keyed_groups=KEYED, cache=True, cache_plugin="ansible.builtin.jsonfile", cache_connection=str(folder)
    )
    azure.control(subscriptions=[{"id": SUBSCRIPTION, "vms": machines}], delay=0.1)
    _checked(azure.inventory(options), machines)
    azure.setting(delay=0.1)
    run = azure.inventory(options)
    _checked(run, machines)
    row = _row(run, 0.0, azure)
    return {"machines": machines, "ms": 100, "kind": "cached", **row, "runs": [row]}


def _row(run: t.Any, fetch: float, azure: t.Any) -> Row:
    return {
        "seconds": round(run.seconds, 2),
        "alone": round(run.seconds - run.waited, 2),
        "fetch": fetch,
        "cpu": round(run.cpu, 2),
        "mb": round(run.peak_mb),
        "requests": len(azure.log()),
        "load": round(os.getloadavg()[0], 1),
    }


def _checked(run: t.Any, machines: int) -> None:
    if run.rc or len(run.listed["_meta"]["hostvars"]) != machines or "WARNING" in run.err:
        raise SystemExit(f"the run is not complete (status {run.rc}):\n{run.err[-2000:]}")


def shortfalls(row: Row) -> list[str]:
    """Return the budgets that a row does not meet."""
    found = []
    if row["kind"] == "cached":
        return ["a cached run asked Azure"] if row["requests"] else []
    if row["ms"] == 100 and row["machines"] in BUDGETS:
        limits = dict(zip(("alone", "mb", "requests"), BUDGETS[row["machines"]]))
        limits["fetch"] = FETCH_BUDGET.get(row["machines"], limits["alone"])
        found = [f"{name} {row[name]} > {limit}" for name, limit in limits.items() if row[name] > limit]
    return found


def main() -> int:
    """Print a table and return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the Azure inventory against its budgets.")
    parser.add_argument("--machines", type=int, nargs="+", default=[100, 1000, 5000, 10000])
    parser.add_argument("--milliseconds", type=int, nargs="+", default=[0, 100])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write all figures as JSON")
    given = parser.parse_args()
    rows: list[Row] = []
    columns = ("machines", "ms", "seconds", "alone", "fetch", "cpu", "MB", "requests", "load")
    print(" " * 10 + "".join(f"{name:>9}" for name in columns), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        azure = Azure(Path(folder))
        try:
            for machines in given.machines:
                for milliseconds in given.milliseconds:
                    _print(rows, measure(azure, machines, milliseconds, False, given.repeat))
                if machines >= 1000:
                    _print(rows, measure(azure, machines, 100, True, given.repeat))
                    _print(rows, cached(azure, machines))
        finally:
            azure.close()
    failed = [f"{row['kind']} {row['machines']} at {row['ms']} ms: {text}" for row in rows for text in shortfalls(row)]
    result = {"rows": rows, "failed": failed, "cpus": os.cpu_count()}
    if given.output:
        given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print("\n".join(failed) or "all budgets met")
    return 1 if failed else 0


def _print(rows: list[Row], row: Row) -> None:
    rows.append(row)
    columns = ("machines", "ms", "seconds", "alone", "fetch", "cpu", "mb", "requests", "load")
    print(f"{row['kind']:10}" + "".join(f"{row[name]:>9}" for name in columns), *shortfalls(row), flush=True)


if __name__ == "__main__":
    sys.exit(main())
