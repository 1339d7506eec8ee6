# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The token of the identity of a machine, which ends while a step of half an hour is followed."""

from __future__ import annotations

import io
import itertools
import json
import urllib.error
import urllib.request
from email.message import Message

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import (
    AzureError,
    Client,
    Place,
    RefusedError,
)


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


class Endless(io.BytesIO):
    """An answer of which a byte arrives now and then."""

    headers = Message()

    def read(self, size: int | None = -1, /) -> bytes:
        return b" " * max(1, size or 0)

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(size)


class Kept(Answered):
    """An answer that can be given again."""

    def close(self) -> None:
        pass


class Stuck(Azure):
    """Gives a token, and then answers of another kind."""

    def __init__(self, answer: io.BytesIO, status: int = 200) -> None:
        super().__init__()
        self.answer, self.status, self.asked = answer, status, 0

    def open(self, request: urllib.request.Request, timeout: float) -> Answered:
        if "/metadata/" in request.full_url:
            return super().open(request, timeout)
        self.asked += 1
        self.answer.seek(0)
        if self.status != 200:
            raise urllib.error.HTTPError(request.full_url, self.status, "Wrong", Message(), self.answer)
        return self.answer  # type: ignore[return-value]


def client_of(monkeypatch: pytest.MonkeyPatch, state: Azure, seconds: float = 0.0) -> Client:
    """Return a client whose clock goes on by some seconds at each look."""
    ticks = itertools.count()
    client = Client(Place("https://x", "http://x", ""), lambda _seconds: None, lambda: next(ticks) * seconds)
    for name in ("_local", "_remote"):
        monkeypatch.setattr(client, name, state)
    return client


def test_an_answer_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each packet comes in time, and the program would wait for ever, with its lock."""
    with pytest.raises(AzureError, match="the answer does not end"):
        client_of(monkeypatch, Stuck(Endless()), 20.0).ask("GET", "/operation", {})


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AzureError, match="the answer has more than 67108864 bytes"):
        client_of(monkeypatch, Stuck(Endless())).ask("GET", "/operation", {})


def test_an_error_that_does_not_end_is_still_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusedError, match="403 Wrong"):
        client_of(monkeypatch, Stuck(Endless(), 403), 20.0).ask("GET", "/operation", {})


def test_a_list_that_leads_to_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and time would grow without a limit."""
    page = json.dumps({"value": [{}], "nextLink": "https://x/list"}).encode()
    state = Stuck(Kept(page))
    with pytest.raises(AzureError, match=r"the list does not end: \d+ rows"):
        client_of(monkeypatch, state, 20.0).rows("/list", {})
    assert state.asked < 100
