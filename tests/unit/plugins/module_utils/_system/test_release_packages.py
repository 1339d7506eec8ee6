# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import release_packages as release

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SUM = "sha256:" + "0" * 64


def answers(code: int, out: str) -> t.Callable[[Sequence[str]], tuple[int, str, str]]:
    """Return a runner that says the same to everything."""
    return lambda _args, **_more: (code, out, "")


def test_files_are_named_by_package_version_and_architecture() -> None:
    sums = {"enroot_4.2.1-1_amd64.deb": SUM, "enroot+caps_4.2.1-1_amd64.deb": SUM}

    found = release.packages(["enroot", "enroot+caps"], "4.2.1-1", "amd64", sums)

    assert [package.file for package in found] == list(sums)


def test_a_file_without_a_checksum_is_named() -> None:
    with pytest.raises(release.PackagesError, match=r"no checksum is known of enroot_4\.2\.1-1_arm64\.deb"):
        release.packages(["enroot"], "4.2.1-1", "arm64", {"enroot_4.2.1-1_amd64.deb": SUM})


@pytest.mark.parametrize(
    "text", ["", "0" * 64, "md5:" + "0" * 32, "sha256:" + "0" * 63, "sha256:" + "0" * 96, "sha256:x"]
)
def test_what_is_no_checksum(text: str) -> None:
    assert "hexadecimal digest" in release.checksum_problem(text)


def test_dpkg_says_what_is_installed() -> None:
    # dpkg-query 1.22 on Debian 13: one package installed, one held, one removed but for its configuration.
    out = "ii |enroot|4.2.1-1\nhi |pigz|2.8-1\nrc |enroot+caps|4.1.0-1\n"

    assert release.installed(answers(1, out), ["enroot", "enroot+caps", "pigz"]) == {
        "enroot": "4.2.1-1",
        "pigz": "2.8-1",
    }


def test_a_file_that_is_not_what_was_promised_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(b"content")
    good = "sha256:" + hashlib.sha256(b"content").hexdigest()

    release.verify(path, good.upper().replace("SHA256", "sha256"), "https://example.com/a.deb")

    with pytest.raises(
        release.PackagesError, match=rf"https://example.com/a.deb has the checksum {good}, expected {SUM}"
    ):
        release.verify(path, SUM, "https://example.com/a.deb")
    with pytest.raises(release.PackagesError, match="No such file"):
        release.verify(tmp_path / "b.deb", SUM, "b")


def test_a_failed_installation_says_what_apt_said() -> None:
    with pytest.raises(release.PackagesError, match="apt-get install failed: E: held broken packages"):
        release.install(answers(100, "E: held broken packages\n"), ["/a.deb"], [])


def test_all_files_go_to_one_call_of_apt() -> None:
    calls: list[Sequence[str]] = []

    def run(args: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        calls.append(args)
        return 0, "", ""

    release.install(run, ["/a.deb", "/b.deb"], ["pigz"])

    assert [call[1] for call in calls] == ["update", "install"]
    assert list(calls[1][-3:]) == ["/a.deb", "/b.deb", "pigz"]


def test_the_architecture_is_that_of_dpkg() -> None:
    assert release.architecture(answers(0, "arm64\n")) == "arm64"
    with pytest.raises(release.PackagesError):
        release.architecture(answers(1, ""))
