"""Token estimates against counts that a real tokenizer produced (tests/support/count_tokens.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.tokens import BLOB_TOKENS, MESSAGE_OVERHEAD, estimate, estimate_message

DATA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "tokens")
with open(os.path.join(DATA, "counts.json"), encoding="utf-8") as _file:
    COUNTS: dict[str, int] = json.load(_file)
LANGUAGES = ("arabic", "chinese", "english", "greek", "hebrew", "hindi", "japanese", "korean", "russian", "thai")


@pytest.mark.proves("tokens.scripts")
@pytest.mark.parametrize("name", sorted(COUNTS))
def test_a_sample_is_estimated_within_15_percent_of_its_true_count(name: str) -> None:
    assert estimate(_sample(name)) == pytest.approx(COUNTS[name], rel=0.15)


@pytest.mark.proves("tokens.scripts")
def test_each_kind_of_text_has_a_sample_the_weights_were_not_fitted_on() -> None:
    held_back = {name.split("/")[1].split("_")[0] for name in COUNTS if name.startswith("held_back/")}
    assert held_back >= {*LANGUAGES, "code", "json", "log", "markdown", "mixed"}


@pytest.mark.proves("tokens.scripts")
def test_the_samples_held_back_are_estimated_well_on_average() -> None:
    errors = [
        abs(estimate(_sample(name)) - count) / count for name, count in COUNTS.items() if name.startswith("held_back/")
    ]
    assert sum(errors) / len(errors) < 0.08


@pytest.mark.proves("tokens.long")
def test_a_long_text_costs_as_much_as_its_pieces() -> None:
    piece = "".join(_sample(name) for name in sorted(COUNTS) if "code" in name or "english" in name)
    times = 400_000 // len(piece)
    assert estimate(piece * times) == pytest.approx(estimate(piece) * times, rel=0.05)


@pytest.mark.proves("tokens.robust")
@given(st.text())
def test_any_text_costs_something_and_no_more_than_its_bytes(text: str) -> None:
    assert (1 if text else 0) <= estimate(text) <= len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.proves("tokens.robust")
@pytest.mark.parametrize("character", ["a", "-", "7", "ж", "字", "あ", "한", "🙂", "ไ"])
def test_a_monotonous_text_still_grows_with_its_length(character: str) -> None:
    assert estimate(character * 20_000) > 5 * estimate(character * 2_000) > 0


@pytest.mark.proves("tokens.robust")
def test_a_lone_surrogate_is_estimated_like_any_character() -> None:
    assert estimate("broken \ud83d escape") > 1


@pytest.mark.proves("tokens.messages")
def test_a_message_costs_its_text_and_its_framing() -> None:
    text = "What did we decide about the login?"
    assert estimate_message({"role": "user", "content": text}) == MESSAGE_OVERHEAD + estimate(text)
    parts = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
    assert estimate_message({"role": "user", "content": parts}) == MESSAGE_OVERHEAD + estimate(text)
    assert estimate_message({"role": "assistant", "content": None}) == MESSAGE_OVERHEAD


@pytest.mark.proves("tokens.messages")
@pytest.mark.parametrize("kind", ["image_url", "image", "input_audio", "document", "file"])
def test_a_picture_costs_a_fixed_price_however_long_its_encoding(kind: str) -> None:
    part = {"type": kind, "source": {"data": "iVBORw0KGgo" * 50_000}}
    assert estimate_message({"role": "user", "content": [part]}) == MESSAGE_OVERHEAD + BLOB_TOKENS


@pytest.mark.proves("tokens.messages")
def test_tool_calls_and_results_are_counted() -> None:
    arguments = json.dumps({"path": "src/app.py", "content": "print('hello')\n" * 40})
    call = {"id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert estimate_message(message) > MESSAGE_OVERHEAD + estimate(arguments)
    block = {"type": "tool_use", "id": "x", "name": "write_file", "input": {"path": "a.py", "lines": [1, 2, None]}}
    result = {"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "done " * 50}]}
    assert estimate_message({"role": "user", "content": [block, result]}) > estimate("done " * 50)


@pytest.mark.proves("tokens.messages")
@given(
    st.dictionaries(
        st.sampled_from(["role", "content", "tool_calls", "name", "tool_call_id"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=6,
        ),
    )
)
def test_any_message_has_an_estimate(message: dict[str, object]) -> None:
    assert estimate_message(message) >= MESSAGE_OVERHEAD


@pytest.mark.proves("tokens.import")
def test_importing_the_estimate_loads_nothing_else_of_ours() -> None:
    code = (
        "import sys; before = set(sys.modules); import hermes.base.tokens;"
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('hermes')))"
    )
    out = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['hermes', 'hermes.base', 'hermes.base.tokens', 'hermes.base.version']"


def _sample(name: str) -> str:
    with open(os.path.join(DATA, name), encoding="utf-8", newline="") as file:
        return file.read()
