"""Answers that are not what they should be."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import client as module
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import (
    BrokenAnswerError,
    Redactor,
    RequestError,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError

HOST = "https://azure.test"
LIST = "/subscriptions/s/providers/Microsoft.Compute/virtualMachines"


class Send:
    """Give prepared answers and note what was asked."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, method: str, url: str, body: t.Any) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(url)
        answer = self.answers.pop(0)
        status, content = answer if isinstance(answer, tuple) else (200, answer)
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        return status, {"Content-Type": "text/html; x", "x-ms-request-id": "id-7"}, data


def pages(*answers: t.Any) -> list[t.Any]:
    return list(module.Client(Send(*answers), HOST).pages(LIST, {"api-version": "1", "$expand": "instanceView"}))


def test_pages_follow_the_links() -> None:
    send = Send({"value": [{"id": 1}], "nextLink": f"{HOST}{LIST}?$skiptoken=2"}, {"value": [{"id": 2}]})

    found: list[t.Any] = list(module.Client(send, HOST).pages(LIST, {"api-version": "1", "$expand": "x"}))

    assert found == [[{"id": 1}], [{"id": 2}]]
    assert send.asked[0] == f"{HOST}{LIST}?api-version=1&$expand=x"


@pytest.mark.parametrize(
    "link",
    [
        "https://evil.test/subscriptions/s/x",
        f"http://azure.test{LIST}",
        f"{HOST}/subscriptions/other/x",
        f"{HOST}.evil/s",
    ],
)
def test_a_link_to_somewhere_else_is_not_asked(link: str) -> None:
    with pytest.raises(BrokenAnswerError, match="which is not asked"):
        pages({"value": [], "nextLink": link})


@pytest.mark.parametrize("host", ["https://azure.test:443", "https://AZURE.test", "HTTPS://azure.test"])
def test_a_link_to_the_same_host_is_followed_however_it_is_written(host: str) -> None:
    assert len(pages({"value": [], "nextLink": f"{host}{LIST}?page=2"}, {"value": [{"id": 1}]})) == 2


def test_an_error_beside_an_empty_list_is_an_error() -> None:
    answer = {"value": [], "error": {"code": "InternalError", "message": "no answer of a region"}}

    with pytest.raises(RequestError, match="InternalError: no answer of a region"):
        pages(answer, answer, answer)
    assert pages(answer, {"value": [{"id": 1}]}) == [[{"id": 1}]]


def test_an_empty_last_page_is_asked_for_again() -> None:
    first = {"value": [{"id": 1}], "nextLink": f"{HOST}{LIST}?page=2"}
    empty: dict[str, t.Any] = {"value": []}

    assert pages(first, empty, {"value": [{"id": 2}]}) == [[{"id": 1}], [{"id": 2}]]
    assert pages(first, empty, empty, empty) == [[{"id": 1}], []]


def test_a_link_back_to_a_page_is_not_followed_for_ever() -> None:
    link = f"{HOST}{LIST}?page=2"

    with pytest.raises(BrokenAnswerError, match="leads back"):
        pages({"value": [], "nextLink": link}, {"value": [], "nextLink": link})


def test_what_cannot_be_read_is_asked_again_and_then_named() -> None:
    assert pages(b"{", {"value": [{"id": 3}]}) == [[{"id": 3}]]
    with pytest.raises(BrokenAnswerError, match=r"is not JSON \(text/html, 6 bytes\) \(request id id-7\)"):
        pages(b"<html>", b"<html>", b"<html>")
    with pytest.raises(BrokenAnswerError, match="has no list 'value'"):
        pages({"x": 1}, {"value": None}, {})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"code": "AuthorizationFailed", "message": "no right"}}, "403 AuthorizationFailed: no right"),
        ({"code": "OperationNotAllowed", "message": "slow\ndown"}, "403 OperationNotAllowed: slow down"),
        (
            {"error": {"code": "BadRequest", "details": [{"code": "InvalidQuery", "message": "q"}]}},
            "403 InvalidQuery: q",
        ),
        ({"error": "text"}, "403 Error: text"),
        ([], "403 Error: no explanation"),
        (b"", "403 Error: no explanation"),
    ],
)
def test_an_error_has_the_code_the_text_and_the_request_id(body: t.Any, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        pages((403, body))

    assert text in str(caught.value)
    assert "request id id-7" in str(caught.value)
    assert "api-version" not in str(caught.value)


def test_a_row_that_is_none_is_asked_for_again_and_the_others_stay() -> None:
    assert pages({"value": [{"id": 1}, None]}, {"value": [{"id": 1}, {"id": 2}]}) == [[{"id": 1}, {"id": 2}]]
    assert pages(*[{"value": [{"id": 1}, None]}] * 3) == [[{"id": 1}, None]]


@pytest.mark.parametrize(
    "echo", ["Authorization: Bearer top-secret-token", "x" * 480 + " top-secret-token", "top-secret-token"]
)
def test_a_token_that_a_proxy_echoes_is_hidden_before_the_text_is_cut(echo: str) -> None:
    redact = Redactor("top-secret-token")
    client = module.Client(Send((502, {"error": {"code": "top-secret-token", "message": echo}})), HOST, redact=redact)

    with pytest.raises(RequestError) as caught:
        client.get("/x", {})

    assert "top-sec" not in str(caught.value)
    assert "(hidden)" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijklmnop",
        "'Bearer': abcdefghijklmnop.q-r_s",
        "token eyJ0eXAiOiJKV1QiLCJhbGciOi.eyJhdWQiOiJodHRwczovL21hbmFnZW1lbnQ.x_y-z was refused",
        "client_id=app&client_secret=abcdefghijklmnop&grant_type=x",
        '{"access_token": "abcdefghijklmnop"}',
    ],
)
def test_what_looks_like_a_token_is_hidden_whoever_made_it(text: str) -> None:
    shown = Redactor()(text)

    assert "(hidden)" in shown
    assert not any(word in shown for word in ("abcdefgh", "eyJ0", "eyJh", "x_y-z"))


