# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return a training recipe, checked."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import plan

DOCUMENTATION = r"""
name: training_recipe
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.3.0
short_description: Return a training recipe
description:
  - Returns a recipe of C(roles/training/vars/recipes), or of the site, with changes.
  - Fails if there is no such recipe, and if a key of it is unknown, missing, of a wrong type or out of range. The
    message names all such keys.
positional: own, changes
options:
  _input:
    description: Name of the recipe.
    type: str
    required: true
  own:
    description: Recipes of the site by name. One with the name of a recipe of the collection replaces it.
    type: dict
    default: {}
  changes:
    description: Changes of the form C(section.key=value).
    type: list
    elements: str
    default: []
seealso:
  - plugin: hpcai.gpucluster.pinning
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the recipe of GPT-3 126M with larger passes
  ansible.builtin.debug:
    msg: "{{ 'gpt3_126m' | hpcai.gpucluster.training_recipe(changes=['batch.micro=32']) }}"
"""

RETURN = r"""
_value:
  description: The recipe as it is written, with the changes.
  type: dict
  sample: {name: tiny, model: {layers: 2, hidden: 64}, batch: {micro: 8, global: 32}}
"""


def training_recipe(
    name: t.Any, own: t.Mapping[str, t.Any] | None = None, changes: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return a recipe."""
    try:
        found = recipes.merged(plan.find(str(name), plain(own)), plain(list(changes)))
        recipes.read(found)
    except (plan.PlanError, recipes.RecipeError) as exc:
        raise AnsibleFilterError(f"recipe {name}: {exc}") from exc
    return found


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"training_recipe": training_recipe}
