"""The tree-sitter grammar of shell text."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

MAX_LENGTH = 8 * 1024
"""Bytes of the longest text that is parsed."""
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_ESCAPED_DOLLAR = re.compile(rb"(?<!\\)((?:\\\\)*)\\\$")


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
    # The grammar also takes `\$(` in a here-document for a substitution.
    return Parser(_language()).parse(_ESCAPED_DOLLAR.sub(rb"\1%%", _NON_ASCII.sub(b"%", data)))


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
