"""What one command of a session leaves to the next: its folder and the exported variables, nothing else (R-12)."""

from __future__ import annotations

import fnmatch
import os
import re
import secrets
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tui_agent.domain import Noun

SIZE_CAP = 4 * 1024 * 1024
SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
    "/bin/sh",
    "/usr/bin/sh",
)
"""Where the shell is looked for; never $SHELL, which may be one of another grammar (D21)."""

FORGOTTEN = (
    "_",
    "PWD",
    "SHLVL",
    "ENV",
    "BASH*",
    "SHELLOPTS",
    "PROMPT_COMMAND",
    "PS[0-4]",
    "POSIXLY_CORRECT",
    "GLOBIGNORE",
    "EXECIGNORE",
    "FUNCNEST",
    "TIMEFORMAT",
)
"""Exported variables that would change how the next shell reads its command, and the shell's own."""
TELLING = (
    "PATH",
    "LD_*",
    "DYLD_*",
    "BASH_ENV",
    "ENV",
    "CDPATH",
    "HOME",
    "GIT_*",
    "PYTHON*",
    "NODE_PATH",
    "PERL5*",
    "RUBYOPT",
    "RUBYLIB",
    "EDITOR",
    "VISUAL",
    "*PAGER",
    "*_ASKPASS",
    "*_WRAPPER",
    "LESSOPEN",
    "SHELL",
    "MAKEFILES",
    "*FLAGS",
    "*_OPTIONS",
    "*_ADDOPTS",
    "*_RSH",
    "npm_config_*",
    "CC",
    "CXX",
    "IFS",
)
"""Variables that change how programs are found or loaded; a change of them is shown in the next approval."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_SH = """trap '{ set +x; { printf "%s\\0" "$(pwd -P)" && /usr/bin/env -0 && printf "%s\\0" @END@; } >| @STATE@; } \
2> /dev/null' EXIT
eval "$1"
"""
"""For a shell without BASH_ENV; a trap of the command's own on EXIT replaces this one."""


class State(Noun, frozen=True, kw_only=True):
    """Folder and exported variables."""

    cwd: str
    environment: dict[str, str]


class Errand:
    """The folder in which one command finds its prelude and leaves its state; private, and gone afterwards."""

    def __init__(self, shell: str) -> None:
        """Blocking (a little): call it in a thread. Raises OSError."""
        self._shell = shell
        self.folder = self._folder = Path(tempfile.mkdtemp(prefix="tui-agent-sh-"))
        self._end = secrets.token_hex(16)
        self._prelude = self._folder / "prelude"
        self._state = self._folder / "state"
        if self._bash:
            text = Path(__file__).with_name("prelude.bash").read_text("utf-8")
            self._prelude.write_text(self._filled(text), "utf-8")

    @property
    def _bash(self) -> bool:
        return Path(self._shell).name == "bash"

    def _filled(self, text: str) -> str:
        return text.replace("@END@", self._end).replace("@STATE@", shlex.quote(str(self._state)))

    def argv(self, command: str) -> tuple[str, ...]:
        """How the shell is called. bash gets the exact text of the command, and no other."""
        if self._bash:
            return ("bash", "--noprofile", "--norc", "-c", command)
        return ("sh", "-c", self._filled(_SH), "sh", command)

    def environment(self, carried: Mapping[str, str]) -> dict[str, str]:
        """The variables for the shell."""
        return {**carried, "BASH_ENV": str(self._prelude)} if self._bash else dict(carried)

    def collect(self) -> State | None:
        """Read what was left, and clean up. None when the command replaced or killed its shell. Call it in a thread."""
        try:
            return self._read()
        except OSError:
            return None
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> State | None:
        fd = os.open(self._state, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            data = file.read(SIZE_CAP + 1)
        fields = data.split(b"\0")
        # The last field is empty, the one before it proves that the state was written to its end.
        if len(data) > SIZE_CAP or len(fields) < 3 or fields[-2] != self._end.encode():
            return None
        pairs = (os.fsdecode(field).partition("=") for field in fields[1:-2])
        kept = {name: value for name, _, value in pairs if _NAME.fullmatch(name) and not is_forgotten(name)}
        return State(cwd=os.fsdecode(fields[0]), environment=kept)


def is_forgotten(name: str) -> bool:
    """Whether a variable is not carried over, although exported."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in FORGOTTEN)


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The telling variables that differ: `NAME=value`, or `NAME (unset)`."""
    names = sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in TELLING)
    )
    return tuple(f"{name}={after[name]}" if name in after else f"{name} (unset)" for name in names)


def find_shell(candidates: tuple[str, ...] = SHELLS) -> str | None:
    """Absolute path of bash, else of sh."""
    return next((path for path in candidates if os.access(path, os.X_OK)), None)
