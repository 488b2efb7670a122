"""The trust gate: whether a text may reach something that outlives the turn or leaves the machine.

Every text in front of a model has a source with a grade: person (what they typed, or approved), trusted (files of
folders they trust, our own tools' listings and errors, searches over their own words) or outside (everything else). The
program grades texts as they come in, never the model, and stores with each message where its text comes from if that is
outside. The gate sees the outside texts as `Source`s and the person's words as texts.

Whatever writes or sends is a sink (`SINKS`) and calls `decide` first; nothing else decides. The rule:

1. A person agreed to exactly this: allow.
2. Nothing from outside is in front of the model: allow.
3. The text only repeats a statement of the person, or the call carries nothing but their words: allow.
4. Otherwise a person is asked, also if the check itself fails.

Texts are compared word by word with what the person said; no model and no scanner is consulted.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hermes.base.values import lazy_pattern, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any


# Decides whether a note only repeats what the person said. The trust gate relies on nothing else.
#
# A note repeats a statement if it has the same words in the same order, from the beginning of the statement, omits
# nothing before the verb, and omits nothing that limits or negates it. "I" may become "the user", a verb may take
# another form of the present, and a few phrases have equivalents. Every other note waits for the person.


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one string, as in a table."""
    return frozenset(text.split())


def words(text: str) -> set[str]:
    """The runs of letters and digits in a text, in lower case."""
    return set(re.findall(r"[^\W_]+", text.casefold()))


with open(os.path.join(os.path.dirname(__file__), "data", "trust.txt"), encoding="utf-8") as _file:
    _BLOCKS = dict(re.findall(r"^\[([a-z ]+)\]\n((?:.+\n)+)", _file.read(), re.MULTILINE))
TABLES = {name: body.split() for name, body in _BLOCKS.items()}  # names of files and programs, and small words


def _alternatives(name: str) -> str:
    return "|".join(_BLOCKS[name].splitlines())


def _pairs(table: str) -> dict[str, str]:
    return {word: same.replace("+", " ") for word, same in (each.split("=") for each in TABLES[table])}


SMALL_WORDS = word_set("a an the to of in on at for with and or as by from is are be it that this")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[\u3002\uff01\uff1f\uff1b])")
_CLAUSES = re.compile(r"[,;()]+(?!\d)|\s[-\u2013\u2014]+\s|[\u2013\u2014\u3001\uff0c\uff1b]")
_FILLER = frozenset(TABLES["filler"])
# Ends with a question mark or a tag ("right"), begins with a question word, or inverts subject and verb.
_QUESTION = lazy_pattern(
    "[?\uff1f\u061f]"
    rf"\s*[\"')\]]*$|^\W*(?:{_alternatives('asking')})\b"
    r"|\b(?:is|are|can|could|should|would|will|do|does|did|may|shall)\s+(?:it|we|i|you|they|he|she|there|this|that)\b"
    r"|\b(?:right|correct|yes|no|okay|ok|huh|eh)\s*$",
    re.IGNORECASE,
)
_UNSTATED = lazy_pattern(rf"\b(?:{_alternatives('unstated')})\b", re.IGNORECASE)
_ABOUT_A_TEXT = lazy_pattern(
    rf"\b(?:{_alternatives('about a text')})\b|^(?:from|to|subject|date|cc|re|fwd?):", re.IGNORECASE | re.MULTILINE
)
_PASTED = lazy_pattern(
    r"\b(?:this|these|the following|below|here is|here's|here are|it says|they wrote)\b", re.IGNORECASE
)
_LEAD_IN = lazy_pattern(
    rf"^\W*(?:(?:{_alternatives('lead in')})\b(?:\s+(?:that|this|to memory|in memory|of this|it|down))*[\s,:;.!-]*)+",
    re.IGNORECASE,
)
# What a model puts before the person's statement: "The user prefers to", "They said that".
_FRAME = lazy_pattern(
    r"^(?:the )?(?:user|person|they|he|she)(?: has)? (?:prefers|wants|likes|said|says|asked|told me|mentioned|noted|"
    r"states|stated|requires|expects)(?: that| me to| to| you to| the agent to| the assistant to)?\s+",
    re.IGNORECASE,
)
_REPORTED = lazy_pattern(rf"\b(?:{_alternatives('reported')})\b|:", re.IGNORECASE)
_LIMITING = frozenset(TABLES["limiting"])
_TURNS_BACK = lazy_pattern(rf"^\W*(?:{_alternatives('turns back')})\b", re.IGNORECASE)
_HOLDS_BACK = lazy_pattern(r"\b(?:not|never|don't|ask|if|whether|unless|why|what|without)\b", re.IGNORECASE)
_TAKES_BACK = lazy_pattern(rf"^\W*(?:{_alternatives('takes back')})\b", re.IGNORECASE)
_LIMITS_NEXT = lazy_pattern(r"\b(?:only|except|unless|following|in case|provided)\b", re.IGNORECASE)
_FIRST_PERSON = _pairs("first person")
_NOTE_SUBJECTS = _pairs("note subjects")
_SAME_WORD = _pairs("same word")
_SAME_PHRASE = (
    (re.compile(r"\b(?:be )?(?:based in|located in|reside in|resides in)\b"), "live in"),
    (re.compile(r"(?:§s name be|(?:§|^) ?be (?:called|named)|^call §|§ go by|§ prefer to be called)"), "name"),
    (re.compile(r"§ (?:be born on|have §s birthday on)|§s birthday be(?: on)?|^birthday:?"), "birthday"),
    (re.compile(r"^(?:我们|我|用户|私は|わたしは|ユーザーは)"), "§ "),
)
_KEPT = _LIMITING | {"always", "this", "his", "has", "was"}
_COMMA = "|"
_BREAKS = word_set("| and because since which where who")


