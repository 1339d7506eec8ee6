# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find CUDA, NCCL and MPI on a machine, and write their modulefiles for Lmod."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
_NCCL = re.compile(r"^#define NCCL_(MAJOR|MINOR|PATCH) +([0-9]+)", re.MULTILINE)
_SYSTEM = ("/usr",)
# Subdirectories of a prefix, and the variables that their paths are put in front of.
_PATHS = (
    ("bin", ("PATH",)),
    ("lib64", ("LD_LIBRARY_PATH", "LIBRARY_PATH")),
    ("lib", ("LD_LIBRARY_PATH", "LIBRARY_PATH")),
    ("include", ("CPATH",)),
    ("share/man", ("MANPATH",)),
)
_FAMILIES = {"openmpi": "mpi"}
_HOMES = {"cuda": ("CUDA_HOME", "CUDA_PATH"), "nccl": ("NCCL_HOME",), "openmpi": ("MPI_HOME",)}


class Software(t.NamedTuple):
    """One version of a software, and the directory below which it is."""

    name: str
    version: str
    prefix: str


def find(root: Path = Path("/")) -> list[Software]:
    """Return what is installed below a root directory, sorted by name and version."""
    found = {*_by_directory("cuda", root, "bin/nvcc"), *_by_directory("openmpi", root, "bin/mpirun")}
    found |= set(_nccl(root)) | set(_system_mpi(root))
    return sorted(found)


def render(software: Software, root: Path = Path("/")) -> str:
    """Return the modulefile. It names only directories that exist."""
    home = Path(software.prefix)
    lines = [
        "-- Ansible managed, role hpcai.gpucluster.lmod",
        f"whatis({_text(f'Name: {software.name}')})",
        f"whatis({_text(f'Version: {software.version}')})",
        f"conflict({_text(software.name)})",
        *(f"family({_text(_FAMILIES[name])})" for name in [software.name] if name in _FAMILIES),
        *(f"setenv({_text(name)}, {_text(software.prefix)})" for name in _HOMES.get(software.name, ())),
    ]
    # What is below /usr is found without help, and would hide other modules.
    for directory, variables in _PATHS if software.prefix not in _SYSTEM else ():
        if (root / (home / directory).relative_to("/")).is_dir():
            lines += [f"prepend_path({_text(name)}, {_text(str(home / directory))})" for name in variables]
    return "\n".join(lines) + "\n"


def files(directory: str, given: t.Iterable[Software], root: Path = Path("/")) -> list[dict[str, str]]:
    """Return what the module file_set takes: a modulefile for each software, and those that have to go."""
    wanted = {f"{directory}/{one.name}/{one.version}.lua": one for one in [*find(root), *given]}
    there = root / Path(directory).relative_to("/")
    old = {f"{directory}/{path.relative_to(there)}" for path in there.glob("*/*.lua")} - set(wanted)
    return [
        *({"path": path, "content": render(one, root), "state": "present"} for path, one in sorted(wanted.items())),
        *({"path": path, "state": "absent"} for path in sorted(old)),
    ]


def _by_directory(name: str, root: Path, program: str) -> t.Iterator[Software]:
    """Yield the versions in directories such as /usr/local/cuda-12.9 and /opt/openmpi/4.1.6."""
    for parent in ("usr/local", "opt", f"opt/{name}"):
        for path in sorted((root / parent).glob(f"{name}-*" if parent != f"opt/{name}" else "*")):
            version = _VERSION.search(path.name)
            # A link such as cuda-12 has the same content as the directory that it names.
            if version and not path.is_symlink() and (path / program).exists():
                yield Software(name, version[0], f"/{path.relative_to(root)}")


def _nccl(root: Path) -> t.Iterator[Software]:
    for prefix in (root / "usr", *sorted((root / "opt").glob("nccl*")), *sorted((root / "usr/local").glob("nccl*"))):
        header = prefix / "include/nccl.h"
        if header.is_file():
            parts = dict(_NCCL.findall(header.read_text(encoding="utf-8", errors="replace")))
            if len(parts) == 3:
                version = ".".join(parts[part] for part in ("MAJOR", "MINOR", "PATCH"))
                yield Software("nccl", version, f"/{prefix.relative_to(root)}")


def _system_mpi(root: Path) -> t.Iterator[Software]:
    """Yield the Open MPI of the distribution; the name of its library has the version of the interface."""
    for path in sorted((root / "usr/lib").glob("*/openmpi")):
        if (root / "usr/bin/mpirun.openmpi").exists():
            yield Software("openmpi", "system", f"/{path.relative_to(root)}")


def _text(value: str) -> str:
    """Return a string of Lua."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
