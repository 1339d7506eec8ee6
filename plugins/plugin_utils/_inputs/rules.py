# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults in the inputs of one machine, alone and combined. Pure: data in, sentences out."""

from __future__ import annotations

import re
import typing as t
import zoneinfo
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import NAME as ACCOUNT
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import conf
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.modes import mode_problem
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto, records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import proxy, site_options
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_address, nearest, path, problem

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Values = Mapping[str, t.Any]
    # Returns what is allowed if a value is invalid, or else an empty string.
    Rule = Callable[[t.Any], str]

PROXY: dict[str, dict[str, t.Any]] = {
    "http": {"type": "str"},
    "https": {"type": "str"},
    "no_proxy": {"type": "list", "elements": "str"},
}
# Inputs that belong to no role: those of the whole cluster and of playbooks, and the names of DeepOps.
CLUSTER: dict[str, dict[str, t.Any]] = {
    "gpucluster_bastion": {"type": "str"},
    "gpucluster_bundle": {"type": "str"},
    "gpucluster_bundle_cache": {"type": "str"},
    "gpucluster_bundle_checksum": {"type": "str"},
    "gpucluster_containers": {"type": "bool"},
    "gpucluster_leaving_nodes": {"type": "list", "elements": "str"},
    "gpucluster_mirror": {"type": "str"},
    "gpucluster_monitoring": {"type": "str", "choices": ["present", "absent"]},
    "gpucluster_networks": {"type": "dict"},
    "gpucluster_nfs_server": {"type": "str"},
    "gpucluster_own_variables": {"type": "list", "elements": "str"},
    "gpucluster_proxy": {"type": "dict", "options": PROXY},
    "gpucluster_rack": {"type": "str"},
    "gpucluster_removed_nodes": {"type": "list", "elements": "str"},
    "gpucluster_switch": {"type": "str"},
    "gpucluster_vm_size": {"type": "str"},
    "gpucluster_vm_size_record": {"type": "dict"},
    "gpucluster_vm_sizes_file": {"type": "path"},
    "gpu_imex": {"type": "str", "choices": ["none"]},
    "groups_to_create": {"type": "list", "elements": "dict"},
    "gpucluster_azure_metadata": {"type": "str", "choices": ["auto", "present", "absent"]},
    "slurm_batch": {"type": "raw"},
    "slurm_failures_percent": {"type": "int"},
    "slurm_node_config": {"type": "dict"},
    "upgrade_batch": {"type": "raw"},
    "users": {"type": "list", "elements": "dict"},
    **{name: {"type": "str", "choices": list(site_options.STATES)} for name in site_options.ROLES},
}
# The filters of their roles judge these, because they have more data to compare.
_ELSEWHERE = ("slurm_nodes", "slurm_topology")
# Names with the meaning of an input but another spelling.
_OTHER_NAMES = {
    "gpucluster_hardware": "gpucluster_vm_size_record",
    "pinning_vm_size": "gpucluster_vm_size",
}
_SIZE_OF_ROLE = re.compile(r"([a-z]+)_vm_size(_record)?")
# Former prefixes of inputs, with the prefixes to try instead.
_OTHER_PREFIXES = {"nhc_": ("health_", "health_nhc_")}
_RANGES: dict[str, tuple[int, int]] = {
    "backup_keep": (1, 10_000),
    "base_nofile": (1024, 1 << 30),
    "enroot_images_reserve_gib": (0, 1 << 20),
    "gpu_count": (0, 64),
    "gpu_driver_wait_seconds": (0, 3600),
    "gpu_graphics_clock": (0, 10_000),
    "gpu_memory_clock": (0, 20_000),
    "monitoring_port": (1, 65_535),
    "monitoring_retention_days": (1, 3650),
    "monitoring_scrape_seconds": (1, 3600),
    "nccl_gpus_per_bridge": (0, 16),
    "health_epilog_gpu_memory_mib": (0, 1 << 20),
    "health_nhc_timeout_seconds": (1, 3600),
    "slurm_database_buffer_mib": (16, 1 << 24),
    "slurm_drain_seconds": (0, 1 << 30),
    "slurm_failures_percent": (0, 100),
    "slurm_memory_headroom_percent": (0, 90),
    "slurm_user_jobs_seconds": (0, 1 << 30),
    "slurm_user_uid": (1, 2_147_483_646),
}
_OWNERS = {
    "accountingstoragehost": "slurm_database",
    "clustername": "slurm_cluster_name",
    "controlmachine": "slurm_controllers",
    "nodename": "the group slurm_compute, with slurm_node_config,",
    "partitionname": "slurm_partitions",
    "slurmctldhost": "slurm_controllers",
    "statesavelocation": "slurm_state_directory",
}
_HOST = machine_names.HOST
_NAME = "letters, digits and ._-, such as {}"
# System directories: homes and state of a cluster must not be directly in them.
SYSTEM = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var")
HEALTH_TOOLS = (
    *("nvidia_smi", "chronyc", "timedatectl", "munge", "unmunge", "scontrol"),
    *("nvbandwidth", "all_reduce_perf", "ib_write_bw", "dcgmi"),
)


