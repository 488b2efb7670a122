"""The local provider: facts that can be reasoned over."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "holographic.contract": ("it passes the contract kit and works in a session", "product"),
    "holographic.tools": ("fact_store and fact_feedback take the documents' arguments and give their results", "003"),
    "holographic.answers": (
        "probe, related and reason give every fact they should and none they should not",
        "product",
    ),
    "holographic.contradict": (
        "facts that cannot both hold are found at the default threshold and stand above unrelated pairs",
        "003 Bundled Providers",
    ),
    "holographic.entities": ("names are found in English, with apostrophes, single, and in Chinese", "product"),
    "holographic.supersede": ("a changed fact replaces the old one, which stays as history", "product"),
    "holographic.forget": ("a removed fact is gone with everything it replaced", "product"),
    "holographic.trust": ("feedback moves trust within 0 and 1, and trust and age decide what is recalled", "003"),
    "holographic.recall": ("prefetch gives the best facts as lines with their trust", "003"),
    "holographic.mirror": ("add, replace and remove of curated memory are mirrored", "003 Memory Manager"),
    "holographic.one_fact": ("after 100 recalls of a fact there is one fact", "product"),
    "holographic.extract": (
        "with auto_extract what a person stated is kept at session end, in several languages",
        "003",
    ),
    "holographic.screened": ("secrets and hostile text are refused as facts", "product"),
    "holographic.config": ("settings stand under plugins.hermes-memory-store, and words like false mean it", "003"),
    "holographic.private": ("the file is private and belongs to one home", "product"),
    "holographic.adopts": ("facts of a file that hermes-agent wrote are taken over, and the file is kept", "product"),
    "holographic.cost": ("the cost of an add does not grow with the number of facts", "product"),
}
