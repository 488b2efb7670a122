"""Which turn answers a question: the assistant's, the person's, or a rule that was given once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hermes.conversations.database import SessionDB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_RECIPE = (
    "For the omelette: whisk two or three eggs with a pinch of salt, melt one spoon of butter, pour them in and stir "
    "until they set. Fold it over, let it rest for a moment and serve it with chives and a green salad on the side."
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB.open(tmp_path / "state.db", durability="turn") as opened:
        yield opened


def talk(db: SessionDB, *texts: str) -> list[int]:
    """The person and the assistant in turn; the ids of their messages."""
    roles = ("user", "assistant")
    return db.append_many(
        db.create_session(), [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
    )


@pytest.mark.proves("search.who_said_it")
def test_what_the_assistant_said_is_found_in_its_own_turn(db: SessionDB) -> None:
    asked, answered = talk(db, "How do I make a French omelette with eggs?", _RECIPE)
    talk(db, "My eggs are always overcooked, French or not.", "Lower the heat. " * 20)
    assert db.search("How many eggs did you say I need for the French omelette?")[0].message_id == answered
    assert db.search("What did I ask about the French omelette?")[0].message_id == asked


@pytest.mark.proves("search.who_said_it")
def test_a_turn_about_the_speaker_and_one_with_a_name_come_first(db: SessionDB) -> None:
    (own,) = talk(db, "I hike in the mountains of Norway in June.")
    talk(db, "People hike in the mountains of Norway in June.")
    assert db.search("Who likes to hike in the mountains?")[0].message_id == own
    (named,) = talk(db, "The pottery course is now in Lisbon, by the river.")
    talk(db, "The pottery course is now in town, by the river.")
    assert db.search("Where is the pottery course?")[0].message_id == named


_LONG = "Here is a plan: charge the camera, pack a bag, check the weather, leave early and take enough to drink. " * 6


@pytest.mark.proves("search.who_said_it")
def test_in_long_messages_words_that_belong_together_count_more_together(db: SessionDB) -> None:
    (together,) = talk(db, f"{_LONG} Then there was the photography workshop. {_LONG}")
    (apart,) = talk(db, f"{_LONG} She loves photography. Her father has a workshop. The workshop is new. {_LONG}")
    for number in range(12):
        talk(db, f"{_LONG} That is plan {number}.", f"Very well. {_LONG}")
    found = [hit.message_id for hit in db.search("When was the photography workshop?")]
    assert found.index(together) < found.index(apart)


@pytest.mark.proves("search.who_said_it")
def test_a_question_about_what_the_person_did_prefers_a_turn_that_tells_it(db: SessionDB) -> None:
    told, _ = talk(db, "I went to a pottery course and the teacher gave us some clay.", "Good!")
    wished, _ = talk(db, "Is there a pottery course with a teacher who could lend some clay?", "Yes!")
    found = [hit.message_id for hit in db.search("When did I attend my pottery course?")]
    assert found.index(told) < found.index(wished)


@pytest.mark.proves("search.who_said_it")
def test_a_question_about_both_sides_prefers_neither(db: SessionDB) -> None:
    asked, answered = talk(
        db, "I plan to repaint the boat in spring.", "Sand the boat before you repaint it in spring."
    )
    both = db.search("How did I plan to repaint the boat, and what did you suggest?", explain=True)
    assert {hit.message_id for hit in both[:2]} == {asked, answered}
    assert [hit.explanation["role"] for hit in both[:2]] == [0.0, 0.0]


@pytest.mark.proves("search.who_said_it")
def test_no_more_than_three_rules_come_with_an_answer(db: SessionDB) -> None:
    rules = [talk(db, f"Always mention point {n} when I ask about my resume.", "I will.")[0] for n in range(8)]
    talk(db, "Which font has my resume?", "Your resume has a serif font.")
    hits = db.search("Which font did I choose for my resume?", limit=30, explain=True)
    counted = sorted([hit.explanation["rule"] for hit in hits if hit.message_id in rules], reverse=True)
    assert counted[0] == counted[2] > counted[3] == counted[7] > 0


@pytest.mark.parametrize(
    ("question", "mode"),
    [
        ("What plan did you suggest for my savings, and with what timeline for the house?", "relevance"),
        ("What was the timeline of my savings?", "coverage"),
    ],
)
@pytest.mark.proves("search.coverage")
def test_a_word_in_passing_asks_for_no_coverage(db: SessionDB, question: str, mode: str) -> None:
    talk(db, "My savings are for the house.", "A good plan.")
    assert db.search(question).mode == mode


@pytest.mark.proves("search.who_said_it")
def test_a_rule_the_person_gave_is_among_the_first_when_help_on_its_topic_is_wanted(db: SessionDB) -> None:
    for number in range(12):
        talk(db, f"How do I test part {number} of the weather API client?", f"Part {number}: mock the API. " * 10)
    rule, _ = talk(db, "Always include status codes when I ask about API errors.", "I will.")
    found = [hit.message_id for hit in db.search("Which API errors should I be prepared to handle in my client?")]
    assert rule in found[:3]


@pytest.mark.proves("search.neighbours")
def test_a_short_answer_is_found_by_the_words_of_the_question_it_follows(db: SessionDB) -> None:
    asked, answered = talk(db, "Which breed of puppy did you choose for the farm?", "A lovely collie!")
    talk(db, "The farm has a new breed of sheep.", "Sheep on a farm, and a puppy to watch.")
    talk(db, "?", "", "??", "…")  # nothing in these can be counted
    found = [hit.message_id for hit in db.search("Which breed of puppy was chosen for the farm?")]
    assert found[:2] == [answered, asked]


@pytest.mark.proves("search.scripts")
@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("什么动物会冬眠?", "狗熊和刺猬要冬眠。", "为什么动物园关门?什么时候开?"),
        ("キャプテンの名前は何ですか?", "キャプテンは山田だ。", "名前は何ですか?何でも聞いて。"),
    ],
)
def test_question_words_of_chinese_and_japanese_are_no_topic(
    db: SessionDB, question: str, answer: str, other: str
) -> None:
    wanted, _ = talk(db, answer, "OK")
    talk(db, other, other)
    assert db.search(question)[0].message_id == wanted


@pytest.mark.proves("search.any_query")
def test_a_question_word_alone_is_looked_for(db: SessionDB) -> None:
    asked, _ = talk(db, "为什么?", "因为。")
    assert [hit.message_id for hit in db.search("什么")] == [asked]


@pytest.mark.proves("search.coverage")
def test_a_question_about_an_order_covers_the_whole_time_of_a_topic(db: SessionDB) -> None:
    months = []
    for month in range(12):
        what = "tomatoes" if month in (0, 1, 10, 11) else "tomatoes, tomatoes and tomatoes"
        months.append(talk(db, *(f"I water the {what} on day {month}-{day}." for day in range(6))))
    results = db.search("In what order did I bring up my tomatoes?", limit=16)
    found = {hit.message_id for hit in results}
    assert results.mode == "coverage"
    assert {hit.role for hit in results} == {"user"}
    assert found & {*months[0], *months[1]}
    assert found & {*months[10], *months[11]}
    assert db.search("When did I plant tomatoes?").mode == "relevance"


@pytest.mark.proves("search.coverage")
def test_the_mode_can_be_asked_for(db: SessionDB) -> None:
    for month in range(10):
        talk(db, f"Chess lesson {month}: openings.", f"Opening {month} of chess.")
    assert db.search("chess openings", mode="coverage").mode == "coverage"
    assert db.search("Summarise the chess openings.", mode="relevance").mode == "relevance"
