# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The brief of a report, which the monitoring reads on the first controller."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_figures import figures


def brief(report: t.Mapping[str, t.Any], ended: int) -> dict[str, t.Any]:
    """Return verdict, stages and the slowest figures of a report that ended at a time in seconds since 1970."""
    rows = [{key: row[key] for key in ("check", "title", "slowest", "who", "unit")} for row in figures(report)]
    return {
        "format": 1,
        "run": report["run"],
        "ended": ended,
        "verdict": report["verdict"],
        "summary": report["summary"],
        "stages": {stage["name"]: stage["state"] for stage in report["stages"]},
        "figures": rows,
    }