@value
class _Sentence:
    """One statement: its words without fillers, where its clauses begin, and which ones merely continue it ("and")."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    joined: frozenset[int]
    raw: str


def repeats(text: str, said: Sequence[str]) -> bool:
    """Whether every sentence of `text` repeats a statement of the person that they have not taken back since."""
    statements, before = list["_Sentence | str"](), 0
    for message in said:
        if _TAKES_BACK.match(message):
            statements[before:] = map(_raw, statements[before:])
        before = len(statements)
        statements += _statements(message)
    notes = [each for each in _SENTENCES.split(text) if words(each)]
    return bool(notes) and all(_is_repeated(note, statements) for note in notes)


def asks_to_run(message: str, command: str) -> bool:
    """Whether a line of the message is this command or ends with a request to run it; no question about it does."""
    asks = re.compile(
        rf"(?P<before>^|.*\b(?:run|execute)(?: the command)?:?\s+)(?:`{re.escape(command)}`(?:,? (?:and|then)\b.*)?"
        rf"|{re.escape(command)})(?: please| now| again| for me)*\W*$",
        re.IGNORECASE,
    )
    found = (asks.match(" ".join(line.split())) for line in _without_pasted(message).split("\n"))
    return any(each and not (_REPORTED.search(each["before"]) or _HOLDS_BACK.search(each["before"])) for each in found)


def speaks_of(entry: str, said: Sequence[str]) -> bool:
    """Whether the person's newest message asks to remove this entry, or repeats most of it."""
    if not said:
        return False
    wanted = {_stem(word) for word in words(entry) if word not in SMALL_WORDS and len(word) > 2}  # noqa: PLR2004
    for sentence in own_sentences(said[-1]):
        if _QUESTION.search(sentence) or _HOLDS_BACK.search(sentence) or _REPORTED.search(sentence):
            continue
        named = {_stem(word) for word in words(sentence)}
        after = _GONE.split(sentence, maxsplit=1)
        meant = {_stem(word) for word in words(re.split(r"[,;]| and ", after[1])[0])} if len(after) > 1 else set()
        # One word is enough if they mention memory itself; "remove the banner" may be about anything.
        if (wanted & meant and named & _OF_MEMORY) or (wanted and len(wanted & named) * 2 >= len(wanted)):
            return True
    return False


def _is_repeated(note: str, statements: Sequence[_Sentence | str]) -> bool:
    for variant in {note, _FRAME.sub("", note)}:
        for subjects in (_NOTE_SUBJECTS, {}):
            told = _parsed(variant, {**_FIRST_PERSON, **subjects})
            parts = _clauses(told)
            if _is_stated([told.tokens], statements) or (len(parts) > 1 and _is_stated(parts, statements)):
                return True
            if len(parts) > 1 and all(_is_stated([part], statements, whole=True) for part in parts):
                return True
    return False


