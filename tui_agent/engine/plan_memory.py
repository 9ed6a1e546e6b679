"""The plan document as the session's memory: read, watched, changed only by what the user accepted (P1 to P6)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tui_agent.domain import Answer
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.finishing import finished
from tui_agent.engine.plan_aside import Asides
from tui_agent.engine.plan_conflict import chosen
from tui_agent.engine.plan_repair import Repair, Rewrite
from tui_agent.engine.plan_telling import Telling
from tui_agent.engine.proposals import (
    Change,
    accepted,
    check,
    in_words,
    minding,
    proposed,
    taken_up,
    with_changes,
)
from tui_agent.engine.stream import EventStream
from tui_agent.events import Notice, PlanDocChanged, PlanDocSettled
from tui_agent.plan.document import Plan
from tui_agent.plan.markdown import Document, parse
from tui_agent.plan.merge import Choice
from tui_agent.plan.store import Conflicted, PlanStore, Saved, Unreadable
from tui_agent.plan.watching import Mark, changes, mark
from tui_agent.plan.writing import PlanTextError, write
from tui_agent.platform.files import FileFault, sha256_of
from tui_agent.text import one_line
from tui_agent.workplan import PlanChange, Summary

log = logging.getLogger(__name__)

NAME = "plan_doc.md"
TEXTS = 200
"""Texts that were told and are remembered, so that an edit of one is merged with what came after it."""
PROPOSAL = "proposal"
"""Id under which it is told that the user decided about what the model proposes."""
By = Literal["template", "summary", "review", "user", "editor", "merge", "repair"]


class PlanMemory:
    """One for a session. `open` comes first, `close` last."""

    def __init__(
        self,
        folder: Path,
        stream: EventStream,
        approvals: Approvals,
        *,
        attended: bool,
        accept: bool = False,
        entries: int = 10,
        older_tokens: int = 1_000,
    ) -> None:
        self.path = folder / NAME
        self._store = PlanStore(self.path)
        self._stream = stream
        self._approvals = approvals
        self._attended = attended
        self._telling = Telling(entries, older_tokens)
        self.window: Callable[[], int | None] = lambda: None
        """Gives the tokens of the model's window, as far as they are known."""
        self._proposals: list[Change] = []
        """What the model proposes, not on disk (P6): changes, so that they hold for the plan as it is by then."""
        self._owed: list[Change] = []
        """Summaries that the user accepted and that could not be written yet."""
        self._left: list[str] = []
        """What of them was left out of the plan, as it was made last, because the user wrote there since."""
        self._unread: Unreadable | None = None
        """Why the file can't be read as a plan: it is never written until that is settled (P3)."""
        self._texts: dict[str, Plan] = {}
        """Hash of a text that was told → its plan."""
        self._proposed = ""
        """Hash of the proposal as it was told last."""
        self._repair = Repair(self._store, stream, approvals, attended, accept)
        self.asides = Asides(self._store, approvals, self._merge)
        self._closing = False
        self._watching: asyncio.Task[None] | None = None
        self._alone = asyncio.Lock()

    async def open(self, shown: str = "", proposal: str = "") -> None:
        """Read the document, writing the empty template for a new session, and watch it from now on.

        `shown` is the hash of the text that was shown last: only another one is told again. `proposal` is the text that
        the model proposed for it and that nobody decided about.
        """
        seen = mark(self.path)
        try:
            if await asyncio.to_thread(self._load):
                await self._save(self._store.plan, self._store.plan, "template")
            elif self._unread is None:
                sha256 = sha256_of(self._store.document.text.encode())
                self._remember(sha256)
                if sha256 != shown:
                    self._tell("editor" if shown else "template")
                if proposal:
                    self._take_up(proposal, sha256 == shown)
        except FileFault as fault:
            self._fail(fault)
        self._watching = asyncio.create_task(self._watch(seen))

    def _take_up(self, text: str, same: bool) -> None:
        """A proposal from before waits on, as long as the plan is the one that it was made for (P6)."""
        if same and (change := taken_up(text, self._store.plan)) is not None:
            self._proposals, self._proposed = [change], sha256_of(text.encode())
            return
        said = "The plan is another one than when the session ended: what was proposed for it does not wait any more."
        self._notice(said, "plan_doc.refused")
        self._stream.emit(PlanDocSettled(id=PROPOSAL, answer=Answer(verdict="withdrawn", by="session")))

    def repair_by(self, rewrite: Rewrite) -> None:
        """Ask the model through this when the document can't be read (P3)."""
        self._repair.rewrite = rewrite

    async def close(self) -> None:
        """Stop watching; what others wrote at the last moment is kept aside."""
        self._closing = True
        await self.asides.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for _ in range(2):  # what was kept is told by a second call when the first one failed
            try:
                for place in await asyncio.to_thread(self._store.close):
                    self._told_aside(place)
            except FileFault as fault:
                self._fail(fault)
            else:
                break

    # --- what is read ---

    @property
    def plan(self) -> Plan:
        """The plan with what is proposed in it: what counts for the model in this run."""
        return with_changes(self._store.plan, self._proposals)

    @property
    def pending(self) -> bool:
        """True while the model's proposals wait for the user."""
        return bool(self._proposals)

    def text(self, entries: int | None = None) -> str:
        """What the model gets of the document (P5, H2), proposals aside; empty while nothing is in it."""
        return self._telling.text(self._store.document, entries, self.window())

    def proposals(self) -> str:
        """The plan with what is proposed in it, for the end of a request (H1); empty when nothing is."""
        return in_words(self.plan) if self.pending else ""

    # --- what changes it ---

    async def mend(self) -> bool:
        """Have a document that can't be read repaired: the model is asked once for each broken text, and the user
        decides (P3). True when it can be read."""
        found = self._unread
        if found is None:
            return True
        try:
            if await self._repair.mend(found):
                self._unread = None
                self._tell("repair")
        except FileFault as fault:
            self._fail(fault)
        return self._unread is None

    async def accept(self, summary: Summary, offered: Summary, since: Plan) -> bool:
        """Write an accepted summary, and the proposals with it (W9). False when it can't be written now: it is as soon
        as the document can be.

        It was `offered` when `since` was the plan: what the user wrote in the document since then stays.
        """
        with contextlib.suppress(FileFault):  # it is told when it is written
            await self.look()
        self._owed.append(accepted(offered, summary, since, dt.datetime.now(), self._left))
        if not (written := await self._change("summary")):
            self._notice("What you accepted is written once plan_doc.md can be.", "plan_doc.owed")
        return written

    async def settle(self, accept: bool, by: By = "review", seen: str = "") -> bool:
        """Write what the model proposed, or drop it (P6). False when there was nothing, or it was not written.

        `seen` is the hash of the proposal that the user decided about: another one is not taken (R19.2).
        """
        if not self.pending:
            return False
        if seen and seen != self._proposed:
            self._notice("The proposal is another one by now. Look at it again.", "plan_doc.refused")
            return False
        if accept and not await self._change(by):
            return False
        if not accept:
            self._proposals.clear()
        if by == "user":
            answer = Answer(verdict="approve" if accept else "reject")
            self._stream.emit(PlanDocSettled(id=PROPOSAL, answer=answer))
        if not accept or self.pending:
            self._tell(by)
        return True

    async def edit(self, text: str, base: str = "") -> bool:
        """The user's own edit from the panel: the whole text as it shall be. False when it was not written.

        `base` is the sha256 of the text that the edit was made in, as it was told: what others changed since is
        merged, and what both changed is asked. Without it the text is taken for what the document shall say now.
        """
        wanted = parse(text)
        if wanted.problem:
            self._notice(f"The plan was not changed: {wanted.problem}.", "plan_doc.refused")
            return False
        async with self._alone:
            now = self._store.document
            since = self._texts.get(base) if base else self._store.plan
            if since is None:
                said = "The plan was not changed: the edit was made in a text of long ago. Make it again."
                self._notice(said, "plan_doc.refused")
                return False
            newest = not base or base == sha256_of(now.text.encode())
            return await self._save(wanted.plan, since, "user", over=wanted if newest else None)

    def propose(self, change: PlanChange) -> str:
        """The model's proposal: shown as pending at once, written when the user accepts it (P6).

        Returns the plan as it would be, in words. Raises ToolError for what can't be proposed.
        """
        check(self.plan, change)
        now = dt.datetime.now()
        self._proposals.append(minding(lambda plan: proposed(plan, change, now), self.plan, self._left))
        self._tell_proposal()
        return in_words(self.plan)

    async def _change(self, by: By, *, proposals: bool = True) -> bool:
        """Write what was accepted, and what is proposed with it."""
        async with self._alone:
            since, taken = self._store.plan, self._proposals if proposals else []
            self._left.clear()
            plan = with_changes(since, [*taken, *self._owed])
            left = ", ".join(one_line(one, 80) for one in dict.fromkeys(self._left))
            written = await self._save(plan, since, by, taken=len(taken), paid=len(self._owed))
        if written and left:
            said = f"You wrote in plan_doc.md meanwhile, and your words stay; so this was left out: {left}."
            self._notice(said, "plan_doc.kept")
        return written

    async def _merge(self, plan: Plan, since: Plan, source: str) -> bool:
        async with self._alone:
            return await self._save(plan, since, "merge", source=source)

    async def _save(
        self,
        plan: Plan,
        since: Plan,
        by: By,
        *,
        over: Document | None = None,
        taken: int = 0,
        paid: int = 0,
        source: str = "",
    ) -> bool:
        """Write it, ask where that is needed; `taken` proposals and `paid` summaries are in it. What was begun is
        finished though we are stopped, so that nothing is written that is not told."""
        if self._unread is not None and not await self.mend():
            self._notice(
                "plan_doc.md can't be read, so it is not written. Mend it or move it away.", "plan_doc.unread"
            )
            return False
        choices: dict[str, Choice] = {}

        async def write_it() -> Saved | Conflicted | Unreadable:
            outcome = await asyncio.to_thread(self._store.save, plan, since, choices, over)
            if isinstance(outcome, Saved):
                del self._proposals[:taken], self._owed[:paid]
                self._saved(outcome, by)
            return outcome

        try:
            while not isinstance(outcome := await finished(write_it()), Saved):
                if isinstance(outcome, Unreadable):
                    self._cannot_read(outcome)
                    if not await self.mend():
                        return False
                    continue
                for conflict in outcome.conflicts:
                    choice = await chosen(conflict, self._approvals, source) if self._attended else "both"
                    if choice is None:
                        return False
                    choices[conflict.id] = choice
        except FileFault as fault:
            self._fail(fault)
            return False
        return True

    def _saved(self, saved: Saved, by: By) -> None:
        for place in saved.aside:
            self._told_aside(place)
        if saved.written or saved.merged:
            self._tell(by)

    # --- what happens to the file by other hands ---

    async def _watch(self, since: Mark | None) -> None:
        async with contextlib.aclosing(changes(self.path, since)) as seen:
            async for _ in seen:
                try:
                    await self.look()
                    if self._owed and self._unread is None:
                        await self._change("summary", proposals=False)
                except FileFault as fault:
                    self._fail(fault)
                except Exception:
                    log.exception("plan_doc.md could not be looked at")

    async def look(self) -> None:
        """Take in what somebody else did to the file. Raises FileFault."""
        async with self._alone:
            seen = await asyncio.to_thread(self._store.refresh)
            if isinstance(seen, Unreadable):
                self._cannot_read(seen)
                return
            self._unread = None
            for place in seen.aside:
                self._told_aside(place)
            if seen.changed and not seen.conflicts:
                self._tell("editor")

    def _load(self) -> bool:
        """Read the file for the first time; True when there was none."""
        new = not self.path.exists()
        found = self._store.load()
        if isinstance(found, Unreadable):
            self._cannot_read(found)
        return new

    def _cannot_read(self, found: Unreadable) -> None:
        told, self._unread = self._unread, found
        if told is None or told.sha256 != found.sha256:
            self._notice(
                f"plan_doc.md can't be taken for a plan: {found.reason}. It is left as it is. Mend it or move it away; "
                "else the model is asked for a repair with your next message, and you decide.",
                "plan_doc.unread",
            )

    # --- words ---

    def _tell(self, by: By) -> None:
        """The document as it is saved, and after it what is proposed, if anything is."""
        text = self._store.document.text
        sha256 = sha256_of(text.encode())
        self._remember(sha256)
        self._stream.emit(PlanDocChanged(text=text, by=by, sha256=sha256))
        if self.pending:
            self._tell_proposal()

    def _tell_proposal(self) -> None:
        text = self._store.document.text
        try:
            text = write(self.plan, self._store.document)
        except PlanTextError:
            log.warning("a proposal can't be shown in the document as it is")
        self._proposed = sha256_of(text.encode())
        self._stream.emit(PlanDocChanged(text=text, by="review", sha256=self._proposed, pending=True))

    def _remember(self, sha256: str) -> None:
        self._texts.pop(sha256, None)
        self._texts[sha256] = self._store.document.plan
        if len(self._texts) > TEXTS:
            del self._texts[next(iter(self._texts))]

    def _notice(self, text: str, code: str) -> None:
        self._stream.emit(Notice(level="warning", text=text, code=code))

    def _told_aside(self, place: Path) -> None:
        said = f"Somebody wrote plan_doc.md at the same moment; that text is kept in {place}."
        self._notice(said, "plan_doc.aside")
        if self._attended and not self._closing:
            self.asides.offer(place)

    def _fail(self, fault: FileFault) -> None:
        log.warning("plan_doc.md: %s", fault)
        self._notice(f"The plan document could not be saved or read: {fault}", "plan_doc.failed")
