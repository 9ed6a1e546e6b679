"""A plan document that can't be read: the model is asked once to write it anew, and the user decides (P3)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tui_agent.domain import Answer, Fault, SystemMessage, UserMessage
from tui_agent.engine.approvals import Approvals
from tui_agent.engine.finishing import finished
from tui_agent.engine.prompts import prompt
from tui_agent.engine.stream import EventStream
from tui_agent.events import Event, Notice, PlanDocConflict, PlanDocSettled
from tui_agent.plan.markdown import parse
from tui_agent.plan.store import PlanStore, Saved, Unreadable
from tui_agent.platform.files import FileChangedError

if TYPE_CHECKING:
    from tui_agent.engine.structured import Structured

log = logging.getLogger(__name__)

LONGEST = 60_000
"""Characters of a document that a model is given: a longer one would come back cut."""
WHERE = "the whole document"
"""What the question about a repaired text is about."""
_FENCED = re.compile(r"\s*(`{3,}|~{3,})[^\n`]*\n(.*\n)\1\s*", re.DOTALL)

Rewrite = Callable[[Unreadable, str], Awaitable[str]]
"""The broken document and the last good text (or nothing) → the model's text; empty when none came."""


async def rewritten(found: Unreadable, good: str, structured: Structured, *, node: str) -> str:
    """The document as the model writes it; empty when no reply came."""
    from tui_agent.engine.structured import Question

    told = [f"What is wrong with it: {found.reason}.", f"The document:\n{found.text}"]
    if good and len(good) + len(found.text or "") <= LONGEST:
        told.append(f"The last good version of it:\n{good}")
    messages = (SystemMessage(text=prompt("mend_plan")), UserMessage(text="\n\n".join(told)))
    said = await structured.ask(
        "planning", Question(alone=messages), parent=node, schema=None, purpose="mending"
    )
    if isinstance(said, Fault):
        log.warning("the plan document was not repaired: %s", said.message)
        return ""
    fenced = _FENCED.fullmatch(said.text + "\n")
    text = fenced.group(2) if fenced else said.text
    return text.strip("\n") + "\n"


class Repair(msgspec.Struct):
    """Repairs the document of one session, each broken text once."""

    store: PlanStore
    stream: EventStream
    approvals: Approvals
    attended: bool
    accept: bool
    """Without a user: take the model's text (`--accept-plan`, X3)."""
    rewrite: Rewrite | None = None
    """Asks the model; None where there is none."""
    _tried: set[str] = msgspec.field(default_factory=set)

    async def mend(self, found: Unreadable) -> bool:
        """True when the file holds a readable text now, which the user accepted. The broken one is kept aside first;
        it stays under its name in any other case, and what the user can do is told. Raises FileFault."""
        sha256 = found.sha256
        if sha256 is None or sha256 in self._tried or self.rewrite is None:
            return False
        self._tried.add(sha256)
        place = await asyncio.to_thread(self.store.keep, sha256)
        if place is None:
            return False  # it is another one by now
        if not found.text or not found.text.strip() or len(found.text) > LONGEST:
            self._left("It is nothing that a model could repair", place)
            return False
        self._tell(
            "info", f"A copy of the broken plan_doc.md is kept in {place}. The model is asked to repair it."
        )
        plan = self.store.plan
        known = plan.goal or plan.acceptance_criteria or plan.execution_log or plan.decisions_made
        good = self.store.document.text if known else ""
        text = await self.rewrite(found, good)
        problem = parse(text).problem if text else "no text came"
        if problem:
            self._left(f"The model's repair is of no use ({problem})", place)
            return False
        if not await self._accepted(text, found):
            self._left("The repair was not accepted", place)
            return False
        try:
            saved = await finished(asyncio.to_thread(self.store.put, text, sha256))
        except FileChangedError:
            self._tell("warning", "plan_doc.md was changed meanwhile, so the repair was not written.")
            return False
        return isinstance(saved, Saved)

    async def _accepted(self, text: str, found: Unreadable) -> bool:
        asking = PlanDocConflict(id="", where=WHERE, ours=text, theirs=found.text or "")

        def asked(request: str) -> Event:
            return msgspec.structs.replace(asking, id=request)

        def settled(request: str, answer: Answer) -> Event:
            return PlanDocSettled(id=request, answer=answer)

        if not self.attended:
            request = f"repair-{(found.sha256 or '')[:8]}"
            by = (
                "the flag --accept-plan"
                if self.accept
                else "nobody is there, and --accept-plan was not given"
            )
            verdict: Answer = Answer(verdict="approve" if self.accept else "reject", by=by)
            self.stream.emit(asked(request))
            self.stream.emit(settled(request, verdict))
            await self.stream.durable()
            return self.accept
        answer = await self.approvals.decide(asked, settled, run="", node="")
        return answer.verdict == "approve" and (answer.data or {}).get("take") in ("ours", "both")

    def _left(self, why: str, place: Path) -> None:
        text = (
            f"{why}. plan_doc.md is left as it is, and nothing is written to it. Mend it in an editor, or move it away "
            f"to go on with an empty plan. A copy is kept in {place}."
        )
        self._tell("warning", text, "plan_doc.unrepaired")

    def _tell(self, level: str, text: str, code: str = "plan_doc.repair") -> None:
        self.stream.emit(Notice(level=level, text=text, code=code))  # type: ignore[arg-type]  # one of the levels
