"""Builds what a session needs from the settings of a home: memory, database, tools, engine, providers, prompt."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

from hermes.base.errors import (
    ForeignFile,
    HermesError,
    LockTimeout,
    NotFound,
    OutOfOrder,
    SettingsError,
    StorageError,
    UnsafePath,
)
from hermes.base.text import day
from hermes.base.values import Notices, value
from hermes.memory.approval import SKILLS, Approvals
from hermes.memory.entries import NONE, USE, Cause
from hermes.memory.store import SWITCHES, MemoryStore, search
from hermes.session.external import External, ProviderTool
from hermes.settings.config import conversations_of, documents_of, load_settings, secret
from hermes.settings.home import (
    SHARED,
    UNSAVED,
    find_home,
    locate_home,
    named_project,
    project_of,
    recorded_project,
)
from hermes.settings.schema import nearest
from hermes.settings.trust import DecisionLog, TrustedFolders
from hermes.storage.ports import is_address
from hermes.tools.memory import ContextCompact, ContextExpand, MemoryTool, SessionSearchTool, SkillTool
from hermes.tools.registry import Toolbox, check_tool, check_toolsets, is_enabled, toolsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import date, datetime, tzinfo

    from hermes.compaction.compressor import ContextCompressor
    from hermes.compaction.engine import Choice, ContextEngine, EngineInfo
    from hermes.conversations.database import SessionDB
    from hermes.conversations.search.reranker import Reranker
    from hermes.conversations.search.semantic import Embedding
    from hermes.conversations.session_search import Helpers
    from hermes.memory.reminders import Reminders
    from hermes.memory.rules import RulesInForce
    from hermes.memory.store import Archived
    from hermes.prompt.assembly import Prompt, ScanCache, SubdirectoryHints
    from hermes.providers.base import MemoryProvider
    from hermes.session.context import Context
    from hermes.session.unsaved import Spare
    from hermes.settings.config import Settings
    from hermes.settings.home import Home
    from hermes.skills.tool import SkillTools
    from hermes.storage.ports import Documents
    from hermes.tools.registry import Tool

    Database = Callable[[], AbstractContextManager[SessionDB | None]]

# A single search may find an archived entry by chance; a second one shows that it is missed, so it is restored.
USES_THAT_BRING_BACK = 2
LOCAL = "local"
DIGEST, REWRITE = "session_search", "memory_query_rewrite"  # tasks of helper models
_MOST_QUERIES = 3  # other wordings of a question that a helper model may add to a search
CHAT = "gateway_session_key"  # in the identity of a gateway's chat, which outlives the program


def find_archived(store: MemoryStore, query: str, session_id: str) -> list[dict[str, Any]]:
    """Searches the archived entries; each hit counts as a use, and an entry that was used before is restored."""
    try:
        archived = []
        for target in store.targets:
            found = store.archived(target)
            allowed = set(store.recalled(target, [each.entry for each in found]))
            archived += [each for each in found if each.entry in allowed]
        return [_used(store, each, session_id) for each in search(archived, query)]
    except HermesError:
        return []  # the search is mainly about conversations; `hermes memory status` reports broken memory


def _used(store: MemoryStore, found: Archived, session_id: str) -> dict[str, Any]:
    store.marks_file(found.target).add(USE, [found.entry])
    uses = store.marks(found.target).get(found.entry, NONE).uses
    shown: dict[str, Any] = {
        "target": found.target,
        "entry": found.entry,
        "archived": day(found.at),
        "reason": found.reason,
    }
    if found.into:
        return {**shown, "now": found.into}  # merged or superseded: the other entry is in use
    if uses >= USES_THAT_BRING_BACK and store.archives:
        cause = Cause(origin="agent", session=session_id, note="brought back by use")
        store.restore(found.target, found.entry, cause=cause)
        shown["restored"] = True
    return shown


def platform_words(settings: Settings, platform: str) -> tuple[str, str]:
    """The settings' hint about a platform that replaces ours in the prompt, and the text that is appended to it."""
    given = (settings.get("platform_hints") or {}).get(platform)
    words = given if isinstance(given, dict) else {"replace": given}
    instead, more = (words.get(name) for name in ("replace", "append"))
    return instead if isinstance(instead, str) else "", more if isinstance(more, str) else ""


