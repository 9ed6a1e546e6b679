"""The shell grammar of tree-sitter, and which text it is not given at all."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Tree

LENGTH_CAP = 8 * 1024
_FOREIGN = re.compile(rb"[\x80-\xff]")
_QUOTED_DOLLAR = re.compile(rb"(?<!\\)((?:\\\\)*)\\\$")


@cache
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def tree(data: bytes) -> Tree:
    """The grammar's tree; its positions hold for `data`.

    The grammar's scanner asks the C library's ASCII tables about characters of any size, and crashes the process on
    some (`W{` and U+D304C). It is shown `%` for every other byte instead, which is as ordinary a letter to a shell.
    """
    from tree_sitter import Parser

    # A parser must not be used by two threads at once.
    # It also takes `\$(` in a here-document for a substitution.
    return Parser(_language()).parse(_QUOTED_DOLLAR.sub(rb"\1%%", _FOREIGN.sub(b"%", data)))


def oddity(text: str) -> str:
    """Why a text is not read, or nothing (R-13)."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "It is not valid Unicode text."
    if size > LENGTH_CAP:
        return f"It is longer than {LENGTH_CAP:,} bytes."
    if any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in text):
        return "It holds control characters."
    return ""
