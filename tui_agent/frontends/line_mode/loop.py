"""The loop of line mode: a line, what happens, the next line (X2, seed 001)."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, NoReturn, TypeVar

from tui_agent.domain import Answer
from tui_agent.engine.wishes import Wishes
from tui_agent.events import (
    ApprovalAnswered,
    ContextMeasured,
    FileChanged,
    Notice,
    Record,
    RunEnded,
    SessionOpened,
    ShellRan,
    ToolFinished,
    UserSaid,
)
from tui_agent.frontends.line_mode import commands
from tui_agent.frontends.line_mode.asking import Asking, asks, refusal
from tui_agent.frontends.line_mode.backstage import Backstage
from tui_agent.frontends.line_mode.shown import Lines
from tui_agent.frontends.line_mode.terminal import Ended, Terminal
from tui_agent.frontends.line_mode.waking import Hangup, Signals
from tui_agent.text import clean

T = TypeVar("T")
PROMPT, MORE = "You: ", "   … "
SETTLING = 0.3
"""Seconds that are waited, at the start, for what the session asks by itself."""
TICK = 0.05
"""Seconds between two looks at work that goes on behind."""
IDLE = 40
"""Looks after which a queue that does not move is left alone: its run was stopped elsewhere."""
OUTCOMES = {"done": 0, "failed": 1, "refused": 3, "unreachable": 4, "limit": 5, "interrupted": 130}
"""As `exec` ends; of the last message of a pipe (X3)."""


class Leave(Exception):
    """The user goes."""


class Repl:
    """One session line by line. `session`, `terminal` and `backstage` are for the commands."""

    def __init__(self, backstage: Backstage, terminal: Terminal) -> None:
        self.backstage = backstage
        self.session = backstage.session
        self.terminal = terminal
        self.last_output = ""
        terminal.offer([f"/{name} " for name in commands.BY_NAME])
        self._asking = Asking(terminal, self.session.mask)
        self._lines = Lines(sys.stdout, self.session.mask, attended=terminal.attended)
        self._code = 0
        self._refused = self._changed = False
        self._said = ""
        """Id of the last message that was typed here."""
        self._used: tuple[int | None, int | None] = (None, None)
        self._armed = False
        """Ctrl+C was pressed at an empty prompt."""

    # --- the loop ---

    def work(self) -> int:
        """Until the user leaves or the pipe ends; returns the exit code."""
        self.session.tell_saving(_tell_saving)
        try:
            self._settle()
            if self.terminal.attended:
                self.say("A message is sent with Enter. /help lists commands, Ctrl+D leaves.", "dim")
            while True:
                self._one()
        except (Leave, Ended):
            return 0 if self.terminal.attended else self._code

    def _one(self) -> None:
        try:
            self._show_waiting()
            text = self.terminal.line(PROMPT, MORE)
        except KeyboardInterrupt:
            self._at_prompt_interrupted()
            return
        self._armed = False
        if not text.strip():
            return
        if not self.terminal.attended:
            self.say(f"{PROMPT}{text}")
        try:
            self._take(text)
        except KeyboardInterrupt:
            self._stop()

    def _take(self, text: str) -> None:
        if text.startswith("!") and text[1:].strip():
            self.wait_for(self.session.run_shell(text[1:].strip()))
            self._show_waiting()
        elif text.startswith("/") and "/" not in text[1:].partition(" ")[0]:
            commands.run(self, text.strip())
            self._show_waiting()
        else:
            self._send(text.removeprefix(" ") if text.startswith((" /", " !")) else text)

    def _send(self, text: str) -> None:
        self._refused = self._changed = False
        self._said = self.backstage.do(self.session.send(text))
        idle = 0
        while self.session.busy or (self.session.queue.order() and idle < IDLE):
            record = self.backstage.next(TICK)
            idle = 0 if record is not None or self.session.busy else idle + 1
            if record is not None:
                self._show(record)
        self._show_waiting()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do `work` beside the engine, show what happens and ask what asks meanwhile. None when it was stopped.

        Raises what it raises.
        """
        going: Future[T] = self.backstage.start(work)
        try:
            while not going.done():
                record = self.backstage.next(TICK)
                if record is not None:
                    self._show(record)
        except KeyboardInterrupt:
            self._stop()
            going.cancel()
            return None
        return going.result()

    def _settle(self) -> None:
        """Show how the session opens, and put what it asks by itself."""
        while (record := self.backstage.next(SETTLING)) is not None:
            self._show(record)

    def _show_waiting(self) -> None:
        """What is written by now; nothing is waited for but the disk."""
        self.backstage.do(self.session.wait())
        while (record := self.backstage.next(TICK)) is not None:
            self._show(record)
        self._lines.end_line()

    # --- records ---

    def _show(self, record: Record) -> None:
        event = record.event
        self._note(record)
        if isinstance(event, ShellRan) or not (isinstance(event, Notice) and event.code in QUIET):
            self._lines.show(record)
        if not asks(event):
            return
        self._lines.end_line()
        request: str = getattr(event, "id", "")
        if not self.terminal.attended:
            self._answer(request, refusal(event))
            return
        try:
            answer = self._asking.ask(event)
        except KeyboardInterrupt:
            self._stop()
            return
        if not self._answer(request, answer):
            self.say("  It was decided elsewhere, or can't be decided any more.")

    def _answer(self, request: str, answer: Answer) -> bool:
        return self.backstage.call(lambda: self.session.answer(request, answer))

    def _note(self, record: Record) -> None:
        match record.event:
            case UserSaid(id=id, text=text) if (
                id != self._said
            ):  # waited since an earlier start, or came elsewhere
                self.say(f"{PROMPT}{clean(text)}")
            case ToolFinished(text=text):
                self.last_output = text
            case ContextMeasured(used=used, limit=limit):
                self._used = used, limit
            case ApprovalAnswered(answer=answer) if answer.verdict == "reject" and answer.by != "user":
                self._refused = True
            case FileChanged():
                self._changed = True
            case RunEnded(outcome=outcome):
                needs = self._refused and (outcome == "done" or (outcome == "failed" and not self._changed))
                self._code = OUTCOMES["refused" if needs else outcome]
            case SessionOpened(resumed=True):
                if self.session.title:
                    self.say(f"Going on with «{clean(self.session.title)}».")

    # --- for the commands ---

    def say(self, text: str, style: str = "") -> None:
        """Write lines, clean already; secrets are hidden here."""
        self._lines.end_line()
        self.terminal.say(self.session.mask.mask(text), style)

    def used_words(self, window: int | None) -> str:
        """How full the model's window is."""
        used, limit = self._used[0], self._used[1] or window
        if used is None:
            return f"empty, of {limit:,} tokens" if limit else "empty"
        return f"{used:,} of {limit:,} tokens ({used / limit:.0%})" if limit else f"{used:,} tokens"

    def leave(self) -> NoReturn:
        """End the loop."""
        raise Leave

    # --- Ctrl+C ---

    def _stop(self) -> None:
        """Stop what goes on, in order. In a pipe that is the end."""
        self._lines.end_line()
        if self.terminal.attended:
            self.terminal.say()
        self.backstage.do(self.session.interrupt(at_once=True))
        self._show_waiting()
        if not self.terminal.attended:
            self._code = OUTCOMES["interrupted"]
            raise Leave

    def _at_prompt_interrupted(self) -> None:
        if not self.terminal.attended:
            self._code = OUTCOMES["interrupted"]
            raise Leave
        self.terminal.say()
        if self._armed:
            raise Leave
        self._armed = True
        self.say("Nothing goes on. Ctrl+C once more, or Ctrl+D, leaves.", "dim")


QUIET = frozenset(("context.measured",))


def _tell_saving(failure: str | None) -> None:
    sys.stderr.write(f"tui-agent: {clean(failure) if failure else 'saving works again.'}\n")


def serve(wishes: Wishes, terminal: Terminal) -> int:
    """Open a session and work in it until the end; returns the exit code. Raises CannotOpen."""
    backstage = Backstage()
    signals = Signals()
    try:
        backstage.open(wishes)
        backstage.start(signals.wake())
    except BaseException:
        backstage.stop()
        raise
    code = 1
    try:
        code = Repl(backstage, terminal).work()
    except KeyboardInterrupt:
        code = OUTCOMES["interrupted"]
    except Hangup as gone:
        code = 128 + gone.number
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody reads on
        code = OUTCOMES["interrupted"]
    finally:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
        terminal.keep_history()
        backstage.close("repl ended")
    if terminal.attended and code < 128:
        terminal.say(f"\nGo on: tui-agent repl --resume {backstage.session.id}")
    return code
