"""`tui-agent repl`: the agent line by line, for a plain terminal, a screen reader or a pipe (X2).

The engine has a thread of its own, so that the main thread can wait for a line, a record or Ctrl+C.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.common.domain import Answer, ApprovalMode, Fault, Mode
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError, SessionOptions
from tui_agent.engine.session import Session
from tui_agent.engine.undo import CannotUndo, What
from tui_agent.events import Record
from tui_agent.frontends.line_mode.requests import (
    RequestPrompt,
    diff_lines,
    grant_text,
    needs_answer,
    unattended_answer,
)
from tui_agent.frontends.line_mode.terminal import Hangup, InputEnded, LineSignals, LineTerminal
from tui_agent.frontends.plain import EXIT_CODES, PlainText, exit_code, report_saving
from tui_agent.platform.pipes import leave_stdout, print_error
from tui_agent.text import clean, one_line

CLOSING = 15.0
"""Seconds that a session gets to close."""


class EngineThread:
    """Opens a session on an event loop behind the main thread. All methods block and are for that thread.

    Records are asked for one by one, so that a slow terminal slows nothing but itself and nothing piles up.
    """

    def __init__(self) -> None:
        self.session: Session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._records: AsyncIterator[Record]
        self._next: Future[Record | None] | None = None

    def open(self, wishes: SessionOptions) -> None:
        """Open the session. Raises SessionOpenError."""
        self._thread.start()
        self.session = self.do(open_session(wishes))
        self._records = self.session.follow(self.session.begins)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` beside the engine and give its result; what it raises is raised here."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """The same without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function on the engine's thread."""

        async def called() -> T:
            return function()

        return self.do(called())

    def next(self, seconds: float | None = None) -> Record | None:
        """The next record; None at the end of the session, or when none came in `seconds`.

        A Ctrl+C while this waits loses no record.
        """
        if self._next is None:
            self._next = asyncio.run_coroutine_threadsafe(self._one(), self._loop)
        try:
            record = self._next.result(seconds)
        except (FutureTimeout, TimeoutError):
            return None
        self._next = None
        return record

    async def _one(self) -> Record | None:
        return await anext(self._records, None)

    def close(self, reason: str) -> None:
        """End the session in order, then the loop."""
        closing = self.start(self.session.close(reason))
        try:
            closing.result(CLOSING)
        except (FutureTimeout, TimeoutError):
            return
        finally:
            self.stop()

    def stop(self) -> None:
        """End the loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


T = TypeVar("T")
PROMPT, MORE = "You: ", "   … "
SETTLING = 0.3
"""Seconds that are waited, at the start, for what the session asks by itself."""
TICK = 0.05
"""Seconds between two looks at work that goes on behind."""
IDLE = 40
"""Looks after which a queue that does not move is left alone: its run was stopped elsewhere."""


class QuitRepl(Exception):
    """The user goes."""


class Repl:
    """One session line by line. `session`, `terminal` and `engine` are for the commands."""

    def __init__(self, engine: EngineThread, terminal: LineTerminal) -> None:
        self.engine = engine
        self.session = engine.session
        self.terminal = terminal
        self.last_output = ""
        terminal.offer([f"/{name} " for name in BY_NAME])
        self._prompt = RequestPrompt(terminal, self.session.mask)
        hidden = (e.ApprovalRequested, e.QuestionAsked, e.PlanDocConflict, e.UserShellCommand)
        self._lines = PlainText(
            sys.stdout,
            self.session.mask,
            speaker="Agent: ",
            hidden=hidden if terminal.attended else (e.UserShellCommand,),
        )
        self._code = 0
        self._refused = self._changed = False
        self._sent = ""
        """Id of the last message that was typed here."""
        self._used: tuple[int | None, int | None] = (None, None)
        self._interrupted_once = False
        """Ctrl+C was pressed at an empty prompt."""

    # --- the loop ---

    def work(self) -> int:
        """Until the user leaves or the pipe ends; returns the exit code."""
        self.session.tell_saving(report_saving)
        try:
            self._settle()
            if self.terminal.attended:
                self.say("Enter sends a message, /help lists commands, Ctrl+D quits.", "dim")
            while True:
                self._one()
        except (QuitRepl, InputEnded):
            return 0 if self.terminal.attended else self._code

    def _one(self) -> None:
        try:
            self._show_waiting()
            text = self.terminal.line(PROMPT, MORE)
        except KeyboardInterrupt:
            self._at_prompt_interrupted()
            return
        self._interrupted_once = False
        if not text.strip():
            return
        if not self.terminal.attended:
            self.say(f"{PROMPT}{text}")
        try:
            self._handle_line(text)
        except KeyboardInterrupt:
            self._stop()

    def _handle_line(self, text: str) -> None:
        if text.startswith("!") and text[1:].strip():
            self.wait_for(self.session.run_shell(text[1:].strip()))
            self._show_waiting()
        elif text.startswith("/") and "/" not in text[1:].partition(" ")[0]:
            run_command(self, text.strip())
            self._show_waiting()
        else:
            self._send(text.removeprefix(" ") if text.startswith((" /", " !")) else text)

    def _send(self, text: str) -> None:
        self._refused = self._changed = False
        self._sent = self.engine.do(self.session.send(text))
        idle = 0
        while self.session.busy or (self.session.queue.order() and idle < IDLE):
            record = self.engine.next(TICK)
            idle = 0 if record is not None or self.session.busy else idle + 1
            if record is not None:
                self._show_record(record)
        self._show_waiting()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do `work` beside the engine, show what happens and ask what asks meanwhile. None when it was stopped.

        Raises what it raises.
        """
        going: Future[T] = self.engine.start(work)
        try:
            while not going.done():
                record = self.engine.next(TICK)
                if record is not None:
                    self._show_record(record)
        except KeyboardInterrupt:
            self._stop()
            going.cancel()
            return None
        return going.result()

    def _settle(self) -> None:
        """Show how the session opens, and put what it asks by itself."""
        while (record := self.engine.next(SETTLING)) is not None:
            self._show_record(record)

    def _show_waiting(self) -> None:
        """What is written by now; nothing is waited for but the disk."""
        self.engine.do(self.session.wait())
        while (record := self.engine.next(TICK)) is not None:
            self._show_record(record)
        self._lines.end_line()

    # --- records ---

    def _show_record(self, record: e.Record) -> None:
        event = record.event
        self._track(record)
        if isinstance(event, e.UserShellCommand):
            self.say(_shell_output(event))
        elif not (isinstance(event, e.Notice) and event.code == "context.measured"):
            self._lines.show(record)
        if not needs_answer(event):
            return
        self._lines.end_line()
        request: str = getattr(event, "id", "")
        if not self.terminal.attended:
            self._answer(request, unattended_answer(event))
            return
        try:
            answer = self._prompt.ask(event)
        except KeyboardInterrupt:
            self._stop()
            return
        if not self._answer(request, answer):
            self.say("  It was decided elsewhere or is no longer pending.")

    def _answer(self, request: str, answer: Answer) -> bool:
        return self.engine.call(lambda: self.session.answer(request, answer))

    def _track(self, record: e.Record) -> None:
        match record.event:
            case e.UserMessageAdded(id=id, text=text) if (
                id != self._sent
            ):  # waited since an earlier start, or came elsewhere
                self.say(f"{PROMPT}{clean(text)}")
            case e.ToolFinished(text=text):
                self.last_output = text
            case e.ContextMeasured(used=used, limit=limit):
                self._used = used, limit
            case e.ApprovalAnswered(answer=answer) if answer.verdict == "reject" and answer.by != "user":
                self._refused = True
            case e.FileChanged():
                self._changed = True
            case e.RunEnded(outcome=outcome):
                self._code = exit_code(outcome, refused=self._refused, changed=self._changed)
            case e.SessionOpened(resumed=True):
                if self.session.title:
                    self.say(f"Continuing “{clean(self.session.title)}”.")

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

    # --- Ctrl+C ---

    def _stop(self) -> None:
        """Stop what goes on, in order. In a pipe that is the end."""
        self._lines.end_line()
        if self.terminal.attended:
            self.terminal.say()
        self.engine.do(self.session.interrupt(at_once=True))
        self._show_waiting()
        if not self.terminal.attended:
            self._code = EXIT_CODES["interrupted"]
            raise QuitRepl

    def _at_prompt_interrupted(self) -> None:
        if not self.terminal.attended:
            self._code = EXIT_CODES["interrupted"]
            raise QuitRepl
        self.terminal.say()
        if self._interrupted_once:
            raise QuitRepl
        self._interrupted_once = True
        self.say("Nothing is running. Press Ctrl+C again or Ctrl+D to quit.", "dim")


