"""
Measure the life of a cluster in Azure against the stand-in for Azure on this machine.

    python tests/benchmark/azure_cluster.py [--machines 100] [--delay 0.1]

Runs the playbooks as a person does: azure_up in check mode, azure_up, azure_up again, azure_scale to many machines,
again, azure_down. For each: seconds, requests to Azure, requests that change something, and what Ansible changed. An
operation takes one second at the stand-in, and C(delay) is the time of one request; real machines take minutes. The
exit status is 1 if a run fails or a budget is not met.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import typing as t
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a plain checkout is no package

from azure_server.client import ROOT, SUBSCRIPTION, Azure  # type: ignore[import-not-found]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example\n"
COLUMNS = ("step", "seconds", "requests", "writes", "changed")
# By step, the most requests that change something, and what Ansible may change.
BUDGETS: dict[str, tuple[int | None, int | None]] = {
    "up, check mode": (0, None),
    "up": (None, None),
    "up again": (0, 0),
    "scale, check mode": (0, None),
    "scale": (1, None),
    "scale again": (0, 0),
    "down": (None, None),
}
REQUESTS_AGAIN = 3  # of a second azure_up, without the sign-in and the wait for the comparison


class Bench:
    """A copy of the example inventory, and the server."""

    def __init__(self, azure: t.Any, folder: Path, machines: int) -> None:
        self.azure = azure
        self.rows: list[dict[str, t.Any]] = []
        self.inventory = folder / "inventory"
        shutil.copytree(ROOT / "inventories" / "azure", self.inventory)
        (azure.folder / ".ssh").mkdir()
        (azure.folder / ".ssh" / "id_ed25519.pub").write_text(KEY, encoding="utf-8")
        file = self.inventory / "group_vars/all/azure.yml"
        text = re.sub(r"subscription_id: \S+", f"subscription_id: {SUBSCRIPTION}", file.read_text(encoding="utf-8"))
        file.write_text(text.replace("max_count: 16", f"max_count: {machines}"), encoding="utf-8")

    def step(self, name: str, playbook: str, *arguments: str, delay: float) -> None:
        """Run a playbook and keep its figures."""
        inventory = self.inventory if playbook == "azure_scale" else self.inventory / "control_node.yml"
        self.azure.setting(delay=delay, quota=False)
        run = self.azure.run(
            "ansible-playbook",
            *("-i", str(inventory), str(ROOT / f"playbooks/{playbook}.yml"), *arguments),
            environment=self.azure.signed_in(),
        )
        if run.rc != 0:
            sys.exit(f"{name} failed:\n{run.out[-3000:]}{run.err[-3000:]}")
        # The wait for a long operation of Azure is not ours to shorten.
        waits = re.compile(r"/oauth2/|/metadata/|/operation(result)?s/", re.IGNORECASE)
        asked = [line for line in self.azure.log() if not waits.search(line)]
        changed = sum(map(int, re.findall(r"changed=(\d+)", run.out)))
        figures = (name, round(run.seconds, 1), len(asked), len(self.azure.writes()), changed)
        self.rows.append(dict(zip(COLUMNS, figures)))
        print("".join(f"{figure!s:>20}" for figure in figures), flush=True)


def missed(rows: list[dict[str, t.Any]]) -> list[str]:
    """Return one line for each budget that was not met."""
    found = []
    for row in rows:
        for column, most in zip(("writes", "changed"), BUDGETS[row["step"]]):
            if most is not None and row[column] > most:
                found.append(f"{row['step']}: {row[column]} {column}, {most} allowed")
        if row["step"] == "up again" and row["requests"] > REQUESTS_AGAIN:
            found.append(f"{row['step']}: {row['requests']} requests, {REQUESTS_AGAIN} allowed")
    return found


def main() -> int:
    """Run all steps and return the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=100)
    parser.add_argument("--delay", type=float, default=0.1)
    given = parser.parse_args()
    words = ("-e", "set=h100", "-e", f"count={given.machines}", "-e", "azure_scale_join=false")
    with tempfile.TemporaryDirectory() as folder:
        azure = Azure(Path(folder))
        azure.control(subscriptions=[{"id": SUBSCRIPTION}], quota=False, seconds=1)
        bench = Bench(azure, Path(folder), given.machines)
        print("".join(f"{column:>20}" for column in COLUMNS))
        bench.step("up, check mode", "azure_up", "--check", delay=given.delay)
        bench.step("up", "azure_up", delay=given.delay)
        bench.step("up again", "azure_up", delay=given.delay)
        bench.step("scale, check mode", "azure_scale", *words, "--check", delay=given.delay)
        bench.step("scale", "azure_scale", *words, delay=given.delay)
        bench.step("scale again", "azure_scale", *words, delay=given.delay)
        bench.step("down", "azure_down", "-e", "azure_down=hpc", delay=given.delay)
        orphans = azure.contents()["resources"]
        azure.close()
    found = missed(bench.rows) + [f"down: {one} is left" for one in orphans]
    print("\n".join(found) or f"2 -> {given.machines} machines by 1 request, 0 orphans")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
