"""
Faults over a real connection: every host, or an error or warning that names what is missing, and always an end.

What needs no connection is in tests/unit/plugins/plugin_utils/_azure/test_lists.py.
"""

from __future__ import annotations

import typing as t

import pytest
from patience import HANGS, PATIENCE  # type: ignore[import-not-found]

SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
SECRET = "sEcReT-of-the-application"
FLEET = {"id": SUBSCRIPTION, "vms": 6, "uniform": [["hpc", 5]], "flexible": [["flex", 3]]}
Azure = t.Any  # azure_server.client.Azure, which a plain checkout imports by another name


def run(azure: Azure, *faults: dict[str, t.Any], **options: t.Any) -> t.Any:
    azure.control(subscriptions=[FLEET], faults=list(faults))
    quick = {"include_vmss_resource_groups": ["*"], "retries": 0, "timeout": PATIENCE, **options}
    found = azure.inventory(azure.options(**quick))
    assert SECRET not in found.out + found.err
    assert "token-" not in found.out + found.err
    return found, " ".join(found.err.split())


@pytest.mark.parametrize(
    ("fault", "options", "text"),
    [
        ({"match": "oauth2", "silence": HANGS}, {"timeout": 5, "deadline": 5}, "the sign-in: not read within"),
        ({"match": "virtualMachines[?]", "trickle": 0.3}, {"deadline": 5}, "not read within the deadline"),
        (
            {"match": "virtualMachines[?]", "status": 429, "headers": {"Retry-After": "1200"}},
            {"deadline": 5, "retries": 3},
            "answered 429 and asks to wait 1200 s",
        ),
        ({"match": "virtualMachines[?]", "reset": True}, {}, "Azure cannot be reached"),
        ({"match": "virtualMachines[?]", "status": 307, "headers": {"Location": "https://127.0.0.1:1/"}}, {}, "307"),
        ({"match": "virtualMachines[?]", "status": 400, "echo": True}, {}, "(hidden)"),
        (
            {"match": "oauth2", "status": 400, "body": {"error": "x", "error_description": f"client_secret={SECRET}"}},
            {},
            "signing in to Azure failed",
        ),
        ({"match": "x^"}, {"include_vmss_resource_group": ["*"]}, "did you mean 'include_vmss_resource_groups'"),
        ({"match": "x^"}, {"slurm_cluster": "trainng"}, "there are: training"),
    ],
)
def test_what_failed_is_named_and_nothing_hangs(
    azure: Azure, fault: dict[str, t.Any], options: dict[str, t.Any], text: str
) -> None:
    found, said = run(azure, fault, **options)

    assert found.rc != 0
    assert text in said
    assert found.seconds < PATIENCE


def test_power_states_that_cannot_be_read_drop_nobody(azure: Azure) -> None:
    found, text = run(azure, {"match": "statusOnly", "status": 403}, filters={"powerstates": ["running"]})

    assert len(found.hosts) == 14
    assert "9 machines lack facts (powerstate)" in text
