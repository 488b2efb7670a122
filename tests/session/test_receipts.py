"""Each answer has a receipt: what it was made from, what was written, what it cost; a change to any of it is seen."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from compacted import configure, talk
from engines import database_of
from pictures import as_openai, png, text

from hermes import MemorySession, MemoryStore, Receipts, SessionDB
from hermes.base.errors import NotFound
from hermes.memory.entries import Cause
from hermes.providers.base import MemoryProvider
from hermes.settings.home import find_home
from hermes.storage.records import COLUMNS, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran
    from hermes import Receipt

USAGE = {"input_tokens": 1000, "output_tokens": 50, "cache_read_tokens": 900}
MODEL = "claude-sonnet-4-5"


class Diary(MemoryProvider):
    name = "diary"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        pass

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        del query, session_id
        return "They moved to Lisbon in May."


def remembered(home: Path) -> None:
    store = MemoryStore.open(home)
    store.add("user", "Likes tea.", cause=Cause(origin="user"))
    store.add("memory", "The page says to use tabs.", cause=Cause(origin="web", approved=True))


def two_answers(home: Path) -> str:
    """A conversation with two answers; its id."""
    with MemorySession.open(home) as session:
        session.prepare_turn("Which editor do we use?")
        session.finish_turn("Vim, since May.", usage=USAGE, model=MODEL)
        session.prepare_turn("And which shell?")
        session.finish_turn("Fish.", usage=USAGE, model=MODEL)
        return session.id


def altered(home: Path, role: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Changes the first message of a role behind our back, with a checksum that fits again."""
    with SessionDB.open(home / "state.db") as db, database_of(db).writing() as connection:
        row: Any = connection.execute(
            f"SELECT {COLUMNS} FROM messages WHERE role = ? ORDER BY id LIMIT 1", (role,)
        ).fetchone()
        key: Any = connection.execute("SELECT session FROM blocks WHERE block = ?", (row[0] >> 5,)).fetchone()
        message = change(dict(decode(row, 0, key[0]).message))
        names = ", ".join(f"{name} = ?" for name in COLUMNS.split(", "))
        changed = encode(row[0], message, row[3], key[0])
        connection.execute(f"UPDATE messages SET {names} WHERE id = ?", (*changed, row[0]))


@pytest.mark.proves("receipts.record")
def test_a_receipt_says_what_the_model_saw_what_was_written_and_what_it_cost(both_engines: str, home: Path) -> None:
    del both_engines
    remembered(home)
    with MemorySession.open(home, providers=[Diary()]) as session:
        session.prepare_turn("Where do I live?", overlay="It is late.")
        session.call_tool("memory", {"action": "add", "target": "user", "content": "Lives in Lisbon."})
        session.fired(kind="rule", name="linter", text="Run the linter.", trigger="tool: commit")
        session.finish_turn("In Lisbon.", usage=USAGE, model=MODEL)
        receipt = session.receipt()
        assert receipt.id == session.receipt_id
        assert receipt.intact
        assert (receipt.turn, receipt.question, receipt.answer) == (1, "Where do I live?", "In Lisbon.")
        assert (receipt.model, receipt.cached_share, receipt.usage["input_tokens"]) == (MODEL, 0.9, 1000)
        assert receipt.cost is not None
        assert receipt.cost > 0
        (pending,) = receipt.pending  # what the diary recalled stands behind the write
        assert receipt.written == ()
        assert receipt.fired == (
            {"kind": "rule", "name": "linter", "text": "Run the linter.", "trigger": "tool: commit"},
        )
    seen = {each.text: each for each in receipt.items}
    assert any(pending in str(each.text) for each in receipt.items if each.kind == "result")
    assert (seen["Likes tea."].source, seen["Likes tea."].grade) == ("user", "person")
    assert (seen["The page says to use tabs."].source, seen["The page says to use tabs."].grade) == ("web", "outside")
    assert seen["Likes tea."].at is not None
    assert seen["Likes tea."].tokens > 0
    kinds = [each.kind for each in receipt.items]
    assert kinds[kinds.index("question") :] == ["question", "recalled", "overlay", "call", "result"]
    assert next(each.source for each in receipt.items if each.kind == "recalled") == "diary"
    assert [each.number for each in receipt.items] == list(range(1, len(receipt.items) + 1))


