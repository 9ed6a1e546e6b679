"""Check the argument list of a program, and make it ready to be started without a shell."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from tui_agent.common.domain import FrozenValue
from tui_agent.platform.environment import child_environment
from tui_agent.platform.git import Git
from tui_agent.platform.programs import program_folders, trusted_program
from tui_agent.shell.git_reads import git_read
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe, Unknown, argument_shape, require
from tui_agent.text.patterns import read_table

MAX_ARGUMENTS = 1000
"""Arguments that xargs adds to one command."""
_HARMLESS_PIN = re.compile(r"[\w.\-\s#:/]*")


_FETCHING_SHIMS = ("mise", "rtx", "volta-shim", "proto-shim")
"""What a program's name leads to if a version manager may fetch what the workspace asks for."""


class Prepared(FrozenValue, frozen=True, kw_only=True):
    """A program with its arguments, as it would be started."""

    program: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    """Additional variables."""
    git: Git | None = None
    """Set for git: it adds options of its own."""


class ArgumentLists:
    """Checks argument lists. `asks_git`: git may be asked what a command would show."""

    def __init__(self, readable: Readable, *, git: bool, asks_git: bool) -> None:
        self._readable = readable
        self._may_use_git = git
        self._asks_git = asks_git

    def prepare(self, argv: Sequence[str], cwd: Path, *, is_piped: bool) -> Prepared:
        """Return what to start. `is_piped`: it gets an input. Raises NotSafe. Reads the disk."""
        name, *arguments = argv
        if name == "timeout":
            return self._with_timeout(arguments, cwd, is_piped=is_piped)
        program = self._program(name)
        if name == "git" and arguments[:1] not in (["--version"], ["version"]):
            return self._git(program, arguments, cwd)
        shape = argument_shape(name, arguments)
        if shape.needs_home:
            require(os.path.basename(os.path.realpath(program)) not in _FETCHING_SHIMS)
            self._check_pins(name, cwd)
        environment = self._home_variables() if shape.needs_home else {}
        self._readable.check(shape, cwd, is_piped=is_piped)
        if shape.prefix:
            arguments = [*shape.prefix, *arguments]
        return Prepared(program=program, argv=(name, *arguments), environment=environment)

    def _program(self, name: str) -> str:
        require("/" not in name and bool(name))
        try:
            program = trusted_program(name, self._readable.roots)
        except PermissionError:
            raise NotSafe from None
        # A program that does not exist can't do harm.
        return str(program or f"/usr/bin/{name}")

    def _with_timeout(self, arguments: list[str], cwd: Path, *, is_piped: bool) -> Prepared:
        require(len(arguments) > 1 and bool(re.fullmatch(r"\d+(\.\d+)?[smh]?", arguments[0])))
        inner = self.prepare(arguments[1:], cwd, is_piped=is_piped)
        require(inner.git is None)
        argv = ("timeout", arguments[0], inner.program, *inner.argv[1:])
        return Prepared(program=self._program("timeout"), argv=argv, environment=inner.environment)

    def _git(self, program: str, arguments: list[str], cwd: Path) -> Prepared:
        require(self._may_use_git)
        asked = Path(program) if self._asks_git and os.path.exists(program) else None
        read = git_read(arguments, cwd, self._readable.roots, self._readable.has_credentials, asked)
        git = Git(read.cwd, self._readable.roots, work_tree=read.work_tree)
        return Prepared(
            program=program, argv=("git", "-C", str(read.cwd), *read.arguments), environment=git.environment(), git=git
        )

    def _check_pins(self, program: str, cwd: Path) -> None:
        """Raise NotSafe if a file of the workspace names a version that would be fetched, or lies in the workspace."""
        pins: dict[str, str] = read_table(__package__, "safe_commands.json")["pins"]
        toolchain = program in pins["toolchain_programs"].split()
        for folder in (cwd, *cwd.parents):
            for name in pins["toolchain_files"].split() if toolchain else ():
                require(not (folder / name).exists())
            for name in pins["version_files"].split():
                file = folder / name
                if self._readable.contains(folder) and file.is_file():
                    with open(file, errors="replace") as stream:
                        text = stream.read(4096)
                    require(bool(_HARMLESS_PIN.fullmatch(text)) and ".." not in text and "path:" not in text)

    def _home_variables(self) -> dict[str, str]:
        """Return the variables with which programs find their own settings, fetch nothing, and write no logs."""
        environment = own_environment()
        names = ("HOME", "USER", "LOGNAME", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "GOPATH", "JAVA_HOME")
        kept = {name: environment[name] for name in names if name in environment}
        fixed: dict[str, str] = read_table(__package__, "safe_commands.json")["environment"]
        return kept | fixed | {"PATH": os.pathsep.join(program_folders(self._readable.roots))}

    # --- programs that start others ---

    def xargs(self, arguments: Sequence[str], data: bytes | Unknown | None) -> tuple[list[list[str]]]:
        """Return the argument lists that xargs would start. Raises NotSafe."""
        remaining = list(arguments)
        end, replaced, most = "", "", MAX_ARGUMENTS
        while remaining and remaining[0].startswith("-"):
            option = remaining.pop(0)
            if option in ("-0", "--null"):
                end = "\0"
            elif option in ("-r", "--no-run-if-empty"):
                continue
            elif match := re.fullmatch(r"-(?:n|L|P)(\d*)", option):
                number = match[1] or (remaining.pop(0) if remaining else "")
                require(number.isdigit() and int(number) > 0)
                most = most if option.startswith("-P") else int(number)
            elif option == "-I" or option.startswith("-I"):
                replaced = option[2:] or (remaining.pop(0) if remaining else "")
                require(bool(replaced) and not isinstance(replaced, Unknown))
            elif option == "-d" and remaining[:1] in (["\\n"], ["\n"]):
                end = "\n"
                remaining.pop(0)
            else:
                raise NotSafe
        inner = remaining or ["echo"]
        if isinstance(data, Unknown):
            item = Unknown("\0", data.is_clean)
            if replaced:
                return ([[Unknown(w.replace(replaced, "\0"), data.is_clean) if replaced in w else w for w in inner]],)
            return ([[*inner, item]],)
        items = _items(data or b"", end, by_line=bool(replaced))
        if replaced:
            return ([[word.replace(replaced, item) for word in inner] for item in items],)
        return ([[*inner, *items[start : start + most]] for start in range(0, len(items), most)],)

    def find_exec(self, argv: Sequence[str]) -> tuple[list[str], list[str], bool]:
        """Split `find … -exec … ;`: the listing, the command, and whether it is started for each file."""
        index = list(argv).index("-exec")
        inner, end = list(argv[index + 1 : -1]), argv[-1]
        require(bool(inner) and end in (";", "+") and not isinstance(end, Unknown))
        require(
            not {"-exec", ";", "-print", "-print0", "-ls", "-printf", "-quit", "-execdir"} & {*argv[:index], *inner}
        )
        require(end == ";" or inner[-1] == "{}")
        require(inner.count("{}") == 1 and all(word == "{}" or "{}" not in word for word in inner))
        return [*argv[:index], "-print0"], inner, end == ";"

    def lists_cleanly(self, argv: Sequence[str], cwd: Path) -> bool:
        """Return whether what a command prints can't name a file with credentials."""
        if any(word and self._readable.has_credentials(cwd / word.replace("\0", "x")) for word in argv[1:]):
            return False
        folders: list[str] = []
        patterns: list[str] = []
        if argv and argv[0] == "find":
            folders = list(takewhile(lambda word: not word.startswith(("-", "(", "!")), argv[1:]))
            if not {"-o", "-or", ","} & set(argv):
                patterns = [
                    value
                    for before, option, value in zip(("", *argv), argv, argv[1:], strict=False)
                    if option in ("-name", "-iname") and before not in ("!", "-not")
                ]
        elif argv and argv[0] == "git":
            globs = [word for word in argv[2:] if not word.startswith("-") and re.search(r"[*?]", word)]
            patterns = globs if len(globs) == 1 else []
        elif argv and argv[0] in ("which", "command", "type", "pwd", "date", "uname", "wc", "whoami", "id", "seq"):
            return True
        try:
            return self._readable.lists_cleanly(cwd, folders, patterns)
        except (NotSafe, OSError):
            return False


@cache
def own_environment() -> dict[str, str]:
    """Return the variables for commands as they were at the first call."""
    return child_environment()


def _items(data: bytes, end: str, *, by_line: bool) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    if end:
        return [item for item in text.split(end) if item]
    if not by_line:
        try:
            return shlex.split(text)
        except ValueError:
            raise NotSafe from None
    require(not any(character in text for character in "'\"\\"))
    return [line.lstrip() for line in text.split("\n") if line.strip()]
