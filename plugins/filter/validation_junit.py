# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return a report as JUnit XML."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_junit

DOCUMENTATION = r"""
name: validation_junit
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Write the report of a validation as JUnit XML
description:
  - Each stage is a suite, and each check on each node a case. Checks that did not run are skipped, warnings pass
    with a text.
options:
  _input:
    description: The report that P(hpcai.gpucluster.validation_report#filter) returns.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the file for the CI system
  ansible.builtin.copy:
    content: "{{ __report | hpcai.gpucluster.validation_junit }}"
    dest: junit.xml
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The XML text.
  type: str
"""


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"validation_junit": report_junit.junit}
