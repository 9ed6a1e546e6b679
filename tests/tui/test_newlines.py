from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events

from tests.doubles.terminal import Terminal
from tests.nightly import sampled
from tui_agent.keys.keymap import SESSION_ACTIONS
from tui_agent.tui.driver import _needs_modify_other_keys
from tui_agent.tui.paste import PasteGuard

NEWLINES = {
    "any: ctrl+j": "\n",
    "xterm: alt+enter": "\x1b\r",
    "xterm, modifyOtherKeys: shift+enter": "\x1b[27;2;13~",
    "xterm, modifyOtherKeys: alt+enter": "\x1b[27;3;13~",
    "xterm, modifyOtherKeys: ctrl+j": "\x1b[27;5;106~",
    "xterm, formatOtherKeys 1: shift+enter": "\x1b[13;2u",
    "kitty: shift+enter": "\x1b[13;2u",
    "kitty: shift+enter with num lock": "\x1b[13;130u",
    "kitty, with kinds of events: shift+enter": "\x1b[13;2:1u",
    "kitty: alt+enter": "\x1b[13;3u",
    "kitty: ctrl+j": "\x1b[106;5u",
    "kitty, with other layouts: ctrl+j": "\x1b[106::106;5u",
    "tmux, extended-keys xterm: shift+enter": "\x1b[27;2;13~",
    "tmux, extended-keys csi-u: shift+enter": "\x1b[13;2u",
    "tmux: alt+enter": "\x1b\r",
    "VS Code: alt+enter": "\x1b\r",
    "VS Code, told to: shift+enter": "\x1b\r",
    "VS Code, told to as of old: shift+enter": "\\\r\n",
    "VS Code, kitty's protocol: shift+enter": "\x1b[13;2u",
    "Windows Terminal: ctrl+enter": "\n",
    "Windows Terminal, told to: shift+enter": "\x1b[13;2u",
    "any: backslash, enter": "\\\r",
}
SENDING = {"any": "\r", "keypad": "\x1bOM", "kitty": "\x1b[13u", "kitty, with kinds": "\x1b[13;1:1u"}


def keys(*chunks: str) -> list[str]:
    parser = PasteGuard()
    told = [message for chunk in chunks for message in parser.feed(chunk)]
    return [message.key for message in told if isinstance(message, events.Key)]


@pytest.mark.parametrize("how", NEWLINES)
def test_every_terminals_new_line_is_one(how: str) -> None:
    told = keys(NEWLINES[how])
    assert told == ["backslash", "enter"] or (len(told) == 1 and told[0] in SESSION_ACTIONS["newline"].keys)


@pytest.mark.parametrize("how", NEWLINES)
def test_it_is_the_same_byte_by_byte(how: str) -> None:
    if NEWLINES[how] != "\\\r\n":
        assert keys(*NEWLINES[how]) == keys(NEWLINES[how])


@pytest.mark.parametrize("how", SENDING)
def test_enter_alone_is_enter(how: str) -> None:
    assert keys(SENDING[how]) == ["enter"]


def test_a_key_that_is_let_go_is_no_key() -> None:
    assert keys("\x1b[13;2:3u", "\x1b[13;1:3u", "\x1b[1;1:3A") == []


@given(st.lists(st.text("\x1b[]0129;:~uAOM\r\n?<13", max_size=12)))
def test_no_bytes_end_the_reading_of_keys(chunks: list[str]) -> None:
    parser = PasteGuard()
    for chunk in [*chunks, "\x1b[99999999999;2u", "\x1b[:;:u", "\x1b[13;2:1:1u"]:
        list(parser.feed(chunk or "x"))


@pytest.mark.parametrize(
    ("environment", "told"), [({}, False), ({"TMUX": "/tmp/tmux,1,0"}, True), ({"XTERM_VERSION": "XTerm(390)"}, True)]
)
def test_only_who_understands_it_is_asked_to_tell_more_keys(environment: dict[str, str], told: bool) -> None:
    assert _needs_modify_other_keys(environment) is told


class Speaks(NamedTuple):
    """How a terminal names itself, and what it sends."""

    environment: dict[str, str]
    newlines: tuple[str, ...]
    typed: str
    """The letters `hi!` and a space."""
    enter: str = "\r"
    asked: bytes = b""
    """What it is asked for at the start."""


TERMINALS = {
    "xterm": Speaks(
        {"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"},
        ("\n", "\x1b\r", "\x1b[27;2;13~", "\x1b[27;3;13~", "\x1b[27;5;106~", "\\\r"),
        "hi! ",
        asked=b"\x1b[>4;1m",
    ),
    "kitty": Speaks(
        {"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"},
        ("\x1b[13;2u", "\x1b[13;2:1u\x1b[13;2:3u", "\x1b[13;3u", "\x1b[106;5u", "\x1b[106::106;5u"),
        "\x1b[104;;104u\x1b[105;;105u\x1b[49:33;2;33u\x1b[32;;32u",
        enter="\x1b[13u",
        asked=b"\x1b[>",
    ),
    "tmux": Speaks(
        {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"},
        ("\n", "\x1b\r", "\x1b[27;2;13~", "\x1b[13;2u", "\\\r"),
        "hi! ",
        asked=b"\x1b[>4;1m",
    ),
    "VS Code": Speaks(
        {"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, ("\n", "\x1b\r", "\\\r\n", "\x1b[13;2u", "\\\r"), "hi! "
    ),
    "Windows Terminal": Speaks(
        {"TERM": "xterm-256color", "WT_SESSION": "e1f2"}, ("\n", "\x1b[13;2u", "\x1b\r", "\\\r"), "hi! "
    ),
}


@pytest.mark.parametrize("name", sampled(TERMINALS, ("xterm", "kitty")))
async def test_what_each_terminal_sends_is_understood(name: str) -> None:
    speaks = TERMINALS[name]
    clean = dict.fromkeys(("TMUX", "XTERM_VERSION", "TERM_PROGRAM"), "")
    terminal = Terminal("-m", "tests.tui.pty_app", "empty", "told", size=(100, 30), env={**clean, **speaks.environment})
    try:
        await terminal.wait_for_text("Ask for a change")
        await terminal.wait_for_text(lambda: speaks.asked in terminal.bytes)
        assert speaks.asked or b"\x1b[>4;1m" not in terminal.bytes
        for number, how in enumerate(speaks.newlines):
            terminal.type(f"line{number}")
            await terminal.wait_for_text(f"line{number}")
            terminal.type(how)
        terminal.type(speaks.typed)
        terminal.type("\x1b[200~pasted\r\x1b[31mtwo\x1b[13u\x1b[201~")
        await terminal.wait_for_text("two")
        assert "sent" not in terminal.text
        terminal.type(speaks.enter)
        lines = "".join(rf"line{number}\n" for number in range(len(speaks.newlines)))
        await terminal.wait_for_text(lambda: rf"sent'{lines}hi!pasted\ntwo'" in "".join(terminal.text.split()))
        terminal.type("\x04")
        await terminal.end()
        assert (b"\x1b[>4m" in terminal.bytes) is (speaks.asked == b"\x1b[>4;1m")
    finally:
        terminal.close()
