"""`/copy` and `/export`: what the user takes out of a session, to the clipboard or into a file (R12.5, S3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from tui_agent.paths import sessions_dir
from tui_agent.text import one_line
from widgets.transcript import Transcript

if TYPE_CHECKING:
    from tui_agent.export.reading import Format
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.door import SessionDoor

FORMATS: dict[str, Format] = {"html": "html", "markdown": "markdown", "md": "markdown"}


def copy(app: TuiAgentApp, words: str) -> None:
    """Copy the last reply (again: its code), code block `N` of it, the plan, or all that was said."""
    from tui_agent.tui.commands import copy as put

    what, _, rest = words.partition(" ")
    transcript = app.query_one(Transcript)
    if not what:
        if transcript.select_last():
            app.run_worker(put(app, transcript.selected_text), exit_on_error=False)
        else:
            app.hints.say("there is no reply to copy")
    elif what == "code":
        _copy_code(app, transcript, rest.strip())
    elif what == "plan" and not rest:
        if app.view.plan.text.strip():
            app.run_worker(put(app, app.view.plan.text, "plan · "), exit_on_error=False)
        else:
            app.hints.say("this session has no plan to copy")
    elif what == "all" and not rest:
        if app.session is not None:
            app.run_worker(_copy_all(app, app.session), exit_on_error=False)
    else:
        app.hints.say("/copy takes code N, plan or all; nothing for the last reply")


def _copy_code(app: TuiAgentApp, transcript: Transcript, number: str) -> None:
    from tui_agent.tui.commands import copy as put

    if number and not (number.isascii() and number.isdecimal() and 0 < int(number[:9]) < 10**8):
        app.hints.say("/copy code takes the number of a code block, counted from 1")
        return
    what, count = transcript.select_code(int(number[:9]) if number else 0)
    if what:
        app.run_worker(put(app, transcript.selected_text, f"{what} · "), exit_on_error=False)
    elif count:
        blocks = "one code block" if count == 1 else f"{count} code blocks"
        app.hints.say(f"there is no code block {number}: that reply has {blocks}")
    else:
        app.hints.say("there is no code to copy")


async def _copy_all(app: TuiAgentApp, session: SessionDoor) -> None:
    from tui_agent.export.reading import export
    from tui_agent.tui.commands import copy as put

    def gather() -> str:
        return "".join(export(sessions_dir() / session.id, "markdown", session.mask))

    app.hints.say("gathering the session …")
    try:
        text = await asyncio.to_thread(gather)
    except OSError as error:
        app.hints.say(f"not copied: the session can't be read: {error.strerror}")
        return
    await put(app, text, "the session · ")


def export(app: TuiAgentApp, words: str) -> None:
    """Write the session to a file, as markdown unless `html` or the file's name says otherwise."""
    if app.session is None:
        return
    first, _, rest = words.partition(" ")
    form = FORMATS.get(first)
    app.run_worker(_export(app, app.session, form, rest.strip() if form else words), exit_on_error=False)


async def _export(app: TuiAgentApp, session: SessionDoor, form: Format | None, name: str) -> None:
    from tui_agent.export import writing
    from tui_agent.tui.rescue import readable

    def write(folder: Path) -> Path:
        wanted = form or writing.form_of(name) or "markdown"
        path = writing.target(name, Path(app.view.workspace), session.id, wanted)
        writing.write(folder, wanted, session.mask, path)
        return path

    app.hints.say("writing the session …")
    try:
        async with readable(app, session) as folder:
            path = await asyncio.to_thread(write, folder)
    except writing.NotWritten as error:
        app.hints.say(str(error))
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # a name that no file can have, a home that nobody has
        app.hints.say(f"not written: {one_line(str(error), 200)}")
    else:
        workspace = Path(app.view.workspace)
        app.hints.say(f"written to {path.relative_to(workspace) if path.is_relative_to(workspace) else path}")
