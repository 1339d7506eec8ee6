# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as one file, as Slurm and the timer run it, with commands that are scripts."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic import cli
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import ElasticError, Set, read_config
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.command import CommandCloud
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import LOADED, PATIENCE, slowness

if t.TYPE_CHECKING:
    from pathlib import Path

COUNT = 1000
SCONTROL = """
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
state = json.load(open(here + "/nodes.json"))
if "ping" in sys.argv:
    print("Slurmctld(primary) at " + open(here + "/leader").read() + " is UP")
elif "hostnames" in sys.argv:
    print("\\n".join(sys.argv[-1].split(",")))
elif "update" in sys.argv:
    open(here + "/updates", "a").write(" ".join(sys.argv[1:])[:200] + "\\n")
else:
    for name, flags in state.items():
        print(f"NodeName={name} NodeHostName={name} CPUAlloc=0 State={flags} Partitions=batch")
"""
CLOUD = """
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
nodes = json.load(sys.stdin)["nodes"]
open(here + "/calls", "a").write(f"{sys.argv[1]} {len(nodes)}\\n")
path = here + "/machines.json"
have = json.load(open(path)) if os.path.exists(path) else []
if sys.argv[1] == "start":
    have = sorted({*have, *nodes})
if sys.argv[1] == "stop":
    have = sorted({*have} - {*nodes})
json.dump(have, open(path, "w"))
if sys.argv[1] == "list":
    print(json.dumps({"machines": [{"node": name} for name in have]}))
"""


