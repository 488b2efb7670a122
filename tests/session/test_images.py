"""Images in what a person says: sent on both wires, stored once, replayed, described where nobody looks."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import anthropic.types
import apsw
import openai.types.chat
import pytest
from agents import configure
from compacted import configure as with_small_window
from compacted import talk
from model_server import Answer, ModelServer, chat, claude, failing
from pictures import GIF, WEBP, as_claude, as_openai, jpeg, png, text, url
from pydantic import TypeAdapter

from hermes import Agent, MemorySession, SessionDB, image_part
from hermes.base.errors import ImageRefused
from hermes.base.events import Compacted, Retrying
from hermes.llm.scripted import Reply, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

PICTURE, OTHER = png(), png(shade=200)
SHOWN = "[image: PNG, 30×20, 688 bytes]"  # noqa: RUF001 - as people write it
FINE = Answer(pieces=[chat({"content": "A chart."})])


def names(home: Path) -> list[str]:
    return sorted(os.listdir(home / "images")) if (home / "images").exists() else []


def name_of(data: bytes, kind: str = "png") -> str:
    return f"{hashlib.sha256(data).hexdigest()}.{kind}"


def sent(server: ModelServer) -> Any:
    return server.received[-1].json["messages"]


@pytest.mark.proves("images.sent", "images.stored")
def test_an_image_reaches_an_openai_server_and_goes_out_again_the_same_after_a_resume(home: Path) -> None:
    with ModelServer(*[FINE] * 3) as server:
        configure(home, f"model: {{default: m, base_url: '{server.url}'}}\n")
        with Agent.open(home, title="chart") as agent:
            list(
                agent.turn(
                    [text("What is this?"), as_openai(PICTURE, detail="low"), text("And this?"), as_claude(OTHER)]
                )
            )
            list(agent.turn("And the axis?"))
        with Agent.open(home, resume="chart") as agent:
            list(agent.turn("Thanks."))
        first, second, third = (each.json["messages"] for each in server.received)
    image = {"url": url(PICTURE), "detail": "low"}
    assert first[1]["content"] == [
        text("What is this?"),
        {"type": "image_url", "image_url": image},
        text("And this?"),
        as_openai(OTHER),
    ]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert names(home) == sorted([name_of(PICTURE), name_of(OTHER)])
    for message in first:
        TypeAdapter(openai.types.chat.ChatCompletionMessageParam).validate_python(message)


@pytest.mark.proves("images.sent")
def test_an_image_reaches_claude_as_a_block_whatever_form_it_was_given_in(home: Path) -> None:
    answer = Answer(pieces=[claude(({"type": "text", "text": "A chart."}, []))])
    web = "https://example.org/chart.png"
    with ModelServer(answer, answer) as server:
        configure(home, f"model: {{default: claude-x, provider: anthropic, base_url: '{server.url}'}}\n")
        given = [
            as_openai(PICTURE, "image/gif"),
            as_claude(OTHER),
            {"type": "image", "source": {"type": "url", "url": web}},
        ]
        with Agent.open(home, title="chart") as agent:
            list(agent.turn([text("What are these?"), *given]))
        with Agent.open(home, resume="chart") as agent:
            list(agent.turn("Thanks."))
        first, second = (each.json["messages"] for each in server.received)
    blocks = first[0]["content"]
    assert blocks[1] == as_claude(PICTURE)  # its real type, not the one it was declared as
    assert blocks[2] == as_claude(OTHER)
    assert blocks[3]["source"] == {"type": "url", "url": web}
    assert [{**block, "cache_control": None} for block in second[0]["content"]] == [
        {**block, "cache_control": None} for block in blocks
    ]
    for message in second:
        TypeAdapter(anthropic.types.MessageParam).validate_python(message)


@pytest.mark.proves("images.sent")
def test_a_host_s_own_loop_gets_the_images_in_the_request_with_what_memory_adds_behind_them(home: Path) -> None:
    with MemorySession.open(home) as session:
        request = session.prepare_turn([text("What is this?"), image_part(PICTURE)], recalled="Likes charts.")
        session.finish_turn("A chart.")
        session.record({"role": "user", "content": [as_claude(GIF, "image/gif"), "and this"]})
        session.finish_turn("A dot.")
        after = session.request()
    question, image, memory = request.messages[0]["content"]
    assert (question, image) == (text("What is this?"), as_openai(PICTURE))
    assert "Likes charts." in memory["text"]
    described = request.text_only().messages[0]["content"]
    assert described[:2] == [text("What is this?"), text(SHOWN)]
    assert after.messages[2]["content"] == [as_openai(GIF, "image/gif"), text("and this")]
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request() == after


@pytest.mark.proves("images.stored")
def test_an_image_is_one_private_file_and_no_row_holds_its_bytes(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home, title="twice") as session:
        for _ in range(2):
            session.prepare_turn([text("Look at the turbine"), as_openai(PICTURE)])
            session.finish_turn("A turbine.")
    file = home / "images" / name_of(PICTURE)
    assert names(home) == [file.name]
    assert file.read_bytes() == PICTURE
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    rows = apsw.Connection(str(home / "state.db")).execute("SELECT * FROM messages").fetchall()
    assert all(url(PICTURE)[30:60] not in str(row) for row in rows)
    with SessionDB.open(home / "state.db") as db:
        first = db.messages(session.id)[0].message
        assert first["content"] == f"Look at the turbine\n{SHOWN}"
        assert [hit.message_id for hit in db.search("turbine png", roles=["user"])]
        assert db.get_session(session.id).preview == f"Look at the turbine {SHOWN}"
    assert SHOWN in hermes("sessions", "show", "twice").out


@pytest.mark.proves("images.stored")
def test_every_format_is_known_by_its_bytes(home: Path) -> None:
    given = [as_openai(data) for data in (jpeg(1200, 800), GIF, WEBP, PICTURE)]
    with MemorySession.open(home) as session:
        session.prepare_turn(given)
        said = session.context.messages[0]["content"]
    assert [line.split(",")[:2] for line in said.splitlines()] == [
        ["[image: JPEG", " 1200×800"],  # noqa: RUF001
        ["[image: GIF", " 1×1"],  # noqa: RUF001
        ["[image: WebP", " 1×1"],  # noqa: RUF001
        ["[image: PNG", " 30×20"],  # noqa: RUF001
    ]


@pytest.mark.proves("images.refused")
@pytest.mark.parametrize(
    ("part", "why"),
    [
        (as_openai(b"%PDF-1.7 is a document", "image/png"), "PNG, JPEG, GIF and WebP are taken"),
        (as_openai(png() + bytes(4_000_000)), "4.0 MB; an image may have at most 3.9 MB"),
        (as_openai(jpeg(9_000, 10)), "9000×10 pixels; at most 8,000"),  # noqa: RUF001
        (as_openai(PICTURE[:12]), "PNG, JPEG, GIF and WebP are taken"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}, "cannot be decoded"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "must begin with https:, http: or data:"),
        ({"type": "image_url"}, "neither data nor an address"),
        ({"type": "input_audio", "input_audio": {}}, "not a part of the kind 'input_audio'"),
    ],
)
def test_what_no_model_takes_is_refused_before_anything_is_stored(home: Path, part: dict[str, Any], why: str) -> None:
    with MemorySession.open(home) as session:
        with pytest.raises(ImageRefused, match=why.replace("(", r"\(")):
            session.prepare_turn([text("look"), part])
        with pytest.raises(ImageRefused):
            session.record(
                {"role": "user", "content": [part]}
                if "audio" not in part["type"]
                else {"role": "user", "content": [as_openai(b"x")]}
            )
        assert session.request().messages == []
    assert names(home) == []


@pytest.mark.proves("images.placeholder")
def test_a_model_without_vision_gets_placeholders_and_one_with_it_the_images(home: Path) -> None:
    with ModelServer(*[FINE] * 3) as server:
        address = f"base_url: '{server.url}'"
        for settings in ("default: gpt-oss-20b", "default: m, vision: false", "default: gpt-oss-20b, vision: true"):
            configure(home, f"model: {{{settings}, {address}}}\n")
            with Agent.open(home) as agent:
                list(agent.turn([text("What is this?"), as_openai(PICTURE)]))
        blind, switched_off, switched_on = (each.json["messages"][1]["content"] for each in server.received)
    assert blind == switched_off == f"What is this?\n{SHOWN}"
    assert switched_on == [text("What is this?"), as_openai(PICTURE)]


@pytest.mark.proves("images.placeholder")
def test_a_server_that_refuses_images_is_asked_again_without_and_the_conversation_goes_on(home: Path) -> None:
    refusal = {"error": {"message": "image input is not supported - hint: provide the mmproj", "code": 500}}
    with ModelServer(failing(500, refusal), FINE, FINE) as server:
        configure(home, f"model: {{default: m, base_url: '{server.url}'}}\n")
        with Agent.open(home) as agent:
            events = list(agent.turn([text("What is this?"), as_openai(PICTURE)]))
            list(agent.turn("And now?"))
        bodies = [each.json["messages"] for each in server.received]
    assert ["gets a short description" in str(each.error) for each in events if isinstance(each, Retrying)] == [True]
    assert bodies[0][1]["content"][1] == as_openai(PICTURE)
    assert bodies[1][1]["content"] == f"What is this?\n{SHOWN}"
    assert bodies[2][: len(bodies[1])] == bodies[1]


@pytest.mark.proves("images.placeholder")
@pytest.mark.parametrize("settings", ["", "context:\n  engine: lcm\n"])
@pytest.mark.parametrize("in_place", [True, False])
def test_after_a_compaction_an_old_image_is_a_placeholder_and_the_newest_is_still_seen(
    home: Path, in_place: bool, settings: str
) -> None:
    with_small_window(home, settings, in_place=in_place)
    with MemorySession.open(home) as session:
        session.prepare_turn([text("Look at the turbine."), as_openai(PICTURE)])
        session.finish_turn("A turbine.")
        talk(session, 30)
        session.prepare_turn([text("And this one?"), as_openai(OTHER)])
        session.finish_turn("Another.")
        assert isinstance(session.compact(), Compacted)
        after = session.request()
        sizes = session.context.sizes()
    assert url(PICTURE) not in json.dumps(after.messages)
    assert as_openai(OTHER) in after.messages[-2]["content"]
    assert max(sizes[:-2]) < 5_000
    assert names(home) == sorted([name_of(PICTURE), name_of(OTHER)])  # the archive still has it
    with MemorySession.open(home, resume=session.id) as again:
        assert again.request().messages == after.messages


@pytest.mark.proves("images.placeholder")
def test_an_image_counts_as_its_pixels_and_not_as_its_text(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn([text("look"), as_openai(png(1000, 700))])
        assert 900 < session.context.tokens() < 1_200


@pytest.mark.proves("images.placeholder")
def test_an_image_whose_file_is_lost_or_altered_is_a_placeholder_and_the_session_opens(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn([text("look"), as_openai(PICTURE), as_openai(OTHER)])
        session.finish_turn("Two.")
        branch = session.branch()
    (home / "images" / name_of(PICTURE)).unlink()
    (home / "images" / name_of(OTHER)).write_bytes(png(shade=3))
    with MemorySession.open(home, resume=branch) as again:
        assert again.request().messages[0]["content"] == f"look\n{SHOWN}\n{SHOWN}"


@pytest.mark.proves("images.removed")
def test_an_image_goes_with_the_last_conversation_that_has_it(home: Path, hermes: Callable[..., Ran]) -> None:
    with MemorySession.open(home, title="first") as session:
        session.prepare_turn([text("look"), as_openai(PICTURE), as_openai(OTHER)])
        session.finish_turn("Two.")
    with MemorySession.open(home, title="second") as other:
        other.prepare_turn([text("look again"), as_openai(PICTURE)])
        other.finish_turn("One.")
    assert hermes("sessions", "delete", "first", "--yes").code == 0
    assert names(home) == [name_of(PICTURE)]
    assert hermes("sessions", "delete", "second", "--yes").code == 0
    assert names(home) == []


@pytest.mark.proves("images.removed", "images.sent")
def test_a_branch_has_the_images_too_and_keeps_them(home: Path) -> None:
    with MemorySession.open(home, title="trunk") as session:
        session.prepare_turn([text("look"), as_openai(PICTURE)])
        session.finish_turn("One.")
        branch, said = session.branch(), session.request().messages
    with SessionDB.open(home / "state.db") as db:
        db.delete(session.id)
    with MemorySession.open(home, resume=branch) as again:
        assert again.request().messages == said
    with SessionDB.open(home / "state.db") as db:
        db.delete(branch)
    assert names(home) == []


@pytest.mark.proves("images.stored", "images.removed")
def test_a_database_of_another_name_has_images_of_its_own(tmp_path: Path) -> None:
    for name in ("one.db", "two.db"):
        with SessionDB.open(tmp_path / name) as db:
            db.append(
                db.create_session(session_id="s"), {"role": "user", "content": [text("look"), as_claude(PICTURE)]}
            )
    with SessionDB.open(tmp_path / "one.db") as db:
        db.delete("s")
    with SessionDB.open(tmp_path / "two.db") as db:
        (message,) = db.messages("s")
        assert db.images.read(message.message["images"][0]) == PICTURE
        assert message.text == f"look\n{SHOWN}"


@pytest.mark.proves("images.stored")
def test_whatever_form_a_stored_message_has_its_bytes_go_to_the_folder(tmp_path: Path) -> None:
    raw = url(PICTURE).partition("base64,")[2]
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("a screenshot"), as_claude(OTHER)]}
    with SessionDB.open(tmp_path / "state.db") as db:
        db.create_session(session_id="s")
        db.append_many(
            "s",
            [
                {"role": "user", "content": "look", "images": [raw]},  # as Ollama has it
                {
                    "role": "tool",
                    "tool_call_id": "t",
                    "content": [{"type": "image", "data": raw, "mimeType": "image/png"}],
                },
                {"role": "user", "content": [result]},
                {"role": "user", "content": [as_openai(b"no image at all"), {"type": "image_url"}]},
                {"role": "assistant", "content": [text("only words"), {"type": "thinking", "thinking": "hm"}]},
            ],
        )
        stored = [each.message for each in db.messages("s")]
    assert [each["content"] for each in stored[:2]] == [f"look\n{SHOWN}", SHOWN]
    assert stored[2]["content"][0]["content"] == [text("a screenshot"), text(SHOWN)]
    assert stored[3]["content"] == [
        {"type": "text", "text": "[image: unknown format, 15 bytes]"},
        {"type": "image_url"},  # nothing in it to store elsewhere, so it stays as it came
    ]
    assert stored[4]["content"] == [text("only words"), {"type": "thinking", "thinking": "hm"}]
    assert raw not in json.dumps(stored)
    assert names(tmp_path) == sorted([name_of(PICTURE), name_of(OTHER), name_of(b"no image at all", "bin")])


@pytest.mark.proves("images.sent")
def test_a_delegated_task_and_a_helper_see_words_only(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    task = {"goal": "Describe the chart"}
    model = Scripted([Reply(calls=[("delegate_task", task)]), "A bar chart.", "It is a bar chart."])
    with Agent.open(home, model=model, cwd=str(tmp_path)) as agent:
        list(agent.turn([text("What is this?"), as_openai(PICTURE)]))
    assert [url(PICTURE) in json.dumps(list(each.messages)) for each in model.requests] == [True, False, True]


@pytest.mark.proves("images.sent")
def test_what_was_asked_with_an_image_can_be_asked_again(home: Path) -> None:
    with MemorySession.open(home) as session:
        first = session.prepare_turn([text("look"), as_openai(PICTURE, detail="high")])
        session.finish_turn("One.")
        said = session.asked()
        assert session.undo() == f"look\n{SHOWN}"
        assert session.prepare_turn(said).messages == first.messages


@pytest.mark.proves("images.stored")
def test_a_private_image_is_sent_and_never_stored(home: Path) -> None:
    parts = [text("Compare"), as_openai(PICTURE), text("with <private>mine"), as_openai(OTHER), text("</private>.")]
    with MemorySession.open(home) as session:
        sent_now = session.prepare_turn(parts).messages[0]["content"]
        assert [part["image_url"]["url"] for part in sent_now if part["type"] == "image_url"] == [
            url(PICTURE),
            url(OTHER),
        ]
        assert url(OTHER) not in json.dumps(session.snapshot_request().messages)
        session.finish_turn("Alike.")
        assert session.asked() != []
        session.record({"role": "user", "content": parts})
        session.finish_turn("Still alike.")
        assert url(OTHER) in json.dumps(session.request().messages[2])
        branch = session.branch()
    assert names(home) == [name_of(PICTURE)]
    with MemorySession.open(home, resume=branch) as again:
        assert again.request().messages[0]["content"] == [
            text("Compare"),
            as_openai(PICTURE),
            text("with [private]."),
        ]


@pytest.mark.proves("images.stored", "images.sent")
def test_an_image_said_while_the_database_is_locked_is_there_when_it_is_free(home: Path) -> None:
    with MemorySession.open(home, title="locked") as session:
        session.prepare_turn([text("first"), as_openai(PICTURE)])
        session.finish_turn("One.")
        holder = apsw.Connection(str(home / "state.db"))
        holder.execute("BEGIN IMMEDIATE")
        said = session.prepare_turn([text("second"), as_openai(OTHER)]).messages
        holder.execute("ROLLBACK")
        holder.close()
        session.finish_turn("Two.")
        assert session.request().messages[:3] == said
    assert said[2]["content"] == [text("second"), as_openai(OTHER)]
    with MemorySession.open(home, resume="locked") as again:
        assert again.request().messages[:3] == said
    assert names(home) == sorted([name_of(PICTURE), name_of(OTHER)])
