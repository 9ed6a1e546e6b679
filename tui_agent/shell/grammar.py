"""Two readers of shell text: the tree-sitter grammar, and a second, much stricter one for the plain subset.

Text that the strict reader accepts means the same in every POSIX shell: literal words, `|`, `&&`, `||`, `;` and
redirections to /dev/null.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

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


ListOperator: TypeAlias = Literal["", "&&", "||", ";"]

_TOKEN = re.compile(
    r"""
    \ +
    | (?P<operator> && | \|\|? | ; )
    | (?P<redirect> &> | [12]?> ) \ *+ /dev/null (?= [ |;&] | $ )
    | (?P<word>
        (?: ! (?= \ | $ )                                             # only as a word
        |   (?: [^ |;&>$`(){}<\#~!'"\\]                               # unquoted
            |   \\.
            |   '[^']*'
            |   "(?: [^"$`\\] | \\[$`"\\] | \\(?![$`"\\]) )*"
            )++
        ) (?= [ |;] | && | $ )
      )
    """,
    re.VERBOSE,
)
_WORD_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|(?P<unquoted>[^'"\\]+)""")


class PlainWord(NamedTuple):
    """A literal word."""

    text: str
    is_pattern: bool = False
    """Whether it contains an unquoted `*`, `?` or `[`."""


class PlainCommand(NamedTuple):
    """Words of a command, and the operators of its redirections to /dev/null."""

    words: tuple[PlainWord, ...]
    redirects: frozenset[str]


PlainPipeline: TypeAlias = tuple[ListOperator, tuple[PlainCommand, ...]]
"""A pipeline, and the operator that joins it to the one before."""


def parse_strict(text: str) -> tuple[PlainPipeline, ...] | None:
    """Parse `text`; None if it holds anything but the plain subset."""
    tokens = list(_TOKEN.finditer(text))
    # Not printable are control characters, line ends, bidi and zero-width characters.
    if not text.isprintable() or sum(len(token[0]) for token in tokens) != len(text):
        return None
    tokens = [token for token in tokens if token.lastgroup]
    if tokens and tokens[-1]["operator"] == ";":
        tokens.pop()
    pipelines: list[tuple[ListOperator, list[list[re.Match[str]]]]] = [("", [[]])]
    for token in tokens:
        commands = pipelines[-1][1]
        if not token["operator"]:
            commands[-1].append(token)
        elif token["operator"] == "|":
            commands.append([])
        else:
            pipelines.append((cast("ListOperator", token["operator"]), [[]]))
    try:
        return tuple((operator, tuple(map(_command, commands))) for operator, commands in pipelines)
    except ValueError:
        return None


def _command(tokens: list[re.Match[str]]) -> PlainCommand:
    if not tokens or not tokens[0]["word"]:
        raise ValueError("no program")
    words = tuple(_word(token["word"]) for token in tokens if token["word"])
    return PlainCommand(words, frozenset(token["redirect"] for token in tokens if token["redirect"]))


def _word(source: str) -> PlainWord:
    """Remove the quotes of a word. Raises ValueError if it mixes quotes and file name patterns."""
    parts = list(_WORD_PART.finditer(source))
    is_pattern = any(character in "*?[" for part in parts for character in part["unquoted"] or "")
    if is_pattern and any(part["unquoted"] is None for part in parts):
        raise ValueError("quotes in a pattern")
    return PlainWord("".join(map(_unquote, parts)), is_pattern)


def _unquote(part: re.Match[str]) -> str:
    single, double, escaped, unquoted = part.groups()
    if double is not None:
        return re.sub(r'\\([$`"\\])', r"\1", double)
    return single if single is not None else escaped or unquoted
