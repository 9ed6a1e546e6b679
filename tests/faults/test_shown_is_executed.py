"""What is shown is what runs and what is kept, byte for byte (A9)."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.mock import call, scenario, serve, step
from tests.engine.kit import SessionDriver, run_session
from tests.faults.kit import APPROVE, RunTrace, command, run_calls
from tests.nightly import sampled
from tui_agent.common import paths
from tui_agent.common.domain import Answer, EditAction, RunAction, action_digest
from tui_agent.events import ApprovalExecuted, ApprovalRequested, Event, FileChanged
from tui_agent.platform.files import sha256_of
from tui_agent.text import make_visible

MANY = int(os.environ.get("TUI_AGENT_FUZZED", "120"))
"""Commands in all, played in sessions of BATCH; 1,000 of them take a minute or two."""
BATCH = 40

RECORD = 'printf %s "$BASH_EXECUTION_STRING" > r/{};'
"""The shell itself writes down the text that it was given."""
ODD = (
    "a b  c\t\n\r\x01\x07\x08\x0b\x0c\x1b\x7f\x85\x9b'\"\\`$!*?[]{}()<>|&;#~=%^-+,.:/@_ 0äßµ日本語🙂\u0301\u00a0\u00ad\u200b\u200d\u200e\u202a\u202e\u2066\u2069"
    "\u2028\u2029\u3000\ufeff\ufe0f\U000e0041аеорсх０ａ；／\U0001f468\u200d\U0001f469"
)  # fmt: skip


def quoted(word: str, chance: random.Random) -> str:
    """The word as a shell reads it, in one of several manners."""
    match chance.randrange(5):
        case 0:
            return "'" + word.replace("'", "'\\''") + "'"
        case 1:
            return '"' + "".join("\\" + one if one in '"\\$`' else one for one in word) + '"'
        case 2:
            return "".join("'\n'" if one == "\n" else "\\" + one for one in word) or "''"
        case 3:
            codes = {"'": "\\'", "\\": "\\\\"}
            plain = (
                codes.get(one, one if chance.random() < 0.7 else "".join(f"\\x{byte:02x}" for byte in one.encode()))
                for one in word
            )
            return "$'" + "".join(plain) + "'"
        case _:
            half = len(word) // 2
            return quoted(word[:half], chance) + quoted(word[half:], chance) if half else quoted(word, chance)


def fuzzed(number: int, chance: random.Random) -> str:
    """A harmless command of odd words, gaps and joints."""
    gap = lambda: chance.choice([" ", "  ", "\t", " \\\n", " " * 25])  # noqa: E731 - one of several gaps, each time another
    words = ["".join(chance.choices(ODD, k=chance.randrange(0, 30))) for _ in range(chance.randrange(1, 5))]
    text = gap().join(["printf", "'%s|'", *(quoted(word, chance) for word in words)])
    last = chance.choice(
        [
            "",
            " ",
            "\n",
            " # " + chance.choice(ODD[:4]),
            "; :",
            " && :",
            "\n\n: '\u202e'",
            f" <<< {quoted(words[0], chance)}",
            "\t;",
        ]
    )
    return RECORD.format(number) + gap() + text + last


def journal(session: str) -> list[dict[str, Any]]:
    lines = (paths.sessions_dir() / session / "events.jsonl").read_bytes().splitlines()
    return [json.loads(line) for line in lines]


async def play_through(workspace: Path, commands: list[str]) -> tuple[RunTrace, str]:
    steps: list[dict[str, Any] | str] = []
    for first in range(0, len(commands), 8):
        group = [command(text) for text in commands[first : first + 8]]
        steps += [step("", *group), *["?"] * (len(group) - 1)]
    flags = {"mode": "direct", "iterations": {"direct": len(steps)}, "context_window": 1_000_000}
    async with (
        serve(scenario("go", *steps, "done"), strict=True) as server,
        run_session(server, workspace, flags=flags) as session,
    ):
        watch = SessionDriver(session)
        await session.send("go")
        await watch.ended()
    return RunTrace(watch), session.id


@pytest.mark.slow
@pytest.mark.parametrize("batch", sampled(range(0, MANY, BATCH), 1))
async def test_what_is_shown_is_what_runs_and_what_is_kept(batch: int, workspace: Path) -> None:
    (workspace / "r").mkdir()
    chance = random.Random(20_260_000 + batch)
    numbers = range(batch, min(MANY, batch + BATCH))
    commands = [fuzzed(number, chance) for number in numbers]
    assert len(set(map(make_visible, commands))) == len(commands)  # no two look the same in a dialog
    story, session = await play_through(workspace, commands)
    kept = journal(session)
    asked = {one["data"]["id"]: one["data"] for one in kept if one["type"] == "approval.asked"}
    called = [one["data"]["call"]["arguments"]["command"] for one in kept if one["type"] == "tool.started"]
    executed = [one["data"] for one in kept if one["type"] == "approval.executed"]
    shown = [event for event in story.watch.of(ApprovalRequested) if isinstance(event.action, RunAction)]
    assert [event.action.command for event in shown if isinstance(event.action, RunAction)] == commands == called
    assert [asked[event.id]["action"]["command"] for event in shown] == commands
    assert [(event.id, action_digest(event.action)) for event in shown] == [
        (one["id"], one["digest"]) for one in executed
    ]
    assert [one.digest for one in story.watch.of(ApprovalExecuted)] == [event.digest for event in shown]
    for number, text in zip(numbers, commands, strict=True):
        assert (workspace / "r" / str(number)).read_bytes() == text.encode(), text


def edit(number: int) -> dict[str, Any]:
    return call("edit_file", path=f"f{number}", old_string="old", new_string=f"new {number}")


async def test_a_changed_file_voids_its_approval(workspace: Path) -> None:
    count = 40
    shown: dict[str, list[EditAction]] = {}

    def meddle(event: Event) -> Answer:
        if isinstance(event, ApprovalRequested) and isinstance(event.action, EditAction):
            before = shown.setdefault(event.action.display, [])
            before.append(event.action)
            path = Path(event.action.path)
            if len(before) == 1:  # an editor saves while the dialog is open
                kind = int(event.action.display[1:]) % 4
                if kind == 0:
                    path.write_bytes(b"theirs\n" + path.read_bytes())
                elif kind == 1:
                    path.write_bytes(path.read_bytes().replace(b"rest", b"REST"))
                elif kind == 2:
                    path.write_bytes(b"nothing of it\n")
                else:
                    path.unlink()
        return APPROVE

    for number in range(count):
        (workspace / f"f{number}").write_text("old\nrest\n")
    story = await run_calls(workspace, *map(edit, range(count)), answer=meddle, at_once=5)
    carried_out = {event.change.display: event for event in story.watch.of(FileChanged)}
    for number in range(count):
        name, (first, *_) = f"f{number}", shown[f"f{number}"]
        path = workspace / name
        theirs = [b"theirs\nold\nrest\n", b"old\nREST\n", b"nothing of it\n", None][number % 4]
        now = path.read_bytes() if path.exists() else None
        if name in carried_out:  # then it was asked for again, for what is there now
            assert theirs is not None and carried_out[name].change.before == sha256_of(theirs) != first.before
            assert now == theirs.replace(b"old", f"new {number}".encode())
        else:
            assert now == theirs
        if theirs is None:  # nothing is asked about a file that is gone
            assert len(shown[name]) == 1
    voided = {action_digest(first) for first, *_ in shown.values()}
    assert len(voided) == count
    assert not voided & {event.digest for event in story.watch.of(ApprovalExecuted)}
