# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables and templates of the role slurm make of its inputs; test_settings.py has the decisions."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic import cli
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

ROLE = Path(__file__).parents[3] / "roles/slurm"
GIVEN = {"slurm_controllers": ["head1", "head2"], "slurm_database": "db1"}


def value(expression: str, **given: t.Any) -> t.Any:
    """Return the value of an expression in the role, with some of its inputs."""
    loader = DataLoader()
    files = (ROLE / "defaults/main.yml", ROLE / "vars/main.yml")
    variables = {
        name: one for file in files for name, one in loader.load_from_file(str(file), trusted_as_template=True).items()
    }
    templar = Templar(loader=loader, variables={**variables, **GIVEN, **given})
    return templar.template(trust_as_template(f"{{{{ {expression} }}}}"))


def rendered(name: str, **given: t.Any) -> t.Any:
    """Return the text of a template of the role."""
    return value(f"lookup('ansible.builtin.template', '{ROLE}/templates/{name}')", **given)


NODES: dict[str, t.Any] = {"gpucluster_slurm_nodes": []}


def test_the_role_passes_every_input_that_python_asks_for() -> None:
    variables = DataLoader().load_from_file(str(ROLE / "vars/main.yml"), trusted_as_template=False)
    passed = {**variables["__slurm_inputs"], **variables["__slurm_controller_inputs"]}

    assert passed.keys() == inputs().keys()
    for name, text in (passed | {"slurm_known_checksums": "{{ slurm_known_checksums }}"}).items():
        assert name in text, f"{name} passes something else"


def test_slurmd_and_sackd_ask_the_controllers() -> None:
    digest = value("__slurm_settings.slurmd_digest", **NODES)

    assert rendered("slurmd.j2", **NODES).splitlines()[1:] == [
        'SLURMD_OPTIONS="--conf-server head1:6817,head2:6817"',
        f"# What slurmd reads only when it starts: {digest}",
    ]
    assert rendered("sackd.j2", **NODES).splitlines()[1:] == ['SACKD_OPTIONS="--conf-server head1:6817,head2:6817"']


def test_a_node_does_not_look_at_all_other_nodes() -> None:
    """A thousand nodes that each read the variables of a thousand nodes take minutes."""
    places = {"slurm_topology": "{{ this_fails() }}", **NODES}

    assert value("__slurm_settings.servers", **places)


def test_a_database_elsewhere_is_saved_with_the_account_of_slurmdbd() -> None:
    config = {"StorageHost": "db9", "StoragePort": 3307, "StorageUser": "acct"}
    given = {"slurm_database_config": config, **NODES}

    assert rendered("mariadb_dump.cnf.j2", **given, slurm_database_password="p#a\\s") == (
        '[client]\nhost="db9"\nport=3307\nuser="acct"\npassword="p#a\\\\s"\n'
    )
    assert "password" not in rendered("mariadb_dump.cnf.j2", **given)


def test_slurmdbd_conf_ends_with_one_line_end() -> None:
    text = rendered("slurmdbd.conf.j2", **NODES)

    assert text.startswith("# Ansible managed, role hpcai.gpucluster.slurm\nDbdHost=db1\n")
    assert text.endswith("StorageLoc=slurm_acct_db\n")


ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/h1"


def test_elastic_nodes_have_a_program_that_slurm_calls_with_a_hostlist() -> None:
    given: dict[str, t.Any] = {"gpucluster_slurm_elastic": {"h1": ID}, **NODES}

    assert value("__slurm_controller_inputs.slurm_elastic", **given) == {"h1": ID}
    files = {one["path"]: one["content"] for one in value("__slurm_elastic_files", **given)}
    config = json.loads(files.pop("/etc/gpucluster/elastic.json"))
    assert config["nodes"] == {"h1": ID}
    assert config["directory"] == "/var/spool/slurmctld/elastic"
    assert set(cli.Config._fields) == set(config)
    for path, text in files.items():
        word = Path(path).name
        assert text == f'#!/bin/sh\nexec /usr/local/sbin/gpucluster-elastic {word} "$1"\n'


def test_without_elastic_nodes_the_program_has_no_configuration() -> None:
    assert value("__slurm_controller_files") == [{"path": "/etc/gpucluster/elastic.json", "state": "absent"}]
    assert value("__slurm_controller_files", slurm_elastic={"h1": ID}) == []


def test_the_play_knows_the_release_that_the_role_installs() -> None:
    text = (ROLE.parents[1] / "playbooks/vars/cluster.yml").read_text(encoding="utf-8")

    assert f"hpcai.gpucluster.slurm_metrics('{value('slurm_version')}')" in text
