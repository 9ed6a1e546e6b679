"""What the lines of the progress tree say: verbs of calls, titles of batches, what a sub-agent was sent for (U3)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.text import one_line
from tui_agent.view import ToolItem
from widgets.ink import Ink, Span

SUBAGENT = "run_subagent"
"""The tool whose calls have a sub-agent below them."""

VERBS = {
    "read_file": "read",
    "write_file": "write",
    "edit_file": "edit",
    "search_workspace": "search",
    "list_files": "list",
    "run_terminal_command": "run",
    "ask_user": "ask",
}
BATCHES = {
    "reading": ("reading", "read", "files"),
    "searching": ("running", "ran", "searches"),
    "listing": ("listing", "listed", "folders"),
    "editing": ("editing", "edited", "files"),
    "commands": ("running", "ran", "commands"),
    "inspecting": ("inspecting", "inspected", "files"),
    "code": ("analysing code, ", "analysed code, ", "questions"),
    "delegating": ("sending", "sent", "sub-agents"),
    "": ("looking at", "looked at", "things"),
}
"""Kind → what a batch of such calls is called while it goes on, afterwards, and its things."""
KINDS = {
    "read_file": "reading",
    "search_workspace": "searching",
    "list_files": "listing",
    "write_file": "editing",
    "edit_file": "editing",
    "run_terminal_command": "commands",
    SUBAGENT: "delegating",
    "get_diagnostics": "code",
    "get_document_symbols": "inspecting",
    "find_definition": "code",
    "find_references": "code",
    "find_implementations": "code",
    "find_symbol": "searching",
    "get_hover_info": "code",
    "get_call_hierarchy": "code",
    "get_type_hierarchy": "code",
}
"""Tool → the kind of its calls."""


def batch(tools: Sequence[ToolItem], going: bool) -> str:
    """The title of calls that belong together, by their kind; of several kinds each with its number."""
    kinds: dict[str, list[ToolItem]] = {}
    for tool in tools:
        kinds.setdefault(KINDS.get(tool.call.name, ""), []).append(tool)
    if "code" in kinds:
        return _part("code", tools, going)
    others = kinds.pop("", []) if len(kinds) > 1 else []
    parts = [_part(kind, held, going) for kind, held in kinds.items()]
    return ", ".join([*parts, f"{len(others)} more"] if others else parts)


def _part(kind: str, tools: Sequence[ToolItem], going: bool) -> str:
    now, after, things = BATCHES[kind]
    count = len({str(tool.title) for tool in tools}) if kind == "editing" else len(tools)
    things = {"searches": "search"}.get(things, things[:-1]) if count == 1 else things
    words = now if going else after
    return f"{words}{'' if words.endswith(' ') else ' '}{count} {things}"


def work(tools: Sequence[ToolItem]) -> str:
    """What a reply without words of its own did, by kind, where that is one thing; else empty."""
    kinds = {KINDS.get(tool.call.name, "") for tool in tools}
    told = len(tools) > 1 and kinds in ({"editing"}, {"commands"}, {"delegating"})
    return batch(tools, any(tool.status == "running" for tool in tools)) if told else ""


def call(item: ToolItem, ink: Ink) -> list[Span]:
    """Verb and object of a call; of a sub-agent its title — description."""
    title = one_line(item.title, 200)
    if item.call.name == SUBAGENT:
        name, dash, rest = title.partition(" — ")
        return [(name, ink.text), (dash + rest, ink.muted)]
    verb = VERBS.get(item.call.name, one_line(item.call.name, 60))
    label = [(verb + " ", ink.text), (title, ink.muted)] if title != item.call.name else [(verb, ink.text)]
    return [*label, (" · recovered", ink.muted)] if item.call.recovered else label
