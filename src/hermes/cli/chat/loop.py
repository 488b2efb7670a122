"""Runs a conversation at a terminal: reads lines, runs slash commands or turns, asks about pending writes."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cached_property
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, ModelError, NotFound
from hermes.base.events import Notice
from hermes.base.text import counted
from hermes.base.version import __version__
from hermes.cli import ui
from hermes.cli.chat.editor import Editor, Typeahead
from hermes.cli.chat.screen import TurnView, compacted_in_words
from hermes.cli.sessions import named, one_line, open_existing, receipt_lines
from hermes.llm.embedded import LIMITS, NAME
from hermes.memory.store import MemoryStore, usage
from hermes.session.approvals import PendingWrites, changed, described, is_cut, origins, waiting_in_words
from hermes.session.models import script_from_here
from hermes.session.parts import open_past
from hermes.session.receipts import Receipts
from hermes.storage.images import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hermes.agent import Agent
    from hermes.cli.chat.screen import Screen
    from hermes.session.approvals import PendingWrite
    from hermes.storage.images import Content
    from hermes.storage.records import Session


_RECENT = 20  # conversations that complete `/resume`
_MILLION = 1_000_000
_CENTS = 0.1  # dollars; smaller amounts are shown with four decimals
_SHOWN = 600  # characters of each side of the last exchange


class Chat:
    """A chat at a terminal. `opener` opens an agent: with a new conversation, or with `resume` an earlier one."""

    def __init__(self, context: ui.Context, screen: Screen, opener: Callable[..., Agent]) -> None:
        self.context = context
        self.screen = screen
        self._typeahead = Typeahead(screen.show_typed)
        self.view = TurnView(screen, pause_typing=self._typeahead.paused)
        self._opener = opener
        self.pending = PendingQuestions(self, self._typeahead, self._change)
        self._model: Any = None
        self._agent: Agent | None = None
        self._status: list[str] = []
        self.images: list[dict[str, Any]] = []  # attached to the next message

    @property
    def agent(self) -> Agent:
        """The agent of the current conversation; opens a new conversation if there is none yet."""
        if self._agent is None:
            self.reopen()
        assert self._agent is not None  # noqa: S101 - reopen sets it or raises
        return self._agent

    def reopen(self, resume: str | None = None, title: str | None = None, reason: str = "new") -> None:
        """Switches to another conversation; if that cannot be opened, the current one stays."""
        before = self._agent.session if self._agent is not None else None
        opened = self._opener(
            resume=resume, title=title, model=self._model, ask=self.view.ask, follows=before, reason=reason
        )
        self.close()
        self._agent, self._model = opened, opened.model

    def close(self) -> None:
        """Ends the current conversation; deletes it if nothing was said in it."""
        self._typeahead.stop()
        if self._agent is not None:
            agent, self._agent = self._agent, None
            agent.session.drop_if_empty()
            agent.close()
            for notice in agent.session.notices.take():
                self.view.show(notice)

    def run(self) -> None:
        """Reads lines until the person leaves."""
        warned = False
        while True:
            for event in self.agent.session.take_events():
                self.view.show(event)
            self.pending.ask_new()
            about = self.agent.session.about()
            cached = f"{about.cache_read_tokens / about.input_tokens:.0%} cached" if about.input_tokens else ""
            waiting = f"{count} pending" if (count := self.pending.count()) else ""
            parts = [self.agent.model.name, waiting, f"context {self.context_use()}", cached, self.cost()]
            self._status = [part for part in (*parts, self.memory_use()) if part]
            try:
                line = self._editor.read(self._typeahead.take())
            except EOFError:
                return
            except KeyboardInterrupt:
                if warned:
                    return
                warned = True
                self.screen.line("(Ctrl-C again, Ctrl-D or /quit ends the chat)", "dim")
                continue
            warned = False
            # A command is a slash and a word; a path such as /etc/hosts begins a message.
            if line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]:
                if not run_command(self, line):
                    return
            elif line:
                self.take_turn(line)

    @cached_property
    def _editor(self) -> Editor:
        return Editor(
            self.context.home,
            {name: text for name, (text, _) in SLASH_COMMANDS.items()},
            words_for=self._words_for,
            status=self.status_line,
            expand=self.view.expand,
        )

    def _change(self, text: str) -> str | None:
        return self._editor.change(text)  # the editor is made on first use, not with the chat

    def take_turn(self, text: Content) -> None:
        """Sends a message with the attached images and shows the turn; the message stays stored if the model fails."""
        if self.images and isinstance(text, str):
            text, self.images = [{"type": "text", "text": text}, *self.images], []
        self._typeahead.start()
        try:
            self.view.run(self.agent, text)
            if self.context.settings.flag("display.receipts") and self.agent.session.receipt_id:
                self.screen.fitted(one_line(self.agent.session.receipt()), "dim")
            self.screen.line()
        except ModelError as error:
            self.screen.line(f"{error}", "yellow")
            self.screen.line("your message is kept; /retry asks again, /undo takes it back", "dim")
        except HermesError as error:
            self.screen.line(f"{error}", "yellow")

    def greet(self) -> None:
        """Shows the model, the cache, the memory and pending writes before the first line is read."""
        model = self.agent.model
        ttl = self.context.settings.text("prompt_caching.cache_ttl")
        self.screen.fitted(f"Hermes {__version__} · {model.name} · /help", "bold")
        endpoint = getattr(model, "endpoint", None)
        cached = f"Anthropic caches it for {ttl}" if getattr(endpoint, "cache_points", "") else "the server caches it"
        self.screen.fitted(
            " · ".join(filter(None, [f"the prompt stays the same, so {cached}", self.memory_use()])), "dim"
        )
        if count := self.pending.count():
            self.screen.line(f"{waiting_in_words(count)} (/pending)", "dim")
        if model.name == NAME:
            self.screen.line(f"This is {LIMITS}.", "dim")

    def show_last_exchange(self) -> None:
        """Shows the last question and answer of a conversation that is being resumed."""
        said = [each for each in self.agent.session.context.messages if each.get("content")]
        asked = next((each for each in reversed(said) if each["role"] == "user"), None)
        if asked is None:
            return
        about = self.agent.session.about()
        self.screen.fitted(f"continuing {about.title or about.id}, {counted(about.message_count, 'message')}", "dim")
        self.screen.line(f"> {_shortened(asked['content'])}", "dim")
        if said[-1]["role"] == "assistant":
            self.screen.answer(_shortened(said[-1]["content"]))
            self.screen.end_answer()

    def switch_model(self, name: str) -> None:
        """Continues the conversation with another model; later conversations of this chat use it too."""
        self._model = self.agent.switch_model(script_from_here(name))

    def recent(self, limit: int) -> list[Session]:
        """Lists the latest conversations in which something was said."""
        past = open_past(self.context.home)
        if past is None:
            return []
        with past:
            return [each for each in past.list_sessions(limit=limit + 1) if each.message_count][:limit]

    def status_line(self) -> str:
        """The line below the input: as many parts of the status as fit into the width."""
        parts = list(self._status)
        while len(parts) > 1 and len(" · ".join(parts)) > self.screen.width - 1:
            parts.pop()
        return " · ".join(parts)[: self.screen.width - 1]

    def context_use(self) -> str:
        """`12% of 200k`: how much of the window the next request takes."""
        window = self.agent.model.context_length
        size = f"{window / 1_000_000:.3g}M" if window >= _MILLION else f"{window / 1000:.0f}k"
        return f"{self.agent.session.compactor.tokens() / window:.0%} of {size}"

    def cost(self) -> str:
        """The cost of the conversation so far, with compacted and delegated parts; "" if no price is known."""
        session = self.agent.session
        rows = {each.key: each for each in session.database.lineage(session.id)}
        chain = [session.about()]
        while chain[-1].kind == "compression" and chain[-1].parent in rows:
            chain.append(rows[chain[-1].parent])
        keys = {each.key for each in chain}
        chain += [each for each in rows.values() if each.kind == "delegate" and each.parent in keys]
        known = [each.estimated_cost_usd for each in chain if each.estimated_cost_usd is not None]
        if not known:
            return ""
        return f"${sum(known):.2f}" if sum(known) >= _CENTS else f"${sum(known):.4f}"

    def memory_use(self) -> str:
        """How full each memory file is, such as `memory 45%, user 12%`."""
        try:
            store = MemoryStore.open(self.context.home, settings=self.context.settings)
            used = {target: usage(store.entries(target), store.limit(target)).split()[0] for target in store.targets}
        except HermesError:
            return "memory cannot be read (/memory status)"
        return ", ".join(f"{target} {share}" for target, share in used.items())

    def _words_for(self, command: str) -> Iterable[str]:
        if command == "/resume":
            return [each.title for each in self.recent(_RECENT) if each.title]
        if command == "/model":
            return [NAME, self.agent.model.name]
        if command == "/memory":
            from hermes.cli.catalogue import GROUPS

            return list(GROUPS["memory"][1])
        return ()


def _shortened(content: Any) -> str:
    """A message as text, cut to what reminds a person of it."""
    text = words_of(content)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


_LISTED = 10  # conversations that `/resume` lists and numbers
# A word, or words in quotes, perhaps after `--option=`. Quotes count only around whole words, not in "don't".
_WORD = re.compile(r"""((?:--[\w-]+=)?)(?:"([^"]*)"|'([^']*)')(?!\S)|(\S+)""")

