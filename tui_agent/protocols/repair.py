"""Reading JSON as models write it: strictly first, then with the usual slips forgiven, never by guessing content."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec

DEPTH_LIMIT = 64
SIZE_LIMIT = 4 * 1024 * 1024
"""Characters of the longest value that is read (R-36)."""

Cut = Literal["", "closers", "inside"]
"""Nothing is missing; only closing brackets are; the text ended inside a key, a value or before one."""


class Unreadable(ValueError):
    """The text is no JSON, however kindly read; the message says why, in words for the model."""


class Half(str):
    """A string whose end never came."""


class Reading(msgspec.Struct, frozen=True):
    """What was read."""

    value: Any
    end: int
    """Where in the text the value ended."""
    cut: Cut = ""


def read(text: str) -> Reading:
    """The value with which `text` begins. Raises Unreadable.

    Accepted beside JSON: raw control characters, trailing and missing commas, single and triple quotes, unescaped inner
    quotes where their role is plain, bare keys, comments, Python's and JavaScript's words for nothing and truth,
    missing closing brackets. NaN and the infinities become None, numbers of absurd length floats; the last of
    duplicate keys counts.
    """
    if len(text) > SIZE_LIMIT:
        raise Unreadable(f"it is longer than {SIZE_LIMIT:,} characters")
    try:
        value, end = _STRICT.raw_decode(text.lstrip())
        end += len(text) - len(text.lstrip())
        reading = Reading(value, end)
    except RecursionError:
        raise Unreadable(f"it is nested deeper than {DEPTH_LIMIT} levels") from None
    except ValueError:
        reading = _Reader(text).whole()
    if text.count("[") + text.count("{") > DEPTH_LIMIT:
        _check_depth(reading.value)
    if "\\ud" in text or "\\uD" in text:
        reading = Reading(_whole_characters(reading.value), reading.end, reading.cut)
    return reading


def _integer(digits: str) -> int | float | None:
    if len(digits) <= 40:
        return int(digits)
    number = float(digits)
    return number if abs(number) != float("inf") else None


def _number(digits: str) -> float | None:
    number = float(digits)
    return number if abs(number) != float("inf") else None


_STRICT = json.JSONDecoder(
    strict=False, parse_int=_integer, parse_float=_number, parse_constant=lambda _name: None
)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return
    raise Unreadable(f"it is nested deeper than {DEPTH_LIMIT} levels")


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        paired = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return type(value)(paired)
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    return value


_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)*)?(?:\.\d*)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$.\-]*")
_PIECE = {
    '"': re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
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
_JOINED = re.compile(r"""\s*\+\s*["']""")
_SWALLOWED = re.compile(r"""\s*(?:,\s*["']|(?:,|(?<=\s))\s*[A-Za-z_$][\w$.\-]{0,64}["']\s*:)""")
_ONE_WORD = re.compile(r"[\w$.\-]{1,64}")
_UNESCAPED = "a quote inside a string is not escaped, or one of its own is missing"
_HALF_KEY = re.compile(r"""["']?[^"'\n:]*\Z""")


def _unescaped(raw: str) -> str:
    """The text that a string's inside stands for; a backslash that begins no known escape stays."""
    if "\\" not in raw:
        return raw
    try:
        return str(_STRICT.decode(f'"{raw}"'))
    except ValueError:
        pass
    return _ESCAPE.sub(_character, raw)


def _character(found: re.Match[str]) -> str:
    sign = found[1]
    return chr(int(sign[1:], 16)) if len(sign) == 5 else _ESCAPES.get(sign, "\\" + sign)


