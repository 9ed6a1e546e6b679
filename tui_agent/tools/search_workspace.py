"""search_workspace: text or a regular expression in all files, by ripgrep where there is one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

import tui_agent
from tui_agent.domain import Target, ToolResult
from tui_agent.tools.base import Args, Bench, Tool, ToolError
from tui_agent.tools.ignoring import Ignoring
from tui_agent.tools.lines import missing_text, shown_name
from tui_agent.tools.reading import leave_to_read
from tui_agent.tools.search_output import Findings
from tui_agent.tools.search_program import OPTIONS
from tui_agent.tools.search_worker import has_capitals

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
        if "\0" in args.query or not _writable(args.query):
            raise ToolError("query holds a character that no text file can have.", "bad_arguments")
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
        ignored = await asyncio.to_thread(_left_out_above, asked, bench.roots)
        found = Findings(functools.partial(_name, bench, asked, ignored), bench.search_matches)
        context = max(0, min(args.context or 0, CONTEXT_MAX))
        end = None
        if bench.search_program is not None:
            argv = _ripgrep(bench.search_program, args, places, context)
            end = await _search(argv, found, self._seconds, bench.output)
        if end is None or end.bad_query:
            # Also for what only our own expressions can do, such as looking around.
            argv = _python(args, places, context, bench.roots)
            own = await _search(argv, found, self._seconds, bench.output)
            end = own if end is None or (own is not None and not own.bad_query) else end
        found.finish()
        return _told(args, found, end or _Ended(self._seconds), bench.search_matches)


class _LeftOut:
    """Tells what .gitignore files above the folder that was asked for leave out of it; ripgrep is not told of them,
    since it would look above the root as well."""

    def __init__(self, top: Path, folder: Path) -> None:
        self._top = top
        self._rules = {folder: Ignoring.at(top, folder)}

    def __call__(self, path: Path) -> bool:
        folder = next(iter(self._rules))
        if not path.is_relative_to(folder):
            return False
        rules, parts = self._rules[folder], folder.relative_to(self._top).parts
        names = path.relative_to(folder).parts
        for name in names[:-1]:
            parts = (*parts, name)
            if rules.ignores(parts, True):
                return True
            folder = folder / name
            if folder not in self._rules:
                self._rules[folder] = rules.below(folder)
            rules = self._rules[folder]
        return bool(names) and rules.ignores((*parts, names[-1]), False)


def _left_out_above(asked: Target | None, roots: Sequence[Path]) -> Callable[[Path], bool]:
    """What is left out by rules above the folder that was asked for."""
    if asked is None or not asked.path.is_dir():
        return lambda _: False
    root = next((root for root in roots if asked.path.is_relative_to(root)), asked.path)
    _, top = Ignoring.asked(root, asked.path)
    return (lambda _: False) if top == asked.path else _LeftOut(top, asked.path)


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(bench: Bench, asked: Target | None, ignored: Callable[[Path], bool], path: str) -> str | None:
    """The name to show; None for a file that is left out, and one with credentials that nobody gave leave to read.

    Not even that it matches is told: a few hundred regular expressions would spell out what it holds.
    """
    try:
        target = bench.resolve(path)
    except ToolError:
        return None
    free = asked is not None and target.path == asked.path
    if ignored(Path(os.fsdecode(path.encode("utf-8", "surrogateescape")))):
        return None
    return None if target.credentials and not free else shown_name(target.display)


def _told(args: SearchWorkspaceArgs, found: Findings, end: _Ended, most: int) -> ToolResult:
    if end.bad_query:
        raise ToolError(
            f"query is no valid regular expression: {end.bad_query} Set is_regex to false for plain text.",
            "bad_arguments",
        )
    notes: list[str] = []
    if found.full:
        notes.append(f"cut after {min(found.matches, most)} matches; search for more or give a directory")
    if end.timed_out:
        notes.append(f"stopped after {end.seconds:g} s, so there may be more; give a directory")
    if end.passed_over:
        notes.append("lines of several megabytes were passed over")
    if end.flooded and not end.timed_out:
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
    """Never with a configuration or a preprocessor from outside (R-05), nor with ignore files of other kinds."""
    options = [
        *OPTIONS,
        "--json",
        "--case-sensitive" if has_capitals(args.query, args.is_regex) else "--ignore-case",
        "--sort=path",
        "--crlf",
        "--no-mmap",
        "--line-buffered",
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
        self.passed_over = False
        """Lines were too long to be taken in."""


async def _search(
    argv: list[str], found: Findings, seconds: float, show: Callable[[str], None]
) -> _Ended | None:
    """Run a search program and take in what it prints, handing it on to `show` as it comes. None when it can't be run
    or fails by itself."""
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
                await _take_all(process.stdout, found, end, show)
                if not found.full and not end.flooded:
                    code = await process.wait()
                    return _judged(end, code, (await complaint).decode("utf-8", "replace"), found)
        except TimeoutError:
            end.timed_out = True
        finally:
            found.finish()
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


async def _take_all(
    stream: asyncio.StreamReader, found: Findings, end: _Ended, show: Callable[[str], None]
) -> None:
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
            rest, skipping, end.passed_over = b"", True, True
        if fresh := found.fresh():
            show(fresh)
    if rest and not skipping:
        found.take(rest)
    found.finish()
    if fresh := found.fresh():
        show(fresh)
