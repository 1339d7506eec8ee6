# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.modes import mode_problem


@pytest.mark.parametrize("value", ["0711", "755", "1777", "0000"])
def test_a_mode_is_octal_in_quotes(value: str) -> None:
    assert mode_problem(value) == ""


@pytest.mark.parametrize("value", [0o711, 711, "u=rwx", "0788", "", None, True, "07111", "0711\n"])
def test_anything_else_is_refused(value: t.Any) -> None:
    assert mode_problem(value) == "an octal mode in quotes, such as '0755'"
