from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.style import Style

from tests.widgets.kit import INK
from tui_agent.text import one_line
from widgets import ansi
from widgets.styled_text import CONTROL, Line, chop, fit, justified_line, split_cells, wrap

STYLE = Style()
WIDE = st.text(alphabet=st.sampled_from("ab cé日本👍 \u0301\t\n"))
HOSTILE = (
    "[/]",
    "[link=http://x",
    "[@click=app.quit]boo[/]",
    "\x1b]52;c;aGk=\x07",
    "\x9b2J",
    "\u202eabc",
    "\x00\x7f\x85",
    "\U000e0041",
)


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


@given(WIDE, st.integers(1, 30))
@example("foo 日", 1)
def test_no_line_is_wider_than_it_may_be(text: str, width: int) -> None:
    for lines in (wrap([(text, STYLE)], width), chop([(text, STYLE)], width)):
        for line in lines:
            assert cell_len(line.text) <= max(width, 2)


@given(WIDE, st.integers(2, 30))
def test_wrapping_loses_nothing_but_blanks(text: str, width: int) -> None:
    wrapped = "".join(texts(wrap([(text, STYLE)], width)))
    assert re.sub(r"\s", "", wrapped) == re.sub(r"\s", "", text)


@given(st.text(alphabet="ab 日\t"), st.integers(2, 30))
def test_chopping_loses_nothing_at_all(text: str, width: int) -> None:
    assert "".join(texts(chop([(text, STYLE)], width))) == text.replace("\t", "    ")


def test_words_are_broken_at_blanks_and_stay_whole_over_a_change_of_style() -> None:
    spans = [("see the ", STYLE), ("bold", Style(bold=True)), (", then more", STYLE)]
    assert texts(wrap(spans, 12)) == ["see the", "bold, then", "more"]


def test_indentation_and_blank_lines_are_kept() -> None:
    assert texts(wrap([("  a\n\n    b", STYLE)], 20)) == ["  a", "", "    b"]


def test_cutting_counts_cells() -> None:
    assert split_cells("日本語", 5) == ("日本", "語")
    assert fit("日本語", 5) == "日本…"
    assert fit("abc", 3) == "abc"
    assert fit("abcd", 3) == "ab…"
    assert fit("a\nb", 9) == "a b"


@pytest.mark.parametrize("host", ["localhost:8080", "google.com@example.com", "рыба.example", "xn--e1afmkfd.example"])
def test_a_line_that_is_cut_in_a_host_keeps_its_width(host: str) -> None:
    for width in range(24, 70):
        title = one_line(f"curl -sS http://{host}/a/long/path?with=a+query", 40, exact=True)
        text = justified_line([(title, STYLE)], [("refused", STYLE)], width, INK).text
        assert cell_len(text) == width and text.endswith("refused") and "U+2026" not in text, text


@given(st.one_of(st.text(), st.sampled_from(HOSTILE)), st.integers(1, 40))
def test_no_control_character_gets_into_a_segment(text: str, width: int) -> None:
    spans = list(ansi.ansi_spans(text, INK, STYLE))
    for line in [*wrap([(text, STYLE)], width), *chop([(text, STYLE)], width), *chop(spans, width)]:
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line.text)


def test_what_looks_like_markup_is_text() -> None:
    for text in HOSTILE[:3]:
        assert "".join(texts(wrap([(text, STYLE)], 200))) == text


def test_the_table_leaves_every_visible_character() -> None:
    visible = "".join(map(chr, (*range(32, 127), *range(0xA0, 0x24F), 0x1F600, 0x200D)))
    assert visible.translate(CONTROL) == visible


def test_colours_become_styles_and_nothing_else_does() -> None:
    found = list(ansi.ansi_spans("a\x1b[31mb\x1b[1;48;5;9mc\x1b[0md\x1b[38;2;1;2;3me", INK, INK.text))
    assert [text for text, _style in found] == list("abcde")
    styles = [style for _text, style in found]
    assert styles[1].color == INK.bad.color
    assert styles[2].bold
    assert styles[2].bgcolor is None
    assert styles[3] == INK.text
    assert styles[4].color is not None
    assert styles[4].color.triplet == (1, 2, 3)
    assert ansi.strip_ansi("a\x1b[31mb") == "ab"
