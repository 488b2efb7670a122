"""`HostedProvider`: a provider that lives in a process of its own, with the face of any other provider.

The manager sees an object with the members and hooks that the provider really has. When the process has ended, every
call raises a `ProviderEnded`, and `initialize` starts it anew; when, and how often, is for the manager to say.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hermes.providers.base import InAProcess
from hermes.providers.health import in_words
from hermes.providers.hosting.calls import OPTIONAL
from hermes.providers.hosting.child import Bounds, Child
from hermes.vocabulary.errors import ProviderError


class HostedProvider(InAProcess):
    name = ""

    def __init__(self, name: str, operator_home: str, hermes_home: str, bounds: Bounds | None = None) -> None:
        """Starts the process and does not wait for it."""
        self.name = name
        self._start = partial(Child, name, operator_home, hermes_home, bounds or Bounds())
        self._child = self._start()
        self._starts = 1

    def wait_until_loaded(self) -> None:
        """Raises the ProviderError that says why it does not load."""
        try:
            hooks = self._child.hooks()
        except BaseException as error:
            self._child.end("was closed")
            if isinstance(error, ProviderError):
                raise
            raise ProviderError(f"the provider {self.name} does not load: {in_words(error)}", kind="absent") from error
        for hook in OPTIONAL & frozenset(hooks):
            setattr(self, hook, partial(self._ask, hook))

    def describe(self) -> dict[str, Any]:
        """For status commands: the process, and how often it had to be started again."""
        return {"process": 0 if self._child.ended else self._child.pid, "restarts": self._starts - 1}

    def is_available(self) -> bool:
        found = self._ask("is_available")
        found = found if isinstance(found, dict) else {}
        self.unavailable_because = str(found.get("because") or "")
        return found.get("there") is True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        if self._child.ended:
            self._child, self._starts = self._start(), self._starts + 1
            self.wait_until_loaded()
        self._ask("initialize", session_id, **kwargs)

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        found = self._ask("get_tool_schemas")
        return found if isinstance(found, list) else []

    @property
    def recall_mode(self) -> str:
        return str(self._ask("recall_mode"))

    def shutdown(self) -> None:
        """Lets the provider close its connections, and ends the process."""
        if not self._child.ended:
            try:
                self._ask("shutdown")
            finally:
                self._child.close()

    def end_process(self) -> None:
        """Nobody will ask any more: the process ends now, or when it is done with what it is at."""
        self._child.leave()

    def _ask(self, hook: str, *arguments: Any, **more: Any) -> Any:
        return self._child.ask(hook, list(arguments), more)
