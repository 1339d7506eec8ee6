# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults in the inputs of the role slurm before any host is contacted."""

from __future__ import annotations

import json
import re
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import rules
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import check, elastic, files, settings, topology

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Inputs = Mapping[str, t.Any]

# Inputs that the common rules judge one by one.
_ALONE = (
    "slurm_cluster_name",
    "slurm_config",
    "slurm_pam_groups",
    "slurm_pam_users",
    "slurm_private_tmp_directory",
    "slurm_state_directory",
    "slurm_user_uid",
    "slurm_version",
)
_LOCAL_STATE = "/var/spool/slurmctld"
# They take a node that powers down out of its block.
_BLOCK_LOSERS = ("25.11.0", "25.11.1", "25.11.2")
_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")


def problems(inputs: Inputs) -> list[str]:
    """Return a sentence for each fault; a part that would only repeat an earlier fault is skipped."""
    found = list(rules.judge({name: inputs[name] for name in _ALONE}).faults)
    for part in _PARTS:
        found.extend(part(inputs))
    return found or list(_files(inputs))


def accounts_problems(inputs: Inputs) -> list[str]:
    """Return the faults of QOS, accounts and users that can be found without the accounting database."""
    given = {kind: inputs[f"slurm_{kind}"] for kind in ("qos", "accounts", "users")}
    result = ArgumentSpecValidator(accounts.OPTIONS).validate(given)
    if result.error_messages:
        return [f"{_accounts_input(str(message))}: {message}" for message in result.error_messages]
    lists = result.validated_parameters
    wanted = accounts.wanted(lists["qos"], lists["accounts"], lists["users"])
    return [f"{_accounts_input(problem)}: {problem}" for problem in wanted.problems]


def topology_problems(inputs: Inputs) -> list[str]:
    """Return the faults of the topology."""
    try:
        if inputs["slurm_topology_plugin"]:
            topology.render(inputs["slurm_topology"], inputs["slurm_topology_plugin"], **files.topology_options(inputs))
    except topology.TopologyError as exc:
        return [f"slurm_topology: {problem}" for problem in exc.problems]
    except ValueError as exc:
        return [f"slurm_topology: {exc}"]
    return []


def _controllers(inputs: Inputs) -> Iterator[str]:
    hosts = inputs["slurm_controllers"]
    if not hosts:
        yield (
            "slurm_controllers is empty. Put one machine into the group slurm_controller, or two with"
            " slurm_state_directory on shared storage."
        )
    if len(hosts) > 1 and inputs["slurm_state_directory"] == _LOCAL_STATE:
        yield (
            f"slurm_controllers has {', '.join(hosts)}, but slurm_state_directory is {_LOCAL_STATE}, which each machine"
            " has for itself. Set it to a directory on storage that they share, or leave one machine in the group"
            " slurm_controller."
        )


def _jobs_on_controllers(inputs: Inputs) -> Iterator[str]:
    both = settings.on_both(inputs)
    if both and not inputs["slurm_jobs_on_controllers"]:
        yield (
            f"{', '.join(both)} is both a controller and a compute node: a job that takes all memory takes the cluster"
            " down. Take it out of one group, or set slurm_jobs_on_controllers to true."
        )


def _pam(inputs: Inputs) -> Iterator[str]:
    groups, containment = inputs["slurm_pam_groups"], inputs["slurm_containment"]
    if inputs["slurm_pam_adopt"] and (containment == "none" or not groups):
        yield (
            f"slurm_pam_adopt is true, slurm_containment is {containment} and slurm_pam_groups is {json.dumps(groups)}:"
            " it wants slurm_containment cgroup (or auto), and the groups that may use sudo, such as [sudo]."
        )


def _elastic(inputs: Inputs) -> Iterator[str]:
    return elastic.problems(inputs["slurm_elastic"], inputs["slurm_nodes"])


