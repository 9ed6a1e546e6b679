"""Check the argument list of a program, and make it ready to be started without a shell; run what needs no program."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tui_agent.common.domain import FrozenValue
from tui_agent.platform.environment import child_environment
from tui_agent.platform.git import Git
from tui_agent.platform.programs import program_folders, search_path, trusted_program
from tui_agent.shell.conditions import Condition, Term, Token
from tui_agent.shell.git_reads import git_read
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe, Unknown, argument_shape, find_folders, find_patterns, require
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
        read = git_read(arguments, cwd, self._readable, asked)
        argv = ("git", "-C", str(read.cwd), *read.arguments)
        return Prepared(program=program, argv=argv, environment=read.git.environment(), git=read.git)

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
        if self._readable.have_credentials(os.path.join(cwd, word.replace("\0", "x")) for word in argv[1:] if word):
            return False
        folders: Sequence[str] = ()
        patterns: Sequence[str] = ()
        if argv and argv[0] == "find":
            folders, patterns = find_folders(argv[1:]), find_patterns(argv)
        elif argv and argv[0] == "git":
            globs = [word for word in argv[2:] if not word.startswith("-") and re.search(r"[*?]", word)]
            patterns = globs if len(globs) == 1 else ()
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


# --- commands of the shell that need no program ---

BUILTINS = frozenset(("echo", "true", "false", ":", "pwd", "cd", "test", "[", "command", "type", "which"))
_SHELL_WORDS = frozenset(
    (
        *("alias", "bg", "bind", "break", "builtin", "cd", "command", "continue", "declare", "echo", "eval", "exec"),
        *("exit", "export", "false", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local"),
        *("printf", "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test", "trap", "true"),
        *("type", "ulimit", "umask", "unalias", "unset", "wait", "[", ":", "."),
    )
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "\\": "\\"}


def run_builtin(argv: Sequence[str], cwd: Path, readable: Readable, *, is_check: bool) -> tuple[str, str, int]:
    """Return output, error messages and status; the output of `cd` is the new folder. Raises NotSafe."""
    name, *arguments = argv
    match name:
        case "echo":
            return _echo(arguments), "", 0
        case "true" | ":":
            return "", "", 0
        case "false":
            return "", "", 1
        case "pwd":
            require(arguments in ([], ["-P"], ["-L"]))
            return f"{cwd}\n", "", 0
        case "cd":
            return _cd(arguments, cwd, readable, is_check=is_check)
        case "test" | "[":
            return "", "", int(not _test(name, arguments, cwd, readable))
    return _type(name, arguments)


def _echo(arguments: list[str]) -> str:
    end, escapes = "\n", False
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        option = arguments.pop(0)
        end = "" if "n" in option else end
        escapes = (option.rfind("e") > option.rfind("E")) if set(option) & set("eE") else escapes
    text = " ".join(arguments)
    if escapes:
        text = re.sub(r"\\([ntrabfve\\])", lambda match: _ESCAPES[match[1]], text)
    return text + end


def _cd(arguments: list[str], cwd: Path, readable: Readable, *, is_check: bool) -> tuple[str, str, int]:
    require(len(arguments) == 1 and not arguments[0].startswith("-") and bool(arguments[0]))
    if isinstance(arguments[0], Unknown):
        require(is_check)
        return str(cwd), "", 0
    folder = readable.resolve(cwd, arguments[0])
    require(readable.contains(folder))
    require(str(folder) == os.path.normpath(os.path.join(cwd, arguments[0])))  # a shell remembers links
    if folder.is_dir() or is_check:
        return str(folder), "", 0
    return "", f"cd: {arguments[0]}: No such folder\n", 1


def _test(name: str, arguments: list[str], cwd: Path, readable: Readable) -> bool:
    if name == "[":
        require(arguments[-1:] == ["]"])
        arguments = arguments[:-1]
    tokens: list[Token] = []
    for index, word in enumerate(arguments):
        inner = 0 < index < len(arguments) - 1
        if word in ("-a", "-o") and inner and arguments[index - 1] not in ("!", "(", "-a", "-o"):
            tokens.append("&&" if word == "-a" else "||")
        elif word in ("!", "(", ")") and not isinstance(word, Unknown) and len(arguments) > 1:
            tokens.append(word)
        else:
            tokens.append(Term(word))

    def locate(path: str) -> str:
        readable.check_name(cwd, path)
        return os.path.join(cwd, path)

    return Condition(tokens, locate).holds()


def _type(name: str, arguments: list[str]) -> tuple[str, str, int]:
    """Answer `type`, `command -v` and `which`: where programs lie."""
    options = [word for word in arguments if word.startswith("-")]
    words = [word for word in arguments if not word.startswith("-")]
    allowed = {"type": ("-a", "-p", "-P", "-t"), "command": ("-v", "-V"), "which": ("-a", "-s")}[name]
    require(all(option in allowed for option in options) and (name != "command" or bool(options)))
    output, errors, status = [], [], 0
    is_long = (name == "type" and not options) or "-V" in options or (name == "type" and options == ["-a"])
    for word in words:
        is_builtin = word in _SHELL_WORDS and name != "which" and not {"-p", "-P"} & set(options)
        found = [f"{folder}/{word}" for folder in search_path() if _is_executable(f"{folder}/{word}")]
        if is_builtin:
            output.append("builtin" if "-t" in options else f"{word} is a shell builtin" if is_long else word)
        if found and (not is_builtin or "-a" in options):
            paths = found if "-a" in options else found[:1]
            output += ["file"] if "-t" in options else [f"{word} is {path}" if is_long else path for path in paths]
        if not found and not is_builtin:
            status = 1
            errors += [f"{name}: {word}: not found"] if is_long else []
    return "".join(f"{line}\n" for line in output), "".join(f"{line}\n" for line in errors), status


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
