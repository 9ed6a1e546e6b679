"""Git commands of review mode: those that only read, run as argv by a git that runs nothing of the repository (W11).

Git is never among the commands that run unasked, since a repository's settings can name programs. Here they are
switched off one by one, and every word that could switch one on, write, or read a file outside is turned away.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome
from tui_agent.platform.git import Git
from tui_agent.platform.output import Capture, KeptOutput, OnOutput
from tui_agent.platform.proc import finished_process
from tui_agent.shell.targets import names, target_table

_OFF = ("-c", "log.showSignature=false", "-c", "diff.ignoreSubmodules=all", "-c", "blame.ignoreRevsFile=")
_SHELL = re.compile(r"[;&|<>`$\n\r\\]|%G")
"""What a shell would take for more than words, and the placeholders that check signatures by a program."""


def git_arguments(command: str, holds_credentials: Callable[[str], bool]) -> tuple[str, ...] | None:
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
    forced = target_table()["git_reads"]  # subcommands that read → what is added to them
    if not words or words[0] not in forced:
        return None
    name, rest = words[0], words[1:]
    if not all(_harmless(name, word, holds_credentials) for word in rest):
        return None
    return (*_OFF, name, *forced[name].split(), *rest)


def _harmless(name: str, word: str, holds_credentials: Callable[[str], bool]) -> bool:
    if word.startswith("--") and word != "--":
        option, _, value = word.partition("=")
        # git takes any beginning of a long option that fits no other
        return not any(one.startswith(option) for one in names("git_reads_denied")) and _inside(value)
    if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
        table = target_table()
        differs = "--no-ext-diff" in table["git_reads"][name]
        sought = differs and word.startswith(("-S", "-G"))  # what follows is text to look for
        return sought or word.startswith("-L") or not set(word[1:]) & set("O" + table["git_reads_short"].get(name, ""))
    path = word.rpartition(":")[2]
    return _inside(path) and not (path and holds_credentials(path))


def _inside(path: str) -> bool:
    """False for a way out: with one git would compare files that no repository holds."""
    return not path.startswith(("/", "~")) and ".." not in path.split("/")


async def run_git_read(
    command: Sequence[str],
    *,
    cwd: Path,
    folders: Sequence[Path],
    timeout: float,
    on_output: OnOutput | None,
    kept: KeptOutput,
) -> CommandOutcome:
    """What `arguments` made of a command, run in `cwd` for `timeout` seconds at most; `folders` as in Git."""
    began = time.monotonic()
    said = await Git(cwd, folders).ask(*command, seconds=timeout)
    capture = Capture(on_output, kept.file, lines=kept.lines)
    capture.add(said or b"")
    failed = said is None
    slow = failed and time.monotonic() - began >= timeout
    outcome = await finished_process(capture, int(failed), cwd=cwd, timed_out=slow)
    note = "git gave no answer: it failed, found nothing, or printed over 1 MiB. Ask for less."
    return replace(outcome, note=note) if failed else outcome
