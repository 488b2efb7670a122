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
    if key.kind == "texts" and plain[:1] not in ("[", '"', "'"):  # else as YAML or JSON, which `yaml_file` reads
        return [item.strip() for item in plain.split(",") if item.strip()]
    return words


# Settings people guess, and what they want. A name that ends in a word of `_SECRETS` is a key.
_SECRETS = ("api_key", "apikey", "key", "token", "secret", "password")
_GUESSED = {
    "model": "did you mean model.default?",
    "model.name": "did you mean model.default?",
    "model.model": "did you mean model.default?",
    "model.id": "did you mean model.default?",
    "model.url": "did you mean model.base_url?",
    "model.api_base": "did you mean model.base_url?",
    "model.endpoint": "did you mean model.base_url?",
    "model.temperature": "put it into model.extra_body, as in '{\"temperature\": 0.2}'",
    "model.max_tokens": "put it into model.extra_body, as in '{\"max_tokens\": 4000}'",
    "model.top_p": "put it into model.extra_body, as in '{\"top_p\": 0.9}'",
    "model.context_window": "did you mean model.context_length?",
    "provider": "did you mean model.provider (who serves the model) or memory.provider (external memory)?",
    "memory.limit": "did you mean memory.memory_char_limit or memory.user_char_limit?",
    "memory.size": "did you mean memory.memory_char_limit or memory.user_char_limit?",
    "gateway.telegram.token": "it is the line TELEGRAM_BOT_TOKEN=… of .env, beside config.yaml",
    "gateway.telegram.bot_token": "it is the line TELEGRAM_BOT_TOKEN=… of .env, beside config.yaml",
    "server.cors": "did you mean server.origins?",
}


def setting_hint(name: str, names: Iterable[str]) -> str:
    """What to say about a setting that does not exist: where keys are kept, or the nearest name."""
    plain = name.lower()
    if plain in _GUESSED:
        return f"; {_GUESSED[plain]}"
    words = plain.replace(".", "_").replace("-", "_")
    if any(words == secret or words.endswith(f"_{secret}") for secret in _SECRETS):
        return (
            "; keys are kept in .env beside config.yaml: `hermes setup` asks for the model's and tries it, any other "
            "is a line NAME=value there"
        )
    return nearest(name, names)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean memory.provider?`, or nothing."""
    import difflib

    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close:  # the right word under the wrong heading, such as `nudge_interval` at the top
        last = name.rpartition(".")[2]
        close = [key for key in known if key.rpartition(".")[2] == last][:1]
    return f"; did you mean {close[0]}?" if close else ""
