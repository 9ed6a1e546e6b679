"""Doctor's checks of our files, the programs of this machine, the terminal and the language servers. They block."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from tui_agent.commands.output import bytes_shown
from tui_agent.commands.reaching import Configured
from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.lsp.languages import Language, ServerCommand, code_files, commands, language_of_file, languages
from tui_agent.platform.programs import find_program
from tui_agent.safety import decision_files as kept_store
from tui_agent.storage.catalog import folder_bytes
from tui_agent.storage.folder import session_folders
from tui_agent.text import count_of
from tui_agent.tools.search_workspace import find_ripgrep

State = Literal["ok", "note", "warn", "bad"]


class Finding(FrozenValue, frozen=True, kw_only=True):
    """One thing that was looked at. `bad` stands in the way of work; `warn` makes it worse; `note` just is so."""

    group: str
    name: str
    state: State
    text: str
    advice: str = ""
    """What to do about it."""


class FindingList:
    """Gathers findings of one group."""

    def __init__(self, group: str) -> None:
        self._group = group
        self.found: list[Finding] = []

    def add(self, state: State, name: str, text: str, advice: str = "") -> None:
        """One more."""
        self.found.append(Finding(group=self._group, name=name, state=state, text=text, advice=advice))


PROGRAM_SECONDS = 3.0
"""For a program to say its version."""
LOW_SPACE = 200_000_000
"""Free bytes below which a session may soon not be kept any more."""


def check_files(found: Configured) -> list[Finding]:
    """Settings, models.json, trust, the data folder."""
    look = FindingList("Files")
    _settings(look, found)
    _models(look, found)
    if found.trusted:
        look.add("ok", "trust", f"{found.workspace} is trusted")
    else:
        text = f"{found.workspace} is not trusted: its AGENTS.md, settings and git data are not read"
        look.add("note", "trust", text, "The first session here asks; for `exec`, use --trust.")
    for kept in (paths.trust_file(), paths.grants_file()):
        if kept.exists() and not kept_store.read_decisions(kept):
            advice = "Check the file or move it away: nothing is saved to it until then."
            look.add("warn", kept.name, f"{kept} is empty or damaged and is ignored", advice)
    _data(look)
    return look.found


def _settings(look: FindingList, found: Configured) -> None:
    for problem in found.loaded.problems:
        state: State = "warn" if problem.ignored else "bad"
        advice = "" if problem.ignored else "Fix it: sessions cannot start until then."
        look.add(state, "settings", str(problem), advice)
    if not found.loaded.problems:
        file = paths.config_file()
        text = str(file) if file.exists() else f"defaults; {file} does not exist"
        look.add("ok", "settings", text)


def _models(look: FindingList, found: Configured) -> None:
    read, file = found.catalog_read, paths.models_file()
    for problem in read.problems:
        advice = "" if problem.ignored else "Fix it: until then the built-in list is used."
        look.add("warn" if problem.ignored else "bad", "models.json", str(problem), advice)
    if read.missing:
        look.add("note", "models.json", f"{file} does not exist yet; the first session creates it")
    elif read.catalog is not None and not read.problems:
        look.add("ok", "models.json", f"{file}, {count_of(len(read.catalog.models), 'model')}")


def _data(look: FindingList) -> None:
    folder = paths.data_dir()
    at = folder
    while not at.exists() and at != at.parent:
        at = at.parent
    if not at.is_dir() or not os.access(at, os.W_OK | os.X_OK):
        advice = "Make it writable, or set TUI_AGENT_HOME to another folder."
        look.add("bad", "data folder", f"{folder} is not writable, so sessions cannot be saved", advice)
        return
    free = shutil.disk_usage(at).free
    sessions = count_of(len(list(session_folders(paths.sessions_dir()))), "session")
    text = f"{folder}, {bytes_shown(folder_bytes(folder))} in {sessions}"
    if free < LOW_SPACE:
        advice = "Free some space: a session stops when nothing can be saved."
        look.add("warn", "data folder", f"{text}; only {bytes_shown(free)} are free on its disk", advice)
    else:
        look.add("ok", "data folder", f"{text}; {bytes_shown(free)} free")


# --- programs -------------------------------------------------------------------------------


def check_programs(found: Configured) -> list[Finding]:
    """ripgrep, git, and this program itself."""
    look = FindingList("This machine")
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    look.add("ok", "system", system)
    search = find_ripgrep((found.workspace,))
    if search is None:
        advice = "Install ripgrep with your package manager; without it a slower built-in search is used."
        look.add("warn", "ripgrep", "rg is not on PATH", advice)
    else:
        look.add("ok", "ripgrep", _version(search) or str(search))
    git = find_program("git", (found.workspace,))
    if git is None:
        advice = "Install it: without it the agent sees no branches and no history."
        look.add("warn", "git", "git is not on PATH", advice)
    else:
        look.add("ok", "git", _version(git) or str(git))
    return look.found


def first_output_line(*argv: str) -> str:
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
    number = re.search(r"\d+(\.\d+)+", first_output_line(str(path), "--version"))
    return f"{number[0]}, {path}" if number else ""


# --- the terminal ---------------------------------------------------------------------------


def check_terminal(workspace: Path, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """What the screen will find: kind, size, colours, letters, tmux, keys."""
    environ = os.environ if environ is None else environ
    look = FindingList("Terminal")
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        look.add("note", "terminal", "none; `tui-agent exec` does not need one")
        return look.found
    term = environ.get("TERM", "")
    size = shutil.get_terminal_size()
    if term in ("", "dumb"):
        advice = "Set TERM to your terminal type, such as xterm-256color."
        look.add("bad", "kind", f"TERM is {term or 'not set'}: nothing can be drawn", advice)
        return look.found
    look.add("ok", "kind", f"{term}, {size.columns} × {size.lines}")
    if size.columns < 60 or size.lines < 16:
        look.add("warn", "size", "small for diffs and questions", "Enlarge it to 80 × 24 or more.")
    _colours(look, term, environ)
    if "UTF" not in (sys.stdout.encoding or "").upper():
        advice = "Set LANG to a UTF-8 locale, such as C.UTF-8."
        look.add("warn", "letters", f"the encoding is {sys.stdout.encoding}", advice)
    if environ.get("TMUX"):
        _tmux(look, term, workspace)
    keys = keyboard()
    if keys == "kitty":
        look.add("ok", "keys", "all keys are distinct (kitty protocol)")
    elif keys == "plain":
        look.add("note", "keys", "Shift+Enter arrives as Enter; use Ctrl+J or Alt+Enter for a new line")
    return look.found


def _colours(look: FindingList, term: str, environ: Mapping[str, str]) -> None:
    if environ.get("NO_COLOR"):
        look.add("note", "colours", "switched off by NO_COLOR")
    elif environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        look.add("ok", "colours", "16 million")
    elif "256" in term or "kitty" in term or "direct" in term:
        look.add("note", "colours", "256", "Set COLORTERM=truecolor if the terminal supports it.")
    else:
        look.add("warn", "colours", "few", "Set TERM to a 256-color type, such as xterm-256color.")


def _tmux(look: FindingList, term: str, workspace: Path) -> None:
    path = find_program("tmux", (workspace,))
    wrong = []
    if not term.startswith(("tmux", "screen-256", "xterm-256")):
        wrong.append("set -g default-terminal tmux-256color")
    for option in ("extended-keys", "set-clipboard") if path is not None else ():
        if first_output_line(str(path), "show-options", "-gv", option) == "off":
            wrong.append(f"set -g {option} on")
    if wrong:
        look.add("warn", "tmux", "colors, keys or the clipboard are limited", f"In ~/.tmux.conf: {'; '.join(wrong)}")
    else:
        look.add("ok", "tmux", "inside tmux, configured well")


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


MANY = 0.1
"""Share of the code files from which a language that can't be served is more than a side remark."""
NONE = "Without it the agent searches by text and gets no diagnostics after edits."


