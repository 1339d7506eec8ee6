# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Options that select the credential for requests to Azure, and the Azure cloud."""

from __future__ import annotations


class ModuleDocFragment:
    """Options with the names of azure_rm."""

    DOCUMENTATION = r"""
options:
  auth_source:
    description:
      - Source of the credential.
      - V(auto) uses the first available one, in this order. O(client_id) with O(tenant) and a secret, certificate or
        token, from the file or the environment; the Azure CLI if it is installed; the managed identity of this machine.
    type: str
    choices: [auto, env, cli, msi]
    default: auto
    env:
      - name: ANSIBLE_AZURE_AUTH_SOURCE
  tenant:
    description: Tenant of the application, as a name or an ID. May be a template.
    type: str
    default: ''
    env:
      - name: AZURE_TENANT
      - name: AZURE_TENANT_ID
  client_id:
    description: ID of the application, or of a user-assigned managed identity. May be a template.
    type: str
    default: ''
    env:
      - name: AZURE_CLIENT_ID
  secret:
    description: Secret of the application. May be a template; keep it in Ansible Vault or in the environment.
    type: str
    default: ''
    env:
      - name: AZURE_SECRET
      - name: AZURE_CLIENT_SECRET
  x509_certificate_path:
    description: PEM file with the application's certificate and private key, instead of O(secret).
    type: path
    env:
      - name: AZURE_X509_CERTIFICATE_PATH
      - name: AZURE_CLIENT_CERTIFICATE_PATH
  oidc_token:
    description: Federated token of the application, instead of O(secret).
    type: str
    default: ''
    env:
      - name: AZURE_FEDERATED_TOKEN
  oidc_token_file_path:
    description: File with a federated token (workload identity). It is read again for each request of a token.
    type: path
    env:
      - name: AZURE_FEDERATED_TOKEN_FILE
  cloud_environment:
    description: V(AzureCloud), V(AzureUSGovernment), V(AzureChinaCloud), or the https URL of a Resource Manager.
    type: str
    default: AzureCloud
    env:
      - name: AZURE_CLOUD_ENVIRONMENT
  adfs_authority_url:
    description:
      - Sign-in URL instead of the cloud's own. Required if O(cloud_environment) is the URL of another cloud.
    type: str
    default: ''
    env:
      - name: AZURE_ADFS_AUTHORITY_URL
  disable_instance_discovery:
    description: Do not validate the sign-in URL with the public cloud. Use it for clouds that cannot reach it.
    type: bool
    default: false
    env:
      - name: AZURE_DISABLE_INSTANCE_DISCOVERY
"""
