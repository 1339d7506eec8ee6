#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module that runs, awaits and cancels jobs of Slurm."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_job
short_description: Run, await and cancel jobs of Slurm
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Submits a job, waits for it with a timeout, and returns its exit status and output.
  - Cancels a job that does not start, and reports why Slurm held it. If a node of O(nodelist) is drained or down, the
    module reports its reason at once.
  - Cancels the jobs that it submitted and still waits for when the module is interrupted or the connection to the host
    breaks. In any case Slurm's own O(time_limit) ends them.
  - Runs a O(command) attached, so that its output returns through Slurm and no shared directory is necessary. A
    O(script) is a normal batch job.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._slurm_allocation
attributes:
  check_mode:
    support: full
    details: Nothing is submitted or cancelled in check mode.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: A job runs each time. With O(state=absent), or with O(job_id), a second run changes nothing.
options:
  state:
    description:
      - V(finished) submits the job, unless O(job_id) is set, and waits until it ends.
      - V(started) waits only until it runs, and does not stop it.
      - V(absent) cancels O(job_id), or all of the user's own jobs with O(name).
    type: str
    choices: [finished, started, absent]
    default: finished
  command:
    description:
      - Command and arguments, run on all nodes in parallel with C(srun).
    type: list
    elements: str
  each_node:
    description:
      - Whether O(command) runs separately on each node, in parallel, with one result per node. A node that fails or
        hangs then does not hide the results of the others. If Slurm ends the job because it drains nodes of
        O(nodelist), as after a failed prolog, the other nodes get a job without them.
    type: bool
    default: false
  script:
    description:
      - Content of a batch script.
    type: str
  nodes:
    description:
      - Number of nodes. The default is the length of O(nodelist), or 1.
    type: int
  nodelist:
    description:
      - Names of the nodes. If omitted, any nodes; an empty list is refused.
    type: list
    elements: str
  step_options:
    description:
      - Further options of C(srun) for O(command), such as V(--mpi=pmix).
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Time limit of O(command) in seconds. The default is O(time_limit) minus 15 seconds.
    type: int
  output:
    description:
      - File for the output of O(script), on the node that runs the script; see C(sbatch --output).
    type: str
    default: /dev/null
seealso:
  - module: hpcai.gpucluster.nccl_test
"""

EXAMPLES = r"""
- name: Print the name of every node of the partition
  hpcai.gpucluster.slurm_job:
    partition: main
    nodelist: [gpu1, gpu2]
    command: [hostname]
    each_node: true

- name: Run a batch script and wait for it
  hpcai.gpucluster.slurm_job:
    nodes: 2
    script: |
      #!/bin/sh
      srun --mpi=pmix ./program
    output: /shared/program-%j.txt

- name: Cancel the jobs of an earlier run
  hpcai.gpucluster.slurm_job:
    name: gpucluster-validate
    state: absent
"""

RETURN = r"""
job_id:
  description: ID of the job.
  returned: when there is a job
  type: int
  sample: 17
state:
  description: Slurm's state of the job when the module ended.
  returned: when there is a job
  type: str
  sample: COMPLETED
nodes:
  description: Names of the job's nodes.
  returned: when the job has started
  type: list
  elements: str
exit_code:
  description:
    - Exit status of the script; 128 plus the signal number if it was killed.
    - With O(command), the highest status of all results; 124 if one exceeded its timeout.
  returned: when the job has run
  type: int
results:
  description: One entry for the command, or one per node with O(each_node).
  returned: with O(command)
  type: list
  elements: dict
  contains:
    nodes:
      description: Names of the nodes.
      type: list
      elements: str
    rc:
      description: Exit status; 124 after a timeout.
      type: int
    stdout:
      description: Standard output of the command.
      type: str
    stderr:
      description: Standard error of the command and messages of Slurm.
      type: str
    seconds:
      description: Duration in seconds.
      type: float
    lost:
      description: Reason why the command could not run there, such as the reason for which Slurm drained the node; else
        empty.
      type: str
output:
  description: Output of the script.
  returned: when the file of O(output) can be read on this host
  type: str
cancelled:
  description: IDs of the cancelled jobs.
  returned: with O(state=absent)
  type: list
  elements: int
"""

import typing as t
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import allocation
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job as slurm_job
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import interrupt

_LONGEST_OUTPUT = 4 * 1024 * 1024


def absent(slurm: slurm_job.Slurm, params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Cancel a job, or all own jobs of a name."""
    if params["job_id"]:
        numbers = [] if slurm.job(params["job_id"]).ended else [params["job_id"]]
    else:
        numbers = slurm.named(params["name"])
    if not check_mode:
        slurm.cancel(numbers)
    return {"changed": bool(numbers), "cancelled": numbers}


