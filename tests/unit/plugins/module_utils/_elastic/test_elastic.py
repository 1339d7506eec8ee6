# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that start and stop for Slurm, with a Slurm and an Azure that are made up."""

from __future__ import annotations

import http.server
import json
import re
import threading
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic import cli
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.azure import Client, ElasticError, transport
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.state import Store

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

ARM = "https://arm.example"
COMES = "ALLOCATED+NOT_RESPONDING+POWERING_UP"
LEAVES = "IDLE+POWERING_DOWN"
NO_ROOM = {"code": "OperationNotAllowed", "details": [{"code": "AllocationFailed", "message": "no capacity"}]}


class World:
    """Nodes h1 to h40 with machines of the same names; answers can be replaced, and what was done is noted."""

    def __init__(self, folder: Path, count: int = 40) -> None:
        self.machines = {f"h{number}": f"/m/h{number}" for number in range(1, count + 1)}
        self.folder = folder / "elastic"
        self.power = dict.fromkeys(self.machines.values(), "running")
        self.states = dict.fromkeys(self.machines, LEAVES)
        self.jobs: list[str] = []
        self.reasons: dict[str, str] = {}
        self.log: list[str] = []
        self.done: list[str] = []
        self.updates: list[str] = []
        self.pauses: list[float] = []
        self.answers: dict[str, list[t.Any]] = {}  # by the end of a path: status, body, headers, or an exception
        self.operations: dict[str, t.Any] = {}
        self.fails = ""  # a command that fails
        self.before: Callable[[str], None] = lambda _what: None  # what happens just before a command or a request
        self.now, self.boot = 1000.0, "one"

    def run(self, argv: Sequence[str], *_more: t.Any) -> tuple[int, str, str]:
        text = " ".join(argv)
        self.before(text)
        if self.fails and text.startswith(self.fails):
            return 1, "", "slurmctld does not answer"
        if text.startswith("scontrol show hostnames"):
            return 0, "\n".join(expanded(argv[-1])), ""
        if argv[0] == "squeue":
            asked = str(next(one for one in argv if one.startswith("--nodelist="))).partition("=")[2].split(",")
            return 0, "\n".join(name for name in self.jobs if name in asked), ""
        if argv[1] == "update":
            self.updates.append(" ".join(argv[2:]))
            return 0, "", ""
        lines = [
            f"NodeName={name} Arch=x86_64 State={self.states[name]} Cores=1 Reason={self.reasons.get(name, '')}"
            for name in argv[-1].split(",")
        ]
        return 0, "\n".join(lines) + "\n", ""

    def send(self, method: str, url: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        path = url.partition("?")[0]
        self.before(f"{method} {path}")
        queue = next((found for end, found in self.answers.items() if found and path.endswith(end)), None)
        if queue:
            answer = queue.pop(0)
            if isinstance(answer, Exception):
                raise answer
            status, body, *more = answer
            return status, more[0] if more else {}, json.dumps(body).encode()
        if "/oauth2/" in url:
            return 200, {}, b'{"access_token": "secret"}'
        assert headers["Authorization"] == "Bearer secret"
        if "/operations/" in url:
            return 200, {}, json.dumps(self.operations.get(path.rpartition("/")[2], {"status": "Succeeded"})).encode()
        machine, _slash, word = path[len(ARM) :].rpartition("/")
        if method == "GET":
            return 200, {}, json.dumps({"statuses": [{"code": f"PowerState/{self.power[machine]}"}]}).encode()
        self.done.append(f"{word} {machine[3:]}")
        self.power[machine] = "deallocated" if word == "deallocate" else "running"
        return 202, {"azure-asyncoperation": f"{ARM}/operations/{machine[3:]}"}, b""

    def call(self, word: str, hostlist: str = "") -> int:
        config = cli.Config(self.machines, str(self.folder), ARM, "http://imds.example", "")
        azure = Client(ARM, "http://imds.example", "", self.send, self.pauses.append)
        store = Store(str(self.folder), lambda: self.now, lambda: self.boot)
        try:
            return cli.Elastic(config, azure, Slurm(self.run), store, self.log.append).run(word, hostlist)
        except ElasticError as exc:
            self.log.append(str(exc))
            return 1

    @property
    def state(self) -> dict[str, t.Any]:
        return dict(json.loads((self.folder / "state.json").read_text(encoding="utf-8")))


def expanded(hostlist: str) -> list[str]:
    found: list[str] = []
    for name, first, last in re.findall(r"([\w]+)(?:\[(\d+)-(\d+)\])?", hostlist):
        found += [f"{name}{number}" for number in range(int(first), int(last) + 1)] if first else [name]
    return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_resume_starts_what_is_deallocated_and_gives_back_what_still_runs(world: World) -> None:
    """The identity may start and deallocate, so a machine of which Slurm wants a boot takes both."""
    world.power["/m/h1"] = "deallocated"
    world.states.update(h1=COMES, h2=COMES)

    assert world.call("resume", "h[1-2]") == 1
    assert world.done == ["start h1", "deallocate h2"]
    assert "the machine still ran" in str(world.updates)
    assert "h1" not in str(world.updates)


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "IDLE+DRAIN"])
def test_a_node_in_service_is_never_started_again(world: World, state: str) -> None:
    """Somebody typed the command, or Slurm's call is late."""
    world.states["h1"] = state

    assert world.call("resume", "h1") == 1
    assert (world.done, world.updates) == ([], [])


