"""A bench for tools under test: real files, leave given unless told otherwise, everything remembered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.doubles.fake_code import FakeCode
from tui_agent.domain import (
    Action,
    CommandOutcome,
    Editing,
    FileChange,
    Mode,
    Permit,
    Running,
    Target,
    ToolResult,
    digest,
)
from tui_agent.platform.files import FileChangedError, replace_file, sha256_of
from tui_agent.tools.base import Agreed, Code, Errand, Refused, ToolError
from tui_agent.tools.diffs import diff_bytes
from tui_agent.workplan import PlanChange


class FakeBench:
    """Implements `Bench` over one folder."""

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
        self.code: Code = FakeCode()
        self.errands: list[Errand] = []
        self.errors = ""
        """What is told of every file that is written."""

    def resolve(self, path: str) -> Target:
        if not path or "\0" in path:
            raise ToolError("This is no path.", "bad_path")
        root = self.roots[0]
        full = (root / path).resolve()
        inside = full.is_relative_to(root)
        display = str(full.relative_to(root)) if inside else str(full)
        return Target(
            path=full, display=display, outside=not inside, credentials=full.name in self.credentials
        )

    async def permit(self, action: Action) -> Permit:
        self.actions.append(action)
        if self.on_permit:
            self.on_permit.pop(0)()
        if self.refuse:
            raise Refused("The user refused this.")
        return Permit(id=str(len(self.actions)), action=action, digest=digest(action))

    async def permit_edit(self, action: Editing, before: bytes | None, after: bytes) -> Agreed:
        return Agreed(permit=await self.permit(action), content=after)

    def output(self, text: str) -> None:
        self.outputs.append(text)

    async def write(self, permit: Permit, content: bytes) -> FileChange:
        action = permit.action
        assert isinstance(action, Editing)
        assert sha256_of(content) == action.after
        try:
            replace_file(Path(action.path), content, action.before)
        except FileChangedError as error:
            raise ToolError(str(error), "changed") from error
        self.written.append(content)
        return FileChange(
            path=action.path,
            display=action.display,
            kind=action.diff.kind,
            added=action.diff.added,
            removed=action.diff.removed,
            before=action.before,
            after=action.after,
        )

    async def checked(self, change: FileChange) -> str:
        return self.errors

    async def run(self, permit: Permit, timeout: int) -> CommandOutcome:
        assert isinstance(permit.action, Running)
        self.timeouts.append(timeout)
        return self.outcome

    async def ask(self, question: str, options: tuple[str, ...]) -> str:
        self.questions.append((question, options))
        if self.refuse:
            raise Refused("No user is present.")
        return self.answer

    def saw(self, path: Path, sha256: str) -> None:
        self._seen[path] = sha256

    def seen(self, path: Path) -> str | None:
        return self._seen.get(path)

    async def judge(self, command: str, cwd: str) -> Running:
        self.judged.append((command, cwd))
        return Running(command=command, cwd=cwd)

    async def delegate(self, errand: Errand) -> ToolResult:
        self.errands.append(errand)
        return ToolResult(success=True, data="found")

    def propose_plan(self, change: PlanChange) -> str:
        self.proposed.append(change)
        return "Proposed."

    async def diff(self, target: Target, before: bytes | None, after: bytes) -> Editing:
        return Editing(
            path=str(target.path),
            display=target.display,
            diff=diff_bytes(target.display, before, after),
            before=None if before is None else sha256_of(before),
            after=sha256_of(after),
            outside=target.outside,
        )
