"""Git commands of review mode: those that only read, run as argv by a git that runs nothing of the repository (W11).

Git is never among the commands that run unasked (R-11), since a repository's settings can name programs. Here they are
switched off one by one, and every word that could switch one on, write, or read a file outside is turned away.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_agent.domain import CommandOutcome
from tui_agent.platform.capture import Capture, Kept, OnOutput
from tui_agent.platform.git import Git
from tui_agent.platform.proc import finished

_DIFFS = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_FORCED: dict[str, tuple[str, ...]] = {
    "log": _DIFFS,
    "diff": _DIFFS,
    "show": _DIFFS,
    "whatchanged": _DIFFS,
    "diff-tree": _DIFFS,
    "status": ("--ignore-submodules=all",),
    "blame": ("--no-textconv",),
    "grep": ("--no-textconv",),
    "shortlog": (),
    "ls-files": (),
    "ls-tree": (),
    "rev-parse": (),
    "rev-list": (),
    "describe": (),
    "merge-base": (),
    "name-rev": (),
}
"""Subcommands that read → what is added to them."""
_OFF = ("-c", "log.showSignature=false", "-c", "diff.ignoreSubmodules=all", "-c", "blame.ignoreRevsFile=")
_DENIED = (
    "--output",
    "--ext-diff",
    "--textconv",
    "--open-files-in-pager",
    "--no-index",
    "--show-signature",
    "--recurse-submodules",
    "--submodule",
    "--contents",
    "--ignore-revs-file",
    "--ignore-submodules",
    "--exclude-from",
    "--exclude-per-directory",
    "--parseopt",
    "--sq-quote",
    "--file",
    "--stdin",
    "--pathspec-from-file",
    "--git-dir",
    "--work-tree",
)
"""Long options; git takes any beginning of one that fits no other."""
_SHELL = re.compile(r"[;&|<>`$\n\r\\]|%G")
"""What a shell would take for more than words, and the placeholders that check signatures by a program."""
_DIFFING = tuple(name for name, forced in _FORCED.items() if forced is _DIFFS)
_SHORT: dict[str, str] = {"grep": "fO", "blame": "S", "ls-files": "X"}
"""Letters of short options that name a file or a program; `O` nowhere."""


def arguments(command: str, holds_credentials: Callable[[str], bool]) -> tuple[str, ...] | None:
    """The arguments of a git command that only reads what the repository holds; None for every other command."""
    if _SHELL.search(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] != ["git"]:
        return None
    words = words[1:]
    while words[:1] in (["--no-pager"], ["-P"]):
        words = words[1:]
    if not words or words[0] not in _FORCED:
        return None
    name, rest = words[0], words[1:]
    if not all(_harmless(name, word, holds_credentials) for word in rest):
        return None
    return (*_OFF, name, *_FORCED[name], *rest)


def _harmless(name: str, word: str, holds_credentials: Callable[[str], bool]) -> bool:
    if word.startswith("--") and word != "--":
        option, _, value = word.partition("=")
        return not any(one.startswith(option) for one in _DENIED) and _inside(value)
    if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
        sought = name in _DIFFING and word.startswith(("-S", "-G"))  # what follows is text to look for
        return sought or word.startswith("-L") or not set(word[1:]) & set("O" + _SHORT.get(name, ""))
    path = word.rpartition(":")[2]
    return _inside(path) and not (path and holds_credentials(path))


def _inside(path: str) -> bool:
    """False for a way out: with one git would compare files that no repository holds."""
    return not path.startswith(("/", "~")) and ".." not in path.split("/")


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    folders: Sequence[Path],
    timeout: float,
    on_output: OnOutput | None,
    kept: Kept,
) -> CommandOutcome:
    """What `arguments` made of a command, run in `cwd` for `timeout` seconds at most; `folders` as in Git."""
    began = time.monotonic()
    said = await Git(cwd, folders).ask(*command, seconds=timeout)
    capture = Capture(on_output, kept.file, lines=kept.lines)
    capture.add(said or b"")
    result = await finished(capture, 0)
    failed = said is None
    slow = failed and time.monotonic() - began >= timeout
    note = (
        "git gave no answer: it failed, found nothing, or printed over 1 MiB. Ask for less." if failed else ""
    )
    return CommandOutcome(
        exit_code=None if slow else int(failed),
        output=result.presented.text,
        total_bytes=result.total_bytes,
        total_lines=result.total_lines,
        timed_out=slow,
        cwd=str(cwd),
        note=note or result.presented.note,
        spill=result.spill,
    )
