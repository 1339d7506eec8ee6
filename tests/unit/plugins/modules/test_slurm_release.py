# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The release that is installed, and what is refused."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_release


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ((0, "installed 24.11.5-1+gpucluster.0", ""), "24.11.5-1+gpucluster.0"),
        ((0, "config-files 24.11.5-1", ""), ""),
        ((1, "", "no packages found"), ""),
    ],
)
def test_only_an_installed_package_counts(answer: tuple[int, str, str], version: str) -> None:
    assert slurm_release.present(lambda __: answer, "slurm-smd-slurmctld") == version


def test_a_machine_that_cannot_say_is_an_error_and_not_nothing() -> None:
    with pytest.raises(release.VersionError, match="dpkg-query exited 124: late"):
        slurm_release.present(lambda __: (124, "", "late"), "slurm-smd-slurmctld")


@pytest.mark.parametrize(
    ("present", "wanted", "upgrade", "words"),
    [
        ("24.11.5", "24.11.5", False, ""),
        ("24.11.5", "24.11.6", False, ""),
        ("24.11.5", "25.05.1", False, "another release comes with the playbook upgrade"),
        ("24.11.5", "25.05.1", True, ""),
        ("24.11.5", "23.11.1", True, "Slurm 24.11.5 is present and 23.11.1 is older"),
        ("22.05.8", "26.05.4", True, "upgrade by way of"),
    ],
)
def test_a_step_is_allowed_or_refused(present: str, wanted: str, upgrade: bool, words: str) -> None:
    found = release.refusal(present, wanted, upgrade)

    assert (words in found) if words else not found
