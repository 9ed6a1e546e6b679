"""Hostile text, sessions that contain it, and a strict check of terminal output."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from tests.scenes.build import Scene
from tui_agent import events as e
from tui_agent.common.domain import Diff, EditAction, Fault, FileChange, Grant, Hunk, RunAction, Severity, ToolResult
from tui_agent.events import Record

ALLOWED = re.compile(
    r"\x1b\[[0-9;:]*m"  # colours
    r"|\x1b\[[0-9]+;[0-9]+H"  # to a place
    r"|\x1b\[\?(?:1049|1000|1003|1015|1006|1016|1004|2004|2026|2048|25|7)[hl]"
    r"|\x1b\[\?(?:2026|2048)\$p"  # what can you do
    r"|\x1b\[(?:>[0-9]+|<)u"  # kitty's keys
    r"|\x1b\]22;[a-z-]{0,20}\x07"  # the shape of the mouse pointer
    r"|\x1b\]8;id=[0-9-]+;(?:https?://|mailto:|file:///)[!-~]{1,2000}\x1b\\"  # a hyperlink to a target in ASCII,
    r"\x1b\[[0-9;]*m[^\x00-\x1f\x7f-\x9f]*\x1b\[0m\x1b\]8;;\x1b\\"  # which ends after its text
)
"""All that Textual writes besides text. No titles, no clipboard, no bell, no reports asked for."""

FORBIDDEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u206f\u2028\u2029\ufeff]")
"""Bidirectional marks are not among them: they stay in right-to-left text."""


def find_forbidden(written: str) -> str:
    """Return the first forbidden sequence with its context, or an empty string."""
    text = ALLOWED.sub("", written)
    if found := FORBIDDEN.search(text):
        return ascii(text[max(0, found.start() - 60) : found.end() + 60])
    return ""


_ST = ("\x07", "\x1b\\", "\x9c", "")

FAMILIES = (
    lambda r: f"\x1b]52;c;{r.choice(('aGk=', '?'))}{r.choice(_ST)}",
    lambda r: f"\x1b]{r.choice('012')};pwned{r.choice(_ST)}",
    lambda r: f"\x1b]8;;http://evil.example{r.choice(_ST)}click\x1b]8;;{r.choice(_ST)}",
    lambda r: f"\x1b]{r.choice(('9;hi', '777;notify;a;b', '1337;File=:AA', '4;1;?'))}{r.choice(_ST)}",
    lambda r: r.choice(("\x1b[2J", "\x1b[H\x1b[J", "\x1b[3J", "\x1bc", "\x1b[!p", "\x1b[?1049l", "\x1b[8m")),
    lambda r: r.choice(("\x1b[6n", "\x1b[c", "\x1b[>q", "\x1b[21t", "\x1bZ", "\x05")),
    lambda r: f"\x1bP+q544e{r.choice(_ST)}",
    lambda r: f"\x1b{r.choice('_^X')}payload{r.choice(_ST)}",
    lambda r: r.choice(("\x9b2J", "\x9d52;c;aGk=", "\x90q", "\x9f", "\x9e", "\x85", "\x8d")) + r.choice(_ST),
    lambda r: r.choice(("\x1b", "\x1b[", "\x1b]", "\x1b]52;c;", "\x1bP", "\x9b", "\x1b[38;5;")),
    lambda r: r.choice(("\u202egnp.exe", "\u2066x\u2069", "\u200fרע\u200e", "\u061c", "\u202a\u202d\u202c")),
    lambda r: r.choice(("a\u200bb", "\u2060", "\ufeff", "\u200e", "\U000e0041\U000e0042", "\u2028", "\u2029")),
    lambda r: r.choice(("[@click=app.quit]boo[/]", "[@click=app.exit(1)]x", "[@click=screen.dismiss]y[/]")),
    lambda r: r.choice(("[/]", "[/x]", "a[/b]c", "[link=http://x", "[link=http://x]y[/link]", "[bold")),
    lambda r: r.choice(("[on red]", "[red]x[/red]", "[$error]", "[b +", "\\[x]", "[[/]]", "[reverse blink]")),
    lambda r: r.choice(("[1, 2, 3]", '[{"a": [null]}]', "x = a[i] and d['k']", "[]", "f[0](g[1:])")),
    lambda r: r.choice(("\ud800", "a\udfffb", "\udc80\udcff")),
    lambda r: "e" + "\u0301" * r.choice((3, 40)),
    lambda r: r.choice(("\x00", "\x08\x08\x08ok", "\x7f", "\x0b\x0c", "\r", "over\rwritten", "\x0e\x0f", "\x1a")),
    lambda r: r.choice(("日本\u202e語", "👩\u200d💻", "🇩🇪", "\uff0fetc", "e\ufe0f", "\t", "\xa0", "\xad")),
)


def hostile_texts(count: int, seed: int) -> list[str]:
    """Return hostile texts of all families, each with a number by which it can be found."""
    dice = random.Random(seed)
    made = []
    for number in range(count):
        first = FAMILIES[number % len(FAMILIES)](dice)
        more = dice.choice(FAMILIES)(dice) if dice.random() < 0.3 else ""
        made.append(f"h{seed}x{number}h {first}{dice.choice(('', ' ', 'tail'))}{more}z")
    return made


LONG_TEXTS = ("e" + "\u0301" * 5_000, "\x1b]52;c;" + "A" * 20_000, "x" * 10_000, "[/" * 5_000, "\u202e" * 2_000)


def split_randomly(text: str, dice: random.Random) -> Iterator[str]:
    """Split a text into random pieces, as a model sends it."""
    at = 0
    while at < len(text):
        size = dice.choice((1, 2, 3, 7, 30))
        yield text[at : at + size]
        at += size


def hostile_session(given: list[str], seed: int = 0) -> list[Record]:
    """Return a session with the given texts in every field that can hold text."""
    dice = random.Random(seed)
    more = iter(given)
    scene = Scene().opened(model=next(more), workspace=f"/w/{next(more)}", provider=next(more))
    scene.emit(e.SessionTitled(title=next(more)), node="")
    left = list(more)
    while left:
        part = [left.pop() if left else given[0] for _ in range(20)]
        _turn(scene, part, dice)
    return scene.records


def _turn(scene: Scene, text: list[str], dice: random.Random) -> None:
    scene.ask(text[0]).reply(phases=("reading",))
    scene.emit(e.ReplyPhase(phase="loading", detail=text[1]))
    for piece in split_randomly(text[2], dice):
        scene.emit(e.ReasoningDelta(text=piece), seconds=0.01)
    body = f"{text[3]}\n\n# {text[4]}\n\n- {text[5]}\n\n|a|\n|-|\n|{text[6]}|\n\n```py\n{text[7]}\n```\n"
    for piece in split_randomly(body, dice):
        scene.emit(e.TextDelta(text=piece), seconds=0.01)
    call = scene.call(text[8], path=text[9], **{text[10][:40]: text[10]})
    scene.end(body, call, thought=text[2]).start(call, text[11]).output(text[12], text[13])
    hunk = Hunk(old_start=1, old_count=1, new_start=1, new_count=1, lines=("-" + text[14], "+" + text[15]))
    diff = Diff(path=text[16], kind="modify", hunks=(hunk,), added=1, removed=1, note=text[17])
    change = FileChange(path="/w/x", display=text[16], kind="modify", added=1, removed=1, before=None, after=None)
    scene.emit(e.FileChanged(change=change, diff=diff))
    scene.finish(call, ToolResult(success=False, error=text[18], data=text[19]), text=text[12])
    scene.node = ""
    scene.emit(e.Notice(level="error", text=text[18], code="x"))
    scene.emit(e.UserShellCommand(command=text[9], cwd=text[16], output=text[19], exit_code=1))
    scene.emit(e.RetryScheduled(attempt=1, of=3, seconds=0.1, why=text[17]))
    fault = Fault(kind="status", message=text[18])
    scene.reply().end("", fault=fault, stop="error").done("failed", text[19])
    scene.emit(e.MessageQueued(id=f"q{len(scene.records)}", text=text[1]))


def hostile_command(text: list[str]) -> list[Record]:
    """Return an approval request for a command with hostile fields."""
    scene = Scene().opened().ask(text[0]).reply()
    call = scene.call("run_terminal_command", command=text[1])
    scene.end("", call).start(call, text[2])
    action = RunAction(
        command=text[1], cwd=f"/w/{text[3]}", severity=Severity.HIGH, reasons=(text[4],), env_changes=(text[5],)
    )
    grant = Grant(kind="run", pattern=text[6], cwd=text[3])
    return scene.request(action, text[7], grant).records


def hostile_edit(text: list[str]) -> list[Record]:
    """Return an approval request for an edit with hostile fields."""
    scene = Scene().opened().ask(text[0]).reply()
    call = scene.call("edit_file", path=text[1])
    scene.end("", call).start(call, text[2])
    lines = tuple(sign + one.replace("\n", " ") for sign, one in zip("-+ -+ ", text[3:9], strict=False))
    hunk = Hunk(old_start=1, old_count=3, new_start=1, new_count=3, lines=lines)
    diff = Diff(path=text[1], kind="modify", hunks=(hunk,), added=2, removed=2, note=text[9])
    action = EditAction(path=f"/w/{text[1]}", display=text[1], diff=diff, before="0" * 64, after="1" * 64)
    return scene.request(action, text[2]).records


def hostile_question(text: list[str]) -> list[Record]:
    """Return a question with hostile fields."""
    scene = Scene().opened().ask(text[0])
    return scene.emit(e.QuestionAsked(id="q1", question=text[1], options=tuple(text[2:6]))).records
