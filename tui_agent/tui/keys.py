"""What the screen makes of the table of keys: the app's bindings, the footer, the help."""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding

from tui_agent import keymap
from tui_agent.keymap import DECIDING, KEYS, NAMES, Key, Keymap, shown
from tui_agent.view import SessionView

__all__ = ["DECIDING", "KEYS", "NAMES", "Key", "bindings", "does", "footer", "groups", "shown"]

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
    """Group → keys with what they do, for the help."""
    effective = effective or keymap.current()
    found: dict[str, list[tuple[str, str]]] = {}
    for one in KEYS:
        if named := effective.label(one):
            found.setdefault(one.group, []).append((named, one.does or does(one.name)))
    return [
        *found.items(),
        *_of_a_change(),
        *_of_the_tree(),
        *_of_the_plan(),
        *_of_the_sessions(),
        *_of_the_queue(),
        *_of_the_models(),
        *_of_an_output(),
        *_of_the_settings(),
    ]


def does(name: str) -> str:
    """What a command does, for the keys that have no other words."""
    from tui_agent.tui.commands import BY_NAME

    return BY_NAME[name].does.rstrip(":;")


def _of_a_change() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.edit_modal import HELP

    yield "When a change is asked about", [(keys, says) for keys, says in HELP]


def _of_the_plan() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.plan_keys import HELP

    for name, table in HELP:
        yield name, [(one.named or "  ".join(shown(key) for key in one.keys), one.says) for one in table]


def _of_the_sessions() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.session_door import HELP

    yield "In the list of sessions", [(keys, says) for keys, says in HELP]


def _of_the_tree() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.tool_tree import HELP

    yield "In the progress", [(keys, says) for keys, says in HELP]


def _of_the_queue() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.queue_panel import HELP

    yield "In the list of what waits (/queue)", [(keys, says) for keys, says in HELP]


def _of_the_models() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.model_picker import HELP

    yield "In the list of models (/model)", [(keys, says) for keys, says in HELP]


def _of_an_output() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.pager_door import HELP

    yield "In an output (/output)", [(keys, says) for keys, says in HELP]


def _of_the_settings() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.settings_form import HELP

    yield "In the settings (/settings)", [(keys, says) for keys, says in HELP]
