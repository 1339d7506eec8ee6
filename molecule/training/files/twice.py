# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the losses in the output of a job: each step is there, and a step that was done twice had the same loss."""

import re
import sys
from pathlib import Path

losses: dict[int, list[float]] = {}
for step, loss in re.findall(r"step (\d+)(?:/\d+)? +loss ([\d.]+)", Path(sys.argv[1]).read_text(encoding="utf-8")):
    losses.setdefault(int(step), []).append(float(loss))
twice = [found for found in losses.values() if len(found) > 1]
most = max((max(found) / min(found) - 1 for found in twice), default=1.0)
print(f"{len(twice)} steps done twice, losses differ by {most:.6f} at most")
sys.exit(sorted(losses) != list(range(1, len(losses) + 1)) or most > 1e-3)
