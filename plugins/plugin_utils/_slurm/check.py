# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find errors in a Slurm configuration before any daemon reads it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import check_nodes, conf, hostlist, keys, values

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Lines = Sequence[Mapping[str, t.Any]]

_ALWAYS_KNOWN = ("ALL", "EMPTY")
_SHOWN = 5
_INPUTS = {"nodename": "slurm_node_config", "partitionname": "slurm_partitions"}
# The memory of a job that requests none, in MiB, and whether it is for each CPU.
_MEMORY = {"defmempercpu": "DefMemPerCPU", "defmempernode": "DefMemPerNode"}
# slurmd warns if UnkillableStepTimeout is below this multiple of MessageTimeout. The values are the defaults of Slurm.
_UNKILLABLE = 5
_TIMEOUTS = {"messagetimeout": 10, "unkillablesteptimeout": 60}


@dataclasses.dataclass
class Cluster:
    """One configuration as data, and the data that it is compared with."""

    config: Mapping[str, t.Any]
    lines: Lines
    file: str = "slurm.conf"
    version: str = "26.05"
    variable: str = "slurm_config"
    gpus: Mapping[str, int] | None = None
    records: Mapping[str, t.Any] | None = None
    qos: Sequence[str] | None = None

    @property
    def given(self) -> dict[str, t.Any]:
        """Return the keys of the file in lower case, without those that are removed."""
        return {str(key).lower(): value for key, value in self.config.items() if not conf.is_absent(value)}

    def blame(self, first: str) -> str:
        """Return the input that defines the lines with this first key; slurm_config defines the other keys."""
        return _INPUTS.get(first.lower(), self.variable) if self.variable == "slurm_config" else self.variable

    def of(self, key: str) -> list[dict[str, t.Any]]:
        """Return the lines of one kind with their keys in lower case, without DEFAULT lines."""
        found = [{str(name).lower(): value for name, value in line.items()} for line in self.lines]
        return [
            line
            for line in found
            if key.lower() in line
            and not conf.is_absent(line[key.lower()])
            and str(line[key.lower()]).upper() != "DEFAULT"
        ]


def problems(cluster: Cluster) -> list[str]:
    """Return a message for each setting that Slurm would refuse or misinterpret."""
    release.parse(cluster.version)
    found = values.key_problems(
        cluster.config, _file_keys(cluster), f"{cluster.variable} ({cluster.file})", cluster.version
    )
    for line in cluster.lines:
        found.extend(_line_problems(cluster, line))
    if cluster.file != "slurm.conf":
        return found
    hosts, host_problems = _hosts(cluster)
    found.extend(host_problems)
    found.extend(_nodeset_problems(cluster, hosts))
    found.extend(_partition_problems(cluster, hosts))
    found.extend(_gres_problems(cluster))
    found.extend(_hardware_problems(cluster))
    if not found:  # needs hostlists and numbers that can be read
        found.extend(_memory_problems(cluster))
    found.extend(_qos_problems(cluster))
    found.extend(_timeout_problems(cluster))
    return found


def _file_keys(cluster: Cluster) -> dict[str, keys.Key]:
    """Return the known keys of the file, without the keys of lines that have several keys."""
    known = keys.table(cluster.file)
    if not known:
        raise conf.ConfError(f"no keys are known of {cluster.file!r}; known files: {', '.join(_files())}")
    return known


def _files() -> list[str]:
    """Return the files whose keys are known."""
    return [name for name in keys.tables() if " " not in name]


def _line_problems(cluster: Cluster, line: Mapping[str, t.Any]) -> list[str]:
    """Return the errors in the keys of one line."""
    first = next(iter(line), "")
    kind = keys.line_key(first) if cluster.file == "slurm.conf" else ""
    where = f"{cluster.blame(first)} ({cluster.file}, {first}={_label(line.get(first))})"
    if cluster.file == "slurm.conf" and not kind:
        return [f"{where}: a line begins with one of {', '.join(keys.LINE_KEYS)}"]
    known = dict(keys.table(cluster.file, kind))
    known.setdefault(first.lower(), keys.Key(first, "string"))
    return values.key_problems(line, known, where, cluster.version)


def _label(value: t.Any) -> str:
    """Return a value in a form short enough for a message."""
    try:
        return conf.value_text("NodeName", value)
    except ValueError:
        return str(value)


def _names(value: t.Any) -> list[str]:
    """Return the host names in a value."""
    return [] if conf.is_absent(value) else hostlist.expand(conf.value_text("Nodes", value))


def _some(names: Iterable[str]) -> str:
    """Return the first few names."""
    return words.listed(sorted(names, key=hostlist.natural_key), _SHOWN)


