"""The direct loop (W10): call the model, run its tools, feed the results back, until it answers without a call.

What a reply is worth is judged here; what can't be used goes back to the model with what was wrong (W16), a bounded
number of times, and a run never ends as done on a reply that was not understood.
"""

from __future__ import annotations

import json
import secrets

import msgspec

from tui_agent.common.domain import Fault, Message, ProgramMessage, ToolCall, ToolResult, ToolSpec, program_text
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.loop.ask import LoopDeps, LoopNode, ModelRequester
from tui_agent.engine.loop.calls import MANY, ToolBatch
from tui_agent.engine.loop.completion import Completion, CompletionRefusal
from tui_agent.engine.loop.feedback import RejectionCounter, RejectionKind, announces_step, feedback_text, is_torn_tail
from tui_agent.engine.loop.reply import Received
from tui_agent.events import CompletionRefused, Notice, ProgramMessageAdded, ReplyRejected, RunEnded, UserMessageAdded
from tui_agent.text import one_line

GO_ON, STOP = "Continue", "Stop"
"""The answers to the question whether a run that was stopped may go on."""
_BROKEN = frozenset({"broken", "timeout", "protocol"})
"""Faults of the connection after which the model is asked again: no call of such a reply was run."""
_DESCRIPTIONS: dict[RejectionKind, str] = {
    "unreadable": "The reply could not be read",
    "unknown_tool": "The reply called a tool that does not exist",
    "bad_arguments": "The reply called a tool with wrong arguments",
    "empty": "The reply was empty",
    "thinking_only": "The reply contained only reasoning",
    "truncated": "The reply was truncated at its limit, and so was its call",
    "degenerate": "The reply repeated itself and was stopped",
    "server": "The server could not parse the model's call",
    "broken": "The reply was interrupted",
    "announced": "The reply announced a step without taking it",
}