def _is_stated(parts: Sequence[tuple[str, ...]], statements: Sequence[_Sentence | str], *, whole: bool = False) -> bool:
    """Whether one statement says all of this, and no later statement on the same subject says something else."""
    spoken = {token for part in parts for token in part} - SMALL_WORDS - _FILLER - {"§", "§s", "be", "have"}
    for at, statement in enumerate(statements):
        if _says(statement, parts, whole=whole):
            later = (each for each in statements[at + 1 :] if spoken <= {_stem(word) for word in words(_raw(each))})
            if all(_says(each, parts, whole=whole) for each in later):
                return True
    return False


def _says(statement: _Sentence | str, parts: Sequence[tuple[str, ...]], *, whole: bool) -> bool:
    return isinstance(statement, _Sentence) and all(_covers(part, statement, whole=whole) for part in parts)


def _raw(statement: _Sentence | str) -> str:
    return statement if isinstance(statement, str) else statement.raw


def _clauses(sentence: _Sentence) -> list[tuple[str, ...]]:
    ends = (*sentence.starts[1:], len(sentence.tokens))
    return [sentence.tokens[start:end] for start, end in zip(sentence.starts, ends, strict=True)]


def _covers(told: tuple[str, ...], statement: _Sentence, *, whole: bool) -> bool:
    """Whether `told` is the statement, or clauses of it that nothing before or after them limits.

    With `whole`, only clauses that name their subject count.
    """
    tokens = statement.tokens
    of_person = bool(tokens) and tokens[0].startswith("§")
    for start in statement.starts:
        own = start == 0 or tokens[start].startswith("§")
        # The words before a clause may be its condition, unless they are a statement of the person as well.
        if start and (not of_person or _REPORTED.search(statement.raw) or set(tokens[:start]) & _LIMITING):
            continue
        if whole and not own:
            continue
        for end in (*(each for each in statement.starts if each > start), len(tokens)):
            # What follows a comma may take it back ("in theory"); "and" only adds to it.
            adds = end == len(tokens) or end in statement.joined or tokens[end].startswith("§")
            is_open = adds and not _LIMITING & set(tokens[end:])
            verb = tokens[:2] if start else ()
            if is_open and _equal(told, tokens[start:end], verb, alone=own or _goes_on(statement)):
                return True
    return False


def _goes_on(statement: _Sentence) -> bool:
    """Whether a clause after "and" is a statement in itself; in "I refuse to ask and push", it is not."""
    subject, verb, then = (*statement.tokens, "", "", "")[:3]
    return subject == "§" and verb in _PLAIN_VERBS and then != "to" and not re.search(r"\w{2}ing\b", statement.raw)


def _equal(told: tuple[str, ...], clause: tuple[str, ...], verb: tuple[str, ...], *, alone: bool) -> bool:
    """The same words in the same order; a leading "I" may be left out.

    A later clause may repeat the first verb, and must unless it can stand `alone`.
    """
    wanted = _bare(clause)
    if "always" not in told:
        wanted = tuple(word for word in wanted if word != "always")
    given = _bare(told)
    return bool(wanted) and ((alone and given == wanted) or (len(verb) == 2 and given == (*_bare(verb), *wanted)))  # noqa: PLR2004


