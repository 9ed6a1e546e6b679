"""Fills the command palette with every action of the program, and does what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tui_agent import keymap
from tui_agent.keymap import KEYS
from tui_agent.tui import commands
from widgets.palette import Palette, Row

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

Does = Callable[["TuiAgentApp"], object]

OF_THE_COMPOSER: Final[dict[str, Does]] = {
    "send": lambda app: app.composer.prompt.action_submit(False),
    "newline": lambda app: app.composer.prompt.insert("\n"),
    "guide": lambda app: app.composer.prompt.action_submit(True),
    "older": lambda app: app.run_worker(app.composer.prompt.action_older(), exit_on_error=False),
    "newer": lambda app: app.composer.prompt.action_newer(),
    "lay-open": lambda app: app.composer.prompt.action_lay_open(),
    "editor": lambda app: app.composer.open_editor(),
    "undo-typing": lambda app: app.composer.prompt.action_undo(),
    "paste": lambda app: app.composer.prompt.action_paste(),
    "leave": lambda app: app.on_prompt_input_leave(),
}
"""What the composer's own keys do."""
OF_THE_APP: Final[dict[str, Does]] = {
    "interrupt": lambda app: app.action_interrupt(),
    "cancel": lambda app: app.action_cancel(),
    "help": lambda app: app.action_help(),
}
"""What the app's keys do that are no command."""
ITSELF = "palette"

WORDS: Final[dict[str, str]] = {
    "approvals ask": "reads run; edits ask, with the diff; commands that change something ask",
    "approvals auto-edit": "reads and edits run; commands that change something ask",
    "approvals auto": "reads, edits and ordinary commands run; risky ones ask",
    "approvals read-only": "reads run; edits are refused, and all commands but those that only read",
    "mode agent": "planned, carried out step by step, summed up",
    "mode direct": "carried out without plan and summary",
    "mode chat": "only talked about; nothing is changed",
    "mode plan": "only planned; nothing is changed",
    "mode explore": "the code is read and explained; nothing is changed",
    "mode review": "changes are read and judged, also with git's history; nothing is changed",
    "mode deep-explore": "helpers read a part of the code to its ground; nothing is changed",
    "copy plan": "the plan document",
    "copy all": "the whole conversation",
    "export html": "the session as a page that needs nothing else",
    "export markdown": "the session as Markdown",
    "web stop": "close the page again",
    "theme dark": "light on dark",
    "theme light": "dark on light",
    "theme high-contrast": "the strongest differences",
    "theme ansi": "the sixteen colours of your terminal",
}
"""What a command does with a word behind it."""


def rows() -> list[Row]:
    """Everything, the commands first, each with the words that it takes, then what only has a key."""
    effective = keymap.current()
    listed: dict[str, Row] = {}
    for one in commands.COMMANDS:
        listed[one.name] = Row(one.name, one.name, one.does.rstrip(":;"), effective.first(one.name))
        for word in _words(one):
            name = f"{one.name} {word}"
            listed[name] = Row(name, name, WORDS[name])
    for action in KEYS:
        if action.name and action.name != ITSELF and action.name not in listed:
            does = action.does or commands.BY_NAME[action.name].does
            title = action.name.replace("-", " ")
            listed[action.name] = Row(action.name, title, does, effective.first(action.name))
    return list(listed.values())


def _words(command: commands.Command) -> Iterator[str]:
    """Those that can be taken as they are."""
    return (word for word in command.takes if word.islower() and " " not in word)


def do(app: TuiAgentApp, name: str) -> None:
    """Do the action of a row."""
    if name in OF_THE_COMPOSER:
        app.set_focus(app.composer.prompt)
        OF_THE_COMPOSER[name](app)
    elif name in OF_THE_APP:
        OF_THE_APP[name](app)
    else:
        first, _, rest = name.partition(" ")
        commands.run(app, first, rest)


def show(app: TuiAgentApp) -> None:
    """Open the palette; its own keys close it, but for those that choose there."""
    app.push_screen(Palette(rows(), partial(do, app), closing=keymap.current().keys[ITSELF]))
