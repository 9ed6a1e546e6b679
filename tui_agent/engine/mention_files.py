"""All files of a folder that git would not ignore, as they are found: by ripgrep where there is one (H7, T4)."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import tui_agent
from tui_agent.tools.search_program import OPTIONS, find_ripgrep

SECONDS = 60.0
"""After which a listing is ended; what was found until then counts."""


class Listing:
    """One listing of several folders. Reading blocks; `stop` may be called from any thread."""

    def __init__(self, folders: tuple[Path, ...], *, program: Path | None = None) -> None:
        """`program`: ripgrep; it is looked for otherwise."""
        self._folders = folders
        self._program = program or find_ripgrep(folders)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.late = False
        """It was ended before it was complete."""

    def names(self, folder: Path) -> Iterator[list[str]]:
        """The files of one of the folders, relative to it, some at a time."""
        found = False
        if self._program is not None:
            for names in self._run([str(self._program), *OPTIONS, "--files", "--null", "--", "."], folder):
                found = True
                yield names
        if not found and not self._stopped:
            home = str(Path(tui_agent.__file__).parent.parent)
            code = (
                f"import sys; sys.path.insert(0, {home!r}); "
                "from tui_agent.engine.mention_walk import main; sys.exit(main())"
            )
            yield from self._run([sys.executable, "-I", "-c", code, str(folder)], folder)

    def _run(self, argv: list[str], folder: Path) -> Iterator[list[str]]:
        """What a program prints, cut at its NULs. One that can't be run prints nothing."""
        with self._lock:
            if self._stopped:
                return
            try:
                self._child = child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=folder,
                    env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                    start_new_session=True,
                )
            except OSError:
                return
        watch = threading.Timer(SECONDS, self._end_late)
        watch.daemon = True
        watch.start()
        try:
            assert child.stdout is not None
            rest = b""
            while piece := os.read(child.stdout.fileno(), 1 << 15):
                *whole, rest = (rest + piece).split(b"\0")
                if whole:
                    names = [one.decode("utf-8", "surrogateescape") for one in whole]
                    yield [one.removeprefix("./") for one in names]
        finally:
            watch.cancel()
            self._kill()
            child.stdout.close()  # type: ignore[union-attr]  # it was asked for
            child.wait()

    def _end_late(self) -> None:
        self.late = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it now."""
        with self._lock:
            self._stopped = True
        self._kill()
