"""A quick look at many texts names every one that holds a secret, so that the others need no search."""

from __future__ import annotations

import random
import time

import pytest
from benchmarks.secrets import HOSTILE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secret_samples import filled, samples

from hermes.safety.lexicon import UNUSUAL, Beginnings, FewBeginnings
from hermes.safety.secret_formats import FOREIGN_WORDS, PHRASES, TOKENS
from hermes.safety.secrets import find_secrets, mask_all, mask_secrets, search, suspects

TEMPLATES = [*samples("secret"), *samples("harmless")]
AROUND = ["{}", "Remember: {} thanks", "notes\n{}\nend", "({})", "x{}", "key {}", "é {} …", "{}\0", "[token …a1b2]{}"]
PROSE = [
    "Nothing of this is secret, and nobody has to see it (at least not today); the wallet stays closed.",
    "Set requirepass sunflowers before the start.",
    "machine example login alice password sunflowers",
    "The airtable base has the key keyabcdefghijklmn in it.",
    "It asks for authorization, credentials and a reason.",
    "My seed phrase, gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
    "My recovery phrase, gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
    "mnemonic gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
    "the wallet, gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
    "backup phrase, gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
    "secret words, gauge ocean velvet piano rocket island marble copper tunnel garden silver window",
]
COMMANDS = [
    "curl -u alice:sunflower host",
    "wget --user=alice:sunflower host",
    "sshpass -p sunflower ssh host",
    "mysql -u root -psunflower orders",
    "docker login -p sunflower host",
    "alter user alice identified by 'sunflower'",
]
ODD = [
    "\u0130stanbul password: hunter2xx",
    "\u017fession sess=1; __Secure-a=ab12cd34ef56ab78",
    "my \u212aey (with a Kelvin sign), token=Ab3dEf6hIj9kLm2nOp5q",
    "PIN: १२३४",
    "密码是hunter2xx。",
    "パスワードはありません",
    "这是一个没有空格的很长的句子然后是ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "這是一個沒有空格的很長的句子而且非常非常長, Token: Ab3dEf6hIj9kLm2nOp5q",
    "Это ПАРОЛЬ: Hunter2xx, и PASSWORD: hunter2xx",
    "\ud800 password: hunter2xx",
    "²³¹ and GB53WESTABCD1234569X",
    "visa 4111-1111 1111-1111",
    "password [token …a1b2]Xy9 rest",
    "a\0\0\0\0\0\0b",
    "",
]
FOREIGN = [
    f"x_1 {form} = a1b2C3d4E5f6a7B8c9d0" for word in FOREIGN_WORDS for form in (word, word.upper(), word.capitalize())
]
ACCOUNTS = [
    "paid with 4111-1111 1111-1111 on day 12",
    "to GB82WEST12345698765432 in 中文",
    "AB12 is no account, nor is 2024",
]
# As much as the quick look asks of a word with its neighbours, right behind another one, and in any case.
SHORT = [
    f"n_1 {word}"
    for word in (
        *(
            "backup codes 4711",
            "door code 4711",
            "door CODEIS 4711",
            "alarm codewas 4711",
            "cvv 123",
            "cvcis 123",
            "CVV2: 123",
        ),
        *("otp 471147", "otpis 4711", "otpwas 4711", "pin: 4711", "PINcode 4711", "pinnumber 4711", "pass: hunter2xx"),
        *(
            "passwort=hunter2xx",
            "passphrase: hunter2xx",
            "passcode 4711",
            "basic auth bob:hunter2",
        ),
        *("sess=a1b2c3d4e5f6a7b8c9d0", "session_id: a1b2c3d4e5f6a7b8c9d0", "auth: a1b2C3d4E5f6a7B8c9d0e1F2a3"),
        *("backup words gauge ocean velvet piano rocket island marble copper tunnel garden silver window",),
    )
]


def held(texts: list[str]) -> set[int]:
    """The texts in which the plain search, one by one, finds something."""
    return {at for at, text in enumerate(texts) if search(text)}


@pytest.mark.proves("secrets.quick-look")
@given(
    st.lists(st.sampled_from(TEMPLATES) | st.sampled_from([*PROSE, *COMMANDS, *ODD]), max_size=40),
    st.sampled_from(AROUND),
    st.integers(0, 999),
)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_with_a_secret_is_passed_over(templates: list[str], around: str, seed: int) -> None:
    random_ = random.Random(seed)
    texts = [random_.choice(["{}", around]).replace("{}", filled(template, random_)) for template in templates]
    assert held(texts) <= set(suspects(texts))
    assert mask_all(texts) == [mask_secrets(text) for text in texts]


