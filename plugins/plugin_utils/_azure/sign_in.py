# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Who signs in to which cloud, by the options of the doc fragment _azure_sign_in."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Mapping

_MANAGERS = {
    "azurecloud": ("https://management.azure.com", "https://login.microsoftonline.com"),
    "azureusgovernment": ("https://management.usgovcloudapi.net", "https://login.microsoftonline.us"),
    "azurechinacloud": ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
}


class AzureError(Exception):
    """A request to Azure, or the sign-in, failed; the message says why."""


class Cloud(t.NamedTuple):
    """A cloud of Azure: the address of its Resource Manager, and the scope of a token for it."""

    name: str
    resource_manager: str
    scope: str


def cloud(options: Mapping[str, t.Any]) -> Cloud:
    """Return the cloud of the option cloud_environment: a name, or the address of a Resource Manager."""
    name = str(options["cloud_environment"])
    manager = name.rstrip("/") if name.startswith("https://") else _known(name)[0]
    return Cloud(name, manager, f"{manager}/.default")


def credential(options: Mapping[str, t.Any]) -> t.Any:
    """Return the credential: an application, the Azure CLI, or the managed identity of this machine."""
    try:
        import azure.identity as sdk
    except ImportError as exc:
        raise AzureError(f"{exc}; run pip install -r requirements.txt for the Python of Ansible") from exc
    get = options.get
    tenant, client = get("tenant"), get("client_id")
    authority = get("adfs_authority_url") or _known(str(options["cloud_environment"]))[1]
    more = {"authority": authority, "disable_instance_discovery": bool(get("disable_instance_discovery"))}
    if tenant and client and get("auth_source") in ("auto", "env"):
        if get("secret"):
            return sdk.ClientSecretCredential(tenant, client, str(get("secret")), **more)
        if get("x509_certificate_path"):
            return sdk.CertificateCredential(tenant, client, get("x509_certificate_path"), **more)
        if get("oidc_token") or get("oidc_token_file_path"):
            return sdk.ClientAssertionCredential(tenant, client, lambda: _token(options), **more)
    if get("auth_source") == "cli" or (get("auth_source") == "auto" and shutil.which("az")):
        return sdk.AzureCliCredential(tenant_id=tenant or "")
    if get("auth_source") in ("msi", "auto"):
        return sdk.ManagedIdentityCredential(**({"client_id": client} if client else {}))
    raise AzureError(f"auth_source {get('auth_source')}: no credential; set client_id, tenant and a secret, or use cli")


def _known(name: str) -> tuple[str, str]:
    if name.startswith("https://"):
        return name, _MANAGERS["azurecloud"][1]
    if name.lower() not in _MANAGERS:
        raise AzureError(f"cloud_environment: found {name!r}; allowed: AzureCloud, AzureUSGovernment, AzureChinaCloud")
    return _MANAGERS[name.lower()]


def _token(options: Mapping[str, t.Any]) -> str:
    path = options.get("oidc_token_file_path")
    return Path(path).read_text(encoding="utf-8").strip() if path else str(options["oidc_token"])
