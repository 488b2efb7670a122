"""`hermes users` and `--user`: homes below the operator's, their keys, and forgetting somebody."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.errors import HermesError, NotFound, SettingsError, StorageError, UnsafePath
from hermes.operations.forget import finish_removals
from hermes.session.session import MemorySession
from hermes.settings.home import find_home, person_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


def talk(home: Path, name: str, said: str, answered: str) -> None:
    with MemorySession.open(person_home(find_home(home), name), source="test") as session:
        session.prepare_turn(said)
        session.finish_turn(answered)


@pytest.mark.proves("people.home", "people.apart")
def test_each_person_has_memory_and_conversations_of_their_own(home: Path, hermes: Command) -> None:
    for name in ("ann", "bob"):
        assert hermes("users", "add", name).code == 0
    hermes("--user", "ann", "memory", "add", "Grows orchids on the balcony.")
    talk(home, "ann", "Where did I put the pruning shears?", "In the blue shed.")
    assert "orchids" in hermes("--user", "ann", "memory", "list").out
    assert hermes("--user", "ann", "sessions", "search", "pruning shears").code == 0
    for other in (("--user", "bob"), ()):
        assert "orchids" not in hermes(*other, "memory", "list").out
        assert "shed" not in hermes(*other, "sessions", "list", "--json").out
        assert "orchids" not in hermes(*other, "prompt").out
    assert "orchids" in hermes("--user", "ann", "prompt").out


@pytest.mark.proves("people.home")
def test_settings_secrets_and_identity_come_from_the_operator(home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    hermes("config", "set", "memory.memory_char_limit", "1234")
    (home / "SOUL.md").write_text("# Garden club\n\nAnswer members of the garden club kindly.")
    assert hermes("--user", "ann", "config", "get", "memory.memory_char_limit").out.strip() == "1234"
    assert "garden club" in hermes("--user", "ann", "prompt").out
    refused = hermes("--user", "ann", "config", "set", "memory.memory_char_limit", "999")
    assert refused.code == 2
    assert "operator" in refused.err
    places = hermes("--user", "ann", "config", "path", "--json").json
    assert places["settings"] == str(home / "config.yaml")
    assert places["memories"] == str(home / "users" / "ann" / "memories")


@pytest.mark.proves("people.shared")
def test_what_the_operator_shares_stands_in_every_persons_prompt_and_nobody_can_change_it(
    home: Path, hermes: Command
) -> None:
    for name in ("ann", "bob"):
        hermes("users", "add", name)
    (home / "shared").mkdir()
    (home / "shared" / "KNOWLEDGE.md").write_text("The club meets on Tuesdays at seven.")
    for name in ("ann", "bob"):
        assert "meets on Tuesdays" in hermes("--user", name, "prompt").out
    assert "meets on Tuesdays" not in hermes("prompt").out
    change = {"action": "remove", "target": "memory", "old_text": "Tuesdays"}
    assert hermes("--user", "ann", "tool", "memory", json.dumps(change)).json["success"] is False
    assert (home / "shared" / "KNOWLEDGE.md").read_text() == "The club meets on Tuesdays at seven."


@pytest.mark.proves("people.keys")
def test_a_key_is_shown_once_and_only_its_hash_is_kept(home: Path, hermes: Command) -> None:
    added = hermes("users", "add", "ann", "--json").json
    second = hermes("users", "key", "ann", "--label", "laptop", "--json").json
    people = People(find_home(home))
    assert [people.who(added["key"]), people.who(second["key"])] == ["ann", "ann"]
    everything = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert added["key"].encode() not in everything
    assert added["key"][3:].encode() not in everything
    assert [key["id"] for key in hermes("users", "list", "--json").json[0]["keys"]] == [
        added["key_id"],
        second["key_id"],
    ]
    assert hermes("users", "key", "ann", "--revoke", added["key_id"]).code == 0
    assert [people.who(added["key"]), people.who(second["key"])] == [None, "ann"]
    assert people.who("hk-" + "x" * 43) is None
    assert hermes("users", "key", "ann", "--revoke", added["key_id"]).code == 1


@pytest.mark.proves("people.keys")
def test_the_owner_of_the_home_can_have_a_key_to_it_but_no_second_home(home: Path, hermes: Command) -> None:
    key = hermes("users", "key", "owner", "--json").json["key"]
    people = People(find_home(home))
    assert people.who(key) == "owner"
    assert people.home_of("owner").path == str(home)
    assert hermes("users", "add", "owner").code == 2
    assert hermes("users", "forget", "owner", "--yes").code != 0
    assert home.is_dir()


@pytest.mark.proves("people.same-answer")
def test_somebody_who_does_not_exist_gets_the_answer_of_a_name_that_cannot_exist(home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    (home / "users" / "link").symlink_to(home)
    answers = {
        hermes("--user", name, "memory", "list").err.replace(repr(name), "X")
        for name in ("bob", "../..", "ann/../ann", "link", "", ".", "ann\n", "a" * 90, "con")
    }
    assert len(answers) == 1
    assert {hermes("users", verb, "bob").code for verb in ("key", "forget")} == {1}


@pytest.mark.proves("people.names")
@given(st.text(max_size=80) | st.sampled_from(["con", "nul", "com1", "a/b", "..", "%2f", "ann\n", "x" * 400, "A"]))
def test_no_name_leads_out_of_the_folder_of_people(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    home = find_home(tmp_path_factory.getbasetemp() / "names")
    people = People(home)
    try:
        people.add(name)
    except SettingsError:
        with pytest.raises(NotFound):
            person_home(home, name)
        return
    assert os.path.dirname(people.home_of(name).path) == home.join("users")
    assert name == name.strip().lower()


@pytest.mark.proves("people.private")
def test_everything_of_a_person_is_private_from_the_start(home: Path, hermes: Command) -> None:
    before = os.umask(0)
    try:
        hermes("users", "add", "ann")
        hermes("--user", "ann", "memory", "add", "Plays the cello.")
        talk(home, "ann", "hello there", "hello")
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in home.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


@pytest.mark.proves("people.private")
def test_no_link_leads_from_one_person_to_another(home: Path, hermes: Command) -> None:
    for name in ("ann", "bob"):
        hermes("users", "add", name)
    hermes("--user", "ann", "memory", "add", "Plays the cello.")
    ann, bob = home / "users" / "ann", home / "users" / "bob"
    (bob / "memories").mkdir(parents=True)
    (bob / "memories" / "MEMORY.md").symlink_to(ann / "memories" / "MEMORY.md")
    refused = hermes("--user", "bob", "memory", "list")
    assert refused.code == 1
    assert "cello" not in refused.out + refused.err
    talk(home, "ann", "hello there", "hello")
    (bob / "state.db").symlink_to(ann / "state.db")
    with pytest.raises((UnsafePath, StorageError)):
        MemorySession.open(person_home(find_home(home), "bob"))


@pytest.mark.proves("people.apart")
@pytest.mark.usefixtures("both_engines")
def test_the_profile_argument_of_a_search_stays_inside_a_persons_home(home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    hermes("profile", "create", "work")
    with MemorySession.open(find_home(home / "profiles" / "work")) as session:
        session.prepare_turn("the merger with Zorblax is secret")
        session.finish_turn("noted")
    for profile in ("work", "default", "../..", "../../profiles/work"):
        asked = json.dumps({"query": "Zorblax merger", "profile": profile})
        assert "secret" not in hermes("--user", "ann", "tool", "session_search", asked).out


@pytest.mark.proves("people.forget")
def test_forgetting_removes_everything_after_a_dry_run_and_proves_it(home: Path, hermes: Command) -> None:
    for name in ("ann", "bob"):
        hermes("users", "add", name)
    hermes("--user", "ann", "memory", "add", "Collects Bavarian beer coasters.")
    hermes("--user", "ann", "memory", "remove", "coasters")
    talk(home, "ann", "Remind me of the dentist in Rosenheim tomorrow.", "The dentist in Rosenheim, noted.")
    talk(home, "bob", "What is the weather like in Oslo today?", "Rainy, with some wind from the fjord.")
    dry = hermes("users", "forget", "ann", "--json").json
    assert (dry["done"], dry["entries"], dry["messages"], dry["elsewhere"]) == (False, 1, 2, [])
    assert (home / "users" / "ann").is_dir()
    assert hermes("users", "forget", "ann", "--yes", "--dry-run", "--json").json["done"] is False
    done = hermes("users", "forget", "ann", "--yes", "--json").json
    assert (done["done"], done["elsewhere"]) == (True, [])
    assert done["searched_phrases"] >= 3
    left = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert not [word for word in (b"coasters", b"Rosenheim", b'"ann"') if word in left]
    assert hermes("users", "forget", "ann").code == 1
    assert hermes("--user", "bob", "sessions", "search", "weather Oslo").code == 0


@pytest.mark.proves("people.forget")
def test_words_and_archives_that_stand_elsewhere_are_named(home: Path, hermes: Command) -> None:
    import zipfile

    hermes("users", "add", "ann")
    hermes("--user", "ann", "memory", "add", "Collects Bavarian beer coasters.")
    (home / "notes.txt").write_text("copied: Collects Bavarian beer coasters.")
    with zipfile.ZipFile(home / "old.zip", "w") as archive:
        archive.writestr("home/users/ann/memories/MEMORY.md", "…")
    (home / "broken.zip").write_text("no archive")
    hermes("users", "add", "bob")
    talk(home, "bob", "Who is it that Collects Bavarian beer coasters.", "Ann, I believe.")
    dry = hermes("users", "forget", "ann").out
    assert f"{home / 'notes.txt'}: holds words of ann, such as 'Collects Bavarian beer coasters.'; look at it" in dry
    assert "`hermes sessions search` finds them" in dry
    ran = hermes("users", "forget", "ann", "--yes")
    assert ran.code == 1
    assert f"{home / 'notes.txt'}: holds words of ann; look at it" in ran.out
    assert f"{home / 'old.zip'}: an archive" in ran.out
    assert "broken.zip" not in ran.out


@pytest.mark.proves("people.forget")
def test_what_cannot_be_read_of_a_person_is_named_and_removed_all_the_same(home: Path, hermes: Command) -> None:
    import tarfile

    for name in ("ann", "bob"):
        hermes("users", "add", name)
    hermes("--user", "ann", "memory", "add", "Collects Bavarian beer coasters.")
    talk(home, "ann", "Remind me of the dentist in Rosenheim tomorrow.", "The dentist in Rosenheim, noted.")
    ann = home / "users/ann"
    with MemorySession.open(person_home(find_home(home), "ann")) as session:
        session.record({"role": "user", "content": [{"type": "text", "text": "a picture"}]})
    (ann / "memories/MEMORY.md.history.jsonl").unlink()
    (ann / "memories/MEMORY.md.history.jsonl").mkdir()
    (ann / "elsewhere").symlink_to(home / "users/bob")
    (ann / "gone").symlink_to(home / "nothing")
    with tarfile.open(home / "old.tar.gz", "w:gz") as archive:
        archive.add(ann, "home/users/ann")
    (told,) = hermes("users", "forget", "ann", "--json").json["problems"]
    assert "not a regular file" in told
    (ann / "state.db").write_bytes(b"no database at all" * 100)
    dry = hermes("users", "forget", "ann", "--json").json
    assert (len(dry["problems"]), dry["archives"]) == (2, [str(home / "old.tar.gz")])
    hermes("users", "forget", "ann", "--yes")
    assert not ann.exists()
    assert (home / "users/bob").is_dir()


@pytest.mark.proves("people.forget")
def test_a_removal_that_fails_says_so_and_two_at_once_do_not_mind(
    home: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    real = shutil.rmtree

    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    def twice(path: str) -> None:
        real(path)
        real(path)

    hermes("users", "add", "ann")
    hermes("--user", "ann", "memory", "add", "Collects Bavarian beer coasters.")
    monkeypatch.setattr(shutil, "rmtree", refused)
    ran = hermes("users", "forget", "ann", "--yes")
    assert (ran.code, "Permission denied" in ran.err) == (1, True)
    monkeypatch.setattr(shutil, "rmtree", twice)
    assert finish_removals(find_home(home)) == 1
    assert finish_removals(find_home(home)) == 0


@pytest.mark.proves("people.forget")
def test_a_removal_that_was_interrupted_is_finished_by_the_next(home: Path, hermes: Command) -> None:
    hermes("users", "add", "ann")
    hermes("--user", "ann", "memory", "add", "Collects Bavarian beer coasters.")
    people = People(find_home(home))
    aside = people.remove("ann")
    assert os.path.isdir(aside)
    assert hermes("--user", "ann", "memory", "list").code == 1
    assert finish_removals(people.home) == 1
    assert not os.path.exists(aside)


@pytest.mark.proves("people.keys")
def test_a_list_of_people_that_cannot_be_read_lets_nobody_in(home: Path, hermes: Command) -> None:
    key = hermes("users", "add", "ann", "--json").json["key"]
    (home / "users.json").write_text('{"people": []}')
    with pytest.raises(HermesError, match=r"users\.json"):
        People(find_home(home)).who(key)
    assert hermes("users", "add", "bob").code == 1


PLUGIN = """
from hermes import MemoryProvider

