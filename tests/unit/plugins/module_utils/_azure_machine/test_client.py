# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token of the identity of a machine, which ends while a step of half an hour is followed."""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from email.message import Message

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import Client, Place, RefusedError


class Answered(io.BytesIO):
    """An answer with status 200."""

    headers = Message()


class Azure:
    """Gives the tokens 1, 2, ..., and accepts one of them."""

    def __init__(self) -> None:
        self.given = 0
        self.accepted = "Bearer 1"

    def open(self, request: urllib.request.Request, timeout: float) -> Answered:
        assert timeout
        if "/metadata/" in request.full_url:
            self.given += 1
            return Answered(json.dumps({"access_token": str(self.given)}).encode())
        if request.get_header("Authorization") != self.accepted:
            raise urllib.error.HTTPError(request.full_url, 401, "Unauthorized", Message(), io.BytesIO())
        return Answered(b'{"status": "InProgress"}')


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> tuple[Azure, Client]:
    state, client = Azure(), Client(Place("https://x", "http://x", ""), lambda _seconds: None)
    for name in ("_local", "_remote"):
        monkeypatch.setattr(client, name, state)
    return state, client


def test_a_token_that_has_expired_is_requested_again(azure: tuple[Azure, Client]) -> None:
    state, client = azure
    for accepted in ("Bearer 1", "Bearer 1", "Bearer 2", "Bearer 2"):
        state.accepted = accepted
        assert client.ask("GET", "/operation", {}).body == {"status": "InProgress"}

    assert state.given == 2


def test_a_token_that_is_refused_at_once_is_an_error(azure: tuple[Azure, Client]) -> None:
    state, client = azure
    state.accepted = ""

    with pytest.raises(RefusedError, match="401 Unauthorized"):
        client.ask("GET", "/operation", {})
    assert state.given == 1
