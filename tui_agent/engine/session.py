"""The engine's API: commands in, events out. Model and tool failures are events, never exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec

from tui_agent import events
from tui_agent.common.domain import (
    Answer,
    ApprovalMode,
    CommandOutcome,
    Fault,
    Mode,
    SystemMessage,
    TrustAction,
    UserMessage,
)
from tui_agent.engine.context.window_notices import out_of_sight
from tui_agent.engine.core.approvals import approval_events
from tui_agent.engine.core.shielded import complete_shielded, end_tasks
from tui_agent.engine.core.state import EngineState, Queued, SessionStream
from tui_agent.engine.core.stream import EventStream, JournalBroken
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.models.calibration import Calibrator
from tui_agent.engine.models.roles import ModelChoice, ModelRoles
from tui_agent.engine.runs import RunDispatcher
from tui_agent.engine.undo import Checkpoints
from tui_agent.events import RunEnded, SessionTitled
from tui_agent.mentions.search import Mentions
from tui_agent.settings import Loaded
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.lines import RecordTooBig, to_line
from tui_agent.text import clean, one_line

TITLE_MAX = 100
"""Characters of a title."""
MADE_MAX = 60
"""Characters of one that a model makes."""
TALK = 80
"""Characters from which on a line is talk and no title."""
IDLE = 1.0
"""Seconds after a run in which its user may go on before the model is asked for a title: what they want comes first."""
QUIET = 60.0
"""Seconds that the model may be silent."""
_GLEANED = 1_000
"""Characters of request and answer that a title is made of."""
_LABEL = re.compile(r"^(?:[#>*\-\s]*)(?:\*\*)?title(?:\*\*)?\s*[:：-]\s*", re.IGNORECASE)
_AROUND = " \t#*_`\"'“”„«»‹›.:"


class TitleGenerator:
    """Gives a session that is open in this process a title."""

    def __init__(
        self, stream: SessionStream, folder: SessionFolder, roles: ModelRoles, environment: ToolEnvironment
    ) -> None:
        self._stream = stream
        self._folder = folder
        self._roles = roles
        self._environment = environment
        self._task: asyncio.Task[None] | None = None
        self._answered = False

    async def rename(self, title: str) -> str:
        """Call the session so, from now on; returns the title as it is kept, empty when there was nothing in it and
        nothing changed. Raises JournalBroken."""
        title = one_line(title, TITLE_MAX)
        if title:
            self._stream.emit(SessionTitled(title=title))
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(title=title))
        return title

    def after(self, run: str, request: str, ended: RunEnded) -> None:
        """A run has ended: have a title made in the background, unless there is one. Without it, when it fails, and
        until then the session is called by the first words that were said."""
        place = self._environment
        wanted = place.attended and place.settings.titles and self._roles.model.provider != "scripted"
        if wanted and not (self._stream.state.named or self._answered) and ended.outcome == "done":
            self._task = asyncio.create_task(self._name(run, request, ended.text))

    def pause(self) -> None:
        """The user goes on: the model is theirs."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Ask no more."""
        await end_tasks(self._task)

    async def _name(self, run: str, request: str, answer: str) -> None:
        try:
            await asyncio.sleep(IDLE)
            title = await self._made(run, request, answer)
            if title and not self._stream.state.named:
                await complete_shielded(self.rename(title))
        except JournalBroken as error:
            log.error("the title can't be saved: %s", error)
        except Exception:
            log.exception("no title was made")

    async def _made(self, run: str, request: str, answer: str) -> str:
        from tui_agent.engine.core.prompts import prompt
        from tui_agent.engine.loop.structured import Question, Structured

        brain = await self._roles.brain()
        if isinstance(brain, RunEnded):
            return ""
        talk = f"The user:\n{request[:_GLEANED]}\n\nThe agent:\n{answer[:_GLEANED]}"
        messages = (SystemMessage(text=prompt("title")), UserMessage(text=talk))
        structured = Structured(run=run, stream=self._stream, roles=self._roles, brain=brain)
        reply = await structured.ask("title", Question(alone=messages), parent=run, schema=None, quiet=QUIET)
        self._answered = not isinstance(reply, Fault)
        return "" if isinstance(reply, Fault) else title_in(reply.text)


