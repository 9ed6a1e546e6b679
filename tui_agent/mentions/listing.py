"""Listing the files of a workspace with ripgrep, or without it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import tui_agent
from tui_agent.checkpoints.survey import SKIPPED_FOLDERS
from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.gitignore import GitIgnore, sorted_entries
from tui_agent.tools.search_workspace import RIPGREP_OPTIONS, find_ripgrep

NEVER_MENTIONED = tuple(sorted(SKIPPED_FOLDERS))
"""Folders of programs, whose files nobody mentions; `.gitignore` excludes others."""

LISTING_TIMEOUT = 60.0
"""Seconds after which a listing is ended; the names found so far are used."""


class Listing:
    """Lists the files of several folders. Blocks; `stop` may be called from any thread."""

    def __init__(self, folders: tuple[Path, ...], *, program: Path | None = None) -> None:
        """`program` is the path of ripgrep; found automatically by default."""
        self._folders = folders
        self._program = program or find_ripgrep(folders)
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._stopped = False
        self.timed_out = False

    def names(self, folder: Path) -> Iterator[list[str]]:
        """Yield the files of one of the folders in batches, relative to it."""
        has_names = False
        if self._program is not None:
            options = [*RIPGREP_OPTIONS, *(f"--glob=!{name}" for name in NEVER_MENTIONED)]
            for names in self._run([str(self._program), *options, "--files", "--null", "--", "."], folder):
                has_names = True
                yield names
        if not has_names and not self._stopped:
            home = str(Path(tui_agent.__file__).parent.parent)
            load = "from tui_agent.mentions.listing import print_files; print_files()"
            code = f"import sys; sys.path.insert(0, {home!r}); {load}"
            yield from self._run([sys.executable, "-I", "-c", code, str(folder)], folder)

    def _run(self, argv: list[str], folder: Path) -> Iterator[list[str]]:
        """Yield the NUL-terminated names that a program prints; nothing if it can't be run."""
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
        timer = threading.Timer(LISTING_TIMEOUT, self._on_timeout)
        timer.daemon = True
        timer.start()
        try:
            assert child.stdout is not None
            remainder = b""
            while data := os.read(child.stdout.fileno(), 1 << 15):
                *complete, remainder = (remainder + data).split(b"\0")
                if complete:
                    yield [name.decode("utf-8", "surrogateescape").removeprefix("./") for name in complete]
        finally:
            timer.cancel()
            self._kill()
            child.stdout.close()  # type: ignore[union-attr]  # it is a pipe
            child.wait()

    def _on_timeout(self) -> None:
        self.timed_out = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._child is not None and self._child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._child.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the listing."""
        with self._lock:
            self._stopped = True
        self._kill()


MAX_DEPTH = 100


def print_files() -> int:
    """Print the files of the folder `argv[1]` (the fallback without ripgrep); return the exit code."""
    root = Path(sys.argv[1])
    out = sys.stdout.buffer
    try:
        for name in list_files(root):
            out.write(os.fsencode(name) + b"\0")
        out.flush()
    except BrokenPipeError:
        os._exit(0)
    return 0


def list_files(root: Path) -> Iterator[str]:
    """Yield the files below `root`, breadth first, without links and unreadable folders."""
    queue = deque([("", GitIgnore.at(root), 0)])
    while queue:
        prefix, rules, depth = queue.popleft()
        try:
            with open_folder(root / prefix) as fd:
                entries = [
                    (entry.name, entry.is_dir(follow_symlinks=False), entry.is_file(follow_symlinks=False))
                    for entry in sorted_entries(fd)
                ]
        except OSError:
            continue
        parts = tuple(prefix.split("/")[:-1])
        for name, is_folder, is_file in entries:
            if not (is_folder or is_file) or name in NEVER_MENTIONED or rules.ignores((*parts, name), is_folder):
                continue
            if not is_folder:
                yield prefix + name
            elif depth < MAX_DEPTH:
                queue.append((f"{prefix}{name}/", rules.below(root / prefix / name), depth + 1))
