# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find the line of a value in the text of a YAML file."""

from __future__ import annotations

import typing as t

import yaml

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file.schema import Path_


def root(text: str) -> t.Any:
    """Return the node of the whole file; tags such as !vault need no constructor."""
    return yaml.compose(text, Loader=yaml.SafeLoader)


def line(node: t.Any, path: Path_) -> int:
    """Return the line of a path, counted from 1: that of the key or item, or of its nearest parent that is there."""
    found = node.start_mark.line
    for part in path:
        step = _step(node, part)
        if step is None:
            break
        marked, node = step
        found = marked.start_mark.line
    return int(found) + 1


def _step(node: t.Any, part: str | int) -> tuple[t.Any, t.Any] | None:
    """Return the node that marks a part, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        # The last of equal keys is the one that YAML keeps.
        return next(((key, value) for key, value in reversed(node.value) if key.value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None
