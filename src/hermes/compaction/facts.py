"""Finds the facts that a summary must not lose, and checks whether it contains them.

The work is bounded: the beginning is read, then messages from the newest backwards. The search for names stops when
there are enough; rules, decisions and questions are collected further back. Pointers still lead to what is not read.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from functools import cache, cached_property
from heapq import merge
from itertools import accumulate, chain, islice, pairwise, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from hermes.base.text import read_arguments
from hermes.base.tokens import estimate
from hermes.compaction.messages import at_most, calls_of, one_line, text_of
from hermes.safety.secrets import Beginnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.compaction.messages import Message

    Finding = tuple[str, str]
    Times = dict[tuple[str, str], int]

# The kinds of facts, the most important first; when not all fit into a block, the last are left out.
ORDER = ("constraint", "decision", "open", "question", "identifier", "url", "path", "error", "number")
SENTENCES = ("constraint", "decision", "question", "open", "error")
# The share of each source in the names, numbers and errors that are looked for; the person's own words count most.
_SHARES = {"user": 0.5, "assistant": 0.25, "call": 0.15, "result": 0.1}
# Ranks a fact by kind and source. Kinds come in groups of four: within a group the source decides first, then the kind;
# each step away from the person costs a fact as much as the next group.
_IMPORTANCE = {
    (kind, source): len(ORDER) * (rank // 4 + nearness) + rank
    for rank, kind in enumerate(ORDER)
    for nearness, source in enumerate(_SHARES)
}
# Share of "kept exactly" that questions leave to the newest names. Without it, a conversation full of questions kept
# none of the names in 1,000 varied messages.
NAMES_SHARE = 1 / 3
_SENTENCE = 280  # characters of one sentence that are kept
_OLDEST = 40  # first messages, which are always read: rules are often stated early
_MESSAGE = 6_000  # characters read of what a person or the assistant wrote
_RESULT = 300  # characters read at each end of a tool result
_WORDS_PER_MESSAGE = 40  # names and numbers taken from one message; a quarter of that from a tool result
_TOKENS_OF_QUESTIONS = 8  # of questions per name that is looked for; a block has no room for more
_READ = 2_000_000  # characters read of one history
_READ_FOR_RULES = 500_000  # characters read of it once there are enough names and questions
_TOGETHER = 256  # messages that are searched at once
_LONG_WORD = 80  # characters; such a word counts as one with digits, without a search
_SHORTEST_NAME = 3
_SHORTEST_CODE = 5  # capitals: ENOSPC is a code, USA is not
# ASCII names and numbers inside a word of a script without blanks.
_EMBEDDED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#\\%+~-]*[A-Za-z0-9]|\d+")
_FILE_NAME = re.compile(r"^[\w.@~+-]*[A-Za-z_][\w.@~+-]*\.[A-Za-z][A-Za-z0-9]{0,7}$")
_ODD = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_/@#\\."
_NOT_ODD = bytes(sorted(set(range(1, 256)) - set(f"{_ODD}?".encode())))  # "?" stands for what is not ASCII
_ASCII = bytes(range(128))
# From an odd character (digit, capital, _ / @ # \ or full stop) to the end of its word. A capital that begins a word
# and a full stop that ends one do not count: prose is full of them.
_ODD_ENDING = re.compile(r"[0-9A-Z_/@#\\.](?:(?<![A-Z.])|(?<=\S[A-Z])|(?<=\.)(?=\S))\S*")
_DIGIT = re.compile("[0-9]")
_ERRORS = ("rror", "ERROR", "xception", "Traceback", "FAILED", "ailed", "错误", "失败", "エラー", "ошибка")
# Full-width and other punctuation is written by name or code, so that it is not mistaken for its ASCII counterpart.
_QUESTION_MARKS = ("?", "\N{FULLWIDTH QUESTION MARK}", "\N{ARABIC QUESTION MARK}")
# The full stops of East Asian scripts end a sentence in any case, other marks only before a blank.
_FOREIGN_STOPS = "\u3002\uff01\uff1f"
_SENTENCE_MARKS = re.compile("[.!?\u061f\u3002\uff01\uff1f\\n](?:(?<![.!?\u061f])|(?=\\s|$))")
# Punctuation around a word: ASCII, typographic quotes and dots, East Asian.
TRIMMED = (
    ".,;:!?()[]{}<>\"'`*|=\u201c\u201d\u2018\u2019\u00ab\u00bb\u2026"
    "\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f\uff08\uff09\u300c\u300d\u300e\u300f\u3010\u3011\u300a\u300b"
)


def _cues() -> dict[str, list[str]]:
    """Reads `text/cues.txt`: by kind, the words that mark a sentence as a rule, a decision or an open matter."""
    with open(os.path.join(os.path.dirname(__file__), "text", "cues.txt"), encoding="utf-8") as file:
        rows = [line.split("\t") for line in file.read().splitlines() if "\t" in line]
    return {kind: [words for other, words in rows if other == kind] for kind, _ in rows}


def _forms(words: str) -> frozenset[str]:
    plain = words.split()
    return frozenset(plain) | {word.capitalize() for word in plain} | {word.upper() for word in plain}


_CUES = _cues()
CUE_WORDS = {kind: _forms(" ".join(_CUES[kind])) for kind in ("constraint", "decision", "open")}
_ANY_CUE_WORD = frozenset().union(*CUE_WORDS.values())
_CUE_PIECES = {kind: tuple(" ".join(_CUES[f"{kind} pieces"]).split()) for kind in CUE_WORDS}
_FOREIGN_CUE = re.compile("|".join(chain.from_iterable(_CUE_PIECES.values())))
_FOREIGN_LETTERS = "".join({letter for letter in "".join(_ANY_CUE_WORD) if not letter.isascii()})
_FOREIGN_SIGNS = (_FOREIGN_CUE, re.compile(f"[{_FOREIGN_LETTERS}]"))  # searching for both in one is much slower
_CUE_PLACES = Beginnings(*_CUES["places"])
_ERROR_PLACES = Beginnings("rror|aceb", "xcep|aile")  # four characters of each of the errors in ASCII


class Fact(NamedTuple):
    """A fact to keep, word for word, with the position and source of its message."""

    kind: str
    text: str
    position: int
    source: str  # user, assistant, call or result


def find_facts(messages: Sequence[Message], enough: int, *, thorough: bool = False) -> list[Fact]:
    """Finds facts, each text once, in the order of the messages: about `enough` names, all rules, the newest questions.

    When there are more questions than a block has room for, fewer names are looked for, as they would not fit.
    `thorough` looks further back for rules, at a cost that does not count beside the answer of a model.
    """
    search = _Search(enough)
    oldest = min(_OLDEST, len(messages))
    positions = [*range(oldest), *range(len(messages) - 1, oldest - 1, -1)]
    unread = _READ
    for start in range(0, len(positions), _TOGETHER):
        if not (thorough or search.wants_more):
            unread = min(unread, _READ_FOR_RULES)
        some = positions[start : start + _TOGETHER]
        roles = [messages[at].get("role") for at in some]
        by_person = _Texts(messages, [at for at, role in zip(some, roles, strict=True) if role == "user"])
        by_model = _Texts(messages, [at for at, role in zip(some, roles, strict=True) if role not in ("user", "tool")])
        from_tools = some if search.wants("result") else ()
        results = _Texts(messages, [at for at, role in zip(from_tools, roles, strict=False) if role == "tool"])
        unread -= len(by_person.text) + len(by_model.text) + len(results.text)
        if unread < 0:
            break
        # A question of the assistant is not open once it has continued, but what it decided counts as a decision.
        search.add_sentences("user", by_person, _QUESTION_MARKS)
        search.add_sentences("assistant", by_model, ())
        search.add_names("user", by_person, _names(by_person))
        search.add_names("assistant", by_model, _names(by_model))
        search.add_names("call", by_model, _names_in_calls(messages, by_model))
        search.add_names("result", results, _names_in_results(results))
    return sorted(search.found.values(), key=lambda fact: fact.position)


def facts_in(text: str) -> list[Fact]:
    """Finds the facts of an earlier summary, which replaced older messages."""
    found = dict.fromkeys([*sentences_of(text), *words_of(text)])
    return [Fact(kind, each, -1, "assistant") for kind, each in found]


def by_importance(facts: Iterable[Fact]) -> list[Fact]:
    """Sorts facts: what people said before what tools said, rules and decisions before numbers, newer before older."""
    return sorted(facts, key=lambda fact: (_IMPORTANCE[fact.kind, fact.source], -fact.position))


def words_of(text: str) -> Iterator[Finding]:
    """Yields (kind, word) for every identifier, path, address and number in a text.

    All of them contain an odd character, so the search skips prose without examining each word.
    """
    end = 0
    for found in _ODD_ENDING.finditer(text):
        start, end = end, found.end()
        word = text[start:end].rsplit(None, 1)[-1].strip(TRIMMED)
        if word.isalpha():
            if not word.islower() and not word[1:].islower() and _is_name(word):
                yield "identifier", word
        else:
            for piece in (word,) if word.isascii() else _EMBEDDED.findall(word):
                if kind := _kind(piece):
                    yield kind, piece


def sentences_of(text: str, *, questions: bool = True, cued: bool = True) -> list[Finding]:
    """Lists (kind, sentence) for every rule, decision, open matter and, with `questions`, question in a text.

    `cued` is False when the caller knows that the text contains no cue word.
    """
    cues = _cues_in(text) if cued else []
    telling = (*cues, *_QUESTION_MARKS) if questions else cues
    found: list[Finding] = []
    if telling and _has_any(text, telling):  # most have none
        for line in text.split("\n"):  # a sentence ends with its line
            if _has_any(line, telling):
                for sentence in _sentences(line):
                    kind = _sentence_kind(sentence) if _has_any(sentence, cues) else None
                    if kind is None and questions and sentence.endswith(_QUESTION_MARKS):
                        kind = "question"
                    if kind is not None:
                        found.append((kind, one_line(sentence, _SENTENCE)))
    return found


def _cues_in(text: str) -> list[str]:
    if text.isascii():
        return list(_ANY_CUE_WORD.intersection(text.split()))
    words = text
    for stop in _FOREIGN_STOPS:  # after these, a sentence may begin without a blank
        words = words.replace(stop, " ")
    return [*_FOREIGN_CUE.findall(text), *_ANY_CUE_WORD.intersection(words.split())]


def ends_of(text: str) -> str:
    """The beginning and end of a tool's output, where it usually says how it went."""
    return text if len(text) <= 2 * _RESULT else f"{text[:_RESULT]}\n{text[-_RESULT:]}"