# A file name in quotes, or with a backslash before each space: terminals write a file dropped on them in these ways.
_PATH = re.compile(r"""(?:"([^"]+)"|'([^']+)'|((?:\\.|[^\s\\])+))(?!\S)""")


def run_command(chat: Chat, line: str) -> bool:
    """Runs a line that begins with a slash; False when the chat should end."""
    name, _, rest = line.partition(" ")
    name = ALIASES.get(name, name)
    if name == "/quit":
        return False
    if name not in SLASH_COMMANDS:
        from hermes.settings.schema import nearest

        chat.screen.line(f"there is no command {name}{nearest(name, SLASH_COMMANDS)} (/help lists all)")
        return True
    try:
        SLASH_COMMANDS[name][1](chat, rest.strip())
    except HermesError as error:
        chat.screen.line(str(error), "yellow")
    return True


def _new(chat: Chat, title: str) -> None:
    chat.reopen(title=title or None)
    chat.screen.line("a new conversation", "dim")


def _resume(chat: Chat, name: str) -> None:
    """Lists the latest conversations, or resumes the one with this number, id or title."""
    recent = chat.recent(_LISTED)
    if not name:
        for number, each in enumerate(recent, start=1):
            name = each.title or each.preview or each.id
            chat.screen.fitted(f"{number:>3}  {ui.when(each.last_active)[:16]}  {name}")
        chat.screen.line("/resume NUMBER, or an id or title" if recent else "there are no conversations yet", "dim")
        return
    if name.isdecimal() and 0 < int(name) <= len(recent):
        name = recent[int(name) - 1].id
    with open_existing(chat.context) as past:
        name = named(past, name).id
    chat.reopen(resume=name, reason="resume")
    chat.show_last_exchange()


