# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is PRIVATE to the collection. It may change or vanish at any time.
"""Read, check and generate munge keys."""

from __future__ import annotations

import base64
import binascii
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable

# munge accepts keys of 32 to 1024 bytes (mungekey(8)). 128 is the default of mungekey.
MINIMUM_BYTES = 32
MAXIMUM_BYTES = 1024
DEFAULT_BYTES = 128


class MungeKeyError(ValueError):
    """A key that munge would reject."""


def decode(text: str) -> bytes:
    """Return the bytes of a base64-encoded key."""
    try:
        key = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise MungeKeyError("the key is not base64") from exc
    if not MINIMUM_BYTES <= len(key) <= MAXIMUM_BYTES:
        raise MungeKeyError(f"the key has {len(key)} bytes; munge takes {MINIMUM_BYTES} to {MAXIMUM_BYTES}")
    return key


def encode(key: bytes) -> str:
    """Return a key as base64."""
    return base64.b64encode(key).decode("ascii")


def choose(present: bytes | None, given: str | None, random: Callable[[int], bytes]) -> bytes:
    """Return the wanted key of the machine: the given key, otherwise the present key, otherwise a new one."""
    if given is not None:
        return decode(given)
    if present is not None and len(present) >= MINIMUM_BYTES:
        return present
    return random(DEFAULT_BYTES)