@pytest.mark.proves("secrets.quick-look")
@pytest.mark.parametrize(("kind", "pattern"), [(kind, pattern) for kind, _, pattern in (*TOKENS, *PHRASES)])
def test_whatever_has_the_form_of_a_secret_is_seen(kind: str, pattern: str) -> None:
    before, after = (
        st.sampled_from(["", " ", "-", "_", "\n", "x"]),
        st.sampled_from(["", " ", "9", " name_of_16_letters"]),
    )

    @given(st.lists(st.tuples(before, st.from_regex(pattern), after).map("".join), min_size=1, max_size=3))
    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    def of_this_kind(texts: list[str]) -> None:
        assert held(texts) <= set(suspects(texts)), kind

    of_this_kind()


@pytest.mark.proves("secrets.quick-look")
@pytest.mark.parametrize("texts", [PROSE, COMMANDS, ODD, FOREIGN, ACCOUNTS, SHORT, [], [""], ["a\0b", *PROSE]])
def test_sentences_commands_and_odd_characters_are_no_way_around_it(texts: list[str]) -> None:
    assert held(texts) <= set(suspects(texts))


@pytest.mark.proves("secrets.quick-look")
def test_most_texts_are_passed_over() -> None:
    plain = ["We looked at the session and its records, and wrote the parser again."] * 50
    code = ['{"path": "src/session_12.py", "token_count": 512}', "for key in sorted(keys): print(key, lock[key])"] * 50
    assert not set(suspects([*plain, *code]))
    assert set(suspects([*plain, "password: hunter2", *code])) == {50}


@pytest.mark.proves("secrets.quick-look")
def test_what_stands_in_two_texts_is_no_secret_of_one() -> None:
    texts = ["the password is", "hunter2xx", "PIN", "4711", "4111 1111", "1111 1111", "order", "4111111111111111"]
    assert mask_all(texts) == [*texts[:-1], "[card number …1111]"]


@pytest.mark.proves("secrets.quick-look")
@given(st.lists(st.sampled_from([*TEMPLATES, *PROSE, *ODD]), min_size=1, max_size=4), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_a_long_text_gives_the_same_with_and_without_the_look(templates: list[str], seed: int) -> None:
    random_ = random.Random(seed)
    text = "\n".join(
        filled(random_.choice([*templates, "the handler reads the table again"]), random_) for _ in range(99)
    )
    assert find_secrets(text * 3) == search(text * 3)


@pytest.mark.proves("secrets.linear")
@pytest.mark.parametrize(
    "unit", [*HOSTILE, "pass ", "sess:", "://a", "login a ", "mysql -", "seed abc ", "a.b-", "pin 1"]
)
def test_the_look_takes_time_that_grows_with_the_text(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.process_time()
        set(suspects([text]))
        return time.process_time() - began

    seconds(2_000)
    # Eight times the text; a quadratic pass would take 64 times as long.
    assert min(seconds(32_000) for _ in range(2)) < 24 * max(min(seconds(4_000) for _ in range(3)), 1e-4)


@pytest.mark.internal("the finder of beginnings misses none")
@given(st.lists(st.sampled_from([*"abcky. -", "key", "ckab", "ckabc"]), max_size=80).map("".join))
@settings(max_examples=200, deadline=None)
def test_every_place_where_a_word_begins_is_found(text: str) -> None:
    found = set(Beginnings("abc|key.|- a", "bck|kyc", "ckabc").places(text.encode()))
    places = range(len(text))
    assert {at for at in places if text.startswith(("abc", "- a", "bck", "kyc", "ckabc"), at)} <= found
    assert {at for at in places if text.startswith("key", at) and not text[at + 3 : at + 4].isalpha()} <= found
    assert all(text[at] in "abk-" or text.startswith("ckabc", at) for at in found)


@pytest.mark.internal("the finder of beginnings misses none")
@given(
    st.lists(st.sampled_from(["abck", "- ab", "KYca", "caB ", *"abcky -\n"]), max_size=40).map("".join),
    st.sampled_from(["", "b" * 120_000]),
)
@settings(max_examples=100, deadline=None)
def test_nor_of_two_groups_of_words(text: str, before: str) -> None:
    words = FewBeginnings("abck|- ab", "kyca|cab ", usual=b"abcABCykYK -")
    marks = words.marks((before + text).encode())
    found = set(words.places(marks))
    places = range(len(before), len(before + text))
    assert {at for at in places if (before + text).lower().startswith(("abck", "- ab", "kyca", "cab "), at)} <= found
    assert all((before + text)[at] in "a-kcAKC\n" for at in found)
    assert found.isdisjoint(range(len(before)))
    assert [at for at in places if marks[at : at + 1] == UNUSUAL] == [
        at for at in places if (before + text)[at] == "\n"
    ]
