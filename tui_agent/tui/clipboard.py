"""Copies text to the clipboard, through the terminal (OSC 52) and through a local program."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tui_agent.text import pluralize, reveal

TIMEOUT = 2.0
"""Seconds that a clipboard program may take."""

TERMINAL_LIMIT = 74_000
"""Maximum bytes for OSC 52; several terminals silently drop longer texts."""

PASSED_VARIABLES: Final = (
    *("DISPLAY", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TMUX"),
    *("WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"),
)
"""Environment variables that clipboard programs get; pbcopy needs LANG to know the encoding."""

Which = Callable[[str], str | None]


def clipboard_commands(environment: Mapping[str, str], which: Which = shutil.which) -> list[list[str]]:
    """Return the commands of installed programs that can set the user's clipboard, the likeliest first.

    Over SSH, a program would set the clipboard of the wrong machine; only tmux forwards to the terminal.
    """
    commands: list[Sequence[str]] = []
    if environment.get("TMUX"):
        commands.append(("tmux", "load-buffer", "-w", "-"))
    if not (environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")):
        if sys.platform == "darwin":
            commands.append(("pbcopy",))
        if environment.get("WAYLAND_DISPLAY"):
            commands.append(("wl-copy",))
        if environment.get("DISPLAY"):
            commands += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        if environment.get("WSL_DISTRO_NAME"):
            commands.append(("clip.exe",))
    return [[path, *argv[1:]] for argv in commands if (path := which(argv[0]))]


async def copy_to_clipboard(
    text: str,
    to_terminal: Callable[[str], None],
    *,
    environment: Mapping[str, str] | None = None,
    which: Which = shutil.which,
) -> str:
    """Copy `text` through the terminal and through a program; return a message with the result.

    Only a program can confirm success; terminals never answer.
    """
    environment = os.environ if environment is None else environment
    size = pluralize(len(text), "character")
    if reveal(text) != text:
        size += ", some of them invisible or imitating others,"
    fits = len(text.encode("utf-8", "replace")) <= TERMINAL_LIMIT
    if fits:
        to_terminal(text)
    failed = ""
    for argv in clipboard_commands(environment, which):
        name = os.path.basename(argv[0])
        if await _run(argv, text, environment):
            where = "tmux's buffer" if name == "tmux" else f"the clipboard with {name}"
            return f"copied {size} to {where}"
        failed = f"{name} failed · "
    if fits:
        return f"{failed}sent {size} to the terminal, unconfirmed"
    return f"{failed}not copied: {size} are too many for the terminal"


async def _run(argv: Sequence[str], text: str, environment: Mapping[str, str]) -> bool:
    """Return True if the program succeeded. Some stay alive to serve the clipboard, so their output is not read."""
    codec = "utf-16-le" if argv[0].endswith("clip.exe") else "utf-8"
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
            env={name: environment[name] for name in PASSED_VARIABLES if name in environment},
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(TIMEOUT):
            await child.communicate(text.encode(codec, "replace"))
        return child.returncode == 0
    except (TimeoutError, OSError):
        with suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.transport.abort()  # a grandchild may hold the other end open
        await child.wait()
        return False
