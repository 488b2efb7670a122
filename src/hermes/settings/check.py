"""Whether a value may stand at a key, and what to say when it may not."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from hermes.settings.schema import Key

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def problem_with(key: Key, given: Any) -> str:
    """Empty when the value is right, else what was expected."""
    if given is None and (key.optional or key.kind == "mapping"):
        return ""
    fits = {
        "flag": lambda: isinstance(given, bool),
        "integer": lambda: isinstance(given, int) and not isinstance(given, bool),
        "number": lambda: isinstance(given, int | float) and not isinstance(given, bool) and given == given,  # noqa: PLR0124 - NaN
        "text": lambda: isinstance(given, str),
        "zone": lambda: isinstance(given, str) and _is_zone(given),
        "choice": lambda: given in key.choices if isinstance(given, str) else False,
        "texts": lambda: isinstance(given, list | tuple) and all(isinstance(item, str) for item in given),
        "mapping": lambda: isinstance(given, dict) and _can_be_sent(given),
    }[key.kind]()
    in_range = not fits or not isinstance(given, int | float) or isinstance(given, bool) or _within(key, given)
    return "" if fits and in_range else f"expected {key.expected}, found {given!r}"


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        return name == "" or bool(ZoneInfo(name).key)
    except (ValueError, OSError, KeyError):  # a path, a folder, or a name nobody knows
        return False


def _can_be_sent(given: Any) -> bool:
    """Whether JSON can hold it: YAML has dates and sets as well, which no model and no cache would take."""
    if isinstance(given, dict | list):
        return all(map(_can_be_sent, given.values() if isinstance(given, dict) else given))
    return given is None or isinstance(given, str | int) or (isinstance(given, float) and given - given == 0)


def _within(key: Key, given: float) -> bool:
    return (key.low is None or given >= key.low) and (key.high is None or given <= key.high)


def from_words(key: Key, words: str) -> Any:
    """The value a person meant on the command line; unreadable words come back as they are, for `problem_with`."""
    plain = words.strip()
    if key.optional and plain.lower() in ("null", "none", ""):
        return None
    if key.kind == "flag":
        return _WORDS.get(plain.lower(), words)
    if key.kind in ("integer", "number"):
        for read in (int, float) if key.kind == "number" else (int,):
            try:
                return read(plain.replace("_", ""))
            except ValueError:
                continue
        return words
    if key.kind == "texts":
        return [item.strip() for item in plain.strip("[]").split(",") if item.strip()]
    return words


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean memory.provider?`, or nothing."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:  # the right word under the wrong heading, such as `nudge_interval` at the top
        last = name.rpartition(".")[2]
        close = [key for key in known if key.rpartition(".")[2] == last][:1]
    return f"; did you mean {close[0]}?" if close else ""