class _Reader:
    """One tolerant pass. Recursion is bounded by DEPTH_LIMIT."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._depth = 0
        self._cut: Cut = ""

    def whole(self) -> Reading:
        self._skip()
        return Reading(self._value("item"), self._pos, self._cut)

    def _skip(self) -> str:
        """Pass over space and comments; the character that comes next, "" at the end."""
        found = _SPACE.match(self._text, self._pos)
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
                raise Unreadable(f"it is nested deeper than {DEPTH_LIMIT} levels")
            self._pos += 1
            value: Any = self._object() if sign == "{" else self._array()
            self._depth -= 1
            return value
        if sign in "\"'":
            return self._string(sign, place)
        return self._scalar(sign)

    def _object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while True:
            sign = self._skip()
            if sign == ",":
                self._pos += 1
                continue
            if sign == "}":
                self._pos += 1
                return found
            if sign == "":
                self._cut = self._cut or ("closers" if found else "inside")
                return found
            if sign == "]" and found:
                return found
            if not self._field(sign, found):
                return found

    def _field(self, sign: str, found: dict[str, Any]) -> bool:
        """Read a key and its value; False where the text ended in it."""
        if sign in "\"'":
            if _HALF_KEY.match(self._text, self._pos):
                self._cut = "inside"
                self._pos = len(self._text)
                return False
            key = self._string(sign, "key")
        else:
            word = _WORD.match(self._text, self._pos)
            if word is None:
                raise Unreadable(f"a key was expected at character {self._pos}")
            key, self._pos = word.group(), word.end()
        sign = self._skip()
        if sign != ":":
            if sign:
                raise Unreadable(f"a colon was expected at character {self._pos}")
            self._cut = "inside"
            return False
        self._pos += 1
        value = self._value("field")
        if self._cut == "inside" and not isinstance(value, Half | dict | list):
            return False
        found[key] = value
        return not self._cut

    def _array(self) -> list[Any]:
        found: list[Any] = []
        while True:
            sign = self._skip()
            if sign == ",":
                self._pos += 1
                continue
            if sign == "]":
                self._pos += 1
                return found
            if sign == "":
                self._cut = self._cut or ("closers" if found else "inside")
                return found
            if sign == "}" and found:
                return found
            found.append(self._value("item"))
            if self._cut:
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
            return Half(self._text[begin:])
        parts: list[str] = []
        self._pos += 1
        while True:
            piece = _PIECE[quote].match(self._text, self._pos)
            if piece is not None:
                parts.append(piece.group())
                self._pos = piece.end()
            if self._pos >= len(self._text) or self._text[self._pos] == "\\":
                self._cut = "inside"
                self._pos = len(self._text)
                return Half(_unescaped("".join(parts)))
            self._pos += 1
            if _ENDS[place].match(self._text, self._pos):
                if quote == '"' and len(parts) % 4 == 3:  # an odd number of inner quotes
                    raise Unreadable(_UNESCAPED)
                return _unescaped("".join(parts))
            self._check_inner(parts, place)
            parts.append('\\"' if quote == '"' else quote)

    def _check_inner(self, parts: list[str], place: str) -> None:
        """Refuse a string whose inner quote may as well be the border of another key or value."""
        if len(parts) == 1 and _JOINED.match(self._text, self._pos):
            raise Unreadable("strings must not be joined with +")
        behind_comma = len(parts) > 2 and parts[-3].rstrip().endswith(",") and _ONE_WORD.fullmatch(parts[-1])
        if (
            place == "key"
            or _SWALLOWED.match(self._text, self._pos)
            or (behind_comma and _ENDS["key"].match(self._text, self._pos))
        ):
            raise Unreadable(_UNESCAPED)

    def _scalar(self, sign: str) -> Any:
        number = _NUMBER.match(self._text, self._pos)
        if number is not None and number.end() > self._pos and any(one.isdigit() for one in number.group()):
            self._pos = number.end()
            digits = number.group().replace("_", "")
            return _integer(digits) if digits.lstrip("+-").isdecimal() else _number(digits)
        word = _WORD.match(self._text, self._pos + (sign in "+-"))
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
        raise Unreadable(f"a value was expected at character {self._pos}")
