# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program against a metadata service over HTTP, with a Slurm that is made up."""

from __future__ import annotations

import contextlib
import json
import time
import typing as t
from email.utils import formatdate, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_events import cli, events, metadata
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_events.metadata import Metadata
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_events.slurm import Slurm
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, within

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PREEMPT: dict[str, t.Any] = {
    "EventId": "0F2B1A6E-27DD-4D47-9FA1-9B4E4B7F2C11",
    "EventStatus": "Scheduled",
    "EventType": "Preempt",
    "ResourceType": "VirtualMachine",
    "Resources": ["h100_3"],
    "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
    "Description": "",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}
NOW = 1649715988.0  # 30 s before


class Service:
    """The metadata service."""

    def __init__(self) -> None:
        self.events: list[dict[str, t.Any]] = []
        self.status = 200
        self.body: bytes | None = None
        self.silence = 0.0
        self.trickle = 0.0
        self.started: list[str] = []
        self.asked: list[str] = []
        self.date = ""

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        self.asked.append(f"{handler.command} {handler.path}")
        time.sleep(self.silence)  # fault: the service hangs
        if handler.headers["Metadata"] != "true":
            return 400, b'{"error": "Bad request. Required metadata header not specified"}'
        if handler.path == "/metadata/instance?api-version=2021-02-01":
            return 200, b'{"compute": {"name": "h100_3", "vmScaleSetName": "h100"}, "network": {}}'
        assert handler.path == "/metadata/scheduledevents?api-version=2020-07-01"
        if self.status != 200:
            return self.status, self.body or b'{"error": "no"}'
        if handler.command == "POST":
            self.started += [one["EventId"] for one in json.loads(body)["StartRequests"]]
            return 200, b""
        return 200, self.body if self.body is not None else json.dumps(
            {"DocumentIncarnation": 1, "Events": self.events}
        ).encode()


