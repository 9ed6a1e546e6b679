"""read_file: text with line numbers, in parts where it is long."""

from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

from tui_agent.domain import ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.tools.line_sources import LineSource, open_lines
from tui_agent.tools.lines import MODEL_CAP
from tui_agent.tools.reading import leave_to_read

CHUNK = 100
"""Lines that are handed on at a time (T1)."""


class ReadFileArgs(Args):
    """See read_file.md."""

    path: str
    start_line: int | None = None
    end_line: int | None = None
    encoding: str | None = None


class ReadFile(Tool[ReadFileArgs]):
    """Reads a text file, or the part of it that the model asks for."""

    name: ClassVar[str] = "read_file"
    args = ReadFileArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = 30.0
    aliases: ClassVar[tuple[str, ...]] = (
        "file_read",
        "read",
        "cat",
        "open_file",
        "view_file",
        "view",
        "get_file",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "file": "path",
        "file_path": "path",
        "filename": "path",
        "file_name": "path",
        "filepath": "path",
        "target_file": "path",
        "absolute_path": "path",
        "start": "start_line",
        "from_line": "start_line",
        "line_start": "start_line",
        "offset": "start_line",
        "end": "end_line",
        "to_line": "end_line",
        "line_end": "end_line",
    }

    def title(self, args: ReadFileArgs) -> str:
        """See Tool."""
        if args.start_line is None and args.end_line is None:
            return args.path
        return f"{args.path}:{args.start_line or 1}-{args.end_line or ''}"

    async def run(self, args: ReadFileArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        target = bench.resolve(args.path)
        await leave_to_read(bench, target)
        first = max(1, args.start_line or 1)
        if args.end_line is not None and args.end_line < first:
            raise ToolError(f"end_line {args.end_line} lies before start_line {first}.", "bad_arguments")
        stop = threading.Event()
        source = await asyncio.to_thread(open_lines, target, args.encoding, stop)
        try:
            shown = await _collect(source, first, args.end_line, bench)
        finally:
            stop.set()
            source.close()
        if source.sha256 is not None:
            bench.saw(target.path, source.sha256)
        return ToolResult(success=True, data=_told(source, shown, first))


async def _collect(source: LineSource, first: int, last: int | None, bench: Bench) -> list[str]:
    """Numbered lines from `first` to `last`, as many as a result may hold."""
    shown: list[str] = []
    size, number = 0, first
    await asyncio.to_thread(source.skip, first - 1)
    while last is None or number <= last:
        wanted = CHUNK if last is None else min(CHUNK, last - number + 1)
        lines = await asyncio.to_thread(source.take, wanted)
        for line in lines:
            entry = f"{number}\t{line}"
            if shown and size + len(entry) > MODEL_CAP:
                return shown
            shown.append(entry)
            size += len(entry) + 1
            number += 1
        if len(lines) < wanted:
            break
        bench.output(f"{number - 1:,} lines read\n")
    return shown


def _told(source: LineSource, shown: list[str], first: int) -> str:
    """The lines, and in brackets what they do not show."""
    total = source.total
    last = first + len(shown) - 1
    if not shown:
        if total == 0:
            return "[the file is empty]"
        raise ToolError(
            f"start_line {first} is beyond the end: the file has {total or 0:,} lines.", "out_of_range"
        )
    notes = list(source.notes)
    if total is None or first > 1 or last < total:
        notes.insert(0, f"lines {first}-{last}" + ("" if total is None else f" of {total:,}"))
    if total is None or last < total:
        notes.append(f"go on with start_line={last + 1}")
    return "\n".join([*shown, f"[{'; '.join(notes)}]"] if notes else shown)
