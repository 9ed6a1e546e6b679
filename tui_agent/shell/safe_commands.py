"""May a command run without asking? Only if everything about it is known beforehand; in doubt, no (A1)."""

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
from typing import Any, TypeAlias

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome, FrozenValue, RunAction, Severity
from tui_agent.common.tables import read_table
from tui_agent.platform.environment import bare_environment
from tui_agent.platform.output import NOT_KEPT, Capture, KeptOutput, OnOutput
from tui_agent.platform.proc import Child, Confinement, ProcessError, SandboxSpec, Stage, finished_process, signal_name
from tui_agent.shell import severity, syntax
from tui_agent.shell.grammar import LENGTH_CAP, Joint, PlainCommand, PlainStep, PlainWord, read_strict

SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where programs are looked for; the workspace never counts."""
WALK_CAP = 20_000
"""Entries of a folder that are looked at for credentials before a recursive search of it; beyond that, ask."""
PATTERN_CAP = 500
"""File names that a pattern may stand for."""

IsCredentials = Callable[[Path], bool]
"""Whether a resolved path is a file that holds secrets (A2)."""

IsProtected = Callable[[Path], bool]
"""Whether a change of an absolute path is always asked for."""


class SafeStep(FrozenValue, frozen=True, kw_only=True):
    """A pipeline, and what joins it to the step before."""

    joined: Joint
    pipeline: tuple[Stage, ...]
    """Programs with their arguments, ready to be executed without a shell."""


Script: TypeAlias = tuple[SafeStep, ...]
"""What may run unasked, by `run_script` only."""


def _no_file(_path: Path) -> bool:
    return False


def judge_unasked(
    command: str,
    cwd: Path,
    roots: Sequence[Path],
    is_credentials: IsCredentials = _no_file,
    is_protected: IsProtected = _no_file,
) -> RunAction:
    """The command as an action: its severity, and whether it may run unasked. Reads the disk: call it in a thread.

    What changes a protected path is always asked for.
    """
    rating = severity.classify_command(command, cwd=cwd, roots=roots)
    unasked = (
        rating.severity is Severity.NONE
        and not rating.always_ask
        and check_script(command, cwd, roots, is_credentials) is not None
    )
    outside = not _Ground(cwd, roots, is_credentials).stands_inside
    guarded = [path for path in rating.touched if is_protected(Path(path))]
    return RunAction(
        command=command,
        cwd=str(cwd),
        severity=rating.severity,
        unasked=unasked,
        reasons=(
            *rating.reasons,
            *(f"Changes a protected path: {path}" for path in guarded),
            *(("It starts in a folder outside the workspace.",) if outside else ()),
        ),
        always_ask=rating.always_ask or outside or bool(guarded),
    )


def check_script(
    command: str, cwd: Path, roots: Sequence[Path], is_credentials: IsCredentials = _no_file
) -> Script | None:
    """The command as argv, if it may run unasked; else None. Reads the disk: call it in a thread."""
    if len(command) > LENGTH_CAP:
        return None
    steps = read_strict(command)
    if steps is None or not _same(steps, syntax.parse_shell(command)):
        return None
    try:
        return _Ground(cwd, roots, is_credentials).check_script(steps)
    except (OSError, ValueError):
        return None


def _same(steps: tuple[PlainStep, ...], parsed: syntax.ParsedCommand) -> bool:
    """Two readers must agree on every word and joint."""
    if not parsed.plain or len(parsed.pipelines) != len(steps):
        return False
    for step, pipeline in zip(steps, parsed.pipelines, strict=True):
        ours = [[word.text for word in command.words] for command in step.commands]
        theirs = [[word.text for word in command.words] for command in pipeline.commands]
        if ours != theirs or step.joined != pipeline.joined:
            return False
    return True


class _Ground:
    """Where a command would run: its folder, and what it may touch there."""

    def __init__(self, cwd: Path, roots: Sequence[Path], is_credentials: IsCredentials) -> None:
        self.cwd = Path(os.path.realpath(cwd))
        self.roots = [Path(os.path.realpath(root)) for root in roots]
        self.is_credentials = is_credentials
        self._found: dict[str, list[str] | None] = {}
        """What patterns stood for: looked up once, so that what is judged is what is passed on."""

    @property
    def stands_inside(self) -> bool:
        """Whether the folder itself is in one of the roots."""
        return self._inside(self.cwd)

    def check_script(self, steps: tuple[PlainStep, ...]) -> Script | None:
        if not self.stands_inside:
            return None
        found: list[SafeStep] = []
        for step in steps:
            pipeline = [self._invocation(command, place > 0) for place, command in enumerate(step.commands)]
            known = tuple(invocation for invocation in pipeline if invocation is not None)
            if len(known) != len(pipeline):
                return None
            found.append(SafeStep(joined=step.joined, pipeline=known))
        return tuple(found)

    def _invocation(self, command: PlainCommand, piped: bool) -> Stage | None:
        name = command.words[0]
        meaning = argument_shape(name.text, command.words[1:])
        program = self._program(name.text) if meaning and not name.pattern else None
        if meaning is None or program is None or not self._allowed(meaning, piped):
            return None
        words = self._expanded(command.words[1:])
        if words is None:
            return None
        return Stage(
            program=program,
            argv=(name.text, *meaning.first, *words),
            quiet_out=command.quiet_out,
            quiet_err=command.quiet_err,
        )

    def _program(self, name: str) -> str | None:
        for folder in SEARCH_PATH:
            path = f"{folder}/{name}"
            if os.path.isfile(path) and os.access(path, os.X_OK):
                inside = self._inside(Path(os.path.realpath(path))) or self._inside(Path(path))
                return None if inside else path
        return None

    def _inside(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.roots)

    def _allowed(self, meaning: ArgumentShape, piped: bool) -> bool:
        paths: list[Path] = []
        for word in meaning.paths:
            names = self._matches(word)
            if names is None:
                return False
            for name in names:
                path = _resolved(str(self.cwd), name)
                if path is None or (name != "-" and not self._readable(path, meaning.files_only)):
                    return False
                paths += [path] if name != "-" else []
        if not meaning.walks:
            return True
        if not paths and not (piped and meaning.reads_pipe):
            paths = [self.cwd]
        return all(self._free_of_credentials(path, meaning.walks_hidden) for path in paths)

    def _readable(self, path: Path, files_only: bool) -> bool:
        if str(path) == os.devnull:
            return True
        if not self._inside(path) or self.is_credentials(path):
            return False
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return True
        return stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not files_only)

    def _free_of_credentials(self, folder: Path, hidden: bool) -> bool:
        """Whether a search through the folder would read no secrets; False also when it is too large to tell."""
        seen = list(itertools.islice(_walk(folder, hidden), WALK_CAP + 1))
        return len(seen) <= WALK_CAP and not any(self.is_credentials(path) for path in seen)

    def _matches(self, word: PlainWord) -> list[str] | None:
        """The names that a word stands for: itself, or what a pattern finds, as a shell would have it."""
        if not word.pattern:
            return [word.text]
        if word.text not in self._found:
            self._found[word.text] = self._look_up(word.text)
        return self._found[word.text]

    def _look_up(self, pattern: str) -> list[str] | None:
        if "**" in pattern or "[^" in pattern or pattern.count("/") > 8:
            return None
        found = sorted(glob.glob(pattern, root_dir=self.cwd))
        if len(found) > PATTERN_CAP or any(name.startswith("-") for name in found):
            return None
        return found or [pattern]

    def _expanded(self, words: tuple[PlainWord, ...]) -> list[str] | None:
        texts: list[str] = []
        for word in words:
            names = self._matches(word)
            if names is None:
                return None
            texts += names
        return texts


def _resolved(cwd: str, name: str) -> Path | None:
    """Where a path leads, links followed. None when the way goes through /proc, /dev or /sys.

    What is there depends on the process that looks: our `/proc/self/cwd` is not the program's.
    """
    waiting = f"{cwd}/{name}".split("/")[::-1] if not name.startswith("/") else name.split("/")[::-1]
    at, links = "/", 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        at = os.path.join(at, part)
        if at == "/dev" and waiting == ["null"]:
            return Path(os.devnull)
        if at in ("/proc", "/dev", "/sys"):
            return None
        if os.path.islink(at):
            links += 1
            if links > 40:
                return None
            target = os.readlink(at)
            waiting += target.split("/")[::-1]
            at = "/" if target.startswith("/") else os.path.dirname(at)
    return Path(at)


def _walk(folder: Path, hidden: bool) -> Iterator[Path]:
    """Everything below, links not followed; names that begin with a dot only where they are wanted."""
    if not folder.is_dir():
        return
    waiting = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.startswith(".") and not hidden:
                    continue
                path = Path(entry.path)
                yield path
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)


_SED_PRINT = re.compile(r"(\d+|\$)(,(\d+|\$|\+\d+))?p")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class ArgumentShape(FrozenValue, frozen=True, kw_only=True):
    """What the arguments of a program mean."""

    paths: tuple[PlainWord, ...] = ()
    """All that name files or folders, in their order."""
    walks: bool = False
    """Reads what is in files below its folders."""
    walks_hidden: bool = True
    """The walk goes into what begins with a dot."""
    reads_pipe: bool = False
    """Given no path, it reads what is piped into it instead of walking."""
    files_only: bool = False
    """Must not be given a folder."""
    first: tuple[str, ...] = ()
    """Arguments that we put in front."""


@cache
def safe_table() -> dict[str, dict[str, Any]]:
    """Program → its allow-list."""
    data = read_table(__file__, "unasked.json")
    return {name: data[entry["like"]] if "like" in entry else entry for name, entry in data.items()}


class _NotAllowed(Exception):
    pass


def argument_shape(program: str, arguments: tuple[PlainWord, ...]) -> ArgumentShape | None:
    """What the arguments mean; None when the program or one of them is not on the list."""
    entry = safe_table().get(program)
    if entry is None:
        return None
    try:
        return _shape(entry, arguments)
    except _NotAllowed:
        return None


def _shape(entry: dict[str, Any], arguments: tuple[PlainWord, ...]) -> ArgumentShape:
    match entry["operands"]:
        case "echo":
            _literal(arguments)
            return ArgumentShape()
        case "printf":
            _literal(arguments)
            _require(bool(arguments) and not arguments[0].text.startswith("-"))
            return ArgumentShape()
        case "find":
            return ArgumentShape(paths=_find(entry, arguments))
        case "sed":
            return ArgumentShape(paths=_sed(arguments))
    return _operands(entry, *_split(entry, arguments))


def _operands(
    entry: dict[str, Any], operands: list[PlainWord], paths: list[PlainWord], seen: set[str]
) -> ArgumentShape:
    kind = entry["operands"]
    if kind == "pattern":
        if not seen & set(entry["pattern_options"].split()):
            _require(bool(operands))
            _literal(operands[:1])
            operands = operands[1:]
        always = entry["walks"] == "always"
        return ArgumentShape(
            paths=(*paths, *operands),
            walks=always or bool(seen & set(entry["walks"].split())),
            walks_hidden=not always or bool(seen & set(entry["hidden_with"].split())),
            reads_pipe=always,
            first=tuple(entry.get("first", ())),
        )
    if kind in ("paths", "files"):
        _require(len(operands) <= entry.get("most", 100_000))
        return ArgumentShape(paths=(*paths, *operands), files_only=kind == "files")
    _literal(operands)
    texts = [operand.text for operand in operands]
    _require(
        {
            "text": True,
            "none": not texts,
            "format": all(text.startswith("+") for text in texts),
            "numbers": all(_NUMBER.fullmatch(text) and len(text) <= 6 for text in texts),
        }[kind]
    )
    return ArgumentShape(paths=tuple(paths))


def _split(
    entry: dict[str, Any], arguments: tuple[PlainWord, ...]
) -> tuple[list[PlainWord], list[PlainWord], set[str]]:
    """Operands, paths given to options, and the names of the options seen."""
    operands: list[PlainWord] = []
    paths: list[PlainWord] = []
    seen: set[str] = set()
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word.text == "--":
            operands += waiting
            break
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
            continue
        _literal([word])
        if word.text.startswith("--"):
            _long(entry, word.text[2:], waiting, seen, paths)
        else:
            _short(entry, word.text[1:], waiting, seen, paths)
    return operands, paths, seen


def _long(entry: dict[str, Any], text: str, waiting: list[PlainWord], seen: set[str], paths: list[PlainWord]) -> None:
    name, equals, value = text.partition("=")
    allowed = entry.get("long", "").split()
    seen.add(name)
    if name in allowed:
        _require(not equals)
    elif f"{name}=" in allowed:
        if not equals:
            _value(waiting)
    elif f"{name}=p" in allowed:
        paths.append(PlainWord(text=value) if equals else _value(waiting))
    else:
        _require(f"{name}?" in allowed)


def _short(
    entry: dict[str, Any], letters: str, waiting: list[PlainWord], seen: set[str], paths: list[PlainWord]
) -> None:
    if entry.get("number") and letters[0].isdigit():
        # `head -5c FILE`: what follows the digits is a unit, not an option with a value.
        _require(letters.isdigit())
        return
    for place, letter in enumerate(letters):
        seen.add(letter)
        rest = letters[place + 1 :]
        if letter in entry.get("apart", ""):
            # The next word is its value, and the letters after it are options of their own.
            _require(not rest or rest.isdigit())
            if not rest:
                _value(waiting)
            return
        if letter in entry.get("optional", ""):
            return
        if letter in entry.get("values", ""):
            if not rest:
                _value(waiting)
            return
        if letter in entry.get("path_values", ""):
            paths.append(PlainWord(text=rest) if rest else _value(waiting))
            return
        _require(letter in entry.get("short", ""))


def _value(waiting: list[PlainWord]) -> PlainWord:
    _require(bool(waiting))
    _literal(waiting[:1])
    return waiting.pop(0)


def _find(entry: dict[str, Any], arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    alone, text, path = (entry[kind].split() for kind in ("alone", "text", "path"))
    waiting = list(arguments)
    paths: list[PlainWord] = []
    while waiting and waiting[0].text == "-P":
        waiting.pop(0)
    while waiting and not waiting[0].text.startswith(("-", "(", "!", ",")):
        paths.append(waiting.pop(0))
    _literal(waiting)
    while waiting:
        word = waiting.pop(0)
        if word.text in text:
            _value(waiting)
        elif word.text in path:
            paths.append(_value(waiting))
        else:
            _require(word.text in alone)
    return tuple(paths)


def _sed(arguments: tuple[PlainWord, ...]) -> tuple[PlainWord, ...]:
    """Only `sed -n 'A,Bp' FILE…`: other scripts can write files and run programs."""
    _require(len(arguments) > 1 and arguments[0].text == "-n" and bool(_SED_PRINT.fullmatch(arguments[1].text)))
    paths = arguments[2:]
    _require(not any(path.text.startswith("-") for path in paths))
    return paths


def _literal(words: tuple[PlainWord, ...] | list[PlainWord]) -> None:
    """File name patterns only where files are named."""
    _require(not any(word.pattern for word in words))


def _require(fits: bool) -> None:
    if not fits:
        raise _NotAllowed


async def run_script(
    script: Script,
    *,
    cwd: Path,
    timeout: float,
    on_output: OnOutput | None = None,
    kept: KeptOutput = NOT_KEPT,
    confinement: Confinement | None = None,
) -> CommandOutcome:
    """Run the steps one after the other, as their joints say, for `timeout` seconds in all, confined if so wished.

    Nothing of the session's shell reaches it. Cancelling kills what was started. A program that can't be started
    counts as a shell counts it: 127 or 126.
    """
    capture = Capture(on_output, kept.file, lines=kept.lines)
    end = time.monotonic() + timeout
    status: int | None = 0
    timed_out = False
    for step in script:
        if (step.joined == "&&" and status != 0) or (step.joined == "||" and status == 0):
            continue
        try:
            status = await _run_step(step, cwd, end - time.monotonic(), capture, confinement)
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
    stages: Sequence[Stage] = step.pipeline
    sandbox_spec: SandboxSpec | None = None
    if confinement is not None:
        stages, sandbox_spec = confinement.confine(stages, cwd)
    child = await Child.start(
        stages, cwd=cwd, environment=bare_environment(), capture=capture, sandbox_spec=sandbox_spec
    )
    try:
        status = await child.wait(max(timeout, 0.01))
    except TimeoutError:
        child.stop()
        await child.gone()
        raise
    await child.gone()
    return status
