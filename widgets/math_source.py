"""Formulas in Markdown: LaTeX between its delimiters is kept as it was written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

FORMULA = "formula"
"""Type of the tokens."""
INLINE = re.compile(
    r"\\\((?:[^\\]|\\[^()])*?\\\)"  # \(…\)
    r"|\\\[(?:[^\\]|\\[^\[\]])*?\\\]"  # \[…\]
    r"|\$\$(?:[^$\\`]|\\.)+?\$\$"
    # $…$, but not two amounts of dollars: after a digit, only with something that LaTeX has
    r"|(?<![\w$])\$(?![\s$])(?!\d(?![^$`\n]*[\\^_{=]))(?:[^$\\`\n]|\\.)+?(?<!\s)\$(?![\w$])",
    re.DOTALL,
)
CLOSING = {"$$": "$$", "\\[": "\\]"}
"""Delimiters of a formula that has lines of its own."""


def add_formulas(parser: MarkdownIt) -> None:
    """Make a parser keep formulas, in tokens of the type `FORMULA` with their source."""
    parser.inline.ruler.before("escape", FORMULA, _read_inline)
    parser.block.ruler.before("fence", FORMULA, _read_block, {"alt": ["paragraph", "blockquote", "list"]})


def _read_inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "\\$" or not (match := INLINE.match(state.src, state.pos, state.posMax)):
        return False
    if not silent:
        state.push(FORMULA, "", 0).content = match[0]
    state.pos = match.end()
    return True


def _read_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Read lines from one that begins with `$$` or `\\[` to the one that ends with its counterpart."""
    if state.is_code_block(first):
        return False
    lines = [_text_of(state, first)]
    closing = CLOSING.get(lines[0][:2])
    if closing is None or closing in lines[0][2:]:
        return False
    while not lines[-1].endswith(closing) or len(lines) == 1:
        if first + len(lines) >= end or state.isEmpty(first + len(lines)):
            return False
        lines.append(_text_of(state, first + len(lines)))
    if not silent:
        state.push(FORMULA, "", 0).content = "\n".join(lines)
        state.line = first + len(lines)
    return True


def _text_of(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].rstrip()
