# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find what a list of packages, in the form of apt, lacks on a machine."""

from __future__ import annotations

import fnmatch
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A name as Debian's policy has it, and a version or a pattern of one. Anything else is left to apt.
_WANTED = re.compile(r"(?P<name>[a-z0-9][a-z0-9+.-]+)(?:=(?P<version>\S+))?")


def name_of(wanted: str) -> str:
    """Return the name of a package in C(NAME) or C(NAME=VERSION), or an empty string if it has another form."""
    match = _WANTED.fullmatch(wanted)
    return match["name"] if match else ""


def missing(wanted: Iterable[str], versions: Mapping[str, str]) -> list[str]:
    """
    Return what of C(wanted) is not installed, with the versions of installed packages by name.

    A version may contain C(*) and C(?), as for apt. What has another form, such as C(NAME:ARCHITECTURE), counts as
    missing, and so does a name that another package provides.
    """
    return [one for one in wanted if not _is_there(one, versions)]


def _is_there(wanted: str, versions: Mapping[str, str]) -> bool:
    match = _WANTED.fullmatch(wanted)
    if match is None or match["name"] not in versions:
        return False
    return match["version"] is None or fnmatch.fnmatchcase(versions[match["name"]], match["version"])
