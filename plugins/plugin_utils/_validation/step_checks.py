# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the results of a command on each node."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import output
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    NOT_RUN,
    PASS,
    WARN,
    Check,
    check,
)

# The exit statuses of gpucluster-check, and its words for what is not healthy, worst first.
_UNHEALTHY, _UNPROVED, _PARTLY_RUN = 1, 3, 4
_WRONG = ("unhealthy", "unknown", "suspect")
_NO_COMMAND = 127


def steps(results: t.Sequence[t.Mapping[str, t.Any]], name: str, title: str, good: str = "") -> list[Check]:
    """Return one check per node from the results of a command; status 127 without a word: the command is missing."""
    found = []
    for result in results:
        code = result["rc"]
        said = output.cause(result["stderr"], result["stdout"]) or "no output"
        message = good if code == 0 else f"{'took too long' if code == 124 else f'exit status {code}'}: {said}"
        # The shell that looks for the command says nothing if it is missing; a command that lacks a library does.
        missing = code == _NO_COMMAND and not output.own(result["stderr"], result["stdout"])
        if missing:
            message = "not installed on the node"
        # If Slurm drained the node or ended the job, its reason is more useful than the exit status.
        message = result.get("lost") or message
        status = PASS if code == 0 else NOT_RUN if missing else FAIL
        found += [check(name, title, status, message, node) for node in result["nodes"]]
    return found


def health(results: t.Sequence[t.Mapping[str, t.Any]], name: str, title: str) -> list[Check]:
    """
    Return one check per node from gpucluster-check, with the unhealthy items.

    Status 3 proves nothing yet. Status 4 means no error, but a check that the hardware requires was not run.
    """
    found = []
    for result in results:
        lines = result["stdout"].splitlines()
        healthy = sum(": healthy" in line for line in lines)
        wrong = [line for word in _WRONG for line in lines if re.match(rf"\w+: {word}: ", line)]
        if result["rc"] in (_UNHEALTHY, _UNPROVED) and wrong:
            status, message = FAIL if result["rc"] == _UNHEALTHY else WARN, "; ".join(wrong)
        elif result["rc"] == _PARTLY_RUN and healthy:
            status = WARN
            message = "; ".join(
                [f"{healthy} checks healthy", *(line for line in lines if re.match(r"\w+: not run: ", line))]
            )
        else:
            found += steps([result], name, title)
            continue
        found += [check(name, title, status, message, node) for node in result["nodes"]]
    return found
