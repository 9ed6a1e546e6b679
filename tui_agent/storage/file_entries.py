"""What chat_history.log says of undo, rewind and of what commands changed (S2, K1)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent import events as e

NAMED = 20
"""Files that one entry names."""

_DONE = {"undo": "Undone", "redo": "Done again", "rewind": "Rewound"}
_OUTCOMES = {
    "restored": "back",
    "already": "was as it should be",
    "left": "left as it is",
    "aside": "earlier content written beside it",
    "failed": "not done",
    "": "not tried",
}


def done(event: e.UndoDone) -> str:
    """What became of each file."""
    restored = sum(item.outcome in ("restored", "already") for item in event.items)
    head = "A cut-off undo was reversed" if event.outcome == "rolled_back" else _DONE[event.kind]
    lines = [f"{head}: {files(restored)}{_runs(event.runs)}."]
    if not event.items:
        lines = [f"{head}: no file{_runs(event.runs)}."]
    for item in event.items[:NAMED]:
        why = f": {item.why}" if item.why else ""
        lines.append(f"- {item.display}: {_OUTCOMES[item.outcome]}{why}")
    lines += [f"- … {len(event.items) - NAMED} more"] if len(event.items) > NAMED else []
    return "\n".join(lines)


def snapshotted(event: e.FileSnapshotted) -> str:
    """Only what can't be undone is worth a line."""
    return f"{event.display} is changed without a way back: {event.unkept}." if event.unkept else ""


def kept(event: e.CheckpointsKept) -> str:
    return f"Kept: what {', '.join(event.runs[:NAMED])} did to files."


def command(event: e.CommandChanged) -> str:
    """What a command changed, and what could not be watched."""
    lines: list[str] = []
    for what, names in (
        ("created", event.created),
        ("changed", event.changed),
        ("deleted", event.deleted),
    ):
        lines += [f"- {what}: {', '.join(names)}"] if names else []
    lines += [f"- … {event.more} more"] if event.more else []
    lines += [f"- not watched: {', '.join(event.unwatched)}"] if event.unwatched else []
    return "\n".join(["What this command changed can't be undone:", *lines])


def rewound(event: e.ConversationRewound) -> str:
    if event.cleared:
        return "The conversation begins anew: the model no longer knows what was said until here."
    if not event.run:
        return "The conversation goes on where it was before it was rewound."
    return f"The conversation goes on before: {event.text}"


def files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _runs(runs: Sequence[str]) -> str:
    return f" of {', '.join(runs[:5])}{' …' if len(runs) > 5 else ''}" if runs else ""