def _bare(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Drops the words for the person, because every statement is about them."""
    first = tokens[1:] if tokens[:1] == ("§",) else tokens
    return tuple(each for each in first if each != "§s")


def _statements(message: str) -> list[_Sentence | str]:
    """The sentences of a message in order; one that states nothing is kept as text, because it may deny others."""
    found: list[_Sentence | str] = []
    is_about_text = bool(_ABOUT_A_TEXT.search(message))
    for sentence in own_sentences(message):
        doubts = _QUESTION.search(sentence) and len(sentence.split()) <= 4  # noqa: PLR2004 - "Or do I?"
        if found and (_TURNS_BACK.match(sentence) or _TAKES_BACK.match(sentence) or doubts):
            found[-1] = _raw(found[-1])
        stripped = _LEAD_IN.sub("", sentence.replace("\u2019", "'"), count=1)
        limited = found and _LIMITS_NEXT.search(_raw(found[-1]))
        unsaid = is_about_text or limited or _UNSTATED.search(sentence) or not words(stripped)
        none = unsaid or _QUESTION.search(stripped)
        found.append(sentence if none or "\0" in sentence else _parsed(stripped, _FIRST_PERSON))
    return found


def own_sentences(message: str) -> list[str]:
    """What the person wrote themselves; code, quotations and pasted text become a gap."""
    text = re.sub(r"```.*?(?:```|\Z)|^\s*>.*$", "\0", message, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"[\"“”«»][^\"“”«»]*\s[^\"“”«»]*[\"“”«»]", " \0 ", text)
    return [each.strip() for each in _SENTENCES.split(_without_pasted(text)) if each.strip()]


def _without_pasted(text: str) -> str:
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        led = _LEAD_IN.sub("", line, count=1)
        if (line.rstrip().endswith(":") and words(led)) or (
            _PASTED.search(line) and any(map(str.strip, lines[at + 1 :]))
        ):
            return "\n".join([*lines[: at + 1], "\0"])
    return text


def _parsed(sentence: str, people: Mapping[str, str]) -> _Sentence:
    spaced = _CLAUSES.sub(" | ", sentence.replace("\u2019", "'"))
    known = {**_SAME_WORD, **people}
    plain = (token.strip(".!?:\"'`*\u201c\u201d\u2026\u3002\uff01\uff1f") for token in spaced.casefold().split())
    text = " ".join(known.get(token, token) for token in plain if token)
    for pattern, same in _SAME_PHRASE:
        text = pattern.sub(same, text)
    tokens: list[str] = []
    starts = [0]
    joined: set[int] = set()
    for token in text.split():
        if token in _BREAKS:
            if tokens and starts[-1] != len(tokens):
                starts.append(len(tokens))
            if token != _COMMA:
                joined.add(len(tokens))
        elif token not in _FILLER:
            tokens.append(_stem(token))
    kept = tuple(at for at in starts if at < len(tokens) or at == 0)
    return _Sentence(tokens=tuple(tokens), starts=kept, joined=frozenset(joined), raw=sentence)


_ENDINGS = (("ies", "y"), ("ing", ""), ("sses", "ss"), ("shes", "sh"), ("ches", "ch"), ("xes", "x"), ("s", ""))


def _stem(word: str) -> str:
    """The form that "live", "lives" and "living" share; past forms and names with digits or signs do not change."""
    if len(word) <= 3 or not word.isalpha() or not word.isascii() or word in _KEPT:  # noqa: PLR2004
        return word
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and not word.endswith("ss") and len(word) > len(ending) + 2:
            word = word[: -len(ending)] + instead
            break
    return word.removesuffix("e")


_GONE = re.compile(r"\b(?:forget|remove|delete|drop|erase|no longer|any ?more)\b", re.IGNORECASE)
_OF_MEMORY = frozenset(map(_stem, ("forget", "memory", "remember", "note", "entry", "rule", "fact", "profile")))
_PLAIN_VERBS = frozenset(map(_stem, ("be", "have", "live", "work", "use", "speak", "own", "teach", "study", "play")))


ALLOW, ASK = "allow", "ask"

# --- sinks ------------------------------------------------------------------------------------------------------------

STAGE, AT_ONCE = "stage", "at once"


@value
class Sink:
    """`asks`: STAGE keeps the change until a person decides; AT_ONCE needs the answer now, or the call is refused."""

    about: str
    asks: str


# A tool names its sink in one line (`sink = "memory"`); "" means that it only reads. The default is "tool".
SINKS = {
    "memory": Sink(about="notes in every later prompt", asks=STAGE),
    "user": Sink(about="the profile in every later prompt", asks=STAGE),
    "project": Sink(about="notes in every later prompt of a project", asks=STAGE),
    "skills": Sink(about="procedures that later sessions follow", asks=STAGE),
    "rules": Sink(about="rules that every later session is held to", asks=STAGE),
    "reminders": Sink(about="reminders that come up by themselves", asks=STAGE),
    "file": Sink(about="a file that agents load or that programs run", asks=STAGE),
    "provider": Sink(about="external memory that later sessions recall", asks=STAGE),
    "curation": Sink(about="changes the curator proposes", asks=STAGE),
    "command": Sink(about="a shell command", asks=AT_ONCE),
    "request": Sink(about="an address on the web", asks=AT_ONCE),
    "mcp": Sink(about="a tool of an MCP server", asks=AT_ONCE),
    "tool": Sink(about="a tool of a host or plug-in", asks=AT_ONCE),
}

# --- sources ----------------------------------------------------------------------------------------------------------

_PASSAGE = 300  # characters of a source that a person is shown
_MOST_SOURCES = 5
_READ = 200_000  # characters of a source that are looked at
_MOST_UNKNOWN = 6  # words of an address that nobody has named
_HANDED_IN = ("piped", "host", "import")  # the model cannot have written this itself to read it again
_ADDRESS_WORDS = word_set("http https www com org net io dev html htm php md json txt")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider, import, host), its name, and its words.

    It is `public` when others have it anyway: a page, an answer of an MCP server. What came from a file, a command or a
    memory provider may be the person's own and private text, however little it is trusted.
    """

    origin: str
    name: str
    text: str = ""
    public: bool = False

    def passage(self, texts: Sequence[str] = ()) -> str:
        """The part that shares most words with `texts`, else its beginning; secrets masked."""
        from hermes.safety.secrets import mask_secrets

        # Mask before cutting: half a key no longer looks like one and would be shown.
        whole = " ".join(mask_secrets((_prose_in(self.text) or self.text)[:_READ]).split())
        wanted = {word for text in texts for word in words(text)}
        starts = [0, *(found.end() for found in re.finditer(r"[.!?\n…]\s+", whole))]
        best = max(starts, key=lambda at: len(wanted & words(whole[at : at + _PASSAGE]))) if wanted else 0
        return f"{'…' if best else ''}{whole[best : best + _PASSAGE]}"

    def as_dict(self, texts: Sequence[str] = ()) -> dict[str, str]:
        """The source as evidence for a person: where it comes from, and the passage most like `texts`."""
        return {"origin": self.origin, "name": self.name, "passage": self.passage(texts)}


def named_source(origin: str, name: str) -> str:
    """A source for a person: its kind and its name, or only the name when that already says the kind."""
    return name if origin in name else f"{origin}, {name}"


def _prose_in(text: str) -> str:
    """The sentences in a tool's JSON, without its braces and keys; "" if it is not JSON."""
    import json

    if not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        document = json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return ""
    return " … ".join(each for each in _texts(document) if len(each) >= 20)  # noqa: PLR2004 - shorter: names, dates


def _texts(document: object) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, (list, tuple)):
        for each in document:
            yield from _texts(each)
    elif isinstance(document, dict):
        for name, each in document.items():
            if name not in ("session_id", "when", "query", "hint"):  # of our own tools
                yield from _texts(each)


