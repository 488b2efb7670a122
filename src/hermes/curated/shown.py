"""Live entries in the results that a model reads: what a prompt would not show is not shown there either."""

from __future__ import annotations

from hermes.curated.screening import blocked_in_prompt
from hermes.vocabulary.errors import StorageError, WriteRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.curated.memory_file import MemoryFile


def shown(entries: Sequence[str], file: MemoryFile, name: str, known: dict[str, str]) -> list[str]:
    """The entries as a model may see them; `known` says it of those that were judged, and learns the others.

    What was written through us was judged then, so only a file that others wrote into is judged again.
    """
    if any(entry not in known for entry in entries):
        try:
            seen = blocked_in_prompt(entries, name) if file.has_texts_of_others() else entries
        except (StorageError, WriteRefused) as error:
            return [known.get(entry, f"[not shown: {error}]") for entry in entries]
        known.update(zip(entries, seen, strict=True))
    return [known[entry] for entry in entries]