def _branch(chat: Chat, title: str) -> None:
    before = chat.agent.session.about()
    chat.reopen(resume=chat.agent.session.branch(title or None), reason="branch")
    chat.screen.line(f"a branch of {before.title or before.id}; /resume {before.id} goes back", "dim")


def _undo(chat: Chat, _rest: str) -> None:
    chat.screen.fitted(f"undone: {chat.agent.session.undo()}", "dim")


def _retry(chat: Chat, _rest: str) -> None:
    """Takes the last exchange back and asks the same question again."""
    said = chat.agent.session.asked()
    chat.agent.session.undo()
    chat.take_turn(said)


def _image(chat: Chat, rest: str) -> None:
    """Attaches an image to the next message, or sends it at once with the words after its name."""
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


def _receipt(chat: Chat, rest: str) -> None:
    """Shows the receipt of the newest answer, or of the turn whose number was given."""
    if rest and not rest.isdecimal():
        raise NotFound("/receipt takes the number of a turn, such as /receipt 2")
    session = chat.agent.session
    known = Receipts(session.home, session.database)
    found = [each for each in known.of(session.id) if not rest or each.turn == int(rest)]
    if not found:
        raise NotFound("no answer has a receipt yet" if not rest else f"no answer of turn {rest} has a receipt")
    for line in receipt_lines(known.get(found[-1].id)):
        chat.screen.line(line)


def _title(chat: Chat, title: str) -> None:
    kept = chat.agent.session.rename(title) if title else chat.agent.session.about().title
    chat.screen.line(f"title: {kept or 'none yet (/title TEXT)'}", "dim")


