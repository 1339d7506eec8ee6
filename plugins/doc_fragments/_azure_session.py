# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This fragment is PRIVATE to the collection. It may change or vanish at any time.
"""Options of modules that read and change resources in Azure: where, and the limits of their requests."""

from __future__ import annotations


class ModuleDocFragment:
    """The options of plugin_utils/_azure_stack/session.py beside those of the sign-in."""

    DOCUMENTATION = r"""
options:
  subscription_id:
    description:
      - ID of the subscription. The default is E(AZURE_SUBSCRIPTION_ID), then that of the profile or of the Azure CLI.
    type: str
  resource_group:
    description: Name of the resource group.
    type: str
    required: true
  timeout:
    description:
      - Time limit of the task in seconds. Azure continues an operation after it, and the next run waits for the rest.
    type: int
    default: 3600
  request_timeout:
    description: Time limit of one request in seconds.
    type: int
    default: 60
  retries:
    description: Number of times that a failed request is sent again. The pauses are those that Azure asks for.
    type: int
    default: 8
requirements:
  - azure-core and azure-identity on the control node
notes:
  - It is an action. All requests come from the control node, without a connection to a managed node.
  - Options that are not set are read from the same environment variables as by
    P(hpcai.gpucluster.azure_vms#inventory), such as E(AZURE_TENANT_ID), E(AZURE_CLIENT_ID) and E(AZURE_CLIENT_SECRET).
    Without these, O(auth_source) is V(auto) and O(cloud_environment) is V(AzureCloud).
"""
