"""Searching past conversations by meaning, with the extra `semantic`."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "semantic.paraphrase": ("a question finds a turn that says the same in other words", "product"),
    "semantic.words_lead": ("what holds the words of a question comes before what is only near in meaning", "product"),
    "semantic.current": ("every message indexed before a search has its vector, whoever appended it", "product"),
    "semantic.deleted": ("vectors go with their messages, and none of a deleted one is found", "product"),
    "semantic.owner": ("nearness in meaning never shows another owner's messages", "product"),
    "semantic.filters": ("filters hold for what is found by meaning", "product"),
    "semantic.damage": ("damaged vectors are noticed and made again; the search goes on", "product"),
    "semantic.missing": (
        "without the package a search goes by words, and says so when meaning was asked for",
        "product",
    ),
    "semantic.endpoint": ("search.embedding may name an OpenAI-compatible endpoint", "product"),
    "semantic.local_model": ("search.embedding may name the folder of an ONNX sentence model", "product"),
    "semantic.setting": ("recall.semantic decides: auto where the package is installed, on, off", "product"),
}
