"""Images in messages: recognised by their bytes, and stored once in a folder next to the database.

A stored message holds text only. Each image is a placeholder in its `content` (format, pixels and size) and an entry in
its `images`: the name of the file (`<SHA-256>.png`) with its type and size, or the address of an image on the web.
An entry with the bytes (`data`) has not been stored yet.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from typing import TYPE_CHECKING, Any

from hermes.base.errors import ImageRefused, StorageError
from hermes.safety.fence import storable, without_private
from hermes.storage.files import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hermes.storage.ports import Blobs

    Entry = dict[str, Any]
    Content = str | Sequence[Mapping[str, Any]]  # a text, or parts as OpenAI and Anthropic define them

IMAGES = "images"  # the key of a message, and the name of the folder
LARGEST = 3_932_160  # bytes: 5 MB as base64, the most that every provider accepts
MOST_PIXELS = 8_000  # on a side; Anthropic accepts no more
MOST = 20  # images in one message
_DATABASE, _UNSAVED = "state.db", "unsaved"  # as settings.home calls them
_KINDS = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
_SHOWN = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WebP"}
_KILO, _MEGA = 1_000, 1_000_000
_BY = "\N{MULTIPLICATION SIGN}"
_UNKNOWN = "bin"
_UNREADABLE = "[image: unreadable]"
_FILE = re.compile(r"[0-9a-f]{64}\.(?:png|jpg|gif|webp|bin)")
_IN_ROW = re.compile(r'"file":"([0-9a-f]{64}\.[a-z]+)"')
_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w.+=-]+)*;base64,", re.ASCII)
_WEB = ("https://", "http://")
_LONGEST_ADDRESS = 8_000
_TAKEN = "PNG, JPEG, GIF and WebP are taken"
_PIXELS_PER_TOKEN = 750  # as Anthropic counts; OpenAI's tiles come to about the same
_MOST_TOKENS = 1_600  # larger images are made smaller by the provider


# --- messages --------------------------------------------------------------------------------------------------------


def taken_in(content: Content) -> tuple[str, list[Entry]]:
    """The text of a person's message, with a placeholder for each image, and the images.

    Raises ImageRefused if an image has an unknown format or is too large.
    """
    if isinstance(content, str):
        return content, []
    parts: list[Any] = list(content)
    if strange := [part for part in parts if not (isinstance(part, str) or _is_text(part) or is_image(part))]:
        kind = strange[0].get("type") if isinstance(strange[0], dict) else type(strange[0]).__name__
        raise ImageRefused(f"a message may hold texts and images, not a part of the kind {str(kind)[:40]!r}")
    message = without_bytes({"content": parts}, strict=True)
    text = message["content"]
    return text if isinstance(text, str) else _text_of(text), list(message.get(IMAGES) or ())


def without_bytes(message: Mapping[str, Any], *, strict: bool = False) -> Mapping[str, Any]:
    """The message with its images as entries, whatever form they had; a message without images is unchanged.

    With `strict`, an image that no model accepts is refused; otherwise it stays, because an import loses nothing.
    """
    content, given = message.get("content"), message.get(IMAGES)
    if not isinstance(content, list) and not given:
        return message
    taking = _Taking(strict=strict)
    changed = dict(message)
    if isinstance(content, list):
        changed["content"] = taking.content(content)
    if isinstance(given, list):
        taking.listed(given, changed)
    if taking.entries:
        changed[IMAGES] = taking.entries
    return changed if taking.seen else message


def bare(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message as it is stored: with the names of its images, without their bytes."""
    taken = without_bytes(message)
    entries = taken.get(IMAGES)
    return {**taken, IMAGES: [without_data(each) for each in entries]} if isinstance(entries, list) else taken