def check_languages(found: Configured) -> list[Finding]:
    """A line for each language of the folder, the commonest first. No server is started. Blocks."""
    look, chosen = FindingList("Code intelligence"), found.loaded.settings
    if not chosen.language_servers_on:
        look.add("note", "servers", "switched off by `language_servers_on` in the settings")
        return look.found
    own = chosen.language_servers
    known = {language.name: language for language in languages(own)}
    present = _present(found.workspace, tuple(known.values()))
    if not present:
        look.add("note", "servers", f"no source code in a known language in {found.workspace}")
    elif not found.trusted:
        look.add("note", "servers", "not started until the folder is trusted")
    installs = _installs()
    for name, count in present.most_common():
        matters = count >= MANY * present.total()
        _add(look, known[name], count, matters, found.workspace, own, installs.get(name, {}))
    return look.found


def _present(workspace: Path, known: Sequence[Language]) -> Counter[str]:
    """Names of languages of the files in the folder, by their names alone, as far as it is looked through."""
    suffixes = frozenset(suffix for language in known for suffix in language.suffixes)
    by_suffix = Counter(Path(entry.name).suffix.lower() for entry in code_files(workspace, suffixes))
    present: Counter[str] = Counter()
    for suffix, count in by_suffix.items():
        language = language_of_file(Path(f"x{suffix}"), known)
        if language is not None:
            present[language.name] += count
    return present


def _add(
    look: FindingList,
    language: Language,
    count: int,
    matters: bool,
    workspace: Path,
    own: Mapping[str, Sequence[str]],
    install: Mapping[str, Any],
) -> None:
    head = f"{count_of(count, 'file')}: "
    there = [one for one in commands(language, (workspace,)) if _serves(one, install.get("from", {}))]
    if there:
        look.add("ok", language.name, f"{head}{Path(there[0].program).name}, {there[0].program}")
        return
    setting = next((name for name in own if name.lower() in (language.name, *language.also)), "")
    if setting:
        text = f"{head}`{language.servers[0][0]}` of the settings is not on PATH"
        look.add("warn", language.name, text, f"Install it, or fix `language_servers.{setting}`.")
        return
    names = [command[0] for command in language.servers]
    missing = f"none of {', '.join(names)} is on PATH" if names[1:] else f"{names[0]} is not on PATH"
    advice = [install.get("advice", ""), NONE if matters else ""]
    look.add("warn" if matters else "note", language.name, head + missing, " ".join(filter(None, advice)))


def _serves(command: ServerCommand, since: Mapping[str, int]) -> bool:
    """False for a program that is no server in the version which is installed."""
    wanted = since.get(Path(command.program).name)
    if wanted is None:
        return True
    number = re.search(r"\d+", first_output_line(command.program, "--version"))
    return number is not None and int(number[0]) >= wanted


def _installs() -> dict[str, dict[str, Any]]:
    text = files(__package__).joinpath("server_installs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
