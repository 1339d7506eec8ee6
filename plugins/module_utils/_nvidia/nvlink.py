# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse the output of nvidia-smi nvlink for each link of each GPU."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, split_notes

Links = t.Dict[int, t.List[t.Tuple[int, str]]]  # noqa: UP006 - evaluated at run time, also on Python 3.9

_GPU = re.compile(r"^GPU (\d{1,4}): ")
_LINK = re.compile(r"^\s*Link (\d{1,3})(?:: | (?=in Sleep state))(.*)$")
# The form of a link without a state or counters.
_DOWN = re.compile(r"unable to retrieve nvlink (?:information|errors) for link (\d{1,3}) - (inactive)", re.IGNORECASE)
_NO_LINKS = (
    "unable to retrieve nvlink information",
    "unable to retrieve nvlink errors",
    "not supported",
    "no nvlink",
    "no active nvlink",
)
# Words in the names of real errors. The names of rates, states, bytes and packets contain none of them.
_ERROR = re.compile(r"error|discard|recovery", re.IGNORECASE)
# Errors that the link corrects: codewords by the number of symbols that FEC corrected (0: none), and raw bits.
_REPAIRED = re.compile(r"^(FEC|Raw)(?![a-z])", re.IGNORECASE)
_COUNT = re.compile(r"[0-9]{1,15}")


def parse(text: str) -> Links:
    """
    Return the lines about links by GPU, each with the number of its link. A GPU without links has none.

    Refuse a list that lacks or repeats something: a lost line is not a link that is down.
    """
    found: Links = {}
    told = set()  # GPUs of which the tool says that they have no links
    gpu = None
    for line in text.splitlines():
        head = _GPU.match(line)
        link = _LINK.match(line) or _DOWN.search(line)
        if head:
            gpu = int(head[1])
            if gpu in found:
                raise ParseError(f"nvidia-smi nvlink names GPU {gpu} twice")
            found[gpu] = []
        elif link and gpu is not None:
            found[gpu].append((int(link[1]), link[2].strip()))
        elif any(word in line.lower() for word in _NO_LINKS):
            told.add(gpu)
        elif line.strip() and not _is_note(line):
            raise ParseError(f"expected a GPU or a link from nvidia-smi nvlink, found {line.strip()[:120]!r}")
    if not found:
        raise ParseError("nvidia-smi nvlink names no GPU")
    _refuse_cut({gpu: lines for gpu, lines in found.items() if lines or gpu not in told})
    return found


def _refuse_cut(found: Links) -> None:
    """Refuse GPUs of which a link, or a counter of a link, is missing or there twice."""
    links = {gpu: {link for link, _text in lines} for gpu, lines in found.items()}
    most = max(map(len, links.values()), default=0)
    for gpu, lines in found.items():
        if links[gpu] != set(range(most)) or not most:
            raise ParseError(f"nvidia-smi nvlink lists {len(links[gpu])} links of GPU {gpu}, not {most or 'any'}")
        names = [(link, _name(text)) for link, text in lines]
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice:
            raise ParseError(f"nvidia-smi nvlink lists {f'GPU {gpu} link {twice[0]} {twice[1]}'.strip()} twice")


def errors(links: Links) -> dict[str, int | None]:
    """
    Return the error counters of every link by "GPU n link m name"; None for one that the links do not have.

    Skip other lines of newer drivers.
    """
    counters: dict[str, int | None] = {}
    named: dict[tuple[int, int], set[str]] = {}
    for gpu, found in links.items():
        for link, text in found:
            name, _colon, value = (part.strip() for part in text.rpartition(":"))
            if not name:
                continue
            named.setdefault((gpu, link), set()).add(name)
            if not _ERROR.search(name) or _REPAIRED.match(name):
                continue
            absent = values.is_absent(value)
            if not absent and not _COUNT.fullmatch(value):
                raise ParseError(f"GPU {gpu} link {link} {name} is {value[:60]!r}, not a count")
            counters[f"GPU {gpu} link {link} {name}"] = None if absent else int(value)
    every = set().union(*named.values())
    for (gpu, link), names in named.items():
        if names != every:
            raise ParseError(f"GPU {gpu} link {link} has no counter {sorted(every - names)[0]!r}, which others have")
    return counters


def _name(text: str) -> str:
    """Return the name of a counter; a state has none."""
    return text.rpartition(":")[0].strip()


def _is_note(line: str) -> bool:
    return line.startswith("WARNING:") or bool(split_notes([line])[0])