def failure_in(text: str) -> str:
    """The line that reports an error; "" without one."""
    for word in _ERRORS:
        if word in text:
            return next(one_line(line, _SENTENCE) for line in text.splitlines() if word in line)
    return ""


def _read(message: Message) -> str:
    """What is read of a message: of a long text both ends."""
    text = text_of(message)
    if message.get("role") == "tool":
        return ends_of(text)
    return text if len(text) <= _MESSAGE else text[: _MESSAGE * 2 // 3] + "\n" + text[-_MESSAGE // 3 :]


class _Texts:
    """Texts of messages, put together so that a search runs over all of them at once."""

    def __init__(self, messages: Sequence[Message], positions: Sequence[int]) -> None:
        self.positions = positions  # of their messages
        contents = [messages[at].get("content") for at in positions]
        self._texts = [  # most are short, and need no call
            text if type(text) is str and len(text) <= 2 * _RESULT else _read(messages[at])
            for at, text in zip(positions, contents, strict=True)
        ]

    def __getitem__(self, number: int) -> str:
        return self._texts[number]

    @cached_property
    def text(self) -> str:
        return "\n".join(self._texts)

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate([len(text) + 1 for text in self._texts]))

    def number(self, place: int) -> int:
        """The number of the text at this place."""
        return bisect_right(self._ends, place)

    def holding(self, pieces: Iterable[str]) -> set[int]:
        """The numbers of the texts that contain one of these pieces."""
        found = set()
        for piece in pieces:
            place = self.text.find(piece)
            while place >= 0:
                at = self.number(place)
                found.add(at)
                place = self.text.find(piece, self._ends[at])
        return found

    def cued(self) -> set[int]:
        """The numbers of the texts that may contain a cue word."""
        # A word begins after a blank, so one is put before the first text; that moves each place by one.
        found = {self.number(place) for place in _CUE_PLACES.places(f"\n{self.text}".encode("ascii", "replace"))}
        foreign = self._foreign()
        if _has_foreign_cue("".join([self._texts[number] for number in foreign])):
            found.update([number for number in foreign if _has_foreign_cue(self._texts[number])])
        return found

    def failed(self) -> set[int]:
        """The numbers of the texts that may report an error."""
        found = {self.number(place) for place in _ERROR_PLACES.places(self.text.encode("ascii", "replace"))}
        return found.union(self._foreign())

    def odd(self) -> list[int]:
        """The numbers of the texts with odd characters besides a capital that begins and a full stop that ends them."""
        signs = "\0".join(self._texts).encode("ascii", "replace").translate(None, _NOT_ODD).split(b"\0")
        if len(signs) != len(self._texts):  # one of them contains the NUL that separates them
            return list(range(len(self._texts)))
        return [
            number
            for number, (odd, text) in enumerate(zip(signs, self._texts, strict=True))
            if odd and len(odd) > (text[0] in _ODD) + (text[-1] in _ODD)
        ]

    def _foreign(self) -> list[int]:
        if self.text.isascii():
            return []
        return [number for number, text in enumerate(self._texts) if not text.isascii()]


