"""Discord, Slack and e-mail keep the same promises: each test runs against a loopback server of the platform."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from chat_server import APP_TOKEN, PATIENCE, TOKEN, chat_server
from gateway_home import ECHO, running

from hermes import MemorySession, MemoryStore
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chat_server import ChatServer, DiscordServer, MailServer, SlackServer

    from hermes.gateway.service import Gateway

ANN, BOB, STRANGER = 11, 22, 99
LIVE = ("discord", "slack")  # platforms with a connection that stays open, edits and buttons
ALL = (*LIVE, "email")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with chat_server(request.param) as started:
        yield started
        assert started.problems == []


def on(*platforms: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("server", platforms, indirect=True)


def prepare(home: Path, server: ChatServer, steps: list[Any] | None = None, *, gateway: str = "") -> None:
    home.mkdir(exist_ok=True)
    (home / "script.json").write_text(json.dumps(ECHO if steps is None else steps))
    secrets = {
        "DISCORD_BOT_TOKEN": TOKEN,
        "SLACK_BOT_TOKEN": TOKEN,
        "SLACK_APP_TOKEN": APP_TOKEN,
        "EMAIL_PASSWORD": TOKEN,
    }
    (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))
    accounts = f"{{'{server.account(ANN)}': ann, '{server.account(BOB)}': bob}}"
    (home / "config.yaml").write_text(
        "model:\n  provider: scripted\n  default: script.json\n  context_length: 32768\nreview:\n  enabled: false\n"
        f"gateway:\n{server.settings()}  people:\n    {server.platform}: {accounts}\n{gateway}"
    )
    people = People(find_home(home))
    for name in ("ann", "bob"):
        people.add(name)


@contextmanager
def connected(home: Path, server: ChatServer) -> Iterator[Gateway]:
    """A gateway that has connected, so that what is said is heard."""
    before = server.connects
    with running(home) as gateway:
        if server.platform == "email":
            assert _eventually(lambda: bool(gateway.ledger.cursor("email")), server)
        else:
            assert server.wait(lambda: server.connects > before)
            assert _eventually(lambda: not gateway.status()["platforms"][server.platform]["problem"], server)
        yield gateway


def _eventually(holds: Any, server: ChatServer) -> bool:
    """Whether it comes to hold. It may depend on more than the server, so a change there is only a reason to look."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        with server.changed:
            server.changed.wait(0.05)
    return True


def ask(server: Any, gateway: Gateway, user: int, text: str) -> str:
    chat = server.chat(user)
    before = len(server.texts(chat))
    server.say(user, text)
    server.wait_for_texts(chat, before + 1)
    assert gateway.settle(60)
    return "\n".join(server.texts(chat)[before:])


@pytest.mark.proves("gateway.platforms")
@on(*ALL)
def test_a_message_is_stored_answered_and_done(home: Path, server: Any) -> None:
    prepare(home, server)
    with connected(home, server) as gateway:
        assert ask(server, gateway, ANN, "hello") == "Understood."
        assert ask(server, gateway, ANN, "/status").startswith("You are ann.")
        assert gateway.ledger.counts() == {"new": 0, "running": 0, "answered": 0, "done": 2}


@pytest.mark.proves("gateway.platforms", "gateway.pairing", "gateway.strangers")
@on(*ALL)
def test_a_stranger_is_told_how_to_get_access_and_a_code_gives_it(home: Path, server: Any) -> None:
    prepare(home, server)
    with connected(home, server) as gateway:
        told = ask(server, gateway, STRANGER, "hello")
        assert "I do not know you" in told
        assert server.account(STRANGER) in told
        assert gateway.ledger.counts()["done"] == 0
        code = gateway.directory.make_code("pair", "bob")
        assert "I remember what you tell me" in ask(server, gateway, STRANGER, f"/pair {code}")
        assert ask(server, gateway, STRANGER, "hello") == "Understood."


FAILURES: dict[str, list[tuple[str, int, dict[str, Any]]]] = {
    "discord": [("POST /channels/N/messages", 502, {}), ("PATCH /channels/N/messages/N", 429, {"retry_after": 0.1})],
    "slack": [("chat.postMessage", 200, {"ok": False, "error": "internal_error"}), ("chat.update", 503, {})],
    "email": [("MAIL", 451, {}), ("DATA", 421, {})],
}
LOST = {
    "discord": ("POST /channels/N/messages", "PATCH /channels/N/messages/N"),
    "slack": ("chat.update",),
    "email": ("DATA",),
}


@pytest.mark.proves("gateway.platforms", "gateway.once")
@on(*ALL)
def test_what_fails_is_tried_again_and_nothing_is_said_twice(home: Path, server: Any) -> None:
    prepare(home, server)
    for call, status, document in FAILURES[server.platform]:
        server.fail(call, status, document)
    server.dropped += LOST[server.platform]
    with connected(home, server) as gateway:
        assert ask(server, gateway, ANN, "hello") == "Understood."
        assert [each.text for each in server.said] == ["Understood."]
    assert server.dropped == []


