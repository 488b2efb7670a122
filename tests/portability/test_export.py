"""`hermes export` and `hermes import`: everything out as text, and the same home again."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from homes import furnish, tree
from hypothesis import given, settings
from hypothesis import strategies as st
from lived_in import live_in

from hermes.base.errors import HermesError
from hermes.conversations.database import SessionDB
from hermes.memory.store import MemoryStore
from hermes.portability.home import Selection, export_home, import_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.mark.proves("export.round-trip")
@settings(max_examples=3)
@given(seed=st.integers(0, 1 << 30))
def test_export_import_export_gives_identical_archives(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("trip")
    home = furnish(place / "home", seed)
    live_in(home)
    chosen = Selection(secrets=True)
    export_home(str(home), str(place / "first.zip"), chosen)
    import_home(str(place / "first.zip"), str(place / "copy"), enable=True)
    export_home(str(place / "copy"), str(place / "second.zip"), chosen)
    assert (place / "first.zip").read_bytes() == (place / "second.zip").read_bytes()
    shutil.rmtree(place)


@pytest.mark.proves("export.round-trip", "export.complete")
def test_nothing_that_a_home_holds_is_left_out(home: Path, tmp_path: Path) -> None:
    """Two archives without something would be identical, too: so each file and each row is looked for in the copy."""
    live_in(furnish(home))
    export_home(str(home), str(tmp_path / "all.zip"), Selection(secrets=True))
    import_home(str(tmp_path / "all.zip"), str(tmp_path / "copy"), enable=True)
    there, came = tree(home), tree(tmp_path / "copy")
    left_out = {name for name in there if name not in came}
    rubbish = {"logs/agent.log", "models/small.gguf", "image_cache/x.png"}  # cache/ is not even looked at
    assert {name for name in left_out if not _can_be_made_anew(name)} == rubbish
    databases = {name for name in came if name.endswith(".db")}
    assert {"state.db", "gateway/gateway.db", "users/ada/state.db", "memory_store.db"} <= databases
    assert {name: came[name] for name in came if name not in databases} == {
        name: there[name] for name in came if name not in databases
    }
    for name in databases:
        assert rows_of(tmp_path / "copy" / name) == rows_of(home / name), name
    assert {"summaries", "summary_children", "state_meta", "messages"} <= rows_of(home / "state.db").keys()
    assert all(rows_of(home / "state.db")[table] for table in ("summaries", "summary_children", "session_details"))
    assert all(rows_of(home / "gateway" / "gateway.db")[table] for table in ("inbox", "outbox", "cursors", "chats"))


def _can_be_made_anew(name: str) -> bool:
    """Versions that a memory write keeps for a moment, compiled plug-ins, what was judged, backups of the curator."""
    parts = name.split(os.sep)
    hidden = parts[-1].startswith((".MEMORY.md.", ".USER.md.", ".judged", ".skills_prompt_snapshot"))
    return hidden or parts[0] == "backups" or "__pycache__" in parts


def rows_of(path: Path) -> dict[str, list[Any]]:
    """Every row of every table, except what SQLite and the index keep for themselves."""
    if path.name == "state.db":
        with SessionDB.open(path) as db:
            db.index()  # how far the index came is part of a session's row
    connection = apsw.Connection(str(path))
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    made_anew = ("migrations", "sqlite_stat", "vectors", "messages_fts", "tools_fts", "titles_fts")
    rows = {
        name: connection.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2').fetchall()
        for name in names
        if not name.startswith(made_anew)
    }
    connection.close()
    rows["state_meta"] = [row for row in rows.get("state_meta", []) if row[0] != "syncs"]
    return rows


@pytest.mark.proves("export.round-trip", "export.search")
def test_the_copy_behaves_as_the_original(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home)
    hermes("export", str(tmp_path / "all.zip"))
    copy = tmp_path / "copy"
    ran = hermes("--home", str(copy), "import", str(tmp_path / "all.zip"))
    assert ran.code == 0, ran.err
    for command in (
        ("memory", "list", "--json"),
        ("sessions", "list", "--json"),
        ("sessions", "search", "deploy", "--json"),
    ):
        assert hermes("--home", str(copy), *command).out.replace(str(copy), str(home)) == hermes(*command).out, command
    with SessionDB.open(home / "state.db") as one, SessionDB.open(copy / "state.db") as other:
        sessions = [session.id for session in one.list_sessions()]
        assert [session.id for session in other.list_sessions()] == sessions
        for session in sessions:
            assert one.messages(session, rewound=True) == other.messages(session, rewound=True)
        assert not other.search("deleted words")
        assert other.append(sessions[0], {"role": "user", "content": "and on it goes"}) == one.append(
            sessions[0], {"role": "user", "content": "and on it goes"}
        )
    assert MemoryStore.open(copy).provenance("memory").keys() == MemoryStore.open(home).provenance("memory").keys()
    assert [c.id for c in MemoryStore.open(copy).history("memory")[0]] == [
        c.id for c in MemoryStore.open(home).history("memory")[0]
    ]
    assert stat.S_IMODE(os.stat(copy / "skills/ops/deploy/scripts/go.sh").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(copy / "memories/MEMORY.md").st_mode) == 0o600
    assert hermes("--home", str(copy), "sessions", "repair", "--dry-run").code == 0


@pytest.mark.proves("export.readable")
def test_an_export_is_text_a_person_can_read(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home)
    ran = hermes("export", str(tmp_path / "plain.zip"), "--json").json
    assert ran["sessions"] > 4
    inside = members(tmp_path / "plain.zip")
    manifest = json.loads(inside["manifest.json"])
    assert manifest["format"] == "hermes-export"
    assert {record["path"] for record in manifest["files"]} >= {
        "README.md",
        "home/memories/MEMORY.md",
        "home/conversations.jsonl",
        "home/users/ada/conversations.jsonl",
        "home/projects/shop/MEMORY.md",
        "home/users/ada/skills/ops/deploy/logs/kept.txt",
        "home/profiles/office/memories/USER.md",
    }
    for line in inside["home/conversations.jsonl"].decode().splitlines():
        assert json.loads(line)["type"] in ("database", "session", "message", "meta", "row")
    assert "home/state.db" not in inside


@pytest.mark.proves("export.secrets", "backup.left-out")
def test_secrets_caches_and_weights_stay_out(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home)
    ran = hermes("export", str(tmp_path / "without.zip"))
    assert "left out: .env" in ran.out
    names = set(members(tmp_path / "without.zip"))
    assert not any("gguf" in name or ".env" in name or "agent.log" in name for name in names)
    hermes("export", str(tmp_path / "with.zip"), "--with-secrets")
    assert "home/.env" in members(tmp_path / "with.zip")


@pytest.mark.proves("export.selection")
def test_an_export_can_be_limited_to_a_person_a_project_or_a_time(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home)
    assert hermes("export", str(tmp_path / "ada.zip"), "--person", "ada").code == 0
    inside = [name for name in members(tmp_path / "ada.zip") if name.startswith("home/")]
    assert inside
    assert all(name.startswith("home/users/ada/") for name in inside)
    assert hermes("export", str(tmp_path / "nobody.zip"), "--person", "nobody").code == 1
    assert hermes("export", str(tmp_path / "shop.zip"), "--project", "shop", "--json").json["sessions"] == 3
    shop = members(tmp_path / "shop.zip")
    assert "home/projects/shop/MEMORY.md" in shop
    assert "home/memories/MEMORY.md" not in shop
    old = hermes("export", str(tmp_path / "old.zip"), "--until", "2023-12-31", "--json").json
    assert old["sessions"] == 3
    none = hermes("export", str(tmp_path / "none.zip"), "--since", "2999-01-01", "--json").json
    assert none["sessions"] == 0
    assert hermes("--home", str(tmp_path / "copy"), "import", str(tmp_path / "old.zip")).code == 0
    with SessionDB.open(tmp_path / "copy" / "state.db") as db:
        assert [session.title for session in db.list_sessions()] == ["Release #2"]


@pytest.mark.proves("export.not-empty", "export.twice")
def test_a_home_with_content_is_replaced_only_on_request(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home, small=True)
    hermes("export", str(tmp_path / "x.zip"), "--with-secrets")
    assert "nothing was changed" in hermes("import", str(tmp_path / "x.zip")).out
    hermes("memory", "add", "Something new.")
    before = tree(home)
    refused = hermes("import", str(tmp_path / "x.zip"))
    assert (refused.code, "--replace" in refused.err) == (1, True)
    assert tree(home) == before
    ran = hermes("import", str(tmp_path / "x.zip"), "--replace", "--json").json
    assert b"Something new." in tree_of(ran["kept"])["memories/MEMORY.md"]
    assert "Something new." not in hermes("memory", "list").out
    assert hermes("import", str(tmp_path / "x.zip"), "--json").json["changed"] is False


def members(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def tree_of(path: str) -> dict[str, bytes]:
    from pathlib import Path

    return tree(Path(path))


def forged(path: Path, contents: dict[str, bytes], **changes: Any) -> Path:
    """An archive with a manifest that fits, except for what the test breaks."""
    import hashlib

    records = [
        {"path": name, "kind": "file", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in contents.items()
    ]
    about = {"format": "hermes-export", "version": 1, "files": records, **changes}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", json.dumps(about))
    return path


@pytest.mark.proves("export.hostile")
@pytest.mark.parametrize(
    "name",
    [
        "home/../../escaped",
        "/etc/escaped",
        "home//x",
        "..",
        "home/..\\..\\x",
        "C:/x",
        "home/./x",
        "home/a\0b",
        "home/x\n",
        "home/.migrating/changes.jsonl",
        "home/users/ada/.migrating/changes.jsonl",
    ],
)
def test_names_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    archive = forged(tmp_path / "evil.zip", {"home/SOUL.md": b"ok"})
    record = {"path": name, "kind": "file", "bytes": 2, "sha256": "0" * 64}
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("manifest.json", json.dumps({"format": "hermes-export", "version": 1, "files": [record]}))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(HermesError):
        import_home(str(archive), str(tmp_path / "home"))
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.proves("export.hostile")
def test_links_bombs_duplicates_and_forged_sizes_are_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("home/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    cases: dict[str, Callable[[zipfile.ZipFile], None]] = {
        "link": lambda made: made.writestr(link, "/etc/passwd"),
        "extra": lambda made: made.writestr("home/not-in-the-manifest", "x"),
    }
    for name, add in cases.items():
        archive = forged(tmp_path / f"{name}.zip", {"home/SOUL.md": b"ok"})
        with zipfile.ZipFile(archive, "a") as made:
            add(made)
        assert _refused(archive, tmp_path / "target")
    big = forged(tmp_path / "big.zip", {"home/a": b"0" * (3 << 20)})
    lying = json.loads(zipfile.ZipFile(big).read("manifest.json"))
    for size in (5, 1 << 50, -1, "9"):
        lying["files"][0]["bytes"] = size
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("home/a", b"0" * (3 << 20))
            made.writestr("manifest.json", json.dumps(lying))
        (tmp_path / "lying.zip").write_bytes(packed.getvalue())
        assert _refused(tmp_path / "lying.zip", tmp_path / "target")
    twice = {"path": "home/a", "kind": "file", "bytes": 1, "sha256": "0"}
    assert _refused(forged(tmp_path / "twice.zip", {"home/a": b"1"}, files=[twice, twice]), tmp_path / "target")
    other = {"path": "home/a", "kind": "file", "bytes": 1, "sha256": "0" * 64}
    assert _refused(forged(tmp_path / "swapped.zip", {"home/a": b"1"}, files=[other]), tmp_path / "target")
    assert _refused(forged(tmp_path / "case.zip", {"home/a": b"1", "home/A": b"2"}), tmp_path / "target")
    assert _refused(forged(tmp_path / "newer.zip", {"home/a": b"1"}, version=99), tmp_path / "target")


def _refused(archive: Path, target: Path) -> bool:
    with pytest.raises(HermesError):
        import_home(str(archive), str(target))
    return not target.exists() and not [name for name in os.listdir(target.parent) if "arriving" in name]


@pytest.mark.proves("export.hostile")
@pytest.mark.parametrize(
    "record",
    [
        {"type": "session"},
        {"type": "session", "owner": "nobody", "id": "x", "source": "s", "row": {"key": 1}},
        {"type": "session", "owner": "local", "id": "x", "source": "s", "row": {"key": [1]}, "title": {"a": 1}},
        {"type": "message", "session": "x", "id": 1, "at": 0, "message": {"role": "user"}},
        {"type": "meta", "key": "1:x", "value": {"base64": "%%%"}},
        {"type": "row", "table": "sqlite_schema", "values": {"sql": "DROP"}, "more": 1},
    ],
)
def test_conversations_that_were_tampered_with_are_refused_or_left_out(record: dict[str, Any], tmp_path: Path) -> None:
    lines = [{"type": "database", "owners": {"1": "local"}}, record]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    archive = forged(tmp_path / "x.zip", {"home/conversations.jsonl": data})
    with zipfile.ZipFile(archive) as made:
        about = json.loads(made.read("manifest.json"))
    about["files"][0]["kind"] = "conversations"
    forged(archive, {"home/conversations.jsonl": data}, files=about["files"])
    if record["type"] == "row":
        assert import_home(str(archive), str(tmp_path / "target")).left_out == 1
    else:
        assert _refused(archive, tmp_path / "target")


@pytest.mark.proves("export.damaged")
def test_one_flipped_byte_anywhere_is_noticed(tmp_path: Path) -> None:
    home = furnish(tmp_path / "home", small=True)
    export_home(str(home), str(tmp_path / "x.zip"), Selection(secrets=True))
    sound = (tmp_path / "x.zip").read_bytes()
    unnoticed = []
    for place in range(0, len(sound), len(sound) // 40):
        broken = bytearray(sound)
        broken[place] ^= 0x55
        (tmp_path / "broken.zip").write_bytes(broken)
        try:
            import_home(str(tmp_path / "broken.zip"), str(tmp_path / "target"))
        except HermesError:
            assert not (tmp_path / "target").exists()
            continue
        export_home(str(tmp_path / "target"), str(tmp_path / "again.zip"), Selection(secrets=True))
        if (tmp_path / "again.zip").read_bytes() != sound:  # a byte that says nothing about the content may change
            unnoticed.append(place)
        (tmp_path / "again.zip").unlink()
        shutil.rmtree(tmp_path / "target")
    assert unnoticed == []


@pytest.mark.proves("export.killed")
def test_a_killed_import_leaves_the_home_as_it_was(home: Path, hermes: Command, tmp_path: Path) -> None:
    furnish(home, small=True)
    hermes("export", str(tmp_path / "x.zip"))
    hermes("memory", "add", "Something newer than the export.")
    before = tree(home)
    code = (
        "import os, sys\nfrom hermes.storage.local import dump\ndump.Load._complete = lambda self: os._exit(9)\n"
        "from hermes.cli.app import run\nrun(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, "import", str(tmp_path / "x.zip"), "--replace"]
    environment = {**os.environ, "HERMES_HOME": str(home)}
    assert subprocess.run(command, env=environment, check=False).returncode == 9
    assert tree(home) == before
    assert any("arriving" in name for name in os.listdir(home.parent))
    assert hermes("import", str(tmp_path / "x.zip"), "--replace").code == 0
    assert not any("arriving" in name for name in os.listdir(home.parent))


@pytest.mark.proves("export.not-empty")
def test_words_that_are_no_archive_are_answered_with_the_right_command(hermes: Command, tmp_path: Path) -> None:
    assert hermes("import", str(tmp_path / "missing.zip")).code == 1
    (tmp_path / "other.zip").write_bytes(b"PK")
    refused = hermes("import", str(tmp_path / "other.zip"))
    assert (refused.code, "hermes sessions import" in refused.err) == (2, True)
    assert hermes("export", str(tmp_path / "x")).code == 1


@pytest.mark.proves("export.merge")
def test_an_export_is_added_to_a_home_that_has_content(home: Path, hermes: Command, tmp_path: Path) -> None:
    other = furnish(tmp_path / "other", 3, small=True)
    export_home(str(other), str(tmp_path / "x.zip"), Selection())
    hermes("memory", "add", "Mine.")
    with SessionDB.open(home / "state.db") as db:
        db.append(db.create_session(title="Mine"), {"role": "user", "content": "my words"})
    assert hermes("import", str(tmp_path / "x.zip"), "--merge", "--dry-run").code == 0
    ran = hermes("import", str(tmp_path / "x.zip"), "--merge", "--yes")
    assert ran.code == 0, ran.err
    assert MemoryStore.open(home).entries("memory") == ("Mine.", *MemoryStore.open(other).entries("memory"))
    with SessionDB.open(home / "state.db") as db, SessionDB.open(other / "state.db") as there:
        titles = {session.title for session in db.list_sessions()}
        assert titles >= {"Mine", "Release #2"}
        assert "Other owner" not in titles
        for session in there.list_sessions():
            assert [m.text for m in db.messages(session.id)] == [m.text for m in there.messages(session.id)]
    assert (home / "skills" / "ops" / "deploy" / "SKILL.md").exists()
    assert "nothing was changed" in hermes("import", str(tmp_path / "x.zip"), "--merge", "--yes").out
