"""A Markdown document with the sections that a part of it shows (E4)."""

from __future__ import annotations

import difflib
import re

import msgspec

from tui_agent.protocols.leave import Leave
from tui_agent.protocols.source_lines import lines_of

LEFT = "\0\n"
"""The line that a reply's mark for left out lines is turned into."""
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_RENAMED = 0.6
"""How alike two headings are at least for the one to be the other, corrected."""


class Section(msgspec.Struct, frozen=True):
    """A heading and what follows it, up to the next one."""

    title: str
    """The heading's line, without blanks around it; empty before the first one."""
    text: str
    """All of its lines."""

    @property
    def body(self) -> str:
        """The lines under the heading."""
        return self.text.partition("\n")[2] if self.title else self.text


def sections(text: str) -> list[Section]:
    """A document by its headings, those in code left aside."""
    found: list[tuple[str, list[str]]] = [("", [])]
    fence = ""
    for line in lines_of(text):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark.group(1)
        elif mark and mark.group(1).startswith(fence) and not line.strip(" \t\r\n`~"):
            fence = ""
        if not fence and _HEADING.match(line):
            found.append((line.strip(), []))
        found[-1][1].append(line)
    return [Section(title, "".join(lines)) for title, lines in found if title or "".join(lines).strip()]


def lost(old: str, new: str, leave: Leave) -> list[str]:
    """Headings that a new version of a document lacks, none in their place, without the request letting them go."""
    was, now = [one.title for one in sections(old)], [one.title for one in sections(new)]
    fresh = [title for title in now if title not in was]
    missing = [title for title in was if title and title not in now]
    return [
        title
        for title in leave.held(missing, fresh)
        if not difflib.get_close_matches(title, fresh, n=1, cutoff=_RENAMED)
    ]


def with_sections(old: str, part: str) -> str | None:
    """The document with those sections replaced or added that a part shows; None where the part is none, or where it
    can't be told what of a section stays."""
    was, now = sections(old), sections(part)
    titles = [one.title for one in was if one.title]
    shown = [one.title for one in now]
    if not titles or not now or len(set(titles)) < len(titles) or len(set(shown)) < len(shown):
        return None
    if not now[0].title and not now[0].text.replace(LEFT, "").strip():
        now = now[1:]
    if not now or not now[0].title:
        return None
    found = {one.title: one.text for one in was}
    order = [one.title for one in was]
    for at, one in enumerate(now):
        text = _section(found.get(one.title), one, last=one is now[-1])
        if text is None:
            return None
        if one.title not in found:
            order.insert(_place(order, now[at - 1].title, one.title) if at else len(order), one.title)
        found[one.title] = text
    kept = {one.title: one.text for one in was}
    return _joined([(found[title], kept.get(title)) for title in order])


def _place(order: list[str], before: str, title: str) -> int:
    """Where a new section goes: behind the one that the part shows before it, and what is under that."""
    at = order.index(before) + 1
    level = min(_level(before), _level(title))
    while at < len(order) and _level(order[at]) > level:
        at += 1
    return at


def _level(title: str) -> int:
    return len(title) - len(title.lstrip("#"))


def _joined(rows: list[tuple[str, str | None]]) -> str:
    """The sections, each with what it was: those that stay keep the blank lines behind them, others get one."""
    text = ""
    for now, was in rows:
        if was is None and text:
            text = text.rstrip() + "\n\n"
        end = "\n\n" if was is None else was[len(was.rstrip()) :]
        text += now.rstrip() + end if now != was else now
    return text.rstrip() + "\n"


def is_part(old: str, part: str) -> bool:
    """Whether a document shows some sections only: it begins below the title, or has nothing under the title."""
    was, now = sections(old), sections(part)
    if not was or not now or not now[0].title:
        return False
    if was[0].title and now[0].title == was[0].title:
        return bool(was[0].body.strip()) and not now[0].body.strip() and len(now) > 1
    return now[0].title.startswith("##") and now[0].title != was[0].title


def _section(old: str | None, new: Section, *, last: bool) -> str | None:
    """A section's new text, where the part shows `new`; None where it can't be told what stays."""
    above, mark, below = new.body.partition(LEFT)
    head = new.text[: len(new.text) - len(new.body)]
    if old is None:
        return head + above if last and not below.strip() else None if mark else new.text
    rest = old[len(old.partition("\n")[0]) + 1 :]
    if not new.body.strip():
        return old
    if not mark:
        return new.text
    if LEFT in below or (above.strip() and below.strip()):
        return None
    there = {line.strip() for line in lines_of(rest)}
    if not above.strip():
        more = below.strip("\n")
        known = all(line.strip() in there for line in lines_of(more))
        return old if known else f"{old.rstrip()}\n\n{more}\n"
    return old if all(line.strip() in there for line in lines_of(above)) else None
