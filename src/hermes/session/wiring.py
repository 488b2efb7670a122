"""The one place that chooses: builds what a session needs from the settings of a home."""

from __future__ import annotations

import os

from hermes.curated.approval import Approvals
from hermes.curated.history import Cause
from hermes.curated.store import SWITCHES, MemoryStore
from hermes.session.external import External, ProviderTool
from hermes.session.notices import Notices
from hermes.session.toolsets import MEMORY, check_names, is_enabled, toolsets_of
from hermes.settings.home import DATABASE, SHARED, find_home
from hermes.settings.load import load_settings
from hermes.tools.memory import MemoryTool
from hermes.tools.registry import Toolbox, check_tool
from hermes.tools.taint import Taint
from hermes.vocabulary.errors import OutOfOrder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date
    from typing import Any, TypeVar

    from hermes.compression.discovery import Choice
    from hermes.prompt.assembly import Prompt
    from hermes.prompt.hints import SubdirectoryHints
    from hermes.providers.base import MemoryProvider
    from hermes.recall.session_search import Helpers
    from hermes.session.judging import Judged
    from hermes.settings.home import Home
    from hermes.settings.load import Settings
    from hermes.skills.tool import SkillTools
    from hermes.storage.sessions import SessionDB
    from hermes.tools.context_compact import CompactRange
    from hermes.tools.registry import Tool

    Given = TypeVar("Given")
    Made = TypeVar("Made")


