"""What was in the context at a turn, and why."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "record.additions": ("every turn tells what was put in front of the model, with source and size", "product"),
    "record.texts": ("a person reads what the model was told at a turn, word for word, secrets masked", "product"),
    "record.summaries": ("a summary in the context tells what it stands for, who wrote it and why", "product"),
    "record.memory": ("the log of memory tells how a conversation learnt of each change", "product"),
}