@pytest.mark.proves("receipts.record")
def test_a_later_receipt_lists_the_history_and_the_changes_of_its_turn(home: Path) -> None:
    remembered(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("I drink coffee now.")
        session.call_tool(
            "memory", {"action": "replace", "old_text": "tea", "content": "Likes coffee.", "target": "user"}
        )
        session.finish_turn("Noted.")
        session.prepare_turn("What else?")
        session.finish_turn("Nothing.")
        first, second = (session.receipt(each.id) for each in Receipts(session.home, session.database).of(session.id))
    assert [(each["change"], each["action"]) for each in first.written] == [("u2", "replace")]
    assert second.written == ()
    history = [each.text for each in second.items if each.kind == "message"]
    assert history[0] == "I drink coffee now."
    assert history[-1] == "Noted."
    assert "Likes tea." in [each.text for each in second.items if each.kind == "entry"]  # as the prompt still says


@pytest.mark.proves("receipts.record")
def test_messages_of_past_conversations_that_a_search_showed_are_on_the_receipt(home: Path) -> None:
    two_answers(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("Which editor was it?")
        session.call_tool("session_search", {"query": "which editor"})
        session.finish_turn("Vim.")
        receipt = session.receipt()
    found = [each for each in receipt.items if each.kind == "found"]
    assert "Which editor do we use?" in [each.text for each in found]
    assert all(each.session_id and each.message_id for each in found)
    assert "which editor" in found[0].why


@pytest.mark.proves("receipts.sealed")
def test_the_key_is_made_once_and_is_private(home: Path) -> None:
    two_answers(home)
    key = (home / "receipts.key").read_bytes()
    two_answers(home)
    assert (home / "receipts.key").read_bytes() == key
    assert stat.S_IMODE(os.stat(home / "receipts.key").st_mode) == 0o600


@pytest.mark.proves("receipts.sealed")
@pytest.mark.parametrize(
    ("role", "text", "problem"),
    [
        ("user", "Which pager do we use?", "messages that it names were changed"),
        ("assistant", "Emacs, since May.", "the answer was changed"),
    ],
)
def test_a_text_that_was_changed_in_the_database_is_detected(
    home: Path, hermes: Callable[..., Ran], role: str, text: str, problem: str
) -> None:
    two_answers(home)
    assert hermes("receipts", "verify").out == "2 receipts: 2 intact\n"
    altered(home, role, lambda message: {**message, "content": text})
    told = hermes("receipts", "verify", "--json")
    assert told.code == 1
    assert problem in str(told.json["problems"])
    assert told.json["states"]["tampered"] >= 1


@pytest.mark.proves("receipts.sealed")
@pytest.mark.parametrize("field", ["cost", "model", "written", "fired", "entries", "messages"])
def test_a_receipt_that_was_changed_is_detected(home: Path, hermes: Callable[..., Ran], field: str) -> None:
    two_answers(home)
    altered(home, "assistant", lambda message: {**message, "receipt": {**message["receipt"], field: ["x"]}})
    told = hermes("receipts", "verify")
    assert told.code == 1
    assert "the receipt was changed after it was sealed" in told.out


@pytest.mark.proves("receipts.sealed")
def test_a_receipt_that_was_moved_or_taken_away_is_detected(home: Path, hermes: Callable[..., Ran]) -> None:
    taken: list[Any] = []
    two_answers(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("Hello.")
        session.finish_turn("Hello.")
        other = session.receipt()
        with SessionDB.open(home / "state.db") as db:
            taken = [each.message["receipt"] for each in db.messages(session.id) if "receipt" in each.message]
    altered(home, "assistant", lambda message: {**message, "receipt": taken[0]})
    told = hermes("receipts", "verify")
    assert told.code == 1
    assert f"it belongs to session {other.session_id}" in told.out
    assert "the receipt before it is missing" in told.out


@pytest.mark.proves("receipts.sealed")
@pytest.mark.parametrize("in_place", [True, False])
def test_receipts_hold_across_a_compaction_an_undo_and_a_branch(home: Path, in_place: bool) -> None:
    configure(home, in_place=in_place)
    remembered(home)
    with MemorySession.open(home) as session:
        talk(session, 12)
        assert session.compact() is not None
        talk(session, 2)
        session.undo()
        talk(session, 1)
        branch = session.branch()
    with MemorySession.open(home, resume=branch) as session:
        talk(session, 1)
        states = {each.state for each in Receipts(session.home, session.database).verify()}
        receipt = session.receipt()
    assert states == {"intact"}
    assert "summary" in [each.kind for each in receipt.items]


@pytest.mark.proves("receipts.sealed")
def test_an_answer_is_kept_when_no_key_can_be_made(home: Path) -> None:
    with MemorySession.open(home) as session:
        (home / "receipts.key").mkdir()
        session.prepare_turn("Hello.")
        session.finish_turn("Hello there.")
        receipt = session.receipt()
    assert (receipt.state, receipt.answer) == ("unsealed", "Hello there.")


@pytest.mark.proves("receipts.travel")
def test_receipts_verify_after_export_and_import_although_secrets_were_masked(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with MemorySession.open(home) as session:
        session.prepare_turn(f"The token is {secret}.")
        session.finish_turn("I will not repeat it.")
        session.prepare_turn("Good.")
        session.finish_turn("Yes.")
    assert hermes("export", str(tmp_path / "out.zip")).code == 0
    new = tmp_path / "new"
    assert hermes("--home", str(new), "import", str(tmp_path / "out.zip")).code == 0
    with SessionDB.open(new / "state.db") as db:
        assert secret not in str([each.message for each in db.messages(session.id)])
    assert hermes("--home", str(new), "receipts", "verify").out == "2 receipts: 2 intact\n"
    altered(new, "user", lambda message: {**message, "content": "The token is public."})
    assert hermes("--home", str(new), "receipts", "verify").code == 1


@pytest.mark.proves("receipts.travel")
def test_receipts_that_are_merged_into_another_home_verify_with_the_key_that_came_along(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran]
) -> None:
    two_answers(home)
    assert hermes("export", str(tmp_path / "out.zip")).code == 0
    other = tmp_path / "other"
    two_answers(other)
    own = (other / "receipts.key").read_bytes()
    assert hermes("--home", str(other), "import", str(tmp_path / "out.zip"), "--merge", "--yes").code == 0
    assert hermes("--home", str(other), "receipts", "verify").out == "4 receipts: 4 intact\n"
    assert own[:70] in (other / "receipts.key").read_bytes()  # it still seals with its own


@pytest.mark.proves("receipts.travel")
@pytest.mark.parametrize("in_place", [True, False])
def test_receipts_of_a_compacted_conversation_verify_after_a_merge(
    home: Path, tmp_path: Path, hermes: Callable[..., Ran], in_place: bool
) -> None:
    configure(home, in_place=in_place)
    with MemorySession.open(home) as session:
        talk(session, 20)
        assert session.compact() is not None
        talk(session, 2, start=20)
        session.undo()
        talk(session, 1, start=30)
    assert hermes("export", str(tmp_path / "out.zip")).code == 0
    other = tmp_path / "other"
    two_answers(other)  # so that messages get other ids, and summaries that point to them other texts
    assert hermes("--home", str(other), "import", str(tmp_path / "out.zip"), "--merge", "--yes").code == 0
    assert hermes("--home", str(other), "receipts", "verify").out == "24 receipts: 24 intact\n"


@pytest.mark.proves("receipts.travel")
def test_receipts_verify_in_the_database_that_conversations_were_moved_to(
    on_postgres: str, home: Path, hermes: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_STORAGE_URL")
    two_answers(home)
    assert hermes("storage", "move", "--to", on_postgres).code == 0
    monkeypatch.setenv("HERMES_STORAGE_URL", on_postgres)
    two_answers(home)
    assert hermes("receipts", "verify").out == "4 receipts: 4 intact\n"


@pytest.mark.proves("receipts.sealed")
def test_receipts_hold_for_private_parts_images_and_odd_bytes(home: Path) -> None:
    with MemorySession.open(home) as session:
        session.prepare_turn([text("see <private>this</private>"), as_openai(png())], attached="piped", overlay="late")
        session.finish_turn("Seen.")
        session.prepare_turn("and now?")
        call = {"id": "c", "type": "function", "function": {"name": "cat", "arguments": "no json"}}
        session.record({"role": "assistant", "content": None, "tool_calls": [call]})
        session.record_result("c", "half \ud800 a letter")
        session.finish_turn("a NUL \x00")
        assert [each.state for each in Receipts(session.home, session.database).verify()] == ["intact", "intact"]


@pytest.mark.proves("receipts.sealed")
def test_receipts_hold_for_a_conversation_that_was_kept_beside_a_locked_database(home: Path) -> None:
    configure(home)
    with MemorySession.open(home) as session:
        talk(session, 1)
        lock = apsw.Connection(str(home / "state.db"))
        lock.execute("BEGIN IMMEDIATE")
        talk(session, 2, start=1)
        lock.execute("ROLLBACK")
        talk(session, 2, start=3)
        assert [each.state for each in Receipts(session.home, session.database).verify()] == ["intact"] * 5


@pytest.mark.proves("receipts.travel")
def test_receipts_verify_after_a_backup_was_restored(home: Path, tmp_path: Path, hermes: Callable[..., Ran]) -> None:
    two_answers(home)
    made = hermes("backup", "create", "--json").json
    two_answers(home)
    assert hermes("backup", "restore", made["path"], "--yes").code == 0
    assert hermes("receipts", "verify").out == "2 receipts: 2 intact\n"


@pytest.mark.proves("receipts.surfaces")
def test_a_person_reads_a_receipt_in_a_shell(home: Path, hermes: Callable[..., Ran]) -> None:
    remembered(home)
    session_id = two_answers(home)
    newest = hermes("sessions", "show", session_id, "--receipt").out
    first = hermes("sessions", "show", session_id, "--receipt", "1", "--json").json
    listed = hermes("receipts", "list", session_id).out
    assert "turn       2 of" in newest
    assert "90% cached" in newest
    assert "entry from user, person" in newest
    assert first["question"] == "Which editor do we use?"
    assert first["id"] in listed
    assert hermes("receipts", "show", first["id"], "--json").json == first
    assert hermes("receipts", "show", f"{session_id}.00000000").code == 1
    with SessionDB.open(home / "state.db") as db:
        bare = db.create_session(source="import")
        db.append(bare, {"role": "user", "content": "An imported conversation has no receipts."})
    assert hermes("receipts", "list").out == listed
    assert hermes("receipts", "list", bare).out == f"no answer of {bare} has a receipt\n"
    assert hermes("sessions", "show", session_id, "--receipt", "9").code == 1


@pytest.mark.proves("receipts.surfaces")
def test_receipts_of_another_home_are_not_found(home: Path, tmp_path: Path) -> None:
    session_id = two_answers(home)
    with SessionDB.open(home / "state.db") as db:
        mine = Receipts(find_home(home), db).of(session_id)[0].id
    with MemorySession.open(tmp_path / "other") as session, pytest.raises(NotFound):
        session.receipt(mine)


def item(receipt: Receipt, text: str) -> int:
    return next(each.number for each in receipt.items if each.text == text)


@pytest.mark.proves("receipts.act")
def test_an_entry_is_corrected_pinned_and_forgotten_from_a_receipt(home: Path, hermes: Callable[..., Ran]) -> None:
    remembered(home)
    two_answers(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("What do I like?")
        session.finish_turn("Tea.")
        receipt = session.receipt()
    tea, tabs = str(item(receipt, "Likes tea.")), str(item(receipt, "The page says to use tabs."))
    assert hermes("receipts", "pin", receipt.id, tea).out == "Entry pinned.\n"
    assert hermes("receipts", "correct", receipt.id, tea, "Likes coffee.").code == 0
    assert hermes("receipts", "forget", receipt.id, tabs).code == 0
    store = MemoryStore.open(home)
    assert (store.entries("user"), store.entries("memory")) == (("Likes coffee.",), ())
    assert store.marks("user")["Likes coffee."].pinned
    assert store.provenance("user")["Likes coffee."].origin == "user"
    again = hermes("receipts", "pin", receipt.id, tea)
    assert (again.code, "changed or removed" in again.err) == (1, True)
    section = hermes("receipts", "pin", receipt.id, "1")
    assert (section.code, "only entries can be pinned" in section.err) == (1, True)
    assert hermes("receipts", "pin", receipt.id, "999").code == 1


@pytest.mark.proves("receipts.act")
def test_an_entry_that_is_never_recalled_stays_in_the_file_and_out_of_every_prompt(
    home: Path, hermes: Callable[..., Ran]
) -> None:
    remembered(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("What do I like?")
        session.finish_turn("Tea.")
        receipt = session.receipt()
    tea = str(item(receipt, "Likes tea."))
    assert hermes("receipts", "never", receipt.id, tea).code == 0
    with MemorySession.open(home) as session:
        result = session.call_tool("memory", {"action": "add", "target": "user", "content": "Has a cat."})
        assert "Likes tea." not in session.system_prompt + result
        assert "Has a cat." in result
    assert "Likes tea." in hermes("memory", "list", "--target", "user").out
    assert hermes("receipts", "never", receipt.id, tea, "--undo").code == 0
    with MemorySession.open(home) as session:
        assert "Likes tea." in session.system_prompt


@pytest.mark.proves("receipts.act")
def test_a_message_that_is_never_recalled_is_found_by_the_person_and_not_by_a_model(
    both_engines: str, home: Path, hermes: Callable[..., Ran]
) -> None:
    del both_engines
    with MemorySession.open(home) as session:
        session.prepare_turn("The vault code is saffron.")
        session.finish_turn("Noted.")
        session.prepare_turn("We meet at the harbour.")
        session.finish_turn("Good.")
        session.branch()  # has copies of it
        past = session.id
    with MemorySession.open(home) as session:
        session.prepare_turn("What was the vault code?")
        assert "saffron" in session.call_tool("session_search", {"query": "vault code"})
        session.finish_turn("Saffron.")
        receipt = session.receipt()
        number = item(receipt, "The vault code is saffron.")
        told = hermes("receipts", "never", receipt.id, str(number))
        assert told.code == 0
    with MemorySession.open(home) as session:
        session.prepare_turn("What was it?")
        found = [
            session.call_tool("session_search", {"query": "vault code saffron"}),
            session.call_tool("session_search", {"session_id": past}),
            session.call_tool("session_search", {"query": "harbour"}),
            session.call_tool("session_search", {}),
        ]
        message = next(each.message_id for each in receipt.items if each.number == number)
        assert "keeps message" in session.call_tool("session_search", {"around_message_id": message})
    assert [each for each in found if "code is saffron" in each] == []
    assert "harbour" in found[2]
    assert "saffron" in hermes("sessions", "search", "vault code").out
    assert "saffron" in hermes("sessions", "show", past).out
    assert hermes("receipts", "never", receipt.id, str(number), "--undo").code == 0
    with MemorySession.open(home) as session:
        assert "code is saffron" in session.call_tool("session_search", {"query": "vault code"})


@pytest.mark.proves("receipts.act")
def test_a_message_is_corrected_or_forgotten_from_a_receipt(home: Path, hermes: Callable[..., Ran]) -> None:
    two_answers(home)
    with MemorySession.open(home) as session:
        session.prepare_turn("Which editor was it?")
        session.call_tool("session_search", {"query": "which editor"})
        session.finish_turn("Vim.")
        receipt = session.receipt()
    asked, answered = item(receipt, "Which editor do we use?"), item(receipt, "Vim, since May.")
    told = hermes("receipts", "correct", receipt.id, str(answered), "We use Helix since June.", "--json").json
    assert "kept from recall" in told["message"]
    assert MemoryStore.open(home).entries("memory") == ("We use Helix since June.",)
    assert hermes("receipts", "forget", receipt.id, str(asked)).code == 0
    assert "Which editor do we use?" not in hermes("sessions", "search", "which editor do we use").out
    assert hermes("receipts", "verify").code == 0
