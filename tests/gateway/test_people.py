"""Many people in one gateway: who is known, what they can tell it, and that nothing of one reaches another."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from gateway_home import ANN, BOB, SECRET, STRANGER, ask, prepare, running

from hermes.conversations.database import SessionDB
from hermes.http_server import Protocol
from hermes.memory.store import MemoryStore
from hermes.settings.config import conversations_of
from hermes.settings.home import find_home, person_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from telegram_server import BotApi

    from conftest import Ran
    from hermes.gateway.service import Gateway


@pytest.mark.proves("gateway.strangers")
def test_a_stranger_gets_one_answer_and_leaves_nothing_behind(home: Path, api: BotApi) -> None:
    prepare(home, api)
    for each in range(3):
        api.say(STRANGER, f"my private words {each}")
    with running(home) as gateway:
        [told] = api.wait_for_texts(STRANGER, 1)
        api.say(ANN, "hello")
        api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
        assert len(api.texts(STRANGER)) == 1
    assert "hermes gateway pair" in told
    assert str(STRANGER) in told
    files = [file for file in home.rglob("*") if file.is_file()]
    assert not [file for file in files if b"my private words" in file.read_bytes()]


@pytest.mark.proves("gateway.pairing")
@pytest.mark.usefixtures("both_engines")
def test_a_code_makes_an_account_somebodys_once(home: Path, api: BotApi, hermes: Callable[..., Ran]) -> None:
    prepare(home, api)
    code = hermes("gateway", "pair", "ann", "--json").json["code"]
    with running(home) as gateway:
        assert "do not know you" in ask(api, gateway, STRANGER, "/pair wrong-code")
        assert "I remember" in ask(api, gateway, STRANGER, f"/pair {code}")
        assert ask(api, gateway, STRANGER, "hello") == "Understood."
        api.say(77, f"/start {code}")
        api.wait_for_texts(77, 1)
        assert "do not know you" in api.texts(77)[0]
    accounts = hermes("gateway", "people", "--json").json
    assert {"platform": "telegram", "account": str(STRANGER), "person": "ann", "by": "pairing"} in accounts
    assert hermes("gateway", "unpair", "telegram", str(STRANGER)).code == 0
    assert hermes("gateway", "unpair", "telegram", str(STRANGER)).code == 1
    assert hermes("gateway", "pair", "nobody").code == 1


@pytest.mark.proves("gateway.apart")
def test_two_people_never_see_each_others_memory(home: Path, api: BotApi) -> None:
    note = {"action": "add", "target": "user", "content": "Ann is allergic to walnuts."}
    steps: list[Any] = [
        {"when": "cannot eat", "calls": [{"name": "memory", "arguments": note}]},
        {"when": "search everything", "calls": [{"name": "session_search", "arguments": {"query": "walnuts"}}]},
        {"when": "", "text": "Done."},
    ]
    prepare(home, api, steps)
    with running(home) as gateway:
        assert ask(api, gateway, ANN, "I cannot eat walnuts").startswith("Done.")
        assert ask(api, gateway, BOB, "search everything") == "Done."
        assert "allergic" in ask(api, gateway, ANN, "/memory")
        assert "not noted anything" in ask(api, gateway, BOB, "/memory")
        assert "Forgotten" in ask(api, gateway, ANN, "/memory forget 1")
        assert "not noted anything" in ask(api, gateway, ANN, "/memory")
    ours = home / "users" / "ann"
    others = [file for file in home.rglob("*") if file.is_file() and ours not in file.parents]
    read = {file.name: file.read_bytes().lower() for file in others if file.name != "script.json"}
    assert "state.db" in read
    assert [name for name, data in read.items() if b"allergic" in data or b"cannot eat" in data] == []


@pytest.mark.proves("providers.mirror.elsewhere")
def test_what_a_person_has_forgotten_in_the_chat_waits_for_the_memory_provider(home: Path, api: BotApi) -> None:
    prepare(home, api, settings="memory:\n  provider: holographic\n")
    MemoryStore.open(person_home(find_home(home), "ann")).add("user", "Is allergic to walnuts.")
    with running(home) as gateway:
        assert "Forgotten" in ask(api, gateway, ANN, "/memory forget 1")
    (parcel,) = (home / "users" / "ann" / "outbox" / "holographic").glob("*.json")
    told = json.loads(parcel.read_text())["arguments"]
    assert (told["action"], told["metadata"]["old_text"]) == ("remove", "Is allergic to walnuts.")


@pytest.mark.proves("gateway.commands")
def test_a_person_can_begin_anew_ask_for_help_and_see_the_status(home: Path, api: BotApi) -> None:
    prepare(home, api)
    with running(home) as gateway:
        assert "no conversation here yet" in ask(api, gateway, ANN, "/status")
        ask(api, gateway, ANN, "hello")
        assert "2 messages" in ask(api, gateway, ANN, "/status")
        assert "A new conversation" in ask(api, gateway, ANN, "/new")
        ask(api, gateway, ANN, "hello again")
        assert "/forget me" in ask(api, gateway, ANN, "/help")
        assert "/memory forget" in ask(api, gateway, ANN, "/memory forget 7")
        told = "There is no command /unknown. /help lists what I understand."
        assert ask(api, gateway, ANN, "/unknown thing") == told
        assert "/Memry; did you mean /memory? /help lists" in ask(api, gateway, ANN, "/Memry forget 1")
        for text in ("/etc/hosts is empty, why?", "/tmp is full", "/ is full", "/24 is the mask"):
            assert ask(api, gateway, ANN, text) == "Understood."
        api.say(ANN, "", photo=[{"file_id": "x"}])
        assert api.wait(lambda: "I can only read text." in api.texts(ANN))
        assert gateway.settle(60)
    with SessionDB.open(str(home / "users" / "ann" / "state.db")) as database:
        sessions = database.list_sessions()
    assert [each.message_count for each in sessions] == [10, 2]
    assert [each.end_reason for each in sessions] == [None, "new"]


@pytest.mark.proves("gateway.commands")
def test_stop_ends_the_running_answer_and_what_waits_is_answered_in_order(home: Path, api: BotApi) -> None:
    endless = {"when": "forever", "text": "and on " * 2000, "pause": 0.01}
    prepare(home, api, [endless, {"when": "", "text": "Next."}], gateway="  stream_seconds: 0.05\n")
    with running(home) as gateway:
        api.say(ANN, "talk forever")
        assert api.wait(lambda: any("and on" in text for text in api.texts(ANN)))
        api.say(ANN, "and then?")
        api.say(ANN, "/stop")
        assert api.wait(lambda: "Next." in api.texts(ANN))
        assert gateway.settle(60)
        answers = api.texts(ANN)
    assert answers[0].endswith("(stopped)")
    assert len(answers[0]) < 4000
    assert any(text.startswith("I stop. 1 of your messages") for text in answers)


@pytest.mark.proves("gateway.commands")
def test_somebody_decides_in_the_chat_about_notes_that_wait(home: Path, api: BotApi) -> None:
    def note(content: str) -> dict[str, Any]:
        arguments = {"action": "add", "target": "user", "content": content}
        return {"when": content, "calls": [{"name": "memory", "arguments": arguments}]}

    steps = [note("I sail."), note("I ski."), {"when": "", "text": "Asked."}]
    prepare(home, api, steps, settings="memory:\n  write_approval: true\n")
    with running(home) as gateway:
        for said in ("I sail.", "I ski."):
            ask(api, gateway, ANN, said)
        listed = ask(api, gateway, ANN, "/memory")
        sail, ski = [line.partition(":")[0] for line in listed.splitlines() if ": add" in line]
        assert "because memory.write_approval is on" in listed
        assert "This waits" not in ask(api, gateway, BOB, "/memory")
        assert "say which one" in ask(api, gateway, BOB, f"/memory approve {sail}")
        assert ask(api, gateway, ANN, f"/memory approve {sail}") == "Noted: add 'I sail.'"
        assert ask(api, gateway, ANN, f"/memory reject {ski}") == "Rejected: add 'I ski.'"
        assert "say which one" in ask(api, gateway, ANN, f"/memory reject {ski}")
        assert "1. I sail." in (now := ask(api, gateway, ANN, "/memory"))
        assert "This waits" not in now


@pytest.mark.proves("gateway.forget_me")
@pytest.mark.usefixtures("both_engines")
def test_forget_me_asks_first_and_then_removes_everything(home: Path, api: BotApi) -> None:
    prepare(home, api)
    with running(home) as gateway:
        ask(api, gateway, BOB, "the secret of bob is a rare blue orchid")
        ask(api, gateway, ANN, "the secret of ann is a rare red orchid")
        asked = ask(api, gateway, ANN, "/forget me")
        assert "1 conversation with 2 messages" in asked
        assert "nothing was removed" in ask(api, gateway, BOB, f"/forget me {asked.split()[-1]}")
        assert "wrong or has expired" in ask(api, gateway, ANN, "/forget me abcdef")
        assert (home / "users" / "ann").exists()
        assert "Everything of yours is removed" in ask(api, gateway, ANN, f"/forget me {asked.split()[-1]}")
        assert "do not know you" in ask(api, gateway, ANN, "are you there?")
        files = [file for file in home.rglob("*") if file.is_file()]
        assert not [file for file in files if b"rare red orchid" in file.read_bytes()]
        assert not (home / "users" / "ann").exists()
        assert ask(api, gateway, BOB, "and me?") == "Understood."
    with SessionDB.open(**conversations_of(person_home(find_home(home), "bob"))) as database:
        assert [each.message_count for each in database.list_sessions()] == [4]


class Receiver:
    """Where the answers of the generic webhook go."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken: dict[str, dict[str, Any]] = {}
        self.attempts = 0
        self.refuse: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                expected = signed(body, self.headers["x-hermes-timestamp"])["x-hermes-signature"]
                assert self.headers["x-hermes-signature"] == expected
                with receiver.changed:
                    receiver.attempts += 1
                    document = json.loads(body)
                    status = receiver.refuse.pop() if receiver.refuse else 200
                    if status == 200:
                        receiver.taken[document["delivery"]] = document
                    receiver.changed.notify_all()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/answers"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def texts(self, count: int) -> list[str]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, 60)
            return [each["text"] for each in self.taken.values()]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def signed(body: bytes, stamp: str | None = None) -> dict[str, str]:
    at = stamp or str(int(time.time()))
    digest = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"x-hermes-timestamp": at, "x-hermes-signature": f"sha256={digest}"}


