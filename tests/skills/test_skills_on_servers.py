"""Skills of a person whose data is in PostgreSQL: files on every server, rows in the database."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from hermes.safety.scanner import scan
from hermes.session.curator import make
from hermes.settings.config import documents_of
from hermes.settings.home import find_home
from hermes.skills.files import skills_folder
from hermes.skills.tool import SkillTools

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.proves("storage.servers"), pytest.mark.usefixtures("on_postgres")]
TEXT = "---\nname: {name}\ndescription: How to {name}.\n---\n\n# Steps\n1. Begin.\n"


def tools(place: Path) -> SkillTools:
    return SkillTools(skills_folder(find_home(place)), scan)


def made(skills: SkillTools, name: str) -> dict[str, Any]:
    result = skills.handle(
        "skill_manage", {"action": "create", "name": name, "content": TEXT.format(name=name), "category": "work"}
    )
    assert result["success"], result
    return result


def names(skills: SkillTools) -> list[str]:
    return [each["name"] for each in skills.handle("skills_list", {})["skills"]]


def test_a_skill_of_one_server_is_used_changed_and_archived_on_another(tmp_path: Path) -> None:
    one, other = tools(tmp_path / "one"), tools(tmp_path / "other")
    made(one, "deploy")
    script = {"action": "write_file", "name": "deploy", "file_path": "scripts/go.sh", "file_content": "echo go\n"}
    assert one.handle("skill_manage", script)["success"]
    seen = other.handle("skill_view", {"name": "deploy"})
    assert (seen["success"], seen["linked_files"]) == (True, {"scripts": ["scripts/go.sh"]})
    assert (tmp_path / "other" / "skills" / "work" / "deploy" / "scripts" / "go.sh").read_text() == "echo go\n"
    patch = {"action": "patch", "name": "deploy", "old_string": "Begin.", "new_string": "Stop."}
    assert other.handle("skill_manage", patch)["success"]
    assert "Stop." in one.handle("skill_view", {"name": "deploy"})["content"]
    assert other.handle("skill_manage", {"action": "delete", "name": "deploy"})["success"]
    assert names(one) == []
    assert not os.path.exists(tmp_path / "one" / "skills" / "work" / "deploy")


def test_a_folder_that_was_lost_is_made_again(tmp_path: Path) -> None:
    skills = tools(tmp_path)
    made(skills, "deploy")
    shutil.rmtree(tmp_path / "skills")
    assert names(skills) == ["deploy"]


def test_what_a_person_edits_by_hand_is_stored_and_on_both_sides_one_version_counts(tmp_path: Path) -> None:
    one, other = tools(tmp_path / "one"), tools(tmp_path / "other")
    made(one, "deploy")
    names(other)
    file = tmp_path / "other" / "skills" / "work" / "deploy" / "SKILL.md"
    file.write_text(TEXT.format(name="deploy") + "2. By hand.\n")
    names(other)
    assert "By hand" in one.handle("skill_view", {"name": "deploy"})["content"]
    file.write_text(TEXT.format(name="deploy") + "2. Mine.\n")
    patch = {"action": "patch", "name": "deploy", "old_string": "By hand.", "new_string": "Theirs."}
    assert one.handle("skill_manage", patch)["success"]
    assert "Theirs" in other.handle("skill_view", {"name": "deploy"})["content"]
    assert "Mine" in (file.parent / ".SKILL.md.yours").read_text()


def test_a_failed_change_is_an_answer_and_changes_nothing_elsewhere(tmp_path: Path) -> None:
    one, other = tools(tmp_path / "one"), tools(tmp_path / "other")
    made(one, "deploy")
    assert not one.handle("skill_manage", {"action": "create", "name": "deploy", "content": "no"})["success"]
    assert names(other) == names(one) == ["deploy"]


def test_the_curators_backup_holds_memory_and_skills_of_the_database(tmp_path: Path) -> None:
    import io
    import tarfile

    home = find_home(tmp_path / "one")
    made(tools(tmp_path / "one"), "deploy")
    with documents_of(home).below("memories").create() as folder:
        folder.replace("MEMORY.md", b"The host is atlas.")
    path = make(home, keep=1)
    with documents_of(home).below("backups", "curator").create() as folder:
        packed = folder.read(os.path.basename(path), at_most=1 << 20) or b""
        assert folder.names() == [os.path.basename(path)]
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        held = archive.getnames()
    assert {"memories/MEMORY.md", "skills/work/deploy/SKILL.md"} <= set(held)
