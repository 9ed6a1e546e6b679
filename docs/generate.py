"""Writes the pages of this folder that come from the code: `python docs/generate.py`."""

from __future__ import annotations

import os
from pathlib import Path

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

The actions are listed in [keys](keys.md). A name, a key or a colour that can't be, and a key that two actions want,
are told when a session begins and by `tui-agent doctor`, and left out. The roles that have colours: {roles}.
"""

KEYS = """# Keys

What F1 shows. None of them is one that tmux, VS Code or a browser keeps for itself. In the fields of a plan or a
summary every letter is typing.
"""


NAMES = """## Actions, as `keys:` in the settings names them

In the composer alone: those of writing, `guide` and `leave`. What a key of yours is called there, `/keys` shows.

| Action | Built-in keys | What it does |
|---|---|---|"""


def keys() -> str:
    """Every key, group by group, as the program looks it up itself."""
    from tui_agent.keymap import NAMED, shown
    from tui_agent.tui.keys import does, groups

    parts = [KEYS]
    for name, rows in groups():
        lines = [f"| {_cell(pressed)} | {_cell(does)} |" for pressed, does in rows]
        parts.append("\n".join((f"## {name}\n", "| | |", "|---|---|", *lines, "")))
    rows = [
        f"| `{one.name}` | {_cell('  '.join(shown(key) for key in one.keys))} | {_cell(one.does or does(one.name))} |"
        for one in NAMED.values()
    ]
    return "\n".join([*parts, NAMES, *rows, ""])


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
        "settings.md": SETTINGS.format(table=table(), roles=", ".join(f"`{role}`" for role in ROLES)),
        "keys.md": keys(),
        "commands.md": commands(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