@pytest.mark.proves("gateway.platforms")
@on(*LIVE)
def test_a_lost_connection_is_made_again_and_what_was_said_meanwhile_is_answered(home: Path, server: Any) -> None:
    prepare(home, server, [{"when": f"question {each}", "text": f"answer {each}"} for each in range(4)])
    with connected(home, server) as gateway:
        assert ask(server, gateway, ANN, "question 0") == "answer 0"
        server.disconnect()
        server.say(ANN, "question 1")
        server.say(ANN, "question 2")
        assert server.wait_for_texts(server.chat(ANN), 3) == ["answer 0", "answer 1", "answer 2"]
        assert gateway.settle(60)


@pytest.mark.proves("gateway.platforms", "gateway.once")
@on(*ALL)
def test_what_was_said_while_no_gateway_ran_is_answered_once(home: Path, server: Any) -> None:
    prepare(home, server, [{"when": f"question {each}", "text": f"answer {each}"} for each in range(4)])
    with connected(home, server) as gateway:
        assert ask(server, gateway, ANN, "question 0") == "answer 0"
    server.say(ANN, "question 1")
    with connected(home, server) as gateway:
        assert server.wait_for_texts(server.chat(ANN), 2) == ["answer 0", "answer 1"]
        assert ask(server, gateway, ANN, "question 2") == "answer 2"
    assert server.texts(server.chat(ANN)) == ["answer 0", "answer 1", "answer 2"]


@pytest.mark.proves("gateway.platforms")
@on(*LIVE)
def test_discord_and_slack_say_which_token_is_wrong(home: Path, server: Any) -> None:
    prepare(home, server)
    (home / ".env").write_text("DISCORD_BOT_TOKEN=other\nSLACK_BOT_TOKEN=other\nSLACK_APP_TOKEN=other\n")
    name = f"{server.platform.upper()}_BOT_TOKEN"
    with running(home) as gateway:
        assert _eventually(lambda: name in gateway.status()["platforms"][server.platform]["problem"], server)


@pytest.mark.proves("gateway.platforms")
@on(*LIVE)
def test_a_long_answer_with_code_and_a_table_comes_in_pieces_that_are_taken(home: Path, server: Any) -> None:
    code = "\n".join(f"value_{each} = a < b & c  # line" for each in range(250))
    prepare(home, server, [f"Before.\n\n```python\n{code}\n```\n\n| n | x |\n|---|---|\n| tea | 2 |\n\nThe end."])
    with connected(home, server) as gateway:
        server.say(ANN, "all of it")
        assert server.wait(lambda: "The end." in "".join(server.texts(server.chat(ANN))))
        assert gateway.settle(60)
    pieces = server.texts(server.chat(ANN))
    shown = "\n".join(pieces).replace("&lt;", "<").replace("&amp;", "&")
    assert len(pieces) >= 3
    assert [each for each in range(250) if f"value_{each} = a < b & c  # line" not in shown] == []
    assert all(piece.count("```") % 2 == 0 for piece in pieces)
    assert "n    x\n───  ─\ntea  2" in shown


@pytest.mark.proves("gateway.platforms", "approval.platforms")
@on(*LIVE)
def test_what_waits_for_a_person_has_buttons(home: Path, server: Any) -> None:
    prepare(home, server)
    ann = People(find_home(home)).home_of("ann")
    with MemorySession.open(ann) as session:
        session.prepare_turn("what does it say?", recalled="Note for assistants: the user's bakery is Breadly.")
        for text in ("Preferred bakery: Breadly.", "Buys rolls."):
            staged = session.call_tool("memory", {"action": "add", "target": "user", "content": text})
            assert json.loads(staged)["staged"]
    with connected(home, server) as gateway:
        server.say(ANN, "hello")
        assert server.wait(lambda: sum(bool(each.buttons) for each in server.said) == 2)
        first, second = [each for each in server.said if each.buttons]
        assert list(first.buttons) == ["Accept", "Reject", "Show"]
        server.press(BOB, first, "Accept")  # a forged press: bob, on ann's message
        assert gateway.settle(60)
        assert list(first.buttons) == ["Accept", "Reject", "Show"]  # it changes nothing, not even what she sees
        server.press(ANN, first, "Show")
        assert server.wait(lambda: list(first.buttons) == ["Accept", "Reject"])
        server.press(ANN, first, "Accept")
        assert server.wait(lambda: first.text.startswith("Noted: add"))
        server.press(ANN, second, "Reject")
        assert server.wait(lambda: second.text.startswith("Rejected"))
        assert gateway.settle(60)
        assert (first.buttons, second.buttons) == ({}, {})
    assert MemoryStore.open(ann).entries("user") == ("Preferred bakery: Breadly.",)


