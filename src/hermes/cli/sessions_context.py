"""`hermes sessions show ID --context [N] [--text]`: what the model had before it at each turn, and whence."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hermes.cli.context import OK
from hermes.cli.render import print_json, print_text, visible, when
from hermes.cli.sessions_report import as_json, name_of
from hermes.session.injections import parts_of, turns
from hermes.vocabulary.errors import NotFound
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    import argparse

    from hermes.storage.conversations import Session
    from hermes.storage.sessions import SessionDB

_SAID = 70
_NOT_STORED = "(this text was not kept; only its size is known)"
_SOURCES = {"recalled": "recall", "folder_notes": "notes"}


def show_context(given: argparse.Namespace, db: SessionDB, session: Session) -> int:
    found = [each for each in turns(db, session.id) if given.context in (0, each["turn"])]
    if given.context and not found:
        raise NotFound(f"there is no turn {given.context}; `hermes sessions show {session.id} --context` lists them")
    _choose_texts(found, with_text=given.text)
    if given.json:
        print_json({**as_json(session), "turns": found})
        return OK
    print_text(f"{name_of(session)}\n{session.id}\n")
    prompt = None
    for each in found:
        _print_turn(each, prompt)
        prompt = each["prompt"]
    if not found:
        print_text("nobody has said anything yet")
    return OK


def _choose_texts(found: list[dict[str, Any]], *, with_text: bool) -> None:
    """Leaves the texts out, or masks the secrets in them: they are read on screens and handed on."""
    from hermes.safety.secrets import mask_secrets

    masked = cache(mask_secrets)  # a prompt stays the same from turn to turn
    for part in (part for turn in found for part in parts_of(turn)):
        text = part.pop("text")
        if with_text:
            part["text"] = text if text is None else masked(text)


def _print_turn(turn: dict[str, Any], before: dict[str, Any] | None) -> None:
    """Prints a turn; the text of a prompt that is the same as at the turn before is not repeated."""
    said = " ".join(visible(turn["said"]).split())
    print_text(f"turn {turn['turn']}  {when(turn['at'])[:16]}  {said[:_SAID]}{'…' if len(said) > _SAID else ''}")
    _line("prompt", _prompt(turn["prompt"]) + (f"; {counted(turn['tools'], 'tool')}" if turn["tools"] else ""))
    if turn["prompt"] != before:
        for each in turn["prompt"]["sections"]:
            _print_text(each, f"[{each['name']}]")
    history = turn["history"]
    if history["messages"]:
        _line("history", f"{counted(history['messages'], 'message')}, about {history['tokens']:,} tokens")
    for each in turn["summaries"]:
        _line("summary", _summary(each))
        _print_text(each)
    for each in turn["added"]:
        _line(_SOURCES.get(each["source"], each["source"]), _added(each, turn["announced"]))
        _print_text(each)
    for each in turn["results"]:
        added = [(_SOURCES.get(one["source"], one["source"]), one["characters"]) for one in each["added"]]
        notes = "".join(f", {source} {characters:,}" for source, characters in added)
        _line("result", f"{each['tool'] or 'a tool of the host'}: {each['characters']:,} characters{notes}")
        for one in each["added"]:
            _print_text(one)
    if answer := turn["answer"]:
        share = f", {answer['cached_share']:.0%} from the cache" if answer["cached_share"] is not None else ""
        broken = f" ({answer['cache_broken_by']})" if answer["cache_broken_by"] else ""
        _line("counted", f"{answer['input_tokens']:,} prompt tokens{share}{broken}")
    for each in turn["compacted"]:
        _line("compacted", f"before the next turn: {_summary(each)}")
    print_text("")


def _print_text(part: dict[str, Any], heading: str = "") -> None:
    if "text" not in part:
        return
    text = part["text"].strip("\n") if part["text"] is not None else _NOT_STORED
    for line in [*filter(None, [heading]), *visible(text).split("\n")]:
        print_text(f"    {line}".rstrip())
    print_text("")


def _summary(each: dict[str, Any]) -> str:
    stood = f"in place of {counted(each['messages'], 'message')}, by {each['by']}, because: {each['why']}"
    return f"{each['characters']:,} characters {stood} (message {each['message_id']})"


def _prompt(prompt: dict[str, Any]) -> str:
    if not prompt["sections"]:
        return "none stored"
    held = prompt["memory_up_to"]
    named = []
    for each in prompt["sections"]:
        known = f" (up to {held[each['name']]})" if each["name"] in held else ""
        named.append(f"{each['name']} {each['characters']:,}{known}")
    rebuilt = ", rebuilt by a compaction" if prompt["rebuilt"] else ""
    return f"{prompt['characters']:,} characters, about {prompt['tokens']:,} tokens{rebuilt}: {', '.join(named)}"


def _added(each: dict[str, Any], announced: dict[str, str]) -> str:
    came = f" from {', '.join(each['from'])}" if each.get("from") else ""
    told = f" (memory up to {', '.join(announced.values())})" if each["source"] == "announcement" and announced else ""
    return f"{each['characters']:,} characters{came}{told}"


def _line(name: str, text: str) -> None:
    print_text(f"  {name:<13}{text}")
