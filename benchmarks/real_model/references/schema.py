"""Reference A: a minimal loop of tool calls whose format is enforced by a JSON schema."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.real_model.references.project import NOT_DONE, Messages, ask

TURNS = 14
MAX_TOKENS = 1200
TOOLS: dict[str, tuple[tuple[str, ...], str]] = {
    "list_files": ((), "list the files of the project"),
    "read_file": (("path",), "read a file"),
    "edit_file": (("path", "old", "new"), "replace the exact text `old` in a file by `new`"),
    "write_file": (("path", "content"), "write a whole file, new or replaced"),
    "run": (("command",), "run a shell command"),
    "finish": (("answer",), "end the job: say what was done, or answer the question"),
}
"""Name → arguments, all strings, and description."""
SYSTEM = """You are a coding agent. You work on the project in the current folder by calling one tool at a time.

Tools:
%s

Reply with one JSON object: {"thought": "why, in one short sentence", "tool": "name", "args": {...}}

Work in this order: look at the files that matter (read_file), change them (edit_file or write_file), check the change (run), then finish.
"""  # noqa: E501 # a prompt
NO_OBJECT = "'NoneType' object has no attribute 'group'"
"""Error for a reply without an object; part of the measured feedback."""
REPEATED = "\n(You made this very call before, with the same result. Do something else, or finish.)"


def schema() -> dict[str, Any]:
    """The schema of a call."""
    return {"oneOf": [_call_schema(name, arguments) for name, (arguments, _) in TOOLS.items()]}


def _call_schema(name: str, arguments: tuple[str, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "thought": {"type": "string", "maxLength": 200},
            "tool": {"const": name},
            "args": {
                "type": "object",
                "properties": {argument: {"type": "string"} for argument in arguments},
                "required": list(arguments),
                "additionalProperties": False,
            },
        },
        "required": ["thought", "tool", "args"],
        "additionalProperties": False,
    }


def list_files() -> str:
    """List the project's files, one per line."""
    paths = (path for path in Path().rglob("*") if path.is_file() and ".git/" not in f"{path}/")
    return "\n".join(sorted(map(str, paths)))


def edit_file(name: str, old: str, new: str) -> str:
    """Replace `old` in the file; return the result for the model."""
    path = Path(name)
    text = path.read_text()
    count = text.count(old)
    if count == 0 or not old:
        return "error: `old` is not in the file. The file is:\n" + text
    if count > 1 and len(old) < 40 and not re.fullmatch(r"\w+", old):
        return f"error: `old` stands {count} times in the file; take more lines"
    if old == new:
        return "error: old and new are the same. The file is:\n" + text
    path.write_text(text.replace(old, new))
    return "edited. The file is now:\n" + path.read_text()


def write_file(name: str, content: str) -> str:
    """Write a complete file."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return "written"


def run(command: str) -> str:
    """Run a command; return its status and the end of its output."""
    process = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
    )
    return f"exit status {process.returncode}\n{(process.stdout + process.stderr)[-2000:]}"


def result_of(tool: str, args: dict[str, Any]) -> str:
    """Execute a call; return its result or error."""
    try:
        match tool:
            case "list_files":
                return list_files()
            case "read_file":
                return Path(args["path"]).read_text()
            case "write_file":
                return write_file(args["path"], args["content"])
            case "edit_file":
                return edit_file(args["path"], args["old"], args["new"])
            case "run":
                return run(args["command"])
    except Exception as error:
        return f"error: {error}"
    return f"error: there is no tool {tool}"


def first_messages(prompt: str) -> Messages:
    """The messages of the first request: tools, file names, task."""
    tools = "\n".join(f"- {name}({', '.join(args)}): {text}" for name, (args, text) in TOOLS.items())
    return [
        {"role": "system", "content": SYSTEM % tools},
        {"role": "user", "content": f"Files of the project:\n{list_files()}\n\nThe job: {prompt}"},
    ]


def work(base_url: str, prompt: str, constrained: bool) -> int:
    """Work on the request in the current folder; return the exit code."""
    options: dict[str, Any] = {}
    if constrained:
        options["response_format"] = {"type": "json_schema", "json_schema": {"name": "call", "schema": schema()}}
    messages, results = first_messages(prompt), dict[str, str]()
    for _ in range(TURNS):
        text = ask(base_url, messages, MAX_TOKENS, **options)
        messages.append({"role": "assistant", "content": text})
        match = re.search(r"\{.*\}", text, re.S)
        try:
            if not match:
                raise ValueError(NO_OBJECT)
            call = json.loads(match[0])
            tool, args = call["tool"], call.get("args") or {}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            feedback = f"error: that was no call ({error}). Reply with one JSON object as described."
            messages.append({"role": "user", "content": feedback})
            continue
        print(f"[{tool} {json.dumps(args)[:200]}]", flush=True)
        if tool == "finish":
            print(args.get("answer", ""))
            return 0
        key, result = json.dumps([tool, args], sort_keys=True), result_of(tool, args)
        if results.get(key) == result:
            result += REPEATED
        results[key] = result
        messages.append({"role": "user", "content": f"Result of {tool}:\n{result}\n\nNext call:"})
    return NOT_DONE


def main() -> int:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="reference-schema", description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--style", choices=("schema", "free"), default="schema", help="free: no schema")
    parser.add_argument("prompt")
    options = parser.parse_args()
    return work(options.base_url, options.prompt, options.style == "schema")
