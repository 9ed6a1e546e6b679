"""What session, user and run events do to the view."""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view.change import NOTHING, STATUS, Change, Part, Steps, abandon, add, join, settle, stop_step
from tui_agent.view.items import (
    EndItem,
    NoticeItem,
    Queued,
    Rejected,
    ReplyItem,
    SessionView,
    ShellItem,
    UserItem,
)
from tui_agent.view.texts import TAIL

# --- session ------------------------------------------------------------------------------------


def _opened(view: SessionView, event: e.SessionOpened, record: e.Record) -> Change:
    change = abandon(view)
    view.id, view.version, view.workspace = event.id, event.version, event.workspace
    view.provider, view.model, view.trusted = event.provider, event.model, event.trusted
    view.mode, view.approval_mode = event.mode, event.approval_mode
    view.sandbox = event.sandbox
    view.question = event.question or view.question
    view.closed = ""
    if event.resumed:
        change = join(change, add(view, NoticeItem("info", "Session resumed.", "session.resumed")))
    return change


def _closed(view: SessionView, event: e.SessionClosed, record: e.Record) -> Change:
    change = abandon(view)
    view.closed = event.reason or "closed"
    return change


def _recovered(view: SessionView, event: e.SessionRecovered, record: e.Record) -> Change:
    change = abandon(view)
    text = event.told()
    if not text:
        return change
    return join(change, add(view, NoticeItem("warning", text, "session.recovered")))


def _forked(view: SessionView, event: e.SessionForked, record: e.Record) -> Change:
    change = abandon(view)
    said = " ".join(event.before.split())
    said = said if len(said) <= 80 else said[:79] + "…"
    where = f", which went on here with: «{said}»" if said else ""
    text = f"This session is a fork of {event.parent}{where}."
    return join(change, add(view, NoticeItem("info", text, "session.forked")))


def _titled(view: SessionView, event: e.SessionTitled, record: e.Record) -> Change:
    view.title = event.title
    return STATUS


def _modes(view: SessionView, event: e.ModeChanged, record: e.Record) -> Change:
    view.mode, view.approval_mode = event.mode, event.approval_mode
    return STATUS


def _model(view: SessionView, event: e.ModelChanged, record: e.Record) -> Change:
    same = (view.provider, view.model) == (event.provider, event.model)
    view.provider, view.model = event.provider, event.model
    view.context_limit = event.context_window or (view.context_limit if same else None)
    if not same:
        view.strategy, view.strategy_why = "native", ""
    view.truncated = 0
    return STATUS


def _role(view: SessionView, event: e.RoleChanged, record: e.Record) -> Change:
    view.roles.pop(event.role, None)
    if event.model:
        view.roles[event.role] = event.model
    return NOTHING


def _notice(view: SessionView, event: e.Notice, record: e.Record) -> Change:
    item = NoticeItem(event.level, event.text, event.code)
    if view.rejected is not None and event.code.startswith("reply."):
        item.more, view.rejected = _behind(view.rejected, event.text), None
    return add(view, item)


def _behind(rejected: Rejected, said: str) -> str:
    """What a notice that says `said` about a reply leaves out."""
    told = rejected.detail.strip().rstrip(".").casefold() in said.casefold()
    kept = f"The reply as it came: {rejected.raw} in the folder of the session." if rejected.raw else ""
    return "\n".join(filter(None, ["" if told else rejected.detail, kept]))


def _unknown(view: SessionView, event: e.Unknown, record: e.Record) -> Change:
    view.unknown += 1
    return add(view, NoticeItem("info", f"A record of a newer version: {event.name}", "unknown"))


# --- the user -----------------------------------------------------------------------------------


def _said(view: SessionView, event: e.UserSaid, record: e.Record) -> Change:
    waiting = len(view.queue)
    view.queue = [one for one in view.queue if one.id != event.id]
    change = add(view, UserItem(event.id, event.text, event.steering), event.id)
    return join(change, Change(Part.QUEUE)) if len(view.queue) != waiting else change


