"""read_file: a text file, or part of it, with line numbers."""

from __future__ import annotations

import asyncio
import threading

from tui_agent.common.domain import ToolResult
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.line_sources import LineSource, open_lines
from tui_agent.tools.wording import MAX_RESULT_SIZE

CHUNK_LINES = 100
"""Lines read at a time (T1)."""


class ReadFileArgs(Args):
    """See read_file.md."""

    path: str
    start_line: int | None = None
    end_line: int | None = None
    encoding: str | None = None


class ReadFile(Tool[ReadFileArgs]):
    """Reads a text file or a range of its lines."""

    name = "read_file"
    args = ReadFileArgs
    reads_only = True
    timeout = 30.0

    def title(self, args: ReadFileArgs) -> str:
        """See Tool."""
        if args.start_line is None and args.end_line is None:
            return args.path
        return f"{args.path}:{args.start_line or 1}-{args.end_line or ''}"

    async def run(self, args: ReadFileArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path)
        await permit_read(ctx, target)
        first = max(1, args.start_line or 1)
        if args.end_line is not None and args.end_line < first:
            raise ToolError(f"end_line {args.end_line} lies before start_line {first}.", "bad_arguments")
        stop = threading.Event()
        source = await asyncio.to_thread(open_lines, target, args.encoding, stop)
        try:
            entries = await _collect(source, first, args.end_line, ctx)
        finally:
            stop.set()
            source.close()
        if source.sha256 is not None:
            ctx.mark_seen(target.path, source.sha256, source.content)
        return ToolResult(success=True, data=_format_lines(source, entries, first))


async def _collect(source: LineSource, first: int, last: int | None, ctx: ToolContext) -> list[str]:
    """Return numbered lines from `first` to `last`, as many as fit into a result."""
    entries: list[str] = []
    size, number = 0, first
    await asyncio.to_thread(source.skip, first - 1)
    while last is None or number <= last:
        wanted = CHUNK_LINES if last is None else min(CHUNK_LINES, last - number + 1)
        lines = await asyncio.to_thread(source.take, wanted)
        for line in lines:
            entry = f"{number}\t{line}"
            if entries and size + len(entry) > MAX_RESULT_SIZE:
                return entries
            entries.append(entry)
            size += len(entry) + 1
            number += 1
        if len(lines) < wanted:
            break
        ctx.output(f"{number - 1:,} lines read\n")
    return entries


def _format_lines(source: LineSource, entries: list[str], first: int) -> str:
    """Format the lines, followed by notes in brackets."""
    total = source.total
    last = first + len(entries) - 1
    if not entries:
        if total == 0:
            return "[the file is empty]"
        raise ToolError(f"start_line {first} is beyond the end: the file has {total or 0:,} lines.", "out_of_range")
    notes = list(source.notes)
    if total is None or first > 1 or last < total:
        notes.insert(0, f"lines {first}-{last}" + ("" if total is None else f" of {total:,}"))
    if total is None or last < total:
        notes.append(f"go on with start_line={last + 1}")
    return "\n".join([*entries, f"[{'; '.join(notes)}]"] if notes else entries)


TOOLS = (ReadFile(),)
