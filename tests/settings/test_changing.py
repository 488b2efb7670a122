"""`hermes config` and `hermes profile` as a person uses them to change things, and completion in a shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hermes.cli.catalogue import GROUPS, SINGLES
from hermes.cli.commands.config import bash, words_after
from hermes.settings.schema import all_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


@pytest.mark.proves("settings.comments")
def test_a_setting_is_taken_out_again_and_comments_survive(home: Path, hermes: Command) -> None:
    home.mkdir()
    path = home / "config.yaml"
    path.write_text(
        "# mine\nmemory:\n  nudge_interval: 3  # often\n  # room\n  memory_char_limit: 3000\n"
        "review:\n  # later\n  enabled: false\n"
        "\n# people\ngateway:\n  people:\n    telegram:\n      '11': ann\n  # no more\n"
        "sessions: {retention_days: 9, auto_prune: true}\nfallback_models:\n- local\n"
    )
    done = hermes("config", "unset", "memory.nudge_interval")
    assert done.out == f"memory.nudge_interval is 10 by default again (removed from {path})\n"
    for name in ("review.enabled", "gateway.people", "sessions.retention_days", "fallback_models"):
        assert hermes("config", "unset", name).code == 0
    assert path.read_text() == (
        "# mine\nmemory:\n  # room\n  memory_char_limit: 3000\nreview:\n  # later\n\n# people\n  # no more\n"
        "sessions: {auto_prune: true}\n"
    )
    again = hermes("config", "unset", "review.enabled", "--json").json
    assert again == {"key": "review.enabled", "value": True, "file": str(path), "was_set": False}
    assert "is not in" in hermes("config", "unset", "review.enabled").out
    assert "is not in" in hermes("config", "unset", "sessions.retention_days").out
    unknown = hermes("config", "unset", "memory.nudge")
    assert (unknown.code, "there is no setting memory.nudge" in unknown.err) == (2, True)
    hermes("users", "add", "ann", "--no-key")
    assert "leave --user out" in hermes("--user", "ann", "config", "unset", "memory.memory_char_limit").err


@pytest.mark.proves("settings.comments")
def test_a_mapping_is_written_as_json_or_as_it_would_stand_in_the_file(home: Path, hermes: Command) -> None:
    for words in ('{"telegram": {"11": "ann"}}', "telegram: {'11': ann}", "{telegram: {'11': ann}}"):
        assert hermes("config", "set", "gateway.people", words).code == 0
        assert hermes("config", "get", "gateway.people", "--json").json["value"] == {"telegram": {"11": "ann"}}
    for words in ("ann", "{ann"):
        wrong = hermes("config", "set", "gateway.people", words)
        assert wrong.code == 2
        assert f"write it as {{key: value}}, or edit {home / 'config.yaml'}" in wrong.err


@pytest.mark.proves("settings.lists")
@pytest.mark.parametrize(
    ("words", "stored"),
    [
        ('["http://localhost:3000"]', ["http://localhost:3000"]),
        ('["git log, all", "ls"]', ["git log, all", "ls"]),
        ("[http://localhost:3000, ls]", ["http://localhost:3000", "ls"]),
        ("http://localhost:3000, ls", ["http://localhost:3000", "ls"]),
        ('"one", two', ["one", "two"]),
        ('git log --format="%h: %s"', ['git log --format="%h: %s"']),
        ('["1", 2]', ["1", "2"]),
        ("[]", []),
        ("", []),
    ],
)
def test_a_list_is_written_as_json_as_in_the_file_or_with_commas(
    words: str, stored: list[str], hermes: Command
) -> None:
    for name in [key.name for key in all_keys().values() if key.kind == "texts"]:
        assert hermes("config", "set", name, words).code == 0
        assert hermes("config", "get", name, "--json").json["value"] == stored
    assert hermes("config", "check").code == 0


@pytest.mark.proves("settings.lists")
@pytest.mark.parametrize("words", ['["a"', "[[a]]", '"a', "[{a: b}]"])
def test_a_list_that_cannot_be_read_is_refused_with_how_to_write_it(words: str, hermes: Command) -> None:
    refused = hermes("config", "set", "server.origins", words)
    assert (refused.code, "expected a list of texts" in refused.err) == (2, True)
    assert 'write it as ["one", "two"] or one, two' in refused.err
    assert hermes("config", "get", "server.origins", "--json").json["value"] == []


@pytest.mark.proves("settings.errors")
@pytest.mark.parametrize("name", ["model.api_key", "OPENAI_API_KEY", "anthropic.api-key", "token"])
def test_a_key_guessed_as_a_setting_is_answered_with_where_keys_are(name: str, hermes: Command) -> None:
    for words in (("config", "set", name, "sk-1"), ("config", "get", name), ("config", "unset", name)):
        told = hermes(*words)
        assert (told.code, "keys belong in .env next to config.yaml: `hermes setup`" in told.err) == (2, True)
        assert "sk-1" not in told.err


@pytest.mark.proves("settings.errors")
def test_other_guessed_settings_are_answered_with_the_right_one(hermes: Command) -> None:
    assert "did you mean model.default?" in hermes("config", "set", "model", "claude").err
    assert "did you mean model.base_url?" in hermes("config", "set", "model.url", "http://x").err
    assert "model.extra_body" in hermes("config", "set", "model.temperature", "0").err
    assert "model.provider (who serves the model) or memory.provider" in hermes("config", "get", "provider").err


@pytest.mark.proves("settings.comments")
@pytest.mark.parametrize("words", ["{on: 2026-01-01}", "{at: .nan}", "{some: !!set {x}}", "&a {b: *a}", "[" * 1000])
def test_a_mapping_that_could_not_be_sent_is_refused_and_never_ends_a_command(
    words: str, home: Path, hermes: Command
) -> None:
    refused = hermes("config", "set", "model.extra_body", words)
    assert (refused.code, "expected a mapping of names to values" in refused.err) == (2, True)
    assert hermes("config", "set", "model.extra_body", "{on: '2026-01-01', most: 2.5, also: [1, {b: true}]}").code == 0
    path = home / "config.yaml"
    path.write_text("model:\n  extra_body:\n    on: 2026-01-01\n")
    os.utime(path, (0, 0))  # old enough for the cache
    assert f"{path}:2: model.extra_body: expected a mapping" in hermes("memory", "list").err


@pytest.mark.proves("settings.comments")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('model:\n  default: "one\n two"\n  provider: x # y\n', "model:\n  provider: x # y\n"),
        ('model:\n  default: "one\n\ntwo"\n', "model: {}\n"),
    ],
)
def test_a_value_over_lines_that_only_the_parser_can_tell_is_taken_out_whole(
    before: str, after: str, home: Path, hermes: Command
) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(before)
    assert hermes("config", "unset", "model.default").code == 0
    assert (home / "config.yaml").read_text() == after


@pytest.mark.proves("settings.comments")
def test_a_value_that_is_merged_in_from_elsewhere_is_not_guessed_at(home: Path, hermes: Command) -> None:
    home.mkdir()
    text = "curator: &same\n  enabled: false\nreview:\n  <<: *same\n"
    (home / "config.yaml").write_text(text)
    refused = hermes("config", "unset", "review.enabled")
    assert (refused.code, "comes from another part of the file" in refused.err) == (2, True)
    assert (home / "config.yaml").read_text() == text


@pytest.mark.proves("settings.origin")
def test_a_heading_shows_everything_below_it(hermes: Command) -> None:
    shown = hermes("config", "get", "session_reset").out.splitlines()
    assert len(shown) == 5
    assert all(line.startswith("session_reset.") and line.endswith("(default)") for line in shown)
    assert hermes("config", "get", "session_reset", "--json").json["session_reset.mode"]["origin"] == "default"
    assert hermes("config", "get", "session").code == 2


@pytest.mark.proves("settings.profiles")
def test_a_profile_is_renamed_and_the_chosen_one_stays_chosen(hermes: Command) -> None:
    hermes("profile", "create", "work")
    hermes("--profile", "work", "memory", "add", "Deploys on Fridays.")
    hermes("profile", "create", "other")
    taken = hermes("profile", "create", "work")
    assert (taken.code, "there already is a profile work" in taken.err) == (2, True)
    assert hermes("profile", "rename", "work", "other").code == 2
    hermes("profile", "use", "work")
    assert hermes("profile", "rename", "work", "office").out.endswith("office, and still the chosen one\n")
    assert hermes("profile", "rename", "other", "home").code == 0
    assert hermes("profile", "list").out == "  default\n  home\n* office\n"
    assert "Deploys on Fridays." in hermes("memory", "list").out


@pytest.mark.proves("settings.profiles")
def test_the_home_itself_is_no_profile_to_make_rename_or_delete(home: Path, hermes: Command) -> None:
    hermes("profile", "create", "work")
    for words in (("create", "default"), ("rename", "work", "default")):
        refused = hermes("profile", *words)
        assert (refused.code, "means the home itself" in refused.err) == (2, True)
    assert "default is the home itself" in hermes("profile", "delete", "default", "--yes").err
    assert hermes("profile", "list").out == "* default\n  work\n"
    assert home.is_dir()


@pytest.mark.proves("settings.profiles")
def test_what_a_linked_profile_leads_to_is_not_deleted(home: Path, hermes: Command, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    hermes("profile", "create", "work")
    (home / "profiles" / "linked").symlink_to(elsewhere)
    hermes("profile", "use", "linked")
    refused = hermes("profile", "delete", "linked", "--yes")
    assert refused.code == 1
    assert refused.err.endswith(f"is a link to {elsewhere}; nothing was deleted: remove the link yourself\n")
    assert (elsewhere / "kept").exists()
    assert "* linked" in hermes("profile", "list").out


@pytest.mark.proves("settings.profiles")
def test_a_profile_that_the_system_keeps_is_told_in_a_line(hermes: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    hermes("profile", "create", "work")
    monkeypatch.setattr("os.rename", refuse)
    assert "could not rename" in hermes("profile", "rename", "work", "office").err
    monkeypatch.setattr("shutil.rmtree", refuse)
    assert "could not delete all of" in hermes("profile", "delete", "work", "--yes").err


@pytest.mark.proves("settings.profiles", "ground.confirm")
def test_a_profile_is_deleted_only_with_consent_and_the_chosen_one_is_named_as_such(
    home: Path, hermes: Command
) -> None:
    for name in ("work", "play"):
        hermes("profile", "create", name)
    hermes("profile", "use", "work")
    asked = hermes("profile", "delete", "work")
    assert asked.code == 1
    assert "nothing was deleted; --yes deletes" in asked.err
    assert "work, which is used when none is named, without asking" in asked.err
    assert hermes("profile", "delete", "play", "--yes").out == "profile play is gone\n"
    gone = hermes("profile", "delete", "work", "--yes")
    assert gone.out == "profile work is gone; from now on the home itself is used\n"
    assert hermes("profile", "list", "--json").json == {"chosen": "default", "profiles": ["default"]}
    assert list((home / "profiles").iterdir()) == []
    assert hermes("profile", "delete", "work", "--yes").code == 1


@pytest.mark.proves("settings.errors", "settings.odd-files")
def test_what_is_no_settings_file_is_told_in_plain_words(home: Path, hermes: Command) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("- memory\n- review\n")
    assert "expected `name: value` lines, found a list; correct the file" in hermes("config", "check").out
    (home / "config.yaml").write_text("memory\n")
    assert "found a single text; correct the file" in hermes("config", "check").out
    (home / "config.yaml").unlink()
    (home / ".env").write_text("not a secret\n")
    told = hermes("doctor", "--offline").out
    assert ".env:1: expected NAME=value, or # and a comment\n    → edit that line" in told


@pytest.mark.proves("ground.completion")
def test_every_command_can_be_completed() -> None:
    after = words_after()
    assert {*GROUPS, *SINGLES} <= set(after[""])
    assert "--target" in after["memory add"]
    assert {"bash", "zsh", "fish"} <= set(after["completion"])


_BEGUN = pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["mem"], "memory"),
        (["memory", "und"], "undo"),
        (["memory", "add", "--targ"], "--target"),
        (["memory", "add", "--target", "us"], "user"),
        (["scan", "--scope", "con"], "context"),
        (["config", "get", "memory.nudge_i"], "memory.nudge_interval"),
        (["doctor", "--off"], "--offline"),
        (["--contin"], "--continue"),
    ],
    ids=[
        "a group",
        "its command",
        "an option",
        "its value",
        "of a single",
        "a setting",
        "an option of it",
        "of the chat",
    ],
)


@pytest.mark.proves("ground.completion")
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@_BEGUN
def test_fish_completes_what_was_begun(typed: list[str], completed: str) -> None:
    asking = f"{sys.executable} -m hermes completion fish | source; complete -C'hermes {' '.join(typed)}'"
    done = subprocess.run(["fish", "-N", "-c", asking], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.fixture(scope="module")
def completions() -> str:
    return bash()  # it loads every command, so it is made once


@pytest.mark.proves("ground.completion")
@_BEGUN
def test_bash_completes_what_was_begun(typed: list[str], completed: str, completions: str) -> None:
    words = " ".join(["hermes", *typed])
    asking = f'{completions}\nCOMP_WORDS=({words}); COMP_CWORD={len(typed)}; _hermes; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-s"], input=asking, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"{completed}\n", "")


@pytest.mark.proves("ground.completion")
def test_zsh_takes_the_script_of_bash_and_fish_has_its_own(hermes: Command) -> None:
    first, *rest = hermes("completion", "zsh").out.splitlines()
    assert (first[:1], rest[0], "\n".join(rest[1:])) == ("#", "autoload -Uz bashcompinit && bashcompinit", bash())
    fish = hermes("completion", "fish").out
    assert "-n '__fish_seen_subcommand_from memory; and __fish_seen_subcommand_from add' -a '--target" in fish
    assert hermes("completion", "csh").code == 2
