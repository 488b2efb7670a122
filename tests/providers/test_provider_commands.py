"""`hermes memory setup|status|off`, `hermes plugins` and a provider's own commands, by a person or a script."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sysconfig
import venv
import zipfile
from typing import TYPE_CHECKING

import pytest
from provider_plugins import REGISTERS, Notebook, install, use

import hermes as package
from hermes.base.errors import ProviderError
from hermes.providers.delivery import Outbox
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Command = Callable[..., Ran]

CLI = """
def register_cli(subparser):
    commands = subparser.add_subparsers(dest="command")
    add = commands.add_parser("sum")
    add.add_argument("numbers", nargs="+", type=int)
    subparser.set_defaults(func=lambda given: print(sum(given.numbers)))
"""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What a person types, and what they type where it is not shown."""

    def answers(*lines: str, hidden: str = "") -> None:
        monkeypatch.setattr("sys.stdin", _Terminal("".join(f"{line}\n" for line in lines)))
        monkeypatch.setattr("getpass.getpass", lambda _: hidden)

    return answers


@pytest.mark.proves("providers.setup")
def test_a_script_sets_a_provider_up_and_everything_is_really_saved(hermes: Command, home: Path) -> None:
    install(home, "ledger", REGISTERS)
    (home / "config.yaml").write_text("# mine\nmemory:\n  nudge_interval: 5\n")
    ran = hermes(
        "memory",
        "setup",
        "ledger",
        "--set",
        "api_key=s3cret-value",
        "--set",
        "currency=yen",
        "--set",
        "rate=2",
        "--yes",
    )
    assert (ran.code, ran.err) == (0, "")
    assert "s3cret" not in ran.out
    assert hermes("config", "get", "memory.provider").out.strip().endswith("ledger")
    assert "# mine" in (home / "config.yaml").read_text()
    assert json.loads((home / "ledger.json").read_text()) == {"currency": "yen", "rate": 2.0}
    assert (home / ".env").read_text() == "LEDGER_KEY=s3cret-value\n"
    assert stat.S_IMODE(os.stat(home / ".env").st_mode) == 0o600
    again = hermes("memory", "setup", "ledger", "--yes")
    assert again.code == 0
    assert json.loads((home / "ledger.json").read_text()) == {"currency": "yen", "rate": 2.0}


@pytest.mark.proves("providers.setup")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["ledger", "--yes"], "ledger still needs api_key: add --set api_key=…"),
        (["ledger", "--set", "api_key=x", "--set", "currency=shells", "--yes"], "currency must be one of euro, yen"),
        (
            ["ledger", "--set", "colour=red", "--yes"],
            "ledger has no field colour (its fields are: api_key, currency, rate)",
        ),
        (["ledger", "--set", "oops", "--yes"], "expected key=value"),
        (["ledger", "--set", "api_key=x", "--set", "currency=yen", "--set", "rate=much", "--yes"], "expected a number"),
        (["--yes"], "name a provider"),
        (["nobody", "--yes"], "there is no memory provider 'nobody'"),
    ],
)
def test_a_wrong_answer_changes_nothing_and_says_what_to_do(
    hermes: Command, home: Path, words: list[str], problem: str
) -> None:
    install(home, "ledger", REGISTERS)
    ran = hermes("memory", "setup", *words)
    assert ran.code in (1, 2)
    assert problem in ran.err
    assert sorted(os.listdir(home)) == ["plugins"]


@pytest.mark.proves("providers.setup")
def test_a_person_is_asked_and_secrets_are_not_shown(hermes: Command, home: Path, types: Callable[..., None]) -> None:
    install(home, "ledger", REGISTERS)
    listed = hermes("plugins", "list", "--json").json
    rows = [row["name"] for row in listed if row["kind"] == "memory provider"]
    types("9999", str(rows.index("ledger") + 1), "2", "3.5", hidden="typed-secret")
    ran = hermes("memory", "setup")
    assert ran.code == 0, ran.err
    assert "https://ledger.example/keys" in ran.out
    assert "typed-secret" not in ran.out + ran.err
    assert json.loads((home / "ledger.json").read_text()) == {"currency": "yen", "rate": 3.5}
    types(str(len(rows) + 1))
    assert "External memory is off (it was ledger)" in hermes("memory", "setup").out


