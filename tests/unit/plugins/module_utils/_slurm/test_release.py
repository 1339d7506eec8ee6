# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("24.11.5", (24, 11, 5)),
        ("slurm 24.11.5", (24, 11, 5)),  # slurmd -V of SchedMD's build
        ("slurm-wlm 22.05.8", (22, 5, 8)),  # slurmd -V of Debian 12
        ("24.11.5-4", (24, 11, 5)),  # dpkg-query of Debian 13
        ("22.05.8-4+deb12u3", (22, 5, 8)),
        ("26.05", (26, 5, 0)),
        ("26.05.0-0rc1", (26, 5, 0)),
        ("slurm-26-05-3-1", (26, 5, 3)),
    ],
)
def test_versions_are_read_as_tools_print_them(text: str, version: tuple[int, int, int]) -> None:
    assert release.parse(text) == version


@pytest.mark.parametrize("text", ["", "latest", "5.1", "24", None])
def test_what_is_no_version_is_refused(text: object) -> None:
    with pytest.raises(release.VersionError, match="expected one such as"):
        release.parse(text)


# The table of doc/html/upgrades.shtml, Compatibility Window.
@pytest.mark.parametrize(
    ("series", "before"),
    [
        ((23, 11), [(23, 2), (22, 5)]),
        ((24, 5), [(23, 11), (23, 2)]),
        ((24, 11), [(24, 5), (23, 11), (23, 2)]),
        ((25, 5), [(24, 11), (24, 5), (23, 11)]),
        ((25, 11), [(25, 5), (24, 11), (24, 5)]),
        ((26, 5), [(25, 11), (25, 5), (24, 11)]),
        ((26, 11), [(26, 5), (25, 11), (25, 5)]),
        ((27, 11), [(27, 5), (26, 11), (26, 5)]),
    ],
)
def test_releases_read_what_the_upgrade_guide_says(series: tuple[int, int], before: list[tuple[int, int]]) -> None:
    assert release.readable(series) == before


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ("24.11.5", "24.11.5"),
        ("24.11.5", "24.11.7"),
        ("24.11.5", "26.05.4"),
        ("23.02.1", "24.05.8"),
        ("26.05.1", "27.05.0"),
    ],
)
def test_supported_steps_pass(present: str, wanted: str) -> None:
    assert release.upgrade_problems(present, wanted) == []


@pytest.mark.parametrize(("present", "wanted"), [("26.05.4", "25.11.2"), ("24.11.5", "24.11.4")])
def test_a_step_back_is_refused(present: str, wanted: str) -> None:
    (message,) = release.upgrade_problems(present, wanted)

    assert f"ask for {present} or newer" in message


@pytest.mark.parametrize(
    ("present", "wanted", "way"),
    [
        ("22.05.8", "24.11.5", "23.11 and then 24.11"),
        ("23.11.4", "26.05.4", "25.05 and then 26.05"),
        ("20.11.9", "26.05.4", "22.05 and then 23.11 and then 25.05 and then 26.05"),
    ],
)
def test_too_wide_a_gap_names_the_way_round(present: str, wanted: str, way: str) -> None:
    (message,) = release.upgrade_problems(present, wanted)

    assert message.endswith(f"upgrade by way of {way}")


@pytest.mark.parametrize(
    ("present", "wanted", "way"),
    [
        ("22.05.8", "26.05.0", "23.11 and then 25.05 and then 26.05"),
        ("26.11.1", "28.11.0", "28.05 and then 28.11"),
        ("24.05.0", "27.05.0", "25.11 and then 27.05"),
    ],
)
def test_the_shortest_way_is_told_also_over_releases_to_come(present: str, wanted: str, way: str) -> None:
    (message,) = release.upgrade_problems(present, wanted)

    assert message.endswith(f"upgrade by way of {way}")
