"""Writes the pages of this folder that come from the code: `python docs/generate.py`."""

from __future__ import annotations

import ast
import enum
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from tui_agent.common import domain, symbols, workplan
from tui_agent.events import TABLE, run, session
from tui_agent.events.schema import FIELDS, line_schema, schema_text
from tui_agent.keys.key_names import key_label
from tui_agent.keys.keymap import BUILT_IN, CONTEXTS, SESSION_ACTIONS, KeyContext
from tui_agent.settings.document import settings_table
from tui_agent.settings.screen import ROLES

HERE = Path(__file__).resolve().parent

SETTINGS = """# Settings

Settings come from `~/.config/tui-agent/config.yaml`, from `TUI_AGENT_…` environment variables (dots become
underscores) and from command-line flags; later sources override earlier ones. A `.tui-agent.yaml` in a trusted
project can only tighten the settings marked "may tighten". `tui-agent settings` prints a commented file with all
defaults as a starting point. If a setting is invalid, the program reports file, line and field, and does not start.
With `sandbox: required`, commands are refused if no sandbox is available. In a session, `/settings` shows and
changes all settings, and shows where each value comes from.

{table}
## Custom keys and colors

```yaml
keys:
  details: f12              # replaces the built-in key
  palette: [ctrl+p, alt+p]  # several keys
  undo: alt+u               # for a command without a key
  progress: none            # no key at all
theme: mine
themes:
  mine:
    base: dark              # dark, light or high-contrast; provides all other colors
    primary: "#e0b0ff"
```

[Keys](keys.md) lists the actions. Actions of dialogs, lists and panels are prefixed with their context and may
use letters as keys:

```yaml
keys:
  approval.approve_once: y
  summary.accept: ctrl+g
  pager.next_match: [n, "."]
  approval.approve_always: none
```

Invalid names, keys or colors, and conflicting keys, are ignored, and reported when a session starts and by
`tui-agent doctor`. Keys that move, scroll or type can't be bound to actions that decide
something. [Keys](keys.md) also lists the fixed keys, with reasons.

| Context | Actions, with their built-in keys |
|---|---|
{places}

Color roles of a theme: {roles}.
"""

KEYS = """# Keys

F1 shows the same list. Each action in it has a key that neither tmux nor VS Code uses. In the text fields of a
plan or a summary, letters are typed as text.

To change keys, use the names listed here under `keys:` in the settings. Keys without a name are fixed, for the
reason given.
"""

WITHIN = """# Within dialogs, lists and panels

Each dialog, list and panel has its own keys; uppercase letters are separate keys. A session key that also works there
takes precedence. The keys listed under "In every panel" work in all panels. Esc and Ctrl+C always go back and can't be
reassigned. An action that decides something can't be bound to a key that moves, scrolls or types there. Custom keys,
too, are ignored for a short time after a dialog opens, and destructive actions still need a second press.
"""


NAMES = """## Action names for `keys:`

The actions under "Writing" and "Editing text", and `steer` and `leave`, work only in the composer; `history` works
everywhere. `/keys` shows the name of any key you press.

| Action | Built-in keys | What it does |
|---|---|---|"""


def keys() -> str:
    """Every key, group by group, as the program looks it up itself."""
    parts = [KEYS]
    for name, rows in BUILT_IN.groups():
        lines = [f"| {_cell(pressed)} | {_cell(does)} |" for pressed, does in rows]
        parts.append("\n".join((f"## {name}\n", "| | |", "|---|---|", *lines, "")))
    rows = [
        f"| `{one.name}` | {_cell(BUILT_IN.label(one.name))} | {_cell(one.description)} |"
        for one in SESSION_ACTIONS.values()
    ]
    return "\n".join([*parts, _compared(), NAMES, *rows, "", WITHIN, *map(_context, CONTEXTS.values())])


COMPARED = """## The usual actions beside other agents

Keys and how many there are; typed text is not counted, except for commands. From the documentation of the others
({sources}), which does not name the keys marked with an asterisk: these are counted as few as possible.

| Action | tui-agent | {columns} |
|---|---|{lines}|"""


def compared_keys(row: dict[str, Any]) -> list[str]:
    """The keys of this program for a row of `keys_compared.json`: names of actions, or `=` and a fixed key."""
    return [one[1:] if one[0] == "=" else BUILT_IN.first_label(one) for one in row["ours"]]


def _compared() -> str:
    """The table of the usual actions beside other agents."""
    table = json.loads((HERE / "keys_compared.json").read_text(encoding="utf-8"))
    sources = "; ".join(
        f"{name}: " + ", ".join(f"[{n}]({link})" for n, link in enumerate(links, start=1))
        for name, links in table["sources"].items()
    )
    columns = table["columns"]
    lines = [COMPARED.format(sources=sources, columns=" | ".join(columns), lines="|".join(["---"] * len(columns)))]
    for row in table["rows"]:
        keys = compared_keys(row)
        cells = [f"{' '.join(keys)} ({len(keys)})", *(f"{one[0]} ({one[1]})" if one else "–" for one in row["theirs"])]
        lines.append(f"| {' | '.join(map(_cell, (row['does'], *cells)))} |")
    return "\n".join([*lines, ""])


