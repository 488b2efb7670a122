"""The toolbox: the tools a model may call. Whatever the arguments are, a call returns JSON and never raises."""

from __future__ import annotations

import json
import os
from itertools import islice
from typing import TYPE_CHECKING, Any

from hermes.base.errors import HermesError, SettingsError, WriteRefused
from hermes.base.text import decode, encode, read_arguments, read_schemas
from hermes.base.values import value
from hermes.memory.entries import Cause
from hermes.safety.trust import NO_TURN, SINKS, STAGE, TurnContext, decide
from hermes.settings.schema import nearest

if TYPE_CHECKING:
    Schema = dict[str, Any]
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Protocol

    from hermes.memory.approval import Approvals, Pending
    from hermes.safety.trust import Decision

    class Tool(Protocol):
        """One callable: `schema` is what the model sees, `call` gets arguments that fit it.

        Results count as text from outside. The attribute `brings` says from where: web, file, recall, provider or tool,
        which is the default; "" if others wrote nothing in them. A tool whose results differ in this has a method
        `origin_of(arguments, result, turn)`, or sets `grades_results` and puts the origin into them as ORIGIN.

        `sink` names what the tool changes or where it sends (`safety.trust.SINKS`); "" means that it only reads. The
        method `effect(arguments)` tells the gate what would be written or sent (keywords of `decide`), or None if a
        call does neither; without it, all arguments count as sent. A tool that `gates_itself` calls `decide` itself.

        If a tool `works_in_folders`, notes for agents in those folders are added to its results. If it `checks_itself`,
        it gets any object as arguments. `defaults` fills in arguments that a call leaves out. If a tool is `in_turn`,
        `call` gets the `TurnContext` as a second argument.
        """

        @property
        def schema(self) -> dict[str, Any]: ...

        def call(self, arguments: dict[str, Any]) -> dict[str, Any]: ...

    from hermes.compaction.engine import ContextEngine
    from hermes.settings.config import Settings

SCHEMAS = read_schemas(os.path.join(os.path.dirname(__file__), "schemas.json"))
# A group that is off costs neither schema nor import. A tool in no group is always on.
TOOLSETS: dict[str, tuple[str, ...]] = {
    "memory": ("memory",),  # and whatever memory providers offer
    "session_search": ("session_search",),
    "skills": ("skills_list", "skill_view", "skill_manage"),
    "context": ("context_expand", "context_compact"),
    "todo": ("todo",),
    "delegation": ("delegate_task",),
    "files": ("read_file", "write_file", "patch", "search_files"),
    "terminal": ("terminal",),
    "web": ("fetch_url",),
    "mcp": (),  # whatever the servers in mcp_servers offer
}
# These act on the machine: on where its owner sits in front of it, off on chats and servers unless settings allow them.
_HANDS = frozenset({"files", "terminal"})
_AT_THE_MACHINE = frozenset({"cli", "demo", "subagent"})
_ANYWHERE = "default"  # stands for platforms without an entry of their own
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_LONGEST = 60  # characters of a wrong value that an error quotes
_MOST_PROBLEMS = 20


def fitted(schema: Any, given: Any, ignored: list[str] | None, field: str = "") -> Any:
    """Converts arguments to the types of the schema where only the spelling differs: "5" for 5, JSON as a string.

    Fields that the schema does not know are dropped and added to `ignored`; if that is None, they stay.
    """
    if not isinstance(schema, dict):
        return given  # as JSON Schema allows: true
    value = _coerced(schema, given)
    if isinstance(value, dict) and isinstance(known := schema.get("properties"), dict):
        unknown = [] if ignored is None else [name for name in value if not _takes(schema, name)]
        if ignored is not None:
            ignored += [f"{field}{_short(name)}" for name in unknown]
        return {
            name: fitted(known.get(name, {}), below, ignored, f"{field}{name}.")
            for name, below in value.items()
            if name not in unknown
        }
    if isinstance(value, list) and (items := schema.get("items")):
        place = field.removesuffix(".")
        return [fitted(items, item, ignored, f"{place}[{at}].") for at, item in enumerate(value)]
    return value


def problems(schema: Schema, given: Any, field: str = "arguments") -> list[str]:
    """Lists what is wrong with arguments, one sentence per field; null counts as left out."""
    return list(islice(_problems(schema, given, field), _MOST_PROBLEMS))


