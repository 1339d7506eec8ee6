# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter release_serial."""

from __future__ import annotations

DOCUMENTATION = r"""
name: release_serial
short_description: Number a release for nodes that configure themselves
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the serial of a release and the time at which it expires. The playbook C(pull.yml) signs both with the
    release. A node accepts no serial below the highest one that it has accepted.
  - Equal content keeps its serial, so that its signature stays the same, until half of its time has passed.
  - A new serial is the time in seconds, so that it grows even if the last one was lost, or one more than the last one,
    so that it grows even if the clock was ahead.
positional: before, now, days, least
options:
  _input:
    description: The content of the release.
    type: str
    required: true
  before:
    description: What the filter returned for the last release, as JSON, or an empty string.
    type: str
    required: true
  now:
    description: The time in seconds since 1970.
    type: int
    required: true
  days:
    description: After this number of days, a node that has not accepted the release refuses it.
    type: int
    required: true
  least:
    description: The smallest serial.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Show the serial of a release
  ansible.builtin.debug:
    msg: "{{ content | hpcai.gpucluster.release_serial('', now().timestamp() | int, 90) }}"
"""

RETURN = r"""
_value:
  description: The serial, the time in seconds at which the release expires, and the SHA-256 checksum of the content.
  type: dict
  sample: {serial: 1795651200, expires: 1803427200, sha256: e3b0c442}
"""

import hashlib
import json
import typing as t

from ansible.errors import AnsibleFilterError

if t.TYPE_CHECKING:
    from collections.abc import Callable

_DAY = 86400
_LONGEST = 3650


def release_serial(content: str, before: str, now: int, days: int, least: int = 0) -> dict[str, t.Any]:
    """Return the serial, the end and the checksum of a release."""
    last = _last(before)
    life = _number("pull_days", days, 1, _LONGEST) * _DAY
    least = _number("pull_serial", least, 0, 2**53)
    digest = hashlib.sha256(content.encode()).hexdigest()
    fresh = now < last["expires"] - life // 2 and last["expires"] <= now + life
    if last["sha256"] == digest and last["serial"] >= least and fresh:
        return last
    return {"serial": max(now, last["serial"] + 1, least), "expires": now + life, "sha256": digest}


def _last(before: str) -> dict[str, t.Any]:
    try:
        found = json.loads(before or '{"serial": 0, "expires": 0, "sha256": ""}')
        return {"serial": int(found["serial"]), "expires": int(found["expires"]), "sha256": str(found["sha256"])}
    except (ValueError, KeyError, TypeError) as exc:
        raise AnsibleFilterError(
            "serial.json in pull_directory cannot be read. Restore it, or remove it: then the serial is the time"
        ) from exc


def _number(name: str, value: t.Any, least: int, most: int) -> int:
    text = str(value)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise AnsibleFilterError(
            f"{name}: found {value!r}; allowed: a number from {least} to {most}. Nothing was served."
        )
    return int(text)


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"release_serial": release_serial}
