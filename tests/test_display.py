"""Text of models, tools and files on every outlet: what is stripped, marked or kept (A6, A9)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from tui_agent import events as e
from tui_agent.commands.output import print_line
from tui_agent.common.domain import ToolResult
from tui_agent.export.sections import trimmed_text
from tui_agent.frontends.line_mode.loop import Repl
from tui_agent.frontends.plain import PlainText
from tui_agent.frontends.web.feed import Feed
from tui_agent.storage.chat_log import ChatLog
from tui_agent.text import Cleaner, RevealingStream, SecretMask, clean, displayable, make_visible, reveal, visible_name
from tui_agent.text.characters import hidden, marked
from tui_agent.text.patterns import read_table
from widgets.styled_text import chop

CASES = json.loads((Path(__file__).parent / "corpora" / "display.json").read_text())
SHOW = {"command": make_visible, "path": visible_name}
PROSE = [case for case in CASES if case["context"] not in SHOW]
LINES = [
    (f"{number:03}: {case['text']}", f"{number:03}: {case['shown']}")
    for number, case in enumerate(PROSE)
    if case["shown"] is not None and not {"\n", "\r"} & set(case["text"] + case["shown"])
]
"""Cases that fit on a line: as received, and as shown."""
RECEIVED = clean("\n".join(line for line, _ in LINES) + "\n")
"""All of them as the engine emits them."""
SHOWN = [line for _, line in LINES if "byte order" not in line]


def test_every_case_is_shown_as_the_table_says() -> None:
    wrong = []
    for case in CASES:
        text, expected = case["text"], case["expected"]
        shown = SHOW.get(case["context"], displayable)(text)
        is_right = (shown == text) == (expected == "keep") if case["shown"] is None else shown == case["shown"]
        if not is_right and not (expected == "keep" and case["shown"] is None):
            wrong.append((case["name"], shown))
    assert wrong == []


def test_long_texts_take_bounded_space() -> None:
    assert displayable("\u200b" * 100_000).count("<U+200B>") < 250
    assert len(displayable("a" + "\u0489" * 1000)) < 100
    assert displayable("a\x1b[" + "1;" * 5000 + "mb") == "ab"
    assert make_visible("ls" + " " * 2000 + "; rm") == "ls⟨2000 spaces⟩; rm"
    assert displayable("a" * 100_000) == "a" * 100_000


def test_a_stream_shows_the_same_however_it_is_cut() -> None:
    for case in PROSE:
        for size in (1, 2, 3, 7):
            assert in_pieces(case["text"], size) == displayable(case["text"]), (case["name"], size)


CHARACTERS = "ab1 \n/:.@שם\u0645\u06cc\u0915\u094d\u200b\u200c\u200d\u200f\u202e\ufe0f\ufeff❤👨\u0301\U000e0067\U0001f3f4\u2800\u2813"


@given(
    st.lists(st.sampled_from([*CHARACTERS, "https://", "xn--pple-43d.com", "\u0430pple"]), max_size=30),
    st.integers(1, 9),
)
def test_a_random_stream_shows_the_same_however_it_is_cut(pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    assert in_pieces(text, size) == displayable(text)
    assert reveal(displayable(text)) == displayable(text)


def in_pieces(text: str, size: int) -> str:
    cleaner, stream = Cleaner(), RevealingStream()
    shown = [stream.feed(cleaner.feed(text[at : at + size])) for at in range(0, len(text), size)]
    return "".join([*shown, stream.feed(cleaner.flush()), stream.flush()])


def test_the_table_names_its_sources_and_has_no_character_twice() -> None:
    table = read_table("tui_agent.text", "characters.json")
    seen: set[int] = set()
    for group in table["groups"]:
        assert all(source in table["sources"] for source in group["source"].split(", "))
        assert {group["text"], group["exact"], group["model"]} <= {"strip", "mark", "keep"}
        codes = {
            code
            for entry in group["codes"].split()
            for code in range(int(entry.split("-")[0], 16), int(entry.split("-")[-1], 16) + 1)
        }
        assert not codes & seen, group["name"]
        seen |= codes
    stripped = {chr(code) for code in range(0x300) if clean(f"a{chr(code)}b") == "ab"}
    assert stripped == {chr(code) for code in [*range(9), *range(11, 32), *range(127, 160)]} - set("\x1b\r") - set(
        "\x90\x98\x9b\x9d\x9e\x9f"
    )
    assert marked("model").pattern != marked("text").pattern and hidden("exact") is not hidden("text")


# --- outlets --------------------------------------------------------------------------------


def records() -> Iterator[e.Record]:
    """A reply with all the lines, in pieces, and a call with them as output."""

    pieces = [e.TextDelta(text=RECEIVED[at : at + 5]) for at in range(0, len(RECEIVED), 5)]
    started = e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1)
    for seq, event in enumerate([started, *pieces, e.ReplyEnded(text=RECEIVED, ms=1, stop="stop")], 1):
        yield e.Record(seq=seq, at="2026-01-01T00:00:00.000+00:00", event=event, run="run", node="reply", parent="")


def missing(shown: str) -> list[str]:
    """The lines that an outlet does not show as it should."""
    return [line for line in SHOWN if line not in shown]


def test_exec() -> None:
    out = io.StringIO()
    plain = PlainText(out, SecretMask({}))
    for record in records():
        plain.show(record)
    assert missing(out.getvalue()) == []


def test_line_mode() -> None:
    printed: list[str] = []
    terminal = SimpleNamespace(print=lambda text, style="": printed.append(text))
    repl = cast(Any, SimpleNamespace(_lines=SimpleNamespace(end_line=lambda: None), terminal=terminal))
    repl.session = SimpleNamespace(mask=SecretMask({}))
    Repl.print(repl, RECEIVED)
    assert missing(printed[0]) == []


def test_chat_log() -> None:
    log = ChatLog()
    assert missing("".join(log.project(record) for record in records())) == []


def test_web_page() -> None:
    feed = Feed(cast(Any, SimpleNamespace(mask=SecretMask({}))))
    reader = feed.read()  # pieces that no reader waits for are dropped
    for record in records():
        feed._add(record)
    assert reader in feed.readers
    frames = [json.loads(frame.data) for entry in feed._entries for frame in entry.frames if frame.name == "text"]
    assert missing("".join(frame["content"] for frame in frames)) == []
    ended = [frame.data for entry in feed._entries for frame in entry.frames if frame.name == "reply.ended"]
    assert missing(json.loads(ended[0])["data"]["text"]) == []


def test_export() -> None:
    assert missing(trimmed_text(RECEIVED)) == []


def test_screen() -> None:
    lines = [chop([(line, Style())], 10_000)[0].text for line in RECEIVED.split("\n")]
    assert [line for line in SHOWN if line.replace("\t", "    ") not in lines] == []


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(RECEIVED)
    assert missing(capsys.readouterr().out) == []


def test_plain_text_says_what_commands_and_checks_came_to() -> None:
    out = io.StringIO()
    plain = PlainText(out, SecretMask({}))
    for number, event in enumerate(
        (
            e.ToolFinished(call_id="c1", name="run_terminal_command", result=ToolResult(success=True), text="", ms=1),
            e.ToolFinished(call_id="c2", name="read_file", result=ToolResult(success=True), text="", ms=1),
            e.ToolFinished(
                call_id="c3", name="read_file", result=ToolResult(success=False, code="interrupted"), text="", ms=1
            ),
            e.StepVerified(met=True, command="make test", by="command", expected="", actual="exit code 0"),
        )
    ):
        plain.show(e.Record(seq=number, at="2026-01-01T00:00:00Z", event=event))
    assert out.getvalue().splitlines() == ["  ✓ exit code 0", "  ■ Stopped.", "  ✓ Check `make test` passed"]
