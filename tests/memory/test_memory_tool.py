"""The memory tool as a model uses it: `hermes tool memory '{…}'`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hermes.safety.trust import TurnContext
from hermes.session.parts import open_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

    Remember = Callable[..., dict[str, Any]]


@pytest.mark.proves("curated.add", "curated.live", "curated.files")
def test_add_appends_an_entry_and_shows_the_live_state(home: Path, remember: Remember) -> None:
    remember(action="add", content="Project uses pytest.")
    result = remember(action="add", content="  Deploys go through main.\n")
    note = result.pop("note")
    assert result == {
        "success": True,
        "done": True,
        "target": "memory",
        "message": "Entry added.",
        "usage": "2% — 47/2,200 chars",
        "entry_count": 2,
        "entries": ["Project uses pytest.", "Deploys go through main."],
    }
    assert "next session" in note
    assert (home / "memories" / "MEMORY.md").read_text() == "Project uses pytest.\n§\nDeploys go through main."


@pytest.mark.proves("curated.files")
def test_the_two_targets_are_two_files(home: Path, remember: Remember) -> None:
    remember(target="user", action="add", content="Prefers short answers.")
    assert (home / "memories" / "USER.md").read_text() == "Prefers short answers."
    assert not (home / "memories" / "MEMORY.md").exists()


@pytest.mark.proves("curated.fields")
def test_a_null_target_means_memory(home: Path, remember: Remember) -> None:
    assert remember(target=None, action="add", content="x")["target"] == "memory"


@pytest.mark.proves("curated.replace", "curated.remove")
@pytest.mark.usefixtures("both_engines")
def test_replace_and_remove_find_their_entry_by_a_piece_of_it(remember: Remember) -> None:
    remember(action="add", content="Uses zsh on the laptop.")
    remember(action="add", content="Works in UTC+8.")
    replaced = remember(action="replace", old_text="zsh", content="Uses fish on the laptop.")
    assert (replaced["message"], replaced["entries"]) == (
        "Entry replaced.",
        ["Uses fish on the laptop.", "Works in UTC+8."],
    )
    removed = remember(action="remove", old_text="fish")
    assert (removed["message"], removed["entries"]) == ("Entry removed.", ["Works in UTC+8."])


@pytest.mark.proves("curated.duplicate")
@pytest.mark.usefixtures("both_engines")
def test_an_exact_duplicate_is_a_success_without_a_second_entry(remember: Remember) -> None:
    remember(action="add", content="Works in UTC+8.")
    again = remember(action="add", content=" Works in UTC+8. ")
    assert again["success"]
    assert (again["message"], again["entry_count"]) == ("Entry already exists (no duplicate added).", 1)


@pytest.mark.proves("curated.no-match")
def test_a_text_that_no_entry_contains_is_refused_with_the_entries_to_choose_from(remember: Remember) -> None:
    remember(action="add", content="Works in UTC+8.")
    refused = remember(action="remove", old_text="UTC-5")
    assert not refused["success"]
    assert "no entry contains 'UTC-5'" in refused["error"]
    assert (refused["current_entries"], refused["usage"]) == (["Works in UTC+8."], "0% — 15/2,200 chars")


@pytest.mark.proves("curated.no-match")
def test_a_missing_old_text_is_refused_by_name_with_the_entries_to_choose_from(remember: Remember) -> None:
    remember(action="add", content="Uses pytest.")
    calls = ({"action": "remove"}, {"action": "replace", "content": "x"}, {"operations": [{"action": "remove"}]})
    for call in calls:
        refused = remember(**call)
        assert "old_text is missing" in refused["error"]
        assert (refused["current_entries"], refused["usage"]) == (["Uses pytest."], "0% — 12/2,200 chars")


@pytest.mark.proves("curated.ambiguous")
def test_several_different_matches_are_refused_with_previews(remember: Remember) -> None:
    long = "Uses Docker Compose " + "and a very long story " * 10
    remember(action="add", content=long)
    remember(action="add", content="Uses Docker Swarm.")
    refused = remember(action="remove", old_text="Docker")
    assert "2 different entries contain 'Docker'" in refused["error"]
    assert [len(match) for match in refused["matches"]] == [80, 18]


@pytest.mark.proves("curated.ambiguous")
def test_identical_matches_count_as_one_and_the_first_is_taken(home: Path, remember: Remember) -> None:
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").write_text("twin\n§\nother\n§\ntwin")
    assert remember(action="remove", old_text="twin")["entries"] == ["other", "twin"]


@pytest.mark.proves("curated.full", "curated.limits")
def test_a_write_over_the_limit_is_refused_with_entries_and_usage(
    remember: Remember, hermes: Callable[..., Ran]
) -> None:
    hermes("config", "set", "memory.when_full", "refuse")
    remember(action="add", content="a" * 2000)
    refused = remember(action="add", content="b" * 200)
    assert not refused["success"]
    assert "memory is full: 2,000 of 2,200 characters are used and this needs 2,203" in refused["error"]
    assert (refused["current_entries"], refused["usage"]) == (["a" * 2000], "2,000/2,200")
    assert remember(target="user", action="add", content="c" * 1376)["usage"] == "0/1,375"
    assert remember(target="user", action="add", content="c" * 1375)["usage"] == "100% — 1,375/1,375 chars"


@pytest.mark.proves("curated.batch")
@pytest.mark.usefixtures("both_engines")
def test_a_batch_makes_room_and_adds_in_one_step(remember: Remember) -> None:
    remember(action="add", content="a" * 2000)
    result = remember(
        operations=[
            {"action": "add", "content": "b" * 1000},
            {"action": "replace", "old_text": "aaa", "content": "A, in short."},
        ]
    )
    assert (result["message"], result["entries"]) == ("Applied 2 operations.", ["A, in short.", "b" * 1000])


@pytest.mark.proves("curated.batch")
def test_a_batch_with_one_wrong_operation_changes_nothing(home: Path, remember: Remember) -> None:
    remember(action="add", content="kept")
    refused = remember(
        operations=[{"action": "remove", "old_text": "kept"}, {"action": "remove", "old_text": "nowhere"}]
    )
    assert refused["error"].startswith("Operation 2 (remove): no entry contains 'nowhere'")
    assert "all or nothing" in refused["error"]
    assert (home / "memories" / "MEMORY.md").read_text() == "kept"


@pytest.mark.proves("curated.delimiter")
@pytest.mark.parametrize("content", ["a\n§\nb", "§", "§\nb", "a\n§", "a\r\n§\r\nb"])
def test_an_entry_with_a_delimiter_line_is_refused(remember: Remember, content: str) -> None:
    assert "a line with only §" in remember(action="add", content=content)["error"]


@pytest.mark.proves("curated.delimiter")
def test_a_section_sign_inside_a_line_is_ordinary_text(remember: Remember) -> None:
    assert remember(action="add", content="See § 823 BGB.")["entries"] == ["See § 823 BGB."]


@pytest.mark.proves("curated.not-text")
def test_half_characters_and_nul_are_refused_with_their_position(remember: Remember) -> None:
    assert "lone surrogate) at position 2" in remember(action="add", content="ab\ud800")["error"]
    assert "NUL character at position 1" in remember(action="add", content="a\0b")["error"]
    assert "content is empty" in remember(action="add", content=" \n\ufeff ")["error"]
    assert "use the action remove" in remember(action="replace", old_text="a", content=" ")["error"]


@pytest.mark.proves("curated.fields")
def test_wrong_arguments_are_answered_with_every_wrong_field(hermes: Callable[..., Ran]) -> None:
    given = {"action": "read", "target": [], "content": {}, "operations": ["x", {"old_text": []}], "extra": 1}
    ran = hermes("tool", "memory", json.dumps(given))
    assert ran.code == 1
    for field in (
        "action",
        "target",
        "content",
        "operations[0]",
        "operations[1].action",
        "operations[1].old_text",
    ):
        assert field in ran.json["error"]
    assert ran.json["ignored_arguments"] == ["extra"]


@pytest.mark.proves("curated.fields")
@pytest.mark.parametrize("arguments", ["[]", "3", "null", '"x"', "{", "", "[" * 100_000, '{"target": NaN}'])
def test_anything_but_an_object_of_arguments_is_an_error_result(hermes: Callable[..., Ran], arguments: str) -> None:
    ran = hermes("tool", "memory", arguments)
    assert (ran.code, ran.json["success"]) == (1, False)


@pytest.mark.proves("curated.fields")
def test_a_call_without_action_or_operations_says_what_is_missing(remember: Remember) -> None:
    assert "action is missing" in remember(content="x")["error"]
    assert "action is missing" in remember(operations=[], content="x")["error"]


@pytest.mark.proves("curated.stop")
def test_a_model_that_keeps_being_refused_is_told_to_stop_until_the_next_turn(home: Path) -> None:
    toolbox = open_parts(home).toolbox
    wrong = {"action": "remove", "target": "memory", "old_text": "nowhere"}
    refusals = [json.loads(toolbox.call("memory", wrong)) for _ in range(4)]
    assert ["done" in each for each in refusals] == [False, False, False, True]
    assert "leave memory as it is" in refusals[3]["error"]
    later = TurnContext(said=lambda: ["Go on, please."])
    assert "done" not in json.loads(toolbox.call("memory", wrong, later))


@pytest.mark.proves("curated.disabled")
def test_a_switched_off_target_is_refused_and_both_off_make_the_tool_unavailable(
    hermes: Callable[..., Ran], remember: Remember
) -> None:
    hermes("config", "set", "memory.user_profile_enabled", "off")
    assert "memory.user_profile_enabled is false" in remember(target="user", action="add", content="x")["error"]
    assert remember(action="add", content="x")["success"]
    hermes("config", "set", "memory.memory_enabled", "off")
    assert "memory is switched off" in remember(action="add", content="x")["error"]


@pytest.mark.proves("curated.schema")
def test_the_schema_offers_add_replace_and_remove_and_needs_only_a_target(hermes: Callable[..., Ran]) -> None:
    listed = {each["function"]["name"]: each["function"] for each in hermes("tool", "--list").json}
    parameters = listed["memory"]["parameters"]
    assert parameters["required"] == ["target"]
    assert parameters["properties"]["action"]["enum"] == ["add", "replace", "remove"]
    assert parameters["properties"]["target"]["enum"] == ["memory", "user"]
    assert parameters["properties"]["operations"]["items"]["required"] == ["action"]
    assert set(parameters["properties"]) == {"action", "target", "content", "old_text", "operations"}


@pytest.mark.proves("curated.fields")
def test_an_unknown_tool_is_an_error_result_and_no_tool_is_a_usage_error(hermes: Callable[..., Ran]) -> None:
    assert "there is no tool 'memry'" in hermes("tool", "memry", "{}").json["error"]
    assert hermes("tool").code == 2