def test_a_suspend_deallocates_and_nothing_is_ever_deleted(world: World) -> None:
    world.before = lambda what: pytest.fail(what) if what.startswith("DELETE") else None

    assert world.call("suspend", "h[1-2]") == 0
    assert world.done == ["deallocate h1", "deallocate h2"]
    assert world.call("suspend", "h[1-2]") == 0  # a repeated call costs nothing of the limit
    assert len(world.done) == len(world.state["times"]) == 2


@pytest.mark.parametrize(
    "state", ["IDLE", "ALLOCATED", COMES, "IDLE+DRAIN+POWERED_DOWN", "IDLE+POWERED_DOWN+POWERING_UP"]
)
def test_what_slurm_does_not_power_down_keeps_its_machine(world: World, state: str) -> None:
    world.states["h1"] = state

    assert world.call("suspend", "h[1-2]") == 1
    assert world.done == ["deallocate h2"]


def test_a_node_with_a_job_keeps_its_machine(world: World) -> None:
    world.jobs = ["h1"]

    assert world.call("suspend", "h[1-2]") == 1
    assert world.done == ["deallocate h2"]


@pytest.mark.parametrize("change", ["job", "state"])
def test_a_node_that_is_in_use_again_at_the_last_moment_keeps_its_machine(world: World, change: str) -> None:
    def before(what: str) -> None:
        if what == f"GET {ARM}/m/h1/instanceView":
            world.jobs += ["h1"] if change == "job" else []
            world.states["h1"] = "IDLE" if change == "state" else LEAVES

    world.before = before

    assert world.call("suspend", "h[1-2]") == 1
    assert world.done == ["deallocate h2"]


@pytest.mark.parametrize("command", ["squeue", "scontrol --all"])
def test_if_slurm_does_not_answer_nothing_is_deallocated_and_a_person_is_told(world: World, command: str) -> None:
    world.fails = command

    assert world.call("suspend", "h[1-2]") == 1
    assert world.done == []
    assert world.state["held"] == ["h1", "h2"]
    assert "h1, h2" in world.state["alarms"]["held"]
    world.fails = ""
    assert world.call("allow") == 0
    assert world.done == ["deallocate h1", "deallocate h2"]
    assert world.state["alarms"] == {}


def test_what_is_above_the_limit_waits_for_a_person(world: World) -> None:
    assert world.call("suspend", "h[1-12]") == 1
    assert len(world.done) == 10
    assert world.state["held"] == ["h11", "h12"]
    assert [line for line in world.log if line.startswith("ALERT: 2 machines run on")]
    assert "nodename=h11,h12 reason=gpucluster-elastic: the machine runs on" in world.updates[0]

    world.now += 3600  # time alone allows nothing
    assert world.call("suspend", "h13") == 1
    assert len(world.done) == 10
    assert world.call("allow") == 0
    assert world.done[10:] == ["deallocate h11", "deallocate h12", "deallocate h13"]
    world.now += 3600
    assert world.call("suspend", "h14") == 0


def test_a_machine_that_waits_and_is_wanted_again_waits_no_more(world: World) -> None:
    world.call("suspend", "h[1-11]")
    world.states["h11"] = COMES

    assert world.call("resume", "h11") == 1
    assert (world.state["held"], world.state["alarms"]) == ([], {})
    assert world.done[-1] == "deallocate h11"


