"""
Faults over a real connection: every host, or an error or warning that names what is missing, and always an end.

What needs no connection is in tests/unit/plugins/plugin_utils/_azure/test_fetch.py.
"""

from __future__ import annotations

import typing as t

import pytest
from patience import HANGS, PATIENCE  # type: ignore[import-not-found]

SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
SECRET = "sEcReT-of-the-application"
FLEET = {"id": SUBSCRIPTION, "vms": 6, "uniform": [["hpc", 5]], "flexible": [["flex", 3]]}
Azure = t.Any  # azure_server.client.Azure, which a plain checkout imports by another name


def run(azure: Azure, *faults: dict[str, t.Any], spec: dict[str, t.Any] | None = None, **options: t.Any) -> t.Any:
    azure.control(subscriptions=[FLEET], faults=list(faults), **(spec or {}))
    quick = {"include_vmss_resource_groups": ["*"], "retries": 0, "timeout": PATIENCE, **options}
    found = azure.inventory(azure.options(**quick))
    assert SECRET not in found.out + found.err
    assert "token-" not in found.out + found.err
    return found, " ".join(found.err.split())


@pytest.mark.parametrize(
    "fault",
    [
        {"reset": True},
        {"text": "<html>gateway</html>"},
        {"status": 307, "headers": {"Location": "https://127.0.0.1:1/"}},
        {"trickle": 0.3},
        {"silence": HANGS},
        {"status": 429, "headers": {"Retry-After": "1200"}},
    ],
    ids="-".join,
)
def test_whatever_resource_graph_does_the_lists_have_every_machine(azure: Azure, fault: dict[str, t.Any]) -> None:
    for limit in (1, 10, 30):  # a slow machine needs more time for the lists
        found, text = run(azure, {"match": "^POST .*ResourceGraph", **fault}, timeout=limit, deadline=5 * limit)
        if found.rc == 0:
            break

    assert found.rc == 0, text
    assert len(found.hosts) == 14
    assert "the lists of Resource Manager are read instead" in text
    assert found.seconds < PATIENCE


@pytest.mark.parametrize(
    "fault",
    [
        {"trickle": 0.3},
        {"status": 429, "headers": {"Retry-After": "1200"}},
        {"reset": True},
        {"text": '{"value": [], "nextLink": "{here}/subscriptions/11111111-0000-0000-0000-000000000000/x?page=1"}'},
    ],
    ids="-".join,
)
def test_one_list_of_interfaces_that_fails_is_named(azure: Azure, fault: dict[str, t.Any]) -> None:
    strict = "status" in fault
    for limit in (3, 30, 100):  # a slow machine needs more time for the other lists
        found, text = run(
            azure,
            {"match": "ScaleSets/hpc/networkInterfaces|/x[?]page", **fault},
            source="arm",
            deadline=limit,
            strict=strict,
        )
        if "network interfaces of scale set hpc" in text:
            break

    assert "network interfaces of scale set hpc" in text
    assert (found.rc != 0) is strict
    assert strict or len(found.hosts) == 14
    assert found.seconds < PATIENCE


@pytest.mark.parametrize(
    ("match", "fault", "slow"),
    [
        ("oauth2", {"trickle": 0.3}, "the sign-in at https://127.0.0.1"),
        ("^GET /metadata", {"trickle": 0.3}, "/metadata/endpoints"),
        ("virtualMachineScaleSets[?]", {"trickle": 0.3}, "virtualMachineScaleSets"),
    ],
)
def test_nothing_hangs_and_what_was_slow_is_named(azure: Azure, match: str, fault: dict[str, t.Any], slow: str) -> None:
    for limit in (1, 10, 30):  # a slow machine needs more time for what comes before
        found, text = run(azure, {"match": match, **fault}, source="arm", timeout=limit, deadline=2 * limit)
        if slow in text:
            break

    assert found.rc != 0
    assert slow in text
    assert found.seconds < PATIENCE


def test_a_silent_sign_in_takes_no_longer_than_timeout_and_retries_say(azure: Azure) -> None:
    found, text = run(azure, {"match": "oauth2", "silence": HANGS}, timeout=1, retries=1)

    assert found.rc != 0
    assert "signing in to Azure failed" in text or "the sign-in" in text
    assert found.seconds < PATIENCE


@pytest.mark.parametrize("status", [400, 401, 502])
def test_a_token_that_a_proxy_echoes_is_in_no_text(azure: Azure, status: int) -> None:
    found, text = run(azure, {"match": "ResourceGraph|virtualMachines[?]", "status": status, "echo": True})

    assert found.rc != 0
    assert "Proxy" in text
    assert "(hidden)" in text  # that no token is there, run() looks for every time


def test_a_secret_that_a_broken_sign_in_echoes_is_in_no_text(azure: Azure) -> None:
    body = {"error": "invalid_request", "error_description": f"AADSTS900144: client_secret={SECRET} and {SECRET}"}

    found, text = run(azure, {"match": "oauth2", "status": 400, "body": body})

    assert found.rc != 0
    assert "AADSTS900144: client_secret=(hidden)" in text


def test_a_set_that_nobody_can_read_and_new_machines_are_named(azure: Azure) -> None:
    gone = {"match": "ScaleSets/hpc/virtualMachines", "status": 404}

    lenient, text = run(
        azure, gone, spec={"stale": 2, "unknown": 4}, filters={"locations": ["southcentralus", "westeurope"]}
    )
    strict, error = run(azure, gone, spec={"stale": 2}, strict=True)

    assert lenient.rc == 0
    assert len(lenient.hosts) == 12
    assert "instances of scale set hpc" in text
    assert "4 machines are not in Resource Graph yet" in text
    assert strict.rc != 0
    assert "instances of scale set hpc" in error


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"include_vmss_resource_group": ["*"]}, "did you mean 'include_vmss_resource_groups'"),
        ({"include_vm_resource_groups": ["hcp-rg"]}, "no resource group fits 'hcp-rg'; did you mean 'hpc-rg'"),
        ({"include_host_filters": ["tagz.env == 'prod'"]}, "the filter \"tagz.env == 'prod'\" failed"),
        ({"slurm_cluster": "trainng"}, "there are: training"),
    ],
)
def test_a_file_that_would_list_nothing_is_an_error(azure: Azure, options: dict[str, t.Any], text: str) -> None:
    found, said = run(azure, **options)

    assert found.rc != 0
    assert text in said


def test_power_states_that_cannot_be_read_drop_nobody(azure: Azure) -> None:
    found, text = run(azure, {"match": "statusOnly", "status": 403}, source="arm", filters={"powerstates": ["running"]})

    assert len(found.hosts) == 14
    assert "9 machines lack facts (powerstate)" in text


def test_the_quota_of_five_seconds_is_kept_and_not_needed(azure: Azure) -> None:
    azure.control(
        subscriptions=[{**FLEET, "vms": 1200, "uniform": [["hpc", 50]], "flexible": [["flex", 50]]}], quota=True
    )

    found = azure.inventory(azure.options(include_vmss_resource_groups=["*"]), "-v")

    assert len(found.hosts) == 1300
    assert len([line for line in azure.log() if "ResourceGraph" in line]) <= 4
    assert "WARNING" not in found.err
