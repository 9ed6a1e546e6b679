"""search_workspace: search all files for text or a regular expression, with ripgrep if it is installed."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

import tui_agent
from tui_agent.common.domain import Target, ToolResult
from tui_agent.platform.programs import find_program, running_program
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.gitignore import GitIgnore
from tui_agent.tools.search_worker import has_capitals
from tui_agent.tools.wording import MAX_RESULT_SIZE, escape_surrogates, missing_file_message, printable_name

TIME_LIMIT = 15.0
MAX_OUTPUT_SIZE = 64 * 1024 * 1024
"""Bytes of a search program's output that are read."""
MAX_OUTPUT_LINE = 4 * 1024 * 1024
"""Bytes of one line of output; longer ones are skipped."""
MAX_CONTEXT = 10


class SearchWorkspaceArgs(Args):
    """See search_workspace.md."""

    query: str = Field(min_length=1, max_length=10_000)
    is_regex: bool = False
    directory: str | None = None
    context: int | None = None


class SearchWorkspace(Tool[SearchWorkspaceArgs]):
    """Searches the lines of files."""

    name = "search_workspace"
    args = SearchWorkspaceArgs
    reads_only = True
    timeout = TIME_LIMIT + 10

    def __init__(self, seconds: float = TIME_LIMIT) -> None:
        """Create the tool; a search is stopped after `seconds`."""
        self._seconds = seconds

    def title(self, args: SearchWorkspaceArgs) -> str:
        """See Tool."""
        return f"{args.query} in {args.directory}" if args.directory else args.query

    async def run(self, args: SearchWorkspaceArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if "\0" in args.query or args.query != escape_surrogates(args.query):
            raise ToolError("query holds a character that no text file can have.", "bad_arguments")
        folders: list[Path] = list(ctx.roots)
        requested: Target | None = None
        if args.directory not in (None, "", "."):
            requested = ctx.resolve(args.directory or "")
            await permit_read(ctx, requested)
            if not requested.path.exists():
                raise ToolError(missing_file_message(printable_name(requested.display), requested.path), "not_found")
            folders = [requested.path]
        elif not any(folder.is_dir() for folder in folders):
            raise ToolError(f"The workspace {folders[0]} can't be reached any more.", "not_found")
        ignored = await asyncio.to_thread(_ignored_by_parents, requested, ctx.roots)
        hits = SearchHits(functools.partial(_result_name, ctx, requested, ignored), ctx.search_matches)
        context = max(0, min(args.context or 0, MAX_CONTEXT))
        end = None
        if ctx.search_program is not None:
            argv = _ripgrep_command(ctx.search_program, args, folders, context)
            end = await _run_search(argv, hits, self._seconds, ctx.output)
        if end is None or end.bad_query:
            # Also for syntax that only Python supports, such as lookaround.
            argv = _worker_command(args, folders, context, ctx.roots)
            worker_end = await _run_search(argv, hits, self._seconds, ctx.output)
            end = worker_end if end is None or (worker_end is not None and not worker_end.bad_query) else end
        return _format_hits(args, hits, end or _SearchEnd(self._seconds), ctx.search_matches)


def _ignored_by_parents(requested: Target | None, roots: Sequence[Path]) -> Callable[[Path], bool]:
    """Return a predicate for files that are ignored by .gitignore files above the requested folder.

    ripgrep is not told of them, since it would also use those above the root.
    """
    if requested is None or not requested.path.is_dir():
        return lambda _: False
    folder = requested.path
    folder_rules, top = GitIgnore.for_request(roots, folder)

    @functools.cache
    def rules_in(path: Path) -> GitIgnore | None:
        """Return the rules in a folder; None if it is ignored."""
        if path == folder:
            return folder_rules
        above = rules_in(path.parent)
        return None if above is None or above.ignores(path.relative_to(top).parts, True) else above.below(path)

    def is_ignored(path: Path) -> bool:
        if top == folder or folder not in path.parents:
            return False
        rules = rules_in(path.parent)
        return rules is None or rules.ignores(path.relative_to(top).parts, False)

    return is_ignored


def _result_name(ctx: ToolContext, requested: Target | None, ignored: Callable[[Path], bool], path: str) -> str | None:
    """Return the displayed name; None for ignored files, and for files with credentials unless requested by name.

    Not even the number of matches is reported: regular expressions could spell out the content.
    """
    try:
        target = ctx.resolve(path)
    except ToolError:
        return None
    was_requested = requested is not None and target.path == requested.path
    if ignored(Path(os.fsdecode(path.encode("utf-8", "surrogateescape")))):
        return None
    return None if target.credentials and not was_requested else printable_name(target.display)


def _format_hits(args: SearchWorkspaceArgs, hits: SearchHits, end: _SearchEnd, limit: int) -> ToolResult:
    if end.bad_query:
        raise ToolError(
            f"query is no valid regular expression: {end.bad_query} Set is_regex to false for plain text.",
            "bad_arguments",
        )
    notes: list[str] = []
    if hits.is_full:
        notes.append(f"cut after {min(hits.matches, limit)} matches; search for more or give a directory")
    if end.timed_out:
        notes.append(f"stopped after {end.seconds:g} s, so there may be more; give a directory")
    if end.skipped_lines:
        notes.append("lines of several megabytes were passed over")
    if end.output_limit and not end.timed_out:
        notes.append("stopped because there was too much to go through; give a directory")
    if not hits.matches:
        text = f"No matches for {args.query!r}. Files that hold credentials are left out; read_file asks for them."
        if not args.is_regex and any(syntax in args.query for syntax in ("|", ".*", "\\")):
            text += " It was taken as plain text; set is_regex for a regular expression."
    else:
        text = hits.text
    return ToolResult(success=True, data="\n".join([text, *(f"[{note}]" for note in notes)]))


# --- the search programs ---


def _ripgrep_command(program: Path, args: SearchWorkspaceArgs, folders: Sequence[Path], context: int) -> list[str]:
    """Run without configuration, preprocessors or other ignore files."""
    options = [
        *RIPGREP_OPTIONS,
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
    return [str(program), *options, f"--regexp={args.query}", "--", *map(str, folders)]


def _worker_command(
    args: SearchWorkspaceArgs, folders: Sequence[Path], context: int, roots: Sequence[Path]
) -> list[str]:
    """Run our own worker, isolated from the workspace and the environment."""
    home = str(Path(tui_agent.__file__).parent.parent)
    code = (
        f"import sys; sys.path.insert(0, {home!r}); "
        "from tui_agent.tools.search_worker import run_worker; sys.exit(run_worker())"
    )
    request = {
        "query": args.query,
        "is_regex": args.is_regex,
        "context": context,
        "folders": list(map(str, folders)),
        "roots": list(map(str, roots)),
    }
    return [sys.executable, "-I", "-c", code, json.dumps(request)]


class _SearchEnd(msgspec.Struct):
    """How a search program ended."""

    seconds: float
    timed_out: bool = False
    output_limit: bool = False
    bad_query: str = ""
    skipped_lines: bool = False
    """Lines were too long and were skipped."""


async def _run_search(
    argv: list[str], hits: SearchHits, seconds: float, show: Callable[[str], None]
) -> _SearchEnd | None:
    """Run a search program and collect its output, forwarding results to `show`.

    Returns None if it can't be run or crashes.
    """
    end = _SearchEnd(seconds)
    env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
    try:
        async with running_program(argv, env=env, cwd="/", errors=asyncio.subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            stderr = asyncio.create_task(process.stderr.read(8192))
            try:
                async with asyncio.timeout(seconds):
                    await _read_output(process.stdout, hits, end, show)
                    if not hits.is_full and not end.output_limit and await process.wait() not in (0, 1):
                        if not hits.matches:
                            end.bad_query = _query_error((await stderr).decode("utf-8", "replace"))
                        return end if hits.matches or end.bad_query else None
            except TimeoutError:
                end.timed_out = True
            finally:
                hits.finish()
                stderr.cancel()
    except OSError:
        return None
    return end


def _query_error(stderr: str) -> str:
    """Return what is wrong with the query; empty if the program failed for another reason."""
    if "regex" not in stderr and "PCRE2" not in stderr:
        return ""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return " ".join(line for line in lines if not set(line) <= {"^", "~"})[:300]


async def _read_output(
    stream: asyncio.StreamReader, hits: SearchHits, end: _SearchEnd, show: Callable[[str], None]
) -> None:
    incomplete = b""
    skipping = False
    total = 0
    while not hits.is_full and (chunk := await stream.read(1 << 16)):
        total += len(chunk)
        if total > MAX_OUTPUT_SIZE:
            end.output_limit = True
            return
        *lines, incomplete = (incomplete + chunk).split(b"\n")
        for line in lines:
            if not skipping:
                hits.feed(line)
            skipping = False
        if len(incomplete) > MAX_OUTPUT_LINE:
            incomplete, skipping, end.skipped_lines = b"", True, True
        if new_lines := hits.new_lines():
            show(new_lines)
    if incomplete and not skipping:
        hits.feed(incomplete)
    hits.finish()
    if new_lines := hits.new_lines():
        show(new_lines)


MAX_WIDTH = 400
"""Characters per line."""


class SearchHits:
    """Collects results until a limit is reached.

    A file counts once it is complete: binary files are dropped, and a repeated file is skipped.
    """

    def __init__(self, name_of: Callable[[str], str | None], limit: int) -> None:
        """Create an empty collection for `limit` matches.

        `name_of` returns the displayed name of a file, or None if it must not be shown.
        """
        self._name_of = name_of
        self._limit = limit
        self._lines: list[str] = []
        self._reported = 0
        self._size = 0
        self._finished: set[str] = set()
        self._path = ""
        self._pending: list[tuple[int, dict[str, Any], bool]] = []
        self.matches = 0
        self.files = 0
        self.is_full = False

    @property
    def text(self) -> str:
        """The results so far."""
        return "\n".join(self._lines)

    def new_lines(self) -> str:
        """Return the lines added since the last call."""
        new_lines, self._reported = self._lines[self._reported :], len(self._lines)
        return "".join(f"{line}\n" for line in new_lines)

    def feed(self, line: bytes) -> None:
        """Process one line of JSON; other lines are ignored."""
        try:
            event = json.loads(line)
            kind, data = event["type"], event["data"]
            if kind in ("match", "context"):
                path = _decode_text(data["path"])
                if path != self._path:
                    self.finish()
                    self._path = path
                self._pending.append((int(data["line_number"]), data, kind == "match"))
            elif kind == "end":
                if data.get("binary_offset") is not None:
                    self._pending.clear()
                self.finish()
        except (ValueError, KeyError, TypeError):
            return

    def finish(self) -> None:
        """Complete the current file."""
        path, pending = self._path, self._pending
        self._path, self._pending = "", []
        if not pending or path in self._finished or self.is_full:
            return
        self._finished.add(path)
        name = self._name_of(path)
        if name is None:
            return
        if self.matches >= self._limit:
            self.is_full = True
            return
        self.files += 1
        self._append(f"── {name} ──")
        for number, data, is_match in pending:
            self._add(number, data, is_match)
            if self.is_full:
                return

    def _add(self, number: int, data: dict[str, Any], is_match: bool) -> None:
        if is_match and self.matches >= self._limit:
            self.is_full = True
            return
        lines = _decode_text(data["lines"]).rstrip("\r\n").split("\n")
        for offset, line in enumerate(lines):
            text = line.removesuffix("\r")
            text = text.removeprefix("\ufeff") if number + offset == 1 else text
            excerpt = _excerpt(text, data if is_match and not offset else {})
            self._append(f"→ {number + offset}: {excerpt}" if is_match else f"  {number + offset}: {excerpt}")
        self.matches += is_match
        if self._size > MAX_RESULT_SIZE:
            self.is_full = True

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1


def _decode_text(value: dict[str, str]) -> str:
    """Decode a string, which ripgrep gives as base64 if it is not UTF-8."""
    if "text" in value:
        return value["text"]
    return base64.b64decode(value["bytes"]).decode("utf-8", "surrogateescape")


def _excerpt(text: str, data: dict[str, Any]) -> str:
    """Return the part of a long line around its first match."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if len(text) <= MAX_WIDTH:
        return text
    hits = data.get("submatches") or [{}]
    start = int(hits[0].get("start", 0))  # in bytes
    before = len(text.encode()[:start].decode("utf-8", "ignore"))
    at = min(max(0, before - MAX_WIDTH // 4), len(text) - MAX_WIDTH)
    return ("…" if at else "") + text[at : at + MAX_WIDTH] + ("…" if at + MAX_WIDTH < len(text) else "")


RIPGREP_OPTIONS = (
    *("--no-config", "--hidden", "--glob=!.git", "--no-messages", "--no-require-git"),
    *(f"--no-ignore-{kind}" for kind in ("dot", "exclude", "global", "parent")),
)
"""Traversal options: no configuration, .gitignore files in and below the folders only."""


def find_ripgrep(folders: Sequence[Path]) -> Path | None:
    """Find ripgrep on PATH outside `folders`, or next to this program's interpreter; None if not installed."""
    return _find_ripgrep(tuple(folders), os.environ.get("PATH", os.defpath))


@functools.lru_cache(maxsize=8)
def _find_ripgrep(folders: tuple[Path, ...], path: str) -> Path | None:
    bundled = Path(sys.prefix) / "bin" / "rg"
    return find_program("rg", folders, path) or find_program(str(bundled), folders)


TOOLS = (SearchWorkspace(),)
