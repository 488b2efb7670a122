"""The trust gate: whether a text may reach something that outlives the turn or leaves the machine.

Every text in front of a model has a source with a grade: PERSON (what they typed, or approved), TRUSTED (files of
folders they trust, our own tools' listings and errors, searches over their own words) or OUTSIDE (everything else). The
program grades texts as they come in, never the model, and stores the grade with the message.

Whatever writes or sends is a sink (`SINKS`) and calls `decide` first; nothing else decides. The rule:

1. A person agreed to exactly this: allow.
2. Nothing from outside is in front of the model: allow.
3. The text only repeats a statement of the person, or the call carries nothing but their words: allow.
4. Otherwise a person is asked. If that cannot be told, because something failed, a person is asked as well.

Texts are compared with what the person said word by word; no model and no scanner is consulted.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from hermes.base.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PERSON, TRUSTED, OUTSIDE = "person", "trusted", "outside"
ALLOW, ASK = "allow", "ask"

# --- sinks ------------------------------------------------------------------------------------------------------------

STAGE, AT_ONCE = "stage", "at once"


@value
class Sink:
    """`asks`: STAGE keeps the change until a person decides; AT_ONCE needs the answer now, or the call is refused."""

    about: str
    asks: str


# A tool names its sink in one line (`sink = "memory"`); "" says that it only reads. A tool that names none is "tool".
SINKS = {
    "memory": Sink(about="notes in every later prompt", asks=STAGE),
    "user": Sink(about="the profile in every later prompt", asks=STAGE),
    "project": Sink(about="notes in every later prompt of a project", asks=STAGE),
    "skills": Sink(about="procedures that later sessions follow", asks=STAGE),
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
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@value
class Source:
    """One text from outside: its kind (web, file, tool, recall, provider, import, host), its name, and its words."""

    origin: str
    name: str
    text: str = ""

    def passage(self, texts: Sequence[str] = ()) -> str:
        """The part that shares most words with `texts`, else its beginning; secrets masked."""
        from hermes.safety.secrets import mask_secrets

        # Masked before it is cut, so that no half of a key is shown because it no longer looks like one.
        whole = " ".join(mask_secrets((_prose_in(self.text) or self.text)[:_READ]).split())
        wanted = {word for text in texts for word in words(text)}
        starts = [0, *(found.end() for found in re.finditer(r"[.!?\n…]\s+", whole))]
        best = max(starts, key=lambda at: len(wanted & words(whole[at : at + _PASSAGE]))) if wanted else 0
        return f"{'…' if best else ''}{whole[best : best + _PASSAGE]}"

    def as_dict(self, texts: Sequence[str] = ()) -> dict[str, str]:
        return {"origin": self.origin, "name": self.name, "passage": self.passage(texts)}


def _prose_in(text: str) -> str:
    """The sentences in a tool's JSON, without its braces and keys; "" when it is none."""
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
    """What a tool may know about the turn it is called in; everything the gate knows, it knows from here.

    `sources` are the texts from outside that the model has in front of it, in this turn or from earlier; `said` is what
    the person said, oldest first; `private` is memory and what else must not leave the machine. `ask` puts a question
    to the person, where there is one. `approved` marks a call that a person has seen and agreed to. `record` keeps
    decisions. `compact` puts messages of the session away.
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


@value
class Decision:
    """`sources` are those that may have caused the call, the likeliest first; `reason` is for people."""

    sink: str
    verdict: str
    reason: str
    sources: tuple[Source, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        return self.verdict == ALLOW

    @property
    def origin(self) -> str:
        """Of the likeliest source; "" when nothing from outside is behind the call."""
        return self.sources[0].origin if self.sources else ""

    def evidence(self) -> list[dict[str, str]]:
        """Where the text may come from, with the passages, to be kept with what waits."""
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
    """Whether a call may go on.

    `writes` is what would be kept, `removes` what would be lost for it, `sends` are arguments that leave the machine,
    `address` is where a request goes, `command` what a shell would run.
    """
    texts = (*writes, *removes, *_texts(sends), *filter(None, (address, command)))
    sources: tuple[Source, ...] = ()
    try:
        if sink not in SINKS:
            verdict, reason = ASK, f"{sink!r} is not a registered sink"
        elif turn.approved:
            verdict, reason = ALLOW, "a person agreed to it"
        elif not (sources := tuple(turn.sources())):
            verdict, reason = ALLOW, "nothing from outside is in front of the model"
        elif why := (
            _known_command(command, turn.said())
            if command
            else _known_address(address, turn, sources)
            if address
            else _nothing_private(sends, turn, sources)
            if sends is not None
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
    """Each of these says why outside text cannot be behind a call although the model has read some; "" if it may be."""
    newest = f" {' '.join(said[-1].replace('`', ' ').split())} " if said else ""
    if f" {' '.join(command.split())} " in newest:
        return "the person typed this command"
    return "it only looks" if only_looks(command) else ""


def _known_address(address: str, turn: TurnContext, sources: Sequence[Source]) -> str:
    """An address that the person or a page named; or one whose words are plain, and those of its query known."""
    said = turn.said()
    if any(_names(text, address) for text in (*said, *(source.text for source in sources))):
        return "the person or a page named this address"
    plain = unquote(address)
    place, _, query = plain.partition("?")
    place, _, fragment = place.partition("#")
    known = _public_words(turn, sources)
    unknown = words(place) - known - _set("http https www com org net io dev html htm php md json txt")
    hides = _hides_private(plain, turn, known) or not all(_is_plain(word, place) for word in unknown)
    is_open = not hides and len(unknown) <= _MOST_UNKNOWN and "@" not in place and words(query + fragment) <= known
    return "it carries nothing private" if is_open else ""


def _nothing_private(sends: object, turn: TurnContext, sources: Sequence[Source]) -> str:
    known = _public_words(turn, sources)
    return (
        "it carries nothing but the person's and the outside's words"
        if words("\n".join(_texts(sends))) <= known
        else ""
    )


def _public_words(turn: TurnContext, sources: Sequence[Source]) -> set[str]:
    """What may leave: the person's newest words, and what came from outside anyway."""
    return words("\n".join((*turn.said()[-1:], *(source.text[:_READ] for source in sources)))) | _SMALL


