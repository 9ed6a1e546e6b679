"""The sandbox for commands that run without approval: bubblewrap, or else Landlock (A10).

What they deny (`Sandbox.denies` for this machine):

=============================  ===========  ======================  ================
                               bubblewrap   Landlock + namespaces   Landlock alone
=============================  ===========  ======================  ================
writing outside the roots      yes          yes                     yes, but modes
protected paths in the roots   yes          yes                     no
network                        yes          yes                     with the filter
sockets outside the roots      filter       filter                  filter
other processes                yes          yes                     signals: ABI 6
/proc/sys, /sys, devices       yes          yes                     only writing
ptrace, mount, set-user-id     yes          yes                     yes
=============================  ===========  ======================  ================

Everything can be read except folders of keys, /run and other processes' files in /tmp, /var/tmp and /dev/shm. Where
Landlock is available, bubblewrap uses it as well: a read-only mount denies no writing to named pipes. The filter for
system calls (`tui_agent/platform/seccomp.py`) is the same for all; without it a sandbox is not complete.

Existing protected paths are read-only at every depth (up to `MAX_GUARDED`), and missing folders of `PLACED` exist as
empty ones in each root while the command runs. Missing protected *files* can't be denied;
`engine/host/command_guard.py` finds those that were created. Commands of git alone may write the data of repositories
in the roots, but not their hooks and settings.

TMPDIR is in the scratch folder, which also is /tmp and /var/tmp where there are mounts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec

from tui_agent.common import paths
from tui_agent.common.domain import FrozenValue
from tui_agent.platform import landlock, supervisor
from tui_agent.platform.proc import Mounts, SandboxSpec, Sockets, Stage
from tui_agent.platform.programs import find_program
from tui_agent.safety import tables
from tui_agent.safety.protected_paths import ProtectedPaths
from tui_agent.safety.roots import Roots

Kind: TypeAlias = Literal["bwrap", "landlock", "none"]
Denied: TypeAlias = Literal["files", "protected", "network", "sockets"]

PLACED = (".git", ".vscode", ".idea", ".devcontainer", ".claude", ".cursor")
"""Folders of a root that programs are started from; missing ones exist while a command runs."""
HIDDEN = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".password-store")
"""Folders of keys in the home folder."""
PLACED_IN_GIT = ("hooks", "info")
"""The same in a git folder that may be written."""
MAX_GUARDED: Mapping[Kind, int] = {"bwrap": 300, "landlock": 1_000, "none": 0}
"""Protected paths that are made read-only. Each is a mount, and bubblewrap reads the list of mounts after each."""
PROBE_TIMEOUT = 10.0
_KEPT = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
"""Folders in /run with programs and libraries (NixOS)."""
_PRIVATE = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/var/run")
"""Folders that are a command's own."""
_OWN = ("/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/dev/ptmx")
"""What a command may write to outside of the roots, as it is its own."""
_READ_ONLY = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_COVERED = ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/vmallocinfo")
_EMPTY_SYSTEM = ("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware", "/sys/fs/bpf")


class Sandbox(FrozenValue, frozen=True, kw_only=True):
    """The sandbox of this machine."""

    kind: Kind
    program: str = ""
    """Absolute path of bwrap."""
    landlock: int = 0
    """ABI version of the kernel."""
    namespaces: bool = False
    """Whether namespaces are available in addition to Landlock."""
    sockets: Sockets = "open"
    """What becomes of sockets with a path."""

    @property
    def denies(self) -> frozenset[Denied]:
        """What a command is denied if the network is not allowed."""
        if self.kind == "none":
            return frozenset()
        filtered: set[Denied] = {"network", "sockets"} if self.sockets != "open" else set()
        mounted: set[Denied] = {"protected", "network"} if self.kind == "bwrap" or self.namespaces else set()
        return frozenset({"files", *filtered, *mounted})

    @property
    def is_complete(self) -> bool:
        """Whether it denies everything that a sandbox should (A4's `sandboxed`)."""
        return len(self.denies) == len(get_args(Denied))

    @property
    def label(self) -> str:
        """Text for events: the kind, and if it is not complete what it denies, such as `landlock: files, network`."""
        if self.kind == "none" or self.is_complete:
            return self.kind
        return f"{self.kind}: {', '.join(name for name in get_args(Denied) if name in self.denies)}"


NONE = Sandbox(kind="none")


