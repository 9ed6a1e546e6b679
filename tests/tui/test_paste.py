from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import _xterm_parser, events
from textual._parser import Parser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.pilot import Pilot

from tests.doubles.terminal import Terminal
from tests.tui.kit import FakeClock, app_for, run_app, wait_until_idle
from tui_agent.text import clean
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.driver import ScreenDriver
from tui_agent.tui.paste import (
    EMBEDDED_GRACE,
    ENTER_GRACE,
    GRACE,
    MAX_GRACE,
    MAX_OVERFLOW_TAIL,
    MAX_PASTE,
    STOP_KEYS,
    TORN_TIMEOUT,
    TORN_WINDOW,
    KeyParser,
    PasteGuard,
)

START, END = "\x1b[200~", "\x1b[201~"

NASTY = [
    "plain",
    "two\rlines\r\nand\nthree",
    "nul \x00 bell \x07 del \x7f",
    "a \x1b[31mcoloured\x1b[0m log",
    "\x1b\x1b\x1b[A\x1b[B\x1bOP",
    "enter\r\x1b[13u\x1b[27;5u",
    "y\x1b[201 ~\x1b[201\x1b[20\x1b[2",
    f"closed{END}\rrm -rf ~\r",
    f"closed{END}{END}a{START}b",
    "\x9b201~\x9bA\x85\x90",
    "\x1b]52;c;aGk=\x07\x1b]0;t\x1b\\",
    "\x1b[<0;5;5M\x1b[<0;5;5m\x1b[I\x1b[O",
    "\u202ebidi\u200b",
    "\x1b",
    "",
    "x" * 100_000 + "\x1b[",
]


