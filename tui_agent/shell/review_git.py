"""Read-only git commands of review mode, run as an argument list by a git that runs nothing of the repository (W11).

Git is never a safe command, since the settings of a repository can name programs. Here these settings are switched off
one by one, and arguments that could switch one on, write, or read a file outside the repository are rejected.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from itertools import dropwhile
from pathlib import Path

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome
from tui_agent.platform.git import Git
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import finished_process
from tui_agent.shell.targets import names, severity_table

_SAFE_SETTINGS = ("-c", "log.showSignature=false", "-c", "diff.ignoreSubmodules=all", "-c", "blame.ignoreRevsFile=")
_SHELL_SYNTAX = re.compile(r"[;&|<>`$\n\r\\]|%G")
"""Shell syntax other than words, and the format placeholders that check signatures with a program."""


def git_arguments(command: str, has_credentials: Callable[[str], bool]) -> tuple[str, ...] | None:
    """Return the arguments of a git command that only reads the repository; None for any other command."""
    if _SHELL_SYNTAX.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] != ["git"]:
        return None
    subcommand, *arguments = [*dropwhile(lambda word: word in ("--no-pager", "-P"), words[1:])] or [""]
    added = severity_table()["git_reads"].get(subcommand)
    if added is None or not all(_is_allowed(subcommand, word, has_credentials) for word in arguments):
        return None
    return (*_SAFE_SETTINGS, subcommand, *added.split(), *arguments)


def _is_allowed(subcommand: str, word: str, has_credentials: Callable[[str], bool]) -> bool:
    if word.startswith("--") and word != "--":
        option, _, value = word.partition("=")
        # git accepts an unambiguous abbreviation of a long option
        return not any(denied.startswith(option) for denied in names("git_reads_denied")) and _is_inside(value)
    if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
        table = severity_table()
        is_diff = "--no-ext-diff" in table["git_reads"][subcommand]
        if word.startswith(("-S", "-G", "-L") if is_diff else "-L"):  # followed by a text to search for, or a range
            return True
        return not set(word[1:]) & {"O", *table["git_reads_short"].get(subcommand, "")}
    path = word.rpartition(":")[2]
    return _is_inside(path) and not (path and has_credentials(path))


def _is_inside(path: str) -> bool:
    """Return whether the path stays in the repository: otherwise git would compare files outside of it."""
    return not path.startswith(("/", "~")) and ".." not in path.split("/")


async def run_git_read(
    command: Sequence[str], *, cwd: Path, folders: Sequence[Path], timeout: float, capture: Capture
) -> CommandOutcome:
    """Run the result of `git_arguments` in `cwd` for at most `timeout` seconds; `folders` as in Git."""
    start = time.monotonic()
    output = await Git(cwd, folders).run(*command, seconds=timeout)
    capture.add(output or b"")
    failed = output is None
    timed_out = failed and time.monotonic() - start >= timeout
    outcome = await finished_process(capture, int(failed), cwd=cwd, timed_out=timed_out)
    note = "git gave no answer: it failed, found nothing, or printed over 1 MiB. Ask for less."
    return replace(outcome, note=note) if failed else outcome
