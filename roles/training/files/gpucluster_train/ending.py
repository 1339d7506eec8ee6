# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of the process, which must not wait for threads of PyTorch."""

from __future__ import annotations

import os
import sys
import traceback
import typing as t


def leave(work: t.Callable[[], int]) -> t.NoReturn:
    """
    Work, and end the process with the status that the work returns, or with 1 after an error.

    No destructor runs, because one of PyTorch can wait for ever. That of a gloo process group joins its threads while
    it holds the lock of the interpreter. Before PyTorch 2.8, such a thread may need the lock to free its last tensor.
    """
    try:
        status = work()
    except SystemExit as error:  # of argparse, with a number
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 1  # a full disk
    os._exit(status)
