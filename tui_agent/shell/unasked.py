"""May a command run without asking? Only if everything about it is known beforehand; in doubt, no (A1, R-11)."""

from __future__ import annotations

import glob
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tui_agent.domain import Noun, Running, Severity
from tui_agent.shell import grammar, severity, syntax
from tui_agent.shell.options import Shape, shape
from tui_agent.shell.plain import Joint, PlainCommand, PlainStep, PlainWord, read

SEARCH_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
"""Where programs are looked for; the workspace never counts (R-04, R-12)."""
WALK_CAP = 20_000
"""Entries of a folder that are looked at for credentials before a recursive search of it; beyond that, ask."""
PATTERN_CAP = 500
"""File names that a pattern may stand for."""

IsCredentials = Callable[[Path], bool]
"""Whether a resolved path is a file that holds secrets (A2)."""

IsProtected = Callable[[Path], bool]
"""Whether a change of an absolute path is always asked for (R-16)."""


class Invocation(Noun, frozen=True, kw_only=True):
    """A program with its arguments, ready to be executed without a shell."""

    program: str
    """Absolute path."""
    argv: tuple[str, ...]
    quiet_out: bool = False
    quiet_err: bool = False


class Step(Noun, frozen=True, kw_only=True):
    """A pipeline, and what joins it to the step before."""

    joined: Joint
    pipeline: tuple[Invocation, ...]


class Script(Noun, frozen=True, kw_only=True):
    """What may run unasked, by `shell.argv.run_script` only."""

    steps: tuple[Step, ...]


def _no_file(_path: Path) -> bool:
    return False


def judge(
    command: str,
    cwd: Path,
    roots: Sequence[Path],
    is_credentials: IsCredentials = _no_file,
    is_protected: IsProtected = _no_file,
) -> Running:
    """The command as an action: its severity, and whether it may run unasked. Reads the disk: call it in a thread.

    What changes a protected path is always asked for (R-16).
    """
    rating = severity.classify(command, cwd=cwd, roots=roots)
    unasked = (
        rating.severity is Severity.NONE
        and not rating.always_ask
        and script(command, cwd, roots, is_credentials) is not None
    )
    outside = not _Ground(cwd, roots, is_credentials).stands_inside
    guarded = [path for path in rating.touched if is_protected(Path(path))]
    return Running(
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


def script(
    command: str, cwd: Path, roots: Sequence[Path], is_credentials: IsCredentials = _no_file
) -> Script | None:
    """The command as argv, if it may run unasked; else None. Reads the disk: call it in a thread."""
    if len(command) > grammar.LENGTH_CAP:
        return None
    steps = read(command)
    if steps is None or not _same(steps, syntax.parse(command)):
        return None
    try:
        return _Ground(cwd, roots, is_credentials).script(steps)
    except (OSError, ValueError):
        return None


def _same(steps: tuple[PlainStep, ...], parsed: syntax.Parsed) -> bool:
    """Two readers must agree on every word and joint (R-13)."""
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
        """Whether the folder itself is in one of the roots (R-21)."""
        return self._inside(self.cwd)

    def script(self, steps: tuple[PlainStep, ...]) -> Script | None:
        if not self.stands_inside:
            return None
        found: list[Step] = []
        for step in steps:
            pipeline = [self._invocation(command, place > 0) for place, command in enumerate(step.commands)]
            known = tuple(invocation for invocation in pipeline if invocation is not None)
            if len(known) != len(pipeline):
                return None
            found.append(Step(joined=step.joined, pipeline=known))
        return Script(steps=tuple(found))

    def _invocation(self, command: PlainCommand, piped: bool) -> Invocation | None:
        name = command.words[0]
        meaning = shape(name.text, command.words[1:])
        program = self._program(name.text) if meaning and not name.pattern else None
        if meaning is None or program is None or not self._allowed(meaning, piped):
            return None
        words = self._expanded(command.words[1:])
        if words is None:
            return None
        return Invocation(
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

    def _allowed(self, meaning: Shape, piped: bool) -> bool:
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
