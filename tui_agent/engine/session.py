"""The one door to the agent: commands in, events out. Model and tool failures are events, never exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import msgspec

from tui_agent.domain import Answer, ApprovalMode, CommandOutcome, Mode, Trusting
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.calibrator import Calibrator
from tui_agent.engine.copying import copy_journal
from tui_agent.engine.mentions import Mentions
from tui_agent.engine.model_choice import ModelChoice
from tui_agent.engine.naming import Naming
from tui_agent.engine.plan_memory import PlanMemory
from tui_agent.engine.project import Project
from tui_agent.engine.raw_replies import RawReplies
from tui_agent.engine.roles import Roles
from tui_agent.engine.standing_leave import StandingLeave
from tui_agent.engine.state import Queued, SessionStream
from tui_agent.engine.stream import JournalBroken
from tui_agent.engine.undoing import Checkpoints
from tui_agent.engine.waiting import Waiting
from tui_agent.engine.window_words import out_of_sight
from tui_agent.engine.working import Absent, Working
from tui_agent.engine.workplace import Workplace
from tui_agent.events import (
    Event,
    MessageChanged,
    MessageQueued,
    MessageWithdrawn,
    ModeChanged,
    Notice,
    Record,
    RunEnded,
    RunStarted,
    SessionClosed,
    ShellRan,
    StateSaved,
    UserSaid,
)
from tui_agent.settings import Loaded
from tui_agent.storage.folder import SessionFolder
from tui_agent.storage.lines import RecordTooBig
from tui_agent.text import clean

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

    def __init__(
        self,
        *,
        folder: SessionFolder,
        stream: SessionStream,
        approvals: Approvals,
        workplace: Workplace,
        roles: Roles,
        project: Project,
        memory: PlanMemory,
        checkpoints: Checkpoints,
        absent: Absent,
    ) -> None:
        self.id = folder.id
        self.folder: Path = folder.path
        self._folder = folder
        self._stream = stream
        self._state = stream.state
        self._approvals = approvals
        self._workplace = workplace
        self._roles = roles
        self._project = project
        self._own: set[asyncio.Task[CommandOutcome]] = set()
        self.saved = approvals.saved  # whether an answer that was given is on disk (FAULTS A14)
        self.copy_journal = partial(copy_journal, stream)  # all of it, for another place (FAULTS A12)
        self.mask = stream.mask  # what a front end hides of what it shows (A7)
        self.begins = stream.last
        """Number of the last record before this process took the session: `follow(begins)` shows what is new."""
        self._ending: asyncio.Task[None] | None = None
        self._closed = False
        self.checkpoints = checkpoints  # what runs did to files, and the way back (K1)
        self.grants = StandingLeave(workplace)  # what the user allowed for longer than once (R4.3)
        self.memory = memory  # the plan document (P1 to P6)
        self.naming = Naming(stream, folder, roles, workplace)  # what the session is called (S3)
        self.calibrator = Calibrator(stream, roles, workplace)  # how a new model is asked (E4)
        self.models = ModelChoice(roles, stream)  # which model does what (M5, U4)
        self.mentions = Mentions(workplace.roots, workplace.recent)  # what can be named behind an @ (H7)
        self.settings = Loaded(settings=workplace.settings)  # whole once the session is open (G1)
        self.queue = Waiting(stream.state, self._emit, self._start_next)  # messages that wait (R11.3)
        self._working = Working(
            stream=stream,
            approvals=approvals,
            workplace=workplace,
            roles=roles,
            project=project,
            memory=memory,
            absent=absent,
            raw=RawReplies(folder.path, stream.mask),
        )
        self.subagents = self._working.subagents  # one of them can be stopped alone (T5)

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

    def follow(self, after: int = 0) -> AsyncIterator[Record]:
        """Every record after `after`, the past first, then as they happen; ends when the session is closed.

        Of past replies the end tells the whole: their pieces in between are left out.
        """
        return self._stream.follow(after, pieces=False)

    def tell_saving(self, tell: Callable[[str | None], None]) -> None:
        """Call `tell` with a sentence when saving begins to fail, with None when all is saved again (R-53).

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
            self._emit(MessageQueued(id=message, text=text, steering=steering))
            self.queue.move(message, before)
            self.queue.said(message)
            self._start_next()
        else:
            self._start(Queued(message, text))
        return message

    def change_message(self, message: str, text: str) -> bool:
        """Reword a queued message; False when it is no longer queued, or the text too long."""
        if not any(queued.id == message for queued in self._state.queue) or not self._fits(text):
            return False
        self._emit(MessageChanged(id=message, text=clean(text)))
        return True

    def _fits(self, text: str) -> bool:
        if len(text) <= MESSAGE_MAX:
            return True
        said = f"A message of {len(text):,} characters is too long. Put it into a file and name that."
        self._emit(Notice(level="error", text=said, code="message.too_big"))
        return False

    def withdraw_message(self, message: str) -> bool:
        """Take a queued message back; False when it is no longer queued."""
        if not any(queued.id == message for queued in self._state.queue):
            return False
        self._emit(MessageWithdrawn(id=message))
        return True

    async def interrupt(self, *, at_once: bool = False) -> None:
        """Stop the run and the user's own commands: nothing more is started, the connection is closed, processes are
        dead within 2 s (W12). While a plan is waited for, that alone is given up (W4), unless `at_once`."""
        if at_once or not self._working.skip_planning():
            await self._stop()

    async def _stop(self) -> None:
        if self.busy:
            self.queue.stopped()
        await asyncio.sleep(0)  # a run that was never entered could not tell its end
        going = {task for task in (self._task, *self._own) if task is not None and not task.done()}
        for task in going:
            if not task.cancelling():
                task.cancel()
        while going:
            _, going = await asyncio.wait(going, timeout=STOPPING)
            for task in going:
                task.cancel()  # one can get lost: asyncio.wait_for drops it when what it waits for ends just then

    def answer(self, request_id: str, answer: Answer) -> bool:
        """Settle an approval or a question; the first answer wins, later ones get False."""
        return self._approvals.answer(request_id, answer)

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Change how messages are worked on and who is asked when (W11, A4)."""
        place = self._workplace
        place.mode = Mode(mode or place.mode)
        place.approval_mode = ApprovalMode(approval_mode or place.approval_mode)
        self._emit(ModeChanged(mode=place.mode, approval_mode=place.approval_mode))

    async def edit_plan(self, text: str, base: str = "") -> bool:
        """The user's own edit of plan_doc.md, all of its text (P4, P6); False when it was not written.

        `base` is the sha256 of the text that it was made in, as `plan_doc.changed` told it: see PlanMemory.edit.
        """
        return await self.memory.edit(text.encode("utf-8", "replace").decode(), base)

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        """Write or drop what the model proposes for plan_doc.md (P6); False when nothing was written or dropped.

        `seen` is the sha256 of the proposal as it was shown: what came after it is not taken unseen (R19.2).
        """
        return await self.memory.settle(accept, "user", seen)

    def compact(self) -> None:
        """Make room in the context (`/compact`): before the next request of a run, at once where none goes on (U5)."""
        if not self._closed:
            self._working.compact(self.busy)

    async def run_shell(self, command: str) -> None:
        """A `!command` of the user's own: runs at once in the session's shell, shown and logged (U5)."""
        place = self._workplace
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
            self._emit(ShellRan(command=clean(command), cwd=cwd, output="Interrupted.", exit_code=None))
        elif (error := own.exception()) is not None:
            log.warning("a command of the user's own failed", exc_info=error)
            self._emit(Notice(level="error", text=clean(str(error)), code="shell.failed"))
        else:
            shown, code = clean(own.result().output), own.result().exit_code
            self._emit(ShellRan(command=clean(command), cwd=cwd, output=shown, exit_code=code))

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
        for task in (self._trust, self._looking, self._offering):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self._stop()
        self._approvals.withdraw(by="closing")
        parts = (self.naming, self.calibrator, self.mentions, self.checkpoints, self.memory, self._workplace)
        for step in (*(part.close for part in parts), self._roles.aclose):
            try:
                await step()
            except Exception:
                log.exception("a part of the session could not be closed")
        self._save_state()
        self._emit(SessionClosed(reason=reason))
        self._closed = True
        try:
            async with asyncio.timeout(CLOSING):
                await self._stream.close()
        except (JournalBroken, TimeoutError) as error:
            log.error("the end of the session is not saved: %s", error)
        finally:
            await asyncio.to_thread(self._folder.close)

    # --- a run ---

    def ask_trust(self, trusting: Trusting) -> None:
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
        self._offering = asyncio.create_task(self._working.offer_again())

    async def _settle_trust(self, trusting: Trusting) -> None:
        why = "a folder seen for the first time"
        try:
            _, answer = await self._approvals.ask(trusting, why, (), run="", node="")
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
        self.queue.begun()
        self.naming.pause()
        self.calibrator.skip()
        before = self._state.history.left_out
        self._emit(UserSaid(id=message.id, text=message.text), run=run)
        if (left_out := self._state.history.left_out) > before:
            self._emit(out_of_sight(left_out), run=run)
        started = RunStarted(message_id=message.id, mode=self._workplace.mode, model=self._roles.name)
        self._emit(started, run=run)
        self._task = asyncio.create_task(self._work(run, message.text))
        self._task.add_done_callback(self.queue.go_on)

    async def _work(self, run: str, request: str) -> None:
        ended = RunEnded(outcome="interrupted", text="Interrupted by the user.")
        try:
            ended = await self._run(run, request)
        except asyncio.CancelledError:
            ended = msgspec.structs.replace(ended, tool_calls=self._working.tool_calls)
        except JournalBroken as error:
            text = f"Stopped, since nothing can be saved: {error} Nothing was done that is not on disk."
            ended = RunEnded(outcome="failed", text=text, tool_calls=self._working.tool_calls)
        except Exception:
            log.exception("run %s failed", run)
            text = "Something went wrong inside tui-agent; the details are in the debug log. The session goes on."
            ended = RunEnded(outcome="failed", text=text, tool_calls=self._working.tool_calls)
        self._emit(ended, run=run)
        self.queue.ended(ended.outcome == "interrupted")
        await self._after_run()
        self.naming.after(run, request, ended)

    async def _run(self, run: str, request: str) -> RunEnded:
        if self._trust is not None:
            await asyncio.wait([self._trust])
        if self._looking is not None:
            await asyncio.wait([self._looking])
        return await self._working.work(run, request)

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
                Notice(level="error", text=f"The session could not be saved: {error}", code="save.failed")
            )

    def _save_state(self) -> None:
        try:
            self._emit(StateSaved(state=self._state.export()))
        except RecordTooBig as error:
            log.warning("the next start reads the whole journal: %s", error)

    def _summary(self) -> dict[str, str]:
        return {
            "title": self._state.title,
            "updated_at": dt.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "model": self._roles.name,
            "mode": self._workplace.mode,
        }

    def _emit(self, event: Event, *, run: str = "") -> None:
        if not self._closed:
            self._stream.emit(event, run=run)
