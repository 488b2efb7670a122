"""What the settings say about skills: more folders, what is filled in, what is refused or left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from skills_home import Skills, skill_text

from hermes.skills.tool import SkillTools

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


@pytest.mark.proves("skills.folders")
def test_skills_of_other_folders_are_listed_and_opened_and_never_changed(tmp_path: Path) -> None:
    other = tmp_path / "team"
    for name in ("review", "deploy"):
        (other / "ops" / name).mkdir(parents=True)
        (other / "ops" / name / "SKILL.md").write_text(skill_text(name, "The team's."), encoding="utf-8")
    skills = Skills(tmp_path, also=(str(other), str(tmp_path / "missing")))
    skills.create("deploy", "ops", description="Mine.")
    listed = {each["name"]: each["description"] for each in skills.call("skills_list")["skills"]}
    assert listed == {"deploy": "Mine.", "review": "The team's."}
    assert "The team's." in skills.call("skill_view", name="review")["content"]
    before = (other / "ops" / "review" / "SKILL.md").read_bytes()
    for action, more in (("edit", {"content": skill_text("review", "Mine.")}), ("delete", {})):
        refused = skills.manage(action, "review", **more)
        assert "which is read-only" in refused["error"]
    assert (other / "ops" / "review" / "SKILL.md").read_bytes() == before


@pytest.mark.proves("skills.settings")
def test_the_folder_of_a_skill_is_filled_in_unless_that_is_switched_off(tmp_path: Path) -> None:
    for fill_in in (True, False):
        skills = Skills(tmp_path / str(fill_in), fill_in=fill_in)
        skills.create(body="Run ${HERMES_SKILL_DIR}/scripts/go.sh")
        shown = skills.call("skill_view", name="deploy")
        written = shown["skill_dir"] if fill_in else "${HERMES_SKILL_DIR}"
        assert f"Run {written}/scripts/go.sh" in shown["content"]


@pytest.mark.proves("skills.settings")
def test_the_settings_reach_the_skills(home: Path, tmp_path: Path, hermes: Callable[..., Ran]) -> None:
    for name in ("review", "old"):
        (tmp_path / "team" / name).mkdir(parents=True)
        (tmp_path / "team" / name / "SKILL.md").write_text(skill_text(name), encoding="utf-8")
    home.mkdir()
    words = f"skills: {{external_dirs: [{tmp_path / 'team'}], disabled: [old]}}"
    (home / "config.yaml").write_text(words, encoding="utf-8")
    assert [each["name"] for each in hermes("tool", "skills_list", "{}").json["skills"]] == ["review"]
    assert "- review:" in hermes("prompt").out
    assert "disabled in the settings" in hermes("tool", "skill_view", '{"name": "old"}').json["error"]


@pytest.mark.proves("skills.settings")
def test_what_a_person_should_look_at_is_written_unless_the_guard_is_on(tmp_path: Path) -> None:
    doubtful = SimpleNamespace(level="ask", classes=("override",), excerpt="")
    asked = {"action": "create", "name": "deploy", "content": skill_text("deploy")}
    for strict in (False, True):
        tools = SkillTools(str(tmp_path / str(strict)), lambda _text: doubtful, strict=strict)
        assert (tools.refusal(asked) is None, tools.handle("skill_manage", asked)["success"]) == (
            not strict,
            not strict,
        )