def command(slurm: slurm_job.Slurm, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Run a command in an allocation; with each_node, repeat it while Slurm drains some nodes and others remain."""
    if not (params["each_node"] and params["nodelist"]) or params["job_id"]:
        return _attempt(slurm, params)
    left: list[str] = list(params["nodelist"])
    results: list[dict[str, t.Any]] = []
    while left:
        try:
            found = _attempt(slurm, {**params, "nodelist": left})["results"]
            drained = slurm.lost_nodes(left) if any(result["lost"] for result in found) else {}
        except slurm_job.SlurmError:
            found, drained = [], slurm.lost_nodes(left)
            if not drained:
                raise
        ran = [result for result in found if not (drained and result["lost"])]
        results += ran + [_not_run(name, text) for name, text in drained.items() if name not in _names(ran)]
        left = [name for name in left if name not in _names(results)]
    results.sort(key=lambda result: params["nodelist"].index(result["nodes"][0]))
    return _finished(slurm.submitted[-1] if slurm.submitted else None, params["nodelist"], results)


def _attempt(slurm: slurm_job.Slurm, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Run a command in one allocation."""
    with allocation.allocation(slurm, params, params["nodelist"], params["nodes"]) as job:
        names = params["nodelist"] or slurm.hostnames(job.nodes)
        groups = [(name,) for name in names] if params["each_node"] else [tuple(names)]
        limit = params["timeout"] or 60 * params["time_limit"] - 15
        steps = [
            slurm_job.Step(params["name"], group, tuple(params["step_options"]), tuple(params["command"]), limit)
            for group in groups
        ]
        results = [_result(result) for result in slurm.steps(job.id, steps)]
    return _finished(job.id, names, results)


def _finished(number: int | None, names: list[str], results: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    """Return the module's result of a command."""
    return {
        "changed": True,
        **({"job_id": number, "state": "COMPLETED"} if number else {}),
        "nodes": names,
        "exit_code": max(result["rc"] for result in results),
        "results": results,
    }


def _result(result: slurm_job.Result) -> dict[str, t.Any]:
    """Return the module's result of a step."""
    return {
        "nodes": list(result.step.nodes),
        "rc": result.code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "seconds": round(result.seconds, 2),
        "lost": result.lost,
    }


def _not_run(name: str, reason: str) -> dict[str, t.Any]:
    """Return the result of a node that Slurm drained before the command could run."""
    return {"nodes": [name], "rc": 1, "stdout": "", "stderr": "", "seconds": 0.0, "lost": reason}


def _names(results: list[dict[str, t.Any]]) -> set[str]:
    """Return the node names of results."""
    return {name for result in results for name in result["nodes"]}


def batch(slurm: slurm_job.Slurm, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Submit a script, or use an existing job, and wait as the state requires."""
    with interrupt.cleaned_up(lambda: slurm.cancel(slurm.submitted)):
        number = params["job_id"]
        if not number:
            slurm.refuse_stopped(params["nodelist"] or [])
            chosen = allocation.submit_options(params, params["nodelist"], params["nodes"])
            script = params["script"] or slurm_job.holder(60 * params["time_limit"])
            number = slurm.submit([*chosen, f"--output={params['output']}"], script)
        job = slurm.wait_started(number, params["pending_timeout"], poll=0.5, nodes=params["nodelist"] or [])
        if params["state"] == "finished":
            job = slurm.wait_finished(number, 60 * params["time_limit"] + 60)
    found: dict[str, t.Any] = {
        "changed": not params["job_id"],
        "job_id": number,
        "state": job.state,
        "nodes": slurm.hostnames(job.nodes),
    }
    if job.ended:
        found["exit_code"] = job.exit_code
    if job.output and job.output != "/dev/null" and Path(job.output).is_file():
        with Path(job.output).open(encoding="utf-8", errors="replace") as stream:
            found["output"] = stream.read(_LONGEST_OUTPUT)
    return found


def run(slurm: slurm_job.Slurm, params: dict[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Execute the requested state."""
    if params["state"] == "absent":
        return absent(slurm, params, check_mode)
    if check_mode and not params["job_id"]:
        return {"changed": True, "results": []}
    if params["command"]:
        return command(slurm, params)
    return batch(slurm, params)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **allocation.ALLOCATION,
            "state": {"type": "str", "choices": ["finished", "started", "absent"], "default": "finished"},
            "command": {"type": "list", "elements": "str"},
            "each_node": {"type": "bool", "default": False},
            "script": {"type": "str"},
            "nodes": {"type": "int"},
            "nodelist": {"type": "list", "elements": "str"},
            "step_options": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int"},
            "output": {"type": "str", "default": "/dev/null"},
        },
        mutually_exclusive=[("command", "script")],
        required_if=[("state", "finished", ("command", "script", "job_id"), True)],
        supports_check_mode=True,
    )
    try:
        result = run(allocation.slurm(), module.params, module.check_mode)
    except slurm_job.SlurmError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