def _is_plain(word: str, text: str) -> bool:
    """Whether an unknown word looks like one, and not like something encoded."""
    if word.isdigit():
        return len(word) <= 4  # noqa: PLR2004 - a year, a version, a port
    shape = re.search(rf"(?<![^\W_])(?i:{word[0]}){word[1:]}(?![^\W_])", text)  # no capitals inside
    natural = re.search(r"[aeiouy]", word) and not re.search(r"[^aeiouy]{5}|(.)\1\1|\d", word)
    return (bool(shape and natural) and len(word) <= 16) or len(word) <= 2  # noqa: PLR2004


def _hides_private(text: str, turn: TurnContext, known: set[str]) -> bool:
    """Whether words of memory or of other private texts are in an address: joined, reversed or rotated as well."""
    secret = {word for each in turn.private() for word in words(each) if len(word) > 3} - known  # noqa: PLR2004
    squeezed = "".join(re.findall(r"[^\W_]", text.casefold()))
    rotated = squeezed.translate(str.maketrans(_LETTERS, _LETTERS[13:] + _LETTERS[:13]))
    return any(word in form for word in secret for form in (squeezed, squeezed[::-1], rotated))


def _own_words(writes: Sequence[str], removes: Sequence[str], said: Sequence[str]) -> str:
    theirs = all(repeats(text, said) for text in writes) and all(speaks_of(text, said) for text in removes)
    return "it repeats what the person said" if theirs and (writes or removes) else ""


def _names(text: str, address: str) -> bool:
    wanted = address.partition("#")[0].rstrip("/")
    at = text.find(wanted)
    while at >= 0:
        if re.match(r"/?(?:#[^\s\"'<>)\]]*)?(?:[\s\"'<>)\]},;.!?\\]|$)", text[at + len(wanted) :]):
            return True
        at = text.find(wanted, at + 1)
    return False


