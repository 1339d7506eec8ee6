# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import types
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import live


def answers(monkeypatch: pytest.MonkeyPatch, parts: t.Iterator[bytes]) -> None:
    class Answer:
        def __enter__(self) -> t.Any:
            return self

        def __exit__(self, *_error: object) -> None:
            pass

        def read1(self, _size: int) -> bytes:
            return next(parts)

    opener = types.SimpleNamespace(open=lambda _url, **_more: Answer())
    monkeypatch.setattr("urllib.request.build_opener", lambda *_handlers: opener)


def test_an_answer_in_parts_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, iter([b"a", b"b", b""]))

    assert live.text("http://127.0.0.1:1/") == "ab"


def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user can listen while the daemon does not run, and send a byte from time to time."""
    answers(monkeypatch, itertools.repeat(b"x"))
    monkeypatch.setattr(live, "time", types.SimpleNamespace(monotonic=itertools.count().__next__))

    with pytest.raises(TimeoutError, match="does not end"):
        live.text("http://127.0.0.1:1/")


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, itertools.repeat(b"x" * (1 << 20)))

    with pytest.raises(ValueError, match="has more than"):
        live.text("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "alert",
    [
        {},
        "x",
        {"state": "firing"},
        {"state": "firing", "labels": {}, "annotations": {}},
        {"state": "firing", "labels": 1},
    ],
)
def test_an_answer_that_is_no_list_of_alerts_is_trouble(alert: t.Any) -> None:
    """Then the page says so. An error would leave the page of before."""
    known = {"data": {"alerts": [alert], "result": []}}

    assert live.read("http://127.0.0.1:1", lambda _url: known).trouble.startswith("Prometheus does not answer")


def test_texts_of_an_alert_are_texts() -> None:
    alert = {"state": "firing", "labels": {"alertname": "A", "severity": ["x"]}, "annotations": {"summary": 1}}

    found = live.read("http://127.0.0.1:1", lambda _url: {"data": {"alerts": [alert], "result": []}})

    assert found.alerts[0]["labels"] == {"alertname": "A", "severity": "['x']"}
    assert found.alerts[0]["annotations"] == {"summary": "1"}
