"""The toolbox: what a model may call. Any arguments lead to a JSON result, never to an exception."""

from __future__ import annotations

from hermes.tools.arguments import fitted, problems, without_nulls
from hermes.vocabulary.errors import HermesError, WriteRefused
from hermes.vocabulary.json_repair import read_arguments
from hermes.vocabulary.jsontext import encode

_UNREADABLE = (
    "arguments must be a JSON object, and what you wrote cannot be read as one: {wrong}. Nothing was run. Make the "
    "call again with valid JSON (double quotes, escaped quotes and line breaks in strings, all brackets closed). "
    "You wrote: {found}"
)
CUT_OFF = (
    "This call was cut off: your answer reached the output limit before its arguments were complete, so nothing was "
    "run. Make the call again and keep it shorter; spread a long text over several calls."
)
_REPAIRED = "Your arguments were not valid JSON ({wrong}). They were read as {read}"
_LONGEST = 300  # characters of arguments that a result repeats
_MOST_NAMED = 20

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from hermes.tools.taint import Taint

    class Tool(Protocol):
        """One callable: `schema` is what the model sees, `call` gets arguments that fit it.

        What a tool returns is text from outside. Its attribute `brings` says from where: web, file, recall, provider,
        or tool, which a missing one means; "" when nothing in the results was written by others. A tool that
        `works_in_folders` gets the notes for agents that lie in them added to its results. One that `checks_itself`
        gets any object. `defaults` are the arguments of a call that leaves them out. A tool with a method `start_turn`
        is told when a new user turn begins.
        """

        @property
        def schema(self) -> dict[str, Any]: ...

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]: ...


def check_tool(tool: object) -> None:
    """A tool that a program hands in is one, or an error says what is one."""
    schema = getattr(tool, "schema", None)
    if not isinstance(schema, dict) or not schema.get("name") or not callable(getattr(tool, "call", None)):
        raise TypeError(
            "a tool is an object with `schema`, a mapping with name, description and parameters, and `call(arguments)`;"
            f" found {tool!r}"
        )


class Toolbox:
    """Tools by name. Each is made when it is first needed, so that one call does not load what the others use."""

    def __init__(self, makers: Mapping[str, Callable[[], Tool]], taint: Taint | None = None) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Tool] = {}
        self._taint = taint

    def add(self, tool: Tool) -> None:
        """Puts one more tool at the end; a name that is taken stays whose it is."""
        self._makers.setdefault(tool.schema["name"], lambda: tool)

    def names(self) -> list[str]:
        return list(self._makers)

    def get(self, name: str) -> Tool | None:
        if name not in self._made and name in self._makers:
            self._made[name] = self._makers[name]()
        return self._made.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """OpenAI tool definitions, in a fixed order so that the request prefix stays the same."""
        tools = (self.get(name) for name in self._makers)
        return [{"type": "function", "function": tool.schema} for tool in tools if tool is not None]

    def call(self, name: str, arguments: str | bytes | Mapping[str, Any] | None) -> str:
        """Calls a tool as a model would and returns its result as JSON text."""
        result = to_json(self._result(name, arguments))
        if self._taint is not None and (brings := self.brings(name)):
            self._taint.note(brings, name, result)
        return result

    def brings(self, name: str) -> str:
        """Where the text comes from that the last call of this tool returned; "" for our own words."""
        tool = self._made.get(name)
        return "" if tool is None else getattr(tool, "brings", "tool")

    def start_turn(self) -> None:
        """A person spoke: what came from outside before no longer taints what is written now."""
        if self._taint is not None:
            self._taint.start_turn()
        for tool in self._made.values():
            if hasattr(tool, "start_turn"):
                tool.start_turn()

    def _result(self, name: str, arguments: str | bytes | Mapping[str, Any] | None) -> dict[str, Any]:
        tool = self.get(name)
        if tool is None:
            return failure(f"there is no tool {name!r}; the tools are {', '.join(self._makers)}")
        given, wrong = read_arguments(arguments)
        if given is None:
            return failure(_UNREADABLE.format(wrong=wrong, found=_short(arguments)))
        own, ignored = getattr(tool, "checks_itself", False), list[str]()
        given |= {name: each for name, each in getattr(tool, "defaults", {}).items() if given.get(name) is None}
        given = fitted(tool.schema["parameters"], given, None if own else ignored)
        result = self._called(tool, name, given if own else without_nulls(given), check=not own)
        if not isinstance(result, dict):
            return result  # type: ignore[no-any-return] # a host's tool may return what it likes
        if wrong:
            result = {**result, "repaired_arguments": _REPAIRED.format(wrong=wrong, read=_short(to_json(given)))}
        return {**result, "ignored_arguments": ignored[:_MOST_NAMED]} if ignored else result

    def _called(self, tool: Tool, name: str, given: dict[str, Any], *, check: bool) -> Any:
        if check and (wrong := problems(tool.schema["parameters"], given)):
            return failure("; ".join(wrong))
        try:
            return tool.call(given)
        except WriteRefused as refusal:
            return failure(str(refusal), refusal.details)
        except HermesError as error:
            return failure(str(error))
        except Exception as error:  # noqa: BLE001 - tools of hosts and plug-ins are other people's code
            return failure(f"{name} failed: {type(error).__name__}: {error}")


def failure(message: str, details: Mapping[str, object] | None = None) -> dict[str, Any]:
    return {"success": False, "error": message, **(details or {})}


def to_json(result: Mapping[str, Any]) -> str:
    # Half a character, which only a broken caller can bring in, becomes a JSON escape instead of an encoding error.
    return encode(result).encode("utf-8", "backslashreplace").decode("utf-8")


def _short(text: object) -> str:
    words = text if isinstance(text, str) else repr(text)
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
