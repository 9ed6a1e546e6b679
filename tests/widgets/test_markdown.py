from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenes import build
from tests.widgets.kit import INK
from tui_agent.view.items import GrowingText, ReplyItem
from widgets import markdown
from widgets.blocks.base import BlockOptions
from widgets.blocks.reply import ReplyBlock
from widgets.markdown import MAX_OPEN_CHARACTERS, MarkdownStream, code_lines, render_markdown
from widgets.styled_text import Line, TextStyles
from widgets.text_selection import JoinedText

SOURCES = [
    build.ANSWER,
    "# One\ntext\n## Two\n\n```\nopen fence\n\nwith a blank",
    "- a\n\n- b\n\n  more of b\n\n      code in b\n\nend",
    "1. one\n2. two\n\n   ```py\n   x = 1\n   ```\n3. three",
    "~~~~\n```\nnot closed by this\n~~~~\nafter",
    "| a | b |\n|---|---|\n| 1 | 2 |\nlazy\n\n***\n\n> quote\n> more\n\nend",
    "word " * 2_000,
    "\n".join(f"- item {n} with some text behind it" for n in range(300)),
    "\n".join(f"line {n}" for n in range(2_000)),
    "x" * 9_000,
    "[/] [link=http://x [@click=app.quit]boo[/] <b>html</b> &amp; \\*",
]

each_source = pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))


def texts(source: str, width: int = 60) -> list[str]:
    return [line.text.rstrip() for line in render_markdown(source, width, INK)]


def block_of(text: str, *, ended: bool = True) -> ReplyBlock:
    return ReplyBlock(ReplyItem("r", text=GrowingText(text), started_at=0.0, ended=ended), BlockOptions(lambda: 100.0))