class _Taking:
    """Takes the images of one message out of its content."""

    def __init__(self, *, strict: bool) -> None:
        self.entries: list[Entry] = []
        self.seen = False
        self._strict = strict

    def content(self, parts: list[Any]) -> Any:
        """A text if there were only texts and images, otherwise the parts with texts instead of images."""
        taken = [self._part(part) for part in parts]
        if not self.seen or not all(isinstance(part, str) or _is_text(part) for part in taken):
            return taken
        return _text_of(taken)

    def listed(self, given: list[Any], message: dict[str, Any]) -> None:
        """Takes in our own entries, and images next to the text in Ollama's form."""
        for each in given:
            if isinstance(each, dict) and not isinstance(each.get("data"), str | bytes):
                self.entries.append(each)
                continue
            part = {"type": "image", **each} if isinstance(each, dict) else {"type": "image", "data": str(each)}
            before = len(self.entries)
            shown = self._part(part)["text"]
            ours = isinstance(each, dict) and len(self.entries) > before
            if not ours or shown not in str(message.get("content")):
                message["content"] = "\n".join(filter(None, [message.get("content"), shown]))

    def _part(self, part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        if isinstance(part.get("content"), list):  # a tool's result inside a message
            inner = [self._part(each) for each in part["content"]]
            return {**part, "content": inner}
        try:
            entry = _entry_of(part)
            if entry is None:
                return part
            if self._strict:
                _refuse_unfit(entry, len(self.entries) + 1)
        except ImageRefused:
            if self._strict:
                raise
            return part  # an import loses nothing, whatever it is
        self.seen = True
        self.entries.append(entry)
        return _text_part(placeholder(entry))


def as_parts(content: Any, images: Sequence[Entry], read: Callable[[Entry], bytes | None]) -> Any:
    """The content for a model with vision: each image that can be read instead of its placeholder."""
    parts: list[Any] = []
    for part, entry in _in_order(content, images):
        shown = _image_part(entry, read) if entry is not None else None
        parts.append(part if shown is None else shown)
    return parts if any(map(is_image, parts)) else content


def own_parts(content: str, images: Sequence[Entry]) -> Content:
    """The content as parts with the entries themselves, so that a person can send it again."""
    return [part if entry is None else {"type": "image", **entry} for part, entry in _in_order(content, images)]


def _in_order(content: Any, images: Sequence[Entry]) -> Iterator[tuple[Any, Entry | None]]:
    """The parts of a content in order; a placeholder comes with the entry of its image, other parts with None."""
    whole = content if isinstance(content, str) else _text_of(content or ())
    waiting = [entry for entry in images if placeholder(entry) in whole]
    for part in [_text_part(content)] if isinstance(content, str) else content or ():
        if not _is_text(part):
            yield part, None
            continue
        rest = str(part.get("text") or "")
        while waiting and (mark := placeholder(waiting[0])) in rest:
            before, _, rest = rest.partition(mark)
            if text := before.removesuffix("\n"):
                yield _text_part(text), None
            rest = rest.removeprefix("\n")
            yield _text_part(mark), waiting.pop(0)
        if rest:
            yield _text_part(rest), None


def public_images(text: str, images: Sequence[Entry]) -> list[Entry]:
    """The images whose placeholders are not in a private part of the text."""
    if without_private(text) == text:
        return list(images)
    marked, at = "", 0
    for number, entry in enumerate(images):
        before, mark, _ = text[at:].partition(placeholder(entry))
        marked += f"{before}\x00{number}\x00"
        at += len(before) + len(mark)
    shown = without_private(marked + text[at:])
    return [entry for number, entry in enumerate(images) if f"\x00{number}\x00" in shown]


def public(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message without images in private parts."""
    content, images = message.get("content"), message.get(IMAGES)
    if isinstance(content, list):
        return storable(message)
    if message.get("role") != "user" or not isinstance(content, str) or not isinstance(images, list):
        return message
    entries = [entry for entry in images if isinstance(entry, dict)]
    kept = images if len(entries) < len(images) else public_images(content, entries)
    return message if len(kept) == len(images) else {**message, IMAGES: kept}


def words_of(content: Content | None) -> str:
    """The texts of a content, without its images."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part.get("text") or "") for part in content if _is_text(part))


def text_only(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message for a model without vision: a placeholder for each image, everything else unchanged."""
    content = message.get("content")
    if not isinstance(content, list) or not any(map(is_image, content)):
        return message
    return {**message, "content": [_described(part) if is_image(part) else part for part in content]}


def is_image(part: object) -> bool:
    """Whether a part of a message is an image, in any form that model providers use."""
    return isinstance(part, dict) and part.get("type") in ("image_url", "input_image", "image")


def has_images(messages: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the content of any of the messages contains an image."""
    contents = (message.get("content") for message in messages)
    return any(isinstance(content, list) and any(map(is_image, content)) for content in contents)


def image_part(source: str | os.PathLike[str] | bytes) -> dict[str, Any]:
    """An image from a file or bytes as a part of a message; ImageRefused if it is not an image or too large."""
    if isinstance(source, bytes):
        data, name = source, "the image"
    else:
        name = os.fspath(source)
        try:
            with open(os.path.expanduser(name), "rb") as file:
                data = file.read(LARGEST + 1)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise ImageRefused(f"{name} cannot be read: {error.strerror or error}; name an image file") from error
        if size > LARGEST:
            raise ImageRefused(_too_large(name, size))
    entry = {**described(data), "data": data}
    _refuse_unfit(entry, 1, name)
    return {"type": "image_url", "image_url": {"url": _data_url(entry["media_type"], data)}}


# --- one image -------------------------------------------------------------------------------------------------------


def described(data: bytes) -> Entry:
    """The entry of an image: its file name with the hash of its bytes, its type and its size."""
    kind, width, height = _recognised(data) or (_UNKNOWN, 0, 0)
    entry: Entry = {"file": f"{hashlib.sha256(data).hexdigest()}.{kind}", "bytes": len(data)}
    if kind != _UNKNOWN:
        entry |= {"media_type": _KINDS[kind], "width": width, "height": height}
    return entry


def placeholder(entry: Mapping[str, Any]) -> str:
    """The text that stands for an image for people, for search, and for models without vision."""
    if "url" in entry:
        return f"[image: {entry['url']}]"
    kind = str(entry.get("file")).rpartition(".")[2]
    size = int(entry.get("bytes") or 0)
    shown = f"{size} bytes" if size < _KILO else f"{size / _KILO:.0f} kB" if size < _MEGA else f"{size / _MEGA:.1f} MB"
    if kind not in _SHOWN:
        return f"[image: unknown format, {shown}]"
    return f"[image: {_SHOWN[kind]}, {entry.get('width')}{_BY}{entry.get('height')}, {shown}]"


def tokens(entry: Mapping[str, Any]) -> int:
    """About how many tokens a model counts for an image."""
    pixels = int(entry.get("width") or 0) * int(entry.get("height") or 0)
    return min(_MOST_TOKENS, pixels // _PIXELS_PER_TOKEN + 85) if pixels else _MOST_TOKENS


def _entry_of(part: Mapping[str, Any]) -> Entry | None:
    """The entry of a part that is an image in any of the usual forms; None for other parts."""
    if not is_image(part):
        return None
    if isinstance(part.get("file"), str) and "data" not in part:
        return {key: value for key, value in part.items() if key != "type"}
    source = part.get("source")
    image: Any = source if isinstance(source, dict) else part.get("image_url", part.get("url"))
    detail = image.get("detail") if isinstance(image, dict) else part.get("detail")
    kept = {"detail": detail} if detail in ("low", "high", "auto") else {}
    data = part.get("data", source.get("data") if isinstance(source, dict) else None)
    if isinstance(data, bytes):
        return {**described(data), **kept, "data": data}
    if isinstance(data, str):  # as Anthropic, MCP and Ollama have it, and our own exports
        return {**_of_bytes(data.rpartition("base64,")[2]), **kept}
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        raise ImageRefused("an image has neither data nor an address; give it as a data: or https: URL")
    if url.startswith("data:"):
        inline = _DATA_URL.match(url)
        if inline is None:
            raise ImageRefused("the data: URL of an image must be base64, as in data:image/png;base64,…")
        return {**_of_bytes(url[inline.end() :]), **kept}
    if url.startswith(_WEB) and len(url) <= _LONGEST_ADDRESS and url.isprintable() and " " not in url:
        return {"url": url, **kept}
    raise ImageRefused(f"the address of an image must begin with https:, http: or data:, not {url[:40]!r}")


def _of_bytes(text: Any) -> Entry:
    try:
        data = base64.b64decode("".join(str(text).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageRefused(f"the base64 of an image cannot be decoded ({error}); send it again") from error
    return {**described(data), "data": data}


def _refuse_unfit(entry: Mapping[str, Any], number: int, name: str = "") -> None:
    name = name or f"image {number}"
    if number > MOST:
        raise ImageRefused(f"a message may have {MOST} images; send the others in the next one")
    if "data" not in entry:  # an address, or one that is stored already
        return
    if entry["bytes"] > LARGEST:
        raise ImageRefused(_too_large(name, entry["bytes"]))
    if "media_type" not in entry:
        raise ImageRefused(f"{name} is no image this program knows ({_TAKEN}); convert it, or check the file")
    if max(entry["width"], entry["height"]) > MOST_PIXELS:
        raise ImageRefused(
            f"{name} has {entry['width']}{_BY}{entry['height']} pixels; at most {MOST_PIXELS:,} on a side are taken:"
            " make it smaller (models see no more than about 1,600)"
        )


def _too_large(name: str, size: int) -> str:
    return (
        f"{name} has {size / _MEGA:.1f} MB; an image may have at most {LARGEST / _MEGA:.1f} MB: make it smaller"
        " (models see no more than about 1,600 pixels on a side)"
    )


def _image_part(entry: Mapping[str, Any], read: Callable[[Entry], bytes | None]) -> dict[str, Any] | None:
    if "url" in entry:
        url = str(entry["url"])
    else:
        media_type = entry.get("media_type")
        data = read(dict(entry)) if media_type in _KINDS.values() else None
        if data is None:
            return None
        url = _data_url(str(media_type), data)
    detail = {"detail": entry["detail"]} if "detail" in entry else {}
    return {"type": "image_url", "image_url": {"url": url, **detail}}


def _data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def _described(part: Mapping[str, Any]) -> dict[str, Any]:
    try:
        entry = _entry_of(part)
        text = placeholder(entry) if entry else _UNREADABLE
    except ImageRefused:
        text = _UNREADABLE
    marker = {"cache_control": part["cache_control"]} if "cache_control" in part else {}
    return {"type": "text", "text": text, **marker}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") in ("text", "input_text")


def _text_of(parts: Iterable[Any]) -> str:
    texts = (part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | dict))
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _recognised(data: bytes) -> tuple[str, int, int] | None:
    """The format of an image and its size in pixels, from its first bytes; None if they are not of an image."""
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        found = ("png", int.from_bytes(data[16:20]), int.from_bytes(data[20:24]))
    elif data.startswith((b"GIF87a", b"GIF89a")):
        found = ("gif", int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))
    elif data.startswith(b"\xff\xd8\xff"):
        found = ("jpg", *_jpeg_size(data))
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        found = ("webp", *_webp_size(data))
    else:
        return None
    return found if found[1] > 0 and found[2] > 0 else None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:  # noqa: PLR2004 - a marker begins so
        marker = data[at + 1]
        if marker == 0xFF:  # noqa: PLR2004 - fill bytes may stand before a marker
            at += 1
        elif marker == 0x01 or 0xD0 <= marker <= 0xD8:  # noqa: PLR2004 - markers without content
            at += 2
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004 - a frame begins
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if len(data) < 30:  # noqa: PLR2004 - the shortest header
        return 0, 0
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = int.from_bytes(data[26:28], "little"), int.from_bytes(data[28:30], "little")
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


# --- the folder ------------------------------------------------------------------------------------------------------


class Images:
    """The images of one person's messages; they are written and removed only under the write lock."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs

    @property
    def exist(self) -> bool:
        """Whether there may be images to remove."""
        return bool(self.blobs.names())

    def put(self, messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Stores the images of new messages durably, and returns the messages without the bytes."""
        return [self._stored(message) if message.get(IMAGES) else message for message in messages]

    def read(self, entry: Mapping[str, Any]) -> bytes | None:
        """The bytes of an image; None if it is missing, or if its hash shows that it was altered."""
        name = entry.get("file")
        if not isinstance(name, str) or not _FILE.fullmatch(name):
            return None
        try:
            data = self.blobs.read(name, int(entry.get("bytes") or 0) + 1)
        except (StorageError, ValueError):
            return None
        return data if data is not None and hashlib.sha256(data).hexdigest() == name.partition(".")[0] else None

    def keep_only(self, rows: Iterable[str]) -> int:
        """Removes every image that no row names; returns how many."""
        used = {name for row in rows for name in _IN_ROW.findall(row)}
        unused = [name for name in self.blobs.names() if _FILE.fullmatch(name) and name not in used]
        if unused:
            self.blobs.remove(unused)
        return len(unused)

    def _stored(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        entries = message[IMAGES]
        if not isinstance(entries, list) or not any(isinstance(each, dict) and "data" in each for each in entries):
            return message
        self.blobs.put(_new(entries))
        return {**message, IMAGES: [without_data(each) for each in entries]}


class ImageFolder:
    """Images as files of one folder."""

    def __init__(self, path: str) -> None:
        self._path = path

    def names(self) -> list[str]:
        folder = Folder.open(self._path)
        if folder is None:
            return []
        with folder:
            return folder.names()

    def put(self, images: Iterable[tuple[str, bytes]]) -> None:
        with Folder.create(self._path) as folder:
            for name, data in images:
                status = folder.status(name)
                if status is None or status.st_size != len(data):
                    folder.replace(name, data)
            folder.sync()

    def read(self, name: str, at_most: int) -> bytes | None:
        folder = Folder.open(self._path)
        if folder is None:
            return None
        with folder:
            return folder.read(name, at_most=at_most)

    def remove(self, names: Sequence[str]) -> None:
        with Folder.create(self._path) as folder:
            for name in names:
                folder.remove(name)
            folder.sync()


class ImageFiles(Images):
    """The images in the folder that belongs to a SQLite file."""

    def __init__(self, database_path: str) -> None:
        place, name = os.path.split(database_path)
        home, unsaved = os.path.split(place)
        if unsaved == _UNSAVED:  # state.db gets this conversation later, so the images are stored where it looks
            place, name = home, f"{_DATABASE}.{_UNSAVED}"
        # A copy that an import builds next to state.db becomes state.db; any other file has its own folder.
        self.path = os.path.join(place, IMAGES if name.startswith(_DATABASE) else f"{name}-{IMAGES}")
        self._own = name == _DATABASE or not name.startswith(_DATABASE)
        self._unsaved = os.path.join(place, _UNSAVED)
        super().__init__(ImageFolder(self.path))

    @property
    def exist(self) -> bool:
        """Whether there may be images to remove; not while conversations wait whose images are not named here yet."""
        return self._own and os.path.isdir(self.path) and not os.path.isdir(self._unsaved)


def is_stored_name(name: str) -> bool:
    """Whether a name is one that stored images have."""
    return _FILE.fullmatch(name) is not None


def to_store(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message with its images as entries, without those that are private."""
    return without_bytes(public(message))


def without_data(entry: Any) -> Any:
    """The entry without the bytes of its image."""
    return {key: value for key, value in entry.items() if key != "data"} if isinstance(entry, dict) else entry


def _new(entries: Sequence[Any]) -> Iterator[tuple[str, bytes]]:
    for each in entries:
        if isinstance(each, dict) and isinstance(each.get("data"), bytes):
            yield str(each["file"]), each["data"]
