# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.proxy_environment import FilterModule, proxy_environment


def test_a_proxy_becomes_variables() -> None:
    assert FilterModule().filters() == {"proxy_environment": proxy_environment}
    assert proxy_environment({"https": "http://p:1"}) == {
        "https_proxy": "http://p:1",
        "no_proxy": "localhost,127.0.0.1,::1",
    }


def test_a_text_is_refused_without_its_login() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping") as caught:
        proxy_environment("http://me:secret@proxy")
    assert "secret" not in str(caught.value)
