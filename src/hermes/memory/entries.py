"""Entries of curated memory: text format, history, origin, and the marks that decide which one is archived first."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

from hermes.base.errors import WriteRefused
from hermes.base.text import counted, day
from hermes.base.values import value
from hermes.storage.files import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from hermes.storage.files import OldVersion, Record
    from hermes.storage.ports import Documents

MARK = "§"
DELIMITER = f"\n{MARK}\n"
_BYTE_ORDER_MARK = "\ufeff"
_PREVIEW = 80


def parse(text: str) -> tuple[str, ...]:
    """Splits the text of a memory file into its entries; empty pieces are dropped."""
    return tuple(entry for piece in text.split(DELIMITER) if (entry := trim(piece)))


def render(entries: Sequence[str]) -> str:
    """Joins entries into the text of a memory file; `parse` reverses it."""
    return DELIMITER.join(entries)


def size(entries: Sequence[str]) -> int:
    """Characters the entries take in the file, separators included: what the limit counts."""
    return sum(map(len, entries)) + len(DELIMITER) * max(0, len(entries) - 1)


def trim(text: str) -> str:
    """Strips whitespace and byte order marks from both ends of an entry."""
    text = text.strip()
    # A byte order mark at the start of the file would be taken for an encoding mark, not for text.
    while text.startswith(_BYTE_ORDER_MARK) or text.endswith(_BYTE_ORDER_MARK):
        text = text.strip(_BYTE_ORDER_MARK).strip()
    return text


def clean(content: str) -> str:
    """The entry as it will be stored, or a refusal that says what is wrong with it."""
    entry = trim(content)
    if not entry:
        raise WriteRefused("content is empty; give the text to remember", kind="empty")
    if MARK in entry and any(line.strip("\r") == MARK for line in entry.split("\n")):
        raise WriteRefused(
            f"content holds a line with only {MARK}, which separates entries; write it as several entries or reword it",
            kind="delimiter",
        )
    if "\0" in entry:
        raise WriteRefused(
            f"content holds a NUL character at position {entry.index(chr(0))}; leave it out", kind="not_text"
        )
    try:
        entry.encode("utf-8")
    except UnicodeEncodeError as error:
        what = "half of a character (a lone surrogate)"
        raise WriteRefused(f"content holds {what} at position {error.start}; leave it out", kind="not_text") from error
    return entry


def index_of(entries: Sequence[str], old_text: str, *, whole: bool = False) -> int:
    """Finds the one entry that contains `old_text`, or equals it with `whole`; identical entries count as one."""
    found = [index for index, entry in enumerate(entries) if (old_text == entry if whole else old_text in entry)]
    if not found:
        raise WriteRefused(
            f"no entry contains {preview(old_text)!r}; use a piece of one of the current entries, exactly as written",
            kind="no_match",
        )
    if len({entries[index] for index in found}) > 1:
        raise WriteRefused(
            f"{len(found)} different entries contain {preview(old_text)!r}; use a longer piece that only one has",
            kind="ambiguous",
            details={"matches": [preview(entries[index]) for index in found]},
        )
    return found[0]


def preview(text: str, length: int = _PREVIEW) -> str:
    """Shortens a text for a message, with an ellipsis where it was cut."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


@value
class Decoded:
    """Text from the bytes of a file; `damage` says why writing back would lose something, `note` what was tolerated."""

    text: str
    damage: str = ""
    note: str = ""


