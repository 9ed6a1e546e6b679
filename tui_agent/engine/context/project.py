"""The workspace as the agent knows it: trusted or not, its AGENTS.md files, what kind of project it is (H1)."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import ApprovalMode, Message, Mode
from tui_agent.common.tables import read_table
from tui_agent.engine.context.system_prompt import system_text, where_text
from tui_agent.engine.core.history import RULES, SHORTENED, is_kind, wrap_untrusted
from tui_agent.events import Notice
from tui_agent.platform.git import Git, branch_of
from tui_agent.platform.safe_open import open_folder
from tui_agent.platform.watching import FileStamp, file_stamp
from tui_agent.safety import trust as trust_store
from tui_agent.safety.decision_files import DecisionsNotSaved
from tui_agent.safety.roots import Roots
from tui_agent.text import mark_invisible
from tui_agent.tools.wording import printable_name

AGENTS_FILE = "AGENTS.md"
AGENTS_CAP = 16_000
"""Characters taken from one of them."""
NESTED_CAP = 8_000
"""Characters taken from one of a folder below."""


class Ground(msgspec.Struct, frozen=True):
    """A trusted folder of the workspace."""

    folder: Path
    name: str = ""
    """What its paths begin with; empty where there is only one."""
    above: tuple[Path, ...] = ()
    """Trusted folders above it up to the top of its repository, the topmost first."""

    def shown(self, path: Path) -> str:
        """The path as user and model know it."""
        shown = os.path.relpath(path, self.folder)
        return f"{self.name}/{shown}" if self.name else shown


class AgentFile(msgspec.Struct, frozen=True):
    """One of them, as it was read."""

    path: Path
    source: str
    """What it is called: `the user`, `AGENTS.md`, `src/api/AGENTS.md`."""
    text: str = ""
    warning: str = ""
    """Why it was not used, or not as a whole."""
    stamp: FileStamp | None = None
    """What tells whether it was written since; None where there is none."""

    @property
    def told(self) -> str:
        """What the model gets."""
        return f"Rules from {self.source}:\n{self.text}"


def read_agent_files(home_file: Path, grounds: Sequence[Ground]) -> tuple[AgentFile, ...]:
    """The user's file, then those of each folder from the top of its repository down. Absent ones are among them, so
    that their coming is noticed. Does file IO."""
    found = [read_agent_file(home_file, "the user", None)]
    for ground in grounds:
        for folder in (*ground.above, ground.folder):
            path = folder / AGENTS_FILE
            if path != home_file and all(path != one.path for one in found):
                found.append(read_agent_file(path, ground.shown(path), folder))
    return tuple(found)


def unchanged(found: Sequence[AgentFile]) -> bool:
    """True while all files are as they were when they were read. Does file IO."""
    return all(file_stamp(one.path) == one.stamp for one in found)


def read_agent_file(path: Path, source: str, within: Path | None, cap: int = AGENTS_CAP) -> AgentFile:
    """One file, at most `cap` characters of it; one that leads out of `within` is not used. Does file IO."""
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
    """The folders above `folder` up to the one with `.git`, the topmost first; none where no repository is around it,
    or where it is one itself. Does file IO."""
    if os.path.lexists(folder / ".git"):
        return ()
    passed: list[Path] = []
    for above in folder.parents:
        passed.append(above)
        if os.path.lexists(above / ".git"):
            return tuple(reversed(passed))
    return ()


KNOWN = 2_000
"""Files that are remembered, absent ones among them."""


class NestedRules:
    """For all conversations of a session; what one of them has seen is found in its own messages."""

    def __init__(self, grounds: Callable[[], Sequence[Ground]], tell: Callable[[AgentFile], object]) -> None:
        """`grounds`: the folders that are trusted at this moment. `tell` is called for each file as it is read."""
        self._grounds = grounds
        self._tell = tell
        self._read: dict[Path, AgentFile] = {}
        self._new: list[AgentFile] = []

    async def due(self, touched: Iterable[str], shown: Sequence[Message]) -> list[str]:
        """The rules that hold for the files `touched` (absolute paths) and stand in none of the messages `shown`."""
        found = await asyncio.to_thread(self._found, tuple(touched))
        new, self._new = self._new, []
        for one in new:
            self._tell(one)
        seen = [message.text for message in shown if is_kind(message, RULES)]
        return [text for one in found if not _stands(text := rules_text(one), seen)]

    def _found(self, touched: Sequence[str]) -> list[AgentFile]:
        places: dict[Path, Ground] = {}
        grounds = self._grounds()
        own = set(touched)
        for name in touched:
            path = Path(name)
            around = [ground for ground in grounds if path.is_relative_to(ground.folder)]
            if not around:
                continue
            ground = max(around, key=lambda one: len(one.folder.parts))
            folder = ground.folder
            for part in path.relative_to(ground.folder).parts[:-1]:
                folder = folder / part
                if str(folder / AGENTS_FILE) not in own:
                    places[folder] = ground
        found = (self._one(folder / AGENTS_FILE, ground) for folder, ground in places.items())
        return [one for one in found if one.text]

    def _one(self, path: Path, ground: Ground) -> AgentFile:
        known, stamp = self._read.get(path), file_stamp(path)
        if known is not None and known.stamp == stamp:
            return known
        if len(self._read) >= KNOWN:
            self._read.clear()
        read = read_agent_file(path, ground.shown(path), ground.folder, NESTED_CAP)
        self._read[path] = read
        if read.text or read.warning:
            self._new.append(read)
        return read


def rules_text(file: AgentFile) -> str:
    """What the model gets of a file: its first line names it."""
    folder = file.source.rpartition("/")[0]
    return (
        f"Rules from {file.source}. They hold for what lies in {folder}, and come before those of folders above it.\n"
        f"{file.text}"
    )


def _stands(text: str, seen: Sequence[str]) -> bool:
    whole = wrap_untrusted(RULES, text).text
    first = "\n".join(whole.split("\n", 2)[:2])
    return any(one == whole or (one.startswith(first) and SHORTENED in one) for one in seen)


class Project:
    """Nothing of a folder is interpreted before it is trusted (A8)."""

    def __init__(self, workspace: Path, roots: Roots, *, trusted: bool, tell: Callable[[Notice], object]) -> None:
        self.workspace = workspace
        self.trusted = trusted
        self._tell = tell
        self._roots = roots
        self._files: tuple[AgentFile, ...] | None = None
        self._found: dict[Path, ProjectFacts] = {}
        self._said: set[str] = set()
        self._settling = asyncio.Lock()
        self.nested = NestedRules(self.grounds, self._tell_nested)
        """The rules of folders below."""

    async def trust(self) -> None:
        """Remember the folder by its real path and read its rules from now on."""
        try:
            await asyncio.to_thread(trust_store.trust, self.workspace)
        except DecisionsNotSaved as error:
            self._tell(Notice(level="warning", text=f"Trusted for this session only: {error}", code="trust.unkept"))
        self.trusted = True
        self._files = None
        if await asyncio.to_thread(paths.workspace_settings_file(self.workspace).exists):
            text = "The folder has its own settings; they take effect at the next start."
            self._tell(Notice(level="warning", text=text, code="trust.settings"))

    @property
    def folders(self) -> tuple[tuple[str, Path], ...]:
        """The workspace's folders with the names that paths begin with; a single one has none."""
        if len(self._roots.folders) == 1:
            return (("", self.workspace),)
        return tuple(zip(self._roots.names, self._roots.folders, strict=True))

    def grounds(self) -> list[Ground]:
        """Those that are trusted, each with the trusted folders above it in its repository. Does file IO."""
        found: list[Ground] = []
        for name, folder in self.folders:
            own = folder == self.workspace
            if not (self.trusted if own else trust_store.is_trusted(folder)):
                continue
            above = above_in_repository(folder)
            found.append(Ground(folder, name, tuple(one for one in above if trust_store.is_trusted(one))))
        return found

    async def system(
        self, mode: Mode, approval_mode: ApprovalMode, model_prompt: str = "", role: str = "", window: int | None = None
    ) -> str:
        """The system message of the next requests; its text stays the same from run to run where nothing changed.

        `model_prompt`: what models.json has to tell the model. `role`: who is told, see modes.py. `window`: tokens.
        """
        async with self._settling:
            files, found = await self._rules(), await self._discovered()
        from tui_agent.engine.context.modes import FILES, ORCHESTRATOR

        leads = role in (ORCHESTRATOR, FILES)  # it sends others to look (T5); it gets the files themselves (E5)
        return system_text(
            [one.told for one in files if one.text],
            mode=mode,
            reads_only=approval_mode is ApprovalMode.READ_ONLY,
            where="" if role == FILES else where_text(self.folders, dt.date.today().isoformat()),
            project="" if leads else text_for(found, window),
            model_prompt=model_prompt,
            role=role,
        )

    async def _rules(self) -> tuple[AgentFile, ...]:
        """The AGENTS.md files that hold for all paths, read again where one changed."""
        if self._files is None or not await asyncio.to_thread(unchanged, self._files):
            grounds = await asyncio.to_thread(self.grounds)
            self._warn_untrusted([ground.folder for ground in grounds])
            self._files = await asyncio.to_thread(read_agent_files, paths.agents_file(), grounds)
            for one in self._files:
                self._warn(one)
            self._list(self._files)
        return self._files

    async def _discovered(self) -> tuple[tuple[str, ProjectFacts], ...]:
        """What kind of project each trusted folder holds, as it was found first (H3)."""
        grounds = await asyncio.to_thread(self.grounds)
        new = [ground.folder for ground in grounds if ground.folder not in self._found]
        if new:
            roots = tuple(folder for _, folder in self.folders)
            for folder, found in zip(new, await asyncio.gather(*(discover(one, roots) for one in new)), strict=True):
                self._found[folder] = found
        return tuple((ground.name, self._found[ground.folder]) for ground in grounds)

    # --- what the user is told ---

    def _list(self, files: Sequence[AgentFile]) -> None:
        used = [f"{_name(one)} ({_tokens(one.text):,} tokens)" for one in files if one.text]
        self._say("info", f"Rules in use: {', '.join(used)}.", "rules.loaded") if used else None

    def _tell_nested(self, file: AgentFile) -> None:
        self._warn(file)
        if file.text:
            text = f"Rules of a folder, now in use: {_name(file)} ({_tokens(file.text):,} tokens)."
            self._say("info", text, "rules.nested")

    def _warn(self, file: AgentFile) -> None:
        if file.warning:
            self._say("warning", file.warning, "rules.unread")

    def _warn_untrusted(self, trusted: Sequence[Path]) -> None:
        for _, folder in self.folders:
            if folder != self.workspace and folder not in trusted:
                text = (
                    f"{folder} is not trusted: its AGENTS.md and its git status are not read. "
                    "Start tui-agent there once to trust it."
                )
                self._say("info", text, "trust.root")

    def _say(self, level: Literal["info", "warning"], text: str, code: str) -> None:
        """Tell, once."""
        if text not in self._said:
            self._said.add(text)
            self._tell(Notice(level=level, text=text, code=code))


