# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module file_set."""

from __future__ import annotations

from ansible.plugins.action.normal import ActionModule as Normal

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._once.shared import EvaluatedOnce


class ActionModule(EvaluatedOnce, Normal):
    """Run the module with arguments that are evaluated once for equal hosts."""
