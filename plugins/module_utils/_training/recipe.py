# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
A recipe of a training run: its keys, their limits, and which sizes do not fit together.

The control node checks a recipe before it submits a job, and the trainer checks it before it allocates memory.
"""

from __future__ import annotations

import dataclasses
import typing as t

REQUIRED: t.Any = object()
# By section and key: the type, the lower limit or the allowed values, and the default.
Rule = tuple[t.Any, t.Any, t.Any]
_COUNT: Rule = (int, 1, REQUIRED)
_PART: Rule = (float, 0, 0.0)
SECTIONS: dict[str, dict[str, Rule]] = {
    "model": {
        "layers": _COUNT,
        "hidden": _COUNT,
        "heads": _COUNT,
        "ffn": (int, 1, None),
        "vocabulary": _COUNT,
        "vocabulary_multiple": (int, 1, 128),
        "sequence": _COUNT,
        "hidden_dropout": _PART,
        "attention_dropout": _PART,
        "init_std": (float, 0, 0.02),
        "norm_epsilon": (float, 0, 1e-5),
        "tied": (bool, None, True),
    },
    "batch": {"micro": _COUNT, "global": _COUNT},
    "parallel": {"data": (str, ("ddp", "fsdp"), "ddp")},
    "optimizer": {
        "learning_rate": (float, 0, REQUIRED),
        "minimum_learning_rate": (float, 0, 0.0),
        "beta1": (float, 0, 0.9),
        "beta2": (float, 0, 0.95),
        "epsilon": (float, 0, 1e-8),
        "weight_decay": _PART,
        "gradient_clip": (float, 0, 1.0),
    },
    "schedule": {"steps": _COUNT, "warmup": (int, 0, 0), "constant": (int, 0, 0)},
    "data": {
        "kind": (str, ("synthetic", "bytes", "tokens"), "synthetic"),
        "paths": (list, None, ()),
        "weights": (list, None, ()),
    },
    "proof": {
        "steps": (int, 1, 200),
        "first": (int, 1, 150),
        "last": (int, 1, 199),
        "seed_steps": (list, None, ()),
        "checkpoint_every": (int, 0, 0),
        "first_loss": (list, None, ()),
        "last_loss": (list, None, ()),
    },
}
TOP: dict[str, Rule] = {
    "name": (str, None, REQUIRED),
    "title": (str, None, ""),
    "seed": (int, 0, 1234),
    "known": (list, None, ()),
    "sources": (list, None, ()),
}
# Where a known result comes from: a run with this collection, its author, or a computation from what the author says.
KINDS = ("measured", "published", "derived")
# The vocabulary of tokens in files of 16-bit numbers.
TOKEN_LIMIT = 1 << 16


class RecipeError(Exception):
    """A recipe is wrong; the message names each key, what was found and what is allowed."""


@dataclasses.dataclass(frozen=True)
class Model:
    """The shape of a decoder."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    vocabulary_multiple: int
    sequence: int
    hidden_dropout: float
    attention_dropout: float
    init_std: float
    norm_epsilon: float
    tied: bool

    @property
    def head_size(self) -> int:
        """Return the width of one head."""
        return self.hidden // self.heads

    @property
    def padded_vocabulary(self) -> int:
        """Return the vocabulary, padded to a width that suits matrix units."""
        return -(-self.vocabulary // self.vocabulary_multiple) * self.vocabulary_multiple


@dataclasses.dataclass(frozen=True)
class Batch:
    """The most sequences of one pass of one rank, and all of one step of all ranks."""

    micro: int
    total: int


@dataclasses.dataclass(frozen=True)
class Parallel:
    """How ranks share the work: each has a whole model (ddp), or a part of it (fsdp)."""

    data: str


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """AdamW and its learning rate."""

    learning_rate: float
    minimum_learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    gradient_clip: float


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Steps of the whole training, of its warm-up, and of the end at the lowest learning rate."""

    steps: int
    warmup: int
    constant: int


@dataclasses.dataclass(frozen=True)
class Data:
    """Where tokens come from."""

    kind: str
    paths: tuple[str, ...]
    weights: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Proof:
    """How many steps prove a cluster, which of them are measured, and which losses are right."""

    steps: int
    first: int
    last: int
    seed_steps: tuple[int, ...]
    checkpoint_every: int
    first_loss: tuple[float, ...]
    last_loss: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One training run."""

    name: str
    title: str
    seed: int
    known: tuple[t.Any, ...]
    sources: tuple[str, ...]
    model: Model
    batch: Batch
    parallel: Parallel
    optimizer: Optimizer
    schedule: Schedule
    data: Data
    proof: Proof

    def micro_batches(self, ranks: int) -> int:
        """Return how many micro-batches each rank adds up in a step, none of them with more than O(batch.micro)."""
        return -(-self.batch.total // (self.batch.micro * ranks))


_BANDS = ("first_loss", "last_loss")
_LOSS_DEPENDS_ON = ("model", "optimizer", "schedule", "data", "seed", "batch.global", "proof.steps")


def read(recipe: t.Any) -> Recipe:
    """Return a recipe from its YAML, or raise RecipeError with all that is wrong with it."""
    faults = [*_faults(recipe)]
    if faults:
        raise RecipeError("; ".join(faults))
    values = {name: _filled(rules, recipe.get(name) or {}) for name, rules in SECTIONS.items()}
    top = _filled(TOP, recipe)
    model = values["model"]
    model["ffn"] = model["ffn"] or 4 * model["hidden"]
    made = Recipe(
        model=Model(**model),
        batch=Batch(micro=values["batch"]["micro"], total=values["batch"]["global"]),
        parallel=Parallel(**values["parallel"]),
        optimizer=Optimizer(**values["optimizer"]),
        schedule=Schedule(**values["schedule"]),
        data=Data(**values["data"]),
        proof=Proof(**values["proof"]),
        **top,
    )
    faults = [*_shape_faults(made)]
    if faults:
        raise RecipeError("; ".join(faults))
    return made


def misfits(recipe: Recipe, ranks: int) -> list[str]:
    """Return why a recipe cannot run on so many ranks; each text names the key to change."""
    batch = recipe.batch
    # Ranks may differ by one sequence, but each has something in all of its passes, because all meet in each of them.
    if batch.total // ranks < recipe.micro_batches(ranks):
        return [
            f"batch.global {batch.total} cannot be divided among {ranks} ranks in passes of batch.micro {batch.micro};"
            f" raise batch.micro, or make batch.global a multiple of {ranks}"
        ]
    return []


def merged(recipe: dict[str, t.Any], changes: t.Iterable[str]) -> dict[str, t.Any]:
    """
    Return a recipe with changes such as C(batch.micro=32); values are numbers, booleans, or strings.

    A change on which the loss depends removes the bands of the loss.
    """
    result = {key: dict(value) if isinstance(value, dict) else value for key, value in recipe.items()}
    for change in changes:
        key, equals, text = change.partition("=")
        section, dot, name = key.partition(".")
        if not equals:
            raise RecipeError(f"{change} is not of the form section.key=value")
        target = result.setdefault(section, {}) if dot else result
        target[name if dot else section] = _value(text)
        if section in _LOSS_DEPENDS_ON or key in _LOSS_DEPENDS_ON:
            result["proof"] = {name: value for name, value in result.get("proof", {}).items() if name not in _BANDS}
    return result


def _value(text: str) -> t.Any:
    words: dict[str, t.Any] = {"true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _faults(recipe: t.Any) -> t.Iterator[str]:
    """Yield keys that are unknown, missing, of a wrong type or out of range."""
    if not isinstance(recipe, dict):
        yield f"a recipe is a dictionary, not {type(recipe).__name__}"
        return
    yield from _rule_faults("", TOP, {key: value for key, value in recipe.items() if key not in SECTIONS})
    for name, rules in SECTIONS.items():
        section = recipe.get(name) or {}
        if isinstance(section, dict):
            yield from _rule_faults(f"{name}.", rules, section)
        else:
            yield f"{name} is {section!r}; it must be a dictionary"


def _rule_faults(prefix: str, rules: dict[str, Rule], values: dict[str, t.Any]) -> t.Iterator[str]:
    for key in sorted(values.keys() - rules.keys(), key=str):
        yield f"{prefix}{key} is unknown; known are {', '.join(sorted(rules))}"
    for key, rule in rules.items():
        value = values.get(key)
        if value is not None:
            yield from _value_faults(f"{prefix}{key}", value, rule)
        elif rule[2] is REQUIRED:
            yield f"{prefix}{key} is missing"


def _value_faults(name: str, value: t.Any, rule: Rule) -> t.Iterator[str]:
    kind, limit, _default = rule
    if not _is(kind, value):
        yield f"{name} is {value!r}; it must be of the type {kind.__name__}"
    elif isinstance(limit, tuple) and value not in limit:
        yield f"{name} is {value!r}; it must be one of {', '.join(limit)}"
    elif isinstance(limit, int) and not value >= limit:
        yield f"{name} is {value!r}; it must be at least {limit}"


def _is(kind: t.Any, value: t.Any) -> bool:
    """Return whether a value is of a type; a boolean is no number, and a whole number is a float."""
    if kind is list:
        return isinstance(value, (list, tuple))
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _filled(rules: dict[str, Rule], values: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return all keys of a section with defaults; lists become tuples and floats are floats."""
    filled = {}
    for key, (kind, _limit, default) in rules.items():
        value = values.get(key)
        value = default if value is None else value
        filled[key] = value if value is None else {list: tuple, float: float}.get(kind, lambda same: same)(value)
    return filled


def _shape_faults(recipe: Recipe) -> t.Iterator[str]:
    """Yield sizes that fit no number of GPUs."""
    model = recipe.model
    if model.hidden % model.heads:
        yield f"model.hidden {model.hidden} is not a multiple of model.heads {model.heads}"
    if not 0 <= max(model.hidden_dropout, model.attention_dropout) < 1:
        yield "model.hidden_dropout and model.attention_dropout must be below 1"
    if recipe.schedule.warmup + recipe.schedule.constant > recipe.schedule.steps:
        yield f"schedule.warmup and schedule.constant are more than schedule.steps {recipe.schedule.steps}"
    yield from _proof_faults(recipe.proof)
    for entry in recipe.known:
        yield from _known_faults(entry)
    yield from _data_faults(recipe)


def _proof_faults(proof: Proof) -> t.Iterator[str]:
    """Yield steps and bands of the loss that prove nothing."""
    if not proof.first <= proof.last <= proof.steps:
        yield f"proof.first {proof.first}, proof.last {proof.last} and proof.steps {proof.steps} are not in this order"
    for name, band in (("first_loss", proof.first_loss), ("last_loss", proof.last_loss)):
        if band and not (len(band) == 2 and all(_is(float, value) for value in band) and band[0] < band[1]):
            yield f"proof.{name} is {list(band)!r}; it must be the lowest and the highest loss, such as [10.5, 11.5]"


def _known_faults(entry: t.Any) -> t.Iterator[str]:
    """Yield what is wrong with a known result, which the verdict compares with a run."""
    if not isinstance(entry, dict) or entry.get("kind") not in KINDS:
        yield f"known has {entry!r}; each is a dictionary whose kind is one of {', '.join(KINDS)}"
        return
    for name in ("gpus", "micro_batch", "tokens_per_second_per_gpu"):
        value = entry.get(name)
        if value is not None and not (_is(float, value) and value > 0):
            yield f"{name} of a known result is {value!r}; it must be a number above 0"
    missing = [name for name in ("hardware", "backend") if not isinstance(entry.get(name), str) or not entry[name]]
    if entry["kind"] == "measured" and missing:
        yield f"a measured result in known has no {' and no '.join(missing)}"


def _data_faults(recipe: Recipe) -> t.Iterator[str]:
    data, vocabulary = recipe.data, recipe.model.vocabulary
    if data.kind != "synthetic" and not data.paths:
        yield f"data.paths is empty, but data.kind is {data.kind}"
    if data.weights and len(data.weights) != len(data.paths):
        yield f"data.weights has {len(data.weights)} entries, and data.paths {len(data.paths)}"
    if data.kind == "bytes" and vocabulary < 256:
        yield f"model.vocabulary is {vocabulary}; data.kind bytes needs at least 256"
    if data.kind == "tokens" and vocabulary > TOKEN_LIMIT:
        yield f"model.vocabulary is {vocabulary}; data.kind tokens has 16-bit numbers, so at most {TOKEN_LIMIT}"
