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
  - Reads the lists of Azure Resource Manager in parallel.
  - Adds the machines to the groups that the playbooks of this collection use, by a tag or by the tags of CycleCloud.
  - Reads a file whose name ends in C(azure_vms.yml), C(azure_vms.yaml), C(azure_rm.yml) or C(azure_rm.yaml). An
    unknown key, or one of P(azure.azcollection.azure_rm#inventory) that is not supported, is refused by its name.
  - A machine stays in the inventory if a part of its data could not be read. Its variable C(azure_facts_missing) lists
    the missing data, and a warning gives the reason. O(strict=true) makes that an error.
  - A list that ends badly is an error. A list in which a machine appears twice moved while it was read. It is read once
    more, and is then a gap that causes a warning, or an error with O(strict=true).
  - An inventory that cannot be read at all is an error. Ansible still exits with status 0 unless
    E(ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED) is set, as in the C(ansible.cfg) of this collection.
  - The required role in Azure is Reader on each subscription.
requirements:
  - azure-core and azure-identity on the control node
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
      - Keeps only machines that match all of these filters.
      - The keys C(resource_groups), C(locations), C(vm_sizes), C(scale_sets), C(powerstates) and C(names) accept a
        value or a list of values. Case is ignored. C(resource_groups) may contain C(*) and C(?).
      - C(tags) accepts a mapping from tag to a value, a list of values, or null for any value. As in Azure, the names
        of tags are case-insensitive, and their values are case-sensitive.
      - A machine whose power state could not be read is kept, regardless of C(powerstates).
    type: dict
    default: {}
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
  concurrency:
    description: Number of parallel requests, 1 to 10.
    type: int
    default: 8
  timeout:
    description: Seconds to wait for an answer.
    type: int
    default: 60
  retries:
    description:
      - Number of retries of a request after status 408, 429, 500, 502, 503, 504 or a lost connection. The pauses are
        those that Azure asks for.
    type: int
    default: 8
  deadline:
    description:
      - Time limit in seconds for the whole run, including the sign-in and all waiting. After it, the plugin fails with
        an error that names the list that is missing.
    type: int
    default: 300
  strict:
    description: Whether a gap in the answers, or an expression that fails, is an error.
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
"""

import json
import logging
import os
import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names, words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import (
    client,
    filters,
    hostvars,
    lists,
    scope,
    sign_in,
    slurm,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import names as azure_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import settings as azure_settings
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

if t.TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Record = dict[str, t.Any]

_SUFFIXES = ("azure_vms.yml", "azure_vms.yaml", "azure_rm.yml", "azure_rm.yaml")
_RANGES = {"concurrency": (1, 10), "timeout": (1, 3600), "retries": (0, 100), "deadline": (1, 86400)}
_SIMPLE = re.compile(r"([a-z]\w*(?:\.\w+)*)(?: *\| *default\('([^'\\]*)'(, *true)?\))?")
_SIGN_IN = (
    "auth_source",
    "tenant",
    "client_id",
    "secret",
    "x509_certificate_path",
    "oidc_token",
    "oidc_token_file_path",
    "cloud_environment",
    "adfs_authority_url",
    "disable_instance_discovery",
)


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Add hosts from Azure to the inventory."""

    NAME = "hpcai.gpucluster.azure_vms"

    def __init__(self) -> None:
        """Set the initial state, before the options are read."""
        super().__init__()
        self._data: t.Any = None
        self._strict = False
        self._jinja_only = False
        self._redact = client.Redactor()
        self._left_to_controller: dict[str, list[str]] = {}
        self._cache_key = ""

    def verify_file(self, path: str) -> bool:
        """Accept only files with a suffix of this plugin."""
        return bool(super().verify_file(path)) and path.endswith(_SUFFIXES)

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        """Fill the inventory."""
        super().parse(inventory, loader, path, cache)
        self._data = inventory
        given = self._read_config_data(path)
        try:
            self._check_options(given or {})
            self._populate(self._records(path, cache))
        except AzureError as exc:
            raise AnsibleParserError(self._redact(f"{self.NAME}: {exc}")) from None

    def _warn(self, text: str) -> None:
        self.display.warning(self._redact(f"{self.NAME}: {text}"))

    # Options

    def _check_options(self, given: Record) -> None:
        azure_settings.check_keys(given, self.option_definitions)
        for name, (least, most) in _RANGES.items():
            if not least <= self.get_option(name) <= most:
                raise ConfigError(f"{name} is {self.get_option(name)}; allowed: {least} to {most}")
        self._strict = bool(self.get_option("strict"))
        self._jinja_only = bool(self.get_option("use_extra_vars"))

    def _settings(self, caller: Record) -> Settings:
        get = self.get_option
        one = self._rendered("subscription_id")
        if not one and not caller["secret"] and caller["auth_source"] in ("auto", "cli"):
            one = scope.cli_subscription(os.environ)
        return azure_settings.Settings(
            cloud=str(caller["cloud_environment"]),
            subscriptions=tuple(str(name) for name in get("subscriptions") or [one] if name),
            vm_groups=_groups("ANSIBLE_AZURE_VM_RESOURCE_GROUPS", get("include_vm_resource_groups")),
            vmss_groups=_groups("ANSIBLE_AZURE_VMSS_RESOURCE_GROUPS", get("include_vmss_resource_groups")),
            filters=azure_settings.check_filters(_plain(get("filters"))),
            vmss_tags=get("vmss_tags"),
        )

    def _caller(self) -> Record:
        return {name: self._rendered(name) for name in _SIGN_IN}

    def _rendered(self, name: str) -> t.Any:
        value = self.get_option(name)
        return str(self.templar.template(value) or "") if isinstance(value, str) else value

    # Records: from the cache or from Azure

    def _records(self, path: str, cache: bool) -> list[Record]:
        caller = self._caller()
        settings = self._settings(caller)
        who = [str(caller[name]) for name in ("auth_source", "tenant", "client_id")]
        self._cache_key = f"{self.get_cache_key(path)}_{settings.digest(who)}"
        cached = self._cached() if self.get_option("cache") and cache else None
        if cached is not None:
            self.display.v(f"{self.NAME}: {len(cached)} machines from the cache")
            return cached
        records, complete = self._fetched(caller, settings)
        if self.get_option("cache") and complete:
            self._lock_cache_directory()
            self._cache[self._cache_key] = {"records": json.dumps(records, separators=(",", ":"))}
        return records

    def _cached(self) -> list[Record] | None:
        try:
            return t.cast("list[dict[str, t.Any]]", json.loads(self._cache[self._cache_key]["records"]))
        except (KeyError, TypeError, ValueError):
            return None

    def _fetched(self, caller: Record, settings: Settings) -> tuple[list[Record], bool]:
        """Return the machines, and whether nothing is missing."""
        for name in ("secret", "oidc_token"):
            self._redact.add(str(caller[name] or ""))
        _silence_libraries()
        cloud = sign_in.cloud(caller)
        limits = {name: self.get_option(name) for name in ("timeout", "retries", "deadline")}
        send = client.Sender(cloud, lambda: sign_in.credential(caller), self._redact, limits)
        work = lists.Work(self.get_option("concurrency"), send.left, lambda: send.trouble)
        work.result(work.start("the sign-in", send.sign_in))
        records = lists.read(work, client.Client(send, cloud.resource_manager, self._redact), settings)
        self.display.v(f"{self.NAME}: {len(records)} machines, {send.requests} requests")
        return records, self._reported(records, work)

    def _reported(self, records: list[Record], work: lists.Work) -> bool:
        """Warn about data that could not be read, and return whether the data is complete."""
        for note in dict.fromkeys(work.notes):
            self._warn(note)
        gaps = list(dict.fromkeys(work.gaps))
        missing: dict[str, list[str]] = {}
        for record in records:
            for kind in record["facts_missing"]:
                missing.setdefault(kind, []).append(record["name"])
        gaps += [f"{len(names)} machines lack facts ({kind}): {words.listed(names)}" for kind, names in missing.items()]
        if gaps and self._strict:
            raise AzureError("strict, and not everything could be read: " + "; ".join(gaps))
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
        records = self._picked(records, names)
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
        compose = self.get_option("compose")
        if compose:
            self._set_composite_vars(compose, variables, hostname, strict=self._strict)
            variables.update({name: host.vars[name] for name in compose if name in host.vars})
        self._add_to_groups(hostname, record, variables)

    def _add_to_groups(self, hostname: str, record: Record, variables: Record) -> None:
        if self.get_option("slurm_groups"):
            for group in self._slurm_groups(hostname, record):
                self._data.add_child(group, hostname)
        groups = self.get_option("groups")
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
                raise AzureError(f"tag {tag} of {hostname}: {exc}") from None
            self._warn(f"tag {tag} of {hostname}: {exc}")
            return []

    def _wanted_name(self, record: Record, names: hostvars.Names) -> str:
        variables: Record | None = None
        for preference in self.get_option("hostnames"):
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
        return {*self._data.groups, *slurm.GROUPS, *(self.get_option("groups") or {})}

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
        try:
            return rule if isinstance(rule, bool) else bool(self._compose(rule, variables))
        except Exception as exc:
            raise AzureError(
                f"the filter {str(rule)!r} failed for {record['name']}: {exc}; say what holds where it is not there, "
                "such as tags.env | default('') == 'prod'"
            ) from None

    # Expressions

    def _evaluated(self, expression: str, variables: Record, what: str) -> t.Any:
        try:
            return self._compose(expression, variables)
        except Exception as exc:
            if self._strict:
                raise AzureError(f"{what}: {exc}") from None
            return None

    def _compose(self, template: t.Any, variables: Record, disable_lookups: t.Any = ...) -> t.Any:  # noqa: ARG002
        """Return C(a.b) and C(a.b | default('x', true)) directly, which Jinja does in 0.6 ms for each host."""
        match = _SIMPLE.fullmatch(template) if isinstance(template, str) and not self._jinja_only else None
        found = _looked_up(match[1].split("."), variables) if match else None
        if match is None or found is None:
            return super()._compose(template, variables)
        if not found and match[2] is None:
            raise AzureError(f"{template} is undefined")
        return match[2] if not found or (match[3] and not found[0]) else found[0]

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


def _looked_up(path: list[str], variables: Record) -> list[t.Any] | None:
    """Return a list with the value; an empty one if only the last name is missing, and None if Jinja must decide."""
    value: t.Any = variables
    for name in path[:-1]:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, dict) or hasattr(dict, path[-1]) or (len(path) == 1 and path[0] not in value):
        return None
    return [value[path[-1]]] if path[-1] in value else []


def _groups(variable: str, option: t.Any) -> tuple[str, ...]:
    return azure_settings.split_groups(os.environ.get(variable), _plain(option))


def _plain(value: t.Any) -> t.Any:
    """Return option values without Ansible's tags, so that they can be compared, hashed and written as JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value
