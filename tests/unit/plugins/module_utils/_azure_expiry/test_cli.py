# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program on its machine, with an Azure and a Slurm that are made up."""

from __future__ import annotations

import json
import time
import typing as t
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry import cli, notices, plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry.azure import Azure
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry.notices import Notices

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

GROUP = "/subscriptions/sub/resourceGroups/hpc-rg"
Body = dict[str, t.Any]


class Cloud:
    """The metadata service and Resource Manager at one address."""

    def __init__(self) -> None:
        self.tags: Body = {"gpucluster_cluster": "hpc"}
        self.gone = False
        self.state = "Succeeded"
        self.resources: list[Body] = [{"id": f"{GROUP}/a", "tags": {"Gpucluster_Cluster": "hpc"}}]
        self.place = {"subscriptionId": "SUB", "resourceGroupName": "HPC-RG"}
        self.refuse: dict[str, int] = {}
        self.asked: list[str] = []
        self.offset = 0.0
        self.dated = True
        self.list: Body | None = None  # instead of the list of resources

    def answer(self, method: str, path: str, headers: t.Any, body: bytes) -> tuple[int, Body]:
        self.asked.append(f"{method} {path.partition('?')[0]}")
        if path.startswith("/metadata/"):
            return self._metadata(path, headers)
        if method in self.refuse:
            return self.refuse[method], {"error": {"code": "AuthorizationFailed", "message": "no right"}}
        if headers["Authorization"] != "Bearer TOKEN":
            return 401, {}
        if self.gone:
            return 404, {"error": {"code": "ResourceGroupNotFound", "message": "gone"}}
        return self._group(method, path, body)

    def _metadata(self, path: str, headers: t.Any) -> tuple[int, Body]:
        if headers["Metadata"] != "true":
            return 400, {}
        if path.startswith("/metadata/instance"):
            return 200, {"compute": self.place}
        status = self.refuse.get("token", 200)
        return status, {"access_token": "TOKEN"} if status == 200 else {"error_description": "Identity not found"}

    def _group(self, method: str, path: str, body: bytes) -> tuple[int, Body]:
        if method == "PATCH":
            self.tags.update(json.loads(body)["properties"]["tags"])
        if method == "DELETE":
            self.state = "Deleting"
            return 202, {}
        if path.startswith(f"{GROUP}/resources"):
            return 200, {"value": self.resources} if self.list is None else self.list
        return 200, {"tags": self.tags, "properties": {"provisioningState": self.state}}

    def writes(self) -> list[str]:
        """Return the requests that change something."""
        return [one for one in self.asked if not one.startswith("GET")]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the program, of Azure and of the tests at a time that no other clock has."""
    monkeypatch.setattr(time, "time", lambda: 1_790_000_000.0)


@pytest.fixture
def cloud() -> Iterator[tuple[Cloud, str]]:
    """Return the cloud and its address."""
    state = Cloud()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = state.answer(self.command, self.path, self.headers, body)
            content = json.dumps(answer).encode()
            self.send_response_only(status)
            if state.dated:
                self.send_header("Date", formatdate(time.time() + state.offset, usegmt=True))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PATCH = do_DELETE = _serve  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield state, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class FakeHost:
    """Files in memory, and a Slurm that knows one reservation."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.ran: list[list[str]] = []
        self.running = ""
        self.start: str | None = None
        self.broken = False

    def run(self, args: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(list(args))
        if self.broken:
            return 127, "", "not found"
        if args[0] == "squeue":
            return 0, self.running, ""
        if "show" in args:
            return (0, f"ReservationName=x StartTime={self.start} EndTime=y", "") if self.start else (1, "", "none")
        for one in args:
            self.start = one.partition("=")[2] if one.startswith("starttime=") else self.start
        if args[1] == "delete":
            self.start = None
        return 0, "", ""

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.files[path] = text

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def did(self, name: str) -> int:
        """Return how often a program ran."""
        return sum(one[0] == name for one in self.ran)


class Machine:
    """The program on its machine."""

    def __init__(self, address: str, **more: t.Any) -> None:
        self.host = FakeHost()
        self.said: list[str] = []
        self.address = address
        base = plan.Settings("sub", "hpc-rg", "hpc", "7d", 0.0, (24.0, 4.0, 1.0), "", address, address)
        self.settings = base._replace(**more)

    def program(self) -> cli.Expiry:
        host = t.cast("Host", self.host)
        return cli.Expiry(self.settings, Azure(self.settings), Notices(host), host, self.said.append)

    def state(self, tag: str, warned_hours_ago: float) -> None:
        """Remember an earlier warning."""
        state = plan.State("7d", tag, time.time() - warned_hours_ago * 3600, 1.0)
        self.host.files[cli.STATE] = json.dumps(state._asdict())


def at(hours: float) -> str:
    return plan.printed(time.time() + hours * 3600)


def overdue(cloud: tuple[Cloud, str], **more: t.Any) -> tuple[Cloud, Machine]:
    """Return a cluster that warned five hours ago and is to be deleted since three hours."""
    azure, address = cloud
    machine = Machine(address, **more)
    azure.tags[plan.TAG] = due = at(-3)
    machine.state(due, 5)
    return azure, machine


def test_it_schedules_warns_and_deletes(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    machine = Machine(address)

    assert machine.program().run() == 0
    assert azure.tags[plan.TAG] == at(7 * 24)
    azure.tags[plan.TAG] = at(3)
    machine.program().run()
    machine.program().run()
    assert machine.host.did("wall") == 1
    assert "deleted at" in machine.host.files[notices.MOTD]
    assert machine.host.start is not None
    azure.tags[plan.TAG] = due = at(-0.1)
    machine.state(due, 2)
    machine.program().run()
    machine.program().run()

    assert azure.writes() == [f"PATCH {GROUP}/providers/Microsoft.Resources/tags/default", f"DELETE {GROUP}"]
    assert machine.said[-1] == "Azure is deleting the resource group"


@pytest.mark.parametrize("field", ["period", "tag", "first_warned", "hours_said"])
@pytest.mark.parametrize("value", ["text", None, [1], float("nan"), float("inf"), -1, 1e30, 10**400])
def test_a_damaged_state_neither_stops_the_program_nor_deletes_without_a_warning(
    cloud: tuple[Cloud, str], field: str, value: t.Any
) -> None:
    azure, address = cloud
    machine = Machine(address)
    azure.tags[plan.TAG] = at(-0.1)
    state = {"period": "7d", "tag": azure.tags[plan.TAG], field: value}
    machine.host.files[cli.STATE] = json.dumps(state)

    assert machine.program().status() == 0
    assert machine.program().run() == 0

    assert "DELETE" not in str(azure.writes())
    assert json.loads(machine.host.files[cli.STATE]).keys() == plan.State()._asdict().keys()


def test_a_reservation_stops_jobs_that_would_not_end_before(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    machine = Machine(address)
    azure.tags[plan.TAG] = end = at(3)

    machine.program().run()
    machine.program().run()

    created = [one for one in machine.host.ran if one[:3] == ["scontrol", "create", "reservation"]]
    assert len(created) == 1
    assert "flags=maint,ignore_jobs" in created[0]
    assert created[0][4] == f"starttime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(plan.parsed(end)))}"
    assert not [one for one in machine.host.ran if one[:2] == ["scontrol", "update"]]


@pytest.mark.parametrize("command", ["cancel", "extend"])
def test_an_administrator_extends_or_cancels(command: str, cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    machine = Machine(address)
    azure.tags[plan.TAG] = at(3)
    machine.program().run()

    machine.program().change("never" if command == "cancel" else "3d")
    machine.program().run()

    assert azure.tags[plan.TAG] == ("never" if command == "cancel" else at(72))
    assert machine.host.start is None
    assert notices.MOTD not in machine.host.files


@pytest.mark.parametrize("moment", ["/resources", "wall"])
@pytest.mark.parametrize("tag", ["never", "2099-01-01T00:00:00Z"])
def test_a_cancel_in_the_last_seconds_counts(
    cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch, moment: str, tag: str
) -> None:
    """An administrator cancels after the program has decided, while it asks for resources or writes to terminals."""
    azure, machine = overdue(cloud)
    machine.host.start = "2026-11-25T00:00:00"
    tags, answer, run = azure.tags, azure.answer, machine.host.run

    def slow(method: str, path: str, *more: t.Any) -> tuple[int, Body]:
        if moment in path:
            tags[plan.TAG] = tag
        return answer(method, path, *more)

    def writes(args: Sequence[str]) -> tuple[int, str, str]:
        if moment in args:
            tags[plan.TAG] = tag
        return run(args)

    monkeypatch.setattr(azure, "answer", slow)
    monkeypatch.setattr(machine.host, "run", writes)
    assert machine.program().run() == 0

    assert (azure.writes(), azure.state) == ([], "Succeeded")
    assert machine.host.start is None
    assert machine.said[-1] == f"hpc: the tag {plan.TAG} is now {tag}, so nothing is done"


def test_a_cancel_is_not_overwritten_by_the_first_run(
    cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    azure, address = cloud
    machine = Machine(address, wait_hours=1.0)
    tags = azure.tags
    run = machine.host.run

    def cancels(args: Sequence[str]) -> tuple[int, str, str]:
        tags[plan.TAG] = "never"
        return run(args)

    monkeypatch.setattr(machine.host, "run", cancels)
    machine.program().run()

    assert (tags[plan.TAG], azure.writes()) == ("never", [])


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_cancel_that_is_too_late_says_so(
    cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    azure, address = cloud
    answer = azure.answer

    def deletes(method: str, *more: t.Any) -> tuple[int, Body]:
        found = answer(method, *more)
        azure.state = "Deleting" if moment == "before" or method == "PATCH" else azure.state
        return found

    monkeypatch.setattr(azure, "answer", deletes)
    with pytest.raises(plan.ExpiryError, match="Azure is deleting the resource group; it is too late"):
        Machine(address).program().change("never")


@pytest.mark.parametrize("answer", [{}, {"value": None}, {"value": [None]}, {"value": [], "nextLink": 3}])
def test_a_list_of_resources_that_is_not_understood_is_not_empty(cloud: tuple[Cloud, str], answer: Body) -> None:
    azure, machine = overdue(cloud)
    azure.list = answer

    with pytest.raises(plan.ExpiryError, match=r"/resources: the (answer|address)"):
        machine.program().run()
    assert azure.writes() == []


def test_a_cancelled_deletion_stays_cancelled_after_a_deployment(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    machine = Machine(address)
    machine.program().change("never")
    azure.tags[plan.TAG] = "7d"

    machine.program().run()

    assert azure.tags[plan.TAG] == "never"


def test_the_clock_of_azure_counts(cloud: tuple[Cloud, str]) -> None:
    """The local clock is a year ahead; the deletion is in three days."""
    azure, address = cloud
    azure.offset = -365 * 86400.0
    machine = Machine(address)
    azure.tags[plan.TAG] = plan.printed(time.time() + azure.offset + 3 * 86400)
    machine.state(azure.tags[plan.TAG], 2)

    machine.program().run()

    assert azure.writes() == []
    assert "clock differs" in machine.said[0]


def test_without_a_time_of_azure_nothing_is_deleted(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    azure.dated = False

    with pytest.raises(plan.ExpiryError, match="has no time"):
        Machine(address).program().run()
    assert azure.writes() == []


@pytest.mark.parametrize(
    ("tags", "place", "resources", "text"),
    [
        ({"gpucluster_cluster": "other"}, {}, [], "this is the cluster hpc"),
        ({}, {"resourceGroupName": "elsewhere"}, [], "this machine is in the resource group sub/elsewhere"),
        ({}, {"subscriptionId": "other"}, [], "this machine is in the resource group other/hpc-rg"),
        ({}, {}, [{"id": f"{GROUP}/someones"}], "contains 1 resources without the tag gpucluster_cluster=hpc"),
        ({}, {}, [{"id": f"{GROUP}/x", "tags": {"gpucluster_cluster": "other"}}], f"{GROUP}/x"),
    ],
)
def test_what_is_not_of_this_cluster_is_never_deleted(
    cloud: tuple[Cloud, str], tags: Body, place: Body, resources: list[Body], text: str
) -> None:
    azure, machine = overdue(cloud)
    azure.tags.update(tags)
    azure.place.update(place)
    azure.resources += resources

    with pytest.raises(plan.ExpiryError, match=text):
        machine.program().run()
    assert azure.writes() == []


def test_disks_and_extensions_of_the_machines_are_of_the_cluster(cloud: tuple[Cloud, str]) -> None:
    azure, machine = overdue(cloud)
    azure.resources.append({"id": f"{GROUP}/disk", "managedBy": f"{GROUP.upper()}/providers/x/virtualMachines/control"})
    azure.resources.append({"id": f"{GROUP}/A/extensions/monitor"})

    machine.program().run()

    assert azure.writes() == [f"DELETE {GROUP}"]


@pytest.mark.parametrize(
    ("refuse", "text"),
    [
        ({"DELETE": 403}, "azure_up.yml gives it"),
        ({"DELETE": 409}, "409 AuthorizationFailed"),
        ({"GET": 403}, "azure_up.yml gives it"),
        ({"GET": 503}, "503"),
        ({"token": 400}, "Identity not found"),
    ],
)
def test_a_refusal_is_an_error_that_says_why(cloud: tuple[Cloud, str], refuse: dict[str, int], text: str) -> None:
    azure, machine = overdue(cloud)
    azure.refuse = refuse

    with pytest.raises(plan.ExpiryError, match=text):
        machine.program().run()
    azure.refuse = {}
    assert machine.program().run() == 0
    assert azure.state == "Deleting"


def test_it_waits_for_a_job_and_a_broken_slurm_counts_as_one(cloud: tuple[Cloud, str]) -> None:
    azure, machine = overdue(cloud, wait_hours=12.0)
    machine.host.running = "11\n11\n12\n"

    machine.program().run()
    machine.host.broken = True
    machine.program().run()
    assert azure.writes() == []
    machine.host.broken, machine.host.running = False, ""
    machine.program().run()

    assert "when 2 jobs have ended" in machine.said[0]
    assert any("an unknown number of jobs" in one for one in machine.said)
    assert azure.writes() == [f"DELETE {GROUP}"]


def test_a_group_that_is_gone_is_no_error(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    azure.gone = True
    machine = Machine(address)

    assert machine.program().run() == 0
    assert machine.said == ["the resource group is gone"]


def test_a_machine_without_slurm_still_warns_and_deletes(cloud: tuple[Cloud, str]) -> None:
    azure, address = cloud
    machine = Machine(address)
    machine.host.broken = True
    azure.tags[plan.TAG] = at(3)

    assert machine.program().run() == 0
    assert notices.MOTD in machine.host.files
    assert any("scontrol create failed" in one for one in machine.said)


@pytest.mark.parametrize("step", ["before the tag", "before the state", "before the notices", "before the deletion"])
def test_a_killed_run_is_repeated(step: str, cloud: tuple[Cloud, str], monkeypatch: pytest.MonkeyPatch) -> None:
    azure, address = cloud
    machine = Machine(address)
    due = at(-3) if step == "before the deletion" else at(3)
    azure.tags = {"gpucluster_cluster": "hpc"}
    if step != "before the tag":
        azure.tags[plan.TAG] = due
    if step == "before the deletion":
        machine.state(due, 5)
    where = {
        "before the tag": (Azure, "set_tag"),
        "before the state": (cli.Expiry, "_remember"),
        "before the notices": (Notices, "warn"),
        "before the deletion": (Azure, "delete"),
    }

    def killed(*_args: t.Any, **_more: t.Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*where[step], killed)
        with pytest.raises(KeyboardInterrupt):
            machine.program().run()
    machine.program().run()

    assert azure.tags[plan.TAG] == (at(168) if step == "before the tag" else due)
    assert (azure.state == "Deleting") == (step == "before the deletion")
    assert (notices.MOTD in machine.host.files) == (step in ("before the state", "before the notices"))


def test_the_program_refuses_a_wrong_configuration(tmp_path: t.Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    for text in ("{}", "[", '{"subscription_id": 1}'):
        path.write_text(text)
        assert cli.main(["--config", str(path), "run"]) == 1
    assert cli.main(["--config", str(tmp_path / "missing"), "status"]) == 1
    assert "is not a valid configuration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "called"),
    [("status", ["status"]), ("run", ["run"]), ("extend 2d", ["change", "2d"]), ("cancel", ["change", plan.NEVER])],
)
def test_each_command_does_what_it_says(
    words: str, called: list[str], tmp_path: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for method in ("status", "run", "change"):
        monkeypatch.setattr(cli.Expiry, method, lambda _self, *given, method=method: done.extend((method, *given)))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(Machine("").settings._asdict()))

    cli.main(["--config", str(path), *words.split()])

    assert done == called
    with pytest.raises(SystemExit):
        cli.main(["--config", str(path)])


def test_the_program_prints_the_time_and_changes_nothing(
    tmp_path: t.Any, cloud: tuple[Cloud, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    azure, address = cloud
    azure.tags[plan.TAG] = "2099-01-01T00:00:00Z"
    monkeypatch.setattr(cli, "STATE", str(tmp_path / "state"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(Machine(address).settings._asdict()))

    assert cli.main(["--config", str(path), "status"]) == 0
    assert "with all its data is deleted at 2099-01-01T00:00:00Z" in capsys.readouterr().out
    assert azure.writes() == []
    assert "TOKEN" not in capsys.readouterr().err
