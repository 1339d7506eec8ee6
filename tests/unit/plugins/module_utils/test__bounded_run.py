# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that hang, die or do not exist."""

from __future__ import annotations

import sys
import time

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bounded_run import (
    CommandMissing,
    CommandTimeout,
    bounded_runner,
)


def test_output_and_exit_status_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(6)"

    assert bounded_runner(30)([sys.executable, "-c", code]) == (6, "out\n", "err\n")


def test_a_hanging_program_ends_in_bounded_time_with_its_children() -> None:
    start = time.monotonic()

    with pytest.raises(CommandTimeout, match=r"did not answer in 0\.5 s"):
        bounded_runner(0.5)(["sh", "-c", "sleep 60 & sleep 60"])

    assert time.monotonic() - start < 10


def test_a_missing_program_is_said_to_be_missing() -> None:
    with pytest.raises(CommandMissing, match="/nonexistent/nvidia-smi cannot be started"):
        bounded_runner(1)(["/nonexistent/nvidia-smi"])


def test_bytes_that_are_no_text_are_replaced() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([0xff, 0x0a]))"

    assert bounded_runner(30)([sys.executable, "-c", code])[1] == "\ufffd\n"


def test_messages_are_not_translated() -> None:
    assert bounded_runner(30)(["sh", "-c", "echo $LC_ALL"])[1] == "C\n"
