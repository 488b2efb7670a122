"""Every setting: its name in config.yaml, type, default and range (keys.txt), and whether a value is valid."""

from __future__ import annotations

import os
from functools import cache

from hermes.base.errors import SettingsError
from hermes.base.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Each helper task has the same block: `auxiliary.compression.model`, `auxiliary.curator.timeout`, …; here with the
# default of its timeout in seconds.
TASKS = {
    "compression": 120,
    "background_review": 120,
    "title_generation": 30,
    "memory_query_rewrite": 8,
    "session_search": 90,
    "curator": 600,
}


@value
class Key:
    """One setting. `kind` is flag, integer, number, text, zone, choice, texts (a list) or mapping (free form)."""

    name: str
    kind: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False  # null is allowed and means "decide for me"
    enabling: bool = False  # it lets something run, reach out or be reached, so an import may not set it unasked
    harmless: tuple[str, ...] = ()  # choices that do not

    def enables(self, given: Any) -> bool:
        """Whether this value lets something run, reach out or be reached; the default and an empty value do not."""
        return self.enabling and given not in (self.default, None, "", [], {}, *self.harmless)

    @property
    def expected(self) -> str:
        """What a person should write, for error messages: `a whole number from 1 to 100 (or null)`."""
        words = {
            "flag": "true or false",
            "integer": "a whole number",
            "number": "a number",
            "text": "a text",
            "zone": "a time zone such as Europe/Berlin, or nothing",
            "choice": f"one of {', '.join(self.choices)}",
            "texts": "a list of texts",
            "mapping": "a mapping of names to values",
        }[self.kind]
        if self.low is not None and self.high is not None:
            words += f" from {self.low:,} to {self.high:,}"
        elif self.low is not None:
            words += f" of at least {self.low:,}"
        return words + (" (or null)" if self.optional else "")


@cache
def all_keys() -> dict[str, Key]:
    """Builds the table of all settings by name, in the order of keys.txt, then the block of each helper task."""
    keys: dict[str, Key] = {}
    rows, _ = _table()
    for row in rows:
        if "TASK" not in row[0]:
            keys[row[0]] = _key(*row)
    for task, seconds in TASKS.items():
        for row in rows:
            if "TASK" in row[0]:
                name, takes, default, text = (each.replace("TASK", task) for each in row)
                keys[name] = _key(name, takes, default.replace("SECONDS", str(seconds)), text)
    return keys


def known(name: str) -> Key:
    """Looks up a setting by name; for an unknown name, a `SettingsError` suggests the one that was probably meant."""
    keys = all_keys()
    if name not in keys:
        raise SettingsError(f"there is no setting {name}{setting_hint(name, keys)} (`hermes config show` lists all)")
    return keys[name]


@cache
def _table() -> tuple[list[list[str]], dict[str, str]]:
    """The rows of keys.txt, and hints for names that people guess (its lines that begin with `? `)."""
    rows: list[list[str]] = []
    guessed: dict[str, str] = {}
    with open(os.path.join(os.path.dirname(__file__), "keys.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("? "):
                names, _, hint = line[2:].strip().partition(": ")
                guessed |= dict.fromkeys(names.split(), hint)
            elif line[0] not in "#\n":
                rows.append([each.strip() for each in line.split("  ") if each])
    return rows, guessed


def _key(name: str, takes: str, default: str, text: str) -> Key:
    """Makes a setting from its row; the head of keys.txt explains the columns."""
    kind, _, limits = takes.partition(" ")
    if "|" in kind:
        choices, harmless = tuple(kind.replace("!", "").split("|")), tuple(c for c in kind.split("|") if c[-1] != "!")
        enabling = len(harmless) < len(choices)
        return Key(
            name=name, kind="choice", default=default, help=text, choices=choices, enabling=enabling, harmless=harmless
        )
    low, _, high = limits.partition("..")
    plain = kind.rstrip("?!")
    return Key(
        name=name,
        kind=plain,
        default=_DEFAULTS.get(plain) if default == "-" else _WORDS.get(default, _number(default) if low else default),
        help=text,
        low=_number(low) if low else None,
        high=_number(high) if high else None,
        optional="?" in kind,
        enabling="!" in kind,
    )


# The empty value of each kind that is not None, for rows whose default is `-`.
_DEFAULTS: dict[str, Any] = {"text": "", "zone": "", "texts": ()}


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


# Whether a setting may have a value, and what to say when it may not.

# What YAML and people write for true and false.
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def problem_with(key: Key, given: Any) -> str:
    """Says what was expected and found when a value does not fit its setting; "" when it fits."""
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
    except (ValueError, OSError, KeyError):  # a path, a folder, or an unknown name
        return False


def _can_be_sent(given: Any) -> bool:
    """Whether JSON can hold it: YAML also has dates, sets, NaN and infinity, which no model and no cache would take."""
    if isinstance(given, dict | list):
        return all(map(_can_be_sent, given.values() if isinstance(given, dict) else given))
    return given is None or isinstance(given, str | int) or (isinstance(given, float) and given - given == 0)


def _within(key: Key, given: float) -> bool:
    return (key.low is None or given >= key.low) and (key.high is None or given <= key.high)


def from_words(key: Key, words: str) -> Any:
    """Reads a value typed on the command line; words that do not fit come back unchanged, for `problem_with`."""
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
    if key.kind == "texts" and plain[:1] not in ("[", '"', "'"):  # else as YAML or JSON, which `yaml_file` reads
        return [item.strip() for item in plain.split(",") if item.strip()]
    return words


# A setting whose name ends in one of these would be a secret, which config.yaml must not hold.
_SECRETS = ("api_key", "apikey", "key", "token", "secret", "password")


def setting_hint(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown setting: a remedy from keys.txt, where secrets belong, or the nearest name; "" if none."""
    plain = name.lower()
    if hint := _table()[1].get(plain):
        return f"; {hint}"
    words = plain.replace(".", "_").replace("-", "_")
    if any(words == secret or words.endswith(f"_{secret}") for secret in _SECRETS):
        return (
            "; keys belong in .env next to config.yaml: `hermes setup` asks for the model's key and tries it; add any "
            "other as a line NAME=value"
        )
    return nearest(name, names)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean memory.provider?`; "" when no name is near."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:  # the right word under the wrong heading, such as `nudge_interval` at the top
        last = name.rpartition(".")[2]
        close = [key for key in known if key.rpartition(".")[2] == last][:1]
    return f"; did you mean {close[0]}?" if close else ""
