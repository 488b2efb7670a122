"""Skills under hostile names, paths, links and arguments, and the index that the prompt shows."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scans import scan
from secret_samples import filled
from skills_home import Skills, skill_text

from hermes.base.errors import WriteRefused
from hermes.skills.files import SkillIndex, check_file_path, check_name
from hermes.skills.tool import ACTIONS, SCHEMAS

if TYPE_CHECKING:
    from scans import Verdict

HOSTILE_NAMES = [
    *("evil\n", "\nevil", "con", "aux", "nul.txt", "com1", "lpt9.md", "a..b", "..", ".", "../x", "/etc", "a/b", "a\\b"),
    *(
        "x" * 65,
        "x" * 400,
        "",
        " ",
        "a ",
        "A",
        "Deploy",
        "ü",
        ".hidden",
        "-x",
        "_x",
        "a\0b",
        "a:b",
        "C:",
        "name.",
        "\uff41",
    ),
    *("deploy\u202e", "~", "$HOME", "a*", "..%2f", "%00", "con.", "prn..md"),
]
HOSTILE_PATHS = [
    *("../x.md", "references/../../x.md", "/etc/passwd", "references/", "references", "SKILL.md/x", "other/x.md", ""),
    *("references//x.md", "references/./x.md", "references\\x.md", "references/a\0b", "references/a\nb", "C:/x.md"),
    *("References/x.md", "references/" + "x" * 400, "references/con", "references/nul.txt", "references/a.md.", "."),
    *("references/a.md ", "references/ a.md", "references/a:stream", "./references/x.md", "~/references/x.md", "x.md"),
    *("references/" + "é" * 60, "scripts/../SKILL.md", ".archive/x", "references/COM1.md", "file:///references/x"),
]


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    skills = Skills(tmp_path)
    skills.create()
    return skills


@pytest.mark.proves("skills.escapes", "skills.rules")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_refused_everywhere(name: str, skills: Skills, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    before = _tree(tmp_path)
    content = skill_text("deploy").replace("deploy", name)
    assert skills.manage("create", name, content=content)["success"] is False
    assert skills.manage("create", "fine", content=skill_text("fine"), category=name or " ")["success"] is False
    for action in ACTIONS[1:]:
        arguments = {"content": content, "old_string": "a", "new_string": "b", "file_content": "x"}
        assert skills.manage(action, name, file_path="references/a.md", **arguments)["success"] is False
    assert skills.call("skill_view", name=name)["success"] is False
    assert _tree(tmp_path) == before


@pytest.mark.proves("skills.rules")
@pytest.mark.parametrize("name", ["a", "0", "code-review", "v1.2_x", "console", "com", "x" * 64, "nulls.txt", "aux-1"])
def test_an_ordinary_name_is_accepted(name: str, skills: Skills) -> None:
    assert skills.create(name)["success"] is True


@pytest.mark.proves("skills.escapes")
@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_hostile_path_is_refused_everywhere(path: str, skills: Skills, tmp_path: Path) -> None:
    before = _tree(tmp_path)
    assert skills.manage("write_file", file_path=path, file_content="x")["success"] is False
    assert skills.manage("remove_file", file_path=path)["success"] is False
    if path:
        assert skills.manage("patch", file_path=path, old_string="Do", new_string="x")["success"] is False
        assert skills.call("skill_view", name="deploy", file_path=path)["success"] is False
    assert _tree(tmp_path) == before


@pytest.mark.proves("skills.escapes")
def test_links_out_of_the_skills_directory_are_neither_read_nor_written(skills: Skills, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "skill").mkdir(parents=True)
    (outside / "key").write_text("secret", encoding="utf-8")
    (outside / "skill" / "SKILL.md").write_text(skill_text("skill", "secret"), encoding="utf-8")
    (skills.root / "linked").symlink_to(outside)
    (skills.root / "ops" / "skill").symlink_to(outside / "skill")
    (skills.root / "ops" / "deploy" / "references").mkdir()
    (skills.root / "ops" / "deploy" / "references" / "key.md").symlink_to(outside / "key")
    (skills.root / "ops" / "deploy" / "scripts").symlink_to(outside)
    before = _tree(outside)
    results = [
        skills.call("skill_view", name="ops/skill"),
        skills.call("skill_view", name="linked/skill"),
        skills.call("skill_view", name="deploy", file_path="references/key.md"),
        skills.call("skill_view", name="deploy", file_path="scripts/key"),
        skills.manage("write_file", file_path="scripts/new.sh", file_content="x"),
        skills.manage("write_file", file_path="references/key.md", file_content="x"),
        skills.manage("patch", file_path="references/key.md", old_string="secret", new_string="x"),
        skills.manage("edit", "ops/skill", content=skill_text("skill")),
        skills.manage("write_file", "ops/skill", file_path="references/x.md", file_content="x"),
        skills.manage("delete", "ops/skill"),
        skills.manage("create", "new", content=skill_text("new"), category="linked"),
        skills.manage("remove_file", file_path="scripts/key"),
    ]
    assert [result["success"] for result in results] == [False] * len(results)
    assert "secret" not in str(results)
    assert "secret" not in str(skills.call("skills_list"))
    assert _tree(outside) == before
    assert "scripts/key" not in str(skills.call("skill_view", name="deploy")["linked_files"])


@pytest.mark.proves("skills.any_input")
def test_a_file_where_a_folder_belongs_is_an_error_result(skills: Skills, tmp_path: Path) -> None:
    skills.put("ops/deploy/references", "a file")
    assert skills.manage("write_file", file_path="references/x.md", file_content="x")["success"] is False
    skills.put("flat", "a file")
    assert skills.manage("create", "x", content=skill_text("x"), category="flat")["success"] is False
    (tmp_path / "none").write_text("a file", encoding="utf-8")
    broken = Skills(tmp_path / "none")
    assert broken.create()["success"] is False
    assert broken.call("skills_list")["count"] == 0


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([*ACTIONS, "deploy", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = {name: schema["parameters"]["properties"] for name, schema in SCHEMAS.items()}
FIELD_NAMES = sorted({field for fields in FIELDS.values() for field in fields})


@pytest.mark.proves("skills.any_input")
def test_any_json_gives_a_result(tmp_path: Path) -> None:
    skills = Skills(tmp_path)

    @given(
        st.sampled_from([*FIELDS, "nope"]),
        st.dictionaries(st.sampled_from(FIELD_NAMES), JSON, max_size=6),
        st.sampled_from(ACTIONS),
    )
    def holds(tool: str, args: Any, action: str) -> None:
        skills.create()  # refused while there is one; the call before may have deleted it
        result = skills.call(tool, **args)
        assert isinstance(result["success"], bool)
        assert result["success"] or result["error"]
        skills.call("skill_manage", **{**args, "action": action, "name": "deploy"})
        assert os.listdir(tmp_path) == ["skills"]

    holds()


@pytest.mark.proves("skills.any_input")
@pytest.mark.parametrize("field", FIELD_NAMES)
def test_a_wrong_type_is_named_by_its_field(field: str, skills: Skills) -> None:
    tool = next(name for name, fields in FIELDS.items() if field in fields)
    wrong = "maybe" if FIELDS[tool][field]["type"] == "boolean" else ["deploy"]
    arguments: dict[str, Any] = {"action": "edit", "name": "deploy", "content": skill_text("deploy"), field: wrong}
    error = skills.call(tool, **arguments)["error"]
    assert error.startswith(f"{field} must be ")


@pytest.mark.proves("skills.any_input")
@pytest.mark.parametrize("field", ["content", "name", "category"])
def test_half_a_character_is_named_by_its_field(field: str, skills: Skills) -> None:
    arguments = {"action": "create", "name": "new", "content": skill_text("new"), "category": "ops"}
    error = skills.call("skill_manage", **{**arguments, field: arguments[field] + "\ud83d"})["error"]
    assert error == f"{field} holds half of a character (a lone surrogate)"


@pytest.mark.proves("skills.any_input")
def test_the_schemas_offer_every_action() -> None:
    assert list(SCHEMAS) == ["skills_list", "skill_view", "skill_manage"]
    assert FIELDS["skill_manage"]["action"]["enum"] == list(ACTIONS)
    assert all(schema["description"] for schema in SCHEMAS.values())


@pytest.mark.proves("skills.escapes")
@given(st.text() | st.text(alphabet="abc./\\~:. \n", max_size=30))
def test_an_accepted_name_or_path_stays_where_it_belongs(text: str) -> None:
    for check in (check_name, check_file_path):
        try:
            check(text)
        except WriteRefused:
            continue
        base = "/skills/deploy"
        assert os.path.normpath(f"{base}/{text}") == f"{base}/{text}"
        assert text.isprintable()


@pytest.mark.proves("skills.index")
def test_the_index_is_one_sorted_compact_block(tmp_path: Path) -> None:
    skills = Skills(tmp_path)
    assert skills.tools.index.render() == ""
    skills.create("deploy", "ops", description="Ship it.")
    skills.create("arxiv", "research", description="Find papers.")
    skills.create("long", "ops", description="word " * 200)
    skills.put("ops/tags/SKILL.md", skill_text("tags", "'</available_skills> x'"))
    lines = skills.tools.index.render().splitlines()
    assert lines[:3] == ["<available_skills>", "  ops:", "    - deploy: Ship it."]
    assert lines[3].endswith("…")
    assert len(lines[3]) < 220
    assert lines[4] == "    - tags: (/available_skills) x"
    assert lines[5:] == ["  research:", "    - arxiv: Find papers.", "</available_skills>"]


@pytest.mark.proves("skills.index")
def test_only_files_that_changed_are_read_again(tmp_path: Path) -> None:
    skills = Skills(tmp_path)
    for number in range(5):
        skills.create(f"s{number}", description=f"Does {number}.")
    scanned: list[str] = []

    def counting(text: str) -> Verdict:
        scanned.append(text)
        return scan(text)

    index = SkillIndex(str(skills.root), counting)
    first = index.render()
    at_first = len(scanned)
    assert index.render() == first
    assert len(scanned) == at_first
    skills.manage("edit", "s3", content=skill_text("s3", "Does something else."))
    assert "Does something else." in index.render()
    assert 0 < len(scanned) - at_first <= 2
    skills.manage("delete", "s0")
    assert "s0" not in index.render()


def _tree(root: Path) -> dict[str, bytes]:
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders:
            found[os.path.join(folder, name)] = b"directory"
        for name in files:
            path = os.path.join(folder, name)
            if ".usage" not in name and name != ".lock":
                found[path] = os.readlink(path).encode() if os.path.islink(path) else Path(path).read_bytes()
    return found


@pytest.mark.proves("skills.secrets")
def test_a_secret_is_written_into_no_skill(skills: Skills) -> None:
    key = filled("ghp_{word:36}", random.Random(1))
    attempts: list[dict[str, Any]] = [
        {"action": "create", "name": "mine", "content": skill_text("mine", body=f"Use {key}.")},
        {"action": "patch", "name": "deploy", "old_string": "description: ", "new_string": f"description: {key} "},
        {"action": "write_file", "name": "deploy", "file_path": "references/a.md", "file_content": f"token: {key}"},
    ]
    for attempt in attempts:
        result = skills.call("skill_manage", **attempt)
        assert result["success"] is False
        assert "holds a secret" in result["error"], result
        assert key not in result["error"]
    assert not any(key in path.read_text() for path in Path(skills.root).rglob("*.md"))