def _hosts(cluster: Cluster) -> tuple[set[str], list[str]]:
    """Return every host of the NodeName lines, and the errors in these lines."""
    hosts: set[str] = set()
    found: list[str] = []
    for line in cluster.of("NodeName"):
        try:
            names = _names(line["nodename"])
        except ValueError as exc:
            found.append(f"{cluster.blame('NodeName')}: NodeName: {exc}")
            continue
        twice = hosts.intersection(names)
        if twice:
            found.append(f"{cluster.blame('NodeName')}: more than one NodeName line names {_some(twice)}")
        hosts.update(names)
        found.extend(f"{cluster.blame('NodeName')}: {problem}" for problem in _count_problems(line, len(names)))
    return hosts, found


def _count_problems(line: Mapping[str, t.Any], nodes: int) -> t.Iterator[str]:
    """Yield the lists of a NodeName line that do not fit its nodes, by the rules of slurmctld."""
    for name, allowed in (("Port", f"one port, or {nodes}"), ("NodeAddr", "as many"), ("NodeHostname", "as many")):
        try:
            count = len(_names(line.get(name.lower())))
        except ValueError:  # an address that is no hostlist, such as [2001:db8::1]
            continue
        if count and (count not in (1, nodes) if name == "Port" else count < nodes):
            value = conf.value_text(name, line[name.lower()])
            yield f"{name} is {value!r}, which is {count} for {nodes} nodes of {line['nodename']}. Allowed: {allowed}"


def _nodeset_problems(cluster: Cluster, hosts: set[str]) -> list[str]:
    """Return the errors in the hosts and features of nodesets."""
    found: list[str] = []
    features = {
        feature.strip().split("=")[0]
        for line in cluster.of("NodeName")
        for key in ("feature", "features")
        for feature in conf.value_text(key, line.get(key) or "").split(",")
    }
    for line in cluster.of("NodeSet"):
        where = f"{cluster.variable}: NodeSet {line['nodeset']}"
        found.extend(_unknown(line.get("nodes"), hosts, where, "no NodeName line names"))
        wanted = line.get("feature")
        if wanted and wanted not in features:
            found.append(f"{where}: no node has the feature {wanted!r}{values.nearest(wanted, sorted(features))}")
        if line["nodeset"] in hosts:
            found.append(f"{where}: a node has the same name")
    return found


