# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module release_packages, with files that are there instead of a server."""

from __future__ import annotations

import hashlib
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import release_packages as release
from ansible_collections.hpcai.gpucluster.plugins.modules import release_packages

if t.TYPE_CHECKING:
    from pathlib import Path


class Module:
    """What the code needs of AnsibleModule."""

    def __init__(self, source: str, check_mode: bool = False) -> None:
        self.params: dict[str, t.Any] = {"source": source, "retries": 2, "timeout": 1}
        self.check_mode = check_mode


def bring(module: Module, checksum: str) -> list[str]:
    """Return the verified files of one package."""
    wanted = [release.Package("a", "a_1_amd64.deb", checksum)]
    return release_packages.bring_all(t.cast("t.Any", module), wanted)


def test_a_file_of_a_folder_is_verified(tmp_path: Path) -> None:
    (tmp_path / "a_1_amd64.deb").write_bytes(b"package")

    good = "sha256:" + hashlib.sha256(b"package").hexdigest()
    assert bring(Module(f"{tmp_path}/"), good) == [str(tmp_path / "a_1_amd64.deb")]
    with pytest.raises(release.PackagesError, match="Nothing was installed"):
        bring(Module(str(tmp_path)), "sha256:" + "0" * 64)


def test_a_folder_that_an_earlier_task_would_have_made_is_no_fault_in_check_mode(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")

    assert bring(Module(missing, check_mode=True), "sha256:" + "0" * 64) == []
    with pytest.raises(release.PackagesError, match="cannot be read"):
        bring(Module(missing), "sha256:" + "0" * 64)


def test_diff_mode_shows_versions() -> None:
    assert release_packages.lines({"b": "2", "a": "1"}) == "a 1\nb 2\n"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (-1, release_packages.UnreachableError),
        (500, release_packages.UnreachableError),
        (502, release_packages.UnreachableError),
        (503, release_packages.UnreachableError),
        (401, release.PackagesError),
        (404, release.PackagesError),
    ],
)
def test_a_mirror_that_cannot_answer_is_not_one_that_refuses(
    status: int, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(_module: object, url: str, timeout: int) -> tuple[None, dict[str, t.Any]]:
        asked.append(url)
        return None, {"status": status, "msg": "no"}

    monkeypatch.setattr(release_packages, "fetch_url", answer)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    module = Module("https://mirror.test")

    with pytest.raises(error, match=r"https://mirror\.test/a\.deb"):
        release_packages.fetch(t.cast("t.Any", module), "https://mirror.test/a.deb", tmp_path / "a.deb")
    assert len(asked) == 3
    assert not (tmp_path / "a.deb").exists()
