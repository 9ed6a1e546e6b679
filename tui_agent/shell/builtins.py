"""Commands of the shell that need no program: `echo`, `cd`, `test`, `type` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tui_agent.platform.programs import search_path
from tui_agent.shell.conditions import Condition, Term, Token
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import Unknown, require

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
