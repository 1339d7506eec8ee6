# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Merge the settings for a cluster of GPU machines with the settings of a site."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import (
    actions,
    check_nodes,
    conf,
    elastic,
    hostlist,
    node_lines,
    scale,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    Inputs = Mapping[str, t.Any]
    Config = dict[str, t.Any]

JOB_LOG = "/var/log/slurm/jobs.log"
_HERE = ("localhost", "127.0.0.1", "::1")
# Control group controllers that slurmd needs to contain jobs.
CONTROLLERS = ("cpu", "cpuset", "memory")
# The first release whose slurmctld serves its figures without a crash, and the port that Prometheus reads.
METRICS_SINCE = "25.11.7"
_METRICS_PORT = "6817"
# Words of PrivateData with which slurmctld serves its figures to nobody, or to users of Slurm only.
_PRIVATE = re.compile("account|event|job|node|partition|reservation|usage|user|all", re.IGNORECASE)


def slurm_conf(inputs: Inputs, cgroup: bool = False) -> Config:
    """Return the settings of slurm.conf; mappings of the site are merged with the defaults."""
    parts = (
        *(_cluster(inputs), _jobs(inputs, cgroup), _shares(inputs), _health(inputs), _scheduling(inputs)),
        *(_sized(inputs), _accounting(inputs)),
        *(elastic.settings(inputs.get("slurm_elastic"), inputs["slurm_nodes"]), inputs["slurm_config"]),
    )
    config: Config = {}
    for part in parts:
        config = merged(config, part, join=True)
    return config


def cgroup_conf(inputs: Inputs, cgroup: bool = False) -> Config:
    """Return the settings of cgroup.conf."""
    ours = {"CgroupPlugin": "disabled"}
    if cgroup:
        constrained = dict.fromkeys(("ConstrainCores", "ConstrainDevices", "ConstrainRAMSpace"), True)
        return merged({"CgroupPlugin": "autodetect", **constrained}, inputs["slurm_cgroup_config"])
    return merged(ours, inputs["slurm_cgroup_config"])


def mpi_conf(inputs: Inputs) -> Config:
    """
    Return the settings of mpi.conf.

    PMIx 5 shares its data in files below /tmp by default (gds/shmem2). Processes with another /tmp than slurmstepd
    cannot find them: those of job_container/tmpfs and of most containers. Slurm passes this setting to every step.
    """
    return merged({"PMIxEnv": {"PMIX_MCA_gds": "hash"}}, inputs["slurm_mpi_config"])


def slurmdbd_conf(inputs: Inputs) -> Config:
    """Return the settings of slurmdbd.conf."""
    ours = {
        "DbdHost": inputs["slurm_database"],
        "DbdPort": 6819,
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StoragePass": inputs.get("slurm_database_password") or None,
        "StorageLoc": "slurm_acct_db",
    }
    return merged(ours, inputs["slurm_database_config"])


def database(inputs: Inputs) -> dict[str, t.Any]:
    """Return the addresses of slurmdbd and of its database; unset values are the defaults of Slurm."""
    config = slurmdbd_conf(inputs)
    host = config["StorageHost"] or "localhost"
    return {
        "port": config["DbdPort"] or 6819,
        "host": host,
        "here": host in (*_HERE, inputs["slurm_database"]),
        "storage_port": config.get("StoragePort") or 3306,
        "user": config["StorageUser"] or "slurm",
        "password": config["StoragePass"] or "",
        "name": config["StorageLoc"] or "slurm_acct_db",
    }


def servers(inputs: Inputs) -> str:
    """Return the controllers with the port that slurmd and sackd connect to: the first one of a range."""
    given = _value(inputs["slurm_config"], "SlurmctldPort")
    port = str(given or 6817).split("-", maxsplit=1)[0]
    return ",".join(f"{host}:{port}" for host in inputs["slurm_controllers"])


def slurmd_digest(inputs: Inputs) -> str:
    """Return a digest of the settings that slurmd reads only at its start; each node uses it to decide on a restart."""
    keys = actions.restart_keys(slurm_conf(inputs))
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def on_both(inputs: Inputs) -> list[str]:
    """Return the machines that are both controllers and compute nodes."""
    nodes = {host for group in inputs["slurm_nodes"] for host in hostlist.expand(group["hosts"])}
    return [host for host in inputs["slurm_controllers"] if host in nodes]


