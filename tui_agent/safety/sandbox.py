"""The sandbox for commands that nobody may have looked at: bubblewrap, else Landlock (A10).

What each of them denies, `denies` says for the machine at hand:

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

Reading is free but for folders of keys, which look empty. Of protected paths those that exist are held (up to `MOST`
of them), and of absent ones the folders `PLACED` of each root: they stand empty for as long as the command runs.
Absent protected *files* can't be held; `Confined.appeared` names those that came to be.

TMPDIR leads into the scratch folder; under bubblewrap /tmp is that folder too, elsewhere /tmp can only be read.
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
from tui_agent.platform import landlock as child
from tui_agent.platform.proc import SandboxSpec, Stage
from tui_agent.safety.roots import Roots

Kind: TypeAlias = Literal["bwrap", "landlock", "none"]
Denied: TypeAlias = Literal["files", "protected", "tcp", "network"]

PLACED = (".git", ".vscode", ".idea", ".devcontainer", ".claude", ".cursor")
"""Folders of a root in which programs are looked for; made for as long as a command runs, where they are absent."""
HIDDEN = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".password-store")
"""Folders of keys in the home folder."""
MOST = 200
"""Protected paths that are held at most."""
LOOKED_AT = 10_000
"""Entries of a workspace that are looked at for them at most, those at the top first."""
_BY_PLACE = re.compile(r"/(?:\.|etc/|var/|Library/)")
"""Beneath these it matters where a name stands."""
DEEP = ("node_modules", ".venv", "venv", "__pycache__", "target", ".tox")
"""Folders that are not searched."""
PROBE = 10.0
"""Seconds that a trial may take."""
SHARED = 200
"""Folders in /tmp that a command under bubblewrap may read, at most."""


class Sandbox(FrozenValue, frozen=True, kw_only=True):
    """What there is on this machine."""

    kind: Kind
    program: str = ""
    """bwrap's absolute path."""
    landlock: int = 0
    """ABI of the kernel."""
    namespaces: bool = False
    """Whether mount and network namespaces can be had together with Landlock."""

    @property
    def denies(self) -> frozenset[Denied]:
        """What is kept from a command as long as the network is not allowed."""
        if self.kind == "bwrap" or (self.kind == "landlock" and self.namespaces):
            return frozenset(("files", "protected", "tcp", "network"))
        if self.kind == "landlock":
            return frozenset(("files", "tcp")) if self.landlock >= 4 else frozenset(("files",))
        return frozenset()

    @property
    def whole(self) -> bool:
        """Whether it denies all that a sandbox should (A4's `sandboxed`)."""
        return "protected" in self.denies

    @property
    def shown(self) -> str:
        """A word for the status line: `bwrap`, `landlock`, `landlock: files only`, `none`."""
        if self.kind != "landlock" or self.whole:
            return self.kind
        return "landlock: files and tcp" if "tcp" in self.denies else "landlock: files only"


NONE = Sandbox(kind="none")


@cache
def find_sandbox(workspace: Path | None = None) -> Sandbox:
    """What there is: tried out, not believed. bwrap counts only from outside of `workspace`.

    Blocking, for some ten milliseconds the first time.
    """
    if not sys.platform.startswith("linux"):
        return NONE
    program = _bwrap(workspace)
    if program:
        return Sandbox(kind="bwrap", program=program)
    version = child.abi()
    if not version:
        return NONE
    trial = [sys.executable, "-I", "-S", child.__file__]
    return Sandbox(kind="landlock", landlock=version, namespaces=_works(trial))


def _bwrap(workspace: Path | None) -> str:
    """Absolute path of a bubblewrap that works here; empty when there is none, as in many containers."""
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.realpath(os.path.join(folder, "bwrap"))
        if not os.path.isabs(folder) or not os.access(path, os.X_OK):
            continue
        if workspace is not None and Path(path).is_relative_to(workspace):
            continue
        if _works([path, *_FRAME, "--unshare-net", "--", "/bin/true"]):
            return path
    return ""


def _works(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            timeout=PROBE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


_FRAME = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL"),
)
"""No `--die-with-parent`: what a command leaves running may stay, below our own supervisor."""


def _in_tmp() -> list[str]:
    """What can be read of the /tmp outside: no sockets and no folders that hold some, which lead out of the sandbox."""
    found: list[str] = []
    with contextlib.suppress(OSError), os.scandir("/tmp") as entries:
        for entry in entries:
            if len(found) >= SHARED or entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False) and not _meets(entry.path):
                found.append(entry.path)
    return sorted(found)


