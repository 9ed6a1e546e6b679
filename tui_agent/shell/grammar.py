"""Two readers of shell text: the tree-sitter grammar, and a second, much stricter one for the plain subset.

Text that the strict reader accepts means the same in every POSIX shell: literal words, `|`, `&&`, `||`, `;` and
redirections to /dev/null.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from tui_agent.common.domain import FrozenValue

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
_WORD_PART = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]+)""")


class PlainWord(FrozenValue, frozen=True, kw_only=True):
    """A literal word."""

    text: str
    is_pattern: bool = False
    """Whether it contains an unquoted `*`, `?` or `[`."""


class PlainCommand(FrozenValue, frozen=True, kw_only=True):
    """Words of a command, and which of its outputs go to /dev/null."""

    words: tuple[PlainWord, ...]
    discards_stdout: bool = False
    discards_stderr: bool = False


class PlainPipeline(FrozenValue, frozen=True, kw_only=True):
    """A pipeline, and the operator that joins it to the one before."""

    operator: ListOperator
    commands: tuple[PlainCommand, ...]


def parse_strict(text: str) -> tuple[PlainPipeline, ...] | None:
    """Parse `text`; None if it holds anything but the plain subset."""
    if not text.isprintable():  # control characters, line ends, bidi and zero-width characters
        return None
    tokens: list[re.Match[str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        position = match.end()
        if match.lastgroup:
            tokens.append(match)
    if tokens and tokens[-1]["operator"] == ";":
        tokens.pop()
    pipelines: list[PlainPipeline] = []
    commands: list[PlainCommand] = []
    current: list[re.Match[str]] = []
    operator: ListOperator = ""
    for token in [*tokens, None]:
        if token and not token["operator"]:
            current.append(token)
            continue
        command = _command(current)
        if command is None:
            return None
        commands.append(command)
        current = []
        if token is None or token["operator"] != "|":
            pipelines.append(PlainPipeline(operator=operator, commands=tuple(commands)))
            commands = []
            operator = cast("ListOperator", token["operator"]) if token else ""
    return tuple(pipelines)


def _command(tokens: list[re.Match[str]]) -> PlainCommand | None:
    words = [_word(token["word"]) for token in tokens if token["word"]]
    redirects = {token["redirect"] for token in tokens}
    if not tokens or not tokens[0]["word"] or None in words:
        return None
    return PlainCommand(
        words=tuple(word for word in words if word),
        discards_stdout=bool(redirects & {">", "1>", "&>"}),
        discards_stderr=bool(redirects & {"2>", "&>"}),
    )


def _word(source: str) -> PlainWord | None:
    """Remove the quotes of a word; None if it mixes quotes and file name patterns."""
    parts = list(_WORD_PART.finditer(source))
    is_pattern = any(character in "*?[" for part in parts for character in part[4] or "")
    if is_pattern and any(part[4] is None for part in parts):
        return None
    return PlainWord(text="".join(map(_unquote, parts)), is_pattern=is_pattern)


def _unquote(part: re.Match[str]) -> str:
    single, double, escaped, bare = part.groups()
    if double is not None:
        return re.sub(r'\\([$`"\\])', r"\1", double)
    return single if single is not None else escaped or bare
