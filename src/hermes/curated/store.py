"""`MemoryStore`: curated memory (L1), the few facts that are always in the prompt.

Two files: MEMORY.md for the agent's notes, USER.md for what it knows about the person. `snapshot` is what a session's
system prompt holds: taken when the store is opened and never changed by later writes, so that the prompt stays the same
byte for byte. `entries` is the live state on disk.
"""

from __future__ import annotations

from hermes.curated import entries as text
from hermes.curated.history import Cause, Edit, apply_edits, reverse
from hermes.curated.memory_file import MemoryFile, Plan
from hermes.curated.operations import message, planner, prepared, refuse_if_full, usage
from hermes.curated.places import FILES, memory_path
from hermes.curated.screening import blocked_in_prompt, screen_write
from hermes.settings.home import find_home
from hermes.settings.load import load_settings
from hermes.vocabulary.errors import NotFound, StorageError, WriteRefused
from hermes.vocabulary.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from hermes.curated.history import Change
    from hermes.curated.memory_file import Reading
    from hermes.curated.operations import Operation
    from hermes.curated.provenance import Provenance
    from hermes.curated.screening import Screen
    from hermes.settings.home import Home
    from hermes.settings.load import Settings

TARGETS = ("memory", "user")
SWITCHES = {"memory": "memory.memory_enabled", "user": "memory.user_profile_enabled"}
_LIMITS = {"memory": "memory.memory_char_limit", "user": "memory.user_char_limit"}
_TITLES = {"memory": "MEMORY (your personal notes)", "user": "USER PROFILE (who the user is)"}
_RULE = "═" * 46


@value
class Written:
    """The outcome of a write: what happened, and the live state after it; no `change` when nothing had to change."""

    target: str
    message: str
    entries: tuple[str, ...]
    limit: int
    change: Change | None

    @property
    def usage(self) -> str:
        return usage(self.entries, self.limit)

    def saying(self, message: str) -> Written:
        """The same outcome in other words."""
        return Written(target=self.target, message=message, entries=self.entries, limit=self.limit, change=self.change)


