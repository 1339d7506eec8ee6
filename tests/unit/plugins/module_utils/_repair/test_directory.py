# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory of the repair: root writes to no place that another user can exchange."""

from __future__ import annotations

import json
import os
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli, directory

if t.TYPE_CHECKING:
    from pathlib import Path

SLURM = 64030


def test_a_directory_of_root_is_trusted_also_before_it_exists(tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "repair"

    assert directory.trusted(str(wanted)) == str(wanted)
    assert wanted.is_dir()
    assert directory.trusted(str(wanted)) == str(wanted)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o2775])
@pytest.mark.parametrize("part", ["above", "itself"])
def test_a_directory_in_which_others_can_write_is_refused(tmp_path: Path, mode: int, part: str) -> None:
    above, itself = tmp_path / "shared", tmp_path / "shared" / "repair"
    itself.mkdir(parents=True)
    (above if part == "above" else itself).chmod(mode)

    with pytest.raises(directory.UntrustedError, match="Set repair_state_directory"):
        directory.trusted(str(itself))


def test_a_sticky_directory_may_be_above_but_not_the_directory_itself(tmp_path: Path) -> None:
    above, itself = tmp_path / "tmp", tmp_path / "tmp" / "repair"
    itself.mkdir(parents=True)
    above.chmod(0o1777)

    assert directory.trusted(str(itself)) == str(itself)
    with pytest.raises(directory.UntrustedError):
        directory.trusted(str(above))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory to another user")
@pytest.mark.parametrize("made", ["nothing", "directory", "link"])
def test_a_directory_of_slurm_is_refused_whatever_slurm_puts_there(tmp_path: Path, made: str) -> None:
    spool, target = tmp_path / "slurmctld", tmp_path / "target"
    spool.mkdir(0o700)
    target.mkdir(0o777)
    target.chmod(0o777)
    if made == "link":
        (spool / "gpucluster-repair").symlink_to(target)
    if made == "directory":
        (spool / "gpucluster-repair").mkdir()
    os.chown(spool, SLURM, SLURM)

    with pytest.raises(directory.UntrustedError):
        directory.trusted(str(spool / "gpucluster-repair"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a link to another user")
def test_a_link_of_a_user_in_a_sticky_directory_is_not_followed(tmp_path: Path) -> None:
    shared, victim = tmp_path / "shared", tmp_path / "victim"
    shared.mkdir()
    shared.chmod(0o3775)
    victim.mkdir()
    (shared / "repair").symlink_to(victim)
    os.chown(shared / "repair", SLURM, SLURM, follow_symlinks=False)

    with pytest.raises(directory.UntrustedError, match="is a symbolic link"):
        directory.trusted(str(shared / "repair"))


def test_the_program_writes_nothing_to_a_directory_that_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    settings = {"mode": "act", "max_nodes": "1", "directory": str(shared / "repair"), "rules": [], "commands": {}}
    (tmp_path / "repair.json").write_text(json.dumps(settings), encoding="utf-8")

    for command in ("run", "status", "stop"):
        assert cli.main(["--config", str(tmp_path / "repair.json"), command]) == 1
        assert f"{shared} has the mode 0775" in capsys.readouterr().err
    assert not list(shared.iterdir())
