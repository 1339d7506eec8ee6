"""
Measure azure_stack against a stand-in for Azure on this machine.

    python tests/benchmark/azure_stack.py [--milliseconds 100] [--output stack.json]

A cluster of seven resources in a new resource group: in check mode, created, run again, changed, and removed. The
stand-in needs no time for an operation, so the figures are the requests and the time of the collection, not of Azure.
C(task) is the time of the module, C(seconds) that of ansible-playbook. The exit status is 1 if a budget is not met.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a plain checkout is no package

from azure_server.client import SUBSCRIPTION, Azure  # type: ignore[import-not-found]
from azure_server.example import TEMPLATE  # type: ignore[import-not-found]

Row = dict[str, t.Any]

COLUMNS = ["requests", "writes", "task", "seconds", "changes"]
# By run: the most requests and writes, and whether it may change anything.
BUDGETS: dict[str, tuple[int, int, bool]] = {
    "check mode, new": (3, 0, True),
    "create": (8, 2, True),
    "run again": (3, 0, False),
    "change": (9, 1, True),
    "remove": (8, 2, True),
    "remove again": (2, 0, False),
}


def shortfalls(row: Row) -> list[str]:
    """Return the budgets that a row does not meet."""
    requests, writes, changes = BUDGETS[row["run"]]
    found = [
        f"{name} {row[name]} > {most}"
        for name, most in (("requests", requests), ("writes", writes))
        if row[name] > most
    ]
    return [*found, *([] if changes is bool(row["changes"]) else [f"{row['changes']} changes"])]


class Bench:
    """The runs, in their order."""

    def __init__(self, azure: t.Any) -> None:
        """Use a server."""
        self.rows: list[Row] = []
        self._azure = azure
        self._template = copy.deepcopy(TEMPLATE)

    def all(self) -> None:
        """Do every run and print its row."""
        self._run("check mode, new", "--check")
        self._run("create")
        self._run("run again")
        self._template["resources"][0]["tags"] = {**self._template["resources"][0]["tags"], "note": "new"}
        self._run("change")
        self._run("remove", state="absent")
        self._run("remove again", state="absent")
        left = self._azure.contents()
        if left["groups"] or left["resources"]:
            raise SystemExit(f"the removal left {left}")

    def _run(self, name: str, *arguments: str, state: str = "present") -> None:
        options = {"name": "training", "cluster": "training", "resource_group": "training-rg", "state": state}
        if state == "present":
            options |= {"location": "southcentralus", "template": self._template}
        before = len(self._azure.writes())
        run, found = self._azure.module("hpcai.gpucluster.azure_stack", options, *arguments)
        if run.rc or found.get("failed"):
            raise SystemExit(f"{name}: {found.get('msg') or run.out + run.err}")
        writes = len(self._azure.writes()) - before
        row = {"run": name, "requests": found["requests"], "writes": writes, "task": found["seconds"]}
        row |= {"seconds": round(run.seconds, 1), "changes": len(found["changes"])}
        self.rows.append(row)
        print(f"{name:<20}" + "".join(f"{row[column]:>10}" for column in COLUMNS), flush=True)


def main() -> int:
    """Print a table and return the exit status."""
    parser = argparse.ArgumentParser(description="Measure azure_stack against its budgets.")
    parser.add_argument("--milliseconds", type=int, default=100, help="of each request")
    parser.add_argument("--output", type=Path, help="write all figures as JSON")
    given = parser.parse_args()
    print(" " * 20 + "".join(f"{name:>10}" for name in COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as directory:
        azure = Azure(Path(directory))
        try:
            azure.control(subscriptions=[{"id": SUBSCRIPTION}], quota=False, delay=given.milliseconds / 1000)
            bench = Bench(azure)
            bench.all()
        finally:
            azure.close()
    failed = [f"{row['run']}: {text}" for row in bench.rows for text in shortfalls(row)]
    if given.output:
        given.output.write_text(json.dumps({"rows": bench.rows, "failed": failed}, indent=1) + "\n", encoding="utf-8")
    print("\n".join(failed) or "all budgets met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