def _problems(schema: Schema, given: Any, field: str) -> Iterator[str]:
    """Yields what is wrong with a value, and looks inside it only if its type is right."""
    kind, most = schema.get("type"), schema.get("maxItems")
    if not isinstance(kind, str) or kind not in _KINDS:
        return  # a provider's schema may use what is not checked here, such as a union or a reference
    if (wrong := _wrong_kind(schema, given, field)) is not None:
        yield wrong
    elif kind == "object":
        yield from _problems_of_object(schema, given, "" if field == "arguments" else f"{field}.")
    elif kind == "array" and isinstance(most, int) and len(given) > most:  # before checking any of them
        yield f"{field} has {len(given):,} items; at most {most:,} are possible"
    elif kind == "array":
        for i, item in enumerate(given):
            yield from _problems(schema.get("items", {}), item, f"{field}[{i}]")


def without_nulls(given: Any) -> Any:
    """Removes fields that are null, because null counts as left out."""
    if isinstance(given, dict):
        return {name: without_nulls(value) for name, value in given.items() if value is not None}
    if isinstance(given, list):
        return [without_nulls(item) for item in given]
    return given


def _problems_of_object(schema: Schema, given: dict[str, Any], prefix: str) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (f"{prefix}{name} is missing" for name in schema.get("required", ()) if given.get(name) is None)
    for name, each in given.items():
        if not _takes(schema, name):
            yield f"{prefix}{_short(name)} is not a field; the fields are {', '.join(known)}"
        elif name in known and each is not None:
            yield from _problems(known[name], each, f"{prefix}{name}")


def _takes(schema: Schema, name: str) -> bool:
    """Whether an object may have this field; if its schema names no fields, it may have any."""
    known = schema.get("properties")
    return not known or name in known or schema.get("additionalProperties", False) is not False


def _coerced(schema: Schema, given: Any) -> Any:
    """Converts a value to a type of its schema where that is possible; `problems` reports it otherwise."""
    kinds = _kinds(schema)
    if given is None or any(_is(kind, given) for kind in kinds):
        return given
    for kind in kinds:
        read = _read(kind, given)
        if _is(kind, read):
            return read
        items = schema.get("items") if kind == "array" else None
        if isinstance(items, dict) and items.get("type") and not problems(items, fitted(items, given, [])):
            return [given]  # one item instead of a list with one item
    return given


def _kinds(schema: Schema) -> list[str]:
    """The types a value may have; none if the schema says so in a way that is not understood here."""
    told, choices = schema.get("type"), schema.get("anyOf")
    if told is None and isinstance(choices, list):
        told = [each.get("type") if isinstance(each, dict) else None for each in choices]
    named = told if isinstance(told, list) else [told]
    kinds = [kind for kind in named if isinstance(kind, str)]
    return kinds if len(kinds) == len(named) else []


def _is(kind: str, given: Any) -> bool:
    if isinstance(given, float):
        return kind == "number" and given - given == 0  # neither NaN nor infinity
    return isinstance(given, _KINDS.get(kind, ())) and (kind == "boolean" or not isinstance(given, bool))


def _read(kind: str, given: Any) -> Any:
    """Reads a value as this kind if it is only written differently; else returns it unchanged."""
    if kind == "string":
        return encode(given) if isinstance(given, int | float) and not isinstance(given, bool) else given
    read = _from_text(kind, given) if isinstance(given, str) else given
    return int(read) if kind == "integer" and isinstance(read, float) and read.is_integer() else read


def _from_text(kind: str, given: str) -> Any:
    """Reads a value from a string; for arrays and objects, JSON with small mistakes is read too."""
    try:
        return decode(given.strip().lower() if kind == "boolean" else given)
    except (ValueError, RecursionError):
        if kind not in ("array", "object"):
            return given
    from hermes.base.text import repaired

    try:
        return repaired(given)
    except (ValueError, RecursionError):
        return given


