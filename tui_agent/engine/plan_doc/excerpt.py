"""What the model gets of the plan document (P5, H2): what is old or met is told in a line or counted, within a room."""

from __future__ import annotations

from collections.abc import Callable

from tui_agent.engine.core.tokens import Gauge, count
from tui_agent.plan.document import DONE, IN_PROGRESS, NOT_DONE, Criterion, Decision, LogEntry, format_time
from tui_agent.plan.grammar import BLANK, CRITERIA, LOG, MADE, PLACEHOLDER, REJECTED
from tui_agent.plan.markdown import Document, Item
from tui_agent.text import one_line

CHARACTERS_PER_TOKEN = 4
Size = Callable[[str], int]
"""Tokens of a text."""
_LINE = 160
_STEPS = 16
"""A list gets so many sixteenths of the room: one more entry in the log seldom changes what is told of decisions."""
_WHOLE = 0.75
"""Of what a list gets: for its newest items in full. The rest is for a line each of older ones."""


def by_characters(text: str) -> int:
    """About how many tokens a text takes, by its length alone."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


OLDER_MOST = 1_000
"""Tokens of older entries of the log at the most (P5)."""


def excerpt(
    document: Document,
    entries: int = 10,
    older_tokens: int = OLDER_MOST,
    room: int | None = None,
    size: Size = by_characters,
) -> str:
    """The document without front matter and placeholders; '' when nothing is left but headings.

    The last `entries` of the log come whole, with the notes among them; older ones as one line each, the newest
    first to get a place within `older_tokens`. What takes more than `room` tokens by `size` is condensed: decisions
    and the log to their newest, criteria to those that are open, the user's own text to its beginning.
    """
    work = _Excerpt(document, size)
    work.shorten_log(entries, older_tokens, None)
    text = work.text()
    if room is None or size(text) <= room:
        return text
    work = _Excerpt(document, size)
    work.fit(room, entries, older_tokens)
    return work.text()


class _Excerpt:
    """One text in the making: which lines are left out, and what stands in their place."""

    def __init__(self, document: Document, size: Size) -> None:
        self._document = document
        self._lines = lines = document.lines
        self._size = size
        self._drop: set[int] = set(range(document.front.end + 1)) if document.front else set()
        self._drop |= {at for at, line in enumerate(lines) if _placeholder(line) and at not in document.inside}
        self._instead: dict[int, list[str]] = {}
        """Line → what is told in its place, and in that of those that are left out behind it."""

    def _items(self, name: str) -> list[Item]:
        return [item for one in self._document.sections if one.name == name for item in one.items]

    def _cost(self, items: list[Item]) -> int:
        return self._size("\n".join(line for item in items for line in self._lines[item.start : item.end]))

    # --- all of it, within a room ---

    def fit(self, room: int, entries: int, older_tokens: int) -> None:
        """Condense so that about `room` tokens are left."""
        lists = {name: self._items(name) for name in (CRITERIA, MADE, REJECTED, LOG)}
        listed = {at for items in lists.values() for item in items for at in range(item.start, item.end)}
        room -= self._cut_rest(listed, room // 2)
        costs = {name: self._cost(items) for name, items in lists.items() if items}
        allowed = _shared(costs, room)
        for name, items in lists.items():
            if name == LOG and items:
                self.shorten_log(entries, older_tokens, allowed[name])
            elif items and allowed[name] < costs[name]:
                shorten = self._shorten_criteria if name == CRITERIA else self._shorten_decisions
                shorten(items, allowed[name])

    def _cut_rest(self, listed: set[int], room: int) -> int:
        """Leave of what is in no list, such as the user's own sections, what fits; returns what that takes."""
        heads = {one.head for one in self._document.sections}
        heads |= {self._document.title or 0, self._document.status or 0}
        rest = [at for at, line in enumerate(self._lines) if line.strip() and at not in listed and at not in self._drop]
        whole = self._size("\n".join(self._lines[at] for at in rest))
        if whole <= room:
            return whole
        left = room
        for place, at in enumerate(rest):
            if at in heads:
                continue
            left -= self._size(self._lines[at]) + 1
            if left < 0:
                gone = [one for one in rest[place:] if one not in heads]
                self._drop.update(gone)
                begin = self._lines[at][: max(0, left + self._size(self._lines[at])) * 2]
                self._instead[at] = [f"{begin}… (more of this: see plan_doc.md)"]
                break
        return room

    # --- lists ---

    def _newest(self, items: list[Item], room: float) -> int:
        """How many of the last ones fit in full."""
        for number, item in enumerate(reversed(items)):
            room -= self._cost([item])
            if room < 0:
                return number
        return len(items)

    def _rows(self, old: list[Item], told: Callable[[Item], str], room: float) -> list[str]:
        """A line for each of the newest of `old` that there is room for."""
        lines: list[str] = []
        for item in reversed(old):
            line = told(item)
            room -= self._size(line + "\n")
            if room < 0:
                break
            lines.append(line)
        return lines[::-1]

    def _replace(self, items: list[Item], lines: list[str]) -> None:
        for item in items:
            self._drop.update(range(item.start, item.end))
        if items:
            self._instead[items[0].start] = lines

    def shorten_log(self, entries: int, older_tokens: int, room: int | None) -> None:
        """The last `entries` in full, or as many of them as there is room for; a line each for older ones."""
        logged = self._items(LOG)
        whole = min(entries, len(logged))
        if room is not None:
            whole = self._newest(logged[len(logged) - whole :], room * _WHOLE)
            older_tokens = min(older_tokens, int(room * (1 - _WHOLE)))
        old = logged[: len(logged) - whole]
        lines = self._rows(old, _row, older_tokens)
        missing = len(old) - len(lines)
        note = [f"({missing} earlier entries: see plan_doc.md.)"] if missing else []
        self._replace(old, [*note, *lines, ""])

    def _shorten_decisions(self, items: list[Item], room: int) -> None:
        """The newest in full, older ones by their titles, the oldest counted."""
        whole = self._newest(items, room * _WHOLE)
        old = items[: len(items) - whole]
        lines = self._rows(old, _title, room * (1 - _WHOLE))
        missing = len(old) - len(lines)
        note = [f"({missing} earlier decisions: see plan_doc.md.)"] if missing else []
        self._replace(old, [*note, *lines, ""])

    def _shorten_criteria(self, items: list[Item], room: int) -> None:
        """Those that are open, from the first on; then those that are met, the newest first; the others counted."""
        met = [item for item in items if _met(item)]
        kept: set[int] = set()
        for item in [*(one for one in items if not _met(one)), *reversed(met)]:
            room -= self._cost([item]) + 1
            if room < 0:
                break
            kept.add(item.start)
        gone = [item for item in items if item.start not in kept]
        done = sum(map(_met, gone))
        self._replace(gone, [f"({len(gone)} more criteria, {done} of them met: see plan_doc.md.)"])

    # --- the text ---

    def text(self) -> str:
        """What is left."""
        document, lines, drop = self._document, self._lines, self._drop
        empty: set[int] = set()
        for one in document.sections:
            inner = range(one.head + 1, one.end)
            if one.name and not any(at in self._instead or (at not in drop and lines[at].strip()) for at in inner):
                empty.update((one.head, *inner))
        out: list[str] = []
        for at, line in enumerate(lines):
            out += self._instead.get(at, ())
            if at not in drop and at not in empty and (line.strip(BLANK) or (out and out[-1].strip(BLANK))):
                out.append(line)
        bare = drop | empty | {document.title, document.status}
        title = document.title is not None and document.title not in drop
        said = title or self._instead or any(line.strip() for at, line in enumerate(lines) if at not in bare)
        return "\n".join(out).strip("\n") if said else ""


