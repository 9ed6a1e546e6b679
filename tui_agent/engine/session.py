"""An open session: commands in, events out. Model and tool failures are events, never exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import re
import secrets
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from time import monotonic

import msgspec

from tui_agent import events
from tui_agent.common.domain import ApprovalMode, CommandOutcome, Fault, Mode, SystemMessage, UserMessage
from tui_agent.common.errors import JournalBroken
from tui_agent.engine.context.window_notices import messages_left_out
from tui_agent.engine.core.shielded import complete_shielded, end_tasks
from tui_agent.engine.core.state import EngineState, QueuedMessage, SessionStream
from tui_agent.engine.deps import SessionDeps
from tui_agent.engine.folder_trust import FolderTrust
from tui_agent.engine.host.environment import ToolEnvironment
from tui_agent.engine.models.calibration import Calibrator
from tui_agent.engine.models.choice import ModelChoice
from tui_agent.engine.models.effort import EffortChoice
from tui_agent.engine.models.roles import ModelRoles
from tui_agent.engine.runs import RunDispatcher
from tui_agent.engine.session_copy import Unsaved, copy_journal, save_elsewhere
from tui_agent.engine.undo import Checkpoints
from tui_agent.events import RunEnded, SessionTitled
from tui_agent.mentions.search import Mentions
from tui_agent.settings import LoadedSettings
from tui_agent.storage.folder import JOURNAL, SessionFolder
from tui_agent.storage.lines import RecordTooBig
from tui_agent.text import clean, one_line, with_full_stop

log = logging.getLogger(__name__)

TITLE_MAX = 100
"""Maximum length of a title, in characters."""
GENERATED_TITLE_MAX = 60
"""Maximum length of a title written by a model, in characters."""
TITLE_LINE_MAX = 80
"""A longer line of a reply, in characters, is prose rather than a title."""
TITLE_DELAY = 1.0
"""Seconds between the end of a run and the request for a title; the user's next message takes precedence."""
TITLE_TIMEOUT = 60.0
"""Seconds of silence after which the request for a title is given up."""
TITLE_EXCERPT = 1_000
"""Characters of the request and of the answer that a title is generated from."""
_LABEL = re.compile(r"^(?:[#>*\-\s]*)(?:\*\*)?title(?:\*\*)?\s*[:：-]\s*", re.IGNORECASE)
_DECORATION = " \t#*_`\"'“”„«»‹›.:"


class TitleGenerator:
    """Names an open session: by the user, or by the model after a run (S3)."""

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
        """Set the title and return it normalized; an empty one changes nothing. Raises JournalBroken."""
        title = one_line(title, TITLE_MAX)
        if title:
            self._stream.emit(SessionTitled(title=title))
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(title=title))
        return title

    def start(self, run: str, request: str, ended: RunEnded) -> None:
        """Generate a title in the background after a successful run, unless the session has one.

        Until then, the first words of the conversation serve as title.
        """
        environment = self._environment
        enabled = environment.attended and environment.settings.titles and self._roles.model.provider != "scripted"
        if enabled and not (self._stream.state.named or self._answered) and ended.outcome == "done":
            self._task = asyncio.create_task(self._name(run, request, ended.text))

    def cancel(self) -> None:
        """Cancel a pending generation: the next run needs the model."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Cancel a pending generation and wait for its end."""
        await end_tasks(self._task)

    async def _name(self, run: str, request: str, answer: str) -> None:
        try:
            await asyncio.sleep(TITLE_DELAY)
            title = await self._generate(run, request, answer)
            if title and not self._stream.state.named:
                await complete_shielded(self.rename(title))
        except JournalBroken as error:
            log.error("the title can't be saved: %s", error)
        except Exception:
            log.exception("no title was generated")

    async def _generate(self, run: str, request: str, answer: str) -> str:
        from tui_agent.engine.core.prompts import prompt
        from tui_agent.engine.loop.structured import Question, Structured

        config = await self._roles.config()
        if isinstance(config, RunEnded):
            return ""
        exchange = f"The user:\n{request[:TITLE_EXCERPT]}\n\nThe agent:\n{answer[:TITLE_EXCERPT]}"
        messages = (SystemMessage(text=prompt("title")), UserMessage(text=exchange))
        structured = Structured(run=run, stream=self._stream, roles=self._roles.for_run(), config=config)
        reply = await structured.ask(
            "title", Question(alone=messages), parent=run, schema=None, idle_timeout=TITLE_TIMEOUT
        )
        self._answered = not isinstance(reply, Fault)
        return "" if isinstance(reply, Fault) else parse_title(reply.text)


