"""What the corpora call: one plain function for each part of the agent that they test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.doubles.plan_text import plan_text
from tui_agent.common.domain import ApprovalMode, Mode, ToolSpec
from tui_agent.plan import markdown, writing
from tui_agent.plan.document import Plan
from tui_agent.plan.grammar import parse_time
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.files import read_file, replace_file
from tui_agent.protocols.parser import ParsedReply, ReplyParser, parse_reply
from tui_agent.safety import globs
from tui_agent.safety.policy import judge
from tui_agent.safety.roots import PathError, Roots
from tui_agent.settings import Settings
from tui_agent.shell import severity
from tui_agent.shell.safe_commands import assess_command
from tui_agent.tools.base import ToolError
from tui_agent.tools.edit_file import edit_bytes

_CODES = {"not_found": "file_not_found", "too_large": "other"}


def apply_edit(path: str, old: str, new: str, replace_all: bool) -> dict[str, object] | None:
    """The edit tool's way of changing a file, without the leave that a session asks for."""
    try:
        before = read_file(Path(path))
        where = before.path
        edited = edit_bytes(before.data, old, new, replace_all)
        replace_file(where, edited.content, before.sha256)
    except FileFault as fault:
        return {"ok": False, "error": _CODES.get(fault.code, "other"), "message": str(fault)}
    except ToolError as fault:
        return {"ok": False, "error": fault.code, "message": str(fault)}
    return None


def classify(command: str) -> str:
    """How much harm a command can do."""
    return severity.classify_command(command).severity


def decide(command: str, approval_mode: str, workspace: str, sandboxed: bool) -> str:
    """What a session does with a command in a trusted folder, with default settings and no grants: run, ask or refuse.

    It starts in the workspace; `sandboxed`: it would run in a sandbox.
    """
    folder = Path(workspace).resolve()
    roots = Roots([folder])
    action = assess_command(command, folder, roots.folders, roots.holds_credentials, roots.is_protected, git=True)
    mode = ApprovalMode(approval_mode)
    verdict = judge(action, mode=Mode.AGENT, approval_mode=mode, settings=Settings(), sandboxed=sandboxed)
    return verdict.decision


def check_path(workspace: str, path: str, op: str) -> dict[str, bool | None]:
    """Whether a path may be used without asking for access outside, and whether its change asks."""
    try:
        target = Roots([Path(workspace)]).resolve(path)
    except PathError:
        return {"allowed": False, "sensitive": None}
    return {"allowed": not target.outside, "sensitive": target.sensitive or target.protected or target.credentials}


def match_patterns(patterns: list[list[object]], path: str) -> bool:
    """Whether the last pattern that matches asks."""
    return globs.GlobList([(str(glob), bool(safe)) for glob, safe in patterns]).needs_approval(path)


def plan_parse(text: str) -> dict[str, object]:
    """The plan that a text says, and the text itself."""
    document = markdown.parse(text)
    return {**msgspec.to_builtins(document.plan), "source": text}


def plan_serialize(plan: dict[str, Any]) -> str:
    """A plan as text: into the one it was read from, where there is one."""
    said = msgspec.convert({key: _value(value) for key, value in plan.items() if key != "source"}, Plan)
    return writing.rewrite(said, markdown.parse(plan["source"])).text if "source" in plan else plan_text(said)


def _value(value: Any) -> Any:
    """Values as the corpora write them: times as text, unknown ones as null."""
    if isinstance(value, list):
        return [_value(one) for one in value]
    if not isinstance(value, dict):
        return value
    known = {key: _value(one) for key, one in value.items() if one is not None}
    return known | ({"when": parse_time(known["when"])[0]} if "when" in known else {})


def _offered(known_tools: list[str]) -> list[ToolSpec]:
    return [ToolSpec(name=name, description="", parameters={}) for name in known_tools]


def _as_plain(parsed: ParsedReply, text: str) -> dict[str, object]:
    """Calls that could not be read are answered with what was wrong; they never run."""
    return {
        "calls": [{"name": call.name, "args": call.arguments} for call in parsed.calls if call.fault is None],
        "text": text,
        "error": bool(parsed.error) or any(call.fault for call in parsed.calls),
    }


def parse_tool_calls(text: str, known_tools: list[str]) -> dict[str, object]:
    """A whole reply, read by a client that knows the tools' names only."""
    parsed = parse_reply(text, _offered(known_tools))
    return _as_plain(parsed, parsed.text)


def parse_tool_calls_stream(chunks: list[str], known_tools: list[str]) -> dict[str, object]:
    """The same for a reply that streams in: the text is what was shown meanwhile."""
    stream = ReplyParser(_offered(known_tools))
    shown = [stream.feed(chunk) for chunk in chunks]
    rest, parsed = stream.finish()
    return _as_plain(parsed, "".join(shown) + rest)
