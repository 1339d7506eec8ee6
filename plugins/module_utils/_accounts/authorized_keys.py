# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""OpenSSH public keys, and the block of an authorized_keys file that Ansible manages."""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN = "# BEGIN hpcai.gpucluster (written by Ansible, changes between these lines are lost)"
END = "# END hpcai.gpucluster"

# Number of fields in the blob of a key, including the name of its type
# (RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4, OpenSSH PROTOCOL.u2f).
FIELDS = {
    "ssh-ed25519": 2,
    "ssh-rsa": 3,
    "ecdsa-sha2-nistp256": 3,
    "ecdsa-sha2-nistp384": 3,
    "ecdsa-sha2-nistp521": 3,
    "sk-ssh-ed25519@openssh.com": 3,
    "sk-ecdsa-sha2-nistp256@openssh.com": 4,
}
_OPTIONS = re.compile(r'(?:[^\s"]|"(?:[^"\\]|\\.)*")+\s+')


def key_lines(value: t.Any) -> list[str]:
    """Return the keys of a list or of a string with one key per line, without comments and empty lines."""
    texts = [value] if isinstance(value, str) else list(value or [])
    lines = [line.strip() for text in texts for line in str(text).splitlines()]
    return list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))


def key_problem(line: str) -> str | None:
    """Return the fault of a line of an authorized_keys file, or None."""
    words = _without_options(line).split(None, 2)
    if not words or words[0] not in FIELDS:
        return f"no key type; allowed: {', '.join(FIELDS)}"
    if len(words) == 1:
        return f"no key after {words[0]}"
    try:
        fields = _fields(base64.b64decode(words[1], validate=True))
    except (binascii.Error, ValueError):
        return f"the {words[0]} key is truncated or not base64"
    if len(fields) != FIELDS[words[0]] or fields[0] != words[0].encode():
        return f"the key is not what its type says ({words[0]})"
    return None


def _without_options(line: str) -> str:
    """Return the line without the options before its key type."""
    if line.split(None, 1)[0] in FIELDS:
        return line
    options = _OPTIONS.match(line)
    return line[options.end() :] if options else ""


def _fields(blob: bytes) -> list[bytes]:
    """Return the length-prefixed fields of the blob of a key."""
    fields, rest = [], blob
    while rest:
        size = int.from_bytes(rest[:4], "big")
        if len(rest) < 4 + size:
            raise ValueError("truncated")
        fields.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    return fields


def authorized_keys(current: str, keys: Sequence[str], exclusive: bool) -> str:
    """Return an authorized_keys file with the keys between two markers. Remove other lines if exclusive is true."""
    block = [BEGIN, *keys, END] if keys else []
    before, after = ([], []) if exclusive else _outside(current.splitlines())
    lines = [*before, *block, *after]
    return "\n".join(lines) + "\n" if lines else ""


def _outside(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines before and after the markers. Drop a marker without its counterpart."""
    begin = lines.index(BEGIN) if BEGIN in lines else None
    if begin is None or END not in lines[begin:]:
        return [line for line in lines if line not in (BEGIN, END)], []
    end = lines.index(END, begin)
    return _outside(lines[:begin])[0], _outside(lines[end + 1 :])[0]
