"""Functions that somebody else runs: a client of the server offers them with its request and gets the model's calls.

The session's own tools stay as they are, in front; a function with the name of one of them takes its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermes.tools.loop import Conversation, Fit
    from hermes.vocabulary.errors import ContextTooLong


class OutsideFunctions:
    """A conversation as the model sees it when there are functions of a client, in OpenAI's format, beside ours."""

    def __init__(self, conversation: Conversation, functions: Sequence[Mapping[str, Any]], fit: Fit) -> None:
        self._conversation = conversation
        self._functions = [dict(each) for each in functions]
        self._fit = fit
        self.names = frozenset(each["function"]["name"] for each in self._functions)

    def request(self) -> Any:
        return self._extended(self._conversation.request())

    def fit(self, _request: Any, too_long: ContextTooLong | None) -> Any:
        return self._extended(self._fit(self._conversation.request(), too_long))

    def record(self, message: Mapping[str, Any]) -> None:
        self._conversation.record(message)

    def call_tool(self, name: str, arguments: str, *, call_id: str, cut_off: bool = False) -> str:
        return self._conversation.call_tool(name, arguments, call_id=call_id, cut_off=cut_off)

    def _extended(self, request: Any) -> Any:
        own = [tool for tool in request.tools if tool["function"]["name"] not in self.names]
        return replace(request, tools=[*own, *self._functions])
