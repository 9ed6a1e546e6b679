"""The tool loop (W10): call the model, run its tools, return the results, until it answers without a call.

Unusable replies go back to the model with feedback (W16), a bounded number of times. A run never ends as done with a
reply that could not be parsed.
"""

from __future__ import annotations

import json
import secrets

import msgspec

from tui_agent.common.domain import Fault, Message, ProgramMessage, ToolCall, ToolResult, ToolSpec, program_text
from tui_agent.engine.core.prompts import prompt
from tui_agent.engine.loop.ask import LoopDeps, LoopNode, ModelRequester
from tui_agent.engine.loop.calls import MANY_CALLS, ToolBatch
from tui_agent.engine.loop.completion import Completion, CompletionRefusal
from tui_agent.engine.loop.feedback import RejectionCounter, RejectionKind, announces_step, feedback_text, is_torn_tail
from tui_agent.engine.loop.reply import ReceivedReply
from tui_agent.events import CompletionRefused, Notice, ProgramMessageAdded, ReplyRejected, RunEnded, UserMessageAdded
from tui_agent.text import one_line, pluralize

CONTINUE, STOP = "Continue", "Stop"
"""Answers offered when a run is paused."""
_CONNECTION_FAULTS = frozenset({"broken", "timeout", "protocol"})
"""Faults after which the request is repeated; no call of such a reply was run."""
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
        self, deps: LoopDeps, node: LoopNode, *, tools: tuple[ToolSpec, ...], max_iterations: int, reports: bool = False
    ) -> None:
        """`reports`: at the iteration limit, ask the model once more, without tools, for its findings."""
        self._run = node.run
        self._reports = reports
        self.completion: Completion | None = None
        """The completion gate (W8); without one, every final answer ends the run."""
        self.strategy_failed = False
        """The run failed because the model could not work with the current strategy."""
        self.claimed = False
        """The last reply contained a completion marker."""
        self._deps = deps
        self._stream = deps.stream
        self._calls = deps.calls
        self._tools = tools
        self._max_iterations = self._limit = max_iterations
        self._rejections = RejectionCounter(deps.config.temperature)
        self._requester = ModelRequester(deps, node, tools)

    async def work(self) -> RunEnded:
        """Run until the task ends. Failures are outcomes; only cancellation is raised."""
        await self._deps.fallback.settle(self._deps.config.model)
        while True:
            if self._requester.iteration >= self._limit:
                why = f"the model was called {self._requester.iteration} times without a final answer"
                if not await self._confirm_continue(why):
                    return await self._end_at_limit()
                self._limit = self._requester.iteration + self._max_iterations
            if self._deps.source.steer():
                self._calls.note_user_input()
            await self._calls.attach()
            received = await self._ask(self._tools, ())
            if isinstance(received, str):
                return await self._stop(self._ended("limit", received))
            ended = await self._process_reply(received)
            if ended is not None and (settled := await self._settle(ended)) is not None:
                return settled

    async def _ask(self, tools: tuple[ToolSpec, ...], extra: tuple[Message, ...]) -> ReceivedReply | str:
        self._requester.iteration += 1
        self._calls.protocol = self._deps.fallback.protocol
        packet = () if extra else self._requester.trailing_messages(self._limit, self._calls.changed)
        return await self._requester.ask(tools, extra or packet, self._rejections.temperature)

    # --- replies ---

    async def _process_reply(self, received: ReceivedReply) -> RunEnded | None:
        """Run the calls of a reply, or reject it. Return the end of the run, or None to ask the model again."""
        reply, parsed = received.ended, received.parsed
        self.claimed = parsed.done
        if reply.fault is not None:
            return await self._process_fault(received, reply.fault)
        if received.repeated:
            return await self._retry("degenerate", received, f"“{one_line(received.repeated, 80)}”")
        if reply.calls:
            return await self._run_calls(received)
        if parsed.error:
            self._deps.fallback.on_unreadable()
            return await self._retry("unreadable", received, parsed.error)
        if not reply.text.strip():
            return await self._process_empty(received)
        if reply.stop == "length":
            return await self._retry("truncated", received, f" of {self._deps.config.max_tokens:,} tokens")
        if is_torn_tail(reply.text, self._deps.fallback.protocol):
            self._deps.fallback.on_unreadable()
            return await self._retry("unreadable", received, "only the end of an object came")
        if not parsed.done and self._tools and announces_step(reply.text, self._tools):
            return await self._retry("announced", received)
        return self._ended("done", reply.text)

    async def _process_fault(self, received: ReceivedReply, fault: Fault) -> RunEnded | None:
        if self._deps.fallback.refused(fault):
            return None
        if fault.kind == "model_output":
            return await self._retry("server", received, fault.message[:300])
        if fault.kind in _CONNECTION_FAULTS:
            return await self._retry("broken", received, fault.message)
        return self._ended(fault.outcome, fault.full_message)

    async def _process_empty(self, received: ReceivedReply) -> RunEnded | None:
        """Handle a reply with neither text nor calls."""
        reply = received.ended
        if received.parsed.done and self._calls.count:
            return await self._closing_summary()
        if reply.stop == "length":
            why = f"its limit of {self._deps.config.max_tokens:,} tokens was used up"
            return await self._retry("thinking_only" if reply.thought else "truncated", received, why)
        return await self._retry("thinking_only" if reply.thought else "empty", received)

    async def _run_calls(self, received: ReceivedReply) -> RunEnded | None:
        reply = received.ended
        if any(call.fault is None for call in reply.calls):
            self._deps.fallback.on_calls(reply.calls)
        else:
            self._deps.fallback.on_unreadable()
        batch = await self._calls.execute(reply.calls, self._requester.node)
        rejection: tuple[RejectionKind, str] | None = None
        for call, result in batch.rejected:
            rejection = (_rejection_kind(call, result, reply.stop), result.error or "")
            await self._reject(*rejection, self._rejections.in_a_row + 1, _raw_call(call), level="info")
        if batch.ran or batch.duplicates:
            self._rejections.reset()
        elif rejection is not None:
            self._rejections.add(rejection[0])
            if self._rejections.is_exhausted(rejection[0]):
                return self._give_up(*rejection)
        if received.parsed.error and not any(call.fault for call in reply.calls):
            await self._reject("unreadable", received.parsed.error, 1, received.raw, level="info")
            self._feedback("unreadable", received.parsed.error)
        return await self._review_batch(batch)

    async def _review_batch(self, batch: ToolBatch) -> RunEnded | None:
        """Send the model feedback on a batch of calls (W13); end the run if it loops and the user stops it."""
        if batch.duplicates:
            text = f"{batch.duplicates} of {batch.sent} calls were made before and not run again."
            await self._reject("duplicate", text, 1, level="info")
        if batch.duplicates == batch.sent:
            self._feedback("duplicate")
        if batch.skipped:
            text = f"{batch.skipped} of {batch.sent} calls were not run: there were too many in one reply."
            await self._reject("too_many", text, 1)
            self._feedback("too_many", text)
        elif batch.sent > MANY_CALLS:
            self._feedback("too_many", f"Your last reply had {batch.sent} calls.")
        if batch.stop:
            await self._reject("loop", batch.stop, 1)
            if not await self._confirm_continue(batch.stop):
                return self._ended("limit", f"Stopped, because {batch.stop}. {_were_run(self._calls.count)}.")
        elif batch.warning:
            await self._reject("loop", batch.warning, 1, level="info")
            self._feedback("loop", batch.warning)
        return None

    # --- rejected replies ---

    async def _retry(self, kind: RejectionKind, received: ReceivedReply, why: str = "") -> RunEnded | None:
        """Reject a reply and send feedback; return the end of the run once too many were rejected."""
        fault = received.ended.fault
        retried = fault is not None and fault.retryable and not received.raw and not received.ended.thought
        attempt = self._rejections.add(kind, 2 if retried else 1)  # the client has already repeated the request
        raw = received.raw or received.ended.thought or (why if kind == "server" else "")
        await self._reject(kind, why, attempt, raw)
        if self._rejections.is_exhausted(kind):
            if kind in ("empty", "thinking_only") and self._calls.count:
                return await self._closing_summary()
            return self._give_up(kind, why, fault)
        if kind != "broken" or received.raw:
            self._feedback(kind, why, received.raw if kind == "unreadable" else "")
        return None

    def _feedback(self, kind: RejectionKind, why: str = "", raw: str = "") -> None:
        text = feedback_text(kind, tools=self._tools, protocol=self._deps.fallback.protocol, why=why, raw=raw)
        self._stream.emit(ProgramMessageAdded(kind="feedback", text=text), run=self._run)

    async def _reject(
        self, kind: RejectionKind, detail: str, attempt: int, raw: str = "", *, level: str = "warning"
    ) -> None:
        """Record the rejection in the journal and show a notice."""
        name = await self._deps.source.save_raw(f"{self._run}-{self._requester.iteration}", raw) if raw else ""
        event = ReplyRejected(kind=kind, detail=detail[:1_000], attempt=attempt, raw=name)
        self._stream.emit(event, run=self._run, node=self._requester.node)
        description = _DESCRIPTIONS.get(kind)
        why = one_line(detail, 200).strip().rstrip(".")
        text = f"{description}{f': {why}' if why else ''}. The model gets feedback." if description else f"{why}."
        notice = Notice(level=level, text=text[:1].upper() + text[1:], code=f"reply.{kind}")  # type: ignore[arg-type]  # a level
        self._stream.emit(notice, run=self._run)

    def _give_up(self, kind: RejectionKind, why: str, fault: Fault | None = None) -> RunEnded:
        """Return the failed end of a run whose replies could not be used."""
        times = f"{self._rejections.in_a_row} times in a row"
        text = f"{_DESCRIPTIONS[kind]}, and the replies could not be used {times}."
        if fault is not None:
            text += f" {fault.full_message}"
        elif kind == "thinking_only" and why:
            text += f" {why[:1].upper()}{why[1:]} by thinking: raise reply_tokens in the settings."
        elif why:
            text += f" The last fault: {one_line(why, 300)}"
        if self._calls.count:
            text += f" {_were_run(self._calls.count)} before."
        self.strategy_failed = kind not in ("server", "broken")
        return self._ended("failed", text)

    async def _closing_summary(self) -> RunEnded:
        """Ask for a short summary if the run would end without any text (W10)."""
        if answer := await self._answer_to("closing"):
            return self._ended("done", answer)
        text = f"The model fell silent after {pluralize(self._calls.count, 'tool call')} and gave no summary."
        changed = ", ".join(self._calls.changed[-10:])
        return self._ended("failed", f"{text} Changed: {changed}." if changed else text)

    async def _answer_to(self, name: str) -> str:
        """Return the model's answer to a last prompt, without tools; empty if there is none."""
        message = ProgramMessage(text=program_text("feedback", prompt(name)))
        received = await self._ask((), (message,))
        if isinstance(received, str) or received.ended.fault is not None or not received.ended.text.strip():
            return ""
        return received.ended.text

    # --- the end ---

    async def _settle(self, ended: RunEnded) -> RunEnded | None:
        """Apply the completion gate (E2). Return None if the model has to continue with unmet requirements (W8)."""
        if self.completion is None:
            return ended
        verdict = await self.completion.evaluate(ended.outcome, ended.text, self.claimed)
        if isinstance(verdict, Notice):
            self._stream.emit(verdict, run=self._run)
        if isinstance(verdict, CompletionRefusal):
            self._stream.emit(CompletionRefused(why=verdict.why), run=self._run, node=self._requester.node)
            self._stream.emit(ProgramMessageAdded(kind="feedback", text=verdict.feedback), run=self._run)
            return None
        missing = self.completion.missing(ended.text, self.claimed) if ended.outcome == "done" else ""
        self.strategy_failed = bool(missing)
        return not_done(ended, missing) if missing else ended

    async def _stop(self, ended: RunEnded) -> RunEnded:
        """End at a limit, with a notice about remaining errors."""
        return await self._settle(ended) or ended

    async def _end_at_limit(self) -> RunEnded:
        """End at the iteration limit, with the model's findings so far if it `reports`."""
        if self._reports and (answer := await self._answer_to("report_now")):
            return self._ended("limit", answer)
        text = (
            f"Stopped after {self._requester.iteration} rounds without a final answer. "
            "Send “continue” to continue, or raise the limit in the `iterations` settings."
        )
        ended = self._ended("limit", text)
        return ended if self._reports else await self._stop(ended)

    async def _confirm_continue(self, why: str) -> bool:
        """Ask the user whether to continue. An answer other than yes or no is added as a steering message."""
        answer = await self._calls.ask(f"The run was paused because {why}. Continue?", (CONTINUE, STOP))
        if not answer or answer.casefold() in (STOP.casefold(), "no"):
            return False
        self._calls.note_user_input()
        if answer.casefold() not in (CONTINUE.casefold(), "go on", "yes"):
            message = UserMessageAdded(id=f"m-{secrets.token_hex(6)}", text=answer, steering=True)
            self._stream.emit(message, run=self._run)
        return True

    def _ended(self, outcome: str, text: str) -> RunEnded:
        return self._requester.ended(outcome, text, self._calls.count)


def not_done(ended: RunEnded, missing: str) -> RunEnded:
    """Return the end of a run as failed: the model's answer, followed by the unmet requirement."""
    answer = ended.text if ended.said is None else ended.said
    text = f"{ended.text}\n\nNot done: {missing}".strip()
    return msgspec.structs.replace(ended, outcome="failed", text=text, said=answer)


def _rejection_kind(call: ToolCall, result: ToolResult, stop: str) -> RejectionKind:
    if call.fault is not None:
        return "truncated" if stop == "length" else "unreadable"
    return "unknown_tool" if result.code == "unknown_tool" else "bad_arguments"


def _raw_call(call: ToolCall) -> str:
    arguments = call.raw if call.raw is not None else json.dumps(call.arguments, ensure_ascii=False)
    return f"{call.name} {arguments}"


def _were_run(count: int) -> str:
    """Return how many calls were run, such as `1 call was run`."""
    return f"{pluralize(count, 'call')} {'was' if count == 1 else 'were'} run"
