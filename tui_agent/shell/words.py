"""What a shell word means: its text where that can be known before it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from tree_sitter import Node

_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}

SourceOf: TypeAlias = "Callable[[Node], str]"
"""Gives a node's text as it is written."""


def literal(node: Node, source_of: SourceOf) -> tuple[str | None, bool]:
    """The node's text as a program gets it (None if something is expanded), and whether `$'…'` took part in it."""
    source = source_of(node)
    match node.type:
        case "word" | "number" | "extglob_pattern" | "variable_name" | "test_operator":
            # With a child it is an arithmetic expansion in disguise, such as `$((1))#`.
            return (None, False) if node.child_count else (re.sub(r"\\(?:\n|(.))", r"\1", source), False)
        case "raw_string":
            return source[1:-1], False
        case "string":
            if (
                any(child.is_named and child.type != "string_content" for child in node.children)
                or "`" in source
            ):
                return None, False
            return re.sub(r'\\(?:\n|([$`"\\]))', lambda found: found[1] or "", source[1:-1]), False
        case "ansi_c_string":
            return _ANSI.sub(_ansi, source[2:-1]), True
        case "translated_string":
            return literal(node.children[-1], source_of)
        case "concatenation":
            parts = [literal(child, source_of) for child in node.children]
            texts = [text for text, _ in parts if text is not None]
            return ("".join(texts) if len(texts) == len(parts) else None), any(odd for _, odd in parts)
        case _:
            return (None, False) if node.is_named else (source, False)


def _ansi(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    return _ANSI_LETTERS.get(code, code)


def is_pattern(node: Node, source_of: SourceOf) -> bool:
    if node.type == "concatenation":
        return any(is_pattern(child, source_of) for child in node.children)
    if node.type not in ("word", "extglob_pattern"):
        return False
    bare = re.sub(r"\\.", "", source_of(node))
    return bare.startswith("~") or any(c in bare for c in "*?[{")