def test_a_secret_is_hidden_as_a_form_writes_it() -> None:
    assert Redactor("a/b+c d")("x=a%2Fb%2Bc%20d a/b+c d") == "x=(hidden) (hidden)"
    assert Redactor("", "ab")("ab ordinary bearer of news") == "ab ordinary bearer of news"


def test_a_refused_token_is_renewed_once() -> None:
    renewed: list[int] = []
    client = module.Client(Send((401, {}), {"a": 1}), HOST, renew=lambda: renewed.append(1))
    assert client.get("/x", {}) == {"a": 1}
    assert renewed == [1]

    with pytest.raises(RequestError) as caught:
        module.Client(Send((401, {}), (401, {})), HOST).get("/x", {})
    assert caught.value.is_refusal()


def test_a_redirect_is_an_error() -> None:
    with pytest.raises(RequestError, match="302"):
        pages((302, {}))


def test_clouds_by_name_and_by_address() -> None:
    def fetch(url: str) -> t.Any:
        return [{"resourceManager": "https://other"}, {"authentication": {"loginEndpoint": "https://login.test/"}}]

    assert module.find_cloud("azurechinacloud", fetch).authority == "https://login.chinacloudapi.cn"
    assert module.find_cloud("https://stack.test/", fetch) == (
        "https://stack.test/",
        "https://stack.test",
        "https://login.test",
    )
    with pytest.raises(ConfigError, match="AzureUSGovernment"):
        module.find_cloud("Mars", fetch)
    with pytest.raises(ConfigError, match="names no sign-in address"):
        module.find_cloud("https://stack.test", lambda url: {})


@pytest.mark.parametrize(("status", "refusal"), [(401, True), (403, True), (404, False), (429, False), (500, False)])
def test_only_a_lack_of_rights_is_a_refusal(status: int, refusal: bool) -> None:
    assert RequestError(status, "code", "text").is_refusal() == refusal


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that a client waits, which do not pass here."""
    found: list[float] = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


ASK: dict[str, t.Callable[[module.Client], t.Any]] = {
    "get": lambda client: client.get("/x", {}),
    "post": lambda client: client.post("/x", {}, {}),
    "exchange": lambda client: client.exchange("GET", f"{HOST}/x").body,
    "pages": lambda client: next(client.pages(LIST, {})),
}


@pytest.mark.parametrize("kind", ASK)
def test_each_request_waits_before_it_is_repeated(kind: str, pauses: list[float]) -> None:
    send = Send(b"<html>", b"<html>", {"value": [{"id": 1}]})

    assert ASK[kind](module.Client(send, HOST))
    assert pauses == pytest.approx([0.2, 0.4])


@pytest.mark.parametrize("kind", ASK)
def test_each_request_names_what_cannot_be_read(kind: str, pauses: list[float]) -> None:
    with pytest.raises(BrokenAnswerError, match=r"the answer is not JSON \(text/html, 6 bytes\)"):
        ASK[kind](module.Client(Send(b"<html>", b"<html>", b"<html>"), HOST))
    assert len(pauses) == 2


@pytest.mark.parametrize("kind", ASK)
def test_each_request_renews_a_token_once(kind: str, pauses: list[float]) -> None:
    renewed: list[int] = []
    refused = (401, {"error": {"code": "ExpiredAuthenticationToken", "message": "old"}})
    client = module.Client(Send(refused, refused), HOST, renew=lambda: renewed.append(1))

    with pytest.raises(RequestError, match="401 ExpiredAuthenticationToken"):
        ASK[kind](client)
    assert (renewed, pauses) == ([1], [])


@pytest.mark.parametrize(("method", "content"), [("PUT", b""), ("DELETE", b"<html>"), ("GET", b" ")])
def test_the_answer_to_a_write_may_be_empty(method: str, content: bytes, pauses: list[float]) -> None:
    assert module.Client(Send((202, content)), HOST).exchange(method, f"{HOST}/x") == (
        202,
        {"Content-Type": "text/html; x", "x-ms-request-id": "id-7"},
        {},
    )
    assert pauses == []
