# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a run: JSON lines, lines for people, and events that TensorBoard reads. A full disk stops no training."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path


class Log:
    """What the first rank writes; the others keep silent."""

    def __init__(self, directory: Path | None, write: bool) -> None:
        """Open log.jsonl and the event file in a directory; both are appended to by a resumed run."""
        self.write = write
        self.lines: t.TextIO | None = None
        self.events: Events | None = None
        if write and directory:
            directory.mkdir(parents=True, exist_ok=True)
            self.lines = (directory / "log.jsonl").open("a", encoding="utf-8")
            self.events = Events(directory / "tensorboard")

    def event(self, kind: str, text: str = "", **values: t.Any) -> None:
        """Write one line: what happened, the time in seconds since 1970, and its values."""
        if not self.write:
            return
        if text:
            print(text, flush=True)
        try:
            if self.lines:
                self.lines.write(json.dumps({"event": kind, "time": round(time.time(), 3), **values}) + "\n")
                self.lines.flush()
        except OSError as error:
            print(f"log.jsonl: {error}", file=sys.stderr, flush=True)

    def scalars(self, step: int, **values: float) -> None:
        """Write values for TensorBoard."""
        try:
            if self.events:
                self.events.write(step, values)
        except OSError as error:
            print(f"TensorBoard events: {error}", file=sys.stderr, flush=True)


class Events:
    """An event file of TensorBoard: records of a length, its checksum, a protocol buffer, and its checksum."""

    def __init__(self, directory: Path) -> None:
        """Start a file with a name that TensorBoard finds."""
        directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.0"
        self.file = (directory / name).open("ab")
        self._record(_number(1, time.time()) + _bytes(3, b"brain.Event:2"))

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the values of a step."""
        summary = b"".join(_bytes(1, _bytes(1, tag.encode()) + _float(2, value)) for tag, value in values.items())
        self._record(_number(1, time.time()) + _varint(2 << 3) + _varint(step) + _bytes(5, summary))

    def _record(self, data: bytes) -> None:
        length = struct.pack("<Q", len(data))
        self.file.write(length + _checksum(length) + data + _checksum(data))
        self.file.flush()


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _table() -> list[int]:
    """Return the table of CRC-32C (Castagnoli), which is not the CRC of zlib."""
    table = []
    for byte in range(256):
        for _bit in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _table()


def _checksum(data: bytes) -> bytes:
    """Return the masked CRC-32C of a record."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