class Site:
    """A directory with the program, its configuration, and the commands that it runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.script("gpucluster-elastic", zipapp.build("_elastic.cli", sys.executable))
        self.script("scontrol", f"#!{sys.executable}\n{SCONTROL}".encode())
        self.script("squeue", b"#!/bin/sh\n")
        self.script("cloud", f"#!{sys.executable}\n{CLOUD}".encode())
        self.names = [f"h100-{number:04d}" for number in range(1, COUNT + 1)]
        one = {"name": "h100", "nodes": self.names, "provider": "command", "min_count": 0}
        one.update(end_limit=10, start_limit=3)
        config = {"directory": str(directory), "sets": [{**one, "options": {"program": str(directory / "cloud")}}]}
        (directory / "elastic.json").write_text(json.dumps(config), encoding="utf-8")
        (directory / "leader").write_text(socket.gethostname(), encoding="utf-8")
        self.state("IDLE+CLOUD+POWERED_DOWN")

    def script(self, name: str, content: bytes) -> None:
        """Write an executable file."""
        path = self.directory / name
        path.write_bytes(content)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def state(self, flags: str) -> None:
        """Set the state of all nodes."""
        (self.directory / "nodes.json").write_text(json.dumps(dict.fromkeys(self.names, flags)), encoding="utf-8")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the program."""
        return subprocess.run(
            [str(self.directory / "gpucluster-elastic"), f"--config={self.directory}/elastic.json", *arguments],
            env={"PATH": f"{self.directory}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def calls(self) -> list[str]:
        """Return the calls of the cloud."""
        path = self.directory / "calls"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_thousand_nodes_start_by_one_call_in_five_seconds(site: Site) -> None:
    site.state("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP")
    request = site.directory / "resume.json"
    job = {"job_id": 7, "nodes_resume": "h100-[0001-1000]"}
    text = json.dumps({"all_nodes_resume": "h100-[0001-1000]", "jobs": [{**job, "extra": "?"}]})
    request.write_bytes(text.encode().replace(b"?", b"\xff"))  # a user chose it
    before = resource.getrusage(resource.RUSAGE_CHILDREN)

    done = site.run("resume", "h100-[0001-1000]", SLURM_RESUME_FILE=str(request))

    assert (done.returncode, done.stderr.splitlines()[0]) == (0, "job 7 waits for h100-[0001-1000]")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= 5 * LOADED * slowness()
    assert [call for call in site.calls() if call.startswith("start")] == ["start 1000"]
    assert len(json.loads((site.directory / "machines.json").read_text(encoding="utf-8"))) == COUNT


def test_a_thousand_nodes_end_and_slurm_is_told(site: Site) -> None:
    (site.directory / "machines.json").write_text(json.dumps(site.names), encoding="utf-8")
    site.state("IDLE+CLOUD+POWERING_DOWN")
    config = json.loads((site.directory / "elastic.json").read_text(encoding="utf-8"))
    assert config["sets"][0]["nodes"] == site.names

    for _turn in range(2):
        assert site.run("reconcile").returncode == 0

    assert "stop 1000" in site.calls()
    assert (site.directory / "updates").read_text(encoding="utf-8").count("nodename=h100-") == 2


def test_a_controller_that_does_not_lead_does_nothing(site: Site) -> None:
    site.state("ALLOCATED+CLOUD+POWERING_UP")
    (site.directory / "leader").write_text("other", encoding="utf-8")

    assert site.run("reconcile").returncode == 0
    assert site.calls() == []


def test_without_a_configuration_it_does_nothing(site: Site) -> None:
    (site.directory / "elastic.json").unlink()

    assert (site.run("reconcile").returncode, site.calls()) == (0, [])


def test_a_damaged_configuration_is_an_error(site: Site) -> None:
    (site.directory / "elastic.json").write_text('{"sets": [{}]}', encoding="utf-8")

    done = site.run("reconcile")

    assert (done.returncode, "is not a valid configuration" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((1, "", "no route to the cloud"), "exited 1: no route"),
        ((124, "", "killed"), "exited 124"),
        ((0, "hello", ""), "no JSON"),
        ((0, "[]", ""), "no object"),
        ((0, "{}", ""), "no list of machines"),
        ((0, '{"machines": ["a"]}', ""), "found the machine 'a'"),
        ((0, '{"machines": [{"node": "a"}, {"nod', ""), "no JSON"),
        ((0, '{"machines": [{"node": 3}]}', ""), "found the machine"),
        ((0, '{"machines": [{"node": "a", "gone": "false"}]}', ""), "allowed: "),
        ((0, '{"machines": [{"node": "a"}, {"node": "a"}]}', ""), "a machine twice"),
        ((0, "", ""), "no list of machines"),
    ],
)
def test_a_wrong_answer_of_the_hook_is_no_empty_cloud(answer: tuple[int, str, str], text: str) -> None:
    cloud = CommandCloud(lambda *_arguments: answer, Set("h100", ("a",), "command", 0, {"program": "/hook"}, 10, 3))

    with pytest.raises(ElasticError, match=text):
        cloud.machines({})


def test_a_set_is_released_by_name(site: Site) -> None:
    (site.directory / "state.json").write_text('{"failed": {"set h100": 3, "node h100-0001": 2}}', encoding="utf-8")

    assert site.run("release", "h100").returncode == 0
    assert json.loads((site.directory / "state.json").read_text(encoding="utf-8"))["failed"] == {}


def test_a_person_may_raise_the_limit_of_one_pass(site: Site) -> None:
    (site.directory / "machines.json").write_text(json.dumps(site.names[:20]), encoding="utf-8")
    site.run("reconcile")
    state = json.loads((site.directory / "state.json").read_text(encoding="utf-8"))
    passed = {key: [first - 61, last - 1, count] for key, (first, last, count) in state["seen"].items()}
    (site.directory / "state.json").write_text(json.dumps({**state, "seen": passed}), encoding="utf-8")

    assert "end_limit allows 10" in site.run("reconcile").stderr
    assert "delete 20 machines" in site.run("reconcile", "--end-limit", "20").stderr


def test_another_user_than_that_of_the_directory_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(ElasticError, match="sudo -u slurm gpucluster-elastic"):
        cli._refuse_other_user(str(site.directory))


def test_an_unknown_provider_is_an_error(site: Site) -> None:
    one = Set("h100", ("a",), "moon", 0, {}, 10, 3)

    with pytest.raises(ElasticError, match="unknown provider 'moon'"):
        cli.clouds(t.cast("t.Any", None), t.cast("t.Any", None))(one, t.cast("t.Any", None))


def test_the_configuration_is_complete() -> None:
    text = json.dumps({"directory": "/d", "sets": [{"name": "a"}]})

    with pytest.raises(ElasticError, match="KeyError"):
        read_config(text, "elastic.json")
