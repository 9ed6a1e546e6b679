"""Leave for the actions of one call: judged by the rules, else asked for, once for all that wait (A4, A5, R4.7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tui_agent.domain import Action, Answer, Editing, Grant, Permit, Reading, digest
from tui_agent.engine.workplace import Workplace
from tui_agent.hunks import Choice, edited, lines_text
from tui_agent.platform.files import FileFault, read_file, sha256_of
from tui_agent.tools.base import Agreed, Refused, ToolError
from tui_agent.tools.choosing import chosen_bytes
from tui_agent.tools.diffs import diff_bytes

LOOK = 0.4
"""Seconds between two looks at a file that somebody decides about."""
CANT_UNDO = "This change can't be undone"
CHANGED = "changed on disk"
"""Why an approval is void."""
SAME = "the answer to the same question"
"""By whom a call is answered that asks for what another one asks for at the moment."""
NOT_OTHERWISE = " Do not try it by another way."
"""What only the model is told of a refusal."""
TOLD = 4_000
"""Characters of the hunks that the model is told of."""


class Leave:
    """Asks on behalf of one call. What it gives out is good once (A9)."""

    def __init__(self, workplace: Workplace, *, run: str, node: str, pause: Callable[[bool], None]) -> None:
        """`pause(True)` stops the call's clock while somebody decides, `pause(False)` starts it again."""
        self._workplace = workplace
        self._run = run
        self._node = node
        self._pause = pause
        self._permits: dict[str, Permit] = {}
        self.unkept: dict[str, str] = {}
        """Id of a permit → why its edit can't be undone, which was said when it was asked for."""
        self.waited_ms = 0
        """Time spent waiting for the user."""
        self.declined = False
        """A person said no, not a rule."""

    async def permit(self, action: Action) -> Permit:
        """Leave for exactly `action`. Raises Refused."""
        request, answer = await self._answer(action)
        if answer.data:
            raise Refused("The answer was given for parts of this, which it does not have. Nothing was done.")
        return self._give(request, action)

    async def permit_edit(self, action: Editing, before: bytes | None, after: bytes) -> Agreed:
        """Leave for `action`, or for what the user made of it; `before` and `after` are its bytes. Raises Refused."""
        request, answer = await self._answer(action)
        if not answer.data:
            return Agreed(permit=self._give(request, action), content=after)
        try:
            choice = Choice.read(answer.data, action.diff)
        except ValueError as error:
            raise Refused(f"Not done: {error}.") from error
        if choice.whole(action.diff):
            return Agreed(permit=self._give(request, action), content=after)
        if not action.parts:
            raise Refused("Not done: this change can only be taken as a whole.")
        content, chosen = await asyncio.to_thread(_carve, action, before, after, choice)
        if chosen.after == action.before or (before is None and not content):
            self.declined = True
            raise Refused(f"The user took none of this change.{NOT_OTHERWISE}")
        return Agreed(
            permit=self._give(request, chosen, partly=True), content=content, note=told(action, choice)
        )

    def use(self, permit: Permit) -> None:
        """A permit is good once, and only for the very action it was given for (A9). Raises Refused."""
        if self._permits.pop(permit.id, None) is not permit or digest(permit.action) != permit.digest:
            raise Refused("This approval was used before or was given for something else.")

    def _give(self, request: str, action: Action, *, partly: bool = False) -> Permit:
        permit = Permit(id=request, action=action, digest=digest(action), partly=partly)
        self._permits[request] = permit
        return permit

    # --- the answer ---

    async def _answer(self, action: Action) -> tuple[str, Answer]:
        """The id of a request and the approval of it. Raises Refused, and ToolError `changed`."""
        place = self._workplace
        key = digest(action)
        while isinstance(action, Reading) and (other := place.asking.get(key)) is not None:
            answer = await self._wait_with(other)
            if answer is not None:
                request = self._settle(action, answer)
                self._check(answer)
                return request, answer
        verdict = place.verdict(action)
        trouble = await self._trouble(action) if verdict.decision != "refuse" else ""
        if trouble:
            why = f"{verdict.rule}. {CANT_UNDO}: {trouble}"
            verdict = replace(verdict, decision="ask", rule=why, grants=())
        if verdict.decision == "run":
            answer = Answer(verdict="approve", by=verdict.rule)
            return self._settle(action, answer), answer
        if verdict.decision == "refuse":
            self._settle(action, Answer(verdict="reject", by=verdict.rule))
            raise Refused(f"Not allowed: {verdict.rule}")
        asked: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        if isinstance(action, Reading):
            place.asking[key] = asked
        try:
            request, answer = await self._ask(action, verdict.rule, verdict.grants)
            if not asked.done():
                asked.set_result(answer)
        finally:
            if not asked.done():
                asked.set_result(None)
            if place.asking.get(key) is asked:
                del place.asking[key]
        self._check(answer)
        if trouble:
            self.unkept[request] = trouble
        return request, answer

    async def _trouble(self, action: Action) -> str:
        """Why an edit could not be undone; empty when it can (K1)."""
        keeping = self._workplace.keeping
        return await keeping.trouble(action) if keeping is not None and isinstance(action, Editing) else ""

    async def without_undo(self, action: Editing, why: str) -> None:
        """Leave to make an edit that can't be undone, which showed only now. Raises Refused."""
        _, answer = await self._ask(action, f"{CANT_UNDO}: {why}", ())
        self._check(answer)

    async def _wait_with(self, other: asyncio.Future[Answer | None]) -> Answer | None:
        """What is answered to a call that asks for the very same (R4.7); None when it was stopped."""
        began = time.monotonic()
        self._pause(True)
        try:
            answer = await asyncio.shield(other)
        finally:
            self.waited_ms += round((time.monotonic() - began) * 1000)
            self._pause(False)
        if answer is None:
            return None
        return Answer(verdict=answer.verdict, text=answer.text, by=SAME if answer.by == "user" else answer.by)

    def _settle(self, action: Action, answer: Answer) -> str:
        """Journal what was decided without a question of its own."""
        return self._workplace.approvals.settle(action, answer, run=self._run, node=self._node)

    def _check(self, answer: Answer) -> None:
        if answer.verdict != "approve":
            self.declined = self.declined or by_person(answer)
            raise Refused(refusal(answer))

    async def _ask(self, action: Action, why: str, grants: tuple[Grant, ...]) -> tuple[str, Answer]:
        place = self._workplace
        approvals = place.approvals
        watching: list[asyncio.Task[None]] = []

        def opened(request: str) -> None:
            if isinstance(action, Editing):
                void = partial(approvals.void, request, CHANGED, run=self._run, node=self._node)
                watching.append(asyncio.create_task(_watch(action, void)))

        began = time.monotonic()
        self._pause(True)
        try:
            request, answer = await approvals.ask(
                action, why, grants, run=self._run, node=self._node, opened=opened
            )
        finally:
            for task in watching:
                task.cancel()
            self.waited_ms += round((time.monotonic() - began) * 1000)
            self._pause(False)
        if answer.verdict == "withdrawn" and answer.by == CHANGED and isinstance(action, Editing):
            raise ToolError(f"{action.display} changed on disk meanwhile; nothing was written.", "changed")
        if answer.verdict == "approve" and not answer.data:
            for grant in grants:
                if grant.scope == answer.scope:
                    await place.add_grant(grant)
        return request, answer