def _by_likelihood(sources: Sequence[Source], texts: Sequence[str]) -> tuple[Source, ...]:
    wanted = {word for text in texts for word in words(text)} - _SMALL
    newest_first = list(reversed(sources))
    return tuple(sorted(newest_first, key=lambda each: -len(wanted & words(each.text[:_READ]))))


def _in_words(source: Source, texts: Sequence[str]) -> str:
    passage = source.passage(texts)
    what = f"{source.origin}, {source.name}" + (f": {passage!r}" if passage else "")
    return f"text from outside is in front of the model ({what}) and this is not what the user said"


def words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold()))


# --- what agents load and programs run --------------------------------------------------------------------------------

_LOADED_FILES = _set(
    "agents.md agents.override.md claude.md claude.local.md gemini.md qwen.md hermes.md .hermes.md soul.md "
    "skill.md memory.md user.md .cursorrules .windsurfrules .clinerules .goosehints .rules "
    "copilot-instructions.md conventions.md .aider.conf.yml .mcp.json mcp.json mcp_config.json "
    "claude_desktop_config.json opencode.json conftest.py sitecustomize.py usercustomize.py setup.py setup.cfg "
    "pyproject.toml tox.ini noxfile.py pytest.ini tasks.py fabfile.py makefile gnumakefile justfile taskfile.yml "
    "rakefile gemfile package.json .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs gulpfile.js gruntfile.js build.rs "
    "cargo.toml build.gradle build.gradle.kts pom.xml cmakelists.txt meson.build dockerfile docker-compose.yml "
    "docker-compose.yaml compose.yml compose.yaml jenkinsfile vagrantfile procfile .gitlab-ci.yml .travis.yml "
    ".pre-commit-config.yaml lefthook.yml .gitmodules .gitattributes .gitconfig .envrc .env .bashrc .bash_profile "
    ".bash_login .bash_logout .bash_aliases .profile .kshrc .cshrc .tcshrc .zshrc .zprofile .zshenv .zlogin "
    ".zlogout .xprofile .xinitrc .xsession .xsessionrc config.fish .inputrc .vimrc .exrc .nvimrc .tmux.conf "
    ".emacs .pythonrc .irbrc .gdbinit .lldbinit .pypirc pip.conf .condarc crontab authorized_keys .netrc .wgetrc "
    ".curlrc"
)
_LOADED_FOLDERS = _set(
    ".git .githooks .husky .claude .codex .cursor .gemini .opencode .continue .windsurf .clinerules .roo .kiro "
    ".aider .agents .hermes .vscode .idea .devcontainer .zed .github .gitlab .circleci .cargo .yarn .bundle .ssh "
    ".gnupg autostart systemd cron.d cron.daily cron.hourly cron.weekly cron.monthly init.d profile.d "
    "launchagents launchdaemons .local/bin"
)
_LOADED_ENDINGS = (".pth", ".mdc", ".agent.md", ".instructions.md", ".chatmode.md", ".prompt.md", ".code-workspace")
_LOADED_BEGINNINGS = ("makefile.", "dockerfile.", "vite.config.", "webpack.config.", "jest.config.", ".env.")


def is_loaded(path: str) -> bool:
    """Whether an agent reads this file by itself, or a program runs it; by its names, in any case of letters."""
    parts = [part.rstrip(". ").casefold() for part in os.path.normpath(path).split(os.sep)]
    name = parts[-1]
    by_name = name in _LOADED_FILES or name.endswith(_LOADED_ENDINGS) or name.startswith(_LOADED_BEGINNINGS)
    return by_name or any(part in _LOADED_FOLDERS for part in parts[:-1])


# --- shell commands ---------------------------------------------------------------------------------------------------