# End reasons that a resume keeps, because they say how the conversation continued.
_ENDED_FOR_GOOD = frozenset({"compression", "branched"})


class SessionStorage:
    """The database of one session, and what replaces it while `state.db` cannot be used.

    Without an `owner` nothing is opened until `open` is called. If the database is locked or damaged, the error is kept
    as `trouble`; with `must_store` it is raised. `is_long_lived` says that the conversation outlives this program.
    """

    def __init__(
        self,
        home: Home,
        settings: Settings,
        owner: str | None,
        *,
        must_store: bool = False,
        is_long_lived: bool = False,
        shared: SessionDB | None = None,
    ) -> None:
        self._home = home
        self._settings = settings
        self._owner = owner or "local"
        self.must_store = must_store
        self.is_long_lived = is_long_lived
        self._shared = shared  # an open handle that other sessions use too
        self.opened_as = ""  # the id at opening; after a compaction the conversation may continue in a child session
        self.trouble: StorageError | None = None  # why state.db cannot be used now
        self.spare: Spare | None = None  # where the conversation is kept instead
        self._database: SessionDB | None = None
        self._reading: SessionDB | None = None  # a locked state.db, which can still be read
        if owner is None:
            return
        try:
            self.open()
        except StorageError as error:
            if must_store or isinstance(error, (UnsafePath, ForeignFile)):
                raise
            self.trouble = error
            if isinstance(error, LockTimeout):
                self._reading = self._to_read()

    @property
    def database(self) -> SessionDB:
        """The database in use, `state.db` or its replacement; raises the reason when neither is available."""
        if self._database is None and self.trouble is not None:
            raise self.trouble
        if self._database is None:  # without an owner nobody asks for it, so it was open and is closed
            raise OutOfOrder(f"this session is closed; MemorySession.open(resume={self.opened_as!r}) goes on with it")
        return self._database

    @property
    def is_open(self) -> bool:
        """Whether a database is open that the session can store to."""
        return self._database is not None

    @property
    def readable(self) -> SessionDB:
        """Past conversations; while another program holds the lock, a read-only handle. Raises why there is none."""
        if self._reading is not None:
            return self._reading
        if self.trouble is not None:
            raise self.trouble
        return self.database

    def past(self, ids: Sequence[int] = ()) -> SessionDB | None:
        """The database with past conversations, or with the messages `ids`; None before anything was opened."""
        if self.trouble is None:
            return self._database
        if self.spare is not None and ids:
            from hermes.session.unsaved import FIRST_ID

            if ids[-1] >= FIRST_ID:
                return self.spare.db
        return self.readable

    def open(self) -> None:
        """Opens the database and waits for a lock as long as the settings allow."""
        self._database = self.open_again(wait=self._settings.number("sessions.lock_wait_seconds"))

    def open_again(self, *, wait: float) -> SessionDB:
        """Opens another handle to `state.db`, or shares the one that was handed in."""
        from hermes.conversations.database import SessionDB

        shared = self._shared.share() if self._shared is not None else None
        return shared or SessionDB.open(
            **conversations_of(self._home, self._owner),
            durability="turn",
            semantic=lambda: embedding_of(self._home),
            reranker=lambda: reranker_of(self._home),
            wait=wait,
        )

    def try_again(self) -> None:
        """Opens `state.db` again after it could not be opened or was replaced; does not wait for a lock."""
        if self._database is not None and self.spare is None and self._database.store.is_replaced():
            self._database.close()
            self._database, self.trouble = None, StorageError("state.db was replaced while it was open; try again")
        if self.trouble is not None and self.spare is None:
            try:
                database = self.open_again(wait=0.0)
            except StorageError as error:
                self.trouble = error
            else:
                self.go_back_to(database)

    def mark_open(self, session_id: str) -> None:
        """Notes that this process has the session open, and reopens a conversation that had ended."""
        from hermes.conversations.database import Opened

        self.opened_as = session_id
        opened = Opened(self.database)
        with opened.together():
            if not self.is_long_lived:
                opened.mark(session_id)  # this may end this very session, if the process before was killed
            session = self.database.get_session(session_id)
            if session.ended_at is not None and session.end_reason not in _ENDED_FOR_GOOD:
                self.database.update_session(session_id, ended_at=None, end_reason=None)

    def reading_after(self, error: StorageError) -> SessionDB:
        """Opens `state.db` for reading after it failed; raises `error` if that is impossible."""
        found = self._to_read()
        if found is None:
            raise error
        return found

    def fall_back(self, error: StorageError) -> Spare:
        """Switches to a spare database; raises `error` if the host or the disk does not allow that."""
        from hermes.session.unsaved import Spare, close_quietly

        closed = self._database is None and self.trouble is None
        if closed or self.must_store or self.spare is not None or isinstance(error, (UnsafePath, ForeignFile)):
            raise error
        try:
            self.spare = Spare.make(self._home, conversations_of(self._home, self._owner)["owner"], error)
        except StorageError:
            raise error from None
        close_quietly(self._database)
        self.spare.look()
        self._database, self.trouble = self.spare.db, error
        if self._reading is None and isinstance(error, LockTimeout):
            self._reading = self._to_read()
        return self.spare

    def go_back_to(self, database: SessionDB) -> None:
        """Switches back to `state.db`, to which everything in the spare database has been added."""
        from hermes.session.unsaved import close_quietly

        if self.spare is not None:
            self.spare.close(discard=True)
        close_quietly(self._reading)
        self._database, self.spare, self.trouble, self._reading = database, None, None, None

    def _to_read(self) -> SessionDB | None:
        from hermes.conversations.database import SessionDB
        from hermes.storage.ports import OPTIONAL_WAIT

        try:
            return SessionDB.open(**conversations_of(self._home, self._owner), wait=OPTIONAL_WAIT, reading=True)
        except StorageError:
            return None

    def close(self) -> None:
        """Closes every handle; a spare database stays on disk until it is added to `state.db`."""
        if self._reading is not None:
            self._reading.close()
        if self.spare is not None:
            self.spare.close()
        elif self._database is not None:
            self._database.close()
        self._database = self._reading = self.spare = self.trouble = None


