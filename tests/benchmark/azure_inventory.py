"""
List the same machines with this plugin and with azure.azcollection.azure_rm, against a stand-in on this machine.

    python tests/benchmark/azure_inventory.py [--machines 6000] [--milliseconds 100] [--repeat 3]

The fleet is mixed: 16 uniform and 4 flexible scale sets of 50, the rest machines of their own. Each row is the best of
the repetitions of C(ansible-inventory --list) with two keyed groups: seconds, processor seconds and requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a plain checkout is no package

from azure_server.client import SUBSCRIPTION, Azure  # type: ignore[import-not-found]

KEYED = [{"key": "tags.owner | default('none')", "prefix": "owner"}, {"key": "vmss.name", "prefix": "set"}]
SETS = {"uniform": [[f"u{n}", 50] for n in range(16)], "flexible": [[f"f{n}", 50] for n in range(4)]}


def measured(azure: t.Any, options: dict[str, t.Any], delay: int, expected: int) -> tuple[float, float, int]:
    """Return seconds, processor seconds and requests of one run."""
    azure.setting(delay=delay / 1000)
    file = azure.folder / "azure_rm.yml"
    file.write_text(json.dumps(options), encoding="utf-8")
    run = azure.inventory(file)
    found = len(run.listed["_meta"]["hostvars"]) if run.rc == 0 else 0
    if found != expected:
        raise RuntimeError(f"{found} of {expected} machines (status {run.rc}): {run.err[:300]}")
    return round(run.seconds, 2), round(run.cpu, 2), len(azure.log())


def main() -> None:
    """Print a row for each plugin."""
    parser = argparse.ArgumentParser(description="Measure the Azure inventory beside azure_rm.")
    parser.add_argument("--machines", type=int, default=6000)
    parser.add_argument("--milliseconds", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        azure = Azure(Path(folder))
        try:
            azure.control(subscriptions=[{"id": SUBSCRIPTION, "vms": given.machines - 1000, **SETS}])
            ours = azure.options(keyed_groups=KEYED, include_vmss_resource_groups=["*"])
            for plugin in ("hpcai.gpucluster.azure_vms", "azure.azcollection.azure_rm"):
                options = {**ours, "plugin": plugin}
                try:
                    rows = [
                        measured(azure, options, given.milliseconds, given.machines) for _run in range(given.repeat)
                    ]
                except RuntimeError as exc:  # the packages of azure_rm may be missing
                    print(f"{plugin:30} {exc}")
                    continue
                print(f"{plugin:30} seconds {min(rows)[0]}, cpu {min(one[1] for one in rows)}, requests {rows[0][2]}")
        finally:
            azure.close()


if __name__ == "__main__":
    main()
