"""How far a JSON-like value reaches, told in one pass over text that is still coming in."""

from __future__ import annotations

import re
from typing import Literal

Status = Literal["more", "closed", "broken", "cut"]
"""Undecided yet; it ends at `pos`; what stands at `pos` is no JSON; the text ended before it did."""

_PLAIN = re.compile(r'(?:[\s:,0-9.+\-]++|"(?:[^"\\]++|\\.)*+"(?=[,:}\]]))*+', re.DOTALL)
_OPENERS = re.compile(r"[{\[\s]++")
_CLOSED = re.compile(r"[}\]\s]++")
_EXPONENT = re.compile(r"[eE]\d*|_[\d_]*")
_WORD = re.compile(r"[A-Za-z_$][\w$.\-]*")
_IN_STRING = {
    '"': re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL),
}
_SPACE = re.compile(r"\s*")
_NEXT_KEY = re.compile(r"""["'][\w$.\-]{1,64}["']\s{0,16}:""")
_LITERALS = frozenset(
    ["true", "false", "null", "True", "False", "None", "NaN", "Infinity", "undefined", "nan", "inf"]
)
_CLOSERS = ("</tool_call", "</function", "```", "//", "/*")
_LOOK = 96
"""Characters after a quote that decide whether it ends its string."""


class ValueScan:
    """Follows one object or array that begins at `start` to its end.

    A quote ends a string only where JSON can go on behind it, so unescaped quotes inside are survived. The work is
    linear in the text however it is cut, since `run` goes on where it stopped.
    """

    def __init__(self, start: int) -> None:
        self.pos = start
        self.depth = 0
        self.in_string = False
        self._quote = ""
        """The open string's quote, three of them for a triple one, or what opened a comment."""
        self._ended = False
        """A quote was seen and what follows decides."""
        self._quote_at = start
        self._before = ""
        """The last character outside strings that is no space."""
        self._key_expected = False

    def run(self, text: str, final: bool) -> Status:
        """Go on as far as `text` allows; `final` says that no more will come."""
        size = len(text)
        while True:
            if self._ended:
                if not self._decide(text, size, final):
                    return self._pause(final)
            elif self._quote:
                if not self._string(text, size):
                    return self._pause(final)
            else:
                status = self._outside(text, size, final)
                if status is not None:
                    return status

    def _pause(self, final: bool) -> Status:
        self.in_string = final and bool(self._quote) and self._quote not in ("//", "/*")
        return "cut" if final else "more"

    def _string(self, text: str, size: int) -> bool:
        """Go to the end of the open string or comment; False where the text ends first."""
        if self._quote in _IN_STRING:
            found = _IN_STRING[self._quote].match(text, self.pos)
            self.pos = found.end() if found else self.pos
            if self.pos >= size or text[self.pos] == "\\":
                return False
            self._quote_at = self.pos
            self.pos += 1
            self._ended = True
            return True
        closer = {"//": "\n", "/*": "*/"}.get(self._quote, self._quote)
        at = text.find(closer, self.pos)
        if at < 0:
            self.pos = max(self.pos, size - len(closer) + 1)
            return False
        self.pos = at + len(closer)
        self._quote = ""
        return True

    def _decide(self, text: str, size: int, final: bool) -> bool:
        """Whether the quote ended its string; False while that is open."""
        space = _SPACE.match(text, self.pos)
        self.pos = space.end() if space else self.pos
        if self.pos >= size:
            if final:
                self._quote, self._ended = "", False
            return False
        sign = text[self.pos]
        if sign in ",:}]":
            ends = True
        elif sign in "\"'<`/":
            if size - self.pos < _LOOK and not final:
                return False
            ends = text.startswith(_CLOSERS, self.pos) or (
                self._before != "" and _NEXT_KEY.match(text, self.pos) is not None
            )
        else:
            ends = False
        self._ended = False
        if ends:
            self._quote = ""
            self._before = '"'
        return True

    def _outside(self, text: str, size: int, final: bool) -> Status | None:
        plain = _PLAIN.match(text, self.pos)
        if plain is not None and plain.end() > self.pos:
            if self._key_expected:
                space = _SPACE.match(text, self.pos)
                self.pos = space.end() if space else self.pos
                if self.pos < plain.end() and text[self.pos] != ":":
                    return "broken"
                self._key_expected = self.pos == plain.end()
            if seen := text[max(self.pos, plain.end() - 64) : plain.end()].strip():
                self._before = seen[-1]
            self.pos = plain.end()
        if self.pos >= size:
            return self._pause(final)
        sign = text[self.pos]
        if self._key_expected:
            return "broken"
        if sign in "{[":
            return self._brackets(text, _OPENERS, 1)
        if sign in "}]":
            return self._brackets(text, _CLOSED, -1)
        if sign in "\"'/":
            return self._open(text, size, sign, final)
        return self._word(text, size, final)

    def _brackets(self, text: str, kind: re.Pattern[str], step: int) -> Status | None:
        found = kind.match(text, self.pos)
        run = found.group() if found is not None else text[self.pos]
        if step > 0:
            self.depth += run.count("{") + run.count("[")
        elif (closed := run.count("}") + run.count("]")) < self.depth:
            self.depth -= closed
        else:
            for offset, sign in enumerate(run):
                self.depth -= sign in "}]"
                if self.depth == 0:
                    self.pos += offset + 1
                    return "closed"
        self._before = run.rstrip()[-1]
        self.pos += len(run)
        return None

    def _open(self, text: str, size: int, sign: str, final: bool) -> Status | None:
        if size - self.pos < 3 and not final:
            return "more"
        if sign == "/":
            self._quote = text[self.pos : self.pos + 2]
            if self._quote not in ("//", "/*"):
                self._quote = ""
                return "broken"
            self.pos += 2
            return None
        if sign == "'" and self._before not in ("{", "[", ",", ":"):
            return "broken"
        triple = sign * 3
        self._quote = triple if text.startswith(triple, self.pos) else sign
        self.pos += len(self._quote)
        return None

    def _word(self, text: str, size: int, final: bool) -> Status | None:
        word = _WORD.match(text, self.pos)
        if word is None or word.end() - self.pos > _LOOK:
            return "broken"
        if word.end() == size and not final:
            return "more"
        if self._before.isdigit() and _EXPONENT.fullmatch(word.group()):
            self.pos = word.end()
            return None
        if word.group() not in _LITERALS:
            cut_literal = (
                final and word.end() == size and any(one.startswith(word.group()) for one in _LITERALS)
            )
            if self._before not in ("{", ",") and not cut_literal:
                return "broken"
            self._key_expected = True
        self._before = "a"
        self.pos = word.end()
        return None
