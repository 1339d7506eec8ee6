# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The proxy of a site: its check, and the environment of programs that use it."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = ("http", "https", "no_proxy")
# Every machine reaches itself without a proxy.
_OWN = ("localhost", "127.0.0.1", "::1")
_URL = re.compile(r"https?://[^\s'\"\\;{}$`]+")
_NAME = re.compile(r"[A-Za-z0-9*._:/\[\]-]+")


def problem(proxy: Mapping[str, t.Any]) -> str:
    """Return what is allowed if a proxy with the keys of C(KEYS) is wrong, or an empty string."""
    for key in ("http", "https"):
        if proxy.get(key) and not _URL.fullmatch(str(proxy[key])):
            return f"{key} as a URL, such as http://proxy.example.com:3128"
    if not all(_NAME.fullmatch(str(name)) for name in proxy.get("no_proxy") or []):
        return "no_proxy as a list of names, addresses and domains, such as .example.com"
    if proxy.get("no_proxy") and not (proxy.get("http") or proxy.get("https")):
        return "http or https next to no_proxy"
    return ""


def environment(proxy: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the environment variables of a proxy, without any if there is no proxy."""
    found = {f"{key}_proxy": str(proxy[key]) for key in ("http", "https") if proxy.get(key)}
    if not found:
        return {}
    return {**found, "no_proxy": ",".join(dict.fromkeys([*_OWN, *map(str, proxy.get("no_proxy") or [])]))}
