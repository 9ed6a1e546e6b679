"""The sandbox for commands that run without approval: bubblewrap, or else Landlock (A10).

What they deny (`Sandbox.denies` for this machine):

=============================  ===========  ======================  ================
                               bubblewrap   Landlock + namespaces   Landlock alone
=============================  ===========  ======================  ================
writing outside the roots      yes          yes                     yes
protected paths in the roots   yes          yes                     no
TCP, /dev/tcp                  yes          yes                     from ABI 4
UDP, DNS                       yes          yes                     no
sockets of the session bus     yes (/run)   yes (/run)              no
signals to others              yes          from ABI 6              from ABI 6
ptrace, mount, set-user-id     yes          yes                     yes
=============================  ===========  ======================  ================

Everything can be read except folders of keys, which appear empty. Existing protected paths are read-only (up to
`MAX_PROTECTED`), and missing folders of `PLACED` exist as empty ones in each root while the command runs. Missing
protected *files* can't be denied; `engine/host/command_guard.py` finds those that were created.

TMPDIR is in the scratch folder; under bubblewrap also /tmp is that folder, elsewhere /tmp is read-only.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.platform import landlock
from tui_agent.platform.proc import SandboxSpec, Stage
from tui_agent.platform.programs import find_program
from tui_agent.safety.roots import Roots

Kind: TypeAlias = Literal["bwrap", "landlock", "none"]
Denied: TypeAlias = Literal["files", "protected", "tcp", "network"]

PLACED = (".git", ".vscode", ".idea", ".devcontainer", ".claude", ".cursor")
"""Folders of a root that programs are started from; missing ones exist while a command runs."""
HIDDEN = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".password-store")
"""Folders of keys in the home folder."""
MAX_PROTECTED = 200
"""Protected paths that are made read-only."""
MAX_ENTRIES = 10_000
"""Entries of a workspace that are searched for them, top folders first."""
_PATH_MATTERS = re.compile(r"/(?:\.|etc/|var/|Library/)")
"""Below these folders patterns depend on the path, elsewhere on the name only."""
EXCLUDED = ("node_modules", ".venv", "venv", "__pycache__", "target", ".tox")
"""Folders that are not searched."""
PROBE_TIMEOUT = 10.0
MAX_SHARED = 200
"""Folders in /tmp that a command under bubblewrap may read."""


class Sandbox(FrozenValue, frozen=True, kw_only=True):
    """The sandbox of this machine."""

    kind: Kind
    program: str = ""
    """Absolute path of bwrap."""
    landlock: int = 0
    """ABI version of the kernel."""
    namespaces: bool = False
    """Whether mount and network namespaces are available in addition to Landlock."""

    @property
    def denies(self) -> frozenset[Denied]:
        """What a command is denied if the network is not allowed."""
        if self.kind == "bwrap" or (self.kind == "landlock" and self.namespaces):
            return frozenset(("files", "protected", "tcp", "network"))
        if self.kind == "landlock":
            return frozenset(("files", "tcp")) if self.landlock >= 4 else frozenset(("files",))
        return frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether it denies everything that a sandbox should (A4's `sandboxed`)."""
        return "protected" in self.denies

    @property
    def label(self) -> str:
        """Text for the status line: `bwrap`, `landlock`, `landlock: files only`, `none`."""
        if self.kind != "landlock" or self.is_complete:
            return self.kind
        return "landlock: files and tcp" if "tcp" in self.denies else "landlock: files only"


NONE = Sandbox(kind="none")


@cache
def find_sandbox(workspace: Path | None = None) -> Sandbox:
    """Find the sandbox that actually works; no bwrap from inside of `workspace` is used.

    Blocks for some ten milliseconds the first time.
    """
    if not sys.platform.startswith("linux"):
        return NONE
    program = _find_bwrap(workspace)
    if program:
        return Sandbox(kind="bwrap", program=program)
    version = landlock.abi_version()
    if not version:
        return NONE
    probe = [sys.executable, "-I", "-S", landlock.__file__]
    return Sandbox(kind="landlock", landlock=version, namespaces=_works(probe))


def _find_bwrap(workspace: Path | None) -> str:
    """Return the absolute path of the first working bubblewrap on PATH; empty if there is none."""
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        program = find_program("bwrap", [workspace] if workspace else [], entry)
        path = os.path.realpath(program) if program else ""
        if path and _works([path, *_BWRAP_OPTIONS, "--unshare-net", "--", "/bin/true"]):
            return path
    return ""


def _works(command: Sequence[str]) -> bool:
    try:
        process = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            timeout=PROBE_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return process.returncode == 0


_BWRAP_OPTIONS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL"),
)
"""Without `--die-with-parent`, as processes that a command leaves may stay below our supervisor."""


def _shared_folders() -> list[str]:
    """Return the folders in /tmp that can be read: none with sockets, which lead out of the sandbox."""
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir("/tmp") as entries:
        for entry in entries:
            if len(folders) >= MAX_SHARED or entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False) and not _has_sockets(entry.path):
                folders.append(entry.path)
    return sorted(folders)