class Remote(MemoryProvider):
    name = "remote"
    def is_available(self): return True
    def initialize(self, session_id, **kwargs): self.person = kwargs["user_id"]
    def get_tool_schemas(self): return []
    def forget_person(self):
        if self.person == "bob":
            raise RuntimeError("the service is away")
        return f"deleted 3 memories of {self.person}"

def register(context):
    context.register_memory_provider(Remote())
"""


@pytest.mark.proves("people.forget")
def test_providers_are_asked_to_delete_what_they_keep_elsewhere(home: Path, hermes: Command) -> None:
    for name in ("ann", "bob"):
        hermes("users", "add", name)
    (home / "plugins" / "remote").mkdir(parents=True)
    (home / "plugins" / "remote" / "__init__.py").write_text(PLUGIN)
    hermes("config", "set", "memory.provider", "remote")
    assert hermes("users", "forget", "ann", "--json").json["providers"] == [
        "remote: would be asked to delete what it keeps"
    ]
    assert hermes("users", "forget", "ann", "--yes", "--json").json["providers"] == [
        "remote: deleted 3 memories of ann"
    ]
    failed = hermes("users", "forget", "bob", "--yes")
    assert failed.code == 1
    assert "the service is away" in failed.out
    assert not (home / "users" / "bob").exists()
