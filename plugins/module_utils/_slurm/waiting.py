# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Query Slurm until it is in a wanted state, for a limited time."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

# Seconds between two queries. A long wait queries the controller less often.
_PAUSES = {60: 0.5, 600: 2.0}
_LONGEST_PAUSE = 5.0
# The most nodes in one argument.
_ASKED = 500
# Exit status of getent for a name that is unknown.
_NO_NAME = 2
_JOBS = "%T|%A %j of %u, %T, %L left"


class Found(t.NamedTuple):
    """
    What one query found.

    C(nodes) has, by name, whether the node registered, and its state with the reason. C(jobs) describes the jobs.
    C(missing) means that waiting is useless: Slurm's commands are not installed, or the nodes are in no partition.
    """

    reached: bool
    problem: str = ""
    nodes: t.Mapping[str, tuple[bool, str]] = {}
    jobs: t.Sequence[str] = ()
    missing: bool = False


def controller(run: Runner) -> Found:
    """Return whether a controller answers."""
    code, out, err = run(["scontrol", "ping"])
    return Found(" is UP" in out, (err or out).strip(), missing=code == bounded_run.MISSING)


def nodes(run: Runner, names: Sequence[str]) -> Found:
    """Return whether slurmd of each node has registered. A node that Slurm does not know has an empty state."""
    # All nodes: the names of ten thousand would be too long for an argument.
    code, out, err = run(["sinfo", "--all", "--Node", "--noheader", f"--format={slurm_nodes.FORMAT}"])
    try:
        found = slurm_nodes.parse(out) if code == 0 else []
    except slurm_nodes.OutputError as exc:
        return Found(False, str(exc))
    known = {node.name: (node.registered, node.condition) for node in found}
    states = {name: known.get(name, (False, "")) for name in names}
    outside = _outside(run, [name for name in names if name not in known]) if code == 0 else {}
    # Slurm shows such a node as idle for a while, and a job on it hangs.
    states.update({**outside, **_unresolved(run, names)} if code == 0 else {})
    waited = [name for name, (registered, _state) in states.items() if not registered]
    useless = code == bounded_run.MISSING or (bool(waited) and all(name in outside for name in waited))
    return Found(not waited, (err or out).strip() if code else "", states, missing=useless)


def _outside(run: Runner, names: Sequence[str]) -> dict[str, tuple[bool, str]]:
    """Return the nodes that slurmctld knows but sinfo does not show, because they are in no partition."""
    if not names:
        return {}
    _code, out, _err = run(["scontrol", "--oneliner", "show", "node", ",".join(names[:_ASKED])])
    found = [dict(word.partition("=")[::2] for word in line.split()) for line in out.splitlines()]
    # scontrol leaves the key out if there is none.
    alone = [node["NodeName"] for node in found if node.get("NodeName") in names and "Partitions" not in node]
    return {name: (False, f"{name} is in no partition; name it in slurm_partitions") for name in alone}


def _unresolved(run: Runner, names: Sequence[str]) -> dict[str, tuple[bool, str]]:
    """
    Return the nodes that slurmctld cannot contact, with the reason.

    A node whose name was unknown when slurmctld read slurm.conf has the port 0. slurmctld asks for the name again when
    it contacts the node, so the node is well if the name is known now.
    """
    if not names:
        return {}
    code, out, _err = run(["sinfo", "--all", "--future", "--Node", "--noheader", "--Format=NodeList:|,Port:"])
    ports = dict(line.partition("|")[::2] for line in out.splitlines()) if code == 0 else {}
    without = [name for name in names if ports.get(name, "").strip() == "0"]
    unknown = [name for name in without if run(["getent", "ahosts", name])[0] == _NO_NAME]
    return {
        name: (False, f"the controller cannot resolve the name {name}; set base_hosts, or use DNS") for name in unknown
    }


def jobs(run: Runner, names: Sequence[str]) -> Found:
    """Return whether no job uses the nodes, or any node if there are no names. Pending jobs do not count."""
    where = [f"--nodelist={','.join(names)}"] if names else []
    code, out, err = run(["squeue", "--noheader", "--all", f"--format={_JOBS}", *where])
    if code:
        return Found(False, (err or out).strip() or f"squeue exited {code}", missing=code == bounded_run.MISSING)
    lines = [line.partition("|") for line in out.splitlines()]
    left = [text.strip() for state, _bar, text in lines if state.strip() != "PENDING"]
    return Found(not left, jobs=left)


def wait(
    query: Callable[[], Found],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Found:
    """Query until the state is reached, and return the last result. The last query is at the end of the time."""
    begin = clock()
    while True:
        found = query()
        left = begin + seconds - clock()
        if found.reached or found.missing or left <= 0:
            return found
        sleep(min(left, _pause(clock() - begin)))


def _pause(waited: float) -> float:
    """Return the pause after a number of seconds."""
    return next((pause for limit, pause in _PAUSES.items() if waited < limit), _LONGEST_PAUSE)
