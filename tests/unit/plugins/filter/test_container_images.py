# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import container_images as plugin


def test_images_get_the_names_of_their_files() -> None:
    images = plugin.FilterModule().filters()["container_images"](["nvcr.io/nvidia/pytorch:25.10-py3"])

    assert [image["name"] for image in images] == ["nvidia+pytorch+25.10-py3"]


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="container_images: 'A' is neither"):
        plugin.container_images(["A"])
