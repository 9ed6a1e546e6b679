"""The tree-sitter grammar of shell text."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

MAX_LENGTH = 8 * 1024
"""Bytes of the longest text that is parsed."""
_MISREAD = (
    (re.compile(rb"[\x80-\xff]"), b"%"),
    (re.compile(rb"\$(?=[ \t\n]|\\\n)"), b"%"),
    (re.compile(rb"(?<=\n)([ \t]*)\\(?=[\w./~\n-])"), rb"\1 "),
    (re.compile(rb"(?<!\\)((?:\\\\)*)\\\$"), rb"\1%%"),
)
"""What the grammar misreads, with a replacement of the same length that means the same to a shell: bytes beyond ASCII,
`$ $` as `$$`, a line `\\rm x` as more arguments of the one before, and `\\$(` in a here-document as a substitution."""


@cache
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def syntax_tree(data: bytes) -> Tree:
    """Parse `data`; byte positions of the tree are positions in `data`.

    The grammar's scanner looks up characters of any size in the C library's ASCII tables, and crashes the process on
    some (`W{` and U+D304C). Each byte beyond ASCII is therefore replaced by `%`, an ordinary letter to a shell.
    """
    from tree_sitter import Parser

    # A parser must not be used by two threads at once.
    for pattern, replacement in _MISREAD:
        data = pattern.sub(replacement, data)
    return Parser(_language()).parse(data)


def unparsable_reason(text: str) -> str:
    """Return why a text is not parsed at all, or an empty string."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "It is not valid Unicode text."
    if size > MAX_LENGTH:
        return f"It is longer than {MAX_LENGTH:,} bytes."
    if any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in text):
        return "It holds control characters."
    return ""
