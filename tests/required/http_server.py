"""`hermes serve`: an OpenAI-compatible API with memory, a plain API, and the limits a public service needs."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "http.chat": ("any OpenAI client gets memory, recall and compaction in front of any configured model", "product"),
    "http.stream": ("answers are streamed as OpenAI streams them", "product"),
    "http.tools": ("functions of the client end the turn and come back with the next request", "product"),
    "http.sessions": ("a conversation is found by header, or by what its history looked like", "product"),
    "http.forwarded": ("the model is asked for what the client asked for, field by field, or it is refused", "product"),
    "http.messages": ("programs that talk to Claude need another base URL and nothing else", "product"),
    "http.responses": ("OpenAI's responses: events, items, and answers that go on from an earlier one", "product"),
    "http.embeddings": ("vectors of texts where search by meaning is installed, else a clear refusal", "product"),
    "http.browser": ("a browser may call the server from the pages that server.origins lists", "product"),
    "http.models": ("models can be looked up one by one, and clients may use other names for them", "product"),
    "http.errors": ("errors have the statuses and shapes OpenAI's client knows", "product"),
    "http.api": ("memory, sessions, search and status over plain HTTP", "product"),
    "http.described": ("an OpenAPI description that holds, and interactive docs without any other server", "product"),
    "http.key": ("no route without authentication; no key, no start, on loopback too", "product"),
    "http.start": ("it says where clients go, and at once what would keep it from answering", "product"),
    "http.fair": ("nobody can keep the server from answering somebody else", "product"),
    "http.limits": ("body and rate limits, Origin and Host checks, time-outs", "product"),
    "http.drain": ("a server that is stopped finishes what is running", "product"),
    "http.descriptors": ("it never runs out of descriptors: handles are shared, idle conversations closed", "product"),
    "http.observed": ("health, and metrics in Prometheus format without a word of anybody", "product"),
}
