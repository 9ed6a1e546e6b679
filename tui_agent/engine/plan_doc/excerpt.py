"""The excerpt of the plan document for the model: old entries and met criteria shortened to fit a budget (P5, H2)."""

from __future__ import annotations

from collections.abc import Callable

from tui_agent.engine.core.tokens import Gauge, count
from tui_agent.plan.document import DONE, IN_PROGRESS, NOT_DONE, Criterion, Decision, LogEntry, format_time
from tui_agent.plan.grammar import BLANK, CRITERIA, LOG, MADE, PLACEHOLDER, REJECTED
from tui_agent.plan.markdown import Document, Item
from tui_agent.text import one_line

CHARACTERS_PER_TOKEN = 4
Size = Callable[[str], int]
"""Returns the tokens of a text."""
_LINE_LENGTH = 160
_STEPS = 16
"""Budgets are rounded to 1/16 of the room, so that one more log entry seldom changes the excerpt of decisions."""
_FULL_SHARE = 0.75
"""Share of a list's budget for its newest items in full; the rest is for one line per older item."""


def by_characters(text: str) -> int:
    """Estimate the tokens of a text by its length."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


OLDER_MAX = 1_000
"""Maximum tokens of older log entries (P5)."""


def excerpt(
    document: Document,
    entries: int = 10,
    older_tokens: int = OLDER_MAX,
    room: int | None = None,
    size: Size = by_characters,
) -> str:
    """Return the document without front matter and placeholders; empty if only headings remain.

    The last `entries` of the log are complete, older ones one line each, the newest of them within `older_tokens`. To
    fit `room` tokens by `size`, decisions and log are reduced to the newest, criteria to the open ones, and the user's
    own text to its beginning.
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
    """An excerpt being built: the dropped lines of a document, and their replacements."""

    def __init__(self, document: Document, size: Size) -> None:
        self._document = document
        self._lines = lines = document.lines
        self._size = size
        self._drop: set[int] = set(range(document.front.end + 1)) if document.front else set()
        self._drop |= {at for at, line in enumerate(lines) if _placeholder(line) and at not in document.fenced}
        self._replacements: dict[int, list[str]] = {}
        """Line → replacement for it and the dropped lines that follow."""

    def _items(self, name: str) -> list[Item]:
        return [item for one in self._document.sections if one.name == name for item in one.items]

    def _cost(self, items: list[Item]) -> int:
        return self._size("\n".join(line for item in items for line in self._lines[item.start : item.end]))

    # --- fitting a budget ---

    def fit(self, room: int, entries: int, older_tokens: int) -> None:
        """Condense to about `room` tokens."""
        lists = {name: self._items(name) for name in (CRITERIA, MADE, REJECTED, LOG)}
        listed = {at for items in lists.values() for item in items for at in range(item.start, item.end)}
        room -= self._cut_rest(listed, room // 2)
        costs = {name: self._cost(items) for name, items in lists.items() if items}
        allowed = _budgets(costs, room)
        for name, items in lists.items():
            if name == LOG and items:
                self.shorten_log(entries, older_tokens, allowed[name])
            elif items and allowed[name] < costs[name]:
                shorten = self._shorten_criteria if name == CRITERIA else self._shorten_decisions
                shorten(items, allowed[name])

    def _cut_rest(self, listed: set[int], room: int) -> int:
        """Cut the text outside of lists, such as the user's own sections, to `room`; return its tokens."""
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
                self._replacements[at] = [f"{begin}… (more of this: see plan_doc.md)"]
                break
        return room

    # --- lists ---

    def _newest(self, items: list[Item], room: float) -> int:
        """Return how many of the last items fit completely."""
        for number, item in enumerate(reversed(items)):
            room -= self._cost([item])
            if room < 0:
                return number
        return len(items)

    def _rows(self, old: list[Item], told: Callable[[Item], str], room: float) -> list[str]:
        """Return one line for each of the newest of `old` items that fit."""
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
            self._replacements[items[0].start] = lines

    def shorten_log(self, entries: int, older_tokens: int, room: int | None) -> None:
        """Keep the last `entries` complete, or as many as fit; shorten older ones to a line."""
        logged = self._items(LOG)
        whole = min(entries, len(logged))
        if room is not None:
            whole = self._newest(logged[len(logged) - whole :], room * _FULL_SHARE)
            older_tokens = min(older_tokens, int(room * (1 - _FULL_SHARE)))
        old = logged[: len(logged) - whole]
        lines = self._rows(old, _row, older_tokens)
        missing = len(old) - len(lines)
        note = [f"({missing} earlier entries: see plan_doc.md.)"] if missing else []
        self._replace(old, [*note, *lines, ""])

    def _shorten_decisions(self, items: list[Item], room: int) -> None:
        """Keep the newest complete and the titles of older ones; count the oldest."""
        whole = self._newest(items, room * _FULL_SHARE)
        old = items[: len(items) - whole]
        lines = self._rows(old, _title, room * (1 - _FULL_SHARE))
        missing = len(old) - len(lines)
        note = [f"({missing} earlier decisions: see plan_doc.md.)"] if missing else []
        self._replace(old, [*note, *lines, ""])

    def _shorten_criteria(self, items: list[Item], room: int) -> None:
        """Keep open criteria, first to last, then met ones, newest first; count the others."""
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
        """Return the excerpt."""
        document, lines, drop = self._document, self._lines, self._drop
        empty: set[int] = set()
        for one in document.sections:
            inner = range(one.head + 1, one.end)
            if one.name and not any(at in self._replacements or (at not in drop and lines[at].strip()) for at in inner):
                empty.update((one.head, *inner))
        out: list[str] = []
        for at, line in enumerate(lines):
            out += self._replacements.get(at, ())
            if at not in drop and at not in empty and (line.strip(BLANK) or (out and out[-1].strip(BLANK))):
                out.append(line)
        bare = drop | empty | {document.title, document.status}
        title = document.title is not None and document.title not in drop
        said = title or self._replacements or any(line.strip() for at, line in enumerate(lines) if at not in bare)
        return "\n".join(out).strip("\n") if said else ""


def _budgets(costs: dict[str, int], room: int) -> dict[str, int]:
    """Distribute the room: a list smaller than an equal share gets its size, which leaves more for the others."""
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
    """Return a log entry as one line."""
    entry = item.value
    if not isinstance(entry, LogEntry):
        return ""
    mark = next((one for one in (DONE, IN_PROGRESS, NOT_DONE) if entry.result.startswith(one)), "")
    return one_line(f"- {format_time(entry.when) if entry.when else ''} {mark} {entry.action}", _LINE_LENGTH)


def _title(item: Item) -> str:
    """Return a decision as one line."""
    value = item.value
    words = (value.title or value.rationale) if isinstance(value, Decision) else ""
    return one_line(f"- {words}", _LINE_LENGTH)


WINDOW_SHARE = 0.25
"""Maximum share of the context window for the document (H2)."""
MAX_TOKENS = 8_000
"""Maximum tokens of the document in any window."""
OLDER_BASE, OLDER_DIVISOR = 50, 20
"""Tokens for older log entries: a base, plus a fraction of the rest, so requests do not grow with each run (P5)."""
_GAUGE = Gauge()
"""Not the model's own gauge, which learns: a changed excerpt would invalidate the server's prompt cache."""


def tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return _GAUGE.estimate(count(text))


class ExcerptCache:
    """Creates the excerpt once per document and window."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._cached: tuple[Document | None, int, int | None, str] = (None, 0, None, "")

    def text(self, document: Document, entries: int | None, window: int | None) -> str:
        """Return the excerpt with its heading, the last `entries` of the log complete, for a window in tokens.

        Empty for an empty document.
        """
        whole = self._entries if entries is None else min(entries, self._entries)
        if self._cached[0] is not document or self._cached[1:3] != (whole, window):
            space = MAX_TOKENS if window is None else min(MAX_TOKENS, int(window * WINDOW_SHARE))
            older = OLDER_BASE + min(space, len(excerpt(document, whole, 0)) // 4) // OLDER_DIVISOR
            text = excerpt(document, whole, min(OLDER_MAX, older), space, tokens)
            self._cached = (document, whole, window, f"# The plan document\n\n{text}" if text else "")
        return self._cached[3]
