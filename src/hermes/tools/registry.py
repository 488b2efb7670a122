"""The toolbox: what a model may call. Any arguments lead to a JSON result, never to an exception."""

from __future__ import annotations

import json

from hermes.tools.arguments import problems, without_nulls
from hermes.vocabulary.errors import HermesError, WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Protocol

    from hermes.tools.taint import Taint

    class Tool(Protocol):
        """One callable: `schema` is what the model sees, `call` gets arguments that fit it.

        A tool whose results hold text from outside has an attribute `brings` with its origin: web, file, tool, recall
        or provider. A tool with a method `start_turn` is told when a new user turn begins.
        """

        @property
        def schema(self) -> dict[str, Any]: ...

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]: ...


class Toolbox:
    def __init__(self, tools: Iterable[Tool], taint: Taint | None = None) -> None:
        self._tools = {tool.schema["name"]: tool for tool in tools}
        self._taint = taint

    def add(self, *tools: Tool) -> None:
        self._tools |= {tool.schema["name"]: tool for tool in tools}

    def start_turn(self) -> None:
        """A person spoke: what came from outside before no longer taints what is written now."""
        if self._taint is not None:
            self._taint.start_turn()
        for tool in self._tools.values():
            if hasattr(tool, "start_turn"):
                tool.start_turn()

    def schemas(self) -> list[dict[str, Any]]:
        """OpenAI function schemas, in a fixed order so that the request prefix stays the same."""
        return [tool.schema for tool in self._tools.values()]

    def call(self, name: str, arguments: str | bytes | Mapping[str, Any] | None) -> str:
        """Calls a tool as a model would and returns its result as JSON text."""
        result = to_json(self._result(name, arguments))
        brings = getattr(self._tools.get(name), "brings", None)
        if brings and self._taint is not None:
            self._taint.note(brings, name, result)
        return result

    def _result(self, name: str, arguments: str | bytes | Mapping[str, Any] | None) -> dict[str, Any]:
        tool = self._tools.get(name)
        if tool is None:
            return failure(f"there is no tool {name!r}; the tools are {', '.join(self._tools)}")
        try:
            given = json.loads(arguments or "{}") if isinstance(arguments, str | bytes | None) else dict(arguments)
        except (ValueError, RecursionError) as error:
            return failure(f"arguments must be a JSON object: {error}")
        for field, meaning in getattr(tool, "null_means", {}).items():
            if isinstance(given, dict) and field in given and given[field] is None:
                given[field] = meaning
        if wrong := problems(tool.schema["parameters"], given):
            return failure("; ".join(wrong))
        try:
            return tool.call(without_nulls(given))
        except WriteRefused as refusal:
            return failure(str(refusal), refusal.details)
        except HermesError as error:
            return failure(str(error))


def failure(message: str, details: Mapping[str, object] | None = None) -> dict[str, Any]:
    return {"success": False, "error": message, **(details or {})}


def to_json(result: Mapping[str, Any]) -> str:
    # Half a character, which only a broken caller can bring in, becomes a JSON escape instead of an encoding error.
    return json.dumps(result, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")
