# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stages of the validation: each one measures, then judges the results."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    after_stage,
    nccl_stage,
    node_stage,
    node_states,
    preflight_stage,
    scheduler_stage,
    training_stage,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import FAIL, check
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session, StoppedError

Raw = t.Mapping[str, t.Any]
Stage = dict[str, t.Any]

STAGES = {
    "preflight": preflight_stage,
    "scheduler": scheduler_stage,
    "node": node_stage,
    "nccl": nccl_stage,
    "training": training_stage,
    "after": after_stage,
}
# The checks that report the nodes that a stage skipped.
_TAKES_PART = {
    "scheduler": ("scheduler.job", "job runs"),
    "node": ("node.part", "is tested"),
    "nccl": ("nccl.part", "is measured"),
    "training": ("training.part", "trains"),
}


class StageError(ValueError):
    """The name of a stage is unknown."""


def run(name: str, session: Session, facts: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """
    Return the measurements of a stage, for C(build).

    O(facts) are the facts of the nodes; a node without versions did not answer.
    """
    raw: dict[str, t.Any] = {}
    silent = [node for node, said in facts.items() if "versions" not in said]
    arguments = {"preflight": (facts,), "after": ()}.get(name, (silent,))
    try:
        inputs.refuse_wrong(session.settings)
        _known(name).measure(session, raw, *arguments)
    except StoppedError as exc:
        raw["error"] = str(exc)
    if name in _TAKES_PART:
        raw.update(nodes=session.taken, **session.nodes.skipped)
        # Checks that follow from an earlier stage come after their cause.
        raw["follows"] = name != "scheduler" and session.nodes.gone
    return raw


def build(name: str, raw: Raw) -> Stage:
    """Return a stage: its checks, and the data for plots of the report."""
    judge = _known(name).judge
    if raw.get("error"):
        kind = "stage.follows" if raw.get("follows") else "stage"
        stage: Stage = {"checks": [check(kind, f"stage {name}", FAIL, str(raw["error"]))]}
        # The report also shows measurements from before the stage stopped.
        with contextlib.suppress(KeyError, TypeError):
            found = judge(raw)
            stage = {**found, "checks": [*found["checks"], *stage["checks"]]}
    else:
        stage = judge(raw)
    if name in _TAKES_PART:
        stage["checks"] += node_states.left_out(raw, *_TAKES_PART[name])
    return {
        "stage": name,
        "seconds": raw.get("seconds"),
        "ended": raw.get("ended"),
        "nodes": list(raw.get("nodes") or []),
        **stage,
    }


def _known(name: str) -> t.Any:
    """Return the module of a stage."""
    if name not in STAGES:
        raise StageError(f"unknown stage {name!r}; there are {', '.join(STAGES)}")
    return STAGES[name]