def _has_foreign_cue(text: str) -> bool:
    letters = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    return any(sign.search(letters) for sign in _FOREIGN_SIGNS)


class _Search:
    """The facts found so far, and whether more of a kind would find room."""

    def __init__(self, enough: int) -> None:
        self.found: dict[str, Fact] = {}
        self._enough = enough
        self._named: Counter[str] = Counter()
        self._room = enough * _TOKENS_OF_QUESTIONS

    def wants(self, source: str) -> bool:
        """Whether more names, numbers and errors of a source are looked for."""
        return self._named[source] < self._enough * _SHARES[source] * (1 if self._room > 0 else NAMES_SHARE)

    @property
    def wants_more(self) -> bool:
        """Whether anything but rules is looked for."""
        return self._room > 0 or any(map(self.wants, _SHARES))

    def add_sentences(self, source: str, texts: _Texts, marks: Iterable[str]) -> None:
        """Adds the rules and decisions in these texts, and the questions that end with one of the marks."""
        cued, asking = texts.cued(), texts.holding(marks)
        for number in sorted(cued | asking):
            asked = number in asking and self._room > 0
            position = texts.positions[number]
            for kind, text in sentences_of(texts[number], questions=asked, cued=number in cued):
                if text not in self.found:
                    self.found[text] = Fact(kind, text, position, source)
                    if kind == "question" and position >= _OLDEST:  # the oldest rank last and do not count here
                        self._room -= at_most(text)

    def add_names(self, source: str, texts: _Texts, findings: Iterator[tuple[int, str, str]]) -> None:
        """Adds names, numbers and errors, as (number of the text, kind, text), while more are looked for."""
        while self.wants(source) and (finding := next(findings, None)):
            number, kind, text = finding
            if text not in self.found:
                self.found[text] = Fact(kind, text, texts.positions[number], source)
                self._named[source] += 1


