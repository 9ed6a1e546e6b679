"""search_workspace: text or a regular expression in all files, by ripgrep where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

import tui_agent
from tui_agent.domain import Target, ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.tools.lines import missing_text, shown_name
from tui_agent.tools.reading import leave_to_read
from tui_agent.tools.search_output import MATCHES, Findings

SECONDS = 15.0
READ_CAP = 64 * 1024 * 1024
"""Bytes of a search program's output that are read at most."""
LINE_CAP = 4 * 1024 * 1024
"""Bytes of one line of it; a longer one is passed over."""
CONTEXT_MAX = 10


class SearchWorkspaceArgs(Args):
    """See search_workspace.md."""

    query: str = Field(min_length=1, max_length=10_000)
    is_regex: bool = False
    directory: str | None = None
    context: int | None = None


class SearchWorkspace(Tool[SearchWorkspaceArgs]):
    """Finds lines in files."""

    name: ClassVar[str] = "search_workspace"
    args = SearchWorkspaceArgs
    reads_only: ClassVar[bool] = True
    timeout: ClassVar[float | None] = SECONDS + 10
    aliases: ClassVar[tuple[str, ...]] = (
        "search",
        "grep",
        "rg",
        "grep_search",
        "search_files",
        "search_file_content",
        "find_text",
        "search_code",
        "ripgrep",
    )
    argument_aliases: ClassVar[dict[str, str]] = {
        "pattern": "query",
        "text": "query",
        "search": "query",
        "term": "query",
        "regexp": "is_regex",
        "regex": "is_regex",
        "use_regex": "is_regex",
        "path": "directory",
        "dir": "directory",
        "folder": "directory",
        "context_lines": "context",
    }

    def __init__(self, seconds: float = SECONDS) -> None:
        """`seconds`: after which a search is stopped."""
        self._seconds = seconds

    def title(self, args: SearchWorkspaceArgs) -> str:
        """See Tool."""
        return f"{args.query} in {args.directory}" if args.directory else args.query

    async def run(self, args: SearchWorkspaceArgs, bench: Bench) -> ToolResult:
        """See Tool."""
        places: list[Path] = list(bench.roots)
        asked: Target | None = None
        if args.directory not in (None, "", "."):
            asked = bench.resolve(args.directory or "")
            await leave_to_read(bench, asked)
            if not asked.path.exists():
                raise ToolError(missing_text(shown_name(asked.display), asked.path), "not_found")
            places = [asked.path]
        elif not any(place.is_dir() for place in places):
            raise ToolError(f"The workspace {places[0]} can't be reached any more.", "not_found")
        found = Findings(functools.partial(_name, bench, asked))
        context = max(0, min(args.context or 0, CONTEXT_MAX))
        end = None
        if bench.search_program is not None:
            end = await _search(_ripgrep(bench.search_program, args, places, context), found, self._seconds)
        if end is None:
            end = await _search(_python(args, places, context, bench.roots), found, self._seconds)
        return _told(args, found, end or _Ended(self._seconds))


def _name(bench: Bench, asked: Target | None, path: str) -> str | None:
    """The name to show; None for a file with credentials that nobody gave leave to read.

    Not even that it matches is told: a few hundred regular expressions would spell out what it holds.
    """
    try:
        target = bench.resolve(path)
    except ToolError:
        return None
    free = asked is not None and target.path == asked.path
    return None if target.credentials and not free else shown_name(target.display)


def _told(args: SearchWorkspaceArgs, found: Findings, end: _Ended) -> ToolResult:
    if end.bad_query:
        raise ToolError(
            f"query is no valid regular expression: {end.bad_query} Set is_regex to false for plain text.",
            "bad_arguments",
        )
    notes: list[str] = []
    if found.full:
        notes.append(f"cut after {min(found.matches, MATCHES)} matches; search for more or give a directory")
    if end.timed_out:
        notes.append(f"stopped after {end.seconds:g} s, so there may be more; give a directory")
    elif end.flooded:
        notes.append("stopped because there was too much to go through; give a directory")
    if not found.matches:
        text = f"No matches for {args.query!r}. Files that hold credentials are left out; read_file asks for them."
        if not args.is_regex and any(one in args.query for one in ("|", ".*", "\\")):
            text += " It was taken as plain text; set is_regex for a regular expression."
    else:
        text = found.text
    return ToolResult(success=True, data="\n".join([text, *(f"[{note}]" for note in notes)]))


