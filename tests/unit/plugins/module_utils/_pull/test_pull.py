# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import fcntl
import hashlib
import io
import json
import shutil
import socket
import subprocess
import tarfile
import typing as t
import zipfile
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive
from ansible_collections.hpcai.gpucluster.plugins.module_utils._join import steps as join_steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._pull import cli, steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, whole_directory
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

SETTINGS = {
    "name": "gpu1",
    "server": "control",
    "user": "gpucluster-pull",
    "playbook": "hpcai.gpucluster.site",
    "seconds": 60,
    "full_seconds": 3600,
}
NOW = 1_800_000_000.0


def _wheel(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as out:
        for name in names:
            out.writestr(name, name)


def _bundle(directory: Path, content: str = "1") -> Path:
    """Make a bundle with what a node needs."""
    parts = directory / "parts"
    shutil.rmtree(parts, ignore_errors=True)
    _wheel(parts / "node-wheels/ansible_core-2.19.0-py3-none-any.whl", "ansible/cli.py")
    posix, other = "ansible_collections/ansible/posix/a.yml", "ansible_collections/cisco/ios/a.yml"
    _wheel(parts / "wheels/ansible-12.3.0-py3-none-any.whl", posix, other)
    (parts / "collections").mkdir()
    with tarfile.open(parts / "collections/hpcai-gpucluster-0.3.0.tar.gz", "w:gz") as out:
        data = content.encode()
        member = tarfile.TarInfo("site.yml")
        member.size = len(data)
        out.addfile(member, io.BytesIO(data))
    target = directory / "bundle.tar"
    archive.pack(parts, target, {}, {})
    return target


class Cluster:
    """A controller in a directory: sftp copies files of it, ssh-keygen is the real one, and Ansible only records."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.key = root / "key"
        self.served = root / "served"
        self.served.mkdir()
        self.commands: list[list[str]] = []
        self.environment: t.Mapping[str, str] = {}
        self.status = 0
        self.serial = 0
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True, timeout=PATIENCE
        )
        self.bundle = _bundle(root)
        self.publish()

    def publish(self, namespace: str = steps.NAMESPACE, **changes: t.Any) -> None:
        """Sign a release and serve it. Each one has the next serial."""
        self.serial += 1
        shutil.copy(self.bundle, self.served / "bundle.tar")
        hosts = {"_meta": {"hostvars": {"gpu1": {}, "gpu2": {}}}, "slurm_compute": {"hosts": ["gpu1", "gpu2"]}}
        release = {
            "inventory": json.dumps(hosts),
            "variables": {"munge_key": "c2VjcmV0"},
            "serial": self.serial,
            "expires": int(NOW) + 90 * 86400,
            "bundle": {"sha256": hashlib.sha256(self.bundle.read_bytes()).hexdigest(), "url": ""},
            **changes,
        }
        text = json.dumps(release)
        argv = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(self.key), "-n", namespace]
        signed = subprocess.run(argv, input=text, capture_output=True, text=True, check=True, timeout=PATIENCE)
        (self.served / steps.RELEASE).write_text(text)
        (self.served / steps.SIGNATURE).write_text(signed.stdout)

    def run(
        self, argv: list[str], data: str | None = None, environment: t.Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Act as the program that is started."""
        self.commands.append(argv)
        if argv[0] == "sftp":
            _get, name, target = t.cast("str", data).split()
            if not (self.served / name).exists():
                return 1, "", f"File {name!r} not found."
            shutil.copy(self.served / name, target)
            return 0, "", ""
        if argv[0] == "curl":
            return 22, "", "The requested URL returned error: 404"
        if argv[0] == "ssh-keygen":
            return bounded_run.feeding_runner(PATIENCE)(argv, data)
        self.environment = environment or {}
        return self.status, "fatal: [gpu1]: FAILED! => no space\n" if self.status else "ok", ""

    def saved(self, put_back: t.Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """Return what is served, as a backup has it, after it was put back."""
        for name, content in (put_back or {}).items():
            (self.served / name).write_bytes(content)
        return {path.name: path.read_bytes() for path in self.served.iterdir()}

    def played(self) -> list[list[str]]:
        """Return the runs of Ansible."""
        return [argv for argv in self.commands if "playbook" in argv]

    def fetched(self) -> int:
        """Return how many files were fetched."""
        return sum(argv[0] == "sftp" for argv in self.commands)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(tmp_path)
    signers = tmp_path / "signers"
    signers.write_text(f'gpucluster namespaces="gpucluster-pull" {(tmp_path / "key.pub").read_text()}')
    monkeypatch.setattr(steps, "SIGNERS", str(signers))
    monkeypatch.chdir(tmp_path)  # the program leaves it
    return made


def _pull(cluster: Cluster, now: float = NOW, **changes: t.Any) -> steps.Pull:
    state = cluster.root / "state"
    state.mkdir(exist_ok=True)
    return steps.Pull(Host(cluster.run), {**SETTINGS, **changes}, state, now)


def test_a_release_is_applied_on_this_machine_for_this_machine_only(cluster: Cluster) -> None:
    _pull(cluster).run()

    (argv,) = cluster.played()
    state = cluster.root / "state"
    assert argv[argv.index("--limit") + 1] == "gpu1"
    variables = json.loads((state / "variables.json").read_text())
    assert variables["ansible_connection"] == "local"
    assert variables["gpucluster_pull"] is True
    assert variables["munge_key"] == "c2VjcmV0"
    for name in ("variables.json", "inventory.json"):
        assert (state / name).stat().st_mode & 0o077 == 0
    printed = subprocess.run([state / "inventory"], capture_output=True, check=True, timeout=PATIENCE).stdout
    assert "gpu2" in json.loads(printed)["_meta"]["hostvars"]


def test_ansible_comes_from_the_bundle(cluster: Cluster) -> None:
    _pull(cluster).run()

    path = Path(cluster.environment["PYTHONPATH"])
    assert (path / "ansible/cli.py").exists()
    assert (path / "ansible_collections/ansible/posix/a.yml").exists()
    assert not (path / "ansible_collections/cisco").exists()
    assert (path / "ansible_collections/hpcai/gpucluster/site.yml").read_text() == "1"


def test_ansible_is_on_the_disk_before_it_has_its_name(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that exists is not made again, so a power cut must not leave one with empty files."""
    kept: list[str] = []
    own = whole_directory.keep

    def keep(fresh: Path, final: Path) -> None:
        kept.append(fresh.name)
        own(fresh, final)

    monkeypatch.setattr(whole_directory, "keep", keep)

    _pull(cluster).run()

    assert [name.partition("-")[0] for name in kept if name.startswith("ansible-")] == ["ansible"]


def test_a_node_without_news_fetches_the_signature_only(cluster: Cluster) -> None:
    _pull(cluster).run()
    before = cluster.fetched()

    said = _pull(cluster, NOW + 1800).run()

    assert said == "the release is applied"
    assert cluster.fetched() == before + 1
    assert len(cluster.played()) == 1


@pytest.mark.parametrize(("later", "force"), [(3601.0, False), (1.0, True), (-86400.0, False)])
def test_a_release_is_applied_again_when_it_is_old_or_on_request(cluster: Cluster, later: float, force: bool) -> None:
    """Or when the clock was ahead at the last time."""
    _pull(cluster).run()

    _pull(cluster, NOW + later).run(force)

    assert len(cluster.played()) == 2


def test_a_run_that_failed_is_repeated_and_says_why(cluster: Cluster) -> None:
    cluster.status = 2
    with pytest.raises(steps.PullError, match=r"fatal: \[gpu1\]: FAILED! => no space"):
        _pull(cluster).run()
    cluster.status = 0

    assert "was applied" in _pull(cluster).run()


def test_a_release_that_somebody_changed_is_refused(cluster: Cluster) -> None:
    path = cluster.served / steps.RELEASE
    path.write_text(path.read_text().replace("c2VjcmV0", "ZXZpbA=="))

    with pytest.raises(steps.PullError, match="signature"):
        _pull(cluster).run()

    assert not cluster.played()


@pytest.mark.parametrize("guard", ['namespaces="gpucluster-pull" ', ""])
def test_a_signature_for_something_else_is_refused(cluster: Cluster, guard: str) -> None:
    """By the program, and by the list of signers: each alone is enough."""
    Path(steps.SIGNERS).write_text(f"gpucluster {guard}{(cluster.root / 'key.pub').read_text()}")
    cluster.publish(namespace="file")

    with pytest.raises(steps.PullError, match="signature"):
        _pull(cluster).run()

    assert not cluster.played()


def test_a_bundle_that_is_not_that_of_the_release_is_refused_and_fetched_again(cluster: Cluster) -> None:
    good = (cluster.served / "bundle.tar").read_bytes()
    (cluster.served / "bundle.tar").write_bytes(good + b"x")
    with pytest.raises(steps.PullError, match="checksum"):
        _pull(cluster).run()
    assert not cluster.played()
    (cluster.served / "bundle.tar").write_bytes(good)

    assert "was applied" in _pull(cluster).run()


@pytest.mark.parametrize("digest", ["../../etc/x", "", "A" * 64])
def test_a_checksum_that_is_none_makes_no_path(cluster: Cluster, digest: str) -> None:
    cluster.publish(bundle={"sha256": digest, "url": ""})

    with pytest.raises(steps.PullError, match="64 hexadecimal digits"):
        _pull(cluster).run()


def test_the_bundle_may_come_from_a_web_server(cluster: Cluster) -> None:
    cluster.publish(bundle={"sha256": "0" * 64, "url": "http://mirror/bundle.tar"})

    with pytest.raises(steps.PullError, match=r"http://mirror/bundle.tar cannot be fetched: .*404"):
        _pull(cluster).run()


def test_a_node_that_the_inventory_lacks_is_refused(cluster: Cluster) -> None:
    with pytest.raises(steps.PullError, match="the inventory of the release has no gpu9"):
        _pull(cluster, name="gpu9").run()


def test_a_node_that_is_not_registered_says_what_to_run(cluster: Cluster) -> None:
    (cluster.served / steps.SIGNATURE).unlink()

    with pytest.raises(steps.PullError, match=r"run playbooks/pull.yml to register this node"):
        _pull(cluster).run()


def test_the_controller_must_have_its_host_key_and_the_node_shows_its_own(cluster: Cluster) -> None:
    _pull(cluster).run()

    sftp = cluster.commands[0]
    assert "-oStrictHostKeyChecking=yes" in sftp
    assert "-oUserKnownHostsFile=/etc/gpucluster/pull_known_hosts" in sftp
    assert "-oIdentityFile=/etc/ssh/ssh_host_ed25519_key" in sftp
    assert sftp[-1] == "gpucluster-pull@control"


def test_a_new_bundle_replaces_the_old_one(cluster: Cluster) -> None:
    _pull(cluster).run()
    cluster.bundle = _bundle(cluster.root, "2")
    cluster.publish()

    _pull(cluster).run()

    state = cluster.root / "state"
    assert len(list(state.glob("*.tar"))) == len(list(state.glob("ansible-*"))) == 1
    assert len(list((state / "cache/gpucluster/bundle").iterdir())) == 1
    site = Path(cluster.environment["PYTHONPATH"]) / "ansible_collections/hpcai/gpucluster/site.yml"
    assert site.read_text() == "2"


def test_two_runs_at_once_are_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = cluster.root / "pull.json"
    settings.write_text(json.dumps(SETTINGS))
    monkeypatch.setattr(cli, "SETTINGS", str(settings))
    monkeypatch.setattr(cli, "STATE", cluster.root / "state")
    (cluster.root / "state").mkdir()
    with (cluster.root / "state/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert cli.main([]) == 1

    assert capsys.readouterr().err == "gpucluster-pull: another run is active\n"


def test_the_program_says_what_is_wrong(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "SETTINGS", str(cluster.root / "missing.json"))

    assert cli.main(["--now"]) == 1
    assert "missing.json" in capsys.readouterr().err


def test_no_program_of_a_user_runs_in_place_of_ansible(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator may call the program in a directory of a user."""
    theirs = cluster.root / "theirs"
    (theirs / "ansible").mkdir(parents=True)
    (theirs / "ansible/__main__.py").write_text("print('a user')")
    (cluster.root / "pull.json").write_text(json.dumps(SETTINGS))
    monkeypatch.chdir(theirs)
    monkeypatch.setattr(cli, "SETTINGS", str(cluster.root / "pull.json"))
    monkeypatch.setattr(cli, "STATE", cluster.root / "state")
    said: list[str] = []

    def run(argv: list[str], data: str = "", environment: t.Mapping[str, str] | None = None) -> tuple[int, str, str]:
        if "playbook" in argv:
            said.append(bounded_run.feeding_runner(PATIENCE)(argv, data, environment)[1])
        return cluster.run(argv, data, environment)

    monkeypatch.setattr(cli, "Host", lambda _run: Host(run))

    cli.main([])

    assert said == [""]


def _copy(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, bundle: str) -> list[str]:
    """Make the node a copy of an image, and return where the steps of the join are recorded."""
    image = cluster.root / "image.json"
    image.write_text(json.dumps({"bundle": bundle}))
    monkeypatch.setattr(steps, "IMAGE", str(image))
    done: list[str] = []
    monkeypatch.setattr(join_steps, "install_key", lambda _host, key: done.append(key.decode()))
    monkeypatch.setattr(join_steps, "start_daemons", lambda _host: done.append("start"))
    return done


def test_a_copy_of_an_image_joins_first_and_applies_the_release_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = _copy(cluster, monkeypatch, hashlib.sha256(cluster.bundle.read_bytes()).hexdigest())

    said = _pull(cluster).run()

    assert said.startswith("this copy of an image has joined")
    assert done == ["secret", "start"]
    assert not cluster.played()
    _pull(cluster).run()
    assert len(cluster.played()) == 1
    assert done == ["secret", "start"]


def test_a_copy_of_an_older_image_applies_the_release_first(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done = _copy(cluster, monkeypatch, "0" * 64)

    _pull(cluster).run()

    assert done == []
    assert len(cluster.played()) == 1


def test_a_copy_of_an_image_has_the_name_of_its_host(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu2.cluster.example.com")

    _pull(cluster, name="").run()

    (argv,) = cluster.played()
    assert argv[argv.index("--limit") + 1] == "gpu2"


@pytest.mark.parametrize("force", [True, False])
def test_an_old_release_does_not_come_back(cluster: Cluster, force: bool) -> None:
    """Its signature is good, and it has the old munge key and a sudo user who was removed."""
    old = cluster.saved()
    _pull(cluster).run()
    cluster.publish(variables={"munge_key": "bmV3"})
    _pull(cluster).run()
    cluster.saved(put_back=old)

    with pytest.raises(steps.PullError, match=r"serial 1, and this node has accepted 2: .* -e pull_serial=3"):
        _pull(cluster).run(force)

    assert len(cluster.played()) == 2
    assert json.loads((cluster.root / "state/variables.json").read_text())["munge_key"] == "bmV3"


def test_an_old_release_does_not_come_back_after_a_new_one_failed(cluster: Cluster) -> None:
    """The new munge key may be in place already."""
    old = cluster.saved()
    cluster.publish()
    cluster.status = 2
    with pytest.raises(steps.PullError, match="the playbook failed"):
        _pull(cluster).run()
    cluster.status = 0
    cluster.saved(put_back=old)

    with pytest.raises(steps.PullError, match="an old release is served"):
        _pull(cluster).run()


def test_a_release_with_the_serial_of_another_is_refused(cluster: Cluster) -> None:
    """Two runs of the playbook at once may give one number to two releases."""
    _pull(cluster).run()
    cluster.serial -= 1
    cluster.publish(variables={"munge_key": "bmV3"})

    with pytest.raises(steps.PullError, match="serial 1, and this node has accepted 1"):
        _pull(cluster).run()


def test_a_control_node_that_lost_its_count_goes_on_with_a_serial_that_was_named(cluster: Cluster) -> None:
    cluster.serial = 7
    cluster.publish()
    _pull(cluster).run()
    cluster.serial = 0
    cluster.publish(variables={"munge_key": "bmV3"})
    with pytest.raises(steps.PullError, match="-e pull_serial=9"):
        _pull(cluster).run()
    cluster.serial = 8
    cluster.publish(variables={"munge_key": "bmV3"})

    assert "was applied" in _pull(cluster).run()


def test_a_node_that_knows_no_release_refuses_one_that_has_expired(cluster: Cluster) -> None:
    late = NOW + 90 * 86400

    with pytest.raises(
        steps.PullError, match=r"expired at 2027-04-15T08:00:00Z, and the clock of this node says 2027-"
    ):
        _pull(cluster, late).run()

    assert not cluster.played()
    assert not (cluster.root / "state/accepted.json").exists()


def test_a_node_applies_its_release_again_after_it_has_expired(cluster: Cluster) -> None:
    """A cluster that nobody changes goes on."""
    _pull(cluster).run()

    _pull(cluster, NOW + 91 * 86400).run()

    assert len(cluster.played()) == 2


def test_a_clock_that_was_ahead_once_stops_nothing(cluster: Cluster) -> None:
    with pytest.raises(steps.PullError, match="expired"):
        _pull(cluster, NOW + 20 * 365 * 86400).run()

    assert "was applied" in _pull(cluster).run()
    cluster.publish()
    assert "was applied" in _pull(cluster, NOW + 60).run()


@pytest.mark.parametrize("field", ["serial", "expires"])
@pytest.mark.parametrize("value", [None, "9", True, 1.5])
def test_a_release_without_a_number_is_refused(cluster: Cluster, field: str, value: t.Any) -> None:
    cluster.publish(**{field: value})

    with pytest.raises(steps.PullError, match="has no serial"):
        _pull(cluster).run()


def test_what_this_node_accepted_is_roots_alone_and_never_guessed(cluster: Cluster) -> None:
    _pull(cluster).run()
    path = cluster.root / "state/accepted.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{")
    cluster.publish()

    with pytest.raises(steps.PullError, match=r"accepted\.json is damaged"):
        _pull(cluster).run()


def test_parts_of_two_releases_make_none(cluster: Cluster) -> None:
    """What a node fetches while the controller gets a new release, or after a part was lost."""
    old = cluster.saved()
    cluster.publish(variables={"munge_key": "bmV3"})
    new = cluster.saved()
    for served in (
        {**new, steps.SIGNATURE: old[steps.SIGNATURE]},
        {**new, steps.RELEASE: old[steps.RELEASE]},
        {**new, steps.RELEASE: new[steps.RELEASE][:-9]},
        {**new, steps.RELEASE: b""},
        {**new, steps.SIGNATURE: new[steps.SIGNATURE][:-60]},
        {**new, steps.SIGNATURE: b""},
    ):
        cluster.saved(put_back=served)
        with pytest.raises(steps.PullError, match="signature"):
            _pull(cluster).run()

    assert not cluster.played()
    cluster.saved(put_back=new)
    assert "was applied" in _pull(cluster).run()
