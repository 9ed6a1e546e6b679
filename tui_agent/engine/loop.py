"""The direct loop (W10): call the model, run its tools, feed the results back, until it answers without a call.

What a reply is worth is judged here; what can't be used goes back to the model with what was wrong (W16), a bounded
number of times, and a run never ends as done on a reply that was not understood.
"""

from __future__ import annotations

import json
import secrets
import time

import msgspec

from tui_agent.domain import Fault, Message, ProgramMessage, ToolCall, ToolResult, ToolSpec, marked
from tui_agent.engine.asking import Asking, Desk, Place
from tui_agent.engine.brain import Brain
from tui_agent.engine.calls import MANY, Calls, Round
from tui_agent.engine.completion import Completion, Refusal
from tui_agent.engine.emitting import Emitting
from tui_agent.engine.feedback import Kind, Tries, announces, told, torn
from tui_agent.engine.ladder import Ladder
from tui_agent.engine.prompts import prompt
from tui_agent.engine.reply import Received
from tui_agent.engine.window import Window
from tui_agent.events import CompletionRefused, Notice, ProgramSaid, ReplyRejected, RunEnded, UserSaid
from tui_agent.text import one_line

__all__ = ["Brain", "Desk", "DirectLoop", "Place"]

GO_ON, STOP = "Go on", "Stop"
"""The answers to the question whether a run that was stopped may go on."""
_BROKEN = frozenset({"broken", "timeout", "protocol"})
"""Faults of the connection after which the model is asked again: no call of such a reply was run."""
_SAID: dict[Kind, str] = {
    "unreadable": "The reply could not be read",
    "unknown_tool": "The reply called a tool that does not exist",
    "bad_arguments": "The reply called a tool with wrong arguments",
    "empty": "The reply was empty",
    "thinking_only": "The reply held thoughts only",
    "truncated": "The reply was cut off at its limit, and so was its call",
    "degenerate": "The reply repeated itself endlessly and was cut",
    "server": "The server could not read the model's call",
    "broken": "The reply broke off",
    "announced": "The reply announced a step and did not take it",
}


