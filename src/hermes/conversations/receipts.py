"""Seals the receipt of each answer with a key of the home, and checks whether stored receipts are intact.

A receipt is stored in the message of its answer (`RECEIPT`), so on every storage engine it is written in the same
transaction, and exported, restored and deleted with the answer. It contains the session, the digests of the answer and
of every message that was new to the model, and the seal of the receipt before it. So without the key, nobody can move
it or change any of the texts unnoticed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from typing import TYPE_CHECKING, Any

from hermes.base.errors import DamagedFile, StorageError
from hermes.base.values import value
from hermes.conversations.context import COPY, RECEIPT, REPLACED_PROMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hermes.conversations.database import SessionDB
    from hermes.storage.ports import DocumentFolder, Documents
    from hermes.storage.records import StoredMessage

MASKED = "masked"  # in a message whose text Hermes itself changed, as when it masks secrets: the sealed old digest
KEY_FILE = "receipts.key"
INTACT, UNSEALED, UNKNOWN_KEY, TAMPERED = "intact", "unsealed", "unknown key", "tampered"
_LARGEST_KEYS = 1 << 20  # bytes of the key file
_WAIT = 5.0  # seconds for the lock on the key file
_DIGEST, _KEY_NAME, _NONCE = 32, 8, 4  # hex digits, hex digits, bytes
# The parts of a message that a receipt covers: what was said, what the model saw of it, and where it came from.
_COVERED = ("role", "content", "api_content", "name", "tool_calls", "tool_call_id", "outside", "additions")
# A merge marks messages as imported, which only lowers their trust, so receipts ignore this mark but no other origin.
_HERE_OR_IMPORTED = ("", "import")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def digest_of(message: Mapping[str, Any]) -> str:
    """The digest of everything that a receipt covers of a message."""
    parts = hashlib.sha256()
    for name in _COVERED:
        given = message.get(name)
        if given is None or (name == "outside" and given in _HERE_OR_IMPORTED):
            continue
        text = given if isinstance(given, str) else _canonical(given)
        data = text.encode("utf-8", "surrogatepass")
        parts.update(b"%b %d %d " % (name.encode(), isinstance(given, str), len(data)))
        parts.update(data)
    return parts.hexdigest()[:_DIGEST]


def digest_of_text(text: str) -> str:
    """The digest of a text by itself, such as a system prompt."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]


class ReceiptKeys:
    """The keys of one home: its own, made on first use, and those that came with imported conversations.

    Only its own key seals. The others verify what other homes have sealed.
    """

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._known: dict[str, bytes] = {}
        self._own = ""

    def seal(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Adds the name of the key and the seal to a record; StorageError if there is no key and none can be made."""
        if not self._own:
            self._read()
        if not self._own:
            self._create()
        sealed = {**record, "key": self._own}
        return {**sealed, "seal": _seal(sealed, self._known[self._own])}

    def state(self, record: Mapping[str, Any]) -> str:
        """INTACT, UNSEALED, UNKNOWN_KEY or TAMPERED: whether the record is as it was sealed."""
        if not record.get("seal"):
            return UNSEALED
        name = str(record.get("key"))
        if name not in self._known:
            self._read()
        if name not in self._known:
            return UNKNOWN_KEY
        rest = {each: part for each, part in record.items() if each != "seal"}
        return INTACT if hmac.compare_digest(_seal(rest, self._known[name]), str(record["seal"])) else TAMPERED

    def texts(self) -> list[str]:
        """All keys as hexadecimal, the home's own first; a copy of the home needs them to verify receipts."""
        self._read()
        own = [self._known[self._own].hex()] if self._own else []
        return [*own, *(key.hex() for name, key in self._known.items() if name != self._own)]

    def accept(self, keys: Iterable[str]) -> None:
        """Stores the keys of another home, to verify what it has sealed."""
        with self._documents.create() as folder, folder.lock(f"{KEY_FILE}.lock", timeout=_WAIT):
            self._read()
            before = self.texts()
            new = [key for key in dict.fromkeys(keys) if key and key not in before]
            if new:
                self._write(folder, before[:1] if self._own else [], [*before[bool(self._own) :], *new])

    def _create(self) -> None:
        with self._documents.create() as folder, folder.lock(f"{KEY_FILE}.lock", timeout=_WAIT):
            self._read()
            if not self._own:  # else another process was faster
                self._write(folder, [os.urandom(32).hex()], self.texts())

    def _write(self, folder: DocumentFolder, own: Sequence[str], others: Sequence[str]) -> None:
        document = {"own": own[0] if own else "", "others": list(others)}
        data = (json.dumps(document) + "\n").encode()
        folder.replace(KEY_FILE, data)
        self._take(data)

    def _read(self) -> None:
        folder = self._documents.open()
        if folder is None:
            return
        with folder:
            data = folder.read(KEY_FILE, at_most=_LARGEST_KEYS)
        if data is not None:
            self._take(data)

    def _take(self, data: bytes) -> None:
        try:
            own, *others = (bytes.fromhex(key) for key in keys_in(data))
        except ValueError as error:
            raise DamagedFile(
                f"{self._documents.path}/{KEY_FILE} cannot be read ({error}); restore it from a backup, or move it "
                "away: new receipts get a new key then, and the old ones cannot be verified"
            ) from error
        self._own = _name_of(own) if own else ""
        self._known = {_name_of(key): key for key in [own, *others] if key}


def keys_in(data: bytes) -> list[str]:
    """Reads a key file: the home's own key first ("" if it has none); ValueError if it is not a key file."""
    try:
        document = json.loads(data)
        return [str(document["own"]), *map(str, document["others"])]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no key file: {error!r}") from error


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"hermes receipt key" + key).hexdigest()[:_KEY_NAME]


