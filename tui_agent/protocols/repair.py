"""Tolerant JSON: find the end of a value in a stream, and parse values with the errors that models make."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from tui_agent.text.json_values import LENIENT, MAX_DEPTH, is_too_deep, parse_integer, parse_number, repair_surrogates
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "repair")

ScanStatus = Literal["more", "closed", "broken", "cut"]
"""Undecided; it ends at `pos`; what is at `pos` is not JSON; the text ended before the value."""

_IN_STRING = {'"': re.compile(r'(?:[^"\\]++|\\.)*+', re.DOTALL), "'": re.compile(r"(?:[^'\\]++|\\.)*+", re.DOTALL)}
_STRING_FOLLOWERS = ("</tool_call", "</function", "```", "//", "/*")
_LOOKAHEAD = 96
"""Characters after a quote that decide whether it ends its string."""


class ValueScan:
    """Finds the end of the object or array that begins at `start`.

    A quote ends a string only if JSON can continue after it, which tolerates unescaped quotes. The work is linear
    however the text is split, since `run` continues where it stopped.
    """

    def __init__(self, start: int) -> None:
        self.pos = start
        self.depth = 0
        self._quote = ""
        """The quote of the open string (three for a triple one), or what opened a comment."""
        self._quote_seen = False
        """A quote was seen; what follows decides whether it ends the string."""
        self._previous = ""
        """The last non-blank character outside strings."""
        self._key_expected = False

    def run(self, text: str, final: bool) -> ScanStatus:
        """Scan as far as `text` allows; `final`: no more text will follow."""
        size = len(text)
        while True:
            if self._quote_seen:
                if not self._decide_quote(text, size, final):
                    return "cut" if final else "more"
            elif self._quote:
                if not self._scan_string(text, size):
                    return "cut" if final else "more"
            else:
                status = self._scan_outside(text, size, final)
                if status is not None:
                    return status

    def _scan_string(self, text: str, size: int) -> bool:
        """Scan to the end of the open string or comment; return False if the text ends first."""
        if self._quote in _IN_STRING:
            match = _IN_STRING[self._quote].match(text, self.pos)
            self.pos = match.end() if match else self.pos
            if self.pos >= size or text[self.pos] == "\\":
                return False
            self.pos += 1
            self._quote_seen = True
            return True
        closer = {"//": "\n", "/*": "*/"}.get(self._quote, self._quote)
        at = text.find(closer, self.pos)
        if at < 0:
            self.pos = max(self.pos, size - len(closer) + 1)
            return False
        self.pos = at + len(closer)
        self._quote = ""
        return True

    def _decide_quote(self, text: str, size: int, final: bool) -> bool:
        """Decide whether the quote ended its string; return False while undecided."""
        space = _RE.blanks.match(text, self.pos)
        self.pos = space.end() if space else self.pos
        if self.pos >= size:
            if final:
                self._quote, self._quote_seen = "", False
            return False
        char = text[self.pos]
        if char in ",:}]":
            ends = True
        elif char in "\"'<`/":
            if size - self.pos < _LOOKAHEAD and not final:
                return False
            ends = text.startswith(_STRING_FOLLOWERS, self.pos) or (
                self._previous != "" and _RE.next_key.match(text, self.pos) is not None
            )
        else:
            ends = False
        self._quote_seen = False
        if ends:
            self._quote = ""
            self._previous = '"'
        return True

    def _scan_outside(self, text: str, size: int, final: bool) -> ScanStatus | None:
        plain = _RE.plain.match(text, self.pos)
        if plain is not None and plain.end() > self.pos:
            if self._key_expected:
                space = _RE.blanks.match(text, self.pos)
                self.pos = space.end() if space else self.pos
                if self.pos < plain.end() and text[self.pos] != ":":
                    return "broken"
                self._key_expected = self.pos == plain.end()
            if visible := text[max(self.pos, plain.end() - 64) : plain.end()].strip():
                self._previous = visible[-1]
            self.pos = plain.end()
        if self.pos >= size:
            return "cut" if final else "more"
        char = text[self.pos]
        if self._key_expected:
            return "broken"
        if char in "{[":
            return self._brackets(text, _RE.openers, 1)
        if char in "}]":
            return self._brackets(text, _RE.closed, -1)
        if char in "\"'/":
            return self._open_string(text, size, char, final)
        return self._scan_word(text, size, final)

    def _brackets(self, text: str, kind: re.Pattern[str], step: int) -> ScanStatus | None:
        match = kind.match(text, self.pos)
        run = match.group() if match is not None else text[self.pos]
        if step > 0:
            self.depth += run.count("{") + run.count("[")
        elif (closed := run.count("}") + run.count("]")) < self.depth:
            self.depth -= closed
        else:
            for offset, char in enumerate(run):
                self.depth -= char in "}]"
                if self.depth == 0:
                    self.pos += offset + 1
                    return "closed"
        self._previous = run.rstrip()[-1]
        self.pos += len(run)
        return None

    def _open_string(self, text: str, size: int, char: str, final: bool) -> ScanStatus | None:
        if size - self.pos < 3 and not final:
            return "more"
        if char == "/":
            self._quote = text[self.pos : self.pos + 2]
            if self._quote not in ("//", "/*"):
                self._quote = ""
                return "broken"
            self.pos += 2
            return None
        if char == "'" and self._previous not in ("{", "[", ",", ":"):
            return "broken"
        triple = char * 3
        self._quote = triple if text.startswith(triple, self.pos) else char
        self.pos += len(self._quote)
        return None

    def _scan_word(self, text: str, size: int, final: bool) -> ScanStatus | None:
        word = _RE.scan_word.match(text, self.pos)
        if word is None or word.end() - self.pos > _LOOKAHEAD:
            return "broken"
        if word.end() == size and not final:
            return "more"
        if self._previous.isdigit() and _RE.exponent.fullmatch(word.group()):
            self.pos = word.end()
            return None
        literals = _RE.words("literals")
        if word.group() not in literals:
            cut_literal = final and word.end() == size and any(literal.startswith(word.group()) for literal in literals)
            if self._previous not in ("{", ",") and not cut_literal:
                return "broken"
            self._key_expected = True
        self._previous = "a"
        self.pos = word.end()
        return None


SIZE_LIMIT = 4 * 1024 * 1024
"""Maximum length of a value, in characters."""

MissingEnd = Literal["", "closers", "inside"]
"""Nothing is missing; only closing brackets are; the text ended inside or before a key or value."""


class UnreadableJson(ValueError):
    """The text can't be parsed even tolerantly; the message is for the model."""


