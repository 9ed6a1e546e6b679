"""A reply of the model: thinking, text, and how it ended. Only the unsettled end of the text is painted again."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from tui_agent.view.items import ReplyItem
from widgets.blocks.base import BlockOptions, TranscriptBlock, format_duration
from widgets.blocks.notice import hanging_text
from widgets.markdown import MarkdownStream
from widgets.styled_text import Line, TextStyles, add_below, hanging, indent, line, wrap

MAX_LIVE_THOUGHT_LINES = 6
"""Lines of thinking shown while it streams."""
MAX_THOUGHT_LINES = 200
"""Lines of thinking shown when expanded."""
MIN_FIRST_LETTERS = 8
"""Number of letters and digits that the first paint waits for (U1)."""
MAX_HOLD_SECONDS = 0.3
"""Maximum time that the first paint waits."""


class ReplyBlock(TranscriptBlock[ReplyItem]):
    """Paints a growing reply. The work per delta depends only on the open piece of markdown."""

    def __init__(self, item: ReplyItem, options: BlockOptions) -> None:
        super().__init__(item, options)
        self._text = item.text
        self._fed = 0
        self._stream = MarkdownStream(options.locate)
        self._released = item.ended

    @property
    def live(self) -> bool:  # type: ignore[override]  # a class attribute becomes a property
        """Whether the reply shows a running time, counts down to a retry, or is held back."""
        item = self.item
        waiting = item.retry is not None and not item.retry.is_over
        return not item.ended and (item.thinking_since is not None or waiting or self.is_held)

    @property
    def is_held(self) -> bool:
        """Whether there is too little text for the first paint."""
        item = self.item
        if self._released or not item.text.size:
            return False
        enough = item.ended or item.text.size > 200 or sum(map(str.isalnum, item.text.text)) >= MIN_FIRST_LETTERS
        self._released = enough or item.started_at is None or self.options.now() - item.started_at >= MAX_HOLD_SECONDS
        return not self._released

    def forget(self) -> None:
        """Drop stream and lines; both can be rebuilt from the item."""
        super().forget()
        self._restart()

    def relink(self, found: AbstractSet[str]) -> None:
        """Invalidate the lines if the text names one of these files, or may do so in the end that is still open."""
        if self._stream.relink(found) or not self._stream.ended:
            self.changed()

    def _restart(self) -> None:
        self._text, self._fed, self._stream = self.item.text, 0, MarkdownStream(self.options.locate)

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint thinking, retry, text and end, separated by blank lines."""
        parts = [
            self._thought(width, styles),
            self._retry(width, styles),
            self._body(width, styles),
            self._end(width, styles),
        ]
        lines: list[Line] = []
        for part in parts:
            add_below(lines, part)
        return lines

    # --- text ---

    def _feed(self) -> None:
        item = self.item
        if item.text is not self._text:
            if item.text.text == self._text.text:
                self._text = item.text
            else:
                self._restart()
        if not self._stream.ended:
            self._stream.feed(item.text.text_after(self._fed))
            self._fed = item.text.size
            if item.ended:
                self._stream.end()

    def _body(self, width: int, styles: TextStyles) -> list[Line]:
        if self.is_held:
            return []
        self._feed()
        return self._stream.lines(width, styles)

    # --- thinking, retry and end ---

    def _thought(self, width: int, styles: TextStyles) -> list[Line]:
        item = self.item
        if item.thinking_since is not None:
            spent = max(0.0, self.options.now() - item.thinking_since) * 1000 + item.reasoning_ms
            lines = [line(("● ", styles.accent), (f"Thinking{self._purpose} · {int(spent / 1000)} s", styles.muted))]
            return lines + self._thought_text(
                item.reasoning.text_after(item.reasoning.size - 2_000), MAX_LIVE_THOUGHT_LINES, width, styles
            )
        if not item.reasoning.size and not item.reasoning_ms:
            return []
        lines = [line(("▾ " if self.open else "▸ ", styles.muted), (self._thought_title(), styles.muted))]
        if not self.open:
            return lines
        return lines + self._thought_text(item.reasoning.text, MAX_THOUGHT_LINES, width, styles)

    def _thought_title(self) -> str:
        spent = f" for {format_duration(self.item.reasoning_ms)}" if self.item.reasoning_ms else ""
        return f"Thought{spent}{self._purpose}"

    @property
    def _purpose(self) -> str:
        return f" · {self.item.purpose}" if self.item.purpose else ""

    @staticmethod
    def _thought_text(text: str, limit: int, width: int, styles: TextStyles) -> list[Line]:
        rows = [row for row in text.strip()[-limit * 400 :].split("\n") if row.strip()][-limit:]
        lines = [
            wrapped
            for row in rows
            for wrapped in wrap([(row, styles.muted + styles.emphasis.without_color)], width - 4)
        ]
        hidden = len(lines) > limit
        lines = lines[-limit:]
        if hidden and limit == MAX_THOUGHT_LINES:
            lines.insert(0, line(("…", styles.muted)))
        return indent(lines, [("  ", styles.muted)])

    def _retry(self, width: int, styles: TextStyles) -> list[Line]:
        retry = self.item.retry
        if retry is None:
            return []
        if retry.is_over:
            attempts = "once" if retry.attempt == 1 else f"{retry.attempt} times"
            return hanging_text("·", styles.muted, f"Retried {attempts}: {retry.why}", styles.muted, width)
        left = max(0, round(retry.until - self.options.now()))
        text = f"{retry.why} · retrying in {left} s ({retry.attempt} of {retry.of})"
        return hanging_text("!", styles.warn, text, styles.text, width)

    def _end(self, width: int, styles: TextStyles) -> list[Line]:
        item = self.item
        if item.fault is not None and item.role:  # the run reports the consequences
            return hanging_text("·", styles.muted, f"{item.purpose}: {item.fault.message}", styles.muted, width)
        if item.fault is not None and item.fault.kind != "cancelled":
            lines = hanging_text("✗", styles.bad, item.fault.message, styles.text, width)
            if item.fault.advice:
                lines += hanging([("  ", styles.muted)], [(item.fault.advice, styles.muted)], width, styles.muted)
            return lines
        if item.stop_reason == "length":
            return [line(("! ", styles.warn), ("cut off at the output limit", styles.muted))]
        return []

    def plain_text(self) -> str:
        """Return what it says about thinking, and the source of the reply."""
        item = self.item
        has_thought = item.thinking_since is None and (item.reasoning.size or item.reasoning_ms)
        return f"{self._thought_title()}\n{item.text.text}" if has_thought else item.text.text

    def guess(self, width: int) -> int:
        """Estimate the number of lines."""
        item = self.item
        if not item.text.size:
            return 1 if item.reasoning.size or item.fault or item.retry else 0
        text = item.text.text
        return text.count("\n") + 1 + len(text) // max(1, width) + (2 if item.reasoning.size else 0)