# Programs whose output is what lies in the folder they run in. A name that is not here may bring in anything.
_LOCAL = _set(
    "[ awk basename bash black cal cargo cat cd clang cmake cmp column comm cp cut date dd df diff dirname du "
    "echo egrep eslint exit expr false fd fgrep file find flake8 g++ gcc go gofmt gradle grep head hexdump id "
    "isort javac java jest jq just ld less ls lsof make md5sum mkdir mktemp mv mvn mypy nl node nox npm nproc od "
    "paste perl pnpm poetry prettier printf ps pwd pyright pytest python python3 readlink realpath rg rm rmdir "
    "ruff rustc sed seq sha256sum sh shellcheck sleep sort stat strings tail tar tee test time touch tox tr tree "
    "true tsc type uname uniq unzip uv vitest wc whereis which whoami xargs xxd yarn yes zcat zip"
)
_LOCAL_GIT = _set(
    "add apply bisect blame branch cat-file checkout cherry-pick commit config describe diff grep init log "
    "ls-files merge mv rebase reflog reset restore rev-list rev-parse revert rm show stash status switch tag "
    "worktree"
)
_FETCHING = re.compile(r"://|\b(?:install|add|update|upgrade|publish|login|dlx|create|sync|fetch|pull|clone|get)\b")
_LOOKING = _set("basename cat date df diff dirname du echo file grep head id ls nl nproc ps pwd realpath rg stat")
_LOOKING |= _set("tail tree type uname uniq wc whereis which whoami sort")
_LOOKING_GIT = _set("blame branch describe diff log ls-files rev-parse show status")
_SHELL_SYNTAX = frozenset(";|&`$()<>{}\n\r\\!#")


def is_local(command: str) -> bool:
    """Whether a command shows only what its folder holds; False when a program in it is unknown or may fetch."""
    if "`" in command or "$(" in command or "<(" in command:
        return False
    for part in re.split(r"\|\|?|&&?|;|\n", command):
        named = [word for word in part.split() if "=" not in word.split("/")[0]]
        program = os.path.basename(named[0].strip("'\"(){}")) if named else ""
        if program == "git":
            if next((word for word in named[1:] if not word.startswith("-")), "") not in _LOCAL_GIT:
                return False
        elif (program and program not in _LOCAL) or (program not in ("echo", "grep", "rg") and _FETCHING.search(part)):
            return False
    return True


def only_looks_at_names(command: str) -> bool:
    """Whether a command shows names and states of files, and nothing of what is in them."""
    given = command.split()
    plain = bool(given) and not set(command) & _SHELL_SYNTAX
    return plain and (given[0] in ("ls", "pwd", "tree", "stat", "du", "df") or given[:2] == ["git", "status"])


def only_looks(command: str) -> bool:
    """Whether a single plain command can neither change anything nor reach the network."""
    given = command.split()
    if not given or set(command) & _SHELL_SYNTAX:
        return False
    if given[0] == "git":
        return len(given) > 1 and given[1] in _LOOKING_GIT and not any("=" in word or word == "-o" for word in given)
    return given[0] in _LOOKING and not any(word.startswith(("-o", "--output", "--pre")) for word in given)


# --- what the person said ---------------------------------------------------------------------------------------------
#
# A note repeats the person when it says one of their statements again: the words in their order, from the beginning of
# the statement, nothing left out before the verb and nothing that limits or negates it left out behind. "I" may become
# "the user", verbs their other forms of the present, and a few phrases their equals. All else waits for the person.