@cache
def find_sandbox(workspace: Path | None = None) -> Sandbox:
    """Find the sandbox that actually works; no bwrap from inside of `workspace` is used.

    Blocks for some ten milliseconds the first time.
    """
    if not sys.platform.startswith("linux"):
        return NONE
    probe = _start([sys.executable, "-I", "-S", supervisor.__file__, "probe"])  # the two run side by side
    program = _find_bwrap(workspace)
    found = _output(probe).split()
    sockets: Sockets = "asked" if "asked" in found else "denied" if "denied" in found else "open"
    version = landlock.abi_version()
    if program:
        return Sandbox(kind="bwrap", program=program, landlock=version, sockets=sockets)
    if not version:
        return NONE
    return Sandbox(kind="landlock", landlock=version, namespaces="namespaces" in found, sockets=sockets)


def _find_bwrap(workspace: Path | None) -> str:
    """Return the absolute path of the first working bubblewrap on PATH; empty if there is none."""
    for entry in os.environ.get("PATH", "").split(os.pathsep):
        program = find_program("bwrap", [workspace] if workspace else [], entry)
        path = os.path.realpath(program) if program else ""
        if path and _output(_start([path, *_BWRAP_OPTIONS, "--unshare-net", "--", "/bin/echo", "works"])):
            return path
    return ""


def _start(command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Start a short command; None if it can't be started."""
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
        )
    except OSError:
        return None


def _output(process: subprocess.Popen[bytes] | None) -> str:
    """Wait for a short command and return its output; empty if it fails."""
    if process is None:
        return ""
    try:
        output, _ = process.communicate(timeout=PROBE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return ""
    return "" if process.returncode else output.decode(errors="replace")


_BWRAP_OPTIONS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL"),
)
"""Without `--die-with-parent`, as processes that a command leaves may stay below our supervisor."""