def _name(file: AgentFile) -> str:
    return "~/AGENTS.md" if file.source == "the user" else file.source


def _tokens(text: str) -> int:
    from tui_agent.engine.core.tokens import Gauge, count

    return Gauge().estimate(count(text))


def offer_rules() -> Notice | None:
    """The offer to write ~/AGENTS.md from a template, made once in a lifetime (H1). Does file IO."""
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


# --- what kind of project a folder holds, found out once a session, in trusted folders only (H3, A8) ---

ENTRIES = 20_000
"""Entries of a folder that are looked at when languages are counted."""
SECONDS = 0.4
"""For counting; the folders above come first."""
LOOKS = 256
"""Entries between two looks at the clock: a small project is counted whole however busy the machine is."""
GIT_SECONDS = 2.0
"""For git; without an answer until then its status is left out."""
DEPTH = 12
NAMES = 8
"""Names of project files, documents and changed files that are told."""
LANGUAGES = 5
FULL, SMALL = 900, 360
"""Characters of what the model is told, about 250 and 100 tokens; the second in windows of at most SMALL_WINDOW."""
SMALL_WINDOW = 8_192


class ProjectFacts(msgspec.Struct, frozen=True):
    """What was found in one folder, as it was when the session began."""

    projects: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    languages: tuple[tuple[str, int], ...] = ()
    """Name and number of files, the most frequent first."""
    counted_all: bool = True
    branch: str = ""
    changed: int | None = None
    """Changed files; None where git gave no answer."""
    untracked: int = 0
    names: tuple[str, ...] = ()
    """Some of the changed files."""

    def told(self, room: int) -> str:
        """All of it in `room` characters, whole lines only; empty where nothing was found."""
        lines = [
            f"Project files: {', '.join(self.projects)}." if self.projects else "",
            self._languages(),
            f"Documents: {', '.join(self.documents)}." if self.documents else "",
        ]
        kept: list[str] = []
        for line in filter(None, lines):
            if sum(map(len, kept)) + len(kept) + len(line) <= room:
                kept.append(line)
        left = room - sum(map(len, kept)) - len(kept)
        git = next((line for line in (self._git(True), self._git(False)) if len(line) <= left), "")
        return "\n".join(filter(None, [*kept, git]))

    def _languages(self) -> str:
        if not self.languages:
            return ""
        more = "" if self.counted_all else " or more"
        counts = ", ".join(
            f"{name} {number:,}{more} file{'s' if number > 1 or more else ''}" for name, number in self.languages
        )
        return f"Languages: {counts}."

    def _git(self, named: bool) -> str:
        if not self.branch:
            return ""
        branch = f"Git branch {self.branch}"
        if self.changed is None:
            return f"{branch}."
        if not self.changed and not self.untracked:
            return f"{branch}, nothing changed since the last commit."
        parts = [f"{self.changed:,} changed"] if self.changed else []
        parts += [f"{self.untracked:,} untracked"] if self.untracked else []
        names = f": {', '.join(self.names)}" if self.names and named else ""
        more = ", …" if names and self.changed > len(self.names) else ""
        return f"{branch}, {' and '.join(parts)} when the session began{names}{more}."