_SMALL = _set("a an the to of in on at for with and or as by from is are be it that this")
_SENTENCES = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[\u3002\uff01\uff1f\uff1b])")
_CLAUSES = re.compile(r"[,;()]+(?!\d)|\s[-\u2013\u2014]+\s|[\u2013\u2014\u3001\uff0c\uff1b]")
_FILLER = _set(
    "a an the that really just also please very currently now too still here actually generally so then both do does"
)
_QUESTION = re.compile(
    "[?\uff1f\u061f]"
    r"\s*[\"')\]]*$|^\W*(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|may|might|has|have|had|"
    r"what|what's|which|who|whom|whose|where|when|why|how|isn't|aren't|wasn't|won't|wouldn't|shouldn't|couldn't|can't|"
    r"any (?:idea|chance|reason)|don't (?:you|we|i|they))\b"
    r"|\b(?:is|are|can|could|should|would|will|do|does|did|may|shall)\s+(?:it|we|i|you|they|he|she|there|this|that)\b"
    r"|\b(?:right|correct|yes|no|okay|ok|huh|eh)\s*$",
    re.IGNORECASE,
)
# A sentence with one of these states nothing.
_UNSTATED = re.compile(
    r"\b(?:ask|asks|asked|asking|whether|if|wonder\w*|unsure|maybe|perhaps|possibly|probably|suppose|assume|assuming|"
    r"imagine|pretend|guess|check|verify|confirm|find out|see what|let me know|tell me|explain|figure out|forget|"
    r"hypothetical\w*|would be|could be|as though|as if)\b",
    re.IGNORECASE,
)
# A message with one of these is about a text, or takes back what it says.
_ABOUT_A_TEXT = re.compile(
    r"\b(?:translate|proofread|rewrite|rephrase|reword|paraphrase|summari[sz]e|tl;?dr|quot(?:e|es|ed|ing)|story|poem|"
    r"novel|fiction\w*|lyrics|character|role-?play|pretend|imagine|example|for instance|e\.g\.|hypothetical\w*|sample|"
    r"dummy|placeholder|template|draft|sarcas\w+|ironic\w*|jok(?:e|ing)|kidding|untrue|not true|false|wrong|incorrect|"
    r"a lie|just testing|jk|in theory|supposedly|allegedly|"
    r"(?:don't|do not|never) (?:save|remember|store|note|keep)|"
    r"off the record|between us|scratch that|never ?mind|strike that)\b"
    r"|^(?:from|to|subject|date|cc|re|fwd?):",
    re.IGNORECASE | re.MULTILINE,
)
_PASTED = re.compile(
    r"\b(?:this|these|the following|below|here is|here's|here are|it says|they wrote)\b", re.IGNORECASE
)
_LEAD_IN = re.compile(
    r"^\W*(?:(?:please|ok|okay|hey|hi|hello|thanks|thank you|also|and|btw|by the way|fyi|for the record|note|remember|"
    r"save|keep in mind|don't forget|do not forget|make a note|write down|store|memori[sz]e|be aware|"
    r"just so you know|for (?:future|later) reference|from now on|going forward|in (?:the )?future|in general|"
    r"you should|you must|i want you to|i'd like you to|i would like you to|correction|update|well|so)\b"
    r"(?:\s+(?:that|this|to memory|in memory|of this|it|down))*[\s,:;.!-]*)+",
    re.IGNORECASE,
)
_FRAME = re.compile(
    r"^(?:the )?(?:user|person|they|he|she)(?: has)? (?:prefers|wants|likes|said|says|asked|told me|mentioned|noted|"
    r"states|stated|requires|expects)(?: that| me to| to| you to| the agent to| the assistant to)?\s+",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:say|says|said|claim\w*|told|tells|according|reads|wrote|writes|states|stated|think|thinks|thought|believe\w*|"
    r"suggest\w*|heard|rumou?r\w*)\b|:",
    re.IGNORECASE,
)
_LIMITING = _set(
    "not no never only except unless but until till while without instead rather though although however "
    "otherwise once after before when whenever provided during apart excluding besides neither nor hardly rarely "
    "seldom sometimes used might may could would should temporarily today tomorrow tonight yet"
)
_TURNS_BACK = re.compile(
    r"^\W*(?:except|but|not|only|unless|however|although|though|no\b|nope|wait|actually|just kidding|don't|do not|"
    r"never mind|instead|or rather|well|unless|until)\b",
    re.IGNORECASE,
)
_LIMITS_NEXT = re.compile(r"\b(?:only|except|unless|following|in case|provided)\b", re.IGNORECASE)
_FIRST_PERSON = {"i": "§", "we": "§", "me": "§", "us": "§", "my": "§s", "our": "§s", "mine": "§s", "myself": "§"}
_FIRST_PERSON |= {
    "i'm": "§ be",
    "we're": "§ be",
    "i've": "§ have",
    "we've": "§ have",
    "i'd": "§ would",
    "i'll": "§ will",
}
_FIRST_PERSON |= {"we'd": "§ would", "we'll": "§ will"}
_NOTE_SUBJECTS = {"user": "§", "user's": "§s", "person": "§", "person's": "§s", "they": "§", "their": "§s", "them": "§"}
_NOTE_SUBJECTS |= {"team": "§", "project": "§", "he": "§", "she": "§", "his": "§s", "her": "§s", "team's": "§s"}
_SAME_WORD = {"am": "be", "is": "be", "are": "be", "has": "have", "like": "prefer", "likes": "prefer", "love": "prefer"}
_SAME_WORD |= {"loves": "prefer", "favour": "prefer", "favor": "prefer", "favors": "prefer", "favours": "prefer"}
_SAME_WORD |= {"uses": "use", "using": "use", "does": "do"}
_SAME_WORD |= {"don't": "not", "doesn't": "not", "isn't": "be not", "aren't": "be not", "can't": "can not"}
_SAME_WORD |= {
    "cannot": "can not",
    "won't": "will not",
    "shouldn't": "should not",
    "mustn't": "must not",
    "it's": "it be",
}
_SAME_PHRASE = (
    (re.compile(r"\b(?:be )?(?:based in|located in|reside in|resides in)\b"), "live in"),
    (re.compile(r"(?:§s name be|(?:§|^) ?be (?:called|named)|^call §|§ go by|§ prefer to be called)"), "name"),
    (re.compile(r"§ (?:be born on|have §s birthday on)|§s birthday be(?: on)?|^birthday:?"), "birthday"),
    (re.compile(r"^(?:我们|我|用户|私は|わたしは|ユーザーは)"), "§ "),
)
_KEPT = _LIMITING | {"always", "this", "his", "has", "was"}
_COMMA = "|"
_BREAKS = _set("| and because since which where who")


