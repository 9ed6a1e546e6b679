"""Key names: Textual's, those that users write in the `keys` setting, and those on the screen."""

from __future__ import annotations

import string
import unicodedata
from typing import Final, NamedTuple

from tui_agent.common.suggestions import did_you_mean

_LABELS: Final = {"escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "delete": "del"} | {
    f"f{number}": f"F{number}" for number in range(1, 21)
}
"""Labels of keys that differ from Textual's names."""

_TEXTUAL_NAMES: Final = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Unicode names that Textual shortens."""


def _character_name(character: str) -> str:
    name = unicodedata.name(character).lower().replace("-", "_").replace(" ", "_")
    return _TEXTUAL_NAMES.get(name, name)


PUNCTUATION_NAMES: Final = {character: _character_name(character) for character in f" {string.punctuation}"}
"""Textual's names of the space and of punctuation, by character."""
_CHARACTERS = {name: character for character, name in PUNCTUATION_NAMES.items() if character != " "}

_ALIASES = {label.lower(): key for key, label in _LABELS.items()} | {"return": "enter"}
_MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
PLAIN_KEYS: Final = frozenset(
    ("enter", "tab", "up", "down", "left", "right", "home", "end", "backspace", "delete", "insert")
)
_BASES = {*string.ascii_lowercase, *string.digits, *PUNCTUATION_NAMES.values(), *PLAIN_KEYS, *_LABELS}
_SENT_AS = {
    "ctrl+m": "enter",
    "ctrl+i": "tab",
    "ctrl+left_square_bracket": "esc",
    "ctrl+h": "backspace",
    "ctrl+slash": "ctrl+underscore",
}
"""Keys that terminals can't distinguish from another one."""


NAME_SIMILARITY = 0.65
"""Similarity from which the name of a key, an action or a slash command is suggested."""


class KeyProblem(NamedTuple):
    """A problem with one entry of the `keys` setting."""

    name: str
    """The action as the user wrote it."""
    message: str


def key_label(key: str) -> str:
    """Return a key as shown on the screen: `ctrl+pgdn`, `F1`, `?`."""
    return _CHARACTERS.get(key) or "+".join(_CHARACTERS.get(part) or _LABELS.get(part, part) for part in key.split("+"))


def caret_label(label: str) -> str:
    """Return the short form of a Ctrl key's label: `^S`."""
    return f"^{label[-1].upper()}" if label.startswith("ctrl+") and len(label) == len("ctrl+") + 1 else label


def pressed_key(key: str, character: str | None) -> str:
    """Return the name of a pressed key: of the character that it types, if any, else `key`."""
    if character and len(character) == 1 and character.isprintable() and set(key.split("+")[:-1]) <= {"shift"}:
        return PUNCTUATION_NAMES.get(character) or character
    return key


def is_typed(key: str) -> bool:
    """Return True for a key that types a character."""
    *modifiers, base = key.split("+")
    return set(modifiers) <= {"shift"} and (len(base) == 1 or base in _CHARACTERS or base == "space")


def read_key(text: str) -> tuple[str, str]:
    """Return Textual's name of a key that the user wrote, and "" or why it can't be used. Case matters for letters."""
    stripped = text.strip()
    if len(stripped) == 1 and stripped.isprintable():
        if stripped in PUNCTUATION_NAMES or stripped.isalnum():
            return PUNCTUATION_NAMES.get(stripped) or stripped, ""
        return "", f"`{text}` is not a key"
    if len(stripped) > 2 and stripped[-1] in PUNCTUATION_NAMES and stripped[-2] in "+-":
        stripped = stripped[:-1] + PUNCTUATION_NAMES[stripped[-1]]  # such as `ctrl+-`
    parts = stripped.lower().replace(" ", "").replace("-", "+").split("+")
    *modifiers, base = [_ALIASES.get(part, part) for part in parts]
    if base not in _BASES or not set(modifiers) <= set(_MODIFIERS):
        suggestion = did_you_mean(base, _BASES, NAME_SIMILARITY) if len(base) > 1 else ""
        return "", f"`{text}` is not a key{suggestion}"
    key = "+".join([*sorted(set(modifiers)), base])
    if key in _SENT_AS:
        return "", f"terminals send `{key}` as `{_SENT_AS[key]}`; choose another key"
    return (key[-1].upper() if key.startswith("shift+") and len(key) == len("shift+") + 1 else key), ""


def read_untyped_key(text: str) -> tuple[str, str]:
    """Read a key as `read_key` does, but refuse keys that type characters."""
    key, problem = read_key(text)
    if not problem and is_typed(key):
        return "", f"`{text}` types a character; choose one with ctrl or alt, or a function key"
    return key, problem
