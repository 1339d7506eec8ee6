# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_database_info, with a client of MariaDB that is a script."""

from __future__ import annotations

import gzip
import os
import typing as t

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._backup import database, standing
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_database_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule, program

if t.TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_clusters_and_the_backup_are_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path, "mariadb", "echo lab; echo other")
    dump = gzip.compress(b"INSERT INTO `cluster_table` VALUES (1);")
    (tmp_path / "slurm_acct_db-20261124T030000Z.sql.gz").write_bytes(dump)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(standing, "SETTINGS", str(tmp_path / "none"))
    monkeypatch.setattr(standing, "DIRECTORY", str(tmp_path / "none"))
    monkeypatch.setattr(database, "CONFIG", str(tmp_path / "none"))

    found = RunModule(capsys)(slurm_database_info.main, True, dumps=str(tmp_path))

    assert (found["clusters"], found["reason"], found["changed"]) == (["lab", "other"], "", False)
    assert "| mariadb slurm_acct_db" in found["restore"]
    assert set(yaml_load(slurm_database_info.RETURN)) <= set(found)
    assert "FROM slurm_acct_db.cluster_table" in (tmp_path / "calls").read_text(encoding="utf-8")


def test_settings_that_cannot_be_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "backup.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(standing, "SETTINGS", str(tmp_path / "backup.json"))
    monkeypatch.setattr(database, "CONFIG", str(tmp_path / "none"))

    assert RunModule(capsys)(slurm_database_info.main)["msg"].startswith("the backups cannot be read: ")