# --- the programs ---


def _ripgrep(program: Path, args: SearchWorkspaceArgs, places: Sequence[Path], context: int) -> list[str]:
    """Never with a configuration or a preprocessor from outside (R-05)."""
    options = ["--no-config", "--json", "--hidden", "--glob=!.git", "--no-messages", "--no-require-git"]
    options += [
        "--smart-case",
        "--sort=path",
        "--max-count=100",
        "--max-filesize=10M",
        f"--context={context}",
    ]
    options += ["--engine=auto"] if args.is_regex else ["--fixed-strings"]
    options += ["--multiline"] if "\n" in args.query or (args.is_regex and "\\n" in args.query) else []
    return [str(program), *options, f"--regexp={args.query}", "--", *map(str, places)]


def _python(
    args: SearchWorkspaceArgs, places: Sequence[Path], context: int, roots: Sequence[Path]
) -> list[str]:
    """The same by our own worker, in an interpreter that takes nothing from workspace or environment."""
    home = str(Path(tui_agent.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {home!r}); from tui_agent.tools.search_worker import main; sys.exit(main())"
    pairs = [
        (str(place), str(next((root for root in roots if place.is_relative_to(root)), place)))
        for place in places
    ]
    request = {"query": args.query, "is_regex": args.is_regex, "context": context, "places": pairs}
    return [sys.executable, "-I", "-c", code, json.dumps(request)]


class _Ended:
    """How a search program ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.timed_out = False
        self.flooded = False
        self.bad_query = ""


async def _search(argv: list[str], found: Findings, seconds: float) -> _Ended | None:
    """Run a search program and take in what it prints. None when it can't be run or fails by itself."""
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
            limit=1 << 18,
        )
    except OSError:
        return None
    end = _Ended(seconds)
    try:
        assert process.stdout is not None and process.stderr is not None
        complaint = asyncio.create_task(process.stderr.read(8192))
        try:
            async with asyncio.timeout(seconds):
                await _take_all(process.stdout, found, end)
                if not found.full and not end.flooded:
                    code = await process.wait()
                    return _judged(end, code, (await complaint).decode("utf-8", "replace"), found)
        except TimeoutError:
            end.timed_out = True
        finally:
            complaint.cancel()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
    return end


def _judged(end: _Ended, code: int, complaint: str, found: Findings) -> _Ended | None:
    if code in (0, 1) or found.matches:
        return end
    if "regex" in complaint or "PCRE2" in complaint:
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        end.bad_query = " ".join(line for line in lines if not set(line) <= {"^", "~"})[:300]
        return end
    return None


async def _take_all(stream: asyncio.StreamReader, found: Findings, end: _Ended) -> None:
    rest = b""
    skipping = False
    total = 0
    while not found.full and (piece := await stream.read(1 << 16)):
        total += len(piece)
        if total > READ_CAP:
            end.flooded = True
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if not skipping:
                found.take(line)
            skipping = False
        if len(rest) > LINE_CAP:
            rest, skipping = b"", True
    if rest and not skipping:
        found.take(rest)


# --- finding ripgrep ---


def find_ripgrep(folders: Sequence[Path]) -> Path | None:
    """ripgrep on PATH outside `folders`, or the one installed beside this program; None when there is none (R-04)."""
    return _find_ripgrep(tuple(folders), os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=8)
def _find_ripgrep(folders: tuple[Path, ...], path: str) -> Path | None:
    for entry in path.split(os.pathsep):
        program = Path(entry) / "rg"
        if not os.path.isabs(entry) or not _runs(program):
            continue
        real = Path(os.path.realpath(program))
        if not any(one.is_relative_to(folder) for folder in folders for one in (real, program)):
            return program
    beside = Path(sys.prefix) / "bin" / "rg"
    return beside if _runs(beside) else None


def _runs(program: Path) -> bool:
    return program.is_file() and os.access(program, os.X_OK)
