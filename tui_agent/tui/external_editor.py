"""The composer's files: a draft in the session's folder, a history for each workspace. Exact, and private (0600).

All functions block. A file that can't be read or written is a comfort less, never a failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import tempfile
import termios
from asyncio.subprocess import Process
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from textual.app import SuspendNotSupported

from tui_agent.common import paths
from tui_agent.platform.file_faults import FileFault
from tui_agent.platform.programs import editor_command
from tui_agent.text import clean, one_line
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.outbox import ComposerState
from widgets.composer_history import ENTRIES, DraftText, is_big
from widgets.prompt_input import PromptInput

FILE = "composer.json"
UNREAD = "composer-unread.json"
"""An unreadable file is renamed to this, so that it is not overwritten."""
EDITOR_PREFIX = f"prompt-{os.getpid()}-"
"""How the files begin that this process lends to an editor, in the session's folder."""
LARGEST = 64_000_000
"""Bytes of a draft that are read."""
HISTORY_BYTES = 6_000_000
"""Bytes of a history that are read; a file of twice the size is cut down to them."""
EDITOR_BYTES = 16_000_000
"""Bytes of a text that are read back from an editor."""
ENTRY_BYTES = 4_000_000
"""A longer message is in the history of its own process only."""

FILE_ERRORS = (OSError, ValueError, FileFault, paths.NoHome)
"""What can go wrong with a file of ours; a text that is no UTF-8 is a ValueError."""


def session_folder(session: str) -> Path | None:
    """Where a session lies; None when there is no such folder."""
    with contextlib.suppress(*FILE_ERRORS):
        folder = paths.sessions_dir() / Path(session).name
        if folder.is_dir():
            return folder
    return None


def read_state(session: str) -> ComposerState:
    """The saved state of this session's composer; empty when there is none. A file that can't be read is UNREAD
    afterwards, so that nothing is written over it."""
    folder = session_folder(session)
    if folder is None:
        return ComposerState()
    path = folder / FILE
    try:
        if path.stat().st_size <= LARGEST:
            return msgspec.json.decode(path.read_bytes(), type=ComposerState)
    except FileNotFoundError:
        return ComposerState()
    except FILE_ERRORS:
        pass
    with contextlib.suppress(*FILE_ERRORS):
        path.replace(folder / UNREAD)
    return ComposerState()


def write_state(session: str, kept: ComposerState) -> bool:
    """Replace it, whole or not at all; nothing to keep takes the file away. False when that failed."""
    from tui_agent.platform.files import atomic_write

    folder = session_folder(session)
    if folder is None:
        return True  # there is no session on disk that could be resumed
    try:
        if kept.empty:
            (folder / FILE).unlink(missing_ok=True)
        else:
            atomic_write(folder / FILE, msgspec.json.encode(kept))
    except FILE_ERRORS:
        return False
    return True


def find_editor_files(session: str) -> list[tuple[Path, str]]:
    """Files that were open in an editor when an earlier process died, with what was saved in them."""
    folder = session_folder(session)
    found: list[tuple[Path, str]] = []
    with contextlib.suppress(*FILE_ERRORS):
        for path in sorted(folder.glob("prompt-*.md")) if folder is not None else ():
            if not path.name.startswith(EDITOR_PREFIX) and (text := read_editor_file(path)) is not None:
                found.append((path, text))
    return found


def remove_editor_files(left: Iterable[tuple[Path, str]]) -> None:
    """Those are in the history now, but for what is too long for it."""
    for path, text in left:
        if fits(text):
            with contextlib.suppress(OSError):
                path.unlink()


def fits(text: str) -> bool:
    """True when an entry of the history can hold it for certain."""
    return len(text) <= ENTRY_BYTES // 5


def read_editor_file(path: Path) -> str | None:
    """What an editor left in a file; None when it can't be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return clean(file.read(EDITOR_BYTES).decode("utf-8", "replace"))
    return None


def history_file(workspace: str) -> Path:
    """The history of a workspace, named so that nothing of its path shows. Raises NoHome."""
    name = hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return paths.data_dir() / "history" / f"{name}.jsonl"


def append_history(workspace: str, new: Sequence[DraftText]) -> bool:
    """Add to a workspace's history; two processes may do so at once. False when that failed."""
    from tui_agent.platform.append import Appender

    try:
        path = history_file(workspace)
        paths.ensure_private_dir(path.parent)
        lines = [line for one in new if len(line := msgspec.json.encode(one) + b"\n") <= ENTRY_BYTES]
        appender = Appender(path)
        try:
            appender.append(lines)
        finally:
            appender.close()
    except FILE_ERRORS:
        return False
    return True


