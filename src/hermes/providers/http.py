"""`Remote`: calls an HTTP service with a deadline, raises one kind of error, and never shows a key.

Each call is one attempt: the caller decides whether to try again.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import httpx

from hermes.base.errors import Interrupted, ProviderError
from hermes.llm.client import error_in, retry_after
from hermes.llm.transport import CANCELLED, shared_client
from hermes.safety.secrets import mask_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Shape = type | tuple[type, ...] | dict[str, Any] | list[Any] | None

_LARGEST_ANSWER = 16 << 20  # bytes
_LONGEST_QUOTE = 300  # characters of a service's message in an error
_SHORTEST_SECRET = 6  # characters; to hide a shorter one would blank out ordinary words
_NO_ANSWER = object()  # None is a possible value of `otherwise`
_MISSING = (404, 410)  # not found, gone
_BUSY = frozenset({408, 425})  # like 5xx: the same request may work later


class Remote:
    """One service; `bearer` is sent as its key. Neither that key nor the `secrets` ever appear in an error."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        bearer: str = "",
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        timeout: float = 10.0,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        key = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        self._headers = {"Accept": "application/json", **key, **(headers or {})}
        self._secrets = [each for each in (bearer, *secrets) if len(each) >= _SHORTEST_SECRET]
        self._timeout = timeout

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, expect: Shape = dict, **more: Any) -> Any:
        """Requests a path and expects an object."""
        return self.request("GET", path, params=params, expect=expect, **more)

    def post(self, path: str, body: Any = None, *, expect: Shape = dict, **more: Any) -> Any:
        """Sends a body as JSON and expects an object."""
        return self.request("POST", path, body, expect=expect, **more)

    def put(self, path: str, body: Any = None, *, expect: Shape = None, **more: Any) -> Any:
        """Sends a body as JSON and accepts any answer, even an empty one."""
        return self.request("PUT", path, body, expect=expect, **more)

    def delete(self, path: str, body: Any = None, *, expect: Shape = None, **more: Any) -> Any:
        """Sends a DELETE, with a body if the service wants one, and accepts any answer, even an empty one."""
        return self.request("DELETE", path, body, expect=expect, **more)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        expect: Shape = dict,
        otherwise: Any = _NO_ANSWER,
    ) -> Any:
        """Makes one call and returns the decoded answer, or raises a `ProviderError` that says whether waiting helps.

        `expect` is the shape of the JSON (see `misfit`). None accepts any answer except HTML, even an empty one.
        `otherwise` is returned if the service answers "not found".
        """
        sent = {**self._headers, **(headers or {})}
        arguments: dict[str, Any] = {"headers": sent, "params": _sendable(params)}
        if body is not None:
            arguments["content"] = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
            sent.setdefault("Content-Type", "application/json")
        seconds = timeout or self._timeout
        end = time.monotonic() + seconds
        # httpx limits each read, so a service that trickles could take forever; this limits the whole call.
        waiting = {CANCELLED: lambda: time.monotonic() > end}
        url = f"{self.base_url}/{path.lstrip('/')}"
        try:
            with shared_client().stream(method, url, timeout=seconds, extensions=waiting, **arguments) as answer:
                data = self._body(answer, end)
        except (httpx.TimeoutException, Interrupted) as error:
            slow = f"{self.name} did not answer in time ({seconds:g} s); check the service, or give it more time"
            raise ProviderError(slow, kind="slow") from error
        except httpx.ConnectError as error:
            why = self._hidden(str(error) or type(error).__name__)
            where = f"{self.name} cannot be reached at {self.base_url}: {why}"
            raise ProviderError(f"{where} (is it running, and is the address right?)", kind="unreachable") from error
        except httpx.InvalidURL as error:
            raise ProviderError(f"{self.name}: {self.base_url!r} is not an address: {error}", kind="absent") from error
        except httpx.HTTPError as error:
            broke = f"{self.name}: the connection broke: {self._hidden(str(error) or type(error).__name__)}"
            raise ProviderError(f"{broke} (it is tried again later)", kind="busy") from error
        if answer.status_code in _MISSING and otherwise is not _NO_ANSWER:
            return otherwise
        if answer.status_code >= 400:  # noqa: PLR2004 - where HTTP errors begin
            raise self._failure(answer, data)
        return self._decoded(answer, data, expect)

    def _body(self, answer: httpx.Response, end: float) -> bytes:
        pieces, size = [], 0
        for piece in answer.iter_bytes():
            size += len(piece)
            if size > _LARGEST_ANSWER:
                raise ProviderError(f"{self.name} answered with more than {_LARGEST_ANSWER:,} bytes", kind="malformed")
            if time.monotonic() > end:
                raise ProviderError(f"{self.name} answers too slowly; check the service", kind="slow")
            pieces.append(piece)
        return b"".join(pieces)

    def _failure(self, answer: httpx.Response, data: bytes) -> ProviderError:
        status = answer.status_code
        said = self._hidden(str(error_in(data)["message"]))
        answered = f"{self.name} answered {status}: {said}"
        wait = retry_after(answer.headers, time.time())
        if status in (401, 403):
            return ProviderError(
                f"{answered} (run `hermes memory setup {self.name}` to set the key)", kind="key", status=status
            )
        if status == 429:  # noqa: PLR2004
            asked = f"it asks to wait {wait:g} s" if wait is not None else "it does not say how long to wait"
            return ProviderError(f"{answered} ({asked})", kind="limited", seconds=wait, status=status)
        if status in _BUSY or status >= 500:  # noqa: PLR2004
            return ProviderError(f"{answered} (it is tried again later)", kind="busy", seconds=wait, status=status)
        if status in _MISSING:
            return ProviderError(f"{answered} (check the address {self.base_url})", kind="missing", status=status)
        return ProviderError(f"{answered} (the request was refused)", kind="refused", status=status)

    def _decoded(self, answer: httpx.Response, data: bytes, expect: Shape) -> Any:
        if expect is None and not data.strip():
            return None
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            text = data.decode("utf-8", "replace")
            if expect is None and not text.lstrip().startswith("<"):
                return text
            kind = answer.headers.get("content-type", "no content type")
            wrong = f"{self.name} answered {answer.status_code} with {kind} instead of JSON; is {self.base_url} right?"
            raise ProviderError(wrong, kind="astray", status=answer.status_code) from error
        if wrong := misfit(expect, found):
            said = f"{self.name} answered something unexpected ({wrong}); is its version one this provider knows?"
            raise ProviderError(said, kind="malformed", status=answer.status_code)
        return found

    def _hidden(self, text: str) -> str:
        for each in self._secrets:
            text = text.replace(each, "[key]")
        text = mask_secrets(" ".join(text.split()))
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def misfit(shape: Shape, found: Any, where: str = "the answer") -> str:
    """Describes how a value differs from the expected shape; empty if it fits.

    A shape is a type, a list with the shape of every item, or a dict of keys and shapes; a key that ends in "?" is
    optional. Answers may have more keys.
    """
    if shape is None or shape is Any:
        return ""
    if isinstance(shape, dict):
        if not isinstance(found, dict):
            return f"{where} is {type(found).__name__}, not an object"
        for key, inner in shape.items():
            name = key.removesuffix("?")
            if found.get(name) is None:
                if key.endswith("?"):
                    continue
                return f"{where} has no {name}"
            if wrong := misfit(inner, found[name], f"{where}.{name}"):
                return wrong
        return ""
    if isinstance(shape, list):
        if not isinstance(found, list):
            return f"{where} is {type(found).__name__}, not a list"
        return next((wrong for i, each in enumerate(found) if (wrong := misfit(shape[0], each, f"{where}[{i}]"))), "")
    # Python counts True as an int, but JSON does not.
    fits = isinstance(found, shape) and (shape is bool or not isinstance(found, bool))
    return "" if fits else f"{where} is {type(found).__name__}"


def _sendable(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The parameters without None, and without lone surrogates, which cannot be part of an address."""
    return {
        key: each.encode("utf-8", "replace").decode() if isinstance(each, str) else each
        for key, each in (params or {}).items()
        if each is not None
    } or None
