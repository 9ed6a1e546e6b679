"""The user's own browser, opened on a link. Never one that would take the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def opener() -> str | None:
    """The program that opens an address on this desktop; None where there is no desktop, as over ssh."""
    if sys.platform == "darwin":
        return None if "SSH_CONNECTION" in os.environ else shutil.which("open")
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return shutil.which("xdg-open")


def show(link: str) -> bool:
    """Open it; False when that can't be done. The browser is the user's and outlives us, so it runs on its own."""
    program = opener()
    if program is None:
        return False
    try:
        subprocess.Popen(
            [program, link],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    return True
