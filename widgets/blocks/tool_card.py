"""A tool call: title, status, and a part of its output."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from rich.style import Style

from tui_agent.common.domain import Scope
from tui_agent.keys.keymap import key_of
from tui_agent.text import one_line, pluralize
from tui_agent.view.items import ToolItem
from widgets import ansi
from widgets.blocks.base import SHORT, BlockOptions, TranscriptBlock, format_duration
from widgets.blocks.notice import describe_answer
from widgets.diff_lines import diff_rows, number_width, paint_row
from widgets.links import link_spans
from widgets.styled_text import Line, Span, TextStyles, chop, fit, indent, line, width_of
from widgets.words import WORDS

MAX_TITLE = 400
"""Characters of a title that are shown at most."""
MAX_OUTPUT_LINES = 8
"""Lines of output shown while a call runs, or after a command."""
MAX_DIFF_LINES = 14
MAX_PROBLEM_LINES = 4
"""Errors of a written file shown while collapsed."""
MAX_OPEN_LINES = 400
"""Lines shown when expanded."""
STOPPED_BY_USER = "interrupted by the user"
"""How the sentence begins that tells the model of a stop, in lower case."""


class ToolCard(TranscriptBlock[ToolItem]):
    """A head line, and a body if there is something to show."""

    compact = True

    def __init__(self, item: ToolItem, options: BlockOptions) -> None:
        super().__init__(item, options)
        self._names: set[str] = set()
        """Names of files that were looked for when the output was painted."""

    @property
    def live(self) -> bool:  # type: ignore[override]  # a class attribute becomes a property
        """Whether the call runs and shows its duration."""
        return self.item.status == "running"

    @property
    def _waiting(self) -> bool:
        return any(request.answer is None for request in self.item.requests)

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint head and body."""
        self._names = set()
        body = self._body(max(1, width - 4), styles)
        return [self._head(width, styles), *indent(body, [("  │ ", styles.faint)])]

    def _head(self, width: int, styles: TextStyles) -> Line:
        item = self.item
        symbol, role = ("?", "warn") if self._waiting else WORDS.call_symbols[item.status]
        measure = self._measure(styles)
        name: list[Span] = [
            (symbol + " ", getattr(styles, role)),
            (fit(item.call.name, width // 2), styles.strong),
            ("  ", styles.text),
        ]
        room = width - width_of(name) - width_of(measure) - 2
        title: Span = (fit(one_line(item.title, MAX_TITLE, exact=True), max(0, room)), styles.muted)
        gap = max(1, width - width_of([*name, title]) - width_of(measure))
        return line(*name, title, (" " * gap, styles.text), *measure)

    def _measure(self, styles: TextStyles) -> list[Span]:
        item = self.item
        spans: list[Span] = [("recovered", styles.muted)] if item.call.recovered else []
        gap = "  " if spans else ""
        if item.changes:
            added, removed = sum(c.added for c in item.changes), sum(c.removed for c in item.changes)
            spans += [(f"{gap}+{added} ", styles.ok), (f"−{removed}  ", styles.bad)]
            gap = ""
        if item.diagnostics:
            spans.append((f"{gap}{pluralize(len(item.diagnostics), 'error')}  ", styles.bad))
            gap = ""
        if self._waiting:
            return [*spans, (gap + "waiting for you", styles.warn)]
        if item.status == "running":
            spent = max(0.0, self.options.now() - item.started_at)
            return [*spans, (f"{gap}{int(spent)} s", styles.muted)] if spent >= 1 else spans
        if item.status in ("refused", "interrupted"):
            return [*spans, (gap + WORDS.not_done[item.status], styles.muted)]
        return [*spans, (gap + format_duration(item.ms), styles.muted)] if item.ms >= SHORT else spans

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        lines = self._decisions(width, styles)
        item = self.item
        if item.status in ("failed", "refused", "interrupted"):
            lines += self._error(width, styles)
        if item.diffs and item.status != "failed":
            lines += self._diff(width, styles)
        elif self.open:
            lines += self._output(item.output.text or item.text, width, styles, MAX_OPEN_LINES)
        elif item.status == "running" or not item.reads_only:
            lines += self._output(item.output.text, width, styles, MAX_OUTPUT_LINES)
        return lines + self._problems(width, styles)

    def _problems(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint the errors in a written file, one line each while collapsed (T4)."""
        lines: list[Line] = []
        problems = self.item.diagnostics if self.open else self.item.diagnostics[:MAX_PROBLEM_LINES]
        for problem in problems:
            place: list[Span] = [(f"✗ {problem.line}: ", styles.bad)]
            message = " ".join(problem.message.split())
            text = message if self.open else fit(message, max(1, width - width_of(place)))
            lines += chop([*place, (text, styles.text)], width)
        hidden = len(self.item.diagnostics) - len(problems)
        return [*lines, line((f"… {hidden} more · {key_of('details')}", styles.muted))] if hidden else lines

    def _decisions(self, width: int, styles: TextStyles) -> list[Line]:
        lines: list[Line] = []
        for request in self.item.requests:
            if request.question:
                question = request.question.strip().split("\n")
                lines += self._clip([(row, styles.text) for row in question], width, styles, head=True)
            if request.answer is None:
                continue
            text, role = describe_answer(request.answer)
            once = request.answer.scope is Scope.ONCE or request.answer.by != "user"
            quiet = request.answer.verdict == "approve" and once and not request.answer.data
            same_outcomes = ("reject", "refused"), ("withdrawn", "interrupted")
            if (quiet and not self.open) or (request.answer.verdict, self.item.status) in same_outcomes:
                continue
            lines += chop([(text, getattr(styles, role))], width)
        return lines

    def _error(self, width: int, styles: TextStyles) -> list[Line]:
        item = self.item
        answer = next((r.answer for r in item.requests if r.answer and r.answer.verdict == "reject"), None)
        if answer is not None and answer.by == "user" and item.status == "refused":
            text = describe_answer(answer)[0]  # the error is written for the model
        else:
            text = (item.result.error if item.result else "") or (answer.text if answer is not None else "")
        if item.status == "interrupted":  # the heading says so; this sentence is written for the model
            text = "\n".join(row for row in text.split("\n") if not row.lower().startswith(STOPPED_BY_USER))
        style = styles.bad if item.status == "failed" else styles.muted
        if not text and item.status == "failed":
            return []  # the output has the error
        return self._clip([(row, style) for row in text.strip().split("\n")] if text else [], width, styles, head=True)

    def _diff(self, width: int, styles: TextStyles) -> list[Line]:
        limit = MAX_OPEN_LINES if self.open else MAX_DIFF_LINES
        lines: list[Line] = []
        total = 0
        for diff in self.item.diffs:
            number = number_width(diff)
            for row in diff_rows(diff):
                total += 1
                if len(lines) < limit:
                    lines += paint_row(row, width, number, styles)
        hidden = total - limit
        if hidden > 0 and len(lines) >= limit:
            lines = [*lines[:limit], line((self._hidden_text(hidden), styles.muted))]
        return lines

    def _output(self, text: str, width: int, styles: TextStyles, limit: int) -> list[Line]:
        text = text.rstrip("\n")
        if not text:
            return []
        return self._clip([(row, styles.muted) for row in text.split("\n")], width, styles, limit=limit)

    def _clip(
        self,
        rows: list[tuple[str, Style]],
        width: int,
        styles: TextStyles,
        *,
        limit: int = MAX_OUTPUT_LINES,
        head: bool = False,
    ) -> list[Line]:
        """Paint at most `limit` rows from the head or the tail, and the number of hidden ones."""
        limit = MAX_OPEN_LINES if self.open else limit
        visible = rows[:limit] if head else rows[-limit:]
        lines = [
            chopped for row, style in visible for chopped in chop(self._with_links(row[:4_000], style, styles), width)
        ]
        hidden = len(rows) - len(visible)
        if len(lines) > 2 * limit:
            lines = lines[: 2 * limit] if head else lines[-2 * limit :]
            hidden += 1
        if hidden > 0:
            note = line(
                (self._hidden_text(hidden) + (f" · {key_of('output')}" if self.open and not head else ""), styles.muted)
            )
            lines = [*lines, note] if head else [note, *lines]
        return lines

    def _with_links(self, row: str, style: Style, styles: TextStyles) -> list[Span]:
        """Return a line of output with its colors, and with hyperlinks in the colors that it has."""
        return [
            span
            for text, own in ansi.ansi_spans(row, styles, style)
            for span in link_spans(text, own, own, self._locate)
        ]

    def relink(self, found: AbstractSet[str]) -> None:
        """Invalidate the lines if the output names one of these files."""
        if not self._names.isdisjoint(found):
            self.changed()

    def _locate(self, name: str) -> str:
        self._names.add(name)
        return self.options.locate(name)

    def _hidden_text(self, hidden: int) -> str:
        lines = f"… {hidden} more line{'s' if hidden > 1 else ''}"
        return lines if self.open else f"{lines} · {key_of('details')}"

    def plain_text(self) -> str:
        """Return call and output."""
        item = self.item
        rows = [f"{item.call.name}  {item.title}", ansi.strip_ansi(item.text or item.output.text)]
        return "\n".join([*rows, *(text[1:] for diff in item.diffs for hunk in diff.hunks for text in hunk.lines)])

    def guess(self, width: int) -> int:
        """Estimate the number of lines."""
        item = self.item
        if item.diffs:
            return 1 + min(MAX_DIFF_LINES + 1, sum(len(hunk.lines) for diff in item.diffs for hunk in diff.hunks))
        return 1 if item.reads_only else 1 + min(MAX_OUTPUT_LINES + 1, item.output.lines)
