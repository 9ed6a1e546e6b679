"""Two readers of shell text: the grammar of tree-sitter, and a second, much stricter one: words and operators of the
plain subset, or nothing at all.

What the strict one accepts means the same to every POSIX shell: literal words, `|`, `&&`, `||`, `;` and redirections to
/dev/null.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from tui_agent.common.domain import FrozenValue

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
    """Why a text is not read, or nothing."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "It is not valid Unicode text."
    if size > LENGTH_CAP:
        return f"It is longer than {LENGTH_CAP:,} bytes."
    if any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in text):
        return "It holds control characters."
    return ""


Joint: TypeAlias = Literal["", "&&", "||", ";"]

_OPERATORS = ("&&", "||", "|", ";")
_FORBIDDEN = frozenset("$`(){}<\n\r#~!")
"""Unquoted, anywhere in a word. Some of them are harmless inside of one, and not worth the thought."""


class PlainWord(FrozenValue, frozen=True, kw_only=True):
    """A literal word."""

    text: str
    pattern: bool = False
    """Holds an unquoted `*`, `?` or `[`."""


class PlainCommand(FrozenValue, frozen=True, kw_only=True):
    """Words, and which outputs go to /dev/null."""

    words: tuple[PlainWord, ...]
    quiet_out: bool = False
    quiet_err: bool = False


class PlainStep(FrozenValue, frozen=True, kw_only=True):
    """A pipeline with what joins it to the one before."""

    joined: Joint
    commands: tuple[PlainCommand, ...]


class _NotPlain(Exception):
    pass


def read_strict(text: str) -> tuple[PlainStep, ...] | None:
    """The steps of `text`; None when it is anything but plain."""
    if not text.isprintable():  # controls, line ends, bidi and zero-width characters
        return None
    try:
        return _steps(_tokens(text))
    except _NotPlain:
        return None


def _tokens(text: str) -> list[str | PlainWord]:
    found: list[str | PlainWord] = []
    at = 0
    while at < len(text):
        if text[at] == " ":
            at += 1
        elif operator := next((op for op in _OPERATORS if text.startswith(op, at)), ""):
            found.append(operator)
            at += len(operator)
        elif redirect := next((r for r in ("&>", "1>", "2>", ">") if text.startswith(r, at)), ""):
            at = _to_null(text, at + len(redirect))
            found.append(redirect)
        else:
            word, at = _word(text, at)
            found.append(word)
    return found


def _to_null(text: str, at: int) -> int:
    while text[at : at + 1] == " ":
        at += 1
    end = at + len("/dev/null")
    if text[at:end] != "/dev/null" or (end < len(text) and text[end] not in " |;&"):
        raise _NotPlain
    return end


def _word(text: str, at: int) -> tuple[PlainWord, int]:
    start, parts, pattern, quoted = at, [], False, False
    while at < len(text) and text[at] not in " |;":
        char = text[at]
        if char in "'\"":
            part, at = _quoted(text, at)
            parts.append(part)
            quoted = True
        elif char == "\\":
            if at + 1 == len(text):
                raise _NotPlain
            parts.append(text[at + 1])
            quoted = True
            at += 2
        elif char == "&" and text.startswith("&&", at):
            break
        elif (char == "!" and text[at : at + 2] in ("!", "! ") and at == start) or char not in _FORBIDDEN | {"&", ">"}:
            pattern |= char in "*?["
            parts.append(char)
            at += 1
        else:
            raise _NotPlain
    if pattern and quoted:
        raise _NotPlain
    return PlainWord(text="".join(parts), pattern=pattern), at


def _quoted(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    parts: list[str] = []
    at += 1
    while at < len(text):
        char = text[at]
        if char == quote:
            return "".join(parts), at + 1
        if quote == '"' and char in "$`":
            raise _NotPlain
        if quote == '"' and char == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\"):
            at += 1
            char = text[at]
        parts.append(char)
        at += 1
    raise _NotPlain


def _steps(tokens: list[str | PlainWord]) -> tuple[PlainStep, ...]:
    steps: list[PlainStep] = []
    commands: list[PlainCommand] = []
    joined: Joint = ""
    current: list[str | PlainWord] = []
    if tokens and tokens[-1] == ";":
        tokens = tokens[:-1]
    for token in [*tokens, ";"]:
        match token:
            case "|":
                commands.append(_command(current))
                current = []
            case "&&" | "||" | ";":
                steps.append(PlainStep(joined=joined, commands=(*commands, _command(current))))
                commands, current, joined = [], [], token
            case _:
                current.append(token)
    return tuple(steps)


def _command(tokens: list[str | PlainWord]) -> PlainCommand:
    words = tuple(token for token in tokens if isinstance(token, PlainWord))
    redirects = {token for token in tokens if isinstance(token, str)}
    if not words or not isinstance(tokens[0], PlainWord):
        raise _NotPlain
    return PlainCommand(
        words=words, quiet_out=bool(redirects & {">", "1>", "&>"}), quiet_err=bool(redirects & {"2>", "&>"})
    )
