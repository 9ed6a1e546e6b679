"""What the model gets of the plan document (P5): everything but old log entries, which get a line each."""

from __future__ import annotations

from tui_agent.plan.document import DONE, NOT_DONE, UNDERWAY, LogEntry, shown
from tui_agent.plan.grammar import LOG
from tui_agent.plan.markdown import Document, Item
from tui_agent.plan.values import BLANK, PLACEHOLDER

CHARACTERS_PER_TOKEN = 4
_LINE = 160


def brief(document: Document, entries: int = 10, older_tokens: int = 1_000) -> str:
    """The document without front matter and placeholders; '' when nothing is left but headings.

    The last `entries` of the log come whole, with the notes among them; older ones as one line each, the newest
    first to get a place within `older_tokens`.
    """
    lines = document.lines
    drop: set[int] = set(range(document.front.end + 1)) if document.front else set()
    drop |= {at for at, line in enumerate(lines) if _placeholder(line) and at not in document.inside}
    logged = [item for one in document.sections if one.name == LOG for item in one.items]
    old = logged[: max(0, len(logged) - entries)]
    for item in old:
        drop.update(range(item.start, item.end))
    for section in document.sections:
        inner = range(section.head + 1, section.end)
        if (
            section.name
            and not any(lines[at].strip() for at in inner if at not in drop)
            and not _holds(section.items, old)
        ):
            drop.update((section.head, *inner))
    short = {old[0].start: _older(old, older_tokens)} if old else {}
    out: list[str] = []
    for at, line in enumerate(lines):
        out += short.get(at, ())
        if at not in drop and (line.strip(BLANK) or (out and out[-1].strip(BLANK))):
            out.append(line)
    text = "\n".join(out).strip("\n")
    said = (
        line
        for at, line in enumerate(lines)
        if at not in drop and at not in (document.title, document.status)
    )
    title = document.title is not None and document.title not in drop
    return text if old or title or any(line.strip() for line in said) else ""


def _holds(items: tuple[Item, ...], old: list[Item]) -> bool:
    return bool(items) and items[0] in old


def _placeholder(line: str) -> bool:
    words = line.strip(BLANK)
    for mark in ("- [ ] ", "# Plan: "):
        words = words.removeprefix(mark)
    return PLACEHOLDER.fullmatch(words) is not None


def _older(old: list[Item], tokens: int) -> list[str]:
    left = tokens * CHARACTERS_PER_TOKEN
    lines: list[str] = []
    for item in reversed(old):
        line = _line(item.value) if isinstance(item.value, LogEntry) else ""
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    missing = len(old) - len(lines)
    note = [f"({missing} earlier entries stand in the file only.)"] if missing else []
    return [*note, *reversed(lines), ""]


def _line(entry: LogEntry) -> str:
    mark = next((one for one in (DONE, UNDERWAY, NOT_DONE) if entry.result.startswith(one)), "")
    words = " ".join(f"- {shown(entry.when) if entry.when else ''} {mark} {entry.action}".split())
    return words if len(words) <= _LINE else words[: _LINE - 1] + "…"
