# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of locked clocks."""

from __future__ import annotations

import json
import tempfile
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.record import Lock

NOW = {"boot": "a", "driver": "7 580.159.04"}
LOCKS = {"GPU-a": Lock((1980, 1980), 3201), "GPU-b": Lock(None, None, ("memory",))}


def machine(root: Path, boot: str = "b-1", version: str = "580.159.04") -> Path:
    for path, text in (("proc/sys/kernel/random/boot_id", boot), ("sys/module/nvidia/version", version)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n", encoding="utf-8")
    return root


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "hpcai/nvidia_clocks.json"

    record.save(str(path), NOW, LOCKS)

    assert record.load(str(path), NOW) == LOCKS
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("other", [{**NOW, "boot": "b"}, {**NOW, "driver": "8 580.159.04"}, {}])
def test_a_record_of_another_boot_or_driver_is_worth_nothing(tmp_path: Path, other: dict[str, str]) -> None:
    path = str(tmp_path / "record.json")
    record.save(path, NOW, LOCKS)

    assert record.load(path, other) == {}


def test_stamps_change_with_the_boot_and_with_each_load_of_the_driver(tmp_path: Path) -> None:
    root = machine(tmp_path)
    first = record.stamps(str(root))
    (root / "sys/module/nvidia").rename(
        root / "sys/module/old"
    )  # keeps the inode in use, as the kernel never reuses one
    second = record.stamps(str(machine(root)))
    third = record.stamps(str(machine(root, boot="b-2")))

    assert first["boot"] == "b-1"
    assert first["driver"].endswith(" 580.159.04")
    assert len({str(stamps) for stamps in (first, second, third)}) == 3


def test_a_machine_without_driver_has_stamps_too(tmp_path: Path) -> None:
    assert record.stamps(str(tmp_path)) == {"boot": "", "driver": "0"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["stamps", "gpus", "graphics", "memory"]), inner)
    ),
    max_leaves=8,
)


@settings(deadline=None)
@given(JSON)
def test_no_damaged_record_makes_the_reader_fail(content: t.Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.json"
        for damaged in (content, {"stamps": NOW, "gpus": content}, {"stamps": NOW, "gpus": {"GPU-a": content}}):
            path.write_text(json.dumps(damaged), encoding="utf-8")
            record.load(str(path), NOW)
