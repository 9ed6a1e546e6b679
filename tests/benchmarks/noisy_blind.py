"""A client that never tells the model what was wrong: it asks the same again, up to a bound. The yardstick."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.noisy_jobs import COMMAND, PASSED, Job, Outcome

ROUNDS = 25
QUIET = 1.5
"""Seconds without a byte after which it asks again."""
_FIELDS = {
    "read_file": ("path",),
    "write_file": ("path", "content"),
    "edit_file": ("path", "old_string", "new_string"),
    "run_terminal_command": ("command",),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name.replace("_", " "),
            "parameters": {
                "type": "object",
                "properties": {field: {"type": "string"} for field in fields},
                "required": list(fields),
            },
        },
    }
    for name, fields in _FIELDS.items()
]


class _Bad(Exception):
    """A reply that can't be used."""


async def run_blindly(job: Job, folder: Path, url: str) -> Outcome:
    """Work on a task over OpenAI's API. A text without a call counts as the end, as it does in the field."""
    out = Outcome(job=job, ended="limit", said=False, right=False, writes=0, tested=False)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent. Use the tools."},
        {"role": "user", "content": job.task},
    ]
    async with httpx.AsyncClient(timeout=QUIET, trust_env=False) as http:
        for _ in range(ROUNDS):
            try:
                message = await _ask(http, url, messages)
                done = [await asyncio.to_thread(_carry_out, one, folder, out) for one in _calls(message)]
            except (_Bad, httpx.HTTPError):
                continue
            if not done:
                out.ended, out.said = "done", job.report in str(message.get("content"))
                out.why = str(message.get("content"))
                break
            messages += [message, *done]
    out.right = await asyncio.to_thread(job.right, folder)
    return out


async def _ask(http: httpx.AsyncClient, url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": "mock-model", "messages": messages, "tools": TOOLS, "stream": False}
    reply = await http.post(f"{url}/v1/chat/completions", json=body)
    if reply.status_code != 200:
        raise _Bad(reply.text)
    try:
        message = reply.json()["choices"][0]["message"]
    except (ValueError, LookupError) as error:
        raise _Bad(str(error)) from error
    if not message.get("tool_calls") and not (message.get("content") or "").strip():
        raise _Bad("empty")
    return dict(message)


def _calls(message: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
    """The calls, all of them sound; else the whole reply is thrown away."""
    found = []
    for one in message.get("tool_calls") or ():
        name, fields = one["function"]["name"], _FIELDS.get(one["function"]["name"])
        try:
            given = json.loads(one["function"]["arguments"])
        except ValueError as error:
            raise _Bad(str(error)) from error
        if fields is None or set(given) != set(fields) or not all(isinstance(v, str) for v in given.values()):
            raise _Bad(name)
        found.append((one["id"], name, given))
    return found


def _carry_out(call: tuple[str, str, dict[str, str]], folder: Path, out: Outcome) -> dict[str, Any]:
    call_id, name, given = call
    text = "Done."
    path = folder / given.get("path", "")
    match name:
        case "read_file":
            text = path.read_text(encoding="utf-8")
        case "write_file":
            path.write_text(given["content"], encoding="utf-8")
            out.writes += 1
        case "edit_file":
            old = path.read_text(encoding="utf-8")
            if given["old_string"] in old:
                new = old.replace(given["old_string"], given["new_string"], 1)
                path.write_text(new, encoding="utf-8")
                out.writes += 1
            else:
                text = "Error: old_string was not found."
        case _ if given["command"] == COMMAND:
            ran = subprocess.run(COMMAND.split(), cwd=folder, capture_output=True, text=True, check=False, timeout=60)
            text = ran.stdout + ran.stderr
            out.tested = out.tested or (out.writes > 0 and PASSED in ran.stdout)
        case _:
            text = "Error: not here."
    return {"role": "tool", "tool_call_id": call_id, "content": text}
