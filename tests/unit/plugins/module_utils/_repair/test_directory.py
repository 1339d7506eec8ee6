# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state directory of the repair: root writes to no place that another user can exchange."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady

if t.TYPE_CHECKING:
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair.world import World


def test_the_program_writes_nothing_to_a_directory_that_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o775)
    settings = {"mode": "act", "max_nodes": "1", "directory": str(shared / "repair"), "rules": []}
    (tmp_path / "repair.json").write_text(json.dumps(settings), encoding="utf-8")

    for command in ("run", "status", "stop"):
        assert cli.main(["--config", str(tmp_path / "repair.json"), command]) == 1
        assert f"{shared} has the mode 0775" in capsys.readouterr().err
    assert not list(shared.iterdir())


def test_the_program_counts_periods_by_a_clock_that_nobody_can_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waits of a repair are periods; a clock that is set would end one."""
    settings = {"mode": "act", "max_nodes": "1", "directory": str(tmp_path / "repair"), "rules": []}
    (tmp_path / "repair.json").write_text(json.dumps(settings), encoding="utf-8")
    made: list[World] = []

    class EndedError(Exception):
        """The program has made what the test looks at."""

    def repair(_settings: t.Any, _cluster: t.Any, world: World, _say: t.Any) -> t.NoReturn:
        made.append(world)
        raise EndedError

    monkeypatch.setattr(cli, "Repair", repair)
    with pytest.raises(EndedError):
        cli.main(["--config", str(tmp_path / "repair.json"), "status"])

    assert made[0].uptime is steady.seconds
