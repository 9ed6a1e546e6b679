from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.theme import Theme

from tests.doubles.terminal import Terminal
from tui_agent.tui.driver import BACKGROUND_QUERY as QUERY
from tui_agent.tui.driver import BackgroundQuery, is_light
from tui_agent.tui.themes import DARK, LIGHT

WHITE = "\x1b]11;rgb:ffff/fbfb/f0f0\x1b\\"
BLACK = "\x1b]11;rgb:1414/1616/1a1a\x07"


@pytest.mark.parametrize(
    ("color", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:fd/f6/e3", True),
        ("rgb:0000/2b2b/3636", False),
        ("rgba:ffff/ffff/ffff/ffff", True),
        ("rgb:f/f/f", True),
        ("#ffffff", True),
        ("#000", False),
        ("rgb:ff", None),
        ("rgb:", None),
    ],
)
def test_colors_are_light_or_dark(color: str, light: bool | None) -> None:
    assert is_light(color) is light


def asked() -> tuple[BackgroundQuery, list[float]]:
    now = [0.0]
    query = BackgroundQuery(clock=lambda: now[0])
    assert query.ask() == QUERY
    return query, now


@given(st.sampled_from([WHITE, BLACK]), st.text("ab]1;\r", max_size=6), st.text("ab]1;\r", max_size=6), st.data())
def test_an_answer_never_becomes_text_however_it_arrives(
    answer: str, before: str, after: str, data: st.DataObject
) -> None:
    query, _now = asked()
    text = before + answer + after
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    parts = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(map(query.strip, parts)) == before + after
    assert query.light is (answer == WHITE)


def test_a_late_answer_is_no_text_either() -> None:
    query, now = asked()
    now[0] = 3_600.0
    assert query.strip("x" + WHITE) == "x"
    assert query.light


def test_keys_pass_while_the_terminal_does_not_answer() -> None:
    query, now = asked()
    for key in ("a", "\x1b[A", "]", "]1", "\x1b[200~\x1b]11;?\x1b[201~", "1;"):
        assert query.strip(key) + query.release() == key
    for key in ("\x1b", "\x1b]"):  # Esc and Alt+]
        assert query.strip(key) == "" == query.release()
        now[0] += 0.2
        assert query.release() == key
    now[0] += 60
    assert query.strip("\x1b") == "\x1b"


def test_without_a_question_nothing_is_held() -> None:
    query = BackgroundQuery()
    assert query.strip("\x1b" + WHITE) == "\x1b" + WHITE
    assert query.light is None


@contextmanager
def program(home: Path, **env: str) -> Iterator[Terminal]:
    settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLORFGBG": "", "TUI_AGENT_HOME": str(home)}
    terminal = Terminal("-m", "tests.tui.pty_app", "answered", env={**settings, **env})
    try:
        yield terminal
    finally:
        terminal.close()


def paints(terminal: Terminal, theme: Theme) -> bool:
    color = theme.background or ""
    ground = ";".join(str(int(color[place : place + 2], 16)) for place in (1, 3, 5))
    return f"48;2;{ground}".encode() in terminal.bytes


async def test_a_light_terminal_gets_the_light_theme(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        await terminal.wait_for_text(lambda: QUERY.encode() in terminal.bytes)
        terminal.type(WHITE)
        await terminal.wait_for_text(lambda: paints(terminal, LIGHT))
        await terminal.wait_for_text("Ask for a change")
        assert "rgb" not in terminal.text
        terminal.type("\x04")
        assert await terminal.end() == 0, terminal.text
        assert terminal.is_sane()
        assert terminal.bytes.count(QUERY.encode()) == 1


async def test_an_answer_that_comes_late_is_used_and_not_typed(tmp_path: Path) -> None:
    with program(tmp_path) as terminal:
        await terminal.wait_for_text("Ask for a change")
        assert paints(terminal, DARK)
        terminal.type("draft")
        await terminal.wait_for_text("draft")
        terminal.type(WHITE[:9])
        terminal.type(WHITE[9:])
        await terminal.wait_for_text(lambda: paints(terminal, LIGHT))
        terminal.type("!")
        await terminal.wait_for_text("draft!")


@pytest.mark.parametrize("env", [{"TUI_AGENT_THEME": "dark"}, {"NO_COLOR": "1"}, {"TERM": "linux", "COLORTERM": ""}])
async def test_who_chose_a_theme_is_not_asked(env: dict[str, str], tmp_path: Path) -> None:
    with program(tmp_path, **env) as terminal:
        await terminal.wait_for_text("Ask for a change")
        assert QUERY.encode() not in terminal.bytes
