"""What is wrong with keys and themes of the user's own: told, left out, and nothing else suffers from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tui_agent.keys.keymap import Keymap
from tui_agent.settings.model import Settings
from tui_agent.settings.tree import SettingsProblem, Tree, printable

THEMES: Final = ("default", "dark", "light", "high-contrast", "ansi")
"""Names of `theme` that are built in."""

BASE: Final = "base"
ROLES: Final = (
    *("foreground", "background", "surface", "panel", "primary", "secondary", "success", "warning", "error"),
    *("muted", "faint", "code", "added", "added-ground", "removed", "removed-ground", "added-word"),
    *("removed-word", "keyword", "string", "number", "name"),
)
"""What a theme gives colours to."""

_COLOUR = re.compile(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")


def screen_problems(chosen: Settings, tree: Tree) -> Iterator[SettingsProblem]:
    """What can't be as one source has it. Neither keeps the program from starting."""
    for name, says in Keymap(chosen.keys).problems:
        yield _problem(tree, ("keys", name), says)
    for name, colours in chosen.themes.items():
        for role, says in wrong_colours(name, colours):
            yield _problem(tree, ("themes", name, role), says)


def theme_problem(chosen: Settings, source: str) -> Iterator[SettingsProblem]:
    """What is wrong with the name of the theme, once all sources were read; `source` is where it came from."""
    known = (*THEMES, *chosen.themes)
    if chosen.theme not in known:
        says = f"unknown theme {printable(chosen.theme, 40)!r}; available: {', '.join(known)}"
        yield SettingsProblem(file=source, field="theme", message=says, ignored=True)


def wrong_colours(name: str, colours: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Entries of a theme that don't count, and why."""
    if name in THEMES:
        yield "", "is a built-in theme; choose another name"
    for role, colour in colours.items():
        if role == BASE:
            if colour not in THEMES[1:-1]:
                yield role, f"must be {', '.join(THEMES[1:-2])} or {THEMES[-2]}"
        elif role not in ROLES:
            yield role, f"is not a role of a theme; available: {BASE}, {', '.join(ROLES)}"
        elif not _COLOUR.fullmatch(colour):
            yield role, f"must be a color such as #3a5f8b (in quotes), not {printable(colour, 40)!r}"


def _problem(tree: Tree, where: tuple[str, ...], says: str) -> SettingsProblem:
    where = tuple(part for part in where if part)
    return SettingsProblem(
        file=tree.file, line=tree.line(where), field=printable(".".join(where)), message=says, ignored=True
    )