def _shared(costs: dict[str, int], room: int) -> dict[str, int]:
    """What each list gets of a room: all that it takes where that is less than an equal share, which leaves more for
    the others."""
    room = max(0, room)
    step, left, allowed = max(1, room // _STEPS), room, {}
    for at, name in enumerate(sorted(costs, key=lambda one: costs[one])):
        share = left // (len(costs) - at)
        allowed[name] = costs[name] if costs[name] <= share else share - share % step
        left -= min(share, -(-allowed[name] // step) * step)
    return allowed


def _placeholder(line: str) -> bool:
    words = line.strip(BLANK)
    for mark in ("- [ ] ", "# Plan: "):
        words = words.removeprefix(mark)
    return PLACEHOLDER.fullmatch(words) is not None


def _met(item: Item) -> bool:
    return isinstance(item.value, Criterion) and item.value.completed


def _row(item: Item) -> str:
    """A log entry in a line."""
    entry = item.value
    if not isinstance(entry, LogEntry):
        return ""
    mark = next((one for one in (DONE, IN_PROGRESS, NOT_DONE) if entry.result.startswith(one)), "")
    return one_line(f"- {format_time(entry.when) if entry.when else ''} {mark} {entry.action}", _LINE)


def _title(item: Item) -> str:
    """A decision in a line."""
    value = item.value
    words = (value.title or value.rationale) if isinstance(value, Decision) else ""
    return one_line(f"- {words}", _LINE)


SHARE = 0.25
"""Of the window: what the document may take (H2)."""
MOST = 8_000
"""Tokens that it may take in the largest window."""
OLDER_LEAST, OLDER_SHARE = 50, 20
"""Lines for older entries get so many tokens and one in so many of what else the document takes, so that requests do
not grow with the number of runs; `older_tokens` is their bound in any case (P5)."""
_GAUGE = Gauge()
"""Not the model's own, which learns: the text may change only where the document did, for the server's prompt cache."""


def tokens(text: str) -> int:
    """About how many tokens a text takes."""
    return _GAUGE.estimate(count(text))


class ExcerptCache:
    """Makes the text of a document, once for each document and window."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._cached: tuple[Document | None, int, int | None, str] = (None, 0, None, "")

    def text(self, document: Document, entries: int | None, window: int | None) -> str:
        """The document under its heading, with the last `entries` of its log in full, for a window of so many tokens;
        empty while nothing is in it."""
        whole = self._entries if entries is None else min(entries, self._entries)
        if self._cached[0] is not document or self._cached[1:3] != (whole, window):
            space = MOST if window is None else min(MOST, int(window * SHARE))
            older = OLDER_LEAST + min(space, len(excerpt(document, whole, 0)) // 4) // OLDER_SHARE
            text = excerpt(document, whole, min(OLDER_MOST, older), space, tokens)
            self._cached = (document, whole, window, f"# The plan document\n\n{text}" if text else "")
        return self._cached[3]
