# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that builds Slurm, with a tiny source archive and with stand-ins for Debian's tools."""

from __future__ import annotations

import os
import signal
import subprocess
import tarfile
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import wait_until

SCRIPT = Path(__file__).parents[3] / "roles/slurm/files/build-slurm"
# dpkg-buildpackage makes a package, and waits first as long as a file says so.
TOOLS = {
    "apt-get": 'echo "$@" >> "$INSTALLED"',
    # As on a minimal installation, where tar has no program for the archive before apt installs it.
    "tar": 'case $* in *--extract*) grep -qw bzip2 "$INSTALLED" || exit 2 ;; esac; exec /usr/bin/tar "$@"',
    # work: as long as the test says
    "dpkg-buildpackage": 'touch ../building; while [ -e "$SLOW" ]; do sleep 0.1; done; '
    "{ head -n 1 debian/changelog; cat debian/rules; } > ../slurm-smd_1.deb; "
    '[ ! -e "$BROKEN" ] || { echo "no compiler"; exit 2; }',
    "dpkg-scanpackages": "echo Package: slurm-smd",
}


class Build:
    """A folder with a source archive, and the tools on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result = folder / "cache/slurm-1.tar"
        tools = folder / "tools"
        tools.mkdir()
        for name, body in TOOLS.items():
            (tools / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        source = folder / "slurm-1/debian"
        source.mkdir(parents=True)
        (source / "control").touch()
        (source / "rules").write_text("dh_auto_configure -- --with-pmix\n", encoding="utf-8")
        (source / "changelog").write_text("slurm-smd (1-1) unstable\n", encoding="utf-8")
        with tarfile.open(folder / "source.tar", "w") as archive:
            archive.add(folder / "slurm-1", "slurm-1")
        self.environment = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SLOW": str(folder / "slow"),
            "BROKEN": str(folder / "broken"),
            "INSTALLED": str(folder / "installed"),
        }

    def start(self, archive: str = "source.tar", release: str = "1", *options: str) -> subprocess.Popen[str]:
        """Start a build, as the leader of a process group."""
        directory = self.folder / "cache/slurm-1"
        return subprocess.Popen(
            [str(SCRIPT), "compile", str(directory), str(self.folder / archive), release, "+own", *options],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def packages(self) -> dict[str, str]:
        """Return the files of the result."""
        with tarfile.open(self.result) as archive:
            return {
                name: t.cast("t.IO[bytes]", archive.extractfile(name)).read().decode() for name in archive.getnames()
            }


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_the_result_is_a_repository_with_a_version_of_its_own(build: Build) -> None:
    process = build.start()

    assert (process.communicate()[0], process.returncode) == ("", 0)
    packages = build.packages()
    assert set(packages) == {"cache/slurm-1/Packages", "cache/slurm-1/slurm-smd_1.deb"}
    assert packages["cache/slurm-1/Packages"] == "Package: slurm-smd\n"
    assert packages["cache/slurm-1/slurm-smd_1.deb"].startswith("slurm-smd (1-1+own) unstable\n")


def test_configure_makes_no_static_libraries_and_gets_the_options_of_the_site(build: Build) -> None:
    process = build.start("source.tar", "1", "--with-nvml=/opt/nvml", "--without-rsmi")

    assert (process.communicate()[0], process.returncode) == ("", 0)
    rules = build.packages()["cache/slurm-1/slurm-smd_1.deb"]
    assert "dh_auto_configure -- --disable-static --with-nvml=/opt/nvml --without-rsmi --with-pmix\n" in rules


def test_a_build_that_was_killed_leaves_no_result_and_is_done_afresh(build: Build) -> None:
    (build.folder / "slow").touch()
    process = build.start()
    wait_until("a build", (build.folder / "cache/slurm-1.partial/building").exists)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    (build.folder / "cache/slurm-1.partial/left-behind.deb").touch()

    assert not build.result.exists()

    (build.folder / "slow").unlink()
    again = build.start()

    assert (again.communicate()[0], again.returncode) == ("", 0)
    assert set(build.packages()) == {"cache/slurm-1/Packages", "cache/slurm-1/slurm-smd_1.deb"}


def test_a_second_build_waits_for_the_first_and_takes_its_result(build: Build) -> None:
    (build.folder / "slow").touch()
    first = build.start()
    wait_until("a build", (build.folder / "cache/slurm-1.partial/building").exists)
    second = build.start()
    time.sleep(0.3)  # absence: a second build that does not wait has ended

    assert second.poll() is None

    (build.folder / "slow").unlink()

    assert (first.communicate()[0], first.returncode) == ("", 0)
    assert (second.communicate()[0], second.returncode) == ("", 0)
    assert set(build.packages()) == {"cache/slurm-1/Packages", "cache/slurm-1/slurm-smd_1.deb"}


def test_a_build_that_fails_shows_the_end_of_its_log(build: Build) -> None:
    (build.folder / "broken").touch()
    process = build.start()
    said = process.communicate()[0]

    assert process.returncode == 1
    assert "no compiler" in said
    assert f"compiling Slurm failed; the whole log is {build.folder}/cache/slurm-1.log" in said
    assert not build.result.exists()


def test_another_release_is_refused_before_anything_is_compiled(build: Build) -> None:
    process = build.start(release="2")

    assert "source.tar is Slurm 1, not 2; set slurm_version to 1" in process.communicate()[0]
    assert process.returncode == 1
    assert not (build.folder / "cache/slurm-1.partial/building").exists()
    assert not build.result.exists()


def test_garbage_is_no_source_archive(build: Build) -> None:
    (build.folder / "garbage").write_text("404 not found", encoding="utf-8")
    process = build.start("garbage")

    assert "garbage is not a Slurm source archive" in process.communicate()[0]
    assert process.returncode == 1
    assert not build.result.exists()
