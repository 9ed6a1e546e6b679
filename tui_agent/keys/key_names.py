"""Names of keys: as Textual names them, as people write them in `keys:`, and as the screen shows them."""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable
from typing import Final, NamedTuple

_LABELS: Final = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "delete": "del"} | {
    f"f{number}": f"F{number}" for number in range(1, 25)
}
"""Keys that are shown under another name."""

_TEXTUAL_NAMES: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Unicode names that Textual shortens."""


def _sign_name(character: str) -> str:
    name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    return _TEXTUAL_NAMES.get(name, name)


SIGNS: Final = {character: _sign_name(character) for character in f" {string.punctuation}"}
"""Textual's name of each sign, by its character."""
_CHARACTERS = {name: character for character, name in SIGNS.items() if character != " "}

_ALIASES = {label.lower(): key for key, label in _LABELS.items()} | {"return": "enter"}
_MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
PLAIN: Final = frozenset(
    ("enter", "tab", "up", "down", "left", "right", "home", "end", "backspace", "delete", "insert")
)
_BASES = {*string.ascii_lowercase, *string.digits, *SIGNS.values(), *PLAIN, "escape", "pageup", "pagedown"} | {
    f"f{number}" for number in range(1, 21)
}
_SENT_AS = {
    "ctrl+m": "enter",
    "ctrl+i": "tab",
    "ctrl+left_square_bracket": "esc",
    "ctrl+h": "backspace",
    "ctrl+slash": "ctrl+underscore",
}
"""Keys that terminals send as another one."""


class KeyProblem(NamedTuple):
    """What is wrong with one entry of `keys:`."""

    name: str
    """The action, as it was written."""
    message: str


def key_label(key: str) -> str:
    """A key as the screen shows it: `ctrl+pgdn`, `F1`, `?`."""
    return _CHARACTERS.get(key) or "+".join(_LABELS.get(part, part) for part in key.split("+"))


def caret_label(label: str) -> str:
    """A short form of a Ctrl key's label, where there is little room: `^S`."""
    return f"^{label[-1].upper()}" if label.startswith("ctrl+") and len(label) == len("ctrl+") + 1 else label


def pressed_key(key: str, character: str | None) -> str:
    """The name of a pressed key: the character that it types, if any, else `key`. Ctrl and Alt type nothing."""
    if character and len(character) == 1 and character.isprintable() and _types(key.split("+")[:-1]):
        return SIGNS.get(character) or character
    return key


def _types(modifiers: Iterable[str]) -> bool:
    return set(modifiers) <= {"shift"}


def is_typed(key: str) -> bool:
    """True for a key that stands for a character."""
    *modifiers, base = key.split("+")
    return _types(modifiers) and (len(base) == 1 or base in _CHARACTERS or base == "space")


def read_key(word: str) -> tuple[str, str]:
    """A key as Textual names it, and why it can't be used, if so. A single letter is a key; capitals are keys of their
    own."""
    one = word.strip()
    if len(one) == 1 and one.isprintable():
        return (SIGNS.get(one) or one, "") if one in SIGNS or one.isalnum() else ("", f"`{word}` is not a key")
    *modifiers, base = [_ALIASES.get(part, part) for part in one.lower().replace(" ", "").replace("-", "+").split("+")]
    if base not in _BASES or not set(modifiers) <= set(_MODIFIERS):
        close = closest(base, _BASES) if len(base) > 1 else ""
        return "", f"`{word}` is not a key" + (f"; did you mean `{close}`?" if close else "")
    key = "+".join([*sorted(set(modifiers)), base])
    if key in _SENT_AS:
        return "", f"terminals send `{key}` as `{_SENT_AS[key]}`; choose another key"
    return (key[-1].upper() if key.startswith("shift+") and len(key) == len("shift+") + 1 else key), ""


def read_untyped_key(word: str) -> tuple[str, str]:
    """As `read_key`, for contexts in which characters are typed: those can't be keys there."""
    key, why = read_key(word)
    if not why and is_typed(key):
        key, why = "", f"`{word}` types a character; choose one with ctrl or alt, or a function key"
    return key, why


def closest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant; empty when none is close."""
    import difflib  # only for mistakes

    return next(iter(difflib.get_close_matches(word, words, n=1, cutoff=0.65)), "")
