"""`/copy` and `/export`: copy parts of the session, or write it to a file (S3)."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.common.paths import sessions_dir
from tui_agent.platform.temporary import TemporaryFolder
from tui_agent.storage.folder import JOURNAL
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi
    from tui_agent.export.session import Format


@asynccontextmanager
async def export_source(app: BaseApp, session: SessionApi) -> AsyncIterator[Path]:
    """Yield the session's folder, or a complete copy of it while saving fails. Raises OSError."""
    if not app.activity.trouble:
        yield sessions_dir() / session.id
        return
    temporary = await to_thread(TemporaryFolder, "export")
    try:
        folder = temporary.path / session.id
        folder.mkdir(0o700)
        await session.copy_journal(folder / JOURNAL)
        yield folder
    finally:
        await to_thread(temporary.remove)


FORMATS: dict[str, Format] = {"html": "html", "markdown": "markdown", "md": "markdown"}


def copy_part(app: BaseApp, arguments: str) -> None:
    """Copy the last reply (again: its code), code block `N` of it, the plan, or the whole conversation."""
    what, _, number = arguments.partition(" ")
    transcript = app.transcript
    if not what:
        if transcript.select_last():
            app.work(app.copy_text, transcript.selected_text)
        else:
            app.hints.show("there is no reply to copy")
    elif what == "code":
        _copy_code(app, transcript, number.strip())
    elif what == "plan" and not number:
        if app.view.plan.text.strip():
            app.work(app.copy_text, app.view.plan.text, "plan · ")
        else:
            app.hints.show("this session has no plan to copy")
    elif what == "all" and not number:
        if app.session is not None:
            app.work(_copy_all, app, app.session)
    else:
        app.hints.show("use /copy with code N, plan or all; alone it copies the last reply")


def _copy_code(app: BaseApp, transcript: Transcript, number: str) -> None:
    if number and not (number.isascii() and number.isdecimal() and 0 < int(number[:9]) < 10**8):
        app.hints.show("/copy code needs the number of a code block, counted from 1")
        return
    label, count = transcript.select_code(int(number[:9]) if number else 0)
    if label:
        app.work(app.copy_text, transcript.selected_text, f"{label} · ")
    elif count:
        blocks = "one code block" if count == 1 else f"{count} code blocks"
        app.hints.show(f"there is no code block {number}: that reply has {blocks}")
    else:
        app.hints.show("no code to copy")


async def _copy_all(app: BaseApp, session: SessionApi) -> None:
    from tui_agent.export.session import export_session

    def export() -> str:
        return "".join(export_session(sessions_dir() / session.id, "markdown", session.mask))

    app.hints.show("collecting the session …")
    try:
        text = await asyncio.to_thread(export)
    except OSError as error:
        app.hints.show(f"not copied: the session can't be read: {error.strerror}")
        return
    await app.copy_text(text, "the session · ")


def export_to_file(app: BaseApp, arguments: str) -> None:
    """Write the session to a file, as Markdown unless `html` or the file's name says otherwise."""
    if app.session is None:
        return
    first, _, name = arguments.partition(" ")
    format = FORMATS.get(first)
    app.work(_export, app, app.session, format, name.strip() if format else arguments)


async def _export(app: BaseApp, session: SessionApi, format: Format | None, name: str) -> None:
    from tui_agent.export.session import ExportError, export_format, export_target, write_export

    def write(folder: Path) -> Path:
        actual = format or export_format(name) or "markdown"
        path = export_target(name, Path(app.view.workspace), session.id, actual)
        write_export(folder, actual, session.mask, path)
        return path

    app.hints.show("writing the session …")
    try:
        async with export_source(app, session) as folder:
            path = await asyncio.to_thread(write, folder)
    except ExportError as error:
        app.hints.show(str(error))
    except (OSError, ValueError, RuntimeError) as error:  # an invalid file name, an unknown home directory
        app.hints.show(f"not written: {one_line(str(error), 200)}")
    else:
        workspace = Path(app.view.workspace)
        app.hints.show(f"written to {path.relative_to(workspace) if path.is_relative_to(workspace) else path}")
