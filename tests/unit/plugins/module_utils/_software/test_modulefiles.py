# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which software is found, and the modulefiles for it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._software import modulefiles
from ansible_collections.hpcai.gpucluster.plugins.module_utils._software.modulefiles import Software

if t.TYPE_CHECKING:
    from pathlib import Path

HEADER = '#define NCCL_MAJOR 2\n#define NCCL_MINOR 26\n#define NCCL_PATCH 2\n#define NCCL_SUFFIX ""\n'


def put(root: Path, name: str, content: str = "") -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    put(tmp_path, "usr/local/cuda-12.9/bin/nvcc")
    put(tmp_path, "usr/local/cuda-12.9/lib64/libcudart.so")
    put(tmp_path, "usr/local/cuda-11.8/README")  # an installation that is gone
    (tmp_path / "usr/local/cuda-12").symlink_to("cuda-12.9")
    put(tmp_path, "opt/openmpi/4.1.6/bin/mpirun")
    put(tmp_path, "usr/bin/mpirun.openmpi")
    put(tmp_path, "usr/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so")
    put(tmp_path, "usr/include/nccl.h", HEADER)
    return tmp_path


def test_each_installed_version_is_found_once(machine: Path) -> None:
    assert modulefiles.find(machine) == [
        Software("cuda", "12.9", "/usr/local/cuda-12.9"),
        Software("nccl", "2.26.2", "/usr"),
        Software("openmpi", "4.1.6", "/opt/openmpi/4.1.6"),
        Software("openmpi", "system", "/usr/lib/x86_64-linux-gnu/openmpi"),
    ]


def test_a_bare_machine_has_none(tmp_path: Path) -> None:
    assert modulefiles.files("/usr/local/share/modules", [], tmp_path) == []


def test_a_modulefile_names_directories_that_exist(machine: Path) -> None:
    text = modulefiles.render(Software("cuda", "12.9", "/usr/local/cuda-12.9"), machine)

    assert 'setenv("CUDA_HOME", "/usr/local/cuda-12.9")' in text
    assert 'prepend_path("LD_LIBRARY_PATH", "/usr/local/cuda-12.9/lib64")' in text
    assert "include" not in text


def test_a_module_of_the_system_prepends_nothing(machine: Path) -> None:
    assert "prepend_path" not in modulefiles.render(Software("nccl", "2.26.2", "/usr"), machine)


def test_only_one_mpi_is_loaded(machine: Path) -> None:
    assert 'family("mpi")' in modulefiles.render(Software("openmpi", "4.1.6", "/opt/openmpi/4.1.6"), machine)


def test_a_value_cannot_add_a_statement(tmp_path: Path) -> None:
    assert '"Name: x\\") os.exit(\\""' in modulefiles.render(Software('x") os.exit("', "1", "/opt/x"), tmp_path)


def test_a_modulefile_of_what_is_gone_goes(machine: Path) -> None:
    put(machine, "srv/modules/cuda/11.8.lua", "old")
    found = modulefiles.files("/srv/modules", [Software("hpcx", "2.21", "/opt/hpcx")], machine)

    assert [(one["path"], one["state"]) for one in found] == [
        ("/srv/modules/cuda/12.9.lua", "present"),
        ("/srv/modules/hpcx/2.21.lua", "present"),
        ("/srv/modules/nccl/2.26.2.lua", "present"),
        ("/srv/modules/openmpi/4.1.6.lua", "present"),
        ("/srv/modules/openmpi/system.lua", "present"),
        ("/srv/modules/cuda/11.8.lua", "absent"),
    ]
