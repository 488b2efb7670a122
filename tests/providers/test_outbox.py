"""What waits for a provider, on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from hermes.base.errors import ProviderError, SettingsError
from hermes.providers.config import applies, configured, missing_fields, read_config, save_config
from hermes.providers.delivery import Outbox
from hermes.storage.documents import LocalDocuments

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def filled(home: Path, *texts: str) -> Outbox:
    outbox = Outbox(LocalDocuments(str(home)), "mem")
    for text in texts:
        outbox.put("sync_turn", {"user": text})
    return outbox


def failing(error: BaseException, *, at: str = "") -> Callable[[str, dict[str, Any], str], None]:
    def hand_over(_hook: str, given: dict[str, Any], _key: str) -> None:
        if not at or given["user"] == at:
            raise error

    return hand_over


@pytest.mark.proves("providers.outbox")
def test_parcels_are_private_ordered_and_gone_when_they_are_taken(tmp_path: Path) -> None:
    outbox = filled(tmp_path, *map(str, range(50)))
    assert (tmp_path / "outbox" / "mem").stat().st_mode & 0o777 == 0o700
    seen: list[str] = []
    taken = outbox.deliver(lambda _hook, given, _key: seen.append(given["user"]))
    assert (taken.delivered, seen) == (50, list(map(str, range(50))))
    assert outbox.names() == []
    assert outbox.deliver(failing(RuntimeError())).delivered == 0


@pytest.mark.proves("providers.outbox")
def test_an_outage_keeps_the_order_and_the_key(tmp_path: Path) -> None:
    outbox = filled(tmp_path, "one", "two", "three")
    keys: list[str] = []

    def noting(_hook: str, given: dict[str, Any], key: str) -> None:
        keys.append(key)
        if given["user"] == "two" and len(keys) < 30:
            raise ProviderError("away", kind="unreachable")

    rounds = [outbox.deliver(noting) for _ in range(28)]
    assert rounds[0].delivered == 1
    assert all(each.waiting == 2 and each.error is not None for each in rounds)
    assert outbox.deliver(noting).delivered == 2
    assert len(set(keys)) == 3
    assert outbox.set_aside() == 0


@pytest.mark.proves("providers.outbox.refused")
def test_what_is_refused_again_and_again_is_set_aside_and_can_come_back(tmp_path: Path) -> None:
    outbox = filled(tmp_path, "bad", "good")
    refuse = failing(ProviderError("no", kind="refused", status=400), at="bad")
    assert [outbox.deliver(refuse).delivered for _ in range(3)] == [0, 0, 1]
    assert (outbox.names(), outbox.set_aside()) == ([], 1)
    assert outbox.take_back() == 1
    assert outbox.deliver(lambda *_: None).delivered == 1
    assert outbox.take_back() == 0


@pytest.mark.proves("providers.outbox.refused")
def test_an_accident_of_the_provider_is_tried_longer_before_it_is_set_aside(tmp_path: Path) -> None:
    outbox = filled(tmp_path, "bad", "good")
    attempts = [outbox.deliver(failing(ValueError("bug"), at="bad")).set_aside for _ in range(10)]
    assert attempts == [0] * 9 + [1]
    outbox.put("sync_turn", {"user": "answered in another form"})
    odd = ProviderError("what is this", kind="malformed", status=200)
    assert [outbox.deliver(failing(odd)).set_aside for _ in range(10)] == [0] * 9 + [1]


@pytest.mark.proves("providers.outbox.refused")
@pytest.mark.parametrize("kind", ["key", "astray"])
def test_what_a_person_has_to_mend_is_waited_for(tmp_path: Path, kind: str) -> None:
    outbox = filled(tmp_path, "waits for a person")
    assert [outbox.deliver(failing(ProviderError("no", kind=kind))).set_aside for _ in range(20)] == [0] * 20


@pytest.mark.proves("providers.outbox")
def test_one_process_delivers_at_a_time_and_a_damaged_parcel_does_not_stop_it(tmp_path: Path) -> None:
    outbox = filled(tmp_path, "one", "two")
    other = Outbox(LocalDocuments(str(tmp_path)), "mem")
    inner: list[int] = []
    outbox.deliver(lambda *_: inner.append(other.deliver(failing(RuntimeError())).waiting))
    assert inner == [2, 1]
    filled(tmp_path, "three")
    with open(os.path.join(outbox.path, "00-damaged.json"), "wb") as file:
        file.write(b"{half")
    assert outbox.deliver(lambda *_: None).delivered == 1
    assert outbox.set_aside() == 1


FIELDS: list[dict[str, Any]] = [
    {"key": "api_key", "secret": True, "required": True, "env_var": "MEM_KEY"},
    {"key": "mode", "choices": ["cloud", "local"], "default": "cloud"},
    {"key": "url", "default_from": {"field": "mode", "map": {"local": "http://127.0.0.1:1", "cloud": "https://x"}}},
    {"key": "deep", "default": False},
    {"key": "top_k", "default": 5},
    {"key": "ratio", "type": "number", "default": 0.5},
    {"key": "folder", "when": {"mode": "local"}, "required": True},
]


@pytest.mark.proves("providers.config")
def test_values_come_from_environment_file_and_default_in_their_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_config("mem", str(tmp_path), {"mode": "local", "deep": "false", "top_k": "7", "gone": 1})
    save_config("mem", str(tmp_path), {"gone": None})
    assert (tmp_path / "mem.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / ".env").write_text("MEM_KEY=from-the-file\n")
    found = configured("mem", str(tmp_path), FIELDS)
    assert found == {
        "api_key": "from-the-file",
        "mode": "local",
        "url": "http://127.0.0.1:1",
        "deep": False,
        "top_k": 7,
        "ratio": 0.5,
        "folder": None,
    }
    assert [field["key"] for field in missing_fields(FIELDS, found)] == ["folder"]
    assert not applies(FIELDS[-1], {"mode": "cloud"})
    monkeypatch.setenv("MEM_KEY", "from-the-environment")
    assert configured("mem", str(tmp_path), FIELDS)["api_key"] == "from-the-environment"


@pytest.mark.proves("providers.config", "providers.people")
def test_a_person_has_what_the_operator_configured(tmp_path: Path) -> None:
    save_config("mem", str(tmp_path), {"mode": "local"})
    (tmp_path / ".env").write_text("MEM_KEY=shared\n")
    person = tmp_path / "users" / "ada"
    person.mkdir(parents=True)
    found = configured("mem", str(person), FIELDS)
    assert (found["mode"], found["api_key"]) == ("local", "shared")
    assert read_config("mem", str(tmp_path / "nowhere")) == {}


@pytest.mark.proves("providers.config")
@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "not valid JSON"), ("[]", "expected an object"), ('{"top_k": "many"}', "expected a integer")],
)
def test_a_file_that_cannot_be_understood_says_where(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "mem.json").write_text(text)
    with pytest.raises(SettingsError, match=problem):
        configured("mem", str(tmp_path), FIELDS)
    with pytest.raises(SettingsError, match="not the name of a provider"):
        read_config("../mem", str(tmp_path))