def merged(ours: Mapping[str, t.Any], given: Mapping[str, t.Any], join: bool = False) -> Config:
    """
    Merge the default settings with those of a site; keys are compared without case, as in Slurm.

    A key that the site sets twice remains twice, so that the input check finds it. With O(join) a mapping is merged
    with the default; otherwise it replaces the default.
    """
    result = dict(ours)
    names = {key.lower(): key for key in ours}
    for key, value in (given or {}).items():
        name = names.pop(str(key).lower(), key)
        old = result.get(name)
        both = join and isinstance(value, Mapping) and isinstance(old, Mapping)
        result[name] = merged_values(old, value) if both else value
    return result


def merged_values(old: t.Any, new: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the merged parameters of one key; those of the site take precedence."""
    return {**old, **new}


def metrics_refusal(version: str, config: Mapping[str, t.Any]) -> str:
    """Return why Prometheus cannot read the figures of slurmctld, or an empty string if it can."""
    if release.parse(version) < release.parse(METRICS_SINCE):
        return f"slurm_version is {version}, and slurmctld serves its figures from {METRICS_SINCE} on"
    port = str(_value(config, "SlurmctldPort") or _METRICS_PORT).split("-", maxsplit=1)[0]
    if port != _METRICS_PORT:
        return f"SlurmctldPort is {port}, and Prometheus reads {_METRICS_PORT}"
    users = _value(config, "MetricsAuthUsers")
    if users:
        return f"MetricsAuthUsers is {users}, and Prometheus has no user of Slurm"
    private = conf.value_text("PrivateData", _value(config, "PrivateData") or "")
    parameters = conf.value_text("MetricsParameters", _value(config, "MetricsParameters") or "")
    if _PRIVATE.search(private) and "ignore_private_data" not in parameters.lower():
        return f"PrivateData is {private}, and slurmctld then serves its figures to users of Slurm only"
    return ""


def has_metrics(version: str, config: Mapping[str, t.Any]) -> bool:
    """Return whether slurmctld can serve its figures to Prometheus, and the site has not removed MetricsType."""
    removed = any(str(name).lower() == "metricstype" for name in config) and not _value(config, "MetricsType")
    return not removed and not metrics_refusal(version, config)


def has_gpus(nodes: Iterable[Mapping[str, t.Any]]) -> bool:
    """Return whether a node of the cluster has GPUs."""
    return any(group["record"]["gpus"]["count"] for group in nodes)


def accounts_given(inputs: Inputs) -> bool:
    """Return whether the site lists accounts, users or QOS; Slurm then enforces them."""
    lists = ("slurm_qos", "slurm_accounts", "slurm_users")
    return bool(inputs["slurm_database"]) and any(inputs.get(name) for name in lists)


def _cluster(inputs: Inputs) -> Config:
    return {
        "ClusterName": inputs["slurm_cluster_name"],
        "SlurmctldHost": list(inputs["slurm_controllers"]),
        "SlurmctldParameters": {"enable_configless": True, **elastic.parameters(inputs.get("slurm_elastic"))},
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "StateSaveLocation": inputs["slurm_state_directory"],
        "SlurmdSpoolDir": "/var/spool/slurmd",
        # The cores of a GPU are then those of one socket.
        "SlurmdParameters": {"numa_node_as_socket": has_gpus(inputs["slurm_nodes"])},
        # A node that was down accepts jobs again when it registers with a valid configuration.
        "ReturnToService": 2,
        "MetricsType": "metrics/openmetrics" if inputs["slurm_metrics"] else None,
    }


def _jobs(inputs: Inputs, cgroup: bool) -> Config:
    return {
        "MpiDefault": "pmix",
        "ProctrackType": "proctrack/cgroup" if cgroup else "proctrack/linuxproc",
        "TaskPlugin": [*(["task/cgroup"] if cgroup else []), "task/affinity"],
        "JobAcctGatherType": "jobacct_gather/cgroup" if cgroup else "jobacct_gather/linux",
        "PrologFlags": ["Alloc", "Contain", *(["X11"] if inputs["slurm_x11"] else [])],
        # Each program runs the executable files of a directory, such as /etc/slurm/prolog.d.
        "Prolog": "/etc/slurm/prolog",
        "Epilog": "/etc/slurm/epilog",
        "TaskProlog": "/etc/slurm/task_prolog" if inputs["slurm_task_prolog"] else None,
        "JobContainerType": "job_container/tmpfs" if inputs["slurm_private_tmp"] else None,
        "RebootProgram": "/usr/sbin/reboot",
        # A machine with GPUs takes minutes to boot; after this time `scontrol reboot` sets it to DOWN.
        "ResumeTimeout": 900,
        # Pinned memory: the limit of the node applies, not that of the login machine.
        "PropagateResourceLimitsExcept": "MEMLOCK",
        # Five times MessageTimeout, as slurmd requires.
        "UnkillableStepTimeout": 300,
        "KillWait": 30,
    }


def _shares(inputs: Inputs) -> Config:
    """Return the resources of a job that requests none, so that jobs share a node; those of the smallest node."""
    if not inputs.get("slurm_share_nodes"):
        return {}
    lines = node_lines.node_lines(inputs["slurm_nodes"], inputs.get("slurm_memory_headroom_percent", 5))
    offers = [check_nodes.offer({key.lower(): value for key, value in line.items()}) for line in lines]
    memory = [offer.memory // offer.cpus for offer in offers if offer.cpus]
    gpus = [sum(hardware_record.gres_counts(group["record"]).values()) for group in inputs["slurm_nodes"]]
    cpus = [offer.cpus // devices for offer, devices in zip(offers, gpus) if devices]
    return {"DefMemPerCPU": min(memory, default=0) or None, "DefCPUPerGPU": min(cpus, default=0) or None}


def _health(inputs: Inputs) -> Config:
    program = inputs["slurm_health_check_program"]
    return {
        "HealthCheckProgram": program,
        "HealthCheckInterval": None,  # _sized() sets it; the key has its place here
        # Spread over the interval, not all nodes at the same time.
        "HealthCheckNodeState": ["ANY", "CYCLE"] if program else None,
    }


def _scheduling(inputs: Inputs) -> Config:
    plugin = inputs["slurm_topology_plugin"]
    return {
        "SchedulerType": "sched/backfill",
        # A job whose prolog fails is requeued; the default of Slurm holds it indefinitely.
        "SchedulerParameters": {"nohold_on_prolog_fail": True},
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": ["CR_Core_Memory"],
        "PriorityType": "priority/multifactor" if inputs["slurm_database"] else "priority/basic",
        "GresTypes": ["gpu"] if has_gpus(inputs["slurm_nodes"]) else [],
        "TopologyPlugin": f"topology/{plugin}" if plugin else None,
    }


def _sized(inputs: Inputs) -> Config:
    """Return what follows the number of nodes."""
    sized = scale.settings(sum(len(hostlist.expand(group["hosts"])) for group in inputs["slurm_nodes"]))
    return sized if inputs["slurm_health_check_program"] else {**sized, "HealthCheckInterval": None}


def _accounting(inputs: Inputs) -> Config:
    host, completion = inputs["slurm_database"], inputs["slurm_job_completion"]
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd" if host else None,
        "AccountingStorageHost": host,
        "AccountingStoragePort": _value(inputs["slurm_database_config"], "DbdPort") if host else None,
        "AccountingStorageTRES": ["gres/gpu"] if host and has_gpus(inputs["slurm_nodes"]) else [],
        # Users in the lists can submit jobs, within their limits. Without lists all users can.
        "AccountingStorageEnforce": ["associations", "limits", "qos"] if accounts_given(inputs) else None,
        "JobCompType": "jobcomp/filetxt" if completion else None,
        "JobCompLoc": JOB_LOG if completion else None,
    }


def _value(config: Mapping[str, t.Any], key: str) -> t.Any:
    """Return the value that a site sets for a key, in any case; None if the key is removed."""
    found = [value for name, value in config.items() if str(name).lower() == key.lower()]
    return found[-1] if found and not conf.is_absent(found[-1]) else None
