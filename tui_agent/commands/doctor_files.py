"""Doctor's look at our files, the programs of this machine, and the terminal. Blocks; nothing is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tui_agent import paths
from tui_agent.commands.findings import Finding, Findings
from tui_agent.commands.page import bytes_shown
from tui_agent.commands.reaching import Configured
from tui_agent.safety import kept as kept_store
from tui_agent.tools.search_program import find_ripgrep

PROGRAM_SECONDS = 3.0
"""For a program to say its version."""
LOW_SPACE = 200_000_000
"""Free bytes below which a session may soon not be kept any more."""
_COUNTED = 20_000
"""Files of the data folder whose sizes are added up at most."""


def files(found: Configured) -> list[Finding]:
    """Settings, models.json, trust, the data folder."""
    look = Findings("Files")
    _settings(look, found)
    _models(look, found)
    if found.trusted:
        look.add("ok", "trust", f"{found.workspace} is trusted")
    else:
        text = f"{found.workspace} is not trusted: no AGENTS.md, no settings, no git of it are read"
        look.add("note", "trust", text, "The first session here asks; `exec` takes --trust.")
    for kept in (paths.trust_file(), paths.grants_file()):
        if kept.exists() and not kept_store.read(kept):
            advice = "Look at it, or move it away: nothing more is kept in it as it is."
            look.add("warn", kept.name, f"{kept} is empty or damaged, so it counts for nothing", advice)
    _data(look)
    return look.found


def _settings(look: Findings, found: Configured) -> None:
    for problem in found.loaded.problems:
        state, advice = (
            ("warn", "") if problem.ignored else ("bad", "Correct it: no session starts like this.")
        )
        look.add(state, "settings", str(problem), advice)  # type: ignore[arg-type]  # both are states
    if not found.loaded.problems:
        file = paths.config_file()
        text = str(file) if file.exists() else f"all as built in; {file} is not there"
        look.add("ok", "settings", text)


def _models(look: Findings, found: Configured) -> None:
    read, file = found.catalog_read, paths.models_file()
    for problem in read.problems:
        advice = "" if problem.ignored else "Correct it: until then the built-in list counts."
        look.add("warn" if problem.ignored else "bad", "models.json", str(problem), advice)
    if read.missing:
        look.add("note", "models.json", f"{file} is not there yet; the first session makes it")
    elif read.catalog is not None and not read.problems:
        count = len(read.catalog.models)
        look.add("ok", "models.json", f"{file}, {count} model{'' if count == 1 else 's'}")


def _data(look: Findings) -> None:
    folder = paths.data_dir()
    at = folder
    while not at.exists() and at != at.parent:
        at = at.parent
    if not at.is_dir() or not os.access(at, os.W_OK | os.X_OK):
        advice = "Make it writable, or set TUI_AGENT_HOME to another folder."
        look.add("bad", "data folder", f"{folder} can't be written, so no session can be kept", advice)
        return
    free = shutil.disk_usage(at).free
    size, sessions = _size(folder)
    text = f"{folder}, {bytes_shown(size)} in {sessions} session{'' if sessions == 1 else 's'}"
    if free < LOW_SPACE:
        advice = "Make room: a session stops when nothing can be saved."
        look.add("warn", "data folder", f"{text}; only {bytes_shown(free)} are free on its disk", advice)
    else:
        look.add("ok", "data folder", f"{text}; {bytes_shown(free)} free")


def _size(folder: Path) -> tuple[int, int]:
    """Bytes of the files below `folder`, and how many sessions it has."""
    size = count = 0
    for where, _, names in os.walk(folder):
        for name in names:
            count += 1
            try:
                size += os.lstat(os.path.join(where, name)).st_size
            except OSError:
                continue
        if count > _COUNTED:
            break
    try:
        sessions = sum(entry.is_dir() for entry in os.scandir(paths.sessions_dir()))
    except OSError:
        sessions = 0
    return size, sessions


# --- programs -------------------------------------------------------------------------------


def programs(found: Configured) -> list[Finding]:
    """ripgrep, git, and this program itself."""
    look = Findings("This machine")
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    look.add("ok", "system", system)
    search = find_ripgrep((found.workspace,))
    if search is None:
        advice = "Install it from your system's packages; without it our own, slower search is used."
        look.add("warn", "ripgrep", "rg is not on PATH", advice)
    else:
        look.add("ok", "ripgrep", _version(search) or str(search))
    git = program("git", found.workspace)
    if git is None:
        advice = "Install it: without it the agent knows no branches and no history."
        look.add("warn", "git", "git is not on PATH", advice)
    else:
        look.add("ok", "git", _version(git) or str(git))
    return look.found


def program(name: str, workspace: Path) -> Path | None:
    """A program on PATH that does not lie in the workspace (R-04)."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(entry) / name
        if os.path.isabs(entry) and path.is_file() and os.access(path, os.X_OK):
            real = Path(os.path.realpath(path))
            if not any(one.is_relative_to(workspace) for one in (path, real)):
                return path
    return None


