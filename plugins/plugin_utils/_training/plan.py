# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find a recipe by name, and refuse one that does not fit the nodes, before a job is submitted."""

from __future__ import annotations

import dataclasses
import typing as t
from pathlib import Path

import yaml

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import sizes

Raw = t.Mapping[str, t.Any]

DIRECTORY = Path(__file__).parents[3] / "roles/training/vars/recipes"
# The part of a GPU's memory that tensors may have. The rest is for CUDA, NCCL and fragments.
_USABLE = 0.92
_MIB = 1 << 20


class PlanError(ValueError):
    """A training run cannot work; the message names each key or variable to change."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What will run where. One task per GPU, or the given tasks on nodes without GPUs."""

    raw: dict[str, t.Any]
    recipe: recipes.Recipe
    nodes: int
    tasks_per_node: int

    @property
    def ranks(self) -> int:
        """Return the number of all ranks."""
        return self.nodes * self.tasks_per_node


def names() -> list[str]:
    """Return the names of the recipes of the collection."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yml"))


def find(name: str, own: t.Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """Return a recipe of the site or of the collection as it is written."""
    own = own or {}
    if name in own:
        return {"name": name, **own[name]}
    if name not in names():
        known = ", ".join(sorted({*own, *names()}))
        raise PlanError(f"recipe: found {name}; allowed: {known}. For larger models, see docs/training-containers.md")
    return dict(yaml.safe_load((DIRECTORY / f"{name}.yml").read_text(encoding="utf-8")))


def plan(
    name: str,
    *,
    nodes: int,
    tasks_per_node: int,
    own: t.Mapping[str, t.Any] | None = None,
    changes: t.Iterable[str] = (),
    gpu: Raw | None = None,
) -> Plan:
    """
    Return a plan that fits, or raise PlanError with all reasons.

    O(gpu) is the part C(gpus) of a hardware record; without it, memory is not judged.
    """
    try:
        raw = recipes.merged(find(name, own), changes)
        recipe = recipes.read(raw)
    except recipes.RecipeError as exc:
        raise PlanError(f"recipe {name}: {exc}") from exc
    made = Plan(raw, recipe, nodes, tasks_per_node)
    faults = [*recipes.misfits(recipe, made.ranks), *_memory(made, gpu or {})]
    if faults:
        raise PlanError(f"recipe {name} on {nodes} nodes with {tasks_per_node} tasks each: {'; '.join(faults)}")
    return made


def _memory(made: Plan, gpu: Raw) -> t.Iterator[str]:
    """Yield a sentence if the model does not fit into the memory of a GPU."""
    available = int(gpu.get("memory_mib") or 0) * _MIB * _USABLE
    needed = sizes.memory_bytes(made.recipe, made.ranks)
    if available and needed > available:
        yield (
            f"about {needed / sizes.GIB:.0f} GiB per GPU are needed, and {available / sizes.GIB:.0f} GiB of"
            f" {gpu.get('model', 'the GPU')} can be used; reduce batch.micro, or set parallel.data=fsdp"
            " and use more GPUs"
        )
