"""`tui-agent repl`: line mode, for a plain terminal, a screen reader or a pipe (X2).

The engine runs in a separate thread, so that the main thread can wait for a line, a record or Ctrl+C.
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
from typing import Any, NamedTuple, TypeVar

from tui_agent import events as e
from tui_agent.common import paths
from tui_agent.engine.opening import open_session
from tui_agent.engine.options import SessionOpenError, SessionOptions
from tui_agent.engine.session import Session
from tui_agent.engine.undo import CannotUndo
from tui_agent.events import Record
from tui_agent.events.refusals import Refusals
from tui_agent.frontends.line_mode.requests import RequestPrompt
from tui_agent.frontends.line_mode.terminal import Hangup, InputEnded, LineSignals, LineTerminal
from tui_agent.frontends.plain import EXIT_CODES, PlainText, exit_code, needs_answer, report_saving, unattended_answer
from tui_agent.frontends.plain_diffs import LINE_STYLES
from tui_agent.frontends.session_commands import run_session_command
from tui_agent.keys.slash import TypedCommand, message_of, read_command
from tui_agent.platform.pipes import detach_stdout, print_error
from tui_agent.text import clean, displayable

T = TypeVar("T")
PROMPT, CONTINUATION = "You: ", "   … "
CLOSE_SECONDS = 15.0
"""Time limit for closing the session."""
SETTLE_SECONDS = 0.3
"""Seconds without a record after which the session has opened."""
POLL_SECONDS = 0.05
"""Time limit of one wait for a record."""
IDLE_POLLS = 40
"""Polls without a record after which a queue is considered stuck, since its run was stopped elsewhere."""


class EngineThread:
    """Runs a session on an event loop in another thread. All methods block and are for the main thread.

    Records are fetched one by one, so that nothing accumulates while the terminal is slow.
    """

    def __init__(self) -> None:
        self.session: Session
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._records: AsyncIterator[Record]
        self._pending: Future[Record | None] | None = None

    def open(self, options: SessionOptions) -> None:
        """Open the session. Raises SessionOpenError."""
        self._thread.start()
        self.session = self.run(open_session(options))
        self._records = self.session.follow(self.session.replay_end)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` on the engine's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the engine's thread and return its result or raise its exception."""
        return self.start(work).result()

    def call(self, function: Callable[[], T]) -> T:
        """Call a plain function on the engine's thread."""

        async def call() -> T:
            return function()

        return self.run(call())

    def next(self, seconds: float) -> Record | None:
        """The next record; None at the end of the session or after `seconds`. Ctrl+C loses no record."""
        if self._pending is None:
            self._pending = self.start(self._next_record())
        try:
            record = self._pending.result(seconds)
        except TimeoutError:
            return None
        self._pending = None
        return record

    async def _next_record(self) -> Record | None:
        return await anext(self._records, None)

    def close(self, reason: str) -> None:
        """Close the session, then stop the thread."""
        try:
            self.start(self.session.close(reason)).result(CLOSE_SECONDS)
        except TimeoutError:
            return
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop the event loop and its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


class QuitRepl(Exception):
    """The user quits."""


