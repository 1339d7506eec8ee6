# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who signs in, and the end of a run that hangs."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import SlowError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import session
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, within

LIMITS = {"timeout": 1, "request_timeout": 1, "retries": 0}


def test_an_option_comes_before_the_environment() -> None:
    environ = {"AZURE_TENANT_ID": "of-environment", "AZURE_CLIENT_SECRET": "s", "AZURE_CLIENT_ID": "c"}

    found = session.identity({"tenant": "of-option", "client_id": "", "secret": None}, environ)

    assert (found.tenant, found.client_id, found.secret, found.verify) == ("of-option", "c", "s", True)
    assert found.signs_as_application()


@pytest.mark.parametrize(
    ("given", "expected"), [("true", False), (True, False), ("no", True), (False, True), ("", True)]
)
def test_the_discovery_of_the_cloud_can_be_turned_off(given: t.Any, expected: bool) -> None:
    secret = {"tenant": "t", "client_id": "c", "secret": "s"}

    by_option = session.identity({**secret, "disable_instance_discovery": given}, {})
    by_environment = session.identity(secret, {"AZURE_DISABLE_INSTANCE_DISCOVERY": str(given)})

    assert by_option.instance_discovery is by_environment.instance_discovery is expected


@pytest.mark.parametrize("given", ["", "my subscription"])
def test_a_subscription_is_an_id(given: str, tmp_path: t.Any) -> None:
    who = {"tenant": "t", "client_id": "c", "secret": "s", "subscription_id": given}

    with pytest.raises(settings.ConfigError, match="subscription_id must be the ID of a subscription"):
        session.run({**LIMITS, **who}, lambda _session: None, environ={"AZURE_CONFIG_DIR": str(tmp_path)})


def test_a_run_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_GRACE", 0.1)
    monkeypatch.setattr(session, "_signed_in", lambda *_given: time.sleep(HANGS))

    with within("the run"), pytest.raises(SlowError, match="timeout is 1 s"):
        session.run(LIMITS, lambda _session: None, environ={})


def test_a_secret_in_an_error_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(arguments: t.Any, *others: t.Any) -> None:
        redact = others[4]
        redact.add("s3cret-word")
        raise settings.AzureInventoryError("wrong s3cret-word")

    monkeypatch.setattr(session, "_signed_in", fail)

    with pytest.raises(settings.AzureInventoryError, match=r"wrong \(hidden\)"):
        session.run(LIMITS, lambda _session: None, environ={})
