"""What variables of a command line hold, as far as its text tells: assignments, loops over words, `$HOME`, `$PWD`."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Sequence
from functools import partial

from tui_agent.shell.syntax import Word

_REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_CURRENT_FOLDER = re.compile(r"\$\(\s*(?:{0})\s*\)|`\s*(?:{0})\s*`".format("pwd|git rev-parse --show-toplevel"))
_MAX_TEXTS = 64
"""Texts that one word may expand to."""


class Variables:
    """The values that each variable gets anywhere in a command line."""

    def __init__(self) -> None:
        self._values: dict[str, list[Word]] = {}

    def assign(self, name: str, value: Word) -> None:
        """Note one more value of a variable."""
        self._values.setdefault(name.rstrip("+"), []).append(value)

    def knows(self, name: str) -> bool:
        """Return whether the command line itself sets the variable."""
        return name in self._values

    def expand(self, words: Sequence[Word], folder: str) -> list[Word]:
        """Replace words by what they expand to in `folder`, an absolute path or empty; unknown ones stay."""
        return [expanded for word in words for expanded in self._expand(word, folder)]

    def _expand(self, word: Word, folder: str) -> list[Word]:
        if word.text is not None:
            return [word]
        source = word.source
        if folder.startswith("/"):
            source = _CURRENT_FOLDER.sub(lambda _: shlex.quote(folder), source)
        if "$(" in source or "`" in source or "<(" in source or "'" in source:
            return [word]
        names = list(dict.fromkeys(match[1] or match[2] for match in _REFERENCE.finditer(source)))
        if not names:
            return [word]
        choices = [self._texts(name, folder) for name in names]
        if not all(choices) or "$" in _REFERENCE.sub("", source):
            return [word]
        results: list[Word] = []
        for texts in itertools.islice(itertools.product(*choices), _MAX_TEXTS):
            values = dict(zip(names, texts, strict=True))
            results += _split(_REFERENCE.sub(partial(_value, values), source))
        return results

    def _texts(self, name: str, folder: str) -> list[str]:
        """Return the values of a variable; none if one of them is not known."""
        values = self._values.get(name)
        if values is None:
            return {"HOME": ["~"], "PWD": [folder] if folder.startswith("/") else [], "OLDPWD": ["~-"]}.get(name, [])
        texts = [value.text for value in values]
        return [text for text in texts if text is not None] if None not in texts else []


def _value(values: dict[str, str], match: re.Match[str]) -> str:
    return values[match[1] or match[2]]


def _split(text: str) -> list[Word]:
    try:
        words = shlex.split(text) if '"' not in text else ["".join(shlex.split(text.replace(" ", "\0")))]
    except ValueError:
        return [Word(source=text, text=None)]
    return [Word.literal(word.replace("\0", " "), is_pattern=any(c in word for c in "*?[{~")) for word in words]