class FakeSlurm:
    """One node with jobs, by job the letters of Requeue and BatchFlag; a requeued job is gone at once."""

    def __init__(self) -> None:
        self.flags = "IDLE"
        self.reason = ""
        self.jobs: dict[str, str] = {}
        self.begun: list[str] = []
        self.failing: set[str] = set()
        self.calls: list[str] = []

    def run(self, args: Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(" ".join(args[1:]))
        if self.failing & set(args):
            return 1, "", "slurm_update error: Unable to contact slurm controller"
        if args[0] == "squeue":
            return 0, "".join(f"{job:24}RUNNING                 {flags}\n" for job, flags in self.jobs.items()), ""
        if args[1] == "show":
            reason = f"   Reason={self.reason} [root@2026-11-22T18:33:51]\n" if self.reason else ""
            return 0, f"NodeName=gpu1\n   State={self.flags} ThreadsPerCore=1\n{reason}", ""
        if args[1] == "requeue":
            del self.jobs[args[2]]
        elif args[2].startswith("JobId="):
            self.begun.append(args[2])
        elif args[3] == "State=DRAIN":
            self.flags, self.reason = f"{self.flags}+DRAIN", args[4].removeprefix("Reason=")
        else:
            self.flags, self.reason = "IDLE", ""
        return 0, "", ""

    def changes(self) -> list[str]:
        """Return the calls that change something."""
        return [call for call in self.calls if call.startswith(("update", "requeue"))]


class Machine(t.NamedTuple):
    """All parts of a test."""

    service: Service
    address: str
    slurm: FakeSlurm
    said: list[str]
    checks: list[int]

    def settings(self, **changes: t.Any) -> events.Settings:
        return events.Settings(
            node="gpu1",
            metadata=self.address,
            drain=events.KINDS,
            requeue=("Preempt", "Reboot"),
            margin=120.0,
            interval=2.0,
            check=("check",),
        )._replace(**changes)

    def watch(self, **changes: t.Any) -> cli.Watch:
        """Return a program that was just started."""
        settings = self.settings(**changes)

        def check(_args: Sequence[str]) -> tuple[int, str, str]:
            return (self.checks.pop(0) if self.checks else 0), "gpu_count: unhealthy", ""

        return cli.Watch(settings, Metadata(self.address), Slurm(self.slurm.run, "gpu1"), check, self.said.append)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Return a machine whose metadata service answers."""
    service = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = service.answer(self, body)
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(content)))
            if service.date:
                self.send_header("Date", service.date)
            self.end_headers()
            for one in [content[i : i + 1] for i in range(len(content))] if service.trickle else [content]:
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(one)
                time.sleep(service.trickle)  # fault: the service is slow

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_args: t.Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield Machine(service, f"http://127.0.0.1:{server.server_address[1]}", FakeSlurm(), [], [])
    server.shutdown()
    server.server_close()


def test_a_preemption_drains_requeues_and_is_acknowledged_in_two_looks(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    machine.slurm.jobs = {"7": "1       1       ", "8": "0       1       "}
    watch = machine.watch()

    assert watch.look(NOW) == 2.0
    assert machine.slurm.changes() == [
        "update NodeName=gpu1 State=DRAIN Reason=Azure event: Preempt 0F2B1A6E-27DD-4D47-9FA1-9B4E4B7F2C11"
        " not before Mon, 11 Apr 2022 22:26:58 GMT",
        "requeue 7",
    ]
    assert machine.service.started == []  # job 8 does not ask to be requeued, and runs
    machine.slurm.jobs.clear()
    watch.look(NOW + 10)
    assert machine.service.started == [PREEMPT["EventId"]]


def test_a_requeued_job_begins_elsewhere_when_it_has_left_the_node(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    machine.slurm.jobs = {"7": "1       1       "}
    watch = machine.watch()
    watch.look(NOW)
    machine.slurm.jobs = {"7": "1       1       "}  # it is completing
    machine.slurm.failing = {"requeue"}
    watch.look(NOW + 10)
    assert machine.slurm.begun == []
    machine.slurm.jobs = {}
    for second in (20, 30):
        watch.look(NOW + second)

    assert machine.slurm.begun == ["JobId=7"]


def test_a_quiet_node_asks_slurm_once_and_then_only_azure(machine: Machine) -> None:
    watch = machine.watch()
    for second in range(20):
        watch.look(NOW + 2 * second)

    assert machine.slurm.calls == ["show node gpu1"]
    assert len(machine.service.asked) == 21
    assert machine.said == ["h100_3: no event"]


def test_a_node_that_waits_for_jobs_asks_slurm_every_ten_seconds(machine: Machine) -> None:
    machine.service.events = [{**PREEMPT, "EventType": "Freeze"}]
    machine.slurm.jobs = {"8": "0       1       "}
    watch = machine.watch()
    for second in range(0, 20, 2):
        watch.look(NOW + second)

    assert sum("nodelist" in call for call in machine.slurm.calls) == 2


@pytest.mark.parametrize("wrong", [-86_400.0, 86_400.0])
def test_a_wrong_clock_of_the_machine_neither_ends_jobs_early_nor_late(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    """The times of an event are Azure's, and so is the time of its answer."""
    machine.service.events = [{**PREEMPT, "EventType": "Reboot"}]
    due = parsedate_to_datetime(PREEMPT["NotBefore"]).timestamp() - 120
    monkeypatch.setattr(time, "time", lambda: due + wrong)
    machine.slurm.jobs = {"7": "1       1       "}
    watch = machine.watch()

    machine.service.date = formatdate(due - 1, usegmt=True)
    watch.look(NOW)
    assert machine.slurm.jobs
    machine.service.date = formatdate(due, usegmt=True)
    watch.look(NOW + 10)
    assert not machine.slurm.jobs


def test_the_program_counts_periods_by_a_clock_that_nobody_can_set(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(json.dumps(machine.settings()._asdict()), encoding="utf-8")
    seen: list[float] = []

    def look(_watch: cli.Watch, now: float) -> float:
        seen.append(now)
        return 1.0

    monkeypatch.setattr(cli.Watch, "look", look)
    monkeypatch.setattr(cli, "time", SimpleNamespace(monotonic=lambda: 5.0, time=lambda: 7.0))

    assert cli.main(["--config", str(config), "--once"]) == 0

    assert seen == [5.0]


@pytest.mark.parametrize("restarted", [False, True])
def test_the_node_returns_when_the_event_is_gone_also_after_a_restart(machine: Machine, restarted: bool) -> None:
    machine.service.events = [PREEMPT]
    watch = machine.watch()
    watch.look(NOW)
    watch = machine.watch() if restarted else watch
    machine.service.events = []
    watch.look(NOW + 2)

    assert machine.slurm.changes()[-1] == "update NodeName=gpu1 State=RESUME"
    assert machine.said[-1] == "the events are over; resumed"


def test_a_restart_in_an_event_continues_and_drains_no_second_time(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    machine.slurm.failing = {"requeue"}
    machine.slurm.jobs = {"7": "1       1       "}
    machine.watch().look(NOW)
    machine.slurm.failing.clear()
    machine.watch().look(NOW + 5)

    assert [call.split()[0] for call in machine.slurm.changes()] == ["update", "requeue", "requeue"]
    assert machine.slurm.jobs == {}


@pytest.mark.parametrize("flags", ["IDLE+DRAIN", "MIXED+DRAIN", "ALLOCATED+DRAIN+FAIL"])
@pytest.mark.parametrize("reason", ["bad cable", "NHC: gpu_count: expected 8, found 7", ""])
def test_a_node_that_somebody_else_drained_is_not_changed(machine: Machine, flags: str, reason: str) -> None:
    machine.slurm.flags, machine.slurm.reason = flags, reason
    watch = machine.watch()
    for found in ([PREEMPT], [], [PREEMPT]):
        machine.service.events = found
        watch.look(NOW)

    assert machine.slurm.changes() == []
    assert machine.service.started == []


def test_a_node_that_an_administrator_took_over_stays_drained(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    watch = machine.watch()
    watch.look(NOW)
    machine.slurm.reason, machine.service.events = "I look at it", []
    watch.look(NOW + 2)

    assert machine.slurm.reason == "I look at it"


@pytest.mark.parametrize("flags", ["DOWN", "IDLE+REBOOT_ISSUED", "DOWN*"])
def test_a_node_that_is_down_or_reboots_is_not_changed(machine: Machine, flags: str) -> None:
    machine.slurm.flags, machine.service.events = flags, [PREEMPT]
    machine.watch().look(NOW)

    assert machine.slurm.changes() == []


def test_a_rebooted_node_that_is_down_by_our_drain_returns(machine: Machine) -> None:
    machine.slurm.flags, machine.slurm.reason = "DOWN+DRAIN", "Azure event: Reboot X"
    machine.watch().look(NOW)

    assert machine.slurm.changes() == ["update NodeName=gpu1 State=RESUME"]


def test_a_node_whose_check_fails_stays_drained_until_it_passes(machine: Machine) -> None:
    machine.slurm.flags, machine.slurm.reason = "IDLE+DRAIN", "Azure event: Reboot X"
    machine.checks.extend([1, 127])
    watch = machine.watch()
    for second in (0, 30, 59, 60, 119):
        watch.look(NOW + second)
        assert machine.slurm.changes() == []
    watch.look(NOW + 121)

    assert machine.slurm.changes() == ["update NodeName=gpu1 State=RESUME"]
    assert machine.said[1].endswith("its check exited 1: gpu_count: unhealthy")


def test_an_empty_check_checks_nothing(machine: Machine) -> None:
    machine.slurm.flags, machine.slurm.reason = "IDLE+DRAIN", "Azure event: Reboot X"
    machine.checks.append(1)
    machine.watch(check=()).look(NOW)

    assert machine.slurm.changes() == ["update NodeName=gpu1 State=RESUME"]


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (429, None, "429: there were too many requests"),
        (410, None, "410: the service is being updated"),
        (404, None, "404: this machine has no such service"),
        (500, None, "answered 500"),
        (
            400,
            b'{"error": "Bad request. api-version is invalid"}',
            "400: the request was refused: Error: Bad request. api",
        ),
        (
            503,
            b'{"error": {"code": "X", "details": [{"code": "Inner", "message": "why"}]}}',
            "answered 503: Inner: why",
        ),
        (200, b"", "no JSON"),
        (200, b"<html>", "no JSON"),
        (200, b'{"DocumentIncarnation": 1}', "no list of events"),
    ],
)
def test_an_answer_that_says_nothing_changes_nothing(
    machine: Machine, status: int, body: bytes | None, words: str
) -> None:
    machine.slurm.flags, machine.slurm.reason = "IDLE+DRAIN", "Azure event: Reboot X"
    machine.service.status, machine.service.body = status, body
    watch = machine.watch()
    pauses = [watch.look(NOW + second) for second in range(6)]

    assert machine.slurm.calls == []
    assert pauses == [4.0, 8.0, 10.0, 10.0, 10.0, 10.0]
    assert len(machine.said) == 1
    assert words in machine.said[0]
    machine.service.status, machine.service.body = 200, None
    assert watch.look(NOW + 60) == 2.0


@pytest.mark.parametrize(("silence", "trickle"), [(HANGS, 0.0), (0.0, 0.15)])
def test_a_service_that_hangs_is_given_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, silence: float, trickle: float
) -> None:
    monkeypatch.setattr(metadata, "SECONDS", 0.2)
    machine.service.silence, machine.service.trickle = silence, trickle
    with within("the question to the service"):
        machine.watch().look(NOW)

    # A client that waits for the end of the trickled answer finds no fault in it.
    assert "does not answer" in machine.said[0]


def test_a_machine_without_a_service_is_named(machine: Machine) -> None:
    machine = machine._replace(address="http://127.0.0.1:9")
    machine.watch().look(NOW)

    assert machine.said[0].startswith("the metadata service does not answer: ")


def test_slurm_that_fails_is_asked_again_and_said_once(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    machine.slurm.failing = {"show"}
    watch = machine.watch()
    for second in range(0, 30, 2):
        watch.look(NOW + second)
    machine.slurm.failing.clear()
    watch.look(NOW + 40)

    assert [line for line in machine.said if "Unable to contact" in line] == [
        "scontrol show failed: slurm_update error: Unable to contact slurm controller"
    ]
    assert machine.slurm.flags == "IDLE+DRAIN"


def test_one_job_that_cannot_be_requeued_does_not_hold_up_the_next(machine: Machine) -> None:
    machine.service.events = [PREEMPT]
    machine.slurm.jobs = {"7": "1       1       ", "9": "1       1       "}
    machine.slurm.failing = {"7"}
    machine.watch().look(NOW)

    assert machine.slurm.jobs == {"7": "1       1       "}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"node": ""}', json.dumps({"interval": 0})],
)
def test_a_configuration_that_is_not_usable_is_refused(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {
        "node": "gpu1",
        "metadata": "http://x",
        "drain": [],
        "requeue": [],
        "margin": 1,
        "interval": 2,
        "check": [],
    }
    given = json.loads(text) if text.startswith('{"') else None
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**whole, **given}) if given else text, encoding="utf-8")

    assert cli.main(["--config", str(path)]) == 1
    assert str(path) in capsys.readouterr().err


def test_one_look_ends(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**machine.settings()._asdict()}), encoding="utf-8")

    assert cli.main(["--config", str(path), "--once"]) == 0
    assert capsys.readouterr().out.startswith("h100_3: no event\n")


@pytest.mark.parametrize("said", ["7 RUNNING 1", "7 RUNNING 1 1 x", "error"])
def test_a_list_of_jobs_that_cannot_be_read_is_no_idle_node(said: str) -> None:
    with pytest.raises(events.EventsError, match="squeue printed"):
        Slurm(lambda _args: (0, f"{said}\n", ""), "gpu1").jobs()
