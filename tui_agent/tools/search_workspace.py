"""search_workspace: text or a regular expression in all files, by ripgrep where there is one."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from pydantic import Field

import tui_agent
from tui_agent.common.domain import Target, ToolResult
from tui_agent.platform.programs import find_program, running_program
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.gitignore import GitIgnore
from tui_agent.tools.search_worker import has_capitals
from tui_agent.tools.wording import MODEL_CAP, missing_text, shown_name

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

    def __init__(self, seconds: float = SECONDS) -> None:
        """`seconds`: after which a search is stopped."""
        self._seconds = seconds

    def title(self, args: SearchWorkspaceArgs) -> str:
        """See Tool."""
        return f"{args.query} in {args.directory}" if args.directory else args.query

    async def run(self, args: SearchWorkspaceArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if "\0" in args.query or not _writable(args.query):
            raise ToolError("query holds a character that no text file can have.", "bad_arguments")
        places: list[Path] = list(ctx.roots)
        asked: Target | None = None
        if args.directory not in (None, "", "."):
            asked = ctx.resolve(args.directory or "")
            await permit_read(ctx, asked)
            if not asked.path.exists():
                raise ToolError(missing_text(shown_name(asked.display), asked.path), "not_found")
            places = [asked.path]
        elif not any(place.is_dir() for place in places):
            raise ToolError(f"The workspace {places[0]} can't be reached any more.", "not_found")
        ignored = await asyncio.to_thread(_left_out_above, asked, ctx.roots)
        found = SearchHits(functools.partial(_name, ctx, asked, ignored), ctx.search_matches)
        context = max(0, min(args.context or 0, CONTEXT_MAX))
        end = None
        if ctx.search_program is not None:
            argv = _ripgrep(ctx.search_program, args, places, context)
            end = await _search(argv, found, self._seconds, ctx.output)
        if end is None or end.bad_query:
            # Also for what only our own expressions can do, such as looking around.
            argv = _python(args, places, context, ctx.roots)
            own = await _search(argv, found, self._seconds, ctx.output)
            end = own if end is None or (own is not None and not own.bad_query) else end
        found.finish()
        return _format_hits(args, found, end or _Ended(self._seconds), ctx.search_matches)


class _LeftOut:
    """Tells what .gitignore files above the folder that was asked for leave out of it; ripgrep is not told of them,
    since it would look above the root as well."""

    def __init__(self, top: Path, folder: Path) -> None:
        self._top = top
        self._folder = folder
        self._rules: dict[Path, GitIgnore | None] = {folder: GitIgnore.at(top, folder)}
        """None: the folder is left out."""

    def __call__(self, path: Path) -> bool:
        return path.is_relative_to(self._folder) and path != self._folder and self._ignores(path, False)

    def _ignores(self, path: Path, is_folder: bool) -> bool:
        rules = self._rules_of(path.parent)
        return rules is None or rules.ignores(path.relative_to(self._top).parts, is_folder)

    def _rules_of(self, folder: Path) -> GitIgnore | None:
        if folder not in self._rules:
            above = self._rules_of(folder.parent)
            left_out = above is None or self._ignores(folder, True)
            self._rules[folder] = None if above is None or left_out else above.below(folder)
        return self._rules[folder]


def _left_out_above(asked: Target | None, roots: Sequence[Path]) -> Callable[[Path], bool]:
    """What is left out by rules above the folder that was asked for."""
    if asked is None or not asked.path.is_dir():
        return lambda _: False
    root = next((root for root in roots if asked.path.is_relative_to(root)), asked.path)
    _, top = GitIgnore.asked(root, asked.path)
    return (lambda _: False) if top == asked.path else _LeftOut(top, asked.path)


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name(ctx: ToolContext, asked: Target | None, ignored: Callable[[Path], bool], path: str) -> str | None:
    """The name to show; None for a file that is left out, and one with credentials that nobody gave leave to read.

    Not even that it matches is told: a few hundred regular expressions would spell out what it holds.
    """
    try:
        target = ctx.resolve(path)
    except ToolError:
        return None
    free = asked is not None and target.path == asked.path
    if ignored(Path(os.fsdecode(path.encode("utf-8", "surrogateescape")))):
        return None
    return None if target.credentials and not free else shown_name(target.display)


def _format_hits(args: SearchWorkspaceArgs, found: SearchHits, end: _Ended, most: int) -> ToolResult:
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
    """Never with a configuration or a preprocessor from outside, nor with ignore files of other kinds."""
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


def _python(args: SearchWorkspaceArgs, places: Sequence[Path], context: int, roots: Sequence[Path]) -> list[str]:
    """The same by our own worker, in an interpreter that takes nothing from workspace or environment."""
    home = str(Path(tui_agent.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {home!r}); "
        "from tui_agent.tools.search_worker import run_worker; sys.exit(run_worker())"
    )
    pairs = [(str(place), str(next((root for root in roots if place.is_relative_to(root)), place))) for place in places]
    request = {"query": args.query, "is_regex": args.is_regex, "context": context, "places": pairs}
    return [sys.executable, "-I", "-c", code, json.dumps(request)]


class _Ended(msgspec.Struct):
    """How a search program ended."""

    seconds: float
    timed_out: bool = False
    flooded: bool = False
    bad_query: str = ""
    passed_over: bool = False
    """Lines were too long to be taken in."""


async def _search(argv: list[str], found: SearchHits, seconds: float, show: Callable[[str], None]) -> _Ended | None:
    """Run a search program and take in what it prints, handing it on to `show` as it comes. None when it can't be run
    or fails by itself."""
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    try:
        async with running_program(argv, env=env, cwd="/", errors=asyncio.subprocess.PIPE) as process:
            return await _hits(process, found, _Ended(seconds), show)
    except OSError:
        return None


async def _hits(
    process: asyncio.subprocess.Process, found: SearchHits, end: _Ended, show: Callable[[str], None]
) -> _Ended | None:
    assert process.stdout is not None and process.stderr is not None
    complaint = asyncio.create_task(process.stderr.read(8192))
    try:
        async with asyncio.timeout(end.seconds):
            await _take_all(process.stdout, found, end, show)
            if not found.full and not end.flooded:
                code = await process.wait()
                return _judged(end, code, (await complaint).decode("utf-8", "replace"), found)
    except TimeoutError:
        end.timed_out = True
    finally:
        found.finish()
        complaint.cancel()
    return end


def _judged(end: _Ended, code: int, complaint: str, found: SearchHits) -> _Ended | None:
    if code in (0, 1) or found.matches:
        return end
    if "regex" in complaint or "PCRE2" in complaint:
        lines = [line.strip() for line in complaint.splitlines() if line.strip()]
        end.bad_query = " ".join(line for line in lines if not set(line) <= {"^", "~"})[:300]
        return end
    return None


async def _take_all(stream: asyncio.StreamReader, found: SearchHits, end: _Ended, show: Callable[[str], None]) -> None:
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


MATCHES = 200
"""Matching lines of one result."""
WIDE = 400
"""Characters of one line."""


class SearchHits:
    """Gathers lines until a limit is met. A file counts once it was gone through: one that turns out to be binary has
    no lines, and one that comes a second time is passed over."""

    def __init__(self, name_of: Callable[[str], str | None], most: int = MATCHES) -> None:
        """`name_of` gives a file's name as the model knows it, or None for a file that must not be shown. `most`:
        matches of one result."""
        self._name_of = name_of
        self._most = most
        self._lines: list[str] = []
        self._told = 0
        self._size = 0
        self._done: set[str] = set()
        self._path = ""
        self._waiting: list[tuple[int, dict[str, Any], bool]] = []
        self.matches = 0
        self.files = 0
        self.full = False

    @property
    def text(self) -> str:
        """The result so far."""
        return "\n".join(self._lines)

    def fresh(self) -> str:
        """What has come to the result since the last time, as lines."""
        fresh, self._told = self._lines[self._told :], len(self._lines)
        return "".join(f"{line}\n" for line in fresh)

    def take(self, line: bytes) -> None:
        """One line of JSON; anything else is passed over."""
        try:
            event = json.loads(line)
            kind, data = event["type"], event["data"]
            if kind in ("match", "context"):
                path = _text(data["path"])
                if path != self._path:
                    self.finish()
                    self._path = path
                self._waiting.append((int(data["line_number"]), data, kind == "match"))
            elif kind == "end":
                if data.get("binary_offset") is not None:
                    self._waiting.clear()
                self.finish()
        except (ValueError, KeyError, TypeError):
            return

    def finish(self) -> None:
        """The file that is being gone through is over, or the search is."""
        path, waiting = self._path, self._waiting
        self._path, self._waiting = "", []
        if not waiting or path in self._done or self.full:
            return
        self._done.add(path)
        name = self._name_of(path)
        if name is None:
            return
        if self.matches >= self._most:
            self.full = True
            return
        self.files += 1
        self._put(f"── {name} ──")
        for number, data, hit in waiting:
            self._add(number, data, hit)
            if self.full:
                return

    def _add(self, number: int, data: dict[str, Any], hit: bool) -> None:
        if hit and self.matches >= self._most:
            self.full = True
            return
        lines = _text(data["lines"]).rstrip("\r\n").split("\n")
        for offset, line in enumerate(lines):
            text = line.removesuffix("\r")
            text = text.removeprefix("\ufeff") if number + offset == 1 else text
            shown = _window(text, data if hit and not offset else {})
            self._put(f"→ {number + offset}: {shown}" if hit else f"  {number + offset}: {shown}")
        self.matches += hit
        if self._size > MODEL_CAP:
            self.full = True

    def _put(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _text(value: dict[str, str]) -> str:
    """ripgrep gives bytes that are no UTF-8 as base64."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def _window(text: str, data: dict[str, Any]) -> str:
    """The part of a long line around its first match."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if len(text) <= WIDE:
        return text
    hits = data.get("submatches") or [{}]
    start = int(hits[0].get("start", 0))  # in bytes
    before = len(text.encode()[:start].decode("utf-8", "ignore"))
    at = min(max(0, before - WIDE // 4), len(text) - WIDE)
    return ("…" if at else "") + text[at : at + WIDE] + ("…" if at + WIDE < len(text) else "")


OPTIONS = (
    *("--no-config", "--hidden", "--glob=!.git", "--no-messages", "--no-require-git"),
    *(f"--no-ignore-{kind}" for kind in ("dot", "exclude", "global", "parent")),
)
"""How it goes through folders: nothing configured from outside, .gitignore files at and below them alone."""


def find_ripgrep(folders: Sequence[Path]) -> Path | None:
    """ripgrep on PATH outside `folders`, or the one installed beside this program; None when there is none."""
    return _find_ripgrep(tuple(folders), os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=8)
def _find_ripgrep(folders: tuple[Path, ...], path: str) -> Path | None:
    beside = Path(sys.prefix) / "bin" / "rg"
    return find_program("rg", folders, path) or find_program(str(beside), folders)


TOOLS = (SearchWorkspace(),)