def said(*argv: str) -> str:
    """The first line that a program prints; empty when it does not do so in time."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMUX", "LANG") if name in os.environ}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_SECONDS,
            start_new_session=True,
            env=kept,
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()[:200]


def _version(path: Path) -> str:
    number = re.search(r"\d+(\.\d+)+", said(str(path), "--version"))
    return f"{number[0]}, {path}" if number else ""


# --- the terminal ---------------------------------------------------------------------------


def terminal(workspace: Path, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """What the screen will find: kind, size, colours, letters, tmux, keys."""
    environ = os.environ if environ is None else environ
    look = Findings("Terminal")
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        look.add("note", "terminal", "none here; `tui-agent exec` needs none")
        return look.found
    term = environ.get("TERM", "")
    size = shutil.get_terminal_size()
    if term in ("", "dumb"):
        advice = "Set TERM to what your terminal is, such as xterm-256color."
        look.add("bad", "kind", f"TERM is {term or 'not set'}: nothing can be drawn", advice)
        return look.found
    look.add("ok", "kind", f"{term}, {size.columns} × {size.lines}")
    if size.columns < 60 or size.lines < 16:
        look.add("warn", "size", "small for diffs and questions", "Give it 80 × 24 or more.")
    _colours(look, term, environ)
    if "UTF" not in (sys.stdout.encoding or "").upper():
        advice = "Set LANG to a UTF-8 locale, such as C.UTF-8."
        look.add("warn", "letters", f"the encoding is {sys.stdout.encoding}", advice)
    if environ.get("TMUX"):
        _tmux(look, term, workspace)
    keys = keyboard()
    if keys == "kitty":
        look.add("ok", "keys", "all of them arrive apart (kitty protocol)")
    elif keys == "plain":
        look.add("note", "keys", "Shift+Enter arrives as Enter; Ctrl+J and Alt+Enter begin a new line")
    return look.found


def _colours(look: Findings, term: str, environ: Mapping[str, str]) -> None:
    if environ.get("NO_COLOR"):
        look.add("note", "colours", "switched off by NO_COLOR")
    elif environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        look.add("ok", "colours", "16 million")
    elif "256" in term or "kitty" in term or "direct" in term:
        look.add("note", "colours", "256", "COLORTERM=truecolor says that the terminal has more.")
    else:
        look.add(
            "warn", "colours", "few", "Set TERM to the variant with 256 colours, such as xterm-256color."
        )


def _tmux(look: Findings, term: str, workspace: Path) -> None:
    path = program("tmux", workspace)
    options = (
        {}
        if path is None
        else {
            name: said(str(path), "show-options", "-gv", name) for name in ("extended-keys", "set-clipboard")
        }
    )
    wrong = []
    if not term.startswith(("tmux", "screen-256", "xterm-256")):
        wrong.append("set -g default-terminal tmux-256color")
    if options.get("extended-keys") == "off":
        wrong.append("set -g extended-keys on")
    if options.get("set-clipboard") == "off":
        wrong.append("set -g set-clipboard on")
    if wrong:
        look.add(
            "warn", "tmux", "colours, keys or copying are held back", f"In ~/.tmux.conf: {'; '.join(wrong)}"
        )
    else:
        look.add("ok", "tmux", "inside it, and it is set up well")


def keyboard(seconds: float = 0.3) -> str:
    """`kitty` when the terminal answers that it knows that protocol, `plain` when it answers without, else empty."""
    import select
    import termios
    import tty

    answer = b""
    try:
        handle = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        before = termios.tcgetattr(handle)
        try:
            tty.setcbreak(handle, termios.TCSANOW)
            os.write(handle, b"\x1b[?u\x1b[c")
            while b"c" not in answer and select.select([handle], [], [], seconds)[0]:
                answer += os.read(handle, 256)
        finally:
            termios.tcsetattr(handle, termios.TCSAFLUSH, before)
    except (OSError, termios.error):
        return ""
    finally:
        os.close(handle)
    if not re.search(rb"\x1b\[\?[\d;]*c", answer):
        return ""
    return "kitty" if re.search(rb"\x1b\[\?\d+u", answer) else "plain"
