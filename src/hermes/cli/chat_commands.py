"""The slash commands of the chat. Each is a line of help and a function of the chat and what follows the name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.cli.render import when
from hermes.vocabulary.errors import HermesError, NotFound
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes.cli.chat_loop import Chat

_LISTED = 10
# A word, or words between quotes that begin and end one: the apostrophe in "don't" is none.
_WORD = re.compile(r"""((?:--[\w-]+=)?)(?:"([^"]*)"|'([^']*)')(?!\S)|(\S+)""")

# The name of a file in quotes, or with a backslash before each space: so terminals write one that is dropped on them.
_PATH = re.compile(r"""(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))(?!\S)""")


def run_command(chat: Chat, line: str) -> bool:
    """Carries out one line that begins with a slash; False when the chat should end."""
    name, _, rest = line.partition(" ")
    name = ALIASES.get(name, name)
    if name == "/quit":
        return False
    if name not in COMMANDS:
        from hermes.settings.check import nearest

        chat.screen.line(f"there is no command {name}{nearest(name, COMMANDS)} (/help lists all)")
        return True
    try:
        COMMANDS[name][1](chat, rest.strip())
    except HermesError as error:
        chat.screen.line(str(error), "yellow")
    return True


def _new(chat: Chat, title: str) -> None:
    chat.reopen(title=title or None)
    chat.screen.line("a new conversation", "dim")


def _resume(chat: Chat, name: str) -> None:
    recent = chat.recent(_LISTED)
    if not name:
        for number, each in enumerate(recent, start=1):
            chat.screen.fitted(f"{number:>3}  {when(each.last_active)[:16]}  {each.title or each.preview or each.id}")
        chat.screen.line("/resume NUMBER, or an id or title" if recent else "there are no conversations yet", "dim")
        return
    if name.isdecimal() and 0 < int(name) <= len(recent):
        name = recent[int(name) - 1].id
    chat.reopen(resume=chat.meant(name), reason="resume")
    chat.show_last_exchange()


def _branch(chat: Chat, title: str) -> None:
    before = chat.agent.session.about()
    chat.reopen(resume=chat.agent.session.branch(title or None), reason="branch")
    chat.screen.line(f"a branch of {before.title or before.id}; /resume {before.id} goes back", "dim")


def _undo(chat: Chat, _rest: str) -> None:
    said = chat.agent.session.undo()
    chat.screen.fitted(f"taken back: {said}", "dim")


def _retry(chat: Chat, _rest: str) -> None:
    said = chat.agent.session.asked()
    chat.agent.session.undo()
    chat.take_turn(said)


def _image(chat: Chat, rest: str) -> None:
    """Attaches an image to the next message, or sends it at once with the words behind its name."""
    from hermes.storage.images import image_part, placeholder, taken_in

    found = _PATH.match(rest)
    if found is None:
        raise NotFound("/image takes the name of a file: /image FILE, or /image FILE and your message")
    name = found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3])
    chat.images.append(image_part(name))
    if words := rest[found.end() :].strip():
        chat.take_turn(words)
        return
    shown = ", ".join(placeholder(entry) for entry in taken_in(chat.images)[1])
    chat.screen.line(f"{shown} goes with your next message", "dim")


def _title(chat: Chat, title: str) -> None:
    kept = chat.agent.session.rename(title) if title else chat.agent.session.about().title
    chat.screen.line(f"title: {kept or 'none yet (/title TEXT)'}", "dim")


def _compress(chat: Chat, focus: str) -> None:
    chat.screen.wait("compacting …")
    chat.screen.line(chat.compress(focus), "dim")


def _expand(chat: Chat, number: str) -> None:
    if number and not number.isdecimal():
        raise NotFound("/expand takes the number of a call, such as /expand 2")
    chat.view.expand(int(number or 0))


def _model(chat: Chat, name: str) -> None:
    if name:
        chat.switch_model(name)
    chat.screen.line(f"model: {chat.agent.model.name} ({chat.agent.model.context_length:,} tokens of context)", "dim")


def _status(chat: Chat, _rest: str) -> None:
    about, home = chat.agent.session.about(), chat.context.home
    share = f"{about.cache_read_tokens / about.input_tokens:.0%} of the prompt" if about.input_tokens else "nothing yet"
    for name, text in {
        "session": f"{about.id}{f' “{about.title}”' if about.title else ''}",
        "model": f"{chat.agent.model.name}, {chat.agent.model.context_length:,} tokens of context",
        "messages": f"{counted(about.message_count, 'message')}, {counted(about.tool_call_count, 'tool call')}",
        "tokens": f"{about.input_tokens:,} read, {about.output_tokens:,} written (without answers that were stopped)",
        "context": f"{chat.context_use()} tokens",
        "cached": share,
        "cost": f"{cost} (list prices, without helper models)" if (cost := chat.cost()) else "the price is not known",
        "filled": chat.memory_use() or "memory is switched off",
        "home": f"{home.path}{f' (profile {home.profile})' if home.profile else ''}",
    }.items():
        chat.screen.line(f"{name:<9} {text}")


def _help(chat: Chat, _rest: str) -> None:
    width = max(map(len, COMMANDS))
    for name, (told, _) in COMMANDS.items():
        chat.screen.line(f"{name:<{width}}  {told}")
    chat.screen.line()
    chat.screen.line("Enter sends. Alt-Enter, or \\ at the end of a line, goes on. Tab completes.")
    chat.screen.line("Ctrl-C stops an answer. Ctrl-O shows the last tool call. Ctrl-D quits.")


def _clear(chat: Chat, _rest: str) -> None:
    chat.screen.clear()


def _program(*words: str, default: str = "", joined: bool = False) -> Callable[[Chat, str], None]:
    """A slash command that is one of the program's own commands, such as `hermes memory …`."""

    def command(chat: Chat, rest: str) -> None:
        given = [rest] if joined and rest else ["".join(filter(None, parts)) for parts in _WORD.findall(rest)]
        chat.run_program([*words, *(given or ([default] if default else []))])

    return command


COMMANDS: dict[str, tuple[str, Callable[[Chat, str], None]]] = {
    "/new": ("start a new conversation [TITLE]", _new),
    "/resume": ("go on with an earlier conversation [NUMBER, ID or TITLE]", _resume),
    "/branch": ("go on in a copy, and keep this conversation as it is [TITLE]", _branch),
    "/undo": ("take the last exchange back", _undo),
    "/retry": ("take the last exchange back and ask again", _retry),
    "/image": ("send an image with the next message [FILE, or FILE and a message]", _image),
    "/title": ("show or set the title [TEXT]", _title),
    "/compress": ("make room in the context now [what to keep]", _compress),
    "/memory": (
        "what is remembered; also add, remove, log, undo, …",
        _program("memory", default="list"),
    ),
    "/search": ("find past conversations [QUESTION]", _program("sessions", "search", joined=True)),
    "/sessions": ("list past conversations", _program("sessions", default="list")),
    "/skills": ("list skills", _program("skills", default="list")),
    "/status": ("tokens, cache and memory of this conversation", _status),
    "/model": ("show or switch the model [NAME]", _model),
    "/expand": ("show a tool call as a whole [NUMBER]", _expand),
    "/clear": ("clear the screen; the conversation stays", _clear),
    "/help": ("this list", _help),
    "/quit": ("end the chat", _help),
}
ALIASES = {"/exit": "/quit", "/q": "/quit", "/bye": "/quit", "/?": "/help", "/h": "/help", "/compact": "/compress"}
ALIASES |= {"/history": "/sessions", "/continue": "/resume", "/reset": "/new", "/rename": "/title", "/redo": "/retry"}
