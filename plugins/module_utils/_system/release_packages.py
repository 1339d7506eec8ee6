# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Debian packages of an upstream release: file names, checksums, installed versions and installation."""

from __future__ import annotations

import hashlib
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

CHECKSUM = re.compile(r"(sha256|sha384|sha512):([0-9a-fA-F]{64,128})")
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_BLOCK = 1 << 20


class PackagesError(Exception):
    """The packages cannot be installed. The message says what to change."""


class Package(t.NamedTuple):
    """One package of a release."""

    name: str
    file: str
    checksum: str


def checksum_problem(text: str) -> str:
    """Return the fault of a checksum, or an empty string."""
    match = CHECKSUM.fullmatch(text)
    if match is None or len(match[2]) != _DIGITS[match[1]]:
        return f"{text!r} is not sha256:, sha384: or sha512: and the hexadecimal digest"
    return ""


def architecture(run: Runner) -> str:
    """Return the Debian architecture of the machine. Raise PackagesError if dpkg fails."""
    code, out, err = run(["dpkg", "--print-architecture"])
    if code:
        raise PackagesError(f"dpkg does not say the architecture of the machine: {err.strip()}")
    return out.strip()


def packages(names: Sequence[str], version: str, arch: str, checksums: Mapping[str, str]) -> list[Package]:
    """Return the packages of a release. Raise PackagesError if a checksum is missing or invalid."""
    files = {name: f"{name}_{version}_{arch}.deb" for name in names}
    unknown = [file for file in files.values() if not checksums.get(file)]
    if unknown:
        raise PackagesError(
            f"no checksum is known of {', '.join(unknown)}; give it as algorithm:digest under that name"
        )
    faults = [f"{file}: {fault}" for file in files.values() for fault in [checksum_problem(checksums[file])] if fault]
    if faults:
        raise PackagesError("; ".join(faults))
    return [Package(name, file, checksums[file]) for name, file in files.items()]


def installed(run: Runner, names: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed packages among names."""
    _code, out, _err = run(["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}|${Package}|${Version}\n", *names])
    rows = [line.split("|") for line in out.splitlines() if line.count("|") == 2]
    return {name: version for status, name, version in rows if status.startswith(("ii", "hi"))}


def verify(path: Path, checksum: str, where: str) -> None:
    """Compare a file with its checksum. Raise PackagesError if they differ or the file cannot be read."""
    algorithm, _colon, expected = checksum.partition(":")
    digest = hashlib.new(algorithm)
    try:
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(_BLOCK), b""):
                digest.update(block)
    except OSError as exc:
        raise PackagesError(f"{where} cannot be read: {exc.strerror}. Nothing was installed.") from exc
    if digest.hexdigest() != expected.lower():
        found = f"{algorithm}:{digest.hexdigest()}"
        raise PackagesError(f"{where} has the checksum {found}, expected {checksum.lower()}. Nothing was installed.")


def install(run: Runner, files: Sequence[str], others: Sequence[str]) -> None:
    """Install files and other packages together: they may depend on each other. Raise PackagesError on failure."""
    run(["apt-get", "update", "--quiet"])
    code, out, err = run(
        [
            "apt-get",
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "--allow-downgrades",
            "-o=Dpkg::Options::=--force-confdef",
            "-o=Dpkg::Options::=--force-confold",
            "-o=APT::Sandbox::User=root",
            *files,
            *others,
        ],
        environment={"DEBIAN_FRONTEND": "noninteractive"},
    )
    if code:
        said = [line for line in (err + "\n" + out).splitlines() if line.strip()]
        raise PackagesError(f"apt-get install failed: {' '.join(said[:8])}")
