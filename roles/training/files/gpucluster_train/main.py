# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Train a model by a recipe, on GPUs (NCCL) or on CPUs (gloo).

Exit status: 0 done, 64 the recipe does not fit, no checkpoint is whole, or another user can write them, 65 the loss is
no number, 75 ended by a signal after a checkpoint (start it again and it goes on), 74 no checkpoint could be written at
the end, 70 an error before the first step of all, such as ranks that do not find each other, 1 any other error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
import typing as t
from pathlib import Path

from . import place, trust
from . import recipe as recipes

EXIT_REFUSED, EXIT_NO_STEP = 64, 70
ATTENTION = ("auto", "flash", "cudnn", "efficient", "math")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="train.py", description=__doc__)
    add = parser.add_argument
    add("--recipe", required=True, type=Path, help="recipe, YAML (needs PyYAML) or JSON")
    add("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    add("--steps", type=int, help="steps to train (default: proof.steps of the recipe)")
    add("--micro-batch", type=int, help="sequences of one pass (default: batch.micro of the recipe)")
    add("--measure", metavar="FIRST-LAST", help="steps whose mean is the result (default: proof.first and proof.last)")
    add("--directory", type=Path, help="where log.jsonl and TensorBoard events go (default: none are written)")
    add("--checkpoints", type=Path, help="where checkpoints go; a complete one there is resumed (default: none)")
    add("--checkpoint-every", type=int, help="steps between checkpoints (default: proof.checkpoint_every)")
    add("--device", choices=["auto", "cuda", "cpu"], default="auto")
    add("--precision", choices=["bf16", "fp32"], help="of the computation (default: bf16 on GPUs, fp32 on CPUs)")
    add("--compile", choices=["blocks", "model", "none"], help="torch.compile (default: blocks on GPUs, none on CPUs)")
    add("--compile-mode", choices=["default", "max-autotune-no-cudagraphs"], default="default")
    add("--attention", choices=ATTENTION, default="auto", help="kernel of the attention")
    add("--peak-tflops", type=float, help="dense BF16 peak of one GPU (default: from the name of the GPU)")
    add("--print-every", type=int, default=10, metavar="STEPS")
    add("--bench", action="store_true", help="write no checkpoints, and print one line of JSON at the end")
    add("--fault", help="for tests: nan:STEP, kill:STEP:RANK, or slow:MILLISECONDS:RANK; not in a resumed run")
    return parser.parse_args(argv)


def load(options: argparse.Namespace) -> recipes.Recipe:
    """Return the recipe with the changes of the command line."""
    text = options.recipe.read_text(encoding="utf-8")
    if options.recipe.suffix == ".json":
        raw = json.loads(text)
    else:
        import yaml  # a compute node may lack it

        raw = yaml.safe_load(text)
    changes = list(options.set)
    if options.micro_batch:
        changes.append(f"batch.micro={options.micro_batch}")
    return recipes.read(recipes.merged(raw, changes))


def main(argv: list[str] | None = None) -> int:
    """Train; the work with torch begins when the recipe is known to fit."""
    options = arguments(argv)
    try:
        recipe = load(options)
    except recipes.RecipeError as error:
        print(f"{options.recipe}: {error}", file=sys.stderr)
        return EXIT_REFUSED
    rank = place.find()
    if faults := recipes.misfits(recipe, rank.size):
        if rank.rank == 0:
            print(f"{options.recipe}: {'; '.join(faults)}", file=sys.stderr)
        return EXIT_REFUSED
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", place.own_cache())
    trained: list[t.Any] = []
    try:
        return _train(options, recipe, rank, trained)
    except Exception:
        begun = any(run.recent for run in trained)
        if begun or (options.checkpoints and any(options.checkpoints.glob("step-*"))):
            raise
        traceback.print_exc()
        return EXIT_NO_STEP


def _train(options: argparse.Namespace, recipe: recipes.Recipe, rank: place.Rank, trained: list[t.Any]) -> int:
    """Train with torch; the run is put into a list, so that it is known after an error."""
    from . import checkpoint, parallel, run  # torch takes seconds

    world = parallel.place(rank, options.device)
    compiles = world.device.type == "cuda" and options.compile != "none"
    if compiles and (lacks := place.compiler_fault()):
        print(f"torch.compile needs {lacks} on each node; or use --compile=none", file=sys.stderr)
        return EXIT_REFUSED
    with parallel.joined(world):
        try:
            trained.append(run.Run(options, recipe, world))
            return int(trained[0].train())
        except (trust.TrustError, checkpoint.CheckpointError) as error:
            if world.first:
                print(f"the checkpoints are not read: {error}", file=sys.stderr)
            return EXIT_REFUSED
