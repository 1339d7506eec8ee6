# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a list of packages lacks on a machine."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import packages

INSTALLED = {"munge": "0.5.16-1.1~deb13u1", "slurm-smd": "24.11.5-1+gpucluster.883b557fd694", "g++": "4:14.2.0-1"}


@pytest.mark.parametrize(
    "wanted",
    [
        "munge",
        "munge=0.5.16-1.1~deb13u1",
        "slurm-smd=*+gpucluster.883b557fd694",
        "slurm-smd=24.11.?-1+*",
        "g++",
        "g++=4:*",
    ],
)
def test_an_installed_package_is_not_missing(wanted: str) -> None:
    assert packages.missing([wanted], INSTALLED) == []


@pytest.mark.parametrize(
    "wanted",
    [
        "chrony",
        "munge=0.5.17-1",
        "munge=0.5.16",
        "slurm-smd=*+gpucluster.000000000000",
        # The pattern is one of the whole version.
        "slurm-smd=gpucluster.883b557fd694",
        # Forms that only apt knows.
        "munge:amd64",
        "mung*",
        "munge>=0.5",
        "munge/stable",
        "",
        "./munge.deb",
        "munge chrony",
        "MUNGE",
    ],
)
def test_what_is_not_known_to_be_installed_is_left_to_apt(wanted: str) -> None:
    assert packages.missing([wanted], INSTALLED) == [wanted]


def test_the_order_of_the_list_stays() -> None:
    assert packages.missing(["zsh", "munge", "acl"], INSTALLED) == ["zsh", "acl"]
    assert packages.missing([], INSTALLED) == []


@pytest.mark.parametrize(
    ("wanted", "name"), [("munge", "munge"), ("g++=4:14*", "g++"), ("a:b", ""), ("-x", ""), ("", "")]
)
def test_only_names_are_asked_of_dpkg(wanted: str, name: str) -> None:
    """What begins with a hyphen would be an option of dpkg-query."""
    assert packages.name_of(wanted) == name
