"""write_file: create a file, or replace one that the model has read."""

from __future__ import annotations

import asyncio
import os

from tui_agent.common.domain import Mode, Target, ToolResult
from tui_agent.platform.encoding import NotText, decode
from tui_agent.platform.files import FileBytes
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import display_name, read_bytes
from tui_agent.tools.partial_edits import LineEnds


class WriteFileArgs(Args):
    """See write_file.md."""

    path: str
    content: str


class WriteFile(Tool[WriteFileArgs]):
    """Writes a file."""

    name = "write_file"
    args = WriteFileArgs
    reads_only = False
    modes = (Mode.AGENT, Mode.DIRECT)
    timeout = 15.0

    async def run(self, args: WriteFileArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path)
        before, note = None, ""
        if await asyncio.to_thread(os.path.lexists, target.path):
            file = await read_bytes(target)
            after, note = await asyncio.to_thread(_encode_like, file.data, args.content)
            if after == file.data and _may_confirm_content(ctx, target):
                ctx.mark_seen(target.path, file.sha256, file.data)
                return ToolResult(success=True, data=f"{display_name(target)} already has exactly this content.")
            _check_seen(ctx, target, file)
            before = file.data
        else:
            after = _encode(args.content)
        written = await ctx.edit(target, before, after)
        verb = "Created" if before is None else "Overwrote"
        text = f"{verb} {written.change.display}{note} {written.note}"
        return ToolResult(success=True, data=text, changes=(written.change,))


def _check_seen(ctx: ToolContext, target: Target, file: FileBytes) -> None:
    """Refuse to overwrite content the model has not seen."""
    seen = ctx.last_seen(target.path)
    if seen is None and file.data:
        raise ToolError(
            f"{display_name(target)} exists and you have not read it. "
            "Read it first, or use edit_file to change a part.",
            "not_read",
        )
    if seen is not None and seen != file.sha256:
        raise ToolError(
            f"{display_name(target)} changed on disk since you last saw it. Read it again before you overwrite it.",
            "changed",
        )


def _may_confirm_content(ctx: ToolContext, target: Target) -> bool:
    """True if the model may learn whether its guess of the content is right."""
    return ctx.last_seen(target.path) is not None or not (target.outside or target.credentials)


def _encode(content: str) -> bytes:
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolError(
            "content holds half a character (a lone surrogate). Write it out in full.", "encoding"
        ) from error


def _encode_like(data: bytes, content: str) -> tuple[bytes, str]:
    """Encode `content` with the encoding, byte order mark and line ends of the file it replaces."""
    try:
        old = decode(data)
    except NotText:
        return _encode(content), ""
    notes: list[str] = []
    if LineEnds(old.text).kinds == ["\r\n"] and "\r" not in content and "\n" in content:
        content = content.replace("\n", "\r\n")
        notes.append("CRLF line ends")
    if old.codec.errors == "strict" and (old.codec.bom or old.codec.name != "utf-8") and not old.codec.weak:
        try:
            after = old.codec.bom + old.codec.encode_new(content.removeprefix("\ufeff"))
        except UnicodeEncodeError:
            return _encode(content), ", now in utf-8"
        notes.append(old.codec.label)
        return after, f", kept {' and '.join(notes)}"
    return _encode(content), f", kept {' and '.join(notes)}" if notes else ""


TOOLS = (WriteFile(),)
