"""The workspace: its trust, its AGENTS.md files, and what kind of project it is (A8, H1, H3)."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import ApprovalMode, Message, Mode
from tui_agent.engine.context.system_prompt import system_text, where_text
from tui_agent.engine.core.history import RULES, SHORTENED, is_kind, wrap_untrusted
from tui_agent.events import Notice
from tui_agent.platform.git import Git, branch_of
from tui_agent.platform.safe_open import open_folder
from tui_agent.platform.watching import FileStamp, file_stamp
from tui_agent.safety import trust as trust_store
from tui_agent.safety.roots import Roots
from tui_agent.text import mark_invisible
from tui_agent.text.patterns import read_table
from tui_agent.tools.wording import printable_name

AGENTS_FILE = "AGENTS.md"
AGENTS_CAP = 16_000
"""Maximum characters of an AGENTS.md file."""
NOT_OURS = frozenset(("node_modules", ".venv", "venv", "site-packages", ".git"))
"""Folders of installed packages and of git: rules in them are not the project's."""
NESTED_CAP = 8_000
"""Maximum characters of an AGENTS.md file of a folder below the roots."""


class TrustedFolder(msgspec.Struct, frozen=True):
    """A trusted folder of the workspace."""

    folder: Path
    name: str = ""
    """Prefix of its paths; empty if it is the only one."""
    above: tuple[Path, ...] = ()
    """Trusted parent folders up to the top of its repository, topmost first."""

    def display(self, path: Path) -> str:
        """Return the path as shown to user and model."""
        relative = os.path.relpath(path, self.folder)
        return f"{self.name}/{relative}" if self.name else relative


class AgentFile(msgspec.Struct, frozen=True):
    """An AGENTS.md file, as it was read."""

    path: Path
    source: str
    """Its name: `the user`, `AGENTS.md`, `src/api/AGENTS.md`."""
    text: str = ""
    warning: str = ""
    """Why it was not used, or not completely."""
    stamp: FileStamp | None = None
    """Detects changes; None if the file does not exist."""

    @property
    def prompt(self) -> str:
        """The text for the system message."""
        return f"Rules from {self.source}:\n{self.text}"


def read_agent_files(home_file: Path, folders: Sequence[TrustedFolder]) -> tuple[AgentFile, ...]:
    """Read the user's file, then those of each folder from the top of its repository down. Does file IO.

    Missing files are included, so their creation is noticed.
    """
    files = [read_agent_file(home_file, "the user", None)]
    for trusted in folders:
        for path in agent_file_paths(trusted):
            if path != home_file and all(path != file.path for file in files):
                files.append(read_agent_file(path, trusted.display(path), path.parent))
    return tuple(files)


def agent_file_paths(trusted: TrustedFolder) -> tuple[Path, ...]:
    """Return where the rules for all paths of a trusted folder are read from, whether they exist or not."""
    return tuple(folder / AGENTS_FILE for folder in (*trusted.above, trusted.folder))


def is_current(files: Sequence[AgentFile]) -> bool:
    """Return True if no file has changed since it was read. Does file IO."""
    return all(file_stamp(file.path) == file.stamp for file in files)


def read_agent_file(path: Path, source: str, within: Path | None, cap: int = AGENTS_CAP) -> AgentFile:
    """Read up to `cap` characters of a file, unless it is a link out of the folder `within`. Does file IO."""
    stamp = file_stamp(path)
    try:
        if stamp is None or not path.is_file():
            return AgentFile(path, source, stamp=stamp)
        if within is not None and not path.resolve().is_relative_to(within.resolve()):
            return AgentFile(path, source, "", f"{path} was not used: it points outside the folder.", stamp)
        with path.open("rb") as file:
            data = file.read(4 * cap)
        text = mark_invisible(data.decode("utf-8", "strict" if len(data) < 4 * cap else "ignore")).strip()
    except (OSError, UnicodeDecodeError) as error:
        return AgentFile(path, source, "", f"{path} was not used: {error}.", stamp)
    warning = ""
    if len(text) > cap:
        warning = f"{path} is longer than {cap:,} characters; the rest was left out."
        text = text[:cap]
    return AgentFile(path, source, text, warning, stamp)


