"""What stands behind "password:" and is none: where it lies, and what is said about it in numbers."""

from __future__ import annotations

import pytest

from hermes.safety.secrets import find_secrets, mask_secrets


@pytest.mark.proves("secrets.harmless")
@pytest.mark.parametrize(
    "note",
    [
        "password: ~/vault/mail2.txt",
        "password=./secrets/db1.conf",
        'password="vault\\mail2"',
        "password: 12.5h",
        "password: 2024-01-05",
        'password: "10:30"',
    ],
)
def test_a_path_a_date_or_a_measure_is_no_password(note: str) -> None:
    assert find_secrets(note) == ()
    assert mask_secrets(note) == note


@pytest.mark.proves("secrets.found")
def test_an_id_with_dashes_is_a_password_where_it_is_said_to_be_one() -> None:
    assert mask_secrets("password: 12345678-1234-1234-1234-123456789012") == "password: [password …]"