@each_source
@settings(max_examples=4, deadline=None)
@given(st.data())
def test_a_reply_looks_the_same_however_it_arrived(source: str, data: st.DataObject) -> None:
    whole = [line.text for line in block_of(source).lines(60, INK)]
    item = ReplyItem("r", started_at=0.0)
    block = ReplyBlock(item, BlockOptions(lambda: 100.0))
    place = 0
    while place < len(source):
        size = data.draw(st.integers(1 + len(source) // 60, 400 + len(source) // 4))
        item.text.add(source[place : place + size])
        place += size
        block.changed()
        block.lines(60, INK)
    item.ended, item.text = True, GrowingText(source)
    block.changed()
    assert [line.text for line in block.lines(60, INK)] == whole


@each_source
def test_settling_keeps_every_word(source: str) -> None:
    stream = MarkdownStream()
    stream.feed(source)
    stream.end()
    kept = " ".join(piece.source for piece in stream.pieces).split()
    expected = [word for word in source.split() if not word.startswith(("```", "~~~"))]
    assert len("".join(kept)) >= len("".join(expected)) - 10


@pytest.mark.parametrize("source", SOURCES[6:9])
def test_the_open_piece_stays_small(source: str) -> None:
    stream = MarkdownStream()
    for place in range(0, len(source), 40):
        stream.feed(source[place : place + 40])
        assert len(stream.tail) <= 2 * MAX_OPEN_CHARACTERS + 200


def test_an_open_fence_paints_only_its_new_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[str] = []

    def counted(code: str, language: str, width: int, styles: TextStyles) -> list[Line]:
        painted.append(code)
        return code_lines(code, language, width, styles)

    monkeypatch.setattr("widgets.markdown.code_lines", counted)
    item = ReplyItem("r", started_at=0.0)
    block = ReplyBlock(item, BlockOptions(lambda: 100.0))
    item.text.add("```python\n")
    for number in range(200):
        item.text.add(f"x = {number}\n")
        block.changed()
        block.lines(60, INK)
    assert painted == [f"x = {number}" for number in range(200)]


def test_what_markdown_means_is_shown() -> None:
    assert texts("# Title\nbody **bold** `code`") == ["Title", "", "body bold code"]
    assert texts("- a\n- b\n  - c") == ["• a", "• b", "  ◦ c"]
    assert texts("3. a\n4. b") == ["3. a", "4. b"]
    assert texts("> a\n> b") == ["▎ a b"]
    assert texts("a\n\n---\n\nb", 5) == ["a", "", "─────", "", "b"]
    assert texts("one  \ntwo\nthree") == ["one", "two three"]
    assert texts("| a | bb |\n|--|--|\n| ccc | d |") == ["a   │ bb", "────┼───", "ccc │ d"]


def test_links_and_images_show_where_they_lead() -> None:
    assert texts("[docs](https://a.b/c)") == ["docs (https://a.b/c)"]
    assert texts("<https://a.b/c>") == ["https://a.b/c"]
    assert texts("![logo](https://a.b/x.png)") == ["[image: logo] https://a.b/x.png"]
    assert texts("[x](javascript:alert(1))") == ["[x](javascript:alert(1))"]


def test_link_definitions_do_not_vanish() -> None:
    assert texts("see [1]\n\n[1]: https://a.b") == ["see [1]", "", "[1]: https://a.b"]


def test_html_and_markup_are_text() -> None:
    assert texts("<b>x</b> [/] [@click=app.quit]y[/]") == ["<b>x</b> [/] [@click=app.quit]y[/]"]


def test_code_is_highlighted_when_its_fence_closes() -> None:
    lines = render_markdown("```python\ndef f():\n    return 'x'\n```", 40, INK)
    styles = {segment.text: segment.style for line in lines for segment in line.segments}
    assert styles["def"] == INK.keyword
    assert styles["x"] == INK.string
    assert [line.text for line in lines] == ["  def f():", "      return 'x'"]


def test_an_unknown_language_is_plain() -> None:
    assert texts("```nosuch\nx = 1\n```") == ["  x = 1"]


@settings(deadline=None)
@given(st.text(alphabet="ab*_`[]()>#-|~\n 1.!<&\\"), st.integers(1, 40))
def test_any_text_can_be_painted(source: str, width: int) -> None:
    block = block_of(source)
    for line in block.lines(width, INK):
        assert "\n" not in line.text


@pytest.mark.parametrize("depth", [50, 500])
def test_deep_nesting_is_painted_too(depth: int) -> None:
    for source in ("> " * depth + "deep", "- " * depth + "deep", "\n".join("  " * n + "- deep" for n in range(depth))):
        text = "".join(texts(source))
        assert text.count("deep") == source.count("deep")


def test_a_beginning_is_held_until_it_is_worth_a_paint() -> None:
    now = [0.0]
    item = ReplyItem("r", started_at=0.0)
    block = ReplyBlock(item, BlockOptions(lambda: now[0]))
    item.text.add("So,")
    assert block.is_held
    assert block.lines(40, INK) == []
    now[0] = 0.31
    block.changed()
    assert [line.text for line in block.lines(40, INK)] == ["So,"]
    quick = ReplyBlock(ReplyItem("r", text=GrowingText("So, that's it"), started_at=0.0), BlockOptions(lambda: 0.0))
    assert not quick.is_held


def test_a_reply_that_ends_otherwise_than_it_streamed_is_painted_anew() -> None:
    item = ReplyItem("r", text=GrowingText("abc " * 10), started_at=0.0)
    block = ReplyBlock(item, BlockOptions(lambda: 9.0))
    assert "abc" in block.lines(80, INK)[0].text
    item.text, item.ended = GrowingText("other text"), True
    block.changed()
    assert [line.text for line in block.lines(80, INK)] == ["other text"]


@pytest.mark.parametrize(
    "formula",
    [
        r"\(a_1+b_1\)",
        r"\[x \ne y\]",
        "$x_1 * y_1 * z$",
        r"$\frac{a}{b}$",
        "$2^n$",
        r"$$\sum_{i=1}^n i_1$$",
        "$$\na_1\n- b * c * d\n= 2\n$$",
        "\\[\na \\\\\n+ b\n\\]",
    ],
)
def test_formulas_are_kept_as_they_are_written(formula: str) -> None:
    assert "\n".join(texts(formula)) == formula
    if "\n" not in formula:
        assert texts(f"So {formula}, or *so*.") == [f"So {formula}, or so."]


def test_amounts_and_variables_are_no_formulas() -> None:
    assert texts("It costs $5 or *maybe* $10.") == ["It costs $5 or maybe $10."]
    assert texts("Set $HOME and *then* $PATH, `$A` and `$B`.") == ["Set $HOME and then $PATH, $A and $B."]
    assert texts(r"\*a\* \# \$5") == ["*a* # $5"]
    assert texts("$$\nnever closed\n\n*so*") == ["$$ never closed", "", "so"]


PATCH = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n same\n-old\n+new"


@pytest.mark.parametrize("language", ["diff", "patch", "DIFF"])
def test_diffs_have_the_colors_of_the_diff_view(language: str) -> None:
    for closing in ("", "\n```\n"):
        stream = MarkdownStream()
        stream.feed(f"```{language}\n{PATCH}{closing}")
        lines = stream.lines(40, INK)
        assert [line.text[2:] for line in lines] == PATCH.split("\n")
        styles = [line.segments[-1].style for line in lines]
        assert styles[5:] == [INK.removed, INK.added]
        assert [line.fill for line in lines[4:]] == [INK.panel, INK.removed, INK.added]
        assert styles[3] is not None and styles[3].color == INK.accent.color
        assert INK.removed not in styles[:5] and INK.added not in styles[:5]


def test_wrapped_code_has_a_mark_that_is_not_copied() -> None:
    lines = render_markdown("```\nabcdefghijkl\nx\n```", 10, INK)
    assert [line.text for line in lines] == ["  abcdefgh", "↪ ijkl", "  x"]
    joined = JoinedText(lines)
    assert joined.copy(0, len(joined.text)) == "abcdefghijkl\nx"
    assert joined.text == "abcdefghijkl\nx\n"


@pytest.mark.parametrize("lines", [["$$a"], ["\\[a"], ["$$a", "\\[a"], ["- $$a"], ["> $$a"]])
def test_formulas_that_never_end_take_linear_time(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    original = markdown._text_of

    def count(*arguments: Any) -> str:
        nonlocal read
        read += 1
        return original(*arguments)

    monkeypatch.setattr(markdown, "_text_of", count)
    for size in (200, 400):
        render_markdown("\n".join(lines * (size // len(lines))), 80, INK)
    assert read < 600 * 2 * markdown.MAX_FORMULA_LINES


def test_a_formula_below_a_line_that_only_looks_like_the_beginning_of_one_is_kept() -> None:
    shown = [line.text.rstrip() for line in render_markdown("$$a$$ is one\n$$\na_1 + b_1\n$$\nend", 80, INK)]
    assert "a_1 + b_1" in "\n".join(shown) and "end" in shown[-1]