class DirectLoop:
    """One run of the loop for one user message."""

    def __init__(
        self,
        *,
        place: Place,
        stream: Emitting,
        brain: Brain,
        desk: Desk,
        window: Window,
        ladder: Ladder,
        calls: Calls,
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
        self._stream = stream
        self._brain = brain
        self._desk = desk
        self._ladder = ladder
        self._calls = calls
        self._tools = tools
        self._max = self._allowed = max_iterations
        self._began = time.monotonic()
        self._tries = Tries(brain.temperature)
        self._asking = Asking(
            place=place, stream=stream, brain=brain, desk=desk, window=window, ladder=ladder, tools=tools
        )

    async def work(self) -> RunEnded:
        """Run to the end. Failures are outcomes; only cancellation is raised."""
        await self._ladder.settle(self._brain.model)
        while True:
            if self._asking.iteration >= self._allowed:
                why = f"the model was called {self._asking.iteration} times without a final answer"
                if not await self._goes_on(why):
                    return await self._reported() if self._reports else await self._stopped(self._limit())
                self._allowed = self._asking.iteration + self._max
            if self._desk.steer():
                self._calls.heard()
            await self._calls.attach()
            received = await self._ask(self._tools, ())
            if isinstance(received, str):
                return await self._stopped(self._ended("limit", received))
            ended = await self._judge(received)
            if ended is not None and (settled := await self._settled(ended)) is not None:
                return settled

    async def _ask(self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...]) -> Received | str:
        self._asking.iteration += 1
        self._calls.protocol = self._ladder.protocol
        packet = () if extra else self._asking.packet(self._allowed, self._calls.changed)
        return await self._asking.ask(tools, extra or packet, self._tries.temperature)

    # --- what a reply is worth ---

    async def _judge(self, received: Received) -> RunEnded | None:
        """Carry out what the reply asks for. None when the model is to be asked again."""
        reply, parsed = received.ended, received.parsed
        self.claimed = parsed.done
        if reply.fault is not None:
            return await self._faulty(received, reply.fault)
        if received.babble:
            return await self._again("degenerate", received, f"“{one_line(received.babble, 80)}”")
        if reply.calls:
            return await self._carry_out(received)
        if parsed.error:
            self._ladder.missed()
            return await self._again("unreadable", received, parsed.error)
        if not reply.text.strip():
            return await self._silent(received)
        if reply.stop == "length":
            return await self._again("truncated", received, f" of {self._brain.max_tokens:,} tokens")
        if torn(reply.text, self._ladder.protocol):
            self._ladder.missed()
            return await self._again("unreadable", received, "only the end of an object came")
        if not parsed.done and self._tools and announces(reply.text, self._tools):
            return await self._again("announced", received)
        return self._ended("done", reply.text)

    async def _faulty(self, received: Received, fault: Fault) -> RunEnded | None:
        if self._ladder.refused(fault):
            return None
        if fault.kind == "model_output":
            return await self._again("server", received, fault.message[:300])
        if fault.kind in _BROKEN:
            return await self._again("broken", received, fault.message)
        return self._ended("unreachable" if fault.kind == "unreachable" else "failed", _explain(fault))

    async def _silent(self, received: Received) -> RunEnded | None:
        """A reply without text and calls (R9.3)."""
        reply = received.ended
        if received.parsed.done and self._calls.count:
            return await self._closing()
        if reply.stop == "length":
            used = f"its limit of {self._brain.max_tokens:,} tokens was used up"
            return await self._again("thinking_only" if reply.thought else "truncated", received, used)
        return await self._again("thinking_only" if reply.thought else "empty", received)

    async def _carry_out(self, received: Received) -> RunEnded | None:
        reply = received.ended
        if any(call.fault is None for call in reply.calls):
            self._ladder.took(reply.calls)
        else:
            self._ladder.missed()
        done = await self._calls.carry_out(reply.calls, self._asking.node)
        why: tuple[Kind, str] | None = None
        for call, result in done.rejected:
            why = (_kind(call, result, reply.stop), result.error or "")
            await self._reject(*why, self._tries.in_a_row + 1, _raw_call(call), level="info")
        if done.ran or done.duplicates:
            self._tries.good()
        elif why is not None:
            self._tries.bad(why[0])
            if self._tries.spent(why[0]):
                return self._gave_up(*why)
        if received.parsed.error and not any(call.fault for call in reply.calls):
            await self._reject("unreadable", received.parsed.error, 1, received.raw, level="info")
            self._feedback("unreadable", received.parsed.error)
        return await self._after(done)

    async def _after(self, done: Round) -> RunEnded | None:
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
                return self._ended(
                    "limit", f"Stopped, because {done.stop}. {self._calls.count} calls were run."
                )
        elif done.note:
            await self._reject("loop", done.note, 1, level="info")
            self._feedback("loop", done.note)
        return None

    # --- what could not be used ---

    async def _again(self, kind: Kind, received: Received, why: str = "") -> RunEnded | None:
        """Note a reply that could not be used and tell the model; a `RunEnded` when that was done often enough."""
        fault = received.ended.fault
        tired = fault is not None and fault.retryable and not received.raw and not received.ended.thought
        attempt = self._tries.bad(kind, 2 if tired else 1)  # the client asked again and again already
        raw = received.raw or received.ended.thought or (why if kind == "server" else "")
        await self._reject(kind, why, attempt, raw)
        if self._tries.spent(kind):
            if kind in ("empty", "thinking_only") and self._calls.count:
                return await self._closing()
            return self._gave_up(kind, why, fault)
        if kind != "broken" or received.raw:
            self._feedback(kind, why, received.raw if kind == "unreadable" else "")
        return None

    def _feedback(self, kind: Kind, why: str = "", raw: str = "") -> None:
        text = told(kind, tools=self._tools, protocol=self._ladder.protocol, why=why, raw=raw)
        self._stream.emit(ProgramSaid(kind="feedback", text=text), run=self._run)

    async def _reject(
        self, kind: Kind, detail: str, attempt: int, raw: str = "", *, level: str = "warning"
    ) -> None:
        """Journal what could not be used, and show it."""
        name = await self._desk.keep_raw(f"{self._run}-{self._asking.iteration}", raw) if raw else ""
        event = ReplyRejected(kind=kind, detail=detail[:1_000], attempt=attempt, raw=name)
        self._stream.emit(event, run=self._run, node=self._asking.node)
        said = _SAID.get(kind)
        why = one_line(detail, 200).strip().rstrip(".")
        text = f"{said}{f': {why}' if why else ''}. The model is told." if said else f"{why}."
        notice = Notice(level=level, text=text[:1].upper() + text[1:], code=f"reply.{kind}")  # type: ignore[arg-type]  # a level
        self._stream.emit(notice, run=self._run)

    def _gave_up(self, kind: Kind, why: str, fault: Fault | None = None) -> RunEnded:
        """How a run ends whose model can't be understood: never as done."""
        times = f"{self._tries.in_a_row} times in a row"
        text = f"{_SAID[kind]}, and the replies could not be used {times}."
        if fault is not None:
            text += f" {_explain(fault)}"
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
        nudge = ProgramMessage(text=marked("feedback", prompt("closing")))
        received = await self._ask((), (nudge,))
        if not isinstance(received, str) and received.ended.fault is None and received.ended.text.strip():
            return self._ended("done", received.ended.text)
        text = f"The model fell silent after {self._calls.count} tool calls and gave no summary."
        changed = ", ".join(self._calls.changed[-10:])
        return self._ended("failed", f"{text} Changed: {changed}." if changed else text)

    # --- the end ---

    async def _settled(self, ended: RunEnded) -> RunEnded | None:
        """How the run ends by the facts (E2); None where what is missing goes back to the model (W8)."""
        if self.completion is None:
            return ended
        judged = await self.completion.judged(ended.outcome, ended.text, self.claimed)
        if isinstance(judged, Notice):
            self._stream.emit(judged, run=self._run)
        if isinstance(judged, Refusal):
            self._stream.emit(CompletionRefused(why=judged.why), run=self._run, node=self._asking.node)
            self._stream.emit(ProgramSaid(kind="feedback", text=judged.told), run=self._run)
            return None
        missing = self.completion.missing(ended.text, self.claimed) if ended.outcome == "done" else ""
        self.misfit = bool(missing)
        return not_done(ended, missing) if missing else ended

    async def _stopped(self, ended: RunEnded) -> RunEnded:
        """An end at a limit, with what is to be told of the work as it stands."""
        return await self._settled(ended) or ended

    async def _reported(self) -> RunEnded:
        """What the model has to say at the limit, without any more calls."""
        nudge = ProgramMessage(text=marked("feedback", prompt("report_now")))
        received = await self._ask((), (nudge,))
        if isinstance(received, str) or received.ended.fault is not None or not received.ended.text.strip():
            return self._limit()
        return self._ended("limit", received.ended.text)

    async def _goes_on(self, why: str) -> bool:
        """Ask the user whether to go on; what they say beside yes and no is told to the model."""
        answer = await self._calls.ask(f"The work was stopped, because {why}. Go on?", (GO_ON, STOP))
        if not answer or answer.casefold() in (STOP.casefold(), "no"):
            return False
        self._calls.heard()
        if answer.casefold() not in (GO_ON.casefold(), "yes"):
            said = UserSaid(id=f"m-{secrets.token_hex(6)}", text=answer, steering=True)
            self._stream.emit(said, run=self._run)
        return True

    def _limit(self) -> RunEnded:
        text = (
            f"Stopped after {self._asking.iteration} rounds without a final answer. "
            "Say «go on» to continue, or raise that limit in `iterations` of the settings."
        )
        return self._ended("limit", text)

    def _ended(self, outcome: str, text: str) -> RunEnded:
        return RunEnded(
            outcome=outcome,  # type: ignore[arg-type]  # every caller passes one of the literals
            text=text,
            iterations=self._asking.iteration,
            tool_calls=self._calls.count,
            ms=round((time.monotonic() - self._began) * 1000),
        )


def not_done(ended: RunEnded, missing: str) -> RunEnded:
    """The end of a run that says it is done and is not: the model's words, and what is missing."""
    said = ended.text if ended.said is None else ended.said
    text = f"{ended.text}\n\nNot done: {missing}".strip()
    return msgspec.structs.replace(ended, outcome="failed", text=text, said=said)


def _explain(fault: Fault) -> str:
    return f"{fault.message} {fault.advice}".strip()


def _kind(call: ToolCall, result: ToolResult, stop: str) -> Kind:
    if call.fault is not None:
        return "truncated" if stop == "length" else "unreadable"
    return "unknown_tool" if result.code == "unknown_tool" else "bad_arguments"


def _raw_call(call: ToolCall) -> str:
    given = call.raw if call.raw is not None else json.dumps(call.arguments, ensure_ascii=False)
    return f"{call.name} {given}"