def _wrong_kind(schema: Schema, given: Any, field: str) -> str | None:
    kind = schema["type"]
    fits = isinstance(given, _KINDS[kind]) and (kind == "boolean" or not isinstance(given, bool))
    if fits and "enum" in schema:
        fits = given in schema["enum"]
    if fits:
        return None
    article = "an" if kind[0] in "aoi" else "a"
    expected = f"one of {', '.join(map(str, schema['enum']))}" if "enum" in schema else f"{article} {kind}"
    return f"{field} must be {expected}, not {_short(repr(given))}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


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
_LONGEST_RESULT = 300  # characters of arguments that a result repeats
_MOST_NAMED = 20  # ignored arguments
ORIGIN = "_origin"  # the key of a result that holds its origin; removed before the model sees the result


def check_tool(tool: object) -> None:
    """Raises `TypeError` if an object that a program passes as a tool is not one, and says what a tool needs."""
    schema = getattr(tool, "schema", None)
    if not isinstance(schema, dict) or not schema.get("name") or not callable(getattr(tool, "call", None)):
        raise TypeError(
            "a tool is an object with `schema`, a mapping with name, description and parameters, and `call(arguments)`;"
            f" found {tool!r}"
        )


@value
class Called:
    """The result of a call as JSON text, and its origin; "" for our own text."""

    text: str
    origin: str


