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


class CheckpointException(BaseException):  # the name that PyTorch gives it
    """What PyTorch raises on all ranks: the error of each rank that failed."""

    def __init__(self, failures: dict[int, t.Any]) -> None:
        super().__init__(failures)
        self.failures = failures


def _save(_state: t.Any, checkpoint_id: str) -> None:
    """Write the names that the first rank of PyTorch writes, and where in them each tensor is."""
    blocks = [{"relative_path": "__0_0.distcp", "offset": begin, "length": 18} for begin in (0, 18)]
    (Path(checkpoint_id) / "__0_0.distcp").write_bytes(b"zero" * 9)
    (Path(checkpoint_id) / ".metadata").write_bytes(pickle.dumps(blocks))


class FileSystemReader:
    """Stands for PyTorch's reader, whose metadata are a pickle."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def read_metadata(self) -> types.SimpleNamespace:
        found = pickle.loads((self.path / ".metadata").read_bytes())
        blocks = found if isinstance(found, list) else []
        return types.SimpleNamespace(storage_data={n: types.SimpleNamespace(**one) for n, one in enumerate(blocks)})


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[t.Any]:
    """Return the module checkpoint with one rank, and a PyTorch that reads the metadata of a checkpoint as it does."""
    names = ("torch", "torch.distributed", "torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict")
    given: tuple[dict[str, t.Any], ...] = (
        {},
        {"broadcast_object_list": lambda found, src: None},
        {
            "load": lambda _state, checkpoint_id: FileSystemReader(checkpoint_id).read_metadata(),
            "save": _save,
            "FileSystemReader": FileSystemReader,
            "CheckpointException": CheckpointException,
        },
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