def _compress(chat: Chat, focus: str) -> None:
    chat.screen.wait("compacting …")
    done = chat.agent.session.compact(focus)
    why = [event.text for event in chat.agent.session.take_events() if isinstance(event, Notice)]
    text = compacted_in_words(done) if done is not None else "; ".join(why) or "there is nothing to compact yet"
    chat.screen.line(text, "dim")


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
    width = max(map(len, SLASH_COMMANDS))
    for name, (told, _) in SLASH_COMMANDS.items():
        chat.screen.line(f"{name:<{width}}  {told}")
    chat.screen.line()
    chat.screen.line("Enter sends. Alt-Enter, or \\ at the end of a line, new line. Tab completes.")
    chat.screen.line("Ctrl-C stops an answer. Ctrl-O shows the last tool call. Ctrl-D quits.")


def _program(*words: str, default: str = "", joined: bool = False) -> Callable[[Chat, str], None]:
    """Makes a slash command of a command of the program, such as `hermes memory …`."""

    def command(chat: Chat, rest: str) -> None:
        given = [rest] if joined and rest else ["".join(filter(None, parts)) for parts in _WORD.findall(rest)]
        chat.screen.end_answer()
        with suppress(KeyboardInterrupt, SystemExit):  # Ctrl-C ends the command, and so does its help
            chat.context.run([*words, *(given or ([default] if default else []))])

    return command


SLASH_COMMANDS: dict[str, tuple[str, Callable[[Chat, str], None]]] = {
    "/new": ("start a new conversation [TITLE]", _new),
    "/resume": ("resume an earlier conversation [NUMBER, ID or TITLE]", _resume),
    "/branch": ("continue in a copy, and keep this conversation as it is [TITLE]", _branch),
    "/undo": ("take the last exchange back", _undo),
    "/retry": ("take the last exchange back and ask again", _retry),
    "/image": ("send an image with the next message [FILE, or FILE and a message]", _image),
    "/title": ("show or set the title [TEXT]", _title),
    "/compress": ("make room in the context now [what to keep]", _compress),
    "/memory": ("what is remembered; also add, remove, log, undo, …", _program("memory", default="list")),
    "/pending": ("decide about writes that wait for you", lambda chat, _: chat.pending.ask_all()),
    "/search": ("find past conversations [QUESTION]", _program("sessions", "search", joined=True)),
    "/sessions": ("list past conversations", _program("sessions", default="list")),
    "/skills": ("list skills", _program("skills", default="list")),
    "/receipt": ("what the last answer was made from, wrote and cost [TURN]", _receipt),
    "/status": ("tokens, cache and memory of this conversation", _status),
    "/model": ("show or switch the model [NAME]", _model),
    "/expand": ("show a tool call as a whole [NUMBER]", _expand),
    "/clear": ("clear the screen; the conversation stays", lambda chat, _: chat.screen.clear()),
    "/help": ("this list", _help),
    "/quit": ("end the chat", _help),
}
ALIASES = {"/exit": "/quit", "/q": "/quit", "/bye": "/quit", "/?": "/help", "/h": "/help", "/compact": "/compress"}
ALIASES |= {"/history": "/sessions", "/continue": "/resume", "/reset": "/new", "/rename": "/title", "/redo": "/retry"}


ACCEPT, REJECT, EDIT, SHOW, ONE_BY_ONE, LATER = "a", "r", "e", "s", "o", "l"
_KEYS = {ACCEPT: "[a]ccept", REJECT: "[r]eject", EDIT: "[e]dit", SHOW: "[s]how all of it"}
_KEYS |= {ONE_BY_ONE: "[o]ne by one", LATER: "[l]ater"}
_LEFT = "left waiting; /pending asks again"


