# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write figures in the text format of Prometheus."""

from __future__ import annotations

import typing as t


class Sample(t.NamedTuple):
    """One figure with its labels."""

    name: str
    labels: dict[str, str]
    value: float


def sample(name: str, value: float, **labels: str) -> Sample:
    """Return a figure; raise ValueError for a label that is no text, or a figure that is no number."""
    for label, text in labels.items():
        if not isinstance(text, str):
            raise ValueError(f"{name}: {label} is {text!r}, not a text")
    if not isinstance(value, (int, float)):
        raise ValueError(f"{name} is {value!r}, not a number")
    return Sample(name, labels, value)


def render(samples: t.Iterable[Sample]) -> str:
    """Return a page with all figures of a name together, as the format demands."""
    by_name: dict[str, list[Sample]] = {}
    for one in samples:
        by_name.setdefault(one.name, []).append(one)
    return "".join(f"# TYPE {name} {_kind(name)}\n" + "".join(map(_line, found)) for name, found in by_name.items())


def _kind(name: str) -> str:
    return "counter" if name.endswith("_total") and name.startswith("gpucluster_") else "gauge"


def _line(one: Sample) -> str:
    labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in one.labels.items())
    return f"{one.name}{{{labels}}} {one.value:.15g}\n" if labels else f"{one.name} {one.value:.15g}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