def _attached(view: SessionView, event: e.ContextAttached, record: e.Record) -> Change:
    names = [item.display + (f" ({item.note})" if item.note else "") for item in event.items]
    return add(view, NoticeItem("info", f"Attached: {', '.join(names)}", "context.attached"))


def _queued(view: SessionView, event: e.MessageQueued, record: e.Record) -> Change:
    view.queue.append(Queued(event.id, event.text, event.steering))
    return Change(Part.QUEUE)


def _reworded(view: SessionView, event: e.MessageChanged, record: e.Record) -> Change:
    for one in view.queue:
        if one.id == event.id:
            one.text = event.text
            one.steering = one.steering if event.steering is None else event.steering
    return Change(Part.QUEUE)


def _moved(view: SessionView, event: e.MessageMoved, record: e.Record) -> Change:
    moved = [one for one in view.queue if one.id == event.id]
    rest = [one for one in view.queue if one.id != event.id]
    place = next((place for place, one in enumerate(rest) if one.id == event.before), len(rest))
    view.queue = [*rest[:place], *moved, *rest[place:]]
    return Change(Part.QUEUE)


def _withdrawn(view: SessionView, event: e.MessageWithdrawn, record: e.Record) -> Change:
    view.queue = [one for one in view.queue if one.id != event.id]
    return Change(Part.QUEUE)


def _shell(view: SessionView, event: e.ShellRan, record: e.Record) -> Change:
    return add(view, ShellItem(event.command, event.cwd, event.output[-TAIL:], event.exit_code))


# --- a run --------------------------------------------------------------------------------------


def _run_started(view: SessionView, event: e.RunStarted, record: e.Record) -> Change:
    view.run = record.run or event.message_id or "run"
    told, view.truncated = view.truncated, 0
    return join(STATUS if told else NOTHING, settle(view, record.at))


def _run_ended(view: SessionView, event: e.RunEnded, record: e.Record) -> Change:
    view.run, view.stage = "", ""
    reply = next(
        (item for item in reversed(view.items) if isinstance(item, ReplyItem) and not item.role), None
    )
    said = () if reply is None else (reply.text.text.strip(), reply.fault.message if reply.fault else "")
    told = bool(event.text) and event.text.strip() in said
    text = "" if told else event.facts
    if said and said[0]:  # what stands right above is not said again
        text = text.strip().removeprefix(f"{said[0]}\n\n")
    item = EndItem(event.outcome, text, event.iterations, event.tool_calls, event.ms, told)
    return join(stop_step(view), add(view, item), settle(view, record.at))


def _stage(view: SessionView, event: e.StageEntered, record: e.Record) -> Change:
    view.stage = event.title or event.stage
    return STATUS


def _stage_left(view: SessionView, event: e.StageLeft, record: e.Record) -> Change:
    """One within another one, such as a recovery, gives the place back to it."""
    nodes, place = view.tree.nodes, view.tree.places.get(record.parent, -1)
    while place >= 0 and nodes[place].kind != "stage":
        place = nodes[place].parent
    view.stage = nodes[place].title if place >= 0 else ""
    return STATUS


STEPS: Steps = {
    e.SessionOpened: _opened,
    e.SessionClosed: _closed,
    e.SessionRecovered: _recovered,
    e.SessionForked: _forked,
    e.SessionTitled: _titled,
    e.ModeChanged: _modes,
    e.ModelChanged: _model,
    e.RoleChanged: _role,
    e.Notice: _notice,
    e.Unknown: _unknown,
    e.UserSaid: _said,
    e.ContextAttached: _attached,
    e.MessageQueued: _queued,
    e.MessageChanged: _reworded,
    e.MessageMoved: _moved,
    e.MessageWithdrawn: _withdrawn,
    e.ShellRan: _shell,
    e.RunStarted: _run_started,
    e.RunEnded: _run_ended,
    e.StageEntered: _stage,
    e.StageLeft: _stage_left,
}
