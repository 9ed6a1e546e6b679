"""The lines around the transcript: title, activity above the composer, keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import time

from rich.style import Style
from textual import events

from tui_agent.common.domain import Mode
from tui_agent.keys import keymap
from tui_agent.keys.keymap import key_of
from tui_agent.text import one_line
from tui_agent.view.items import SessionView
from widgets.block_view import BlockView
from widgets.blocks.base import format_duration
from widgets.dialog_keys import Keys, clicked_key, key_lines
from widgets.line_view import LinesView
from widgets.speed_text import current_rate, last_reply_speed, reading_progress
from widgets.styled_text import (
    Line,
    Span,
    TextStyles,
    fit,
    fitted_spans,
    hanging,
    justified_line,
    line,
    share_bar,
    width_of,
    wrap,
)
from widgets.words import WORDS

READ_ONLY_MODES = tuple(mode.value for mode in Mode if mode.reads_only)
EXPORT_HINT = " · /export FILE saves the session elsewhere"
METER_WIDTH = 6
"""Width of the bar of the context meter."""
MAX_QUEUED = 3
"""Maximum number of queued messages shown."""
_QUEUE_KEYS = Keys("queue")


def format_tokens(count: int) -> str:
    """Format a number of tokens, such as `950`, `11.2k`, `128k`; multiples of 1024 are divided by 1024."""
    if count and count % 1024 == 0:
        return f"{count // 1024}k"
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 100_000 and count % 1000 else f"{count // 1000}k"


def does_on_click(command: str, spans: Iterable[Span]) -> list[Span]:
    """Return spans that run a command of the session when they are clicked."""
    meta = Style.from_meta({"@click": f"app.command('{command}')"})
    return [(text, style + meta) for text, style in spans]


def title_line(view: SessionView, width: int, styles: TextStyles) -> list[Line]:
    """Paint title or folder on the left, and mode, approvals, model and context on the right."""
    name = view.title or (Path(view.workspace).name if view.workspace else "")
    left: list[Span] = [("tui-agent", styles.accent)]
    if name:
        left += [(" · ", styles.faint), (one_line(name), styles.text)]
    model = fit(one_line(view.model_name), max(8, width // 3))
    model_spans: list[Span] = [(model, styles.muted)] if view.model else []
    modes, model_spans = _modes(view, styles), does_on_click("model", model_spans)
    if view.effort and view.model:
        effort: Span = (f"effort {view.effort}", styles.muted)
        model_spans += [(" · ", styles.faint), *does_on_click("effort", [effort])]
    meter = does_on_click("context", _meter(view, width, styles))
    short = _modes(view, styles, brief=True)
    choices = (modes, model_spans, meter), (short, model_spans, meter), (short, meter or model_spans), (short,)
    rights = [_with_dots(parts, styles) for parts in choices]
    room = width - min(width_of(left) + 2, max(12, width * 2 // 5))
    right = next((right for right in rights if width_of(right) <= room), rights[-1])
    return [justified_line(left, right, width, styles)]


def _with_dots(parts: Iterable[list[Span]], styles: TextStyles) -> list[Span]:
    """Return the parts that are not empty on one line, with dots between them."""
    spans: list[Span] = []
    for part in filter(None, parts):
        spans += [(" · ", styles.faint), *part] if spans else part
    return spans


def _modes(view: SessionView, styles: TextStyles, *, brief: bool = False) -> list[Span]:
    """Paint mode, approvals and sandbox; read-only modes stand out, as they never change files (W11).

    `brief` shortens what is said about the sandbox; approvals say it for each command.
    """
    if not view.mode:
        return []
    mode = (f"◇ {view.mode}", styles.accent) if view.mode in READ_ONLY_MODES else (view.mode, styles.muted)
    style = styles.muted if view.approval_mode in ("ask", "read-only") else styles.warn
    approvals = does_on_click("approvals", [(view.approval_mode, style)])
    spans = [*does_on_click("mode", [mode]), (" · ", styles.faint), *approvals]
    if view.sandbox:
        spans += [(" · ", styles.faint), _sandbox(view, styles, brief=brief)]
    untrusted = does_on_click("trust", [("untrusted", styles.warn)])
    return spans if view.trusted else [*spans, (" · ", styles.faint), *untrusted]


def _sandbox(view: SessionView, styles: TextStyles, *, brief: bool) -> Span:
    """Paint what confines the next command (A10); a warning if it may run unconfined and without approval."""
    auto = view.approval_mode in ("auto", "auto-edit")
    if view.sandbox in ("off", "none"):
        return "no sandbox", styles.warn if auto else styles.muted
    if view.approval_mode == "ask" and not view.sandbox_required:
        return "no sandbox" if brief else "approved commands: no sandbox", styles.muted
    network = ", network" if view.sandbox_network else ""
    if ":" in view.sandbox:
        return "partial sandbox" + network, styles.warn if auto else styles.muted
    return "sandboxed" + network, styles.muted


def _meter(view: SessionView, width: int, styles: TextStyles) -> list[Span]:
    if view.context_used is None:
        return []
    about = "~" if view.context_estimated else ""
    used = about + format_tokens(view.context_used)
    if not view.context_limit:
        return [(f"ctx {used}", styles.muted)]
    share = view.context_used / view.context_limit
    style = styles.bad if share >= 0.9 else styles.warn if share >= 0.75 else styles.accent
    bar = [*share_bar(share, METER_WIDTH, style, styles), (" ", styles.text)]
    text: Span = (f"{used}/{format_tokens(view.context_limit)}", styles.muted if share < 0.75 else style)
    return [("ctx ", styles.muted), *(bar if width >= 100 else []), text]


class ActivityLine(LinesView):
    """Current activity with its duration, queued messages, and the number of unseen blocks."""

    def __init__(
        self, view: SessionView, transcript: BlockView, *, now: Callable[[], float] = time, id: str | None = None
    ) -> None:
        super().__init__(self._paint, id=id)
        self.view = view
        self.transcript = transcript
        self.now = now
        self.starting = "starting"
        """Text shown until the session is ready; empty afterwards."""
        self.hint = ""
        """Hint about the key just pressed."""
        self.waiting = ""
        """That a request waits behind this screen."""
        self.trouble = ""
        """Problem shown while nothing can be saved."""

    def set_texts(
        self,
        *,
        starting: str | None = None,
        hint: str | None = None,
        trouble: str | None = None,
        waiting: str | None = None,
    ) -> None:
        """Change texts; None keeps a text, an empty string removes it."""
        self.starting = self.starting if starting is None else starting
        self.hint = self.hint if hint is None else hint
        self.trouble = self.trouble if trouble is None else trouble
        self.waiting = self.waiting if waiting is None else waiting
        self.relayout()

    def _paint(self, width: int, styles: TextStyles) -> list[Line]:
        trouble = (
            wrap([("! ", styles.bad), (one_line(self.trouble, 400), styles.text), (EXPORT_HINT, styles.muted)], width)
            if self.trouble
            else []
        )
        trouble += self._truncated(width, styles)
        return [*trouble, *self._queue(width, styles), *self._activity(width, styles)]

    def _truncated(self, width: int, styles: TextStyles) -> list[Line]:
        """Warn during the run that the model received only part of the prompt."""
        if not self.view.truncated:
            return []
        text = f"the server truncated the prompt to {self.view.truncated:,} tokens"
        spans: list[Span] = [("! ", styles.bad), (text, styles.text)]
        more: Span = (" · /context", styles.muted)
        return [line(*([*spans, more] if width_of([*spans, more]) <= width else fitted_spans(spans, width)))]

    def _queue(self, width: int, styles: TextStyles) -> list[Line]:
        queue = self.view.queue
        lines = [
            line(
                ("steering  " if message.steering else "queued    ", styles.accent),
                (fit(one_line(message.text, width), width - 11), styles.muted),
            )
            for message in queue[:MAX_QUEUED]
        ]
        if len(queue) > MAX_QUEUED:
            lines.append(line((f"          and {len(queue) - MAX_QUEUED} more", styles.muted)))
        if queue and not self.view.busy and not self.starting:  # the user stopped the run before
            text = f"not sent: /queue, then {_QUEUE_KEYS.label('send')} sends it"
            lines.append(line((" " * 10 + fit(text, width - 11), styles.muted)))
        return lines

    def _activity(self, width: int, styles: TextStyles) -> list[Line]:
        """Paint what is going on; what it is about is shortened, so that its time stays visible. A long hint wraps."""
        below = self._below(styles)
        doing, about, spent = self._phase(styles)
        if self.hint and width_of([*doing, *below]) + 2 > width:
            return wrap(doing, width)
        if about:
            room = width - width_of([*doing, *spent, *below]) - (2 if below else 0)
            about = fitted_spans(about, max(0, room))
        return [justified_line([*doing, *about, *spent], below, width, styles)]

    def _phase(self, styles: TextStyles) -> tuple[list[Span], list[Span], list[Span]]:
        """Return what is done, what it is about, and for how long."""
        status = self.view.status
        if self.hint:
            return [(self.hint, styles.warn)], [], []
        if self.waiting:
            return [("● ", styles.warn), (self.waiting, styles.text)], [], []
        if self.starting:
            return [("● ", styles.faint), (self.starting, styles.muted)], [], []
        if not status.phase:
            return [(last_reply_speed(self.view), styles.muted)], [], []
        style: Style = styles.warn if status.phase in ("waiting", "retrying") else styles.accent
        doing = reading_progress(self.view, self.now()) or WORDS.phases.get(status.phase, status.phase)
        spans = [("● ", style), (doing, styles.text)]
        separator = " · " if status.phase in ("waiting", "retrying") else " "
        about = [(separator + one_line(status.detail), styles.muted)] if status.detail else []
        retry = self.view.reply.retry if self.view.reply is not None else None
        if status.phase == "retrying" and retry is not None:
            left = max(0, round(retry.until - self.now()))
            return spans, about, [(f" · in {left} s", styles.muted)]
        times: list[Span] = []
        if rate := current_rate(self.view, self.now()):
            times.append((f" · {rate}", styles.muted))
        if (spent := max(0.0, self.now() - status.since)) >= 1:
            times.append((f" · {format_duration(int(spent) * 1000)}", styles.muted))
        return spans, about, times

    def _below(self, styles: TextStyles) -> list[Span]:
        if self.transcript.following:
            return []
        unseen = self.transcript.unseen
        new = f"↓ {unseen} new" if unseen else "↓ more"
        return [(new, styles.accent), (f" {key_of('end')}", styles.muted)]


class KeyLine(LinesView):
    """Key hints of what has the focus, that press their key when they are clicked."""

    def on_mount(self) -> None:
        """Follow the focus."""
        self.watch(self.screen, "focused", self.relayout, init=False)

    def on_click(self, event: events.Click) -> None:
        """Press the key."""
        if (key := clicked_key(event)) is not None:
            self.app.simulate_key(key.key)


def key_line(
    view: SessionView, focused_keys: Callable[[], list[tuple[str, str]] | None], width: int, styles: TextStyles
) -> list[Line]:
    """Paint the keys that are currently available; `focused_keys` returns those of a panel that has the focus."""
    own = focused_keys()
    footer = keymap.current().footer(busy=view.busy, plan=bool(view.plan.changed_by), composing=own is None)
    return key_lines([*(own or ()), *footer], width, styles, gap=3, style=styles.text)[:1]


def greeting(view: SessionView, width: int, styles: TextStyles) -> list[Line]:
    """Paint the text above the transcript: version, folder, model, approvals and sandbox."""
    if not view.workspace:
        return []
    rows: list[list[Span]] = [
        [("tui-agent ", styles.strong), (view.version, styles.muted)],
        [],
        [("folder     ", styles.muted), (one_line(view.workspace, 200), styles.text)],
        [("model      ", styles.muted), (one_line(view.model_label) or "none yet", styles.text)],
        [("approvals  ", styles.muted), (WORDS.approvals.get(view.approval_mode, view.approval_mode), styles.text)],
    ]
    if view.sandbox:
        sandbox = WORDS.sandboxes.get(view.sandbox, view.sandbox)
        if view.sandbox_network and view.sandbox not in ("off", "none"):
            sandbox += "; with the network"
        rows.append([("sandbox    ", styles.muted), (sandbox, styles.text)])
    return [painted for row in rows for painted in (hanging(row[:1], row[1:], width, styles.text) if row else [line()])]
