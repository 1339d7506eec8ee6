# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
A cloud behind a program of the site.

The program is called with one of three words and reads one JSON object, C({"set": NAME, "nodes": [NAME, ...]}):

* C(list) prints C({"machines": [{"node": NAME, "gone": false}]}): all machines of the set; C(gone) is true while one
  is being deleted;
* C(start) requests machines for the nodes and returns at once. It prints C({"failed": {NAME: REASON}}) for nodes that
  get none, such as after a failed allocation. A node that has a machine already is no error;
* C(stop) requests the deletion of the machines of the nodes. A missing machine is no error.

Another exit status than 0 is an error of the whole call: nothing is concluded from it, and the next pass repeats it.
"""

from __future__ import annotations

import json
import typing as t

from .cloud import ElasticError, Machine

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

    from .cloud import Set
    from .slurm import Node


class CommandCloud:
    """The machines of one set, by a program with a time limit."""

    def __init__(self, run: Runner, one: Set) -> None:
        self._run = run
        self._program = str(one.options["program"])
        self._set = one

    def machines(self, _nodes: Mapping[str, Node]) -> list[Machine]:
        """Return all machines of the set."""
        found = self._called("list", self._set.nodes).get("machines")
        if not isinstance(found, list):
            raise ElasticError(f"{self._program} list printed no list of machines")
        machines = [_machine(one) for one in found]
        if len({machine.id for machine in machines}) < len(machines):
            raise ElasticError(f"{self._program} list printed a machine twice")
        return machines

    def start(self, nodes: Sequence[str]) -> dict[str, str]:
        """Request machines and return the nodes that get none."""
        failed = self._called("start", nodes).get("failed") or {}
        if not isinstance(failed, dict):
            raise ElasticError(f"{self._program} start printed no mapping of failed nodes")
        return {str(node): str(reason) for node, reason in failed.items() if node in set(nodes)}

    def stop(self, machines: Sequence[Machine]) -> None:
        """Request the deletion of machines."""
        self._called("stop", [machine.id for machine in machines])

    def _called(self, word: str, nodes: Sequence[str]) -> dict[str, t.Any]:
        data = json.dumps({"set": self._set.name, "nodes": list(nodes)})
        code, out, err = self._run([self._program, word], data)
        if code:
            raise ElasticError(f"{self._program} {word} exited {code}: {err.strip()[-500:]}")
        try:
            found = json.loads(out) if out.strip() else {}
        except ValueError as exc:
            raise ElasticError(f"{self._program} {word} printed no JSON: {exc}") from None
        if not isinstance(found, dict):
            raise ElasticError(f"{self._program} {word} printed no object")
        return found


def _machine(one: t.Any) -> Machine:
    node, gone = (one.get("node"), one.get("gone", False)) if isinstance(one, dict) else ("", False)
    if not isinstance(node, str) or not node or not isinstance(gone, bool):
        raise ElasticError(f'found the machine {one!r}; allowed: {{"node": NAME, "gone": true or false}}')
    return Machine(node, node, gone)
