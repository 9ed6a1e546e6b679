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


def rows() -> list[Row]:
    """Everything, the commands first, each with the words that it takes, then what only has a key."""
    effective = keymap.current()
    listed: dict[str, Row] = {}
    for one in commands.COMMANDS:
        listed[one.name] = Row(one.name, one.name, one.does.rstrip(":;"), effective.first(one.name))
        for word in _words(one):
            listed[f"{one.name} {word}"] = Row(f"{one.name} {word}", f"{one.name} {word}", "")
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
    """Open the palette; its own keys close it."""
    closing = [key for key in keymap.current().keys[ITSELF] if key != "ctrl+p"]
    app.push_screen(Palette(rows(), partial(do, app), closing=closing))
