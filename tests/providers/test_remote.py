"""The way to memory services, against a server on loopback that answers what it is told."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest
from model_server import Answer, ModelServer, failing

from hermes.base.errors import ProviderError
from hermes.providers.http import Remote, misfit

KEY = "k-3f9a77e1c0b2"


def said(content: Any, status: int = 200, **headers: str) -> Answer:
    return failing(status, content, **headers)


def service(server: ModelServer, **more: Any) -> Remote:
    headers = {"Authorization": f"Token {KEY}"}
    return Remote("mem", server.url, **{"headers": headers, "secrets": [KEY], **more})


@pytest.mark.proves("providers.remote")
def test_a_call_sends_json_with_the_key_and_returns_json() -> None:
    with ModelServer(said({"results": [{"id": "1"}]})) as server:
        found = service(server).post("/search", {"query": "茶"}, expect={"results": [{"id": str}]})
        assert found == {"results": [{"id": "1"}]}
        assert server.received[0].json == {"query": "茶"}
        assert server.received[0].headers["authorization"] == f"Token {KEY}"


@pytest.mark.proves("providers.remote")
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "refused"), (401, "key"), (403, "key"), (404, "missing"), (422, "refused"), (429, "limited"), (500, "busy")],
)
def test_each_failure_is_one_kind_of_error_with_a_remedy(status: int, kind: str) -> None:
    with ModelServer(said({"detail": "why"}, status)) as server:
        with pytest.raises(ProviderError, match=f"mem answered {status}: why") as caught:
            service(server).post("/add", {})
        assert (caught.value.kind, caught.value.status) == (kind, status)
        assert "(" in str(caught.value)


@pytest.mark.proves("providers.remote")
def test_a_call_is_one_attempt_and_its_error_says_how_long_to_wait() -> None:
    with ModelServer(said({}, 429, retry_after="90"), said({"ok": 1})) as server:
        with pytest.raises(ProviderError, match="wait 90 s") as caught:
            service(server).post("/add", {})
        assert (caught.value.seconds, caught.value.passing) == (90, True)
        assert len(server.received) == 1


@pytest.mark.proves("providers.remote.secret")
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_no_error_shows_the_key(status: int) -> None:
    echoed = {"error": f"bad header Token {KEY} and sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"}
    with ModelServer(said(echoed, status)) as server:
        with pytest.raises(ProviderError) as caught:
            service(server).get("/x")
        assert KEY not in str(caught.value)
        assert "abcdefghijklmnopqrstuvwxyz" not in str(caught.value)


@pytest.mark.proves("providers.remote")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(content_type="text/html", pieces=[b"<html>hello</html>"]), "text/html instead of JSON"),
        (said([1]), "is list, not an object"),
        (said({"results": {}}), "results is dict, not a list"),
        (said({"results": [{"id": 3}]}), r"results\[0\].id is int"),
        (said({}), "has no results"),
        (Answer(content_type="application/json", pieces=[b"[" * 100_000]), "instead of JSON"),
    ],
)
def test_an_answer_of_another_shape_is_said_to_be_one(answer: Answer, problem: str) -> None:
    with ModelServer(answer) as server:
        with pytest.raises(ProviderError, match=problem) as caught:
            service(server).get("/x", expect={"results": [{"id": str}], "more?": int})
        assert caught.value.kind == ("astray" if "JSON" in problem else "malformed")


@pytest.mark.proves("providers.remote")
def test_a_page_where_no_answer_is_expected_is_none_either() -> None:
    page = Answer(content_type="text/html", pieces=[b" <!doctype html><p>Log in first"])
    with ModelServer(page) as server, pytest.raises(ProviderError, match="text/html instead of JSON"):
        service(server).delete("/x")


@pytest.mark.proves("providers.remote")
def test_a_shape_takes_unknown_keys_and_leaves_out_optional_ones() -> None:
    assert misfit({"a": str, "b?": int}, {"a": "x", "other": 1}) == ""
    assert misfit({"a": str, "b?": int}, {"a": "x", "b": True}) == "the answer.b is bool"
    assert misfit((str, int), 3) == ""
    assert misfit(None, object()) == ""


@pytest.mark.proves("providers.remote")
def test_an_empty_answer_is_fine_where_nothing_is_expected() -> None:
    with ModelServer(Answer(status=200, pieces=[]), Answer(content_type="text/plain", pieces=[b"deleted"])) as server:
        assert service(server).delete("/x") is None
        assert service(server).delete("/x") == "deleted"


@pytest.mark.proves("providers.remote")
def test_a_service_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ProviderError, match="cannot be reached at") as caught:
        Remote("mem", f"http://127.0.0.1:{port}").get("/x")
    assert caught.value.kind == "unreachable"


@pytest.mark.proves("providers.remote")
def test_silence_and_trickling_end_at_the_deadline() -> None:
    silent = threading.Event()
    with ModelServer(Answer(hold=silent), Answer(pieces=[b"{"], hold_end=silent)) as server:
        for _ in range(2):
            with pytest.raises(ProviderError, match=r"in time|slowly") as caught:
                service(server, timeout=0.2).get("/x")
            assert caught.value.kind == "slow"
        silent.set()


@pytest.mark.proves("providers.remote")
def test_an_endless_answer_is_cut() -> None:
    endless = Answer(content_type="application/json", pieces=[b'"' + b"x" * (17 << 20)])
    too_much = pytest.raises(ProviderError, match="more than 16,777,216 bytes")
    with ModelServer(endless) as server, too_much:
        service(server).get("/x")


@pytest.mark.proves("providers.remote")
def test_a_connection_that_breaks_is_an_error_that_may_pass() -> None:
    with ModelServer(Answer(content_type="application/json", pieces=[b"{"], cut=True)) as server:
        with pytest.raises(ProviderError, match="the connection broke") as caught:
            service(server).get("/x")
        assert caught.value.passing


@pytest.mark.proves("providers.remote")
def test_an_address_that_is_none_says_so() -> None:
    with pytest.raises(ProviderError) as caught:
        Remote("mem", "http://[").get("/x")
    assert caught.value.kind in ("absent", "unreachable")


@pytest.mark.proves("providers.remote")
def test_odd_text_and_files_can_be_sent() -> None:
    with ModelServer(said({}), said({})) as server:
        api = service(server)
        api.post("/x", {"text": "half \ud83d"}, params={"a": 1, "b": None})
        api.put("/x", {"a": 1})
        assert json.loads(server.received[0].body.replace(b"\\ud83d", b"?")) == {"text": "half ?"}
        assert server.received[0].path == "/x?a=1"
