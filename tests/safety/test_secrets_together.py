"""Masking many texts together gives what masking each of them gives; the quick look before it passes over no secret."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secret_samples import filled, samples

from hermes.safety.secrets import mask_all, mask_secrets

TEMPLATES = [*samples("secret"), *samples("harmless")]
AROUND = ["{}", "Remember: {} thanks", "notes\n{}\nend", "({})", "x{}", "key {}", "é {} …", "{}\0", "[token …a1b2]{}"]
WORDS = "gauge ocean velvet piano rocket island marble copper tunnel garden silver window"
SENTENCES = [
    "Nothing of this is secret, and nobody has to see it (at least not today); the wallet stays closed.",
    "Set requirepass sunflowers before the start.",
    "machine example login alice password sunflowers",
    "The airtable base has the key keyabcdefghijklmn in it.",
    "It asks for authorization, credentials and a reason.",
    *(f"My {words}, {WORDS}" for words in ("seed phrase", "recovery phrase", "wallet", "backup words", "secret words")),
]
COMMANDS = [
    "curl -u alice:sunflower host",
    "wget --user=alice:sunflower host",
    "sshpass -p sunflower ssh host",
    "mysql -u root -psunflower orders",
    "docker login -p sunflower host",
    "alter user alice identified by 'sunflower'",
]
NOT_ASCII = [
    "\u0130stanbul password: hunter2xx",
    "my \u212aey (with a Kelvin sign), token=Ab3dEf6hIj9kLm2nOp5q",
    "PIN: १२३४",
    "密码是hunter2xx。",
    "这是一个没有空格的很长的句子然后是ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6",
    "Это ПАРОЛЬ: Hunter2xx, и PASSWORD: hunter2xx",
    "Der Schlüssel ist a1b2C3d4E5f6a7B8c9d0, şifre: hunter2xx",
    "\ud800 password: hunter2xx",
    "to GB82WEST12345698765432 in 中文, visa 4111-1111 1111-1111",
]
SHORT = [
    "door code 4711",
    "CVV2: 123",
    "CVV2  :  123",
    "otp  is  471147",
    "alarm combination: 4711",
    "otp 471147",
    "PIN code 4711",
    "pass: hunter2xx",
    "basic auth bob:hunter2",
    "session_id: a1b2c3d4e5f6a7b8c9d0",
    "psk = a1b2C3d4E5f6a7B8c9d0e1F2a3",
    "datadog a1b2C3d4E5f6a7B8c9d0e1F2a3",
]


def masked_one_by_one(texts: list[str]) -> list[str]:
    return [mask_secrets(text) for text in texts]


@pytest.mark.proves("secrets.together")
@pytest.mark.parametrize("around", AROUND)
def test_no_text_with_a_secret_is_passed_over(around: str) -> None:
    templates = [*TEMPLATES, *SENTENCES, *COMMANDS, *NOT_ASCII, *SHORT]
    texts = [around.replace("{}", filled(template, random.Random(1))) for template in templates]
    assert mask_all(texts) == masked_one_by_one(texts)


@pytest.mark.proves("secrets.together")
@given(st.lists(st.sampled_from([*TEMPLATES, *SENTENCES, *NOT_ASCII]), max_size=20), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_texts_do_not_change_what_is_found_in_others(templates: list[str], seed: int) -> None:
    texts = [filled(template, random.Random(seed)) for template in templates]
    assert mask_all(texts) == masked_one_by_one(texts)
