"""Who is who in Honcho, and which of its sessions a conversation belongs to."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hermes.providers.config import read_config, read_elsewhere, save_config
from hermes.providers.service import distinct_id, plain_id
from hermes.settings.secrets_file import secret
from hermes.vocabulary.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = "honcho"
_PROFILES = "profiles"


@value
class Peers:
    """The person, the assistant, and whose view of the person counts."""

    user: str
    ai: str
    directional: bool
    observed: dict[str, dict[str, bool]]

    @property
    def observer(self) -> str:
        return self.ai if self.directional else self.user

    def named(self, name: str) -> str:
        return {"": self.user, "user": self.user, "ai": self.ai}.get(name) or plain_id(name)

    def observer_of(self, peer: str) -> str:
        """What the assistant knows of itself, it knows by itself."""
        return self.observer if peer != self.ai else self.ai


def peers_of(config: Mapping[str, Any], person: str) -> Peers:
    user = plain_id(str(config["peerName"] or "user"))
    if person and not config["pinUserPeer"]:
        aliases = config["userPeerAliases"] or {}
        user = distinct_id(str(aliases.get(person) or f"{config['runtimePeerPrefix']}{person}"))
    ai = plain_id(str(config["aiPeer"] or "hermes"))
    if ai == user:
        ai = f"{ai}-ai"
    directional = config["observationMode"] != "unified"
    mine = (config["observation"] or {}).get("user") or {}
    others = (config["observation"] or {}).get("ai") or {}
    observed = {
        user: _watching(mine, me=True, others=directional),
        ai: _watching(others, me=directional, others=directional),
    }
    return Peers(user=user, ai=ai, directional=directional, observed=observed)


def session_name(config: Mapping[str, Any], session_id: str, place: str, person: str) -> str:
    """By the strategy. Where one process serves many people, none shares a session with another."""
    named = (config["sessions"] or {}).get(place)
    match str(config["sessionStrategy"]):
        case "per-session":
            name = session_id
        case "global":
            name = str(config["workspace"])
        case "per-repo":
            name = named or _of_folder(_repository(place))
        case _:
            name = named or _of_folder(place)
    if config["sessionPeerPrefix"] and not person:
        name = f"{config['peerName']}-{name}"
    return distinct_id(f"{person}-{name}" if person else name)


def read_file(hermes_home: str) -> dict[str, Any]:
    """Honcho's own file; other programs share it, and each has a block of its own under `hosts`."""
    file = read_config(_NAME, hermes_home) or read_elsewhere("~/.hermes/honcho.json", "~/.honcho/config.json")
    hosts = file.get("hosts")
    block = hosts.get(_host(hermes_home)) if isinstance(hosts, dict) else None
    return {**file, **block} if isinstance(block, dict) else file


def save_file(values: Mapping[str, Any], hermes_home: str) -> None:
    """Into our block where there is one, because it wins over what stands beside it."""
    file = read_config(_NAME, hermes_home)
    host = _host(hermes_home)
    hosts = file.get("hosts")
    if isinstance(hosts, dict) and isinstance(hosts.get(host), dict):
        save_config(_NAME, hermes_home, {"hosts": {**hosts, host: {**hosts[host], **values}}})
    else:
        save_config(_NAME, hermes_home, values)


def _host(hermes_home: str) -> str:
    from hermes.providers.config import home_of

    chosen = secret(home_of(hermes_home), "HERMES_HONCHO_HOST")
    folder, name = os.path.split(os.path.normpath(hermes_home))
    return chosen or (f"hermes_{name}" if os.path.basename(folder) == _PROFILES else "hermes")


def _watching(given: Mapping[str, Any], *, me: bool, others: bool) -> dict[str, bool]:
    return {
        "observe_me": bool(given.get("observeMe", me)),
        "observe_others": bool(given.get("observeOthers", others)),
    }


def _repository(place: str) -> str:
    folder = place
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return place
        folder = above
    return folder


def _of_folder(place: str) -> str:
    """The folder's name, with a mark of the whole path: there are many folders called `src`."""
    name = os.path.basename(place)
    mark = distinct_id(f"/{place}")[-8:]
    return f"{name}-{mark}" if name else mark