class Repl:
    """The loop of line mode. `session`, `terminal` and `engine` are used by the commands."""

    def __init__(self, engine: EngineThread, terminal: LineTerminal) -> None:
        self.engine = engine
        self.session = engine.session
        self.terminal = terminal
        terminal.set_completions([f"/{name} " for name in COMMANDS_BY_NAME])
        self._prompt = RequestPrompt(terminal, self.session.mask)
        hidden = (e.ApprovalRequested, e.QuestionAsked, e.PlanDocConflict, e.UserShellCommand)
        self._lines = PlainText(
            sys.stdout,
            self.session.mask,
            speaker="Agent: ",
            hidden=hidden if terminal.attended else (e.UserShellCommand,),
        )
        self._exit_code = 0
        self._refusals = Refusals()
        self._sent_id = ""
        """Id of the last message sent from here."""
        self._interrupted_once = False
        """Ctrl+C was pressed at an empty prompt."""

    # --- the loop ---

    def run(self) -> int:
        """Process input until the user quits or the pipe ends; return the exit code."""
        self.session.watch_saving(report_saving)
        try:
            self._show_records(SETTLE_SECONDS)
            if self.terminal.attended:
                self.print("Enter sends a message, /help lists commands, Ctrl+D quits.", "dim")
            while True:
                self._process_input()
        except (QuitRepl, InputEnded):
            return 0 if self.terminal.attended else self._exit_code

    def _process_input(self) -> None:
        try:
            self._catch_up()
            text = self.terminal.read_message(PROMPT, CONTINUATION)
        except KeyboardInterrupt:
            self._interrupt_prompt()
            return
        self._interrupted_once = False
        if not text.strip():
            return
        if not self.terminal.attended:
            self.print(f"{PROMPT}{text}")
        try:
            if text.startswith("!") and text[1:].strip():
                self.wait_for(self.session.run_shell(text[1:].strip()))
            elif (command := read_command(text, COMMANDS_BY_NAME)) is not None:
                run_command(self, command)
            else:
                self._send(message_of(text))
            self._catch_up()
        except KeyboardInterrupt:
            self._interrupt()

    def _send(self, text: str) -> None:
        self._refusals = Refusals()
        self._sent_id = self.engine.run(self.session.send(text))
        idle = 0
        while self.session.busy or (self.session.queue.order() and idle < IDLE_POLLS):
            idle = 0 if self._poll() or self.session.busy else idle + 1

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run `work` while showing records and asking the user; return its result, or None after Ctrl+C."""
        future: Future[T] = self.engine.start(work)
        try:
            while not future.done():
                self._poll()
        except KeyboardInterrupt:
            self._interrupt()
            future.cancel()
            return None
        return future.result()

    def _catch_up(self) -> None:
        """Show all records up to now."""
        self.engine.run(self.session.wait())
        self._show_records(POLL_SECONDS)
        self._lines.end_line()

    def _show_records(self, seconds: float) -> None:
        while self._poll(seconds):
            pass

    def _poll(self, seconds: float = POLL_SECONDS) -> bool:
        """Wait for a record and show it; return False if none came."""
        record = self.engine.next(seconds)
        if record is not None:
            self._show_record(record)
        return record is not None

    # --- records ---

    def _show_record(self, record: e.Record) -> None:
        event = record.event
        self._track(record)
        if isinstance(event, e.UserShellCommand):
            self.print(_shell_output(event))
        elif not (isinstance(event, e.Notice) and event.code == "context.measured"):
            self._lines.show(record)
        if not needs_answer(event):
            return
        self._lines.end_line()
        try:
            answer = self._prompt.ask(event) if self.terminal.attended else unattended_answer(event, "no terminal")
        except KeyboardInterrupt:
            self._interrupt()
            return
        is_open = self.engine.call(lambda: self.session.answer(event.id, answer))
        if self.terminal.attended and not is_open:
            self.print("  It was decided elsewhere or is no longer pending.")

    def _track(self, record: e.Record) -> None:
        self._refusals.feed(record)
        match record.event:
            case e.UserMessageAdded(id=id, text=text) if id != self._sent_id:  # queued earlier, or sent elsewhere
                self.print(f"{PROMPT}{text}")
            case e.RunEnded(outcome=outcome):
                self._exit_code = exit_code(outcome, self._refusals)
            case e.SessionOpened(resumed=True) if self.session.title:
                self.print(f"Continuing “{self.session.title}”.")

    # --- for the commands ---

    def print(self, text: str, style: str = "") -> None:
        """Print displayable text with secrets masked."""
        self._lines.end_line()
        self.terminal.print(displayable(self.session.mask.mask(clean(text))), style)

    # --- Ctrl+C ---

    def _interrupt(self) -> None:
        """Interrupt the run; without a terminal, quit."""
        self._lines.end_line()
        if self.terminal.attended:
            self.terminal.print()
        self.engine.run(self.session.interrupt(at_once=True))
        self._catch_up()
        self._quit_unattended()

    def _quit_unattended(self) -> None:
        if not self.terminal.attended:
            self._exit_code = EXIT_CODES["interrupted"]
            raise QuitRepl

    def _interrupt_prompt(self) -> None:
        self._quit_unattended()
        self.terminal.print()
        if self._interrupted_once:
            raise QuitRepl
        self._interrupted_once = True
        self.print("Nothing is running. Press Ctrl+C again or Ctrl+D to quit.", "dim")


def _shell_output(event: e.UserShellCommand) -> str:
    code = event.exit_code
    status = "" if code == 0 else "[stopped]" if code is None else f"[exit code {code}]"
    return "\n".join(filter(None, (clean(event.output).rstrip("\n"), status))) or "[no output]"


def run_repl(
    args: argparse.Namespace, parser: argparse.ArgumentParser, session_options: Callable[..., SessionOptions]
) -> int:
    """Run line mode; return the exit code. `session_options` converts arguments to session options."""
    if args.resume == "":
        parser.error("--resume needs the id of a session; `tui-agent sessions` lists them")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        terminal = LineTerminal(paths.data_dir())
        if args.demo and terminal.attended:
            from tui_agent.frontends.demo_workspace import demo_task

            terminal.prefill(demo_task(args))
        return run_line_mode(session_options(args, args.approval_mode, attended=terminal.attended), terminal)
    except (SessionOpenError, paths.HomeNotFoundError) as error:
        print_error(str(error))
        return getattr(error, "code", 2)


def run_line_mode(options: SessionOptions, terminal: LineTerminal) -> int:
    """Open a session and run the loop; return the exit code. Raises SessionOpenError."""
    engine = EngineThread()
    signals = LineSignals()
    try:
        engine.open(options)
        engine.start(signals.wake_main_thread())
    except BaseException:
        engine.stop()
        raise
    code = 1
    try:
        code = Repl(engine, terminal).run()
    except KeyboardInterrupt:
        code = EXIT_CODES["interrupted"]
    except Hangup as hangup:
        code = 128 + hangup.number
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        detach_stdout()
        code = EXIT_CODES["interrupted"]
    finally:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
        terminal.save_history()
        engine.close("repl ended")
    if engine.session.unsaved is not None:
        print_error(str(engine.session.unsaved))
        code = code or 1
    if terminal.attended and code < 128 and not options.temporary and engine.session.can_be_resumed():
        terminal.print(f"\nResume with: tui-agent repl --resume {engine.session.id}")
    return code


# --- slash commands -------------------------------------------------------------------------


class SlashCommand(NamedTuple):
    """A command; `run` takes the loop and the argument."""

    name: str
    parameters: str
    description: str
    run: Callable[[Repl, str], None]


def run_command(repl: Repl, command: TypedCommand) -> None:
    """Run a command, or say that it is unknown. Raises QuitRepl for `/quit`."""
    if command.problem:
        repl.print(command.problem[0].upper() + command.problem[1:])
        return
    try:
        COMMANDS_BY_NAME[command.name].run(repl, command.argument)
    except CannotUndo as error:
        repl.print(str(error))


def _help(repl: Repl, _: str) -> None:
    rows = [(f"/{command.name} {command.parameters}".rstrip(), command.description) for command in COMMANDS]
    rows += [
        ("!command", "run a command in the session's shell"),
        ("@path", "in a message: attach a file or folder; :L10-L50 for lines"),
        ("\\ at the end", "continue the message on the next line"),
        ("Ctrl+C", "stop the run; twice at an empty prompt: quit"),
        ("Ctrl+D", "quit; the session can be resumed"),
    ]
    width = max(len(usage) for usage, _ in rows) + 2
    repl.print("\n".join(f"{usage:<{width}}{description}" for usage, description in rows))


def _session_command(name: str) -> Callable[[Repl, str], None]:
    """A command that the page has, too."""

    def run(repl: Repl, argument: str) -> None:
        reply = repl.wait_for(run_session_command(repl.session, name, argument))
        if reply is not None and reply.is_diff:
            for line in repl.session.mask.mask(clean(reply.text)).split("\n"):
                repl.print(line, LINE_STYLES.get(line[:1], "strong"))
        elif reply is not None and reply.text:
            repl.print(reply.text)
        if reply is not None and reply.draft:
            repl.terminal.prefill(reply.draft)

    return run


def _quit(repl: Repl, _: str) -> None:
    raise QuitRepl


COMMANDS = (
    SlashCommand("help", "", "this list", _help),
    SlashCommand("clear", "", "clear the conversation; plan, files and session stay", _session_command("clear")),
    SlashCommand("mode", "NAME", "work mode", _session_command("mode")),
    SlashCommand("approvals", "NAME", "what needs approval", _session_command("approvals")),
    SlashCommand("model", "[NAME]", "list the models of all servers, or choose one", _session_command("model")),
    SlashCommand("effort", "[ROLE] LEVEL", "how much models reason first", _session_command("effort")),
    SlashCommand("plan", "[accept|discard]", "show the plan; accept or discard a proposal", _session_command("plan")),
    SlashCommand("status", "", "session, model, use of the context window", _session_command("status")),
    SlashCommand("output", "", "full output of the last call", _session_command("output")),
    SlashCommand("diff", "[RUN]", "file changes of the last run, or of run N", _session_command("diff")),
    SlashCommand("checkpoints", "", "all runs with their file changes", _session_command("checkpoints")),
    SlashCommand("undo", "[RUN|FILE]", "undo the file changes of the last run", _session_command("undo")),
    SlashCommand("redo", "", "redo what was undone, rewound or cleared", _session_command("redo")),
    SlashCommand("rewind", "RUN [WHAT]", "restore files and conversation to before a run", _session_command("rewind")),
    SlashCommand("compact", "", "make room in the model's context", _session_command("compact")),
    SlashCommand("grants", "[N]", "list and revoke saved permissions", _session_command("grants")),
    SlashCommand(
        "trust",
        "[add|revoke] [N]",
        "which folders are trusted, and why; give or revoke trust",
        _session_command("trust"),
    ),
    SlashCommand("rename", "TITLE", "give this session a title", _session_command("rename")),
    SlashCommand("export", "[FILE]", "write the session to a file, markdown or .html", _session_command("export")),
    SlashCommand("quit", "", "quit; the session can be resumed", _quit),
)
COMMANDS_BY_NAME = {command.name: command for command in COMMANDS}
COMMANDS_BY_NAME["exit"] = COMMANDS_BY_NAME["quit"]
