"""Looks at a home from outside and lists everything about its curated memory that must not be so."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from hermes.base.errors import HermesError
from hermes.memory import entries as text
from hermes.memory.entries import replay
from hermes.memory.store import TARGETS, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hermes.memory.entries import Change

    Entries = tuple[str, ...]
    # What each target may hold, and which changes (id to session) its history must list.
    Allowed = Mapping[str, Collection[Entries]]
    Acknowledged = Mapping[str, Mapping[str, str]]


def problems_of(home: str, allowed: Allowed, acknowledged: Acknowledged) -> tuple[list[str], dict[str, Entries]]:
    """What is wrong after a fresh open, and the entries found."""
    try:
        store = MemoryStore.open(home)
        found = {target: store.entries(target) for target in TARGETS}
        histories = {target: store.history(target) for target in TARGETS}
    except HermesError as error:
        return [f"a fresh open failed: {error}"], {}
    problems: list[str] = []
    for target in TARGETS:
        if found[target] not in allowed[target]:
            problems.append(f"{target}: found {found[target]}, expected one of {list(allowed[target])}")
        if found[target] and text.render(found[target]) not in store.snapshot(target):
            problems.append(f"{target}: the snapshot of a fresh open is {store.snapshot(target)!r}")
        problems += _problems_of_file(store.path(target), found[target])
        problems += _problems_of_history(target, histories[target], found[target], acknowledged.get(target, {}))
    return problems + leftovers_and_modes(home), found


def leftovers_and_modes(home: str) -> list[str]:
    problems: list[str] = []
    for folder, _, files in os.walk(home):
        if stat.S_IMODE(os.stat(folder).st_mode) != 0o700:
            problems.append(f"{folder} has mode {stat.S_IMODE(os.stat(folder).st_mode):o}")
        for name in files:
            path = os.path.join(folder, name)
            if name.startswith("."):
                problems.append(f"{path} was left behind")
            if stat.S_IMODE(os.lstat(path).st_mode) != 0o600:
                problems.append(f"{path} has mode {stat.S_IMODE(os.lstat(path).st_mode):o}")
    return problems


def _problems_of_file(path: str, entries: Entries) -> list[str]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [] if not entries else [f"{path} does not exist, yet {len(entries)} entries were read"]
    return [] if data == text.render(entries).encode() else [f"{path} is torn: {data!r} is not {entries}"]


def _problems_of_history(
    target: str, history: tuple[list[Change], int], entries: Entries, acknowledged: Mapping[str, str]
) -> list[str]:
    changes, damaged = history
    problems = [f"{target}: {damaged} damaged lines in the history"] if damaged else []
    if replay(changes) != entries:
        problems.append(f"{target}: replaying the history gives {replay(changes)}, not {entries}")
    listed = {change.id: change.cause.session for change in changes}
    if len(listed) != len(changes):
        problems.append(f"{target}: two changes share an id")
    for change_id, session in acknowledged.items():
        if listed.get(change_id) != session:
            problems.append(
                f"{target}: acknowledged change {change_id} of session {session!r} is "
                + (f"listed with {listed[change_id]!r}" if change_id in listed else "not in the history")
            )
    return problems
