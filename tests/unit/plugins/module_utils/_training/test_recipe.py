# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: which keys they have, which sizes fit together, and the figures that follow from a shape."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import sizes

ROLE = Path(__file__).parents[5] / "roles/training"
FILES = sorted((ROLE / "vars/recipes").glob("*.yml"))


def raw(name: str = "gpt3_126m") -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_load((ROLE / f"vars/recipes/{name}.yml").read_text(encoding="utf-8")))


def changed(*changes: str, name: str = "gpt3_126m") -> recipes.Recipe:
    return recipes.read(recipes.merged(raw(name), changes))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_recipe_is_valid(path: Path) -> None:
    assert recipes.read(raw(path.stem)).name == path.stem


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "tiny"], ids=lambda path: path.stem)
def test_each_recipe_names_its_sources(path: Path) -> None:
    recipe = recipes.read(raw(path.stem))

    assert recipe.sources
    assert all(entry["source"] and entry["kind"] in ("published", "derived", "measured") for entry in recipe.known)


@pytest.mark.parametrize("band", [[1.0], [2.0, 1.0], ["a", "b"], [1.0, 2.0, 3.0], [True, False]])
@pytest.mark.parametrize("name", ["first_loss", "last_loss"])
def test_a_band_of_the_loss_has_two_numbers_in_order(name: str, band: list[t.Any]) -> None:
    with pytest.raises(recipes.RecipeError, match=rf"proof.{name} is \[.*such as \[10.5, 11.5\]"):
        recipes.read({**raw("tiny"), "proof": {**raw("tiny")["proof"], name: band}})
    assert recipes.read({**raw("tiny"), "proof": {**raw("tiny")["proof"], name: [1, 2.5]}}).proof


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("batch.micro=32", True),
        ("proof.checkpoint_every=50", True),
        ("batch.global=512", False),
        ("data.kind=bytes", False),
        ("model.hidden_dropout=0", False),
        ("optimizer.learning_rate=1e-3", False),
        ("proof.steps=300", False),
        ("seed=5", False),
    ],
)
def test_a_change_on_which_the_loss_depends_removes_its_bands(change: str, kept: bool) -> None:
    proof = recipes.merged(raw("gpt3_126m"), [change, "proof.first=150"])["proof"]

    assert ("first_loss" in proof, "last_loss" in proof) == (kept, kept)
    assert raw("gpt3_126m")["proof"]["first_loss"]


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("68000 on 64 A100", "each is a dictionary whose kind is one of measured, published, derived"),
        ({"kind": "guessed"}, "each is a dictionary whose kind"),
        ({"kind": "measured", "tokens_per_second_per_gpu": 4e5}, "has no hardware and no backend"),
        ({"kind": "measured", "hardware": "", "backend": "torch"}, "has no hardware"),
        (
            {"kind": "measured", "hardware": "H200", "backend": "torch", "gpus": "two"},
            "gpus of a known result is 'two'",
        ),
        ({"kind": "published", "tokens_per_second_per_gpu": 0}, "tokens_per_second_per_gpu of a known result is 0"),
    ],
)
def test_a_known_result_that_cannot_be_compared_is_refused(entry: t.Any, named: str) -> None:
    with pytest.raises(recipes.RecipeError, match=named):
        recipes.read({**raw("tiny"), "known": [entry]})


def test_the_recipe_of_the_seed_is_complete() -> None:
    recipe = changed()

    assert (recipe.model.layers, recipe.model.hidden, recipe.model.heads, recipe.model.ffn) == (12, 768, 12, 3072)
    assert (recipe.model.sequence, recipe.model.padded_vocabulary) == (2048, 50304)
    assert (recipe.batch.micro, recipe.batch.total, recipe.schedule.steps) == (4, 256, 600000)
    assert (recipe.optimizer.learning_rate, recipe.optimizer.minimum_learning_rate) == (6e-4, 6e-5)
    assert (recipe.schedule.warmup, recipe.schedule.constant, recipe.seed) == (636, 100000, 1234)
    assert recipe.proof.seed_steps == (149, 169, 189)


# Parameters as the models' authors or PyTorch count them.
@pytest.mark.parametrize(
    ("name", "count"),
    [("gpt3_126m", 125_262_336), ("tiny", 120_576)],
)
def test_parameters(name: str, count: int) -> None:
    assert sizes.parameters(recipes.read(raw(name)).model) == count


def test_operations_are_those_of_narayanan() -> None:
    h, layers, s, v = 768, 12, 2048, 50304
    expected = 72 * layers * h**2 * (1 + s / (6 * h) + v / (12 * layers * h))

    assert sizes.flops_per_token(changed().model) == pytest.approx(expected, rel=1e-12)


def test_utilisation_of_a_known_run() -> None:
    """64 A100 trained 600,000 steps in 20 hours: 66 TFLOP/s, 21 percent."""
    rate = 600_000 * 256 * 2048 / (20 * 3600) / 64

    assert sizes.tflops(changed().model, rate) == pytest.approx(66.1, abs=0.1)
    assert sizes.mfu(changed().model, rate, sizes.peak_tflops("NVIDIA A100-SXM4-80GB")) == pytest.approx(
        0.212, abs=1e-3
    )
    assert sizes.mfu(changed().model, rate, None) is None


