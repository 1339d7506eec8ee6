# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The last validation, from the brief that validate.yml leaves on the first controller."""

from __future__ import annotations

import json
import typing as t

from .text import Sample, sample

PATH = "/var/lib/gpucluster/validation.json"
_UNIT = "GB/s"
_MOST = 1e12  # above each time and bandwidth
_KEYS = {"ended", "verdict", "summary", "stages", "figures"}


def parse(text: str) -> dict[str, t.Any]:
    """Return the brief; empty if no validation has run. Raise ValueError if the file is not a brief."""
    found = json.loads(text) if text.strip() else {}
    if not isinstance(found, dict) or (found and (found.get("format") != 1 or not found.keys() >= _KEYS)):
        raise ValueError("the file of the last validation has an unknown format")
    return found


def samples(brief: t.Mapping[str, t.Any]) -> list[Sample]:
    """Return time, verdict, stages and bandwidths of the last validation."""
    if not brief:
        return []
    rates = [row for row in brief["figures"] if row["unit"] == _UNIT and row["slowest"] is not None]
    figures = [brief["ended"], *(row["slowest"] for row in rates)]
    odd = [figure for figure in figures if not isinstance(figure, (int, float)) or not 0 <= figure < _MOST]
    if odd:
        raise ValueError(f"the file of the last validation has {str(odd[0])[:60]!r} where a figure belongs")
    return [
        sample("gpucluster_validation_timestamp_seconds", brief["ended"]),
        sample("gpucluster_validation_verdict", 1, verdict=brief["verdict"]),
        *(sample("gpucluster_validation_stage", 1, stage=name, state=state) for name, state in brief["stages"].items()),
        *(sample("gpucluster_validation_bandwidth_bytes", row["slowest"] * 1e9, check=row["check"]) for row in rates),
    ]