def parse_title(text: str) -> str:
    """Extract the title from a model's reply; empty if it holds none."""
    line = next((line.strip() for line in text.splitlines() if line.strip(_DECORATION)), "")
    if len(line) > TITLE_LINE_MAX or line.startswith(("{", "[", "<", "```")):
        return ""
    return one_line(_LABEL.sub("", line).strip(_DECORATION), GENERATED_TITLE_MAX)


class MessageQueue:
    """Messages waiting for their turn. Every change is an event, so the queue survives a crash."""

    def __init__(self, state: EngineState, emit: Callable[[events.Event], None], start: Callable[[], object]) -> None:
        """`start` starts a run with the first message unless one is active."""
        self._state = state
        self._emit = emit
        self._start = start
        self._held: set[str] | None = None
        """Ids of the messages that were queued when the user stopped the run."""

    def release(self) -> None:
        """Send queued messages again as runs end."""
        self._held = None

    def hold(self) -> None:
        """Keep the messages queued now back: the user stopped the run."""
        if self._held is None:
            self._held = {queued.id for queued in self._state.queue}

    def on_run_ended(self, _run: object = None) -> None:
        """Start the next run; after an interrupt only if a message was queued since."""
        if self._held is None or any(queued.id not in self._held for queued in self._state.queue):
            self._start()

    def order(self) -> list[tuple[str, bool]]:
        """Return (id, is steering) of each message in sending order."""
        return [(queued.id, queued.steering) for queued in self._state.queue]

    def move(self, message: str, before: str = "") -> bool:
        """Move a message before another one, or to the end. False if either is not queued or nothing changes."""
        ids = [queued.id for queued in self._state.queue]
        if message not in ids or message == before or (before and before not in ids):
            return False
        following = ids.index(message) + 1
        if before == (ids[following] if following < len(ids) else ""):
            return False
        self._emit(events.MessageMoved(id=message, before=before))
        return True

    def set_steering(self, message: str, steering: bool) -> bool:
        """Make a message steer the active run, or start its own. False if it is not queued or nothing changes."""
        queued = next((queued for queued in self._state.queue if queued.id == message), None)
        if queued is None or queued.steering == steering:
            return False
        self._emit(events.MessageChanged(id=message, text=queued.text, steering=steering))
        return True

    def send(self) -> bool:
        """Start a run with the first message; False if a run is active or the queue is empty."""
        before = self.order()
        self._start()
        return self.order() != before


CLOSE_TIMEOUT = 10.0
"""Seconds that a slow disk has to write the last records."""
CANCEL_INTERVAL = 2.0
"""Seconds after which a run that has not ended is cancelled again."""
CHECK_TIMEOUT = 10.0
"""Seconds to wait for the end of the check of a long journal."""
BY_USER = events.RunEnded(outcome="interrupted", text="Interrupted by the user.")
"""How a run ends that the user stops."""
MESSAGE_MAX = 500_000
"""Maximum length of a message, in characters: everything the model may see must fit into one `state.saved`."""


def ending_for(reason: str) -> events.RunEnded:
    """Return how an active run ends when the session is closed for `reason`: `user`, or `signal SIGTERM`."""
    head, _, name = reason.partition(" ")
    if head != "signal" or name == "SIGINT":
        return BY_USER
    return events.RunEnded(outcome="interrupted", text=f"Interrupted: the program was stopped by {name}.")


