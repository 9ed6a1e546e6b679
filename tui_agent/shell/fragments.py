"""The names of files in the arguments of a command: whole words, values of options, and parts of both."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tui_agent.shell.syntax import Word

_ADDRESS = re.compile(r"\b(?!file:)[a-zA-Z][\w+.-]*://[^\s'\"]*|\b(?:jsr|npm|github|git\+\w+):\S*")
_LONG_OPTION = re.compile(r"--?[\w.-]*=(.*)", re.DOTALL)
_SHORT_OPTION = re.compile(r"-{1,2}[\w-]*?([./~$].*)", re.DOTALL)
_SEPARATORS = re.compile(r"[=,:@{}|;<>()'\"%]+|(?<=\S)\s+")


def path_fragments(word: Word, roots: Iterable[str] = ()) -> list[str]:
    """Return the parts of a word that may name a file; of text with blanks only what looks like a path.

    The name of a folder in `roots` is not split, whatever characters it contains.
    """
    text = word.text if word.text is not None else re.sub(r"[\"']", "", word.source)
    text = _ADDRESS.sub("", text.replace("file://", ""))
    parts: list[str] = []
    if option := _LONG_OPTION.fullmatch(text):
        text = option[1]
    elif text.startswith("-"):
        option = _SHORT_OPTION.fullmatch(text)
        text = option[1] if option else ",".join(_SEPARATORS.split(text)[1:])
    if not text:
        return []
    has_blanks = re.search(r"\s", text) is not None
    if not has_blanks or text.startswith(("/", "~/", "../")):
        parts.append(text)
    for root in filter(_SEPARATORS.search, roots):
        text = text.replace(f"{root}/", "./")
    for piece in _SEPARATORS.split(text):
        option = _SHORT_OPTION.fullmatch(piece)
        part = option[1] if option else piece
        if part and (not has_blanks or part.startswith(("/", "~/", "../", "$HOME"))):
            parts.append(part)
    return list(dict.fromkeys(parts))
