"""The page about the library: the classes a program uses, and of each the calls that are meant for programs."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from checks.reference_code import _doc

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is not named here is for other parts of Hermes and may change.
CALLS: dict[str, tuple[str, ...]] = {
    "MemorySession": (
        *(
            "open",
            "prepare_turn",
            "request",
            "fit",
            "counted",
            "record",
            "call_tool",
            "run_tool",
            "record_result",
            "finish_turn",
        ),
        *(
            "use_model",
            "compact",
            "take_events",
            "undo",
            "branch",
            "rename",
            "about",
            "tool_names",
            "store",
            "database",
        ),
        *("receipt", "receipt_id", "drop_if_empty", "close"),
    ),
    "AsyncMemorySession": ("open", "run"),
    "Agent": ("open", "turn", "interrupt", "switch_model", "close"),
    "SessionDB": (
        *("open", "create_session", "append", "append_many", "sync", "search", "messages", "get_session", "resolve"),
        *("list_sessions", "rename", "end_session", "delete", "close"),
    ),
    "MemoryStore": (
        *("open", "targets", "entries", "snapshot", "add", "replace", "remove", "apply", "history", "undo"),
        *("archived", "restore", "reset"),
    ),
    "Receipts": ("get", "of", "verify", "correct", "forget", "pin", "never"),
    "StreamingContextScrubber": ("feed", "flush", "reset"),
}
LONGEST = 110  # letters of a call in one line
FUNCTIONS = ("build_memory_context_block", "sanitize_context")


def python_page() -> str:
    import hermes
    from hermes.base.events import Usage
    from hermes.session.context import Request

    parts = [
        "# Python\n",
        (
            "What a program uses; `from hermes import …` has all of these names, and "
            "[the library](../guides/library.md) shows them at work. Classes to derive from are in [hooks](hooks.md), "
            "what is raised in [errors](errors.md).\n"
        ),
    ]
    for name, calls in CALLS.items():
        kind = getattr(hermes, name)
        described = _doc(kind)
        parts.append(f"## {name}\n" + (f"\n{described}\n" if described else ""))
        parts += [_call(kind, call) for call in calls]
    parts.append("## Functions\n")
    for name in FUNCTIONS:
        parts.append(_shown(name, _wrapped(name, inspect.signature(getattr(hermes, name))), getattr(hermes, name)))
    parts.append("## Values\n")
    parts += [_fields(hermes.SessionOptions), _fields(Request), _fields(Usage)]
    parts += [_fields(hermes.Receipt), _fields(hermes.ReceiptItem)]
    return "\n".join(parts)


def _call(kind: type, name: str) -> str:
    member: Any = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation if member.fget else ""
        return _shown(name, f"{name}: {returned}", member.fget)
    function = member.__func__ if isinstance(member, classmethod) else member
    before = f"{kind.__name__}." if isinstance(member, classmethod) else ""
    signature = inspect.signature(function)
    own = signature.replace(parameters=list(signature.parameters.values())[1:])
    return _shown(name, _wrapped(before + name, own), function)


def _shown(name: str, code: str, documented: Any) -> str:
    described = _doc(documented)
    return f"### {name}\n\n```python\n{code}\n```\n" + (f"\n{described}\n" if described else "")


def _wrapped(name: str, signature: inspect.Signature) -> str:
    """A call as it is written in code; a long one with one argument to a line."""
    arguments = list(_arguments(signature))
    line = f"{name}({', '.join(arguments)}) -> {signature.return_annotation}"
    if len(line) <= LONGEST:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f") -> {signature.return_annotation}"])


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    starred = False
    for each in signature.parameters.values():
        starred = starred or each.kind is each.VAR_POSITIONAL
        if each.kind is each.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        mark = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        shown = "..." if callable(each.default) else repr(each.default)
        yield f"{mark}{each.name}: {each.annotation}" + ("" if each.default is each.empty else f" = {shown}")


def _fields(kind: Any) -> str:
    names = ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind))
    return f"### {kind.__name__}\n\n{_doc(kind)}\n\nFields: {names}.\n"
