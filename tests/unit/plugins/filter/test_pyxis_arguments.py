# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.pyxis_arguments import FilterModule, pyxis_arguments


def test_the_filter_writes_options_as_plugstack_conf_has_them() -> None:
    written = FilterModule().filters()["pyxis_arguments"]({"runtime_path": "/run/pyxis", "sbatch_support": False})

    assert written == ["runtime_path=/run/pyxis", "sbatch_support=0"]


def test_options_are_a_mapping() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping"):
        pyxis_arguments(["sbatch_support"])
