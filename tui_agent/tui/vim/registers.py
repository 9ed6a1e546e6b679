"""Registers of vi: what was deleted and yanked, by name, and the clipboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

CLIPBOARD: Final = "+*"
"""Registers that are the clipboard."""
NAMES: Final = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0"-_' + CLIPBOARD
"""Registers that a command can name; an uppercase letter appends."""


class RegisterText(NamedTuple):
    """Content of a register."""

    text: str = ""
    linewise: bool = False
    """It consists of whole lines, without the line feed of the last one."""


class Registers:
    """The unnamed register, the last yank (`0`) and deletion within a line (`-`), the named ones, and the clipboard."""

    def __init__(self, copy: Callable[[str], object], paste: Callable[[], str]) -> None:
        """`copy` and `paste` write and read the clipboard."""
        self._copy, self._paste = copy, paste
        self._texts: dict[str, RegisterText] = {}

    def store(self, name: str, text: str, *, linewise: bool, yanked: bool) -> None:
        """Store a deleted or yanked text in a register, and in the unnamed one; `_` stores nothing."""
        if name == "_":
            return
        new = RegisterText(text, linewise)
        if name in CLIPBOARD and name:
            self._copy(text + "\n" * linewise)
        elif name.isalpha():
            before = self._texts.get(name.lower())
            if name.isupper() and before is not None:
                joined = "\n" if linewise or before.linewise else ""
                new = RegisterText(before.text + joined + text, linewise or before.linewise)
            self._texts[name.lower()] = new
        elif yanked:
            self._texts["0"] = new
        elif not linewise and "\n" not in text:
            self._texts["-"] = new
        self._texts[""] = new

    def get(self, name: str) -> RegisterText:
        """Return the content of a register; empty if it has none."""
        if name and name in CLIPBOARD:
            text = self._paste()
            return RegisterText(text.removesuffix("\n"), text.endswith("\n"))
        return self._texts.get("" if name == '"' else name.lower(), RegisterText())
