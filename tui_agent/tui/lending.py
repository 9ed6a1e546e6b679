"""The draft in the user's own editor: the terminal is lent to it, and is ours again however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
import termios
from asyncio.subprocess import Process
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from textual.app import SuspendNotSupported

from tui_agent.text import one_line
from tui_agent.tui.composer_files import LENT, read_lent
from widgets.drafting import Written, is_big
from widgets.prompt_input import PromptInput

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp

FALLBACKS: Final = ("nano", "vim", "vi")
STOPPING: Final = 1.0
"""Seconds that an editor has to end when we must."""
AFTER: Final = b"\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1049l\x1b[?25h\x1b[0m"
"""Out of the modes that an editor leaves behind that was killed."""


class Ended(NamedTuple):
    """How an editor ended."""

    code: int
    trouble: str = ""
    """Why it never began."""


def editor(environment: Mapping[str, str], which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """The command that the user edits with, without the file; empty when there is none."""
    for name in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):  # a quote without its end
            if argv := shlex.split(environment.get(name, "")):
                return argv
    return next(([path] for name in FALLBACKS if (path := which(name))), [])


async def edit_draft(
    app: TuiAgentApp, prompt: PromptInput, folder: Path | None, environment: Mapping[str, str] = os.environ
) -> None:
    """Let the user edit the draft; what is saved comes back into the composer. Nothing is lost when it fails: the
    draft stays, and what the editor saved is in the history."""
    argv = editor(environment)
    if not argv:
        app.hints.say("no editor was found · set EDITOR to yours")
        return
    before = prompt.written
    whole = before.whole
    try:
        path = await asyncio.to_thread(_put, folder, whole)
    except OSError as error:
        app.hints.say(f"the draft could not be written: {error.strerror}")
        return
    try:
        with app.suspend():
            ended = await _run([*argv, str(path)])
        app.screen.refresh(layout=True)
        text = await asyncio.to_thread(read_lent, path)
    except SuspendNotSupported:
        app.hints.say("this terminal can't be lent to an editor")
        text, ended = whole, None
    except asyncio.CancelledError:  # the program ends
        text = _without_end(read_lent(path), whole)
        if not text or text == whole or app.composer.keep_edited(text):
            _remove(path)
        raise
    _remove(path)
    if ended is not None:
        app.hints.say(_settle(prompt, before, whole, text, ended))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _without_end(text: str | None, whole: str) -> str | None:
    """Editors end a file with a line feed."""
    return text if text is None or whole.endswith("\n") else text.removesuffix("\n")


def _settle(prompt: PromptInput, before: Written, whole: str, text: str | None, ended: Ended) -> str:
    """What becomes of the text; a sentence for the user."""
    text = _without_end(text, whole)
    changed = text is not None and text != whole
    if not ended.code and not ended.trouble:
        if not changed or text is None:
            return "nothing was changed"
        prompt.put(folded(text, before))
        return "this is what your editor saved"
    why = ended.trouble or f"the editor ended with {ended.code}"
    if changed and text:
        prompt.remember(Written(text=text))
        return f"{why} · what it saved is in the history · up"
    return f"{why} · the draft is as it was"


def folded(text: str, before: Written) -> Written:
    """`text` with those pastes as chips again that are in it as they were."""
    for label, paste in sorted(before.chips.items(), key=lambda chip: -len(chip[1])):
        if is_big(paste):
            text = text.replace(paste, label, 1)
    return Written(text=text, chips=before.chips)


async def _run(argv: list[str]) -> Ended:
    """Run it on our terminal, in our process group: it may stop us with it, as the shell expects."""
    with _its_signals(), _its_terminal():
        try:
            child = await asyncio.create_subprocess_exec(*argv)
        except OSError as error:
            return Ended(
                -1, one_line(f"{os.path.basename(argv[0])} could not be started: {error.strerror}", 200)
            )
        try:
            return Ended(await child.wait())
        except asyncio.CancelledError:
            await _stop(child)
            raise


async def _stop(child: Process) -> None:
    for end in (child.terminate, child.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), STOPPING)
            return


@contextlib.contextmanager
def _its_signals() -> Iterator[None]:
    """Ctrl+C and Ctrl+\\ are the editor's. They are caught, since what we ignored it would ignore too."""
    caught = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _its_terminal() -> Iterator[None]:
    """However the editor leaves the terminal, its settings and its foreground are as before."""
    attributes: list[Any] | None = None
    with contextlib.suppress(termios.error, OSError):
        attributes = termios.tcgetattr(0)
    try:
        yield
    finally:
        ignored = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with contextlib.suppress(termios.error, OSError):
            os.tcsetpgrp(0, os.getpgrp())
            if attributes is not None:
                termios.tcsetattr(0, termios.TCSADRAIN, attributes)
                os.write(2, AFTER)
        signal.signal(signal.SIGTTOU, ignored)


def _put(folder: Path | None, text: str) -> Path:
    """A file of its own (0600) with the text; in the session's folder if there is one."""
    handle, name = tempfile.mkstemp(prefix=LENT, suffix=".md", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
    return Path(name)
