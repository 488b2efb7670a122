"""Models: requests as the official SDKs make them, answers from any stream, errors somebody can act on, one loop."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "llm.sdk-bytes": ("what we send is what the official SDKs would send for the same conversation", "product"),
    "llm.cache-points": (
        "system prompt and last three messages carry cache points, 5m or 1h; a spare one stands on the tools",
        "004 Prompt caching",
    ),
    "llm.reasoning": ("reasoning is kept with its signatures and goes back to the model that wants it", "product"),
    "llm.awkward-histories": ("histories from elsewhere become requests that the provider accepts", "product"),
    "llm.options": ("more fields of a request come from the settings", "product"),
    "llm.prefix": (
        "a request begins with the bytes of the one before",
        "002 The economics of the prefix cache",
    ),
    "llm.flat-cost": ("a message is encoded once; a model call costs the same in a long history", "product"),
    "llm.stream": ("text, reasoning, calls and usage are read from both wires, however the bytes are split", "product"),
    "llm.parallel-calls": ("parallel tool calls are put together from deltas in any order", "product"),
    "llm.usage": ("tokens and cached tokens are counted the same way for every provider", "product"),
    "llm.errors": ("errors are sorted into retry, wait, too long, wrong key, refused, unreachable", "product"),
    "llm.retry": ("passing errors are retried a bounded number of times, after the wait the provider names", "product"),
    "llm.fallback": ("a fallback model answers when the first one cannot", "product"),
    "llm.interrupt": ("stopping works at any moment, also before the first byte, and closes the connection", "product"),
    "llm.one-client": ("one HTTP client with kept connections serves the whole process", "product"),
    "llm.catalogue": ("provider, key and context length follow from a model's name; all can be set", "product"),
    "llm.local": ("a local server on its usual port is found by itself", "product"),
    "llm.keys": ("a provider's key is sent to that provider and nowhere else", "product"),
    "llm.scripted": ("a scripted model has the same interface as a real one", "product"),
    "llm.loop": ("one loop asks the model and runs its tools until nothing is left to call", "003 Runtime Integration"),
    "llm.loop-stops": ("an interrupted turn leaves a history that every model accepts", "003 Interrupted Turns"),
    "llm.loop-fits": ("a conversation that is too long is compacted once and asked again", "003 Runtime Integration"),
    "llm.loop-scrubs": (
        "recalled memory a model repeats is neither shown nor stored",
        "003 Memory Context Fencing",
    ),
    "llm.import": ("no HTTP client is loaded before the first model call", "product"),
    "llm.bench": ("the cost of a model call is measured beside encoding the whole history", "product"),
}
