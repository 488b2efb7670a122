"""Builds the system prompt of a session: ten layers in a fixed order, from values that are handed in.

The result is stored with the session and sent unchanged on every turn, so nothing in it may depend on anything but the
inputs: no clock, no environment, no settings are read here.
"""

from __future__ import annotations

import os
import re
from functools import cache

from hermes.base.tokens import estimate
from hermes.base.values import value
from hermes.prompt.context_files import LIMIT, load_context_files, load_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date
    from typing import Any

    from hermes.base.values import Scan
    from hermes.prompt.context_files import ContextFile

IDENTITY_FILE = "SOUL.md"
TEXTS = os.path.join(os.path.dirname(__file__), "text")

# Guidance is shown only for tools that are present, in this order.
GUIDANCE = (
    ("memory", "memory.md", frozenset({"memory"})),
    ("session_search", "session_search.md", frozenset({"session_search"})),
    ("skills", "skills.md", frozenset({"skill_manage"})),
)
SKILL_READERS = frozenset({"skills_list", "skill_view"})
# Families that tend to describe a call instead of making it, by how a word of the model's name begins.
OPENAI = ("gpt", "chatgpt", "codex", "o1", "o3", "o4")
GOOGLE = ("gemini", "gemma")
NEEDS_TOOL_USE = (*OPENAI, *GOOGLE, "grok", "glm", "qwen", "deepseek")
FAMILY_EXTRAS = (("tool_use_openai.md", OPENAI), ("tool_use_google.md", GOOGLE))
PLATFORMS = frozenset({"cli", "telegram", "discord", "slack", "whatsapp", "signal", "email", "cron", "server"})


@value
class PromptInputs:
    """Everything a prompt is made of. The rendered blocks come from their stores; "" leaves a layer out."""

    scan: Scan
    started: date
    home: str | None = None  # holds SOUL.md
    identity: str = ""  # used instead of SOUL.md
    tools: frozenset[str] = frozenset()
    model: str = ""
    provider_block: str = ""
    system_message: str = ""
    memory_block: str = ""
    user_block: str = ""
    project_block: str = ""
    shared_file: str = ""  # what the operator lets everybody know
    skills_index: str = ""
    cwd: str | None = None
    context_limit: int = LIMIT
    session_id: str = ""
    platform: str = ""
    platform_hint: str = ""  # used instead of the platform's own
    more_on_platform: str = ""  # follows it
    skip_context_files: bool = False
    skip_memory: bool = False


@value
class Section:
    name: str
    text: str

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def tokens(self) -> int:
        return estimate(self.text)


@value
class Prompt:
    sections: tuple[Section, ...]
    notices: tuple[str, ...] = ()  # what the person should know of the files in it

    @property
    def text(self) -> str:
        return "\n\n".join(section.text for section in self.sections)

    def sizes(self) -> list[dict[str, Any]]:
        """What each section costs, in order; never its text."""
        return [{"name": each.name, "characters": each.characters, "tokens": each.tokens} for each in self.sections]

    def followed_by(self, name: str, text: str) -> Prompt:
        return Prompt(sections=(*self.sections, Section(name=name, text=text)), notices=self.notices)


def assemble(inputs: PromptInputs) -> Prompt:
    files, soul, shared = _context_files(inputs), _soul(inputs), _shared(inputs)
    layers = (
        ("identity", _identity(inputs, soul)),
        *_guidance(inputs),
        ("provider", "" if inputs.skip_memory else inputs.provider_block),
        ("system_message", inputs.system_message),
        ("memory", "" if inputs.skip_memory else inputs.memory_block),
        ("user", "" if inputs.skip_memory else inputs.user_block),
        ("project", "" if inputs.skip_memory else inputs.project_block),
        ("shared", f"{_prose('shared.md')}\n\n{shared.text}" if shared else ""),
        ("skills_index", _skills_index(inputs)),
        ("context_files", _shown(files)),
        ("date", _date(inputs)),
        ("platform", _platform_hint(inputs)),
    )
    sections = tuple(Section(name=name, text=text.strip()) for name, text in layers if text.strip())
    notices = [file.notice(file.name) for file in files] + [file.notice(file.path) for file in (soul, shared) if file]
    return Prompt(sections=sections, notices=tuple(filter(None, notices)))


