"""`hermes memory scan`: the scanner's verdict on what is already stored, with the origin of each entry."""

from __future__ import annotations

from hermes.cli.context import OK, REFUSED
from hermes.cli.memory_report import open_store
from hermes.cli.render import add_json_option, print_json, print_text
from hermes.cli.scan import judge, print_judged
from hermes.safety.threats import scan_entries
from hermes.vocabulary.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from hermes.cli.context import Context


def _scan_memory(given: argparse.Namespace, context: Context) -> int:
    judged = list(_stored(context))
    flagged = [each for each in judged if each["verdict"] != "clean"]
    if given.json:
        print_json({"entries": len(judged), "flagged": flagged})
    else:
        for each in flagged:
            print_text(f"{each['target']} entry {each['number']}, by {each['origin']}")
            print_judged(each)
        print_text(f"{counted(len(judged), 'entry', 'entries')} scanned, {len(flagged)} flagged")
    return REFUSED if flagged else OK


def _stored(context: Context) -> Iterator[dict[str, Any]]:
    store = open_store(context)
    for target in store.targets:
        entries = store.entries(target)
        origins = store.provenance(target)
        for number, (entry, verdict) in enumerate(zip(entries, scan_entries(entries), strict=True), start=1):
            yield {"target": target, "number": number, "origin": origins[entry].origin, **judge(entry, verdict)}


COMMANDS = {"scan": (add_json_option, _scan_memory)}
