"""What can go wrong between us and a model, and what is done about it."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from model_server import Answer, ModelServer, chat, failing, sse

from hermes.base.errors import (
    ContextTooLong,
    Interrupted,
    ModelBusy,
    ModelRefused,
    ModelUnreachable,
    RateLimited,
    SettingsError,
    WrongKey,
)
from hermes.base.events import Finished, Retrying, TextDelta
from hermes.llm.client import Endpoint, Fallback, Retries, failure, limit_in, retry_after
from hermes.llm.openai import OpenAICompatible
from hermes.llm.scripted import Scripted

if TYPE_CHECKING:
    from hermes.base.errors import ModelError
    from hermes.base.events import ModelEvent

ASK = [{"role": "user", "content": "hello"}]
HERE = Endpoint(model="m", base_url="http://x/v1", provider="openai", key="k", key_name="OPENAI_API_KEY")
OK = Answer(pieces=[chat({"content": "hi"})])


class Waiting:
    """A retries that notes its waits instead of sleeping."""

    def __init__(self, attempts: int = 4) -> None:
        self.slept = 0.0
        self.retries = Retries(attempts=attempts, sleep=self._sleep, chance=lambda: 0.0)

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds


def model(server: ModelServer, retries: Retries | None = None, **given: Any) -> OpenAICompatible:
    endpoint = Endpoint(model="m", base_url=f"{server.url}/v1", provider="openai", key="k", **given)
    return OpenAICompatible(endpoint, retries or Retries(attempts=1))


@pytest.mark.proves("llm.errors")
@pytest.mark.parametrize(
    ("status", "content", "kind", "says"),
    [
        (400, {"error": {"message": "bad field"}}, ModelRefused, "answered 400: bad field"),
        (400, {"error": {"message": "API key not valid"}}, WrongKey, "check OPENAI_API_KEY"),
        (401, {"error": {"message": "no"}}, WrongKey, "check OPENAI_API_KEY in .env or the environment"),
        (402, {"error": {"message": "Insufficient credits"}}, ModelRefused, "add credit"),
        (403, {"error": {"message": "not allowed"}}, WrongKey, "answered 403"),
        (404, {"error": {"message": "no such model"}}, ModelRefused, "check the name of the model and the address"),
        (408, {}, ModelBusy, "try again"),
        (409, {"detail": "conflict"}, ModelBusy, "conflict"),
        (413, {"error": {"type": "request_too_large", "message": "big"}}, ContextTooLong, "compact it"),
        (422, {"detail": [{"msg": "x"}]}, ModelRefused, "not accepted"),
        (429, {"error": {"message": "slow down"}}, RateLimited, "does not say how long"),
        (429, {"error": {"code": "insufficient_quota", "message": "quota"}}, ModelRefused, "add credit"),
        (500, {"error": "plain text"}, ModelBusy, "plain text"),
        (503, b"<html><h1>Bad   Gateway</h1></html>", ModelBusy, "answered 503: Bad Gateway"),
        (
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            ModelBusy,
            "Overloaded",
        ),
        (301, b"", ModelRefused, "an empty body"),
    ],
)
def test_each_status_becomes_the_error_somebody_can_act_on(
    status: int, content: Any, kind: type[ModelError], says: str
) -> None:
    with ModelServer(failing(status, content)) as server, pytest.raises(kind) as raised:
        list(OpenAICompatible(replace(HERE, base_url=server.url), Retries(attempts=1)).stream("", ASK))
    assert type(raised.value) is kind
    assert raised.value.status == status
    assert says in str(raised.value)


@pytest.mark.proves("llm.errors")
@pytest.mark.parametrize(
    ("said", "limit"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease", 200_000),
        ("This model's maximum context length is 128000 tokens. However, you sent 130001 tokens.", 128_000),
        ("This endpoint's maximum context length is 131,072 tokens. You requested about 140000", 131_072),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096),
        ("the model is loaded with context length of only 4096 tokens, which is not enough", 4_096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
        ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072),
        ("Input is too long for requested model.", None),
        ("Please reduce the length of the messages or completion.", None),
        ("Your input exceeds the context window of this model.", None),
    ],
)
def test_a_conversation_that_does_not_fit_is_recognised_with_its_limit(said: str, limit: int | None) -> None:
    body = b'{"error": {"message": "%s"}}' % said.encode()
    error = failure(HERE, 400, {}, body, 0)
    assert isinstance(error, ContextTooLong)
    assert (error.limit, limit_in(said)) == (limit, limit)


@pytest.mark.proves("llm.errors")
def test_the_limit_is_taken_from_the_field_where_there_is_one_and_other_refusals_are_no_length() -> None:
    body = b'{"error": {"message": "context size", "type": "exceed_context_size_error", "n_ctx": 512}}'
    error = failure(HERE, 400, {}, body, 0)
    assert isinstance(error, ContextTooLong)
    assert error.limit == 512
    answer = b'{"error": {"message": "max_tokens is too large: 99999. It supports at most 16384 completion tokens"}}'
    assert type(failure(HERE, 400, {}, answer, 0)) is ModelRefused


@pytest.mark.proves("llm.errors")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, ModelBusy),
        ({"error": {"code": 429, "message": "x"}}, RateLimited),
        ({"error": {"type": "authentication_error", "message": "x"}}, WrongKey),
        ({"error": {"type": "invalid_request_error", "message": "prompt is too long"}}, ContextTooLong),
        ({"error": "went wrong"}, ModelBusy),
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_sorted_like_any_other(content: Any, kind: type[ModelError]) -> None:
    started = sse({"choices": [{"delta": {"content": "hal"}}]}, content)
    with ModelServer(Answer(pieces=[started])) as server, pytest.raises(kind) as raised:
        list(model(server).stream("", ASK))
    assert type(raised.value) is kind


@pytest.mark.proves("llm.errors")
def test_a_key_that_a_provider_repeats_is_not_shown() -> None:
    endpoint = replace(HERE, key="sk-very-secret")
    said = str(failure(endpoint, 401, {}, b'{"error": {"message": "wrong key: sk-very-secret"}}', 0))
    assert "wrong key: [key]" in said
    assert "secret" not in said


@pytest.mark.proves("llm.retry")
def test_passing_errors_are_retried_with_growing_waits_and_the_answer_comes() -> None:
    waiting = Waiting()
    with ModelServer(failing(500, {}), failing(529, {}), OK) as server:
        events = list(model(server, waiting.retries).stream("", ASK))
        assert len({each.body for each in server.received}) == 1
    retries = [each for each in events if isinstance(each, Retrying)]
    assert [(type(each.error), each.seconds) for each in retries] == [(ModelBusy, 1.0), (ModelBusy, 2.0)]
    assert waiting.slept == pytest.approx(3.0)
    assert isinstance(events[-1], Finished)


@pytest.mark.proves("llm.retry")
def test_retries_are_bounded_and_lasting_errors_are_not_retried() -> None:
    waiting = Waiting(attempts=3)
    with ModelServer(*[failing(503, {})] * 5) as server:
        with pytest.raises(ModelBusy):
            list(model(server, waiting.retries).stream("", ASK))
        assert len(server.received) == 3
    with ModelServer(failing(401, {}), OK) as server:
        with pytest.raises(WrongKey):
            list(model(server, waiting.retries).stream("", ASK))
        assert len(server.received) == 1


@pytest.mark.proves("llm.retry")
def test_the_wait_a_provider_names_is_kept_and_one_that_is_too_long_ends_it() -> None:
    waiting = Waiting()
    with ModelServer(failing(429, {}, retry_after="7"), failing(503, {}, retry_after_ms="250"), OK) as server:
        list(model(server, waiting.retries).stream("", ASK))
    assert waiting.slept == pytest.approx(7.25)
    with ModelServer(failing(429, {}, retry_after="3600"), OK) as server:
        with pytest.raises(RateLimited, match="it asks to wait 3600 s") as raised:
            list(model(server, waiting.retries).stream("", ASK))
        assert len(server.received) == 1
    assert raised.value.seconds == 3600


@pytest.mark.proves("llm.retry")
def test_a_wait_may_be_a_number_or_a_date() -> None:
    now = 1_800_000_000.0
    assert retry_after({"retry-after": formatdate(now + 30, usegmt=True)}, now) == 30
    assert retry_after({"retry-after": formatdate(now - 30, usegmt=True)}, now) == 0
    assert retry_after({"retry-after": "1.5"}, now) == 1.5
    assert retry_after({"retry-after": "soon"}, now) is None
    assert retry_after({"retry-after": "\u00b2"}, now) is None
    assert retry_after({}, now) is None


@pytest.mark.proves("llm.retry", "llm.stream")
def test_a_connection_cut_in_the_middle_starts_over_and_says_that_the_text_so_far_is_void() -> None:
    half = Answer(pieces=[sse({"choices": [{"delta": {"content": "hal"}}]}, done=False)], cut=True)
    with ModelServer(half, OK) as server:
        events = list(model(server, Waiting().retries).stream("", ASK))
    kinds = [type(each) for each in events]
    assert kinds == [TextDelta, Retrying, TextDelta, Finished]
    assert isinstance(events[1], Retrying)
    assert isinstance(events[1].error, ModelUnreachable)


@pytest.mark.proves("llm.errors")
def test_nothing_listening_and_an_impossible_address_say_what_to_check() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    gone = OpenAICompatible(replace(HERE, base_url=address), Retries(attempts=1))
    with pytest.raises(ModelUnreachable, match="is the server running"):
        list(gone.stream("", ASK))
    for address in ("nonsense", "ftp://example.com", "http://example.com:port"):
        with pytest.raises(ModelRefused, match=r"set model\.base_url"):
            list(OpenAICompatible(replace(HERE, base_url=address)).stream("", ASK))


@pytest.mark.proves("llm.stream")
def test_a_slow_first_byte_is_waited_for_and_a_silent_server_is_given_up() -> None:
    hold = threading.Event()
    threading.Timer(0.3, hold.set).start()  # longer than the pieces in which the client waits
    with ModelServer(Answer(pieces=OK.pieces, hold=hold)) as server:
        assert isinstance(list(model(server).stream("", ASK))[-1], Finished)
    silent = threading.Event()
    with ModelServer(Answer(pieces=OK.pieces, hold=silent)) as server:
        with pytest.raises(ModelUnreachable, match=r"sent nothing for 0\.2 s"):
            list(model(server, timeout=0.2).stream("", ASK))
        silent.set()


@pytest.mark.proves("llm.interrupt")
@pytest.mark.parametrize("moment", ["before the first byte", "in the middle"])
def test_stopping_from_another_thread_ends_the_wait_at_once(moment: str) -> None:
    never, stop = threading.Event(), threading.Event()
    begun = sse({"choices": [{"delta": {"content": "hal"}}]}, done=False)
    answer = Answer(hold=never) if moment == "before the first byte" else Answer(pieces=[begun], hold_end=never)
    events: list[ModelEvent] = []
    with ModelServer(answer, OK) as server:
        threading.Timer(0.2, stop.set).start()
        with pytest.raises(Interrupted):
            events.extend(model(server, Waiting().retries).stream("", ASK, cancelled=stop.is_set))
        never.set()
        assert isinstance(list(model(server).stream("", ASK))[-1], Finished)


@pytest.mark.proves("llm.interrupt")
def test_stopping_ends_an_answer_that_goes_on_coming() -> None:
    words = [sse({"choices": [{"delta": {"content": "word "}}]}, done=False) for _ in range(50)]
    heard: list[ModelEvent] = []

    def listen() -> None:
        for event in model(server).stream("", ASK, cancelled=lambda: len(heard) >= 3):
            heard.append(event)  # noqa: PERF402 - it is looked at while it grows

    # On a busy machine the next piece may be waited for when it is noticed.
    stopped = "while (the model was answering|waiting for the model)"
    with ModelServer(Answer(pieces=words)) as server, pytest.raises(Interrupted, match=stopped):
        listen()
    assert len(heard) == 3


@pytest.mark.proves("llm.errors")
def test_an_error_page_of_any_length_is_read_only_so_far() -> None:
    page = Answer(status=503, content_type="text/html", pieces=[b"<p>sorry</p>" * 5_000] * 40)
    with ModelServer(page) as server, pytest.raises(ModelBusy) as refused:
        list(model(server, Retries(attempts=1)).stream("", ASK))
    assert len(str(refused.value)) < 1_000


@pytest.mark.proves("llm.interrupt")
def test_stopping_ends_a_wait_between_two_attempts_and_before_the_first() -> None:
    slept: list[float] = []
    with ModelServer(failing(429, {}, retry_after="60")) as server:
        patient = model(server, Retries(sleep=slept.append))
        with pytest.raises(Interrupted, match="waiting to ask"):
            list(patient.stream("", ASK, cancelled=lambda: len(slept) >= 3))
        with pytest.raises(Interrupted, match="before the model was asked"):
            list(patient.stream("", ASK, cancelled=lambda: True))
        assert len(server.received) == 1


@pytest.mark.proves("llm.interrupt")
def test_closing_the_iterator_closes_the_connection() -> None:
    open_end = threading.Event()
    begun = sse({"choices": [{"delta": {"content": "hal"}}]}, done=False)
    with ModelServer(Answer(pieces=[begun], hold_end=open_end), OK) as server:
        events = model(server).stream("", ASK)
        assert next(events) == TextDelta(text="hal")
        events.close()  # type: ignore[attr-defined]  # every model's stream is a generator
        open_end.set()
        list(model(server).stream("", ASK))
        first, second = (each.client for each in server.received)
    assert first != second


@pytest.mark.proves("llm.one-client")
def test_one_kept_connection_serves_one_request_after_the_other() -> None:
    with ModelServer(OK, OK, OK) as server:
        for _ in range(3):
            list(model(server).stream("", ASK))
        assert len({each.client for each in server.received}) == 1


@pytest.mark.proves("llm.one-client")
def test_of_several_kept_connections_the_newest_serves_next_and_a_closed_one_is_replaced() -> None:
    hold = threading.Event()
    with ModelServer(Answer(pieces=OK.pieces, hold=hold), OK, OK, Answer(pieces=OK.pieces, cut=True), OK) as server:
        slow = threading.Thread(target=lambda: list(model(server).stream("", ASK)))
        slow.start()
        while not server.received:
            threading.Event().wait(0.01)
        list(model(server).stream("", ASK))
        hold.set()
        slow.join()
        list(model(server).stream("", ASK))
        first, second, third = (each.client for each in server.received)
        assert (third, second == first) == (first, False)
        for _ in range(2):  # the first of these answers ends with the connection
            list(model(server).stream("", ASK))
        assert server.received[-1].client != first


@pytest.mark.proves("llm.one-client")
def test_an_address_may_contain_a_name_and_a_password() -> None:
    with ModelServer(OK) as server:
        address = f"{server.url.replace('//', '//ann:p%40ss@')}/v1"
        list(OpenAICompatible(Endpoint(model="m", base_url=address), Retries(attempts=1)).stream("", ASK))
        headers = server.received[0].headers
        assert (headers["authorization"], headers["host"]) == ("Basic YW5uOnBAc3M=", server.url.removeprefix("http://"))


@pytest.mark.proves("llm.one-client", "llm.stream")
def test_a_server_that_does_not_end_after_its_answer_holds_nobody_up() -> None:
    never = threading.Event()
    with ModelServer(Answer(pieces=OK.pieces, hold_end=never)) as server:
        events = model(server).stream("", ASK)
        assert [type(next(events)) for _ in range(2)] == [TextDelta, Finished]
        assert list(events) == []
        never.set()


@pytest.mark.proves("llm.one-client")
def test_the_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes.llm.transport import _client

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer(OK, OK, OK, OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with _client.__wrapped__(0) as client:
            client.get("http://model.invalid/v1")
            client.get(f"{proxy.url}/direct")
        monkeypatch.setenv("NO_PROXY", "localhost, .invalid")
        with _client.__wrapped__(0) as client, pytest.raises(httpx.ConnectError):
            client.get("http://model.invalid/v1")
        assert [each.path for each in proxy.received] == ["http://model.invalid/v1", "/direct"]
    monkeypatch.setenv("HTTP_PROXY", "nonsense://x")
    with pytest.raises(SettingsError, match="the proxy 'nonsense://x' of the environment cannot be used"):
        _client.__wrapped__(0)


@pytest.mark.proves("llm.fallback")
def test_the_fallback_answers_when_the_first_model_cannot_and_a_long_conversation_is_not_passed_on() -> None:
    broken, spare = Scripted([WrongKey("no key"), ContextTooLong("long")], name="first"), Scripted(["hi"], name="spare")
    both = Fallback([broken, spare])
    events = list(both.stream("", ASK))
    assert isinstance(events[0], Retrying)
    assert (events[0].model, str(events[0].error)) == ("spare", "no key")
    assert isinstance(events[-1], Finished)
    assert events[-1].model == "spare"
    with pytest.raises(ContextTooLong):
        list(both.stream("", ASK))
    assert (both.name, both.context_length) == ("first", 32_768)


@pytest.mark.proves("llm.fallback")
def test_when_the_last_fallback_fails_too_its_error_is_the_one_that_counts() -> None:
    both = Fallback([Scripted([ModelBusy("a")]), Scripted([ModelRefused("b")])])
    with pytest.raises(ModelRefused, match="b"):
        list(both.stream("", ASK))
