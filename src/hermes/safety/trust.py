"""The trust gate: whether a text may reach something that outlives the turn or leaves the machine.

Every text in front of a model has a source with a grade: person (what they typed, or approved), trusted (files of
folders they trust, our own tools' listings and errors, searches over their own words) or outside (everything else). The
program grades texts as they come in, never the model, and stores with each message where its text comes from if that is
outside. The gate sees the outside texts as `Source`s and the person's words as texts.

Whatever writes or sends is a sink (`SINKS`) and calls `decide` first; nothing else decides. The rule:

1. A person agreed to exactly this: allow.
2. Nothing from outside is in front of the model: allow.
3. The text only repeats a statement of the person, or the call carries nothing but their words: allow.
4. Otherwise a person is asked. If that cannot be told, because something failed, a person is asked as well.

Texts are compared with what the person said word by word (`safety/statements`); no model and no scanner is consulted.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hermes.base.values import value
from hermes.safety.statements import SMALL_WORDS, repeats, speaks_of, word_set, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

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
    unknown = words(place) - known - word_set("http https www com org net io dev html htm php md json txt")
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
    return words("\n".join((*turn.said()[-1:], *(source.text[:_READ] for source in sources)))) | SMALL_WORDS


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
    wanted = {word for text in texts for word in words(text)} - SMALL_WORDS
    newest_first = list(reversed(sources))
    return tuple(sorted(newest_first, key=lambda each: -len(wanted & words(each.text[:_READ]))))


def _in_words(source: Source, texts: Sequence[str]) -> str:
    passage = source.passage(texts)
    what = f"{source.origin}, {source.name}" + (f": {passage!r}" if passage else "")
    return f"text from outside is in front of the model ({what}) and this is not what the user said"


# --- what agents load and programs run --------------------------------------------------------------------------------

_LOADED_FILES = word_set(
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
_LOADED_FOLDERS = word_set(
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
_LOCAL = word_set(
    "[ awk basename bash black cal cargo cat cd clang cmake cmp column comm cp cut date dd df diff dirname du "
    "echo egrep eslint exit expr false fd fgrep file find flake8 g++ gcc go gofmt gradle grep head hexdump id "
    "isort javac java jest jq just ld less ls lsof make md5sum mkdir mktemp mv mvn mypy nl node nox npm nproc od "
    "paste perl pnpm poetry prettier printf ps pwd pyright pytest python python3 readlink realpath rg rm rmdir "
    "ruff rustc sed seq sha256sum sh shellcheck sleep sort stat strings tail tar tee test time touch tox tr tree "
    "true tsc type uname uniq unzip uv vitest wc whereis which whoami xargs xxd yarn yes zcat zip"
)
_LOCAL_GIT = word_set(
    "add apply bisect blame branch cat-file checkout cherry-pick commit config describe diff grep init log "
    "ls-files merge mv rebase reflog reset restore rev-list rev-parse revert rm show stash status switch tag "
    "worktree"
)
_FETCHING = re.compile(r"://|\b(?:install|add|update|upgrade|publish|login|dlx|create|sync|fetch|pull|clone|get)\b")
_LOOKING = word_set("basename cat date df diff dirname du echo file grep head id ls nl nproc ps pwd realpath rg stat")
_LOOKING |= word_set("tail tree type uname uniq wc whereis which whoami sort")
_LOOKING_GIT = word_set("blame branch describe diff log ls-files rev-parse show status")
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
