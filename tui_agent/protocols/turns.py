"""The neutral history as plain text messages, for protocols whose calls stand in the text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tui_agent.domain import AssistantMessage, Message, ProgramMessage, ToolMessage, marked


def rendered(
    messages: Sequence[Message],
    reply: Callable[[AssistantMessage], str],
    result: Callable[[ToolMessage], str],
) -> tuple[Message, ...]:
    """Each reply as `reply` writes it and the results that follow one another as one program message, in order."""
    out: list[Message] = []
    results: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            results.append(result(message))
            continue
        _put(out, results)
        out.append(
            AssistantMessage(text=reply(message)) if isinstance(message, AssistantMessage) else message
        )
    _put(out, results)
    return tuple(out)


def _put(out: list[Message], results: list[str]) -> None:
    if results:
        out.append(ProgramMessage(text=marked("control", "\n".join(results))))
        results.clear()


def counted(names: Sequence[str]) -> str:
    """Names with how often each is there."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items())