def above_in_repository(folder: Path) -> tuple[Path, ...]:
    """Return the parent folders up to the one with `.git`, topmost first. Does file IO.

    Empty outside a repository, or if `folder` is the top of one.
    """
    if os.path.lexists(folder / ".git"):
        return ()
    parents: list[Path] = []
    for above in folder.parents:
        parents.append(above)
        if os.path.lexists(above / ".git"):
            return tuple(reversed(parents))
    return ()


MAX_CACHED = 2_000
"""AGENTS.md files in the cache, including missing ones."""


class NestedRules:
    """The rules of folders below the roots, for all conversations of a session."""

    def __init__(self, folders: Callable[[], Sequence[TrustedFolder]], on_read: Callable[[AgentFile], object]) -> None:
        """`folders` returns the trusted folders; `on_read` is called with each file when it is read."""
        self._folders = folders
        self._on_read = on_read
        self._cache: dict[Path, AgentFile] = {}
        self._new: list[AgentFile] = []

    async def due(self, touched: Iterable[str], visible: Sequence[Message]) -> list[str]:
        """Return the rules for the files `touched` (absolute paths) that are in none of the `visible` messages."""
        files = await asyncio.to_thread(self._applicable, tuple(touched))
        new, self._new = self._new, []
        for file in new:
            self._on_read(file)
        texts = [message.text for message in visible if is_kind(message, RULES)]
        return [text for file in files if not _is_visible(text := rules_text(file), texts)]

    def _applicable(self, touched: Sequence[str]) -> list[AgentFile]:
        rule_folders: dict[Path, TrustedFolder] = {}
        trusted_folders = self._folders()
        touched_paths = set(touched)
        for name in touched:
            path = Path(name)
            containing = [trusted for trusted in trusted_folders if path.is_relative_to(trusted.folder)]
            if not containing:
                continue
            trusted = max(containing, key=lambda trusted: len(trusted.folder.parts))
            folder = trusted.folder
            for part in path.relative_to(trusted.folder).parts[:-1]:
                if part in NOT_OURS:
                    break
                folder = folder / part
                if str(folder / AGENTS_FILE) not in touched_paths:
                    rule_folders[folder] = trusted
        files = (self._read_cached(folder / AGENTS_FILE, trusted) for folder, trusted in rule_folders.items())
        return [file for file in files if file.text]

    def _read_cached(self, path: Path, trusted: TrustedFolder) -> AgentFile:
        cached, stamp = self._cache.get(path), file_stamp(path)
        if cached is not None and cached.stamp == stamp:
            return cached
        if len(self._cache) >= MAX_CACHED:
            self._cache.clear()
        file = read_agent_file(path, trusted.display(path), trusted.folder, NESTED_CAP)
        self._cache[path] = file
        if file.text or file.warning:
            self._new.append(file)
        return file


def rules_text(file: AgentFile) -> str:
    """Return the rules of a nested file for the model; the first line names the file."""
    folder = file.source.rpartition("/")[0]
    return (
        f"Rules from {file.source}. They hold for what lies in {folder}, and come before those of folders above it.\n"
        f"{file.text}"
    )


def _is_visible(text: str, visible: Sequence[str]) -> bool:
    message = wrap_untrusted(RULES, text).text
    head = "\n".join(message.split("\n", 2)[:2])
    return any(other == message or (other.startswith(head) and SHORTENED in other) for other in visible)