async def discover(folder: Path, roots: tuple[Path, ...]) -> ProjectFacts:
    """What is in `folder`, one of `roots`. Takes at most about GIT_SECONDS; never raises but for cancellation.

    The folder must be trusted: git is asked, in a way in which it runs nothing of the repository.
    """
    stop = threading.Event()
    try:
        looked, status = await asyncio.gather(
            asyncio.to_thread(_looked, folder, stop), _status(Git(folder, roots), folder)
        )
    finally:
        stop.set()
    found: ProjectFacts = msgspec.structs.replace(looked, **status)
    return found


def text_for(found: tuple[tuple[str, ProjectFacts], ...], window: int | None) -> str:
    """What the system message says of the folders, each with its name where there are several; may be empty."""
    room = (SMALL if window is not None and window <= SMALL_WINDOW else FULL) // max(1, len(found))
    parts = [(name, one.told(room)) for name, one in found]
    told = [f"In {name}:\n{text}" if len(found) > 1 else text for name, text in parts if text]
    return mark_invisible("\n".join(told))


# --- by file --------------------------------------------------------------------------------


_table = partial(read_table, __file__, "discovery.json")


@cache
def _language_of() -> dict[str, str]:
    return {ending: name for name, endings in _table()["languages"].items() for ending in endings}