def _seal(record: Mapping[str, Any], key: bytes) -> str:
    return hmac.digest(key, _canonical(record).encode(), "sha256").hex()


class Issuer:
    """Makes the receipts of one running session, each tied to the one before it."""

    def __init__(self, keys: ReceiptKeys, session_id: str, stored: Iterable[StoredMessage]) -> None:
        self._keys = keys
        self._session = session_id
        self._before = self.last = ""
        self._prompt = self._listed_in = ""
        for each in stored:
            kept = each.message.get(RECEIPT)
            if isinstance(kept, dict) and kept.get("session") == session_id:
                self._take(kept)

    def newest_in(self, session_id: str) -> str:
        """The id of the newest receipt of this session; "" if it has none."""
        return self.last if session_id == self._session else ""

    def lists_prompt(self, session_id: str, prompt: str) -> bool:
        """Whether an earlier receipt of the session already lists the entries of this prompt."""
        return session_id == self._session and prompt == self._prompt

    def issue(
        self,
        session_id: str,
        *,
        prompt: str,
        entries: Sequence[Sequence[Any]] | None,
        seen: Iterable[str],
        answer: Mapping[str, Any],
        about: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Makes the sealed receipt of an answer.

        `prompt` is the digest of the system prompt; `entries` are the entries in it, or None if an earlier receipt
        lists them. `seen` are the digests of the messages since the last receipt, so a receipt costs the same however
        long the conversation is. `about` holds everything else, such as usage and cost.
        """
        if session_id != self._session:  # after a compaction, the conversation continues in another session
            self._session, self._before, self._prompt = session_id, "", ""
        record: dict[str, Any] = {
            "id": f"{session_id}.{os.urandom(_NONCE).hex()}",
            "session": session_id,
            "at": time.time(),
            "before": self._before,
            "prompt": prompt,
            "messages": list(seen),
            "answer": digest_of(answer),
            **about,
        }
        record |= (
            {"entries": [list(each) for each in entries]} if entries is not None else {"entries_in": self._listed_in}
        )
        try:
            record = self._keys.seal(record)
        except StorageError:  # the answer matters more than its receipt, which then has no seal
            record["seal"] = ""
        self._take(record)
        return record

    def _take(self, record: Mapping[str, Any]) -> None:
        self.last, self._before = str(record["id"]), str(record.get("seal", ""))
        if "entries" in record:
            self._prompt, self._listed_in = record["prompt"], str(record["id"])


@value
class Checked:
    """A stored receipt, and whether it and everything it refers to are unchanged."""

    record: Mapping[str, Any]
    message: StoredMessage
    state: str
    problems: tuple[str, ...] = ()


def checked_receipts(db: SessionDB, session_id: str, keys: ReceiptKeys) -> list[Checked]:
    """Checks the receipts of one session, oldest first; those of copied messages belong to the original's session."""
    stored = [each for each in db.messages(session_id, rewound=True) if not each.damaged]
    found = [each for each in stored if isinstance(each.message.get(RECEIPT), dict) and COPY not in each.message]
    if not found:
        return []
    details = db.session_details(session_id)
    texts = [details.get("system_prompt"), *(each.message.get(REPLACED_PROMPT) for each in stored)]
    known = _Known(
        session=session_id,
        messages={each for message in stored for each in _digests(message.message, keys)},
        prompts={digest_of_text(text) for text in texts if text is not None} | _masked_from(details, keys),
        seals={str(each.message[RECEIPT].get("seal")) for each in found},
    )
    return [_checked(each, known, keys) for each in found]


@value
class _Known:
    session: str
    messages: set[str]
    prompts: set[str]
    seals: set[str]


def _checked(stored: StoredMessage, known: _Known, keys: ReceiptKeys) -> Checked:
    record = stored.message[RECEIPT]
    state = keys.state(record)
    problems = []
    try:
        gone = [each for each in record["messages"] if each not in known.messages]
        if state == TAMPERED:
            problems.append("the receipt was changed after it was sealed")
        if record["session"] != known.session:
            problems.append(f"it belongs to session {record['session']}")
        if record["answer"] not in _digests(stored.message, keys):
            problems.append("the answer was changed")
        if gone:
            problems.append(f"{len(gone)} of {len(record['messages'])} messages that it names were changed or removed")
        if record["prompt"] not in known.prompts:
            problems.append("the system prompt was changed")
        if record["before"] and record["before"] not in known.seals:
            problems.append("the receipt before it is missing or was changed")
    except (KeyError, TypeError) as error:
        problems.append(f"it cannot be read ({error!r})")
    return Checked(record=record, message=stored, state=TAMPERED if problems else state, problems=tuple(problems))


def vouched(was: Mapping[str, Any], now: dict[str, Any], keys: ReceiptKeys) -> dict[str, Any]:
    """The message `now`, with the home's seal that it replaced `was`, so that its receipts still hold.

    An export masks secrets, and a merge gives new ids to the messages that a summary points to.
    """
    receipt = {RECEIPT: was[RECEIPT]} if RECEIPT in was else {}  # it holds digests, and no text of a message
    before, after = digest_of(was), digest_of(now)
    if before == after:
        return {**now, **receipt}
    before = next(iter(_before_masking(was.get(MASKED), before, keys)), before)
    return {**now, **receipt, MASKED: keys.seal({"was": before, "now": after})}


def vouched_prompt(was: Mapping[str, Any], now: dict[str, Any], keys: ReceiptKeys) -> dict[str, Any]:
    """As `vouched`, for the details of a session and the system prompt in them."""
    before, after = (digest_of_text(each.get("system_prompt") or "") for each in (was, now))
    return now if before == after else {**now, MASKED: keys.seal({"was": before, "now": after})}


def _digests(message: Mapping[str, Any], keys: ReceiptKeys) -> list[str]:
    """The digest of a message, and that of its text before Hermes itself changed it."""
    now = digest_of(message)
    return [now, *_before_masking(message.get(MASKED), now, keys)]


def _masked_from(details: Mapping[str, Any], keys: ReceiptKeys) -> set[str]:
    now = digest_of_text(details.get("system_prompt") or "")
    return set(_before_masking(details.get(MASKED), now, keys))


def _before_masking(word: Any, now: str, keys: ReceiptKeys) -> list[str]:
    if not isinstance(word, dict) or word.get("now") != now or keys.state(word) != INTACT:
        return []
    return [str(word["was"])]