class Toolbox:
    """Tools by name. Each is made when it is first needed, so that one call does not load what the others use.

    Every call passes the trust gate, here or in the tool. Calls that must wait for a person are kept in `approvals` and
    made later in `folder`. `untrusted` (stage, refuse or allow) is the setting `memory.untrusted_writes`.
    """

    def __init__(
        self,
        makers: Mapping[str, Callable[[], Tool]],
        approvals: Approvals | None = None,
        *,
        folder: str = "",
        untrusted: str = "stage",
    ) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Tool] = {}
        self._approvals = approvals
        self._folder = folder
        self._untrusted = untrusted

    def add(self, tool: Tool) -> None:
        """Adds a tool at the end, unless a tool of this name exists."""
        self._makers.setdefault(tool.schema["name"], lambda: tool)

    def names(self) -> list[str]:
        """Lists the names of all tools in their fixed order, without making any of them."""
        return list(self._makers)

    def get(self, name: str) -> Tool | None:
        """Gives a tool, made now if this is its first use; None for an unknown name."""
        if name not in self._made and name in self._makers:
            self._made[name] = self._makers[name]()
        return self._made.get(name)

    def schemas(self) -> list[dict[str, Any]]:
        """All tools as OpenAI tool definitions, in a fixed order so that the request prefix stays the same."""
        tools = (self.get(name) for name in self._makers)
        return [{"type": "function", "function": tool.schema} for tool in tools if tool is not None]

    def call(self, name: str, arguments: str | bytes | Mapping[str, Any] | None, turn: TurnContext = NO_TURN) -> str:
        """Calls a tool as a model would and returns its result as JSON text."""
        return self.run(name, arguments, turn).text

    def run(self, name: str, arguments: str | bytes | Mapping[str, Any] | None, turn: TurnContext = NO_TURN) -> Called:
        """Calls a tool like `call`, and also returns the origin of the result."""
        result, origin = self._result(name, arguments, turn)
        return Called(text=to_json(result), origin=origin)

    def _result(
        self, name: str, arguments: str | bytes | Mapping[str, Any] | None, turn: TurnContext
    ) -> tuple[Any, str]:
        """Reads and converts the arguments, makes the call, and tells the model what was repaired or ignored."""
        tool = self.get(name)
        if tool is None:
            return failure(f"there is no tool {name!r}; the tools are {', '.join(self._makers)}"), ""
        given, wrong = read_arguments(arguments)
        if given is None:
            return failure(_UNREADABLE.format(wrong=wrong, found=_shortened(arguments))), ""
        own, ignored = getattr(tool, "checks_itself", False), list[str]()
        given |= {name: each for name, each in getattr(tool, "defaults", {}).items() if given.get(name) is None}
        given = fitted(tool.schema["parameters"], given, None if own else ignored)
        result, origin = self._called(tool, name, given if own else without_nulls(given), turn, check=not own)
        if not isinstance(result, dict):
            return result, origin  # a tool of the host may return anything
        if wrong:
            result = {**result, "repaired_arguments": _REPAIRED.format(wrong=wrong, read=_shortened(to_json(given)))}
        return ({**result, "ignored_arguments": ignored[:_MOST_NAMED]} if ignored else result), origin

    def _called(
        self, tool: Any, name: str, given: dict[str, Any], turn: TurnContext, *, check: bool
    ) -> tuple[Any, str]:
        """Checks the arguments, asks the gate, makes the call and grades its result; any error becomes a result."""
        if check and (wrong := problems(tool.schema["parameters"], given)):
            return failure("; ".join(wrong)), ""
        is_ours = hasattr(tool, "sink")  # errors of other people's tools may hold any text
        theirs = "" if is_ours and not getattr(tool, "is_foreign", False) else getattr(tool, "brings", "tool")
        try:
            if (held := self._held_back(tool, name, given, turn)) is not None:
                return held, ""
            if turn.rule:  # the rule asked the person, and they agreed to this call
                turn = TurnContext(**(vars(turn) | {"rule": "", "approved": True}))
            result = tool.call(given, turn) if getattr(tool, "in_turn", False) else tool.call(given)
            if hasattr(tool, "origin_of"):
                return result, tool.origin_of(given, result, turn)
            if getattr(tool, "grades_results", False):
                return result, result.pop(ORIGIN, "")
            return result, getattr(tool, "brings", "tool")
        except WriteRefused as refusal:
            return failure(str(refusal), refusal.details), theirs
        except HermesError as error:
            return failure(str(error)), theirs
        except Exception as error:  # noqa: BLE001 - tools of hosts and plug-ins are other people's code
            return failure(f"{name} failed: {type(error).__name__}: {error}"), theirs

    def _held_back(self, tool: Any, name: str, given: dict[str, Any], turn: TurnContext) -> dict[str, Any] | None:
        """The result for a call that must wait or that the person refused; None if the call may be made."""
        sink = getattr(tool, "sink", "tool")
        if turn.rule:
            return self._held_by_rule(sink or "tool", name, given, turn)
        if not sink or getattr(tool, "gates_itself", False):
            return None
        effect = tool.effect(given) if hasattr(tool, "effect") else {"sends": given}
        if effect is None:
            return None
        decision = decide(sink, turn, **effect)
        if decision.allowed:
            return None
        asks = SINKS[sink].asks if sink in SINKS else ""
        if asks != STAGE or self._approvals is None:
            refusal = consent(decision, turn, f"Let the agent call {name} with {_shortened(to_json(given))}?")
            return failure(refusal) if refusal else None
        if self._untrusted == "allow":
            return None
        if self._untrusted == "refuse":
            return failure(f"{decision.reason}, and memory.untrusted_writes is refuse")
        return self._staged(sink, name, given, turn, decision)

    def _held_by_rule(self, sink: str, name: str, given: dict[str, Any], turn: TurnContext) -> dict[str, Any] | None:
        """Asks the person, because a rule of theirs says so; the call waits where nobody can be asked now."""
        decision = decide(sink, turn, sends=given)
        if decision.allowed:
            return None
        if turn.ask is None and self._approvals is not None:
            return self._staged(sink, name, given, turn, decision)
        refusal = consent(decision, turn, f"Let the agent call {name} with {_shortened(to_json(given))}?")
        return failure(refusal) if refusal else None

    def _staged(
        self, sink: str, name: str, given: dict[str, Any], turn: TurnContext, decision: Decision
    ) -> dict[str, Any]:
        """Keeps a call until the person decides, with the evidence behind the decision of the gate."""
        assert self._approvals is not None  # noqa: S101 - callers look first
        cause = Cause(origin=decision.origin or "unknown", session=turn.session, note=turn.note)
        call = {"tool": name, "arguments": given, "cwd": self._folder}
        pending = self._approvals.stage(sink, (), cause, decision.reason, sources=decision.evidence(), call=call)
        return staged(pending, "memory")


def staged(pending: Pending, group: str) -> dict[str, Any]:
    """The result for a call that waits for the person; `group` is the command group with which they decide."""
    return {
        "success": True,
        "staged": True,
        "pending_id": pending.id,
        "message": (
            f"Staged, not done yet, because {pending.reason}. The user decides with "
            f"`hermes {group} approve {pending.id}` or `hermes {group} reject {pending.id}`; tell them."
        ),
    }