def title_in(text: str) -> str:
    """The title in a model's reply; empty where it holds none."""
    line = next((one.strip() for one in text.splitlines() if one.strip(_AROUND)), "")
    if len(line) > TALK or line.startswith(("{", "[", "<", "```")):
        return ""
    return one_line(_LABEL.sub("", line).strip(_AROUND), MADE_MAX)


PIECE = 1 << 20
"""Bytes that are copied at a time."""


async def copy_journal(stream: EventStream, path: Path) -> None:
    """Write the journal of a running session to the new file `path`: what is in its file, wherever that is by now, and
    behind it what waits to be written. Raises OSError."""
    read, waiting = stream.kept()

    def copy() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            while data := read(file.tell(), PIECE):
                file.write(data)
            file.write(b"\n")  # the last line may be torn
            file.writelines(to_line(record, 0) for record in waiting)

    await asyncio.to_thread(copy)


class Waiting:
    """The queue of a session that is open in this process. Every change is an event, so that a crash keeps it."""

    def __init__(self, state: EngineState, emit: Callable[[events.Event], None], start: Callable[[], object]) -> None:
        """`start` begins with the first message unless a run goes on."""
        self._state = state
        self._emit = emit
        self._start = start
        self._rests: set[str] | None = None
        """What waited when the user stopped the run."""

    def release(self) -> None:
        """A run begins, or came to its own end."""
        self._rests = None

    def hold(self) -> None:
        """The user wants the run that goes on to end, or it was cut off."""
        if self._rests is None:
            self._rests = {one.id for one in self._state.queue}

    def go_on(self, _run: object = None) -> None:
        """The run is over and saved. After one that was stopped the queue waits for its user, unless something was
        said after the stop: who said that waits for no more than the end of the run."""
        if self._rests is None or any(one.id not in self._rests for one in self._state.queue):
            self._start()

    def order(self) -> list[tuple[str, bool]]:
        """Ids in the order in which they are sent, each with whether it guides the run that goes on."""
        return [(one.id, one.steering) for one in self._state.queue]

    def move(self, message: str, before: str = "") -> bool:
        """Put a message before another one, by their ids; to the end without one. False when either is not waiting
        any more, or nothing would change."""
        ids = [one.id for one in self._state.queue]
        if message not in ids or message == before or (before and before not in ids):
            return False
        behind = ids.index(message) + 1
        if before == (ids[behind] if behind < len(ids) else ""):
            return False
        self._emit(events.MessageMoved(id=message, before=before))
        return True

    def guide(self, message: str, steering: bool) -> bool:
        """Mean a message for the run that goes on, or for one of its own. False when it is not waiting any more, or
        is meant so already."""
        one = self._find(message)
        if one is None or one.steering == steering:
            return False
        self._emit(events.MessageChanged(id=message, text=one.text, steering=steering))
        return True

    def send(self) -> bool:
        """Begin with the first message; False when a run goes on or nothing waits. After a run that was stopped the
        queue waits for this, or for something else to be said."""
        waiting = [one.id for one in self._state.queue]
        self._start()
        return [one.id for one in self._state.queue] != waiting

    def _find(self, message: str) -> Queued | None:
        return next((one for one in self._state.queue if one.id == message), None)


log = logging.getLogger(__name__)

CLOSING = 10.0
"""Seconds that a slow disk gets to take the last records."""
STOPPING = 2.0
"""Seconds after which a run that did not heed a stop is told again."""
MESSAGE_MAX = 500_000
"""Characters of one message: all that the model may see has to fit into one record (`state.saved`)."""