class Parts:
    """What one session works with; whoever opens it closes it."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        store: MemoryStore | None,
        extra: Sequence[Tool] = (),
        *,
        makers: Mapping[str, Callable[[], Tool]] | None = None,
        toolsets: Collection[str] | None = None,
        project: str = "",
        database: SessionDB | None = None,
    ) -> None:
        """`extra` are a host's tools, `makers` how to make more; `toolsets` switches ours on, without it all are."""
        self.home = home
        self.settings = settings
        self.store = store
        self.notices = Notices()
        self.external = External(home, settings)
        if store is not None:
            store.watcher = self.external.mirror
        self.provider_block = ""
        self.toolsets = toolsets
        self.goes_on = False  # the conversation outlives this program
        self.context_length: int | None = None  # of the host's model, where the host knows it
        self.opened_as = ""  # the session as it was opened; a compaction may go on in a child
        self.taint = Taint()
        self.memory = MemoryTool(
            store,
            approvals=Approvals(home),
            taint=self.taint,
            approve_all=settings.flag("memory.write_approval"),
            untrusted=settings.text("memory.untrusted_writes"),
        )
        ours: dict[str, Callable[[], Tool]] = {"memory": lambda: self.memory}
        ours |= {name: _given(self.skill_tool, name) for name in ("skills_list", "skill_view", "skill_manage")}
        ours["session_search"] = self._session_search
        ours["context_expand"] = self._context_expand
        if settings.flag("compression.enabled"):
            ours["context_compact"] = self._context_compact
        made = {name: make for name, make in ours.items() if is_enabled(name, toolsets)} | dict(makers or {})
        for tool in extra:
            check_tool(tool)
            if is_enabled(tool.schema["name"], toolsets, getattr(tool, "toolset", None)):
                made[tool.schema["name"]] = _given(_itself, tool)
        self.toolbox = Toolbox(made, self.taint)
        self.project = project
        self._skills: SkillTools | None = None
        self._judged: Judged | None = None
        self._database = database
        self._engine: Choice | None = None
        self.compact_range: CompactRange | None = None  # set by the session that these parts belong to
        if database is not None and settings.text("context.engine") not in ("", "compressor"):
            self._add_engine_tools()

    @property
    def engine(self) -> Choice:
        """The context engine of the settings, made when it is first needed."""
        if self._engine is None:
            from hermes.session.engines import chosen_engine

            self._engine = chosen_engine(self.home, self.settings)
        return self._engine

    @property
    def judged(self) -> Judged:
        """What judges the files that enter a prompt, with what was judged before."""
        if self._judged is None:
            from hermes.session.judging import Judged

            self._judged = Judged(self.home.path)
        return self._judged

    @property
    def skills(self) -> SkillTools:
        if self._skills is None:
            from hermes.skills.tool import SkillTools

            self._skills = SkillTools(
                self.home.join("skills"),
                self.judged.scan,
                disabled=frozenset(self.settings.texts("skills.disabled")),
                also=tuple(os.path.expanduser(each) for each in self.settings.texts("skills.external_dirs")),
                strict=self.settings.flag("skills.guard_agent_created"),
                fill_in=self.settings.flag("skills.template_vars"),
                known=self.judged.known_skills(),
            )
        return self._skills

    @property
    def database(self) -> SessionDB:
        if self._database is None:  # whoever names no owner does not ask for it, so it was there and is closed
            raise OutOfOrder(f"this session is closed; MemorySession.open(resume={self.opened_as!r}) goes on with it")
        return self._database

    @property
    def has_database(self) -> bool:
        return self._database is not None

    def open_database(self, owner: str) -> None:
        self._database = _open_database(self.home, owner)

    def start_external(
        self,
        session_id: str,
        *,
        owner: str,
        identity: Mapping[str, Any],
        handed: Sequence[MemoryProvider] = (),
        follows: External | None = None,
    ) -> None:
        """Starts the memory providers of the settings and those handed in, if this platform has memory tools."""
        if self.toolsets is not None and MEMORY not in self.toolsets:
            return
        if follows is None or not self.external.follow(follows, self.home, self.store):
            self._start_providers(session_id, owner, identity, handed)
        manager = self.external.manager
        if manager is not None:
            for schema in manager.get_all_tool_schemas():
                self.toolbox.add(ProviderTool(manager, schema))
            self.provider_block = _harmless(manager.build_system_prompt())

    def _start_providers(
        self, session_id: str, owner: str, identity: Mapping[str, Any], handed: Sequence[MemoryProvider]
    ) -> None:
        self.external.start(
            self.home,
            self.settings,
            self.notices,
            self.store,
            session_id=session_id,
            owner=owner,
            identity=identity,
            reserved=self.toolbox.names(),
            handed=handed,
        )

    def bind(self, session_id: str) -> None:
        """From now on memory writes are stamped with this session."""
        self.memory.cause = Cause(origin="agent", session=session_id)

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
        """The system prompt a session that starts now would get."""
        from hermes.prompt.assembly import PromptInputs, assemble
        from hermes.prompt.context_files import LIMIT
        from hermes.session.surroundings import local_day, platform_words

        store = self.store
        instead, more = platform_words(self.settings, platform)
        prompt = assemble(
            PromptInputs(
                scan=self.judged.scan,
                started=today or local_day(self.settings),
                home=self.home.operator,
                tools=frozenset(self.toolbox.names()),
                model=model,
                provider_block=self.provider_block,
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
            )
        )
        self.judged.save()
        self.judged.keep_skills(self.skills.index)
        return prompt

    def subdirectory_hints(self, cwd: str | None) -> SubdirectoryHints | None:
        """Finds notes for agents in the folders that tools work in; None without a folder to start from."""
        from hermes.prompt.context_files import LIMIT
        from hermes.prompt.hints import SubdirectoryHints

        limit = self.settings.get("context_file_max_chars") or LIMIT
        if not cwd:
            return None
        return SubdirectoryHints(
            cwd, self.judged.scan, limit=limit, tell=lambda text: self.notices.add("context", text)
        )

    def _session_search(self) -> Tool:
        from hermes.session.past import session_search_tool

        current, database = lambda: self.memory.cause.session, lambda: self._database
        return session_search_tool(
            self.home,
            current,
            database,
            self._archived_entries,
            project=self.project,
            helpers=self._search_helpers(),
        )

    def _search_helpers(self) -> Helpers | None:
        from hermes.session.past import DIGEST, REWRITE, is_named

        if not any(is_named(self.settings, task) for task in (DIGEST, REWRITE)):
            return None  # nothing of a model is loaded for a search that needs none
        from hermes.session.search_helpers import search_helpers

        return search_helpers(self.settings)

    def _archived_entries(self, query: str) -> list[dict[str, Any]]:
        from hermes.session.archive import find_archived

        return find_archived(self.store, query, self.memory.cause.session) if self.store else []

    def _context_expand(self) -> Tool:
        from hermes.session.past import context_expand_tool

        return context_expand_tool(self.home, lambda: self.memory.cause.session, lambda: self._database)

    def _context_compact(self) -> Tool:
        from hermes.tools.context_compact import ContextCompact

        return ContextCompact(lambda: self.compact_range)

    def _add_engine_tools(self) -> None:
        from hermes.tools.engine_tool import EngineTool, usable_schemas

        engine = self.engine.engine
        for schema in usable_schemas(engine):
            self.toolbox.add(EngineTool(schema, engine))

    def skill_tool(self, name: str, taint: Taint | None = None, cause: Callable[[], Cause] | None = None) -> Tool:
        """A tool for skills, of the conversation or of somebody who looks back on it with a taint of their own."""
        from hermes.skills.pending import PendingSkills
        from hermes.tools.skills import Gate, SkillTool

        gate = Gate(
            PendingSkills(self.home.join("pending", "skills")),
            taint or self.taint,
            cause or (lambda: self.memory.cause),
            must_ask=self.settings.flag("skills.write_approval"),
            untrusted=self.settings.text("memory.untrusted_writes"),
        )
        return SkillTool(name, self.skills, gate)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def open_parts(
    home: str | os.PathLike[str] | Home | None = None,
    *,
    settings: Settings | None = None,
    owner: str | None = None,
    extra: Sequence[Tool] = (),
    makers: Mapping[str, Callable[[], Tool]] | None = None,
    with_memory: bool = True,
    platform: str | None = None,
    toolsets: Collection[str] | None = None,
    project: str | None = None,
    cwd: str | None = None,
    resume: str | None = None,
) -> Parts:
    """Opens curated memory and, when an owner is named, the database of conversations.

    Without a `project`, that of the session to `resume` is taken, or that of the repository around `cwd` if the
    settings say so; "" stands for none. `toolsets`, else what the settings say about the platform, decides which tools
    there are; without both all are.
    """
    place = find_home(home)
    chosen = settings or load_settings(place)
    remembers = with_memory and any(chosen.flag(switch) for switch in SWITCHES.values())
    if toolsets is not None:
        toolsets = check_names(toolsets)
    elif platform is not None:
        toolsets = toolsets_of(chosen, platform)
    database = _open_database(place, owner) if owner is not None else None
    try:
        if resume is not None and database is not None and project is None:
            from hermes.settings.projects import recorded_project

            resumed = database.resolve(resume)
            project = recorded_project(resumed.project) if resumed is not None else ""
        scope = _project(chosen, project, cwd)
        store = MemoryStore.open(place, settings=chosen, project=scope) if remembers else None
        return Parts(place, chosen, store, extra, makers=makers, toolsets=toolsets, project=scope, database=database)
    except BaseException:
        if database is not None:
            database.close()
        raise


def _open_database(home: Home, owner: str) -> SessionDB:
    from hermes.session.past import embedding_of
    from hermes.storage.sessions import SessionDB

    semantic = _given(embedding_of, home)
    return SessionDB.open(home.join(DATABASE), owner=owner, durability="turn", semantic=semantic)


def _project(settings: Settings, project: str | None, cwd: str | None) -> str:
    scope = settings.text("memory.projects")
    if scope == "off" or project == "" or (project is None and (scope != "auto" or cwd is None)):
        return ""
    from hermes.settings.projects import named_project, project_of

    return project_of(cwd or "") if project is None else named_project(project, cwd)


def _harmless(block: str) -> str:
    """A provider's lines for the prompt, unless the scanner sees an attack in them."""
    from hermes.safety.threats import scan

    return "" if block and scan(block, "context").level == "refuse" else block


def _given(make: Callable[[Given], Made], what: Given) -> Callable[[], Made]:
    """As `functools.partial`, which would load half a dozen modules."""
    return lambda: make(what)


def _itself(tool: Tool) -> Tool:
    return tool
