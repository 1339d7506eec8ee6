# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return a report as a page."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_html

DOCUMENTATION = r"""
name: validation_html
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Write the report of a validation as one HTML page
description:
  - The page is one file without scripts that loads nothing from anywhere, for light and dark screens, telephones and
    paper. The verdict is on top. Its size is bounded, for nodes without a complaint become one line where they are
    many.
options:
  _input:
    description: The report that P(hpcai.gpucluster.validation_report#filter) returns.
    type: dict
    required: true
  plots:
    description:
      - Whether bandwidth over message size and the map of pairs are drawn.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Write the page
  ansible.builtin.copy:
    content: "{{ __report | hpcai.gpucluster.validation_html }}"
    dest: report.html
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: The page.
  type: str
"""


def validation_html(report: t.Mapping[str, t.Any], plots: bool = True) -> str:
    """Return the page."""
    return report_html.page(report, plots=plots)


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"validation_html": validation_html}