def read_history(workspace: str) -> list[DraftText]:
    """The newest ENTRIES of a workspace's history, oldest first. A line that is damaged is left out."""
    with contextlib.suppress(*FILE_ERRORS):
        path = history_file(workspace)
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - HISTORY_BYTES))
            data = file.read(HISTORY_BYTES)
        lines = data.split(b"\n")
        found = [one for line in lines[-ENTRIES - 1 :] if (one := _entry(line)) is not None]
        if size > 2 * HISTORY_BYTES:
            _cut(path, found)
        return found
    return []


def _entry(line: bytes) -> DraftText | None:
    with contextlib.suppress(ValueError):
        return msgspec.json.decode(line, type=DraftText)
    return None


def _cut(path: Path, found: Sequence[DraftText]) -> None:
    from tui_agent.platform.files import atomic_write

    atomic_write(path, b"".join(msgspec.json.encode(one) + b"\n" for one in found))


STOP_SECONDS: Final = 1.0
"""Seconds that an editor has to end when we must."""
RESET_MODES: Final = b"\x1b[?1l\x1b>\x1b[?2004l\x1b[?1000l\x1b[?1049l\x1b[?25h\x1b[0m"
"""Switches off the modes that a killed editor leaves on."""


class EditorExit(NamedTuple):
    """How an editor ended."""

    code: int
    trouble: str = ""
    """Why it never began."""


async def edit_draft(
    app: BaseApp, folder: Path | None, keep: Callable[[str], bool], environment: Mapping[str, str] = os.environ
) -> None:
    """Let the user edit the draft; what is saved comes back into the composer. Nothing is lost when it fails: the
    draft stays, and what the editor saved is in the history. `keep` saves the text if the program ends first."""
    prompt = app.prompt
    argv = editor_command(environment)
    if not argv:
        app.hints.say("no editor found · set EDITOR to yours")
        return
    before = prompt.written
    whole = before.whole
    try:
        path = await asyncio.to_thread(_write_file, folder, whole)
    except OSError as error:
        app.hints.say(f"the draft could not be written: {error.strerror}")
        return
    try:
        with app.suspend():
            ended = await _run([*argv, str(path)])
        app.screen.refresh(layout=True)
        text = await asyncio.to_thread(read_editor_file, path)
    except SuspendNotSupported:
        app.hints.say("can't open an editor in this terminal")
        text, ended = whole, None
    except asyncio.CancelledError:  # the program ends
        text = _without_end(read_editor_file(path), whole)
        if not text or text == whole or keep(text):
            _remove(path)
        raise
    _remove(path)
    if ended is not None:
        app.hints.say(_apply_result(prompt, before, whole, text, ended))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _without_end(text: str | None, whole: str) -> str | None:
    """Editors end a file with a line feed."""
    return text if text is None or whole.endswith("\n") else text.removesuffix("\n")


def _apply_result(prompt: PromptInput, before: DraftText, whole: str, text: str | None, ended: EditorExit) -> str:
    """What becomes of the text; a sentence for the user."""
    text = _without_end(text, whole)
    changed = text is not None and text != whole
    if not ended.code and not ended.trouble:
        if not changed or text is None:
            return "nothing changed"
        prompt.put(with_chips(text, before))
        return "text from your editor"
    why = ended.trouble or f"the editor ended with {ended.code}"
    if changed and text:
        prompt.remember(DraftText(text=text))
        return f"{why} · its text is in the history · up"
    return f"{why} · the draft is unchanged"


def with_chips(text: str, before: DraftText) -> DraftText:
    """`text` with those pastes as chips again that are in it as they were."""
    for label, paste in sorted(before.chips.items(), key=lambda chip: -len(chip[1])):
        if is_big(paste):
            text = text.replace(paste, label, 1)
    return DraftText(text=text, chips=before.chips)


async def _run(argv: list[str]) -> EditorExit:
    """Run it on our terminal, in our process group: it may stop us with it, as the shell expects."""
    with _editor_has_signals(), _editor_has_terminal():
        try:
            child = await asyncio.create_subprocess_exec(*argv)
        except OSError as error:
            return EditorExit(-1, one_line(f"{os.path.basename(argv[0])} could not be started: {error.strerror}", 200))
        try:
            return EditorExit(await child.wait())
        except asyncio.CancelledError:
            await _stop(child)
            raise


async def _stop(child: Process) -> None:
    for end in (child.terminate, child.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), STOP_SECONDS)
            return


@contextlib.contextmanager
def _editor_has_signals() -> Iterator[None]:
    """Ctrl+C and Ctrl+\\ are the editor's. They are caught, since what we ignored it would ignore too."""
    caught = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _editor_has_terminal() -> Iterator[None]:
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
                os.write(2, RESET_MODES)
        signal.signal(signal.SIGTTOU, ignored)


def _write_file(folder: Path | None, text: str) -> Path:
    """A file of its own (0600) with the text; in the session's folder if there is one."""
    handle, name = tempfile.mkstemp(prefix=EDITOR_PREFIX, suffix=".md", dir=folder)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
    return Path(name)
