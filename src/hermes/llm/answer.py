"""Puts a streamed answer together: text, reasoning and calls from pieces, into events and one OpenAI-format message."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from hermes.vocabulary.events import Finished, ReasoningDelta, TextDelta, ToolCall, ToolCallStarted
from hermes.vocabulary.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# Parts of a reasoning detail that arrive in pieces; everything else in it is sent whole.
_GROWING = ("text", "summary", "data")


class Answer:
    """One answer while it arrives. `reason` stays empty until the provider says why it stopped."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._asked = model  # by our name; a server may call it otherwise
        self.usage = Usage()
        self.reason = ""
        self.texts: list[str] = []  # one per text block; a wire without blocks has one
        self._pieces: list[str] = []
        self._thoughts: list[str] = []
        self._thought_field = "reasoning"
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._places: dict[Any, dict[str, Any]] = {}  # the call that a position of the stream stands for

    def write(self, text: str) -> TextDelta:
        self._pieces.append(text)
        return TextDelta(text=text)

    def end_text(self) -> None:
        """Ends one text block, where the wire has several."""
        if self._pieces:
            self.texts.append("".join(self._pieces))
            self._pieces = []

    def think(self, text: str, field: str = "reasoning") -> ReasoningDelta:
        self._thought_field = field
        self._thoughts.append(text)
        return ReasoningDelta(text=text)

    def add_detail(self, detail: Mapping[str, Any]) -> None:
        """Reasoning the provider wants back unchanged; pieces of the same detail are joined."""
        last = self._details[-1] if self._details else {}
        if "index" in detail and all(last.get(key) == detail.get(key) for key in ("index", "type")):
            for key, part in detail.items():
                grows = key in _GROWING and isinstance(part, str) and isinstance(last.get(key), str)
                last[key] = last[key] + part if grows else last.get(key) if part is None else part
        else:
            self._details.append(dict(detail))

    def call(self, piece: Mapping[str, Any]) -> Iterator[ToolCallStarted]:
        """A piece of a tool call: the first one opens it, the others add to its arguments."""
        function = piece.get("function") or {}
        place = piece.get("index", len(self._calls) if piece.get("id") else max(len(self._calls) - 1, 0))
        call = self._places.get(place)
        # Some servers give every parallel call the index 0; another id then means another call.
        if call is None or (piece.get("id") and piece["id"] != call["_sent_id"] and function.get("name")):
            call = self._open(place, piece)
        named = bool(call["function"]["name"])
        if function.get("name") and not named:
            call["function"]["name"] = function["name"]
            yield ToolCallStarted(id=call["id"], name=function["name"])
        arguments = function.get("arguments") or ""
        call["_pieces"].append(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))

    def finish(self) -> Iterator[ToolCall | Finished]:
        self.end_text()
        calls = [self._whole(call) for call in self._calls if call["function"]["name"]]
        for call in calls:
            yield ToolCall(id=call["id"], **call["function"])
        reason = _REASONS.get(self.reason, self.reason)
        if calls and reason == "stop":  # a few servers say so although they call
            reason = "tool_calls"
        yield Finished(message=self._message(calls), usage=self.usage, reason=reason, model=self.model)

    def _open(self, place: Any, piece: Mapping[str, Any]) -> dict[str, Any]:
        sent_id = str(piece.get("id") or "")
        used = {call["id"] for call in self._calls}
        unique = sent_id if sent_id and sent_id not in used else f"call_{os.urandom(9).hex()}"
        others = {key: part for key, part in piece.items() if key not in ("index", "id", "type", "function")}
        call = {"id": unique, "type": "function", "function": {"name": ""}, **others}
        call |= {"_sent_id": sent_id, "_pieces": []}
        self._calls.append(call)
        self._places[place] = call
        return call

    @staticmethod
    def _whole(call: dict[str, Any]) -> dict[str, Any]:
        kept = {key: part for key, part in call.items() if key not in ("_sent_id", "_pieces")}
        arguments = "".join(call["_pieces"])
        return {**kept, "function": {"name": call["function"]["name"], "arguments": arguments or "{}"}}

    def _message(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.texts[0] if self.texts else None}
        if len(self.texts) > 1:
            message["content"] = [{"type": "text", "text": text} for text in self.texts]
        elif not self.texts and not calls:
            message["content"] = ""
        if calls:
            message["tool_calls"] = calls
        if self._thoughts:
            message[self._thought_field] = "".join(self._thoughts)
        if self._details:
            message["reasoning_details"] = self._details
        if "reasoning_content" in message or self._details:
            message["reasoning_model"] = self._asked  # these go back to it, and to no other
        return message
