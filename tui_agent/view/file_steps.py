"""What undo, rewind and the changes that commands made do to the view: a line each (K1)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent import events as e
from tui_agent.view.change import NOTHING, Change, Steps, add
from tui_agent.view.items import NoticeItem, SessionView

NAMED = 8
"""Files that a line names."""

_DONE = {"undo": "Undone", "redo": "Done again", "rewind": "Rewound"}


def _snapshotted(view: SessionView, event: e.FileSnapshotted, record: e.Record) -> Change:
    if not event.unkept:
        return NOTHING
    text = f"{event.display} can't be undone: {event.unkept}."
    return add(view, NoticeItem("warning", text, "undo.unkept"))


def _begun(view: SessionView, event: e.UndoBegun, record: e.Record) -> Change:
    return NOTHING  # what comes of it is told; after a crash a notice tells that nothing did


def _done(view: SessionView, event: e.UndoDone, record: e.Record) -> Change:
    well = [item.display for item in event.items if item.outcome in ("restored", "already")]
    left = [item for item in event.items if item.outcome not in ("restored", "already")]
    head = "A cut-off undo was reversed" if event.outcome == "rolled_back" else _DONE[event.kind]
    text = f"{head}: {_count(len(well))}" + (f" ({_names(well)})" if well else "")
    more = "\n".join(f"{item.display}: {_became(item)}" for item in left)
    if left:
        text += f"; not {_count(len(left))} ({_names([item.display for item in left])})"
    item = NoticeItem("warning" if left else "info", f"{text}.", "undo.done")
    item.more = more
    return add(view, item)


def _became(item: e.Restoring) -> str:
    if item.outcome == "aside":
        return f"the earlier content is in {item.why}"
    if item.outcome == "left":
        return f"left as it is: {item.why}"
    return f"not done: {item.why}" if item.why else "not tried"


def _kept(view: SessionView, event: e.CheckpointsKept, record: e.Record) -> Change:
    runs = _count(len(event.runs), "run")
    return add(view, NoticeItem("info", f"Kept what {runs} did to files.", "undo.kept"))


def _command(view: SessionView, event: e.CommandChanged, record: e.Record) -> Change:
    parts = [
        f"{what} {_names(names)}"
        for what, names in (
            ("created", event.created),
            ("changed", event.changed),
            ("deleted", event.deleted),
        )
        if names
    ]
    if event.more:
        parts.append(f"{event.more} more")
    if event.unwatched:
        parts.append(f"not watched: {', '.join(event.unwatched)}")
    item = NoticeItem(
        "info", f"Undo can't take back what this command did: {'; '.join(parts)}.", "undo.command"
    )
    names = [*event.created, *event.changed, *event.deleted]
    item.more = "\n".join(names) if len(names) > NAMED else ""
    return add(view, item)


def _rewound(view: SessionView, event: e.ConversationRewound, record: e.Record) -> Change:
    if event.cleared:
        text = (
            "The model no longer knows what was said until here. The plan stays; /redo brings the talk back."
        )
    elif not event.run:
        text = "The conversation goes on where it was before it was rewound."
    else:
        said = " ".join(event.text.split())
        said = said if len(said) <= 80 else said[:79] + "…"
        text = f"The model no longer knows what was said from here on: «{said}»"
    return add(view, NoticeItem("info", text, "conversation.rewound"))


def _count(number: int, noun: str = "file") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


STEPS: Steps = {
    e.FileSnapshotted: _snapshotted,
    e.UndoBegun: _begun,
    e.UndoDone: _done,
    e.CheckpointsKept: _kept,
    e.CommandChanged: _command,
    e.ConversationRewound: _rewound,
}
