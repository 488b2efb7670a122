"""The OpenAI Agents SDK: a `Session` that keeps the history in Hermes, with memory as instructions and tools.

async with await HermesSession.open() as session:
    agent = Agent(name="helper", instructions=session.instructions, tools=session.tools)
    await Runner.run(agent, "What did we decide?", session=session)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from agents.tool import FunctionTool

from hermes.adapters.async_session import AsyncMemorySession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Item = dict[str, Any]

_ITEMS = "agents_items"  # in a stored message: the SDK's own items, as they came


class HermesSession:
    """Implements the SDK's `Session` protocol around an open session."""

    session_settings = None

    def __init__(self, session: AsyncMemorySession) -> None:
        self._session = session
        self.session_id = session.id
        self.instructions = session.system_prompt
        self.tools: list[Any] = [self._tool(each["function"]) for each in session.session.request().tools]

    @classmethod
    async def open(cls, home: Any = None, *, source: str = "openai-agents", **options: Any) -> Self:
        """Takes the arguments of `MemorySession.open`; `resume` continues an earlier conversation."""
        return cls(await AsyncMemorySession.open(home, source, **options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """The history as the SDK's items, or its last ones."""
        items = await self._session.run(self._items)
        return items if limit is None else items[-limit:] if limit else []

    async def add_items(self, items: Sequence[Item]) -> None:
        """Records what a run has added."""
        await self._session.run(lambda: self._add(items))

    async def pop_item(self) -> Item | None:
        """Removes the last item from the context and returns it."""
        return await self._session.run(self._pop)

    async def clear_session(self) -> None:
        """Empties the context; the messages stay stored."""
        await self._session.run(lambda: self._take_out(0))

    def _items(self) -> list[Item]:
        stored = [message for _, message in self._session.session.context.stored()]
        sent = self._session.session.request().messages
        return [item for kept, message in zip(stored, sent, strict=True) for item in _items_of(kept, message)]

    def _add(self, items: Sequence[Item]) -> None:
        for message in _messages(items):
            self._session.session.record(message)

    def _pop(self) -> Item | None:
        messages = self._session.session.context.stored()
        if not messages:
            return None
        *rest, last = _items_of(messages[-1][1], self._session.session.request().messages[-1])
        self._take_out(len(messages) - 1)
        self._add(rest)
        return last

    def _take_out(self, first: int) -> None:
        session = self._session.session
        session.database.set_rewound(session.id, session.context.ids[first:])
        session.reload()

    def _tool(self, schema: Mapping[str, Any]) -> Any:
        name = str(schema["name"])

        async def invoke(context: Any, arguments: str) -> str:
            return await self._session.run_tool(name, arguments, call_id=str(context.tool_call_id))

        return FunctionTool(
            name=name,
            description=str(schema["description"]),
            params_json_schema=dict(schema["parameters"]),
            on_invoke_tool=invoke,
            strict_json_schema=False,
        )


def _messages(items: Sequence[Item]) -> Iterator[dict[str, Any]]:
    """Items as messages; consecutive items of the model (text, reasoning, calls) become one message."""
    model: list[Item] = []
    for item in items:
        is_result = str(item.get("type", "")).endswith("_output")
        if item.get("role") in ("user", "system", "developer") or is_result:
            if model:
                yield _of_model(model)
            model = []
            yield _result(item) if is_result else {"role": item["role"], "content": _content(item.get("content"))}
        else:
            model.append(item)
    if model:
        yield _of_model(model)


def _of_model(items: list[Item]) -> dict[str, Any]:
    calls = [
        {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
        for item in items
        if item.get("type") == "function_call"
    ]
    texts = [_text(item.get("content")) for item in items if item.get("role") == "assistant"]
    text = "\n\n".join(filter(None, texts))
    return {"role": "assistant", "content": text, _ITEMS: items} | ({"tool_calls": calls} if calls else {})


def _result(item: Item) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": item["call_id"], "content": _text(item.get("output")), _ITEMS: [item]}


def _items_of(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> list[Item]:
    if _ITEMS in stored:
        return list(stored[_ITEMS])
    if stored.get("tool_call_id"):
        return [{"type": "function_call_output", "call_id": stored["tool_call_id"], "output": sent["content"]}]
    content = sent["content"]
    if isinstance(content, list):
        content = [
            {"type": "input_text", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_image", "detail": "auto", "image_url": part["image_url"]["url"]}
            for part in content
        ]
    return [{"role": sent["role"], "content": content}]


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [
        {"type": "image_url", "image_url": {"url": part["image_url"]}}
        if part.get("type") == "input_image"
        else {"type": "text", "text": str(part.get("text", ""))}
        for part in content
    ]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else str(content or "")
