# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import munge_key

PRESENT = bytes(range(128))


def _zeros(size: int) -> bytes:
    return b"\0" * size


def test_a_present_key_is_kept() -> None:
    assert munge_key.choose(PRESENT, None, _zeros) == PRESENT
    assert munge_key.choose(b"k" * 32, None, _zeros) == b"k" * 32


@pytest.mark.parametrize("present", [None, b"", b"short", b"k" * 31])
def test_a_machine_without_a_usable_key_gets_a_random_one(present: bytes | None) -> None:
    assert munge_key.choose(present, None, _zeros) == b"\0" * munge_key.DEFAULT_BYTES


def test_the_given_key_replaces_the_present_one() -> None:
    assert munge_key.choose(PRESENT, munge_key.encode(b"k" * 32), _zeros) == b"k" * 32


@pytest.mark.parametrize("key", ["not base64!", "YWJj", munge_key.encode(b"x" * 31), munge_key.encode(b"x" * 1025)])
def test_a_key_that_munge_would_not_take_is_refused(key: str) -> None:
    with pytest.raises(munge_key.MungeKeyError):
        munge_key.choose(PRESENT, key, _zeros)


def test_a_refusal_does_not_show_the_key() -> None:
    with pytest.raises(munge_key.MungeKeyError) as caught:
        munge_key.decode("secret secret")
    assert "secret" not in str(caught.value)