@pytest.mark.parametrize(("count", "limit"), [(1, 1), (4, 1), (16, 4), (40, 10), (1000, 10)])
def test_the_limit_is_a_quarter_of_the_set_at_most_ten(tmp_path: Path, count: int, limit: int) -> None:
    world = World(tmp_path, count)

    world.call("suspend", f"h[1-{min(count, 20)}]")

    assert len(world.done) == limit


@pytest.mark.parametrize(
    ("boot", "now", "room"),
    [
        ("one", 1601.0, True),  # ten minutes are over
        ("one", 1599.0, False),
        ("one", 10.0, False),  # a clock that goes back
        ("two", 10.0, False),  # a restart
        ("two", 9000.0, False),  # the other controller, which is up for longer
    ],
)
def test_a_clock_that_jumps_gives_no_room(world: World, boot: str, now: float, room: bool) -> None:
    world.call("suspend", "h[1-10]")
    world.boot, world.now = boot, now
    world.call("suspend", "h11")

    assert (world.done[-1] == "deallocate h11") is room


@pytest.mark.parametrize("text", ["{", "[]", '{"times": "x"}', '{"times": [{}, null]}'])
def test_a_damaged_state_file_is_no_permission(world: World, text: str) -> None:
    world.folder.mkdir()
    (world.folder / "state.json").write_text(text, encoding="utf-8")

    assert world.call("suspend", "h1") == 1
    assert (world.done, world.state["held"]) == ([], ["h1"])


@pytest.mark.parametrize("word", ["resume", "suspend", "fail"])
def test_names_that_are_not_configured_are_refused(world: World, word: str) -> None:
    """A hostlist is data: the name of a user, of the controller, or of another machine."""
    assert world.call(word, "alice,control,x[1-2]") == 1
    assert (world.done, world.updates) == ([], [])
    assert "nothing is done with them: alice, control, x1, x2" in world.log[0]


@pytest.mark.parametrize("late", [False, True])
def test_a_machine_that_azure_refuses_brings_its_node_back_with_the_reason(world: World, late: bool) -> None:
    world.states.update(h1=COMES, h2=COMES)
    world.power.update({"/m/h1": "deallocated", "/m/h2": "deallocated"})
    if late:
        world.operations["h1"] = {"status": "Failed", "error": NO_ROOM}
    else:
        world.answers["/h1/start"] = [(400, {"error": NO_ROOM})]

    assert world.call("resume", "h[1-2]") == 1
    (update,) = world.updates
    assert update.startswith("nodename=h1 state=POWER_DOWN_FORCE reason=gpucluster-elastic: ")
    assert "AllocationFailed: no capacity; Azure has no free machine of this size now" in update


@pytest.mark.parametrize("word", ["resume", "fail"])
@pytest.mark.parametrize(
    ("state", "reason", "given_up"),
    [
        (COMES, "", True),
        ("DOWN+NOT_RESPONDING+POWERED_DOWN", "ResumeTimeout reached", True),
        ("ALLOCATED", "", False),  # it answers at the second look
        ("IDLE", "", False),
        ("DOWN+POWERED_DOWN", "bad cable", False),  # a person has set it down
        (f"{COMES}+DRAIN", "bad cable", False),
    ],
)
def test_a_node_that_answers_or_that_a_person_changed_is_not_given_up(
    world: World, word: str, state: str, reason: str, given_up: bool
) -> None:
    world.power["/m/h1"], world.states["h1"] = "deallocated", COMES
    world.operations["h1"] = {"status": "Failed", "error": NO_ROOM}

    def before(what: str) -> None:
        if what.startswith("scontrol --all"):
            world.states["h1"], world.reasons["h1"] = state, reason

    world.before = before

    assert world.call(word, "h1") == 1
    assert bool(world.updates) is given_up


FAULTS: list[tuple[str, list[t.Any], list[float], str]] = [
    ("throttled once", [(429, {}, {"retry-after": "7"})], [7.0], ""),
    ("throttled for an hour", [(429, {}, {"retry-after": "3600"})], [60.0], ""),
    ("busy", [(409, {}), (503, {})], [1.0, 2.0], ""),
    ("no answer once", [TimeoutError("timed out")], [1.0], ""),
    ("no answer", [TimeoutError("timed out")] * 4, [1.0, 2.0, 4.0], "no answer: timed out"),
    ("expired token", [(401, {})], [], ""),
    ("no rights", [(403, {"error": {"code": "AuthorizationFailed", "message": "no"}})], [], "run azure_up.yml"),
    ("unknown id", [(404, {"error": {"code": "ResourceNotFound", "message": "?"}})], [], "the machine is gone"),
    ("quota", [(409, {"error": {"code": "X", "message": "exceeds the Quota"}})] * 4, [1.0, 2.0, 4.0], "more quota"),
    ("text with lines", [(400, {"error": {"code": 'a"\n', "message": "x\ny\x00"}})], [], "x y"),
]


