# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server for the whole session, and playbooks with azure_stack against it."""

from __future__ import annotations

import copy
import json
import re
import sys
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a plain checkout is no package

from azure_server.client import SECRET, SUBSCRIPTION, Azure, task_play  # type: ignore[import-not-found]
from azure_server.example import TEMPLATE  # type: ignore[import-not-found]
from patience import PATIENCE  # type: ignore[import-not-found]

MODULE = "hpcai.gpucluster.azure_stack"


class Result(t.NamedTuple):
    """One run: the result of the module, what was printed, and the exit status."""

    rc: int
    module: dict[str, t.Any]
    text: str

    @property
    def message(self) -> str:
        return " ".join(str(self.module.get("msg")).split())

    def named(self) -> list[tuple[str, str]]:
        """Return the changes as kind and name."""
        return [(one["change"], one["name"]) for one in self.module["changes"]]


class Cluster:
    """A cluster at the server."""

    def __init__(self, azure: t.Any, folder: Path) -> None:
        self.azure = azure
        self.folder = folder
        self.template = copy.deepcopy(TEMPLATE)
        self.options: dict[str, t.Any] = {
            "name": "training",
            "cluster": "training",
            "resource_group": "training-rg",
            "location": "southcentralus",
            "tags": {"owner": "research"},
            "retries": 2,
            "request_timeout": 60,
            "timeout": PATIENCE,
        }

    def start(self, *faults: t.Any, **spec: t.Any) -> None:
        """Begin with an empty subscription."""
        self.azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=list(faults), quota=False, **spec)

    def resource(self, kind: str) -> dict[str, t.Any]:
        """Return the resource of the template whose type ends so."""
        return next(one for one in self.template["resources"] if one["type"].endswith(kind))

    def playbook(self, **options: t.Any) -> Path:
        """Write a playbook with one task."""
        given = self._given(**options)
        path = self.folder / "stack.yml"
        path.write_text(json.dumps(task_play(MODULE, given, self.folder / "result")), encoding="utf-8")
        return path

    def _given(self, **options: t.Any) -> dict[str, t.Any]:
        given = {**self.options, "template": self.template, **options}
        if given.get("state") == "absent":
            given.pop("template")
        return given

    def run(self, *arguments: str, **options: t.Any) -> Result:
        """Run the task, and look for secrets in all that it printed."""
        done, found = self.azure.module(MODULE, self._given(**options), *arguments)
        text = done.out + done.err
        assert SECRET not in text
        assert not re.search(r"token-[0-9a-f]{8}", text)
        assert "I2Nsb3Vk" not in text.replace(json.dumps(self.template), "")
        return Result(done.rc, found, text)

    def absent(self, *arguments: str, **options: t.Any) -> Result:
        return self.run(*arguments, state="absent", **options)

    def environment(self) -> dict[str, str]:
        """Return the environment for a run of this test's own."""
        return {**self.azure.environment(), **self.azure.signed_in()}

    def contents(self) -> list[str]:
        """Return what the subscription holds: groups, then types and names."""
        found = self.azure.contents()
        names = [one.rpartition("/providers/")[2] for one in found["resources"]]
        return [*found["groups"], *names]


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[t.Any]:
    """Return a running server."""
    server = Azure(tmp_path_factory.mktemp("azure"))
    yield server
    server.close()


@pytest.fixture
def cluster(azure: t.Any, tmp_path: Path) -> Cluster:
    """Return a cluster that is not there yet."""
    made = Cluster(azure, tmp_path)
    made.start()
    return made