class Project:
    """Rules and facts of the workspace; untrusted folders are not interpreted (A8)."""

    def __init__(self, workspace: Path, roots: Roots, *, trusted: bool, notify: Callable[[Notice], object]) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self._notify = notify
        self._roots = roots
        self._files: tuple[AgentFile, ...] | None = None
        self._used: list[TrustedFolder] = []
        """The folders whose rules are in `_files`."""
        self._facts: dict[Path, ProjectFacts] = {}
        self._notified: set[str] = set()
        self._lock = asyncio.Lock()
        self.nested = NestedRules(self.trusted_folders, self._report_nested)
        """The rules of folders below the roots."""

    def set_trusted(self, trusted: bool) -> None:
        """Trust the workspace from now on, or no longer."""
        self.trusted = trusted
        self._files = None

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """The workspace's folders with the names that their paths begin with; empty for a single one."""
        if len(self._roots.folders) == 1:
            return (("", self.workspace),)
        return tuple(zip(self._roots.names, self._roots.folders, strict=True))

    def trusted_folders(self) -> list[TrustedFolder]:
        """Return the trusted folders, each with the trusted folders above it in its repository. Does file IO."""
        trusted: list[TrustedFolder] = []
        for name, folder in self.folders:
            is_workspace = folder == self.workspace
            if not (self.trusted if is_workspace else trust_store.is_trusted(folder)):
                continue
            above = above_in_repository(folder)
            trusted.append(TrustedFolder(folder, name, tuple(filter(trust_store.is_trusted, above))))
        return trusted

    async def system(
        self, mode: Mode, approval_mode: ApprovalMode, model_prompt: str = "", role: str = "", window: int | None = None
    ) -> str:
        """Return the system message; it is the same from run to run unless something changed.

        `model_prompt` comes from models.json, `role` is one of modes.py, `window` the context window in tokens.
        """
        async with self._lock:
            files, facts = await self._rules(), await self._project_facts()
        from tui_agent.engine.context.modes import FILES, ORCHESTRATOR

        without_facts = role in (ORCHESTRATOR, FILES)  # has sub-agents for that (T5); has the files themselves (E5)
        return system_text(
            [file.prompt for file in files if file.text],
            mode=mode,
            reads_only=approval_mode is ApprovalMode.READ_ONLY,
            where="" if role == FILES else where_text(self.folders, dt.date.today().isoformat()),
            project="" if without_facts else describe_project(facts, window),
            model_prompt=model_prompt,
            role=role,
        )

    async def _rules(self) -> tuple[AgentFile, ...]:
        """Return the AGENTS.md files that apply to all paths, re-read if one changed."""
        trusted = await asyncio.to_thread(self.trusted_folders)
        if self._files is None or trusted != self._used or not await asyncio.to_thread(is_current, self._files):
            self._used = trusted
            self._report_untrusted([item.folder for item in trusted])
            self._files = await asyncio.to_thread(read_agent_files, paths.agents_file(), trusted)
            for file in self._files:
                self._warn(file)
            used = [f"{_name(file)} ({_tokens(file.text):,} tokens)" for file in self._files if file.text]
            if used:
                self._notify_once("info", f"Rules in use: {', '.join(used)}.", "rules.loaded")
        return self._files

    async def _project_facts(self) -> tuple[tuple[str, ProjectFacts], ...]:
        """Return the facts of each trusted folder, discovered once per session (H3)."""
        trusted = await asyncio.to_thread(self.trusted_folders)
        new = [item.folder for item in trusted if item.folder not in self._facts]
        if new:
            roots = tuple(folder for _, folder in self.folders)
            discovered = await asyncio.gather(*(discover(folder, roots) for folder in new))
            self._facts.update(zip(new, discovered, strict=True))
        return tuple((item.name, self._facts[item.folder]) for item in trusted)

    # --- notices ---

    def _report_nested(self, file: AgentFile) -> None:
        self._warn(file)
        if file.text:
            text = f"Rules of a folder, now in use: {_name(file)} ({_tokens(file.text):,} tokens)."
            self._notify_once("info", text, "rules.nested")

    def _warn(self, file: AgentFile) -> None:
        if file.warning:
            self._notify_once("warning", file.warning, "rules.unread")

    def _report_untrusted(self, trusted: Sequence[Path]) -> None:
        for _, folder in self.folders:
            if folder != self.workspace and folder not in trusted:
                text = (
                    f"{folder} is not trusted: its AGENTS.md and its git status are not read. "
                    "/trust shows what it contains and lets you trust it."
                )
                self._notify_once("info", text, "trust.root")

    def _notify_once(self, level: Literal["info", "warning"], text: str, code: str) -> None:
        if text not in self._notified:
            self._notified.add(text)
            self._notify(Notice(level=level, text=text, code=code))


