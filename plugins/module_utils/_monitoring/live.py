# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What Prometheus knows and Slurm does not: alerts, and the utilisation of GPUs."""

from __future__ import annotations

import json
import time
import typing as t
import urllib.parse
import urllib.request

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_answer

SECONDS = 5
_MOST = 32 << 20  # bytes
_UTILISATION = "avg_over_time(DCGM_FI_DEV_GPU_UTIL[5m])"


class Live(t.NamedTuple):
    """The answer of Prometheus; trouble is the reason if there is none."""

    alerts: list[dict[str, t.Any]]
    utilisation: dict[tuple[str, str], float]  # percent by node and device
    trouble: str = ""


def read(address: str, get: t.Callable[[str], t.Any]) -> Live:
    """Return what Prometheus at an address says. No answer is trouble, never an empty list of alerts."""
    try:
        alerts = get(f"{address}/api/v1/alerts")["data"]["alerts"]
        series = get(f"{address}/api/v1/query?query={urllib.parse.quote(_UTILISATION)}")["data"]["result"]
        utilisation = {(one["metric"]["node"], one["metric"]["device"]): float(one["value"][1]) for one in series}
        return Live([_alert(one) for one in alerts if one["state"] == "firing"], utilisation)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as exc:
        return Live([], {}, f"Prometheus does not answer: {exc}")


def _alert(one: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the texts of an alert. Anybody may answer where Prometheus does not run."""
    labels, notes = ({str(key): str(value) for key, value in one[part].items()} for part in ("labels", "annotations"))
    return {**one, "labels": {**labels, "alertname": labels["alertname"]}, "annotations": notes}


def fetched(url: str) -> t.Any:
    """Return the JSON at a URL of this machine, in a bounded time; raises OSError and ValueError."""
    return json.loads(text(url))


def text(url: str) -> str:
    """Return the text at a URL of this machine, in a bounded time; raises OSError and ValueError."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=SECONDS) as answer:
        # Anybody may listen where a daemon does not run.
        return whole_answer.read(answer, _MOST, time.monotonic() + SECONDS, time.monotonic).decode("utf-8")
