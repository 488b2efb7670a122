"""The embedded model: a real one, without key and network."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "embedded.turn": (
        "a turn with the embedded model streams, is stored, and the next one finds its prompt in the cache",
        "product",
    ),
    "embedded.wires": ("the embedded server speaks the OpenAI and the Anthropic wire", "product"),
    "embedded.ends": ("the embedded server ends with the process that started it, however that ends", "product"),
    "embedded.remedy": ("a model that is not installed or not known is an error that says what to do", "product"),
    "embedded.bench": ("what the frozen prompt saves is measured beside a prompt that is rebuilt each turn", "product"),
    "embedded.template": (
        "with our template, the first prompt after a memory change still begins with all tools",
        "product",
    ),
    "embedded.list": ("the models that can be talked to from here are listed, with what is missing", "product"),
    "embedded.threads": ("a busy machine gives the embedded model one thread", "product"),
}
