"""A text in the user's own editor, which has the terminal until it ends (A3)."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

FALLBACKS = ("nano", "vi")
TEXT_MAX = 4 << 20
"""Bytes that are taken from an editor."""


class NotEdited(Exception):
    """There is no other text; the message says why."""


def edited(text: str, name: str) -> str:
    """`text` as the user saves it, in a file that ends like `name`. Raises NotEdited."""
    argv = _editor()
    if not argv:
        raise NotEdited("No editor was found. Set EDITOR to yours.")
    with tempfile.TemporaryDirectory(prefix="tui-agent-") as folder:
        path = Path(folder) / f"part{os.path.splitext(name)[1]}"
        path.write_text(f"{text}\n", encoding="utf-8", errors="surrogateescape", newline="")
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is the editor's
        try:
            code = subprocess.run([*argv, str(path)], check=False).returncode
            data = path.read_bytes()
        except OSError as error:
            raise NotEdited(f"{argv[0]} can't be used: {error.strerror}.") from error
        finally:
            signal.signal(signal.SIGINT, before)
    if code:
        raise NotEdited(f"{argv[0]} ended with {code}; nothing was changed.")
    if len(data) > TEXT_MAX:
        raise NotEdited("What was saved is too long; nothing was changed.")
    return data.decode("utf-8", "surrogateescape").removesuffix("\n")


def _editor() -> list[str]:
    for name in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):  # a quote without its end
            if argv := shlex.split(os.environ.get(name, "")):
                return argv
    return next(([path] for name in FALLBACKS if (path := shutil.which(name))), [])
