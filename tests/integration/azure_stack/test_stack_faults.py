# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Faults over real connections: none is silent, none leaves anything after the removal.

One run plays all of them, each in a resource group of its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from patience import PATIENCE, wait_until  # type: ignore[import-not-found]

Cluster = t.Any  # of conftest.py, which pytest imports by another name

# The faults that a run survives, and those that end it, with what it says.
SURVIVED = (
    "throttled",
    "server_errors",
    "gateway_timeout_after_acceptance",
    "reset_after_acceptance",
    "slow_answers",
    "silent_poll",
    "malformed_json",
    "html_for_ever",
    "half_an_answer",
    "expired_token",
    "lost_poll",
    "lost_result",
    "another_deployment",
    "delete_fails",
)
NAMED = {
    "throttled_for_long": r"answered 429 and asks to wait 4000 s",
    "revoked_token": r"ExpiredAuthenticationToken.*sign in again",
    "no_rights": r"AuthorizationFailed.*does not have authorization.*assign the identity a role",
    "no_rights_to_poll": r"AuthorizationFailed.*assign the identity a role",
    "quota": r"nothing was changed.*quota standardNDSH100v5Family in southcentralus is too small: 192 more vCPUs",
    "sku_not_available": r"nothing was changed.*SkuNotAvailable.*choose another VM size",
    "policy": r"nothing was changed.*RequestDisallowedByPolicy",
    "allocation_failed": r"AllocationFailed.*no free machines.*Run again to continue",
    "overconstrained": r"OverconstrainedAllocationRequest.*no place fits",
    "half_then_failed": r"InternalServerError.*Run again to continue",
    "group_deleted": r"ResourceGroupNotFound.*somebody deleted the resource group",
    "principal_not_found": r"PrincipalNotFound.*run again in a minute",
}


class Run(t.NamedTuple):
    """What a playbook over all faults found, by the fault."""

    up: dict[str, dict[str, t.Any]]
    again: dict[str, dict[str, t.Any]]
    down: dict[str, dict[str, t.Any]]
    left: list[str]
    text: str


@pytest.fixture(scope="module")
def played(azure: t.Any) -> Run:
    """Play all faults: up with faults, up without, down with the faults of removal."""
    from azure_server.client import SUBSCRIPTION  # type: ignore[import-not-found]
    from azure_server.example import TEMPLATE  # type: ignore[import-not-found]

    names = [*SURVIVED, *NAMED]
    azure.control(subscriptions=[{"id": SUBSCRIPTION}], quota=False)
    found, text = [], ""
    for state, wanted in (("present", names), ("present", []), ("absent", list(SURVIVED))):
        azure.faults(*[{"name": name, "for": _group(name)} for name in wanted])
        result, said = _play(azure, names, TEMPLATE, state)
        found.append(result)
        text += said
    contents = azure.contents()
    return Run(found[0], found[1], found[2], [*contents["groups"], *contents["resources"]], text)


def _group(name: str) -> str:
    return f"rg-{name.replace('_', '-')}-x"


def _play(azure: t.Any, names: list[str], template: t.Any, state: str) -> tuple[dict[str, t.Any], str]:
    options = {
        "name": "training",
        "cluster": "training",
        "resource_group": "{{ item.group }}",
        "location": "southcentralus",
        "state": state,
        "retries": 3,
        "request_timeout": 2,
        "timeout": PATIENCE,
        **({"template": "{{ item.template }}"} if state == "present" else {}),
    }
    clusters = [
        {"group": _group(name), "template": json.loads(json.dumps(template).replace("training-rg", _group(name)))}
        for name in names
    ]
    control = {"label": "{{ item.group }}"}
    run, found = azure.module("hpcai.gpucluster.azure_stack", options, loop=clusters, loop_control=control)
    assert run.rc == 0, run.out + run.err
    return dict(zip(names, found["results"])), run.out + run.err


@pytest.mark.parametrize("fault", SURVIVED)
def test_a_fault_that_passes_is_survived(played: Run, fault: str) -> None:
    assert not played.up[fault].get("failed"), played.up[fault].get("msg")
    assert played.up[fault]["changed"]
    assert not played.again[fault]["changed"], played.again[fault]["changes"]


@pytest.mark.parametrize("fault", NAMED)
def test_a_fault_that_stays_is_named_and_the_next_run_continues(played: Run, fault: str) -> None:
    assert played.up[fault].get("failed")
    assert re.search(NAMED[fault], " ".join(played.up[fault]["msg"].split())), played.up[fault]["msg"]
    assert not played.again[fault].get("failed"), played.again[fault].get("msg")


def test_no_fault_leaves_anything_after_the_removal(played: Run) -> None:
    assert {name: row.get("msg") for name, row in played.down.items() if row.get("failed")} == {}
    assert played.left == []


def test_no_secret_is_in_any_output(played: Run) -> None:
    from azure_server.client import SECRET

    assert SECRET not in played.text
    assert not re.search(r"token-[0-9a-f]{8}", played.text)


def test_a_removal_without_rights_is_named_and_completed_later(cluster: Cluster) -> None:
    cluster.run()
    cluster.azure.faults("no_rights_to_delete")

    refused = cluster.absent()
    cluster.azure.faults()
    gone = cluster.absent()

    assert re.search(r"the removal of the stack training is not complete: AuthorizationFailed", refused.message)
    assert gone.module["changed"]
    assert cluster.contents() == []


def test_a_killed_run_goes_on_at_azure_and_the_next_one_waits_for_it(cluster: Cluster) -> None:
    cluster.start(seconds=0.4)
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(cluster.playbook())]
    environment = {**os.environ, **cluster.environment()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_until(
            "a stack is written",
            lambda: any(one.startswith("PUT") and "deploymentStacks" in one for one in cluster.azure.log()),
            cluster.azure.log,
        )
        process.send_signal(signal.SIGKILL)
    written = len(cluster.azure.writes())
    assert not any("h100" in one for one in cluster.contents())

    found = cluster.run()

    assert not found.module["failed"], found.message
    assert not found.module["changed"]
    assert len(cluster.azure.writes()) == written
    cluster.absent()
    assert cluster.contents() == []


def test_two_runs_at_once_make_one_cluster(cluster: Cluster) -> None:
    cluster.start(seconds=0.2)
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(cluster.playbook())]
    environment = {**os.environ, **cluster.environment()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as other:
        found = cluster.run()
        assert other.wait(timeout=PATIENCE) == 0

    assert not found.module["failed"], found.message
    assert not cluster.run().module["changed"]
    cluster.absent()
    assert cluster.contents() == []
