"""What a page does not get to see of a text, secrets and what is too long; put back where an edit left their marks."""

from __future__ import annotations

import re

from tui_agent.text import Mask, reveal

TEXT_MAX = 60_000
"""Characters of one long text in a record; a page shows no more."""
_MARK = re.compile(r"⟨secret[^⟩\n]*⟩")


def bounded(text: str) -> str:
    """No longer than a page shows, and without what nobody would see."""
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX] + _more(text)
    return reveal(text)


def left_out(text: str) -> int:
    """How many characters of it `bounded` does not show."""
    return max(0, len(text) - TEXT_MAX)


def _more(text: str) -> str:
    return f"\n… {left_out(text):,} more characters"


def restored(typed: str, offered: str, mask: Mask) -> str:
    """`typed`, which was made of what a page shows of `offered`, with what stands behind the marks that are left in it:
    the rest of a long text, and secrets (A7). Raises ValueError with a sentence where that can't be told.
    """
    veiled = mask.mask(offered)
    if len(veiled) > TEXT_MAX:
        more = _more(veiled)
        place = more if more in typed else more.lstrip()
        typed = typed.replace(place, veiled[TEXT_MAX:], 1)
    return typed if veiled == offered else _uncovered(typed, offered, veiled)


def uncovered(typed: str, offered: str, mask: Mask) -> str:
    """`restored` for a text that a page shows from end to end, with its secrets or without them."""
    veiled = mask.mask(offered)
    return typed if veiled == offered or not _MARK.search(typed) else _uncovered(typed, offered, veiled)


def _uncovered(typed: str, offered: str, veiled: str) -> str:
    behind = _behind(veiled, offered)
    places = dict.fromkeys(behind, 0)

    def secret(found: re.Match[str]) -> str:
        mark = found[0]
        if mark not in behind:
            return mark
        at, several = places[mark], behind[mark]
        places[mark] += 1
        if len(set(several)) == 1:
            return several[0]
        if typed.count(mark) != len(several):
            raise ValueError("which of the hidden secrets stays can't be told; leave all of them, or none")
        return several[at]

    return _MARK.sub(secret, typed)


def _behind(veiled: str, offered: str) -> dict[str, list[str]]:
    """Each mark with what stands behind it, in the order of the text."""
    marks, between = _MARK.findall(veiled), _MARK.split(veiled)
    found: dict[str, list[str]] = {}
    at = len(between[0])
    for number, (mark, then) in enumerate(zip(marks, between[1:], strict=True), start=1):
        last = number == len(marks)
        end = len(offered) - len(then) if last else offered.find(then, at)
        if not then and not last:
            end = -1  # where one ends and the next begins is not known
        if end < at:
            raise ValueError("a text with these secrets can't be edited here; leave it as it is")
        found.setdefault(mark, []).append(offered[at:end])
        at = end + len(then)
    return found
