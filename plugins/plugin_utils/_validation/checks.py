# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The checks of a report; each one has passed, warned, failed or was not run."""

from __future__ import annotations

import typing as t

Check = dict[str, t.Any]

PASS, WARN, FAIL, NOT_RUN = "pass", "warn", "fail", "not_run"


def check(name: str, title: str, status: str, message: str = "", node: str | None = None, **more: t.Any) -> Check:
    """Return one check; O(node) is None for a check of the whole cluster."""
    return {"check": name, "title": title, "node": node, "status": status, "message": message, **more}


def natural(name: str) -> list[t.Any]:
    """Return a key that sorts gpu10 after gpu9."""
    digits = "".join(char if char.isdigit() else " " for char in name).split()
    return [
        "".join("#" if char.isdigit() else char for char in name).replace("##", "#"),
        [int(part) for part in digits],
        name,
    ]