def consent(decision: Decision, turn: TurnContext, question: str) -> str:
    """Asks the person about a call that cannot wait; returns why it may not be made, "" if they agree."""
    if turn.ask is None:
        return f"{decision.reason}; a person would have to agree to this call, and nobody can be asked here"
    return "" if turn.ask(f"{question}\n({decision.reason})") else "the user said no to this call"


def failure(message: str, details: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The result of a call that failed, in the form that every tool uses."""
    return {"success": False, "error": message, **(details or {})}


def to_json(result: Mapping[str, Any]) -> str:
    """Writes a result as the JSON text that a model reads."""
    # A lone surrogate, which only a broken caller can pass, becomes a JSON escape instead of an encoding error.
    return encode(result).encode("utf-8", "backslashreplace").decode("utf-8")


def _shortened(text: object) -> str:
    words = text if isinstance(text, str) else repr(text)
    return words if len(words) <= _LONGEST_RESULT else f"{words[:_LONGEST_RESULT]}…"


class EngineTool:
    """A tool of a context engine in the form that the toolbox needs."""

    brings = "recall"
    sink = ""
    is_foreign = True

    def __init__(self, schema: dict[str, Any], engine: ContextEngine) -> None:
        self.schema = schema
        self._engine = engine

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Lets the engine handle the call, and puts whatever it returns into the form of a result."""
        answer = self._engine.handle_tool_call(self.schema["name"], arguments)
        try:
            result = json.loads(answer)
        except (TypeError, ValueError):
            return {"success": True, "result": str(answer)}
        if not isinstance(result, dict):
            return {"success": True, "result": result}
        return {"success": "error" not in result, **result}

    def origin_of(self, _arguments: dict[str, Any], _result: object, turn: TurnContext) -> str:
        """From recall if the conversation has outside text: bringing text back must not raise its grade."""
        return self.brings if turn.sources() else ""


def usable_schemas(engine: ContextEngine) -> list[dict[str, Any]]:
    """The schemas of an engine's tools as `{"name", "description", "parameters"}`; leaves out those without a name."""
    offered: list[Any] = list(engine.get_tool_schemas())
    schemas = [each.get("function", each) for each in offered if isinstance(each, dict)]
    whole: dict[str, Any] = {"type": "object", "properties": {}}
    return [
        {"description": "", "parameters": whole, **schema} for schema in schemas if isinstance(schema.get("name"), str)
    ]


def toolsets_of(settings: Settings, platform: str) -> frozenset[str]:
    """The toolsets that a session on a platform gets: the settings, else what is usual for the platform."""
    enabled = _named_toolsets(settings, "enabled_toolsets", platform)
    disabled = _named_toolsets(settings, "disabled_toolsets", platform) or ()
    if enabled is None:
        enabled = frozenset(TOOLSETS) if platform in _AT_THE_MACHINE else frozenset(TOOLSETS) - _HANDS
    everywhere = _known_toolsets("disabled_toolsets", (settings.get("disabled_toolsets") or {}).get(_ANYWHERE, ()))
    return frozenset(enabled) - frozenset(disabled) - frozenset(everywhere)


def check_toolsets(names: Collection[str]) -> frozenset[str]:
    """Checks the names of toolsets; an error suggests the right spelling."""
    return _known_toolsets("toolsets", names)


def is_enabled(tool: str, toolsets: Collection[str] | None, toolset: str | None = None) -> bool:
    """Whether a tool is offered when only these toolsets are on; a tool in no toolset always is."""
    belongs = toolset or next((name for name, tools in TOOLSETS.items() if tool in tools), None)
    return toolsets is None or belongs is None or belongs in toolsets


def _named_toolsets(settings: Settings, key: str, platform: str) -> frozenset[str] | None:
    by_platform = settings.get(key) or {}
    given = by_platform.get(platform, by_platform.get(_ANYWHERE) if key == "enabled_toolsets" else None)
    return None if given is None else _known_toolsets(f"{key}.{platform}", given)


def _known_toolsets(key: str, names: Any) -> frozenset[str]:
    listed: Iterable[str] = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple | set | frozenset):
        raise SettingsError(f"{key}: expected a list of toolsets, found {names!r}")
    for name in listed:
        if name not in TOOLSETS:
            known = ", ".join(TOOLSETS)
            raise SettingsError(f"{key}: there is no toolset {name!r}{nearest(str(name), TOOLSETS)} (known: {known})")
    return frozenset(listed)
