"""A reply of the model: thinking, text, how it ended. Settled text is painted once; only the end is painted again."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.view import ReplyItem
from widgets.blocks.base import Block, Look, duration
from widgets.blocks.notice import marked
from widgets.highlight import prepare
from widgets.ink import Ink, Line, Source, indent, line, wrap
from widgets.markdown import code_lines, render
from widgets.markdown_stream import MarkdownStream, Piece

THOUGHT_LINES = 6
"""Lines of thinking that show while it streams."""
THOUGHT_OPEN = 200
"""Lines of thinking that show when it is unfolded."""
HOLD_WORDS = 8
"""Word characters that the first paint waits for (U1) …"""
HOLD_SECONDS = 0.3
"""… for at most this long."""


class ReplyBlock(Block[ReplyItem]):
    """Paints a reply while it grows. The work per delta depends on the open piece of markdown alone."""

    def __init__(self, item: ReplyItem, look: Look) -> None:
        super().__init__(item, look)
        self._text = item.text
        self._fed = 0
        self._stream = MarkdownStream()
        self._settled: list[Line] = []
        self._painted = 0
        """Pieces that `_settled` holds."""
        self._fence: list[Line] = []
        self._fence_at = (0, 0)
        """Which piece the open fence is, and how many of its lines `_fence` holds."""
        self._shown = item.ended

    @property
    def live(self) -> bool:  # type: ignore[override]  # a fixed answer becomes a computed one
        """Thinking shows its seconds; a retry counts down; a held beginning waits for its time."""
        item = self.item
        waiting = item.retry is not None and not item.retry.over
        return not item.ended and (item.thinking_since is not None or waiting or self.held)

    @property
    def held(self) -> bool:
        """True while so little text came that it is not worth a paint yet."""
        item = self.item
        if self._shown or not item.text.size:
            return False
        enough = item.ended or item.text.size > 200 or sum(map(str.isalnum, item.text.text)) >= HOLD_WORDS
        self._shown = enough or item.began is None or self.look.now() - item.began >= HOLD_SECONDS
        return not self._shown

    def forget(self) -> None:
        """Drop stream and lines; the item still has the text."""
        super().forget()
        self._restart()

    def _restart(self) -> None:
        self._text, self._fed, self._stream = self.item.text, 0, MarkdownStream()
        self._drop()

    def _drop(self) -> None:
        self._settled, self._painted, self._fence, self._fence_at = [], 0, [], (0, 0)

    def lines(self, width: int, ink: Ink) -> Sequence[Line]:
        """As every block, but a new width or ink also drops the settled lines."""
        if self._key != (width, ink):
            self._drop()
        return super().lines(width, ink)

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """Thought, retry, text, end, with a blank line between what there is."""
        parts = [
            self._thought(width, ink),
            self._retry(width, ink),
            self._body(width, ink),
            self._end(width, ink),
        ]
        lines: list[Line] = []
        for part in parts:
            if part:
                lines += [Line([]), *part] if lines else part
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
            self._stream.feed(item.text.since(self._fed))
            self._fed = item.text.size
            if item.ended:
                self._stream.end()

    def _body(self, width: int, ink: Ink) -> list[Line]:
        if self.held:
            return []
        self._feed()
        pieces = self._stream.pieces
        for piece in pieces[self._painted :]:
            self._join(self._settled, self._piece(piece, width, ink))
        self._painted = len(pieces)
        tail = self._tail(width, ink)
        if not tail:
            return self._settled
        return self._join(list(self._settled), tail)

    @staticmethod
    def _join(lines: list[Line], more: list[Line]) -> list[Line]:
        if lines and more:
            lines.append(Line([]))
        lines += more
        return lines

    @staticmethod
    def _piece(piece: Piece, width: int, ink: Ink) -> list[Line]:
        if piece.code:
            lines = code_lines(piece.source, piece.language, width, ink)
            source = Source(f"```{piece.language}\n{piece.source}\n```", piece.source)
        else:
            lines = render(piece.source, width, ink)
            source = Source(piece.source)
        for one in lines:
            one.source = source
        return lines

    def _tail(self, width: int, ink: Ink) -> list[Line]:
        stream = self._stream
        if stream.ended:
            return []
        if not stream.fenced:
            tail = stream.tail
            return render(tail, width, ink) if tail.strip() else []
        if self._fence_at[0] != len(stream.pieces) or not self._fence:
            prepare(stream.language)
        if self._fence_at[0] != len(stream.pieces):
            self._fence, self._fence_at = [], (len(stream.pieces), 0)
        for one in stream.tail_lines[self._fence_at[1] :]:
            self._fence += code_lines(one, "", width, ink)
        self._fence_at = (len(stream.pieces), len(stream.tail_lines))
        return self._fence + (code_lines(stream.rest, "", width, ink) if stream.rest else [])

    # --- around it ---

    def _thought(self, width: int, ink: Ink) -> list[Line]:
        item = self.item
        if item.thinking_since is not None:
            spent = max(0.0, self.look.now() - item.thinking_since) * 1000 + item.thought_ms
            lines = [
                line(("● ", ink.accent), (f"Thinking{self._purpose} · {int(spent / 1000)} s", ink.muted))
            ]
            return lines + self._thought_text(
                item.thought.since(item.thought.size - 2_000), THOUGHT_LINES, width, ink
            )
        if not item.thought.size and not item.thought_ms:
            return []
        lines = [line(("▾ " if self.open else "▸ ", ink.muted), (self._thought_title(), ink.muted))]
        if not self.open:
            return lines
        return lines + self._thought_text(item.thought.text, THOUGHT_OPEN, width, ink)

    def _thought_title(self) -> str:
        spent = f" for {duration(self.item.thought_ms)}" if self.item.thought_ms else ""
        return f"Thought{spent}{self._purpose}"

    @property
    def _purpose(self) -> str:
        return f" · {self.item.does}" if self.item.does else ""

    @staticmethod
    def _thought_text(text: str, limit: int, width: int, ink: Ink) -> list[Line]:
        rows = [row for row in text.strip()[-limit * 400 :].split("\n") if row.strip()][-limit:]
        lines = [
            one for row in rows for one in wrap([(row, ink.muted + ink.emphasis.without_color)], width - 4)
        ]
        hidden = len(lines) > limit
        lines = lines[-limit:]
        if hidden and limit == THOUGHT_OPEN:
            lines.insert(0, line(("…", ink.muted)))
        return indent(lines, [("  ", ink.muted)])

    def _retry(self, width: int, ink: Ink) -> list[Line]:
        retry = self.item.retry
        if retry is None:
            return []
        if retry.over:
            again = "once" if retry.attempt == 1 else f"{retry.attempt} times"
            return marked("·", ink.muted, f"Asked again {again}: {retry.why}", ink.muted, width)
        left = max(0, round(retry.until - self.look.now()))
        text = f"{retry.why} · asking again in {left} s ({retry.attempt} of {retry.of})"
        return marked("!", ink.warn, text, ink.text, width)

    def _end(self, width: int, ink: Ink) -> list[Line]:
        item = self.item
        if item.fault is not None and item.role:  # what comes of it is told by the run
            return marked("·", ink.muted, f"{item.does}: {item.fault.message}", ink.muted, width)
        if item.fault is not None and item.fault.kind != "cancelled":
            lines = marked("✗", ink.bad, item.fault.message, ink.text, width)
            if item.fault.advice:
                lines += indent(wrap([(item.fault.advice, ink.muted)], width - 2), [("  ", ink.muted)])
            return lines
        if item.stop == "length":
            return [line(("! ", ink.warn), ("cut off at the output limit", ink.muted))]
        return []

    def plain(self) -> str:
        """The reply's source."""
        return self.item.text.text

    def guess(self, width: int) -> int:
        """About how many lines it will take."""
        item = self.item
        if not item.text.size:
            return 1 if item.thought.size or item.fault or item.retry else 0
        return super().guess(width) + (2 if item.thought.size else 0)