@pytest.mark.parametrize(
    ("gpu", "peak"),
    [
        ("NVIDIA H200", 989.4),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H100 NVL", 835.0),
        ("Tesla V100-SXM2-32GB", 125.0),
        ("CPU", None),
        (None, None),
    ],
)
def test_peak(gpu: str | None, peak: float | None) -> None:
    assert sizes.peak_tflops(gpu) == peak


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.layer=2", "model.layer is unknown"),
        ("colour=red", "colour is unknown"),
        ("model.layers=0", "model.layers is 0; it must be at least 1"),
        ("model.layers=2.5", "model.layers is 2.5; it must be of the type int"),
        ("model.tied=7", "model.tied is 7; it must be of the type bool"),
        ("batch.micro=true", "batch.micro is True; it must be of the type int"),
        ("backends=torch", "backends is unknown"),
        ("parallel.tensor=2", "parallel.tensor is unknown; known are data"),
        ("parallel.data=pipeline", "parallel.data is 'pipeline'; it must be one of ddp, fsdp"),
        ("model.heads=7", "model.hidden 768 is not a multiple of model.heads 7"),
        ("model.hidden_dropout=1", "must be below 1"),
        ("optimizer.learning_rate=fast", "optimizer.learning_rate is 'fast'; it must be of the type float"),
        ("proof.last=300", "are not in this order"),
        ("schedule.warmup=600000", "schedule.warmup and schedule.constant are more than schedule.steps 600000"),
        ("data.kind=tokens", "data.paths is empty, but data.kind is tokens"),
        ("model=7", "model is 7; it must be a dictionary"),
    ],
)
def test_wrong_recipes_are_refused_with_the_key(change: str, message: str) -> None:
    with pytest.raises(recipes.RecipeError) as caught:
        changed(change)

    assert message in str(caught.value)


@pytest.mark.parametrize("wrong", [None, [], "gpt3_126m", {}])
def test_a_recipe_is_a_dictionary_with_the_required_keys(wrong: t.Any) -> None:
    with pytest.raises(recipes.RecipeError):
        recipes.read(wrong)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(recipes.RecipeError) as caught:
        changed("model.layers=0", "batch.micro=0", "colour=red")

    for key in ("model.layers is 0", "batch.micro is 0", "colour is unknown"):
        assert key in str(caught.value)


@pytest.mark.parametrize("ranks", range(1, 33))
def test_the_recipe_of_the_lab_fits_each_number_of_ranks(ranks: int) -> None:
    assert recipes.misfits(changed(name="tiny"), ranks) == []


@pytest.mark.parametrize("total", [1, 2, 7, 32, 33, 256])
@pytest.mark.parametrize("micro", [1, 2, 5, 8])
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 16, 48])
def test_each_rank_has_work_in_each_pass_or_the_batch_is_refused(ranks: int, micro: int, total: int) -> None:
    """With FSDP, a rank that leaves a pass out lets the others wait for ever."""
    recipe = changed(f"batch.global={total}", f"batch.micro={micro}", name="tiny")
    passes = recipe.micro_batches(ranks)
    shares = [(rank + 1) * total // ranks - rank * total // ranks for rank in range(ranks)]

    assert sum(shares) == total
    assert passes * micro >= max(shares) > (passes - 1) * micro
    assert (min(shares) < passes) == bool(recipes.misfits(recipe, ranks))


def test_a_change_keeps_the_rest() -> None:
    before = raw()
    after = recipes.merged(before, ["batch.micro=32", "model.tied=false", "optimizer.learning_rate=1e-3"])

    assert after["batch"] == {"micro": 32, "global": 256}
    assert after["model"]["tied"] is False
    assert after["optimizer"]["learning_rate"] == 1e-3
    assert before == raw()
    with pytest.raises(recipes.RecipeError):
        recipes.merged(before, ["batch.micro"])


def test_memory_grows_with_the_micro_batch_and_shrinks_with_shards() -> None:
    alone, more = (sizes.memory_bytes(changed(f"batch.micro={size}"), 1) for size in (4, 8))
    whole, shards = (sizes.memory_bytes(changed(f"parallel.data={kind}"), 64) for kind in ("ddp", "fsdp"))

    assert more > alone > sizes.parameters(changed().model) * sizes.STATE_BYTES
    assert whole - shards > 0.6 * sizes.parameters(changed().model) * sizes.STATE_BYTES


def test_the_trainer_uses_these_files() -> None:
    for name in ("recipe.py", "sizes.py"):
        link = ROLE / "files/gpucluster_train" / name
        assert link.resolve() == Path(recipes.__file__).resolve().with_name(name)


def test_json_and_yaml_are_the_same_recipe() -> None:
    assert recipes.read(json.loads(json.dumps(raw()))) == recipes.read(raw())


def test_the_learning_rate_rises_falls_and_stays() -> None:
    recipe = changed()
    rates = {step: sizes.learning_rate(recipe, step) for step in (1, 318, 636, 250_318, 500_000, 600_000)}

    assert rates[1] == pytest.approx(6e-4 / 636)
    assert rates[318] == pytest.approx(3e-4)
    assert rates[636] == pytest.approx(6e-4)
    assert rates[250_318] == pytest.approx((6e-4 + 6e-5) / 2)
    assert rates[500_000] == rates[600_000] == pytest.approx(6e-5)
