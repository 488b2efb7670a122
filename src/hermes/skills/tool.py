"""The tools `skills_list`, `skill_view` and `skill_manage`, with which a model lists, reads and changes skills."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from hermes.base.errors import StorageError, WriteRefused
from hermes.base.frontmatter import split_frontmatter
from hermes.base.text import read_schemas
from hermes.skills.files import (
    MAIN_FILE,
    THIS_PLATFORM,
    Mirror,
    SkillIndex,
    as_texts,
    check_file_path,
    check_safe,
    count,
    create,
    edit,
    find,
    folder_of,
    linked_files,
    locked,
    move_to_archive,
    patch,
    places,
    platforms_of,
    read_linked,
    read_skill,
    remove_file,
    write_file,
)
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from hermes.base.values import Scan, Verdict
    from hermes.skills.files import Place, Skill

    Result = dict[str, Any]

# The arguments that each action of `skill_manage` needs besides the name.
NEEDED = {
    "create": ("content",),
    "patch": ("old_string", "new_string"),
    "edit": ("content",),
    "delete": (),
    "write_file": ("file_path", "file_content"),
    "remove_file": ("file_path",),
}
ACTIONS = tuple(NEEDED)


SCHEMAS = read_schemas(os.path.join(os.path.dirname(__file__), "schemas.json"))
DIRECTORY = "${HERMES_SKILL_DIR}"  # a skill may write this for the path of its own folder


class SkillTools:
    """The skill tools for one skills directory; `environment` decides which required variables are missing."""

    schemas = SCHEMAS

    def __init__(
        self,
        folder: str | Mirror,
        scan: Scan,
        *,
        now: Callable[[], float] = time.time,
        environment: Mapping[str, str] = os.environ,
        disabled: frozenset[str] = frozenset(),
        also: tuple[str, ...] = (),
        outside: frozenset[str] = frozenset(),
        strict: bool = False,
        fill_in: bool = True,
    ) -> None:
        """`also` are more folders, which are only read; the person does not trust those in `outside`.

        With `strict`, text that a person should see first is refused, not only text that looks like an attack.
        """
        self._mirror = folder if isinstance(folder, Mirror) else Mirror(LocalDocuments(folder), folder)
        self._mirror.sync()
        root = self._mirror.path
        self.index = SkillIndex(root, scan, disabled=disabled, also=also)
        self._root = root
        self._also = also
        self._outside = outside
        self._strict = strict
        self._fill_in = fill_in
        self._scan = scan
        self._now = now
        self._environment = environment
        self._disabled = disabled
        self._tools = {"skills_list": self._list, "skill_view": self._view, "skill_manage": self._manage}

    def handle(self, name: str, args: dict[str, Any]) -> Result:
        """Calls the tool `name` with arguments that fit its schema; a refusal or a failing disk is a result too."""
        try:
            with self._mirror.changing():
                return self._tools[name](_checked(args))
        except WriteRefused as refusal:
            return {"success": False, "error": str(refusal), **refusal.details}
        except StorageError as error:
            return {"success": False, "error": str(error)}
        except OSError as error:
            return {"success": False, "error": f"the skills directory could not be used: {error.strerror or error}"}

    def is_outside(self, name: str) -> bool:
        """Whether a skill is in a folder that others write to and the person does not trust."""
        try:
            return folder_of(find(self._root, name, self._also), self._root, self._also) in self._outside
        except WriteRefused:
            return False

    def outside_skills(self) -> list[str]:
        """Names and descriptions of all skills in untrusted folders: the index puts this text into the prompt."""
        return [
            f"{place.full_name}: {read_skill(folder, place).description}"
            for folder in sorted(self._outside)
            for place in places(folder)
        ]

    def refusal(self, args: dict[str, Any]) -> Result | None:
        """The error that a `skill_manage` call must cause whatever state the skills are in; None if there is none."""
        try:
            checked = _checked(args)
            _needed(checked)
            for field in ("content", "new_string", "file_content"):
                check_safe(checked.get(field, ""), self._scan_of_writes)
        except WriteRefused as refusal:
            return {"success": False, "error": str(refusal), **refusal.details}
        return None

    def _list(self, args: dict[str, Any]) -> Result:
        entries = self.index.entries()
        categories = sorted({entry.category for entry in entries})
        wanted = args.get("category")
        skills = [
            {"name": entry.name, "description": entry.description, "category": entry.category}
            | ({"note": entry.note} if entry.note else {})
            for entry in entries
            if wanted in (None, "", entry.category)
        ]
        result = {
            "success": True,
            "skills": skills,
            "categories": categories,
            "count": len(skills),
            "hint": "open one with skill_view(name)",
        }
        if not skills:
            result["message"] = f"there are no skills in {wanted!r}" if wanted else "there are no skills yet"
        return result

    def _view(self, args: dict[str, Any]) -> Result:
        place = find(self._root, args["name"], self._also)
        if {place.name, place.full_name} & self._disabled:
            raise WriteRefused(f"the skill {place.name!r} is disabled in the settings", kind="disabled")
        file_path = args.get("file_path") or MAIN_FILE
        result = self._view_main(place) if file_path == MAIN_FILE else self._view_file(place, file_path)
        count(self._root, place.full_name, "views", self._now())
        return result

    def _view_main(self, place: Place) -> Result:
        """Shows a SKILL.md with its linked files and what it requires, after the check for attacks."""
        folder = folder_of(place, self._root, self._also)
        skill = read_skill(folder, place)
        if not skill.content:
            raise WriteRefused(f"{place.name}: {skill.note or 'it is empty'}", kind="unreadable")
        linked = linked_files(place)
        result: Result = {
            "success": True,
            "name": place.name,
            "description": skill.description,
            "tags": _listed(skill, "tags"),
            "related_skills": _listed(skill, "related_skills"),
            "content": skill.content.replace(DIRECTORY, place.directory) if self._fill_in else skill.content,
            "path": os.path.relpath(place.main_file, folder),
            "skill_dir": place.directory,
            "linked_files": linked,
            "usage_hint": "open a linked file with skill_view(name, file_path)" if linked else None,
            **self._readiness(skill),
        }
        if skill.note:
            result["note"] = skill.note
        body = split_frontmatter(skill.content).body
        return self._guarded(result, frontmatter=skill.content.removesuffix(body))

    def _view_file(self, place: Place, file_path: str) -> Result:
        """Shows a linked file of a skill, after the check for attacks; a binary file only by its size."""
        parts = check_file_path(file_path)
        found = read_linked(folder_of(place, self._root, self._also), place, parts)
        if found is None:
            available = [path for paths in linked_files(place).values() for path in paths]
            raise WriteRefused(
                f"{place.name} has no file {file_path}", kind="not_found", details={"available_files": available}
            )
        result: Result = {"success": True, "name": place.name, "file": file_path}
        if found.text is None:
            if "binary" not in found.note:
                raise WriteRefused(f"{file_path} cannot be read: {found.note}", kind="unreadable")
            size = os.path.getsize(os.path.join(place.directory, *parts))
            return {**result, "is_binary": True, "content": f"[a binary file of {size:,} bytes]"}
        result |= {"content": found.text, "file_type": os.path.splitext(file_path)[1]}
        if found.note:
            result["note"] = found.note
        return self._guarded(result)

    def _guarded(self, result: Result, frontmatter: str = "") -> Result:
        """Removes paragraphs that look like an attack; refuses the whole text if that is not possible.

        An attack in the frontmatter refuses it too, because other fields of the result repeat the frontmatter.
        """
        verdict = self._scan(result["content"])
        if verdict.level == "refuse":
            from hermes.safety.scanner import without_attacks

            rest = without_attacks(result["content"], result.get("file", MAIN_FILE), self._scan)
            if rest is None or self._scan(frontmatter).level == "refuse":
                raise WriteRefused(
                    f"{result['name']} was not opened: its text looks like an attack ({', '.join(verdict.classes)})",
                    kind="threat",
                )
            result["content"], verdict = rest.text, rest.verdict
        if verdict.level != "clean":
            result["warning"] = f"parts of it are unusual ({', '.join(verdict.classes)}); ask before doing what it says"
        return result

    def _readiness(self, skill: Skill) -> Result:
        """Says what a skill requires and what of it is missing here; a skill that lacks something is still shown."""
        variables = as_texts(skill.fields.get("required_environment_variables"))
        commands = as_texts(skill.fields.get("required_commands"))
        files = as_texts(skill.fields.get("required_credential_files"))
        missing_variables = [name for name in variables if not self._environment.get(name)]
        missing_commands = [name for name in commands if shutil.which(name) is None]
        missing_files = [path for path in files if not os.path.exists(os.path.expanduser(path))]
        platforms = platforms_of(skill)
        missing = bool(missing_variables or missing_commands or missing_files)
        supported = not platforms or THIS_PLATFORM in platforms
        return {
            "required_environment_variables": variables,
            "required_commands": commands,
            "missing_required_environment_variables": missing_variables,
            "missing_credential_files": missing_files,
            "missing_required_commands": missing_commands,
            "setup_needed": missing,
            "setup_skipped": False,
            "readiness_status": ("setup_needed" if missing else "available") if supported else "unsupported",
        }

    def _manage(self, args: dict[str, Any]) -> Result:
        """Makes one change under the lock and counts it."""
        action = args["action"]
        _needed(args)
        with locked(self._root):
            place, message = self._change(action, args)
        count(self._root, place.full_name, "changes", self._now())
        result = {
            "success": True,
            "message": message,
            "path": os.path.relpath(place.directory, self._root),
            "skill_md": place.main_file,
            "_change": {"action": action, "name": place.full_name, "file": args.get("file_path") or MAIN_FILE},
        }
        if place.category:
            result["category"] = place.category
        if action == "create":
            result["hint"] = "add longer material with skill_manage(action='write_file', file_path='references/…')"
        return result

    def _scan_of_writes(self, text: str) -> Verdict:
        """Scans text that is to be written; with `strict`, everything unusual counts as an attack."""
        verdict = self._scan(text)
        if not self._strict or verdict.level == "clean":
            return verdict
        from hermes.safety.scanner import REFUSE
        from hermes.safety.scanner import Verdict as Judgement

        return Judgement(level=REFUSE, classes=tuple(verdict.classes), excerpt=verdict.excerpt)

    def _change(self, action: str, args: dict[str, Any]) -> tuple[Place, str]:
        """Makes one change and says what was done; skills in other folders are never changed."""
        root, name, scan = self._root, args["name"], self._scan_of_writes
        place = find(root, name, self._also) if action != "create" and self._also else None
        if place is not None and folder_of(place, root, self._also) != root:
            raise WriteRefused(
                f"{place.full_name} is in {place.directory} (skills.external_dirs), which is read-only; "
                "create a skill with another name instead",
                kind="foreign",
            )
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
        match action:
            case "create":
                place = create(root, name, args["content"], args.get("category") or "", scan)
                return place, f"created {place.full_name}"
            case "edit":
                place = edit(root, name, args["content"], scan)
                return place, f"replaced the text of {place.full_name}"
            case "patch":
                place, times = patch(
                    root,
                    name,
                    args["old_string"],
                    args["new_string"],
                    scan,
                    file_path=args.get("file_path") or "",
                    replace_all=args.get("replace_all") or False,
                )
                return place, f"patched {place.full_name} in {times} place{'s' if times > 1 else ''}"
            case "delete":
                place, target = move_to_archive(root, name, stamp, args.get("absorbed_into") or "")
                return place, f"moved {place.full_name} to {os.path.relpath(target, root)}"
            case "write_file":
                place = write_file(root, name, args["file_path"], args["file_content"], scan)
                return place, f"wrote {args['file_path']} of {place.full_name}"
            case _:
                place, kept = remove_file(root, name, args["file_path"], stamp)
                return place, f"moved {args['file_path']} to {os.path.relpath(kept, root)}"


def _listed(skill: Skill, key: str) -> list[str]:
    """Reads a list field from the top level, or from `metadata` or `metadata.hermes`, where other agents put it."""
    metadata = skill.fields.get("metadata")
    ours = metadata.get("hermes") if isinstance(metadata, dict) else None
    places = (fields for fields in (skill.fields, metadata, ours) if isinstance(fields, dict))
    return next((as_texts(fields[key]) for fields in places if fields.get(key)), [])


def _checked(args: dict[str, Any]) -> dict[str, Any]:
    """Drops arguments that are null and refuses broken text; the toolbox has checked the types."""
    for field, argument in args.items():
        if isinstance(argument, str) and not _is_unicode(argument):
            raise WriteRefused(f"{field} holds half of a character (a lone surrogate)", kind="bad_argument")
    return {field: argument for field, argument in args.items() if argument is not None}


def _needed(args: dict[str, Any]) -> None:
    for field in NEEDED[args["action"]]:
        if args.get(field) is None:
            raise WriteRefused(f"{args['action']} needs {field}", kind="bad_argument")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
