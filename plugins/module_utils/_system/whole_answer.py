# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the body of an answer of HTTP with a limit of its size and of the time of the whole."""

from __future__ import annotations

import http.client
import time
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK = 1 << 16  # bytes


class Answer(t.Protocol):
    """What has a body: an answer of http.client or urllib, or an error of urllib."""

    def read1(self, size: int, /) -> bytes:
        """Return what has arrived."""


def read(answer: Answer, most: int, end: float, clock: Callable[[], float] = time.monotonic) -> bytes:
    """
    Return the body. Raise TimeoutError after C(end), and ValueError if there are more than C(most) bytes.

    The limit of a socket is one for each packet, so that one byte now and then would be read for ever.
    """
    size: int | None = getattr(answer, "length", None)
    found = bytearray()
    while size is None or len(found) < size:
        part = answer.read1(_BLOCK)
        found += part
        if not part and size:
            raise http.client.IncompleteRead(bytes(found), size - len(found))
        if not part:
            break
        if len(found) > most:
            raise ValueError(f"the answer has more than {most} bytes")
        if clock() > end:
            raise TimeoutError(f"the answer does not end: {len(found)} bytes until now")
    return bytes(found)
