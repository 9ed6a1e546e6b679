"""What file tools share: permission to read, and file bytes with a hash."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tui_agent.common.domain import ReadAction, Target
from tui_agent.platform.file_faults import FileFault, FileTooLargeError, NotRegularError
from tui_agent.platform.files import FileBytes, read_file
from tui_agent.tools.base import ToolContext, ToolError
from tui_agent.tools.wording import missing_text, shown_name

EDIT_CAP = 16 * 1024 * 1024
"""Bytes of a file that is held in memory; larger ones can be read in parts but not edited."""


async def permit_read(ctx: ToolContext, target: Target) -> None:
    """Ask where reading is not free (A4). Raises Refused."""
    if target.outside or target.credentials:
        await ctx.permit(
            ReadAction(
                path=str(target.path), display=target.display, outside=target.outside, credentials=target.credentials
            )
        )


async def bytes_of(target: Target) -> FileBytes:
    """The file's bytes. Raises ToolError."""
    return await asyncio.to_thread(_bytes_of, target)


def _bytes_of(target: Target) -> FileBytes:
    try:
        return read_file(target.path, EDIT_CAP, follow=False)
    except FileFault as fault:
        raise tool_error(fault, target) from fault


async def read_target(ctx: ToolContext, path: str) -> tuple[Target, FileBytes]:
    """Where `path` leads and the file's bytes, once reading it is allowed. Raises ToolError."""
    target = ctx.resolve(path)
    await permit_read(ctx, target)
    return target, await bytes_of(target)


def tool_error(fault: FileFault, target: Target) -> ToolError:
    """The same in the words of a tool, with advice."""
    name = shown_name(target.display)
    if fault.code == "not_found" and not os.path.lexists(target.path):
        return ToolError(missing_text(name, Path(target.path)), "file_not_found")
    if isinstance(fault, NotRegularError) and target.path.is_dir():
        return ToolError(f"{name} is a folder. Use list_files to see what is in it.", "not_regular")
    if isinstance(fault, FileTooLargeError):
        return ToolError(f"{name} has {fault.size:,} bytes; files above {EDIT_CAP:,} can't be edited.", "too_large")
    return ToolError(str(fault).replace(str(target.path), name), fault.code)


def name_of(target: Target) -> str:
    """The file as the model knows it."""
    return shown_name(target.display)
