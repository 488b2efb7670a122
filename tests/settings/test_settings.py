"""Settings, homes, profiles and secrets."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from hermes.base.errors import SettingsError, UnsafePath
from hermes.settings.config import load_settings, read_secrets, save_secret, secret
from hermes.settings.home import find_home, locate_home
from hermes.settings.schema import all_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]


def configure(home: Path, text: str) -> Path:
    home.mkdir(exist_ok=True)
    path = home / "config.yaml"
    path.write_text(text)
    return path


@pytest.mark.proves("settings.home")
def test_home_is_the_option_then_the_environment_then_a_folder_in_the_users_home(
    home: Path, tmp_path: Path, hermes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    assert hermes("config", "path", "--json").json["home"] == str(home)
    assert hermes("config", "path", "--json", "--home", str(other)).json["home"] == str(other)
    assert hermes(f"--home={other}", "config", "path", "--json").json["home"] == str(other)
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hermes("config", "path", "--json").json["home"] == str(tmp_path / ".hermes")


# The rest of what stands in config.yaml of hermes-agent 0.19.
_OF_HERMES_AGENT: dict[str, dict[str, object]] = {
    "compression.": {"hygiene_hard_message_limit": 5000, "abort_on_summary_failure": False, "in_place": True},
    "compression.codex_": {"gpt55_autoraise": True, "gpt55_autoraise_notice": True, "app_server_auto": "native"},
    "auxiliary.": {"transient_retries": 2, "background_review.timeout": 120, "title_generation.timeout": 30},
    "auxiliary.curator.": {"timeout": 600, "model": "", "base_url": "", "api_key": "", "reasoning_effort": ""},
    "auxiliary.memory_query_rewrite.": {"timeout": 8},
    "skills.": {"external_dirs": (), "template_vars": True, "guard_agent_created": False, "write_approval": False},
    "skills.inline_": {"shell": False, "shell_timeout": 10},
    "curator.": {"enabled": True, "interval_hours": 168, "min_idle_hours": 2, "consolidate": False},
    "": {"curator.stale_after_days": 30, "curator.archive_after_days": 90, "display.memory_notifications": "on"}
    | {"context_file_max_chars": None, "file_read_max_chars": 100_000, "timezone": ""},
    "curator.backup.": {"enabled": True, "keep": 5},
    "sessions.": {"auto_prune": False, "retention_days": 90, "vacuum_after_prune": True, "min_interval_hours": 24},
    "session_reset.": {"mode": "none", "at_hour": 4, "idle_minutes": 1440, "notify": True},
    "delegation.max_": {"iterations": 50, "concurrent_children": 3, "spawn_depth": 1, "summary_chars": 24000},
    "delegation.": {"child_timeout_seconds": 0, "orchestrator_enabled": True, "subagent_auto_approve": False},
    "agent.": {"max_turns": 90},
    "tool_output.": {"max_bytes": 50_000, "max_lines": 2000, "max_line_length": 2000},
}


@pytest.mark.proves("settings.defaults")
def test_the_documents_keys_have_the_documents_defaults() -> None:
    defaults = {name: key.default for name, key in all_keys().items()}
    documented = {
        "memory.memory_enabled": True,
        "memory.user_profile_enabled": True,
        "memory.memory_char_limit": 2200,
        "memory.user_char_limit": 1375,
        "memory.provider": "",
        "memory.nudge_interval": 10,
        "memory.write_approval": False,
        "compression.enabled": True,
        "compression.threshold": 0.5,
        "compression.target_ratio": 0.2,
        "compression.protect_last_n": 20,
        "compression.protect_first_n": 3,
        "context.engine": "compressor",
        "prompt_caching.cache_ttl": "5m",
        "skills.creation_nudge_interval": 10,
        "auxiliary.compression.timeout": 120,
        "auxiliary.compression.provider": "auto",
    }
    assert documented.items() <= defaults.items()
    for heading, block in _OF_HERMES_AGENT.items():
        assert {f"{heading}{name}": default for name, default in block.items()}.items() <= defaults.items()


@pytest.mark.proves("settings.origin")
def test_each_value_tells_where_it_came_from(home: Path, hermes: Command) -> None:
    assert hermes("config", "show", "--changed").out.startswith("nothing is set; every setting has its default")
    assert hermes("config", "show", "--changed", "--json").json == {}
    configure(home, "# mine\nmemory:\n  memory_char_limit: 3000\n")
    assert hermes("config", "show", "--changed").out == "memory.memory_char_limit  3000  (config.yaml:3)\n"
    shown = hermes("config", "show", "--json").json
    assert shown["memory.memory_char_limit"] == {"value": 3000, "origin": "config.yaml:3"}
    assert shown["memory.user_char_limit"] == {"value": 1375, "origin": "default"}
    assert hermes("config", "get", "memory.memory_char_limit").out == "3000\n"
    assert hermes("config", "get", "memory.provider", "--json").json["origin"] == "default"


COMMENTED = """\
# my settings
memory:
    # keep it small
    memory_char_limit: 2200   # characters
    provider: 'holographic'