class EarlierSession(Protocol):
    """A session that another one may follow and whose providers it takes over."""

    @property
    def external(self) -> External:
        """The providers to take over."""

    @property
    def context(self) -> Context:
        """The messages that the providers are given as the end of the earlier session."""


class SessionKeywords(TypedDict, total=False):
    """The fields of `SessionOptions` as keywords of `MemorySession.open`."""

    context_length: int | None
    prefill: Sequence[Mapping[str, Any]]
    owner: str
    skip_memory: bool
    skip_context_files: bool
    today: date | None
    toolsets: Collection[str] | None
    must_store: bool | None
    identity: Mapping[str, Any] | None
    providers: Sequence[MemoryProvider]
    follows: EarlierSession | None
    reason: str
    makers: Mapping[str, Callable[[], Tool]] | None
    parent: str | None
    trusted_folders: Sequence[str] | None
    vouches: bool
    ask: Callable[[str], bool] | None
    database: SessionDB | None
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """The rarer options of `MemorySession.open`; each is also a keyword of `open`.

    `context_length` is the window of the host's model, for a model that Hermes does not know by name; pass it on resume
    too. `prefill` are messages that start every request and are never stored: pass the same ones on resume. `toolsets`
    replaces what the settings enable for this platform (`source`). `identity` is what a gateway knows about the chat,
    for memory providers: user_id, user_name, chat_id, thread_id and the like; `providers` are used in addition to those
    of the settings. A session that `follows` another in one program takes over its providers, which are notified
    (`reason`: new, reset, resume or branch); close the other one afterwards. `makers` are functions that create further
    tools of the host by name, when needed. `parent` is the session that delegates to this one.

    Trust: files and notes in `trusted_folders` count as the person's own; by default, the person's list decides
    (`hermes trust`). A host that `vouches` answers for its system message, its prefill and what it adds to turns;
    otherwise they count as text from outside. `ask` asks the person for consent when a call cannot wait for approval.

    When `state.db` is locked or damaged, the session continues with a notice and keeps the conversation in `unsaved/`
    until it can be added. With `must_store` (default: the setting `sessions.required`) it raises StorageError.

    `database` is an open `state.db` of the same home and owner that several sessions share, instead of one handle each.
    `clock` gives the time that the prompt, rules and reminders use.
    """

    context_length: int | None = None
    prefill: Sequence[Mapping[str, Any]] = ()
    owner: str = "local"
    skip_memory: bool = False
    skip_context_files: bool = False
    today: date | None = None
    toolsets: Collection[str] | None = None
    must_store: bool | None = None
    identity: Mapping[str, Any] | None = None
    providers: Sequence[MemoryProvider] = ()
    follows: EarlierSession | None = None
    reason: str = "new"
    makers: Mapping[str, Callable[[], Tool]] | None = None
    parent: str | None = None
    trusted_folders: Sequence[str] | None = None
    vouches: bool = False
    ask: Callable[[str], bool] | None = None
    database: SessionDB | None = None
    clock: Callable[[], float] = time.time

    def changed(self, more: Mapping[str, Any]) -> SessionOptions:
        """Returns these options with other values; TypeError for an unknown name."""
        known = [field.name for field in fields(self)]
        for name in more:
            if name not in known:
                raise TypeError(f"MemorySession.open has no option {name!r}{nearest(name, known)}")
        return replace(self, **more)