class Session:
    """A conversation with the agent in one workspace. Made by `engine.opening.open_session`."""

    _task: asyncio.Task[None] | None = None
    _trust: asyncio.Task[None] | None = None
    _looking: asyncio.Task[None] | None = None
    _offering: asyncio.Task[None] | None = None

    def __init__(self, deps: SessionDeps, folder: SessionFolder, checkpoints: Checkpoints, loaded: Loaded) -> None:
        stream, approvals, environment, roles = deps.stream, deps.approvals, deps.environment, deps.roles
        self.id = folder.id
        self.folder: Path = folder.path
        self._folder = folder
        self._stream = stream
        self._state = stream.state
        self._approvals = approvals
        self._environment = environment
        self._roles = roles
        self._project = deps.project
        self._own: set[asyncio.Task[CommandOutcome]] = set()
        self.answer = approvals.answer  # settles an approval or a question; the first answer wins
        self.saved = approvals.saved  # whether an answer that was given is on disk
        self.copy_journal = partial(copy_journal, stream)  # all of it, for another place
        self.mask = stream.mask  # what a front end hides of what it shows (A7)
        self.begins = stream.last
        """Number of the last record before this process took the session: `follow(begins)` shows what is new."""
        self._ending: asyncio.Task[None] | None = None
        self._closed = False
        self.checkpoints = checkpoints  # what runs did to files, and the way back (K1)
        self.grants = environment.grants  # what the user allowed for longer than once
        self.memory = deps.memory  # the plan document (P1 to P6)
        self.naming = TitleGenerator(stream, folder, roles, environment)  # what the session is called (S3)
        self.calibrator = Calibrator(stream, roles, environment)  # how a new model is asked (E4)
        self.models = ModelChoice(roles, stream)  # which model does what (M5, U4)
        self.mentions = Mentions(environment.roots, environment.recent)  # what can be named behind an @ (H7)
        self.settings = loaded  # with the problems found in them (G1)
        self.queue = Waiting(stream.state, self._emit, self._start_next)  # messages that wait
        self._runs = RunDispatcher(deps)
        self.subagents = self._runs.subagents  # one of them can be stopped alone (T5)

    # --- what a front end reads ---

    @property
    def busy(self) -> bool:
        """True while a run is going on."""
        return self._task is not None and not self._task.done()

    @property
    def last(self) -> int:
        """Number of the last record there is."""
        return self._stream.last

    @property
    def title(self) -> str:
        """What the session is called."""
        return self._state.title

    def follow(self, after: int = 0) -> AsyncIterator[events.Record]:
        """Every record after `after`, the past first, then as they happen; ends when the session is closed.

        Of past replies the end tells the whole: their pieces in between are left out.
        """
        return self._stream.follow(after, pieces=False)

    def tell_saving(self, tell: Callable[[str | None], None]) -> None:
        """Call `tell` with a sentence when saving begins to fail, with None when all is saved again.

        Records are shown once they are written, so this can't be one.
        """
        self._stream.on_failure = tell

    # --- what a front end does ---

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        """Say something to the agent; queued while it works. Returns the message's id, `message` unless it is empty.

        With `steering` a message that arrives during a run is given to the model at its next round (W12). `before` is
        the id of the message in the queue that it stands before. What is said to a closing session waits for the next
        start.
        """
        message = message or f"m-{secrets.token_hex(6)}"
        text = clean(text)
        if not self._fits(text):
            return message
        if self.busy or self._state.queue or self._ending is not None:
            self._emit(events.MessageQueued(id=message, text=text, steering=steering))
            self.queue.move(message, before)
            self._start_next()
        else:
            self._start(Queued(message, text))
        return message

    def _fits(self, text: str) -> bool:
        if len(text) <= MESSAGE_MAX:
            return True
        problem = f"A message of {len(text):,} characters is too long. Put it in a file and mention that."
        self._emit(events.Notice(level="error", text=problem, code="message.too_big"))
        return False

    def withdraw_message(self, message: str) -> bool:
        """Take a queued message back; False when it is no longer queued."""
        if not any(queued.id == message for queued in self._state.queue):
            return False
        self._emit(events.MessageWithdrawn(id=message))
        return True

    async def interrupt(self, *, at_once: bool = False) -> None:
        """Stop the run and the user's own commands: nothing more is started, the connection is closed, processes are
        dead within 2 s (W12). While a plan is waited for, that alone is given up (W4), unless `at_once`."""
        if at_once or not self._runs.skip_planning():
            await self._stop()

    async def _stop(self) -> None:
        if self.busy:
            self.queue.hold()
        await asyncio.sleep(0)  # a run that was never entered could not tell its end
        await end_tasks(self._task, *self._own, seconds=STOPPING)

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Change how messages are worked on and who is asked when (W11, A4)."""
        place = self._environment
        place.mode = Mode(mode or place.mode)
        place.approval_mode = ApprovalMode(approval_mode or place.approval_mode)
        self._emit(events.ModeChanged(mode=place.mode, approval_mode=place.approval_mode))

    async def edit_plan(self, text: str, base: str = "") -> bool:
        """The user's own edit of plan_doc.md, all of its text (P4, P6); False when it was not written.

        `base` is the sha256 of the text that it was made in, as `plan_doc.changed` told it: see PlanMemory.edit.
        """
        return await self.memory.edit(text.encode("utf-8", "replace").decode(), base)

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        """Write or drop what the model proposes for plan_doc.md (P6); False when nothing was written or dropped.

        `seen` is the sha256 of the proposal as it was shown: what came after it is not taken unseen.
        """
        return await self.memory.settle(accept, "user", seen)

    def compact(self) -> None:
        """Make room in the context (`/compact`): before the next request of a run, at once where none goes on (U5)."""
        if not self._closed:
            self._runs.compact(self.busy)

    async def run_shell(self, command: str) -> None:
        """A `!command` of the user's own: runs at once in the session's shell, shown and logged (U5)."""
        place = self._environment
        cwd = str(place.shell_cwd())
        own = asyncio.create_task(place.run_own(command))
        self._own.add(own)
        own.add_done_callback(self._own.discard)
        try:
            await asyncio.wait([own])
        except asyncio.CancelledError:
            own.cancel()
            raise
        if own.cancelled():
            self._emit(events.UserShellCommand(command=clean(command), cwd=cwd, output="Interrupted.", exit_code=None))
        elif (error := own.exception()) is not None:
            log.warning("a command of the user's own failed", exc_info=error)
            self._emit(events.Notice(level="error", text=clean(str(error)), code="shell.failed"))
        else:
            shown, code = clean(own.result().output), own.result().exit_code
            self._emit(events.UserShellCommand(command=clean(command), cwd=cwd, output=shown, exit_code=code))

    async def wait(self) -> None:
        """Until nothing is running any more and the last event is durable, or can't be made so (`tell_saving`)."""
        while self.busy and self._task is not None:
            await asyncio.wait([self._task])
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()

    async def close(self, reason: str = "user") -> None:
        """End the session in order: stop the run, end every process, write everything, release the lock."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(reason))
        await asyncio.shield(self._ending)

    async def _end(self, reason: str) -> None:
        await end_tasks(self._trust, self._looking, self._offering)
        await self._stop()
        self._approvals.withdraw(by="closing")
        parts = (self.naming, self.calibrator, self.mentions, self.checkpoints, self.memory, self._environment)
        for step in (*(part.close for part in parts), self._roles.aclose):
            try:
                await step()
            except Exception:
                log.exception("a part of the session could not be closed")
        self._save_state()
        self._emit(events.SessionClosed(reason=reason))
        self._closed = True
        try:
            async with asyncio.timeout(CLOSING):
                await self._stream.close()
        except (JournalBroken, TimeoutError) as error:
            log.error("the end of the session is not saved: %s", error)
        finally:
            await asyncio.to_thread(self._folder.close)

    # --- a run ---

    def ask_trust(self, trusting: TrustAction) -> None:
        """Ask whether the workspace may be interpreted (A8); runs wait for the answer."""
        self._trust = asyncio.create_task(self._settle_trust(trusting))

    def look_for_model(self) -> None:
        """Ask the server for its models before the first message, so that a missing one is told at once (G2)."""
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        await self._roles.look()
        if not self.busy:
            self.calibrator.start()

    def offer_summary(self) -> None:
        """Put the summary before the user that an earlier process left undecided (X3)."""
        self._offering = asyncio.create_task(self._runs.offer_again())

    async def _settle_trust(self, trusting: TrustAction) -> None:
        why = "a folder seen for the first time"
        try:
            answer = await self._approvals.decide(*approval_events(trusting, why), run="", node="")
        except JournalBroken as error:
            log.error("trust could not be asked: %s", error)
            answer = Answer(verdict="withdrawn", by="nothing can be saved")
        if answer.verdict == "approve":
            await self._project.trust()
        else:
            await self.set_modes(approval_mode=ApprovalMode.READ_ONLY)

    def _start_next(self) -> None:
        if not self.busy and self._state.queue and self._ending is None:
            self._start(self._state.queue[0])

    def _start(self, message: Queued) -> None:
        run = f"run-{self._state.runs + 1}"
        self.queue.release()
        self.naming.pause()
        self.calibrator.skip()
        before = self._state.history.left_out
        self._emit(events.UserMessageAdded(id=message.id, text=message.text), run=run)
        if (left_out := self._state.history.left_out) > before:
            self._emit(out_of_sight(left_out), run=run)
        started = events.RunStarted(message_id=message.id, mode=self._environment.mode, model=self._roles.name)
        self._emit(started, run=run)
        self._task = asyncio.create_task(self._work(run, message.text))
        self._task.add_done_callback(self.queue.go_on)

    async def _work(self, run: str, request: str) -> None:
        ended = events.RunEnded(outcome="interrupted", text="Interrupted by the user.")
        try:
            ended = await self._run(run, request)
        except asyncio.CancelledError:
            ended = msgspec.structs.replace(ended, tool_calls=self._runs.tool_calls)
        except JournalBroken as error:
            text = f"Stopped, since nothing can be saved: {error} Everything done so far is on disk."
            ended = events.RunEnded(outcome="failed", text=text, tool_calls=self._runs.tool_calls)
        except Exception:
            log.exception("run %s failed", run)
            text = "Something went wrong inside tui-agent; the details are in the debug log. The session continues."
            ended = events.RunEnded(outcome="failed", text=text, tool_calls=self._runs.tool_calls)
        self._emit(ended, run=run)
        if ended.outcome == "interrupted":
            self.queue.hold()
        else:
            self.queue.release()
        await self._after_run()
        self.naming.after(run, request, ended)

    async def _run(self, run: str, request: str) -> events.RunEnded:
        if self._trust is not None:
            await asyncio.wait([self._trust])
        if self._looking is not None:
            await asyncio.wait([self._looking])
        return await self._runs.work(run, request)

    async def _after_run(self) -> None:
        """Everything of the run is on disk before the next one starts."""
        if self._stream.state_due:
            self._save_state()
        try:
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(**self._summary()))
        except Exception as error:
            log.exception("saving after a run failed")
            self._emit(
                events.Notice(level="error", text=f"The session could not be saved: {error}", code="save.failed")
            )

    def _save_state(self) -> None:
        try:
            self._emit(events.StateSaved(state=self._state.export()))
        except RecordTooBig as error:
            log.warning("the next start reads the whole journal: %s", error)

    def _summary(self) -> dict[str, str]:
        return {
            "title": self._state.title,
            "updated_at": dt.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "model": self._roles.name,
            "mode": self._environment.mode,
        }

    def _emit(self, event: events.Event, *, run: str = "") -> None:
        if not self._closed:
            self._stream.emit(event, run=run)