class ConfinedCommand:
    """The confinement of one command. Constructing it searches the roots: do it in a thread."""

    def __init__(
        self,
        sandbox: Sandbox,
        roots: Roots,
        *,
        writes: bool = True,
        network: bool = False,
        repositories: bool = False,
        search: ProtectedPaths | None = None,
    ) -> None:
        """`writes` False: nothing can be written. `repositories`: the data of git repositories in the roots can.

        `search`: that of the session, which knows most folders.
        """
        self._sandbox = sandbox
        self._network = network
        scratch = str(roots.scratch) if roots.scratch is not None else ""
        folders = [str(folder) for folder in roots.folders]
        self._accessible = [*folders, *([scratch] if scratch else [])]
        self._writable_roots = folders if writes else []
        self._placeable = [os.path.join(root, name) for root in self._writable_roots for name in PLACED]
        self._writable = self._accessible if writes else []
        self._search = ProtectedPaths(roots.protects) if search is None else search
        limit = MAX_GUARDED[sandbox.kind] if "protected" in sandbox.denies else 0
        self._existing_protected = self._search.find(self._writable_roots, limit)
        self._git_folders: list[str] = []
        if repositories and writes:
            self._open_repositories(limit)
        self.environment: Mapping[str, str] = {}
        self._temporary = ""
        if scratch and writes:
            self._temporary = os.path.join(scratch, "tmp")
            os.makedirs(self._temporary, mode=0o700, exist_ok=True)
            self.environment = {"TMPDIR": self._temporary}

    def _open_repositories(self, limit: int) -> None:
        """Protect what runs programs in the git folders, instead of these folders."""
        pending = [path for path in self._existing_protected if _is_git_folder(path)]
        guarded = [path for path in self._existing_protected if path not in pending]
        for folder in pending:  # grows as modules and linked work trees are found
            inner, fixed = _divide_git_folder(folder)
            if len(guarded) + len(fixed) + len(self._git_folders) >= limit:
                guarded.append(folder)
                continue
            pending += inner
            guarded += fixed
            self._git_folders.append(folder)
            self._placeable += [os.path.join(folder, name) for name in PLACED_IN_GIT]
        self._existing_protected = guarded

    def confine(
        self, stages: Sequence[Stage], cwd: Path, writable: Sequence[Path] = ()
    ) -> tuple[Sequence[Stage], SandboxSpec]:
        """Return the programs to start instead and their sandbox, as in `Confinement`."""
        sandbox, network = self._sandbox, self._network
        has_mounts = sandbox.kind == "bwrap" or sandbox.namespaces
        folders = (*self._writable, *map(str, writable))
        placed = [path for path in self._placeable if has_mounts and not os.path.lexists(path)]
        mounts = Mounts(
            writable=(*folders, *(self._git_folders if has_mounts else ())),  # a mount can't be renamed
            visible=(*self._accessible, *self._kept()),
            guarded=(*self._existing_protected, *placed),
            hidden=self._hidden(),
            temporary=self._temporary,
        )
        spec = SandboxSpec(
            placed=tuple(placed),
            network=network,
            own_network=has_mounts and not network,
            sockets=sandbox.sockets,
            reachable=(*folders, *_OWN[:3]) if has_mounts else folders,
        )
        allowed = (*folders, *_OWN) if has_mounts and self._writable else folders
        if sandbox.kind == "bwrap":
            return [self._wrap(stage, mounts, allowed, cwd) for stage in stages], spec
        return stages, msgspec.structs.replace(
            spec, mounts=mounts if has_mounts else None, landlock=sandbox.landlock, writable=allowed
        )

    def _wrap(self, stage: Stage, mounts: Mounts, allowed: Sequence[str], cwd: Path) -> Stage:
        argv = ["bwrap", *_BWRAP_OPTIONS, *([] if self._network else ["--unshare-net"])]
        for path in filter(os.path.isdir, ("/tmp", "/var/tmp")):
            argv += ["--bind", mounts.temporary, path] if mounts.temporary else ["--tmpfs", path]
        argv += ["--tmpfs", "/run"]
        for path in _READ_ONLY:
            argv += ["--ro-bind-try", path, path]
        for path in filter(os.path.exists, _COVERED):
            argv += ["--ro-bind", "/dev/null", path]
        for path in sorted({*mounts.writable, *mounts.visible}, key=len):
            argv += ["--bind" if path in mounts.writable else "--ro-bind", path, path]
        for path in filter(os.path.isdir, (*mounts.hidden, *_EMPTY_SYSTEM)):
            argv += ["--tmpfs", path, "--remount-ro", path]
        for path in mounts.guarded:
            argv += ["--ro-bind", path, path]
        argv += ["--remount-ro", "/run", "--chdir", str(cwd), "--"]
        if self._sandbox.landlock:
            argv += [sys.executable, "-I", "-S", landlock.__file__]
            argv += [str(self._sandbox.landlock), str(len(allowed)), *allowed, stage.program]
            return msgspec.structs.replace(stage, program=self._sandbox.program, argv=(*argv, *stage.argv))
        return msgspec.structs.replace(
            stage, program=self._sandbox.program, argv=(*argv, stage.program, *stage.argv[1:])
        )

    def _kept(self) -> list[str]:
        """Return what a command needs of the folders that are its own: our Python, and how names are looked up."""
        own = (sys.prefix, sys.base_prefix, os.path.dirname(landlock.__file__))
        names = [os.path.realpath("/etc/resolv.conf")] if self._network else []
        return [
            path
            for path in dict.fromkeys((*map(os.path.realpath, own), *names, *_KEPT))
            if any(Path(path).is_relative_to(folder) for folder in _PRIVATE) and os.path.exists(path)
        ]

    def _hidden(self) -> tuple[str, ...]:
        try:
            home = paths.home_dir()
        except paths.HomeNotFoundError:
            return ()
        folders = [os.path.join(home, name) for name in HIDDEN]
        folders.append(os.environ.get("XDG_RUNTIME_DIR", ""))
        paths_in_use = list(map(Path, self._accessible))  # a folder that the command works in can't be hidden
        return tuple(
            folder
            for folder in dict.fromkeys(map(os.path.realpath, filter(os.path.isabs, folders)))
            if os.path.isdir(folder)
            and not any(path.is_relative_to(folder) for path in paths_in_use)
            and not any(Path(folder).is_relative_to(private) for private in _PRIVATE)
        )


def _is_git_folder(path: str) -> bool:
    return os.path.basename(path) == ".git" and os.path.isdir(path)


def _divide_git_folder(folder: str) -> tuple[list[str], list[str]]:
    """Return the git folders in a git folder (of submodules and linked work trees), and what must stay read-only."""
    data = re.compile(tables.GIT_DATA)
    inner: list[str] = []
    fixed: list[str] = []
    pending = [folder]
    for parent in pending:
        is_repository = parent == folder
        try:
            with os.scandir(parent) as entries:
                listed = [entry for entry in entries if not entry.is_symlink()]
        except OSError:
            fixed.append(parent)
            continue
        for entry in listed:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and not is_repository and os.path.lexists(os.path.join(entry.path, "HEAD")):
                inner.append(entry.path)
            elif is_folder and (not is_repository or entry.name in ("modules", "worktrees")):
                pending.append(entry.path)
            elif not is_repository or not data.fullmatch(entry.name):
                fixed.append(entry.path)
    return inner, fixed
