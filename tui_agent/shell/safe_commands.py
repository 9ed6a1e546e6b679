"""Decide whether a command may run without approval: only if everything about it is known beforehand (A1)."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_agent.common.domain import RunAction, Severity
from tui_agent.shell import severity, syntax
from tui_agent.shell.grammar import MAX_LENGTH
from tui_agent.shell.interpreter import SafeScript, check_script
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe
from tui_agent.shell.script import Script, simple_commands
from tui_agent.shell.strict_reader import parse_strict

CredentialTest = Callable[[str], bool]
PathPredicate = Callable[[Path], bool]


_READ = re.compile(r"(?<=\bwhile )IFS=[,:;|]? read\b")
"""A loop over lines: the strict reader makes sure that its variable holds for `read` alone."""


def assess_command(
    command: str,
    cwd: Path,
    roots: Sequence[Path],
    has_credentials: CredentialTest = lambda _: False,
    is_protected: PathPredicate = lambda _: False,
    *,
    git: bool = False,
) -> RunAction:
    """Return the command as an action: its severity, and whether it may run without approval.

    `has_credentials` tells whether an absolute path without links is that of a file with secrets (A2), `is_protected`
    whether a change of one always needs approval; `git`: whether git may look at the workspace (A8). Reads the disk,
    and may ask git: call it in a thread.
    """
    rating = severity.classify_command(_READ.sub("read", command), cwd=cwd, roots=roots)
    readable = Readable(roots, has_credentials)
    credentials, outside_paths = readable.findings(rating.named_paths)
    is_safe = (
        not credentials
        and not outside_paths
        and rating.severity in (Severity.NONE, Severity.MEDIUM)  # medium is also what the table does not know
        and not rating.always_ask
        and _safe_script(command, cwd, readable, git=git, asks_git=True) is not None
    )
    if is_safe:
        return RunAction(command=command, cwd=str(cwd), severity=Severity.NONE, safe=True)
    if _READ.search(command):
        rating = severity.classify_command(command, cwd=cwd, roots=roots)
    starts_outside = not readable.contains(Path(os.path.realpath(cwd)))
    written, read = _paths_outside(rating, outside_paths)
    protected = [path for path in rating.changed_paths if is_protected(Path(path))]
    reasons = [
        *(f"Changes a protected path: {path}" for path in protected),
        *(f"Reads credentials: {path}" for path in credentials),
        *_outside_reasons(rating, written, read or _system_files(rating, readable)),
        *(["It starts in a folder outside the workspace."] if starts_outside else []),
    ]
    return RunAction(
        command=command,
        cwd=str(cwd),
        severity=rating.severity,
        safe=False,
        reasons=_in_order(rating, reasons),
        always_ask=rating.always_ask or starts_outside or bool(protected),
        unfamiliar=bool(rating.unfamiliar),
        credentials=credentials,
        outside=outside_paths,
        writes_outside=rating.writes_outside or bool(written),
    )


def _paths_outside(rating: severity.Rating, outside: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which of the paths outside the workspace are written, and which are only read."""
    written = {*rating.changed_paths, *rating.targets}
    return [path for path in outside if path in written], [path for path in outside if path not in written]


def _outside_reasons(rating: severity.Rating, written: Sequence[str], read: Sequence[str]) -> list[str]:
    """Return what a command does outside the workspace, and what is not known; with worse findings, not what it
    writes, as only those are said."""
    is_listed = rating.severity in (Severity.NONE, Severity.MEDIUM)
    return [
        *(f"Changes files outside the workspace: {path}" for path in (written if is_listed else ())),
        *(f"Reads outside the workspace: {path}" for path in read),
        *rating.unfamiliar,
    ]


def _in_order(rating: severity.Rating, reasons: Sequence[str]) -> tuple[str, ...]:
    """Return the findings of a rating and these reasons, once each; what only names a written file comes last."""
    worse = (reason for reason in rating.reasons if not _is_minor(reason) and not _is_certain(reason, rating))
    return tuple(dict.fromkeys((*worse, *reasons, *filter(_is_minor, rating.reasons))))


def _system_files(rating: severity.Rating, readable: Readable) -> list[str]:
    """Return the system's files that a command reads, if nothing else is said against it."""
    if rating.reasons or rating.unfamiliar:
        return []
    paths = [named.path for named in rating.named_paths if named.path.startswith("/")]
    return [path for path in paths if not readable.contains(Path(os.path.realpath(path)))]


def _is_certain(reason: str, rating: severity.Rating) -> bool:
    """Return whether another reason says for certain what this one says may be."""
    return reason.startswith("May write ") and reason.replace("May write", "Writes", 1) in rating.reasons


def _is_minor(reason: str) -> bool:
    """Return whether a reason only names a written file; the others come first, where they are read."""
    return reason.startswith("Writes ") and not reason.startswith(("Writes to ", "Writes all ", "Writes outside "))


def safe_script(
    command: str,
    cwd: Path,
    roots: Sequence[Path],
    has_credentials: CredentialTest = lambda _: False,
    *,
    git: bool = False,
    asks_git: bool = True,
) -> SafeScript | None:
    """Return the command as a script if it may run without approval, else None. Arguments as of `assess_command`.

    `asks_git`: git may be asked now what its commands would show; in any case it is when they run.
    """
    return _safe_script(command, cwd, Readable(roots, has_credentials), git=git, asks_git=asks_git)


def _safe_script(command: str, cwd: Path, readable: Readable, *, git: bool, asks_git: bool) -> SafeScript | None:
    if len(command) > MAX_LENGTH:
        return None
    script = parse_strict(command)
    if script is None or not _agree(script, syntax.parse_shell(command)):
        return None
    safe = SafeScript(script, Path(os.path.realpath(cwd)), readable, git=git)
    try:
        check_script(safe, asks_git=asks_git)
    except (NotSafe, OSError, ValueError, RecursionError):
        return None
    return safe


_TESTS = ("[", "read")
"""Commands that the grammar shows in another form."""


def _agree(script: Script, parsed: syntax.ParsedCommand) -> bool:
    """Return whether both readers found the same simple commands."""
    expected = Counter(tuple(word.source for word in command.words) for command in simple_commands(script))
    actual = Counter(tuple(word.source for word in command.words) for command in parsed.commands if command.words)
    for commands in (expected, actual):
        for words in [words for words in commands if words[0] in _TESTS]:
            del commands[words]
    return not parsed.problem and not parsed.functions and expected == actual
