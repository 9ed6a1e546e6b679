"""What the screen makes of the table of keys: the app's bindings, the footer, the help."""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding

from tui_agent import keymap
from tui_agent.key_names import sign
from tui_agent.keymap import KEYS, NAMES, Key, Keymap, shown
from tui_agent.view import SessionView

__all__ = ["KEYS", "NAMES", "Key", "bindings", "does", "footer", "groups", "shown"]

FOOTER_LAST = ("help", "plan", "details", "progress", "search", "quit")
"""Words that come last in the footer, in this order: where there is little room they are left out."""

SENDS = "send"
"""The action whose key queues a message while a run goes on."""


def bindings(effective: Keymap | None = None) -> Iterator[Binding]:
    """What the app itself binds."""
    effective = effective or keymap.current()
    for one in KEYS:
        if one.action and (keys := effective.keys[one.name]):
            yield Binding(",".join(keys), one.action, one.does, show=False, priority=one.priority)


def footer(view: SessionView) -> list[tuple[str, str]]:
    """Keys and words for the moment, the most wanted first."""
    now = {"", "busy" if view.busy else "idle", "plan" if view.plan.by else ""}
    effective = keymap.current()
    pairs = [
        (effective.first(one.name or SENDS), one.footer) for one in KEYS if one.footer and one.when in now
    ]
    wanted = [pair for pair in pairs if pair[0]]
    wanted.sort(key=lambda pair: FOOTER_LAST.index(pair[1]) if pair[1] in FOOTER_LAST else -1)
    return wanted


def groups(effective: Keymap | None = None) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group → keys with what they do, for the help: session and composer first, then place by place."""
    effective = effective or keymap.current()
    return [*of_the_session(effective), *within(effective)]


def of_the_session(effective: Keymap) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What works in the session and in the composer."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in KEYS:
        if named := effective.label(one):
            found.setdefault(one.group, []).append((named, one.does or does(one.name)))
    yield from found.items()


def does(name: str) -> str:
    """What a command does, for the keys that have no other words."""
    from tui_agent.tui.commands import BY_NAME

    return BY_NAME[name].does.rstrip(":;")


def within(effective: Keymap) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What works in dialogs, lists and panels; neighbours that say the same stand in one row."""
    from tui_agent.places import PLACES

    for place in PLACES:
        rows: list[tuple[str, str]] = []
        for one in place.actions:
            label = "  ".join(sign(key) for key in effective.places.keys[f"{place.name}.{one.name}"])
            says = one.row or one.says
            if label and rows and rows[-1][1] == says:
                rows[-1] = (f"{rows[-1][0]}  {label}", says)
            elif label:
                rows.append((label, says))
        yield place.title, [*rows, *((fixed.keys, fixed.says) for fixed in place.fixed)]
