"""list_files: a folder as a tree, without ignored files."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tui_agent.common.domain import ToolResult
from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.gitignore import GitIgnore, sorted_entries
from tui_agent.tools.wording import missing_file_message, printable_name

MAX_ENTRIES = 1000
"""Entries of one listing."""
MAX_NESTED_ENTRIES = 200
"""Entries of a nested folder, so that a large one does not hide the others."""
DEFAULT_DEPTH = 2
MAX_DEPTH = 20
TIME_LIMIT = 2.0


class ListFilesArgs(Args):
    """See list_files.md."""

    path: str = "."
    depth: int | None = None


class ListFiles(Tool[ListFilesArgs]):
    """Lists a folder."""

    name = "list_files"
    args = ListFilesArgs
    reads_only = True

    async def run(self, args: ListFilesArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path or ".")
        await permit_read(ctx, target)
        name = printable_name(target.display)
        if not target.path.is_dir():
            if target.path.exists():
                raise ToolError(f"{name} is not a folder. Use read_file to read it.", "not_a_folder")
            raise ToolError(missing_file_message(name, target.path), "not_found")
        depth = max(1, min(args.depth or DEFAULT_DEPTH, MAX_DEPTH))
        stop = threading.Event()
        all_roots = len(ctx.roots) > 1 and args.path.strip("./") == "" and not args.path.startswith(("/", ".."))
        try:
            if all_roots:
                named_roots = [(printable_name(ctx.resolve(str(root)).display), root) for root in ctx.roots]
                return await asyncio.to_thread(_list_roots, named_roots, depth, ctx.roots, stop)
            return await asyncio.to_thread(list_folder, target.path, depth, ctx.roots, stop)
        finally:
            stop.set()


def _list_roots(
    named_roots: Sequence[tuple[str, Path]], depth: int, roots: Sequence[Path], stop: threading.Event
) -> ToolResult:
    """List all folders of the workspace under their names, which count as a level (T6)."""
    lines: list[str] = []
    for name, root in named_roots:
        lines.append(f"{name}/")
        if depth > 1:
            try:
                nested = str(list_folder(root, depth - 1, roots, stop).data)
            except ToolError as error:
                nested = f"[{error}]"
            lines += [f"  {line}" for line in nested.split("\n")]
    return ToolResult(success=True, data="\n".join(lines))


class _Node(msgspec.Struct):
    """An entry with its children, if listed."""

    label: str
    children: list[_Node] = []
    note: str = ""


def list_folder(folder: Path, depth: int, roots: Sequence[Path], stop: threading.Event) -> ToolResult:
    """List `folder`, `depth` levels deep, until `stop` is set. Blocks. Raises ToolError."""
    top = _Node("")
    walk = _Walk(folder, roots, stop)
    walk.fill(top, depth)
    lines = list(_render(top))
    if walk.unreadable:
        raise ToolError(f"The folder can't be read: {top.note}.", "permission")
    if not lines:
        lines = ["[empty folder]" if not walk.ignored else "[everything in it is ignored by .gitignore]"]
    if walk.truncation:
        lines.append(f"[{walk.truncation}; list a folder of it, or use search_workspace]")
    return ToolResult(success=True, data="\n".join(lines))


class _Walk:
    """Fills the tree breadth first, so that the upper levels are complete when a limit is reached."""

    def __init__(self, folder: Path, roots: Sequence[Path], stop: threading.Event) -> None:
        self._folder = folder
        self._rules, self._root = GitIgnore.for_request(roots, folder)
        self._stop = stop
        self._deadline = time.monotonic() + TIME_LIMIT
        self._count = 0
        self.ignored = False
        self.unreadable = False
        """The listed folder itself could not be read."""
        self.truncation = ""
        """Why the listing is incomplete."""

    def fill(self, top: _Node, depth: int) -> None:
        queue = deque([(top, self._folder, self._rules, depth)])
        while queue and not self.truncation:
            node, folder, rules, levels = queue.popleft()
            try:
                with open_folder(folder) as fd:
                    subfolders = self._children(node, folder, rules, fd)
            except OSError as error:
                node.note = os.strerror(error.errno or 0).lower()
                self.unreadable = node is top
                continue
            if levels > 1:
                queue += [(child, path, rules.below(path), levels - 1) for child, path in subfolders]

    def _children(self, node: _Node, folder: Path, rules: GitIgnore, fd: int) -> list[tuple[_Node, Path]]:
        entries = sorted_entries(fd)
        parts = folder.relative_to(self._root).parts
        cap = MAX_ENTRIES if folder == self._folder else MAX_NESTED_ENTRIES
        folders: list[tuple[_Node, Path]] = []
        for index, entry in enumerate(entries):
            remaining = len(entries) - index
            if len(node.children) >= cap or self._limit_reached(index):
                node.note = f"{remaining:,} more"
                break
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.ignores((*parts, entry.name), is_folder):
                self.ignored = True
                continue
            child = _Node(_label(entry, is_folder, fd))
            node.children.append(child)
            self._count += 1
            if is_folder:
                folders.append((child, folder / entry.name))
        return folders

    def _limit_reached(self, index: int) -> bool:
        if self._count >= MAX_ENTRIES:
            self.truncation = f"cut after {MAX_ENTRIES:,} entries"
        elif index % 64 == 0 and (self._stop.is_set() or time.monotonic() > self._deadline):
            self.truncation = f"cut after {TIME_LIMIT:g} s"
        return bool(self.truncation)


def _label(entry: os.DirEntry[str], is_folder: bool, fd: int) -> str:
    name = printable_name(entry.name)
    if is_folder:
        return name + "/"
    if entry.is_symlink():
        try:
            return f"{name} -> {printable_name(os.readlink(entry.name, dir_fd=fd))}"
        except OSError:
            return f"{name} -> ?"
    return name


def _render(node: _Node, indent: str = "") -> Iterator[str]:
    for child in node.children:
        yield indent + child.label
        yield from _render(child, indent + "  ")
    if node.note:
        yield f"{indent}… [{node.note}]"


TOOLS = (ListFiles(),)
