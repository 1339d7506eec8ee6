# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Select the credential for requests to Azure: options, environment, a file, the CLI or a managed identity."""

from __future__ import annotations

import configparser
import dataclasses
import json
import os
import shutil
import threading
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError, ConfigError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Cloud

_CHASSIS = Path("/sys/class/dmi/id/chassis_asset_tag")
_AZURE_CHASSIS = "7783-7084-3265-9085-8269-3286-77"  # the value in the firmware of every Azure machine


@dataclasses.dataclass(frozen=True)
class Identity:
    """The inputs of a sign-in; repr and str never show a secret."""

    source: str = "auto"
    tenant: str = ""
    client_id: str = ""
    secret: str = dataclasses.field(default="", repr=False)
    certificate: str = ""
    oidc_token: str = dataclasses.field(default="", repr=False)
    oidc_token_file: str = ""
    profile: str = ""
    subscription_id: str = ""
    adfs_authority_url: str = ""
    instance_discovery: bool = True
    verify: bool = True

    def fingerprint(self) -> tuple[str, ...]:
        """Return a string without secrets that distinguishes callers."""
        return (self.source, self.tenant, self.client_id, self.profile)

    def signs_as_application(self) -> bool:
        """Return whether the inputs are sufficient to sign in as a service principal or a workload identity."""
        proof = self.secret or self.certificate or self.oidc_token or self.oidc_token_file
        return bool(self.client_id and self.tenant and proof)


def complete(identity: Identity, environ: Mapping[str, str]) -> Identity:
    """Return the identity with the additions of a credential file or of the files of the CLI: profile, subscription."""
    if identity.source in ("auto", "credential_file") and not identity.signs_as_application():
        found = _profile(identity, environ)
        if found:
            identity = dataclasses.replace(identity, **found)
    if not identity.subscription_id and identity.source in ("auto", "cli") and not identity.signs_as_application():
        identity = dataclasses.replace(identity, subscription_id=cli_subscription(environ))
    return identity


def cli_subscription(environ: Mapping[str, str]) -> str:
    """Return the id of the default subscription of the CLI, or an empty string."""
    directory = Path(environ.get("AZURE_CONFIG_DIR") or "~/.azure").expanduser()
    try:
        profile = json.loads((directory / "azureProfile.json").read_text(encoding="utf-8-sig"))
        subscriptions = profile["subscriptions"]
        return next((str(entry["id"]) for entry in subscriptions if entry.get("isDefault")), "")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""


def _profile(identity: Identity, environ: Mapping[str, str]) -> dict[str, t.Any]:
    name = identity.profile or "default"
    parser = configparser.RawConfigParser()
    path = Path(environ.get("AZURE_CREDENTIAL_FILE") or "~/.azure/credentials").expanduser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # The message of the parser quotes the line, which may contain the secret.
        raise ConfigError(
            f"{path} is not a readable credentials file: sections in brackets, then key = value"
        ) from None
    if not parser.has_section(name):
        if identity.source == "credential_file" or identity.profile:
            raise ConfigError(f"{path} has no section [{name}]; write it or set profile to one that is there")
        return {}
    keys = {"client_id": "client_id", "secret": "secret", "tenant": "tenant", "subscription_id": "subscription_id"}
    keys["x509_certificate_path"] = "certificate"
    found = {field: parser.get(name, key, fallback="") for key, field in keys.items()}
    return {field: value for field, value in found.items() if value and not getattr(identity, field)}


class Credential:
    """A token for all threads: requested once, kept until shortly before it expires, renewed on demand."""

    def __init__(self, make: Callable[[], t.Any], tell: Callable[[str], None] | None = None) -> None:
        """Make a credential of azure-identity when it is needed; tell receives every token, to redact it in errors."""
        self._make = make
        self._tell = tell
        self._real: t.Any = None
        self._token: t.Any = None
        self._lock = threading.Lock()

    def get_token(self, *scopes: str, **kwargs: t.Any) -> t.Any:
        """Return an access token in the form of azure-core."""
        with self._lock:
            if kwargs.get("claims") or self._token is None or self._token.expires_on - time.time() < 120:
                self._real = self._real or self._make()
                self._token = self._real.get_token(*scopes, **kwargs)
                if self._tell:
                    self._tell(str(self._token.token))
            return self._token

    def renew(self, rejected: t.Any) -> None:
        """Discard a token that Azure refused, and the cache of azure-identity."""
        with self._lock:
            if self._token is rejected or rejected is None:
                self._token = self._real = None


