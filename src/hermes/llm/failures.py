"""Sorts what providers answer when something is wrong into the kinds of error somebody can act on."""

from __future__ import annotations

import json
import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from hermes.vocabulary.errors import ContextTooLong, ModelBusy, ModelRefused, RateLimited, WrongKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.llm.endpoint import Endpoint
    from hermes.vocabulary.errors import ModelError

_LONGEST_QUOTE = 300
_SHORTEST_KEY = 8  # local servers take words such as "none" for a key, and those are no secret

_TOO_LONG = re.compile(
    r"context[_ ]?(?:length|size|window|limit)|maximum (?:context|prompt|input)|(?:prompt|input|request) is too long"
    r"|exceeds? (?:the )?(?:available |maximum )?(?:context|number of tokens)|too many (?:input )?tokens"
    r"|input token count .* exceeds|too large for model|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_NUMBER = r"(\d[\d,_]*\d)"
# Each names the number that is the limit, not the size of what was sent.
_LIMITS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"tokens? > {_NUMBER} maximum",
        rf"> {_NUMBER}\b",
        rf"(?:context (?:length|size|window)|prompt length|token limit)(?: of| is)?(?: only)?:? \(?{_NUMBER}",
        rf"maximum (?:number of )?(?:input )?tokens allowed \(?{_NUMBER}",
        rf"{_NUMBER} (?:maximum|token context|tokens? maximum)",
        rf"(?:maximum|at most|up to|limit(?:ed)? (?:of|to|is)) {_NUMBER}",
    )
)
_NO_CREDIT = re.compile(r"insufficient[_ ](?:quota|credit|balance|fund)|credit balance|billing|payment", re.IGNORECASE)
_ABOUT_KEYS = re.compile(r"api[ _-]?key|authenticat|unauthori[sz]ed|credential", re.IGNORECASE)

# What an error inside a stream that began with 200 would have had as its status.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def failure(endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, now: float) -> ModelError:
    """The error for an answer that is not 200; `headers` find names in any case."""
    try:
        content = json.loads(body)
    except ValueError:
        content = {"error": {"message": _plain_text(body)}}
    return _sorted(endpoint, status, _error_of(content), retry_after(headers, now))


def failure_in_stream(endpoint: Endpoint, content: Mapping[str, Any]) -> ModelError:
    """The error for an answer that began well and then sent an error instead of going on."""
    error = _error_of(content)
    given = (str(error.get("status")), str(error.get("code")), str(_STATUS_OF_TYPE.get(str(error.get("type")))))
    status = next((int(each) for each in given if each.isdecimal()), 500)
    return _sorted(endpoint, status, error, None)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the provider asks us to wait: `retry-after-ms`, or `retry-after` as a number or a date."""
    milliseconds = headers.get("retry-after-ms") or ""
    if milliseconds.replace(".", "", 1).isdecimal():
        return float(milliseconds) / 1000
    given = (headers.get("retry-after") or "").strip()
    if given.replace(".", "", 1).isdecimal():
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now) if given else None
    except ValueError:
        return None


def limit_in(text: str) -> int | None:
    """The number of tokens that would have fitted, where the message of a provider names it."""
    for pattern in _LIMITS:
        if found := pattern.search(text):
            return int(re.sub(r"[,_]", "", found.group(1)))
    return None


def _sorted(endpoint: Endpoint, status: int, error: Mapping[str, Any], wait: float | None) -> ModelError:
    said = str(error.get("message") or "no reason given")
    quote = said.replace(endpoint.key, "[key]") if len(endpoint.key) >= _SHORTEST_KEY else said
    quote = quote if len(quote) <= _LONGEST_QUOTE else quote[:_LONGEST_QUOTE] + "…"
    who = f"{endpoint.model} at {endpoint.provider}"
    code = f"{error.get('code')} {error.get('type')} {said}"
    answered = f"{who} answered {status}: {quote}"
    if status in (400, 413, 422, 500) and (_TOO_LONG.search(code) or status == 413):  # noqa: PLR2004 - HTTP statuses
        limit = error.get("n_ctx") if isinstance(error.get("n_ctx"), int) else limit_in(said)
        fits = f"{limit:,} tokens fit" if limit else "it does not say how much would fit"
        remedy = "compact it or start a new one"
        message = f"the conversation is too long for {who} ({fits}): {remedy}. It said: {quote}"
        return ContextTooLong(message, limit=limit, status=status)
    if status == 402 or (status in (400, 403, 429) and _NO_CREDIT.search(code)):  # noqa: PLR2004
        return ModelRefused(f"{answered} (add credit at the provider, or choose another model)", status=status)
    if status in (401, 403) or (status == 400 and _ABOUT_KEYS.search(said)):  # noqa: PLR2004
        return WrongKey(f"{answered} ({endpoint.key_remedy})", status=status)
    if status == 429:  # noqa: PLR2004
        asked = f"it asks to wait {wait:g} s" if wait is not None else "it does not say how long to wait"
        return RateLimited(f"{answered} ({asked})", seconds=wait, status=status)
    if status in (408, 409, 425) or status >= 500:  # noqa: PLR2004
        if wait is not None:
            return RateLimited(f"{answered} (it asks to wait {wait:g} s)", seconds=wait, status=status)
        return ModelBusy(f"{answered} (try again, or name a fallback model)", status=status)
    if status == 404:  # noqa: PLR2004
        remedy = f"check the name of the model and the address {endpoint.base_url}"
        return ModelRefused(f"{answered} ({remedy})", status=status)
    return ModelRefused(f"{answered} (the request was not accepted as it is)", status=status)


def _error_of(content: Any) -> Mapping[str, Any]:
    """Providers wrap their errors in several ways; proxies add a few more."""
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        inner = error.get("message") or error.get("detail")
        return {**error, "message": inner if isinstance(inner, str) else json.dumps(inner or error)}
    return {"message": str(error)}


def _plain_text(body: bytes) -> str:
    text = re.sub(r"<[^>]{0,500}>", " ", body[:5_000].decode("utf-8", "replace"))
    return " ".join(text.split()) or "an empty body"
