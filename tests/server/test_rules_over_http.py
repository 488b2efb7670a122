"""Rules and reminders over HTTP: a turn that carries them, and the lists behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_service import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran


def ask(said: str) -> dict[str, object]:
    return {"model": "hermes", "messages": [{"role": "user", "content": said}]}


@pytest.mark.proves("rules.commands", "reminders.commands")
def test_rules_and_reminders_are_listed_and_changed_over_http(home: Path, hermes: Callable[..., Ran]) -> None:
    with running(home) as up:
        full = hermes("users", "key", "ann", "--approve", "--json").json["key"]
        plain = hermes("users", "key", "ann", "--json").json["key"]
        with (
            up.client(headers={"authorization": f"Bearer {full}"}) as ann,
            up.client(headers={"authorization": f"Bearer {plain}"}) as phone,
            up.client("bob") as bob,
        ):
            ann.post("/v1/chat/completions", json=ask("Never push to main. Remind me tomorrow at 9 to call Ada."))
            (rule,) = ann.get("/api/v1/rules").json()["rules"]
            (reminder,) = ann.get("/api/v1/reminders").json()["reminders"]
            answered = ann.post("/v1/chat/completions", json=ask("Push it to main."))
            receipt = ann.get(f"/api/v1/receipts/{answered.headers['hermes-receipt']}").json()
            off = ann.post(f"/api/v1/rules/{rule['id']}", json={"on": False}).json()
            later = ann.post(f"/api/v1/reminders/{reminder['id']}", json={"until": "in 3 days"}).json()
            done = ann.post(f"/api/v1/reminders/{reminder['id']}", json={}).json()
            refused = phone.post(f"/api/v1/rules/{rule['id']}", json={"on": True})
            nobody = ann.post("/api/v1/rules/nobody", json={"on": True})
            unclear = ann.post(f"/api/v1/reminders/{reminder['id']}", json={"until": "soon"})
            others = [bob.get(f"/api/v1/{each}").json() for each in ("rules", "reminders")]
    assert (rule["text"], rule["trigger"], rule["on"]) == ("Never push to main.", "act push; topic main", True)
    assert (reminder["text"], reminder["is_due"], reminder["state"]) == ("call Ada", False, "waiting")
    assert [each["name"] for each in receipt["fired"]] == [rule["id"]]
    assert off["on"] is False
    assert (later["due"] > reminder["due"], done["state"]) == (True, "done")
    assert (refused.status_code, nobody.status_code, unclear.status_code // 100) == (403, 404, 4)
    assert others == [{"rules": []}, {"reminders": []}]
