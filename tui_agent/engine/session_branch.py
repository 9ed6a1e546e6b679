"""A git branch of its own for a session, made before its first change (W19). Off unless the settings say so."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

from tui_agent.engine.emitting import Emitting
from tui_agent.events import Notice
from tui_agent.platform.git import Git, branch_of

PREFIX = "tui-agent/"
"""What the names of such branches begin with."""
SLUG_MAX = 40
"""Characters of the rest."""
SAME = 20
"""Branches of the same name, told apart by numbers."""
SECONDS = 5.0
"""For one call of git."""
_UNDERWAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisection",
}
"""What lies in the repository's folder while something goes on that a new branch would break."""


class SessionBranch:
    """Made for `folders`, of which the first has the repository; `title` gives what the session is called.

    Only references are written: files, index and what is not committed stay as they are, and nothing of the repository
    is run (R-05).
    """

    def __init__(self, folders: Sequence[Path], title: Callable[[], str], stream: Emitting) -> None:
        self._folder = folders[0]
        self._folders = folders
        self._title = title
        self._stream = stream
        self._settled = False
        self._settling = asyncio.Lock()

    async def before_change(self, run: str) -> None:
        """See that the session is on a branch of its own. The folder must be trusted."""
        async with self._settling:
            if self._settled:
                return
            self._settled = True
            before = await asyncio.to_thread(branch_of, self._folder)
            if before is None or before.startswith(PREFIX):
                return
            name, why = await self._made()
            self._tell(name, before, why, run)

    async def _made(self) -> tuple[str, str]:
        """The new branch, and why there is none."""
        git = Git(self._folder, self._folders)
        said = await git.ask("rev-parse", "--absolute-git-dir", seconds=SECONDS)
        if said is None:
            return "", "git gave no answer"
        place = Path(said.decode("utf-8", "surrogateescape").strip())
        if going := await asyncio.to_thread(_underway, place):
            return "", f"{going} is going on"
        found = await git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}", seconds=SECONDS)
        commit = found.decode("ascii", "replace").strip() if found else ""
        slug = _slug(self._title())
        for number in range(1, SAME + 1):
            name = f"{PREFIX}{slug}-{number}" if number > 1 else f"{PREFIX}{slug}"
            if (
                await git.ask("show-ref", "--verify", "--quiet", f"refs/heads/{name}", seconds=SECONDS)
                is not None
            ):
                continue
            if await git.branch(name, commit, seconds=SECONDS):
                return name, ""
            return "", f"git did not make {name}"
        return "", f"there are {SAME} branches {PREFIX}{slug} already"

    def _tell(self, name: str, before: str, why: str, run: str) -> None:
        if name:
            text = (
                f"New git branch {name}, begun at {before}: what this session changes is on it. Your files and what is "
                f"not committed stay as they are. Back with `git switch {before}`."
            )
        else:
            text = f"No git branch was made for this session, since {why}. Its changes are on {before}."
        self._stream.emit(Notice(level="info" if name else "warning", text=text, code="git.branch"), run=run)


def _underway(place: Path) -> str:
    return next((words for name, words in _UNDERWAY.items() if (place / name).exists()), "")


def _slug(title: str) -> str:
    """The title as a part of a branch's name; the date where no letter of it can stand there."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(words) > SLUG_MAX:
        words = words[: SLUG_MAX + 1].rpartition("-")[0] or words[:SLUG_MAX]
    return words or dt.date.today().isoformat()
