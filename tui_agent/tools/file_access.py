"""Shared functions of the file tools: permission to read, and reading files with a hash."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tui_agent.common.domain import ReadAction, Target
from tui_agent.platform.file_faults import FileFault, FileTooLargeError, NotRegularError
from tui_agent.platform.files import FileBytes, read_file
from tui_agent.tools.base import ToolContext, ToolError
from tui_agent.tools.wording import missing_file_message, printable_name

MAX_EDIT_SIZE = 16 * 1024 * 1024
"""Maximum size of a file read into memory; larger ones can be read in parts but not edited."""


async def permit_read(ctx: ToolContext, target: Target) -> None:
    """Ask for permission to read files that need it (A4). Raises ToolRefused."""
    if target.outside or target.credentials:
        await ctx.permit(
            ReadAction(
                path=str(target.path), display=target.display, outside=target.outside, credentials=target.credentials
            )
        )


async def read_bytes(target: Target) -> FileBytes:
    """Read the file. Raises ToolError."""
    return await asyncio.to_thread(_read_bytes, target)


def _read_bytes(target: Target) -> FileBytes:
    try:
        return read_file(target.path, MAX_EDIT_SIZE, follow=False)
    except FileFault as fault:
        raise tool_error(fault, target) from fault


async def read_target(ctx: ToolContext, path: str) -> tuple[Target, FileBytes]:
    """Resolve a path, ask for permission and read the file. Raises ToolError."""
    target = ctx.resolve(path)
    await permit_read(ctx, target)
    return target, await read_bytes(target)


def tool_error(fault: FileFault, target: Target) -> ToolError:
    """Convert a file error to a ToolError with advice for the model."""
    name = printable_name(target.display)
    if fault.code == "not_found" and not os.path.lexists(target.path):
        return ToolError(missing_file_message(name, Path(target.path)), "file_not_found")
    if isinstance(fault, NotRegularError) and target.path.is_dir():
        return ToolError(f"{name} is a folder. Use list_files to see what is in it.", "not_regular")
    if isinstance(fault, FileTooLargeError):
        return ToolError(
            f"{name} has {fault.size:,} bytes; files above {MAX_EDIT_SIZE:,} can't be edited.", "too_large"
        )
    return ToolError(str(fault).replace(str(target.path), name), fault.code)


def display_name(target: Target) -> str:
    """Return the file's displayed name."""
    return printable_name(target.display)
