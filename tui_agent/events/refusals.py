"""Whether refused actions are the reason why a run did not do its job (X3, S4)."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.common.domain import SAME_QUESTION, Action, EditAction, ReadAction, RunAction, TrustAction
from tui_agent.events.narration import action_text
from tui_agent.text import make_visible


class Refusals:
    """What nobody was there to approve, or a rule forbids, in the records of one run.

    What a person rejects is not counted: the agent goes on without it.
    """

    def __init__(self) -> None:
        self._requested: dict[str, Action] = {}
        """Id of an open request → its action."""
        self._running: dict[str, e.ToolStarted] = {}
        """Id of a running call → its start."""
        self._missing: dict[str, str] = {}
        """Refused changes and commands that did not happen later: key → text."""
        self._unread: dict[str, str] = {}
        """Refused reads: key → text."""
        self._succeeded = self._changed = False

    def feed(self, record: e.Record) -> None:
        """Take in a record of the run."""
        match record.event:
            case e.ApprovalRequested(id=request, action=action):
                self._requested[request] = action
            case e.ApprovalAnswered(id=request, answer=answer):
                requested = self._requested.pop(request, None)
                if answer.verdict == "reject" and answer.by not in ("user", SAME_QUESTION):
                    self._refuse(record.node, requested)
                elif answer.verdict == "approve" and isinstance(requested, RunAction):
                    self._missing.pop(_key(requested), None)
            case e.ToolStarted(call=call):
                self._running[call.id] = record.event
            case e.ToolFinished(call_id=call, result=result):
                started = self._running.pop(call, None)
                self._succeeded = self._succeeded or result.success
                if started is not None and result.success:
                    self._missing.pop(f"call {started.title}", None)
            case e.FileChanged(change=change):
                self._changed = True
                self._missing.pop(f"edit {change.path}", None)
            case e.StepVerified(met=True, command=command) if command:
                self._missing.pop(f"run {command}", None)
                for key in [key for key in self._missing if key.startswith("edit ")]:
                    del self._missing[key]  # what is checked is right without it

    def _refuse(self, call: str, action: Action | None) -> None:
        if isinstance(action, TrustAction):
            return
        started = self._running.get(call)
        if action is not None:
            key, text = _key(action), action_text(action)
        elif started is not None:
            key, text = f"call {started.title}", f"{started.call.name} {make_visible(started.title)}"
        else:
            key, text = call, "an action that a rule forbids"
        is_read = isinstance(action, ReadAction) or (action is None and started is not None and started.reads_only)
        (self._unread if is_read else self._missing)[key] = text

    def prevented(self, outcome: str) -> list[str]:
        """Return the refused actions that explain a run with this outcome, as texts; empty if they don't.

        A run that is done lacks the changes and commands that were refused and did not happen later; that a file was
        not read is only a reason if nothing else succeeded. One that failed was prevented if it changed nothing, one
        that ended as refused in any case.
        """
        everything = [*self._missing.values(), *self._unread.values()]
        if outcome == "done":
            return everything if self._missing or not self._succeeded else []
        was_prevented = outcome == "refused" or (outcome == "failed" and not self._changed)
        return everything if was_prevented else []


def _key(action: Action) -> str:
    match action:
        case EditAction(path=path) | ReadAction(path=path):
            return f"{'edit' if isinstance(action, EditAction) else 'read'} {path}"
        case RunAction(command=command):
            return f"run {command}"
        case TrustAction(folder=folder):
            return f"trust {folder}"
