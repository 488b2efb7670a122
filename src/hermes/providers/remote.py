"""The one way to a memory service over HTTP: deadlines, a few retries, one kind of error, and no key ever shown.

    service = Remote("mem0", "https://api.mem0.ai", headers={"Authorization": f"Token {key}"}, secrets=[key])
    found = service.post("/v3/memories/search/", {"query": "tea"}, expect={"results": [{"id": str, "memory": str}]})

A call returns the decoded JSON after its shape was checked, or raises a `ProviderError`. It never takes longer than its
deadline, however slowly the bytes come.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from hermes.llm.failures import retry_after
from hermes.llm.transport import CANCELLED, shared_client
from hermes.safety.secrets import mask_secrets
from hermes.vocabulary.errors import Interrupted, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    # A type, {"key": shape, "optional?": shape} or [shape]; unknown keys are welcome.
    Shape = type | tuple[type, ...] | dict[str, Any] | list[Any] | None

Found = TypeVar("Found")
_LARGEST_ANSWER = 16 << 20
_LONGEST_QUOTE = 300
_SHORTEST_SECRET = 6
_LONGEST_WAIT = 2.0  # a service that wants us to wait longer is asked again later, by whoever keeps what waits
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_NOT_DONE = frozenset({425, 429, 503})  # the service says that it did nothing
_PAUSES = (0.2, 0.8)
_MARKUP = re.compile(r"<[^>]{0,500}>")


class Remote:
    """One service. `secrets` are texts that must never appear in an error; `key_hint` says where the key belongs."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        timeout: float = 10.0,
        retries: int = 2,
        key_hint: str = "",
        client: Callable[[], httpx.Client] = shared_client,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.base_url = base_url.rstrip("/")
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._secrets = [each for each in secrets if len(each) >= _SHORTEST_SECRET]
        self._timeout = timeout
        self._retries = retries
        self._key_hint = key_hint or f"run `hermes memory setup {name}` to set the key"
        self._client = client
        self._sleep = sleep

    def hurried(self, timeout: float) -> Remote:
        """The same service for a turn that waits: one attempt within a short time, or none."""
        return Remote(
            self.name,
            self.base_url,
            headers=self._headers,
            secrets=self._secrets,
            timeout=timeout,
            retries=0,
            key_hint=self._key_hint,
            client=self._client,
            sleep=self._sleep,
        )

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, expect: Shape = dict, **more: Any) -> Any:
        return self.request("GET", path, params=params, expect=expect, **more)

    def post(self, path: str, body: Any = None, *, expect: Shape = dict, **more: Any) -> Any:
        return self.request("POST", path, body, expect=expect, **more)

    def put(self, path: str, body: Any = None, *, expect: Shape = None, **more: Any) -> Any:
        return self.request("PUT", path, body, expect=expect, **more)

    def delete(self, path: str, *, expect: Shape = None, **more: Any) -> Any:
        return self.request("DELETE", path, expect=expect, **more)

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
        repeatable: bool | None = None,
        content: bytes | None = None,
        files: Any = None,
    ) -> Any:
        """One call; `expect=None` takes any answer but a page, also none at all, and `expect=str` is for text.

        `repeatable` says that doing it twice is harmless, as it is for GET, PUT and DELETE: then it is tried again also
        when nobody knows whether the first attempt arrived.
        """
        if repeatable is None:
            repeatable = method in ("GET", "PUT", "DELETE", "HEAD")
        sent = {**self._headers, **(headers or {})}
        arguments: dict[str, Any] = {"headers": sent, "params": _without_none(params)}
        if files is not None:
            arguments["files"] = files
        elif content is not None:
            arguments["content"] = content
        elif body is not None:
            arguments["content"] = json.dumps(body, ensure_ascii=False).encode("utf-8", "backslashreplace")
            sent.setdefault("Content-Type", "application/json")
        end = time.monotonic() + (timeout or self._timeout)
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                return self._once(method, path, arguments, end, expect)
            except ProviderError as error:
                pause = self._pause(error, attempt, repeatable=repeatable)
                if last or pause is None or time.monotonic() + pause >= end:
                    raise
                self._sleep(pause)
        raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises

    def _once(self, method: str, path: str, arguments: dict[str, Any], end: float, expect: Shape) -> Any:
        left = max(end - time.monotonic(), 0.001)
        url = path if path.startswith(("http://", "https://")) else f"{self.base_url}/{path.lstrip('/')}"
        waiting = {CANCELLED: lambda: time.monotonic() > end}
        try:
            with self._client().stream(method, url, timeout=left, extensions=waiting, **arguments) as answer:
                data = self._body(answer, end)
        except (httpx.TimeoutException, Interrupted) as error:
            slow = f"{self.name} did not answer in time ({self._timeout:g} s); check the service, or give it more time"
            raise ProviderError(slow, kind="slow") from error
        except httpx.ConnectError as error:
            raise ProviderError(self._unreachable(error), kind="unreachable") from error
        except httpx.InvalidURL as error:
            raise ProviderError(f"{self.name}: {self.base_url!r} is no address: {error}", kind="absent") from error
        except httpx.HTTPError as error:
            broke = f"{self.name}: the connection broke: {self._hidden(str(error) or type(error).__name__)}"
            raise ProviderError(f"{broke} (it is tried again later)", kind="busy") from error
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

    def _pause(self, error: ProviderError, attempt: int, *, repeatable: bool) -> float | None:
        """Seconds until the next attempt; None when there should be none."""
        again = error.kind == "unreachable" or error.status in _NOT_DONE
        if repeatable:
            again = again or error.status in _AGAIN or error.kind == "busy"
        if not again:
            return None
        pause = error.seconds if error.seconds is not None else _PAUSES[min(attempt, len(_PAUSES) - 1)]
        return pause if pause <= _LONGEST_WAIT else None

    def _failure(self, answer: httpx.Response, data: bytes) -> ProviderError:
        status = answer.status_code
        said = self._hidden(_message_in(data))
        answered = f"{self.name} answered {status}: {said}"
        wait = retry_after(answer.headers, time.time())
        if status in (401, 403):
            return ProviderError(f"{answered} ({self._key_hint})", kind="key", status=status)
        if status == 429:  # noqa: PLR2004
            asked = f"it asks to wait {wait:g} s" if wait is not None else "it does not say how long to wait"
            return ProviderError(f"{answered} ({asked})", kind="limited", seconds=wait, status=status)
        if status in _AGAIN or status >= 500:  # noqa: PLR2004
            return ProviderError(f"{answered} (it is tried again later)", kind="busy", seconds=wait, status=status)
        if status in (404, 410):
            return ProviderError(f"{answered} (check the address {self.base_url})", kind="missing", status=status)
        return ProviderError(f"{answered} (the request was not accepted as it is)", kind="refused", status=status)

    def _decoded(self, answer: httpx.Response, data: bytes, expect: Shape) -> Any:
        if expect is str:
            return data.decode("utf-8", "replace")
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

    def _unreachable(self, error: Exception) -> str:
        why = self._hidden(str(error) or type(error).__name__)
        return f"{self.name} cannot be reached at {self.base_url}: {why} (is it running, and is the address right?)"

    def _hidden(self, text: str) -> str:
        for each in self._secrets:
            text = text.replace(each, "[key]")
        text = mask_secrets(" ".join(text.split()))
        return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + "…"


def unless_missing(ask: Callable[[], Found], otherwise: Found) -> Found:
    """What the service answers, or `otherwise` where it does not have what it is asked about."""
    try:
        return ask()
    except ProviderError as error:
        if error.kind != "missing":
            raise
        return otherwise


def misfit(shape: Shape, found: Any, where: str = "the answer") -> str:
    """How a value differs from the shape it should have; empty when it fits."""
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
    fits = isinstance(found, shape) and (shape is bool or not isinstance(found, bool))
    return "" if fits else f"{where} is {type(found).__name__}"


def _without_none(params: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Half a character, as a model may send one, has no place in an address."""
    return {key: _whole(each) for key, each in params.items() if each is not None} if params else None


def _whole(text: Any) -> Any:
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


def _message_in(data: bytes) -> str:
    """What a service says in its error, however it wraps it."""
    try:
        found = json.loads(data[:100_000])
    except (ValueError, RecursionError):
        return _MARKUP.sub(" ", data[:5_000].decode("utf-8", "replace")).strip() or "no reason given"
    for key in ("error", "detail", "message", "msg"):
        if isinstance(found, dict) and found.get(key):
            found = found[key]
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
