"""What `hermes memory status` says about external memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes.cli.render import print_text, when
from hermes.session.external import chosen_providers
from hermes.session.provider_checks import examine
from hermes.vocabulary.words import counted

if TYPE_CHECKING:
    from hermes.cli.context import Context


def examined(context: Context, *, connect: bool) -> list[dict[str, Any]]:
    names = chosen_providers(context.settings)
    return [examine(context.home, context.settings, name, connect=connect) for name in names]


def print_providers(found: list[dict[str, Any]]) -> None:
    for each in found:
        print_text(f"provider {each['name']}: {_in_short(each)}")
        if each.get("runs"):
            print_text(f"        runs {each['runs']}")
        for key, text in (each.get("config") or {}).items():
            print_text(f"        {key}: {text}")
        for field in each.get("missing") or ():
            where = f" ({field['url']})" if field["url"] else ""
            print_text(f"        ! {field['variable'] or field['key']} is missing{where}")
        if each["waiting"]:
            print_text(f"        {counted(each['waiting'], 'call')} waiting to be handed over")
        if each["refused"]:
            print_text(f"        ! {counted(each['refused'], 'call')} refused and set aside")
        if each.get("last"):
            print_text(f"        {when(each['last_at'])}: {each['last']}")


def _in_short(found: dict[str, Any]) -> str:
    if found["problem"]:
        return f"! {found['problem']}"
    if not found["available"]:
        return "! not available: packages or settings are missing (`hermes memory setup`)"
    return str(found["connection"] or "available")
