"""Opens the draft, or a file at a line, in the user's editor, which gets the terminal until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
import termios
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from textual.app import SuspendNotSupported

from tui_agent.platform.programs import editor_at_line, editor_command
from tui_agent.text import one_line
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.composer_files import EDITOR_PREFIX, read_editor_file
from widgets.composer_history import DraftText, becomes_chip
from widgets.prompt_input import PromptInput

STOP_SECONDS: Final = 1.0
"""Seconds that the editor has to end when the program ends."""
RESET_MODES: Final = b"\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1049l\x1b[?25h\x1b[0m"
"""Switches off the modes that a killed editor leaves on."""


async def edit_draft(
    app: BaseApp, folder: Path | None, save_text: Callable[[str], bool], environment: Mapping[str, str] = os.environ
) -> None:
    """Let the user edit the draft in a file in `folder`, and put the result into the composer.

    If the editor fails, the draft stays and the edited text goes to the history. If the program ends first,
    `save_text` saves the text; if it returns False, the file stays.
    """
    prompt = app.prompt
    argv = editor_command(environment)
    if not argv:
        app.hints.show("no editor found · set EDITOR to yours")
        return
    draft = prompt.draft
    original = draft.full_text
    try:
        path = await asyncio.to_thread(_create_file, folder, original)
    except OSError as error:
        app.hints.show(f"the draft could not be written: {error.strerror}")
        return
    try:
        with app.suspend():
            problem = await _run([*argv, str(path)])
        app.screen.refresh(layout=True)
        text = _strip_final_newline(await asyncio.to_thread(read_editor_file, path), original)
    except SuspendNotSupported:
        app.hints.show("can't open an editor in this terminal")
    except asyncio.CancelledError:  # the program ends
        text = _strip_final_newline(read_editor_file(path), original)
        if not text or text == original or save_text(text):
            _delete(path)
        raise
    else:
        app.hints.show(_apply_result(prompt, draft, text, problem))
    _delete(path)


async def open_at_line(app: BaseApp, path: str, line: int, environment: Mapping[str, str] = os.environ) -> None:
    """Open a file in the user's editor, at a line unless that is 0, and show a hint if that fails."""
    argv = editor_command(environment)
    if not argv:
        app.hints.show("no editor found · set EDITOR to yours")
        return
    try:
        with app.suspend():
            problem = await _run(editor_at_line(argv, path, line))
    except SuspendNotSupported:
        problem = "can't open an editor in this terminal"
    app.screen.refresh(layout=True)
    if problem:
        app.hints.show(problem)


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _strip_final_newline(text: str | None, original: str) -> str | None:
    """Remove the line feed that editors add to the end of a file."""
    return text if text is None or original.endswith("\n") else text.removesuffix("\n")


def _apply_result(prompt: PromptInput, draft: DraftText, text: str | None, problem: str) -> str:
    """Put the edited text into the composer, or into the history after a failure; return a hint for the user."""
    changed = text is not None and text != draft.full_text
    if not problem:
        if not changed or text is None:
            return "nothing changed"
        prompt.put(with_chips(text, draft))
        return "text from your editor"
    if changed and text:
        prompt.add_to_history(DraftText(text=text))
        return f"{problem} · its text is in the history · up"
    return f"{problem} · the draft is unchanged"


def with_chips(text: str, draft: DraftText) -> DraftText:
    """Return `text` with the unchanged long pastes of `draft` as chips again."""
    for label, paste in sorted(draft.chips.items(), key=lambda chip: -len(chip[1])):
        if becomes_chip(paste):
            text = text.replace(paste, label, 1)
    return DraftText(text=text, chips=draft.chips)


async def _run(argv: list[str]) -> str:
    """Run the editor; return why it failed, or "".

    It runs in our process group, so that Ctrl+Z stops both, as the shell expects.
    """
    with _ignored_signals(), _restored_terminal():
        try:
            child = await asyncio.create_subprocess_exec(*argv)
        except OSError as error:
            return one_line(f"{os.path.basename(argv[0])} could not be started: {error.strerror}", 200)
        try:
            code = await child.wait()
        except asyncio.CancelledError:
            await _stop(child)
            raise
    return f"the editor ended with {code}" if code else ""


async def _stop(child: Process) -> None:
    for send_signal in (child.terminate, child.kill):
        with contextlib.suppress(ProcessLookupError):
            send_signal()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), STOP_SECONDS)
            return


@contextlib.contextmanager
def _ignored_signals() -> Iterator[None]:
    """Leave Ctrl+C and Ctrl+\\ to the editor. They get a handler, since it would inherit SIG_IGN."""
    previous = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _restored_terminal() -> Iterator[None]:
    """Restore the terminal's attributes, modes and foreground process group after the editor."""
    attributes: list[Any] | None = None
    with contextlib.suppress(termios.error, OSError):
        attributes = termios.tcgetattr(0)
    try:
        yield
    finally:
        previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(termios.error, OSError):
            os.tcsetpgrp(0, os.getpgrp())
            if attributes is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, attributes)
                os.write(2, RESET_MODES)
        signal.signal(signal.SIGTTOU, previous)


def _create_file(folder: Path | None, text: str) -> Path:
    """Create a private file (0600) with the text, in the session's folder if there is one."""
    handle, name = tempfile.mkstemp(prefix=EDITOR_PREFIX, suffix=".md", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
    return Path(name)
