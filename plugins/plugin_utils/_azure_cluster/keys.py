# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Public ssh keys that Azure accepts for the administrator of a machine."""

from __future__ import annotations

import base64
import binascii
import struct

# azure-docs, articles/virtual-machines/linux/mac-create-ssh-keys.md: RSA of 2048 bits or more, and Ed25519.
_KINDS = ("ssh-rsa", "ssh-ed25519")
_RSA_BITS = 2048


def problem(key: str) -> str:
    """Return what is wrong with a public key, or an empty string. The message has only its beginning."""
    words = key.split()
    shown = f"found {key[:24]!r}..."
    if len(words) < 2 or "PRIVATE" in key:
        return f"{shown}; allowed: a public key, such as the line in ~/.ssh/id_ed25519.pub"
    if words[0] not in _KINDS:
        return f"{shown}; allowed: keys of type {' or '.join(_KINDS)}, because Azure accepts no others"
    fields = _fields(words[1])
    if not fields or fields[0] != words[0].encode():
        return f"{shown}; allowed: a complete public key; this one is damaged"
    if words[0] == "ssh-rsa" and int.from_bytes(fields[-1], "big").bit_length() < _RSA_BITS:
        return f"{shown}; allowed: an RSA key of {_RSA_BITS} bits or more"
    return ""


def _fields(text: str) -> list[bytes]:
    """Return the length-prefixed fields of a key, or nothing if it is damaged."""
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return []
    fields = []
    while blob:
        size = struct.unpack(">I", blob[:4])[0] if len(blob) > 4 else -1
        if not 0 <= size <= len(blob) - 4:
            return []
        fields.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    return fields
