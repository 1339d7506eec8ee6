# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated nvidia-smi: the same answers, exit codes and traps as the real one, for machines without a GPU.

It belongs to the tests and to the lab; nothing that a user installs contains it. README.md one folder up tells how to
describe a machine and which faults can be chosen.
"""