def post(gateway: Gateway, document: Any, headers: dict[str, str] | None = None) -> int:
    body = json.dumps(document).encode()
    assert gateway.webhooks is not None
    url = f"http://127.0.0.1:{gateway.webhooks.port}/webhook"
    given = signed(body) if headers is None else headers
    return httpx.post(url, content=body, headers=given, timeout=60, trust_env=False).status_code


@pytest.mark.proves("gateway.webhook")
def test_the_generic_webhook_takes_signed_messages_once_and_sends_signed_answers(
    home: Path, api: BotApi, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "hermes.gateway")
    prepare(home, api, gateway=f"  webhook:\n    enabled: true\n    reply_url: {receiver.url}\n")
    receiver.refuse = [503]
    message = {"id": "m1", "user": "u1", "chat": "room", "text": "hello"}
    with running(home, port=0) as gateway:
        assert gateway.webhooks is not None
        assert f"listening for webhooks at http://127.0.0.1:{gateway.webhooks.port}" in caplog.messages
        assert post(gateway, message, {}) == 401
        assert post(gateway, message, signed(b"another body")) == 401
        assert post(gateway, message, signed(json.dumps(message).encode(), "1000")) == 401
        assert post(gateway, {"id": "m1"}) == 400
        assert post(gateway, [1]) == 400
        assert post(gateway, {**message, "text": "x" * (1 << 20)}) == 413
        assert post(gateway, {**message, "more": [[]] * 50_000}) == 413
        assert [post(gateway, message) for _ in range(3)] == [202, 202, 202]
        assert receiver.texts(1) == ["Understood."]
        assert post(gateway, {**message, "id": "m2"}, {"authorization": f"Bearer {SECRET}"}) == 202
        assert receiver.texts(2) == ["Understood.", "Understood."]
        assert gateway.settle(60)
    assert receiver.attempts == 3
    assert list(receiver.taken) == ["m1.0", "m2.0"]


