"""A context for tools under test: real files, permission given unless told otherwise, everything remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.doubles.fake_code import FakeCode
from tui_agent.common.domain import Action, CommandOutcome, EditAction, FileChange, Mode, RunAction, Target, ToolResult
from tui_agent.common.workplan import PlanChange
from tui_agent.platform.file_faults import FileChangedError
from tui_agent.platform.files import replace_file, sha256_of
from tui_agent.tools.base import Code, EditResult, SubagentTask, ToolError, ToolRefused
from tui_agent.tools.diffs import diff_bytes


class FakeToolContext:
    """Implements `ToolContext` over one folder."""

    def __init__(self, root: Path, *, search_program: Path | None = None) -> None:
        self.scratch: Path = root / ".scratch"
        self.roots: tuple[Path, ...] = (root,)
        self.mode: Mode = Mode.DIRECT
        self.command_timeout = 30
        self.command_timeout_max = 600
        self.search_matches = 200
        self.search_program: Path | None = search_program
        self.actions: list[Action] = []
        self.outputs: list[str] = []
        self.written: list[bytes] = []
        self.refuse = False
        self.credentials: set[str] = set()
        self.on_permit: list[Callable[[], object]] = []
        """Taken one after the other, each while a permit is waited for."""
        self.outcome = CommandOutcome(exit_code=0, output="")
        self.timeouts: list[int] = []
        self.judged: list[tuple[str, str]] = []
        self.answer = ""
        self.proposed: list[PlanChange] = []
        self.questions: list[tuple[str, tuple[str, ...]]] = []
        self._seen: dict[Path, str] = {}
        self._contents: dict[Path, bytes | None] = {}
        self.code: Code = FakeCode()
        self.subtasks: list[SubagentTask] = []
        self.errors = ""
        """What is told of every file that is written."""

    def resolve(self, path: str) -> Target:
        if not path or "\0" in path:
            raise ToolError("This is no path.", "bad_path")
        root = self.roots[0]
        full = (root / path).resolve()
        inside = full.is_relative_to(root)
        display = str(full.relative_to(root)) if inside else str(full)
        return Target(path=full, display=display, outside=not inside, credentials=full.name in self.credentials)

    async def permit(self, action: Action) -> None:
        self.actions.append(action)
        if self.on_permit:
            self.on_permit.pop(0)()
        if self.refuse:
            raise ToolRefused("The user refused this.")

    async def edit(
        self, target: Target, before: bytes | None, after: bytes, *, expected: bytes | None = None
    ) -> EditResult:
        diff = diff_bytes(target.display, before, after)
        old, new = None if before is None else sha256_of(before), sha256_of(after)
        path, display = str(target.path), target.display
        await self.permit(
            EditAction(path=path, display=display, diff=diff, before=old, after=new, outside=target.outside)
        )
        try:
            replace_file(target.path, after, old)
        except FileChangedError as error:
            raise ToolError(str(error), "changed") from error
        self.written.append(after)
        expected = after if expected is None else expected
        self.mark_seen(target.path, sha256_of(expected), expected)
        change = FileChange(
            path=path, display=display, kind=diff.kind, added=diff.added, removed=diff.removed, before=old, after=new
        )
        counts = f"(+{diff.added} -{diff.removed})"
        return EditResult(change, f"{counts}\n{self.errors}" if self.errors else counts)

    def output(self, text: str) -> None:
        self.outputs.append(text)

    async def run(self, command: str, cwd: str, timeout: int) -> CommandOutcome:
        self.judged.append((command, cwd))
        await self.permit(RunAction(command=command, cwd=cwd))
        self.timeouts.append(timeout)
        return self.outcome

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        self.questions.append((question, options))
        if self.refuse:
            raise ToolRefused("No user is present.")
        return self.answer

    def mark_seen(self, path: Path, sha256: str, content: bytes | None = None) -> None:
        self._seen[path] = sha256
        self._contents[path] = content

    def seen_content(self, path: Path) -> bytes | None:
        return self._contents.get(path)

    def last_seen(self, path: Path) -> str | None:
        return self._seen.get(path)

    async def delegate(self, subtask: SubagentTask) -> ToolResult:
        self.subtasks.append(subtask)
        return ToolResult(success=True, data="found")

    def propose_plan(self, change: PlanChange) -> str:
        self.proposed.append(change)
        return "Proposed."
