# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter container_images."""

from __future__ import annotations

DOCUMENTATION = r"""
name: container_images
short_description: Complete a list of container images
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Accepts a list of images. Each is a name such as V(nvcr.io/nvidia/pytorch:25.10-py3), or a mapping with C(image) and
    optionally C(name), C(size_gib) and C(state).
  - Returns mappings with all options that M(hpcai.gpucluster.enroot_image) needs.
options:
  _input:
    description: The images.
    type: list
    elements: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the file names of images
  ansible.builtin.debug:
    msg: "{{ ['nvcr.io/nvidia/pytorch:25.10-py3'] | hpcai.gpucluster.container_images | map(attribute='name') }}"
    # => ['nvidia+pytorch+25.10-py3']
"""

RETURN = r"""
_value:
  description:
    - One mapping per image. C(image) is the name in enroot, C(name) is the name of the file without C(.sqsh), C(state)
      is the state, and C(size_bytes) is the size, V(0) if not known.
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image as enroot_image
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import enroot_checks


def container_images(images: t.Sequence[t.Any]) -> list[dict[str, t.Any]]:
    """Return the images with all keys set."""
    try:
        return [enroot_checks.container_image(image) for image in images]
    except enroot_image.ImageError as exc:
        raise AnsibleFilterError(f"container_images: {exc}") from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"container_images": container_images}