@pytest.mark.proves("gateway.webhook")
def test_clients_that_never_finish_a_request_do_not_block_the_webhook(
    home: Path, api: BotApi, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Protocol, "most_unfinished", 4)
    monkeypatch.setattr(Protocol, "grace_seconds", 0.0)
    prepare(home, api, gateway=f"  webhook:\n    enabled: true\n    reply_url: {receiver.url}\n")
    headers = b"POST /webhook HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with running(home, port=0) as gateway, ExitStack() as opened:
        assert gateway.webhooks is not None
        address = ("127.0.0.1", gateway.webhooks.port)
        clients = [opened.enter_context(socket.create_connection(address, timeout=60)) for _ in range(6)]
        for client, begun in zip(clients, [b"", b"", b"", b"", headers, headers + b"\r\nx"], strict=True):
            client.sendall(begun)
        assert post(gateway, {"id": "m1", "user": "u1", "text": "hello"}) == 202
        assert [client.recv(1) for client in clients[:2]] == [b"", b""]
        assert receiver.texts(1) == ["Understood."]


@pytest.mark.proves("gateway.hand_over")
@pytest.mark.usefixtures("both_engines")
def test_a_conversation_goes_on_on_another_platform_for_the_same_person_only(
    home: Path, api: BotApi, receiver: Receiver
) -> None:
    prepare(home, api, gateway=f"  webhook:\n    enabled: true\n    reply_url: {receiver.url}\n")
    with running(home, port=0) as gateway:
        ask(api, gateway, ANN, "let us plan the garden")
        code = ask(api, gateway, ANN, "/handover").split()[-1]
        post(gateway, {"id": "b1", "user": "u2", "text": f"/continue {code}"})
        assert "wrong or has expired" in receiver.texts(1)[0]
        code = ask(api, gateway, ANN, "/handover").split()[-1]
        post(gateway, {"id": "a1", "user": "u1", "text": f"/continue {code}"})
        assert "Continuing here" in receiver.texts(2)[1]
        post(gateway, {"id": "a2", "user": "u1", "text": "where were we?"})
        receiver.texts(3)
        ask(api, gateway, ANN, "something else")
        assert gateway.settle(60)
        ask(api, gateway, ANN, "/continue")
        ask(api, gateway, ANN, "back in the garden")
    with SessionDB.open(**conversations_of(person_home(find_home(home), "ann"))) as database:
        garden, other = sorted(database.list_sessions(), key=lambda each: -each.message_count)
        said = [each.message["content"] for each in database.messages(garden.id) if each.message["role"] == "user"]
    assert said == ["let us plan the garden", "where were we?", "back in the garden"]
    assert other.message_count == 2


