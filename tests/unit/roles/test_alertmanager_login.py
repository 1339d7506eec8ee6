# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Only root and Prometheus may silence alerts, although every user of the server reaches the port."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROLE = Path(__file__).parents[3] / "roles/monitoring"
RUN = "/run/gpucluster-alertmanager"


def _start(directory: Path) -> dict[str, str]:
    """Run the program as systemd does before Alertmanager, and return its files."""
    directory.mkdir(exist_ok=True)
    environment = {"RUNTIME_DIRECTORY": str(directory), "PATH": os.environ["PATH"]}
    argv = ["sh", "-c", f"umask 000; exec sh {ROLE}/files/alertmanager-login"]
    subprocess.run(argv, env=environment, check=True, timeout=PATIENCE)
    return {path.name: path.read_text() for path in directory.iterdir()}


def _hashed(password: str, setting: str) -> str:
    """Return what crypt of the system makes of a password, as Alertmanager does with bcrypt."""
    argv = ["perl", "-e", "print crypt $ARGV[0], $ARGV[1]", password, setting]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout


def test_each_start_has_a_password_that_fits_its_hash_and_others_cannot_read(tmp_path: Path) -> None:
    first, second = _start(tmp_path / "run"), _start(tmp_path / "run")

    assert first["password"] != second["password"]
    assert len(second["password"]) == 48
    (found,) = yaml.safe_load(second["web.yml"])["basic_auth_users"].items()
    assert found == ("prometheus", _hashed(second["password"], found[1]))
    assert found[1].startswith("$2b$")
    assert yaml.safe_load(second["amtool.yml"])["basic_auth"]["password"] == second["password"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()} == {0o600}


def _rendered(name: str) -> t.Any:
    loader = DataLoader()
    files = (ROLE / "defaults/main.yml", ROLE / "vars/main.yml")
    found = {
        key: one for file in files for key, one in loader.load_from_file(str(file), trusted_as_template=True).items()
    }
    templar = Templar(loader=loader, variables={**found, "inventory_hostname": "control", "ansible_managed": "managed"})
    path = ROLE / "templates" / name
    return templar.template(trust_as_template(f"{{{{ lookup('ansible.builtin.template', '{path}') }}}}"))


def test_alertmanager_asks_for_the_password() -> None:
    unit = _rendered("alertmanager.conf.j2").splitlines()

    assert "ExecStartPre=/etc/gpucluster/monitoring/alertmanager-login" in unit
    assert "RuntimeDirectoryMode=0700" in unit
    arguments = _rendered("alertmanager.default.j2")
    assert arguments.rstrip().endswith(f'--web.config.file={RUN}/web.yml"')
    # A line of the file ends with a backslash, or it is the last.
    assert all(line.endswith("\\") for line in arguments.split("ARGS=")[1].rstrip().splitlines()[:-1])


def test_prometheus_gives_the_password_with_alerts_and_when_it_reads_figures() -> None:
    settings = yaml.safe_load(_rendered("prometheus.yml.j2"))

    login = {"username": "prometheus", "password_file": f"{RUN}/password"}
    (manager,) = settings["alerting"]["alertmanagers"]
    (job,) = (one for one in settings["scrape_configs"] if one["job_name"] == "alertmanager")
    assert manager["basic_auth"] == job["basic_auth"] == login
    assert json.dumps(settings).count(f"{RUN}/password") == 2


@pytest.mark.parametrize("name", ["alertmanager-login", "alertmanager.yml"])
def test_a_change_restarts_alertmanager(name: str) -> None:
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text(encoding="utf-8"))

    assert f"{{{{ __monitoring_directory }}}}/{name}" in variables["__monitoring_alertmanager_restart"]
