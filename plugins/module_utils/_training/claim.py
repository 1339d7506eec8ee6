# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Make the directory of a run, or take that of an earlier attempt, and print its name.

A run goes on from the checkpoints that it finds, and a checkpoint can contain programs. So nobody else may be able to
write to the directory, or to put another one in its place. The user root is refused.
"""

from __future__ import annotations

import os
import sys
import typing as t
from pathlib import Path

try:
    from . import trust
except ImportError:  # as a program of its own
    import trust  # type: ignore[import-not-found, no-redef]

EXIT_REFUSED = 64


def main(argv: t.Sequence[str], environment: t.Mapping[str, str]) -> int:
    """Claim a directory below the one of all runs."""
    try:
        sys.stdout.write(f"{claim(Path(argv[0]), environment)}\n")
    except (trust.TrustError, OSError) as error:
        sys.stderr.write(f"no directory for this run: {error}\n")
        return EXIT_REFUSED
    return 0


def claim(runs: Path, environment: t.Mapping[str, str]) -> Path:
    """Return the directory of this job; outside a job, that of the user."""
    user = os.getuid()
    if user == 0:
        raise trust.TrustError("root does not train, because a checkpoint can contain programs. Submit as another user")
    own = runs / trust.user_name(user)
    named, job = environment.get("GPUCLUSTER_RUN"), environment.get("SLURM_JOB_ID")
    if not named and not own.is_dir():
        raise trust.TrustError(
            f"{own} is missing. An administrator adds you to training_users and runs playbooks/train.yml,"
            " or you set GPUCLUSTER_RUN to a new directory below your home"
        )
    run = Path(named).absolute() if named else own / f"{environment.get('SLURM_JOB_NAME', 'run')}-{job}" if job else own
    trust.check_above(str(run), trust.trusted_above())
    # Only the same job, or whoever names the directory, goes on from what is there.
    again = bool(named) or run == own or int(environment.get("SLURM_RESTART_COUNT") or 0) > 0
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        if not again:
            raise trust.TrustError(
                f"{run} is there already, of another job with this number. To go on from its checkpoints, set"
                f" GPUCLUSTER_RUN={run}"
            ) from None
    trust.check(str(run), {user}, trust.trusted_above())
    return run


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