DEFAULTS = SessionOptions()


@value
class SessionParts:
    """What one session works with, chosen by `open_parts` from the settings; the caller of `open_parts` closes it.

    `extra` are a host's tools. `toolsets` names the enabled toolsets; None enables all.
    """

    home: Home
    settings: Settings
    options: SessionOptions
    store: MemoryStore | None
    storage: SessionStorage
    external: External
    notices: Notices  # sentences to show to the person
    cwd: str
    extra: Sequence[Tool]
    toolsets: Collection[str] | None
    project: str
    has_owner: bool

    @property
    def database(self) -> SessionDB:
        """The database in use; see `SessionStorage.database`."""
        return self.storage.database

    @cached_property
    def folders(self) -> TrustedFolders:
        """The folders whose files count as the person's own."""
        return TrustedFolders(self.home, self.options.trusted_folders)

    @cached_property
    def decisions(self) -> DecisionLog:
        """The log of what the trust gate decided."""
        return DecisionLog(self.home)

    @cached_property
    def documents(self) -> Documents:
        """The home's documents: files, or rows with PostgreSQL."""
        return documents_of(self.home, self.settings)

    @cached_property
    def rules(self) -> RulesInForce | None:
        """The person's rules; None when the settings switch them off."""
        if not self.settings.flag("rules.enabled"):
            return None
        from hermes.memory.rules import RuleBook, RulesInForce

        return RulesInForce(
            RuleBook(self.home),
            Approvals(self.home),
            tokens=self.settings.integer("rules.tokens"),
            enforce=self.settings.text("rules.enforce"),
        )

    @cached_property
    def reminders(self) -> Reminders | None:
        """The person's reminders; None when the settings switch them off."""
        if not self.settings.flag("reminders.enabled"):
            return None
        from hermes.memory.reminders import Reminders

        return Reminders(self.home)

    @cached_property
    def zone(self) -> tzinfo | None:
        """The time zone of the settings; None for that of the machine."""
        from hermes.base.dates import zone_of

        return zone_of(self.settings.text("timezone"))

    def now(self) -> datetime:
        """The local time in the time zone of the settings, as a datetime without a zone."""
        from datetime import datetime  # a memory write from a cold start does not need it

        return datetime.fromtimestamp(self.options.clock(), self.zone).replace(tzinfo=None)

    @cached_property
    def memory(self) -> MemoryTool:
        """The memory tool of the session."""
        return self.memory_tool()

    def memory_tool(self, why: str = "") -> MemoryTool:
        """Makes a memory tool with the approval rules of the settings; `why` makes every write wait."""
        return MemoryTool(
            self.store,
            approvals=Approvals(self.home),
            why=why or self._waiting("memory"),
            untrusted=self.settings.text("memory.untrusted_writes"),
        )

    def _waiting(self, kind: str) -> str:
        """Why each write waits for the person, as the settings say; "" when they do not."""
        return f"{kind}.write_approval is on" if self.settings.flag(f"{kind}.write_approval") else ""

    @cached_property
    def toolbox(self) -> Toolbox:
        """The tools the model may call; each is created on first use."""
        ours: dict[str, Callable[[], Tool]] = {"memory": lambda: self.memory}
        for name in ("skills_list", "skill_view", "skill_manage"):
            ours[name] = lambda name=name: self.skill_tool(name)  # type: ignore[misc]
        ours["session_search"] = self._session_search
        ours["context_expand"] = lambda: context_expand_tool(self.home, self.storage.past)
        if self.settings.flag("compression.enabled"):
            ours["context_compact"] = ContextCompact
        made = {name: make for name, make in ours.items() if is_enabled(name, self.toolsets)}
        made |= self.options.makers or {}
        for tool in self.extra:
            check_tool(tool)
            if is_enabled(tool.schema["name"], self.toolsets, getattr(tool, "toolset", None)):
                made[tool.schema["name"]] = lambda tool=tool: tool  # type: ignore[misc]
        untrusted = self.settings.text("memory.untrusted_writes")
        toolbox = Toolbox(made, Approvals(self.home), folder=self.cwd, untrusted=untrusted)
        if self.has_owner and self.settings.text("context.engine") not in ("", "compressor"):
            from hermes.tools.registry import EngineTool, usable_schemas

            for schema in usable_schemas(self.engine.engine):
                toolbox.add(EngineTool(schema, self.engine.engine))
        return toolbox

    @cached_property
    def engine(self) -> Choice:
        """The context engine of the settings, loaded on first use."""
        return chosen_engine(self.home, self.settings)

    @cached_property
    def scan_cache(self) -> ScanCache:
        """Scans the files that enter a prompt, with a cache of earlier verdicts."""
        from hermes.prompt.assembly import ScanCache

        return ScanCache(self.home.path)

    @cached_property
    def skills(self) -> SkillTools:
        """The skills of the home and of `skills.external_dirs`."""
        from hermes.skills.files import skills_folder
        from hermes.skills.tool import SkillTools

        also = tuple(os.path.expanduser(each) for each in self.settings.texts("skills.external_dirs"))
        return SkillTools(
            skills_folder(self.home, self.settings),
            self.scan_cache.scan,
            disabled=frozenset(self.settings.texts("skills.disabled")),
            also=also,
            outside=frozenset(each for each in also if not self.folders.is_trusted(each)),
            strict=self.settings.flag("skills.guard_agent_created"),
            fill_in=self.settings.flag("skills.template_vars"),
        )

    def start_external(self, session_id: str, identity: Mapping[str, Any]) -> None:
        """Starts the memory providers, unless this platform has no memory tools."""
        if self.toolsets is not None and "memory" not in self.toolsets:
            return
        before = self.options.follows
        if before is None or not self.external.follow(before.external):
            self.external.start(
                session_id=session_id,
                owner=self.options.owner,
                identity=identity,
                reserved=self.toolbox.names(),
                handed=self.options.providers,
            )
        if (manager := self.external.manager) is not None:
            for schema in manager.get_all_tool_schemas():
                self.toolbox.add(ProviderTool(manager, schema))

    def build_prompt(
        self,
        *,
        model: str = "",
        cwd: str | None = None,
        platform: str = "",
        system_message: str = "",
        skip_memory: bool = False,
        skip_context_files: bool = False,
        today: date | None = None,
    ) -> Prompt:
        """Builds the system prompt of a session that starts now."""
        from hermes.prompt.assembly import LIMIT, PromptInputs, assemble

        store = self.store
        instead, more = platform_words(self.settings, platform)
        prompt = assemble(
            PromptInputs(
                scan=self.scan_cache.scan,
                started=today or self.now().date(),
                home=self.home.operator,
                tools=frozenset(self.toolbox.names()),
                model=model,
                provider_block=self.external.prompt_block,
                system_message=system_message,
                memory_block=store.snapshot("memory") if store else "",
                user_block=store.snapshot("user") if store else "",
                project_block=store.snapshot("project") if store else "",
                shared_file=os.path.join(self.home.above, SHARED) if self.home.above else "",
                skills_index=self.skills.index.render(),
                cwd=cwd,
                context_limit=self.settings.get("context_file_max_chars") or LIMIT,
                platform=platform,
                platform_hint=instead,
                more_on_platform=more,
                skip_memory=skip_memory,
                skip_context_files=skip_context_files,
                is_trusted=self.folders.is_trusted,
                vouched=self.options.vouches,
                outside_skills=tuple(self.skills.outside_skills()),
                imported=tuple(self._imported()) if store and not skip_memory else (),
            )
        )
        self.scan_cache.save()
        return prompt

    def _counted_in(self) -> AbstractContextManager[SessionDB | None]:
        """The database that counts calls of helper models; a command that calls a tool has no session of its own."""
        return nullcontext(self.database) if self.storage.is_open else open_past(self.home) or nullcontext()

    def _imported(self) -> Iterator[str]:
        """Yields entries that came with an import and that no person has approved."""
        store = self.store
        for target in store.targets if store else ():
            try:
                known = store.provenance(target) if store else {}
            except HermesError as error:
                yield f"{target}: where its entries come from cannot be read: {error}"
                continue
            for entry, each in known.items():
                if each.origin == "import" and not (each.change is not None and each.change.cause.approved):
                    yield entry

    def subdirectory_hints(self, cwd: str | None) -> SubdirectoryHints | None:
        """Finds notes for agents in the folders that tools work in; None without a folder to start from."""
        from hermes.prompt.assembly import LIMIT, SubdirectoryHints

        limit = self.settings.get("context_file_max_chars") or LIMIT
        if not cwd:
            return None
        return SubdirectoryHints(
            cwd, self.scan_cache.scan, limit=limit, tell=lambda text: self.notices.add("context", text)
        )

    def _session_search(self) -> Tool:
        return session_search_tool(
            self.home,
            self.storage.past,
            lambda query, session: find_archived(self.store, query, session) if self.store else [],
            project=self.project,
            helpers=search_helpers(self.settings, self._counted_in),
        )

    def skill_tool(self, name: str) -> Tool:
        """Makes one of the skill tools by its name, with the approval rules of the settings."""
        return SkillTool(
            name,
            self.skills,
            Approvals(self.home, SKILLS),
            why=self._waiting("skills"),
            untrusted=self.settings.text("memory.untrusted_writes"),
        )

    def close(self) -> None:
        """Closes the databases."""
        self.storage.close()