class MemoryStore:
    """Open it once per session; every write reads the file again under its lock."""

    def __init__(self, files: Mapping[str, MemoryFile], limits: Mapping[str, int], screen: Screen) -> None:
        self._files = files
        self._limits = limits
        self._screen = screen
        # What each file held when the store was opened; judged and rendered when somebody asks for the snapshot.
        self._frozen = {target: _reading_or_error(file) for target, file in files.items()}
        self._snapshots: dict[str, str] = {}

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | Home | None = None,
        *,
        settings: Settings | None = None,
        screen: Screen = screen_write,
    ) -> MemoryStore:
        """The store of a home (default: $HERMES_HOME, else ~/.hermes) with the limits of its settings."""
        place = find_home(home)
        chosen = settings or load_settings(place)
        limits = {target: chosen.integer(_LIMITS[target]) for target in TARGETS}
        files = {
            target: MemoryFile(
                memory_path(place, target, chosen.texts("memory.linked_folders")),
                target=target,
                limit=limits[target],
                lock_timeout=chosen.number("memory.lock_timeout"),
            )
            for target in TARGETS
            if chosen.flag(SWITCHES[target])
        }
        return cls(files, limits, screen)

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that are switched on."""
        return tuple(self._files)

    def freeze(self) -> None:
        """Takes the snapshot anew: for a prompt that is built again."""
        self._frozen = {target: _reading_or_error(file) for target, file in self._files.items()}
        self._snapshots.clear()

    def snapshot(self, target: str) -> str:
        """The block for the system prompt as it was when the store was opened; empty when there is nothing to say."""
        if target in self._frozen and target not in self._snapshots:
            self._snapshots[target] = self._render_snapshot(target, self._frozen[target])
        return self._snapshots.get(target, "")

    def entries(self, target: str) -> tuple[str, ...]:
        return self.read(target).entries

    def read(self, target: str) -> Reading:
        return self._file(target).read()

    def limit(self, target: str) -> int:
        return self._limits[target]

    def path(self, target: str) -> str:
        return self._file(target).path

    def add(self, target: str, content: str, *, cause: Cause | None = None) -> Written:
        return self.apply(target, [{"action": "add", "content": content}], cause=cause)

    def replace(self, target: str, old_text: str, content: str, *, cause: Cause | None = None) -> Written:
        return self.apply(target, [{"action": "replace", "old_text": old_text, "content": content}], cause=cause)

    def remove(self, target: str, old_text: str, *, cause: Cause | None = None) -> Written:
        return self.apply(target, [{"action": "remove", "old_text": old_text}], cause=cause)

    def apply(self, target: str, operations: Sequence[Operation], *, cause: Cause | None = None) -> Written:
        """Carries out all operations or none; the budget is checked on the state they lead to."""
        file, cause = self._file(target), cause or Cause()
        ready = prepared(operations, self._screen, cause)
        plan, change = file.change(planner(ready, self._limits[target]), cause)
        return self._written(target, message(plan, ready), plan, change)

    def rehearse(self, target: str, operations: Sequence[Operation], *, cause: Cause) -> None:
        """Raises what `apply` would raise now, and changes nothing."""
        file = self._file(target)
        planner(prepared(operations, self._screen, cause), self._limits[target])(file.read().entries)

    def provenance(self, target: str) -> dict[str, Provenance]:
        """Where each live entry comes from."""
        from hermes.curated.provenance import provenance

        return provenance(self.entries(target), self.history(target)[0])

    def history(self, target: str) -> tuple[list[Change], int]:
        """Every change that took effect, oldest first, and how many records are unreadable."""
        return self._file(target).history()

    def undo(self, change_id: str, *, cause: Cause | None = None) -> Written:
        """Takes one change back; the undoing is a change of its own and can be undone too."""
        target, undone = self._find_change(change_id)

        def plan(entries: tuple[str, ...]) -> Plan:
            edits = reverse(undone, entries)
            restored = apply_edits(entries, edits)
            refuse_if_full(entries, restored, self._limits[target])
            return Plan(action="undo", edits=edits, entries=restored, undoes=undone.id)

        planned, change = self._file(target).change(plan, cause or Cause(origin="user"))
        return self._written(target, f"Change {undone.id} ({undone.action}) undone.", planned, change)

    def reset(self, target: str, *, cause: Cause | None = None) -> Written:
        """Empties one file; what was in it stays in the history."""

        def plan(entries: tuple[str, ...]) -> Plan:
            return Plan(action="reset", edits=tuple(Edit(index=0, before=e, after=None) for e in entries), entries=())

        planned, change = self._file(target).change(plan, cause or Cause(origin="user"), accept_drift=True)
        return self._written(target, f"{len(planned.edits)} entries removed.", planned, change)

    def adopt(self, target: str, *, cause: Cause | None = None) -> Written:
        """Accepts a file that was edited in another form: keeps its bytes in a backup, writes its entries in ours."""

        def plan(entries: tuple[str, ...]) -> Plan:
            return Plan(action="adopt", edits=(), entries=tuple(map(text.clean, entries)))

        planned, change = self._file(target).change(plan, cause or Cause(origin="user"), accept_drift=True)
        return self._written(target, f"{len(planned.entries)} entries adopted.", planned, change)

    def _file(self, target: str) -> MemoryFile:
        if target not in TARGETS:
            raise WriteRefused(f"target must be one of {', '.join(TARGETS)}, not {target!r}", kind="target")
        if target not in self._files:
            raise WriteRefused(f"the {target} store is switched off ({SWITCHES[target]} is false)", kind="disabled")
        return self._files[target]

    def _find_change(self, change_id: str) -> tuple[str, Change]:
        for target in self._files:
            for change in self.history(target)[0]:
                if change.id == change_id:
                    return target, change
        raise NotFound(f"there is no change {change_id!r}; `hermes memory log` lists them")

    def _written(self, target: str, done: str, plan: Plan, change: Change | None) -> Written:
        return Written(target=target, message=done, entries=plan.entries, limit=self._limits[target], change=change)

    def _render_snapshot(self, target: str, frozen: Reading | StorageError) -> str:
        try:
            if isinstance(frozen, StorageError):
                raise frozen
            entries = tuple(dict.fromkeys(frozen.entries))
            shown = blocked_in_prompt(entries, FILES[target])
        except (StorageError, WriteRefused) as error:
            return _unreadable(target, str(error))
        if frozen.drift and not entries:
            return _unreadable(target, f"{self.path(target)} holds no text: {frozen.drift}; look at what is in it")
        return block(target, shown, usage(entries, self._limits[target]))


def _reading_or_error(file: MemoryFile) -> Reading | StorageError:
    file.tidy()
    try:
        return file.read()
    except StorageError as error:
        return error


def block(target: str, entries: Sequence[str], used: str) -> str:
    """How a memory file looks in the system prompt."""
    return f"{_RULE}\n{_TITLES[target]} [{used}]\n{_RULE}\n{text.render(entries)}" if entries else ""


def _unreadable(target: str, why: str) -> str:
    """An unreadable file is said to be unreadable: an empty memory would be a lie the model acts on."""
    return f"{_RULE}\n{_TITLES[target]} [could not be read]\n{_RULE}\n{why}"
