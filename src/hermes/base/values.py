"""Frozen records that load fast, and the small result types that packages share.

`import dataclasses` takes as long as starting Python itself, because it pulls in `inspect`. A memory write from a fresh
process must not pay that, so the modules on that path use this decorator. Type checkers read it as a frozen,
keyword-only dataclass. Modules that load heavier libraries anyway may use `dataclasses` as usual.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from hermes.base.events import Notice

    class Verdict(Protocol):
        """`level` is "clean", "ask" (a person should look) or "refuse"; `classes` name what was found."""

        @property
        def level(self) -> str: ...

        @property
        def classes(self) -> Sequence[str]: ...

        @property
        def excerpt(self) -> str: ...

    Scan = Callable[[str], Verdict]
else:
    from _collections import deque  # `collections` would load half a dozen modules


if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    Class = TypeVar("Class")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def value(cls: type[Class]) -> type[Class]: ...

else:

    def value(cls):  # noqa: ANN001, ANN201 - typed above
        own = cls.__dict__
        cls._fields = tuple(own.get("__annotations__", ()))
        cls._names = frozenset(cls._fields)
        cls._defaults = {name: own[name] for name in cls._fields if name in own}
        for name, method in _METHODS.items():
            if name not in own:
                setattr(cls, name, method)
        return cls


def _init(self: Any, **given: object) -> None:
    if given.keys() != self._names:
        given = self._defaults | given
        for name in self._fields:
            if name not in given:
                raise TypeError(f"{type(self).__name__} needs {name}=")
        for name in given:
            if name not in self._names:
                raise TypeError(f"{type(self).__name__} has no field {name!r}")
    self.__dict__.update(given)


def _refuse_to_change(self: Any, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


def _content(self: Any) -> tuple[object, ...]:
    return tuple(getattr(self, name) for name in self._fields)


def _equal(self: object, other: object) -> bool:
    return _content(self) == _content(other) if type(other) is type(self) else NotImplemented


def _represent(self: Any) -> str:
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
    return f"{type(self).__name__}({inside})"


_METHODS = {
    "__init__": _init,
    "__setattr__": _refuse_to_change,
    "__delattr__": _refuse_to_change,
    "__eq__": _equal,
    "__hash__": lambda self: hash((type(self), _content(self))),
    "__repr__": _represent,
}


class Notices:
    """Notices of a session for the person: added from any thread, taken by the surface that shows them."""

    def __init__(self) -> None:
        self._waiting: deque[Notice] = deque(maxlen=100)  # bounded, because a surface may never take them

    def add(self, kind: str, text: str) -> None:
        """Queues one line for the person; see `Notice.kind` for the kinds."""
        from hermes.base.events import Notice  # loads what a single command has no use for

        self._waiting.append(Notice(kind=kind, text=text))

    def take(self) -> list[Notice]:
        """Removes and returns the notices added since the last call."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]


class _Pattern:
    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> object:
        found: object = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when it is first used.

    Safety has a hundred of them, and most texts need a handful; compiling all takes longer than starting Python.
    """
    return cast("re.Pattern[str]", _Pattern(source, flags))
