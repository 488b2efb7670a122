"""Telegram through a loopback Bot API: polling and webhook, retries, limits, edits, long answers, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from gateway_home import ANN, BOB, STRANGER, prepare, running

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from pathlib import Path

    from telegram_server import BotApi


def called(api: BotApi, *methods: str) -> list[str]:
    return [name for name, _ in api.calls if name in methods]


@pytest.mark.proves("gateway.telegram_polling")
@pytest.mark.usefixtures("both_engines")
def test_a_message_is_answered_and_acknowledged_only_after_it_is_stored(home: Path, api: BotApi) -> None:
    prepare(home, api)
    number = api.say(ANN, "hello")
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["Understood."]
        assert api.wait(lambda: not api.updates)
        assert gateway.settle(60)
        assert gateway.ledger.cursor("telegram") == str(number)
        assert gateway.ledger.counts() == {"new": 0, "running": 0, "answered": 0, "done": 1}
    offsets = [fields.get("offset") for name, fields in api.calls if name == "getUpdates"]
    assert offsets[:2] == [None, number + 1]


@pytest.mark.proves("gateway.telegram_polling")
def test_messages_of_one_person_are_answered_in_their_order(home: Path, api: BotApi) -> None:
    prepare(home, api, [{"when": f"question {each}", "text": f"answer {each}"} for each in range(8)])
    for each in range(8):
        api.say(ANN, f"question {each}")
    with running(home):
        assert api.wait_for_texts(ANN, 8) == [f"answer {each}" for each in range(8)]


@pytest.mark.proves("gateway.telegram_retries")
@pytest.mark.parametrize("method", ["getMe", "getUpdates", "sendMessage", "editMessageText"])
def test_what_telegram_fails_at_is_tried_again_and_said_once(home: Path, api: BotApi, method: str) -> None:
    prepare(home, api)
    api.fail(method, 502, "Bad Gateway")
    api.say(ANN, "hello")
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["Understood."]
        assert gateway.settle(60)
        assert api.texts(ANN) == ["Understood."]


@pytest.mark.proves("gateway.telegram_retries")
def test_a_limit_of_telegram_is_waited_for_as_long_as_it_says(home: Path, api: BotApi) -> None:
    prepare(home, api)
    api.fail("editMessageText", 429, "Too Many Requests: retry after 1", retry_after=1)
    api.say(ANN, "hello")
    with running(home):
        assert api.wait_for_texts(ANN, 1) == ["Understood."]
    assert called(api, "sendMessage", "editMessageText") == ["sendMessage", "editMessageText", "editMessageText"]


@pytest.mark.proves("gateway.telegram_retries")
def test_somebody_who_blocked_the_bot_holds_nobody_up(home: Path, api: BotApi) -> None:
    prepare(home, api)
    api.fail("sendMessage", 403, "Forbidden: bot was blocked by the user")
    with running(home) as gateway:
        api.say(ANN, "hello")
        assert api.wait(lambda: "sendMessage" in called(api, "sendMessage"))
        assert gateway.settle(60)
        api.say(BOB, "hello")
        assert api.wait_for_texts(BOB, 1) == ["Understood."]
        rows = gateway.ledger.database.rows("SELECT outcome FROM inbox ORDER BY id")
    assert rows == [("undeliverable",), ("stop",)]


@pytest.mark.proves("gateway.telegram_edits")
def test_an_answer_grows_in_its_message_while_it_is_written(home: Path, api: BotApi) -> None:
    words = " ".join(f"word{each}" for each in range(30))
    prepare(home, api, [{"text": words, "pause": 0.02}], gateway="  stream_seconds: 0.05\n")
    api.say(ANN, "go")
    with running(home) as gateway:
        assert api.wait(lambda: words in api.texts(ANN))
        assert gateway.settle(60)
    [message] = api.sent
    assert len(message.texts) > 3
    assert message.texts[0] == "…"
    assert all(words.startswith(text) for text in message.texts[1:])
    assert "sendChatAction" in called(api, "sendChatAction")


@pytest.mark.proves("gateway.telegram_edits")
def test_a_draft_that_was_deleted_does_not_lose_the_answer(home: Path, api: BotApi) -> None:
    prepare(home, api)
    api.fail("editMessageText", 400, "Bad Request: message to edit not found")
    api.say(ANN, "hello")
    with running(home):
        assert api.wait_for_texts(ANN, 1) == ["Understood."]


@pytest.mark.proves("gateway.once")
@pytest.mark.parametrize("method", ["sendMessage", "editMessageText"])
def test_an_answer_whose_receipt_is_lost_is_not_given_twice(home: Path, api: BotApi, method: str) -> None:
    prepare(home, api)
    api.dropped.append(method)
    api.say(ANN, "hello")
    with running(home) as gateway:
        api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
    assert api.texts(ANN) == ["Understood."]
    assert api.dropped == []


@pytest.mark.proves("gateway.telegram_split")
def test_a_long_answer_comes_in_pieces_that_telegram_takes(home: Path, api: BotApi) -> None:
    long = "\n\n".join(f"Paragraph {each}: " + "😀é" * 400 for each in range(20))
    prepare(home, api, [long])
    api.say(ANN, "tell me everything")
    with running(home) as gateway:
        assert api.wait(lambda: "Paragraph 19" in "".join(api.texts(ANN)))
        assert gateway.settle(60)
    pieces = api.texts(ANN)
    assert len(pieces) >= 6
    assert "\n\n".join(pieces) == long
    assert api.problems == []


ANSWER = """# Plan & <costs>

