"""Conversations as records and back: what is damaged stays out, what contradicts itself is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from hermes.base.errors import DamagedFile, StorageError
from hermes.conversations.context import Contexts, NewContext
from hermes.conversations.database import SessionDB
from hermes.storage.local import dump
from hermes.storage.local.database import Database
from hermes.storage.local.dump import Dump, Load

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "state.db"
    with SessionDB.open(place) as db:
        for name in ("one", "two"):
            db.create_session(session_id=name, title=f"Title of {name}", note="kept")
            db.append_many(name, [{"role": "user", "content": f"{name} said number{n}"} for n in range(5)])
        db.set_meta("raw", b"\x00\xff")
    return place


def records(path: Path) -> list[dict[str, Any]]:
    return list(Dump(str(path)).records())


@pytest.mark.proves("export.round-trip")
def test_records_make_the_same_database_again_in_batches_of_any_size(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "_BATCH", 3)
    told = records(path)
    Load(str(tmp_path / "again.db")).take(told)
    assert records(tmp_path / "again.db") == told


@pytest.mark.proves("export.complete")
def test_a_damaged_message_is_counted_and_left_out(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE messages SET content = 'forged' WHERE content = 'one said number2'")
    connection.close()
    taken = Dump(str(path))
    texts = [each["message"]["content"] for each in taken.records() if each["type"] == "message"]
    assert (taken.damaged, len(texts), "forged" in texts) == (1, 9, False)


@pytest.mark.proves("export.hostile")
@pytest.mark.parametrize(("kind", "field", "value"), [("message", "session", "two"), ("session", "id", "")])
def test_records_that_contradict_each_other_are_refused(
    path: Path, tmp_path: Path, kind: str, field: str, value: str
) -> None:
    told = records(path)
    next(each for each in told if each["type"] == kind)[field] = value
    with pytest.raises(DamagedFile, match="cannot be read"):
        Load(str(tmp_path / "again.db")).take(told)


@pytest.mark.proves("export.hostile")
def test_a_result_that_is_not_sound_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Database.row

    def verdict(database: Database, statement: str, *given: Any) -> Any:
        return ("row 3 missing",) if "integrity_check" in statement else real(database, statement, *given)

    monkeypatch.setattr(Database, "row", verdict)
    with pytest.raises(DamagedFile, match="not sound: row 3 missing"):
        Load(str(tmp_path / "again.db")).take(records(path))


@pytest.mark.proves("export.round-trip")
def test_numbers_of_tables_that_are_not_there_are_left_out(path: Path, tmp_path: Path) -> None:
    told = records(path)
    told[0]["sequences"]["of_the_future"] = 17
    Load(str(tmp_path / "again.db")).take(told)
    with SessionDB.open(tmp_path / "again.db") as db:
        assert len(db.messages("one")) == 5


@pytest.mark.proves("export.hostile")
@pytest.mark.parametrize("value", [{"base64": "!"}, [1], {"other": 1}])
def test_values_that_no_database_holds_are_refused(value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        dump._unpacked(value)
    assert dump._unpacked(dump._packed(b"\x00\xff")) == b"\x00\xff"
    with pytest.raises(TypeError, match="where a name is expected"):
        dump._text(None)


@pytest.mark.proves("compaction.elsewhere")
def test_a_context_of_a_session_that_went_on_elsewhere_is_not_stored(path: Path) -> None:
    with SessionDB.open(path) as db:
        last = db.get_session("one").last_id
        db.append("one", {"role": "user", "content": "said by another process meanwhile"})
        before = Contexts(db).live("one")
        context = NewContext(messages=[], ids=[], archive=[], last_id=last)
        with pytest.raises(StorageError, match="continued elsewhere"):
            Contexts(db).replace("one", context)
        assert Contexts(db).live("one") == before