class TruncatedString(str):
    """A string whose end is missing."""


class RepairedJson(msgspec.Struct, frozen=True):
    """A parsed value."""

    value: Any
    end: int
    """Where the value ends in the text."""
    cut: MissingEnd = ""


def repair_json(text: str) -> RepairedJson:
    """Parse the value at the beginning of `text`. Raises UnreadableJson.

    Accepted in addition to JSON: raw control characters, trailing and missing commas, single and triple quotes,
    unescaped inner quotes with a clear role, bare keys, comments, literals of Python and JavaScript, missing closing
    brackets. NaN and infinities become None, overlong numbers floats; the last of duplicate keys wins.
    """
    if len(text) > SIZE_LIMIT:
        raise UnreadableJson(f"it is longer than {SIZE_LIMIT:,} characters")
    try:
        value, end = LENIENT.raw_decode(text.lstrip())
        end += len(text) - len(text.lstrip())
        repaired = RepairedJson(value, end)
    except RecursionError:
        raise UnreadableJson(f"it is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        repaired = _TolerantParser(text).parse()
    if is_too_deep(text, repaired.value):
        raise UnreadableJson(f"it is nested deeper than {MAX_DEPTH} levels")
    if "\\ud" in text or "\\uD" in text:
        repaired = RepairedJson(repair_surrogates(repaired.value), repaired.end, repaired.cut)
    return repaired


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_LITERALS: dict[str, Any] = {
    **dict.fromkeys(["true", "True"], True),
    **dict.fromkeys(["false", "False"], False),
    **dict.fromkeys(["null", "None", "undefined", "NaN", "nan", "Infinity", "inf", "-Infinity"], None),
}
_NEXT_KEY = r"""(?:["'][^"'\n]{0,80}["']|[A-Za-z_$][\w$]{0,80})\s*:"""
_STRING_ENDS = {
    "key": re.compile(r"\s*:"),
    "field": re.compile(
        rf"\s*(?:\Z|[}}\]]|/[/*]|,\s*(?:{_NEXT_KEY}|[}}\]]|/[/*]|\Z|[\"'][^\"'\n:]{{0,80}}[\"']?\s*\Z)|(?<=\s)[\"'][\w$.\-]{{1,64}}[\"']\s*:)"
    ),
    "item": re.compile(r"\s*(?:\Z|[}\]]|,\s*(?:[\"'{\[\]\d\-tfnTFN]|\Z))"),
}
_UNESCAPED_QUOTE = "a quote inside a string is not escaped, or one of its own is missing"


def _unescape(raw: str) -> str:
    """Return the text that a string's content stands for; a backslash before an unknown escape is kept."""
    if "\\" not in raw:
        return raw
    try:
        return str(LENIENT.decode(f'"{raw}"'))
    except ValueError:
        pass
    return _RE.escape.sub(_unescape_match, raw)


def _unescape_match(match: re.Match[str]) -> str:
    char = match[1]
    return chr(int(char[1:], 16)) if len(char) == 5 else _ESCAPES.get(char, "\\" + char)


class _TolerantParser:
    """Tolerant recursive parser. Recursion is bounded by MAX_DEPTH."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._depth = 0
        self._cut: MissingEnd = ""

    def parse(self) -> RepairedJson:
        self._skip_space()
        return RepairedJson(self._parse_value("item"), self._pos, self._cut)

    def _skip_space(self) -> str:
        """Skip space and comments; return the next character, "" at the end."""
        match = _RE.space.match(self._text, self._pos)
        self._pos = match.end() if match else self._pos
        return self._text[self._pos : self._pos + 1]

    def _parse_value(self, role: str) -> Any:
        char = self._skip_space()
        if char == "":
            self._cut = "inside"
            return None
        if char in "{[":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise UnreadableJson(f"it is nested deeper than {MAX_DEPTH} levels")
            self._pos += 1
            value: Any = self._parse_object() if char == "{" else self._parse_array()
            self._depth -= 1
            return value
        if char in "\"'":
            return self._parse_string(char, role)
        return self._parse_scalar(char)

    def _parse_object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while (char := self._next_member("}", "]", members)) and self._parse_field(char, members):
            pass
        return members

    def _next_member(self, closer: str, other: str, members: dict[str, Any] | list[Any]) -> str:
        """Return the first character of the next member of `members`; "" if there is none: its `closer` follows, the
        text ends, or the `other` bracket ends the enclosing value."""
        while (char := self._skip_space()) == ",":
            self._pos += 1
        if char == closer:
            self._pos += 1
        elif char == "":
            self._cut = self._cut or ("closers" if members else "inside")
        elif not (char == other and members):
            return char
        return ""

    def _parse_field(self, char: str, members: dict[str, Any]) -> bool:
        """Parse a key and its value; return False if the text ended within them."""
        if char in "\"'":
            if _RE.half_key.match(self._text, self._pos):
                self._cut = "inside"
                self._pos = len(self._text)
                return False
            key = self._parse_string(char, "key")
        else:
            word = _RE.word.match(self._text, self._pos)
            if word is None:
                raise UnreadableJson(f"a key was expected at character {self._pos}")
            key, self._pos = word.group(), word.end()
        char = self._skip_space()
        if char != ":":
            if char:
                raise UnreadableJson(f"a colon was expected at character {self._pos}")
            self._cut = "inside"
            return False
        self._pos += 1
        value = self._parse_value("field")
        if self._cut == "inside" and not isinstance(value, TruncatedString | dict | list):
            return False
        members[key] = value
        return not self._cut

    def _parse_array(self) -> list[Any]:
        items: list[Any] = []
        while self._next_member("]", "}", items):
            items.append(self._parse_value("item"))
            if self._cut:
                break
        return items

    def _parse_string(self, quote: str, role: str) -> str:
        triple = quote * 3
        if self._text.startswith(triple, self._pos):
            begin = self._pos + 3
            end = self._text.find(triple, begin)
            self._pos = end + 3 if end >= 0 else len(self._text)
            if end >= 0:
                return self._text[begin:end]
            self._cut = "inside"
            return TruncatedString(self._text[begin:])
        parts: list[str] = []
        self._pos += 1
        while True:
            fragment = _IN_STRING[quote].match(self._text, self._pos)
            if fragment is not None:
                parts.append(fragment.group())
                self._pos = fragment.end()
            if self._pos >= len(self._text) or self._text[self._pos] == "\\":
                self._cut = "inside"
                self._pos = len(self._text)
                return TruncatedString(_unescape("".join(parts)))
            self._pos += 1
            if _STRING_ENDS[role].match(self._text, self._pos):
                if quote == '"' and len(parts) % 4 == 3:  # an odd number of inner quotes
                    raise UnreadableJson(_UNESCAPED_QUOTE)
                return _unescape("".join(parts))
            self._check_inner(parts, role)
            parts.append('\\"' if quote == '"' else quote)

    def _check_inner(self, parts: list[str], role: str) -> None:
        """Reject a string whose inner quote may just as well delimit another key or value."""
        if len(parts) == 1 and _RE.joined.match(self._text, self._pos):
            raise UnreadableJson("strings must not be joined with +")
        after_comma = len(parts) > 2 and parts[-3].rstrip().endswith(",") and _RE.one_word.fullmatch(parts[-1])
        if (
            role == "key"
            or _RE.swallowed.match(self._text, self._pos)
            or (after_comma and _STRING_ENDS["key"].match(self._text, self._pos))
        ):
            raise UnreadableJson(_UNESCAPED_QUOTE)

    def _parse_scalar(self, char: str) -> Any:
        number = _RE.number.match(self._text, self._pos)
        if number is not None and number.end() > self._pos and any(map(str.isdigit, number.group())):
            self._pos = number.end()
            digits = number.group().replace("_", "")
            return parse_integer(digits) if digits.lstrip("+-").isdecimal() else parse_number(digits)
        word = _RE.word.match(self._text, self._pos + (char in "+-"))
        if word is not None:
            self._pos = word.end()
            if word.group() in _LITERALS:
                return _LITERALS[word.group()]
            if self._pos == len(self._text):
                for literal_name, value in _LITERALS.items():
                    if literal_name.startswith(word.group()):
                        self._cut = "closers"
                        return value
        elif char in ",}]":
            return None
        raise UnreadableJson(f"a value was expected at character {self._pos}")
