"""Triggers: the acts, paths, topics and times that a rule is about, and whether it applies to a situation.

"Always run the linter before committing" is about `git commit`, "never e-mail customers on weekends" about messages to
customers on two days. `text/rules.toml` says which words mean which tools, commands and files. English only.
"""

from __future__ import annotations

import operator
import os
import re
import tomllib
from datetime import datetime
from fnmatch import fnmatch
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from hermes.base import linear
from hermes.base.values import lazy_pattern, value
from hermes.base.words import STOP_WORDS, Words
from hermes.memory.topics import topics
from hermes.safety.trust import only_looks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hermes.memory.topics import Touched


TEXT = os.path.join(os.path.dirname(__file__), "text")
WEIGHTS = os.path.join(os.path.dirname(__file__), "data")  # where `bin/train-rules` writes them


@cache
def _speech() -> dict[str, str]:
    """`text/speech.txt`: expressions by name, with the others that they contain filled in."""
    found: dict[str, str] = {}
    name = ""
    with open(os.path.join(TEXT, "speech.txt"), encoding="utf-8") as file:
        for line in filter(None, (line.rstrip("\n") for line in file)):
            if line.startswith("    |"):
                found[name] += line[4:]
            elif not line.startswith("#"):
                name, _, pattern = line.partition(" ")
                found[name] = f"{found[name]}|{pattern}" if name in found else pattern
    return found


@cache
def speech(name: str) -> re.Pattern[str]:
    """Compiles a named expression of `text/speech.txt`, with the expressions it refers to filled in."""
    known, filled = _speech(), _speech()[name]
    while (inside := re.search(r"\{([a-z-]+)\}", filled)) is not None:
        filled = filled.replace(inside[0], known[inside[1]])
    return re.compile(filled, re.IGNORECASE)


def stripped(sentence: str) -> tuple[str, bool]:
    """Returns the sentence without greetings and politeness, and whether it had any politeness."""
    led = speech("lead-in").sub("", " ".join(sentence.split())).replace("`", "").strip()
    plain = speech("polite").sub("", led)
    return plain, plain != led


# --- triggers ---------------------------------------------------------------------------------------------------------


@value
class Window:
    """When a rule applies: on these weekdays (0 is Monday; empty for all), between two minutes of the day."""

    days: tuple[int, ...] = ()
    start: int = 0
    end: int = 1440
    outside: bool = False  # applies outside the window instead
    months: tuple[int, ...] = ()

    def holds(self, at: datetime) -> bool:
        """Whether the window covers this moment, or does not cover it when `outside` is set."""
        minute = at.hour * 60 + at.minute
        day = at.weekday()
        if self.start <= self.end:
            inside = self.start <= minute < self.end
        else:  # over midnight; the small hours belong to the day before
            inside = minute >= self.start or minute < self.end
            day = (day - 1) % 7 if minute < self.end else day
        inside = inside and (not self.months or at.month in self.months)
        return (inside and (not self.days or day in self.days)) is not self.outside


