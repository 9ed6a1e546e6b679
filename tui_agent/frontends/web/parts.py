"""The parts of an edit as a page changes them: the text that is typed in, and how the edit looks with it (A3, A9)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tui_agent.domain import Diff, Editing, Hunk
from tui_agent.frontends.web.covered import uncovered
from tui_agent.hunks import counts, new_text, with_edits
from tui_agent.text import Mask, clean, reveal
from tui_agent.view import Veil

LONGEST = 200_000
"""Characters of a part that can be typed in a page."""


def part_text(action: Editing, place: int, mask: Mask, *, exact: bool) -> str:
    """The new side of a part, to be typed in; with the marks of its secrets in their place unless it is `exact`.

    Raises ValueError with a sentence where it can't be changed here.
    """
    if not action.parts:
        raise ValueError("this change can only be taken as a whole")
    if not 0 <= place < len(action.diff.hunks):
        raise ValueError("the change has no such part")
    text = new_text(action.diff.hunks[place])
    if len(text) > LONGEST:
        raise ValueError(f"this part has {len(text):,} characters; up to {LONGEST:,} can be changed here")
    if clean(text) != text or reveal(text) != text:
        raise ValueError("this part holds characters that a field can't show; it can only be taken as it is")
    if exact:
        return text
    veiled = mask.mask(text)
    try:
        certain = uncovered(veiled, text, mask) == text
    except ValueError:
        certain = False
    if not certain:
        raise ValueError("what is hidden in this part would be lost; choose “Show what is hidden” first")
    return veiled


def typed_parts(typed: Mapping[str, str], diff: Diff, mask: Mask) -> dict[int, str]:
    """By place, the exact text of each part that is another one than was offered, secrets where their marks were left.

    Raises ValueError with a sentence.
    """
    made: dict[int, str] = {}
    for name, text in typed.items():
        place = int(name) if name.isascii() and name.isdigit() and len(name) < 9 else len(diff.hunks)
        if place >= len(diff.hunks):
            raise ValueError("the change has no such part")
        if len(text) > LONGEST:
            raise ValueError(
                f"part {place + 1} has {len(text):,} characters; up to {LONGEST:,} fit, so leave some out"
            )
        offered = new_text(diff.hunks[place])
        exact = uncovered(clean(text), offered, mask)
        if exact != offered:
            made[place] = exact
    return made


def with_parts(action: Editing, typed: Mapping[str, str], mask: Mask, *, exact: bool) -> Diff:
    """The change as it would be with what was typed; without its secrets unless it is `exact`.

    Raises ValueError with a sentence.
    """
    diff = with_edits(action.diff, typed_parts(typed, action.diff, mask))
    marks = [counts(hunk) for hunk in diff.hunks]
    diff = replace(diff, added=sum(one for one, _ in marks), removed=sum(one for _, one in marks))
    return diff if exact else signed(replace(diff, hunks=Veil(mask).any(diff.hunks)), diff)


def signed(shown: Diff, exact: Diff) -> Diff:
    """`shown` with the signs of `exact`, which a secret over several lines may have swallowed."""
    if shown.hunks == exact.hunks:
        return shown
    return replace(shown, hunks=tuple(_signed(*pair) for pair in zip(shown.hunks, exact.hunks, strict=True)))


def _signed(shown: Hunk, exact: Hunk) -> Hunk:
    lines = (
        one if one[:1] == real[:1] else real[:1] + one
        for one, real in zip(shown.lines, exact.lines, strict=True)
    )
    return replace(shown, lines=tuple(lines))