class PendingQuestions:
    """Asks about each pending write once; one that is left for later waits until the person asks for it.

    `typeahead` lends the keyboard for the question; `edit` lets the person change a text, and returns None if they
    leave it.
    """

    def __init__(self, chat: Chat, typeahead: Typeahead, edit: Callable[[str], str | None]) -> None:
        self._screen = chat.screen
        self._pending = PendingWrites(chat.context.home)
        self._typeahead = typeahead
        self._edit = edit
        self._seen = {each.id for each in self._pending.all()}

    def count(self) -> int:
        """Counts the writes that wait, also those the person has put off."""
        return len(self._pending.all())

    def ask_new(self) -> None:
        """Asks about writes that were staged since the last question."""
        if waiting := [each for each in self._pending.all() if each.id not in self._seen]:
            self._ask(waiting)

    def ask_all(self) -> None:
        """Asks about every write that waits, also those the person has put off."""
        if waiting := self._pending.all():
            self._ask(waiting)
        else:
            self._screen.line("nothing is pending", "dim")

    def _ask(self, waiting: Sequence[PendingWrite]) -> None:
        self._seen |= {each.id for each in waiting}
        with self._typeahead.paused():
            self._screen.line(waiting_in_words(len(waiting)), "bold")
            self._show_all(waiting)
            self._decide(waiting)

    def _decide(self, waiting: Sequence[PendingWrite]) -> None:
        """Asks about one write, or about several at once; after `o`, about one after the other."""
        if len(waiting) == 1:
            self._ask_about(waiting[0])
            return
        match self._choice((ACCEPT, REJECT, ONE_BY_ONE, LATER), all_of_them=True):
            case "a" | "r" as key:
                for each in waiting:
                    (self._accept if key == ACCEPT else self._reject)(each)
            case "o":
                for number, each in enumerate(waiting, start=1):
                    self._screen.line(f"{number} of {len(waiting)}", "bold")
                    self._show(described(each, whole=False).split("\n"))
                    if not self._ask_about(each):
                        return
            case _:
                self._screen.line(_LEFT, "dim")

    def _ask_about(self, pending: PendingWrite) -> bool:
        """Asks about one write until it is decided or put off; False when the person leaves the questions."""
        offered = (ACCEPT, REJECT, *([EDIT] if pending.texts else []), *([SHOW] if is_cut(pending) else []), LATER)
        while True:
            match self._choice(offered):
                case "a":
                    self._accept(pending)
                case "r":
                    self._reject(pending)
                case "s":
                    self._show(described(pending).split("\n"))
                    continue
                case "e":
                    if not self._change(pending):
                        continue
                case key:
                    self._screen.line(_LEFT, "dim")
                    return bool(key)
            return True

    def _choice(self, offered: Sequence[str], *, all_of_them: bool = False) -> str:
        """Shows the offered keys and waits for one of them."""
        words = [_KEYS[key] + (" all" if all_of_them and key in (ACCEPT, REJECT) else "") for key in offered]
        return self._typeahead.key("".join(offered), lambda: self._screen.line("  ".join(words), "cyan"))

    def _show_all(self, waiting: Sequence[PendingWrite]) -> None:
        """Shows each write with its origin; an origin that all share is shown once, at the end."""
        shared = origins(waiting[0], whole=False)
        if len(waiting) == 1 or any(origins(each, whole=False) != shared for each in waiting):
            for each in waiting:
                self._show(described(each, whole=False).split("\n"))
            return
        for each in waiting:
            self._show(changed(each, whole=False))
        self._show([f"all {shared[0]}", *shared[1:]])

    def _show(self, lines: Sequence[str]) -> None:
        for line in lines:
            # Also shows characters that could hide a part of the text, such as marks that reverse its direction.
            shown = ui.visible(f"  {line}")
            indent = " " * (len(shown) - len(shown.lstrip()) + 2)
            self._screen.line("\n".join(wrap(shown, self._screen.width - 1, subsequent_indent=indent) or [""]))

    def _accept(self, pending: PendingWrite) -> None:
        try:
            self._screen.line(f"accepted: {self._pending.approve(pending.id).message}", "dim")
        except HermesError as error:
            self._screen.line(f"{pending.id} still waits: {error}", "yellow")

    def _reject(self, pending: PendingWrite) -> None:
        try:
            self._screen.fitted(f"rejected: {self._pending.reject(pending.id).summary}", "dim")
        except HermesError as error:
            self._screen.line(f"{error}", "yellow")

    def _change(self, pending: PendingWrite) -> bool:
        """Lets the person edit the texts, then accepts the write; False if they press Ctrl-C or empty a text."""
        texts: list[str] = []
        for text in pending.texts:
            if not (changed := self._edit(text)):
                return False
            texts.append(changed)
        try:
            self._pending.edit(pending.id, texts)
        except HermesError as error:
            self._screen.line(f"{error}", "yellow")
            return False
        self._accept(pending)
        return True
