"""`value`: frozen records with keyword arguments, without the start-up cost of `dataclasses`.

`import dataclasses` takes as long as starting Python itself, because it pulls in `inspect`. A memory write from a fresh
process must not pay that, so the modules on that path use this decorator. Type checkers read it as a frozen,
keyword-only dataclass. Modules that load heavier libraries anyway may use `dataclasses` as usual.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar, dataclass_transform

    Class = TypeVar("Class")

    @dataclass_transform(frozen_default=True, kw_only_default=True)
    def value(cls: type[Class]) -> type[Class]: ...

else:

    def value(cls):  # noqa: ANN001, ANN201 - typed above
        fields = tuple(cls.__dict__.get("__annotations__", ()))  # noqa: RUF063 - inspect is what we avoid
        defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
        body = {
            name: member
            for name, member in cls.__dict__.items()
            if name not in defaults and name not in ("__dict__", "__weakref__")
        }
        methods = {
            "__init__": _init,
            "__setattr__": _refuse_to_change,
            "__delattr__": _refuse_to_change,
            "__eq__": _equal,
            "__hash__": _hash,
            "__repr__": _represent,
        }
        extras = {"__slots__": fields, "_fields": fields, "_defaults": defaults, "__match_args__": ()}
        new = type(cls)(cls.__name__, cls.__bases__, methods | body | extras)
        # The slots' own setters: the only way past __setattr__, and four times faster than object.__setattr__.
        new._setters = tuple(  # noqa: SLF001 - our own class
            (name, new.__dict__[name].__set__) for name in fields
        )
        return new


def _init(self: Any, **given: object) -> None:
    if len(given) != len(self._fields):
        given = self._defaults | given
    try:
        for name, put in self._setters:
            put(self, given[name])
    except KeyError as missing:
        raise TypeError(f"{type(self).__name__} needs {missing.args[0]}=") from None
    if len(given) != len(self._fields):
        unknown = next(name for name in given if name not in self._fields)
        raise TypeError(f"{type(self).__name__} has no field {unknown!r}")


def _refuse_to_change(self: Any, name: str, *_: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be changed")


def _content(self: Any) -> tuple[object, ...]:
    return tuple(getattr(self, name) for name in self._fields)


def _equal(self: object, other: object) -> bool:
    return _content(self) == _content(other) if type(other) is type(self) else NotImplemented


def _hash(self: object) -> int:
    return hash((type(self), _content(self)))


def _represent(self: Any) -> str:
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
    return f"{type(self).__name__}({inside})"
