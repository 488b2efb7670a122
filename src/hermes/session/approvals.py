"""Carries out calls of tools that waited for a person and that they have approved."""

from __future__ import annotations

import json
import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from hermes.base.errors import WriteRefused
from hermes.memory.approval import Approvals
from hermes.safety.trust import TurnContext
from hermes.session.parts import SessionOptions, open_parts
from hermes.settings.config import load_settings
from hermes.settings.trust import TrustedFolders
from hermes.tools.builtin import BuiltinTools

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes.memory.store import MemoryStore, Written
    from hermes.settings.home import Home

_AGREED = TurnContext(origin="user", note="approved by the user", approved=True)


def approve(home: Home, pending_id: str, store: MemoryStore) -> Written:
    """Does what waited under this id, a change of memory or a call; a refusal leaves it waiting."""
    return Approvals(home).approve(pending_id, store, partial(carry_out, home))


def carry_out(home: Home, call: Mapping[str, Any]) -> str:
    """Makes a call as the session would have made it; WriteRefused says why it failed."""
    settings = load_settings(home)
    kit = BuiltinTools(
        settings,
        folder=str(call["cwd"]) or os.getcwd(),
        home=home.above or home.root,
        ask=lambda _question: True,
        cancelled=lambda: False,
        history=tuple,
        trusted=TrustedFolders(home),
    )
    with closing(open_parts(home, settings=settings, options=SessionOptions(makers=kit.makers()))) as parts:
        if parts.toolbox.get(str(call["tool"])) is None:  # one of a memory provider's
            parts.start_external("approval", owner="local", identity={"platform": "approval"})
        result = json.loads(parts.toolbox.call(str(call["tool"]), call["arguments"], _AGREED))
        parts.external.close(())
    if isinstance(result, dict) and (result.get("success") is False or result.get("error")):
        raise WriteRefused(f"{call['tool']} failed: {result.get('error')}", kind="refused")
    return f"Done: {call['tool']}."
