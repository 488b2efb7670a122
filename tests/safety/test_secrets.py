"""Secrets are found in whatever form people paste them, and look-alikes are left alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from benchmarks.secrets import HOSTILE, run
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_samples import filled, samples

from hermes.safety.secrets import find_secrets, mask_all, mask_secrets
from hermes.settings.home import find_home
from hermes.settings.people import People

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = samples("secret")
HARMLESS = samples("harmless")


@pytest.mark.proves("secrets.found")
@pytest.mark.parametrize("template", SECRETS)
def test_a_secret_is_found_and_not_shown(template: str) -> None:
    for seed in range(5):
        text = filled(template, random.Random(seed))
        found = find_secrets(text)
        assert found, text
        longest = max(found, key=lambda secret: secret.end - secret.start)
        assert text[longest.start : longest.end] not in mask_secrets(text)


@pytest.mark.proves("secrets.found")
@pytest.mark.parametrize("around", ["Remember this: {} thanks", "deploy notes\n{}\nend", "> {}", "({})"])
def test_a_secret_is_found_inside_other_text(around: str) -> None:
    texts = [around.replace("{}", filled(template, random.Random(3))) for template in SECRETS]
    missed = [text for text in texts if not find_secrets(text)]
    assert len(missed) <= len(texts) // 50, missed


@pytest.mark.proves("secrets.harmless")
@pytest.mark.parametrize("template", HARMLESS)
def test_a_harmless_line_is_left_alone(template: str) -> None:
    for seed in range(5):
        text = filled(template, random.Random(seed))
        assert find_secrets(text) == ()
        assert mask_secrets(text) is text


@pytest.mark.internal("the sample file keeps its size")
def test_there_are_enough_samples() -> None:
    assert len(set(SECRETS)) >= 150
    assert len(set(HARMLESS)) >= 200


@pytest.mark.proves("secrets.mask")
def test_a_marker_names_the_kind_and_at_most_four_characters() -> None:
    token = filled("ghp_{word:36}", random.Random(1))
    assert mask_secrets(f"use {token} here") == f"use [github token \u2026{token[-4:]}] here"
    assert mask_secrets("password: hunter2") == "password: [password \u2026]"
    assert mask_secrets("postgres://app:s3cr3tpw@db/app") == "postgres://app:[password in an address \u2026]@db/app"
    (secret,) = find_secrets(token)
    assert (secret.kind, secret.start, secret.end) == ("github token", 0, len(token))


@pytest.mark.proves("secrets.mask")
def test_no_part_of_a_password_stays_behind() -> None:
    assert mask_secrets("password: ab9:d=e") == "password: [password \u2026]"
    assert (
        mask_secrets("Server=db;Password=P@ss:w0rd!;Encrypt=yes") == "Server=db;Password=[password \u2026];Encrypt=yes"
    )


@pytest.mark.proves("secrets.mask")
def test_a_secret_found_twice_is_one_secret_with_its_precise_name() -> None:
    text = filled('GITHUB_TOKEN="ghp_{word:36}"', random.Random(2))
    assert [secret.kind for secret in find_secrets(text)] == ["github token"]
    text = filled("secret: 'Q7xK2pR9.ghp_{word:36}'", random.Random(2))
    (secret,) = find_secrets(text)
    assert (secret.kind, text[secret.start : secret.end]) == ("github token", text[9:-1])


@pytest.mark.proves("secrets.mask")
def test_what_stands_in_two_texts_is_no_secret_of_one() -> None:
    texts = ["the password is", "hunter2xx", "PIN", "4711", "4111 1111", "1111 1111", "order", "4111111111111111"]
    assert mask_all(texts) == [*texts[:-1], "[card number \u20261111]"]


@pytest.mark.proves("secrets.found")
def test_a_key_that_hermes_made_is_a_secret(home: Path) -> None:
    _, key = People(find_home(home)).make_key("owner")
    assert [secret.kind for secret in find_secrets(f"use {key} there")] == ["hermes key"]


@pytest.mark.proves("secrets.idempotent")
def test_a_marker_does_not_accuse_its_neighbour() -> None:
    commit = filled("{hex:40}", random.Random(4))
    masked = mask_secrets(filled("ghp_{word:36} ", random.Random(4)) + commit)
    assert "[github token \u2026" in masked
    assert masked.endswith(commit)


@pytest.mark.proves("secrets.idempotent")
@given(st.lists(st.sampled_from([*SECRETS, *HARMLESS]) | st.text(max_size=20), max_size=6), st.integers(0, 99))
@settings(max_examples=200, deadline=None)
def test_masking_twice_changes_nothing(templates: list[str], seed: int) -> None:
    random_ = random.Random(seed)
    text = random_.choice([" ", "\n", "; "]).join(filled(template, random_) for template in templates)
    masked = mask_secrets(text)
    assert mask_secrets(masked) == masked


@pytest.mark.proves("secrets.mask")
@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_spans_are_ordered_and_inside_the_text(text: str) -> None:
    found = find_secrets(text)
    edges = [edge for secret in found for edge in (secret.start, secret.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= len(text) for edge in edges)


@pytest.mark.proves("secrets.linear")
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "password ",
            "key=",
            "token(",
            'password="',
            "sk-",
            "eyJ",
            "http://a:",
            "cookie: a=",
            "seed abandon ability ",
        ),
        *(
            "-----BEGIN RSA PRIVATE KEY-----",
            "4111 1111 1111 111 ",
            "DE89 ",
            "a1B2c3",
            "authorization: ",
            "curl -u ",
            "PIN ",
        ),
        "token 9f3aB7c2D4e5F6a7b8C9d0E1 ",
        *("pass ", "sess:", "://a", "login a ", "mysql -", "seed abc ", "a.b-", "pin 1", "hk-a", "\\n", "\\\\"),
    ],
)
def test_a_long_hostile_text_is_searched_to_its_end(unit: str) -> None:
    text = "key 1 " + unit * (100_000 // len(unit))
    # A pass over every pair of places would run into the suite's time limit; `hermes bench secrets` shows the growth.
    assert all(text[each.start : each.end] for each in find_secrets(text))


@pytest.mark.internal("the benchmark reports what its page quotes")
def test_the_benchmark_measures_every_hostile_text() -> None:
    hostile = run(repeats=1)["hostile ms"]
    assert isinstance(hostile, dict)
    assert set(hostile) == set(HOSTILE)


WORDS_AFTER_PASSWORD = [
    "パスワードは共有の金庫に保管されています。",
    "パスワードは90日ごとに変更してください。",
    "パスワードは12文字以上にすること。",
    "密码是保存在共享保险库里的,请勿外传。",
    "密码为12位以上字符。",
    "비밀번호는 공용 금고에 보관되어 있다.",
    "비밀번호는 90일마다 변경한다.",
    "Пароль: см. общий сейф.",
    "La contraseña: véase la bóveda compartida.",
    "Le mot de passe est changé tous les trimestres.",
    "Das Passwort: siehe Tresor (Regal 3).",
    "A senha: ver o cofre.",
    "Şifre: kasada duruyor.",
    "كلمة المرور: محفوظة في الخزنة المشتركة.",
    "पासवर्ड: साझा तिजोरी में रखे हैं।",
    "The password is case-sensitive and rotated quarterly.",
]


@pytest.mark.proves("secrets.harmless")
@pytest.mark.parametrize("text", WORDS_AFTER_PASSWORD)
def test_words_after_the_word_for_password_are_no_password(text: str) -> None:
    assert not find_secrets(text)


@pytest.mark.proves("secrets.found")
@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("密码是hunter2xx。", "hunter2xx"),
        ("パスワードはhunter2xxです", "hunter2xx"),
        ("비밀번호는 hunter2xx입니다.", "hunter2xx"),
        ("كلمة المرور هي hunter2xx", "hunter2xx"),
        ("पासवर्ड: hunter2xx है", "hunter2xx"),
        ("Пароль: Жёлтый2024", "Жёлтый2024"),
    ],
)
def test_a_password_between_words_of_other_scripts_is_found_without_them(text: str, password: str) -> None:
    assert [text[found.start : found.end] for found in find_secrets(text)] == [password]


@pytest.mark.proves("secrets.harmless")
@pytest.mark.parametrize("text", ["password = 30d", "token: 12345678901234567890-1234a", "order no. 4111111111111111"])
def test_numbers_beside_such_words_are_no_secrets(text: str) -> None:
    assert not find_secrets(text)


@pytest.mark.proves("secrets.found")
def test_a_letter_that_grows_in_lower_case_moves_nothing() -> None:
    text = "\u0130stanbul password: hunter2xx"
    assert [text[found.start : found.end] for found in find_secrets(text)] == ["hunter2xx"]
