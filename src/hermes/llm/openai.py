"""Chat completions as OpenAI defined them: OpenAI, OpenRouter, llama.cpp, Ollama, vLLM, LM Studio and others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.base.events import Usage
from hermes.llm.anthropic import cache_points
from hermes.llm.client import DONE, NO_OPTIONS, Answer, HttpModel, encode, ended_early
from hermes.storage.images import text_only, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hermes.base.events import ModelEvent
    from hermes.llm.client import Endpoint, Message, Options, Retries

# The fields of a message that a chat-completions server knows; all others are our own notes.
_WIRE_KEYS = ("role", "content", "name", "tool_calls", "tool_call_id")
_EFFORTS = {"low": 4_096, "medium": 16_384, "high": float("inf")}  # most tokens of thinking for each effort
_NOT_SENT = {"max_tokens", "thinking", "announcements"}  # renamed, translated or part of a message
_NOT_AT_OPENAI = {"top_k", "min_p", "repetition_penalty"}
_REPLAYED = {"": (), "content": ("reasoning_content",), "details": ("reasoning_details",)}


class OpenAICompatible(HttpModel):
    """The Chat Completions API of OpenAI and of all servers that imitate it."""

    path = "/chat/completions"

    def __init__(self, endpoint: Endpoint, retries: Retries | None = None) -> None:
        super().__init__(endpoint, retries)
        self._replayed = _REPLAYED[endpoint.replays_reasoning]

    def body(
        self, system: str, messages: Sequence[Message], tools: Sequence[Message], wishes: Options = NO_OPTIONS
    ) -> bytes:
        """Everything that stays the same comes before the messages, so each request begins with the one before it."""
        everything = [{"role": "system", "content": system}, *messages] if system else messages
        shift = 1 if system else 0
        ttl, marked = self.endpoint.cache_ttl, bool(self.endpoint.cache_points)
        points = cache_points(everything, ttl=ttl, native=False) if marked else {}
        first = [self._encode(points.pop(0, everything[0]))] if system else []
        parts = self._log.parts(messages, {position - shift: message for position, message in points.items()})
        # One join: each further copy of a long conversation costs more than everything else here.
        return b"".join((self.beginning(system, tools, wishes), b",".join(first + parts), b"]}"))

    def headers(self, wishes: Options = NO_OPTIONS) -> dict[str, str]:
        del wishes
        key = {"authorization": f"Bearer {self.endpoint.key}"} if self.endpoint.key else {}
        return key | self.endpoint.headers

    def read(self, chunks: Iterable[dict[str, Any]]) -> Iterator[ModelEvent]:
        answer = Answer(self.name)
        for chunk in chunks:
            if chunk is DONE:
                break
            answer.model = str(chunk.get("model") or answer.model)
            if chunk.get("usage"):
                answer.usage = Usage.of_openai(chunk["usage"])
            for choice in (chunk.get("choices") or ())[:1]:
                yield from _read_delta(answer, choice.get("delta") or choice.get("message") or {})
                answer.reason = choice.get("finish_reason") or answer.reason
        if not answer.reason:
            raise ended_early(self.endpoint)
        yield from answer.finish()

    def options(self, system: str, tools: Sequence[Message]) -> dict[str, Any]:
        del system  # it is the first message here
        options: dict[str, Any] = {
            "model": self.endpoint.model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.endpoint.max_output:
            options[self._longest] = self.endpoint.max_output
        return options | ({"tools": list(tools)} if tools else {})

    @property
    def _longest(self) -> str:
        # OpenAI's own reasoning models refuse the old name, and other servers know only that.
        return "max_completion_tokens" if self.endpoint.provider == "openai" else "max_tokens"

    def asked(self, wishes: Options) -> dict[str, Any]:
        wanted = {name: content for name, content in wishes.items() if name not in _NOT_SENT}
        if "max_tokens" in wishes:
            wanted[self._longest] = wishes["max_tokens"]
        budget = wishes.get("thinking", {}).get("budget_tokens")
        if budget and "reasoning_effort" not in wanted:  # a model that decides itself needs no field
            wanted["reasoning_effort"] = next(effort for effort, most in _EFFORTS.items() if budget <= most)
        if self.endpoint.provider == "openai":
            for name in _NOT_AT_OPENAI & wanted.keys():
                raise self.refuse(name)
        return wanted

    def _encode(self, message: Message) -> bytes:
        sees = self._sees and message.get("role") == "user"  # the API accepts images only from the user
        seen = message if sees else text_only(message)
        kept = {key: seen[key] for key in _WIRE_KEYS if key in seen}
        if message.get("reasoning_model") == self.name:  # reasoning of another model is not sent
            kept |= {key: message[key] for key in self._replayed if key in message}
        if seen is not message and not self.endpoint.cache_points:
            kept["content"] = words_of(kept["content"])  # a server without vision may accept only a string
        if self.endpoint.cache_points and kept.get("content") and isinstance(kept["content"], str):
            # Always as a part: only parts can carry a point, and the form must not change when the point moves on.
            kept["content"] = [{"type": "text", "text": kept["content"]}]
        if kept.get("reasoning_details"):
            kept["reasoning_details"] = [
                part for part in kept["reasoning_details"] if str(part.get("type")).startswith("reasoning.")
            ]
        return encode({key: part for key, part in kept.items() if part or key != "reasoning_details"})


def _read_delta(answer: Answer, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(delta.get(name), str) and delta[name]:
            yield answer.think(delta[name], field=name)
            break
    for detail in delta.get("reasoning_details") or ():
        answer.add_detail(detail)
    content = delta.get("content") or delta.get("refusal")  # a refusal is shown like an answer
    if isinstance(content, list):  # Mistral and a few proxies stream parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if content:
        yield answer.write(content)
    for call in delta.get("tool_calls") or ():
        yield from answer.call(call)