@pytest.mark.proves("gateway.identity")
def test_providers_are_told_who_speaks_and_where(home: Path, api: BotApi) -> None:
    plugin = home / "plugins" / "watcher"
    prepare(home, api, settings="memory:\n  provider: watcher\n")
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(_WATCHER)
    with running(home) as gateway:
        ask(api, gateway, ANN, "hello")
    told = json.loads((home / "users" / "ann" / "told.json").read_text())
    assert told["platform"] == "telegram"
    assert (told["user_id"], told["chat_id"], told["chat_type"]) == ("ann", str(ANN), "dm")
    assert told["gateway_session_key"] == f"agent:main:telegram:dm:{ANN}:@ann"
    assert told["user_name"] == f"Person {ANN}"


_WATCHER = """
import json, os
from hermes.providers.base import MemoryProvider

class Watcher(MemoryProvider):
    name = "watcher"
    def is_available(self): return True
    def get_tool_schemas(self): return []
    def initialize(self, session_id, **kwargs):
        with open(os.path.join(kwargs["hermes_home"], "told.json"), "w") as file:
            json.dump({k: v for k, v in kwargs.items() if isinstance(v, str)}, file)

def register(ctx): ctx.register_memory_provider(Watcher())
"""


@pytest.mark.proves("gateway.apart")
def test_the_memory_of_a_person_is_the_one_other_surfaces_have(home: Path, api: BotApi) -> None:
    prepare(home, api)
    ann = MemoryStore.open(person_home(find_home(home), "ann"))
    ann.apply("user", [{"action": "add", "content": "Ann sings in a choir."}])
    with running(home) as gateway:
        assert "choir" in ask(api, gateway, ANN, "/memory")


@pytest.mark.proves("gateway.forget_me")
@pytest.mark.usefixtures("both_engines")
def test_somebody_who_is_forgotten_by_the_operator_is_a_stranger_to_the_gateway(
    home: Path, api: BotApi, hermes: Callable[..., Ran]
) -> None:
    prepare(home, api)
    code = hermes("gateway", "pair", "ann", "--json").json["code"]
    with running(home) as gateway:
        ask(api, gateway, STRANGER, f"/pair {code}")
        ask(api, gateway, STRANGER, "hello")
        assert hermes("users", "forget", "ann", "--yes").code == 0
        assert "do not know you" in ask(api, gateway, STRANGER, "hello again")
        gateway.conversations.close_finished(gateway.directory.knows)
        assert len(gateway.conversations) == 0
        ask(api, gateway, BOB, "hello")
        numbers = gateway.ledger.database.rows("SELECT id FROM inbox")
    assert numbers == [(3,)]  # no number of what was erased is given again
    accounts = hermes("gateway", "people", "--json").json
    assert [each for each in accounts if each["by"] == "pairing"] == []
