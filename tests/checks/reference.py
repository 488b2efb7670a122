"""Writes the pages of docs/reference from the program itself: `bin/reference`; `bin/reference --check` only compares.

Nothing on these pages is written by hand, so they cannot be wrong; a test fails while they are older than the program.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from hermes.cli.catalogue import DEFAULTS, GROUPS, SINGLES, add_arguments
from hermes.settings.schema import TASKS, all_keys

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes.settings.schema import Key

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "docs", "reference")
NOTE = "<!-- Written by bin/reference; changes made here are lost. -->\n\n"


class Options:
    """Takes the `add_argument` calls of a command and keeps them as rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.usage: list[str] = []

    @property
    def optional(self) -> list[str]:
        return ["[OPTION …]"] if any(name.startswith("-") for name, _ in self.rows) else []

    def add_argument(self, *names: str, **spec: Any) -> None:
        metavar = spec.get("metavar") or ("|".join(map(str, spec["choices"])) if "choices" in spec else "")
        if not names[0].startswith("-"):
            shown = metavar or names[0].upper()
            optional = spec.get("nargs") in ("?", "*")
            more = " …" if spec.get("nargs") in ("+", "*") else ""
            self.usage.append(f"[{shown}{more}]" if optional else shown + more)
            self.rows.append((shown, spec.get("help") or ""))
            return
        field = names[-1].lstrip("-").replace("-", "_").upper()
        value = "" if spec.get("action") in ("store_true", "store_const") else f" {metavar or field}"
        value = f" [{value[1:]}]" if spec.get("nargs") == "?" else value
        self.rows.append((", ".join(names) + value, spec.get("help") or ""))

    def add_mutually_exclusive_group(self, **_: Any) -> Options:
        return self


def commands() -> Iterable[tuple[str, str, Options]]:
    """Every command with its summary and its options."""
    for name, (module, summary) in SINGLES.items():
        yield name, summary, _options(module, name)
    for group, (_, members) in GROUPS.items():
        for name, (module, summary) in members.items():
            yield f"{group} {name}", summary, _options(module, f"{group} {name}")


def _options(module: str, name: str) -> Options:
    options = Options()
    add_arguments(name, module, options)  # type: ignore[arg-type]
    return options


def commands_page() -> str:
    from hermes.cli.chat.loop import SLASH_COMMANDS as SLASH

    parts = [
        "# Commands\n",
        (
            "`hermes [--home DIR] [--profile NAME] [--user NAME] COMMAND …`. Each has `--help`. Exit codes: 0 done, "
            "1 refused or not found, 2 usage or settings. With `--json` a command prints one JSON document on standard "
            "output; when it fails, one JSON object in one line on standard error: "
            '`{"error": "what to do", "kind": "NotFound", "exit_code": 1}` ([kinds](errors.md)).\n'
        ),
    ]
    parts.append(_contents())
    seen = ""
    for name, summary, options in commands():
        group = name.split(" ")[0]
        if group in GROUPS and group != seen:
            seen = group
            alone = f" Alone it does `{DEFAULTS[group]}`." if group in DEFAULTS else ""
            parts.append(f"## hermes {group}\n\n{_sentence(GROUPS[group][0])}{alone}\n")
        level = "###" if group in GROUPS else "##"
        usage = " ".join(["hermes", name, *options.usage, *options.optional])
        parts.append(f"{level} hermes {name}\n\n{_sentence(summary)}\n\n`{usage}`\n")
        if options.rows:
            parts.append(table(("option", "what it does"), [(f"`{each}`", text) for each, text in options.rows]))
    rows = [(f"`{name}`", text) for name, (text, _) in SLASH.items()]
    parts.append("## In the chat\n\n" + table(("command", "what it does"), rows))
    return "\n".join(parts)


def _contents() -> str:
    """Links to every command: a line for those that stand alone, one for each group, one for the chat."""
    alone = ", ".join(f"[{name}](#hermes-{name})" for name in SINGLES)
    lines = [f"- {alone}"]
    for group, (_, members) in GROUPS.items():
        links = ", ".join(f"[{name}](#hermes-{group}-{name})" for name in members)
        lines.append(f"- [{group}](#hermes-{group}): {links}")
    return "\n".join([*lines, "- [in the chat](#in-the-chat)\n"])


def settings_page() -> str:
    parts = [
        "# Settings\n",
        (
            "Keys of `config.yaml` in the home. `hermes config show` prints each with its value and origin; "
            "`hermes config set KEY VALUE` changes one and keeps your comments.\n"
        ),
    ]
    sections: dict[str, list[Key]] = {}
    for key in all_keys().values():
        block = key.name.split(".")
        if block[0] == "auxiliary" and len(block) > 2:
            if block[1] != next(iter(TASKS)):
                continue
            key_name = f"auxiliary.TASK.{block[2]}"
        else:
            key_name = key.name
        sections.setdefault(block[0] if len(block) > 1 else "others", []).append(_renamed(key, key_name))
    for section, keys in sections.items():
        rows = [
            (f"`{key.name}`", _default(key.default), key.expected, key.help.replace(next(iter(TASKS)), "TASK"))
            if "TASK" in key.name
            else (f"`{key.name}`", _default(key.default), key.expected, key.help)
            for key in keys
        ]
        parts.append(f"## {section}\n\n{table(('key', 'default', 'expected', 'meaning'), rows)}")
    times = ", ".join(f"`{task}` ({seconds} s)" for task, seconds in TASKS.items())
    parts.append(f"TASK is one of {times}; in brackets the default of its `timeout`.\n")
    return "\n".join(parts)


def _renamed(key: Key, name: str) -> Key:
    fields = ("kind", "default", "help", "low", "high", "choices", "optional")
    return type(key)(name=name, **{field: getattr(key, field) for field in fields})


def _default(value: Any) -> str:
    if value in ("", (), None):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    outside = text.split("`")
    outside[::2] = [part.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[") for part in outside[::2]]
    return "`".join(outside)


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def pages() -> dict[str, str]:
    from checks import reference_code as code
    from checks.reference_http import http_page
    from checks.reference_python import python_page

    made = {
        "commands.md": commands_page,
        "settings.md": settings_page,
        "python.md": python_page,
        "tools.md": code.tools_page,
        "hooks.md": code.hooks_page,
        "http.md": http_page,
        "schema.md": code.schema_page,
        "errors.md": code.errors_page,
    }
    return {name: NOTE + page().rstrip() + "\n" for name, page in made.items()}


def stale() -> list[str]:
    """The pages that are not what the program would write now."""
    return [name for name, text in pages().items() if _read(os.path.join(FOLDER, name)) != text]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def main() -> int:
    old = stale()
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/reference/{name} is stale; run bin/reference" for name in old) or "up to date")
        return 1 if old else 0
    os.makedirs(FOLDER, exist_ok=True)
    for name, text in pages().items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)
    print("\n".join(f"docs/reference/{name} written" for name in old) or "nothing had changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