# Names and numbers, and the errors of tools, as (number of the text, kind, text).


def _names(texts: _Texts, most: int = _WORDS_PER_MESSAGE) -> Iterator[tuple[int, str, str]]:
    for number in texts.odd():
        for kind, word in islice(words_of(texts[number]), most):
            yield number, kind, word


def _names_in_calls(messages: Sequence[Message], texts: _Texts) -> Iterator[tuple[int, str, str]]:
    for number, position in enumerate(texts.positions):
        for _, _, arguments in calls_of(messages[position]):
            for kind, word in words_of(arguments[:_RESULT].replace('"', " ").replace("\\n", " ")):
                if kind != "number":
                    yield number, kind, word


def _names_in_results(texts: _Texts) -> Iterator[tuple[int, str, str]]:
    failures = ((number, "error", failure_in(texts[number])) for number in sorted(texts.failed()))
    errors = (each for each in failures if each[2])
    names = (each for each in _names(texts, _WORDS_PER_MESSAGE // 4) if each[1] != "number")
    return merge(errors, names, key=itemgetter(0))


# The ledger: which files tools changed and which commands they ran, taken from the calls, not from a model.

_CHANGED, _RAN = "changed", "ran"
_CHANGING = re.compile("write|edit|patch|create|delete|remove|rename|move|replace|insert", re.IGNORECASE)
_PATHS = ("path", "file_path", "filename", "file", "target_file", "notebook_path", "new_path", "destination")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_ENTRY = re.compile(r"^- (changed|ran): (.+?)(?: \((\d{1,9}) times\))?$")
_MORE = re.compile(r"^- (changed|ran) before these: (\d{1,9})$")
_AROUND = 80  # characters shown on each side of a name that is used again
_COMMAND = 200  # characters of a command that are shown
_MOST_DONE = 10_000  # newest messages of which a ledger is made; a conversation in use is compacted long before that
_VERDICT = 200  # first characters of a result, in which our tools report success


def ledger(earlier: str, messages: Sequence[Message], room: int) -> str:
    """Lists each changed file and each command in about `room` tokens, the newest last.

    `earlier` is the ledger of an earlier block. If not all fit, files take precedence over commands; the rest is only
    counted. Of a huge history, such as an imported one, only the newest messages are read; the listing of
    `hermes sessions show` reads all.
    """
    times: Times = {}
    more = {_CHANGED: 0, _RAN: 0}
    for line in earlier.splitlines():
        if found := _MORE.match(line):
            more[found[1]] += int(found[2])
        elif found := _ENTRY.match(line):
            times[found[1], found[2]] = times.pop((found[1], found[2]), 0) + int(found[3] or 1)
    times = done_in(messages[-_MOST_DONE:], times)
    shown: list[str] = []
    for verb, left_out in more.items():
        done = [(text, count) for (which, text), count in times.items() if which == verb]
        lines: list[str] = []  # the newest first
        for text, count in reversed(done):
            line = ledger_line(verb, text, count)
            if (cost := at_most(line)) > room:
                break
            room -= cost
            lines.append(line)
        if hidden := left_out + len(done) - len(lines):
            shown.append(f"- {verb} before these: {hidden}")
        shown += reversed(lines)
    return "\n".join(shown)


def done_in(messages: Sequence[Message], before: Times | None = None) -> Times:
    """Counts how often each file was changed ("changed", path) and each command run ("ran", command), newest last."""
    times = dict(before or {})
    for done in _done_by(messages):
        times[done] = times.pop(done, 0) + 1
    return times


def ledger_line(verb: str, text: str, times: int) -> str:
    """A line of the ledger for a file or command."""
    return f"- {verb}: {text}" + (f" ({times} times)" if times > 1 else "")


@cache
def _may_change(tool: str) -> bool:
    return _CHANGING.search(tool) is not None


def _done_by(messages: Sequence[Message]) -> Iterator[Finding]:
    """Yields ("changed", path) or ("ran", command) for each call that was not refused."""
    for at in [at for at, message in enumerate(messages) if "tool_calls" in message]:
        calls = calls_of(messages[at])
        for number, tool, arguments in calls:
            if not (_may_change(tool) or '"command"' in arguments or '"cmd"' in arguments):
                continue
            results = messages[at + 1 : at + 1 + len(calls)]
            result = next((text_of(each)[:_VERDICT] for each in results if each.get("tool_call_id") == number), "")
            failed = '"success": false' in result
            given = read_arguments(arguments)[0] or {}
            command = given.get("command") or given.get("cmd")
            # A command with an exit code ran even if it failed.
            if command and not (failed and "exit_code" not in result):
                words = command if isinstance(command, list) else [command]
                yield _RAN, one_line(" ".join(map(str, words)), _COMMAND)
            elif not (command or failed):
                paths = [given[name] for name in _PATHS if name in given and isinstance(given[name], str)]
                if not paths:
                    patch = "\n".join(map(str, given.values()))
                    paths = [path for pair in _PATCHED.findall(patch) for path in pair]
                for path in filter(None, paths):
                    yield _CHANGED, one_line(path, _COMMAND)


def used_again(since: Sequence[Message], gone: Mapping[int, Message], staying: Sequence[Message]) -> list[str]:
    """A line for each name, path and command used `since` that occurs in what is `gone` but not in what stays.

    The line quotes the last occurrence, with the id of that message.
    """
    spoken = [message for message in since if message.get("role") in ("user", "assistant")]
    names = [word for message in spoken for kind, word in words_of(_whole(message)) if kind not in ("number", "error")]
    names += [what for did, what in done_in(since) if did == _RAN]
    if not names:
        return []
    held = Held("\n".join(map(_whole, staying)))
    texts = [(number, _whole(gone[number])) for number in sorted(gone, reverse=True)]
    lines = []
    for name in dict.fromkeys(name for name in names if not held.has(name)):
        for number, text in texts:
            if (at := text.find(name)) >= 0:
                around = text[max(at - _AROUND, 0) : at + len(name) + _AROUND]
                lines.append(f"- used again: {name} [{number}] “{one_line(around, _SENTENCE)}”")
                break
    return lines


def _whole(message: Message) -> str:
    """The text of a message and the arguments of its calls."""
    calls = calls_of(message) if message.get("tool_calls") else ()
    given = [arguments.replace('"', " ").replace("\\n", " ") for _, _, arguments in calls]
    return "\n".join([text_of(message), *given])


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_MARKS.finditer(text):
        if sentence := text[start : found.end()].strip():
            yield sentence
        start = found.end()
    if sentence := text[start:].strip():
        yield sentence


def _has_any(text: str, pieces: Iterable[str]) -> bool:
    for piece in pieces:  # noqa: SIM110 - several times faster than any() with a generator
        if piece in text:
            return True
    return False


def _sentence_kind(sentence: str) -> str | None:
    words = sentence.split()
    for kind, cues in CUE_WORDS.items():
        if not cues.isdisjoint(words):
            return kind
    if not sentence.isascii():
        for kind, pieces in _CUE_PIECES.items():
            if any(piece in sentence for piece in pieces):
                return kind
    return None


def _kind(word: str) -> str | None:
    """The kind of an ASCII word; None when it is not worth keeping."""
    if word.isidentifier() and word[0] != "_" and not word.isalpha():  # most are, so check this first
        return "identifier" if len(word) >= _SHORTEST_NAME else None
    if "://" in word:
        return "url"
    has_digit = len(word) >= _LONG_WORD or _DIGIT.search(word) is not None
    has_letter = word.lower() != word.upper()
    if has_digit and not has_letter:
        return "number" if len(word) > 1 else None
    if len(word) < _SHORTEST_NAME or not (has_letter or has_digit):
        return None
    if "/" in word or "\\" in word or ("." in word and _FILE_NAME.match(word)):
        return "path"
    return "identifier" if has_digit or "_" in word or "@" in word or "#" in word else None


def _is_name(word: str) -> bool:
    """Whether a word of letters is a name in code: `getUser` or `ENOSPC`, but not `Title` or `USA`."""
    if word.isupper():
        return len(word) >= _SHORTEST_CODE
    return any(a.islower() and b.isupper() for a, b in pairwise(word))


# When a summary is rejected.
_SHORTEST = 24  # characters; nothing worth compacting can be summarised in less
_NO_COINCIDENCE = 6  # characters from which on a name inside a longer word is not a coincidence
_PHRASE = 6  # words, or twice as many characters in scripts without blanks
_LOOP_FROM = 60  # phrases; shorter texts are not judged
_LOOP_BELOW = 0.35  # share of distinct phrases; prose and lists stay above 0.8
_REPEATED_LINE = 5  # times; a summary with such a line loops if the line is also a third of all lines
_REFUSAL = re.compile(rf"^\W*(?:{'|'.join(_CUES['refusal'])})", re.IGNORECASE)
_REFUSAL_UP_TO = 1_200  # characters; a long text that begins with "sorry" is about one
_HEADING = re.compile(r"^#{1,4} ", re.MULTILINE)
# Endings at which no sentence stops: an open bracket, a comma, an article, a conjunction.
_UNFINISHED = re.compile(r"(?:[,;:(\[{=+\-/&]|\b(?:and|or|the|a|an|of|to|in|with|for|because|that))\s*$", re.IGNORECASE)
_INVENTED_FROM = 6  # identifiers; fewer may be slips
_PLURAL = {"identifier": "identifiers", "url": "addresses", "path": "paths", "number": "numbers"}
_KINDS = {word: kind for kind, word in _PLURAL.items()}


def fault(summary: str, max_tokens: int, source: str) -> str:
    """Why a summary must not be used; "" when it may. Its names are checked against `source`, the prompt."""
    text = summary.strip()
    if len(text) < _SHORTEST:
        return "it is empty"
    if len(text) < _REFUSAL_UP_TO and _REFUSAL.match(text) and not _HEADING.search(text):
        return "the model refused"
    if _loops(text):
        return "it repeats itself"
    tokens = estimate(text)
    if tokens > 2 * max_tokens:
        return f"it is too long: about {tokens:,} tokens, {max_tokens:,} were asked for"
    if _is_cut(text, tokens, max_tokens):
        return "it ends in the middle"
    return _invented(text, source)


def missing(facts: Iterable[Fact], held: Held) -> Iterator[Fact]:
    """Yields the facts that the summary does not contain word for word."""
    return (fact for fact in facts if not held.has(fact.text))


class Held:
    """The words of a summary, indexed so that hundreds of facts can be looked up quickly."""

    def __init__(self, summary: str) -> None:
        in_order = summary.split()
        self._words = set(in_order)
        self._flat = " ".join(in_order)
        # A name may be part of a longer word, but not of a plain one.
        odd = [word for word in self._words if not (word.isalpha() and word.islower())]
        self._odd = "\n".join(odd)
        self._trimmed = {word.strip(TRIMMED) for word in odd}  # plain words are in `_words` already
        # Names and numbers between the letters of scripts that have no blanks.
        foreign = " ".join([word for word in odd if not word.isascii()])
        self._embedded = {word for _, word in words_of(foreign)}

    def has(self, text: str) -> bool:
        """Whether the summary contains a fact word for word."""
        if text in self._words:
            return True
        if " " in text:
            return text in self._flat
        if len(text) >= _NO_COINCIDENCE:  # long enough to count inside another word
            return text in self._odd
        return text in self._trimmed or text in self._embedded  # "1420" does not contain the fact "42"


def keep_exactly(earlier: str, facts: Sequence[Fact], held: Held, room: int, for_names: float = NAMES_SHARE) -> str:
    """Makes the "kept exactly" section: the facts of an earlier block in about `room` tokens, then missing facts.

    New facts get the rest, and at least half of the room, so that old ones cannot displace them. If questions would
    fill the section, a share `for_names` is reserved for the newest names.
    """
    chosen: dict[tuple[str, str], None] = {}
    left = max(_choose(_parse(earlier), room, chosen)[0], room / 2)
    ranked = by_importance(facts)
    first = next((at for at, fact in enumerate(ranked) if fact.kind == "question"), len(ranked))
    left, all_fit = _choose(_missing(ranked[:first], held), left, chosen)
    if all_fit:
        questions = list(takewhile(lambda fact: fact.kind == "question", ranked[first:]))
        share = room * for_names
        left, all_fit = _choose(_missing(questions, held), left - share, chosen)
        left += share
        if all_fit:
            _choose(_missing(ranked[first + len(questions) :], held), left, chosen)
        elif share:
            names = sorted([fact for fact in facts if fact.kind in _PLURAL], key=lambda fact: -fact.position)
            left, _ = _choose(_missing(names, held), left, chosen)
            _choose(_missing(questions, held), left, chosen)
    return _render(chosen)


def _missing(facts: Iterable[Fact], held: Held) -> Iterator[tuple[str, str]]:
    return ((fact.kind, fact.text) for fact in missing(facts, held))


def _choose(
    candidates: Iterable[tuple[str, str]], room: float, chosen: dict[tuple[str, str], None]
) -> tuple[float, bool]:
    """Takes candidates until one no longer fits; returns the remaining room, and whether all of them fit."""
    for kind, text in candidates:
        if (kind, text) not in chosen:
            cost = at_most(text) + (2 if kind in SENTENCES else 0)
            if cost > room:
                return room, False
            room -= cost
            chosen[kind, text] = None
    return room, True


def count_kept(section: str) -> int:
    """How many facts a "kept exactly" section contains."""
    return sum(1 for _ in _parse(section))


def _parse(section: str) -> list[tuple[str, str]]:
    found = []
    for line in section.splitlines():
        name, colon, rest = line.removeprefix("- ").partition(": ")
        if not colon:
            continue
        if name in _KINDS:
            found += [(_KINDS[name], word) for word in rest.split()]
        elif name in ORDER:
            found.append((name, rest))
    return found


def _render(chosen: Iterable[tuple[str, str]]) -> str:
    by_kind: dict[str, list[str]] = {}
    for kind, text in chosen:
        by_kind.setdefault(kind, []).append(text)
    lines = []
    for kind in ORDER:
        texts = by_kind.get(kind, [])
        if kind in SENTENCES:
            lines += [f"- {kind}: {text}" for text in texts]
        elif texts:
            lines.append(f"- {_PLURAL[kind]}: {' '.join(texts)}")
    return "\n".join(lines)


def _loops(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 12]  # noqa: PLR2004 - not "-" or "none"
    if lines:
        most = max(map(lines.count, set(lines[-40:])))
        if most >= _REPEATED_LINE and most * 3 > len(lines):
            return True
    words = text.split()
    units: Sequence[str] = words if len(words) * 12 > len(text) else "".join(words)
    size = _PHRASE if units is words else 2 * _PHRASE
    phrases = [tuple(units[at : at + size]) for at in range(len(units) - size)]
    return len(phrases) >= _LOOP_FROM and len(set(phrases)) < len(phrases) * _LOOP_BELOW


def _is_cut(text: str, tokens: int, max_tokens: int) -> bool:
    if text.count("```") % 2:
        return True
    last = text.splitlines()[-1].strip()
    if re.fullmatch(r"#{1,4}(?: .*)?", last):
        return True  # a heading without text: the model stopped there
    if _UNFINISHED.search(last) and last != "-":
        return True
    return tokens >= max_tokens * 0.97 and not re.search(r"[.!?)\]`|*\"\u201d\u3002\uff01\uff1f]$", last)


def _invented(text: str, source: str) -> str:
    """Rejects a summary most of whose names do not occur in its source: it was not made from it."""
    names = {word for kind, word in words_of(text) if kind in ("identifier", "path", "url")}
    strange = [name for name in names if name not in source]
    if len(strange) >= _INVENTED_FROM and len(strange) * 2 > len(names):
        return f"{len(strange)} of its {len(names)} names do not occur in the conversation"
    return ""