def open_parts(
    home: str | os.PathLike[str] | Home | None = None,
    *,
    settings: Settings | None = None,
    owner: str | None = None,
    platform: str | None = None,
    project: str | None = None,
    cwd: str | None = None,
    resume: str | None = None,
    tools: Sequence[Tool] = (),
    options: SessionOptions = DEFAULTS,
) -> SessionParts:
    """Opens curated memory and, when an owner is named, the database of conversations.

    Without a `project`, the session to `resume` decides, or the repository around `cwd` if the settings say so; ""
    means no project. The toolsets of the options, otherwise the settings of the platform, decide which tools exist;
    without both, all do. `tools` are the host's own.
    """
    place = find_home(home)
    chosen = settings or load_settings(place)
    toolsets = options.toolsets
    if toolsets is not None:
        toolsets = check_toolsets(toolsets)
    elif platform is not None:
        toolsets = toolsets_of(chosen, platform)
    strict = chosen.flag("sessions.required") if options.must_store is None else options.must_store
    is_long_lived = CHAT in (options.identity or {})
    storage = SessionStorage(
        place, chosen, owner, must_store=strict, is_long_lived=is_long_lived, shared=options.database
    )
    try:
        if resume is not None and owner is not None and project is None:
            resumed = storage.readable.resolve(resume)
            project = recorded_project(resumed.project) if resumed is not None else ""
        scope = _project(chosen, project, cwd)
        remembers = not options.skip_memory and any(chosen.flag(switch) for switch in SWITCHES.values())
        store = MemoryStore.open(place, settings=chosen, project=scope) if remembers else None
        notices = Notices()
        external = External(place, chosen, store, notices)
        if store is not None:
            store.watch(external.mirror)
        parts = SessionParts(
            home=place,
            settings=chosen,
            options=options,
            store=store,
            storage=storage,
            external=external,
            notices=notices,
            cwd=cwd or "",
            extra=tools,
            toolsets=toolsets,
            project=scope,
            has_owner=owner is not None,
        )
        if storage.is_open and os.path.isdir(place.join(UNSAVED)):
            from hermes.session.unsaved import KIND, take_up

            for told in take_up(place, storage.database):
                parts.notices.add(KIND, told)
    except BaseException:
        storage.close()
        raise
    return parts


