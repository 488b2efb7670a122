"""What Hermes asks of a storage engine beside `storage/conversations`: index, vectors, moves, and documents.

Nothing above `storage` opens a path or a connection that holds a person's data. Whoever holds a port holds one person:
no method takes a person, so none can reach another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from hermes.storage.files import Fingerprint, Identity, OldVersion, ReadSoFar, Seen
    from hermes.storage.records import Row

Durability = Literal["turn", "message"]
OPTIONAL_WAIT = 0.25  # seconds, for a write that can be left out, such as bringing the index level before a search
EVERYTHING = 1 << 62  # above every message id
# How many messages are indexed in one transaction:
BATCH = 96  # when somebody waits for an append
LARGE_BATCH = 1000  # for a search
BULK_BATCH = 8000  # for an import: the more at once, the fewer times a word is written and merged
SAID, TOOLS, TITLES = "messages", "tools", "titles"  # what is indexed apart: words said, tool calls and output, titles


class Use(NamedTuple):
    """When a conversation was used, as far as the clocks say."""

    key: int
    recorded: float
    ended: bool
    source: str
    archived: bool
    imported: bool


class Summary(NamedTuple):
    """One summary; `ids` are the messages below it as ranges, such as "4096-4131, 4140"."""

    number: int
    depth: int
    ids: str
    messages: int
    text: str
    made_by: str


class Index(Protocol):
    """Which messages hold given words. An expression is made of quoted words (`"word"`, `"begin"*`), AND, OR, NOT."""

    def update(self, *, batch: int, most: int | None = None) -> int:
        """Indexes what waits, `batch` messages to a transaction, at most about `most`; returns how many."""

    def is_level(self) -> bool:
        """Whether every message is indexed."""

    def refresh(self) -> None:
        """Others may have written since the last search."""

    def expect(
        self,
        *,
        after: int | None = None,
        counts: Iterable[tuple[str, str]] = (),
        matching: Iterable[tuple[str, str, int]] = (),
        words: Iterable[tuple[str, str, str, int]] = (),
    ) -> None:
        """What a search is about to ask (`blocks_after`, `frequencies`, `matching`, `words_from`).

        A database elsewhere answers all of it in one round trip; for a file there is nothing to do.
        """

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages of one index (or sessions, for titles) that match."""

    def frequencies(self, table: str, expressions: Sequence[str]) -> list[int]:
        """How many messages of one index match each of the expressions."""

    def lengths(self, message_ids: Sequence[int]) -> dict[int, int]:
        """How many words each of these messages has in the index of what was said."""

    def in_order(self, said: str, tools: str, *, oldest: bool, first: int, most: int) -> Iterator[list[int]]:
        """All messages that match in either index, looked up as they are taken: chunks that grow to `most`."""

    def words_from(self, table: str, start: str, end: str, limit: int) -> list[str]:
        """Indexed words from `start` up to, not including, `end`, in order."""

    def totals(self) -> tuple[int, int]:
        """Messages and words in the index of what was said."""

    def blocks_after(self, block: int) -> list[tuple[int, int, int]]:
        """(block, session or 0 when it is somebody else's, first place) of newer blocks of ids, in order."""


class Vectors(Protocol):
    """Vectors of meaning, one block of messages to a row; what is indexed waits to be embedded."""

    def start_over_unless(self, made_by: str) -> None:
        """Forgets vectors of another embedding: two kinds cannot be compared."""

    def waiting(self, most: int) -> list[tuple[int, int]]:
        """(session, newest indexed message) of sessions that wait, newest first."""

    def waits_for_many(self, many: int) -> bool: ...

    def missing(self, session: int, reached: int, dimensions: int) -> list[tuple[int, int]]:
        """(block, messages in it up to `reached`) whose vectors are not there, newest first."""

    def texts(self, first: int, last: int) -> list[tuple[int, str, str | None]]:
        """(id, role, content) of messages as they are stored."""

    def keep(self, made: Sequence[tuple[int, bytes]], finished: Sequence[tuple[int, int]]) -> None:
        """Stores the vectors of blocks, and that these sessions have all of them up to these messages."""

    def newer(self, stamp: int, oldest: int) -> list[tuple[int, int, int, bytes]]:
        """(block, stamp, checksum, data) of what changed since a stamp."""

    def below(self, block: int, most: int) -> list[tuple[int, int, int, bytes]]: ...

    def count(self, oldest: int) -> int: ...

    def forget(self, blocks: Sequence[int]) -> None:
        """Removes damaged vectors; they are made again."""


class Blobs(Protocol):
    """Where images are kept, under names made of their bytes."""

    def names(self) -> list[str]: ...

    def put(self, images: Iterable[tuple[str, bytes]]) -> None:
        """Stores those that are not there yet, durably."""

    def read(self, name: str, at_most: int) -> bytes | None: ...

    def remove(self, names: Sequence[str]) -> None: ...


