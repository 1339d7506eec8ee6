# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the variables of the role nhc make of its inputs."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

if t.TYPE_CHECKING:
    from pathlib import Path

LINES = ["* || check_ps_service -u root sshd"]


def test_input_that_nothing_would_use_is_refused(tmp_path: Path) -> None:
    cases: dict[str, dict[str, t.Any]] = {
        "default": {},
        "nhc": {"nhc_provider": "nhc", "nhc_lines": LINES},
        "lines": {"nhc_lines": LINES},
        "version": {"nhc_provider": "nhc", "nhc_version": "9.9.9"},
        "checksum": {"nhc_provider": "nhc", "nhc_version": "9.9.9", "nhc_source_checksum": f"sha256:{'0' * 64}"},
    }
    found = role_values(tmp_path, "nhc", "__nhc_problem", cases)

    assert {name: problem.partition(" ")[0] for name, problem in found.items()} == {
        "default": "",
        "nhc": "",
        "lines": "nhc_lines",
        "version": "nhc_source_checksum",
        "checksum": "",
    }


def test_the_default_provider_needs_no_download(tmp_path: Path) -> None:
    cases: dict[str, dict[str, t.Any]] = {
        "default": {},
        "nhc": {"nhc_provider": "nhc"},
        "lines": {"nhc_provider": "nhc", "nhc_lines": LINES},
    }
    found = role_values(tmp_path, "nhc", "[nhc_provider, __nhc_state, __nhc_switches.nhc.path]", cases)

    assert found["default"] == ["builtin", "absent", None]
    assert found["nhc"] == ["nhc", "present", None]
    assert found["lines"] == ["nhc", "present", "/usr/local/sbin/nhc"]