def by_person(answer: Answer) -> bool:
    """Whether somebody said no who was asked."""
    return answer.verdict == "reject" and answer.by in ("user", SAME)


def refusal(answer: Answer) -> str:
    """What the model is told of an answer that gives no leave."""
    if answer.verdict == "withdrawn":
        return "Interrupted by the user before they decided."
    reason = f" Their reason: {answer.text}" if answer.text else ""
    who = "The user" if answer.by == "user" else f"The rule «{answer.by}»"
    return f"{who} refused this.{reason}{NOT_OTHERWISE}"


async def _watch(action: Editing, void: Callable[[], None]) -> None:
    """Look at the file while somebody decides about it; call `void` once when it is another one (E10)."""
    path = Path(action.path)
    known: tuple[int, int, int] | None = None
    while True:
        stamp = await asyncio.to_thread(_stamp, path)
        if stamp is None or stamp != known:
            if await asyncio.to_thread(_hash, path) != action.before:
                void()
                return
            known = stamp
        await asyncio.sleep(LOOK)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _hash(path: Path) -> str | None:
    try:
        return read_file(path, follow=False).sha256
    except FileFault as fault:
        return None if fault.code == "not_found" else "unreadable"


def _carve(action: Editing, before: bytes | None, after: bytes, choice: Choice) -> tuple[bytes, Editing]:
    """The bytes of what was chosen of an edit, and the edit that they are."""
    content = chosen_bytes(before, after, action.diff, choice)
    diff = diff_bytes(action.diff.path, before, content)
    return content, replace(action, diff=diff, after=sha256_of(content))


def told(action: Editing, choice: Choice) -> str:
    """What the model must know of a change that was made otherwise than it asked for."""
    hunks = action.diff.hunks
    left = [lines_text(hunk) for place, hunk in enumerate(hunks) if place not in choice.taken]
    made = [
        lines_text(edited(hunks[place], text))
        for place, text in sorted(choice.edits.items())
        if place in choice.taken
    ]
    parts: list[str] = []
    if left:
        parts.append(
            f"The user rejected {len(left)} of the {len(hunks)} hunks; they are NOT in the file, do not make them "
            f"again:\n{_cut(left)}"
        )
    if made:
        which = "hunk" if len(made) == 1 else f"{len(made)} hunks"
        parts.append(
            f"The user changed the text of the {which} before it was written; the file has this now:\n{_cut(made)}"
        )
    return "\n".join(parts)


def _cut(hunks: list[str]) -> str:
    text = "\n".join(hunks)
    return text if len(text) <= TOLD else text[:TOLD] + "\n… more; read the file to see what it holds."