class Judged(t.NamedTuple):
    """The faults of inputs, and the inputs without faults."""

    faults: list[str]
    good: dict[str, t.Any]


def judge(values: Values) -> Judged:
    """Judge the inputs of one machine by name; any may be missing."""
    faults: list[str] = []
    good = dict(values)
    for name, value in sorted(values.items()):
        option = inputs_types.options().get(name) or CLUSTER.get(name)
        if option and name not in _ELSEWHERE:
            wrong = list(inputs_types.problems(name, option, value)) or list(_ruled(name, value))
            faults += wrong
            if wrong:
                del good[name]
    return Judged([*faults, *(sentence for part in _PARTS for sentence in part(good))], good)


def known() -> set[str]:
    """Return the names of all inputs."""
    return {*inputs_types.options(), *CLUSTER}


def unknown(names: Iterable[str], own: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each name that looks like an input of the collection but is none."""
    prefixes = tuple({f"{option['role']}_" for option in inputs_types.options().values()} | {"gpucluster_"})
    found = []
    for name in sorted(set(names) - known() - set(own)):
        near = _other_name(name) or (nearest(name, known(), 0.85) if name.startswith(prefixes) else "")
        if near:
            found.append(
                f"{name}: no role reads it; did you mean {near}? "
                "A variable of your own that is named so goes into the list gpucluster_own_variables"
            )
    return found


def _other_name(name: str) -> str:
    """Return the input that has the meaning of another name; a role accepts a record, not a VM size."""
    prefix = next((old for old in _OTHER_PREFIXES if name.startswith(old)), "")
    names = [new + name[len(prefix) :] for new in _OTHER_PREFIXES.get(prefix, ("",))]
    matches = filter(None, map(_SIZE_OF_ROLE.fullmatch, names))
    candidates = [*names, *(f"{match[1]}_hardware" for match in matches)]
    return _OTHER_NAMES.get(name) or next((found for found in candidates if found in inputs_types.options()), "")


def host(value: t.Any) -> str:
    """Accept a host name or an IP address; a value of digits and dots must be an address."""
    text = str(value)
    if is_address(text.strip("[]")) or (_HOST.fullmatch(text) and not re.fullmatch(r"[0-9.]+", text)):
        return ""
    return "the name or the IP address of a machine"


def _empty_or(rule: Rule) -> Rule:
    return lambda value: "" if value == "" else rule(value)


def _matches(pattern: str, allowed: str) -> Rule:
    return lambda value: "" if re.fullmatch(pattern, str(value)) else allowed


def _each(rule: Rule) -> Rule:
    return lambda value: next((wrong for item in value if (wrong := rule(item))), "")


def _own_path(value: t.Any) -> str:
    return path(value) or ("a directory that is not the system's" if str(value).rstrip("/") in (*SYSTEM, "") else "")


def _url(value: t.Any) -> str:
    return (
        ""
        if re.fullmatch(r"(https?|file|ftp)://[^\s'\"]+", str(value))
        else "a URL, such as https://mirror.example.com"
    )


def _source(value: t.Any) -> str:
    """Accept a URL, or the path of an existing file."""
    text = str(value)
    if "://" in text:
        return _url(text)
    return "" if text.startswith("/") and Path(text).is_file() else "a URL, or the path of a file that is there"


def _batch(value: t.Any) -> str:
    parts = value if isinstance(value, list) else [value]
    good = all(re.fullmatch(r"[1-9][0-9]*|([1-9][0-9]?|100)%", str(part)) for part in parts)
    return "" if good and parts else "a number of machines such as 20, a part of them such as 10%, or a list of these"


def _memlock(value: t.Any) -> str:
    return "" if re.fullmatch(r"unlimited|[0-9]+", str(value)) else "KiB as a whole number, or unlimited"


def _time_service(value: t.Any) -> str:
    return "" if value in ("", "chrony", "systemd-timesyncd") else "chrony, systemd-timesyncd, or an empty text"


def _sysctl(value: t.Any) -> str:
    good = all(re.fullmatch(r"[a-z0-9_*./-]+", str(name)) for name in value)
    good = good and not any(isinstance(item, (Mapping, list, bool)) or item is None for item in value.values())
    return "" if good else "names such as vm.swappiness, each with a number or a text"


def _hosts_file(value: t.Any) -> str:
    good = all(_HOST.fullmatch(str(name)) and is_address(str(address).strip("[]")) for name, address in value.items())
    return "" if good else "names of machines, each with its IP address"


def _uids(value: t.Any) -> str:
    return "" if all(0 <= int(str(uid)) < 2**32 - 1 for uid in value) else "UIDs from 0 to 4294967294"


def _sssd(value: t.Any) -> str:
    good = all(re.fullmatch(r"[a-z0-9_]+", str(name)) for name in value)
    return "" if good else "names of settings of sssd.conf, such as ldap_schema"


def _software(value: t.Any) -> str:
    """Accept names and versions that are names of files."""
    parts = [str(one.get(key, "x")) for one in value for key in ("name", "version")]
    return "" if all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", part) for part in parts) else "names and versions"


def _downloads(value: t.Any) -> str:
    """Accept names of files, which stay in their directory."""
    names = [str(one.get("name") or str(one["url"]).rpartition("/")[2]) for one in value if "url" in one]
    good = all("/" not in name and name not in ("", ".", "..") for name in names)
    return "" if good else "files, each with the name of a file; set name if the URL ends without one"


def _zone(value: t.Any) -> str:
    """Accept a time zone that the control node knows, or any name if it has no time zones."""
    known = zoneinfo.available_timezones()
    good = value in known if known else re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", str(value))
    return "" if good else f"a time zone; did you mean {nearest(str(value), known, 0.5) or 'Etc/UTC'}?"


def _environment(value: t.Any) -> str:
    good = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(name)) for name in value)
    good = good and not any(isinstance(item, (Mapping, list)) for item in value.values())
    return "" if good else "names of environment variables, each with a text, a number or null"


def _tools(value: t.Any) -> str:
    good = all(name in HEALTH_TOOLS and not path(file) for name, file in value.items())
    return "" if good else f"absolute paths for {', '.join(HEALTH_TOOLS)}"


def _networks(value: t.Any) -> str:
    good = all(isinstance(item, (str, list)) for item in value.values())
    return "" if good else "names, each with a network such as 10.0.0.0/24 or a list of them"


def _receivers(value: t.Any) -> str:
    good = set(value) <= {"mail", "smarthost", "sender", "webhook", "slack"} and isinstance(value.get("mail", []), list)
    urls = all(not _url(value[name]) for name in ("webhook", "slack") if value.get(name))
    return "" if good and urls else "mail (a list), smarthost, sender, webhook and slack (URLs)"


_JUMP = r"([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
_DIRECTORY = _matches(r"/[A-Za-z0-9._/+@:-]+", "an absolute path of letters, digits and ._/+@:-")
_SHA256 = _matches(r"(sha256:[0-9a-f]{64})?", "sha256: and 64 hexadecimal digits")
# A checkpoint can contain programs, so root does not train.
_TRAINS = _matches(r"(?!(root|0)$)[A-Za-z0-9_][A-Za-z0-9_.@$-]*", "the name of a user other than root")
_RULES: dict[str, Rule] = {
    "apptainer_package": _matches(r"[a-z0-9][a-z0-9+.-]*", "the name of a package"),
    "azure_metadata_uids": _uids,
    "base_hosts": _hosts_file,
    "backup_calendar": _matches(r"[A-Za-z0-9*.,:/~ -]+", "a calendar event of systemd, such as daily or 02:30"),
    "backup_directory": _own_path,
    "backup_state_directory": _own_path,
    "base_memlock": _memlock,
    "base_proxy": proxy.problem,
    "base_packages": _each(_matches(r"[a-z0-9][a-z0-9+.-]*(=\S+)?", "names of packages")),
    "base_sysctl": _sysctl,
    "base_time_servers": _each(host),
    "base_time_service": _time_service,
    "base_timezone": _empty_or(_zone),
    "docker_data_root": _empty_or(path),
    "docker_key_checksum": _SHA256,
    "docker_proxy": proxy.problem,
    "docker_users": _each(_matches(ACCOUNT.pattern, "names of users")),
    "enroot_proxy": proxy.problem,
    "enroot_sysctl": _sysctl,
    "gpu_driver_packages": _each(_matches(r"[a-z0-9][a-z0-9+.-]*(=\S+)?", "names of packages")),
    "gpu_driver_repository": _empty_or(_url),
    "gpu_driver_repository_key": _empty_or(_matches(r"(https?://|/)[^\s'\"]+", "a URL, or an absolute path")),
    "gpu_driver_repository_key_checksum": _empty_or(
        _matches(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}", "sha256:digest, in lower case")
    ),
    "gpu_power_limit": _matches(r"|default|max|[0-9]+(\.[0-9]+)?", "watts, default, max, or an empty text"),
    "gpucluster_bastion": _empty_or(
        _matches(
            rf"{_JUMP}(,{_JUMP})*",
            "[USER@]HOST[:PORT] of a jump host, or several with commas",
        )
    ),
    "gpucluster_bundle": _empty_or(
        lambda value: (
            ""
            if str(value).startswith("/") and Path(str(value)).is_file()
            else "the absolute path of a file of bundle.yml"
        )
    ),
    "gpucluster_bundle_checksum": _SHA256,
    "gpucluster_mirror": _empty_or(_url),
    "gpucluster_networks": _networks,
    "gpucluster_proxy": proxy.problem,
    "gpucluster_nfs_server": _empty_or(host),
    "ldap_groups": _each(_matches(r"[^,\s]+", "names of groups")),
    "ldap_settings": _sssd,
    "ldap_uri": _each(_matches(r"ldaps?://[A-Za-z0-9.:\[\]-]+/?", "addresses such as ldaps://ldap1.example.com")),
    "lmod_directory": _own_path,
    "lmod_paths": _each(path),
    "lmod_software": _software,
    "monitoring_address": host,
    "monitoring_password_hash": _empty_or(_matches(r"\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}", "a bcrypt hash")),
    "monitoring_receivers": _receivers,
    "monitoring_server_address": host,
    "monitoring_targets": _each(host),
    "monitoring_tls_ca": _empty_or(path),
    "monitoring_tls_certificate": _empty_or(path),
    "monitoring_tls_key": _empty_or(path),
    "nccl_enroot_path": _empty_or(path),
    "nccl_environment": _environment,
    "nccl_topology_link": _empty_or(path),
    "nccl_topology_path": path,
    "nfs_server_address": _empty_or(host),
    "health_node_name": _matches(_HOST.pattern, _NAME.format("gpu1")),
    "health_python": path,
    "health_slurm_directory": _own_path,
    "health_nhc_source_url": _source,
    "health_state_directory": _own_path,
    "health_tools": _tools,
    "health_nhc_version": _matches(r"[0-9]+(\.[0-9]+)*([-.][A-Za-z0-9]+)?", "a release, such as '1.4.3'"),
    "nvidia_container_toolkit_key_checksum": _SHA256,
    "nvidia_container_toolkit_version": _matches(
        r"([0-9]+\.[0-9]+\.[0-9]+-[0-9]+)?", "a version such as 1.20.1-1, or an empty string"
    ),
    "pyxis_source_url": _source,
    "scratch_mode": mode_problem,
    "scratch_mount_options": _matches(
        r"[A-Za-z0-9_.:=/@+-]+(,[A-Za-z0-9_.:=/@+-]+)*", "options of mount, separated by commas, such as noatime,nodev"
    ),
    "scratch_prolog_directory": _DIRECTORY,
    "scratch_task_prolog_directory": _DIRECTORY,
    "scratch_epilog_directory": _DIRECTORY,
    "slurm_batch": _batch,
    "slurm_block_sizes": _each(_matches(r"[1-9][0-9]*", "numbers of nodes")),
    "slurm_cluster_name": _matches(r"[a-z0-9][a-z0-9_-]*", "lower-case letters, digits, _ and -, such as training"),
    "slurm_configure_options": _each(_matches(r"--?[A-Za-z0-9][^\s;&|`$]*", "options such as --with-ucx=/usr")),
    "slurm_pam_groups": _each(_matches(r"[A-Za-z_][A-Za-z0-9_.-]*", "names of groups")),
    "slurm_pam_users": _each(_matches(r"[A-Za-z_][A-Za-z0-9_.-]*", "names of users")),
    "slurm_private_tmp_directory": _own_path,
    "slurm_source_url": _source,
    "slurm_state_directory": _own_path,
    "slurm_version": _matches(
        r"[0-9]{2}\.[0-9]{2}\.[0-9]+(-[0-9]+)?", "a release with three numbers, such as '26.05.4'"
    ),
    "training_data": _downloads,
    "training_user": _empty_or(_TRAINS),
    "training_users": _each(_TRAINS),
    "upgrade_batch": _batch,
    "users_default_shell": path,
    "users_group": _matches(ACCOUNT.pattern, "the name of a group"),
    "users_home_base": _own_path,
    "users_home_mode": mode_problem,
    "users_home_mount": _empty_or(path),
    "users_machine_groups": _each(_matches(ACCOUNT.pattern, "names of groups")),
    "users_ssh_hosts": _each(
        _matches(
            r"!?[A-Za-z0-9*?_\[\]][A-Za-z0-9.*?:_\[\]-]*", "host patterns of ssh_config without blanks, such as gpu*"
        )
    ),
}


def _ruled(name: str, value: t.Any) -> Iterator[str]:
    """Yield the faults that the rules of one name find in a value of the right type."""
    if name in _RANGES:
        low, high = _RANGES[name]
        if not low <= float(value) <= high:
            yield problem(name, value, f"{low} to {high}")
    rule = _RULES.get(name)
    wrong = rule(value) if rule else ""
    if wrong:
        yield problem(name, value, wrong)


def _sizes(values: Values) -> Iterator[str]:
    for name, record in values.items():
        is_role = name.endswith("_hardware") and not _has_no_devices(record)
        if record and (name == "gpucluster_vm_size_record" or is_role):
            yield from (f"{name}: {fault}" for fault in records.problems_of_groups(record))
    size = values.get("gpucluster_vm_size")
    if not values.get("gpucluster_vm_size_record") and size and not auto.is_auto(size):
        try:
            records.find(size)
        except records.CatalogueError as exc:
            yield f"gpucluster_vm_size: {exc}"


def _imex(values: Values) -> Iterator[str]:
    """Refuse machines whose NVLink to other machines would be dead in silence."""
    try:
        record = records.find(values.get("gpucluster_vm_size") or "lab", values.get("gpucluster_vm_size_record"))
    except records.CatalogueError:
        return  # reported already
    if records.imex(record) and values.get("gpu_imex") != "none":
        yield problem("gpu_imex", values.get("gpu_imex"), records.imex(record))


def _has_no_devices(record: t.Any) -> bool:
    """Return whether a record is the one of playbooks/vars/cluster.yml for machines that run no jobs."""
    return isinstance(record, Mapping) and "name" not in record and record.get("gpus") == {"count": 0}


def _checks(values: Values) -> Iterator[str]:
    """Judge the expectations of the health checks against the hardware of the machine."""
    if not {"health_checks", "health_prolog_checks"} & set(values):
        return
    size = values.get("gpucluster_vm_size") or values.get("azure_vm_size") or "lab"
    try:
        record = records.find(size, values.get("health_hardware") or values.get("gpucluster_vm_size_record"))
        expectations.expectations(record, values.get("health_checks"), values.get("health_prolog_checks"))
    except expectations.HealthError as exc:
        yield f"health_checks, health_prolog_checks: {exc}"
    except records.CatalogueError:
        return  # reported already


def _slurm(values: Values) -> Iterator[str]:
    """Refuse keys of slurm.conf that another input sets: other uses of that input would not see the change."""
    for key in values.get("slurm_config") or {}:
        owner = _OWNERS.get(str(key).lower())
        if owner:
            yield f"slurm_config: found {key}; allowed: other keys, because {owner} sets this one"


def _nccl(values: Values) -> Iterator[str]:
    settings = {name: value for name, value in (values.get("nccl_settings") or {}).items() if value is not None}
    yield from (f"nccl_settings: {fault}" for fault in conf.problems(settings))


def _driver(values: Values) -> Iterator[str]:
    """Refuse a driver repository whose key has no checksum."""
    name, key = "gpu_driver_repository_key", str(values.get("gpu_driver_repository_key") or "")
    if values.get("gpu_driver_source") == "nvidia" and not key.startswith("/") and not values.get(f"{name}_checksum"):
        yield problem(
            f"{name}_checksum", "", f"sha256:digest of the key; or the path of a key on the machine in {name}"
        )


def _docker(values: Values) -> Iterator[str]:
    config = values.get("docker_config") or {}
    if "hosts" in config:
        yield "docker_config: found hosts; allowed: other keys, because the systemd unit of the engine sets this one"
    if "data-root" in config and values.get("docker_data_root"):
        yield "docker_config: found data-root; allowed: other keys, because docker_data_root sets this one"
    if values.get("docker_source") == "upstream" and values.get("docker_key_checksum") == "":
        yield "docker_key_checksum: found ''; allowed with docker_source upstream: sha256: and 64 hexadecimal digits"


def _ldap(values: Values) -> Iterator[str]:
    """Refuse a directory without an address, and one that would get passwords in clear text."""
    servers = [str(uri) for uri in values.get("ldap_uri") or []]
    if values.get("gpucluster_ldap") == "present":
        missing = [name for name in ("ldap_uri", "ldap_base") if not values.get(name)]
        yield from (problem(name, values.get(name), "a value, because gpucluster_ldap is present") for name in missing)
    if any(uri.startswith("ldap://") for uri in servers) and not inputs_types.is_true(values.get("ldap_start_tls")):
        yield problem(
            "ldap_uri", servers, "ldaps://, or ldap_start_tls: true, or passwords would be sent in clear text"
        )


def _monitoring(values: Values) -> Iterator[str]:
    for one, other in (("tls_certificate", "tls_key"), ("password", "password_hash")):
        names = [f"monitoring_{one}", f"monitoring_{other}"]
        missing = [name for name in names if not values.get(name)]
        if len(missing) == 1:
            (given,) = set(names) - set(missing)
            yield f"{given}: found a value; allowed with {missing[0]} only, because each needs the other"
    guarded = values.get("monitoring_password") and values.get("monitoring_password_hash")
    if guarded and not values.get("monitoring_tls_certificate"):
        allowed = "monitoring_tls_certificate only, because the password would cross the network in clear text"
        yield f"monitoring_password: found a value; allowed with {allowed}"


_PARTS: tuple[Callable[[Values], Iterator[str]], ...] = (
    *(_sizes, _imex, _checks, _slurm, _nccl, _driver, _docker),
    *(_ldap, _monitoring),
)
