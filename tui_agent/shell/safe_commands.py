"""Decide whether a command may run without approval: only if everything about it is known beforehand (A1)."""

from __future__ import annotations

import glob
import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome, FrozenValue, RunAction, Severity
from tui_agent.platform.environment import bare_environment
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Child, Confinement, ProcessError, Stage, finished_process, signal_name
from tui_agent.platform.safe_open import follow_links
from tui_agent.shell import severity, syntax
from tui_agent.shell.grammar import MAX_LENGTH, ListOperator, PlainCommand, PlainPipeline, PlainWord, parse_strict
from tui_agent.text.patterns import read_table

SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where programs are looked for; never in the workspace."""
MAX_ENTRIES = 20_000
"""Entries of a folder that are checked for credentials before a recursive search of it; with more, ask."""
MAX_MATCHES = 500
"""File names that a pattern may match."""

PathPredicate = Callable[[Path], bool]


class SafeStep(NamedTuple):
    """A pipeline, and the operator that joins it to the step before."""

    operator: ListOperator
    pipeline: tuple[Stage, ...]
    """Programs with their arguments, ready to be executed without a shell."""


Script: TypeAlias = tuple[SafeStep, ...]
"""A safe command, to be executed by `run_script`."""


class _NotSafe(Exception):
    pass


def _require(condition: bool) -> None:
    if not condition:
        raise _NotSafe


def assess_command(
    command: str,
    cwd: Path,
    roots: Sequence[Path],
    has_credentials: PathPredicate = lambda _: False,
    is_protected: PathPredicate = lambda _: False,
) -> RunAction:
    """Return the command as an action: its severity, and whether it may run without approval.

    `has_credentials` tells whether a resolved path is a file with secrets (A2), `is_protected` whether a change of an
    absolute path always needs approval. Reads the disk: call it in a thread.
    """
    rating = severity.classify_command(command, cwd=cwd, roots=roots)
    is_safe = (
        rating.severity is Severity.NONE
        and not rating.always_ask
        and safe_script(command, cwd, roots, has_credentials) is not None
    )
    outside = not _Workspace(cwd, roots, has_credentials).contains_cwd
    protected = [path for path in rating.changed_paths if is_protected(Path(path))]
    return RunAction(
        command=command,
        cwd=str(cwd),
        severity=rating.severity,
        safe=is_safe,
        reasons=(
            *rating.reasons,
            *(f"Changes a protected path: {path}" for path in protected),
            *(("It starts in a folder outside the workspace.",) if outside else ()),
        ),
        always_ask=rating.always_ask or outside or bool(protected),
    )


def safe_script(
    command: str, cwd: Path, roots: Sequence[Path], has_credentials: PathPredicate = lambda _: False
) -> Script | None:
    """Return the command as argument lists if it may run without approval, else None. Reads the disk."""
    if len(command) > MAX_LENGTH:
        return None
    pipelines = parse_strict(command)
    if pipelines is None or not _agree(pipelines, syntax.parse_shell(command)):
        return None
    try:
        return _Workspace(cwd, roots, has_credentials).script(pipelines)
    except (_NotSafe, OSError, ValueError):
        return None


def _agree(strict: tuple[PlainPipeline, ...], parsed: syntax.ParsedCommand) -> bool:
    """Return whether both readers found the same words and operators."""
    expected = [(operator, [[word.text for word in c.words] for c in commands]) for operator, commands in strict]
    actual = [(p.operator, [[word.text for word in c.words] for c in p.commands]) for p in parsed.pipelines]
    return parsed.is_plain and expected == actual


class _Workspace:
    """Where a command would run: its folder, and what it may touch there."""

    def __init__(self, cwd: Path, roots: Sequence[Path], has_credentials: PathPredicate) -> None:
        self.cwd = Path(os.path.realpath(cwd))
        self.roots = [Path(os.path.realpath(root)) for root in roots]
        self._has_credentials = has_credentials
        self._matches: dict[str, list[str]] = {}
        """Names that each pattern matched: looked up once, so that what is checked is what is executed."""

    @property
    def contains_cwd(self) -> bool:
        """Whether the folder itself is in one of the roots."""
        return self._contains(self.cwd)

    def script(self, pipelines: tuple[PlainPipeline, ...]) -> Script:
        """Resolve programs and patterns. Raises _NotSafe."""
        _require(self.contains_cwd)
        return tuple(
            SafeStep(operator, tuple(self._stage(command, index > 0) for index, command in enumerate(commands)))
            for operator, commands in pipelines
        )

    def _stage(self, command: PlainCommand, is_piped: bool) -> Stage:
        name, *arguments = command.words
        shape = argument_shape(name.text, tuple(arguments))
        if shape is None or name.is_pattern:
            raise _NotSafe
        program = self._program(name.text)
        self._check_paths(shape, is_piped)
        return Stage(
            program=program,
            argv=(name.text, *shape.prefix, *(text for word in arguments for text in self._expand(word))),
            discards_stdout=not command.redirects.isdisjoint((">", "1>", "&>")),
            discards_stderr=not command.redirects.isdisjoint(("2>", "&>")),
        )

    def _program(self, name: str) -> str:
        for folder in SEARCH_PATH:
            path = f"{folder}/{name}"
            if os.path.isfile(path) and os.access(path, os.X_OK):
                _require(not self._contains(Path(os.path.realpath(path))) and not self._contains(Path(path)))
                return path
        raise _NotSafe

    def _contains(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _check_paths(self, shape: ArgumentShape, is_piped: bool) -> None:
        paths: list[Path] = []
        for word in shape.paths:
            for name in self._expand(word):
                path = _resolve(str(self.cwd), name)
                if name != "-":
                    _require(self._is_readable(path, shape.files_only))
                    paths.append(path)
        if shape.recursive:
            if not paths and not (is_piped and shape.reads_pipe):
                paths = [self.cwd]
            _require(not any(self._tree_has_credentials(path, shape.includes_hidden) for path in paths))

    def _is_readable(self, path: Path, files_only: bool) -> bool:
        if str(path) == os.devnull:
            return True
        if not self._contains(path) or self._has_credentials(path):
            return False
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return True
        return stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not files_only)

    def _tree_has_credentials(self, folder: Path, hidden: bool) -> bool:
        """Return whether a search through the folder may read secrets; True also if it is too large to check."""
        paths = list(itertools.islice(_walk(folder, hidden), MAX_ENTRIES + 1))
        return len(paths) > MAX_ENTRIES or any(self._has_credentials(path) for path in paths)

    def _expand(self, word: PlainWord) -> list[str]:
        """Return the word itself, or the names that a pattern matches, as a shell would."""
        if not word.is_pattern:
            return [word.text]
        if word.text not in self._matches:
            self._matches[word.text] = self._glob(word.text)
        return self._matches[word.text]

    def _glob(self, pattern: str) -> list[str]:
        _require("**" not in pattern and "[^" not in pattern and pattern.count("/") <= 8)
        names = sorted(glob.glob(pattern, root_dir=self.cwd))
        _require(len(names) <= MAX_MATCHES and not any(name.startswith("-") for name in names))
        return names or [pattern]


def _resolve(cwd: str, name: str) -> Path:
    """Follow the links of a path. Raises _NotSafe when it leads through /proc, /dev or /sys.

    Their content depends on the process that looks: our `/proc/self/cwd` is not the program's.
    """
    path, visited = follow_links(os.path.join(cwd, name))
    special = ("proc", "dev", "sys")
    _require(all(step == os.devnull or step.split("/")[1] not in special for step in visited))
    return Path(path)


def _walk(folder: Path, hidden: bool) -> Iterator[Path]:
    """Yield everything below `folder` without following links; names that begin with a dot only with `hidden`."""
    for root, folders, files in os.walk(folder, onerror=_raise) if folder.is_dir() else ():
        folders[:] = [name for name in folders if hidden or not name.startswith(".")]
        yield from (Path(root, name) for name in (*folders, *files) if hidden or not name.startswith("."))


def _raise(error: OSError) -> None:
    raise error


_SED_PRINT = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?p")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class ArgumentShape(FrozenValue, frozen=True, kw_only=True):
    """What the arguments of a program mean."""

    paths: tuple[PlainWord, ...] = ()
    """All that name files or folders, in their order."""
    recursive: bool = False
    """Whether it reads the files below its folders."""
    includes_hidden: bool = True
    """Whether a recursive search includes names that begin with a dot."""
    reads_pipe: bool = False
    """Whether it reads its standard input instead of the folder if no path is given."""
    files_only: bool = False
    """Whether it must not be given a folder."""
    prefix: tuple[str, ...] = ()
    """Arguments that are added in front."""


@cache
def safe_table() -> dict[str, dict[str, Any]]:
    """Return the allow-list: program → its allowed arguments."""
    data = read_table(__package__, "safe_commands.json")
    return {name: data[entry["like"]] if "like" in entry else entry for name, entry in data.items()}


def argument_shape(program: str, arguments: tuple[PlainWord, ...]) -> ArgumentShape | None:
    """Return what the arguments mean; None if the program or one of them is not on the allow-list."""
    entry = safe_table().get(program)
    if entry is None:
        return None
    try:
        return _shape(entry, arguments)
    except _NotSafe:
        return None


def _shape(entry: dict[str, Any], arguments: tuple[PlainWord, ...]) -> ArgumentShape:
    match entry["operands"]:
        case "echo" | "printf" as program:
            _require_literal(arguments)
            _require(program == "echo" or (bool(arguments) and not arguments[0].text.startswith("-")))
            return ArgumentShape()
        case "find":
            return ArgumentShape(paths=_find_paths(entry, arguments))
        case "sed":
            return ArgumentShape(paths=_sed_paths(arguments))
    parsed = _ArgumentParser(entry, arguments)
    operands, paths = parsed.operands, parsed.paths
    match entry["operands"]:
        case "pattern":
            if not parsed.options & set(entry["pattern_options"].split()):
                _require(bool(operands))
                _require_literal(operands[:1])
                operands = operands[1:]
            always = entry["walks"] == "always"
            return ArgumentShape(
                paths=(*paths, *operands),
                recursive=always or bool(parsed.options & set(entry["walks"].split())),
                includes_hidden=not always or bool(parsed.options & set(entry["hidden_with"].split())),
                reads_pipe=always,
                prefix=tuple(entry.get("first", ())),
            )
        case "paths" | "files" as kind:
            _require(len(operands) <= entry.get("most", 100_000))
            return ArgumentShape(paths=(*paths, *operands), files_only=kind == "files")
        case kind:
            _require_literal(operands)
            texts = [operand.text for operand in operands]
            allowed = {
                "text": True,
                "none": not texts,
                "format": all(text.startswith("+") for text in texts),
                "numbers": all(_NUMBER.fullmatch(text) and len(text) <= 6 for text in texts),
            }
            _require(allowed[kind])
            return ArgumentShape(paths=tuple(paths))


class _ArgumentParser:
    """Splits arguments into operands, paths given to options, and the names of the options. Raises _NotSafe."""

    def __init__(self, entry: dict[str, Any], arguments: Sequence[PlainWord]) -> None:
        self._entry = entry
        self._remaining = list(arguments)
        self.operands: list[PlainWord] = []
        self.paths: list[PlainWord] = []
        self.options: set[str] = set()
        while self._remaining:
            word = self._remaining.pop(0)
            if word.text == "--":
                self.operands += self._remaining
                break
            if not word.text.startswith("-") or word.text == "-":
                self.operands.append(word)
                continue
            _require_literal([word])
            if word.text.startswith("--"):
                self._long(word.text[2:])
            else:
                self._short(word.text[1:])

    def _value(self) -> PlainWord:
        return _take_value(self._remaining)

    def _long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        allowed = self._entry.get("long", "").split()
        self.options.add(name)
        if name in allowed:
            _require(not equals)
        elif f"{name}=" in allowed:
            if not equals:
                self._value()
        elif f"{name}=p" in allowed:
            self.paths.append(PlainWord(value) if equals else self._value())
        else:
            _require(f"{name}?" in allowed)

    def _short(self, letters: str) -> None:
        entry = self._entry
        if entry.get("number") and letters[0].isdigit():
            # `head -5c FILE`: what follows the digits is a unit, not an option with a value.
            _require(letters.isdigit())
            return
        for index, letter in enumerate(letters, 1):
            self.options.add(letter)
            attached = letters[index:]
            if letter in entry.get("apart", ""):
                # The next word is its value, and the letters after it are options of their own.
                _require(not attached or attached.isdigit())
            if letter in entry.get("path_values", ""):
                self.paths.append(PlainWord(attached) if attached else self._value())
                return
            if letter in entry.get("values", "") + entry.get("apart", ""):
                if not attached:
                    self._value()
                return
            if letter in entry.get("optional", ""):
                return
            _require(letter in entry.get("short", ""))


def _take_value(remaining: list[PlainWord]) -> PlainWord:
    _require(bool(remaining))
    _require_literal(remaining[:1])
    return remaining.pop(0)


def _find_paths(entry: dict[str, Any], arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    alone, text, path = (entry[kind].split() for kind in ("alone", "text", "path"))
    remaining = list(itertools.dropwhile(lambda word: word.text == "-P", arguments))
    paths = list(itertools.takewhile(lambda word: not word.text.startswith(("-", "(", "!", ",")), remaining))
    remaining = remaining[len(paths) :]
    _require_literal(remaining)
    while remaining:
        word = remaining.pop(0)
        if word.text in text:
            _take_value(remaining)
        elif word.text in path:
            paths.append(_take_value(remaining))
        else:
            _require(word.text in alone)
    return tuple(paths)


def _sed_paths(arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    """Allow only `sed -n 'A,Bp' FILE…`: other scripts can write files and run programs."""
    _require(len(arguments) > 1 and arguments[0].text == "-n" and bool(_SED_PRINT.fullmatch(arguments[1].text)))
    _require(not any(path.text.startswith("-") for path in arguments[2:]))
    return arguments[2:]


def _require_literal(words: Sequence[PlainWord]) -> None:
    """Allow file name patterns only where files are named."""
    _require(not any(word.is_pattern for word in words))


async def run_script(
    script: Script, *, cwd: Path, timeout: float, capture: Capture | None = None, confinement: Confinement | None = None
) -> CommandOutcome:
    """Run the steps in order, as their operators say, for `timeout` seconds in all.

    Nothing of the session's shell reaches them. Cancelling kills what was started. A program that can't be started
    counts as in a shell: 127 or 126.
    """
    capture = capture or Capture()
    deadline = time.monotonic() + timeout
    status: int | None = 0
    timed_out = False
    for step in script:
        if (step.operator == "&&" and status != 0) or (step.operator == "||" and status == 0):
            continue
        try:
            status = await _run_step(step, cwd, deadline - time.monotonic(), capture, confinement)
        except TimeoutError:
            timed_out = True
            break
        except ProcessError as error:
            capture.add(f"{step.pipeline[0].argv[0]}: {error}\n".encode())
            status = 127 if error.code == "not_found" else 126
    outcome = await finished_process(capture, status, cwd=cwd, timed_out=timed_out)
    notes = [outcome.note] if outcome.note else []
    if timed_out:
        notes.append(f"Stopped after {timeout:g} s; the command was killed.")
    elif name := signal_name(outcome.exit_code):
        notes.append(f"Exit code {outcome.exit_code}: ended by {name}.")
    return replace(outcome, note="\n".join(notes))


async def _run_step(
    step: SafeStep, cwd: Path, timeout: float, capture: Capture, confinement: Confinement | None
) -> int | None:
    child = await Child.start(
        step.pipeline, cwd=cwd, environment=bare_environment(), capture=capture, confinement=confinement
    )
    try:
        return await child.wait(max(timeout, 0.01))
    except TimeoutError:
        child.stop()
        raise
    finally:
        await child.gone()