def _partition_problems(cluster: Cluster, hosts: set[str]) -> list[str]:
    """Return the errors in the nodes and names of partitions."""
    partitions = cluster.of("PartitionName")
    names = [str(line["partitionname"]) for line in partitions]
    known = hosts | {str(line["nodeset"]) for line in cluster.of("NodeSet")} | set(_ALWAYS_KNOWN)
    found = [
        f"{cluster.blame('PartitionName')}: more than one PartitionName line names {name}"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    for line in partitions:
        where = f"{cluster.blame('PartitionName')}: PartitionName {line['partitionname']}"
        found.extend(_unknown(line.get("nodes"), known, where, "no NodeName or NodeSet line names"))
        other = line.get("alternate")
        if other and other not in names:
            found.append(f"{where}: Alternate names the unknown partition {other!r}")
    default = [str(line["partitionname"]) for line in partitions if _is_true(line.get("default"))]
    if len(default) > 1:
        found.append(
            f"{cluster.blame('PartitionName')}: only one partition can have Default=YES, found {', '.join(default)}"
        )
    return found + _lonely(cluster, hosts, partitions)


def _lonely(cluster: Cluster, hosts: set[str], partitions: Lines) -> list[str]:
    """Return the nodes of the cluster that are in no partition: no job can run there."""
    try:
        named = {name for line in partitions for name in _names(line.get("nodes"))}
        future = {name for line in cluster.of("NodeName") if _is_future(line) for name in _names(line["nodename"])}
    except ValueError:
        return []
    if cluster.records is None or cluster.of("NodeSet") or any(name.upper() == "ALL" for name in named):
        return []
    alone = hosts - named - future
    where = f"{cluster.blame('PartitionName')}: no PartitionName line names"
    ends = "so no job can run there. Allowed: Nodes with these names, or ALL"
    return [f"{where} {_some(alone)}, {ends}"] if alone else []


def _is_future(line: Mapping[str, t.Any]) -> bool:
    """Return whether a node need not exist yet."""
    return str(line.get("state", "")).upper() == "FUTURE"


def _unknown(value: t.Any, known: set[str], where: str, why: str) -> list[str]:
    """Return the unknown names in a value."""
    try:
        names = [name for name in _names(value) if name not in known and name.upper() not in _ALWAYS_KNOWN]
    except ValueError as exc:
        return [f"{where}: {exc}"]
    if not names:
        return []
    near = values.nearest(names[0], sorted(known)) if len(names) == 1 else ""
    return [f"{where}: {why} {_some(names)}{near}"]


def _is_true(value: t.Any) -> bool:
    """Return whether Slurm reads a value as yes."""
    return str(value).lower() in ("yes", "up", "true", "1")


def _gres_problems(cluster: Cluster) -> list[str]:
    """Return the errors in the GRES of nodes: their form, and GresTypes."""
    declared = set(conf.value_text("GresTypes", cluster.given.get("grestypes") or "").split(","))
    found: list[str] = []
    for line in cluster.of("NodeName"):
        where = f"{cluster.blame('NodeName')}: NodeName {_label(line['nodename'])}"
        for item in check_nodes.gres(line.get("gres")):
            if isinstance(item, str):
                found.append(f"{where}: Gres {item!r} is not of the form name[:type][:count]")
            elif item.name not in declared:
                found.append(f"{where}: Gres {item.text!r} needs {item.name!r} in GresTypes")
    return found


def _hardware_problems(cluster: Cluster) -> list[str]:
    """Return what the lines of nodes say of the hardware and the records do not, with the hosts."""
    known: dict[str, tuple[int | None, t.Any]] = {
        host: (count, None) for hosts, count in (cluster.gpus or {}).items() for host in _names(hosts)
    }
    known.update({host: (None, record) for hosts, record in (cluster.records or {}).items() for host in _names(hosts)})
    found: list[str] = []
    for line in cluster.of("NodeName"):
        try:
            names = _names(line["nodename"])
        except ValueError:
            continue
        # Machines with one record are judged once.
        alike: dict[tuple[int | None, int], list[str]] = {}
        for name in filter(known.__contains__, names):
            alike.setdefault((known[name][0], id(known[name][1])), []).append(name)
        where = f"{cluster.blame('NodeName')}: NodeName {_label(line['nodename'])}"
        for hosts in alike.values():
            problems_of = _differences(cluster, line, *known[hosts[0]])
            found += [f"{where}: {problem} for {_some(hosts)}" for problem in problems_of]
    return found


def _differences(cluster: Cluster, line: Mapping[str, t.Any], gpus: int | None, record: t.Any) -> list[str]:
    """Return what a line says of machines with one number of GPUs or one record, and should not."""
    items = list(check_nodes.gres(line.get("gres")))
    gres = [item for item in items if isinstance(item, check_nodes.Gres)]
    readable = len(gres) == len(items)  # a wrong form has its own message
    if record is None:
        return check_nodes.count_problems(gres, gpus or 0) if readable else []
    types = check_nodes.type_problems(gres, record) if readable else []
    return types + check_nodes.size_problems(line, record, cluster.given)


def _memory_problems(cluster: Cluster) -> list[str]:
    """Return each default of the memory of a job that no node of a line can give to a job with all of its CPUs."""
    found: list[str] = []
    lines = [(_label(line["nodename"]), set(_names(line["nodename"])), line) for line in cluster.of("NodeName")]
    for partition in cluster.of("PartitionName"):
        mine = {name for name in _names(partition.get("nodes")) if name.upper() != "ALL"}
        whole = any(name.upper() == "ALL" for name in _names(partition.get("nodes")))
        for label, names, line in lines:
            if whole or not mine.isdisjoint(names):
                found += _too_much(cluster, partition, label, check_nodes.offer(line))
    return list(dict.fromkeys(found))


def _too_much(cluster: Cluster, partition: Mapping[str, t.Any], label: str, offer: check_nodes.Offer) -> list[str]:
    """Return the default of a partition, or else of the cluster, that is more than the nodes of one line have."""
    own = any(check_nodes.number(partition.get(key)) for key in _MEMORY)
    values_of = partition if own else cluster.given
    where = f"{cluster.blame('PartitionName')}: PartitionName {partition['partitionname']}" if own else cluster.variable
    for key, name in _MEMORY.items():
        value = check_nodes.number(values_of.get(key)) or 0
        if value > offer.memory:
            return [
                f"{where}: {name} is {value}, but RealMemory of {label} leaves {offer.memory} MiB. A job without --mem"
                f" would stay pending there (BadConstraints). Allowed: up to {offer.memory}, or a larger RealMemory"
            ]
    return []


def _qos_problems(cluster: Cluster) -> list[str]:
    """Return each QOS that a partition uses and that is not defined."""
    if cluster.qos is None:
        return []
    known = {*cluster.qos, "normal"}
    found: list[str] = []
    for line in cluster.of("PartitionName"):
        for key, name in (("qos", "QOS"), ("allowqos", "AllowQos"), ("denyqos", "DenyQos")):
            for item in filter(None, conf.value_text(name, line.get(key) or "").split(",")):
                if item not in known and item.upper() != "ALL":
                    near = values.nearest(item, sorted(known))
                    found.append(
                        f"{cluster.blame('PartitionName')}: PartitionName {line['partitionname']}: {name} names the "
                        f"unknown QOS {item!r}{near}"
                    )
    return found


def _timeout_problems(cluster: Cluster) -> list[str]:
    """Return an error if UnkillableStepTimeout is too short for MessageTimeout."""
    message, unkillable = (str(cluster.given.get(name, default)) for name, default in _TIMEOUTS.items())
    if not (message.isdigit() and unkillable.isdigit()) or int(unkillable) >= _UNKILLABLE * int(message):
        return []
    return [
        f"{cluster.variable}: UnkillableStepTimeout is {unkillable}, expected {_UNKILLABLE * int(message)} or more, "
        f"{_UNKILLABLE} times MessageTimeout ({message})"
    ]
