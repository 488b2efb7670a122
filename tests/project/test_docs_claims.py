"""What the pages say to type exists: commands, options, settings and imports."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import tomllib
from typing import TYPE_CHECKING

import pytest

from checks import reference
from hermes.base.errors import PACKAGES
from hermes.cli.catalogue import DEFAULTS, GROUPS
from hermes.settings.schema import all_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

ANYWHERE = {"--home", "--profile", "--user", "--help", "-h", "--version"}
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
SHELL = {"sh", "console", ""}
NOT_SETTINGS = re.compile(r"\.(py|md|json|jsonl|yaml|db|zip|toml|svg|sh|mcp|com|org|ai)$|^agent\.memory_provider$")


def pages() -> Iterator[tuple[str, str]]:
    """Every page people read, without those the program writes."""
    for folder, _, names in os.walk(os.path.join(reference.ROOT, "docs")):
        if "_build" in folder or folder.endswith("reference"):
            continue
        for name in names:
            if name.endswith(".md"):
                yield from _read(os.path.join(folder, name))
    yield from _read(os.path.join(reference.ROOT, "README.md"))


def _read(path: str) -> Iterator[tuple[str, str]]:
    with open(path, encoding="utf-8") as file:
        yield os.path.relpath(path, reference.ROOT), file.read()


def commands(text: str) -> Iterator[list[str]]:
    """What stands behind `hermes` in shell blocks and between backticks."""
    for language, block in FENCE.findall(text):
        if language in SHELL:
            for line in block.splitlines():
                found = re.match(r"(?:\$ )?(?:bin/)?hermes( .*)?$", line.split("  #")[0].rstrip())
                if found:
                    yield _words(found[1] or "")
    for inline in re.findall(r"`(?:bin/)?hermes ([^`\n]+)`", FENCE.sub("", text)):
        yield _words(inline)


def _words(line: str) -> list[str]:
    first = re.split(r" (?:&&|\|\|?|>|<|;) ", line)[0]
    try:
        return shlex.split(first, comments=True)
    except ValueError:
        return first.split()


def wrong(words: list[str], known: dict[str, set[str]]) -> str:
    """Why a command line cannot be typed; empty when it can."""
    plain = [word for at, word in enumerate(words) if not _belongs_to_option(words, at)]
    name = plain[0] if plain else "chat"
    if name in ("…", "COMMAND"):
        return ""
    if name in GROUPS:
        second = plain[1] if len(plain) > 1 else DEFAULTS.get(name, "")
        if second in ("…", "COMMAND", "") or "|" in second:
            return ""
        name = f"{name} {second if second in GROUPS[name][1] else DEFAULTS.get(name, second)}"
    if name not in known:
        return f"no command {name!r}"
    options = {word.partition("=")[0] for word in words if word.startswith("-") and len(word) > 1}
    unknown = sorted(options - known[name] - ANYWHERE)
    return f"{name} has no {', '.join(unknown)}" if unknown else ""


def _belongs_to_option(words: list[str], at: int) -> bool:
    return words[at].startswith("-") or (
        at > 0 and words[at - 1] in ("--home", "--profile", "--user", "--model", "--resume", "-q", "--image")
    )


@pytest.mark.proves("docs.claims")
def test_every_command_on_a_page_can_be_typed() -> None:
    known = {
        name: {word for row, _ in options.rows for word in re.findall(r"(?<![\w-])--?[a-z][\w-]*", row)}
        for name, _, options in reference.commands()
    }
    found = [(page, words, wrong(words, known)) for page, text in pages() for words in commands(text)]
    assert len(found) > 100
    assert [f"{page}: hermes {' '.join(words)}: {why}" for page, words, why in found if why] == []


@pytest.mark.proves("docs.claims")
def test_every_setting_on_a_page_exists() -> None:
    keys = all_keys()
    sections = {name.split(".")[0] for name in keys if "." in name}
    unknown = []
    for page, text in pages():
        for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)(?=[`:= ])", text):
            inside = name.split(".")[0] in sections and not NOT_SETTINGS.search(name)
            if inside and not any(key == name or key.startswith(f"{name}.") for key in keys):
                unknown.append(f"{page}: {name}")
    assert unknown == []


@pytest.mark.proves("docs.claims")
def test_every_import_on_a_page_works() -> None:
    for page, text in pages():
        for language, block in FENCE.findall(text):
            if language != "python":
                continue
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hermes"):
                    module = importlib.import_module(str(node.module))
                    assert [each.name for each in node.names if not hasattr(module, each.name)] == [], page


@pytest.mark.proves("docs.claims")
def test_an_extra_is_installed_by_the_packages_it_needs_and_never_by_a_name_that_is_not_ours() -> None:
    with open(os.path.join(reference.ROOT, "pyproject.toml"), "rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    # A package with an extra of its own is quoted, because shells read brackets.
    plain = {extra: [re.split(r"[^\w\[\]-]", package)[0] for package in needs] for extra, needs in extras.items()}
    named = {extra: [f"'{each}'" if "[" in each else each for each in needs] for extra, needs in plain.items()}
    assert {extra: tuple(sorted(each)) for extra, each in named.items()} == PACKAGES
    for path, text in pages():
        # A plug-in of that name from our own marketplace, `…@hermes`, is ours.
        assert not re.search(r"install '?hermes-memory(?!@hermes)", text), path
