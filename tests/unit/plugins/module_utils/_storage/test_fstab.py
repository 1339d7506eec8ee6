# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.fstab import (
    Line,
    Table,
    escape,
    unescape,
    unit_name,
)

ROOT = "/dev/vda / ext4 noatime 0 1\n"
HOME = Line("nfs1:/home", "/home", "nfs", "hard")
SCRATCH = Line("UUID=1", "/scratch", "xfs", "noatime")


def test_a_block_is_added_and_taken_away_without_a_trace() -> None:
    text = Table(ROOT, "nfs").text([HOME])

    assert text == ROOT + "# BEGIN hpcai.gpucluster nfs\nnfs1:/home /home nfs hard 0 0\n# END hpcai.gpucluster nfs\n"
    assert Table(text, "nfs").own() == {"/home": HOME}
    assert Table(text, "nfs").text([]) == ROOT


def test_two_blocks_keep_their_places() -> None:
    both = Table(Table(ROOT, "nfs").text([HOME]), "volume scratch").text([SCRATCH]) + "tmpfs /tmp tmpfs rw 0 0\n"

    assert Table(both, "nfs").text([HOME]) == both
    assert Table(both, "volume scratch").text([SCRATCH]) == both


def test_lines_of_others_stay_but_for_those_that_are_taken_over() -> None:
    old = ROOT + "# homes\ncontrol:/home /home nfs async,vers=3 0 0\n"

    text = Table(old, "nfs").text([HOME], adopted=["/home"])

    assert "async" not in text
    assert text.startswith(ROOT + "# homes\n")


@pytest.mark.parametrize(
    ("path", "name"),
    # systemd-escape --path --suffix=mount, systemd 252
    [
        ("/home", "home.mount"),
        ("/var/data", "var-data.mount"),
        ("/", "-.mount"),
        ("/my-data", "my\\x2ddata.mount"),
        ("/a b", "a\\x20b.mount"),
        ("/.hidden", "\\x2ehidden.mount"),
        ("/v1.2", "v1.2.mount"),
    ],
)
def test_the_unit_of_a_path_is_named_as_systemd_names_it(path: str, name: str) -> None:
    assert unit_name(path, "mount") == name


@given(st.text(alphabet="ab/ \t\\0134", max_size=12))
@settings(max_examples=60)
def test_an_escaped_path_has_no_blank_and_means_the_path(path: str) -> None:
    assert not set(escape(path)) & {" ", "\t"}
    assert unescape(escape(path)) == path


@pytest.mark.parametrize("options", ["noatime\n/dev/sda /etc xfs rw", "noatime 0 0 ", ""])
def test_a_line_of_fstab_holds_what_was_meant(options: str) -> None:
    with pytest.raises(StorageError, match="cannot stand in a line of fstab"):
        Line("UUID=1", "/scratch", "xfs", options).text()