@pytest.mark.proves("providers.setup")
def test_packages_are_installed_only_with_consent(
    hermes: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: Callable[..., None]
) -> None:
    programs_needed = "external_dependencies:\n  - {name: ledgerd, install: make it}\n"
    manifest = f"pip_dependencies: [no-such-package-of-ours>=1, pytest]\n{programs_needed}"
    install(home, "ledger", REGISTERS, plugin_yaml=manifest)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "uv").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit $(cat {tmp_path}/code)\n')
    (programs / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "code").write_text("0")
    types("n")
    refused = hermes("memory", "setup", "ledger", "--set", "api_key=x")
    assert "needs no-such-package-of-ours>=1; install them" in refused.err
    assert not (tmp_path / "asked").exists()
    ran = hermes("memory", "setup", "ledger", "--set", "api_key=some-key", "--yes")
    assert ran.code == 0, ran.err
    assert (tmp_path / "asked").read_text().startswith("pip install --python ")
    assert (tmp_path / "asked").read_text().rstrip().endswith("no-such-package-of-ours>=1")
    assert "also needs the program ledgerd: make it" in ran.out
    (tmp_path / "code").write_text("1")
    assert "could not be installed" in hermes("memory", "setup", "ledger", "--set", "api_key=x", "--yes").err


def wheel(folder: Path) -> None:
    """A package of one module, as an index would serve it."""
    folder.mkdir()
    about = "ledger_client-1.0.dist-info"
    with zipfile.ZipFile(folder / "ledger_client-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("ledger_client.py", "CURRENCY = 'yen'\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: ledger-client\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")


OWN_SETUP = """
    def post_setup(self, home, config):
        import ledger_client
        config["memory"]["provider"] = "ledger"
        with open(home + "/own.txt", "w") as file:
            file.write(f"{ledger_client.CURRENCY} {config['memory']['nudge_interval']}")

    def get_config_schema"""


@pytest.mark.proves("providers.packages")
def test_packages_come_into_an_environment_without_pip_and_the_set_up_goes_on(home: Path, tmp_path: Path) -> None:
    """As in a checkout, whose environment `bin/install` makes without pip."""
    environment, packages = tmp_path / "venv", tmp_path / "packages"
    venv.create(environment, with_pip=False)
    wheel(packages)
    code = "import ledger_client\n" + REGISTERS.replace("\n    def get_config_schema", OWN_SETUP)
    install(home, "ledger", code, plugin_yaml="pip_dependencies: [ledger-client>=1]\n")
    (home / "config.yaml").write_text("memory:\n  nudge_interval: 5\n")
    start = "from hermes.__main__ import start; start()"
    paths = [os.path.dirname(os.path.dirname(package.__file__)), sysconfig.get_path("purelib")]
    without_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages), "UV_NO_INDEX": "1"}
    without_index |= {"UV_FIND_LINKS": str(packages), "PYTHONPATH": os.pathsep.join(paths)}

    def setup(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(environment / "bin" / "python"), "-c", start, "memory", "setup", "ledger", *words]
        variables = {**os.environ, **without_index}
        nobody = subprocess.DEVNULL
        return subprocess.run(command, env=variables, stdin=nobody, capture_output=True, text=True, check=False)

    refused = setup()
    assert (refused.returncode, "ledger needs ledger-client>=1; install them with `" in refused.stderr) == (2, True)
    os.rename(packages, tmp_path / "gone")
    failed = setup("--yes")
    assert failed.returncode == 2
    by_hand = failed.stderr.split("Install by hand with `")[1].split("`")[0]
    assert f"installing ledger-client>=1: {by_hand}\n" in failed.stdout
    assert "ledger" not in (home / "config.yaml").read_text()
    os.rename(tmp_path / "gone", packages)
    done = setup("--yes", "--no-check")
    assert done.returncode == 0, done.stderr
    assert "ledger-client>=1 installed\nledger is the memory provider now" in done.stdout
    assert (home / "own.txt").read_text() == "yen 5"
    again = setup("--yes", "--no-check")
    assert (again.returncode, "installing" in again.stdout) == (0, False)


