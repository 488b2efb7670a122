"""Images in what people say."""

REQUIREMENTS: dict[str, tuple[str, str]] = {
    "images.sent": ("images reach the model on both wires, the same bytes again after a resume", "product"),
    "images.stored": ("an image is stored once beside the database; rows and search hold its placeholder", "product"),
    "images.removed": ("an image goes with the last message that names it", "product"),
    "images.carried": ("export, import, merge and backup carry images", "product"),
    "images.placeholder": ("a placeholder stands for an image after a compaction and without vision", "product"),
    "images.refused": ("an unknown format or a size nobody takes is refused before anything is stored", "product"),
    "images.http": ("clients of the server send images and get a clear 400 for one that is not taken", "product"),
    "images.terminal": ("images are sent from the command line and from the chat", "product"),
}