def _project(settings: Settings, project: str | None, cwd: str | None) -> str:
    scope = settings.text("memory.projects")
    if scope == "off" or project == "" or (project is None and (scope != "auto" or cwd is None)):
        return ""
    return project_of(cwd or "") if project is None else named_project(project, cwd)


def _of_profile(home: Home, profile: str) -> Home:
    """The home of another profile. A person has a single home, and must not reach that of the operator."""
    found = locate_home(home.root, profile)
    if not home.above:
        return found
    if found.path != home.path:
        raise NotFound(f"there is no profile {profile[:100]!r} here")
    return home


def open_past(home: Home, owner: str = LOCAL) -> SessionDB | None:
    """Opens the home's conversations; None when none were ever stored. Does not create the file.

    While another program holds the lock, they are opened for reading.
    """
    where = conversations_of(home, owner)
    if not is_address(where["path"]) and not os.path.lexists(where["path"]):
        return None
    from hermes.conversations.database import SessionDB

    semantic, reranker = partial(embedding_of, home), partial(reranker_of, home)
    try:
        return SessionDB.open(**where, semantic=semantic, reranker=reranker)
    except LockTimeout:
        return SessionDB.open(**where, semantic=semantic, reranker=reranker, reading=True)


def embedding_of(home: Home) -> Embedding | None:
    """The embedding that finds conversations by meaning, as the settings of the home say; None without one."""
    from hermes.conversations.search.semantic import PACKAGE, endpoint, sentence_model, static_vectors

    settings = load_settings(home)
    named = settings.text("search.embedding")
    if named.startswith(("http://", "https://")):
        return endpoint(named, settings.text("search.embedding_model"), secret(home, "EMBEDDING_API_KEY") or "")
    if named not in ("", PACKAGE):
        return sentence_model(named)
    return static_vectors("on" if named == PACKAGE else settings.text("recall.semantic"))