# --- the turn, the decision, the gate ---------------------------------------------------------------------------------


@value
class TurnContext:
    """What a tool may know about the turn it is called in; the gate has no other source of information.

    `sources` are the texts from outside in the model's context, from this turn or earlier ones; `said` is what the
    person said, oldest first; `private` is memory and everything else that must not leave the machine. `ask` puts a
    question to the person, if one can be asked. `approved` marks a call that a person has seen and agreed to. `record`
    keeps decisions. `compact` takes messages out of the session's context. `rule` is a rule of the person that makes
    this call need their consent.
    """

    session: str = ""
    origin: str = "agent"  # who acts
    note: str = ""
    sources: Callable[[], Sequence[Source]] = tuple
    said: Callable[[], Sequence[str]] = tuple
    private: Callable[[], Sequence[str]] = tuple
    ask: Callable[[str], bool] | None = None
    approved: bool = False
    record: Callable[[Decision], None] | None = None
    compact: Callable[[Mapping[str, str]], dict[str, Any]] | None = None
    rule: str = ""


@value
class Decision:
    """The gate's answer. `sources` may have caused the call, the likeliest first; `reason` is for people."""

    sink: str
    verdict: str
    reason: str
    sources: tuple[Source, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the call may happen now, without asking a person."""
        return self.verdict == ALLOW

    @property
    def origin(self) -> str:
        """The origin of the likeliest source; "" if nothing from outside is behind the call."""
        return self.sources[0].origin if self.sources else ""

    def evidence(self) -> list[dict[str, str]]:
        """Where the text may come from, with the passages; kept with a pending write."""
        return [source.as_dict(self.texts) for source in self.sources[:_MOST_SOURCES]]


NO_TURN = TurnContext()


def decide(
    sink: str,
    turn: TurnContext,
    *,
    writes: Sequence[str] = (),
    removes: Sequence[str] = (),
    sends: object = None,
    address: str = "",
    command: str = "",
) -> Decision:
    """Decides whether a call may happen, and records the decision.

    `writes` are texts that would be kept, `removes` those that would be lost, `sends` are arguments that leave the
    machine, `address` is where a request goes, `command` what a shell would run.
    """
    texts = (*writes, *removes, *_texts(sends), *filter(None, (address, command)))
    sources: tuple[Source, ...] = ()
    try:
        if sink not in SINKS:
            verdict, reason = ASK, f"{sink!r} is not a registered sink"
        elif turn.approved:
            verdict, reason = ALLOW, "a person agreed to it"
        elif turn.rule:
            verdict, reason = ASK, f"a rule of the user applies: {turn.rule}"
        elif not (sources := tuple(turn.sources())):
            verdict, reason = ALLOW, "nothing from outside is in front of the model"
        elif why := (
            _known_command(command, turn.said())
            if command
            else _known_address(address, turn, sources)
            if address
            else _nothing_private(sends, turn, sources)
            if sends is not None
            else _typed(writes, turn.said())
            if sink in ("rules", "reminders")
            else _own_words(writes, removes, turn.said())
        ):
            verdict, reason = ALLOW, why
        else:
            sources = _by_likelihood(sources, texts)
            verdict, reason = ASK, _in_words(sources[0], texts)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here must not open the gate
        verdict, reason = ASK, f"its sources could not be determined ({type(error).__name__})"
    decision = Decision(
        sink=sink, verdict=verdict, reason=reason, sources=sources if verdict == ASK else (), texts=texts
    )
    if turn.record is not None:
        turn.record(decision)
    return decision


def _known_command(command: str, said: Sequence[str]) -> str:
    """Why outside text cannot be the cause of a command although the model has read some; "" if it may be.

    The functions below answer the same question for other kinds of calls.
    """
    if said and asks_to_run(said[-1], " ".join(command.split())):
        return "the person typed this command"
    return "it only looks" if only_looks(command) else ""


def _known_address(address: str, turn: TurnContext, sources: Sequence[Source]) -> str:
    """Allows an address that the person or a page named, or one whose words are plain and whose query is known.

    An address can carry data away in any of its words, so they must read like words and must not be private. On a site
    that only texts from outside name, all words of the address must be known.
    """
    said = turn.said()
    named = (source.text for source in sources if source.public or source.origin in _HANDED_IN)
    if any(_names(text, address) for text in (*said, *named)):
        return "the person or a page named this address"
    plain = unquote(address)
    place, _, query = plain.partition("?")
    place, _, fragment = place.partition("#")
    known = _public_words(turn, sources)
    unknown = words(place) - known - _ADDRESS_WORDS
    host = place.partition("://")[2].partition("/")[0].rpartition("@")[2]
    site = words(".".join(host.split(".")[-2:])) - _ADDRESS_WORDS
    theirs = any(site <= words(source.text[:_READ]) for source in sources) and not site <= words("\n".join(said))
    hides = _hides_private(plain, turn, known) or not all(_is_plain(word, place) for word in unknown)
    most = 0 if theirs else _MOST_UNKNOWN
    is_open = not hides and len(unknown) <= most and "@" not in place and words(query + fragment) <= known
    return "it carries nothing private" if is_open else ""


def _nothing_private(sends: object, turn: TurnContext, sources: Sequence[Source]) -> str:
    """Allows arguments whose words are all the person's or public already."""
    known = _public_words(turn, sources)
    names, values = _sent(sends)
    secret = {word for each in turn.private() for word in words(each)} - known
    small = {word for word in words("\n".join(values)) - secret if word.isdigit() and len(word) <= 3}  # noqa: PLR2004 - a limit
    unknown = words("\n".join(values)) - known - small
    hides = unknown or _hides_private("\n".join(names), turn, known)
    return "" if hides else "it carries nothing but the person's and the outside's words"


def _sent(document: object) -> tuple[list[str], list[str]]:
    """The names of all fields, and all their values as text."""
    if isinstance(document, (dict, list, tuple)):
        names = list(map(str, document)) if isinstance(document, dict) else []
        below = [_sent(each) for each in (document.values() if isinstance(document, dict) else document)]
        return names + [name for each in below for name in each[0]], [text for each in below for text in each[1]]
    return [], [] if isinstance(document, bool) or document is None else [str(document)]


def _public_words(turn: TurnContext, sources: Sequence[Source]) -> set[str]:
    """The words that may leave the machine: the person's newest ones, and what came from outside anyway."""
    return (
        words("\n".join((*turn.said()[-1:], *(source.text[:_READ] for source in sources if source.public))))
        | SMALL_WORDS
    )


def _is_plain(word: str, text: str) -> bool:
    """Whether an unknown word looks like a natural word rather than encoded data."""
    if word.isdigit():
        return len(word) <= 4  # noqa: PLR2004 - a year, a version, a port
    shape = re.search(rf"(?<![^\W_])(?i:{word[0]}){word[1:]}(?![^\W_])", text)  # no capitals inside
    natural = re.search(r"[aeiouy]", word) and not re.search(r"[^aeiouy]{5}|(.)\1\1|\d", word)
    return (bool(shape and natural) and len(word) <= 16) or len(word) <= 2  # noqa: PLR2004


def _hides_private(text: str, turn: TurnContext, known: set[str]) -> bool:
    """Whether an address contains words of private texts, also joined, reversed or in ROT13."""
    secret = {word for each in turn.private() for word in words(each) if len(word) > 3} - known  # noqa: PLR2004
    squeezed = "".join(re.findall(r"[^\W_]", text.casefold()))
    rotated = squeezed.translate(str.maketrans(_LETTERS, _LETTERS[13:] + _LETTERS[:13]))
    return any(word in form for word in secret for form in (squeezed, squeezed[::-1], rotated))


def _own_words(writes: Sequence[str], removes: Sequence[str], said: Sequence[str]) -> str:
    theirs = all(repeats(text, said) for text in writes) and all(speaks_of(text, said) for text in removes)
    return "it repeats what the person said" if theirs and (writes or removes) else ""


def _typed(writes: Sequence[str], said: Sequence[str]) -> str:
    """A rule is kept in the words it was stated in: it must be a sentence that the person typed just now."""
    typed = "\n".join(own_sentences(said[-1])) if said else ""
    theirs = writes and all(_letters(text) in _letters(typed) for text in writes)
    return "it is what the person typed" if theirs else ""


def _letters(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _names(text: str, address: str) -> bool:
    """Whether the text contains this very address, and not just a longer one that begins with it."""
    wanted = address.partition("#")[0].rstrip("/")
    at = text.find(wanted)
    while at >= 0:
        if re.match(r"/?(?:#[^\s\"'<>)\]]*)?(?:[\s\"'<>)\]},;.!?\\]|$)", text[at + len(wanted) :]):
            return True
        at = text.find(wanted, at + 1)
    return False


def _by_likelihood(sources: Sequence[Source], texts: Sequence[str]) -> tuple[Source, ...]:
    wanted = {word for text in texts for word in words(text)} - SMALL_WORDS
    newest_first = list(reversed(sources))
    return tuple(sorted(newest_first, key=lambda each: -len(wanted & words(each.text[:_READ]))))


def _in_words(source: Source, texts: Sequence[str]) -> str:
    passage = source.passage(texts)
    what = named_source(source.origin, source.name) + (f": {passage!r}" if passage else "")
    return f"text from outside is in front of the model ({what}) and this is not what the user said"


# --- what agents load and programs run --------------------------------------------------------------------------------

# Files that agents load, by name. Hidden files count too: a name with a leading dot holds some program's settings.
_LOADED_FILES = frozenset(TABLES["loaded files"])
_LOADED_NAMES = re.compile(
    r".*\.(?:pth|mdc|(?:agent|instructions|chatmode|prompt)\.md|code-workspace|(?:config|conf)\.[cm]?[jt]sx?|nix|bazel|"
    r"gradle|gradle\.kts|desktop|service|timer|plist)|(?:makefile|dockerfile|(?:docker-)?compose)(?:\..*)?|"
    r"(?:requirements|constraints)[\w.-]*\.(?:txt|in)|(?:pre|post)-[a-z-]+|(?:prepare-)?commit-msg"
)
_LOADED_FOLDERS = frozenset(TABLES["loaded folders"])
_HARMLESS_HIDDEN = frozenset(TABLES["harmless hidden"])


def is_loaded(path: str, folder: str = "") -> bool:
    """Whether an agent loads this file by itself, or a program runs it; judged by its path, in any letter case.

    `folder` is where a relative path begins. A hidden folder above the file does not count; a folder of an agent or of
    git does.
    """
    around, parts = (
        [part.rstrip(". ").casefold() for part in os.path.normpath(each).split(os.sep)] for each in (folder, path)
    )
    by_name = parts[-1] in _LOADED_FILES or _LOADED_NAMES.fullmatch(parts[-1])
    hidden = any(part.startswith(".") and part not in _HARMLESS_HIDDEN for part in parts)
    return bool(by_name or hidden or _LOADED_FOLDERS.intersection([*around, *parts[:-1]]))


# --- shell commands ---------------------------------------------------------------------------------------------------

# Programs that show only what is in their folder. Any other program may bring in text from anywhere.
_LOCAL = frozenset(TABLES["local"])
_PACKAGERS = frozenset(TABLES["packagers"])
_NETWORK = frozenset(TABLES["network"])
_LOCAL_GIT = frozenset(TABLES["local git"])
_FETCHING = re.compile(r"\b(?:install|add|update|upgrade|publish|login|dlx|create|sync|fetch|pull|clone|get)\b")
_LOOKING = frozenset(TABLES["looking"])
_LOOKING_GIT = frozenset(TABLES["looking git"])
_RUNNING_GIT = ("-o", "--output", "--ext-diff", "--textconv")
_SHELL_SYNTAX = frozenset(";|&`$()<>{}\n\r\\!#")


def is_local(command: str) -> bool:
    """Whether a command shows only what is in its folder; False if a program is unknown or may use the network."""
    if "`" in command or "$(" in command or "<(" in command:
        return False
    for part in re.split(r"\|\|?|&&?|;|\n", command):
        named = [word for word in part.split() if "=" not in word.split("/")[0]]
        first = named[0].strip("'\"(){}") if named else ""
        program = os.path.basename(first)
        own = "/" in first and not os.path.isabs(first) and not first.startswith("~")  # a script of the folder itself
        if program == "git":
            if next((word for word in named[1:] if not word.startswith("-")), "") not in _LOCAL_GIT:
                return False
        elif (program and program not in _LOCAL and not own) or _may_fetch(program, part):
            return False
    return True


def _may_fetch(program: str, part: str) -> bool:
    if program in ("echo", "grep", "rg"):
        return False
    names_network = "://" in part or not _NETWORK.isdisjoint(re.findall(r"[\w.-]+", part))
    return names_network or (program in _PACKAGERS and bool(_FETCHING.search(part)))


def only_looks_at_names(command: str) -> bool:
    """Whether a command shows names and states of files, but not their contents."""
    given = command.split()
    plain = bool(given) and not set(command) & _SHELL_SYNTAX
    return plain and (given[0] in ("ls", "pwd", "tree", "stat", "du", "df") or given[:2] == ["git", "status"])


def only_looks(command: str) -> bool:
    """Whether a single plain command can neither change anything nor reach the network."""
    given = command.split()
    if not given or set(command) & _SHELL_SYNTAX:
        return False
    if given[0] == "git":
        return "".join(given[1:2]) in _LOOKING_GIT and not any(w.startswith(_RUNNING_GIT) or "=" in w for w in given)
    return given[0] in _LOOKING and not any(word.startswith(("-o", "--output")) for word in given)
