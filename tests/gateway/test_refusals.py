"""What the gateway answers when something does not go: wrong words, deleted conversations, a full disk."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from gateway_home import ANN, ask, prepare, running

from hermes.base.errors import SettingsError, StorageError
from hermes.conversations.database import SessionDB
from hermes.gateway.service import Gateway
from hermes.settings.home import find_home, person_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from telegram_server import BotApi

    from conftest import Ran

WEBHOOK = "  host: 127.0.0.1\n  webhook:\n    enabled: true\n    reply_url: http://127.0.0.1:9/reply\n"


@pytest.mark.proves("gateway.commands")
def test_commands_that_make_no_sense_here_say_what_would(home: Path, api: BotApi) -> None:
    prepare(home, api)
    with running(home) as gateway:
        assert "there is no conversation here yet" in ask(api, gateway, ANN, "/handover")
        assert "no other conversation to continue" in ask(api, gateway, ANN, "/continue")
        assert "/memory forget NUMBER" in ask(api, gateway, ANN, "/memory forget seven")
        assert "/forget me removes everything" in ask(api, gateway, ANN, "/forget it")
        assert "this code is wrong or has expired" in ask(api, gateway, ANN, "/forget me 123456")
        assert "already that of ann" in ask(api, gateway, ANN, "/pair 123456")


@pytest.mark.proves("gateway.once")
def test_a_conversation_that_was_deleted_elsewhere_begins_anew(
    home: Path, api: BotApi, hermes: Callable[..., Ran]
) -> None:
    prepare(home, api)
    with running(home) as gateway:
        assert ask(api, gateway, ANN, "hello") == "Understood."
    (session,) = hermes("--user", "ann", "sessions", "list", "--json").json
    assert hermes("--user", "ann", "sessions", "delete", session["session_id"], "--yes").code == 0
    with running(home) as gateway:
        assert ask(api, gateway, ANN, "hello again") == "Understood."
    listed = hermes("--user", "ann", "sessions", "list", "--json").json
    assert [each["message_count"] for each in listed] == [2]


@pytest.mark.proves("gateway.once")
def test_a_message_waits_until_it_can_be_answered(home: Path, api: BotApi, caplog: pytest.LogCaptureFixture) -> None:
    prepare(home, api)
    opened: list[int] = []

    def open_agent(*given: Any, **named: Any) -> Any:
        from hermes.agent import Agent

        opened.append(1)
        if len(opened) == 1:
            raise StorageError("the disk is full")
        return Agent.open(*given, **named)

    with running(home, open_agent=open_agent) as gateway:
        assert ask(api, gateway, ANN, "hello") == "Understood."
    assert len(opened) == 2
    assert "will be tried again: the disk is full" in caplog.text


@pytest.mark.proves("gateway.status")
def test_a_gateway_without_a_model_does_not_start(home: Path, api: BotApi, hermes: Callable[..., Ran]) -> None:
    prepare(home, api)
    hermes("config", "set", "model.provider", "auto")
    hermes("config", "set", "model.default", "")
    refused = hermes("gateway", "run")
    assert refused.code == 2
    assert refused.err.startswith("hermes: no model is chosen, and no local server answers")
    assert refused.err.endswith("(`hermes setup` chooses a model)\n")
    assert hermes("gateway", "status").out.startswith("not running")


@pytest.mark.proves("gateway.status")
def test_what_is_known_to_be_wrong_is_one_line_in_the_log(
    home: Path, api: BotApi, caplog: pytest.LogCaptureFixture
) -> None:
    prepare(home, api)

    def open_agent(*_: Any, **__: Any) -> Any:
        raise SettingsError("model.default names nobody; set another")

    with running(home, open_agent=open_agent) as gateway:
        assert "the operator has to look at it (message 1 in the log)" in ask(api, gateway, ANN, "hello")
    assert "message 1 could not be answered: model.default names nobody; set another" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.proves("gateway.status")
def test_a_port_that_is_taken_is_said_with_the_setting(home: Path, api: BotApi) -> None:
    prepare(home, api, gateway=WEBHOOK)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway = Gateway(find_home(home), port=taken.getsockname()[1])
        with pytest.raises(StorageError, match=r"cannot listen on 127\.0\.0\.1:\d+; choose another gateway\.port"):
            gateway.start()
        gateway.stop()


@pytest.mark.proves("gateway.status")
def test_people_and_codes_are_told_in_words(home: Path, api: BotApi, hermes: Callable[..., Ran]) -> None:
    prepare(home, api)
    assert "    /pair " in hermes("gateway", "pair", "ann").out
    listed = hermes("gateway", "people").out
    assert f"ann                   telegram   {ANN}  (by " in listed
    assert hermes("gateway", "status", "--json").json["running"] is False


@pytest.mark.proves("gateway.forget_me")
def test_the_owner_cannot_be_forgotten_from_a_chat(home: Path, api: BotApi) -> None:
    prepare(home, api)
    (home / "config.yaml").write_text((home / "config.yaml").read_text().replace("'22': bob", "'22': owner"))
    with running(home) as gateway:
        assert "you run this home, so it cannot be removed from a chat" in ask(api, gateway, 22, "/forget me")


@pytest.mark.proves("gateway.once")
def test_what_somebody_said_stays_theirs_while_another_is_answered(home: Path, api: BotApi) -> None:
    prepare(home, api)
    with running(home) as gateway:
        ask(api, gateway, ANN, "hello")
        gateway.conversations.close_person("ann")
        assert len(gateway.conversations) == 0
        assert ask(api, gateway, ANN, "hello again") == "Understood."
    with SessionDB.open(person_home(find_home(home), "ann").join("state.db")) as db:
        assert [each.message_count for each in db.list_sessions()] == [4]