class Guarded:
    """A parser on a clock of its own, and what it said so far."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.parser = PasteGuard(clock=self.clock)
        self.messages: list[Message] = []

    def feed(self, *chunks: str, every: float = 0.0) -> None:
        for chunk in chunks:
            self.messages += self.parser.feed(chunk)
            self.wait(every)

    def wait(self, seconds: float) -> None:
        self.clock.now += seconds + 1e-6  # a sum of fractions falls short
        self.messages += self.parser.tick()

    @property
    def told(self) -> list[tuple[str, str]]:
        return [tell(message) for message in self.messages]


def tell(message: Message) -> tuple[str, str]:
    if isinstance(message, events.Paste):
        return ("paste", message.text)
    assert isinstance(message, events.Key)
    return ("key", message.key)


def split(text: str, places: Iterable[int]) -> list[str]:
    cuts = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[one:two] for one, two in pairwise(cuts)]


@pytest.mark.parametrize("body", NASTY, ids=range(len(NASTY)))
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_paste_is_one_paste_whatever_it_holds(body: str, size: int) -> None:
    guarded = Guarded()
    whole = START + body + END
    guarded.feed(*(whole[at : at + size] for at in range(0, len(whole), size)))
    guarded.wait(EMBEDDED_GRACE)
    assert guarded.told == [("paste", clean(body))]


@given(st.text(st.sampled_from("\x1b[]0123~;?<MmuA\r\n\x00\x03\x07\x9b\x9d ay\u202e")), st.lists(st.integers(0, 300)))
def test_no_split_makes_keys_of_a_paste(body: str, places: list[int]) -> None:
    guarded = Guarded()
    guarded.feed(*split(START + body + END, places))
    guarded.wait(EMBEDDED_GRACE)
    assert guarded.told == [("paste", clean(body))]


@given(st.text(st.sampled_from("\x1b[20~1ayA;u")), st.lists(st.integers(0, 300)))
def test_outside_of_a_paste_nothing_changes(text: str, places: list[int]) -> None:
    if START in text:
        return
    guarded = Guarded()
    plain = KeyParser()
    chunks = split(text, places)
    guarded.feed(*chunks)
    said = [message for chunk in chunks for message in plain.feed(chunk)]
    assert guarded.told == [tell(message) for message in said]


def test_keys_around_a_paste_stay_keys_in_their_order() -> None:
    guarded = Guarded()
    guarded.feed(f"a{START}b\rc{END}\r")
    assert guarded.told == [("key", "a")]
    guarded.wait(GRACE)
    guarded.feed("d", f"{START}e{END}")
    guarded.wait(GRACE)
    assert guarded.told == [("key", "a"), ("paste", "b\nc"), ("key", "enter"), ("key", "d"), ("paste", "e")]


def test_a_key_that_is_held_down_can_not_keep_a_paste_back() -> None:
    guarded = Guarded()
    guarded.feed(START + "text" + END)
    guarded.feed(*["a"] * 150, every=GRACE * 0.5)
    assert guarded.clock.now - 1000.0 > MAX_GRACE
    assert guarded.told[0] == ("paste", "text")
    assert guarded.told.count(("key", "a")) == 150


def test_a_long_paste_with_its_end_and_keys_in_it_is_text_however_long_it_takes() -> None:
    guarded = Guarded()
    guarded.feed(START, *[f"y{END}\r\x03\x04" * 50] * 300, every=EMBEDDED_GRACE * 0.5)
    assert guarded.clock.now - 1000.0 > 2 * MAX_GRACE
    assert guarded.told == []
    guarded.feed(END)
    guarded.wait(EMBEDDED_GRACE)
    assert [kind for kind, _ in guarded.told] == ["paste"]


def test_a_torn_paste_ends_by_itself_although_keys_come() -> None:
    guarded = Guarded()
    guarded.feed(START + "the first half of it", *"xyz", every=TORN_TIMEOUT / 3.5)
    guarded.wait(TORN_TIMEOUT / 3.5)
    assert guarded.told == [("paste", "the first half of itxyz")]
    guarded.feed("q")
    guarded.wait(GRACE)
    assert guarded.told[-1] == ("key", "q")
    assert TORN_TIMEOUT + 0.1 < 2.0


@pytest.mark.parametrize("key", STOP_KEYS)
def test_ctrl_c_works_in_a_torn_paste(key: str) -> None:
    guarded = Guarded()
    guarded.feed(START + "half")
    guarded.wait(0.1)
    guarded.feed(key)
    assert guarded.told == [("paste", "half"), ("key", "ctrl+c")]


def slowly(text: str, size: int, rate: float) -> tuple[list[str], float]:
    """What a slow line delivers: pieces of `size`, and the seconds between them at `rate` characters a second."""
    return [text[at : at + size] for at in range(0, len(text), size)], size / rate


COMMANDS = "one line of it\r!rm -rf ~\ry\r/quit\r"


@pytest.mark.parametrize(("size", "rate"), [(1, 960), (1, 240), (8, 960), (16, 1800), (3, 300)])
def test_a_paste_through_a_slow_line_is_one_paste(size: int, rate: float) -> None:
    guarded = Guarded()
    pieces, every = slowly(START + COMMANDS * 100 + END, size, rate)
    guarded.feed(*pieces, every=every)
    guarded.wait(GRACE)
    assert guarded.clock.now - 1000.0 > TORN_TIMEOUT
    assert guarded.told == [("paste", clean(COMMANDS * 100))]


@pytest.mark.parametrize("stall", [TORN_TIMEOUT * 1.1, TORN_WINDOW * 0.7])
@pytest.mark.parametrize(("size", "rate"), [(1, 120), (1, 960), (8, 960), (4096, 1_000_000)])
def test_what_comes_after_a_stall_is_no_keys(size: int, rate: float, stall: float) -> None:
    guarded = Guarded()
    first, every = slowly(START + COMMANDS * 5, size, rate)
    guarded.feed(*first, every=every)
    guarded.wait(stall)
    rest, _ = slowly("\r" + COMMANDS * 5 + END, size, rate)
    guarded.feed(*rest, every=every)
    guarded.wait(EMBEDDED_GRACE)
    keys = "".join(key for kind, key in guarded.told if kind == "key")
    assert keys == ""
    assert "".join(text for _, text in guarded.told) == clean(COMMANDS * 5) + clean("\r" + COMMANDS * 5)
    guarded.feed("a", "\r", "ab\r")
    assert [key for _, key in guarded.told[-5:]] == ["a", "enter", "a", "b", "enter"]


def test_an_enter_that_leads_the_rest_of_a_torn_paste_is_a_line_break() -> None:
    guarded = Guarded()
    guarded.feed(START + "half")
    guarded.wait(TORN_TIMEOUT)
    guarded.feed("\r")
    guarded.wait(ENTER_GRACE * 0.8)
    guarded.feed("!ls\r")
    guarded.wait(EMBEDDED_GRACE)
    assert guarded.told == [("paste", "half"), ("paste", "\n!ls\n")]


def test_single_keys_by_hand_are_keys_soon_after_a_torn_paste() -> None:
    guarded = Guarded()
    guarded.feed(START + "half")
    guarded.wait(TORN_TIMEOUT)
    guarded.feed(*"ok", every=0.01)
    guarded.wait(EMBEDDED_GRACE)
    guarded.feed("\x1b[A", "\x1b[B\x1b[B", "\x1bb", "\x1b", "[C", every=0.01)
    guarded.feed(*"x\x7f", "é", every=GRACE)
    guarded.feed("\r", every=ENTER_GRACE)
    keys = [key for kind, key in guarded.told[1:] if kind == "key"]
    assert keys == ["up", "down", "down", "alt+b", "right", "x", "backspace", "é", "enter"]
    assert guarded.told[1] == ("paste", "ok")  # so close to each other no two fingers type


def test_the_mouse_is_no_text_after_a_torn_paste() -> None:
    guarded = Guarded()
    moves = "\x1b[<35;20;10M" * 5
    guarded.feed(START + "half", *[moves] * 20, every=TORN_TIMEOUT / 10)
    guarded.feed(*[moves] * 5, every=0.01)
    texts = [message.text for message in guarded.messages if isinstance(message, events.Paste)]
    assert texts == ["half"]
    assert sum(isinstance(message, events.MouseMove) for message in guarded.messages) > 25
    guarded.feed("\r", *[moves] * 50, every=0.01)
    assert sum(isinstance(message, events.Key) and message.key == "enter" for message in guarded.messages) == 1


@given(st.text(st.sampled_from("\x1b[]01~ay\r\n\x9b")), st.lists(st.integers(0, 300)))
def test_no_split_makes_an_enter_of_the_rest_of_a_torn_paste(body: str, places: list[int]) -> None:
    guarded = Guarded()
    guarded.feed(START + "half")
    guarded.wait(TORN_TIMEOUT)
    guarded.feed(*split("x\r" + body.replace("\x1b", "\x1b[m") + "\ry" + END, places), every=GRACE * 0.4)
    guarded.wait(EMBEDDED_GRACE)
    assert ("key", "enter") not in guarded.told


def test_an_escape_key_is_still_told_from_a_marker() -> None:
    guarded = Guarded()
    guarded.feed("\x1b")
    guarded.parser._timeout_time = 0.0  # Textual's own clock
    guarded.wait(0)
    guarded.feed("[200~")
    assert guarded.told[0] == ("key", "escape")
    assert guarded.told[-1] == ("key", "tilde")


def test_the_end_of_the_input_ends_a_paste() -> None:
    guarded = Guarded()
    guarded.feed(START + "half", "")
    assert guarded.told == [("paste", "half")]


def test_a_paste_is_bounded() -> None:
    guarded = Guarded()
    guarded.feed(START, *["x" * 1_000_000] * 20, "the end of it\x1b[20", "1~")
    guarded.wait(GRACE)
    (paste,) = guarded.messages
    assert isinstance(paste, events.Paste)
    assert MAX_PASTE <= len(paste.text) <= MAX_PASTE + 1_100_000
    assert paste.text[-100:].endswith("x\n[… 4,000,013 more characters of this paste were left out]")


@pytest.mark.parametrize("over", [0, 1, 5, 7, 100, MAX_OVERFLOW_TAIL, MAX_OVERFLOW_TAIL + 1])
def test_a_paste_that_is_a_little_too_long_says_so(over: int) -> None:
    guarded = Guarded()
    whole = "x" * MAX_PASTE + "y" * over + END
    guarded.feed(START, whole[:MAX_PASTE], *[whole[at : at + 3] for at in range(MAX_PASTE, len(whole), 3)])
    guarded.wait(GRACE)
    (paste,) = guarded.messages
    assert isinstance(paste, events.Paste)
    said = f"\n[… {over:,} more characters of this paste were left out]" if over else ""
    assert paste.text[MAX_PASTE:] == said


def test_textual_still_has_what_the_guard_builds_upon() -> None:
    assert (START, END) == (_xterm_parser.BRACKETED_PASTE_START, _xterm_parser.BRACKETED_PASTE_END)
    assert {"feed", "tick", "parse"} <= set(vars(Parser))
    assert hasattr(PasteGuard(), "_timeout_time")
    for name in (
        "_run_input_thread",
        "_sigtstp_application",
        "_sigcont_application",
        "suspend_application_mode",
        "resume_application_mode",
        "stop_application_mode",
        "run_input_thread",
    ):
        assert callable(getattr(LinuxDriver, name)), name
    source = inspect.getsource(LinuxDriver)
    for name in ("_mouse_pixels", "_writer_thread", "exit_event", "WriterThread(self._file)"):
        assert name in source, name
    assert issubclass(ScreenDriver, LinuxDriver)


# --- in the composer ---


async def pasted(pilot: Pilot[int], app: TuiAgentApp, text: str) -> None:
    app.post_message(events.Paste(text))
    await wait_until_idle(pilot)


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (200, 50)])
async def test_a_big_paste_can_be_undone_at_any_size(size: tuple[int, int]) -> None:
    app, _session = app_for("empty")
    async with run_app(app, size) as pilot:
        for text in ("line\n" * 400, "x" * 3_000, "ab\u202ec\t" * 50):
            await pilot.press(*"draft")
            await pasted(pilot, app, text)
            await pilot.press("alt+e")
            assert app.prompt.text == f"draft{text}"
            for _undo in range(3):
                await pilot.press("ctrl+underscore")
                await wait_until_idle(pilot)
            await pilot.press("x")
            assert app.is_running
            app.prompt.clear()
            await wait_until_idle(pilot)


# --- through a real terminal ---


@asynccontextmanager
async def told() -> AsyncIterator[Terminal]:
    terminal = Terminal("-m", "tests.tui.pty_app", "empty", "told", size=(100, 30))
    try:
        await terminal.wait_for_text("Ask for a change")
        yield terminal
    finally:
        terminal.close()


async def test_a_paste_with_keys_in_it_neither_sends_nor_loses_text() -> None:
    async with told() as terminal:
        terminal.type(f"{START}ls\r\x1b[31mred\x1b[0m\x00\r\x1b[13u{END}\r\x1b[201{END}")
        await terminal.wait_for_text("red")
        terminal.type(b"\x9b\xff\xfe")  # bytes that are no text at all
        await terminal.wait_until_quiet(0.3)
        assert "sent" not in terminal.text
        terminal.type("\r")
        await terminal.wait_for_text("sent")
        shown = "".join(terminal.text.split())
        assert "sent'ls\\nred\\n" in shown
        assert "\\x1b" not in shown


async def test_a_torn_paste_gives_the_keys_back() -> None:
    async with told() as terminal:
        terminal.type(START + "torn text")
        said = False
        while not said:
            await asyncio.sleep(0.2)  # nobody presses a key within a paste
            terminal.type("\x03")
            with suppress(AssertionError):  # on a busy machine both came in one read: the key was a part of it
                await terminal.wait_for_text(lambda: "again quits" in terminal.text or "stashed" in terminal.text, 5)
                said = True
        if "stashed" in terminal.text:  # the paste had timed out before, so Ctrl+C stashed it
            terminal.type("\x1b[A")
        await terminal.wait_for_text("torn text")
        terminal.type(START + " and torn again")
        await terminal.wait_for_text("torn again")
        terminal.type("\r")
        await terminal.wait_for_text("torn again'")


async def test_keys_that_come_in_one_read_act_in_their_order() -> None:
    async with told() as terminal:
        terminal.type("helo\x7flo\x1b[D\x1b[D\x1b[Dx\x1b[Fy\x15one two\x17three\x1b[Hzero \r")
        await terminal.wait_for_text("sent")
        assert "sent 'zero one three'" in terminal.text


MEGABYTE = {
    "many lines": "some words in a line\r" * 50_000,
    "one line": "x" * 1_000_000,
    "with escapes": "\x1b[31mred\x1b[0m\x1b[13u and plain\r\n" * 33_000,
    "keys within": f"y{END}\r\x03\x04" * 300,  # one write: a busy machine's pauses in it would be its end
}


async def test_f07_pastes_of_a_megabyte_send_nothing_and_are_one_chip_each() -> None:
    async with told() as terminal:
        for number, name in enumerate(("torn", *MEGABYTE), 1):
            text = MEGABYTE.get(name, MEGABYTE["many lines"])
            whole = f"{START}{text}" + ("" if name == "torn" else END)
            writing = asyncio.create_task(asyncio.to_thread(write_all, terminal, whole.encode()))
            await terminal.wait_for_text(lambda number=number: f"⟦paste {number} ·" in terminal.text)  # type: ignore[misc]  # mypy and defaults
            await writing
        assert "sent" not in terminal.text
        terminal.type("\r")
        await terminal.wait_for_text("are too many to send")
        terminal.type("\x7f" * 5 + "and a word\r")  # each chip goes as one
        await terminal.wait_for_text("sent")
        assert "sent 'and a word'" in terminal.text


def write_all(terminal: Terminal, data: bytes) -> None:
    while data:
        data = data[os.write(terminal.master, data) :]


@pytest.mark.parametrize("scene", ["empty", "command_asked"])
async def test_spaces_of_other_kinds_and_joiners_are_typed_like_letters(scene: str) -> None:
    text = "日本\u3000語 می\u200cخواهم 👨\u200d👩\u200d👧 10\u00a0%"
    app, session = app_for(scene, quiet_seconds=0.0 if scene == "empty" else 60.0)
    async with run_app(app) as pilot:
        for message in PasteGuard().feed(text):
            app.post_message(message)
        await wait_until_idle(pilot)
        assert app.prompt.text == text and not session.answers
