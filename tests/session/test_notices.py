from __future__ import annotations

import pytest

from hermes import MemorySession


@pytest.mark.proves("session.notices")
def test_a_notice_is_given_to_the_person_once_and_never_to_the_model() -> None:
    with MemorySession.open() as session:
        session.notices.add("provider", "The provider did not answer.")

        sent = session.prepare_turn("hello")

        assert [notice.text for notice in session.notices.take()] == ["The provider did not answer."]
        assert session.notices.take() == []
        assert "did not answer" not in f"{sent.system}{sent.messages}"