@value
class _Sentence:
    """One statement: its words without fillers, where its clauses begin, and which of those only go on ("and")."""

    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    joined: frozenset[int]
    raw: str


def repeats(text: str, said: Sequence[str]) -> bool:
    """Whether every sentence of `text` says a statement of the person again, and nothing they said later denies it."""
    statements = [each for message in said for each in _statements(message)]
    notes = [each for each in _SENTENCES.split(text) if words(each)]
    return bool(notes) and all(_is_repeated(note, statements) for note in notes)


def speaks_of(entry: str, said: Sequence[str]) -> bool:
    """Whether the person, in their newest words, wants this entry gone or says most of it again."""
    if not said:
        return False
    wanted = {_stem(word) for word in words(entry) if word not in _SMALL and len(word) > 2}  # noqa: PLR2004
    for sentence in _sentences(said[-1]):
        if _QUESTION.search(sentence) or re.search(r"\b(?:not|never|don't|ask|if|whether)\b", sentence, re.IGNORECASE):
            continue
        after = re.split(
            r"\b(?:forget|remove|delete|drop|erase|no longer|any ?more)\b", sentence, maxsplit=1, flags=re.IGNORECASE
        )
        meant = {_stem(word) for word in words(re.split(r"[,;]| and ", after[1])[0])} if len(after) > 1 else set()
        if wanted & meant or (wanted and len(wanted & {_stem(word) for word in words(sentence)}) * 2 >= len(wanted)):
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
    """Whether one statement says all of this, and none after it speaks of the same and says something else."""
    spoken = {token for part in parts for token in part} - _SMALL - _FILLER - {"§", "§s", "be", "have"}
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
    """Whether `told` is the statement, or clauses of it that nothing before or behind them limits.

    With `whole` only clauses that say who they are about.
    """
    tokens = statement.tokens
    of_person = bool(tokens) and tokens[0].startswith("§")
    for start in statement.starts:
        own = start == 0 or tokens[start].startswith("§")
        # What stands before a clause may be its condition, unless it is a statement of the person as well.
        if start and (not of_person or _REPORTED.search(statement.raw) or set(tokens[:start]) & _LIMITING):
            continue
        if whole and not own:
            continue
        for end in (*(each for each in statement.starts if each > start), len(tokens)):
            # What follows a comma may take it back ("in theory"); "and" only adds to it.
            adds = end == len(tokens) or end in statement.joined or tokens[end].startswith("§")
            is_open = adds and not _LIMITING & set(tokens[end:])
            if is_open and _equal(told, tokens[start:end], tokens[:2] if start else ()):
                return True
    return False


