"""One call's bench: leave is asked here, and only what was allowed is carried out, once (A5, A9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tui_agent.domain import (
    Action,
    CommandOutcome,
    Diff,
    Editing,
    FileChange,
    Mode,
    Permit,
    Running,
    Severity,
    Target,
    ToolResult,
)
from tui_agent.engine.keeping import CannotKeep
from tui_agent.engine.leave import Leave, by_person, refusal
from tui_agent.engine.workplace import Workplace
from tui_agent.events import ApprovalExecuted, FileChanged, FileDiagnosed, ToolOutput
from tui_agent.platform.files import FileChangedError, FileFault, replace_file, sha256_of
from tui_agent.safety.roots import PathError
from tui_agent.text import Cleaner
from tui_agent.tools.base import Agreed, Code, Errand, Refused, ToolError
from tui_agent.tools.choosing import can_choose
from tui_agent.tools.code_output import counted, diagnostics_text
from tui_agent.tools.diffs import diff_bytes
from tui_agent.tools.search_program import find_ripgrep
from tui_agent.workplan import PlanChange

OUTPUT_CAP = 256 * 1024
"""Characters of live output that one call may put on the stream; the rest stays in the result."""
DIFF_CAP = 2 << 20
"""Characters of a change that can be shown in full (A9) and kept in one record."""
DIAGNOSTICS = 20
"""Errors of one file that the model is told after a write."""
OUTPUT_GATHER = 0.1
"""Seconds for which live output is gathered."""


class CallBench:
    """Implements `tools.base.Bench` for one call."""

    def __init__(
        self,
        workplace: Workplace,
        *,
        run: str,
        node: str,
        pause: Callable[[bool], None],
    ) -> None:
        """`pause(True)` stops the call's clock while somebody decides, `pause(False)` starts it again."""
        self._workplace = workplace
        self._run = run
        self._node = node
        self._pause = pause
        self._live = _LiveOutput(self._emit_output)
        self._leave = Leave(workplace, run=run, node=node, pause=pause)
        self._file = ""
        """Where all of the output goes, until that was told."""
        self.acted = False
        """True once something with an effect was carried out."""
        self.seen_now: dict[str, str] = {}
        """Path → hash of what this call saw."""
        self.scratch = workplace.scratch
        self.roots = workplace.roots.folders
        self.mode: Mode = workplace.mode
        self.command_timeout = round(workplace.settings.timeouts.command)
        self.command_timeout_max = round(workplace.settings.timeouts.command_max)
        self.search_matches = workplace.settings.caps.search_matches
        self.search_program = find_ripgrep(workplace.roots.folders)
        self.code: Code = workplace.code

    # --- paths and memory ---

    def resolve(self, path: str) -> Target:
        """See Bench."""
        try:
            return self._workplace.roots.resolve(path)
        except PathError as error:
            raise ToolError(str(error), error.code) from error

    def saw(self, path: Path, sha256: str) -> None:
        """See Bench."""
        self._workplace.saw(path, sha256)
        self.seen_now[str(path)] = sha256

    def seen(self, path: Path) -> str | None:
        """See Bench."""
        return self._workplace.seen(path)

    # --- output ---

    def output(self, text: str) -> None:
        """See Bench."""
        self._live.add(text)

    def close(self) -> None:
        """Hand on what output is still held."""
        self._live.close()

    def _emit_output(self, text: str) -> None:
        file, self._file = self._file, ""
        self._workplace.stream.emit(ToolOutput(text=text, file=file), run=self._run, node=self._node)

    # --- leave ---

    async def permit(self, action: Action) -> Permit:
        """See Bench."""
        return await self._leave.permit(action)

    async def permit_edit(self, action: Editing, before: bytes | None, after: bytes) -> Agreed:
        """See Bench."""
        self._workplace.code.expect(Path(action.path), before)
        return await self._leave.permit_edit(action, before, after)

    @property
    def waited_ms(self) -> int:
        """Time spent waiting for the user."""
        return self._leave.waited_ms

    @property
    def declined(self) -> bool:
        """True once the user said no to something."""
        return self._leave.declined

    # --- effects ---

    async def write(self, permit: Permit, content: bytes) -> FileChange:
        """See Bench."""
        action = permit.action
        self._leave.use(permit)
        if not isinstance(action, Editing) or sha256_of(content) != action.after:
            raise Refused("The approval was given for other bytes.")
        place = self._workplace
        try:
            await self._keep(action, self._leave.unkept.pop(permit.id, ""))
        except FileChangedError as error:
            raise ToolError(
                f"{action.display} changed on disk meanwhile; nothing was written.", "changed"
            ) from error
        await place.stream.durable()
        await place.before_change(self._run)
        self.acted = True
        work = asyncio.create_task(asyncio.to_thread(self._replace, action, content))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread can't be stopped half-way: what it does is waited for and told, then the stop goes on.
            await asyncio.wait([work])
            if work.exception() is None:
                self._changed(permit, action)
            raise
        except FileChangedError as error:
            raise ToolError(
                f"{action.display} changed on disk meanwhile; nothing was written.", "changed"
            ) from error
        except FileFault as error:
            raise ToolError(str(error), error.code) from error
        return self._changed(permit, action)

    async def _keep(self, action: Editing, unkept: str) -> None:
        """Keep what the edit replaces; where that can't be, somebody must want the edit all the same (K1)."""
        keeping = self._workplace.keeping
        if keeping is None:
            return
        try:
            await keeping.keep_before(action, run=self._run, call=self._node, unkept=unkept)
        except CannotKeep as error:
            await self._leave.without_undo(action, str(error))
            await keeping.keep_before(action, run=self._run, call=self._node, unkept=str(error))

    def _replace(self, action: Editing, content: bytes) -> None:
        replace_file(Path(action.path), content, action.before)
        if self._workplace.keeping is not None:
            self._workplace.keeping.keep_after(content)

    def _changed(self, permit: Permit, action: Editing) -> FileChange:
        change = FileChange(
            path=action.path,
            display=action.display,
            kind=action.diff.kind,
            added=action.diff.added,
            removed=action.diff.removed,
            before=action.before,
            after=action.after,
        )
        self.saw(Path(action.path), action.after)
        self._executed(permit)
        stream = self._workplace.stream
        stream.emit(FileChanged(change=change, diff=action.diff), run=self._run, node=self._node)
        return change

    async def checked(self, change: FileChange) -> str:
        """See Bench."""
        self._pause(True)
        try:
            found = await self._workplace.code.check(change)
        finally:
            self._pause(False)
        errors = tuple(one for one in found or () if one.kind == "error")
        if not errors:
            return ""
        event = FileDiagnosed(path=change.path, display=change.display, found=errors[:DIAGNOSTICS])
        self._workplace.stream.emit(event, run=self._run, node=self._node)
        new = sum(one.new for one in errors)
        head = f"{counted(len(errors), 'error')} in {change.display}"
        head += "" if new == len(errors) else f", {new} of them new"
        return f"[Diagnostics] {head}:\n{diagnostics_text(errors, DIAGNOSTICS)}"

    async def run(self, permit: Permit, timeout: int) -> CommandOutcome:
        """See Bench."""
        action = permit.action
        self._leave.use(permit)
        if not isinstance(action, Running):
            raise Refused("The approval was given for something else.")
        await self._workplace.stream.durable()
        if action.severity is not Severity.NONE:
            await self._workplace.before_change(self._run)
        self.acted = self.acted or not action.unasked
        self._executed(permit)
        place, keeping = self._workplace, self._workplace.keeping
        file = place.output_file()
        self._file = str(file)
        if action.unasked or keeping is None:
            return await place.run_command(action, timeout, self.output, file)
        async with keeping.watching(action.command, place.roots, run=self._run, call=self._node):
            return await place.run_command(action, timeout, self.output, file)

    def _executed(self, permit: Permit) -> None:
        action = permit.action if permit.partly else None
        event = ApprovalExecuted(id=permit.id, digest=permit.digest, action=action)
        self._workplace.stream.emit(event, run=self._run, node=self._node)

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        """See Bench."""
        place = self._workplace
        if not place.attended:
            raise Refused("No user is present to answer. Decide by yourself or finish with what you know.")
        began = time.monotonic()
        self._pause(True)
        try:
            answer = await place.approvals.question(question, options, run=self._run, node=self._node)
        finally:
            self._leave.waited_ms += round((time.monotonic() - began) * 1000)
            self._pause(False)
        if answer.verdict not in ("reply", "approve"):
            self._leave.declined = self._leave.declined or by_person(answer)
            raise Refused(refusal(answer))
        return answer.text

    async def delegate(self, errand: Errand) -> ToolResult:
        """See Bench."""
        if self._workplace.delegate is None:
            raise Refused(
                "Not allowed: no sub-agent can be started from here; look into it with the other tools."
            )
        return await self._workplace.delegate(errand, self._run, self._node)

    async def judge(self, command: str, cwd: str) -> Running:
        """See Bench."""
        return await self._workplace.judge(command, Path(cwd) if cwd else self._workplace.shell_cwd())

    def propose_plan(self, change: PlanChange) -> str:
        """See Bench."""
        place = self._workplace
        if place.mode.reads_only and place.mode is not Mode.PLAN:
            raise Refused(
                f"Not allowed: {place.mode} mode proposes nothing for the plan; say it in your reply"
            )
        if place.propose is None:
            raise Refused("There is no plan document in this session; say it in your reply.")
        return place.propose(change)

    async def diff(self, target: Target, before: bytes | None, after: bytes) -> Editing:
        """See Bench."""
        diff: Diff = await asyncio.to_thread(diff_bytes, target.display, before, after)
        if sum(len(line) for hunk in diff.hunks for line in hunk.lines) > DIFF_CAP:
            raise ToolError("The change is too large to be shown. Make it in smaller parts.", "too_large")
        return Editing(
            path=str(target.path),
            display=target.display,
            diff=diff,
            before=None if before is None else sha256_of(before),
            after=sha256_of(after),
            outside=target.outside,
            protected=target.protected,
            sensitive=target.sensitive,
            parts=await asyncio.to_thread(can_choose, before, after),
        )


class _LiveOutput:
    """Cleans, gathers and bounds what a call prints."""

    def __init__(self, hand_on: Callable[[str], None]) -> None:
        self._hand_on = hand_on
        self._cleaner = Cleaner(colours=True)
        self._waiting: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        if self._size > OUTPUT_CAP:
            return
        cleaned = self._cleaner.feed(text)
        self._size += len(cleaned)
        if self._size > OUTPUT_CAP:
            cleaned += "\n… more output follows; it is kept in the result.\n"
        self._waiting.append(cleaned)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(OUTPUT_GATHER, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._waiting)
        self._waiting.clear()
        if text:
            self._hand_on(text)

    def close(self) -> None:
        self._waiting.append(self._cleaner.flush())
        self.flush()
