"""The result of a job: tokens of its requests, and whether it was done."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

DONE = 0
"""The exit code by which a program claims success."""


class Call(msgspec.Struct, frozen=True):
    """The token counts of one reply, as reported by the server."""

    prompt: int
    cached: int
    """Prompt tokens in the server's cache."""
    written: int

    @property
    def evaluated(self) -> int:
        """Prompt tokens that were evaluated."""
        return self.prompt - self.cached


class Verdict(msgspec.Struct, frozen=True):
    """Done, one of two kinds of false success, or an honest failure if none is set."""

    done: bool
    hollow: bool
    """Success is claimed, but the job is not done and no file was changed."""
    wrong: bool
    """Success is claimed and files were changed, but the job is not done."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a results file: one run of a job."""

    job: str
    repeat: int
    """Starts at 1."""
    agent: str
    strategy: str
    mode: str
    provider: str
    done: bool
    hollow: bool
    wrong: bool
    exit_code: int | None
    """None: stopped at the limit."""
    calls: int
    prompt_tokens: int
    evaluated_tokens: int
    """Prompt tokens that were not in the server's cache."""
    first_prompt_tokens: int
    """Prompt tokens of the first request."""
    later_cached_share: float | None
    """Cached share of the prompts after the first, from 0 to 1; None without a second request."""
    written_tokens: int
    seconds: float
    commit: str
    date: str
    model: str
    why: str = ""
    """The last line of the check that failed."""


def call_of(body: bytes) -> Call | None:
    """Return the counts in a reply to a chat request, streamed or not; None if it has none.

    llama.cpp's `timings` take precedence over `usage`.
    """
    found: Call | None = None
    for raw in body.split(b"\n"):
        line = raw.removeprefix(b"data:").strip()
        if not line.startswith(b"{"):
            continue
        try:
            value = json.loads(line)
        except ValueError:
            continue
        found = _counts(value) or found
    return found


def _counts(value: dict[str, Any]) -> Call | None:
    if timings := value.get("timings"):
        cached = timings.get("cache_n", 0)
        return Call(timings["prompt_n"] + cached, cached, timings["predicted_n"])
    if usage := value.get("usage"):
        details = usage.get("prompt_tokens_details") or {}
        return Call(
            usage.get("prompt_tokens") or 0, details.get("cached_tokens") or 0, usage.get("completion_tokens") or 0
        )
    return None


def calls_in_journals(folder: Path) -> list[Call]:
    """Return the counts in the journals of tui-agent's sessions below a folder, for replies that no relay has seen."""
    calls = []
    for journal in sorted(folder.rglob("events.jsonl")):
        for line in journal.read_bytes().splitlines():
            event = json.loads(line)
            usage = event.get("data", {}).get("usage") or {}
            if event.get("type") == "reply.ended" and usage.get("prompt_tokens"):
                cached, written = usage.get("cached_tokens") or 0, usage.get("completion_tokens") or 0
                calls.append(Call(usage["prompt_tokens"], cached, written))
    return calls


def judge(exit_code: int | None, is_correct: bool, changed: bool) -> Verdict:
    """Judge a job by the exit code (None: stopped), the result of its check, and whether any file changed."""
    done = is_correct and exit_code is not None
    claimed = exit_code == DONE and not done
    return Verdict(done=done, hollow=claimed and not changed, wrong=claimed and changed)


def cost(calls: Sequence[Call]) -> dict[str, Any]:
    """The fields of a row that count requests and tokens."""
    later = calls[1:]
    read = sum(call.prompt for call in later)
    share = round(sum(call.cached for call in later) / read, 4) if read else None
    return {
        "calls": len(calls),
        "prompt_tokens": sum(call.prompt for call in calls),
        "evaluated_tokens": sum(call.evaluated for call in calls),
        "first_prompt_tokens": calls[0].prompt if calls else 0,
        "later_cached_share": share,
        "written_tokens": sum(call.written for call in calls),
    }