def _blocks(inputs: Inputs) -> Iterator[str]:
    cloud = any(group["config"].get("State") == "CLOUD" for group in inputs["slurm_nodes"]) or inputs["slurm_elastic"]
    if cloud and inputs["slurm_topology_plugin"] == "block" and inputs["slurm_version"] in _BLOCK_LOSERS:
        yield (
            f"slurm_version is {inputs['slurm_version']}, which takes nodes that power down out of their block. With"
            " elastic nodes and slurm_topology_plugin=block, allowed: other releases, such as 25.11.3."
        )


def _database(inputs: Inputs) -> Iterator[str]:
    host = inputs["slurm_database"]
    if re.search("[, ]", host):
        yield (
            f"slurm_database is {json.dumps(host)}, but slurmdbd runs on one machine: two would write to two databases."
            " Leave one machine in the group slurm_database."
        )
    if not host and any(inputs[name] for name in ("slurm_qos", "slurm_accounts", "slurm_users")):
        yield (
            "slurm_qos, slurm_accounts or slurm_users is given, but slurm_database is empty: accounts are kept in the"
            " database. Put one machine into the group slurm_database, or empty the lists."
        )


def _metrics(inputs: Inputs) -> Iterator[str]:
    reason = inputs["slurm_metrics"] and settings.metrics_refusal(inputs["slurm_version"], inputs["slurm_config"] or {})
    if reason:
        yield f"monitoring_slurm_endpoint is true, but {reason}. Set it to false, or change that."


def _mig(inputs: Inputs) -> Iterator[str]:
    divided = [group["hosts"] for group in inputs["slurm_nodes"] if group["record"]["gpus"].get("mig")]
    if divided and not any(str(option).startswith("--with-nvml=") for option in inputs["slurm_configure_options"]):
        yield (
            f"slurm_configure_options is {json.dumps(inputs['slurm_configure_options'])}, but {', '.join(divided)} have"
            " slices of GPUs (gpus.mig): slurmd finds them with NVML only. Add --with-nvml= with the directory of NVML"
            " on the build machine."
        )


def _source(inputs: Inputs) -> Iterator[str]:
    checksum = inputs["slurm_source_checksum"]
    if inputs["slurm_source"] != "distribution" and not _CHECKSUM.fullmatch(checksum):
        yield (
            f"slurm_source_checksum is {json.dumps(checksum)}; it has to be sha256:, sha384: or sha512: and the digest"
            f" of {inputs['slurm_source_url']}. Known without being set:"
            f" {', '.join(inputs['slurm_known_checksums'])}."
        )


def _files(inputs: Inputs) -> Iterator[str]:
    """Judge the files for the daemons."""
    records = {group["hosts"]: group["record"] for group in inputs["slurm_nodes"]}
    parts: tuple[tuple[str, str, t.Callable[[], Mapping[str, t.Any]]], ...] = (
        ("slurm.conf", "slurm_config", lambda: settings.slurm_conf(inputs)),
        ("cgroup.conf", "slurm_cgroup_config", lambda: inputs["slurm_cgroup_config"]),
        ("mpi.conf", "slurm_mpi_config", lambda: settings.mpi_conf(inputs)),
        ("slurmdbd.conf", "slurm_database_config", lambda: settings.slurmdbd_conf(inputs)),
    )
    for name, variable, config in parts:
        try:
            lines = files.lines(inputs) if name == "slurm.conf" else []
            yield from check.problems(
                check.Cluster(
                    config(), lines, name, inputs["slurm_version"], variable, records=records if lines else None
                )
            )
        except ValueError as exc:
            yield f"{variable}: {exc}"
    yield from accounts_problems(inputs)


def _accounts_input(message: str) -> str:
    """Return the input of a message, from the kind at its start or its end."""
    for kind, one in (("qos", "qos"), ("accounts", "account"), ("users", "user")):
        begins = re.match(rf"{one}|elements value for option '{kind}'", message, re.IGNORECASE)
        if begins or re.search(rf"found in {kind}\b", message):
            return f"slurm_{kind}"
    return "slurm_qos, slurm_accounts, slurm_users"


_PARTS: tuple[t.Callable[[Inputs], t.Iterable[str]], ...] = (
    _controllers,
    _jobs_on_controllers,
    _pam,
    _elastic,
    _blocks,
    _database,
    topology_problems,
    _metrics,
    _mig,
    _source,
)
