"""Doctor's checks of files, programs, terminal and language servers. They block."""

from __future__ import annotations

import os
import platform
import re
import select
import shutil
import subprocess
import sys
import termios
import tomllib
import tty
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from tui_agent.commands.output import format_bytes
from tui_agent.commands.server_access import CommandConfig
from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.lsp.languages import Language, ServerCommand, code_files, commands, language_of_file, languages
from tui_agent.platform.programs import find_program
from tui_agent.safety import decision_files
from tui_agent.storage.catalog import folder_size
from tui_agent.storage.folder import JOURNAL, is_regular_file, session_folders
from tui_agent.storage.journal import find_damage
from tui_agent.text import pluralize
from tui_agent.tools.search_workspace import find_ripgrep

State = Literal["ok", "note", "warn", "bad"]
"""`bad` prevents work, `warn` impairs it, `note` is information."""
PROGRAM_SECONDS = 3.0
"""Time limit for a program to print its version."""
SESSIONS_SECONDS = 3.0
"""Time limit of the check for damage in sessions."""
MAX_NAMES = 5
"""Damaged sessions that are named."""
LOW_SPACE = 200_000_000
"""Free bytes below which saving sessions may soon fail."""
COMMON_SHARE = 0.1
"""Share of the code files from which a language without a server is a warning."""
NO_SERVER = "Without it the agent searches by text and gets no diagnostics after edits."


class Finding(FrozenValue, frozen=True, kw_only=True):
    """The result of one check."""

    group: str
    name: str
    state: State
    text: str
    advice: str = ""
    """How to fix it."""


class FindingList(list[Finding]):
    """Findings of one group."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self._group = group

    def add(self, state: State, name: str, text: str, advice: str = "") -> None:
        """Append a finding."""
        self.append(Finding(group=self._group, name=name, state=state, text=text, advice=advice))


# --- files ----------------------------------------------------------------------------------


def check_files(config: CommandConfig) -> list[Finding]:
    """Settings, models.json, trust, the data folder."""
    findings = FindingList("Files")
    _check_settings(findings, config)
    _check_catalog(findings, config)
    if config.trusted:
        findings.add("ok", "trust", f"{config.workspace} is trusted")
    else:
        text = f"{config.workspace} is not trusted: its AGENTS.md, settings and git data are not read"
        findings.add(
            "note", "trust", text, "The first session here asks; for `exec`: --trust, or `tui-agent trust add`."
        )
    for file in (paths.trust_file(), paths.grants_file()):
        if file.exists() and not decision_files.read_decisions(file):
            advice = "Check the file or move it away: nothing is saved to it until then."
            findings.add("warn", file.name, f"{file} is empty or damaged and is ignored", advice)
    _check_data_folder(findings)
    return findings


def _check_settings(findings: FindingList, config: CommandConfig) -> None:
    for problem in config.loaded.problems:
        advice = "" if problem.ignored else "Fix it: sessions cannot start until then."
        findings.add("warn" if problem.ignored else "bad", "settings", str(problem), advice)
    if not config.loaded.problems:
        file = paths.config_file()
        findings.add("ok", "settings", str(file) if file.exists() else f"defaults; {file} does not exist")


def _check_catalog(findings: FindingList, config: CommandConfig) -> None:
    read, file = config.catalog_read, paths.models_file()
    for problem in read.problems:
        advice = "" if problem.ignored else "Fix it: until then the built-in list is used."
        findings.add("warn" if problem.ignored else "bad", "models.json", str(problem), advice)
    if read.missing:
        findings.add("note", "models.json", f"{file} does not exist yet; the first session creates it")
    elif read.catalog is not None and not read.problems:
        findings.add("ok", "models.json", f"{file}, {pluralize(len(read.catalog.models), 'model')}")


def _check_data_folder(findings: FindingList) -> None:
    folder = paths.data_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        advice = "Make it writable, or set TUI_AGENT_HOME to another folder."
        findings.add("bad", "data folder", f"{folder} is not writable, so sessions cannot be saved", advice)
        return
    _check_sessions(findings)
    free = shutil.disk_usage(existing).free
    sessions = pluralize(len(list(session_folders(paths.sessions_dir()))), "session")
    text = f"{folder}, {format_bytes(folder_size(folder))} in {sessions}"
    if free < LOW_SPACE:
        advice = "Free some space: a session stops when nothing can be saved."
        findings.add("warn", "data folder", f"{text}; only {format_bytes(free)} are free on its disk", advice)
    else:
        findings.add("ok", "data folder", f"{text}; {format_bytes(free)} free")


def _check_sessions(findings: FindingList) -> None:
    """Report sessions with damage, newest first, within SESSIONS_SECONDS."""
    deadline = monotonic() + SESSIONS_SECONDS
    folders = sorted(session_folders(paths.sessions_dir(), damaged=True), reverse=True)
    damaged: list[str] = []
    checked = 0
    for folder in folders:
        if monotonic() > deadline:
            break
        checked += 1
        try:
            journal = folder / JOURNAL
            places = find_damage(journal, stop=lambda: monotonic() > deadline) if is_regular_file(journal) else None
        except OSError as error:
            damaged.append(f"{folder.name} ({error.strerror})")
            continue
        if places is None:
            damaged.append(f"{folder.name} (no journal)")
        elif places:
            damaged.append(f"{folder.name} ({pluralize(len(places), 'place')})")
    if damaged:
        names = ", ".join(damaged[:MAX_NAMES]) + (", …" if len(damaged) > MAX_NAMES else "")
        advice = "The rest of them can be resumed and exported; what is missing is marked there."
        findings.add("warn", "sessions", f"{pluralize(len(damaged), 'session')} with damage: {names}", advice)
    if checked < len(folders):
        findings.add("note", "sessions", f"only the newest {checked} of {len(folders)} were checked for damage")


# --- programs -------------------------------------------------------------------------------


def check_programs(config: CommandConfig) -> list[Finding]:
    """The system, ripgrep and git."""
    findings = FindingList("This machine")
    findings.add("ok", "system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}")
    roots = (config.workspace,)
    for name, command, path, advice in (
        (
            "ripgrep",
            "rg",
            find_ripgrep(roots),
            "Install ripgrep with your package manager; without it a slower built-in search is used.",
        ),
        ("git", "git", find_program("git", roots), "Install it: without it the agent sees no branches and no history."),
    ):
        if path is None:
            findings.add("warn", name, f"{command} is not on PATH", advice)
        else:
            number = re.search(r"\d+(\.\d+)+", first_output_line(str(path), "--version"))
            findings.add("ok", name, f"{number[0]}, {path}" if number else str(path))
    return findings


def first_output_line(*argv: str) -> str:
    """The first line that a program prints; "" if it fails or times out."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "TMUX", "LANG") if name in os.environ}
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_SECONDS,
            start_new_session=True,
            env=env,
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()[:200]


