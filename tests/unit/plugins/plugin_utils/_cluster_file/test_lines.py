# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of a YAML file."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import lines

TEXT = """---
# comment
name: a
users:
  alice:
    password: !vault |
      $ANSIBLE_VAULT;1.1;AES256
    ssh_keys:
      - one
      - two
name: b
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 3),
        (("users",), 4),
        (("users", "alice", "ssh_keys", 1), 10),
        (("users", "alice", "password"), 6),
        # A missing key is at its parent.
        (("users", "alice", "uid"), 5),
        (("users", "alice", "ssh_keys", 7), 8),
        # The last of equal keys is the one that YAML keeps.
        (("name",), 11),
        (("name", "inner"), 11),
    ],
)
def test_lines(path: tuple[str | int, ...], line: int) -> None:
    assert lines.line(lines.root(TEXT), path) == line