display: {memory_notifications: off}

skills:
  external_dirs:
    - ~/skills   # shared
"""


@pytest.mark.proves("settings.comments")
def test_comments_and_order_survive_an_edit(home: Path, hermes: Command) -> None:
    path = configure(home, COMMENTED.replace("off", "'off'"))
    assert hermes("config", "set", "memory.nudge_interval", "5").code == 0
    assert hermes("config", "set", "memory.memory_char_limit", "2500").code == 0
    edited = path.read_text()
    for kept in (
        "# my settings",
        "# keep it small",
        "memory_char_limit: 2500   # characters",
        "'holographic'",
        "# shared",
    ):
        assert kept in edited
    assert edited.index("memory:") < edited.index("display:") < edited.index("skills:")
    assert hermes("config", "get", "memory.nudge_interval").out == "5\n"


@pytest.mark.proves("settings.comments")
def test_setting_works_without_a_file_and_makes_a_private_one(home: Path, hermes: Command) -> None:
    assert hermes("config", "set", "compression.threshold", "0.6", "--json").json["value"] == 0.6
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600


WRONG = {
    "memory:\n  nudge_intervall: 3\n": ":2: there is no setting memory.nudge_intervall; did you mean memory.nudge_int",
    "nudge_interval: 3\n": ":1: there is no setting nudge_interval; did you mean memory.nudge_interval?",
    "memory:\n  memory_char_limit: lots\n": ":2: memory.memory_char_limit: expected a whole number from 100 to 1,000,0",
    "compression:\n  threshold: 5\n": ":2: compression.threshold: expected a number from 0.05 to 0.95, found 5",
    "prompt_caching:\n  cache_ttl: 2h\n": ":2: prompt_caching.cache_ttl: expected one of 5m, 1h, found '2h'",
    "memory:\n  memory_enabled: 1\n": ":2: memory.memory_enabled: expected true or false, found 1",
    "memory: yes please\n": ":1: there is no setting memory",
    "memory:\n  provider: a\n  provider: b\n": ":3: not valid YAML",
    "memory: [\n": "not valid YAML",
    "- a\n": ":1: expected `name: value` lines",
    "skills:\n  external_dirs: one\n": ":2: skills.external_dirs: expected a list of texts, found 'one'",
}


@pytest.mark.proves("settings.errors")
@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_a_mistake_names_file_line_key_and_what_was_expected(
    home: Path, hermes: Command, text: str, message: str
) -> None:
    path = configure(home, text)
    ran = hermes("memory", "list")
    assert (ran.code, ran.out) == (2, "")
    assert f"{path}" in ran.err
    assert message in ran.err
    assert hermes("config", "check").code == 2


@pytest.mark.proves("settings.errors")
def test_check_lists_every_mistake_at_once(home: Path, hermes: Command) -> None:
    configure(home, "memory:\n  memory_enabled: 1\ncompresion:\n  enabled: true\n")
    (home / ".env").write_text("OPENAI_API_KEY sk-very-secret\n")
    ran = hermes("config", "check", "--json")
    assert (ran.code, len(ran.json["problems"])) == (2, 3)
    assert "very-secret" not in ran.out + ran.err
    (home / ".env").unlink()
    configure(home, "memory: {}\n")
    assert hermes("config", "check").out == "config.yaml and .env are fine\n"


@pytest.mark.proves("settings.errors")
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("memory.memory_char_limit", "many"),
        ("memory.memory_enabled", "perhaps"),
        ("compression.threshold", "nan"),
        ("nosuch", "1"),
    ],
)
def test_a_wrong_value_is_not_written(home: Path, hermes: Command, key: str, words: str) -> None:
    assert hermes("config", "set", key, words).code == 2
    assert not (home / "config.yaml").exists()


@pytest.mark.proves("settings.errors")
def test_words_become_the_values_a_person_means(home: Path, hermes: Command) -> None:
    for key, words, meant in [
        ("memory.memory_enabled", "No", False),
        ("compression.threshold", "1e-1", 0.1),
        ("memory.memory_char_limit", "10_000", 10000),
        ("memory.linked_folders", "a, b", ["a", "b"]),
        ("mcp_servers", '{"x": {"command": "y"}}', {"x": {"command": "y"}}),
        ("context_file_max_chars", "null", None),
    ]:
        assert hermes("config", "set", key, words, "--json").json["value"] == meant
    assert load_settings(find_home(home)).get("mcp_servers") == {"x": {"command": "y"}}


@pytest.mark.proves("settings.cache")
def test_the_cache_gives_the_same_answer_and_never_outlives_an_edit(home: Path) -> None:
    path = configure(home, "memory:\n  memory_char_limit: 3000\n")
    place = find_home(home)
    load_settings(place)
    assert not (home / "cache").exists(), "a file this young could still change unnoticed"
    os.utime(path, (path.stat().st_mtime - 60, path.stat().st_mtime - 60))
    load_settings(place)
    assert (home / "cache" / "settings.json").exists()
    cached = load_settings(place)
    assert (cached.integer("memory.memory_char_limit"), cached.origin("memory.memory_char_limit")) == (
        3000,
        "config.yaml:2",
    )
    path.write_text("memory:\n  memory_char_limit: 4000\n")
    os.utime(path, (path.stat().st_mtime - 60, path.stat().st_mtime - 60))
    assert load_settings(place).integer("memory.memory_char_limit") == 4000


@pytest.mark.proves("settings.cache")
@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b'{"of": 3}', b"\xff"])
def test_a_broken_cache_is_ignored(home: Path, rubbish: bytes) -> None:
    path = configure(home, "memory:\n  memory_char_limit: 3000\n")
    os.utime(path, (0, 0))
    load_settings(find_home(home))
    (home / "cache" / "settings.json").write_bytes(rubbish)
    assert load_settings(find_home(home)).integer("memory.memory_char_limit") == 3000


@pytest.mark.proves("settings.odd-files")
def test_a_settings_file_that_is_no_file_or_no_text_is_refused(home: Path) -> None:
    home.mkdir()
    os.mkfifo(home / "config.yaml")
    with pytest.raises(UnsafePath, match="a pipe"):
        load_settings(find_home(home))
    os.unlink(home / "config.yaml")
    (home / "config.yaml").write_bytes(b"memory:\n  provider: caf\xe9\n")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_settings(find_home(home))


@pytest.mark.proves("settings.odd-files")
def test_linked_settings_are_read_and_edited_where_they_are(home: Path, tmp_path: Path, hermes: Command) -> None:
    home.mkdir()
    (tmp_path / "dotfiles.yaml").write_text("# mine\nmemory:\n  nudge_interval: 7\n")
    (home / "config.yaml").symlink_to(tmp_path / "dotfiles.yaml")
    assert hermes("config", "get", "memory.nudge_interval").out == "7\n"
    hermes("config", "set", "memory.nudge_interval", "8")
    assert (tmp_path / "dotfiles.yaml").read_text() == "# mine\nmemory:\n  nudge_interval: 8\n"
    assert (home / "config.yaml").is_symlink()


@pytest.mark.proves("settings.profiles")
def test_a_profile_is_a_home_of_its_own_and_can_be_chosen_for_good(home: Path, hermes: Command) -> None:
    hermes("memory", "add", "in the default home")
    assert hermes("profile", "create", "work").code == 0
    hermes("--profile", "work", "memory", "add", "at work")
    assert (home / "profiles" / "work" / "memories" / "MEMORY.md").read_text() == "at work"
    hermes("profile", "use", "work")
    assert hermes("profile", "list").out == "  default\n* work\n"
    assert hermes("memory", "list", "--json").json["memory"]["entries"] == ["at work"]
    assert hermes("memory", "list", "--json", "--profile", "default").json["memory"]["entries"] == [
        "in the default home"
    ]
    hermes("profile", "use", "default")
    assert hermes("profile", "list", "--json").json == {"chosen": "default", "profiles": ["default", "work"]}


@pytest.mark.proves("settings.profiles")
def test_a_missing_profile_is_never_made_up(home: Path, hermes: Command) -> None:
    ran = hermes("--profile", "wrk", "memory", "add", "x")
    assert (ran.code, "hermes profile create wrk" in ran.err) == (1, True)
    assert not home.exists()
    assert hermes("profile", "use", "wrk").code == 1


@pytest.mark.proves("settings.profiles")
@pytest.mark.parametrize("name", ["../evil", "a/b", "work\n", "", "-x", "A", "ü", "x" * 65, "a\0b", ".", "con.txt"])
def test_a_profile_name_cannot_lead_anywhere_else(home: Path, hermes: Command, name: str) -> None:
    ran = hermes("profile", "create", "--", name)
    assert ran.code == 2
    assert not home.exists()


@pytest.mark.proves("settings.secrets")
def test_secrets_are_read_saved_and_private(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = locate_home()
    assert secret(place, "A_KEY") is None
    home.mkdir()
    (home / ".env").write_text('# keys\nexport A_KEY=\'one two\'\nB_KEY=plain # comment\n\nC_KEY="say \\"hi\\""\n')
    os.chmod(home / ".env", 0o644)
    assert read_secrets(place) == {"A_KEY": "one two", "B_KEY": "plain", "C_KEY": 'say "hi"'}
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    save_secret(place, "B_KEY", 'new "value" #1')
    assert read_secrets(place)["B_KEY"] == 'new "value" #1'
    assert "# keys" in (home / ".env").read_text()
    monkeypatch.setenv("A_KEY", "from the environment")
    assert secret(place, "A_KEY") == "from the environment"


@pytest.mark.proves("settings.secrets")
@pytest.mark.parametrize(("name", "text"), [("A KEY", "x"), ("A", "two\nlines"), ("", "x")])
def test_a_secret_that_would_break_the_file_is_refused(home: Path, name: str, text: str) -> None:
    with pytest.raises(SettingsError, match="cannot be stored"):
        save_secret(locate_home(), name, text)


@pytest.mark.proves("prompt.settings")
def test_the_date_in_the_prompt_is_that_of_the_time_zone(home: Path, hermes: Command) -> None:
    def day(zone: str) -> str:
        assert hermes("config", "set", "timezone", zone).code == 0
        return next(line for line in hermes("prompt").out.splitlines() if "Conversation started" in line)

    # A day and more lies between these two at every moment.
    assert day("Pacific/Kiritimati") != day("Etc/GMT+12")
    for wrong in ("Europe/Nowhere", "../etc/passwd", "Europe"):
        assert hermes("config", "set", "timezone", wrong).code == 2


@pytest.mark.proves("prompt.settings")
def test_words_about_a_platform_are_replaced_or_extended(home: Path, hermes: Command) -> None:
    def said(platform: str) -> str:
        whole: str = hermes("prompt", "--platform", platform, "--json").json["prompt"]
        return whole.rpartition("Conversation started")[2].partition("\n\n")[2]

    own = said("cli")
    home.mkdir(exist_ok=True)
    hints = "platform_hints: {cli: {append: Write British English.}, slack: Be brief., kiosk: {replace: Big letters.}}"
    (home / "config.yaml").write_text(hints, encoding="utf-8")
    assert [said(each) for each in ("cli", "slack", "kiosk")] == [
        f"{own}\n\nWrite British English.",
        "Be brief.",
        "Big letters.",
    ]