def _context(context: KeyContext) -> str:
    """A table of the keys of a context."""
    lines = [f"## {context.title}", "", "| Action | Built-in keys | What it does |", "|---|---|---|"]
    for one in context.actions:
        name = f"{context.name}.{one.name}"
        lines.append(f"| `{name}` | {_cell(BUILT_IN.label(name))} | {_cell(one.description)} |")
    lines += [
        f"| | {fixed.keys} | {_cell(fixed.description)} (fixed: {_cell(fixed.reason)}) |" for fixed in context.fixed
    ]
    return "\n".join([*lines, ""])


def contexts() -> str:
    """A row for each context that has actions."""
    rows = []
    for context in CONTEXTS.values():
        words = [f"`{one.name}` {'  '.join(map(key_label, one.keys))}" for one in context.actions]
        if words:
            rows.append(f"| `{context.name}` | {_cell(', '.join(words))} |")
    return "\n".join(rows)


COMMANDS = """# Commands

The output of `--help`. The options under `model`, `where` and `session` are the same for every command that starts a
session.
"""


def commands() -> str:
    """The help page of every command."""
    from tui_agent.commands.arguments import command_names, command_parser

    columns, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "80"
    try:
        shown = {parser.prog: parser.format_help().strip() for parser in map(command_parser, ["", *command_names()])}
    finally:
        os.environ.pop("COLUMNS")
        os.environ |= {"COLUMNS": columns} if columns is not None else {}
    return "\n".join([COMMANDS, *(f"## {name}\n\n```text\n{text}\n```\n" for name, text in shown.items())])


EVENTS = """# Events

`tui-agent exec --json` prints one event per line, as a JSON object in UTF-8. `events.jsonl` in the folder of a session
has the same lines, each with a checksum (`crc`) and without masked secrets. [events.schema.json](events.schema.json) is
a JSON Schema of a line; `tui-agent exec --json-schema` prints the one of the installed version.

```sh
tui-agent exec "explain src/app.py" --json | jq -r 'select(.type == "run.ended") | .data.outcome, .data.text'
```

A reader should ignore types and fields that it does not know, since later versions may add some. Fields with a default
may be missing in lines of earlier versions. Strings contain no control characters but line breaks and tabs.

| Field of a line | |
|---|---|
{fields}

A run ends with `run.ended`. Its `text` is the answer, or the reason why there is none. The exit code of the command
also depends on what was refused: see [Ways to use it](surfaces.md).
"""


def events() -> str:
    """Every event and its fields, from the classes."""
    fields = "\n".join(f"| `{name}` | {schema['description']} |" for name, schema in FIELDS.items())
    parts = [EVENTS.format(fields=fields)]
    for title, module in (("A run", run), ("The session", session)):
        parts.append(f"## {title}\n")
        parts += [_class(f"`{one.type}`", one) for one in TABLE.values() if one.__module__ == module.__name__]
    parts.append("## Values in fields\n")
    parts += [_class(f"`{one.__name__}`", one) for one in _values()]
    return "\n".join(parts)


def _values() -> Iterator[type]:
    """The classes of values in events, by name."""
    names = {one.__name__ for one in TABLE.values()}
    modules: tuple[ModuleType, ...] = (domain, symbols, workplan, run, session)
    for name in sorted(set(line_schema()["$defs"]) - names):
        yield next(getattr(module, name) for module in modules if hasattr(module, name))


def _class(title: str, kind: type) -> str:
    """The heading, description and fields of a class."""
    text = " ".join(inspect.cleandoc(kind.__dict__.get("__doc__") or "").split())
    lines = [f"### {title}", "", *([text, ""] if text else [])]
    if issubclass(kind, enum.Enum):
        return "\n".join([*lines, f"One of: {', '.join(f'`{one.value}`' for one in kind)}.", ""])
    rows = list(_fields(kind))
    if rows:
        lines += ["| Field | Type | Default | |", "|---|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _fields(kind: Any) -> Iterator[str]:
    comments = _comments(kind)
    if tag := kind.__struct_config__.tag:
        yield f'| `{kind.__struct_config__.tag_field}` | `"{tag}"` | | |'
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            plain = msgspec.to_builtins(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            plain = msgspec.to_builtins(field.default_factory())
        else:
            plain = msgspec.NODEFAULT
        default = "" if plain is msgspec.NODEFAULT else f"`{msgspec.json.encode(plain).decode()}`"
        annotation, comment = comments.get(field.name, ("", ""))
        yield f"| `{field.encode_name}` | `{_cell(annotation)}` | {_cell(default)} | {_cell(comment)} |"


def _comments(kind: type) -> dict[str, tuple[str, str]]:
    """Field → its annotation and the string below it, of the class and its bases."""
    found: dict[str, tuple[str, str]] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ not in sys.modules or not base.__module__.startswith("tui_agent"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for node, following in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            text = str(following.value.value) if is_text else ""  # type: ignore[union-attr]  # checked by is_text
            found[node.target.id] = (ast.unparse(node.annotation).replace("'", '"'), " ".join(text.split()))
    return found


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def pages() -> dict[str, str]:
    """File name → text of every generated page."""
    return {
        "settings.md": SETTINGS.format(
            table=settings_table(), roles=", ".join(f"`{role}`" for role in ROLES), places=contexts()
        ),
        "keys.md": keys(),
        "commands.md": commands(),
        "events.md": events(),
        "events.schema.json": schema_text(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
