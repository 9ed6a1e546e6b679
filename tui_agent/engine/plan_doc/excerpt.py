"""The excerpt of the plan document for the model: old entries and met criteria shortened to fit a budget (P5, H2)."""

from __future__ import annotations

from tui_agent.engine.core.tokens import Gauge, count
from tui_agent.plan.document import DONE, IN_PROGRESS, NOT_DONE, Criterion, Decision, LogEntry, format_time
from tui_agent.plan.grammar import BLANK, CRITERIA, LOG, MADE, PLACEHOLDER, REJECTED
from tui_agent.plan.markdown import Document, Item
from tui_agent.text import one_line

MAX_TOKENS = 8_000
"""Maximum tokens of the document in any window."""
WINDOW_SHARE = 0.25
"""Maximum share of the context window for the document (H2)."""
OLDER_MAX = 1_000
"""Maximum tokens of older log entries (P5)."""
OLDER_BASE, OLDER_DIVISOR = 50, 20
"""Tokens for older log entries: a base, plus a fraction of the rest, so requests do not grow with each run (P5)."""
_MAX_LINE = 160
_STEPS = 16
"""Budgets are rounded to 1/16 of the room, so that one more log entry seldom changes the excerpt of decisions."""
_FULL_SHARE = 0.75
"""Share of a list's budget for its newest items in full; the rest is for one line per older item."""
_GAUGE = Gauge()
"""Not the model's own gauge, which learns: a changed excerpt would invalidate the server's prompt cache."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    return _GAUGE.estimate(count(text))


def excerpt(document: Document, entries: int = 10, older_tokens: int = OLDER_MAX, room: int | None = None) -> str:
    """Return the document without front matter and placeholders; empty if only headings remain.

    The last `entries` of the log are complete, older ones one line each, the newest of them within `older_tokens`. To
    fit `room` tokens, decisions and log are reduced to the newest, criteria to the open ones, and the user's
    own text to its beginning.
    """
    builder = _ExcerptBuilder(document)
    builder.shorten(LOG, entries, older_tokens)
    text = builder.text()
    if room is None or estimate_tokens(text) <= room:
        return text
    builder = _ExcerptBuilder(document)
    builder.fit(room, entries, older_tokens)
    return builder.text()


class _ExcerptBuilder:
    """Collects the dropped lines of a document, and their replacements."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._lines = lines = document.lines
        self._dropped: set[int] = set(range(document.front.end + 1)) if document.front else set()
        self._dropped |= {at for at, line in enumerate(lines) if _is_placeholder(line) and at not in document.fenced}
        self._replacements: dict[int, list[str]] = {}
        """Line → replacement for it and the dropped lines that follow."""

    def _items(self, name: str) -> list[Item]:
        return [item for section in self._document.sections if section.name == name for item in section.items]

    def _cost(self, items: list[Item]) -> int:
        return estimate_tokens("\n".join(line for item in items for line in self._lines[item.start : item.end]))

    def fit(self, room: int, entries: int, older_tokens: int) -> None:
        """Condense to about `room` tokens."""
        lists = {name: self._items(name) for name in (CRITERIA, MADE, REJECTED, LOG)}
        listed = {at for items in lists.values() for item in items for at in range(item.start, item.end)}
        room -= self._cut_other_text(listed, room // 2)
        costs = {name: self._cost(items) for name, items in lists.items() if items}
        for name, budget in _budgets(costs, room).items():
            if name == LOG:
                self.shorten(LOG, entries, older_tokens, budget)
            elif budget < costs[name] and name == CRITERIA:
                self._shorten_criteria(lists[CRITERIA], budget)
            elif budget < costs[name]:
                self.shorten(name, len(lists[name]), budget, budget)

    def _cut_other_text(self, listed: set[int], room: int) -> int:
        """Cut the text outside of lists, such as the user's own sections, to `room`; return its tokens."""
        skipped = listed | self._dropped
        other = [at for at, line in enumerate(self._lines) if line.strip() and at not in skipped]
        size = estimate_tokens("\n".join(self._lines[at] for at in other))
        if size <= room:
            return size
        heads = {self._document.title, self._document.status, *(section.head for section in self._document.sections)}
        body = [at for at in other if at not in heads]
        remaining = room
        for index, at in enumerate(body):
            line_size = estimate_tokens(self._lines[at])
            remaining -= line_size + 1
            if remaining < 0:
                self._dropped.update(body[index:])
                beginning = self._lines[at][: max(0, remaining + line_size) * 2]
                self._replacements[at] = [f"{beginning}… (more of this: see plan_doc.md)"]
                break
        return room

    # --- lists ---

    def _count_fitting(self, items: list[Item], room: float) -> int:
        """Return how many of the last items fit completely."""
        for number, item in enumerate(reversed(items)):
            room -= self._cost([item])
            if room < 0:
                return number
        return len(items)

    def shorten(self, name: str, full: int, older_tokens: int, room: int | None = None) -> None:
        """Keep the last `full` items of a list, older ones as one line each, the newest of them within `older_tokens`.

        The oldest are counted. With `room`, everything fits into this number of tokens.
        """
        items = self._items(name)
        full = min(full, len(items))
        if room is not None:
            full = self._count_fitting(items[len(items) - full :], room * _FULL_SHARE)
            older_tokens = min(older_tokens, int(room * (1 - _FULL_SHARE)))
        old = items[: len(items) - full]
        lines: list[str] = []
        for item in reversed(old):
            line = _summary_line(item)
            older_tokens -= estimate_tokens(line + "\n")
            if older_tokens < 0:
                break
            lines.append(line)
        omitted = len(old) - len(lines)
        noun = "entries" if name == LOG else "decisions"
        note = [f"({omitted} earlier {noun}: see plan_doc.md.)"] if omitted else []
        self._replace(old, [*note, *reversed(lines), ""])

    def _replace(self, items: list[Item], lines: list[str]) -> None:
        for item in items:
            self._dropped.update(range(item.start, item.end))
        if items:
            self._replacements[items[0].start] = lines

    def _shorten_criteria(self, items: list[Item], room: int) -> None:
        """Keep open criteria, first to last, then met ones, newest first; count the others."""
        by_priority = [item for item in items if not _is_met(item)] + [item for item in items[::-1] if _is_met(item)]
        for number, item in enumerate(by_priority):
            room -= self._cost([item]) + 1
            if room < 0:
                omitted = sorted(by_priority[number:], key=lambda item: item.start)
                met = sum(map(_is_met, omitted))
                self._replace(omitted, [f"({len(omitted)} more criteria, {met} of them met: see plan_doc.md.)"])
                break

    # --- the text ---

    def text(self) -> str:
        """Return the excerpt."""
        document, dropped, replacements = self._document, self._dropped, self._replacements

        def has_content(at: int) -> bool:
            return at in replacements or (at not in dropped and bool(self._lines[at].strip()))

        empty: set[int] = set()
        """Lines of sections without content."""
        for section in document.sections:
            body = range(section.head + 1, section.end)
            if section.name and not any(map(has_content, body)):
                empty.update((section.head, *body))
        text: list[str] = []
        for at, line in enumerate(self._lines):
            text += replacements.get(at, ())
            if at not in dropped and at not in empty and (line.strip(BLANK) or (text and text[-1].strip(BLANK))):
                text.append(line)
        has_title = document.title is not None and document.title not in dropped
        headings = {*empty, document.title, document.status}
        lines = (at for at in range(len(self._lines)) if at not in headings)
        return "\n".join(text).strip("\n") if has_title or replacements or any(map(has_content, lines)) else ""


def _budgets(costs: dict[str, int], room: int) -> dict[str, int]:
    """Distribute the room: a list smaller than an equal share gets its size, which leaves more for the others."""
    remaining = max(0, room)
    step = max(1, remaining // _STEPS)
    budgets = {}
    for at, name in enumerate(sorted(costs, key=costs.__getitem__)):
        share = remaining // (len(costs) - at)
        budgets[name] = costs[name] if costs[name] <= share else share - share % step
        remaining -= min(share, -(-budgets[name] // step) * step)
    return budgets


def _is_placeholder(line: str) -> bool:
    text = line.strip(BLANK).removeprefix("- [ ] ").removeprefix("# Plan: ")
    return PLACEHOLDER.fullmatch(text) is not None


def _is_met(item: Item) -> bool:
    return isinstance(item.value, Criterion) and item.value.completed


def _summary_line(item: Item) -> str:
    """Return a decision or log entry as one line."""
    value, text = item.value, ""
    if isinstance(value, LogEntry):
        mark = next((mark for mark in (DONE, IN_PROGRESS, NOT_DONE) if value.result.startswith(mark)), "")
        text = f"{format_time(value.when) if value.when else ''} {mark} {value.action}"
    elif isinstance(value, Decision):
        text = value.title or value.rationale
    return one_line(f"- {text}", _MAX_LINE)


class ExcerptCache:
    """Creates the excerpt once per document and window."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._document: Document | None = None
        self._texts: dict[tuple[int, int | None], str] = {}

    def text(self, document: Document, entries: int | None, window: int | None) -> str:
        """Return the excerpt with its heading, the last `entries` of the log complete, for a window in tokens.

        Empty for an empty document.
        """
        if self._document is not document:
            self._document, self._texts = document, {}
        full = self._entries if entries is None else min(entries, self._entries)
        if (full, window) not in self._texts:
            space = MAX_TOKENS if window is None else min(MAX_TOKENS, int(window * WINDOW_SHARE))
            older = OLDER_BASE + min(space, len(excerpt(document, full, 0)) // 4) // OLDER_DIVISOR
            text = excerpt(document, full, min(OLDER_MAX, older), space)
            self._texts[full, window] = f"# The plan document\n\n{text}" if text else ""
        return self._texts[full, window]