def _name(file: AgentFile) -> str:
    return "~/AGENTS.md" if file.source == "the user" else file.source


def _tokens(text: str) -> int:
    from tui_agent.engine.core.tokens import Gauge, count

    return Gauge().estimate(count(text))


def offer_rules() -> Notice | None:
    """Return the one-time offer to write ~/AGENTS.md from a template (H1). Does file IO."""
    offered = paths.data_dir() / "rules-offered"
    try:
        if paths.agents_file().exists() or offered.exists():
            return None
        paths.ensure_private_dir(offered.parent)
        offered.touch(mode=0o600)
    except OSError:
        return None
    text = "You have no ~/AGENTS.md yet, so the built-in rules apply. `tui-agent rules` writes one for you to edit."
    return Notice(level="info", text=text, code="rules.offer")


# --- project facts, discovered once per session in trusted folders (H3, A8) ---

MAX_ENTRIES = 20_000
"""Maximum entries visited to count languages."""
COUNT_TIMEOUT = 0.4
"""Seconds for counting, breadth first."""
CLOCK_INTERVAL = 256
"""Entries between checks of the time limit; small projects are always counted completely."""
GIT_TIMEOUT = 2.0
"""Seconds for git, after which its status is omitted."""
MAX_DEPTH = 12
MAX_NAMES = 8
"""Maximum project files, documents, and changed files listed."""
MAX_LANGUAGES = 5
FULL, SMALL = 900, 360
"""Maximum characters, about 250 and 100 tokens; the second one for windows of at most SMALL_WINDOW tokens."""
SMALL_WINDOW = 8_192


class ProjectFacts(msgspec.Struct, frozen=True):
    """Facts about a folder at the start of the session."""

    projects: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    languages: tuple[tuple[str, int], ...] = ()
    """(Name, number of files), most frequent first."""
    counted_all: bool = True
    branch: str = ""
    changed: int | None = None
    """Number of changed files; None if git did not answer."""
    untracked: int = 0
    names: tuple[str, ...] = ()
    """Some of the changed files."""

    def describe(self, room: int) -> str:
        """Return the facts in at most `room` characters, complete lines only."""
        lines = [
            f"Project files: {', '.join(self.projects)}." if self.projects else "",
            self._languages(),
            f"Documents: {', '.join(self.documents)}." if self.documents else "",
        ]
        fitting: list[str] = []
        for line in filter(None, lines):
            if len(line) <= room:
                fitting.append(line)
                room -= len(line) + 1
        git = next((line for line in (self._git(True), self._git(False)) if len(line) <= room), "")
        return "\n".join(filter(None, [*fitting, git]))

    def _languages(self) -> str:
        if not self.languages:
            return ""
        more = "" if self.counted_all else " or more"
        counts = ", ".join(
            f"{name} {number:,}{more} file{'s' if number > 1 or more else ''}" for name, number in self.languages
        )
        return f"Languages: {counts}."

    def _git(self, with_names: bool) -> str:
        if not self.branch:
            return ""
        branch = f"Git branch {self.branch}"
        if self.changed is None:
            return f"{branch}."
        if not self.changed and not self.untracked:
            return f"{branch}, nothing changed since the last commit."
        parts = [f"{self.changed:,} changed"] if self.changed else []
        parts += [f"{self.untracked:,} untracked"] if self.untracked else []
        names = f": {', '.join(self.names)}" if self.names and with_names else ""
        more = ", …" if names and self.changed > len(self.names) else ""
        return f"{branch}, {' and '.join(parts)} when the session began{names}{more}."


