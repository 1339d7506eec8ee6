# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of recorded reports of nvidia-smi -q -x."""

from __future__ import annotations

import re


def only(report: str, number: int) -> str:
    """Return the report with one of its GPUs, as nvidia-smi -q -x -i N prints it."""
    gpus = re.findall(r"\t<gpu id=.*?</gpu>\n", report, re.DOTALL)
    for gpu in gpus[:number] + gpus[number + 1 :]:
        report = report.replace(gpu, "")
    return report