def needs_tool_use_guidance(model: str) -> bool:
    return _is_of(model, NEEDS_TOOL_USE)


def _identity(inputs: PromptInputs, soul: ContextFile | None) -> str:
    if inputs.identity.strip():
        return inputs.identity
    default = _prose("identity.md")
    if soul is None:
        return default
    return soul.text if soul.state in ("whole", "cut") else f"{default}\n\n{soul.text}"


def _soul(inputs: PromptInputs) -> ContextFile | None:
    if inputs.identity.strip() or inputs.home is None or inputs.skip_context_files:
        return None
    path = os.path.join(inputs.home, IDENTITY_FILE)
    # People keep it in a repository of their own and link to it; a link to anything but Markdown is a trap.
    inside = None if os.path.realpath(path).endswith(".md") else inputs.home
    return load_file(path, inputs.scan, shown_from=inputs.home, inside=inside, limit=inputs.context_limit)


def _guidance(inputs: PromptInputs) -> Iterator[tuple[str, str]]:
    for name, file, tools in GUIDANCE:
        if tools & inputs.tools:
            yield f"guidance.{name}", _prose(file)
    if inputs.tools and needs_tool_use_guidance(inputs.model):
        extras = [_prose(file) for file, family in FAMILY_EXTRAS if _is_of(inputs.model, family)]
        yield "guidance.tool_use", "\n\n".join([_prose("tool_use.md"), *extras])


def _is_of(model: str, family: tuple[str, ...]) -> bool:
    # "openai/o3-mini" and "Qwen3.5:8b" are cut into words, so that "o3" is not found inside "turbo3".
    return any(word.startswith(family) for word in re.split(r"[^a-z0-9]+", model.lower()))


def _shared(inputs: PromptInputs) -> ContextFile | None:
    if not inputs.shared_file or inputs.skip_memory:
        return None
    folder = os.path.dirname(inputs.shared_file)
    return load_file(inputs.shared_file, inputs.scan, shown_from=folder, inside=folder, limit=inputs.context_limit)


def _skills_index(inputs: PromptInputs) -> str:
    if not inputs.skills_index.strip() or not SKILL_READERS & inputs.tools:
        return ""
    return f"{_prose('skills_index.md')}\n\n{inputs.skills_index.strip()}"


def _context_files(inputs: PromptInputs) -> tuple[ContextFile, ...]:
    if inputs.cwd is None or inputs.skip_context_files:
        return ()
    return load_context_files(inputs.cwd, inputs.scan, limit=inputs.context_limit)


def _shown(files: tuple[ContextFile, ...]) -> str:
    if not files:
        return ""
    return "\n\n".join([_prose("context_files.md"), *(f"## {file.name}\n\n{file.text}" for file in files)])


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def _date(inputs: PromptInputs) -> str:
    # Only the date: a time of day would give each session of a day its own prefix. Not strftime: it follows the locale.
    day = inputs.started
    line = f"Conversation started: {_DAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}, {day.year}"
    return f"{line}\nSession ID: {inputs.session_id}" if inputs.session_id else line


def _platform_hint(inputs: PromptInputs) -> str:
    hint = inputs.platform_hint
    if not hint.strip() and inputs.platform in PLATFORMS:
        hint = _prose(os.path.join("platform", f"{inputs.platform}.md"))
    return "\n\n".join(part.strip() for part in (hint, inputs.more_on_platform) if part.strip())


@cache
def _prose(name: str) -> str:
    # Beside this file rather than through importlib.resources, whose import takes longer than building the prompt.
    with open(os.path.join(TEXTS, name), encoding="utf-8") as file:
        return file.read().strip()