def _has_sockets(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode) for entry in islice(entries, 1_000))
    except OSError:
        return True


class ConfinedCommand:
    """The confinement of one command. Constructing it searches the roots: do it in a thread."""

    def __init__(
        self,
        sandbox: Sandbox,
        roots: Roots,
        *,
        writes: bool = True,
        network: bool = False,
        cache: dict[tuple[str, bool], bool] | None = None,
    ) -> None:
        """`writes` False: nothing can be written. `cache`: protected names, shared by the commands of a session."""
        self._sandbox = sandbox
        self._network = network
        scratch = str(roots.scratch) if roots.scratch is not None else ""
        folders = [str(folder) for folder in roots.folders]
        self._accessible = [*folders, *([scratch] if scratch else [])]
        self._writable_roots = folders if writes else []
        self._placeable = [os.path.join(root, name) for root in self._writable_roots for name in PLACED]
        self._writable = self._accessible if writes else []
        self._protects = roots.protects
        self._cache = {} if cache is None else cache
        """Name, and whether it is a folder → whether it is protected, as nearly all patterns depend only on names."""
        self._existing_protected = self._find_protected() if writes and sandbox.is_complete else []
        self.environment: Mapping[str, str] = {}
        self._temporary = ""
        if scratch and writes:
            self._temporary = os.path.join(scratch, "tmp")
            os.makedirs(self._temporary, mode=0o700, exist_ok=True)
            self.environment = {"TMPDIR": self._temporary}

    def confine(
        self, stages: Sequence[Stage], cwd: Path, writable: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], SandboxSpec]:
        """Return the programs to start instead and their sandbox, as in `Confinement`."""
        placed = [path for path in self._placeable if self._sandbox.is_complete and not os.path.lexists(path)]
        spec = SandboxSpec(
            writable=(*self._writable, *map(str, writable)),
            guarded=(*self._existing_protected, *placed),
            hidden=self._hidden(),
            placed=tuple(placed),
            network=self._network,
            namespaces=self._sandbox.namespaces,
            landlock=self._sandbox.landlock,
        )
        if self._sandbox.kind == "bwrap":
            return [self._wrap(stage, spec, cwd) for stage in stages], SandboxSpec(placed=spec.placed)
        return stages, spec

    def _wrap(self, stage: Stage, spec: SandboxSpec, cwd: Path) -> Stage:
        argv = ["bwrap", *_BWRAP_OPTIONS]
        argv += ["--bind", self._temporary, "/tmp"] if self._temporary else ["--tmpfs", "/tmp"]
        argv += [] if self._network else ["--unshare-net"]
        for path in _shared_folders():
            argv += ["--ro-bind-try", path, path]  # each may have been removed meanwhile
        for path in spec.hidden:
            argv += ["--tmpfs", path]
        for path in self._accessible:
            argv += ["--ro-bind", path, path]  # it may be in /tmp
        for path in spec.writable:
            argv += ["--bind", path, path]
        for path in spec.guarded:
            argv += ["--ro-bind", path, path]
        argv += ["--chdir", str(cwd), "--", stage.program, *stage.argv[1:]]
        return msgspec.structs.replace(stage, program=self._sandbox.program, argv=tuple(argv))

    def _hidden(self) -> tuple[str, ...]:
        try:
            home = paths.home_dir()
        except paths.HomeNotFoundError:
            return ()
        folders = [os.path.join(home, name) for name in HIDDEN]
        if not self._network:
            folders.append("/run")
        paths_in_use = list(map(Path, self._accessible))  # a folder that the command works in can't be hidden
        return tuple(
            folder
            for folder in map(os.path.realpath, folders)
            if os.path.isdir(folder) and not any(path.is_relative_to(folder) for path in paths_in_use)
        )

    def _find_protected(self) -> list[str]:
        """Return the existing protected paths in the roots, top folders first."""
        protected: list[str] = []
        folders = list(self._writable_roots)
        remaining = MAX_ENTRIES
        for folder in folders:
            if remaining <= 0 or len(protected) >= MAX_PROTECTED:
                break
            for name, path, is_folder in _entries(folder):
                remaining -= 1
                if self._is_protected(name, path, is_folder):
                    protected.append(path)
                elif is_folder and name not in EXCLUDED:
                    folders.append(path)
        return protected

    def _is_protected(self, name: str, path: str, is_folder: bool) -> bool:
        tested = path + "/x" if is_folder else path
        if _PATH_MATTERS.search(path, 0, len(path) - len(name)):
            return self._protects(tested)
        key = (name, is_folder)
        if key not in self._cache:
            self._cache[key] = self._protects(tested)
        return self._cache[key]


def _entries(folder: str) -> list[tuple[str, str, bool]]:
    """Return name, path and whether it is a folder, of all entries except links."""
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.name, entry.path, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.is_symlink()
            ]
    except OSError:
        return []
