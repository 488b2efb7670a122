"""Small real images, for tests."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")


def png(width: int = 30, height: int = 20, shade: int = 0) -> bytes:
    """A grey picture; another shade is another picture of the same size."""
    rows = zlib.compress(b"".join(b"\0" + bytes([shade]) * width for _ in range(height)), 0)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    """As far as its frame header, which is all that is looked at."""
    intro = b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    return b"\xff\xd8" + intro + b"\xff\xc0\x00\x0b\x08" + struct.pack(">HH", height, width) + b"\x01\x01\x11\0\xff\xd9"


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def as_openai(data: bytes, kind: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(data, kind), **more}}


def as_claude(data: bytes, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": base64.b64encode(data).decode()}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
