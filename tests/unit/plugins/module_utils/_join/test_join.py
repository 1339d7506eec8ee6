# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._firewall import lasting, metadata
from ansible_collections.hpcai.gpucluster.plugins.module_utils._join import cli, steps
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._accounts.fake_shadow import FakeShadow

KEY = bytes(range(256))[:64]
ACCOUNTS = ("/etc/passwd", "/etc/group", "/etc/shadow")
SLURM = "/var/cache/gpucluster/slurm-1"
SETTINGS: dict[str, t.Any] = {
    "release": {"ID": "ubuntu", "VERSION_ID": "24.04"},
    "slurm": {
        "directory": SLURM,
        "packages": ["slurm-smd=*+gpucluster.1", "slurm-smd-slurmd=*+gpucluster.1"],
        "uid": 22078,
        "home": "/var/spool/slurmctld",
    },
    "files": [
        {"path": "/etc/default/slurmd", "content": 'SLURMD_OPTIONS="--conf-server c"\n', "mode": "0644"},
        {"path": f"{SLURM}/.complete", "content": "", "mode": "0644"},
    ],
    "accounts": {
        "users": [{"name": "alice", "uid": 2001}],
        "groups": [],
        "removed": [],
        "create_per_user_group": True,
        "primary_group": "users",
        "shell": "/bin/bash",
        "home_base": "/home",
    },
    "mounts": [],
    "pam": {},
    "plugins": [],
    "programs": [],
}
PYXIS = "/etc/slurm/plugstack.conf.d/pyxis.conf"
RUNTIME = "/etc/tmpfiles.d/gpucluster-pyxis.conf"
PAM = {"block": "account required pam_slurm_adopt.so\n", "gate": "session [success=1] pam_succeed_if.so # ours\n"}


class KilledError(Exception):
    """Nothing runs any more, not even what ends a command."""


