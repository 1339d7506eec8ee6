# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse the output of nvidia-smi nvlink for each link of each GPU."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, split_notes

Links = t.Dict[int, t.List[t.Tuple[int, str]]]  # noqa: UP006 - evaluated at run time, also on Python 3.9

_GPU = re.compile(r"^GPU (\d+): ")
_LINK = re.compile(r"^\s*Link (\d+): (.*)$")
_NO_LINKS = ("unable to retrieve nvlink information", "not supported", "no nvlink", "no active nvlink")
# Words in the names of real errors. The names of rates, states, bytes and packets contain none of them.
_ERROR = re.compile(r"error|discard|recovery", re.IGNORECASE)
# Errors that the link corrects: codewords by the number of symbols that FEC corrected (0: none), and raw bits.
_REPAIRED = re.compile(r"^(FEC|Raw) ", re.IGNORECASE)


def parse(text: str) -> Links:
    """Return the lines about links by GPU, each with the number of its link. A GPU without links has none."""
    found: Links = {}
    gpu = None
    for line in text.splitlines():
        if _is_note(line):
            continue
        link = _LINK.match(line) if gpu is not None else None
        head = None if link else _GPU.match(line)
        if link and gpu is not None:
            found[gpu].append((int(link[1]), link[2].strip()))
        elif head:
            gpu = int(head[1])
            found[gpu] = []
        elif line.strip() and not any(word in line.lower() for word in _NO_LINKS):
            raise ParseError(f"expected a GPU or a link from nvidia-smi nvlink, found {line.strip()[:120]!r}")
    if not found:
        raise ParseError("nvidia-smi nvlink names no GPU")
    return found


def errors(links: Links) -> dict[str, int]:
    """Return the error counters of every link by "GPU n link m name". Skip other lines of newer drivers."""
    counters = {}
    for gpu, found in links.items():
        for link, text in found:
            name, _colon, value = (part.strip() for part in text.rpartition(":"))
            if value.isdigit() and _ERROR.search(name) and not _REPAIRED.match(name):
                counters[f"GPU {gpu} link {link} {name}"] = int(value)
    return counters


def _is_note(line: str) -> bool:
    return line.startswith("WARNING:") or bool(split_notes([line])[0])
