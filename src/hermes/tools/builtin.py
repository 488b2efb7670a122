"""The agent's own tools beside memory, search and skills: how each is made from settings, when it is first needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from hermes.settings.load import Settings
    from hermes.tools.delegate import Run
    from hermes.tools.ground import Ask, Ground
    from hermes.tools.limits import Limits
    from hermes.tools.registry import Tool
    from hermes.tools.todo import Todo


class Kit:
    """What the tools of one agent share: where they work, whom to ask, when to stop, who runs delegated tasks."""

    def __init__(
        self,
        settings: Settings,
        *,
        folder: str,
        home: str,
        ask: Ask | None,
        cancelled: Callable[[], bool],
        history: Callable[[], Iterable[Mapping[str, Any]]],
        delegate: Run | None = None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """Without `delegate` no task can be handed on; `stop` ends what runs, as `cancelled` will tell it."""
        self._settings = settings
        self._folder = folder
        self._home = home
        self._ask = ask
        self._cancelled = cancelled
        self._history = history
        self._delegate = delegate
        self._stop = stop

    def makers(self) -> dict[str, Callable[[], Tool]]:
        """Each tool's name and how to make it; nothing is imported before that."""
        made: dict[str, Callable[[], Tool]] = {
            "read_file": self._read_file,
            "write_file": self._write_file,
            "patch": self._patch,
            "search_files": self._search_files,
            "terminal": self._terminal,
            "fetch_url": self._fetch_url,
            "todo": self._todo,
        }
        if self._delegate is not None:
            made["delegate_task"] = self._delegate_task
        return made

    @cached_property
    def _limits(self) -> Limits:
        from hermes.tools.limits import Limits

        return Limits.of(self._settings)

    @cached_property
    def _ground(self) -> Ground:
        from hermes.tools.ground import Ground

        return Ground(
            self._folder,
            home=self._home,
            allowed=self._settings.texts("files.allowed_folders"),
            outside=self._settings.text("files.outside"),
            ask=self._ask,
        )

    def _read_file(self) -> Tool:
        from hermes.tools.files import ReadFile

        return ReadFile(self._ground, self._limits)

    def _write_file(self) -> Tool:
        from hermes.tools.files import WriteFile

        return WriteFile(self._ground)

    def _patch(self) -> Tool:
        from hermes.tools.files import Patch

        return Patch(self._ground)

    def _search_files(self) -> Tool:
        from hermes.tools.looking import SearchFiles

        return SearchFiles(self._ground, self._limits, self._cancelled)

    def _terminal(self) -> Tool:
        from hermes.tools.terminal import Policy, Terminal

        policy = Policy(
            mode=self._settings.text("terminal.policy"),
            allowed=self._settings.texts("command_allowlist"),
            seconds=self._settings.integer("terminal.timeout"),
            passed_on=self._settings.texts("terminal.pass_environment"),
        )
        return Terminal(self._ground, self._limits, policy, self._ask, self._cancelled)

    def _fetch_url(self) -> Tool:
        from hermes.tools.fetch import FetchUrl, WebPolicy

        policy = WebPolicy(
            allow_private=self._settings.flag("web.allow_private_addresses"),
            max_bytes=self._settings.integer("web.max_bytes"),
            seconds=self._settings.number("web.timeout"),
        )
        return FetchUrl(policy, self._limits, self._cancelled)

    def open_steps(self) -> str:
        """What is still to be done, in words; empty when there is no list."""
        return self._steps.snapshot()

    @cached_property
    def _steps(self) -> Todo:
        from hermes.tools.todo import Todo

        return Todo(self._history)

    def _todo(self) -> Tool:
        return self._steps

    def _delegate_task(self) -> Tool:
        from hermes.tools.delegate import DelegateTask

        assert self._delegate is not None  # noqa: S101 - `makers` names the tool only then
        return DelegateTask(
            self._delegate,
            at_once=self._settings.integer("delegation.max_concurrent_children"),
            longest=self._settings.integer("delegation.max_summary_chars"),
            stop=self._stop,
        )