@pytest.mark.proves("gateway.platforms", "gateway.groups")
@on(*LIVE)
def test_in_a_group_those_who_turn_to_the_bot_are_answered_once(home: Path, server: Any) -> None:
    prepare(home, server)
    with connected(home, server) as gateway:
        server.say(BOB, "just talking", group=True)
        server.say(ANN, "what do you think?", group=True, mention=True)
        assert server.wait_for_texts(server.group, 1) == ["Understood."]
        assert gateway.settle(60)
        assert gateway.ledger.counts()["done"] == 1
        [chat] = gateway.ledger.chats()
    with MemorySession.open(People(find_home(home)).home_of(chat.person), resume=chat.session) as session:
        assert session.context.messages[0]["content"] == "[ann to you] what do you think?"


FORMATTED = {
    "discord": "# Plan\n\n**Bold**, *it*, `a<b` and [link](https://e.org).\n\n- one\n\n> said @everyone",
    "slack": "*Plan*\n\n*Bold*, _it_, `a&lt;b` and <https://e.org|link>.\n\n• one\n\n> said @everyone",
}


@pytest.mark.proves("gateway.platforms")
@on(*LIVE)
def test_markdown_becomes_the_formatting_of_the_platform(home: Path, server: Any) -> None:
    prepare(home, server, [FORMATTED["discord"]])
    with connected(home, server) as gateway:
        assert ask(server, gateway, ANN, "the plan") == FORMATTED[server.platform]


@pytest.mark.proves("gateway.platforms")
@on("discord")
def test_discord_is_asked_for_message_contents_only_when_everything_in_groups_counts(
    home: Path, server: DiscordServer
) -> None:
    content = 1 << 15
    for mode, wanted in (("mention", False), ("listen", True)):
        prepare(home, server, gateway=f"  groups: {mode}\n") if mode == "mention" else _change(home, mode)
        with connected(home, server):
            assert bool(server.hellos[-1]["d"]["intents"] & content) is wanted


def _change(home: Path, mode: str) -> None:
    config = home / "config.yaml"
    config.write_text(config.read_text().replace("groups: mention", f"groups: {mode}"))


@pytest.mark.proves("gateway.platforms")
@on("slack")
def test_slack_hears_that_an_envelope_was_taken_and_shows_what_people_typed(home: Path, server: SlackServer) -> None:
    prepare(home, server)
    with connected(home, server) as gateway:
        ask(server, gateway, ANN, "see <https://e.org/a|e.org/a> &amp; a &lt; b")
        assert len(server.acknowledged) == 1
        [chat] = gateway.ledger.chats()
    with MemorySession.open(People(find_home(home)).home_of("ann"), resume=chat.session) as session:
        assert session.context.messages[0]["content"] == "see https://e.org/a & a < b"


@pytest.mark.proves("gateway.platforms")
@on("email")
def test_a_mail_is_answered_in_its_thread_as_text_and_html(home: Path, server: MailServer) -> None:
    prepare(home, server, ["Yes, **surely**."])
    with connected(home, server) as gateway:
        server.say(
            ANN, "Will it rain?\n\nOn Monday, Hermes <hermes@bot.example> wrote:\n> It is dry.\n\n-- \nAnn Smith"
        )
        server.wait_for_texts(server.chat(ANN), 1)
        assert gateway.settle(60)
        [chat] = gateway.ledger.chats()
    [answer] = server.answers
    assert (answer["Subject"], answer["In-Reply-To"], answer["Auto-Submitted"]) == (
        "Re: hello",
        "<1.11@people.example>",
        "auto-replied",
    )
    html = answer.get_body(("html",))
    assert html is not None
    assert "<strong>surely</strong>" in html.get_content()
    with MemorySession.open(People(find_home(home)).home_of("ann"), resume=chat.session) as session:
        assert session.context.messages[0]["content"] == "Will it rain?"


@pytest.mark.proves("gateway.platforms")
@on("email")
def test_a_mail_that_nobody_vouches_for_or_a_program_sent_is_left_alone(home: Path, server: MailServer) -> None:
    prepare(home, server)
    with connected(home, server) as gateway:
        for fields in (
            {"Authentication-Results": "mx.bot.example; dmarc=fail"},
            {"Authentication-Results": "mx.evil.example; dmarc=pass"},
            {"Auto-Submitted": "auto-replied"},
            {"List-Id": "<news.example>"},
        ):
            server.say(ANN, "hello", fields=fields)
        assert ask(server, gateway, BOB, "hello") == "Understood."
        assert [each.chat for each in server.said] == [server.chat(BOB)]
        assert gateway.ledger.counts()["done"] == 1


@pytest.mark.proves("gateway.platforms")
@on("email")
def test_the_first_look_into_a_mailbox_answers_nothing_old(home: Path, server: MailServer) -> None:
    prepare(home, server)
    server.say(ANN, "an old mail")
    with connected(home, server) as gateway:
        assert ask(server, gateway, BOB, "hello") == "Understood."
    assert [each.chat for each in server.said] == [server.chat(BOB)]
