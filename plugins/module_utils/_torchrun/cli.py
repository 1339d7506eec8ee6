# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-torchrun, in the batch script of a job; and on each of its nodes, as an agent."""

from __future__ import annotations

import os
import signal
import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import ASK, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import claim, trust

from . import agent, launcher, words

EXIT_REFUSED = 64


def say(text: str) -> None:
    """Write a line into the output of the job."""
    sys.stdout.write(f"gpucluster-torchrun: {text}\n")
    sys.stdout.flush()


def directory(named: str | None, program: str, environment: t.Mapping[str, str]) -> str:
    """Return the directory of this run. The program lies beside the directory of all runs, or the user names one."""
    runs = Path(program).parent.parent / "runs"
    given = {**environment, "GPUCLUSTER_RUN": named} if named else environment
    return str(claim.claim(runs, given))


def refusal(command: t.Sequence[str], hosts: t.Sequence[str], spares: int) -> str:
    """Return why a training cannot start, or nothing."""
    if not command:
        return "no program; gpucluster-torchrun --help says more"
    if not hosts:
        return "no job of Slurm. Call it in a script of sbatch"
    if not 0 <= spares < len(hosts):
        return f"--spares: found {spares}; allowed: less than the {len(hosts)} nodes of the job"
    return ""


def job(program: str, where: str, hosts: t.Sequence[str], environment: t.Mapping[str, str]) -> dict[str, str]:
    """Return what the launcher must know about its job."""
    return {
        "id": environment["SLURM_JOB_ID"],
        "restarts": environment.get("SLURM_RESTART_COUNT") or "0",
        "user": trust.user_name(os.getuid()),
        "node": environment.get("SLURMD_NODENAME", ""),
        "nodes": ",".join(hosts),
        "directory": where,
        "program": program,
    }


def main() -> int:
    """Run the program; return the exit status of the training."""
    if sys.argv[1:2] == ["agent"]:
        return agent.main(sys.argv[2])
    options, command = words.options(sys.argv[1:])
    command, left = words.torchrun(command)
    hosts = [] if "SLURM_JOB_ID" not in os.environ else _hosts(os.environ["SLURM_JOB_NODELIST"])
    program = os.path.abspath(sys.argv[0])  # noqa: PTH100
    try:
        if wrong := refusal(command, hosts, options.spares):
            raise trust.TrustError(wrong)
        where = directory(options.directory, program, os.environ)
    except (trust.TrustError, OSError) as error:
        sys.stderr.write(f"gpucluster-torchrun: {error}\n")
        return EXIT_REFUSED
    say(f"{len(hosts)} nodes, {options.spares} of them spares; events and stacks are in {where}")
    if left:
        say(f"set by the launcher itself: --{', --'.join(left)}")
    about = job(program, where, hosts, os.environ)
    training = launcher.Launcher(options, command, about, launcher.real(say))
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda got, _frame: setattr(training, "signal", got))
    return training.run()


def _hosts(nodelist: str) -> list[str]:
    code, out, _err = feeding_runner(ASK)(["scontrol", "show", "hostnames", nodelist])
    return [] if code else out.split()
