# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What the page shows of a training run: its figures, the curves of loss and step time, and a map of the ranks."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_plots, report_words

Training = t.Mapping[str, t.Any]

_WINDOWS = 24


def table(training: Training | None) -> report_words.Table | None:
    """Return the figures, or nothing without a training run."""
    if not training:
        return None
    rows = [("model", training["recipe"]), ("ranks", f"{training['ranks']} x {training['device'] or '?'}")]
    rows += [("PyTorch", str(training["torch"]))] if training["torch"] else []
    rows += _figures(training["figures"]) if training["figures"] else []
    return report_words.table(["", ""], [[("name", "", name), ("figure", "", text)] for name, text in rows])


def _figures(figures: Training) -> list[tuple[str, str]]:
    rows = [("time of a step", f"{figures['step_ms']:.2f} ms, deviation {figures['step_ms_deviation']:.2f} ms")]
    if figures["step_ms_seed"]:
        rows.append(("time of a step, mean of the three steps of the quick start", f"{figures['step_ms_seed']:.2f} ms"))
    rows.append(("tokens per second of a GPU", f"{figures['tokens_per_second_per_gpu']:,.0f}"))
    rows.append(("TFLOP/s of a GPU", f"{figures['tflops_per_gpu']:.4g}"))
    rows.append(("utilisation of its BF16 peak", f"{figures['mfu']:.1%}" if figures["mfu"] else "peak unknown"))
    return rows


def pictures(training: Training | None) -> list[str]:
    """Return the plots; none of a run without steps."""
    if not training or not training["steps"]:
        return []
    steps, resumed = training["steps"], training["resumed"]
    found = [
        report_plots.series("loss", [(step, loss) for step, loss, _ms in steps], "loss", resumed),
        report_plots.series("time of a step", [(step, ms) for step, _loss, ms in steps[1:] or steps], "ms", resumed),
    ]
    return [*found, *_ranks(training)]


def _ranks(training: Training) -> list[str]:
    """Return the map of the ranks; the first window has the compilation and is not shown."""
    windows = [window for window in training["windows"] if len(window[1] or []) == training["ranks"]]
    windows = (windows[1:] or windows)[-_WINDOWS:]
    if not windows:
        return []
    hosts = training["hosts"] or [""] * training["ranks"]
    rows = {f"{rank} {hosts[rank]}": [times[rank] for _step, times in windows] for rank in range(training["ranks"])}
    return [report_plots.grid("own time of each rank in a step", rows, [str(step) for step, _times in windows], "ms")]
