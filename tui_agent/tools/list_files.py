"""list_files: a folder as a tree, without what git ignores."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from tui_agent.common.domain import ToolResult
from tui_agent.platform.safe_open import open_folder
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import permit_read
from tui_agent.tools.gitignore import GitIgnore, sorted_entries
from tui_agent.tools.wording import missing_text, shown_name

ENTRIES = 1000
"""Entries of one listing."""
ENTRIES_BELOW = 200
"""Entries of one folder below the first, so that a crowded one does not hide the others."""
DEPTH = 2
DEPTH_MAX = 20
SECONDS = 2.0


class ListFilesArgs(Args):
    """See list_files.md."""

    path: str = "."
    depth: int | None = None


class ListFiles(Tool[ListFilesArgs]):
    """Shows what is in a folder."""

    name: ClassVar[str] = "list_files"
    args = ListFilesArgs
    reads_only: ClassVar[bool] = True

    async def run(self, args: ListFilesArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path or ".")
        await permit_read(ctx, target)
        name = shown_name(target.display)
        if not target.path.is_dir():
            if target.path.exists():
                raise ToolError(f"{name} is not a folder. Use read_file to read it.", "not_a_folder")
            raise ToolError(missing_text(name, target.path), "not_found")
        depth = max(1, min(args.depth or DEPTH, DEPTH_MAX))
        stop = threading.Event()
        whole = len(ctx.roots) > 1 and args.path.strip("./") == "" and not args.path.startswith(("/", ".."))
        try:
            if whole:
                named = [(shown_name(ctx.resolve(str(root)).display), root) for root in ctx.roots]
                return await asyncio.to_thread(_of_all, named, depth, ctx.roots, stop)
            return await asyncio.to_thread(listing, target.path, depth, ctx.roots, stop)
        finally:
            stop.set()


def _of_all(named: Sequence[tuple[str, Path]], depth: int, roots: Sequence[Path], stop: threading.Event) -> ToolResult:
    """All folders of the workspace, each below its name, which counts as a level (T6)."""
    rows: list[str] = []
    for name, root in named:
        rows.append(f"{name}/")
        if depth > 1:
            try:
                inner = str(listing(root, depth - 1, roots, stop).data)
            except ToolError as error:
                inner = f"[{error}]"
            rows += [f"  {line}" for line in inner.split("\n")]
    return ToolResult(success=True, data="\n".join(rows))


class _Node(msgspec.Struct):
    """One entry, with what is below it if that was looked at."""

    label: str
    children: list[_Node] = []
    note: str = ""


def listing(folder: Path, depth: int, roots: Sequence[Path], stop: threading.Event) -> ToolResult:
    """What is in `folder`, `depth` levels deep, until `stop` is set. Blocks. Raises ToolError."""
    top = _Node("")
    walk = _Walk(folder, roots, stop)
    walk.fill(top, depth)
    lines = list(_lines(top))
    if walk.unreadable:
        raise ToolError(f"The folder can't be read: {top.note}.", "permission")
    if not lines:
        lines = ["[empty folder]" if not walk.ignored else "[everything in it is ignored by .gitignore]"]
    if walk.cut:
        lines.append(f"[{walk.cut}; list a folder of it, or use search_workspace]")
    return ToolResult(success=True, data="\n".join(lines))


class _Walk:
    """Fills nodes breadth first, so that the upper levels are complete before a limit is met."""

    def __init__(self, folder: Path, roots: Sequence[Path], stop: threading.Event) -> None:
        self._folder = folder
        within = next((root for root in roots if folder.is_relative_to(root)), folder)
        self._rules, self._root = GitIgnore.asked(within, folder)
        self._stop = stop
        self._until = time.monotonic() + SECONDS
        self._count = 0
        self.ignored = False
        self.unreadable = False
        """The listed folder itself could not be read."""
        self.cut = ""
        """Why the listing is not complete."""

    def fill(self, top: _Node, depth: int) -> None:
        queue = deque([(top, self._folder, self._rules, depth)])
        while queue and not self.cut:
            node, folder, rules, levels = queue.popleft()
            try:
                with open_folder(folder) as fd:
                    below = self._children(node, folder, rules, fd)
            except OSError as error:
                node.note = os.strerror(error.errno or 0).lower()
                self.unreadable = node is top
                continue
            if levels > 1:
                queue += [(child, path, rules.below(path), levels - 1) for child, path in below]

    def _children(self, node: _Node, folder: Path, rules: GitIgnore, fd: int) -> list[tuple[_Node, Path]]:
        entries = sorted_entries(fd)
        parts = folder.relative_to(self._root).parts
        cap = ENTRIES if folder == self._folder else ENTRIES_BELOW
        folders: list[tuple[_Node, Path]] = []
        for index, entry in enumerate(entries):
            left = len(entries) - index
            if len(node.children) >= cap or self._ended(index):
                node.note = f"{left:,} more"
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

    def _ended(self, index: int) -> bool:
        if self._count >= ENTRIES:
            self.cut = f"cut after {ENTRIES:,} entries"
        elif index % 64 == 0 and (self._stop.is_set() or time.monotonic() > self._until):
            self.cut = f"cut after {SECONDS:g} s"
        return bool(self.cut)


def _label(entry: os.DirEntry[str], is_folder: bool, fd: int) -> str:
    name = shown_name(entry.name)
    if is_folder:
        return name + "/"
    if entry.is_symlink():
        try:
            return f"{name} -> {shown_name(os.readlink(entry.name, dir_fd=fd))}"
        except OSError:
            return f"{name} -> ?"
    return name


def _lines(top: _Node) -> Iterator[str]:
    stack: list[tuple[_Node | str, int]] = [(top, -1)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, str):
            yield "  " * level + node
            continue
        if level >= 0:
            yield "  " * level + node.label
        if node.note:
            stack.append((f"… [{node.note}]", level + 1))
        stack += [(child, level + 1) for child in reversed(node.children)]


TOOLS = (ListFiles(),)