@value
class Trigger:
    """What must happen for a rule to apply. Every kind that is given must match; one of each kind is enough.

    `acts` are names of `text/rules.toml`; `tools` and `commands` are patterns with `*` that a person may add by hand.
    """

    acts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    times: tuple[Window, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing limits the rule, so that it applies to every session."""
        return not (self.acts or self.paths or self.words or self.times or self.tools or self.commands)

    def in_words(self) -> str:
        """Describes the trigger for a person, as notices and `hermes rules list` show it."""
        kinds = {
            "act": self.acts,
            "path": tuple(each for each in self.paths if each[:1] != "$"),  # not the commands of a language
            "topic": self.words,
            "tool": self.tools,
            "command": self.commands,
        }
        said = [f"{kind} {' or '.join(each)}" for kind, each in kinds.items() if each]
        return (
            "; ".join([*said, *([f"time {' or '.join(map(_in_words, self.times))}"] if self.times else [])])
            or "every session"
        )

    def in_short(self) -> str:
        """Names what the rule applies to, without the kinds of its parts, for a notice."""
        paths = tuple(each for each in self.paths if each[:1] != "$")
        parts = (self.acts, paths, self.words, self.tools, self.commands, tuple(map(_in_words, self.times)))
        return ", ".join(" or ".join(each) for each in parts if each) or "everything"


@value
class Act:
    """Something an agent does, how people say it, and the tools and commands that do it."""

    said: tuple[tuple[str, ...], ...]
    tools: re.Pattern[str] | None
    runs: re.Pattern[str] | None
    given: re.Pattern[str] | None
    paths: tuple[str, ...]
    wide: bool
    thing: bool
    meant: bool


class Tables:
    """`text/rules.toml`, with its words stemmed as the index stems them."""

    def __init__(self) -> None:
        with open(os.path.join(TEXT, "rules.toml"), "rb") as file:
            raw = tomllib.load(file)
        self._words = Words()
        self._stems: dict[str, tuple[str, ...]] = {}
        self.acts = {name: self._act(each) for name, each in raw["acts"].items()}
        self.files = [(re.compile(pattern), tuple(globs)) for pattern, globs in raw["files"].items()]
        groups = [self.stems(group) for group in raw["same"]["groups"]]
        self.same = {stem: group[0] for group in groups for stem in group}
        self.no_paths, self.no_folders = (frozenset(raw["glue"][key].split()) for key in ("no_paths", "no_folders"))
        self.glue = frozenset(self.stems(raw["glue"]["words"])) | frozenset(self.stems(" ".join(STOP_WORDS)))

    def stems(self, text: str) -> tuple[str, ...]:
        """Returns the stems of a text in order, from a cache for repeated phrases."""
        if text not in self._stems:
            if len(self._stems) > 500:  # noqa: PLR2004
                self._stems.clear()
            self._stems[text] = tuple(self._words.of(text))
        return self._stems[text]

    def topics(self, text: str) -> set[str]:
        """Returns the stems of a text, with synonyms replaced by the first word of their group."""
        return {self.same.get(stem, stem) for stem in self.stems(text)}

    def _act(self, raw: Mapping[str, Any]) -> Act:
        said = raw["said"].split("|")
        compiled: dict[str, Any] = {
            key: re.compile(raw[key], re.IGNORECASE) if key in raw else None for key in ("tools", "runs", "given")
        }
        flags: dict[str, Any] = {key: bool(raw.get(key)) for key in ("wide", "thing", "meant")}
        phrases = tuple(tuple(self._words.of(each)) for each in (*said[0].split(), *said[1:]))
        return Act(said=phrases, paths=tuple(raw.get("paths", ())), **compiled, **flags)


@cache
def tables() -> Tables:
    """Loads `text/rules.toml` once per process."""
    return Tables()


_COMMAND = lazy_pattern(r"`([^`]+)`")
_NAMED = lazy_pattern("\u2018[^\u2019]*\u2019")  # quoted wording to use or avoid, which names no act or topic


_ON_THINGS = frozenset(("edit", "send", "reply", "read"))  # acts that say little without what they are done to


@lru_cache(maxsize=1024)
def trigger_of(sentence: str) -> Trigger:
    """Reads the trigger of a rule: the situation it names, else the act it demands or forbids."""
    windows, text = times_in(stripped(sentence)[0].strip(" .!") or sentence)
    part, found = _situation(text)
    if found.is_empty:
        part, found = text, _read(text)
    acts = found.acts
    if found.paths and re.search(r"\b(?:or|and) (?:in|to|on|into)\b", text, re.IGNORECASE):
        acts = tuple(dict.fromkeys((*acts, "edit")))  # "in commit messages or in the README"
    if (speech("untouched").search(text) and not is_narrow(found)) or (found.paths and not acts):
        acts = ("edit",)  # how a kind of file is to be written
    commands = tuple(each for each in _COMMAND.findall(sentence) if each in part and " " in each)
    only = re.search(r"\bonly\b", text, re.IGNORECASE)  # "only deploy before noon" is about every deployment
    return _joined(found, acts=acts, times=() if only else windows, commands=commands)


def _situation(text: str) -> tuple[str, Trigger]:
    """The part of a rule that says when it applies, and what that part names."""
    when, then, leads, negative = _split(text)
    named, told = _resolved(when, _read(then)), _read(then)
    if negative and (told.paths or is_narrow(told)):
        return then, _joined(told, paths=named.paths) if leads and not told.paths else told
    return (then, told) if named.is_empty else (when, named)


def _split(text: str) -> tuple[str, str, bool, bool]:
    """Splits a rule into condition and demand; also says whether the condition comes first and the rule forbids."""
    bare = (speech("except").sub("", text) or text).strip(" ,.")
    if re.match(r"only\b", bare, re.IGNORECASE):  # "only merge after CI is green" is about every merge
        bare = re.split(r"\s(?:when|if|after|once|with)\b", bare, maxsplit=1, flags=re.IGNORECASE)[0]
    leading = speech("leading").match(bare)
    if leading is None:
        bare = re.sub(r",\s*please\b.*$", "", bare, flags=re.IGNORECASE) or bare
    negative = bool(speech("negative").match(bare))
    ways = ("wanted", "trailing") if negative else ("wanted", "subject", "trailing", "style", "manner")
    split = leading or next((found for way in ways if (found := speech(way).match(bare))), None)
    when, then = (split["when"], split["then"]) if split else ("", bare)
    again = re.search(r"\byou\b.*?\s(?=you\b)", when)  # "every time you restart nginx you test the config"
    return when[: again.end()] if again else when, then, leading is not None, negative


def _resolved(when: str, told: Trigger) -> Trigger:
    """Reads a condition; "it" and "them" in it refer to what the rest of the sentence names."""
    named = _read(when)
    if speech("by-person").match(when):  # "when I write about taxes" is about taxes
        return _joined(named, acts=tuple(name for name in named.acts if not tables().acts[name].wide))
    if re.search(r"\b(?:it|them|those)\b", when):  # "back up config files before you edit them"
        words = told.words if _ON_THINGS.issuperset(named.acts) else ()
        return _joined(named, paths=named.paths or told.paths, words=named.words or words)
    return named


def _joined(trigger: Trigger, **more: Any) -> Trigger:
    return Trigger(**(vars(trigger) | more))


def is_narrow(trigger: Trigger) -> bool:
    """Whether the trigger names an act specific enough to recognise by itself."""
    return any(not tables().acts[name].wide for name in trigger.acts)


def _read(text: str) -> Trigger:
    """The acts, paths and topics that a part of a rule names."""
    if not text:
        return Trigger()
    known = tables()
    globs: list[str] = []
    text = re.sub(
        r"\b(?i:stop|avoid|quit) (?=\w+ing)",
        "",
        re.sub(r"\b(commit|error|log|warning) messages?\b", r"\1", _NAMED.sub(" ", text), flags=re.IGNORECASE),
    )
    rest = text
    for found in speech("path").finditer(text):
        if found[0].casefold() not in known.no_paths and not _is_pair(found, text):
            globs += _globs(found[0])
            rest = rest.replace(found[0], " ")
    for found in speech("folder").finditer(rest):
        name = found[1] or found[2]
        if name.casefold() not in known.no_folders and not known.glue.intersection(known.stems(name)):
            globs += _globs(f"{name}/")
            rest = rest.replace(found[0], " ")
    for pattern, kinds in known.files:
        if pattern.search(rest):
            globs += kinds
    rest = rest.lower()
    stems = known.stems(rest)
    line = f" {' '.join(stems)} "
    acts = [name for name, act in known.acts.items() if any(f" {' '.join(said)} " in line for said in act.said)]
    if "force push" in acts and "push" in acts:
        acts.remove("push")
    if "rm -rf" in acts:
        acts.remove("delete")
    verbs = [name for name in acts if not known.acts[name].thing]
    spoken = {stem for name in verbs for said in known.acts[name].said for stem in said}
    small = known.glue | spoken
    tokens = re.findall(r"[^\W_][\w'-]+", _without_kinds(known, text).lower())
    topics = [each for each in tokens if not each[0].isdigit() and small.isdisjoint(known.stems(each))]
    return Trigger(
        acts=tuple(acts),
        paths=tuple(dict.fromkeys(globs)),
        words=tuple(dict.fromkeys(topics)),
    )


def _is_pair(found: re.Match[str], text: str) -> bool:
    """Whether a match is a pair of words such as "read/write"; after a preposition such as "in" it is a path."""
    pair = re.fullmatch(r"[\w-]+/[\w-]+", found[0])
    return pair is not None and not re.search(
        r"\b(?:in|into|under|inside|to|from|below|touch|edit|folder)\s+`?$", text[: found.start()], re.IGNORECASE
    )


def _without_kinds(known: Tables, text: str) -> str:
    text = speech("folder").sub(" ", speech("path").sub(" ", text))
    for pattern, _ in known.files:
        text = pattern.sub(" ", text)
    return text


def _globs(path: str) -> list[str]:
    path = path.removeprefix("./").strip("`'\"")
    if path.startswith("~/"):
        return [path, f"{path}/*", f"*/{path[2:]}", f"*/{path[2:]}/*"]
    if path.startswith(("*.", "_")):  # "those end in _pb2.py"
        return [f"*{path.removeprefix('*')}"]
    if path.startswith(".") and "/" not in path:
        return [path, f"*/{path}", f"{path}.*", f"*{path}", f"{path}/*", f"*/{path}/*"]
    if path.endswith("/"):
        return [f"{path}*", f"*/{path}*"]
    return [path, f"*/{path}", f"{path}/*", f"*/{path}/*"]


# --- times ------------------------------------------------------------------------------------------------------------

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WORKDAYS = (0, 1, 2, 3, 4)
_HOUR_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_HOURS = {
    "off": Window(days=_WORKDAYS, start=540, end=1050, outside=True),
    "work": Window(days=_WORKDAYS, start=540, end=1050),
    "night": Window(start=1320, end=360),
    "day": Window(start=480, end=1080),
    "morning": Window(start=300, end=720),
    "afternoon": Window(start=720, end=1080),
    "evening": Window(start=1080, end=1440),
    "lunch": Window(start=720, end=840),
}


def times_in(text: str) -> tuple[tuple[Window, ...], str]:
    """Reads the times a rule names, and returns them with the text that is left."""
    days: list[tuple[int, ...]] = []
    hours: list[Window] = []

    def take_days(found: re.Match[str]) -> str:
        if found["end"]:
            named: tuple[int, ...] = (5, 6)
        elif found["work"]:
            named = _WORKDAYS
        else:
            first = DAYS.index(found["first"][:3].lower())
            last = DAYS.index(found["last"][:3].lower()) if found["last"] else first
            named = tuple((first + step) % 7 for step in range((last - first) % 7 + 1))
            named += tuple(DAYS.index(each[:3].lower()) for each in speech("day").findall(found["more"] or ""))
        days.append(named)
        if found["part"]:
            hours.append(_HOURS[found["part"].lower().removesuffix("s")])
        return " "

    def take_hours(found: re.Match[str], window: Callable[[re.Match[str]], Window | None]) -> str:
        made = window(found)
        if made is None:
            return found[0]
        hours.append(made)
        return " "

    text = speech("between").sub(lambda found: take_hours(found, _between), text)
    joined = re.search(r"\b(?:or|and)\b(?:\s+\w+){0,2}\s+(?:after|before|past|on|at)\b", text, re.IGNORECASE)
    text = speech("since").sub(lambda found: take_hours(found, lambda each: _from(each["a"])), text)
    text = speech("until").sub(lambda found: take_hours(found, lambda each: _to(each["a"])), text)
    for name, window in _HOURS.items():
        text = speech(f"hours-{name}").sub(lambda found, window=window: take_hours(found, lambda _: window), text)  # type: ignore[misc]
    text = speech("days-named").sub(take_days, text)
    months = tuple(_MONTHS.index(found[:3].lower()) + 1 for found in speech("months").findall(text))
    if months:
        text = speech("months").sub(" ", text)
        hours.append(Window(months=months))
    text = " ".join(text.split())
    if days and hours and not joined:
        both = tuple(day for named in days for day in named)
        return tuple(Window(**(vars(each) | {"days": both})) for each in hours), text
    return (*(Window(days=named) for named in days), *hours), text


def _between(found: re.Match[str]) -> Window | None:
    second = _minute(found["b"])
    first = _minute(found["a"], like=found["b"])
    if first is None or second is None:
        return None
    if second < first and not re.search(r"[ap]\.?m", found[0], re.IGNORECASE) and second <= 720 and first <= 720:  # noqa: PLR2004 - "9 to 5"
        second += 720
    if first < second <= 420 and not re.search(r"\d\s*a\.?m|night|morning|0\d", found.string, re.IGNORECASE):  # noqa: PLR2004 - "1 to 3"
        first, second = first + 720, second + 720
    return Window(start=first, end=second)


def _from(clock: str) -> Window | None:
    start = _minute(clock, evening=True)
    return None if start is None else Window(start=start, end=300 if start >= 900 else 1440)  # noqa: PLR2004


def _to(clock: str) -> Window | None:
    end = _minute(clock)
    return None if end is None else Window(start=0, end=end)


def _minute(clock: str, *, like: str = "", evening: bool = False) -> int | None:
    """The minute of the day; a plain small number behind "after" means the evening."""
    text = clock.lower().replace(".", "")
    text = re.sub(r"\s*(?:in the (?:afternoon|evening)|at night)$", "pm", re.sub(r"\s*in the morning$", "am", text))
    if text in ("noon", "midnight"):
        return 720 if text == "noon" else 1440 if not evening else 0
    if spelled := re.match(rf"(?:(half|quarter) (past|to) )?({'|'.join(_HOUR_WORDS)})", text):
        hour, part = _HOUR_WORDS.index(spelled[3]) + 1, {None: 0, "half": 30, "quarter": 15}[spelled[1]]
        hour, part = (hour - 1, 60 - part) if spelled[2] == "to" else (hour, part)
        text = f"{hour}:{part:02}{text[spelled.end() :]}"
    found = re.match(r"(\d{1,2})(?::(\d\d))?\s*(am|pm)?", text)
    if not found or int(found[1]) > 24:  # noqa: PLR2004
        return None
    hour, early = int(found[1]) % 24, int(found[1]) < 8  # noqa: PLR2004 - nobody means seven in the morning
    half = found[3] or ("am" if "am" in like.lower() else "pm" if "pm" in like.lower() and early else "")
    if (half == "pm" and hour < 12) or (not half and evening and not found[2] and early):  # noqa: PLR2004
        hour += 12
    elif half == "am" and hour == 12:  # noqa: PLR2004
        hour = 0
    return hour * 60 + int(found[2] or 0)


def _in_words(window: Window) -> str:
    days = " ".join([*(DAYS[day] for day in window.days), *(_MONTHS[month - 1] for month in window.months)])
    clock = "" if (window.start, window.end) == (0, 1440) else f"{_hours(window.start)}-{_hours(window.end)}"
    return f"{'outside ' if window.outside else ''}{' '.join(filter(None, (days, clock)))}"


def _hours(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


# --- whether a rule fires ---------------------------------------------------------------------------------------------

_PATH_KEYS = lazy_pattern(r"path|file|folder|dir|target|source|dest", re.IGNORECASE)
_COMMAND_KEYS = ("command", "cmd", "script", "code", "input")
_QUERY_KEYS = ("query", "sql", "statement", "code", "script")
# Argument names that most tools have; any other name says something about what the call does.
_COMMON_KEYS = frozenset(
    [
        "path",
        "file",
        "content",
        "text",
        "command",
        "cmd",
        "query",
        "to",
        "from",
        "title",
        "body",
        "message",
        "url",
        "old_text",
        "new_text",
        "old_string",
        "new_string",
        "action",
        "target",
        "name",
        "input",
        "code",
        "args",
        "arguments",
        "id",
        "number",
        "limit",
        "start",
        "end",
        "subject",
        "type",
    ]
)
_SHELLS = lazy_pattern(r"terminal|shell|bash|exec|process|command|run|console|ssh", re.IGNORECASE)
_ISO = lazy_pattern(r"\b(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d))?")
_PATCHED = lazy_pattern(r"^(?:\+\+\+ b/|\*\*\* (?:Update|Add|Delete) File: )(\S+)", re.MULTILINE)
_LONGEST_TEXT = 4_000
_LONG = 5  # letters of a word that counts as part of another
_BORDERS = lazy_pattern(r"[_/.:=@#-]+|(?<=[a-z])(?=[A-Z])")
# A call that names one of these is about another environment than production.
_CONTRASTS = {
    "product": frozenset(
        ["stage", "dev", "develop", "local", "localhost", "sandbox", "preview", "qa", "uat", "test", "demo", "canari"]
    )
}
# Package managers exclude each other: a rule about npm does not apply to a call of pip. The words are stems.
_MANAGERS = frozenset(["npm", "pnpm", "yarn", "pip", "poetri", "uv", "brew", "apt", "cargo", "gem", "bun", "conda"])


@value
class Kin:
    """How near a word is to parts of a situation, from 0 (unrelated) to 1 (contained)."""

    call: float
    said: float
    tool: float
    section: bool

    @property
    def nearest(self) -> float:
        """The greater of how near it is to the call and to the person's words."""
        return max(self.call, self.said)


class Situation:
    """A tool call, or the start of a turn (empty `tool`), with what the person said and the time."""

    def __init__(self, tool: str, arguments: Mapping[str, Any] | None, said: str, at: datetime) -> None:
        known = self._known = tables()
        self.tool, self.at, self._said = tool, at, said
        given = self._given = list(_strings(arguments or {}))
        self._values = [text.strip() for _, text in given]
        self._queries = " ; ".join(text for key, text in given if key in _QUERY_KEYS)
        named = [key for key, _ in given if key not in _COMMON_KEYS]
        shell = [text for key, text in given if key in _COMMAND_KEYS]
        self.command = " ; ".join(shell) if shell and (_SHELLS.search(tool) or "command" in (arguments or {})) else ""
        self.paths = [text for key, text in given if _PATH_KEYS.search(key) and len(text) < 300 and "\n" not in text]  # noqa: PLR2004
        places = re.findall(
            r"[\w.*~/-]*[./][\w.*/-]+|\bDockerfile\b|\bMakefile\b", self.command or ("" if tool else said)
        )
        self.paths += [each for each in places if "://" not in each]
        self.paths += [path for text in self._values for path in _PATCHED.findall(text)]
        self._text = " ".join(
            [tool.replace("_", " ").replace("-", " "), *named, *(text[:_LONGEST_TEXT] for text in self._values)]
        )
        self._loose = re.sub(r"[_/.-]+", " ", self._text)
        self._line = f" {' '.join(known.stems(said))} "
        self._kin: dict[str, Kin] = {}

    @cached_property
    def words(self) -> set[str]:
        """The topics of the tool name and the arguments, with and without punctuation inside words."""
        return self._known.topics(self._loose) | self._known.topics(self._text)

    @cached_property
    def topics(self) -> frozenset[str]:
        """The words of the call and their synonyms; identifiers are also split at their borders."""
        if not self.tool:
            return frozenset()
        spaced = _BORDERS.sub(" ", self._text)
        return frozenset((*self.words, *self._known.topics(spaced), *self._known.stems(spaced)))

    @cached_property
    def said(self) -> frozenset[str]:
        """The topics and stems of what the person said."""
        return frozenset((*self._known.topics(self._said), *self._known.stems(self._said)))

    @cached_property
    def touched(self) -> Touched:
        """The lines of `text/topics.txt` that the call touches."""
        return topics().touched(self.topics)

    @cached_property
    def said_touched(self) -> Touched:
        """The lines of `text/topics.txt` that the person's words touch."""
        return topics().touched(self.said)

    @cached_property
    def tool_touched(self) -> Touched:
        """The lines of `text/topics.txt` that the name of the tool touches."""
        return topics().touched(self._known.stems(_BORDERS.sub(" ", self.tool)))

    def _has(self, stem: str) -> bool:
        """Whether the call contains a word, if it is long also as a part of a longer one ("HandBrakeCLI")."""
        return stem in self.topics or (len(stem) >= _LONG and bool(self.tool) and stem in self._lower)

    @cached_property
    def _lower(self) -> str:
        return self._text.lower()

    def kin(self, stem: str) -> Kin:
        """How near a word is to the call, to what the person said, and to the name of the tool."""
        if stem not in self._kin:
            known = topics()
            self._kin[stem] = Kin(
                call=1.0 if self._has(stem) else known.kinship(stem, self.touched),
                said=1.0 if stem in self.said else known.kinship(stem, self.said_touched),
                tool=known.kinship(stem, self.tool_touched),
                section=known.is_in_a_section(stem, self.touched),
            )
        return self._kin[stem]

    @cached_property
    def done(self) -> frozenset[str]:
        """The acts this call performs, or that the person speaks of before any call."""
        return frozenset(name for name in self._known.acts if self.does(name))

    @cached_property
    def narrow(self) -> frozenset[str]:
        """The performed acts without wide ones such as edit or read, which say little by themselves."""
        return frozenset(name for name in self.done if not self._known.acts[name].wide)

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The acts that are performed or only spoken of."""
        return frozenset(name for name in self._known.acts if name in self.done or self.mentions(name))

    def does(self, name: str) -> bool:
        """Whether the call performs the act; at the start of a turn, whether the person mentions it."""
        act = self._known.acts[name]
        if not self.tool:
            return name == "reply" or any(f" {' '.join(phrase)} " in self._line for phrase in act.said)
        if self.command:
            return bool(act.runs and act.runs.search(self.command))
        named = act.tools is not None and act.tools.search(self.tool)
        if (
            named
            and act.wide is False
            and speech("lists").search(self.tool)
            and name not in ("search", "web", "remember", "log", "database", "book")
        ):
            named = None
        writes = any(_fits(path, glob) for path in self.paths for glob in act.paths)
        if act.meant and not named and speech("general").search(self.tool):
            named = re.search(
                r"(?:^| )" + "|".join(re.escape(" ".join(each)) for each in act.said) + r"(?= |$)", self._line.strip()
            )
        fits = act.given is not None and any(act.given.search(text) for text in self._values)
        fits = fits or bool(act.runs and not act.wide and self._queries and act.runs.search(self._queries))
        return bool(named or fits or (writes and self._known.acts["edit"].tools.search(self.tool)))  # type: ignore[union-attr]

    def mentions(self, name: str) -> bool:
        """Whether the call or the person speaks of the thing that an act is about."""
        line = f"{self._line}{' '.join(self._known.stems(self._loose))} "
        return self.does(name) or any(f" {' '.join(phrase)} " in line for phrase in self._known.acts[name].said)

    def path_in(self, globs: Iterable[str]) -> str:
        """Returns the path of the call that matches a pattern, or the command that works on such files; else ""."""
        for glob in globs:
            if glob.startswith("$"):
                found = re.search(glob[1:], self.command)
                if found:
                    return found[0]
            for path in self.paths:
                if _fits(path.removeprefix("./"), glob):
                    return path
        return ""

    def speaks_of(self, topics: Iterable[str]) -> list[str]:
        """Returns the topics that occur in the call or in the person's words."""
        wanted = list(topics)
        there = self.words | self._known.topics(self._said) if wanted else set()
        return [each for each in wanted if self._known.topics(each) <= there]

    def is_elsewhere(self, topics: Iterable[str]) -> bool:
        """Whether the call names the opposite of a topic: staging for production, another branch for main."""
        words, topics = self.words, {stem for each in topics for stem in self._known.topics(each)}
        if any(words & _CONTRASTS.get(each, frozenset()) for each in topics):
            return True
        if (named := _MANAGERS.intersection(topics)) and (there := _MANAGERS & words) and not named & there:
            return True
        pushed = re.search(r"\bpush\b(?:\s+-\S+)*\s+\S+\s+(\S+)", self.command)
        return pushed is not None and "main" in topics and "main" not in self._known.topics(pushed[1].replace("/", "_"))

    @property
    def only_reads(self) -> bool:
        """Whether the call changes nothing; the start of a turn counts as reading."""
        if self.command:
            return only_looks(self.command)
        return not self.tool or bool(speech("lists").search(self.tool))

    @cached_property
    def amounts(self) -> list[float]:
        """The amounts of money that the call names, else those that the person named."""
        named = [text for key, text in self._given if _AMOUNT_KEYS.search(key) and re.fullmatch(r"[\d.,]+", text)]
        found = _AMOUNT.findall(self._text) or _AMOUNT.findall(self._said)
        return [_number(each, None) for each in named] + [_number(a or b, ka or kb) for a, ka, b, kb in found]

    def moments(self) -> list[datetime]:
        """Returns the times a rule is checked against: those of an appointment the call makes, else now."""
        if self.tool and (self.does("schedule") or self.does("book")):
            found = [f"{day}T{clock or '12:00'}" for day, clock in _ISO.findall(self._text)]
            return [moment for each in found if (moment := _moment(each)) is not None] or [self.at]
        return [self.at]


def why(trigger: Trigger, now: Situation, text: str = "") -> str:
    """Says why a rule applies in this situation; "" when it does not.

    A trigger that Hermes read from the `text` of the rule is weighed by the trained model; one that a person wrote by
    hand applies exactly as written.
    """
    if trigger.times and not any(window.holds(moment) for window in trigger.times for moment in now.moments()):
        return ""
    reasons = [f"time {' or '.join(map(_in_words, trigger.times))}"] if trigger.times else []
    if named := _named(trigger, now):
        return "; ".join([*reasons, named])
    if text and trigger == trigger_of(text):
        return "; ".join([*reasons, *about]) if (about := _in_common(text, now, timed=bool(reasons))) else ""
    acts = [f"act {name}" for name in trigger.acts if name in tables().acts and now.does(name)]
    paths = [f"path {path}"] if (path := now.path_in(trigger.paths)) else []
    topics = [f"topic {each}" for each in now.speaks_of(trigger.words)]
    wanted = ((trigger.acts, acts), (trigger.paths, paths), (trigger.words, topics))
    told = bool(trigger.acts or trigger.paths or trigger.words or trigger.times)
    only_named = (trigger.tools or trigger.commands) and not any(given for given, _ in wanted)
    fits = told and not only_named and all(found or not given for given, found in wanted)
    return "; ".join([*reasons, *acts, *paths, *topics]) if fits else ""


@value
class Part:
    """What one part of a rule names, prepared for comparison with a call."""

    topics: tuple[str, ...]
    words: tuple[str, ...]  # its topics, and the words that name its acts
    rarities: tuple[float, ...]  # of the words
    names: tuple[str, ...]
    narrow: frozenset[str]
    things: frozenset[str]
    wide: frozenset[str]
    paths: tuple[str, ...]


def _part_of(text: str) -> Part:
    known, read = tables(), _read(text)
    things = frozenset(name for name in read.acts if known.acts[name].thing)
    wide = frozenset(name for name in read.acts if known.acts[name].wide)
    stems = known.stems(text)
    spoken = {stem for name in read.acts if name not in wide for said in known.acts[name].said for stem in said}
    names = [stem for each in _NAME.findall(text) for stem in known.stems(each)]
    told = [each for each in stems if not each[0].isdigit() and (each in spoken or each not in known.glue)]
    words = tuple(dict.fromkeys(told))
    return Part(
        topics=tuple(known.same.get(stem, stem) for word in read.words for stem in known.stems(word)),
        words=words,
        rarities=tuple(map(_rarity, words)),
        names=tuple(dict.fromkeys(stem for stem in names if stem not in known.glue and stem not in _NO_NAMES)),
        narrow=frozenset(read.acts) - things - wide,
        things=things,
        wide=wide,
        paths=read.paths,
    )


@lru_cache(maxsize=1024)
def _parts_of(text: str) -> tuple[dict[str, Part], bool]:
    _, plain = times_in(stripped(text)[0].strip(" .!") or text)
    when, then, _, negative = _split(plain)
    whole, demand = _part_of(plain), _part_of(then)
    return {"when": _part_of(when), "then": whole if demand == whole else demand, "all": whole}, negative


def _in_common(text: str, now: Situation, *, timed: bool) -> list[str]:
    """Returns the acts, paths and topics shared with the situation, if the model finds them enough; else nothing."""
    parts = _parts_of(text)[0]
    rule, when = parts["all"], parts["when"]
    near = any(now.kin(each).nearest for each in (*rule.words, *rule.topics))
    done = rule.narrow | rule.things | rule.wide
    if not (timed or near or rule.paths or done & now.done) or not (
        _is_of_these_files(when, now) or applies(evidence(text, now, timed=timed))
    ):
        return []
    acts = sorted(done & now.done, key=list(tables().acts).index)
    narrow = [name for name in acts if name not in rule.wide]
    path = now.path_in(rule.paths)
    shared = [each for each in dict.fromkeys(rule.topics) if each in now.topics or each in now.said]
    related = "" if narrow or path or shared else _related(rule, now)
    return [
        *(f"act {name}" for name in narrow or acts),
        *([f"path {path}"] if path else []),
        *(f"topic {each}" for each in shared),
        *([f"related {related}"] if related else []),
    ] or ["wording"]


def _is_of_these_files(when: Part, now: Situation) -> bool:
    """Whether a condition names nothing but files ("in Go files"), and the call changes such a file."""
    only_files = when.paths and not (when.topics or when.narrow or when.things)
    return bool(only_files and "edit" in now.done and now.path_in(when.paths))


def _related(rule: Part, now: Situation) -> str:
    found = [topics().shared(each, where) for each in rule.words for where in (now.touched, now.said_touched)]
    return ", ".join(dict.fromkeys(filter(None, found)))


def evidence(text: str, now: Situation, *, timed: bool) -> dict[str, float]:
    """Measures what a rule and a situation have in common; the keys name the weights in `data/rules.json`."""
    parts, negative = _parts_of(text)
    limit = _limit_of(text)
    found: dict[str, float] = {
        "timed": timed,
        "turn": not now.tool,
        "reads": now.only_reads,
        "forbids": negative,
        "command": bool(now.command),
        "edits": "edit" in now.done,
        "elsewhere": now.is_elsewhere(parts["all"].topics),
        "other acts": len(now.narrow - parts["all"].narrow - parts["all"].things),
        "about this answer": not now.tool and speech("answers").search(text) is not None,
        "answers elsewhere": bool(now.tool) and speech("answers").search(text) is not None,
        "condition": bool(parts["when"].words or parts["when"].narrow),
        "beyond": limit is not None and any(limit(each) for each in now.amounts),
        "not beyond": limit is not None and bool(now.amounts) and not any(limit(each) for each in now.amounts),
    }
    compared: dict[int, dict[str, float]] = {}  # the demand is often all of the rule
    for name, part in parts.items():
        if part.words or part.topics or part.paths or part.wide:
            own = compared[id(part)] = compared.get(id(part)) or _compared(part, now)
            found |= {f"{name}: {key}": each for key, each in own.items() if each}
    return found


def _compared(part: Part, now: Situation) -> dict[str, float]:
    words, size = part.topics, max(1, len(part.topics))
    shared, said = [each for each in words if each in now.topics], [each for each in words if each in now.said]
    kin = [now.kin(each) for each in part.words]
    near = [each.nearest for each in kin]
    rare = part.rarities
    named = [each for each in part.names if each in now.topics or each in now.said]
    path = bool(part.paths and now.path_in(part.paths))
    return {
        "topics": min(len(words), 8),
        "shared": len(shared),
        "shared rare": sum(map(_rarity, shared)),
        "shared share": len(shared) / size,
        "said": len(said),
        "said rare": sum(map(_rarity, said)),
        "said share": len(said) / size,
        "near": sum(near),
        "nearest kin": max((each for each in near if each < 1), default=0.0),
        "near share": sum(near) / max(1, len(near)),
        "near rare share": sum(map(operator.mul, rare, near)) / (sum(rare) or 1.0),
        "kin of call": sum(each.call for each in kin if each.call < 1),
        "nearest of call": max((each.call for each in kin if each.call < 1), default=0.0),
        "kin of said": sum(each.said for each in kin if each.said < 1),
        "nearest of said": max((each.said for each in kin if each.said < 1), default=0.0),
        "sections": sum(each.section for each in kin) / max(1, len(near)),
        "tool": sum(each.tool for each in kin),
        "names": len(part.names),
        "named": len(named),
        "unnamed": bool(part.names and not named),
        "acts": len(part.narrow),
        "acts done": len(part.narrow & now.done),
        "acts mentioned": len(part.narrow & now.mentioned),
        "things": len(part.things),
        "things done": len(part.things & now.done),
        "things mentioned": len(part.things & now.mentioned),
        "wide acts": len(part.wide),
        "wide acts done": len(part.wide & now.done),
        "paths": bool(part.paths),
        "path": path,
        "only path": path and not part.topics,
    }


_NAME = lazy_pattern(r"(?<=[a-z,;:'&] )[A-Z][\w'-]+(?: [A-Z][\w'-]+)*")
_NO_NAMES = frozenset(
    ["i", "english", "german", "french", "spanish", "italian", "british", "american", "dutch", "polish"]
)
_MONEY = r"(?:[£$€]|eur\w*|usd|gbp|chf|pounds?|quid|dollars?|bucks)"
_BEYOND = lazy_pattern(
    r"\b(over|above|more than|exceed\w*|beyond|at least|under|below|less than|up to)\s+"
    rf"({_MONEY})?\s*(\d[\d.,]*)\s*(k\b)?\s*({_MONEY})?",
    re.IGNORECASE,
)
_AMOUNT = lazy_pattern(rf"{_MONEY}\s*(\d[\d.,]*)\s*(k\b)?|(\d[\d.,]*)\s*(k\b)?\s*{_MONEY}", re.IGNORECASE)
_AMOUNT_KEYS = lazy_pattern(r"amount|price|total|cost|sum|value", re.IGNORECASE)


@lru_cache(maxsize=1024)
def _limit_of(text: str) -> Callable[[float], bool] | None:
    """The amount of money that a rule begins or ends at, as a test of amounts."""
    found = _BEYOND.search(text)
    if found is None or not (found[2] or found[5]):
        return None
    limit = _number(found[3], found[4])
    if found[1].lower() in ("under", "below", "less than", "up to"):
        return lambda each: each < limit
    return lambda each: each > limit


def _number(digits: str, thousand: str | None) -> float:
    """Reads "1,200.50" and "1.200,50"; a part of two digits behind the last mark is a fraction."""
    plain = re.sub(r"[.,](?=\d{3}(?!\d))", "", digits.rstrip(".,")).replace(",", ".")
    try:
        return float(plain) * (1000 if thousand else 1)
    except ValueError:
        return 0.0


def applies(found: Mapping[str, float]) -> bool:
    """Whether the weighted evidence says that a rule applies."""
    known = linear.numbers(WEIGHTS, "rules")["fired"]
    weights = known["weights"]
    return bool(sum(each * weights.get(name, 0.0) for name, each in found.items() if each) + known["bias"] > 0)


def _rarity(stem: str) -> float:
    known = linear.numbers(WEIGHTS, "rules")["rarity"]
    return float(known.get(stem, known[""]))


def _named(trigger: Trigger, now: Situation) -> str:
    """Returns the tool or command of this call that the trigger names; else ""."""
    for pattern in trigger.tools:
        if now.tool and fnmatch(now.tool, pattern):
            return f"tool {now.tool}"
    parts = [" ".join(part.split()) for part in re.split(r"[;&|\n]+", now.command)]
    for pattern in trigger.commands:
        if any(fnmatch(part, each) for part in parts for each in (f"{pattern}*", f"* {pattern}*")):
            return f"command {pattern}"
    return ""


def _fits(path: str, glob: str) -> bool:
    name, wanted = path.casefold(), glob.casefold()
    return fnmatch(name, wanted) or ("/" not in wanted and fnmatch(os.path.basename(name), wanted))


def _strings(document: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    for key, each in document.items():
        if isinstance(each, str):
            yield str(key), each
        elif isinstance(each, dict):
            yield from _strings(each, str(key))
        elif isinstance(each, list | tuple):
            yield from _strings(
                {f"{key}": " ".join(map(str, each))}
                if all(isinstance(one, str) for one in each)
                else {str(at): one for at, one in enumerate(each)},
                name,
            )
        elif each is not None and not isinstance(each, bool):
            yield str(key), str(each)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def window_as_dict(window: Window) -> dict[str, Any]:
    """Converts a window to the form of `rules.json`, which a person can edit; the defaults are left out."""
    told: dict[str, Any] = {"days": [DAYS[day] for day in window.days]} if window.days else {}
    if (window.start, window.end) != (0, 1440):
        told |= {"from": _hours(window.start), "to": _hours(window.end)}
    told |= {"months": [_MONTHS[month - 1] for month in window.months]} if window.months else {}
    return told | ({"outside": True} if window.outside else {})


def window_of(record: Mapping[str, Any]) -> Window:
    """Reads a window from `rules.json`; the inverse of `window_as_dict`."""

    def minute(text: str) -> int:
        hours, _, minutes = text.partition(":")
        return int(hours) * 60 + int(minutes or 0)

    days = tuple(DAYS.index(str(day)[:3].lower()) for day in record.get("days", ()))
    start, end = minute(str(record.get("from", "0:00"))), minute(str(record.get("to", "24:00")))
    months = tuple(_MONTHS.index(str(month)[:3].lower()) + 1 for month in record.get("months", ()))
    return Window(days=days, start=start, end=end, outside=bool(record.get("outside")), months=months)
