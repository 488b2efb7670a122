"""What a storage engine implements besides `storage/conversations`: index, vectors, undo of imports, and documents.

Nothing above `storage` opens a path or a connection with a person's data. A port belongs to one person: no method takes
a person, so none can reach another one.
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
OPTIONAL_WAIT = 0.25  # seconds to wait for a write that is not necessary, such as indexing before a search
EVERYTHING = 1 << 62  # above every message id
# How many messages are indexed in one transaction:
BATCH = 96  # while a person waits for an append
LARGE_BATCH = 1000  # for a search
BULK_BATCH = 8000  # for an import: the more at once, the fewer times a word is written and merged
SAID, TOOLS, TITLES = "messages", "tools", "titles"  # what is indexed apart: words said, tool calls and output, titles


class Use(NamedTuple):
    """When a conversation was used, according to the clocks at that time."""

    key: int
    recorded: float
    ended: bool
    source: str
    archived: bool
    imported: bool


class Summary(NamedTuple):
    """One summary; `ids` are the messages that it summarises, as ranges such as "4096-4131, 4140"."""

    number: int
    depth: int
    ids: str
    messages: int
    text: str
    made_by: str


class Index(Protocol):
    """Finds the messages that contain given words; expressions consist of `"word"`, `"begin"*`, AND, OR and NOT."""

    def update(self, *, batch: int, most: int | None = None) -> int:
        """Indexes waiting messages, `batch` in each transaction and about `most` in all; returns how many."""

    def is_level(self) -> bool:
        """Whether every message is indexed."""

    def refresh(self) -> None:
        """Takes in what others wrote since the last search."""

    def expect(
        self,
        *,
        after: int | None = None,
        counts: Iterable[tuple[str, str]] = (),
        matching: Iterable[tuple[str, str, int]] = (),
        words: Iterable[tuple[str, str, str, int]] = (),
    ) -> None:
        """Announces the next calls of `blocks_after`, `frequencies`, `matching` and `words_from`.

        A database server answers all of them in one round trip; a file has nothing to do.
        """

    def matching(self, table: str, expression: str, limit: int) -> list[int]:
        """The newest messages of one index (or sessions, for titles) that match."""

    def frequencies(self, table: str, expressions: Sequence[str]) -> list[int]:
        """How many messages of one index match each of the expressions."""

    def lengths(self, message_ids: Sequence[int]) -> dict[int, int]:
        """How many words each of these messages has in the index of what was said."""

    def in_order(self, said: str, tools: str, *, oldest: bool, first: int, most: int) -> Iterator[list[int]]:
        """All matches in either index, in chunks that grow to `most`; a chunk is looked up when it is taken."""

    def words_from(self, table: str, start: str, end: str, limit: int) -> list[str]:
        """Indexed words from `start` up to, not including, `end`, in order."""

    def totals(self) -> tuple[int, int]:
        """Messages and words in the index of what was said."""

    def blocks_after(self, block: int) -> list[tuple[int, int, int]]:
        """(block, session or 0 if it belongs to another owner, first place) of newer blocks of ids, in order."""


class Vectors(Protocol):
    """Vectors for search by meaning, one row per block of messages; indexed messages wait to be embedded."""

    def start_over_unless(self, made_by: str) -> None:
        """Forgets vectors of another embedding: two kinds cannot be compared."""

    def waiting(self, most: int) -> list[tuple[int, int]]:
        """(session, newest indexed message) of sessions that wait, newest first."""

    def waits_for_many(self, many: int) -> bool:
        """Whether at least so many sessions wait to be embedded."""

    def missing(self, session: int, reached: int, dimensions: int) -> list[tuple[int, int]]:
        """(block, messages in it up to `reached`) of blocks without all vectors, newest first."""

    def texts(self, first: int, last: int) -> list[tuple[int, str, str | None]]:
        """(id, role, content) of messages as they are stored."""

    def keep(self, made: Sequence[tuple[int, bytes]], finished: Sequence[tuple[int, int]]) -> None:
        """Stores vectors of blocks, and notes up to which message sessions now have all their vectors."""

    def newer(self, stamp: int, oldest: int) -> list[tuple[int, int, int, bytes]]:
        """(block, stamp, checksum, data) of what changed since a stamp."""

    def below(self, block: int, most: int) -> list[tuple[int, int, int, bytes]]:
        """(block, stamp, checksum, data) of the newest blocks below this one, newest first."""

    def count(self, oldest: int) -> int:
        """How many blocks from `oldest` on have vectors; shows that some were deleted."""

    def forget(self, blocks: Sequence[int]) -> None:
        """Removes damaged vectors; they are made again."""


class Blobs(Protocol):
    """Where images are kept, under names made of their bytes."""

    def names(self) -> list[str]:
        """The names of all images."""

    def put(self, images: Iterable[tuple[str, bytes]]) -> None:
        """Stores those that are not there yet, durably."""

    def read(self, name: str, at_most: int) -> bytes | None:
        """The bytes of an image; None if there is none with this name."""

    def remove(self, names: Sequence[str]) -> None:
        """Deletes these images."""


class Imports(Protocol):
    """What an import of conversations, and a move to another engine, need besides the conversations."""

    def alone(self, timeout: float) -> AbstractContextManager[Callable[[], None]]:
        """Keeps other imports into the same place out; gives a function to call in each transaction, to stay."""

    def numbers(self) -> dict[str, int]:
        """The last numbers given out to sessions and blocks."""

    def put_numbers_back(self, numbers: Mapping[str, int]) -> None:
        """Continues from these numbers, unless later ones have been given out."""


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

    def try_to_take(self) -> bool:
        """Takes the lock if nobody has it, without waiting; returns whether it did."""


class Lease(Protocol):
    """The right to do something that takes long, such as asking a service; it expires if its holder dies."""

    def take(self) -> bool:
        """Takes or renews the lease; False if another process has it."""

    def give_back(self) -> None:
        """Ends the lease, so that another process can take it."""

    def is_taken(self) -> bool:
        """Whether another process has it; asking does not take it."""


class Log(Protocol):
    """An append-only list of records, oldest first."""

    name: str

    def append(self, records: Iterable[dict[str, Any]], *, sync: bool) -> Identity | None:
        """Adds records at the end; returns the new `identity`, or None if it cannot be determined."""

    def sync(self) -> None:
        """Makes all records so far survive a power cut."""

    def withdraw(self, *record_ids: str) -> None:
        """Removes the newest records as long as they have these ids, because their change did not happen after all."""

    def identity(self) -> Identity:
        """A value that changes with every append and withdrawal."""

    def last(self) -> dict[str, Any] | None:
        """The newest readable record."""

    def mentions(self, word: str) -> bool:
        """Whether a record may contain this text; faster than reading them."""

    def read(self) -> tuple[list[dict[str, Any]], int]:
        """All readable records, and how many are damaged."""

    def read_on(self, before: ReadSoFar) -> ReadSoFar:
        """Reads what was appended since an earlier reading, or everything if that no longer fits."""


class Shared(Protocol):
    """A document that others also write: it is replaced only if it still is what was read."""

    def see(self) -> Seen:
        """Reads the document, so that a later `replace` notices whether it has changed."""

    def replace(
        self, seen: Seen, data: bytes, label: str, commit: Callable[[Fingerprint], None], prove: Callable[[], None]
    ) -> str:
        """Replaces the version that was seen; `SharedFile.replace` describes the order of the steps."""

    def holds(self, version: Fingerprint) -> bool:
        """Whether the document is exactly this version, as far as that can be determined."""

    def leftovers(self) -> tuple[list[str], list[str], list[str]]:
        """Hidden names: replaced versions, versions that others may still write to, and unfinished ones."""

    def is_waiting(self, version: Fingerprint, names: list[str]) -> bool:
        """Whether one of these hidden names contains a version that was never put in place."""

    def old_version(self, name: str) -> OldVersion | None:
        """A replaced version by its hidden name; None if it was never replaced."""

    def still_written(self, name: str) -> bool:
        """Whether another program may still write to this replaced version."""


class DocumentFolder(Protocol):
    """Documents that are listed and locked together; a write is durable when it returns, or when its lock ends."""

    path: str  # for people

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Ends the use of the folder."""

    def join(self, name: str) -> str:
        """Where a document is, for people."""

    def names(self) -> list[str]:
        """The names of all documents in the folder, sorted."""

    def read(self, name: str, *, at_most: int) -> bytes | None:
        """The content of a document; None if there is none."""

    def write_new(self, name: str, data: bytes) -> object:
        """Creates a document that must not exist yet."""

    def replace(self, name: str, data: bytes) -> None:
        """Replaces a document, all or nothing."""

    def write_soon(self, name: str, data: bytes) -> None:
        """As `replace`, but a power cut may undo it until `make_durable` has returned."""

    def make_durable(self, name: str) -> None:
        """Makes a document survive a power cut."""

    def rename(self, old: str, new: str) -> None:
        """Renames a document; one that has the new name already is replaced."""

    def remove(self, name: str) -> bool:
        """Removes a document; False if there was none."""

    def discard(self, name: str) -> None:
        """Removes a document that is not needed any more; a failure is ignored."""

    def discard_abandoned(self) -> None:
        """Removes what killed processes left unfinished."""

    def size(self, name: str) -> int | None:
        """The size of a document in bytes; None if there is none."""

    def stamp(self, name: str) -> tuple[int, ...]:
        """Numbers that change with every write, the size first; empty if there is no such document."""

    def sync(self) -> None:
        """Makes new, renamed and removed names survive a power cut."""

    def journal(self, name: str) -> Log:
        """The append-only log of this name."""

    def lock(self, name: str, *, timeout: float) -> Lock:
        """A lock that other processes respect; taking it waits up to `timeout` seconds."""

    def lease(self, name: str, *, seconds: float) -> Lease:
        """A lease that ends after `seconds`, or with its process, if it is not renewed."""

    def shared(self, name: str, *, at_most: int) -> Shared:
        """A document that other programs also write."""


class Documents(Protocol):
    """Small named texts and blobs of one person, below one folder of their home."""

    path: str  # for people

    def below(self, *names: str) -> Documents:
        """The documents of a folder below this one."""

    def every(self) -> dict[str, int]:
        """All names below the folder, at any depth, each with a number that changes with every write."""

    def renew(self) -> None:
        """Drops what is cached about people, because one was added or forgotten."""

    def reading(self) -> AbstractContextManager[object]:
        """Groups several reads, which an engine may put into one transaction; nothing is written inside."""

    def open(self) -> DocumentFolder | None:
        """Opens the folder; None if it certainly contains nothing."""

    def create(self) -> DocumentFolder:
        """Opens the folder, and creates it if there is none."""


def is_address(where: str) -> bool:
    """Whether conversations are in a PostgreSQL database, not in a file."""
    return where.startswith(("postgresql://", "postgres://"))
