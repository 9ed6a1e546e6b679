"""What keys are called: as Textual names them, as people write and read them (R20.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

NAMES: Final = {
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "delete": "del",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}
"""Keys as the user reads them, where that is another word."""

SIGNS: Final = {
    " ": "space",
    "\\": "backslash",
    "_": "underscore",
    "@": "at",
    "]": "right_square_bracket",
    "[": "left_square_bracket",
    "^": "circumflex_accent",
    "/": "slash",
    ",": "comma",
    ".": "full_stop",
    ";": "semicolon",
    "'": "apostrophe",
    "`": "grave_accent",
    "-": "minus",
    "=": "equals_sign",
    "+": "plus",
    "?": "question_mark",
    "!": "exclamation_mark",
    "#": "number_sign",
    "$": "dollar_sign",
    "%": "percent_sign",
    "&": "ampersand",
    "*": "asterisk",
    "(": "left_parenthesis",
    ")": "right_parenthesis",
    ":": "colon",
    "<": "less_than_sign",
    ">": "greater_than_sign",
    "{": "left_curly_bracket",
    "}": "right_curly_bracket",
    "|": "vertical_line",
    "~": "tilde",
    '"': "quotation_mark",
}
"""What is typed, by the character."""
_CHARACTERS = {name: character for character, name in SIGNS.items() if character != " "}

_SPOKEN = {said.lower(): key for key, said in NAMES.items()} | {"return": "enter"}
_MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
PLAIN: Final = "enter tab up down left right home end backspace delete insert"
_BASES = frozenset(
    f"a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 {PLAIN} {' '.join(SIGNS.values())} "
    "escape pageup pagedown f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15 f16 f17 f18 f19 f20".split()
)
_SAME = {
    "ctrl+m": "enter",
    "ctrl+i": "tab",
    "ctrl+left_square_bracket": "esc",
    "ctrl+h": "backspace",
    "ctrl+slash": "ctrl+underscore",
}
"""Keys that terminals send as another one."""


class Trouble(NamedTuple):
    """What is wrong with one entry of `keys:`."""

    name: str
    """As it was written."""
    says: str


def shown(key: str) -> str:
    """A key as the user reads it."""
    return "+".join(NAMES.get(part, part) for part in key.split("+"))


def sign(key: str) -> str:
    """A key as it is shown where what is typed means something: a sign as itself."""
    return _CHARACTERS.get(key) or shown(key)


def hat(said: str) -> str:
    """The same where there is little room: `^S`."""
    return f"^{said[-1].upper()}" if said.startswith("ctrl+") and len(said) == len("ctrl+") + 1 else said


def pressed(key: str, character: str | None) -> str:
    """The name of a pressed key: what is typed counts, not how. With Ctrl or Alt nothing is typed."""
    if character and len(character) == 1 and character.isprintable() and _typing(key.split("+")[:-1]):
        return SIGNS.get(character) or character
    return key


def _typing(modifiers: Iterable[str]) -> bool:
    return set(modifiers) <= {"shift"}


def is_typed(key: str) -> bool:
    """True for a key that stands for a character."""
    *modifiers, base = key.split("+")
    return _typing(modifiers) and (len(base) == 1 or base in _CHARACTERS or base == "space")


def read_key(word: str) -> tuple[str, str]:
    """A key as Textual names it, and why it can't be one, if so. For places in which letters are typed."""
    key, why = _read(word.strip().lower().replace(" ", "").replace("-", "+"), word)
    if not why and is_typed(key):
        return "", f"`{word}` is typed; take one with ctrl or alt, or a function key"
    return ("", why) if why else (key, "")


def read_any(word: str) -> tuple[str, str]:
    """As `read_key`, for places in which a letter is a key: capitals are keys of their own."""
    one = word.strip()
    if len(one) == 1 and one.isprintable():
        return (SIGNS.get(one) or one, "") if one in SIGNS or one.isalnum() else ("", f"`{word}` is no key")
    key, why = _read(one.lower().replace(" ", "").replace("-", "+"), word)
    if not why and key.startswith("shift+") and len(key) == len("shift+") + 1:
        return key[-1].upper(), ""
    return ("", why) if why else (key, "")


def _read(said: str, word: str) -> tuple[str, str]:
    *modifiers, base = [_SPOKEN.get(part, part) for part in said.split("+")] or [""]
    if base not in _BASES or not set(modifiers) <= set(_MODIFIERS):
        close = near(base, _BASES, 0.7) if len(base) > 1 else []
        return "", f"`{word}` is no key" + (f"; did you mean `{close[0]}`?" if close else "")
    key = "+".join([*sorted(set(modifiers)), base])
    if key in _SAME:
        return "", f"terminals send `{key}` as `{_SAME[key]}`; take another key"
    return key, ""


def near(word: str, words: Iterable[str], least: float) -> list[str]:
    """The word that is meant, if one is near."""
    import difflib  # only for mistakes

    return difflib.get_close_matches(word, words, n=1, cutoff=least)
