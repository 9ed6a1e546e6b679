from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.kit import INK
from widgets.markdown import code_lines, render_markdown
from widgets.styled_text import Line, chop, indent, wrap
from widgets.text_selection import JoinedText

TEXT = st.text(st.sampled_from("ab 文é\n-"), max_size=60)
CODE = st.text(st.sampled_from("ab 文\t"), max_size=60)


@given(TEXT, st.integers(2, 30))
def test_wrapped_text_is_joined_to_the_original(text: str, width: int) -> None:
    source = "\n".join(row.strip() for row in text.split("\n"))
    assert JoinedText(wrap([(source, INK.text)], width)).text == source + "\n"


@given(CODE, st.integers(2, 30))
def test_chopped_code_is_joined_to_the_original(code: str, width: int) -> None:
    lines = indent(chop([(code, INK.code)], width), [("│ ", INK.faint)])
    assert JoinedText(lines).text == code.replace("\t", "    ") + "\n"


@given(TEXT, st.integers(2, 30), st.integers(2, 30))
def test_offsets_do_not_depend_on_the_width(text: str, first_width: int, second_width: int) -> None:
    source = "\n".join(row.strip() for row in text.split("\n"))
    first, second = (JoinedText(wrap([(source, INK.text)], width)) for width in (first_width, second_width))
    assert first.text == second.text


def copied(lines: list[Line], first: tuple[int, int], last: tuple[int, int]) -> str:
    joined = JoinedText(lines)
    return joined.copy(joined.place_at(*first), joined.place_at(*last, after=True))


def test_wide_characters_are_copied_completely() -> None:
    lines = wrap([("文字列 abc", INK.text)], 40)
    assert copied(lines, (0, 0), (0, 0)) == "文"
    assert copied(lines, (0, 1), (0, 2)) == "文字"
    assert copied(lines, (0, 3), (0, 7)) == "字列 a"
    joined = JoinedText(lines)
    assert joined.cells(0, 1, 3) == (2, 6)


def test_line_wraps_are_not_copied() -> None:
    lines = wrap([("one two three four", INK.text)], 9)
    assert [line.text for line in lines] == ["one two", "three", "four"]
    assert copied(lines, (0, 4), (2, 1)) == "two three fo"


def test_code_is_copied_without_gutter_and_with_indentation() -> None:
    lines = code_lines("def f():\n    return 'a long string here'", "py", 20, INK)
    assert copied(lines, (0, 0), (9, 0)) == "def f():\n    return 'a long string here'"
    assert copied(lines, (1, 0), (1, 9)) == "    retu"


def test_lists_and_quotes_are_copied_as_markdown() -> None:
    lines = render_markdown("- one\n- two words that wrap\n  - three\n\n> said", 14, INK)
    assert copied(lines, (0, 0), (len(lines), 0)) == ("- one\n- two words that wrap\n  - three\n\n> said")
