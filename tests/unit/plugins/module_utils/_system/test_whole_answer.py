# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of real servers on a socket of this machine."""

from __future__ import annotations

import http.client
import socket
import threading
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_answer
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

NEVER = float("inf")


@pytest.fixture
def ask() -> t.Iterator[t.Callable[..., http.client.HTTPResponse]]:
    """Return a function that gives the answer of a server which sends some bytes, and then keeps the connection."""
    opened: list[t.Any] = []

    def get(*parts: bytes, close: bool = False) -> http.client.HTTPResponse:
        server = socket.create_server(("127.0.0.1", 0))
        connection = http.client.HTTPConnection("127.0.0.1", server.getsockname()[1], timeout=PATIENCE)
        opened.extend([server, connection])

        def answer() -> None:
            link, _address = server.accept()
            opened.append(link)
            link.recv(65536)
            for part in parts:
                link.sendall(part)
            if close:
                link.close()

        thread = threading.Thread(target=answer)
        thread.start()
        connection.request("GET", "/")
        found = connection.getresponse()
        thread.join()
        return found

    yield get
    for one in opened:
        one.close()


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", b"cd"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"),
    ],
)
def test_a_server_that_keeps_the_connection_is_not_waited_for(
    ask: t.Callable[..., http.client.HTTPResponse], parts: tuple[bytes, ...]
) -> None:
    assert whole_answer.read(ask(*parts), 10, NEVER) == b"abcd"


def test_an_answer_that_is_cut_is_no_answer(ask: t.Callable[..., http.client.HTTPResponse]) -> None:
    with pytest.raises(http.client.IncompleteRead):
        whole_answer.read(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab", close=True), 10, NEVER)


def test_an_answer_without_a_body_is_empty(ask: t.Callable[..., http.client.HTTPResponse]) -> None:
    assert whole_answer.read(ask(b"HTTP/1.1 204 None\r\n\r\n"), 10, NEVER) == b""


def test_a_long_answer_is_refused(ask: t.Callable[..., http.client.HTTPResponse]) -> None:
    with pytest.raises(ValueError, match="more than 3 bytes"):
        whole_answer.read(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"), 3, NEVER)


def test_an_answer_that_drips_is_given_up(ask: t.Callable[..., http.client.HTTPResponse]) -> None:
    with pytest.raises(TimeoutError, match="does not end"):
        whole_answer.read(ask(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na"), 10, 1.0, lambda: 2.0)