def decode(data: bytes) -> Decoded:
    """Decodes any bytes without raising; what cannot be read is reported in `damage`."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return _decode_utf16(data)
    note = ""
    if data.startswith(b"\xef\xbb\xbf"):
        data, note = data[3:], "a byte order mark at its start was left out"
    try:
        text, damage = data.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        # Valid UTF-8, and the remaining bytes as Windows-1252, which Windows programs write.
        windows = {0xDC00 + byte: bytes([byte]).decode("cp1252", "replace") for byte in range(0x80, 0x100)}
        text = data.decode("utf-8", "surrogateescape").translate(windows)
        line = data.count(b"\n", 0, error.start) + 1
        damage = f"byte {error.start:,} (line {line}) is not UTF-8 text"
    if "\0" in text:
        damage = f"it holds {counted(text.count(chr(0)), 'NUL byte')}, left by a crash or another encoding"
        text = text.replace("\0", "")
    if f"\r\n{MARK}\r\n" in text and text.count("\n") == text.count("\r\n"):
        text, note = text.replace("\r\n", "\n"), "Windows line ends were read as plain ones"
    return Decoded(text=text, damage=damage, note=note)


def _decode_utf16(data: bytes) -> Decoded:
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError:
        return Decoded(
            text=data.decode("utf-16", "replace"), damage="it starts like UTF-16 text but breaks off in a character"
        )
    return Decoded(text=text.replace("\r\n", "\n"), note="it was saved as UTF-16 and is read as such")


# The history of curated memory: every change with author, time, session, before and after; and each entry's origin.
#
# Each memory file has a journal next to it. A record lists the entries it touched; a change made by anything else (an
# editor, a shell, another program) is noticed at the next write and recorded by the difference it made. Each record
# has the file's fingerprint before and after, so a record whose write never reached the file is recognised.

# From the most to the least trusted. "external" is an edit made outside Hermes, usually by the person.
_TRUSTED = ("user", "agent", "background_review", "curator", "import", "external")
_OUTSIDE = ("recall", "provider", "file", "tool", "web")
ORIGINS = (*_TRUSTED, *_OUTSIDE)
UNTRUSTED = frozenset(_OUTSIDE)  # may only become memory when a person agrees
ACCEPT = "accept"  # the action of a person who has looked at an entry of unknown origin
EXTERNAL = "external"  # the origin of text written into the file from outside Hermes
CURATE = "curate"  # the action of a change the curator made


@value
class Cause:
    """Who caused a write. Stamped by the program that calls the store, never by the model."""

    origin: str = "agent"
    session: str = ""
    note: str = ""
    approved: bool = False  # a person has seen this very text and agreed


@value
class Edit:
    """One entry before and after; None for an added or removed one. `index` is its place at that moment."""

    index: int
    before: str | None
    after: str | None


@value
class Leaving:
    """An entry that moved to the archive, the reason, and the live entry that replaces it, if any."""

    entry: str
    reason: str
    into: str = ""


@value
class Change:
    """One record of the history; `foreign` when the change was made outside Hermes.

    `archived` are the removed entries that live on in the archive; `preimage` is the file before, where rendering its
    entries would not give the same bytes again.
    """

    id: str
    target: str
    at: float
    action: str
    cause: Cause
    before: Fingerprint
    after: Fingerprint
    edits: tuple[Edit, ...] = ()
    foreign: bool = False
    undoes: str = ""
    archived: tuple[Leaving, ...] = ()
    preimage: str | None = None
    order: int = 0  # above that of every earlier change of the home, whatever the clock says; 0 in older records

    @property
    def number(self) -> int:
        """The place of the change in the history of its file, from 1."""
        return int(self.id[1:])

    def removed(self) -> list[str]:
        """The earlier texts of every entry this change removed or reworded."""
        return [edit.before for edit in self.edits if edit.before is not None]

    def added(self) -> list[str]:
        """The new texts of every entry this change added or reworded."""
        return [edit.after for edit in self.edits if edit.after is not None]

    def entries_in(self, data: bytes) -> tuple[str, ...]:
        """The entries of the file as this change left it.

        What a shell appended is an entry of its own, although nothing separates it from the last one.
        """
        own = 0
        if self.foreign and self.before.inode == self.after.inode and self.before.begins(data):
            own = self.before.size
        return parse(decode(data[:own]).text) + parse(decode(data[own:]).text)


def to_record(change: Change) -> Record:
    """Converts a change to a journal record; optional fields are left out when they are empty."""
    record: Record = {
        "id": change.id,
        "target": change.target,
        "at": change.at,
        "action": change.action,
        "origin": change.cause.origin,
        "session": change.cause.session,
        "note": change.cause.note,
        "approved": change.cause.approved,
        "from": [change.before.size, change.before.check, change.before.inode],
        "to": [change.after.size, change.after.check, change.after.inode],
        "edits": [[edit.index, edit.before, edit.after] for edit in change.edits],
    }
    if change.foreign:
        record["foreign"] = True
    if change.undoes:
        record["undoes"] = change.undoes
    if change.archived:
        record["archived"] = [[leaving.entry, leaving.reason, leaving.into] for leaving in change.archived]
    if change.preimage is not None:
        record["preimage"] = change.preimage
    if change.order:
        record["order"] = change.order
    return record


def from_record(record: Record) -> Change:
    """Reads a journal record, including the form that versions up to 0.2 wrote."""
    edits = tuple(Edit(index=i, before=before, after=after) for i, before, after in record.get("edits", ()))
    if "state" in record:  # up to 0.2, a foreign change was recorded with all entries before and after
        edits = difference(record.get("was", ()), record["state"])
    return Change(
        id=record["id"],
        target=record["target"],
        at=record["at"],
        action=record["action"],
        cause=Cause(
            origin=record["origin"],
            session=record["session"],
            note=record["note"],
            approved=record.get("approved", False),
        ),
        before=_fingerprint(record["from"]),
        after=_fingerprint(record["to"]),
        edits=edits,
        foreign=record.get("foreign", "state" in record),
        undoes=record.get("undoes", ""),
        archived=tuple(Leaving(entry=e, reason=reason, into=into) for e, reason, into in record.get("archived", ())),
        preimage=record.get("preimage"),
        order=record.get("order", 0),
    )


def _fingerprint(fields: list[int]) -> Fingerprint:
    size, check, inode = fields
    return Fingerprint(size=size, check=check, inode=inode)


def in_effect(changes: Sequence[Change], now: Fingerprint | None) -> list[Change]:
    """The changes whose writes reached the file; `now` is the file as it is, None when unknown.

    A record is written just before its file. When the program is killed between the two, the next record (or the file)
    still starts from the state before it.
    """
    following = [*(later.before for later in changes), now][1:]
    # Equal bytes in another inode mean that the old content was restored after the change; only the same inode shows
    # that the file was never replaced.
    return [
        change
        for change, then in zip(changes, following, strict=False)
        if then != change.before or change.before.same_bytes(change.after)
    ]


def replay(changes: Iterable[Change]) -> tuple[str, ...]:
    """The entries after these changes, oldest first."""
    return apply_edits((), (edit for change in changes for edit in change.edits))


def apply_edits(entries: Sequence[str], edits: Iterable[Edit]) -> tuple[str, ...]:
    """Returns the entries after the edits, applied in order."""
    live = list(entries)
    for edit in edits:
        _apply(live, edit)
    return tuple(live)


def _apply(entries: list[str], edit: Edit) -> None:
    if edit.before is None and edit.after is not None:
        entries.insert(min(edit.index, len(entries)), edit.after)
    elif edit.before in entries:
        # Look at the recorded place first, because the file may hold identical entries.
        at = entries.index(edit.before, edit.index if entries[edit.index : edit.index + 1] == [edit.before] else 0)
        entries[at : at + 1] = [] if edit.after is None else [edit.after]


def difference(was: Sequence[str], now: Sequence[str]) -> tuple[Edit, ...]:
    """Returns the edits that turn `was` into `now`; a moved entry is removed and added again."""
    live, wanted = list(was), set(now)
    edits: list[Edit] = []

    def edit(index: int, before: str | None, after: str | None) -> None:
        edits.append(Edit(index=index, before=before, after=after))
        live[index : index + (before is not None)] = [] if after is None else [after]

    for index in reversed(range(len(live))):
        if live[index] not in wanted:
            edit(index, live[index], None)
    for index, entry in enumerate(now):
        if live[index : index + 1] != [entry]:
            if entry in live[index:]:
                edit(live.index(entry, index), entry, None)
            edit(index, None, entry)
    while len(live) > len(now):
        edit(len(live) - 1, live[-1], None)
    return tuple(edits)


def reverse(change: Change, entries: Sequence[str]) -> tuple[Edit, ...]:
    """Returns the edits that undo one change, or refuses when a later change altered its entries."""
    live = list(entries)
    undone: list[Edit] = []
    for done in reversed(change.edits):
        edit = Edit(index=done.index, before=done.after, after=done.before)
        if edit.before is not None and edit.before not in live:
            raise WriteRefused(
                f"change {change.id} cannot be undone alone: its entry was changed again later; "
                "undo the later change first (`hermes memory log` lists them)",
                kind="undo",
            )
        index = min(edit.index, len(live)) if edit.before is None else live.index(edit.before)
        placed = Edit(index=index, before=edit.before, after=edit.after)
        _apply(live, placed)
        undone.append(placed)
    return tuple(undone)


def in_order(*histories: Sequence[Change]) -> list[Change]:
    """The changes of several files, oldest first. Each history is in order already; clocks may have jumped."""
    placed: list[tuple[int, float, Change]] = []
    for changes in histories:
        order, at = 0, 0.0
        for change in changes:
            order, at = max(order, change.order), max(at, change.at)
            placed.append((order, at, change))
    return [change for *_, change in sorted(placed, key=lambda each: each[:2])]


def newest_to_undo(changes: Sequence[Change]) -> Change | None:
    """Returns the newest change that is neither an undo nor undone, so that undoing twice goes back two steps."""
    undone: set[str] = set()
    for change in reversed(changes):
        if change.undoes:
            undone ^= {change.undoes} if change.id not in undone else set()
        elif change.id not in undone and change.edits:
            return change
    return None


# Journal records are synced later than the files, so the hidden name of a replaced version carries enough to write its
# record again after a power cut.
_LONGEST_LABEL = 150  # characters of a file name; a longer label is left out, not cut
_ASCII = 128


def label_of(number: int, action: str, cause: Cause) -> str:
    """What the hidden name of a replaced version says about the change that replaced it; empty if too long."""
    if cause.note:
        return ""
    label = f"{number}.{action}.{_escaped(cause.origin)}.{_escaped(cause.session)}"
    return label if len(label) <= _LONGEST_LABEL else ""


def _escaped(word: str) -> str:
    """Percent-encodes the word for a file name; dots too, because they separate the fields of a label."""
    if word.isascii() and word.isalnum():
        return word
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < _ASCII else f"%{byte:02x}"
        for byte in word.encode("utf-8", "surrogatepass")
    )


def _unescaped(word: str) -> str:
    first, *rest = word.split("%")
    data = first.encode() + b"".join(bytes.fromhex(piece[:2]) + piece[2:].encode() for piece in rest)
    return data.decode("utf-8", "surrogatepass")


def labelled_number(version: OldVersion) -> int:
    """Reads the change number from the label of a replaced version; 0 when it has none."""
    number = version.label.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def recovered(
    target: str, version: OldVersion, number: int, before: tuple[bytes, Fingerprint], after: tuple[bytes, Fingerprint]
) -> Change:
    """Rebuilds the record of a change that a power cut lost, from the label and bytes of the version it replaced."""
    _, action, origin, session = [*version.label.split("."), "", "", ""][:4]
    return Change(
        id=f"{target[0]}{number}",
        target=target,
        at=version.written_at,
        action=action,
        cause=Cause(origin=_unescaped(origin), session=_unescaped(session), note="recovered after a power cut"),
        before=before[1],
        after=after[1],
        edits=difference(parse(decode(before[0]).text), parse(decode(after[0]).text)),
    )


@value
class Provenance:
    """The origin of one entry and the change that brought it in; origin "unknown" when no record tells.

    It comes from the history, never from what the entry says about itself. An entry keeps the least trusted origin of
    everything it was made from: replacing a sentence from a web page, or removing it and adding another in one batch,
    does not wash it clean. Only a person who writes the text does.
    """

    origin: str
    change: Change | None = None

    @property
    def trusted(self) -> bool:
        """Whether the origin is known and not from outside."""
        return is_trusted(self.origin)


def provenance(entries: Sequence[str], changes: Sequence[Change]) -> dict[str, Provenance]:
    """The provenance of each live entry, from the changes that took effect, oldest first."""
    known: dict[str, Provenance] = {}
    for change in changes:
        if change.undoes or change.action == "restore":
            continue  # taking a change back, or out of the archive, brings an entry back with the origin it always had
        lineage = _lineage(change)
        made_room = {leaving.entry for leaving in change.archived}  # they left; nothing was made from them
        removed = [entry for entry in change.removed() if entry not in made_room]
        for entry in dict.fromkeys([*change.added(), *lineage]):
            origin = _origin(change, lineage.get(entry, removed), known, entry)
            known[entry] = Provenance(origin=origin, change=_brought_in(change, lineage.get(entry, []), known))
    return {entry: known.get(entry, Provenance(origin="unknown")) for entry in entries}


def is_trusted(origin: str) -> bool:
    """Whether the origin is a known, trusted one; a file edited by hand may hold any word there."""
    return origin in ORIGINS and origin not in UNTRUSTED


def least_trusted(origins: Sequence[str]) -> str:
    """Returns the least trusted of the origins; an unknown word counts as less trusted than all known ones."""
    return max(origins, key=lambda origin: ORIGINS.index(origin) if origin in ORIGINS else len(ORIGINS))


def _lineage(change: Change) -> dict[str, list[str]]:
    """For a change of the curator: the sources of each resulting entry, itself included if it existed before.

    For any other batch no such link is known: what it adds may come from anything it removes.
    """
    made_from: dict[str, list[str]] = {}
    if change.action == CURATE:
        for edit in change.edits:
            if edit.before is not None and edit.after is not None:
                made_from.setdefault(edit.after, []).append(edit.before)
        replaced = {source for sources in made_from.values() for source in sources}
        for leaving in change.archived:
            stood = [] if leaving.into in made_from or leaving.into in replaced else [leaving.into]
            made_from.setdefault(leaving.into, stood).append(leaving.entry)
    return made_from


def _origin(change: Change, sources: Sequence[str], known: dict[str, Provenance], entry: str) -> str:
    if change.cause.origin in ("user", "external"):
        return change.cause.origin
    earlier = [known[source].origin for source in sources if source in known]
    if change.action == CURATE:
        return least_trusted(earlier or ["unknown"])
    # An entry that once came from outside does not become clean by leaving and being written again.
    again = [known[entry].origin] if entry in known else []
    return least_trusted([change.cause.origin, *(origin for origin in earlier + again if not is_trusted(origin))])


def _brought_in(change: Change, sources: Sequence[str], known: dict[str, Provenance]) -> Change:
    """The change an entry dates from: what the curator only tidied keeps the date of its oldest source."""
    if change.action != CURATE:
        return change
    dated = [found for source in sources if source in known and (found := known[source].change) is not None]
    return min(dated, key=lambda each: each.at, default=change)


PIN, UNPIN, USE, CATEGORY, SETTLED = "pin", "unpin", "use", "category", "settled"
NEVER, RECALL = "never", "recall"  # a person hides an entry from models, or shows it again


@value
class Marks:
    """What is stored about an entry apart from its text."""

    pinned: bool = False
    never: bool = False  # no model is shown it
    category: str = ""
    uses: int = 0
    last_used: float = 0.0
    settled: tuple[str, ...] = ()  # other entries a person said this one does not contradict, as keys


NONE = Marks()


def key_of(entry: str) -> str:
    """Returns the short hash by which marks refer to an entry."""
    return hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()[:20]


class MarksFile:
    """The marks of one memory file."""

    def __init__(self, documents: Documents, name: str, *, lock_timeout: float) -> None:
        self._documents = documents
        self._name = name
        self._lock_timeout = lock_timeout

    def read(self) -> dict[str, Marks]:
        """The marks by `key_of` the entry."""
        folder = self._documents.open()
        if folder is None:
            return {}
        with folder:
            records, _ = folder.journal(f"{self._name}.marks.jsonl").read()
        found: dict[str, Marks] = {}
        for record in records:
            found[record["of"]] = _marked(found.get(record["of"], NONE), record)
        return found

    def add(self, kind: str, entries: Iterable[str], *, what: str = "") -> None:
        """Marks the entries; durable when it returns."""
        records: list[Record] = [
            {"at": time.time(), "kind": kind, "of": key_of(entry), "what": what} for entry in entries
        ]
        if not records:
            return
        lock = f"{self._name}.lock"
        with self._documents.create() as folder, folder.lock(lock, timeout=self._lock_timeout):
            folder.journal(f"{self._name}.marks.jsonl").append(records, sync=True)


def _marked(marks: Marks, record: Record) -> Marks:
    kind = record["kind"]
    used = kind == USE
    return Marks(
        pinned=kind == PIN or (marks.pinned and kind != UNPIN),
        never=kind == NEVER or (marks.never and kind != RECALL),
        category=record["what"] if kind == CATEGORY else marks.category,
        uses=marks.uses + used,
        last_used=max(marks.last_used, record["at"]) if used else marks.last_used,
        settled=(*marks.settled, record["what"]) if kind == SETTLED else marks.settled,
    )


def of_entries(marks: Mapping[str, Marks], entries: Iterable[str], changes: Sequence[Change]) -> dict[str, Marks]:
    """The marks of each entry; one that was reworded keeps those of its earlier wording."""
    known = dict(marks)
    for change in changes if known else ():
        for edit in change.edits:
            if edit.before is not None and edit.after is not None and (old := known.get(key_of(edit.before))):
                known.setdefault(key_of(edit.after), old)
    return {entry: known.get(key_of(entry), NONE) for entry in entries}


DAY = 86_400.0
_HALF_LIFE = 30 * DAY
_IMPORTANCE = {"identity": 4.0, "lesson": 3.0, "project": 2.0, "environment": 2.0}
_UNKNOWN_IMPORTANCE = 2.0
_RULES = frozenset(["always", "never", "must", "important", "don't", "not", "cannot", "only", "required"])
_UNTRUSTED_LOSES = 2.0
_MOST_USES = 5


def least_valuable(
    live: Sequence[str],
    kept: Collection[str],
    limit: int,
    marks: Mapping[str, Marks],
    origins: Mapping[str, Provenance],
) -> list[Leaving]:
    """Chooses the least valuable entries to archive so that the rest fits; none when even that would not suffice."""
    now = time.time()
    ranked = sorted(
        (_worth(entry, marks[entry], origins[entry], now), place, entry)
        for place, entry in enumerate(live)
        if entry not in kept and not marks[entry].pinned
    )
    rest, leaving = list(live), []
    for _, _, entry in ranked:
        if size(rest) <= limit:
            break
        rest.remove(entry)
        leaving.append(entry)
    if size(rest) > limit:
        return []
    for entry in reversed(leaving):  # archiving a large entry may have freed enough room to keep a small one
        if size([*rest, entry]) <= limit:
            rest.append(entry)
            leaving.remove(entry)
    return [Leaving(entry=entry, reason=_reason(marks[entry], origins[entry])) for entry in leaving]


def _worth(entry: str, marks: Marks, origin: Provenance, now: float) -> float:
    """Scores an entry by importance, freshness, which halves every 30 days without use, uses, and trust."""
    importance = _IMPORTANCE.get(marks.category, _UNKNOWN_IMPORTANCE)
    importance += not _RULES.isdisjoint(entry.lower().split())
    touched = max(origin.change.at if origin.change else 0.0, marks.last_used)
    freshness: float = 0.5 ** (max(0.0, now - touched) / _HALF_LIFE)
    use = min(marks.uses, _MOST_USES) / _MOST_USES
    untrusted = not origin.trusted and origin.origin != "unknown"
    return importance * (0.5 + freshness + use) - (_UNTRUSTED_LOSES if untrusted else 0.0)


def _reason(marks: Marks, origin: Provenance) -> str:
    """Says why an entry was archived, for the tool result and the log."""
    added = f"added {day(origin.change.at)}" if origin.change and origin.change.at else "of unknown age"
    used = f"last of use {day(marks.last_used)}" if marks.last_used else "not used since"
    used += f", category {marks.category}" if marks.category else ""
    return f"the store was full and this was the least valuable entry: {added} by {origin.origin}, {used}, not pinned"
