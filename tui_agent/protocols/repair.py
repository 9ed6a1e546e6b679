"""How far a JSON-like value reaches, told in one pass over text that is still coming in."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tui_agent.text.json_values import DEPTH_LIMIT, LENIENT, is_too_deep, parse_integer, parse_number, repair_surrogates
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "repair")

ScanStatus = Literal["more", "closed", "broken", "cut"]
"""Undecided yet; it ends at `pos`; what stands at `pos` is no JSON; the text ended before it did."""

_IN_STRING = {'"': re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)}
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
        self._quote = ""
        """The open string's quote, three of them for a triple one, or what opened a comment."""
        self._ended = False
        """A quote was seen and what follows decides."""
        self._before = ""
        """The last character outside strings that is no space."""
        self._key_expected = False

    def run(self, text: str, final: bool) -> ScanStatus:
        """Go on as far as `text` allows; `final` says that no more will come."""
        size = len(text)
        while True:
            if self._ended:
                if not self._decide(text, size, final):
                    return "cut" if final else "more"
            elif self._quote:
                if not self._string(text, size):
                    return "cut" if final else "more"
            else:
                status = self._outside(text, size, final)
                if status is not None:
                    return status

    def _string(self, text: str, size: int) -> bool:
        """Go to the end of the open string or comment; False where the text ends first."""
        if self._quote in _IN_STRING:
            found = _IN_STRING[self._quote].match(text, self.pos)
            self.pos = found.end() if found else self.pos
            if self.pos >= size or text[self.pos] == "\\":
                return False
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
        space = _RE.blanks.match(text, self.pos)
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
                self._before != "" and _RE.next_key.match(text, self.pos) is not None
            )
        else:
            ends = False
        self._ended = False
        if ends:
            self._quote = ""
            self._before = '"'
        return True

    def _outside(self, text: str, size: int, final: bool) -> ScanStatus | None:
        plain = _RE.plain.match(text, self.pos)
        if plain is not None and plain.end() > self.pos:
            if self._key_expected:
                space = _RE.blanks.match(text, self.pos)
                self.pos = space.end() if space else self.pos
                if self.pos < plain.end() and text[self.pos] != ":":
                    return "broken"
                self._key_expected = self.pos == plain.end()
            if seen := text[max(self.pos, plain.end() - 64) : plain.end()].strip():
                self._before = seen[-1]
            self.pos = plain.end()
        if self.pos >= size:
            return "cut" if final else "more"
        sign = text[self.pos]
        if self._key_expected:
            return "broken"
        if sign in "{[":
            return self._brackets(text, _RE.openers, 1)
        if sign in "}]":
            return self._brackets(text, _RE.closed, -1)
        if sign in "\"'/":
            return self._open(text, size, sign, final)
        return self._word(text, size, final)

    def _brackets(self, text: str, kind: re.Pattern[str], step: int) -> ScanStatus | None:
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

    def _open(self, text: str, size: int, sign: str, final: bool) -> ScanStatus | None:
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

    def _word(self, text: str, size: int, final: bool) -> ScanStatus | None:
        word = _RE.scan_word.match(text, self.pos)
        if word is None or word.end() - self.pos > _LOOK:
            return "broken"
        if word.end() == size and not final:
            return "more"
        if self._before.isdigit() and _RE.exponent.fullmatch(word.group()):
            self.pos = word.end()
            return None
        literals = _RE.words("literals")
        if word.group() not in literals:
            cut_literal = final and word.end() == size and any(one.startswith(word.group()) for one in literals)
            if self._before not in ("{", ",") and not cut_literal:
                return "broken"
            self._key_expected = True
        self._before = "a"
        self.pos = word.end()
        return None


SIZE_LIMIT = 4 * 1024 * 1024
"""Characters of the longest value that is read."""

MissingEnd = Literal["", "closers", "inside"]
"""Nothing is missing; only closing brackets are; the text ended inside a key, a value or before one."""


class UnreadableJson(ValueError):
    """The text is no JSON, however kindly read; the message says why, in words for the model."""


class CutString(str):
    """A string whose end never came."""


