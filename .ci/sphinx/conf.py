# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Sphinx for the site of the documentation. scripts/docs.sh starts it."""

from __future__ import annotations

import re
import typing as t

from docutils import nodes

if t.TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "hpcai.gpucluster"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
html_theme = "furo"
html_title = project
html_copy_source = False
highlight_language = "none"  # of blocks that name no language
default_role = "any"
nitpicky = True
myst_heading_anchors = 4
# Pages of Ansible's own documentation to which the reference refers, by label. The build does not fetch them.
_ANSIBLE = "https://docs.ansible.com/ansible/latest"
_LABELS = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
_SETTING = re.compile(r"ANSIBLE_(?:CACHE_PLUGIN|INVENTORY)_?\w*")
_PLUGIN = re.compile(r"ansible_collections\.(?!hpcai\.gpucluster\.)(\w+)\.(\w+)\.(\w+_\w+?)(?:__\w+-.*)?")


def _elsewhere(_app: Sphinx, _env: t.Any, node: t.Any, contents: t.Any) -> nodes.reference | None:
    """Return a link to Ansible's documentation, or None: then Sphinx reports a broken link."""
    label = node.get("reftarget", "")
    page = _LABELS.get(label)
    if node.get("reftype") == "envvar" and _SETTING.fullmatch(label):
        page = _LABELS["ansible_configuration_settings"]
    elif found := _PLUGIN.fullmatch(label):
        page = f"collections/{found[1]}/{found[2]}/{found[3]}.html"
    return nodes.reference("", "", contents, refuri=f"{_ANSIBLE}/{page}", internal=False) if page else None


def setup(app: Sphinx) -> None:
    """Register the links to Ansible's documentation."""
    app.connect("missing-reference", _elsewhere)