@pytest.mark.proves("providers.packages")
def test_a_mode_that_needs_a_package_has_it_installed(
    hermes: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uv").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexit 1\n')
    (tmp_path / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    ran = hermes("memory", "setup", "mem0", "--set", "mode=oss", "--yes")
    assert (ran.code, "mem0ai could not be installed" in ran.err) == (2, True)
    assert (tmp_path / "asked").read_text().endswith(" mem0ai\n")
    assert hermes("config", "get", "memory.provider").out == "\n"


@pytest.mark.proves("providers.setup")
@pytest.mark.parametrize(
    ("does", "told"),
    [
        ("raise RuntimeError('no such ledger')", "the set-up of ledger failed (RuntimeError: no such ledger)"),
        ("raise SystemExit(3)", "the set-up of ledger failed (SystemExit: 3)"),
        ("raise EOFError", "ledger asks its own questions when it is set up; run `hermes memory setup ledger` in"),
    ],
)
def test_a_set_up_of_its_own_that_fails_is_told_and_the_provider_is_not_in_use(
    does: str, told: str, hermes: Command, home: Path
) -> None:
    own = f"    def post_setup(self, home, config):\n        {does}\n\n    def get_config_schema"
    install(home, "ledger", REGISTERS.replace("    def get_config_schema", own))
    ran = hermes("memory", "setup", "ledger", "--yes")
    assert (ran.code, told in ran.err) == (2, True)
    assert hermes("config", "get", "memory.provider").out == "\n"


@pytest.mark.proves("providers.setup")
def test_a_provider_may_run_its_set_up_itself(hermes: Command, home: Path) -> None:
    own = "    def post_setup(self, home, config):\n        import os\n        os.mkdir(home + '/own')\n\n"
    code = REGISTERS.replace("    def get_config_schema", f"{own}    def get_config_schema")
    install(home, "ledger", code)
    assert hermes("memory", "setup", "ledger", "--yes").code == 0
    assert (home / "own").is_dir()
    assert hermes("config", "get", "memory.provider").out.strip().endswith("ledger")


@pytest.mark.proves("providers.setup", "providers.status")
def test_a_connection_that_does_not_work_is_told_after_the_answers_are_saved(hermes: Command, home: Path) -> None:
    book = Notebook()
    book.down = ConnectionRefusedError("nobody listens")
    use(home, book)
    ran = hermes("memory", "setup", "notebook", "--yes")
    assert (ran.code, "saved, but notebook does not work yet" in ran.err) == (1, True)
    assert hermes("memory", "setup", "notebook", "--yes", "--no-check").code == 0
    assert "nobody listens" in hermes("memory", "status").out


@pytest.mark.proves("providers.status")
def test_status_really_looks(hermes: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no external memory" in hermes("memory", "status").out
    install(home, "ledger", REGISTERS)
    (home / "config.yaml").write_text("memory:\n  provider: ledger\n")
    lacking = hermes("memory", "status").out
    assert "! LEDGER_KEY is missing (https://ledger.example/keys)" in lacking
    monkeypatch.setenv("LEDGER_KEY", "k-123456")
    (found,) = hermes("memory", "status", "--json").json["providers"]
    assert (found["available"], found["missing"], found["config"]["currency"]) == (True, [], "euro")
    assert found["connection"] == "it started; it has no connection test"
    (home / "config.yaml").write_text("memory:\n  provider: gone\n")
    assert "there is no memory provider 'gone'" in hermes("memory", "status").out


LEAST = """
class Least:
    name = "least"
    def is_available(self): return True
    def initialize(self, session_id, **kwargs): pass
    def get_tool_schemas(self): return []

def register(ctx):
    ctx.register_memory_provider(Least())
"""


@pytest.mark.proves("providers.status")
@pytest.mark.parametrize("place", ["plugins", "none"])
def test_a_provider_that_has_only_what_it_must_have_is_looked_at_too(hermes: Command, home: Path, place: str) -> None:
    install(home, "least", LEAST)
    (home / "config.yaml").write_text(f"memory:\n  provider: least\n  provider_process: {place}\n")
    (found,) = hermes("memory", "status", "--json").json["providers"]
    assert (found["available"], found["problem"], found["config"], found["missing"]) == (True, "", {}, [])
    assert found["connection"] == "it started; it has no connection test"


@pytest.mark.proves("providers.status", "providers.notices")
def test_status_of_another_process_knows_how_the_provider_fared_and_what_waits(hermes: Command, home: Path) -> None:
    from hermes.session.session import MemorySession

    book = Notebook()
    use(home, book)
    with MemorySession.open(home) as session:
        session.prepare_turn("one")
        book.down = ConnectionError("away")
        session.finish_turn("two")
    (state,) = hermes("status", "--json").json["providers"]
    assert state["waiting"] == 2  # the turn and the end of the session
    assert "does not work at the moment: ConnectionError: away" in state["last"]
    assert "provider  notebook, 2 calls waiting" in hermes("status").out
    assert "2 calls waiting" in hermes("memory", "status", "--offline").out


@pytest.mark.proves("providers.outbox.refused", "providers.status")
def test_deliver_tries_again_what_waits_and_what_was_refused(hermes: Command, home: Path) -> None:
    assert "there is no external memory" in hermes("memory", "deliver").err
    book = Notebook()
    use(home, book)
    outbox = Outbox(LocalDocuments(str(home)), "notebook")
    turn = {"user": "tea?", "assistant": "yes", "session_id": "s", "messages": []}
    outbox.put("sync_turn", turn)
    for _ in range(3):
        outbox.deliver(_refuse)
    assert outbox.set_aside() == 1
    book.down = ConnectionError("away")
    assert hermes("memory", "deliver").code == 1
    book.down = None
    assert "notebook: nothing left" in hermes("memory", "deliver").out
    assert book.turns == [("tea?", "yes", "s")]


def _refuse(*_: object) -> None:
    raise ProviderError("no", kind="refused", status=400)


@pytest.mark.proves("providers.tools", "providers.contract")
def test_a_providers_tools_and_lines_show_in_the_commands_that_show_what_a_model_gets(
    hermes: Command, home: Path
) -> None:
    book = Notebook()
    book.facts.append("Tea is warm.")
    use(home, book)
    assert hermes("tool", "notebook_find", '{"words": "tea"}').json == {"found": ["Tea is warm."]}
    assert "notebook_find" in [tool["function"]["name"] for tool in hermes("tool", "--list").json]
    assert "A notebook remembers" in hermes("prompt").out


@pytest.mark.proves("providers.off")
def test_off_goes_back_to_built_in_memory(hermes: Command, home: Path) -> None:
    use(home, Notebook("a"), Notebook("b"))
    assert "(it was a, b)" in hermes("memory", "off").out
    assert "no external memory" in hermes("memory", "status").out
    assert "External memory is off; built-in" in hermes("memory", "off").out


@pytest.mark.proves("providers.setup", "providers.several")
def test_a_further_provider_joins_a_list_of_several(hermes: Command, home: Path) -> None:
    use(home, Notebook("a"), Notebook("b"))
    install(home, "ledger", REGISTERS)
    assert hermes("memory", "setup", "ledger", "--set", "api_key=k-12345", "--yes").code == 0
    assert hermes("config", "get", "memory.providers", "--json").json["value"] == ["a", "b", "ledger"]


@pytest.mark.proves("providers.plugins-command")
def test_plug_ins_can_be_listed_shown_found_and_checked(hermes: Command, home: Path) -> None:
    assert "no plug-in of yours is installed" in hermes("plugins", "check").out
    install(home, "ledger", REGISTERS, plugin_yaml="version: 2.0\ndescription: Keeps a ledger\n")
    install(home, "broken", "1/0  # MemoryProvider")
    engine = home / "plugins" / "context_engine" / "half"
    engine.mkdir(parents=True)
    (engine / "__init__.py").write_text("")
    (home / "config.yaml").write_text("memory:\n  provider: ledger\n")
    rows = {row["name"]: row for row in hermes("plugins", "list", "--json").json}
    assert (rows["ledger"]["active"], rows["ledger"]["version"], rows["half"]["kind"]) == (
        True,
        "2.0",
        "context engine",
    )
    assert "* ledger" in hermes("plugins", "list").out
    assert "Keeps a ledger" in hermes("plugins", "show", "ledger").out
    assert hermes("plugins", "show", "ledger", "--json").json["folder"].endswith("plugins/ledger")
    assert hermes("plugins", "show", "nobody").code == 1
    (home / "plugins" / "empty").mkdir()
    assert "plugins/empty has no __init__.py" in hermes("plugins", "check", "empty").out
    assert hermes("plugins", "path").out.strip() == str(home / "plugins")
    checked = hermes("plugins", "check")
    assert checked.code == 1
    assert "ZeroDivisionError" in checked.out
    assert "not configured yet: LEDGER_KEY" in checked.out
    (only,) = hermes("plugins", "check", "broken", "--json").json
    assert only["ok"] is False


@pytest.mark.proves("providers.commands")
def test_only_the_active_provider_has_commands(hermes: Command, home: Path) -> None:
    install(home, "ledger", REGISTERS, cli_py=CLI)
    assert "there is no command 'ledger'" in hermes("ledger", "sum", "1", "2").err
    (home / "config.yaml").write_text("memory:\n  provider: ledger\n")
    assert hermes("ledger", "sum", "1", "2").out == "3\n"
    assert hermes("ledger", "sum", "x").code == 2
    use(home, Notebook())
    assert "has no commands (" in hermes("notebook").err
    (home / "config.yaml").write_text("memory: [")
    assert "there is no command 'ledger'" in hermes("ledger").err
