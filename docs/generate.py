"""Writes the pages of this folder that come from the code: `python docs/generate.py`."""

from __future__ import annotations

import os
from pathlib import Path

from tui_agent.key_names import sign
from tui_agent.place import Place
from tui_agent.places import PLACES
from tui_agent.settings.document import table
from tui_agent.settings.screen import ROLES

HERE = Path(__file__).resolve().parent

SETTINGS = """# Settings

In `~/.config/tui-agent/config.yaml`, as `TUI_AGENT_…` in the environment, or as flags; later wins. A
`.tui-agent.yaml` in a trusted project may only tighten those marked so. `tui-agent settings` prints a file with
all of them to start from. A mistake is named with file, line and field, and the program does not start on it.
`sandbox: required` refuses commands where no sandbox can be had. In a session, `/settings` shows all of them with
their values and where those come from, and changes them.

{table}
## Keys and colours of your own

```yaml
keys:
  details: f12              # instead of the built-in one
  palette: [ctrl+p, alt+p]  # several
  undo: alt+u               # for a command that has none
  progress: none            # no key at all
theme: mine
themes:
  mine:
    base: dark              # dark, light or high-contrast; the rest is as there
    primary: "#e0b0ff"
```

The actions are listed in [keys](keys.md). Within dialogs, lists and panels an action is named by its place, and there
a letter may be a key:

```yaml
keys:
  approval.approve_once: y
  summary.accept: ctrl+g
  pager.next_match: [n, "."]
  approval.approve_always: none
```

A name, a key or a colour that can't be, and a key that two actions of one place want, are told when a session begins
and by `tui-agent doctor`, and left out. No key that moves, scrolls or is typed can become one that decides; what can't
have another key, and why, stands in [keys](keys.md).

| Place | Actions, with their built-in keys |
|---|---|
{places}

The roles that have colours: {roles}.
"""

KEYS = """# Keys

What F1 shows. None of them is one that tmux, VS Code or a browser keeps for itself. In the fields of a plan or a
summary every letter is typing.

All of them can be changed in the settings, under `keys:`, by the names that stand here. Keys without a name stay as
they are; the reason stands beside them.
"""

WITHIN = """# Within dialogs, lists and panels

Each place has keys of its own, and a capital is another key than the small letter. A key of the session that works in
a place too counts there first; a panel has the keys of every panel besides its own. Esc and Ctrl+C lead out everywhere
and are nobody else's key. What decides something can't be on a key that moves, scrolls, goes on or is typed there. How
long a dialog waits before it listens, and what must have been seen or pressed twice, is the same whatever the key.
"""


NAMES = """## Actions, as `keys:` in the settings names them

In the composer alone: those of writing, `guide` and `leave`. What a key of yours is called there, `/keys` shows.

| Action | Built-in keys | What it does |
|---|---|---|"""


def keys() -> str:
    """Every key, group by group, as the program looks it up itself."""
    from tui_agent.keymap import NAMED, Keymap, shown
    from tui_agent.tui.keys import does, of_the_session

    parts = [KEYS]
    for name, rows in of_the_session(Keymap()):
        lines = [f"| {_cell(pressed)} | {_cell(does)} |" for pressed, does in rows]
        parts.append("\n".join((f"## {name}\n", "| | |", "|---|---|", *lines, "")))
    rows = [
        f"| `{one.name}` | {_cell('  '.join(shown(key) for key in one.keys))} | {_cell(one.does or does(one.name))} |"
        for one in NAMED.values()
    ]
    return "\n".join([*parts, NAMES, *rows, "", WITHIN, *(_place(one) for one in PLACES)])


def _place(place: Place) -> str:
    """A table of what a place has."""
    lines = [f"## {place.title}", "", "| Action | Built-in keys | What it does |", "|---|---|---|"]
    for one in place.actions:
        pressed = _cell("  ".join(sign(key) for key in one.keys))
        lines.append(f"| `{place.name}.{one.name}` | {pressed} | {_cell(one.says)} |")
    lines += [f"| | {fixed.keys} | {_cell(fixed.says)}. Fixed: {_cell(fixed.why)} |" for fixed in place.fixed]
    return "\n".join([*lines, ""])


def places() -> str:
    """A row for each place that has actions."""
    rows = []
    for place in PLACES:
        words = [f"`{one.name}` {'  '.join(sign(key) for key in one.keys)}" for one in place.actions]
        if words:
            rows.append(f"| `{place.name}` | {_cell(', '.join(words))} |")
    return "\n".join(rows)


COMMANDS = """# Commands

What `--help` says. Options that stand under `model`, `where` and `session` are the same wherever a session begins.
"""


def commands() -> str:
    """The help page of every command."""
    from tui_agent.__main__ import parsers

    columns, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "80"
    try:
        shown = {parser.prog: parser.format_help().strip() for parser in parsers().values()}
    finally:
        os.environ.pop("COLUMNS")
        os.environ |= {"COLUMNS": columns} if columns is not None else {}
    return "\n".join([COMMANDS, *(f"## {name}\n\n```text\n{text}\n```\n" for name, text in shown.items())])


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def pages() -> dict[str, str]:
    """File name → text of every generated page."""
    return {
        "settings.md": SETTINGS.format(
            table=table(), roles=", ".join(f"`{role}`" for role in ROLES), places=places()
        ),
        "keys.md": keys(),
        "commands.md": commands(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
