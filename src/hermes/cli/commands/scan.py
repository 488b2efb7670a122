"""`hermes scan`: the scanner's verdict on any text, for people, scripts and corpora."""

from __future__ import annotations

import errno
import json
import sys

from hermes.base.errors import NotFound
from hermes.cli.output import OK, REFUSED, USAGE, add_json_option, print_json, print_text
from hermes.memory.entries import preview
from hermes.safety.scanner import scan
from hermes.safety.secrets import find_secrets, mask_secrets
from hermes.storage.files import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from hermes.cli.output import Context
    from hermes.safety.verdict import Verdict

_NO_FILE = (errno.ENOENT, errno.ENAMETOOLONG)
_SCOPES = ("memory", "context", "recall")


def _scan(given: argparse.Namespace, context: Context) -> int:
    del context
    data = _read(given.file)
    if given.jsonl:
        return _scan_lines(data, given.scope)
    text = data.decode("utf-8", "surrogateescape")
    judged = judge(text, scan(text, given.scope))
    if given.json:
        print_json(judged)
    else:
        print_judged(judged)
    return OK if judged["verdict"] == "clean" else REFUSED


def judge(text: str, verdict: Verdict) -> dict[str, Any]:
    """The verdict on one text as a document; a secret in it counts as refused and is never shown."""
    found = find_secrets(text)
    return {
        "verdict": "refuse" if found else verdict.level,
        "classes": [*(["secret"] if found else []), *verdict.classes],
        "excerpt": mask_secrets(verdict.excerpt) or ", ".join(dict.fromkeys(secret.kind for secret in found)),
        "advice": verdict.advice or ("Keep secrets in .env and save where they are." if found else ""),
    }


def _scan_lines(data: bytes, scope: str) -> int:
    wrong = False
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            judged = judge(text, scan(text, scope))
        except (ValueError, KeyError, TypeError):
            wrong = True
            judged = {"error": f'line {number}: expected {{"text": "…"}}'}
        print_text(json.dumps(judged, ensure_ascii=False))
    return USAGE if wrong else OK


def print_judged(judged: dict[str, Any]) -> None:
    print_text(f"{judged['verdict']}" + (f": {', '.join(judged['classes'])}" if judged["classes"] else ""))
    if judged["excerpt"]:
        print_text(f"  {judged['excerpt']}")
    if judged["advice"]:
        print_text(f"  {judged['advice']}")


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as source:
            return source.read()
    except OSError as error:
        if error.errno in _NO_FILE:  # somebody gave the text itself, or a wrong name
            raise NotFound(
                f"there is no file {preview(file)!r}; a text itself is piped in: `echo 'the text' | hermes scan -`"
            ) from error
        raise explain("read", file, error) from error


def _configure_scan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file with the text; - reads the text from standard input")
    parser.add_argument(
        "--jsonl", action="store_true", help='one {"text": …} per line in, one JSON verdict per line out'
    )
    parser.add_argument("--scope", choices=_SCOPES, default="memory", help="what the text is for (default: memory)")
    add_json_option(parser)


COMMANDS = {"scan": (_configure_scan, _scan)}
