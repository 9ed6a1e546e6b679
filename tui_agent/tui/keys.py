"""All keys in one table: the app's bindings, the footer, the help and the README's table are made from it.

None of them is one that tmux, VS Code or a browser keeps for itself, and each has a command or another way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from textual.binding import Binding

from tui_agent.view import SessionView


class Key(NamedTuple):
    """One key, or several that do the same."""

    keys: tuple[str, ...]
    """As Textual names them; those of the composer and the dialogs are bound there."""
    does: str
    group: str
    footer: str = ""
    """A word for the footer; empty leaves it out."""
    when: str = ""
    """`idle`, `busy`, or `plan` while there is one: when the footer shows it; empty is always."""
    action: str = ""
    """The app's action; empty when the key belongs to a widget."""
    priority: bool = True


WRITING, WORKING, LOOKING, DECIDING, LEAVING = "Writing", "While it works", "Looking", "Deciding", "Leaving"

KEYS = (
    Key(("enter",), "send", WRITING, "send", "idle"),
    Key(("ctrl+j", "alt+enter", "shift+enter", "\\ enter"), "new line", WRITING, "newline", "idle"),
    Key(("up", "down"), "older and newer messages", WRITING),
    Key(("/",), "commands, in an empty composer", WRITING),
    Key(("@",), "a file or folder for the message; :L10-L50 for lines", WRITING),
    Key(("!",), "at the beginning: run a command of your own", WRITING),
    Key(
        ("escape",), "stop at once; what was said so far is kept", WORKING, "stop", "busy", "interrupt", False
    ),
    Key(("enter",), "queue a message for afterwards", WORKING, "queue", "busy"),
    Key(("ctrl+g",), "guide the run that goes on", WORKING, "guide now", "busy"),
    Key(("shift+tab",), "next approval mode", WORKING, "approvals", "", "do('approvals')"),
    Key(("alt+m",), "next mode: how messages are worked on", WORKING, action="do('mode')"),
    Key(("pageup",), "scroll up", LOOKING, action="do('page-up')"),
    Key(("pagedown",), "scroll down", LOOKING, action="do('page-down')"),
    Key(("ctrl+home",), "to the beginning", LOOKING, action="do('top')"),
    Key(("ctrl+end",), "to the end, and follow", LOOKING, action="do('end')"),
    Key(("ctrl+o",), "show or hide thinking and output", LOOKING, "details", "", "do('details')"),
    Key(("ctrl+f",), "search the session", LOOKING, "search", "idle", "do('search')"),
    Key(("ctrl+y",), "copy the last reply; again: its code blocks", LOOKING, action="do('copy')"),
    Key(("f3",), "plan: go there and back", LOOKING, "plan", "plan", "do('plan')"),
    Key(("f4",), "progress: go there and back", LOOKING, "progress", "", "do('progress')"),
    Key(("f7",), "all that the chosen or the last call printed", LOOKING, action="do('output')"),
    Key(("f8",), "models", LOOKING, action="do('model')"),
    Key(("f9",), "what the context window holds", LOOKING, action="do('context')"),
    Key(("f2",), "commands", LOOKING, action="commands"),
    Key(("f1", "?"), "this help; ? in an empty composer", LOOKING, "help", "", "help"),
    Key(("a", "s", "A"), "approve once, for the session, always", DECIDING),
    Key(("r",), "reject, with a reason", DECIDING),
    Key(("ctrl+c",), "copy a selection, stop, set the draft aside, quit", LEAVING, "quit", "idle", "cancel"),
    Key(("ctrl+d",), "quit, in an empty composer", LEAVING),
)
"""In the order of the help; the footer shows those with a word as long as there is room."""

FOOTER_LAST = ("help", "plan", "details", "progress", "search", "quit")
"""Words that come last in the footer, in this order: where there is little room they are left out."""

NAMES = {
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "delete": "del",
    "f1": "F1",
    "f2": "F2",
    "f3": "F3",
    "f4": "F4",
    "f7": "F7",
    "f8": "F8",
    "f9": "F9",
}


def shown(key: str) -> str:
    """A key as the user reads it."""
    return NAMES.get(key, key)


def bindings() -> Iterator[Binding]:
    """What the app itself binds."""
    for one in KEYS:
        if one.action:
            keys = ",".join(key for key in one.keys if key != "?")
            yield Binding(keys, one.action, one.does, show=False, priority=one.priority)


def footer(view: SessionView) -> list[tuple[str, str]]:
    """Keys and words for the moment, the most wanted first."""
    now = {"", "busy" if view.busy else "idle", "plan" if view.plan.by else ""}
    wanted = [one for one in KEYS if one.footer and one.when in now]
    wanted.sort(key=lambda one: FOOTER_LAST.index(one.footer) if one.footer in FOOTER_LAST else -1)
    return [(shown(one.keys[0]), one.footer) for one in wanted]


def groups() -> list[tuple[str, list[tuple[str, str]]]]:
    """Group → keys with what they do, for the help."""
    found: dict[str, list[tuple[str, str]]] = {}
    for one in KEYS:
        named = "  ".join(shown(key) for key in one.keys)
        found.setdefault(one.group, []).append((named, one.does))
    return [
        *found.items(),
        *_of_the_composer(),
        *_of_a_change(),
        *_of_the_tree(),
        *_of_the_plan(),
        *_of_the_sessions(),
        *_of_the_queue(),
        *_of_the_models(),
        *_of_an_output(),
    ]


def _of_the_composer() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    from widgets.prompt_input import HELP

    yield "In the composer", list(HELP)


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
