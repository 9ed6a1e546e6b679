"""Repair of an unreadable plan document: the model proposes it once, the user decides (P3)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.common.domain import Answer, Fault, SystemMessage, UserMessage
from tui_agent.engine.core.approvals import Approvals
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.core.shielded import complete_shielded
from tui_agent.engine.core.stream import EventStream
from tui_agent.events import Notice, PlanDocConflict, PlanDocResolved
from tui_agent.plan.markdown import parse
from tui_agent.plan.merge import Choice, Conflict
from tui_agent.plan.store import PlanStore, SaveResult, Unreadable
from tui_agent.platform.file_faults import FileChangedError

if TYPE_CHECKING:
    from tui_agent.engine.loop.structured import Structured

log = logging.getLogger(__name__)

MAX_REPAIRABLE = 60_000
"""Maximum characters of a document given to a model: a longer one would come back truncated."""
WHERE = "the whole document"
"""Subject of the question about a repair."""
_FENCED = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(.*\n)\1\s*", re.DOTALL)

Rewrite = Callable[[Unreadable, str], Awaitable[str]]
"""Takes the unreadable document and the last good text, if any; returns the model's text, or an empty string."""


async def rewrite_document(unreadable: Unreadable, last_good: str, structured: Structured, *, node: str) -> str:
    """Let the model repair the document; empty if it did not reply."""
    from tui_agent.engine.loop.structured import Question

    parts = [f"What is wrong with it: {unreadable.reason}.", f"The document:\n{unreadable.text}"]
    if last_good and len(last_good) + len(unreadable.text or "") <= MAX_REPAIRABLE:
        parts.append(f"The last good version of it:\n{last_good}")
    messages = (SystemMessage(text=prompt("repair_plan")), UserMessage(text="\n\n".join(parts)))
    reply = await structured.ask("planning", Question(alone=messages), parent=node, schema=None, purpose="mending")
    if isinstance(reply, Fault):
        log.warning("the plan document was not repaired: %s", reply.message)
        return ""
    fenced = _FENCED.fullmatch(reply.text + "\n")
    text = fenced.group(2) if fenced else reply.text
    return text.strip("\n") + "\n"


class Repair(msgspec.Struct):
    """Repairs the document of a session; each unreadable text is tried once."""

    store: PlanStore
    stream: EventStream
    approvals: Approvals
    attended: bool
    accept: bool
    """Unattended: accept the model's text (`--accept-plan`, X3)."""
    rewrite: Rewrite | None = None
    """Asks the model; None without one."""
    _tried: set[str] = msgspec.field(default_factory=set)

    async def run(self, unreadable: Unreadable) -> bool:
        """Repair the file after saving a copy of it. True if the user accepted the repair and it was written.

        Otherwise the file stays unchanged, and a notice says what the user can do. Raises FileFault.
        """
        sha256 = unreadable.sha256
        if sha256 is None or sha256 in self._tried or self.rewrite is None:
            return False
        self._tried.add(sha256)
        copy = await asyncio.to_thread(self.store.save_copy, sha256)
        if copy is None:
            return False  # changed in the meantime
        broken_text = unreadable.text or ""
        if not broken_text.strip() or len(broken_text) > MAX_REPAIRABLE:
            self._report_unrepaired("A model can't repair it", copy)
            return False
        self._notify("info", f"A copy of the broken plan_doc.md is in {copy}. Asking the model to repair it.")
        plan = self.store.plan
        has_content = plan.goal or plan.acceptance_criteria or plan.execution_log or plan.decisions_made
        text = await self.rewrite(unreadable, self.store.document.text if has_content else "")
        problem = parse(text).problem if text else "it was empty"
        if problem:
            self._report_unrepaired(f"The model's repair is not usable ({problem})", copy)
            return False
        if not await self._is_accepted(text, broken_text):
            self._report_unrepaired("The repair was not accepted", copy)
            return False
        try:
            saved = await complete_shielded(asyncio.to_thread(self.store.replace, text, sha256))
        except FileChangedError:
            self._notify("warning", "plan_doc.md changed in the meantime, so the repair was not written.")
            return False
        return isinstance(saved, SaveResult)

    async def _is_accepted(self, text: str, broken_text: str) -> bool:
        decided = None
        if not self.attended:
            by = "--accept-plan" if self.accept else "no user is present, and --accept-plan was not given"
            decided = Answer(verdict="approve" if self.accept else "reject", by=by)
        choice = await _ask(self.approvals, WHERE, text, broken_text, decided)
        return self.accept if decided else choice in ("ours", "both")

    def _report_unrepaired(self, reason: str, copy: Path) -> None:
        text = (
            f"{reason}. plan_doc.md is left unchanged, and nothing is written to it. Fix it in an editor, or move it "
            f"away to continue with an empty plan. A copy is in {copy}."
        )
        self._notify("warning", text, "plan_doc.unrepaired")

    def _notify(self, level: str, text: str, code: str = "plan_doc.repair") -> None:
        self.stream.emit(Notice(level=level, text=text, code=code))  # type: ignore[arg-type]  # one of the levels


async def choose_text(conflict: Conflict, approvals: Approvals, source: str = "") -> Choice | None:
    """Ask the user to resolve a conflict; None without a decision. `source` describes the origin of the other text."""
    where = " · ".join(filter(None, (source, conflict.where, conflict.item, conflict.field)))
    return await _ask(approvals, where, conflict.ours or "(removed)", conflict.theirs or "(removed)")


async def _ask(
    approvals: Approvals, where: str, ours: str, theirs: str, decided: Answer | None = None
) -> Choice | None:
    """Ask which of two texts to use; None for neither. `decided` is the answer if nobody is asked."""
    answer = await approvals.decide(
        lambda request: PlanDocConflict(id=request, where=where, ours=ours, theirs=theirs),
        lambda request, answer: PlanDocResolved(id=request, answer=answer),
        run="",
        node="",
        decided=decided,
    )
    choice = (answer.data or {}).get("take")
    return choice if answer.verdict == "approve" and choice in ("ours", "theirs", "both") else None