class RepairedJson(msgspec.Struct, frozen=True):
    """What was read."""

    value: Any
    end: int
    """Where in the text the value ended."""
    cut: MissingEnd = ""


def repair_json(text: str) -> RepairedJson:
    """The value with which `text` begins. Raises Unreadable.

    Accepted beside JSON: raw control characters, trailing and missing commas, single and triple quotes, unescaped inner
    quotes where their role is plain, bare keys, comments, Python's and JavaScript's words for nothing and truth,
    missing closing brackets. NaN and the infinities become None, numbers of absurd length floats; the last of
    duplicate keys counts.
    """
    if len(text) > SIZE_LIMIT:
        raise UnreadableJson(f"it is longer than {SIZE_LIMIT:,} characters")
    try:
        value, end = LENIENT.raw_decode(text.lstrip())
        end += len(text) - len(text.lstrip())
        reading = RepairedJson(value, end)
    except RecursionError:
        raise UnreadableJson(f"it is nested deeper than {DEPTH_LIMIT} levels") from None
    except ValueError:
        reading = _Reader(text).whole()
    if is_too_deep(text, reading.value):
        raise UnreadableJson(f"it is nested deeper than {DEPTH_LIMIT} levels")
    if "\\ud" in text or "\\uD" in text:
        reading = RepairedJson(repair_surrogates(reading.value), reading.end, reading.cut)
    return reading


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_WORDS: dict[str, Any] = {
    **dict.fromkeys(["true", "True"], True),
    **dict.fromkeys(["false", "False"], False),
    **dict.fromkeys(["null", "None", "undefined", "NaN", "nan", "Infinity", "inf", "-Infinity"], None),
}
_KEY_NEXT = r"""(?:["'][^"'\n]{0,80}["']|[A-Za-z_$][\w$]{0,80})\s*:"""
_ENDS = {
    "key": re.compile(r"\s*:"),
    "field": re.compile(
        rf"\s*(?:\Z|[}}\]]|/[/*]|,\s*(?:{_KEY_NEXT}|[}}\]]|/[/*]|\Z|[\"'][^\"'\n:]{{0,80}}[\"']?\s*\Z)|(?<=\s)[\"'][\w$.\-]{{1,64}}[\"']\s*:)"
    ),
    "item": re.compile(r"\s*(?:\Z|[}\]]|,\s*(?:[\"'{\[\]\d\-tfnTFN]|\Z))"),
}
_UNESCAPED = "a quote inside a string is not escaped, or one of its own is missing"


def _unescaped(raw: str) -> str:
    """The text that a string's inside stands for; a backslash that begins no known escape stays."""
    if "\\" not in raw:
        return raw
    try:
        return str(LENIENT.decode(f'"{raw}"'))
    except ValueError:
        pass
    return _RE.escape.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    sign = found[1]
    return chr(int(sign[1:], 16)) if len(sign) == 5 else _ESCAPES.get(sign, "\\" + sign)


