# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Open Azure for an action: who signs in, to which cloud, with which time limit."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import sign_in
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import azure

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# The environment variables of each option of the inventory azure_vms, in the order in which they are read.
ENVIRONMENT = {
    "auth_source": ("ANSIBLE_AZURE_AUTH_SOURCE",),
    "tenant": ("AZURE_TENANT", "AZURE_TENANT_ID"),
    "client_id": ("AZURE_CLIENT_ID",),
    "secret": ("AZURE_SECRET", "AZURE_CLIENT_SECRET"),
    "x509_certificate_path": ("AZURE_X509_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PATH"),
    "oidc_token": ("AZURE_FEDERATED_TOKEN",),
    "oidc_token_file_path": ("AZURE_FEDERATED_TOKEN_FILE",),
    "cloud_environment": ("AZURE_CLOUD_ENVIRONMENT",),
    "adfs_authority_url": ("AZURE_ADFS_AUTHORITY_URL",),
    "disable_instance_discovery": ("AZURE_DISABLE_INSTANCE_DISCOVERY",),
}
_DEFAULTS = {"auth_source": "auto", "cloud_environment": "AzureCloud"}
SPEC: dict[str, t.Any] = {"timeout": {"type": "int", "default": 7200}}


def options(environ: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the options of the sign-in: the first environment variable of each that is set, then the default."""
    found: dict[str, t.Any] = dict(_DEFAULTS)
    for name, variables in ENVIRONMENT.items():
        value = next((environ[variable] for variable in variables if environ.get(variable)), None)
        found[name] = found.get(name) if value is None else value
    switch = str(found["disable_instance_discovery"]).lower()
    return {**found, "disable_instance_discovery": switch in ("1", "true", "yes", "on")}


def opened(subscription: str, given: Mapping[str, t.Any], timeout: float, tell: Callable[[str], None]) -> azure.Azure:
    """Sign in with the options I(given), and return what asks Azure."""
    try:
        from azure.mgmt.compute import ComputeManagementClient
        from azure.mgmt.resource.deploymentstacks import DeploymentStacksClient
    except ImportError as exc:
        raise sign_in.AzureError(f"{exc}; run pip install -r requirements.txt for the Python of Ansible") from exc
    cloud, credential = sign_in.cloud(given), sign_in.credential(given)
    place: dict[str, t.Any] = {"base_url": cloud.resource_manager, "credential_scopes": [cloud.scope]}
    stacks = DeploymentStacksClient(credential, subscription, **place)
    compute = ComputeManagementClient(credential, subscription, **place)
    what_ifs = stacks.deployment_stacks_what_if_results_at_subscription
    clients = azure.Clients(stacks.deployment_stacks, what_ifs, compute.virtual_machines)
    return azure.Azure(clients, azure.Limits(timeout, tell))


def manager(given: Mapping[str, t.Any]) -> str:
    """Return the address of Resource Manager in the cloud of the options, without a slash at its end."""
    return str(sign_in.cloud(given).resource_manager).rstrip("/")
