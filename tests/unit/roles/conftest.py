# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands for PyTorch, which is not installed where the unit tests run."""

from __future__ import annotations

import os
import pickle
import sys
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.roles.test_trainer import load


class FakeWriter:
    """Stands for PyTorch's writer."""

    def __init__(self, *_all: t.Any, **_more: t.Any) -> None:
        pass


def _save(_state: t.Any, checkpoint_id: str, **_more: t.Any) -> None:
    """Write the names that the first rank of PyTorch 2.6 writes."""
    Path(checkpoint_id).mkdir(exist_ok=True)
    for name in (".metadata", "__0_0.distcp"):
        (Path(checkpoint_id) / name).write_bytes(b"12345")


def _begin(state: t.Any, **given: t.Any) -> types.SimpleNamespace:
    """Return what can be waited for; nothing is written before."""
    return types.SimpleNamespace(result=lambda: sys.modules["torch.distributed.checkpoint"].save(state, **given))


def _read(_state: t.Any, checkpoint_id: str) -> None:
    pickle.loads((Path(checkpoint_id) / ".metadata").read_bytes())


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Any]:
    """Return the module checkpoint with one rank, and a PyTorch that reads the metadata of a checkpoint as it does."""
    names = ("torch", "torch.distributed", "torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict")
    given: tuple[dict[str, t.Any], ...] = (
        {},
        {
            "broadcast_object_list": lambda found, src, group: None,
            "all_gather_object": lambda found, mine, group: found.__setitem__(0, mine),
            "get_world_size": lambda: 1,
        },
        {"load": _read, "save": _save, "async_save": _begin, "FileSystemWriter": FakeWriter},
        {"get_state_dict": lambda *_all: ({}, {}), "set_state_dict": lambda *_all, **_more: None},
    )
    for name, content in zip(names, given):
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _dot, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    monkeypatch.delitem(sys.modules, "gpucluster_train.checkpoint", raising=False)
    mask = os.umask(0o022)
    yield load("checkpoint")
    os.umask(mask)
    sys.modules.pop("gpucluster_train.checkpoint", None)