def _shell_output(event: e.UserShellCommand) -> str:
    code = event.exit_code
    ended = "" if code == 0 else "[stopped]" if code is None else f"[exit code {code}]"
    return "\n".join(filter(None, (clean(event.output).rstrip("\n"), ended))) or "[no output]"


def run_repl(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Open a session and run the loop; returns the exit code. `session_options` maps arguments to session options."""
    if args.resume == "":
        parser.error("--resume needs the id of a session; `tui-agent sessions` lists them")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        terminal = LineTerminal(paths.data_dir())
        if args.demo and terminal.attended:
            from tui_agent.frontends.demo_workspace import DEMO_TASK

            terminal.prefill(DEMO_TASK)
        return run_line_mode(session_options(args, args.approval_mode, attended=terminal.attended), terminal)
    except (SessionOpenError, paths.NoHome) as error:
        print_error(str(error))
        return getattr(error, "code", 2)


def run_line_mode(wishes: SessionOptions, terminal: LineTerminal) -> int:
    """Open a session and work in it until the end; returns the exit code. Raises SessionOpenError."""
    engine = EngineThread()
    signals = LineSignals()
    try:
        engine.open(wishes)
        engine.start(signals.wake())
    except BaseException:
        engine.stop()
        raise
    code = 1
    try:
        code = Repl(engine, terminal).work()
    except KeyboardInterrupt:
        code = EXIT_CODES["interrupted"]
    except Hangup as gone:
        code = 128 + gone.number
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        leave_stdout()
        code = EXIT_CODES["interrupted"]
    finally:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
        terminal.keep_history()
        engine.close("repl ended")
    if terminal.attended and code < 128:
        terminal.say(f"\nResume with: tui-agent repl --resume {engine.session.id}")
    return code


SESSION: Final = "execution"
"""The role whose model is the session's own."""


class SlashCommand(NamedTuple):
    """`run` takes the loop and what was typed behind the name."""

    name: str
    takes: str
    does: str
    run: Callable[[Repl, str], None]


def run_command(repl: Repl, text: str) -> None:
    """Do what a line that begins with `/` asks for. Raises QuitRepl for `/quit`."""
    name, _, rest = text[1:].partition(" ")
    command = BY_NAME.get(name)
    if command is None:
        repl.say(f"Unknown command /{one_line(name, 40)}. /help lists all; a leading space sends it as a message.")
        return
    try:
        command.run(repl, rest.strip())
    except CannotUndo as error:
        repl.say(clean(str(error)))


def _help(repl: Repl, _: str) -> None:
    rows = [(f"/{one.name} {one.takes}".rstrip(), one.does) for one in COMMANDS]
    rows += [
        ("!command", "run a command in the session's shell"),
        ("@path", "in a message: attach a file or folder; :L10-L50 for lines"),
        ("\\ at the end", "continue the message on the next line"),
        ("Ctrl+C", "stop the run; twice at an empty prompt: quit"),
        ("Ctrl+D", "quit; the session can be resumed"),
    ]
    wide = max(len(name) for name, _ in rows) + 2
    repl.say("\n".join(f"{name:<{wide}}{does}" for name, does in rows))


def _clear(repl: Repl, _: str) -> None:
    repl.engine.call(repl.session.checkpoints.clear)


def _chooses(command: str, field: str, modes: type[Mode | ApprovalMode]) -> Callable[[Repl, str], None]:
    """What switches one of the two modes, and tells which there are."""

    def run(repl: Repl, word: str) -> None:
        names = [mode.value for mode in modes]
        if word in names:
            repl.wait_for(repl.session.set_modes(**{field: word}))
        else:
            repl.say(f"{command} takes {', '.join(names)}")

    return run


def _model(repl: Repl, name: str) -> None:
    models = repl.session.models
    if name:
        problem = repl.wait_for(models.choose(SESSION, name))
        if problem:
            repl.say(clean(problem))
        return
    found = repl.wait_for(models.listed())
    if isinstance(found, Fault):
        repl.say(clean(found.sentence))
    elif found is not None:
        listed = "\n".join(f"  {one_line(clean(one.name), 100)}" for one in found)
        repl.say(f"{listed or '  none'}\n/model NAME switches, from the next message")


def _plan(repl: Repl, word: str) -> None:
    memory = repl.session.memory
    if word in ("accept", "discard"):
        if not repl.wait_for(repl.session.settle_plan(word == "accept")):
            repl.say("no proposal is pending")
    elif word:
        repl.say("use /plan accept or /plan discard; /plan alone shows the plan")
    else:
        text = repl.engine.call(lambda: memory.proposals() or memory.text())
        repl.say(clean(text) or "this session has no plan")


def _undo(repl: Repl, words: str) -> None:
    checkpoints = repl.session.checkpoints
    if _is_run(words):
        repl.wait_for(checkpoints.undo(run=_run(words)))
    else:
        repl.wait_for(checkpoints.undo(files=(words,) if words else ()))


def _redo(repl: Repl, _: str) -> None:
    repl.wait_for(repl.session.checkpoints.redo())


def _rewind(repl: Repl, words: str) -> None:
    number, _, rest = words.partition(" ")
    kinds: dict[str, What] = {"": "both", "both": "both", "code": "code", "conversation": "conversation"}
    if not _is_run(number) or rest.strip() not in kinds:
        repl.say("/rewind needs a run number, then code, conversation or both; /checkpoints lists the runs")
        return
    report = repl.wait_for(repl.session.checkpoints.rewind(_run(number), kinds[rest.strip()]))
    if report is not None and report.text:
        repl.terminal.prefill(clean(report.text))


def _checkpoints(repl: Repl, _: str) -> None:
    listed = repl.engine.call(repl.session.checkpoints.listed)
    for one in listed:
        files = [f"{clean(file.display)} +{file.added} −{file.removed}" for file in one.files]
        undone = " (undone)" if one.undone else ""
        repl.say(f"{one.run}{undone} {one_line(clean(one.title), 80)}\n  {', '.join(files) or 'no files'}")
    if not listed:
        repl.say("no file changes")


def _diff(repl: Repl, word: str) -> None:
    found = [one for one in repl.engine.call(repl.session.checkpoints.listed) if word in ("", one.run, one.run[4:])]
    if not found:
        repl.say("no file changes")
        return
    for file in found[-1].files:
        diff = repl.wait_for(repl.session.checkpoints.diff(found[-1].run, file.path))
        if diff is not None:
            repl.say(f"{clean(diff.path)}  +{diff.added} −{diff.removed}", "strong")
            for text, style in diff_lines(diff):
                repl.say(text, style)


def _compact(repl: Repl, _: str) -> None:
    repl.engine.call(repl.session.compact)


def _grants(repl: Repl, word: str) -> None:
    listed = repl.engine.call(repl.session.grants.listed)
    if word.isdecimal() and 0 < int(word[:6]) <= len(listed):
        repl.wait_for(repl.session.grants.revoke(listed[int(word[:6]) - 1]))
        repl.say("revoked: it needs approval again")
    elif listed:
        rows = [f"  {number} {one.scope.value}: {grant_text(one)}" for number, one in enumerate(listed, 1)]
        repl.say("\n".join([*rows, "/grants N revokes one"]))
    else:
        repl.say("no saved permissions")


def _rename(repl: Repl, title: str) -> None:
    if title and repl.wait_for(repl.session.naming.rename(title)):
        repl.say(f"This session is now called “{one_line(clean(title), 100)}”.")
    elif not title:
        repl.say("/rename needs a title")


def _export(repl: Repl, name: str) -> None:
    from tui_agent.export.session import ExportError, export_format, export_target, write_export

    session: Session = repl.session
    repl.wait_for(session.wait())
    form = export_format(name) or "markdown"
    try:
        path = export_target(name, Path(), session.id, form)
        write_export(session.folder, form, session.mask, path)
    except ExportError as error:
        repl.say(clean(str(error)))
    else:
        repl.say(f"Written to {clean(str(path))}.")


def _output(repl: Repl, _: str) -> None:
    repl.say(clean(repl.last_output).rstrip("\n") or "no call has printed anything yet")


def _status(repl: Repl, _: str) -> None:
    session = repl.session
    current = repl.wait_for(session.models.current())
    model = current.get(SESSION, ("", False))[0] if current else ""
    window = repl.wait_for(session.models.window()) if model else None
    repl.say(f"session {session.id}  {one_line(clean(session.title), 80)}")
    repl.say(f"model {one_line(clean(model), 100) or 'not known yet'} · {clean(session.models.endpoint)}")
    repl.say(f"context {repl.used_words(window)}")


def _quit(repl: Repl, _: str) -> None:
    raise QuitRepl


COMMANDS = (
    SlashCommand("help", "", "this list", _help),
    SlashCommand("clear", "", "clear the conversation; plan, files and session stay", _clear),
    SlashCommand("mode", "NAME", "work mode", _chooses("/mode", "mode", Mode)),
    SlashCommand("approvals", "NAME", "what needs approval", _chooses("/approvals", "approval_mode", ApprovalMode)),
    SlashCommand("model", "[NAME]", "list the server's models, or choose one", _model),
    SlashCommand("plan", "[accept|discard]", "show the plan; accept or discard a proposal", _plan),
    SlashCommand("status", "", "session, model, use of the context window", _status),
    SlashCommand("output", "", "full output of the last call", _output),
    SlashCommand("diff", "[RUN]", "file changes of the last run, or of run N", _diff),
    SlashCommand("checkpoints", "", "all runs with their file changes", _checkpoints),
    SlashCommand("undo", "[RUN|FILE]", "undo the file changes of the last run", _undo),
    SlashCommand("redo", "", "redo what was undone, rewound or cleared", _redo),
    SlashCommand("rewind", "RUN [WHAT]", "restore files and conversation to before a run", _rewind),
    SlashCommand("compact", "", "make room in the model's context", _compact),
    SlashCommand("grants", "[N]", "list and revoke saved permissions", _grants),
    SlashCommand("rename", "TITLE", "give this session a title", _rename),
    SlashCommand("export", "[FILE]", "write the session to a file, markdown or .html", _export),
    SlashCommand("quit", "", "quit; the session can be resumed", _quit),
)
BY_NAME = {one.name: one for one in COMMANDS}
BY_NAME["exit"] = BY_NAME["quit"]


def _is_run(word: str) -> bool:
    return word.removeprefix("run-").isdecimal()


def _run(word: str) -> str:
    return f"run-{word.removeprefix('run-')}"
