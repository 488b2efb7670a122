"""What a person pays before anything happens, and what they see first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import hermes
from hermes import __version__
from hermes.cli.catalogue import GROUPS, GUESSED, SINGLES, VERBS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

# Each of these costs a cold write more than everything it loads of ours.
SLOW = {"apsw", "asyncio", "httpx", "logging", "prompt_toolkit", "rich", "ruamel"}


def modules_after(code: str) -> set[str]:
    script = f"import sys; {code}; print('|'.join(sys.modules))"
    out = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout
    return set(out.splitlines()[-1].split("|"))


@pytest.mark.proves("ground.version")
def test_version_is_answered_without_importing_anything_else() -> None:
    code = "sys.argv = ['hermes', '--version']; from hermes.__main__ import main; main()"
    loaded = {name for name in modules_after(code) if name.startswith("hermes")}
    assert loaded == {"hermes", "hermes.__main__", "hermes.base", "hermes.base.version"}


@pytest.mark.proves("ground.usage")
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["config", "path"]])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_an_answer_that_cannot_be_written_is_told_in_a_line(words: list[str], buffered: str, home: Path) -> None:
    command = [sys.executable, "-P", "-c", "from hermes.__main__ import start; start()", *words]
    environment = {**os.environ, "HERMES_HOME": str(home), "PYTHONUNBUFFERED": buffered}
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "hermes: the answer cannot be written to standard output: No space left on device\n"
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.proves("ground.version")
def test_version_is_printed_among_other_options_too(hermes: Command, home: Path) -> None:
    assert hermes("--home", str(home), "--version").out == f"hermes {__version__}\n"


@pytest.mark.proves("ground.import")
def test_importing_the_package_loads_no_third_party_module() -> None:
    extra = modules_after("import hermes") - modules_after("pass")
    assert {name.partition(".")[0] for name in extra} <= {"hermes", "__future__"}


@pytest.mark.proves("ground.cold-write")
@pytest.mark.parametrize(
    "words",
    [
        ["memory", "add", "The office has a garden."],
        ["tool", "memory", '{"action": "add", "target": "user", "content": "Prefers short answers."}'],
    ],
    ids=["a person's", "a model's"],
)
def test_a_memory_write_from_a_fresh_process_loads_no_slow_module(home: Path, words: list[str]) -> None:
    code = f"sys.argv = ['hermes', *{words!r}]; from hermes.__main__ import main; main()"
    assert (modules_after(code) - modules_after("pass")) & SLOW == set()


@pytest.mark.proves("ground.help")
def test_every_command_has_help(hermes: Command) -> None:
    top = hermes("--help")
    assert top.code == 0
    for group, (_, commands) in GROUPS.items():
        assert f"  {group} " in top.out
        listed = hermes(group, "--help")
        assert listed.code == 0
        for name, (_, summary) in commands.items():
            assert summary in listed.out
            assert hermes(group, name, "--help").out.startswith(f"usage: hermes {group} {name}")
    for name in SINGLES:
        assert hermes(name, "--help").out.startswith(f"usage: hermes {name}")


@pytest.mark.proves("ground.help")
def test_a_mistyped_command_is_answered_with_the_nearest_name(hermes: Command) -> None:
    assert (hermes("memry").code, hermes("memory", "lst").code, hermes("memory").code) == (2, 2, 2)
    assert hermes("memry").err == "hermes: there is no command 'memry'; did you mean memory? (`hermes --help`)\n"
    assert "did you mean list?" in hermes("memory", "lst").err
    assert hermes("memory", "list", "--home").code == 2
    assert hermes("--home").err == "hermes: --home needs a value (`hermes --help`)\n"


@pytest.mark.proves("ground.help")
def test_help_begins_with_where_to_start_and_names_every_command_once(hermes: Command) -> None:
    top = hermes("--help").out
    start, *sections = top.split("start here:\n")[1].split("\n\n")
    assert [line.split()[0] for line in start.splitlines()] == ["demo", "setup", "chat", "mcp", "doctor"]
    rows = [line.split()[0] for each in sections if ":\n  " in each for line in each.splitlines()[1:]]
    named = [row for row in rows if not row.startswith("-")] + ["demo", "setup", "chat", "doctor"]
    assert sorted(named) == sorted([*GROUPS, *SINGLES])
    assert "more:" not in top + hermes("memory", "--help").out + hermes("sessions", "--help").out


@pytest.mark.proves("ground.guesses")
@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("search foo", "there is no command 'search'; try `hermes sessions search foo`"),
        ("remember I like tea", "try `hermes memory add I like tea`"),
        ("forget 3", "try `hermes memory remove 3`"),
        ("login", "try `hermes setup`"),
        ("key", "try `hermes setup`"),
        ("list", "`hermes memory list` for what is remembered"),
        ("history", "try `hermes sessions list`"),
        ("ask what is up", "try `hermes -q 'what is up'` (`hermes --help`)\n"),
        ("find the bug in it", "to ask it: hermes -q 'find the bug in it'"),
        ("update", "`git pull`"),
        ("memory search tea", "`hermes sessions search TEXT`"),
        ("memory edit 3 new", "try `hermes memory replace 3 new`"),
        ("memory rm 3", "try `hermes memory remove 3`"),
        ("sessions resume abc", "try `hermes --resume abc`"),
        ("sessions ls", "try `hermes sessions list`"),
        ("config edit", "`hermes config path`"),
        ("config list", "try `hermes config show`"),
        ("mcp add codex", "try `hermes mcp install codex`"),
        ("model use gpt", "try `hermes config set model.default gpt`"),
    ],
)
def test_a_command_that_people_guess_is_answered_with_the_right_one(typed: str, told: str, hermes: Command) -> None:
    ran = hermes(*typed.split())
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.proves("ground.guesses")
@pytest.mark.parametrize("group", ["", *GROUPS])
def test_every_hint_for_a_guess_names_commands_that_exist(group: str, hermes: Command) -> None:
    words = [word for row in (*GUESSED.get(group, {}), *(VERBS if group else ())) for word in row.split()]
    known = GROUPS[group][1] if group else {**GROUPS, **SINGLES}
    guessed = [word for word in words if word not in known]
    told = "".join(hermes(*filter(None, [group, word])).err for word in guessed)
    named = [piece.split()[1:] for piece in told.split("`") if piece.startswith("hermes ")]
    assert named or not guessed
    for first, *rest in (command for command in named if not command[0].startswith("-")):
        assert first in GROUPS or first in SINGLES
        second = rest[0] if rest else "--help"
        assert first in SINGLES or second.startswith("-") or second in GROUPS[first][1]


@pytest.mark.proves("ground.help")
def test_a_mistyped_option_is_answered_with_the_nearest_one(hermes: Command) -> None:
    mistyped = hermes("--moddel", "local", "-q", "hi")
    assert mistyped.code == 2
    assert mistyped.err.startswith(
        "hermes: there is no option --moddel; did you mean --model? (`hermes chat --help`)\nusage: hermes chat "
    )
    assert "there is no option --targt; did you mean --target?" in hermes("memory", "add", "x", "--targt=user").err
    assert hermes("memory", "add", "x", "--when=now").err.startswith(
        "hermes: there is no option --when (`hermes memory"
    )
    assert hermes("-x").err.startswith("hermes: there is no option -x (`hermes chat --help`)")
    assert "too many words: list (put a text of several words in quotes)" in hermes("memory", "list", "list").err
    assert "invalid choice: 'nobody'" in hermes("memory", "list", "--target", "nobody").err


@pytest.mark.proves("ground.help")
def test_a_sentence_instead_of_a_command_is_answered_with_how_to_ask_it(hermes: Command) -> None:
    told = "hermes: there is no command 'what is up' (`hermes --help`); to ask it: hermes -q 'what is up'\n"
    assert (hermes("what is up").code, hermes("what is up").err) == (2, told)
    assert "to ask it: hermes -q 'which is longer'" in hermes("which", "is", "longer").err
    assert "to ask it: hermes -q 'which is longer'" in hermes("chat", "which", "is", "longer").err
    both = hermes("--continue", "--resume", "auth", "-q", "hello")
    assert (both.code, "use only one of them" in both.err) == (2, True)
    assert "to ask it" not in hermes("memry", "list").err + hermes("xyzzy").err + hermes("xyzzy", "--json").err


@pytest.mark.proves("ground.errors-json")
def test_a_script_gets_failures_as_json_too(hermes: Command) -> None:
    missing = hermes("sessions", "show", "nothing", "--json")
    assert missing.out == ""
    assert json.loads(missing.err) == {
        "error": "there are no conversations yet; `hermes sessions import FILE` brings some in",
        "kind": "NotFound",
        "exit_code": 1,
    }
    unconfirmed = json.loads(hermes("memory", "reset", "--json").err)
    assert (unconfirmed["kind"], "--yes" in unconfirmed["error"]) == ("NotConfirmed", True)
    wrong = json.loads(hermes("memory", "list", "--json", "--targt", "user").err)
    assert (wrong["kind"], wrong["exit_code"]) == ("SettingsError", 2)
    assert hermes("sessions", "show", "--", "--json").err.startswith("hermes: there are no")


@pytest.mark.proves("ground.help", "ground.version")
def test_help_and_version_are_understood_as_words_too(hermes: Command) -> None:
    assert hermes("help").out == hermes("--help").out
    assert hermes("help", "memory").out == hermes("memory", "--help").out
    assert hermes("help", "memory", "add").out == hermes("memory", "add", "--help").out
    assert hermes("memory", "help").out == hermes("memory", "--help").out
    assert hermes("memory", "help", "add").out == hermes("memory", "add", "--help").out
    assert hermes("version").out == hermes("-V").out == hermes("--version").out


@pytest.mark.proves("ground.public-names")
def test_the_public_names_are_the_documented_ones() -> None:
    assert hermes.__all__ == [
        "Agent",
        "AsyncMemorySession",
        "ContextCompressor",
        "ContextEngine",
        "MemoryManager",
        "MemoryProvider",
        "MemorySession",
        "MemoryStore",
        "Receipt",
        "ReceiptItem",
        "Receipts",
        "SessionDB",
        "SessionOptions",
        "StreamingContextScrubber",
        "__version__",
        "build_memory_context_block",
        "image_part",
        "sanitize_context",
    ]
    assert all(getattr(hermes, name) for name in hermes.__all__)
    assert hermes.MemoryStore.__module__ == "hermes.memory.store"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = hermes.Nothing
    assert "MemoryStore" in dir(hermes)


@pytest.mark.proves("ground.help")
def test_help_offers_what_the_program_takes(hermes: Command) -> None:
    from hermes.memory.rules import ENFORCE
    from hermes.memory.store import ALL_TARGETS
    from hermes.portability.openclaw import CONFLICTS, PRESETS
    from hermes.server.hosts import HOSTS

    assert ", ".join(HOSTS) in " ".join(hermes("mcp", "install", "--help").out.split())
    offered = {"memory add": (ALL_TARGETS,), "rules add": (tuple(ENFORCE),), "claw migrate": (PRESETS, CONFLICTS)}
    for command, lists in offered.items():
        shown = hermes(*command.split(), "--help").out
        for words in map(",".join, lists):
            assert f"{{{words}}}" in shown