class Undo(Protocol):
    """What an import needs to take back what it added."""

    def numbers(self) -> dict[str, int]:
        """The last numbers given out to sessions and blocks."""

    def put_numbers_back(self, numbers: Mapping[str, int]) -> None:
        """Numbers given out since are free again, unless somebody has taken later ones."""

    def session_row(self, session_id: str) -> dict[str, Any] | None:
        """All that is stored in a session's row."""

    def cut(self, row: Mapping[str, Any]) -> None:
        """Puts a session back as its row was, without the messages that came later."""

    def alone(self, timeout: float) -> AbstractContextManager[object]:
        """Keeps other imports into the same place out."""

    def is_running(self) -> bool:
        """Whether an import holds the place."""


class Whole(NamedTuple):
    """A session with everything that belongs to it, the same from every engine."""

    row: dict[str, Any]
    details: tuple[str | None, str | None] | None  # system prompt, and the rest as JSON
    blocks: list[tuple[int, int]]  # number and first place
    messages: list[Row]
    summaries: list[Any]


class Lock(Protocol):
    """A lock on a folder of documents."""

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None: ...

    def try_to_take(self) -> bool: ...


class Lease(Protocol):
    """The right to do something that takes long, such as asking a service. Whoever dies loses it in time."""

    def take(self) -> bool:
        """Takes it, or says that it is still needed; False when somebody else has it."""

    def give_back(self) -> None: ...

    def is_taken(self) -> bool:
        """Whether somebody else has it; looking does not take it."""


class Log(Protocol):
    """Records that are only added, oldest first."""

    name: str

    def append(self, records: Iterable[dict[str, Any]], *, sync: bool) -> Identity | None: ...

    def sync(self) -> None: ...

    def withdraw(self, *record_ids: str) -> None:
        """Takes the newest records back as far as they have these ids: what they say did not happen after all."""

    def identity(self) -> Identity:
        """Changes with every append and withdrawal."""

    def last(self) -> dict[str, Any] | None: ...

    def mentions(self, word: str) -> bool: ...

    def read(self) -> tuple[list[dict[str, Any]], int]:
        """All readable records, and how many are damaged."""

    def read_on(self, before: ReadSoFar) -> ReadSoFar: ...


class Shared(Protocol):
    """A document that others write, too: read, and replaced if it is still what was read."""

    def see(self) -> Seen: ...

    def replace(
        self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint], None], prove: Callable[[], None]
    ) -> str: ...

    def holds(self, version: Fingerprint) -> bool: ...

    def leftovers(self) -> tuple[list[str], list[str], list[str]]: ...

    def is_waiting(self, version: Fingerprint, names: list[str]) -> bool: ...

    def old_version(self, name: str) -> OldVersion | None: ...

    def still_written(self, name: str) -> bool: ...


class DocumentFolder(Protocol):
    """Documents that are listed and locked together. Each write is durable when it returns, or when its lock ends."""

    path: str  # for people

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None: ...

    def join(self, name: str) -> str:
        """Where a document is, for people."""

    def names(self) -> list[str]: ...

    def read(self, name: str, *, at_most: int) -> bytes | None: ...

    def write_new(self, name: str, data: bytes) -> object:
        """Makes a document that must not exist yet."""

    def replace(self, name: str, data: bytes) -> None:
        """All or nothing."""

    def write_soon(self, name: str, data: bytes) -> None:
        """As `replace`, but a power cut may take it until `make_durable` has returned."""

    def make_durable(self, name: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> bool:
        """False when there was none."""

    def discard(self, name: str) -> None: ...

    def discard_abandoned(self) -> None: ...

    def size(self, name: str) -> int | None: ...

    def stamp(self, name: str) -> tuple[int, ...]:
        """Its size first; changes with every write; empty when there is no such document."""

    def sync(self) -> None: ...

    def journal(self, name: str) -> Log: ...

    def lock(self, name: str, *, timeout: float) -> Lock: ...

    def lease(self, name: str, *, seconds: float) -> Lease: ...

    def shared(self, name: str, *, at_most: int) -> Shared: ...


class Documents(Protocol):
    """Small named texts and blobs of one person, below one folder of their home."""

    path: str  # for people

    def below(self, *names: str) -> Documents: ...

    def every(self) -> dict[str, int]:
        """All names below the folder, however deep, each with a number that changes with every write."""

    def renew(self) -> None:
        """Somebody was added or forgotten: nothing that is known about people counts any more."""

    def reading(self) -> AbstractContextManager[object]:
        """Around several reads, which an engine may make one transaction of. Nothing is written inside."""

    def open(self) -> DocumentFolder | None:
        """None when there is certainly nothing in it."""

    def create(self) -> DocumentFolder: ...


def is_address(where: str) -> bool:
    """Whether conversations are in a PostgreSQL database, not in a file."""
    return where.startswith(("postgresql://", "postgres://"))