# --- the terminal ---------------------------------------------------------------------------


def check_terminal(workspace: Path, environ: Mapping[str, str] | None = None) -> list[Finding]:
    """Terminal type, size, colors, encoding, tmux, keys."""
    environ = os.environ if environ is None else environ
    findings = FindingList("Terminal")
    if not sys.stdout.isatty() or not sys.stdin.isatty():
        findings.add("note", "terminal", "none; `tui-agent exec` does not need one")
        return findings
    term = environ.get("TERM", "")
    size = shutil.get_terminal_size()
    if term in ("", "dumb"):
        advice = "Set TERM to your terminal type, such as xterm-256color."
        findings.add("bad", "kind", f"TERM is {term or 'not set'}: nothing can be drawn", advice)
        return findings
    findings.add("ok", "kind", f"{term}, {size.columns} × {size.lines}")
    if size.columns < 60 or size.lines < 16:
        findings.add("warn", "size", "small for diffs and questions", "Enlarge it to 80 × 24 or more.")
    _check_colors(findings, term, environ)
    if "UTF" not in (sys.stdout.encoding or "").upper():
        advice = "Set LANG to a UTF-8 locale, such as C.UTF-8."
        findings.add("warn", "letters", f"the encoding is {sys.stdout.encoding}", advice)
    if environ.get("TMUX"):
        _check_tmux(findings, term, workspace)
    keys = keyboard_protocol()
    if keys == "kitty":
        findings.add("ok", "keys", "all keys are distinct (kitty protocol)")
    elif keys == "plain":
        findings.add("note", "keys", "Shift+Enter arrives as Enter; use Ctrl+J or Alt+Enter for a new line")
    return findings


def _check_colors(findings: FindingList, term: str, environ: Mapping[str, str]) -> None:
    if environ.get("NO_COLOR"):
        findings.add("note", "colours", "switched off by NO_COLOR")
    elif environ.get("COLORTERM", "") in ("truecolor", "24bit"):
        findings.add("ok", "colours", "16 million")
    elif "256" in term or "kitty" in term or "direct" in term:
        findings.add("note", "colours", "256", "Set COLORTERM=truecolor if the terminal supports it.")
    else:
        findings.add("warn", "colours", "few", "Set TERM to a 256-color type, such as xterm-256color.")


