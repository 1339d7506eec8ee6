# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import enroot_checks as checks

if t.TYPE_CHECKING:
    from pathlib import Path

SUM = "sha256:" + "0" * 64
GOOD: dict[str, t.Any] = {
    "enroot_version": "4.2.1",
    "enroot_checksums": {"enroot_4.2.1-1_amd64.deb": SUM, "enroot+caps_4.2.1-1_amd64.deb": SUM},
    "enroot_config": {
        "ENROOT_MOUNT_HOME": True,
        "ENROOT_FUTURE": 1,
        "http_proxy": "http://proxy:3128",
        "NVIDIA_X": None,
    },
    "enroot_hooks": ["50-slurm-pmi.sh"],
    "enroot_users": ["alice"],
    "enroot_credentials": [{"ngc": "key", "users": ["alice"]}],
    "enroot_images": ["ubuntu:24.04", {"image": "/srv/a.sqsh", "name": "b", "size_gib": 1.5, "state": "absent"}],
    "enroot_images_shared_path": "/shared/images",
}


def test_good_data_has_no_faults() -> None:
    assert checks.problems(GOOD) == []
    assert checks.problems({}) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"enroot_version": "latest"}, "enroot_version is 'latest'"),
        ({"enroot_version": 4.2}, "in quotes"),
        (
            {"enroot_checksums": GOOD["enroot_checksums"] | {"enroot_4.2.1-1_amd64.deb": "00"}},
            "enroot_checksums: enroot_4.2.1-1_amd64.deb",
        ),
        ({"enroot_config": {"ENROOT_MOUNTHOME": True}}, "did you mean ENROOT_MOUNT_HOME?"),
        ({"enroot_config": {"MOUNT_HOME": True}}, "MOUNT_HOME is not a setting of enroot"),
        ({"enroot_config": {"ENROOT_MOUNT_HOME": "y\nX y"}}, "holds a line break"),
        ({"enroot_config": {"ENROOT_MOUNT_HOME": ["y"]}}, "must be a string"),
        ({"enroot_hooks": ["50-pmi.sh"]}, "known: 50-mig-config.sh, 50-sharp.sh, 50-slurm-pmi.sh"),
        ({"enroot_hooks_disabled": ["cgroups"]}, "known: 10-aptfix.sh, 10-cgroups.sh"),
        ({"enroot_scratch_path": "scratch"}, "has to be an absolute path"),
        ({"enroot_credentials": [{"ngc": "key", "users": ["eve"]}]}, "enroot_credentials[0]: users names eve"),
        ({"enroot_images": ["Ubuntu"]}, "enroot_images[0]: 'Ubuntu' is neither the name of an image"),
        ({"enroot_images": ["a/b:1", "docker://a/b:1"]}, "a+b+1.sqsh is the file of enroot_images[0] already"),
        ({"enroot_images": [{"image": "a", "size": 1}]}, "size is unknown"),
        ({"enroot_images": [{"image": "a", "size_gib": "1"}]}, "a number of GiB"),
        ({"enroot_images": [{"image": "a", "name": "../a"}]}, "name is '../a'"),
        ({"enroot_images": [{"image": "a", "state": "gone"}]}, "present or absent"),
        ({"enroot_images": [7]}, "neither the name of an image nor a mapping"),
        ({"enroot_images_shared_path": ""}, "enroot_images_shared_path is empty"),
    ],
)
def test_wrong_data_is_named(change: dict[str, t.Any], says: str) -> None:
    (fault,) = checks.problems(GOOD | change)

    assert says in fault


def test_every_package_of_the_flavour_needs_its_checksum() -> None:
    assert [fault.split(" is known")[0] for fault in checks.problems(GOOD | {"enroot_version": "4.9.0"})] == [
        "no checksum of enroot 4.9.0-1",
        "no checksum of enroot+caps 4.9.0-1",
    ]
    assert "no checksum of enroot-hardened 4.2.1-1" in checks.problems(GOOD | {"enroot_flavour": "hardened"})[0]


def test_a_directory_of_packages_has_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "enroot_4.2.1-1_amd64.deb").touch()

    (fault,) = checks.problems(GOOD | {"enroot_packages_directory": str(tmp_path)})

    assert f"{tmp_path}; it has to hold enroot+caps_4.2.1-1_amd64.deb (or" in fault
    (tmp_path / "enroot+caps_4.2.1-1_amd64.deb").touch()
    assert checks.problems(GOOD | {"enroot_packages_directory": str(tmp_path)}) == []


def test_an_image_has_all_its_keys() -> None:
    assert checks.container_image({"image": "ubuntu:24.04", "size_gib": 1.5}) == {
        "image": "docker://ubuntu:24.04",
        "name": "ubuntu+24.04",
        "state": "present",
        "size_bytes": 3 << 29,
    }
    with pytest.raises(image.ImageError):
        checks.container_image({"name": "a"})