def reranker_of(home: Home) -> Reranker | None:
    """The reranker that reorders the first results of a search; None when the settings name none."""
    from hermes.conversations.search.reranker import Reranker

    settings = load_settings(home)
    named = settings.text("search.reranker")
    if not named:
        return None
    return Reranker(named, settings.text("search.reranker_model"), secret(home, "RERANKER_API_KEY") or "")


def is_named(settings: Settings, task: str) -> bool:
    """Whether a background task is on and the settings name a model of its own for it."""
    keys = ("provider", "model", "base_url")
    named = any(settings.text(f"auxiliary.{task}.{key}") not in ("", "auto", "main") for key in keys)
    return named and settings.flag(f"auxiliary.{task}.enabled")


def session_search_tool(
    home: Home,
    database: Callable[[], SessionDB | None] = lambda: None,
    archived: Callable[[str, str], list[dict[str, Any]]] = lambda _query, _session: [],
    *,
    project: str = "",
    helpers: Helpers | None = None,
) -> SessionSearchTool:
    """Makes the search tool of a home; each call asks `database` for the database that is open.

    It searches the conversations of that database's owner, in other profiles too; those of `project` come first.
    """

    def past(profile: str) -> AbstractContextManager[SessionDB] | None:
        opened = database()
        if opened is None:
            return open_past(_of_profile(home, profile) if profile else home)
        if profile:
            owner = opened.owner
            if is_address(opened.path):  # in PostgreSQL an owner is HOME:NAME
                owner = owner.partition(":")[2] or LOCAL
            return open_past(_of_profile(home, profile), owner=owner)
        return nullcontext(opened)

    return SessionSearchTool(past, archived=archived, project=project, helpers=helpers)


def context_expand_tool(
    home: Home,
    database: Callable[[Sequence[int]], SessionDB | None] = lambda _ids: None,
) -> ContextExpand:
    """Makes the tool that reads stored messages of the session's conversation, or without one, of any conversation."""

    def read(ids: Sequence[int], session_id: str) -> Iterator[tuple[int, dict[str, Any]]]:
        from hermes.conversations.context import Contexts

        opened = database(ids)
        if opened is not None:
            yield from Contexts(opened).read(session_id, ids)
            return
        past = open_past(home)
        if past is not None:
            with past:
                yield from Contexts(past).read(session_id, ids)

    return ContextExpand(read)