@pytest.mark.parametrize(("answers", "pauses", "text"), [pytest.param(*more, id=name) for name, *more in FAULTS])
def test_faults_of_azure_end_in_bounded_time(
    world: World, answers: list[t.Any], pauses: list[float], text: str
) -> None:
    world.states["h1"], world.power["/m/h1"] = COMES, "deallocated"
    world.answers["/h1/start"] = list(answers)

    assert world.call("resume", "h1") == int(bool(text))
    assert world.pauses == pauses
    assert (world.done == ["start h1"]) is not bool(text)
    assert text in " ".join(world.log)
    assert not re.search('secret|[\n"]', " ".join([*world.log, *world.updates]).replace('a"', ""))
    assert not any('"' in one for one in world.updates)


def test_a_deallocation_that_azure_refuses_waits_for_a_person(world: World) -> None:
    world.answers["/h1/deallocate"] = [(403, {"error": {"code": "AuthorizationFailed", "message": "no"}})]

    assert world.call("suspend", "h1") == 1
    assert world.state["held"] == ["h1"]
    assert world.call("allow") == 0
    world.operations["h2"] = {"status": "Failed", "error": {"code": "Conflict", "message": "busy"}}
    assert world.call("suspend", "h2") == 1
    assert any("h2: not deallocated: Conflict: busy" in line for line in world.log)
    assert world.state["held"] == ["h2"], "it runs on, and Slurm takes it for off"
    assert world.state["alarms"]


def test_a_token_goes_to_no_other_address(world: World) -> None:
    world.states["h1"], world.power["/m/h1"] = COMES, "deallocated"
    world.answers["/h1/start"] = [(202, {}, {"location": "https://evil.example/operations/1"})]
    world.before = lambda what: pytest.fail(what) if "evil" in what else None

    assert world.call("resume", "h1") == 0


def test_no_token_is_no_start(world: World) -> None:
    world.states["h1"] = COMES
    world.answers["/token"] = [(400, {"error": "invalid_request", "error_description": "Identity not found"})]

    assert world.call("resume", "h1") == 1
    assert "Identity not found" in world.updates[0]


def test_two_calls_at_once_share_one_limit(world: World) -> None:
    threads = [threading.Thread(target=world.call, args=("suspend", f"h[{1 + 8 * n}-{8 + 8 * n}]")) for n in (0, 1)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert len(world.done) == 10
    assert len(world.state["held"]) == 6


def test_a_call_that_does_not_get_the_lock_does_nothing(world: World) -> None:
    store = Store(str(world.folder), lambda: 1.0, lambda: "one")
    with store.locked(), pytest.raises(ElasticError, match="another call has the lock"), store.locked(0.3):
        pytest.fail("both have it")


def test_the_program_without_a_configuration_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--config", str(tmp_path / "none"), "allow"]) == 0
    assert cli.main(["--config", str(tmp_path / "none"), "suspend", "h1"]) == 1
    (tmp_path / "bad").write_text('{"nodes": []}', encoding="utf-8")
    assert cli.main(["--config", str(tmp_path / "bad"), "suspend", "h1"]) == 1
    assert "is not a valid configuration" in capsys.readouterr().err


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with the status in the path, and names a place to go to."""

    def do_POST(self) -> None:
        body = json.dumps({"given": self.headers["Authorization"], "size": self.headers["Content-Length"]}).encode()
        self.send_response(int(self.path[1:]))
        for name, value in (("Retry-After", "3"), ("Location", "/200"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: t.Any) -> None:
        pass


@pytest.mark.parametrize("status", [202, 302, 429])
def test_a_request_returns_what_the_server_said_and_follows_no_redirect(status: int) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/{status}"
        found, headers, content = transport("POST", url, {"Authorization": "Bearer x"})
        server.shutdown()

    assert (found, headers["retry-after"], headers["location"]) == (status, "3", "/200")
    assert json.loads(content) == {"given": "Bearer x", "size": "0"}
