"""The clipboard, through the terminal (OSC 52) and a local program, and what is known of the result."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from tui_agent.text import count_of

SECONDS = 2.0
"""After this a helper is given up."""

TERMINAL_LIMIT = 74_000
"""Bytes that terminals take by OSC 52; several drop what is longer without a word."""

KEPT: Final = (
    "DISPLAY",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "PATH",
    "TMPDIR",
    "TMUX",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
)
"""The environment that a helper gets; a Mac's pbcopy needs LANG to know the encoding."""

Which = Callable[[str], str | None]


def helpers(environment: Mapping[str, str], which: Which = shutil.which) -> list[list[str]]:
    """Programs that can set the clipboard the user has before them, the likeliest first.

    Over SSH a program here would set another machine's clipboard; tmux hands on to the terminal.
    """
    found: list[Sequence[str]] = []
    if environment.get("TMUX"):
        found.append(("tmux", "load-buffer", "-w", "-"))
    if not (environment.get("SSH_CONNECTION") or environment.get("SSH_TTY")):
        if sys.platform == "darwin":
            found.append(("pbcopy",))
        if environment.get("WAYLAND_DISPLAY"):
            found.append(("wl-copy",))
        if environment.get("DISPLAY"):
            found += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        if environment.get("WSL_DISTRO_NAME"):
            found.append(("clip.exe",))
    return [[path, *argv[1:]] for argv in found if (path := which(argv[0]))]


async def copy_to_clipboard(
    text: str,
    to_terminal: Callable[[str], None],
    *,
    environment: Mapping[str, str] | None = None,
    which: Which = shutil.which,
) -> str:
    """Put `text` on the clipboard in every way there is; returns a sentence with what is known of the result.

    Only a helper that ended well confirms anything; a terminal never answers.
    """
    environment = os.environ if environment is None else environment
    size = len(text)
    much = count_of(size, "character")
    fits = len(text.encode("utf-8", "replace")) <= TERMINAL_LIMIT
    if fits:
        to_terminal(text)
    failed = ""
    for argv in helpers(environment, which):
        name = os.path.basename(argv[0])
        if await _run(argv, text, environment):
            where = "tmux's buffer" if name == "tmux" else f"the clipboard with {name}"
            return f"copied {much} to {where}"
        failed = f"{name} failed · "
    if fits:
        return f"{failed}sent {much} to the terminal, unconfirmed"
    return f"{failed}not copied: {much} are too many for the terminal"


async def _run(argv: Sequence[str], text: str, environment: Mapping[str, str]) -> bool:
    """True when the helper took it all. Some stay alive to serve the clipboard, so nothing waits for their output."""
    codec = "utf-16-le" if argv[0].endswith("clip.exe") else "utf-8"
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
            env={name: environment[name] for name in KEPT if name in environment},
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(SECONDS):
            await child.communicate(text.encode(codec, "replace"))
        return child.returncode == 0
    except (TimeoutError, OSError):
        with suppress(ProcessLookupError):
            child.kill()
        if child.stdin is not None and not child.stdin.is_closing():
            child.stdin.transport.abort()  # a child of the child may hold the other end open
        await child.wait()
        return False