def search_helpers(settings: Settings, database: Database) -> Helpers | None:
    """The helper models of search, opened on use; if one cannot be opened or fails, the search works without it."""
    summarise = _asking(settings, DIGEST, "search_digest", database)
    rewrite = _asking(settings, REWRITE, "search_queries", database)
    if summarise is None and rewrite is None:
        return None

    def expand(question: str) -> list[str]:
        lines = [line.strip(" -*") for line in rewrite(question).splitlines()] if rewrite is not None else []
        return [line for line in lines if line][:_MOST_QUERIES]

    from hermes.conversations.session_search import Helpers

    return Helpers(summarise=summarise, expand=expand if rewrite is not None else None)


def _asking(settings: Settings, task: str, told: str, database: Database) -> Callable[[str], str] | None:
    """A function that asks the helper model of a task; None when the settings name no model for it."""
    if not is_named(settings, task):
        return None

    def asked(text: str) -> str:
        from hermes.session.models import Background, helper

        with database() as opened:
            budget = Background(opened, settings) if opened is not None else None
            ask = helper(settings, task, own_only=True, budget=budget)  # one per call: threads ask at once
            assert ask is not None  # noqa: S101 - the settings name a model
            return ask(prose(told), text)

    return asked


def prose(name: str) -> str:
    """Reads one of the texts for models in `session/text`."""
    with open(os.path.join(os.path.dirname(__file__), "text", f"{name}.md"), encoding="utf-8") as file:
        return file.read().strip()


# The context engine of the settings. Engines are loaded on use, because most sessions are too short to need one.

ENGINES = {
    "compressor": "Summarises the middle of a conversation, and keeps word for word what a summary may not lose",
    "lcm": "A graph of summaries that leads to every message; tools to go down it",
}


def built_in(settings: Settings, window: int = 0, **more: Any) -> ContextCompressor:
    """Makes the built-in compressor from the settings; `more` are further arguments of it."""
    from hermes.compaction.compressor import ContextCompressor
    from hermes.llm.catalogue import UNKNOWN_CONTEXT

    return ContextCompressor(
        window or UNKNOWN_CONTEXT,
        protect_last_n=settings.integer("compression.protect_last_n"),
        abort_on_summary_failure=settings.flag("compression.abort_on_summary_failure"),
        **_shared(settings),
        **more,
    )


def _shared(settings: Settings) -> dict[str, Any]:
    """The settings that all bundled engines share: when to compact, and how much."""
    return {
        "enabled": settings.flag("compression.enabled"),
        "threshold": settings.number("compression.threshold"),
        "target_ratio": settings.number("compression.target_ratio"),
        "protect_first_n": settings.integer("compression.protect_first_n"),
    }


def known_engines(home: Home) -> list[EngineInfo]:
    """The engines that `context.engine` may name, bundled ones first.

    Engines that general plug-ins register are missing: they are only known once the plug-in is loaded.
    """
    from hermes.compaction.engine import EngineInfo, available_engines

    bundled = [EngineInfo(name=name, folder="", description=text) for name, text in ENGINES.items()]
    return [*bundled, *available_engines(engine_folders(home))]


def engine_folders(home: Home) -> list[str]:
    """The folders in which plug-ins with context engines are looked for."""
    return [os.path.join(place, "plugins", "context_engine") for place in _homes(home)]


def chosen_engine(home: Home, settings: Settings) -> Choice:
    """Loads the engine of the settings; when that fails, the compressor with the reason as `problem`."""
    from hermes.compaction.engine import Choice

    try:
        return Choice(engine=named_engine(home, settings, settings.text("context.engine") or "compressor"))
    except (SettingsError, NotFound) as error:
        return Choice(engine=built_in(settings), problem=f"{error}; the built-in compressor is used instead")


def named_engine(home: Home, settings: Settings, name: str) -> ContextEngine:
    """Loads an engine by its name; NotFound or SettingsError says why that failed."""
    if name == "compressor":
        return built_in(settings)
    from hermes.compaction.engine import EngineRegistry, load_engine, register_plugins
    from hermes.compaction.lcm import register

    registry = EngineRegistry()
    register_plugins(registry, [os.path.join(place, "plugins") for place in _homes(home)])
    register(registry, **_shared(settings))
    return load_engine(name, engine_folders(home), registry)


def _homes(home: Home) -> list[str]:
    """The homes whose plug-ins are used: the profile's before the common ones; a person uses the operator's."""
    return list(dict.fromkeys([home.operator, *([] if home.above else [home.root])]))
