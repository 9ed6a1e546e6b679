"""What stands around the transcript: who works on what at the top, what goes on above the composer, keys below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import time

from rich.style import Style

from tui_agent.domain import Mode
from tui_agent.keymap import key_of
from tui_agent.text import one_line
from tui_agent.view import SessionView
from widgets.blocks.base import duration
from widgets.ink import Ink, Line, Span, fit, line, width_of, wrap
from widgets.line_view import LinesView
from widgets.speed_words import afterwards, progress, rate_now

PHASES = {
    "connecting": "connecting",
    "loading": "loading the model",
    "reading": "reading the prompt",
    "thinking": "thinking",
    "writing": "writing",
    "running": "running",
    "waiting": "waiting for you",
    "retrying": "waiting to ask again",
    "working": "working",
}
APPROVALS = {
    "ask": "you are asked before a file changes or a command runs",
    "auto-edit": "files change without asking, commands ask",
    "auto": "files change and ordinary commands run without asking",
    "read-only": "nothing is changed and nothing is run",
}
SANDBOXES = {
    "bwrap": "bubblewrap, for what runs unasked and in the auto modes",
    "landlock": "Landlock, for what runs unasked and in the auto modes",
    "landlock: files and tcp": "Landlock alone: no UDP, no protected files; bubblewrap would hold them",
    "landlock: files only": "Landlock alone: no network, no protected files; bubblewrap would hold them",
    "none": "there is none here; bubblewrap would be one",
    "off": "switched off in the settings",
}
LOOKING = tuple(mode.value for mode in Mode if mode.reads_only)
ELSEWHERE = " · /export FILE keeps what was said in another place"
METER = 6
"""Cells of the context meter's bar."""
QUEUED = 3
"""Queued messages that show; the rest is counted."""


def apart(left: Sequence[Span], right: Sequence[Span], width: int, ink: Ink) -> Line:
    """Two ends of a line; the left one is shortened when they meet."""
    room = width - width_of(right) - (2 if right else 0)
    kept = _fitted(left, room)
    gap = max(0, width - width_of(kept) - width_of(right))
    return line(*kept, (" " * gap, ink.text), *right)


def tokens(count: int) -> str:
    """`950`, `11.2k`, `128k`; windows are powers of two and are named so."""
    if count and count % 1024 == 0:
        return f"{count // 1024}k"
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 100_000 and count % 1000 else f"{count // 1000}k"