class Node(FakeShadow):
    """A new machine: accounts, files and installed packages in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[str, str] = {}
        self.files: dict[str, str] = {"/etc/os-release": 'NAME="Ubuntu"\nID=ubuntu\nVERSION_ID="24.04"\n'}
        self.packages: set[str] = set()
        self.active: set[str] = set()
        self.failing = ""
        self.kill_in = ""  # the machine loses its power in this command
        self.dead = False
        self.policy: list[bool] = []

    def read(self, path: str) -> str:
        return self.read_required(path) if path in ACCOUNTS else self.files.get(path, "")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self._alive()
        self.files[path] = text

    def remove(self, path: str) -> None:
        self._alive()
        self.files.pop(path, None)

    def _alive(self) -> None:
        if self.dead:
            raise KilledError

    def entries(self, path: str) -> list[str] | None:
        found = [name[len(path) + 1 :].partition("/")[0] for name in self.files if name.startswith(f"{path}/")]
        return found or None

    def make_directory(self, path: str) -> None:
        """Directories come with their files."""

    def head(self, path: str, size: int) -> bytes:
        return self.files[path].encode("utf-8", "surrogateescape")[:size]

    def _tool(self, args: list[str], data: str | None = None, environment: t.Any = None) -> tuple[int, str, str]:
        self._alive()
        self.dead = bool(self.kill_in) and self.kill_in in " ".join(args)
        if self.dead and args[0] in ("tar", "install"):
            self._half(args, data or "")
        self._alive()
        if self.failing and self.failing in " ".join(args):
            self.calls.append(args)
            return 100, "", "E: refused"
        if args[0] == "useradd" and args[-1] == "slurm":
            self.calls.append(args)
            self.add("slurm", int(args[args.index("--uid") + 1]))
            return 0, "", ""
        if args[0] == lasting.NFT:
            self.calls.append(args)
            loaded = any("--file" in call for call in self.calls)
            return (0, "table", "") if loaded else (1, "", "No such file or directory")
        own = {"apt-get": self._apt, "dpkg-query": self._query, "systemctl": self._systemctl, "install": self._install}
        own["cmp"] = self._cmp
        if args[0] in own:
            self.calls.append(args)
            return own[args[0]](args, data or "")
        if args[0] == "systemd-tmpfiles":
            self.calls.append(args)
            return 0, "", ""
        if args[0] == "tar":
            self.calls.append(args)
            self.files.update({f"{SLURM}/some.deb": "", f"{SLURM}/Packages": "x"})
            return 0, "", ""
        return super()._tool(args, data)

    def _half(self, args: list[str], data: str) -> None:
        """Leave what a killed program has done: a part of the files, or all bytes and not yet the owner."""
        path = f"{SLURM}/some.deb" if args[0] == "tar" else args[-1]
        self.files[path] = data

    def _cmp(self, args: list[str], data: str) -> tuple[int, str, str]:
        return int(self.files.get(args[-1]) != f"copy of {args[-2]}"), "", ""

    def _apt(self, args: list[str], data: str) -> tuple[int, str, str]:
        self.policy.append(steps.POLICY in self.files)
        if "install" in args:
            self.packages |= {name.partition("=")[0] for name in args[args.index("install") + 1 :]}
        return 0, "", ""

    def _query(self, args: list[str], data: str) -> tuple[int, str, str]:
        return (0, "installed", "") if args[-1] in self.packages else (1, "", "no packages found")

    def _install(self, args: list[str], data: str) -> tuple[int, str, str]:
        if "-D" in args:
            self.files[args[-1]] = f"copy of {args[-2]}"
            return 0, "", ""
        assert "--mode=0400" in args
        assert "--owner=munge" in args
        self.files[args[-1]] = data
        self.owners[args[-1]] = "munge"
        return 0, "", ""

    def _systemctl(self, args: list[str], data: str) -> tuple[int, str, str]:
        if args[1] == "is-active":
            return (0 if args[-1] in self.active else 3), "", ""
        if args[1] == "restart":
            self.active.add(args[-1])
        return 0, "", ""


def join(node: Node, **changes: t.Any) -> list[str]:
    return steps.join(node, Path("/run/gpucluster-join"), {**SETTINGS, **changes}, KEY)


def test_a_new_machine_joins() -> None:
    node = Node()

    done = join(node)

    assert node.active == {"munge", "slurmd"}
    assert node.passwd["alice"]["uid"] == 2001
    assert node.passwd["slurm"]["uid"] == 22078
    assert node.packages == {"munge", "slurm-smd", "slurm-smd-slurmd"}
    assert node.files[steps.MUNGE_KEY].encode("utf-8", "surrogateescape") == KEY
    assert node.files["/etc/default/slurmd"].startswith("SLURMD_OPTIONS")
    assert f"{SLURM}/.complete" in node.files
    assert done[-1] == "start munge and slurmd"


def test_packages_have_the_version_of_the_cluster() -> None:
    node = Node()
    join(node)

    installs = [call for call in node.calls if call[0] == "apt-get" and "install" in call]
    assert installs[-1][-2:] == ["slurm-smd=*+gpucluster.1", "slurm-smd-slurmd=*+gpucluster.1"]


def test_a_file_that_was_written_before_asks_no_question() -> None:
    """dpkg asks about /etc/default/slurmd, which is there before its package, and fails without an answer."""
    node = Node()
    join(node)

    installs = [" ".join(call) for call in node.calls if call[0] == "apt-get" and "install" in call]
    assert installs
    assert all("--force-confdef -o Dpkg::Options::=--force-confold" in call for call in installs)


def test_no_package_starts_a_daemon_and_the_policy_is_removed() -> None:
    node = Node()
    join(node)

    assert node.policy
    assert all(node.policy)
    assert steps.POLICY not in node.files


def test_a_policy_of_the_site_is_restored_after_a_failure() -> None:
    node = Node()
    node.files[steps.POLICY] = "#!/bin/sh\nexit 0\n"
    node.failing = "install munge"

    with pytest.raises(steps.JoinError, match="exited 100: E: refused"):
        join(node)

    assert node.files[steps.POLICY] == "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize("former", ["", "#!/bin/sh\nexit 0\n"])
@pytest.mark.parametrize("twice", [False, True])
def test_no_policy_stays_after_kill_9(former: str, twice: bool) -> None:
    """Packages that somebody installs later would start no daemon."""
    node = Node()
    node.files.update({steps.POLICY: former} if former else {})
    for command in ("install munge", "install slurm-smd")[: 1 + twice]:
        node.kill_in = command
        with pytest.raises(KilledError):
            join(node)
        assert node.files[steps.POLICY] == steps.NO_START + former
        node.kill_in, node.dead = "", False
    node.active.update({"slurmd"} if twice else ())

    join(node)

    assert node.files.get(steps.POLICY, "") == former


def test_nothing_happens_where_slurmd_runs() -> None:
    node = Node()
    node.active.add("slurmd")

    assert join(node) == []
    assert [call[0] for call in node.calls] == ["systemctl"]


@pytest.mark.parametrize(
    "failing", ["install munge", "install --owner", "useradd --system", "tar", "slurm-smd=", "restart slurmd"]
)
def test_an_interrupted_run_goes_on(failing: str) -> None:
    node, whole = Node(), Node()
    join(whole)
    node.failing = failing
    with pytest.raises(steps.JoinError):
        join(node)
    assert "slurmd" not in node.active

    node.failing = ""
    join(node)

    assert (node.files, node.packages, node.active) == (whole.files, whole.packages, whole.active)


@pytest.mark.parametrize("command", ["tar --extract", "install --owner", "install -D", "systemd-tmpfiles"])
def test_what_a_killed_program_left_is_not_taken_for_the_whole(command: str) -> None:
    node, whole = Node(), Node()
    join(whole, plugins=[PYXIS, RUNTIME])
    node.kill_in = command
    with pytest.raises(KilledError):
        join(node, plugins=[PYXIS, RUNTIME])
    node.kill_in, node.dead = "", False
    before = len(node.calls)

    join(node, plugins=[PYXIS, RUNTIME])

    assert (node.files, node.owners, node.active) == (whole.files, whole.owners, whole.active)
    # Without the name, systemd-tmpfiles fails for each faulty line of any package, in each attempt.
    assert ["systemd-tmpfiles", "--create", RUNTIME] in node.calls[before:]


def test_a_second_run_changes_nothing_but_the_daemons() -> None:
    node = Node()
    join(node)
    node.active.discard("slurmd")

    assert join(node) == ["start munge and slurmd"]


def test_another_distribution_is_refused_before_anything_changes() -> None:
    node = Node()

    with pytest.raises(steps.JoinError, match=r"VERSION_ID 24\.04; the cluster's packages are for 22\.04"):
        join(node, release={"ID": "ubuntu", "VERSION_ID": "22.04"})

    assert node.calls == []


def test_wrong_accounts_are_refused() -> None:
    accounts = {**SETTINGS["accounts"], "users": [{"name": "alice", "uid": 1}, {"name": "alice", "uid": 2}]}

    with pytest.raises(steps.JoinError, match="alice"):
        join(Node(), accounts=accounts)


def test_the_program_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([str(tmp_path)]) == 1
    assert "join.json cannot be read" in capsys.readouterr().err
    assert cli.main([]) == 2


def test_a_damaged_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "join.json").write_text("{", encoding="utf-8")

    assert cli.main([str(tmp_path)]) == 1
    assert "join.json" in capsys.readouterr().err


def test_settings_without_a_key_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "join.json").write_text(json.dumps({"slurm": {}}), encoding="utf-8")
    (tmp_path / "munge.key").write_bytes(KEY)

    assert cli.main([str(tmp_path)]) == 1
    assert "release" in capsys.readouterr().err


def test_plugins_of_the_controller_come_before_slurmd() -> None:
    node = Node()
    join(node, plugins=[PYXIS])

    assert node.files[PYXIS] == f"copy of /run/gpucluster-join/plugins{PYXIS}"
    copied = next(index for index, call in enumerate(node.calls) if call[-1] == PYXIS)
    started = next(index for index, call in enumerate(node.calls) if call == ["systemctl", "restart", "slurmd"])
    assert copied < started


def test_a_machine_without_a_program_that_jobs_need_is_refused_before_a_change() -> None:
    node = Node()

    with pytest.raises(steps.JoinError, match=r"this machine has no /usr/bin/enroot; use an image with it"):
        join(node, programs=["/usr/bin/enroot"])

    assert [call[0] for call in node.calls] == ["systemctl"]


def test_ssh_is_restricted_as_by_the_role() -> None:
    node = Node()
    node.files["/etc/pam.d/sshd"] = "@include common-auth\n@include common-account\nsession required x\n"
    node.files["/etc/pam.d/common-session"] = "session required pam_unix.so\nsession\toptional\tpam_systemd.so\n"
    join(node, pam=PAM)
    node.active.discard("slurmd")

    assert join(node, pam=PAM) == ["start munge and slurmd"]
    assert node.files["/etc/pam.d/sshd"] == (
        "@include common-auth\n@include common-account\n# BEGIN hpcai.gpucluster.slurm\n"
        "account required pam_slurm_adopt.so\n# END hpcai.gpucluster.slurm\nsession required x\n"
    )
    assert node.files["/etc/pam.d/common-session"] == (
        f"session required pam_unix.so\n{PAM['gate']}session\toptional\tpam_systemd.so\n"
    )


def test_a_machine_whose_ssh_cannot_be_restricted_does_not_join() -> None:
    node = Node()

    with pytest.raises(steps.JoinError, match="has no line '@include common-account'"):
        join(node, pam=PAM)

    assert "slurmd" not in node.active


HOST = "/proc/sys/kernel/hostname"
ELASTIC = ["hpc-h100-([0-9]+-)?[0-9a-z]{6}"]


@pytest.mark.parametrize("host", ["hpc-h100-00000a\n", "HPC-H100-2-00000A\n"])
def test_a_machine_of_an_elastic_set_gets_its_node(host: str) -> None:
    node = Node()
    node.files[HOST] = host
    directory = "/run/gpucluster-join/elastic"
    node.files[f"{directory}/broken.json"] = "{"
    node.files[f"{directory}/another.json"] = json.dumps(host.strip().lower())
    node.files[f"{directory}/number.json"] = "1"
    node.files[f"{directory}/h100.json"] = json.dumps({host.strip().lower(): "h100-7"})

    join(node, elastic=ELASTIC)

    assert node.files["/etc/default/slurmd"] == 'SLURMD_OPTIONS="-N h100-7 --conf-server c"\n'


def test_a_machine_without_a_node_waits_and_changes_nothing() -> None:
    node = Node()
    node.files[HOST] = "hpc-h100-00000b\n"

    with pytest.raises(steps.JoinError, match="has not given hpc-h100-00000b a node yet"):
        join(node, elastic=ELASTIC)
    assert node.active == set()


@pytest.mark.parametrize("host", ["hpc-h100-x-00000a", "gpu1", ""])
def test_other_machines_are_their_own_nodes(host: str) -> None:
    node = Node()
    node.files[HOST] = host

    join(node, elastic=ELASTIC)

    assert node.files["/etc/default/slurmd"] == 'SLURMD_OPTIONS="--conf-server c"\n'


def test_users_of_a_machine_in_azure_are_kept_from_its_metadata_service_before_they_exist() -> None:
    node = Node()

    done = join(node, azure_metadata=True)

    assert done.index("let only root reach the metadata service") < next(
        index for index, step in enumerate(done) if "alice" in step
    )
    assert node.files[metadata.TABLE.rules] == metadata.render([])
    assert ["systemctl", "enable", "--quiet", metadata.TABLE.unit] in node.calls


def test_a_machine_that_cannot_keep_users_from_it_does_not_join() -> None:
    node = Node()
    node.failing = "--file"

    with pytest.raises(steps.JoinError, match="every user still reaches the metadata service"):
        join(node, azure_metadata=True)

    assert "alice" not in node.passwd


def test_other_machines_have_no_such_rules() -> None:
    node = Node()

    join(node)

    assert metadata.TABLE.rules not in node.files
    assert "nftables" not in node.packages