def _looked(folder: Path, stop: threading.Event) -> ProjectFacts:
    try:
        names = {entry.name for _, entry in zip(range(ENTRIES), os.scandir(folder), strict=False)}
    except OSError:
        return ProjectFacts()
    counts, counted_all = _counted(folder, stop)
    common = counts.most_common(LANGUAGES)
    least = common[0][1] // 50 if common else 0
    return ProjectFacts(
        projects=tuple(name for name in _table()["projects"] if name in names)[:NAMES],
        documents=tuple(name for name in _table()["documents"] if name in names)[:NAMES],
        languages=tuple((name, number) for name, number in common if number > least),
        counted_all=counted_all,
        branch=printable_name(branch_of(folder) or "")[:80],
    )


def _counted(folder: Path, stop: threading.Event) -> tuple[Counter[str], bool]:
    """Files by language, and whether all were seen: breadth first, so that a limit leaves out what lies deepest."""
    from tui_agent.tools.gitignore import GitIgnore  # not before the first message

    counts: Counter[str] = Counter()
    until, left = time.monotonic() + SECONDS, ENTRIES
    queue = deque([(folder, GitIgnore.at(folder, folder))])
    skipped, language_of = frozenset(_table()["skipped"]), _language_of()
    while queue:
        where, rules = queue.popleft()
        parts = where.relative_to(folder).parts
        try:
            with open_folder(where) as fd, os.scandir(fd) as entries:
                for entry in entries:
                    left -= 1
                    late = left % LOOKS == 0 and time.monotonic() > until
                    if left < 0 or late or stop.is_set():
                        return counts, False
                    name = entry.name
                    if name.startswith(".") or entry.is_symlink():
                        continue
                    is_folder = entry.is_dir(follow_symlinks=False)
                    language = language_of.get(name.rpartition(".")[2])
                    near = name not in skipped and len(parts) < DEPTH
                    wanted = near if is_folder else language is not None
                    if not wanted or rules.ignores((*parts, name), is_folder):
                        continue
                    if is_folder:
                        queue.append((where / name, rules.below(where / name)))
                    elif language is not None:
                        counts[language] += 1
        except OSError:
            continue
    return counts, True


# --- by git ---------------------------------------------------------------------------------


async def _status(git: Git, folder: Path) -> dict[str, Any]:
    """The fields of ProjectFacts that git knows."""
    if await asyncio.to_thread(branch_of, folder) is None:
        return {}
    said = await git.run(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--",
        ".",
        seconds=GIT_SECONDS,
    )
    if said is None:
        return {}
    rows = [row.decode("utf-8", "surrogateescape") for row in said.split(b"\0") if row]
    changed = [row[3:] for row in rows if not row.startswith(("??", "!!"))]
    return {
        "changed": len(changed),
        "untracked": sum(row.startswith("??") for row in rows),
        "names": tuple(printable_name(name)[:80] for name in changed[:NAMES]),
    }