class TitleLine(LinesView):
    """Title or folder on the left; mode, approvals, model and context on the right."""

    def __init__(self, view: SessionView, *, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.view = view

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        view = self.view
        name = view.title or (Path(view.workspace).name if view.workspace else "")
        left: list[Span] = [("tui-agent", ink.accent)]
        if name:
            left += [(" · ", ink.faint), (one_line(name), ink.text)]
        parts = [
            part for part in (self._modes(ink), self._model(width, ink), self._meter(width, ink)) if part
        ]
        right: list[Span] = []
        for part in parts:
            right += [(" · ", ink.faint), *part] if right else part
        if width_of(right) > width - 12:
            right = parts[0] if parts else []
        return [apart(left, right, width, ink)]

    def _modes(self, ink: Ink) -> list[Span]:
        view = self.view
        if not view.mode:
            return []
        style = ink.muted if view.approval_mode in ("ask", "read-only") else ink.warn
        spans = [self._mode(ink), (" · ", ink.faint), (view.approval_mode, style)]
        if view.sandbox:
            spans += [(" · ", ink.faint), self._sandbox(ink)]
        return spans if view.trusted else [*spans, (" · ", ink.faint), ("untrusted", ink.warn)]

    def _mode(self, ink: Ink) -> Span:
        """The mode's badge: those that only look stand out, since nothing that is asked of them is changed (W11)."""
        mode = self.view.mode
        return (f"◇ {mode}", ink.accent) if mode in LOOKING else (mode, ink.muted)

    def _sandbox(self, ink: Ink) -> Span:
        """Whether commands are confined (A10): said in every mode, loudly where they run unasked and are not."""
        view = self.view
        auto = view.approval_mode in ("auto", "auto-edit")
        if view.sandbox in ("off", "none"):
            return "no sandbox", ink.warn if auto else ink.muted
        return ("sandboxed" if view.sandbox in ("bwrap", "landlock") else "half sandboxed"), ink.muted

    def _model(self, width: int, ink: Ink) -> list[Span]:
        return [(fit(one_line(self.view.model), max(8, width // 3)), ink.muted)] if self.view.model else []

    def _meter(self, width: int, ink: Ink) -> list[Span]:
        view = self.view
        if view.context_used is None:
            return []
        about = "~" if view.context_estimated else ""
        used = about + tokens(view.context_used)
        if not view.context_limit:
            return [(f"ctx {used}", ink.muted)]
        share = view.context_used / view.context_limit
        style = ink.bad if share >= 0.9 else ink.warn if share >= 0.75 else ink.accent
        full = min(METER, max(1 if view.context_used else 0, round(share * METER)))
        bar: list[Span] = [("▰" * full, style), ("▱" * (METER - full), ink.faint), (" ", ink.text)]
        text: Span = (f"{used}/{tokens(view.context_limit)}", ink.muted if share < 0.75 else style)
        return [("ctx ", ink.muted), *(bar if width >= 100 else []), text]


class ActivityLine(LinesView):
    """What goes on and for how long, what waits, and what is new further down."""

    def __init__(self, view: SessionView, *, now: Callable[[], float] = time, id: str | None = None) -> None:
        super().__init__(self._paint, id=id)
        self.view = view
        self.now = now
        self.starting = "starting"
        """Shown until the session is there; afterwards empty."""
        self.hint = ""
        """A word about the key that was just pressed."""
        self.trouble = ""
        """Set while nothing can be saved (R-53)."""
        self.unseen = 0
        self.following = True

    def say(
        self, *, starting: str | None = None, hint: str | None = None, trouble: str | None = None
    ) -> None:
        """Change what is said; None leaves a part as it is, an empty text takes it away."""
        self.starting = self.starting if starting is None else starting
        self.hint = self.hint if hint is None else hint
        self.trouble = self.trouble if trouble is None else trouble
        self.relayout()

    def below(self, following: bool, unseen: int) -> None:
        """What is further down in the transcript."""
        self.following, self.unseen = following, unseen
        self.relayout()

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        trouble = (
            wrap([("! ", ink.bad), (one_line(self.trouble, 400), ink.text), (ELSEWHERE, ink.muted)], width)
            if self.trouble
            else []
        )
        trouble += self._truncated(width, ink)
        return [*trouble, *self._queue(width, ink), apart(self._phase(ink), self._below(ink), width, ink)]

    def _truncated(self, width: int, ink: Ink) -> list[Line]:
        """The model knows only a part of what it was told (R1.3): in sight as long as the run goes on."""
        if not self.view.truncated:
            return []
        text = f"the server truncated the prompt to {self.view.truncated:,} tokens"
        return [line(*_fitted([("! ", ink.bad), (text, ink.text), (" · /context", ink.muted)], width))]

    def _queue(self, width: int, ink: Ink) -> list[Line]:
        queue = self.view.queue
        lines = [
            line(
                ("guide   " if one.steering else "queued  ", ink.accent),
                (fit(one_line(one.text, width), width - 9), ink.muted),
            )
            for one in queue[:QUEUED]
        ]
        if len(queue) > QUEUED:
            lines.append(line((f"        and {len(queue) - QUEUED} more", ink.muted)))
        return lines

    def _phase(self, ink: Ink) -> list[Span]:
        status = self.view.status
        if self.hint:
            return [(self.hint, ink.warn)]
        if self.starting:
            return [("● ", ink.faint), (self.starting, ink.muted)]
        if not status.phase:
            return [(afterwards(self.view), ink.muted)]
        style: Style = ink.warn if status.phase in ("waiting", "retrying") else ink.accent
        doing = progress(self.view, self.now()) or PHASES.get(status.phase, status.phase)
        spans = [("● ", style), (doing, ink.text)]
        if status.detail:
            spans.append((" " + one_line(status.detail), ink.muted))
        retry = self.view.reply.retry if self.view.reply is not None else None
        if status.phase == "retrying" and retry is not None:
            left = max(0, round(retry.until - self.now()))
            return [*spans, (f" · in {left} s", ink.muted)]
        if rate := rate_now(self.view, self.now()):
            spans.append((f" · {rate}", ink.muted))
        spent = max(0.0, self.now() - status.since)
        return [*spans, (f" · {duration(int(spent) * 1000)}", ink.muted)] if spent >= 1 else spans

    def _below(self, ink: Ink) -> list[Span]:
        if self.following:
            return []
        new = f"↓ {self.unseen} new" if self.unseen else "↓ more"
        return [(new, ink.accent), (f" {key_of('end')}", ink.muted)]


class KeyLine(LinesView):
    """The keys that do something at the moment."""

    def __init__(
        self,
        view: SessionView,
        keys: Callable[[SessionView], list[tuple[str, str]]],
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(self._paint, id=id)
        self.view = view
        self.keys = keys

    def _paint(self, width: int, ink: Ink) -> list[Line]:
        spans: list[Span] = []
        for key, does in self.keys(self.view):
            more: list[Span] = [("   " if spans else "", ink.text), (key, ink.text), (" " + does, ink.muted)]
            if width_of(spans) + width_of(more) > width:
                break
            spans += more
        return [line(*spans)]


def greeting(view: SessionView, width: int, ink: Ink) -> list[Line]:
    """What stands in an empty transcript: where we are, and that nothing happens unasked."""
    if not view.workspace:
        return []
    rows: list[list[Span]] = [
        [("tui-agent ", ink.strong), (view.version, ink.muted)],
        [],
        [("folder     ", ink.muted), (one_line(view.workspace, 200), ink.text)],
        [("model      ", ink.muted), (one_line(f"{view.model} · {view.provider}"), ink.text)],
        [("approvals  ", ink.muted), (APPROVALS.get(view.approval_mode, view.approval_mode), ink.text)],
    ]
    if view.sandbox:
        rows.append([("sandbox    ", ink.muted), (SANDBOXES.get(view.sandbox, view.sandbox), ink.text)])
    return [line(*_fitted(row, width)) for row in rows]


def _fitted(spans: Sequence[Span], width: int) -> list[Span]:
    """On one line, with an ellipsis in place of what is too much."""
    kept: list[Span] = []
    for text, style in spans:
        if short := fit(text, max(0, width - width_of(kept))):
            kept.append((short, style))
    return kept
