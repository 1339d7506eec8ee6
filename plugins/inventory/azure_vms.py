# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventory plugin for virtual machines and scale sets of Azure."""

from __future__ import annotations

DOCUMENTATION = r"""
name: azure_vms
short_description: Virtual machines and scale-set instances of Azure, grouped for a Slurm cluster
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Lists virtual machines, members of flexible scale sets and instances of uniform scale sets.
  - Sends a few queries to Azure Resource Graph, which returns a thousand machines per answer. Reads the lists of Azure
    Resource Manager where Resource Graph cannot be used.
  - Adds the machines to the groups that the playbooks of this collection use, by a tag or by the tags of CycleCloud.
  - Reads a file whose name ends in C(azure_vms.yml), C(azure_vms.yaml), C(azure_rm.yml) or C(azure_rm.yaml). Most
    files of P(azure.azcollection.azure_rm#inventory) work after a change of the line C(plugin:).
  - A machine stays in the inventory if a part of its data could not be read. Its variable C(azure_facts_missing) lists
    the missing data, and a warning gives the reason. O(strict=true) makes that an error.
  - The plugin compares the answer of Resource Graph with the lists of Resource Manager, see O(verify). It reads the
    differences from the lists. A machine that cannot be read causes a warning, or an error with O(strict=true).
  - An inventory that cannot be read at all is an error. Ansible still exits with status 0 unless
    E(ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED) is set, as in the C(ansible.cfg) of this collection.
  - The required role in Azure is Reader on each subscription. Reader on the resource groups is sufficient while
    Resource Graph answers. The lists of Resource Manager cover whole subscriptions.
requirements:
  - azure-core and azure-identity on the control node
  - jmespath for O(query)
extends_documentation_fragment:
  - hpcai.gpucluster._azure_sign_in
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
options:
  plugin:
    description: Identifies the file as a configuration of this plugin.
    type: str
    required: true
    choices: [hpcai.gpucluster.azure_vms]
  subscription_id:
    description:
      - The subscription. May be a template.
      - If neither this nor O(subscriptions) is set, the plugin uses the default subscription of the Azure CLI, or the
        only subscription that the credential can see.
    type: str
    default: ''
    env:
      - name: AZURE_SUBSCRIPTION_ID
  subscriptions:
    description: Several subscriptions by id or name, or V(all). Replaces O(subscription_id).
    type: list
    elements: str
    default: []
  management_groups:
    description: Management groups to read instead of subscriptions. Only Resource Graph supports them.
    type: list
    elements: str
    default: []
  include_vm_resource_groups:
    description:
      - Resource groups of virtual machines and of members of flexible scale sets. V(*) means all, and V(rg-hpc-*) means
        all that match. A name that matches no resource group is an error.
      - E(ANSIBLE_AZURE_VM_RESOURCE_GROUPS), a list separated by commas, replaces this option.
    type: list
    elements: str
    default: ['*']
  include_vmss_resource_groups:
    description:
      - Resource groups of uniform scale sets, which CycleCloud creates. V(*) means all, and V(rg-hpc-*) means all that
        match. An empty list means none, as in azure_rm. A name that matches no resource group is an error.
      - E(ANSIBLE_AZURE_VMSS_RESOURCE_GROUPS), a list separated by commas, replaces this option.
    type: list
    elements: str
    default: []
  filters:
    description:
      - Keeps only machines that match all of these filters. Resource Graph applies the filters that it supports, which
        reduces the size of its answer.
      - The keys C(resource_groups), C(locations), C(vm_sizes), C(scale_sets), C(powerstates) and C(names) accept a
        value or a list of values. Case is ignored. C(resource_groups) may contain C(*) and C(?).
      - C(tags) accepts a mapping from tag to a value, a list of values, or null for any value. As in Azure, the names
        of tags are case-insensitive, and their values are case-sensitive.
      - A machine whose power state could not be read is kept, regardless of C(powerstates).
    type: dict
    default: {}
  graph_where:
    description:
      - A condition on the machines in the query language of Resource Graph, such as V(properties.priority =~ 'Spot').
      - Cannot be used with O(source=arm). It disables the fallback to the lists of Resource Manager.
      - Cannot be used with uniform scale sets in AzureChinaCloud, where Resource Graph does not have their instances.
    type: str
    default: ''
  query:
    description: A JMESPath expression that selects machines from the list of machines. It uses the names of azure_rm.
    type: str
  exclude_host_filters:
    description: Skips a host for which one of these expressions is true.
    type: list
    elements: raw
    default: []
  include_host_filters:
    description: Keeps only hosts for which one of these expressions is true.
    type: list
    elements: raw
    default: [true]
  default_host_filters:
    description:
      - Skips a host for which one of these expressions is true. An empty list also includes machines that are off.
      - A warning names every host that is skipped although it is not off.
    type: list
    elements: raw
    default: ['powerstate != "running"', 'provisioning_state != "succeeded"']
  hostnames:
    description:
      - Expressions for the host name. The first expression that returns a name is used. V(default) is the name and four
        digits of a hash.
      - C(computer_name) is the name that the guest operating system reports (C(guest_computer_name)), or else the name
        in the OS profile (C(os_computer_name)). Nodes of CycleCloud rename themselves, and Slurm knows them by that
        name.
      - If several machines have the same name, the oldest keeps it. The others get V(default), and a warning names
        them.
    type: list
    elements: str
    default: [default]
  plain_host_names:
    description: Equivalent to O(hostnames=[name]).
    type: bool
    default: false
  azure_rm_names:
    description:
      - Computes V(default) from the id in the case that Compute returns, so that every name equals that of azure_rm.
      - This needs the list of power states of each subscription and three lists for each uniform scale set.
    type: bool
    default: false
  hostvars_prefix:
    description:
      - Prefix of all host variables. An empty prefix results in the names of azure_rm.
      - Expressions may use the names with and without the prefix.
    type: str
    default: azure_
  host_variables:
    description:
      - Variables of each host, by name or as one of the sets V(standard) and V(all). Expressions may always use all
        variables.
      - The default is V(standard), or V(all) if O(hostvars_prefix) is empty.
      - To print an inventory, Ansible needs about 15 microseconds and half a kilobyte for each string of each host.
    type: list
    elements: str
  ansible_host_from:
    description:
      - Addresses to use as C(ansible_host), in order of preference. The first one that the machine has is used.
      - V(public), V(private), V(fqdn), or a network such as V(10.1.0.0/16), which matches an address of any interface.
    type: list
    elements: str
    default: [public, private]
  slurm_groups:
    description:
      - Adds hosts to the groups C(slurm_controller), C(slurm_database), C(slurm_build), C(slurm_login),
        C(slurm_compute), C(nfs_server) and C(nfs_client).
      - The tag O(slurm_role_tag) holds one or more of C(controller), C(database), C(build), C(login), C(compute),
        C(nfs_server) and C(nfs_client).
      - Without that tag, the tags of CycleCloud decide. A node of a node array is C(compute). A node whose C(Name)
        begins with the word C(scheduler) or C(login) has that role. C(loginless) does not match C(login).
      - Machines of different clusters with a role are an error, see O(slurm_cluster).
    type: bool
    default: true
  slurm_cluster:
    description:
      - The name of the cluster. The plugin lists only machines whose tag C(CycleCloudCluster), C(ClusterName) or
        C(slurm_cluster) has this value. CycleCloud sets the first two. Case is ignored.
      - A machine with O(slurm_role_tag) and none of those tags also belongs to the cluster.
      - A name that no machine has is an error. The message names the existing clusters.
    type: str
    default: ''
  slurm_role_tag:
    description: The tag that holds the roles.
    type: str
    default: slurm_role
  slurm_controller_roles:
    description:
      - Additional roles of the first controller if no machine has a tag for them.
      - A tagged machine that is off counts, so that its role does not move to the controller.
    type: list
    elements: str
    choices: [database, nfs_server]
    default: []
  vmss_tags:
    description: Give members of a scale set the tags of the set. Their own tags have precedence.
    type: bool
    default: false
  placement_groups:
    description:
      - Read uniform scale sets that span several placement groups from Resource Manager, with three lists per set.
        Resource Graph does not return the placement group of an instance.
      - Their C(azure_slurm_switch) then follows the placement groups.
    type: bool
    default: false
  source:
    description:
      - V(graph) queries Resource Graph, V(arm) reads the lists of Resource Manager, and V(auto) tries V(graph) first
        and V(arm) if that fails.
    type: str
    choices: [auto, graph, arm]
    default: auto
  verify:
    description:
      - The data of Resource Graph may be some seconds old.
      - V(scale_sets) compares the ids of all machines with the lists of Resource Manager, reads the differences from
        there, and removes machines that Resource Manager no longer lists.
      - V(all) also reads every power state from Resource Manager. V(none) compares nothing.
      - The comparison also works with O(filters), O(graph_where) and O(management_groups). A machine that Resource
        Graph does not know yet cannot be tested with O(graph_where) and counts as a gap.
    type: str
    choices: [none, scale_sets, all]
    default: scale_sets
  concurrency:
    description: Number of parallel requests, 1 to 10.
    type: int
    default: 8
  timeout:
    description: Seconds to wait for an answer, including that of the sign-in.
    type: int
    default: 60
  retries:
    description: Number of retries of a request after status 408, 429, 500, 502, 503, 504 or a lost connection.
    type: int
    default: 8
  max_wait:
    description: Maximum total time, in seconds, that one request waits because Azure throttles it.
    type: int
    default: 300
  deadline:
    description:
      - Time limit in seconds for the whole run, including the sign-in and all waiting. After it, the plugin fails with
        an error that names the slow request.
      - With O(source=auto), Resource Graph gets the first half. Optional data, such as a list of public addresses, gets
        85 %, so that the hosts are listed even without it.
    type: int
    default: 300
  api_versions:
    description:
      - API versions that replace the defaults. The keys are C(compute), C(network), C(scale_set_network),
        C(resource_graph), C(resources), C(subscriptions) and C(metadata).
    type: dict
    default: {}
  strict:
    description: Whether a gap in the answers, or an expression that fails, is an error.
  fail_on_template_errors:
    description:
      - Whether an expression that fails is an error.
      - If not set, a failure in O(include_host_filters), O(exclude_host_filters) or O(default_host_filters) is an
        error, as in azure_rm. For other expressions, O(strict) decides.
      - With V(false), a filter that fails counts as false, and a warning gives the number of machines.
    type: bool
  conditional_groups:
    description: Name of O(groups) in azure_rm.
    type: dict
    default: {}
  hostvar_expressions:
    description: Name of O(compose) in azure_rm.
    type: dict
    default: {}
  use_contrib_script_compatible_sanitization:
    description: Keep dashes in group names, as azure_rm does with this option.
    type: bool
    default: false
  include_arc_resource_groups:
    description: Refused unless empty. Arc machines are not listed.
    type: list
    elements: str
    default: []
  include_hcivm_resource_groups:
    description: Refused unless empty. Machines of Azure Local are not listed.
    type: list
    elements: str
    default: []
  batch_fetch:
    description: Accepted for compatibility with azure_rm. Has no effect.
    type: bool
  batch_fetch_interval:
    description: Has no effect.
    type: int
  batch_fetch_timeout:
    description: Has no effect.
    type: int
  api_profile:
    description: Has no effect.
    type: str
  log_mode:
    description: Has no effect.
    type: str
  log_path:
    description: Has no effect.
    type: str
"""

