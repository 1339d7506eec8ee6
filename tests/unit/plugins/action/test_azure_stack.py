# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wrong variable azure_cluster is refused before the sign-in."""

from __future__ import annotations

import types
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.action import azure_stack
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import session

if t.TYPE_CHECKING:
    import pytest

GIVEN: dict[str, t.Any] = {"cluster": {"name": "hpc", "nmae": "hpc"}}


def test_wrong_input_is_refused_before_the_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(session, "opened", lambda *_given: asked.append("sign-in"))
    task: t.Any = types.SimpleNamespace(
        action="azure_stack", args=GIVEN, async_val=0, check_mode=False, diff=False, environment=None
    )
    connection: t.Any = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir=None))
    action = azure_stack.ActionModule(task, connection, *t.cast("t.Any", [None] * 4))

    result = action.run(task_vars={})

    assert result["failed"]
    assert "azure_cluster" in result["msg"]
    assert asked == []