class Session:
    """A conversation with the agent in one workspace. Created by `engine.opening.open_session`."""

    _task: asyncio.Task[None] | None = None
    _model_probe: asyncio.Task[None] | None = None
    _journal_check: asyncio.Task[None] | None = None
    _check_deadline = 0.0
    _summary_offer: asyncio.Task[None] | None = None

    def __init__(
        self,
        deps: SessionDeps,
        folder: SessionFolder,
        checkpoints: Checkpoints,
        loaded: LoadedSettings,
        own_settings: Callable[[], LoadedSettings],
    ) -> None:
        """`loaded` are the settings in effect; `own_settings` loads them without those of the workspace."""
        stream, approvals, environment, roles = deps.stream, deps.approvals, deps.environment, deps.roles
        self.id = folder.id
        self.folder: Path = folder.path
        self._folder = folder
        self._stream = stream
        self._state = stream.state
        self._approvals = approvals
        self._environment = environment
        self._roles = roles
        self._shell_tasks: set[asyncio.Task[CommandOutcome]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._ending: events.RunEnded | None = None
        """How the active run ends, once it is stopped."""
        self.unsaved: Unsaved | None = None
        """After closing: why the session is not saved, and where a copy is; None if it is saved."""
        self._closed = False
        self.replay_end = stream.last
        """Number of the last record from before this process: `follow(replay_end)` yields what is new."""
        self.answer, self.saved = approvals.answer, approvals.saved
        self.copy_journal = partial(copy_journal, stream)
        self.mask = stream.mask  # A7
        self.checkpoints = checkpoints  # K1
        self.grants = environment.grants
        self.memory = deps.memory  # the plan document (P1 to P6)
        self.naming = TitleGenerator(stream, folder, roles, environment)  # S3
        self.calibrator = Calibrator(stream, roles, environment)  # E4
        self.models, self.efforts = ModelChoice(roles, stream), EffortChoice(roles, stream)  # M5, U4, L5
        self.mentions = Mentions(environment.roots, environment.recent)  # H7
        self.background_jobs = lambda: tuple(job.program for job in environment.jobs())
        self.trust = FolderTrust(
            stream,
            approvals,
            deps.project,
            environment,
            loaded=loaded,
            own_settings=own_settings,
            set_modes=self.set_modes,
        )
        self.queue = MessageQueue(stream.state, self._emit, self._start_next)
        self._runs = RunDispatcher(deps)
        self.subagents = self._runs.subagents  # T5

    # --- what a front end reads ---

    @property
    def busy(self) -> bool:
        """True while a run is active."""
        return self._task is not None and not self._task.done()

    @property
    def settings(self) -> LoadedSettings:
        """The settings in effect, with the problems found in them (G1)."""
        return self.trust.settings

    @property
    def last(self) -> int:
        """Number of the newest record."""
        return self._stream.last

    @property
    def title(self) -> str:
        """The session's title; empty before the first message."""
        return self._state.title

    def follow(self, after: int = 0) -> AsyncGenerator[events.Record, None]:
        """Yield all records after number `after`, past and future, until the session is closed.

        The deltas of past replies are skipped: the record of the reply's end repeats their text.
        """
        return self._stream.follow(after, pieces=False)

    def watch_saving(self, on_change: Callable[[str | None], None]) -> None:
        """Call `on_change` with a message when saving begins to fail, and with None when everything is saved again.

        This can't be an event: events are shown only after they were written. Called at once if it fails already.
        """
        self._stream.on_failure = on_change
        if self._stream.failure is not None:
            on_change(self._stream.failure)

    def can_be_resumed(self) -> bool:
        """Return whether the session is still on disk, where `--resume` looks for it. Does file IO.

        Not if its end is only in a copy elsewhere, which has to be moved first.
        """
        unsaved = self.unsaved
        is_elsewhere = unsaved is not None and unsaved.copy is not None and not unsaved.resumable
        return not is_elsewhere and (self.folder / JOURNAL).exists()

    # --- what a front end does ---

    async def send(
        self, text: str, *, steering: bool = False, message: str = "", before: str = "", attached: str = ""
    ) -> str:
        """Send a message to the agent, or queue it during a run. Returns its id: `message`, or a new one.

        A `steering` message is delivered before the next iteration of the active run (W12). `before` is the id of the
        queued message to insert it before. `attached` is text from standard input, which the model gets with the
        message (X3). A message to a closing session waits for the next start.
        """
        message = message or f"m-{secrets.token_hex(6)}"
        if attached:
            self._runs.inputs[message] = attached
        text = clean(text)
        if len(text) > MESSAGE_MAX:
            problem = f"A message of {len(text):,} characters is too long. Put it in a file and mention that."
            self._emit(events.Notice(level="error", text=problem, code="message.too_big"))
        elif self.busy or self._state.queue or self._closing is not None:
            self._emit(events.MessageQueued(id=message, text=text, steering=steering))
            self.queue.move(message, before)
            self._start_next()
        else:
            self._start(QueuedMessage(message, text))
        return message

    def withdraw_message(self, message: str) -> bool:
        """Remove a message from the queue; False if it is not queued anymore."""
        if not any(queued.id == message for queued in self._state.queue):
            return False
        self._emit(events.MessageWithdrawn(id=message))
        return True

    async def interrupt(self, *, at_once: bool = False, ending: events.RunEnded = BY_USER) -> None:
        """Stop the run and the user's shell commands; their processes are dead within 2 s (W12).

        During planning, only the wait for a plan is given up (W4), unless `at_once`. `ending` is how the run ends.
        """
        if at_once or not self._runs.skip_planning():
            await self._stop(ending)

    async def _stop(self, ending: events.RunEnded) -> None:
        if self.busy:
            self.queue.hold()
            self._ending = ending
        await asyncio.sleep(0)  # a task cancelled before its first step could not emit run.ended
        await end_tasks(self._task, *self._shell_tasks, seconds=CANCEL_INTERVAL)

    async def set_modes(self, mode: str | None = None, approval_mode: str | None = None) -> None:
        """Change the mode, the approval mode, or both (W11, A4)."""
        environment = self._environment
        environment.mode = Mode(mode or environment.mode)
        environment.approval_mode = ApprovalMode(approval_mode or environment.approval_mode)
        self._emit(events.ModeChanged(mode=environment.mode, approval_mode=environment.approval_mode))

    async def edit_plan(self, text: str, base: str = "") -> bool:
        """Write the user's edit of the whole plan document (P4, P6); False if it was not written.

        `base` is the sha256 from the `plan_doc.changed` whose text was edited: see PlanMemory.edit.
        """
        return await self.memory.edit(text.encode("utf-8", "replace").decode(), base)

    async def settle_plan(self, accept: bool, seen: str = "") -> bool:
        """Write or drop the model's proposal for the plan document (P6); False if nothing was written or dropped.

        `seen` is the sha256 of the proposal that the user saw; a newer one is not accepted.
        """
        return await self.memory.settle(accept, "user", seen)

    def compact(self) -> None:
        """Compact the context (`/compact`): before the next request of the active run, else immediately (U5)."""
        if not self._closed:
            self._runs.compact(self.busy)

    async def run_shell(self, command: str) -> None:
        """Run a `!command` of the user in the session's shell and log it (U5)."""
        cwd = str(self._environment.shell_cwd())
        task = asyncio.create_task(self._environment.run_user_command(command))
        self._shell_tasks.add(task)
        task.add_done_callback(self._shell_tasks.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.cancelled():
            output, code = "Stopped.", None
        elif (error := task.exception()) is not None:
            log.warning("a command of the user failed", exc_info=error)
            self._emit(events.Notice(level="error", text=clean(str(error)), code="shell.failed"))
            return
        else:
            output, code = clean(task.result().output), task.result().exit_code
        self._emit(events.UserShellCommand(command=clean(command), cwd=cwd, output=output, exit_code=code))

    async def wait(self) -> None:
        """Wait until no run is active, damage found in the journal is reported (within CHECK_TIMEOUT), and everything
        is durable, or can't be saved (`watch_saving`)."""
        while self.busy and self._task is not None:
            await asyncio.wait([self._task])
        if self._journal_check is not None and (seconds := self._check_deadline - monotonic()) > 0:
            await asyncio.wait([self._journal_check], timeout=seconds)
        with contextlib.suppress(JournalBroken):
            await self._stream.durable()

    async def close(self, reason: str = "user") -> None:
        """Stop the run, end all processes, write everything, and release the lock."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(reason))
        await asyncio.shield(self._closing)

    async def _close(self, reason: str) -> None:
        await self.trust.close()
        await end_tasks(self._model_probe, self._summary_offer, self._journal_check)
        await self._stop(ending_for(reason))
        self._approvals.withdraw(by="closing")
        parts = (self.naming, self.calibrator, self.mentions, self.checkpoints, self.memory, self._environment)
        for close_part in (*(part.close for part in parts), self._roles.aclose):
            try:
                await close_part()
            except Exception:
                log.exception("a part of the session could not be closed")
        if self._stream.final_state_due:
            self._save_state()
        self._emit(events.SessionClosed(reason=reason))
        self._closed = True
        try:
            await self._close_stream()
        finally:
            await asyncio.to_thread(self._folder.close)

    async def _close_stream(self) -> None:
        """Write everything; if that fails, write a copy elsewhere, unless the session is empty."""
        seconds = CLOSE_TIMEOUT
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._stream.durable()
        except (JournalBroken, TimeoutError) as error:
            seconds = 1.0
            problem = str(error) or f"The disk did not answer for {CLOSE_TIMEOUT:g} s."
            log.error("the end of the session is not saved: %s", problem)
            if self._state.runs or self._state.queue:
                self.unsaved = await save_elsewhere(self._stream, self.folder, problem)
        with contextlib.suppress(JournalBroken, TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stream.close()

    # --- a run ---

    def look_for_model(self) -> None:
        """Query the server in the background to report a missing model before the first message (G2)."""
        self._model_probe = asyncio.create_task(self._look_for_model())

    async def _look_for_model(self) -> None:
        await self._roles.connect()
        if not self.busy:
            self.calibrator.start()

    def check_journal(self) -> None:
        """Look for damage in the journal in the background, and report it."""
        self._check_deadline = monotonic() + CHECK_TIMEOUT
        self._journal_check = asyncio.create_task(self._stream.report_damage())

    def offer_summary(self) -> None:
        """Offer the summaries and saved copies that earlier processes left undecided (P3, X3)."""
        self._summary_offer = asyncio.create_task(self._runs.offer_again())

    def _start_next(self) -> None:
        if not self.busy and self._state.queue and self._closing is None:
            self._start(self._state.queue[0])

    def _start(self, message: QueuedMessage) -> None:
        run = f"run-{self._state.runs + 1}"
        self.queue.release()
        self.naming.cancel()
        self.calibrator.skip()
        before = self._state.history.left_out
        self._emit(events.UserMessageAdded(id=message.id, text=message.text), run=run)
        if (left_out := self._state.history.left_out) > before:
            self._emit(messages_left_out(left_out), run=run)
        started = events.RunStarted(message_id=message.id, mode=self._environment.mode, model=self._roles.name)
        self._emit(started, run=run)
        self._task = asyncio.create_task(self._run(run, message.text))
        self._task.add_done_callback(self.queue.on_run_ended)

    async def _run(self, run: str, request: str) -> None:
        ended, self._ending, started = BY_USER, None, monotonic()
        try:
            if preparations := [task for task in (self.trust.question, self._model_probe) if task is not None]:
                await asyncio.wait(preparations)
            ended = await self._runs.work(run, request)
        except asyncio.CancelledError:
            ended = msgspec.structs.replace(self._ending or ended, tool_calls=self._runs.tool_calls)
        except JournalBroken as error:
            text = (
                f"Stopped, since nothing can be saved: {with_full_stop(str(error))} "
                "The files changed so far are on disk. The latest part of the session is only in memory, and is "
                "saved as soon as the problem is solved."
            )
            ended = events.RunEnded(outcome="failed", text=text, tool_calls=self._runs.tool_calls)
        except Exception:
            log.exception("run %s failed", run)
            text = "Something went wrong inside tui-agent; the details are in the debug log. The session continues."
            ended = events.RunEnded(outcome="failed", text=text, tool_calls=self._runs.tool_calls)
        guard = self._environment.guard
        if guard is not None and (undecided := guard.undecided()):
            self._emit(events.Notice(level="warning", text=undecided, code="command.quarantined"), run=run)
        took = round((monotonic() - started) * 1000)
        self._emit(msgspec.structs.replace(ended, ms=ended.ms or took), run=run)
        if ended.outcome == "interrupted" or self._ending is not None:
            self.queue.hold()
        else:
            self.queue.release()
        await self._save_run()
        self.naming.start(run, request, ended)

    async def _save_run(self) -> None:
        """Make the run durable before the next one starts."""
        if self._stream.state_due:
            self._save_state()
        metadata = {
            "title": self._state.title,
            "updated_at": dt.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            "model": self._roles.name,
            "mode": self._environment.mode,
        }
        try:
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(**metadata))
        except Exception as error:
            log.exception("saving after a run failed")
            text = f"The session could not be saved: {with_full_stop(str(error))}"
            self._emit(events.Notice(level="error", text=text, code="save.failed"))

    def _save_state(self) -> None:
        try:
            self._emit(events.StateSaved(state=self._state.export()))
        except RecordTooBig as error:
            log.warning("the next start replays the whole journal: %s", error)

    def _emit(self, event: events.Event, *, run: str = "") -> None:
        if not self._closed:
            self._stream.emit(event, run=run)
