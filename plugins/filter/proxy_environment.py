# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter proxy_environment."""

from __future__ import annotations

DOCUMENTATION = r"""
name: proxy_environment
short_description: Return the environment variables of a proxy
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns C(http_proxy), C(https_proxy) and C(no_proxy). A machine always reaches itself without the proxy.
  - The filter does not check the proxy. M(hpcai.gpucluster.check_input) checks it as the input C(gpucluster_proxy).
options:
  _input:
    description: The proxy, with the keys C(http), C(https) and C(no_proxy), a list. An empty mapping is no proxy.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Download through the proxy
  ansible.builtin.get_url:
    url: https://example.com/archive.tar.gz
    dest: /tmp/archive.tar.gz
    mode: "0644"
  environment: "{{ {'https': 'http://proxy.example.com:3128'} | hpcai.gpucluster.proxy_environment }}"
"""

RETURN = r"""
_value:
  description: The variables by name; none if there is no proxy.
  type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import proxy as proxies

if t.TYPE_CHECKING:
    from collections.abc import Callable


def proxy_environment(proxy: t.Any) -> dict[str, str]:
    """Return the environment of a proxy."""
    if not isinstance(proxy, dict):
        raise AnsibleFilterError("hpcai.gpucluster.proxy_environment: expected a mapping with http, https, no_proxy")
    return proxies.environment(proxy)


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"proxy_environment": proxy_environment}