EXAMPLES = r"""
# CycleCloud. The Slurm nodes are instances of scale sets. Their name in Slurm is the computer name.
plugin: hpcai.gpucluster.azure_vms
subscription_id: 11111111-2222-3333-4444-555555555555
slurm_cluster: training
include_vm_resource_groups: [cyclecloud-rg]
include_vmss_resource_groups: [cyclecloud-rg, 'rg-hpc-*']
vmss_tags: true
hostnames: [computer_name, name, default]
ansible_host_from: [private]
keyed_groups:
  - key: azure_slurm_nodearray | default('none', true)
    prefix: nodearray
  - key: azure_slurm_switch
    prefix: switch
---
# All machines that match a filter, in any cluster.
plugin: hpcai.gpucluster.azure_vms
include_vmss_resource_groups: ['*']
filters:
  locations: [southcentralus]
  tags:
    env: [prod, test]
slurm_groups: false
---
# Virtual machines with a tag slurm_role (controller, login or compute). A public address is preferred.
plugin: hpcai.gpucluster.azure_vms
auth_source: cli
include_vm_resource_groups: [hpc-rg]
hostnames: [name]
ansible_host_from: [public, private]
keyed_groups:
  - key: azure_vm_size
    prefix: size
  - key: azure_location
    prefix: location
groups:
  spot: azure_priority == 'Spot'
compose:
  owner: azure_tags.owner | default('nobody')
---
# Two subscriptions with virtual machines and both kinds of scale sets, on or off, and a cache of ten minutes.
plugin: hpcai.gpucluster.azure_vms
subscriptions: [hpc-production, hpc-test]
include_vmss_resource_groups: ['*']
filters:
  locations: [southcentralus, westeurope]
default_host_filters: []
exclude_host_filters:
  - tags.owner | default('') == 'aks'
query: "[?starts_with(vm_size, 'Standard_ND') || tags.slurm_role]"
ansible_host_from: [10.20.0.0/16, private]
keyed_groups:
  - key: vmss.name
    prefix: vmss
  - key: powerstate
    prefix: power
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gpucluster-azure
cache_timeout: 600
---
# A file of azure_rm. The host variables also have the names of azure_rm.
plugin: hpcai.gpucluster.azure_vms
hostvars_prefix: ''
include_vm_resource_groups: [myrg1]
include_vmss_resource_groups: ['*']
conditional_groups:
  db_hosts: "'dbserver' in name"
hostvar_expressions:
  ansible_host: (public_dns_hostnames + public_ipv4_address) | first
keyed_groups:
  - prefix: tag
    key: tags
exclude_host_filters:
  - location in ['eastus']
"""