class Patience(t.NamedTuple):
    """The timeout of an answer in seconds, and the number of retries."""

    timeout: int = 60
    retries: int = 8

    def options(self) -> dict[str, int]:
        """Return these values as options of the pipelines of azure-core."""
        kinds = ("total", "connect", "read", "status")
        waits = {"connection_timeout": self.timeout, "read_timeout": self.timeout}
        return {**waits, **{f"retry_{kind}": self.retries for kind in kinds}}


def make_credential(identity: Identity, cloud: Cloud, patience: Patience | None = None) -> t.Any:
    """Return the credential of azure-identity that the identity selects."""
    try:
        import azure.identity as library
    except ImportError as exc:
        raise AzureInventoryError(
            "the Python package azure-identity is missing on this machine; install it: pip install azure-identity"
        ) from exc
    patience = patience or Patience()
    common: dict[str, t.Any] = {
        **patience.options(),
        "authority": identity.adfs_authority_url or cloud.authority,
        "connection_verify": identity.verify,
        "disable_instance_discovery": not identity.instance_discovery,
    }
    if identity.source in ("auto", "env", "credential_file"):
        if identity.signs_as_application():
            return _application(library, identity, common)
        if identity.source != "auto":
            raise ConfigError(
                f"auth_source {identity.source} needs tenant, client_id and one of secret, x509_certificate_path, "
                f"oidc_token, oidc_token_file_path; missing: {_missing(identity)}"
            )
    if identity.source == "cli":
        return _cli(library, identity, patience)
    if identity.source == "msi":
        return _machine(library, identity, patience)
    return _chain(library, identity, patience)


def _application(library: t.Any, identity: Identity, common: dict[str, t.Any]) -> t.Any:
    who = {"tenant_id": identity.tenant, "client_id": identity.client_id, **common}
    if identity.secret:
        return library.ClientSecretCredential(client_secret=identity.secret, **who)
    if identity.certificate:
        try:
            return library.CertificateCredential(certificate_path=identity.certificate, **who)
        except (OSError, ValueError) as exc:
            text = f"x509_certificate_path {identity.certificate} must be a PEM file with a private key"
            raise ConfigError(f"{text}: {type(exc).__name__}") from None
    if identity.oidc_token:
        return library.ClientAssertionCredential(func=lambda: identity.oidc_token, **who)
    return library.WorkloadIdentityCredential(token_file_path=identity.oidc_token_file, **who)


def _cli(library: t.Any, identity: Identity, patience: Patience) -> t.Any:
    return library.AzureCliCredential(tenant_id=identity.tenant, process_timeout=patience.timeout)


def _machine(library: t.Any, identity: Identity, patience: Patience) -> t.Any:
    # azure-identity sets the timeout of the metadata service of a machine, within the limit of the user.
    limits = {"read_timeout": patience.timeout, **({"retry_total": patience.retries} if patience.retries < 5 else {})}
    return library.ManagedIdentityCredential(
        **limits, **({"client_id": identity.client_id} if identity.client_id else {})
    )


def _chain(library: t.Any, identity: Identity, patience: Patience) -> t.Any:
    sources = [_cli(library, identity, patience)] if shutil.which("az") else []
    if on_azure(os.environ):
        sources.append(_machine(library, identity, patience))
    if not sources:
        raise ConfigError(
            "no way to sign in: tenant, client_id and secret are not set (nor AZURE_TENANT_ID, AZURE_CLIENT_ID, "
            "AZURE_CLIENT_SECRET), ~/.azure/credentials has no section for this, the az command is not installed, "
            "and this machine has no managed identity"
        )
    return library.ChainedTokenCredential(*sources)


def on_azure(environ: Mapping[str, str]) -> bool:
    """Return whether a managed identity is possible, without a network timeout on other machines."""
    if environ.get("IDENTITY_ENDPOINT") or environ.get("MSI_ENDPOINT"):
        return True
    try:
        return _CHASSIS.read_text(encoding="ascii").strip() == _AZURE_CHASSIS
    except (OSError, ValueError):
        return False


def _missing(identity: Identity) -> str:
    proof = identity.secret or identity.certificate or identity.oidc_token or identity.oidc_token_file
    have = {"tenant": identity.tenant, "client_id": identity.client_id, "a secret or certificate or token": proof}
    return ", ".join(name for name, value in have.items() if not value)
