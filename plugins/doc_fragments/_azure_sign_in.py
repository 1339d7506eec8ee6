# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Options that say who asks Azure, and which Azure."""

from __future__ import annotations


class ModuleDocFragment:
    """The names are those of azure_rm."""

    DOCUMENTATION = r"""
options:
  auth_source:
    description:
      - Where the sign-in comes from.
      - V(auto) takes O(client_id) with O(tenant) and a secret, certificate or token, from the file or the environment;
        else the section O(profile) of C(~/.azure/credentials); else the Azure CLI if it is installed; else the managed
        identity if this machine is in Azure.
    type: str
    choices: [auto, env, credential_file, cli, msi]
    default: auto
    env:
      - name: ANSIBLE_AZURE_AUTH_SOURCE
  tenant:
    description: Tenant of the application, a name or an id. May be a template.
    type: str
    default: ''
    env:
      - name: AZURE_TENANT
      - name: AZURE_TENANT_ID
  client_id:
    description: Id of the application, or of a user-assigned managed identity. May be a template.
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
    description: PEM file with the application's certificate and private key, in place of O(secret).
    type: path
    env:
      - name: AZURE_X509_CERTIFICATE_PATH
      - name: AZURE_CLIENT_CERTIFICATE_PATH
  thumbprint:
    description: Accepted for azure_rm's files; it is computed from O(x509_certificate_path).
    type: str
    env:
      - name: AZURE_THUMBPRINT
  oidc_token:
    description: A federated token of the application, in place of O(secret).
    type: str
    default: ''
    env:
      - name: AZURE_FEDERATED_TOKEN
  oidc_token_file_path:
    description: File with a federated token (workload identity), read again whenever a token is needed.
    type: path
    env:
      - name: AZURE_FEDERATED_TOKEN_FILE
  profile:
    description: Section of C(~/.azure/credentials); C([default]) if this is not set.
    type: str
    default: ''
    env:
      - name: AZURE_PROFILE
  cloud_environment:
    description: V(AzureCloud), V(AzureUSGovernment), V(AzureChinaCloud), or the https URL of a Resource Manager.
    type: str
    default: AzureCloud
    env:
      - name: AZURE_CLOUD_ENVIRONMENT
  adfs_authority_url:
    description: Sign-in address in place of the cloud's own.
    type: str
    default: ''
    env:
      - name: AZURE_ADFS_AUTHORITY_URL
  cert_validation_mode:
    description: V(ignore) accepts any certificate and warns. For a private authority set E(REQUESTS_CA_BUNDLE) instead.
    type: str
    choices: [validate, ignore]
    default: validate
    env:
      - name: AZURE_CERT_VALIDATION
  disable_instance_discovery:
    description: Do not ask the public cloud whether the sign-in address is genuine; for clouds that cannot reach it.
    type: bool
    default: false
    env:
      - name: AZURE_DISABLE_INSTANCE_DISCOVERY
  ad_user:
    description: Refused. Users sign in with C(az login) and O(auth_source=cli).
    type: str
  password:
    description: Refused, see O(ad_user).
    type: str
"""
