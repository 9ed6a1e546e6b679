"""Writes the pages of this folder that come from the code: `python docs/generate.py`."""

from __future__ import annotations

from pathlib import Path

from tui_agent.settings.document import table

HERE = Path(__file__).resolve().parent

SETTINGS = """# Settings

In `~/.config/tui-agent/config.yaml`, as `TUI_AGENT_…` in the environment, or as flags; later wins. A
`.tui-agent.yaml` in a trusted project may only tighten those marked so. `tui-agent settings` prints a file with
all of them to start from. A mistake is named with file, line and field, and the program does not start on it.
`sandbox: required` refuses commands where no sandbox can be had, which at present is everywhere.

{table}"""

KEYS = """# Keys

What F1 shows. None of them is one that tmux, VS Code or a browser keeps for itself. In the fields of a plan or a
summary every letter is typing.
"""


def keys() -> str:
    """Every key, group by group, as the program looks it up itself."""
    from tui_agent.tui.keys import groups

    parts = [KEYS]
    for name, rows in groups():
        lines = [f"| {_cell(pressed)} | {_cell(does)} |" for pressed, does in rows]
        parts.append("\n".join((f"## {name}\n", "| | |", "|---|---|", *lines, "")))
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def pages() -> dict[str, str]:
    """File name → text of every generated page."""
    return {"settings.md": SETTINGS.format(table=table()), "keys.md": keys()}


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
