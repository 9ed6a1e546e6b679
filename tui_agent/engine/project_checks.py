"""The project's own test command, and the commands that show whether work is right (E2, E5)."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.request_reading import runs_something

COMMANDS = "run_terminal_command"
_LARGEST = 200_000
"""Bytes of a project file that is read."""
_NO_TEST = "no test specified"
_LOOKING = re.compile(
    r"^(?:cd \S+ *&& *)?(?:ls|cat|head|tail|grep|rg|find|wc|echo|printf|pwd|which|type|file|stat|tree|sed -n|awk|sort"
    r"|git (?:status|log|diff|show|blame|branch)|uniq|env|date|test|\[|true|false|diff|cmp|du|df|ps|jq|less|more"
    r"|command -v)\b"
)
"""Commands that only look: how they end says nothing of the work."""
_TESTS = re.compile(
    r"(?:\S*python[\d.]* (?:-B )?(?:-m (?:unittest|pytest|doctest)\b|(?:\S*/)?(?:test_\S*|\S*_test)\.py)"
    r"|\S*pytest\b|tox\b|nox\b|(?:npm|pnpm|yarn|bun) (?:run )?test|cargo (?:test|check|clippy)|go (?:test|vet)|ctest\b|ruff check|mypy\b"
    r"|make (?:test|check)\b|mix test|swift test|dotnet test)"
)
"""Commands that test."""
_NOT_RUN = (126, 127)
"""Exit codes of a command that can't be started: it shows nothing of the work."""


def test_command(folder: Path) -> str:
    """The command that runs the tests of the project in `folder`; empty where there are none. Reads a few files."""
    names = _names(folder)
    for found in (_python, _node, _by_file, _make):
        command = found(folder, names)
        if command:
            return command
    return ""


def _names(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError:
        return set()


def _python(folder: Path, names: set[str]) -> str:
    """pytest where the project says so, else unittest for files that use it; neither leaves files behind."""
    tests = sorted(name for name in names if re.fullmatch(r"test_.*\.py|.*_test\.py", name))
    folders = [name for name in ("tests", "test") if name in names and (folder / name).is_dir()]
    inside = [one for name in folders for one in sorted((folder / name).glob("**/test_*.py"))[:50]]
    if not tests and not inside:
        return ""
    config = _toml(folder / "pyproject.toml") if "pyproject.toml" in names else {}
    wants_pytest = "pytest" in config.get("tool", {}) or names & {"pytest.ini", "conftest.py"}
    texts = [_text(folder / name) for name in tests[:20]] + [_text(path) for path in inside[:20]]
    if wants_pytest or not any("unittest" in text for text in texts):
        return f"{python()} -B -m pytest -q -p no:cacheprovider"
    if inside:
        return (
            f"{python()} -B -m unittest discover -s {folders[0]} -t ."
            if _is_package(folder / folders[0])
            else (f"{python()} -B -m unittest discover -s {folders[0]}")
        )
    return f"{python()} -B -m unittest {' '.join(name[:-3] for name in tests[:20])}"


def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").exists()


def _node(folder: Path, names: set[str]) -> str:
    if "package.json" not in names:
        return ""
    try:
        given: Any = json.loads(_text(folder / "package.json") or "{}")
    except ValueError:
        return ""
    scripts = given.get("scripts") if isinstance(given, dict) else None
    test = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(test, str) or _NO_TEST in test:
        return ""
    for lock, program in (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lockb", "bun run")):
        if lock in names:
            return f"{program} test"
    return "npm test"


def _by_file(folder: Path, names: set[str]) -> str:
    for name, command in (
        ("Cargo.toml", "cargo test"),
        ("go.mod", "go test ./..."),
        ("tox.ini", "tox"),
        ("noxfile.py", "nox"),
        ("mix.exs", "mix test"),
        ("Package.swift", "swift test"),
        ("pom.xml", "mvn -q test"),
        ("gradlew", "./gradlew test"),
    ):
        if name in names:
            return command
    return ""


def _make(folder: Path, names: set[str]) -> str:
    for name in ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"):
        if name in names:
            target = re.search(r"^(test|check)\s*:", _text(folder / name), re.MULTILINE)
            if target:
                return f"{'just' if name.lower() == 'justfile' else 'make'} {target.group(1)}"
    return ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}


# --- what commands said -------------------------------------------------------------------------

Done = Sequence[tuple[ToolCall, ToolResult]]


def only_shows(command: str) -> bool:
    """Whether a command looks or tests and so is no change in itself; a script of the project may be one."""
    bare = _without_cd(command)
    return _LOOKING.match(command) is not None or _TESTS.match(bare) is not None


def last_change(done: Done) -> int:
    """The place in `done` behind the last call that changed a file; 0 where none did."""
    return max((at + 1 for at, (_, result) in enumerate(done) if result.changes), default=0)


def checks_of(done: Done) -> dict[str, ToolResult]:
    """Command → how it ended last, of the commands in `done` that show whether work is right.

    A command that was refused or could not be started shows nothing, and neither does one that only looks.
    """
    found: dict[str, ToolResult] = {}
    for call, result in done:
        command = command_of(call)
        if not command or result.code in ("refused", "interrupted", "unknown_tool", "bad_arguments"):
            continue
        if exit_code(result) in _NOT_RUN or _LOOKING.match(command):
            continue
        if runs_something(_without_cd(command)) or command in found:
            found[command] = result
    return found


def failed_check(done: Done) -> tuple[str, ToolResult] | None:
    """The newest check that failed and has not passed since; None where all passed that were run."""
    failed = [(command, result) for command, result in checks_of(done).items() if not result.success]
    return failed[-1] if failed else None


def stale_checks(done: Done) -> list[str]:
    """Commands that failed before the last change and were not run again since."""
    after = done[last_change(done) :]
    again = checks_of(after)
    return [
        command for command, result in checks_of(done).items() if not result.success and command not in again
    ]


def command_of(call: ToolCall) -> str:
    """The command line of a call that runs one; empty for any other call."""
    given = call.arguments.get("command") if call.name == COMMANDS else None
    return given.strip() if isinstance(given, str) else ""


def python() -> str:
    """The name under which Python is run in commands."""
    return "python3" if sys.platform != "win32" else "python"


def _without_cd(command: str) -> str:
    return re.sub(r"^cd \S+ *&& *", "", command)


def exit_code(result: ToolResult) -> int | None:
    """The exit code of a command that failed; None for one that went well or did not end by itself."""
    found = re.match(r"exit code (\d+)", result.error or "")
    return int(found.group(1)) if found else None