class DirectLoop:
    """One run of the loop for one user message."""

    def __init__(
        self,
        deps: LoopDeps,
        place: LoopNode,
        *,
        tools: tuple[ToolSpec, ...],
        max_iterations: int,
        reports: bool = False,
    ) -> None:
        """With `reports`, a model that is at its last round is asked once more, for what it found until then."""
        self._run = place.run
        self._reports = reports
        self.completion: Completion | None = None
        """Accepts that the work is done, or not (W8); without it every end is one."""
        self.misfit = False
        """The run ended because its model did not get on with the way in which it was asked."""
        self.claimed = False
        """The last reply held the mark that the work is done."""
        self._deps = deps
        self._stream = deps.stream
        self._calls = deps.calls
        self._tools = tools
        self._max = self._allowed = max_iterations
        self._rejections = RejectionCounter(deps.config.temperature)
        self._requester = ModelRequester(deps, place, tools)

    async def work(self) -> RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        await self._deps.fallback.settle(self._deps.config.model)
        while True:
            if self._requester.iteration >= self._allowed:
                why = f"the model was called {self._requester.iteration} times without a final answer"
                if not await self._goes_on(why):
                    return await self._reported() if self._reports else await self._stopped(self._limit())
                self._allowed = self._requester.iteration + self._max
            if self._deps.source.steer():
                self._calls.heard()
            await self._calls.attach()
            received = await self._ask(self._tools, ())
            if isinstance(received, str):
                return await self._stopped(self._ended("limit", received))
            ended = await self._judge(received)
            if ended is not None and (settled := await self._settled(ended)) is not None:
                return settled

    async def _ask(self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...]) -> Received | str:
        self._requester.iteration += 1
        self._calls.protocol = self._deps.fallback.protocol
        packet = () if extra else self._requester.trailing_messages(self._allowed, self._calls.changed)
        return await self._requester.ask(tools, extra or packet, self._rejections.temperature)

    # --- what a reply is worth ---

    async def _judge(self, received: Received) -> RunEnded | None:
        """Carry out what the reply asks for. None when the model is to be asked again."""
        reply, parsed = received.ended, received.parsed
        self.claimed = parsed.done
        if reply.fault is not None:
            return await self._faulty(received, reply.fault)
        if received.repeated:
            return await self._again("degenerate", received, f"“{one_line(received.repeated, 80)}”")
        if reply.calls:
            return await self._run_calls(received)
        if parsed.error:
            self._deps.fallback.on_unreadable()
            return await self._again("unreadable", received, parsed.error)
        if not reply.text.strip():
            return await self._silent(received)
        if reply.stop == "length":
            return await self._again("truncated", received, f" of {self._deps.config.max_tokens:,} tokens")
        if is_torn_tail(reply.text, self._deps.fallback.protocol):
            self._deps.fallback.on_unreadable()
            return await self._again("unreadable", received, "only the end of an object came")
        if not parsed.done and self._tools and announces_step(reply.text, self._tools):
            return await self._again("announced", received)
        return self._ended("done", reply.text)

    async def _faulty(self, received: Received, fault: Fault) -> RunEnded | None:
        if self._deps.fallback.refused(fault):
            return None
        if fault.kind == "model_output":
            return await self._again("server", received, fault.message[:300])
        if fault.kind in _BROKEN:
            return await self._again("broken", received, fault.message)
        return self._ended(fault.outcome, fault.full_message)

    async def _silent(self, received: Received) -> RunEnded | None:
        """A reply without text and calls."""
        reply = received.ended
        if received.parsed.done and self._calls.count:
            return await self._closing()
        if reply.stop == "length":
            used = f"its limit of {self._deps.config.max_tokens:,} tokens was used up"
            return await self._again("thinking_only" if reply.thought else "truncated", received, used)
        return await self._again("thinking_only" if reply.thought else "empty", received)

    async def _run_calls(self, received: Received) -> RunEnded | None:
        reply = received.ended
        if any(call.fault is None for call in reply.calls):
            self._deps.fallback.on_calls(reply.calls)
        else:
            self._deps.fallback.on_unreadable()
        done = await self._calls.carry_out(reply.calls, self._requester.node)
        why: tuple[RejectionKind, str] | None = None
        for call, result in done.rejected:
            why = (_kind(call, result, reply.stop), result.error or "")
            await self._reject(*why, self._rejections.in_a_row + 1, _raw_call(call), level="info")
        if done.ran or done.duplicates:
            self._rejections.good()
        elif why is not None:
            self._rejections.bad(why[0])
            if self._rejections.spent(why[0]):
                return self._gave_up(*why)
        if received.parsed.error and not any(call.fault for call in reply.calls):
            await self._reject("unreadable", received.parsed.error, 1, received.raw, level="info")
            self._feedback("unreadable", received.parsed.error)
        return await self._after(done)

    async def _after(self, done: ToolBatch) -> RunEnded | None:
        """Tell the model what there is to be told of a round of calls (W13), and stop where it goes in circles."""
        if done.duplicates:
            text = f"{done.duplicates} of {done.sent} calls were made before and not run again."
            await self._reject("duplicate", text, 1, level="info")
        if done.duplicates == done.sent:
            self._feedback("duplicate")
        if done.left:
            text = f"{done.left} of {done.sent} calls were not run: there were too many in one reply."
            await self._reject("too_many", text, 1)
            self._feedback("too_many", text)
        elif done.sent > MANY:
            self._feedback("too_many", f"Your last reply had {done.sent} calls.")
        if done.stop:
            await self._reject("loop", done.stop, 1)
            if not await self._goes_on(done.stop):
                return self._ended("limit", f"Stopped, because {done.stop}. {self._calls.count} calls were run.")
        elif done.note:
            await self._reject("loop", done.note, 1, level="info")
            self._feedback("loop", done.note)
        return None

    # --- what could not be used ---

    async def _again(self, kind: RejectionKind, received: Received, why: str = "") -> RunEnded | None:
        """Note a reply that could not be used and tell the model; a `RunEnded` when that was done often enough."""
        fault = received.ended.fault
        tired = fault is not None and fault.retryable and not received.raw and not received.ended.thought
        attempt = self._rejections.bad(kind, 2 if tired else 1)  # the client asked again and again already
        raw = received.raw or received.ended.thought or (why if kind == "server" else "")
        await self._reject(kind, why, attempt, raw)
        if self._rejections.spent(kind):
            if kind in ("empty", "thinking_only") and self._calls.count:
                return await self._closing()
            return self._gave_up(kind, why, fault)
        if kind != "broken" or received.raw:
            self._feedback(kind, why, received.raw if kind == "unreadable" else "")
        return None

    def _feedback(self, kind: RejectionKind, why: str = "", raw: str = "") -> None:
        text = feedback_text(kind, tools=self._tools, protocol=self._deps.fallback.protocol, why=why, raw=raw)
        self._stream.emit(ProgramMessageAdded(kind="feedback", text=text), run=self._run)

    async def _reject(
        self, kind: RejectionKind, detail: str, attempt: int, raw: str = "", *, level: str = "warning"
    ) -> None:
        """Journal what could not be used, and show it."""
        name = await self._deps.source.keep_raw(f"{self._run}-{self._requester.iteration}", raw) if raw else ""
        event = ReplyRejected(kind=kind, detail=detail[:1_000], attempt=attempt, raw=name)
        self._stream.emit(event, run=self._run, node=self._requester.node)
        said = _DESCRIPTIONS.get(kind)
        why = one_line(detail, 200).strip().rstrip(".")
        text = f"{said}{f': {why}' if why else ''}. The model gets feedback." if said else f"{why}."
        notice = Notice(level=level, text=text[:1].upper() + text[1:], code=f"reply.{kind}")  # type: ignore[arg-type]  # a level
        self._stream.emit(notice, run=self._run)

    def _gave_up(self, kind: RejectionKind, why: str, fault: Fault | None = None) -> RunEnded:
        """How a run ends whose model can't be understood: never as done."""
        times = f"{self._rejections.in_a_row} times in a row"
        text = f"{_DESCRIPTIONS[kind]}, and the replies could not be used {times}."
        if fault is not None:
            text += f" {fault.full_message}"
        elif kind == "thinking_only" and why:
            text += f" {why[:1].upper()}{why[1:]} by thinking: raise reply_tokens in the settings."
        elif why:
            text += f" The last fault: {one_line(why, 300)}"
        if self._calls.count:
            text += f" {self._calls.count} calls were run before."
        self.misfit = kind not in ("server", "broken")
        return self._ended("failed", text)

    async def _closing(self) -> RunEnded:
        """A short closing summary where the run would end without a word (W10)."""
        if said := await self._answer_to("closing"):
            return self._ended("done", said)
        text = f"The model fell silent after {self._calls.count} tool calls and gave no summary."
        changed = ", ".join(self._calls.changed[-10:])
        return self._ended("failed", f"{text} Changed: {changed}." if changed else text)

    async def _answer_to(self, name: str) -> str:
        """What the model says to a last prompt, without any more calls; empty where that is nothing."""
        nudge = ProgramMessage(text=program_text("feedback", prompt(name)))
        received = await self._ask((), (nudge,))
        if isinstance(received, str) or received.ended.fault is not None or not received.ended.text.strip():
            return ""
        return received.ended.text

    # --- the end ---

    async def _settled(self, ended: RunEnded) -> RunEnded | None:
        """How the run ends by the facts (E2); None where what is missing goes back to the model (W8)."""
        if self.completion is None:
            return ended
        judged = await self.completion.judged(ended.outcome, ended.text, self.claimed)
        if isinstance(judged, Notice):
            self._stream.emit(judged, run=self._run)
        if isinstance(judged, CompletionRefusal):
            self._stream.emit(CompletionRefused(why=judged.why), run=self._run, node=self._requester.node)
            self._stream.emit(ProgramMessageAdded(kind="feedback", text=judged.told), run=self._run)
            return None
        missing = self.completion.missing(ended.text, self.claimed) if ended.outcome == "done" else ""
        self.misfit = bool(missing)
        return not_done(ended, missing) if missing else ended

    async def _stopped(self, ended: RunEnded) -> RunEnded:
        """An end at a limit, with what is to be told of the work as it stands."""
        return await self._settled(ended) or ended

    async def _reported(self) -> RunEnded:
        """What the model has to say at the limit, without any more calls."""
        said = await self._answer_to("report_now")
        return self._ended("limit", said) if said else self._limit()

    async def _goes_on(self, why: str) -> bool:
        """Ask the user whether to go on; what they say beside yes and no is told to the model."""
        answer = await self._calls.ask(f"The run was paused because {why}. Continue?", (GO_ON, STOP))
        if not answer or answer.casefold() in (STOP.casefold(), "no"):
            return False
        self._calls.heard()
        if answer.casefold() not in (GO_ON.casefold(), "go on", "yes"):
            said = UserMessageAdded(id=f"m-{secrets.token_hex(6)}", text=answer, steering=True)
            self._stream.emit(said, run=self._run)
        return True

    def _limit(self) -> RunEnded:
        text = (
            f"Stopped after {self._requester.iteration} rounds without a final answer. "
            "Send “continue” to continue, or raise the limit in the `iterations` settings."
        )
        return self._ended("limit", text)

    def _ended(self, outcome: str, text: str) -> RunEnded:
        return self._requester.ended(outcome, text, self._calls.count)


def not_done(ended: RunEnded, missing: str) -> RunEnded:
    """The end of a run that says it is done and is not: the model's words, and what is missing."""
    said = ended.text if ended.said is None else ended.said
    text = f"{ended.text}\n\nNot done: {missing}".strip()
    return msgspec.structs.replace(ended, outcome="failed", text=text, said=said)


def _kind(call: ToolCall, result: ToolResult, stop: str) -> RejectionKind:
    if call.fault is not None:
        return "truncated" if stop == "length" else "unreadable"
    return "unknown_tool" if result.code == "unknown_tool" else "bad_arguments"


def _raw_call(call: ToolCall) -> str:
    given = call.raw if call.raw is not None else json.dumps(call.arguments, ensure_ascii=False)
    return f"{call.name} {given}"