async def discover(folder: Path, roots: tuple[Path, ...]) -> ProjectFacts:
    """Discover the facts of `folder`, one of `roots`, within about GIT_TIMEOUT. Raises only cancellation.

    The folder must be trusted, although git runs without the repository's hooks and filters.
    """
    stop = threading.Event()
    try:
        facts, status = await asyncio.gather(
            asyncio.to_thread(_inspect, folder, stop), _status(Git(folder, roots), folder)
        )
    finally:
        stop.set()
    updated: ProjectFacts = msgspec.structs.replace(facts, **status)
    return updated


def describe_project(facts: Sequence[tuple[str, ProjectFacts]], window: int | None) -> str:
    """Return the facts of the named folders for the system message; may be empty."""
    room = (SMALL if window is not None and window <= SMALL_WINDOW else FULL) // max(1, len(facts))
    parts = [(name, folder_facts.describe(room)) for name, folder_facts in facts]
    texts = [f"In {name}:\n{text}" if len(facts) > 1 else text for name, text in parts if text]
    return mark_invisible("\n".join(texts))


# --- by files -------------------------------------------------------------------------------


_table = partial(read_table, __package__, "discovery.json")


def _inspect(folder: Path, stop: threading.Event) -> ProjectFacts:
    try:
        names = {entry.name for _, entry in zip(range(MAX_ENTRIES), os.scandir(folder), strict=False)}
    except OSError:
        return ProjectFacts()
    counts, counted_all = _count_languages(folder, stop)
    common = counts.most_common(MAX_LANGUAGES)
    minimum = common[0][1] // 50 if common else 0
    return ProjectFacts(
        projects=tuple(name for name in _table()["projects"] if name in names)[:MAX_NAMES],
        documents=tuple(name for name in _table()["documents"] if name in names)[:MAX_NAMES],
        languages=tuple((name, number) for name, number in common if number > minimum),
        counted_all=counted_all,
        branch=printable_name(branch_of(folder) or "")[:80],
    )


def _count_languages(folder: Path, stop: threading.Event) -> tuple[Counter[str], bool]:
    """Count files by language, breadth first; also return whether all were counted."""
    from tui_agent.tools.gitignore import GitIgnore  # not before the first message

    counts: Counter[str] = Counter()
    deadline, remaining = time.monotonic() + COUNT_TIMEOUT, MAX_ENTRIES
    queue = deque([(folder, GitIgnore.at(folder))])
    skipped = frozenset(_table()["skipped"])
    language_of = {ending: name for name, endings in _table()["languages"].items() for ending in endings}
    while queue:
        current, rules = queue.popleft()
        parts = current.relative_to(folder).parts
        try:
            with open_folder(current) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    remaining -= 1
                    is_late = remaining % CLOCK_INTERVAL == 0 and time.monotonic() > deadline
                    if remaining < 0 or is_late or stop.is_set():
                        return counts, False
                    name = entry.name
                    if name.startswith(".") or entry.is_symlink():
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    language = language_of.get(name.rpartition(".")[2])
                    descend = name not in skipped and len(parts) < MAX_DEPTH
                    relevant = descend if is_folder else language is not None
                    if not relevant or rules.ignores((*parts, name), is_folder):
                        continue
                    if is_folder:
                        queue.append((current / name, rules.below(current / name)))
                    elif language is not None:
                        counts[language] += 1
        except OSError:
            continue
    return counts, True


# --- by git ---------------------------------------------------------------------------------


async def _status(git: Git, folder: Path) -> dict[str, Any]:
    """Return the fields of ProjectFacts that come from git."""
    if await asyncio.to_thread(branch_of, folder) is None:
        return {}
    output = await git.run(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--",
        ".",
        seconds=GIT_TIMEOUT,
    )
    if output is None:
        return {}
    rows = [row.decode("utf-8", "surrogateescape") for row in output.split(b"\0") if row]
    changed = [row[3:] for row in rows if not row.startswith(("??", "!!"))]
    return {
        "changed": len(changed),
        "untracked": sum(row.startswith("??") for row in rows),
        "names": tuple(printable_name(name)[:80] for name in changed[:MAX_NAMES]),
    }