**Bold**, *italic*, ~~gone~~, `a < b` and [a link](https://example.org/?a&b).

1. First
   - below
2. Second

| Name | Price |
|---|---:|
| tea | 2 |
| 日本語 | 1,000 |

```python
if a < b: print("&")
```

> quoted

- [relative](notes.md) <b>not bold</b>"""
FORMATTED = """<b>Plan &amp; &lt;costs&gt;</b>

<b>Bold</b>, <i>italic</i>, <s>gone</s>, <code>a &lt; b</code> and <a href="https://example.org/?a&amp;b">a link</a>.

1. First
   • below
2. Second

<pre>Name    Price
──────  ─────
tea     2
日本語  1,000</pre>

<pre><code class="language-python">if a &lt; b: print("&amp;")</code></pre>

<blockquote>quoted</blockquote>

• relative (notes.md) &lt;b&gt;not bold&lt;/b&gt;"""


@pytest.mark.proves("gateway.telegram_format")
def test_an_answer_in_markdown_is_formatted(home: Path, api: BotApi) -> None:
    prepare(home, api, [ANSWER])
    api.say(ANN, "the plan, please")
    with running(home) as gateway:
        (shown,) = api.wait_for_texts(ANN, 1)
        assert gateway.settle(60)
    assert api.sent[0].formatted[-1] == FORMATTED
    assert shown.startswith("Plan & <costs>\n\nBold, italic, gone, a < b and a link.")
    assert api.problems == []


@pytest.mark.proves("gateway.telegram_format")
def test_what_telegram_cannot_parse_is_sent_as_it_was_written(home: Path, api: BotApi) -> None:
    prepare(home, api, ["Some **bold** words."])
    api.fail("editMessageText", 400, "Bad Request: can't parse entities: Unsupported start tag")
    api.say(ANN, "hello")
    with running(home) as gateway:
        assert api.wait_for_texts(ANN, 1) == ["Some **bold** words."]
        assert gateway.settle(60)


@pytest.mark.proves("gateway.telegram_format", "gateway.telegram_split")
def test_a_long_answer_with_code_and_tables_is_formatted_in_every_piece(home: Path, api: BotApi) -> None:
    code = "\n".join(f"value_{each} = compute({each})  # a line of code" for each in range(150))
    table = "| n | text |\n|---|---|\n" + "\n".join(f"| {each} | x |" for each in range(40))
    wide = "| n | text |\n|---|---|\n" + "\n".join(
        f"| {each} | {'y' * (50 if each == 0 else 1)} |" for each in range(99)
    )
    prepare(home, api, [f"Before **it**.\n\n```python\n{code}\n```\n\nBetween.\n\n{table}\n\n{wide}\n\nThe end."])
    api.say(ANN, "all of it")
    with running(home) as gateway:
        assert api.wait(lambda: "The end." in "".join(api.texts(ANN)))
        assert gateway.settle(60)
    everything = "\n".join(api.texts(ANN))
    assert [each for each in range(150) if f"value_{each} = compute({each})  # a line of code" not in everything] == []
    inside = [each.formatted[-1] for each in api.sent if "value_" in each.formatted[-1]]
    assert len(inside) >= 2
    assert all('<pre><code class="language-python">value_' in piece for piece in inside)
    assert "```" not in everything
    assert api.problems == []


@pytest.mark.proves("gateway.telegram_webhook")
def test_by_webhook_an_update_is_taken_once_and_only_with_the_secret(home: Path, api: BotApi) -> None:
    prepare(home, api, telegram="    mode: webhook\n    webhook_url: http://127.0.0.1:1/telegram\n")
    with running(home, port=0) as gateway:
        assert api.wait(lambda: bool(api.webhook))
        assert gateway.webhooks is not None
        api.webhook["url"] = f"http://127.0.0.1:{gateway.webhooks.port}/telegram"
        api.say(ANN, "hello")
        update = api.updates.popleft()
        assert api.push(update, secret="wrong") == 401
        assert api.push({"message": {}}) == 400
        assert [api.push(update) for _ in range(3)] == [200, 200, 200]
        assert api.wait_for_texts(ANN, 1) == ["Understood."]
        assert gateway.settle(60)
        assert api.texts(ANN) == ["Understood."]
    assert called(api, "getUpdates") == []


@pytest.mark.proves("gateway.groups")
def test_in_a_group_only_those_who_turn_to_the_bot_are_answered(home: Path, api: BotApi) -> None:
    prepare(home, api, [{"when": "", "text": "Here."}])
    group = -500
    api.say(ANN, "just talking", chat=group)
    api.say(STRANGER, "also talking", chat=group)
    api.say(ANN, "@hermes_bot what do you think?", chat=group)
    api.say(BOB, "and me?", chat=group, reply_to_message={"from": {"id": 999}})
    api.say(ANN, "/help@Hermes_bot", chat=group)
    with running(home) as gateway:
        assert api.wait_for_texts(group, 3)
        assert gateway.settle(60)
        answers = api.texts(group)
        keys = {chat.key for chat in gateway.ledger.chats()}
    assert sorted(answers)[:2] == ["Here.", "Here."]
    assert len(answers) == 3
    [key] = keys
    assert key.startswith(f"agent:main:telegram:group:{group}:@group-telegram-")
    assert all("reply_parameters" in each.fields for each in api.sent)


@pytest.mark.proves("gateway.groups", "gateway.once")
def test_each_topic_of_a_group_is_a_conversation_of_its_own_and_answered_there(home: Path, api: BotApi) -> None:
    prepare(home, api, gateway="  open_conversations: 1\n")
    group = -500
    with running(home) as gateway:
        for number, topic in enumerate((7, 8, 7)):
            api.say(ANN, "@hermes_bot hello", chat=group, is_topic_message=True, message_thread_id=topic)
            assert api.wait_for_texts(group, number + 1)
            assert gateway.settle(60)
        keys = {chat.key for chat in gateway.ledger.chats()}
        assert len(gateway.conversations) == 1
    assert [each.fields["message_thread_id"] for each in api.sent] == [7, 8, 7]
    [name] = {key.rpartition("@")[2] for key in keys}
    assert keys == {f"agent:main:telegram:group:{group}:{topic}:@{name}" for topic in (7, 8)}
    with SessionDB.open(str(home / "users" / name / "state.db")) as database:
        assert sorted(each.message_count for each in database.list_sessions()) == [2, 4]


@pytest.mark.proves("gateway.groups")
@pytest.mark.parametrize(("mode", "answers"), [("all", ["Here."]), ("off", [])])
def test_a_group_can_be_answered_always_or_never(home: Path, api: BotApi, mode: str, answers: list[str]) -> None:
    prepare(home, api, [{"when": "", "text": "Here."}], gateway=f"  groups: {mode}\n")
    group = -500
    api.say(STRANGER, "talking to friends", chat=group)
    api.say(ANN, "talking to friends", chat=group)
    api.say(BOB, "hello")
    with running(home) as gateway:
        api.wait_for_texts(BOB, 1)
        api.wait_for_texts(group, len(answers))
        assert gateway.settle(60)
    assert api.texts(group) == answers


@pytest.mark.proves("gateway.groups")
def test_what_is_private_is_not_shown_to_a_group(home: Path, api: BotApi) -> None:
    prepare(home, api)
    group = -500
    for command in ("/continue", "/handover", "/forget me"):
        api.say(ANN, f"{command.split()[0]}@hermes_bot {command.partition(' ')[2]}", chat=group)
    with running(home) as gateway:
        answers = api.wait_for_texts(group, 3)
        assert gateway.settle(60)
    assert {answer.partition(";")[0] for answer in answers} == {"That is about you, and everybody here would read it"}


@pytest.mark.proves("gateway.telegram_polling")
def test_an_update_that_makes_no_sense_stops_nobody(home: Path, api: BotApi) -> None:
    prepare(home, api)
    api.say(ANN, "hello", message_thread_id=None, is_topic_message=True, entities="?")
    api.updates.append({"update_id": 5000, "message": {"from": 7, "chat": []}})
    api.updates.append({"update_id": 5001, "edited_message": {"text": "x"}})
    api._update = 6000
    api.say(BOB, "hello")
    with running(home) as gateway:
        assert api.wait_for_texts(BOB, 1) == ["Understood."]
        assert gateway.settle(60)
        assert gateway.ledger.cursor("telegram") == "6001"