def _equal(told: tuple[str, ...], clause: tuple[str, ...], verb: tuple[str, ...]) -> bool:
    """The same words in the same order; a leading "I" may be left out, a later clause may repeat the first verb."""
    wanted = _bare(clause)
    if "always" not in told:
        wanted = tuple(word for word in wanted if word != "always")
    given = _bare(told)
    return bool(wanted) and (given == wanted or (len(verb) == 2 and given == (*_bare(verb), *wanted)))  # noqa: PLR2004


def _bare(tokens: tuple[str, ...]) -> tuple[str, ...]:
    """Without the person: whose it is, is clear where every statement begins with them."""
    first = tokens[1:] if tokens[:1] == ("§",) else tokens
    return tuple(each for each in first if each != "§s")


def _statements(message: str) -> list[_Sentence | str]:
    """The sentences of a message in order: a statement, or as plain text what is none and can only deny."""
    found: list[_Sentence | str] = []
    is_about_text = bool(_ABOUT_A_TEXT.search(message))
    for sentence in _sentences(message):
        if found and _TURNS_BACK.match(sentence):
            found[-1] = _raw(found[-1])
        stripped = _LEAD_IN.sub("", sentence.replace("\u2019", "'"), count=1)
        limited = found and _LIMITS_NEXT.search(_raw(found[-1]))
        unsaid = is_about_text or limited or _UNSTATED.search(sentence) or not words(stripped)
        none = unsaid or _QUESTION.search(stripped)
        found.append(sentence if none or "\0" in sentence else _parsed(stripped, _FIRST_PERSON))
    return found


def _sentences(message: str) -> list[str]:
    """What the person wrote themselves: code, quotations and what they pasted below a line become a gap."""
    text = re.sub(r"```.*?(?:```|\Z)|^\s*>.*$", "\0", message, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"[\"“”«»][^\"“”«»]*\s[^\"“”«»]*[\"“”«»]", " \0 ", text)
    lines = text.split("\n")
    for at, line in enumerate(lines[:-1]):
        led = _LEAD_IN.sub("", line, count=1)
        if (line.rstrip().endswith(":") and words(led)) or (
            _PASTED.search(line) and any(map(str.strip, lines[at + 1 :]))
        ):
            lines = [*lines[: at + 1], "\0"]
            break
    return [each.strip() for each in _SENTENCES.split("\n".join(lines)) if each.strip()]


def _parsed(sentence: str, people: Mapping[str, str]) -> _Sentence:
    spaced = re.sub(
        r"[,;()]+(?!\d)|\s[-\u2013\u2014]+\s|[\u2013\u2014\u3001\uff0c\uff1b]", " | ", sentence.replace("\u2019", "'")
    )
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


def _stem(word: str) -> str:
    """The form that "live", "lives" and "living" share; the past and names with digits or signs stay as they are."""
    if len(word) <= 3 or not word.isalpha() or not word.isascii() or word in _KEPT:  # noqa: PLR2004
        return word
    for ending, instead in (
        ("ies", "y"),
        ("ing", ""),
        ("sses", "ss"),
        ("shes", "sh"),
        ("ches", "ch"),
        ("xes", "x"),
        ("s", ""),
    ):
        if word.endswith(ending) and not word.endswith("ss") and len(word) > len(ending) + 2:
            word = word[: -len(ending)] + instead
            break
    return word.removesuffix("e")
