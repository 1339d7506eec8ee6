"""Who asks."""

from __future__ import annotations

import json
import typing as t

import pytest
from azure.identity._internal import aad_client, msal_client

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import auth
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import CLOUDS, ConfigError

if t.TYPE_CHECKING:
    from pathlib import Path

CHINA = CLOUDS["azurechinacloud"]
APPLICATION: dict[str, t.Any] = {"tenant": "22222222-0000-0000-0000-000000000000", "client_id": "c"}


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ({"secret": "s", **APPLICATION}, "ClientSecretCredential"),
        ({"oidc_token": "s", **APPLICATION}, "ClientAssertionCredential"),
        ({"oidc_token_file": "/tmp/x", **APPLICATION}, "WorkloadIdentityCredential"),
        ({"source": "env", "secret": "s", **APPLICATION}, "ClientSecretCredential"),
        ({"source": "cli", "secret": "s", **APPLICATION}, "AzureCliCredential"),
        ({"source": "msi"}, "ManagedIdentityCredential"),
        ({"source": "msi", "client_id": "c"}, "ManagedIdentityCredential"),
    ],
)
def test_inputs_choose_the_credential(inputs: dict[str, t.Any], kind: str) -> None:
    assert type(auth.make_credential(auth.Identity(**inputs), CHINA)).__name__ == kind


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "app.pem"
    if content:
        file.write_text(content)

    with pytest.raises(ConfigError, match="must be a PEM file with a private key"):
        auth.make_credential(auth.Identity(certificate=str(file), **APPLICATION), CHINA)


@pytest.mark.parametrize("source", ["env", "credential_file"])
def test_what_is_missing_is_named(source: str) -> None:
    with pytest.raises(ConfigError, match="missing: tenant, a secret or certificate or token"):
        auth.make_credential(auth.Identity(source=source, client_id="c"), CHINA)


@pytest.mark.parametrize("proof", ["secret", "certificate", "oidc_token", "oidc_token_file"])
def test_what_is_there_is_not_called_missing(proof: str) -> None:
    given: dict[str, t.Any] = {proof: "x"}

    with pytest.raises(ConfigError, match=r"missing: tenant$"):
        auth.make_credential(auth.Identity(source="env", client_id="c", **given), CHINA)


def test_no_secret_in_any_text() -> None:
    identity = auth.Identity(secret="hidden", oidc_token="hidden", **APPLICATION)

    assert "hidden" not in repr(identity) + str(identity) + json.dumps(identity.fingerprint())


def test_a_section_of_the_credentials_file_fills_what_is_not_set(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\nsecret=d\n[hpc]\nclient_id=c\nsecret=p%s\ntenant=t\nsubscription_id=sub\n")
    environ = {"AZURE_CREDENTIAL_FILE": str(file), "AZURE_CONFIG_DIR": str(tmp_path)}

    found = auth.complete(auth.Identity(profile="hpc", tenant="mine"), environ)

    assert (found.client_id, found.secret, found.tenant, found.subscription_id) == ("c", "p%s", "mine", "sub")
    with pytest.raises(ConfigError, match=r"has no section \[other\]"):
        auth.complete(auth.Identity(profile="other"), environ)


def test_a_broken_credentials_file_is_named_without_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("secret=hidden")

    with pytest.raises(ConfigError) as caught:
        auth.complete(auth.Identity(), {"AZURE_CREDENTIAL_FILE": str(file)})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"subscriptions": [{"id": "a"}, {"id": "b", "isDefault": true}]}', "b"),
        ('{"subscriptions": [{"id": "a"}]}', ""),
        ('{"subscriptions": null}', ""),
        ("[]", ""),
        ("{", ""),
    ],
)
def test_the_default_subscription_of_the_cli(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "azureProfile.json").write_text(text, encoding="utf-8-sig")

    assert auth.cli_subscription({"AZURE_CONFIG_DIR": str(tmp_path)}) == expected


class Token(t.NamedTuple):
    token: str
    expires_on: float


class Real:
    """A credential that counts."""

    asked: t.ClassVar[list[int]] = []

    def get_token(self, *scopes: str, **kwargs: t.Any) -> Token:
        self.asked.append(1)
        return Token(f"t{len(self.asked)}", 9e12)


def test_one_token_for_all_and_a_new_one_when_it_was_refused() -> None:
    Real.asked.clear()
    credential = auth.Credential(Real)

    first = credential.get_token("scope")
    assert credential.get_token("scope") is first
    assert credential.get_token("scope", claims="{}") is not first
    credential.renew(None)
    assert credential.get_token("scope").token == "t3"


@pytest.mark.parametrize(
    "inputs",
    [{"secret": "s", **APPLICATION}, {"oidc_token": "s", **APPLICATION}, {"oidc_token_file": "/tmp/x", **APPLICATION}],
)
def test_the_sign_in_waits_as_long_as_the_requests(inputs: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[dict[str, t.Any]] = []
    for module in (msal_client, aad_client):
        monkeypatch.setattr(module, "build_pipeline", lambda **kwargs: built.append(kwargs))

    auth.make_credential(auth.Identity(**inputs), CHINA, auth.Patience(5, 1))

    assert built
    for options in built:
        assert options["connection_timeout"] == options["read_timeout"] == 5
        assert options["retry_total"] == options["retry_connect"] == options["retry_read"] == 1


def test_the_cli_gets_the_time_of_an_answer() -> None:
    assert auth.make_credential(auth.Identity(source="cli"), CHINA, auth.Patience(7, 1))._process_timeout == 7


def test_every_token_is_told_to_whoever_hides_it() -> None:
    told: list[str] = []
    Real.asked.clear()
    credential = auth.Credential(Real, told.append)

    credential.get_token("scope")
    credential.renew(None)
    credential.get_token("scope")

    assert told == ["t1", "t2"]


def test_a_managed_identity_is_looked_for_only_where_one_can_be() -> None:
    assert auth.on_azure({"IDENTITY_ENDPOINT": "http://127.0.0.1"})