class _Reader:
    """One tolerant pass. Recursion is bounded by DEPTH_LIMIT."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._depth = 0
        self._cut: MissingEnd = ""

    def whole(self) -> RepairedJson:
        self._skip()
        return RepairedJson(self._value("item"), self._pos, self._cut)

    def _skip(self) -> str:
        """Pass over space and comments; the character that comes next, "" at the end."""
        found = _RE.space.match(self._text, self._pos)
        self._pos = found.end() if found else self._pos
        return self._text[self._pos : self._pos + 1]

    def _value(self, place: str) -> Any:
        sign = self._skip()
        if sign == "":
            self._cut = "inside"
            return None
        if sign in "{[":
            self._depth += 1
            if self._depth > DEPTH_LIMIT:
                raise UnreadableJson(f"it is nested deeper than {DEPTH_LIMIT} levels")
            self._pos += 1
            value: Any = self._object() if sign == "{" else self._array()
            self._depth -= 1
            return value
        if sign in "\"'":
            return self._string(sign, place)
        return self._scalar(sign)

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (sign := self._next("}", "]", found)) and self._field(sign, found):
            pass
        return found

    def _next(self, closer: str, other: str, found: dict[str, Any] | list[Any]) -> str:
        """The character with which the next member of `found` begins; "" where that ends, or the `other` bracket ends
        what is around it."""
        while (sign := self._skip()) == ",":
            self._pos += 1
        if sign == closer:
            self._pos += 1
        elif sign == "":
            self._cut = self._cut or ("closers" if found else "inside")
        elif not (sign == other and found):
            return sign
        return ""

    def _field(self, sign: str, found: dict[str, Any]) -> bool:
        """Read a key and its value; False where the text ended in it."""
        if sign in "\"'":
            if _RE.half_key.match(self._text, self._pos):
                self._cut = "inside"
                self._pos = len(self._text)
                return False
            key = self._string(sign, "key")
        else:
            word = _RE.word.match(self._text, self._pos)
            if word is None:
                raise UnreadableJson(f"a key was expected at character {self._pos}")
            key, self._pos = word.group(), word.end()
        sign = self._skip()
        if sign != ":":
            if sign:
                raise UnreadableJson(f"a colon was expected at character {self._pos}")
            self._cut = "inside"
            return False
        self._pos += 1
        value = self._value("field")
        if self._cut == "inside" and not isinstance(value, CutString | dict | list):
            return False
        found[key] = value
        return not self._cut

    def _array(self) -> list[Any]:
        found: list[Any] = []
        while self._next("]", "}", found):
            found.append(self._value("item"))
            if self._cut:
                break
        return found

    def _string(self, quote: str, place: str) -> str:
        triple = quote * 3
        if self._text.startswith(triple, self._pos):
            begin = self._pos + 3
            end = self._text.find(triple, begin)
            self._pos = end + 3 if end >= 0 else len(self._text)
            if end >= 0:
                return self._text[begin:end]
            self._cut = "inside"
            return CutString(self._text[begin:])
        parts: list[str] = []
        self._pos += 1
        while True:
            piece = _IN_STRING[quote].match(self._text, self._pos)
            if piece is not None:
                parts.append(piece.group())
                self._pos = piece.end()
            if self._pos >= len(self._text) or self._text[self._pos] == "\\":
                self._cut = "inside"
                self._pos = len(self._text)
                return CutString(_unescaped("".join(parts)))
            self._pos += 1
            if _ENDS[place].match(self._text, self._pos):
                if quote == '"' and len(parts) % 4 == 3:  # an odd number of inner quotes
                    raise UnreadableJson(_UNESCAPED)
                return _unescaped("".join(parts))
            self._check_inner(parts, place)
            parts.append('\\"' if quote == '"' else quote)

    def _check_inner(self, parts: list[str], place: str) -> None:
        """Refuse a string whose inner quote may as well be the border of another key or value."""
        if len(parts) == 1 and _RE.joined.match(self._text, self._pos):
            raise UnreadableJson("strings must not be joined with +")
        behind_comma = len(parts) > 2 and parts[-3].rstrip().endswith(",") and _RE.one_word.fullmatch(parts[-1])
        if (
            place == "key"
            or _RE.swallowed.match(self._text, self._pos)
            or (behind_comma and _ENDS["key"].match(self._text, self._pos))
        ):
            raise UnreadableJson(_UNESCAPED)

    def _scalar(self, sign: str) -> Any:
        number = _RE.number.match(self._text, self._pos)
        if number is not None and number.end() > self._pos and any(one.isdigit() for one in number.group()):
            self._pos = number.end()
            digits = number.group().replace("_", "")
            return parse_integer(digits) if digits.lstrip("+-").isdecimal() else parse_number(digits)
        word = _RE.word.match(self._text, self._pos + (sign in "+-"))
        if word is not None:
            self._pos = word.end()
            if word.group() in _WORDS:
                return _WORDS[word.group()]
            if self._pos == len(self._text):
                for whole, value in _WORDS.items():
                    if whole.startswith(word.group()):
                        self._cut = "closers"
                        return value
        elif sign in ",}]":
            return None
        raise UnreadableJson(f"a value was expected at character {self._pos}")
