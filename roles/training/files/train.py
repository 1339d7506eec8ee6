# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the trainer beside this file: by srun, by torchrun, or alone. See docs/training.md."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpucluster_train.ending import leave
from gpucluster_train.main import main

if __name__ == "__main__":
    leave(main)
