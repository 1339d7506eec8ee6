# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a controller needs so that it has the wanted configuration."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import config_plan, files
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

ALL = ["cpuset", "cpu", "io", "memory", "pids"]


def present(given: dict[str, t.Any] | None = None, **found: t.Any) -> dict[str, t.Any]:
    """Return a controller that has the files of inputs."""
    texts = files.texts(given or inputs(), cgroup=True)
    there = {name: {"content": config_plan.HEADER + text, "right": True} for name, text in texts.items()}
    return {"files": there, "pending": [], "delegated": ALL, **found}


def test_a_controller_that_has_everything_needs_nothing() -> None:
    wanted = config_plan.plan(inputs(), present())

    assert (wanted.write, wanted.needed, wanted.module_files(), wanted.risky) == ({}, [], [], False)


def test_a_bare_controller_gets_all_files_and_no_action() -> None:
    wanted = config_plan.plan(inputs(), present(files={}))

    assert list(wanted.write) == ["slurm.conf", "cgroup.conf", "gres.conf", "mpi.conf", "plugstack.conf"]
    assert wanted.needed == []
    assert all(one["path"].startswith("/etc/slurm/") for one in wanted.module_files())
    assert wanted.write["slurm.conf"].startswith("# Ansible managed")


def test_the_note_is_written_before_the_files() -> None:
    wanted = config_plan.plan(inputs(slurm_config={"KillWait": 77}), present())
    note, text = wanted.module_files()

    assert (note["path"], note["mode"]) == ("/etc/slurm/.gpucluster-pending", "0600")
    assert [one["action"] for one in json.loads(note["content"])] == ["reconfigure"]
    assert text["path"] == "/etc/slurm/slurm.conf"
    assert not wanted.restarts


def test_what_an_interrupted_run_has_left_is_done_without_a_change() -> None:
    left = {"action": "restart", "restart": ["slurmctld"], "reconfigure": [], "jobs_at_risk": True, "warnings": []}
    wanted = config_plan.plan(inputs(), present(pending=[left]))

    assert (wanted.write, wanted.needed, wanted.module_files()) == ({}, [left], [])
    assert wanted.restarts
    assert not wanted.risky, "the files are written; only the daemons have not read them"


def test_a_wrong_mode_is_mended_without_an_action() -> None:
    found = present()
    found["files"]["gres.conf"]["right"] = False
    wanted = config_plan.plan(inputs(), found)

    assert (list(wanted.write), wanted.needed) == (["gres.conf"], [])


def test_a_restart_of_slurmctld_is_asked_for_by_its_key() -> None:
    assert config_plan.plan(inputs(slurm_config={"SlurmctldPort": 7000}), present()).restarts


@pytest.mark.parametrize(("drained", "risky"), [([], True), (["gpu1"], True), (["gpu2"], False)])
def test_only_a_drained_node_leaves_without_a_risk(drained: list[str], risky: bool) -> None:
    fewer = [{**inputs()["slurm_nodes"][0], "hosts": "gpu1"}]
    wanted = config_plan.plan(inputs(slurm_nodes=fewer, slurm_drained=drained), present())

    assert wanted.risky is risky
    if risky:
        assert "jobs on gpu2 are ended when it leaves the configuration" in config_plan.refusal(wanted)


@pytest.mark.parametrize(
    ("asked", "delegated", "cgroup"),
    [
        ("auto", ALL, True),
        ("auto", ["cpu", "memory", "pids"], False),  # as many a container has it
        ("auto", [], False),
        ("auto", None, False),
        ("cgroup", None, True),
        ("none", ALL, False),
    ],
)
def test_containment_needs_the_controllers_that_slurmd_asks_for(
    asked: str, delegated: list[str] | None, cgroup: bool
) -> None:
    wanted = config_plan.plan(inputs(slurm_containment=asked), present(files={}, delegated=delegated))

    assert wanted.cgroup is cgroup
    assert ("ProctrackType=proctrack/cgroup" in wanted.write["slurm.conf"]) is cgroup


def test_x11_forwarding_without_control_groups_is_refused() -> None:
    with pytest.raises(config_plan.Refused, match=r"systemd does not delegate cpuset\. Set slurm_x11"):
        config_plan.plan(inputs(slurm_x11=True), present(delegated=["cpu", "memory"]))
    given = inputs(slurm_x11=True, slurm_config={"proctracktype": "proctrack/linuxproc"})
    with pytest.raises(config_plan.Refused, match="Set slurm_x11 to false"):
        config_plan.plan(given, present())


def test_a_topology_and_private_tmp_have_files() -> None:
    given = inputs(slurm_topology_plugin="tree", slurm_topology={"gpu[1-2]": "leaf"}, slurm_private_tmp=True)
    texts = files.texts(given, cgroup=False)

    assert texts["topology.conf"] == "SwitchName=leaf Nodes=gpu[1-2]\n"
    assert texts["job_container.conf"] == "AutoBasePath=true\nBasePath=/var/spool/slurm-tmp\nDirs=/tmp,/var/tmp\n"
    assert list(texts) == files.names(given)
