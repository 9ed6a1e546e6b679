"""Code intelligence for tools under test: answers as they are set, everything that was asked remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tui_agent.common.symbols import (
    Diagnostic,
    Hierarchy,
    LocationKind,
    SourceLocation,
    SourcePosition,
    Symbol,
    Unavailable,
)


class FakeCode:
    """Implements `Code`. `answers` by method; one may be a function of the spot."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []

    def _answer(self, method: str, about: Any) -> Any:
        self.asked.append((method, about))
        answer = self.answers.get(method, Unavailable(reason="no language server is installed"))
        return answer(about) if callable(answer) else answer

    async def diagnostics(self, path: Path) -> tuple[Diagnostic, ...] | Unavailable:
        return self._answer("diagnostics", path)  # type: ignore[no-any-return]  # the test sets it

    async def outline(self, path: Path) -> tuple[Symbol, ...] | Unavailable:
        return self._answer("outline", path)  # type: ignore[no-any-return]  # the test sets it

    async def locations(
        self, kind: LocationKind, path: Path, spot: SourcePosition
    ) -> tuple[SourceLocation, ...] | Unavailable:
        return self._answer(kind, spot)  # type: ignore[no-any-return]  # the test sets it

    async def symbols(self, name: str) -> tuple[Symbol, ...] | Unavailable:
        return self._answer("symbols", name)  # type: ignore[no-any-return]  # the test sets it

    async def hover(self, path: Path, spot: SourcePosition) -> str | Unavailable:
        return self._answer("hover", spot)  # type: ignore[no-any-return]  # the test sets it

    async def calls(
        self, path: Path, spot: SourcePosition, *, incoming: bool, outgoing: bool
    ) -> Hierarchy | Unavailable | None:
        return self._answer("calls", spot)  # type: ignore[no-any-return]  # the test sets it

    async def types(self, path: Path, spot: SourcePosition) -> Hierarchy | Unavailable | None:
        return self._answer("types", spot)  # type: ignore[no-any-return]  # the test sets it
