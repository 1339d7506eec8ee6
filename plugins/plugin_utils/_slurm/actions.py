# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find the least disruptive way to apply a changed file to the daemons of Slurm: nothing, a reload or a restart."""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, diff, hostlist

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm.diff import Change, Difference

# The order in which daemons restart. slurmctld is reloaded after its own restart and before the restart of slurmd.
DAEMONS = ("slurmdbd", "slurmctld", "slurmd")

_TABLE = Path(__file__).with_name("actions.yml")


@dataclasses.dataclass
class Action:
    """What one change requires."""

    restart: set[str] = dataclasses.field(default_factory=set)
    reload: set[str] = dataclasses.field(default_factory=set)
    reasons: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    jobs_at_risk: bool = False

    def needs(self, means: dict[str, t.Any], reason: str) -> None:
        """Add what one reason requires."""
        self.restart.update(means.get("restart", ()))
        self.reload.update(means.get("reload", ()))
        self.reasons.append(reason)
        if "idle" in means:
            self.jobs_at_risk = True
            self.warnings.append(f"{reason}: no job should run meanwhile, as {means['idle']}")
        if "note" in means:
            self.warnings.append(f"{reason}: {means['note']}")

    def result(self) -> dict[str, t.Any]:
        """Return the action as plain data."""
        means = "restart" if self.restart else "reconfigure" if self.reload else "nothing"
        return {
            "action": means,
            "reconfigure": [name for name in DAEMONS if name in self.reload],
            "restart": [name for name in DAEMONS if name in self.restart],
            "jobs_at_risk": self.jobs_at_risk,
            "reasons": self.reasons,
            "warnings": self.warnings,
        }


@functools.cache
def rules() -> dict[str, dict[str, t.Any]]:
    """Return the table of actions by file."""
    return t.cast("dict[str, dict[str, t.Any]]", yaml_load(_TABLE.read_text(encoding="utf-8")))


def restart_keys(config: Mapping[str, t.Any], daemon: str = "slurmd", file: str = "slurm.conf") -> dict[str, t.Any]:
    """Return the settings that a daemon reads only at its start, sorted by name."""
    keys = {
        key.lower()
        for key, means in rules()[file].get("keys", {}).items()
        if daemon in means.get("restart", ()) and "until" not in means
    }
    return {key: config[key] for key in sorted(config) if key.lower() in keys and config[key] is not None}


def action(before: str, after: str, file: str, version: str, drained: Collection[str] = ()) -> dict[str, t.Any]:
    """Return what the change of a file requires of the daemons that read it; removal of drained nodes is no risk."""
    rule = rules().get(file)
    if rule is None:
        raise conf.ConfError(f"nothing is known of changes to {file!r}; known files: {', '.join(rules())}")
    result = Action()
    if diff.significant(before) == diff.significant(after):
        return result.result()
    if not diff.significant(before) and file in ("slurm.conf", "slurmdbd.conf"):
        result.needs(
            {"restart": ["slurmdbd"] if file == "slurmdbd.conf" else ["slurmctld", "slurmd"]}, f"{file} is new"
        )
    elif rule["form"] == "text":
        result.needs(rule["default"], f"{file} changed")
    else:
        difference = _difference(result, before, after, file)
        _keys(result, rule, difference, version)
        _warn_of_removals(result, difference, drained)
    if not result.restart and not result.reload:
        result.needs(rule["default"], f"the lines of {file} changed their order or form")
    if {"slurmctld", "slurmd"} <= result.restart:
        result.reload.discard("slurmctld")
    result.reload -= result.restart & {"slurmdbd"}
    return result.result()


def _difference(result: Action, before: str, after: str, file: str) -> Difference:
    """Return the difference; if the file on disk is unreadable, return an empty difference and add a warning."""
    try:
        return diff.compare(before, after)
    except ValueError as exc:
        conf.parse(after)  # the new file must be readable
        result.warnings.append(f"the {file} that is replaced could not be read: {exc}")
        return diff.Difference([], [], [], [], [])


def _keys(result: Action, rule: dict[str, t.Any], difference: Difference, version: str) -> None:
    """Add what changed keys, nodes and partitions require."""
    series = release.parse(version).series
    nodes = _node_means(rule, series)
    for change in difference.changes:
        defaults = change.where.lower() == "nodename=default"
        result.needs(nodes if defaults else _means(rule, change, series), str(change))
    per_host = rule["keys"] if rule["lines_have_keys"] else {}
    for change in difference.node_changes:
        result.needs(_joined(nodes, per_host.get(change.key, {})), str(change))
    for names, what in ((difference.nodes_added, "added"), (difference.nodes_removed, "removed")):
        if names:
            result.needs(nodes, f"nodes {what}: {hostlist.compress(names)}")


def _warn_of_removals(result: Action, difference: Difference, drained: Collection[str]) -> None:
    """Warn about removals that end jobs, as described in slurm.conf(5) and in the FAQ on removing nodes."""
    removed = [name for name in difference.nodes_removed if name not in drained]
    if removed:
        result.jobs_at_risk = True
        names = hostlist.compress(removed)
        result.warnings.append(f"jobs on {names} are ended when it leaves the configuration: drain it first")
    for name in difference.removed:
        if name.lower().startswith("partitionname="):
            result.jobs_at_risk = True
            result.warnings.append(f"jobs of {name} are cancelled when it leaves the configuration")


def _means(rule: dict[str, t.Any], change: Change, series: tuple[int, int]) -> dict[str, t.Any]:
    """Return what one changed key requires."""
    per_line = rule["lines_have_keys"] or not change.where
    special = {key.lower(): means for key, means in rule["keys"].items()}.get(change.key.lower()) if per_line else None
    if not special or _past(special, series) or not _touches(special, change):
        return t.cast("dict[str, t.Any]", rule["default"])
    return _joined(rule["default"], special)


def _joined(default: dict[str, t.Any], special: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return what a key requires in addition to what every change of the file requires."""
    return {**default, **special, "restart": [*default.get("restart", ()), *special.get("restart", ())]}


def _past(means: dict[str, t.Any], series: tuple[int, int]) -> bool:
    """Return whether a release is newer than the last one that needs this action."""
    return "until" in means and series > release.parse(means["until"]).series


def _touches(means: dict[str, t.Any], change: Change) -> bool:
    """Return whether a change concerns the item that needs this action."""
    item = means.get("item", "")
    return not item or (item in _items(change.before)) != (item in _items(change.after))


def _items(value: str | None) -> set[str]:
    """Return the items of a value without their own values."""
    return {item.partition("=")[0].strip().lower() for item in (value or "").split(",")}


def _node_means(rule: dict[str, t.Any], series: tuple[int, int]) -> dict[str, t.Any]:
    """Return what a change of nodes requires."""
    if "nodes_reload_since" not in rule or series >= release.parse(rule["nodes_reload_since"]).series:
        return t.cast("dict[str, t.Any]", rule["default"])
    return {"restart": ["slurmctld", "slurmd"]}