def _check_tmux(findings: FindingList, term: str, workspace: Path) -> None:
    path = find_program("tmux", (workspace,))
    fixes = []
    if not term.startswith(("tmux", "screen-256", "xterm-256")):
        fixes.append("set -g default-terminal tmux-256color")
    for option in ("extended-keys", "set-clipboard") if path is not None else ():
        if first_output_line(str(path), "show-options", "-gv", option) == "off":
            fixes.append(f"set -g {option} on")
    if fixes:
        advice = f"In ~/.tmux.conf: {'; '.join(fixes)}"
        findings.add("warn", "tmux", "colors, keys or the clipboard are limited", advice)
    else:
        findings.add("ok", "tmux", "inside tmux, configured well")


def keyboard_protocol(seconds: float = 0.3) -> str:
    """`kitty` if the terminal reports that protocol, `plain` if it answers without it, "" if it does not answer."""
    answer = b""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        attributes = termios.tcgetattr(terminal)
        try:
            tty.setcbreak(terminal, termios.TCSANOW)
            os.write(terminal, b"\x1b[?u\x1b[c")
            while b"c" not in answer and select.select([terminal], [], [], seconds)[0]:
                answer += os.read(terminal, 256)
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, attributes)
    except (OSError, termios.error):
        return ""
    finally:
        os.close(terminal)
    if not re.search(rb"\x1b\[\?[\d;]*c", answer):
        return ""
    return "kitty" if re.search(rb"\x1b\[\?\d+u", answer) else "plain"


# --- language servers -----------------------------------------------------------------------


def check_languages(config: CommandConfig) -> list[Finding]:
    """A finding for each language in the workspace, most common first. Starts no server."""
    findings, chosen = FindingList("Code intelligence"), config.loaded.settings
    if not chosen.language_servers_on:
        findings.add("note", "servers", "switched off by `language_servers_on` in the settings")
        return findings
    known = {language.name: language for language in languages(chosen.language_servers)}
    counts = _count_files(config.workspace, tuple(known.values()))
    if not counts:
        findings.add("note", "servers", f"no source code in a known language in {config.workspace}")
    elif not config.trusted:
        findings.add("note", "servers", "not started until the folder is trusted")
    installs = _install_hints()
    for name, count in counts.most_common():
        is_common = count >= COMMON_SHARE * counts.total()
        state, text, advice = _check_language(known[name], is_common, config, installs.get(name, {}))
        findings.add(state, name, f"{pluralize(count, 'file')}: {text}", advice)
    return findings


def _count_files(workspace: Path, known: Sequence[Language]) -> Counter[str]:
    """The number of files by language name."""
    suffixes = frozenset(suffix for language in known for suffix in language.suffixes)
    by_suffix = Counter(Path(entry.name).suffix.lower() for entry in code_files(workspace, suffixes))
    counts: Counter[str] = Counter()
    for suffix, count in by_suffix.items():
        if (language := language_of_file(Path(f"x{suffix}"), known)) is not None:
            counts[language.name] += count
    return counts


def _check_language(
    language: Language, is_common: bool, config: CommandConfig, install: Mapping[str, Any]
) -> tuple[State, str, str]:
    """Return state, text and advice."""
    for command in commands(language, (config.workspace,)):
        if _is_server(command, install.get("from", {})):
            return "ok", f"{Path(command.program).name}, {command.program}", ""
    configured = config.loaded.settings.language_servers
    setting = next((name for name in configured if name.lower() in (language.name, *language.aliases)), "")
    if setting:
        text = f"`{language.servers[0][0]}` of the settings is not on PATH"
        return "warn", text, f"Install it, or fix `language_servers.{setting}`."
    names = [command[0] for command in language.servers]
    text = f"none of {', '.join(names)} is on PATH" if names[1:] else f"{names[0]} is not on PATH"
    advice = " ".join(filter(None, [install.get("advice", ""), NO_SERVER if is_common else ""]))
    return "warn" if is_common else "note", text, advice


def _is_server(command: ServerCommand, minimum: Mapping[str, int]) -> bool:
    """Whether the installed version of a program is recent enough to be a server."""
    required = minimum.get(Path(command.program).name)
    if required is None:
        return True
    number = re.search(r"\d+", first_output_line(command.program, "--version"))
    return number is not None and int(number[0]) >= required


def _install_hints() -> dict[str, dict[str, Any]]:
    text = files(__package__).joinpath("server_installs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