def _meets(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(stat.S_ISSOCK(one.stat(follow_symlinks=False).st_mode) for one in islice(entries, 1_000))
    except OSError:
        return True


class ConfinedCommand:
    """A `platform.proc.Confinement` for one command. Constructing it walks the roots: do it in a thread."""

    def __init__(
        self,
        sandbox: Sandbox,
        roots: Roots,
        *,
        writes: bool = True,
        network: bool = False,
        known: dict[tuple[str, bool], bool] | None = None,
    ) -> None:
        """`writes` False for what only reads and prints: then nothing can be written at all. `known` remembers names
        from one command to the next."""
        self._sandbox = sandbox
        self._network = network
        scratch = str(roots.scratch) if roots.scratch is not None else ""
        ground = [str(folder) for folder in roots.folders]
        self._ground = [*ground, *([scratch] if scratch else [])]
        self._folders = ground if writes else []
        self._writable = self._ground if writes else []
        self._protects = roots.protects
        self._known = {} if known is None else known
        """Name, and whether it is a folder → whether it is protected: nearly all patterns are about names alone."""
        self._guarded = self._protected() if writes and sandbox.whole else []
        self._before = self._tops() if writes else set()
        self.environment: Mapping[str, str] = {}
        self._temporary = ""
        if scratch and writes:
            self._temporary = os.path.join(scratch, "tmp")
            os.makedirs(self._temporary, mode=0o700, exist_ok=True)
            self.environment = {"TMPDIR": self._temporary}

    def confine(
        self, stages: Sequence[Stage], cwd: Path, more: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], SandboxSpec]:
        """See Confinement."""
        placed = [os.path.join(root, name) for root in self._folders for name in PLACED]
        placed = [path for path in placed if self._sandbox.whole and not os.path.lexists(path)]
        sandbox_spec = SandboxSpec(
            writable=(*self._writable, *map(str, more)),
            guarded=(*self._guarded, *placed),
            hidden=self._hidden(),
            placed=tuple(placed),
            network=self._network,
            namespaces=self._sandbox.namespaces,
            landlock=self._sandbox.landlock,
        )
        if self._sandbox.kind == "bwrap":
            return [self._wrapped(stage, sandbox_spec, cwd) for stage in stages], SandboxSpec(
                placed=sandbox_spec.placed
            )
        return stages, sandbox_spec

    def appeared(self) -> tuple[str, ...]:
        """Protected entries of the roots that were not there before."""
        return tuple(sorted(self._tops() - self._before)) if self._folders else ()

    def _wrapped(self, stage: Stage, sandbox_spec: SandboxSpec, cwd: Path) -> Stage:
        argv = ["bwrap", *_FRAME]
        argv += ["--bind", self._temporary, "/tmp"] if self._temporary else ["--tmpfs", "/tmp"]
        argv += [] if self._network else ["--unshare-net"]
        for path in _in_tmp():
            argv += ["--ro-bind-try", path, path]  # each may be gone meanwhile
        for path in sandbox_spec.hidden:
            argv += ["--tmpfs", path]
        for path in self._ground:
            argv += ["--ro-bind", path, path]  # it may lie in /tmp
        for path in sandbox_spec.writable:
            argv += ["--bind", path, path]
        for path in sandbox_spec.guarded:
            argv += ["--ro-bind", path, path]
        argv += ["--chdir", str(cwd), "--", stage.program, *stage.argv[1:]]
        return msgspec.structs.replace(stage, program=self._sandbox.program, argv=tuple(argv))

    def _hidden(self) -> tuple[str, ...]:
        try:
            home = paths.home_dir()
        except paths.HomeNotFoundError:
            return ()
        found = [os.path.join(home, name) for name in HIDDEN]
        if not self._network:
            found.append("/run")
        return tuple(path for path in map(os.path.realpath, found) if os.path.isdir(path) and not self._holds(path))

    def _holds(self, folder: str) -> bool:
        """Whether hiding `folder` would hide what the command works in."""
        return any(Path(one).is_relative_to(folder) for one in self._ground)

    def _protected(self) -> list[str]:
        """What of the roots is there and protected, those above before those below."""
        found: list[str] = []
        waiting = list(self._folders)
        left = LOOKED_AT
        for folder in waiting:
            if left <= 0 or len(found) >= MOST:
                break
            for name, path, is_folder in _entries(folder):
                left -= 1
                if self._is_protected(name, path, is_folder):
                    found.append(path)
                elif is_folder and name not in DEEP:
                    waiting.append(path)
        return found

    def _is_protected(self, name: str, path: str, is_folder: bool) -> bool:
        whole = path + "/x" if is_folder else path
        if _BY_PLACE.search(path, 0, len(path) - len(name)):
            return self._protects(whole)
        key = (name, is_folder)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._protects(whole)
        return known

    def _tops(self) -> set[str]:
        placed = {os.path.join(root, name) for root in self._folders for name in PLACED}
        return {
            path
            for root in self._folders
            for name, path, is_folder in _entries(root)
            if path not in placed and self._is_protected(name, path, is_folder)
        }


def _entries(folder: str) -> list[tuple[str, str, bool]]:
    """Name, path and whether it is a folder; links are left out."""
    try:
        with os.scandir(folder) as entries:
            return [(one.name, one.path, one.is_dir(follow_symlinks=False)) for one in entries if not one.is_symlink()]
    except OSError:
        return []