import json
import logging
import os
import re
import time
import typing as t
from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names, words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import (
    errors,
    expressions,
    filters,
    hostvars,
    slurm,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import names as azure_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import settings as azure_settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError, ConfigError

if t.TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.auth import Identity
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Record = dict[str, t.Any]

_SUFFIXES = ("azure_vms.yml", "azure_vms.yaml", "azure_rm.yml", "azure_rm.yaml")
_RANGES = {
    "concurrency": (1, 10),
    "timeout": (1, 3600),
    "retries": (0, 100),
    "max_wait": (0, 86400),
    "deadline": (1, 86400),
}
_REFUSED = {
    "include_arc_resource_groups": "list those machines with azure.azcollection.azure_rm",
    "include_hcivm_resource_groups": "list those machines with azure.azcollection.azure_rm",
    "ad_user": "sign in with az login and set auth_source: cli",
    "password": "sign in with az login and set auth_source: cli",
}
_IDLE = (
    "batch_fetch",
    "batch_fetch_interval",
    "batch_fetch_timeout",
    "api_profile",
    "log_mode",
    "log_path",
    "thumbprint",
)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Add hosts from Azure to the inventory."""

    NAME = "hpcai.gpucluster.azure_vms"

    def __init__(self) -> None:
        """Set the initial state, before the options are read."""
        super().__init__()
        self._data: t.Any = None
        self._strict = False
        self._strict_filters = True
        self._failed_filters: dict[str, list[str]] = {}
        self._redact = errors.Redactor()
        self._jinja_only = False
        self._left_to_controller: dict[str, list[str]] = {}
        self._cache_key = ""

    def verify_file(self, path: str) -> bool:
        """Accept only files with a suffix of this plugin."""
        return bool(super().verify_file(path)) and path.endswith(_SUFFIXES)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Fill the inventory."""
        super().parse(inventory, loader, path, cache)
        self._data = inventory
        self._failed_filters.clear()
        given = self._read_config_data(path)
        try:
            self._check_options(given or {})
            self._populate(self._records(path, cache))
        except AzureInventoryError as exc:
            raise AnsibleParserError(self._redact(f"{self.NAME}: {exc}")) from None

    def _warn(self, text: str) -> None:
        self.display.warning(self._redact(f"{self.NAME}: {text}"))

    # Options

    def _check_options(self, given: Record) -> None:
        azure_settings.check_keys(given, self.option_definitions)
        for name, instead in _REFUSED.items():
            if self.get_option(name):
                raise ConfigError(f"{name} is not supported; {instead}")
        for name, (least, most) in _RANGES.items():
            if not least <= self.get_option(name) <= most:
                raise ConfigError(f"{name} is {self.get_option(name)}; allowed: {least} to {most}")
        if self.get_option("graph_where") and self.get_option("source") == "arm":
            raise ConfigError("graph_where needs Resource Graph; set source to graph")
        idle = [name for name in _IDLE if self.get_option(name) is not None]
        if idle:
            self.display.v(f"{self.NAME}: without effect here: {', '.join(idle)}")
        self._set_rules()

    def _set_rules(self) -> None:
        """Set the rules for all expressions and group names."""
        fail = self.get_option("fail_on_template_errors")
        self._strict = bool(self.get_option("strict") if fail is None else fail)
        self._strict_filters = True if fail is None else bool(fail) or bool(self.get_option("strict"))
        self._jinja_only = bool(self.get_option("use_extra_vars"))
        if self.get_option("use_contrib_script_compatible_sanitization"):
            self._sanitize_group_name = staticmethod(_keep_dashes)

    def _settings(self, identity: Identity) -> Settings:
        get = self.get_option
        one = [identity.subscription_id] if identity.subscription_id and not get("management_groups") else []
        return azure_settings.Settings(
            cloud=str(get("cloud_environment")),
            subscriptions=tuple(str(name) for name in get("subscriptions") or one),
            management_groups=tuple(str(name) for name in get("management_groups")),
            vm_groups=_groups("ANSIBLE_AZURE_VM_RESOURCE_GROUPS", get("include_vm_resource_groups")),
            vmss_groups=_groups("ANSIBLE_AZURE_VMSS_RESOURCE_GROUPS", get("include_vmss_resource_groups")),
            filters=azure_settings.check_filters(_plain(get("filters"))),
            graph_where=str(get("graph_where") or ""),
            source="graph" if get("graph_where") or get("management_groups") else str(get("source")),
            verify=str(get("verify")),
            vmss_tags=get("vmss_tags"),
            placement_groups=get("placement_groups"),
            exact_ids=get("azure_rm_names"),
            strict=bool(get("strict")),
            concurrency=get("concurrency"),
            timeout=get("timeout"),
            retries=get("retries"),
            max_wait=get("max_wait"),
            deadline=get("deadline"),
            api_versions=azure_settings.check_versions(_plain(get("api_versions"))),
        )

    def _identity(self) -> Identity:
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import auth as azure_auth

        identity = azure_auth.Identity(
            source=str(self.get_option("auth_source")),
            tenant=self._rendered("tenant"),
            client_id=self._rendered("client_id"),
            secret=self._rendered("secret"),
            certificate=str(self.get_option("x509_certificate_path") or ""),
            oidc_token=str(self.get_option("oidc_token")),
            oidc_token_file=str(self.get_option("oidc_token_file_path") or ""),
            profile=str(self.get_option("profile")),
            subscription_id=self._rendered("subscription_id"),
            adfs_authority_url=str(self.get_option("adfs_authority_url")),
            instance_discovery=not self.get_option("disable_instance_discovery"),
            verify=self.get_option("cert_validation_mode") == "validate",
        )
        return azure_auth.complete(identity, os.environ)

    def _rendered(self, name: str) -> str:
        return str(self.templar.template(self.get_option(name)) or "")

    # Records: from the cache or from Azure

    def _records(self, path: str, cache: bool) -> list[Record]:
        identity = self._identity()
        settings = self._settings(identity)
        self._cache_key = f"{self.get_cache_key(path)}_{settings.digest(identity.fingerprint())}"
        cached = self._cached() if self.get_option("cache") and cache else None
        if cached is not None:
            self.display.v(f"{self.NAME}: {len(cached)} machines from the cache")
            return cached
        records, complete = self._fetched(identity, settings)
        if self.get_option("cache") and complete:
            self._lock_cache_directory()
            self._cache[self._cache_key] = {"records": json.dumps(records, separators=(",", ":"))}
        return records

    def _cached(self) -> list[Record] | None:
        try:
            return t.cast("list[dict[str, t.Any]]", json.loads(self._cache[self._cache_key]["records"]))
        except (KeyError, TypeError, ValueError):
            return None

    def _fetched(self, identity: Identity, settings: Settings) -> tuple[list[Record], bool]:
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import deadline
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import work as azure_work

        if not identity.verify:
            self._warn("certificates are not checked (cert_validation_mode: ignore)")
        for secret in (identity.secret, identity.oidc_token):
            self._redact.add(secret)
        started = time.monotonic()
        _silence_libraries()
        under_way = deadline.Open()
        work = azure_work.Work(deadline.Deadline(settings.deadline), settings.concurrency, under_way)
        try:
            sender, endpoint = work.result(
                work.start("the sign-in", self._signed_in, identity, settings, work, under_way)
            )
            found = self._found(sender, endpoint, settings, work)
        finally:
            work.close()
        sender.close()
        seconds = time.monotonic() - started
        self.display.v(
            f"{self.NAME}: {len(found.records)} machines, {sender.counter.value} requests, {seconds:.2f} s, "
            f"{sender.gate.waited:.2f} s of them in wait for Azure's limits"
        )
        return found.records, self._reported(found, settings)

    def _signed_in(self, identity: Identity, settings: Settings, work: t.Any, under_way: t.Any) -> tuple[t.Any, str]:
        """Return the sender and the endpoint; runs in a thread, so that the deadline also limits the sign-in."""
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import auth as azure_auth
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import client as azure_client

        fetch = azure_client.fetch_metadata(settings, identity.verify, under_way)
        cloud = azure_client.find_cloud(settings.cloud, fetch)
        patience = azure_auth.Patience(settings.timeout, settings.retries)
        credential = azure_auth.Credential(
            lambda: azure_auth.make_credential(identity, cloud, patience), self._redact.add
        )
        sender = azure_client.Sender(
            credential, cloud, settings, work.deadline, under_way, self._redact, identity.verify
        )
        sender.sign_in()
        return sender, cloud.resource_manager

    def _found(self, sender: t.Any, endpoint: str, settings: Settings, work: t.Any) -> t.Any:
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import client as azure_client
        from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import fetch as azure_fetch

        client, hasty = (
            azure_client.Client(send, endpoint, sender.renew, self._redact) for send in (sender, sender.once)
        )
        return azure_fetch.Fetcher(client, settings, work, hasty).run()

    def _reported(self, found: t.Any, settings: Settings) -> bool:
        """Warn about data that could not be read, and return whether the data is complete."""
        for note in dict.fromkeys(found.notes):
            self._warn(note)
        gaps = list(dict.fromkeys(found.gaps))
        missing: dict[str, list[str]] = {}
        for record in found.records:
            for kind in record["facts_missing"]:
                missing.setdefault(kind, []).append(record["name"])
        for kind, names in missing.items():
            gaps.append(f"{len(names)} machines lack facts ({kind}): {words.listed(names)}")
        if gaps and settings.strict:
            raise AzureInventoryError("strict, and not everything could be read: " + "; ".join(gaps))
        for gap in gaps:
            self._warn(f"could not be read: {gap}")
        return not gaps

    # The cache file contains addresses and tags, so only its owner may read it.

    def update_cache_if_changed(self) -> None:
        """Write the cache, then restrict it to its owner."""
        if not self.get_option("cache"):
            return
        super().update_cache_if_changed()
        directory = self._cache_directory()
        for file in directory.iterdir() if directory else []:
            if file.name.endswith(self._cache_key):  # after the prefixes of Ansible and of the cache plugin
                file.chmod(0o600)

    def _cache_directory(self) -> Path | None:
        connection = self.get_option("cache_connection")
        directory = Path(os.path.expandvars(str(connection))).expanduser() if connection else None
        return directory if directory and directory.is_dir() else None

    def _lock_cache_directory(self) -> None:
        directory = self._cache_directory()
        if directory and not any(directory.iterdir()) and directory.stat().st_uid == os.getuid():
            directory.chmod(0o700)

    # Hosts

    def _populate(self, records: list[Record]) -> None:
        names = hostvars.Names(str(self.get_option("hostvars_prefix")), self._listed_option("host_variables"))
        address = hostvars.address_rule(self._listed_option("ansible_host_from") or [])
        for record in records:
            record.update(slurm.facts(record))
        if records:
            names.check(records[0])
        records = filters.keep(records, azure_settings.check_filters(_plain(self.get_option("filters"))))
        records = self._of_cluster(records)
        records = filters.select(records, self.get_option("query"))
        records = self._picked(records, names)
        self._tell_failed_filters()
        self._refuse_two_clusters(records)
        self._left_to_controller = slurm.left_to_controller(
            records, str(self.get_option("slurm_role_tag")), self.get_option("slurm_controller_roles")
        )
        records = self._visible(records)
        hostnames = azure_names.choose(records, lambda one: self._wanted_name(one, names), self._warn)
        if self.get_option("slurm_groups"):
            for group in slurm.GROUPS:
                self._data.add_group(group)
        for hostname, record in zip(hostnames, records):
            # Ansible would take the machine for the group that keyed_groups has made, with all its hosts.
            if hostname in self._data.groups:
                self._warn(f"{hostname!r} cannot be a host name ({record['id']}); it is the name of a group")
                hostname = str(record["default_inventory_hostname"])
            self._add_host(hostname, record, names, address(record))

    def _of_cluster(self, records: list[Record]) -> list[Record]:
        """Return the machines of the cluster; raise ConfigError if no machine has its name."""
        wanted = str(self.get_option("slurm_cluster") or "")
        if not wanted:
            return records
        tag = str(self.get_option("slurm_role_tag"))
        kept = [one for one in records if slurm.belongs(one, wanted, tag)]
        there = slurm.clusters(records)
        if wanted.lower() not in map(str.lower, there) and (there or not kept):
            raise ConfigError(f"slurm_cluster: no machine is of {wanted!r}; there are: {', '.join(there) or 'none'}")
        if len(kept) < len(records):
            self.display.v(f"{self.NAME}: {len(records) - len(kept)} machines are not of the cluster {wanted}")
        return kept

    def _refuse_two_clusters(self, records: list[Record]) -> None:
        """Refuse to make one Slurm cluster of the machines of two."""
        tag = str(self.get_option("slurm_role_tag"))
        found = slurm.clusters(records, tag) if self.get_option("slurm_groups") else {}
        if len(found) > 1:
            listed = "; ".join(f"{cluster}: {words.listed(names, 3)}" for cluster, names in found.items())
            raise ConfigError(
                f"machines of different clusters ({listed}); set slurm_cluster to one of them, or slurm_groups to false"
            )

    def _add_host(self, hostname: str, record: Record, names: hostvars.Names, address: str | None) -> None:
        self._data.add_host(hostname)
        # Set the variables on the host directly. The values are strings from Azure and must stay untrusted.
        # inventory.set_variable would copy and tag each string, which triples time and memory for many hosts.
        host = self._data.get_host(hostname)
        for name, value in names.emitted(record).items():
            host.set_variable(name, value)
        if address:
            host.set_variable("ansible_host", address)
        variables = names.readable(record)
        variables["inventory_hostname"] = hostname
        variables["ansible_host"] = address
        compose = self.get_option("hostvar_expressions") or self.get_option("compose")
        if compose:
            self._set_composite_vars(compose, variables, hostname, strict=self._strict)
            variables.update({name: host.vars[name] for name in compose if name in host.vars})
        self._add_to_groups(hostname, record, variables)

    def _add_to_groups(self, hostname: str, record: Record, variables: Record) -> None:
        if self.get_option("slurm_groups"):
            for group in self._slurm_groups(hostname, record):
                self._data.add_child(group, hostname)
        groups = {**(self.get_option("groups") or {}), **(self.get_option("conditional_groups") or {})}
        if groups:
            self._add_host_to_composed_groups(groups, variables, hostname, strict=self._strict, fetch_hostvars=False)
        keyed = self.get_option("keyed_groups")
        if keyed:
            self._add_host_to_keyed_groups(keyed, variables, hostname, strict=self._strict, fetch_hostvars=False)

    def _slurm_groups(self, hostname: str, record: Record) -> list[str]:
        tag = str(self.get_option("slurm_role_tag"))
        try:
            return slurm.groups(record["tags"], tag) + self._left_to_controller.get(str(record["id"]), [])
        except slurm.UnknownRoleError as exc:
            if self.get_option("strict"):
                raise AzureInventoryError(f"tag {tag} of {hostname}: {exc}") from None
            self._warn(f"tag {tag} of {hostname}: {exc}")
            return []

    def _wanted_name(self, record: Record, names: hostvars.Names) -> str:
        wanted = ["name"] if self.get_option("plain_host_names") else self.get_option("hostnames")
        variables: Record | None = None
        for preference in wanted:
            if preference == "default":
                return str(record["default_inventory_hostname"])
            variables = variables or names.readable(record)
            name = self._evaluated(preference, variables, f"hostnames {preference!r} for {record['id']}")
            if name and machine_names.usable(str(name), self._groups()):
                return str(name)
            if name:
                self._warn(f"{str(name)!r} cannot be a host name ({record['id']}); the next choice is taken")
        return str(record["default_inventory_hostname"])

    def _groups(self) -> set[str]:
        """Return the groups that are known before the first machine; a machine of this name would be mistaken."""
        named = {**(self.get_option("groups") or {}), **(self.get_option("conditional_groups") or {})}
        return {*self._data.groups, *slurm.GROUPS, *named}

    def _picked(self, records: list[Record], names: hostvars.Names) -> list[Record]:
        """Return the records that the expressions keep."""
        default = self.get_option("default_host_filters")
        exclude, include = list(self.get_option("exclude_host_filters")), list(self.get_option("include_host_filters"))
        if not filters.uses_default_rules(default):
            exclude += default
        if not exclude and include == [True]:
            return records
        return [one for one in records if self._passes(one, exclude, include, names)]

    def _visible(self, records: list[Record]) -> list[Record]:
        """Return the records that the default rules keep; warn about hidden machines that are not off."""
        if not filters.uses_default_rules(self.get_option("default_host_filters")):
            return records
        kept = []
        hidden: dict[str, list[str]] = {}
        for record in records:
            reason = filters.hidden_by_default(record)
            if reason is None:
                kept.append(record)
            else:
                hidden.setdefault(reason, []).append(record["name"])
        self._tell_hidden(hidden)
        return kept

    def _tell_hidden(self, hidden: dict[str, list[str]]) -> None:
        for reason, hosts in hidden.items():
            text = f"{len(hosts)} machines are skipped ({reason}) by default_host_filters: {words.listed(hosts)}"
            self.display.v(text) if reason == "off" else self._warn(text)

    def _passes(self, record: Record, exclude: list[t.Any], include: list[t.Any], names: hostvars.Names) -> bool:
        variables = names.readable(record)
        if any(self._holds(rule, variables, record) for rule in exclude):
            return False
        return any(self._holds(rule, variables, record) for rule in include)

    def _holds(self, rule: t.Any, variables: Record, record: Record) -> bool:
        if isinstance(rule, bool):
            return rule
        try:
            return self._condition(rule, variables)
        except Exception as exc:
            text = str(rule)
            if self._strict_filters:
                raise AzureInventoryError(
                    f"the filter {text!r} failed for {record['name']}: {exc}; say what holds where it is not there, "
                    "such as tags.env | default('') == 'prod', or set fail_on_template_errors: false"
                ) from None
            self._failed_filters.setdefault(text, []).append(record["name"])
            return False

    def _tell_failed_filters(self) -> None:
        for rule, hosts in self._failed_filters.items():
            self._warn(
                f"the filter {rule!r} failed, and so did not hold, for {len(hosts)} machines: {words.listed(hosts)}"
            )

    # Expressions

    def _evaluated(self, expression: str, variables: Record, what: str) -> t.Any:
        try:
            return self._compose(expression, variables)
        except Exception as exc:
            if self._strict:
                raise AzureInventoryError(f"{what}: {exc}") from None
            return None

    def _compose(self, template: t.Any, variables: Record, disable_lookups: t.Any = ...) -> t.Any:  # noqa: ARG002
        """Evaluate simple expressions directly, and all others with Jinja."""
        read = None if self._jinja_only else expressions.value_of(template) if isinstance(template, str) else None
        if read:
            try:
                return read(variables)
            except expressions.MissingError:
                if not self._strict:
                    raise
            except expressions.LeaveToJinjaError:
                pass
        return super()._compose(template, variables)

    def _condition(self, condition: t.Any, variables: Record) -> bool:
        test = None if self._jinja_only else expressions.test_of(condition) if isinstance(condition, str) else None
        if test:
            try:
                return test(variables)
            except expressions.MissingError:
                if not self._strict_filters:
                    raise
            except expressions.LeaveToJinjaError:
                pass
        return bool(super()._compose(condition, variables))

    def _add_host_to_composed_groups(
        self, groups: Record, variables: Record, host: str, strict: bool = False, fetch_hostvars: bool = True
    ) -> None:
        """Evaluate simple conditions directly, and pass all others to the base class."""
        rest = {}
        for name, condition in groups.items():
            test = None if self._jinja_only else expressions.test_of(condition) if isinstance(condition, str) else None
            try:
                member = test(variables) if test else condition if isinstance(condition, bool) else None
            except (expressions.MissingError, expressions.LeaveToJinjaError):
                member = None
            if member is None:
                rest[name] = condition
            elif member:
                self._data.add_child(self._data.add_group(self._sanitize_group_name(name)), host)
        if rest:
            super()._add_host_to_composed_groups(rest, variables, host, strict=strict, fetch_hostvars=fetch_hostvars)

    def _listed_option(self, name: str) -> list[str] | None:
        value = self.get_option(name)
        return None if value is None else [str(one) for one in value]


def _silence_libraries() -> None:
    """Keep the logs of the libraries, which may quote an answer, off the terminal; errors repeat them, redacted."""
    for name in ("azure", "msal", "urllib3"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())


def _groups(variable: str, option: t.Any) -> tuple[str, ...]:
    return azure_settings.split_groups(os.environ.get(variable), _plain(option))


def _plain(value: t.Any) -> t.Any:
    """Return option values without Ansible's tags, so that they can be compared, hashed and written as JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _keep_dashes(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
