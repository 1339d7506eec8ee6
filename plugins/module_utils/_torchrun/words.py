# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The command line of gpucluster-torchrun: its own options, and those of torchrun, of which it sets some itself."""

from __future__ import annotations

import argparse
import typing as t

_ABOUT = """Run a command line of torchrun in a Slurm job, and start it again after a fault.

    gpucluster-torchrun [OPTION...] -- [OPTION OF torchrun...] SCRIPT [ARGUMENT...]

It chooses healthy nodes of the job, keeps the others as spares, and starts torchrun on each node. It sets the
options of torchrun that say which node does what. Exit status: that of the training."""
# What the launcher sets itself. The second ones have no value.
_OURS = {"nnodes", "node-rank", "master-addr", "master-port", "max-restarts"}
_OURS |= {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "local-addr"}
_OUR_SWITCHES = {"standalone"}
_SWITCHES = {"m", "module", "no-python", "run-path", "virtual-local-rank", "h", "help"}


def options(argv: t.Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the own options and the command line of torchrun. Without a --, all of it is torchrun's."""
    parser = argparse.ArgumentParser(
        prog="gpucluster-torchrun", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--spares", type=int, default=0, metavar="N", help="nodes of the job that wait for a fault (default: 0)")
    add("--container-image", help="image of pyxis in which torchrun runs")
    add("--container-mounts", help="mounts of the container, as for srun")
    add("--srun", action="append", default=[], metavar="OPTION", help="one more option of srun; can be repeated")
    add("--launcher", default="python3 -m torch.distributed.run", help="the command torchrun (default: %(default)s)")
    add("--directory", help="where events and stacks go (default: a directory of the job below runs/USER)")
    add("--hang-seconds", type=float, default=60, help="a rank that does nothing for so long hangs (default: 60)")
    add("--slow-seconds", type=float, default=60, help="length of a window of the search for slow ranks (default: 60)")
    add("--restarts", type=int, default=20, help="how often the training starts again in this job (default: 20)")
    add("--requeues", type=int, default=3, help="how often the job goes back to the queue (default: 3)")
    words = list(argv)
    own = words.index("--") if "--" in words and words[0].startswith("-") and _is_own(parser, words[0]) else 0
    if words[:1] in (["--help"], ["-h"]) or not words:
        parser.parse_args(["--help"])
    found = parser.parse_args(words[:own])
    rest = words[own + 1 :] if words[own : own + 1] == ["--"] else words[own:]
    return found, rest


def _is_own(parser: argparse.ArgumentParser, word: str) -> bool:
    name = word.partition("=")[0]
    return name == "--" or any(name in action.option_strings for action in parser._actions)


def torchrun(words: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command line of torchrun without what the launcher sets itself, and the names of these options."""
    kept, left, place = list[str](), list[str](), 0
    while place < len(words) and words[place].startswith("-"):
        name, _is, value = words[place].lstrip("-").partition("=")
        name = name.replace("_", "-")
        size = 1 if value or name in _SWITCHES | _OUR_SWITCHES else 2
        if name in _OURS | _OUR_SWITCHES:
            left.append(name)
        else:
            kept += words[place : place + size]
        place += size
    return [*kept, *words[place:]], left


def probe(node: str) -> list[str]:
    """Return the command that asks a node for its health."""
    step = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1", f"--nodelist={node}"]
    return [*step, "--mem=0", "--input=none", "--unbuffered", "env", "gpucluster-check", "--set", "prolog", "--json"]


def states(nodes: t.Sequence[str]) -> list[str]:
    """Return the command that asks Slurm for the states of nodes."""
    return ["sinfo", "--noheader", "--Node", f"--nodes={','.join(nodes)}", "--format=%N|%T|%E"]


def segment(found: argparse.Namespace, nodes: t.Sequence[str], program: str, directory: str, task: str) -> list[str]:
    """Return the command that starts one agent on each node."""
    number = len(nodes)
    step = ["srun", "--overlap", f"--nodes={number}", f"--ntasks={number}", "--ntasks-per-node=1", "--mem=0"]
    step += [f"--nodelist={','.join(nodes)}", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", *found.srun]
    if found.container_image:
        mounts = [found.container_mounts, f"{program}:{program}:ro", f"{directory}:{directory}"]
        step += [f"--container-image={found.container_image}", f"--container-mounts={','.join(filter(None, mounts))}"]
    return [*step, "python3", "-IS", program, "agent", task]
