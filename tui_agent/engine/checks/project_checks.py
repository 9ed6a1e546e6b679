"""The project's test command, and what the results of commands say about the work (E2, E5)."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tui_agent.checkpoints.survey import INCOMPLETE
from tui_agent.common.domain import ToolCall, ToolResult
from tui_agent.engine.checks.request_reading import RequestReading, is_check_command
from tui_agent.events import CommandChangedFiles
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "project")

COMMAND_TOOL = "run_terminal_command"
_MAX_FILE_SIZE = 200_000
"""Bytes read of a project file."""
NOT_STARTED = frozenset(("refused", "interrupted", "unknown_tool", "bad_arguments", "too_many"))
"""Result codes of commands that were not started or were stopped."""
_TEST_COMMANDS = {
    "Cargo.toml": "cargo test",
    "go.mod": "go test ./...",
    "tox.ini": "tox",
    "noxfile.py": "nox",
    "mix.exs": "mix test",
    "Package.swift": "swift test",
    "pom.xml": "mvn -q test",
    "gradlew": "./gradlew test",
}
"""Test command by a file in the project's folder."""


def detect_test_command(folder: Path) -> str:
    """Return the command that runs the tests of the project in `folder`, or an empty string. Reads a few files.

    The folder must be trusted (A8).
    """
    return _detect(folder, _read_text)


def test_command_files(folder: Path) -> tuple[str, ...]:
    """Return the files, relative to `folder`, that `detect_test_command` would read or follow. Opens nothing."""
    files: list[str] = []

    def note(path: Path) -> str:
        files.append(str(path.relative_to(folder)))
        return ""

    command = _detect(folder, note)
    files += [name for name, by_name in _TEST_COMMANDS.items() if by_name == command]
    return tuple(name for name in dict.fromkeys(files) if (folder / name).is_file())


def _detect(folder: Path, read: Callable[[Path], str]) -> str:
    try:
        names = {entry.name for entry in folder.iterdir()}
    except OSError:
        return ""
    if command := _python_tests(folder, names, read) or _node_tests(folder, names, read):
        return command
    by_file = next((command for name, command in _TEST_COMMANDS.items() if name in names), "")
    return by_file or _make_tests(folder, names, read)


def _python_tests(folder: Path, names: set[str], read: Callable[[Path], str]) -> str:
    """Use unittest if the test files do and nothing mentions pytest; otherwise pytest. Neither leaves files behind."""
    files = sorted(name for name in names if re.fullmatch(r"test_.*\.py|.*_test\.py", name))
    folders = [name for name in ("tests", "test") if name in names and (folder / name).is_dir()]
    nested = [path for name in folders for path in sorted((folder / name).glob("**/test_*.py"))[:50]]
    if not files and not nested:
        return ""
    uses_pytest = "pytest" in _parse_toml(read(folder / "pyproject.toml")).get("tool", {})
    texts = [read(path) for path in (*(folder / name for name in files[:20]), *nested[:20])]
    if uses_pytest or names & {"pytest.ini", "conftest.py"} or not any("unittest" in text for text in texts):
        return f"{python_program()} -B -m pytest -q -p no:cacheprovider"
    if nested:
        top = " -t ." if (folder / folders[0] / "__init__.py").exists() else ""
        return f"{python_program()} -B -m unittest discover -s {folders[0]}{top}"
    return f"{python_program()} -B -m unittest {' '.join(name[:-3] for name in files[:20])}"


def _node_tests(folder: Path, names: set[str], read: Callable[[Path], str]) -> str:
    try:
        script = json.loads(read(folder / "package.json"))["scripts"]["test"]
    except (ValueError, LookupError, TypeError):
        return ""
    if not isinstance(script, str) or "no test specified" in script:
        return ""
    lock_files = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lockb": "bun run"}
    return f"{next((program for file, program in lock_files.items() if file in names), 'npm')} test"


def _make_tests(folder: Path, names: set[str], read: Callable[[Path], str]) -> str:
    for name in ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile"):
        if name in names:
            target = re.search(r"^(test|check)\s*:", read(folder / name), re.MULTILINE)
            if target:
                return f"{'just' if name.lower() == 'justfile' else 'make'} {target[1]}"
    return ""


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_FILE_SIZE).decode("utf-8", "replace")
    except OSError:
        return ""


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}


# --- results of commands ------------------------------------------------------------------------

Results = Sequence[tuple[ToolCall, ToolResult]]
ChangePredicate = Callable[[ToolCall, ToolResult], bool]
"""Whether a call changed a file."""


def is_tool_edit(_call: ToolCall, result: ToolResult) -> bool:
    """Return whether a tool edited files; changes by commands don't count."""
    return bool(result.changes)


def is_inspection(command: str) -> bool:
    """Return whether a command line only reads; it writes, deletes and runs nothing."""
    command = _strip_redirects(command)
    if re.search(r"[<>`]|\$\(|\s-(?:delete|exec\w*|i\b|o\b|fprint\w*)|git branch +[^-\s]", command):
        return False
    return all(map(_RE.inspection.match, _split_commands(command)))


def is_test_run(command: str) -> bool:
    """Return whether a command line runs tests and otherwise only reads."""
    command = _strip_redirects(command)
    parts = _split_commands(command)
    if ">" in command or not any(map(_RE.test_run.match, parts)):
        return False
    return all(_RE.test_run.match(part) or _RE.inspection.match(part) for part in parts)


def is_project_run(command: str) -> bool:
    """Return whether a command line runs something of the project and otherwise only reads."""
    parts = _split_commands(command)
    return bool(parts) and all(is_check_command(part) or _RE.inspection.match(part) for part in parts)


def _strip_redirects(command: str) -> str:
    """Remove redirections that write no file."""
    return re.sub(r"\d?>&\d|\d?>>?\s*/dev/null", " ", command)


def _split_commands(command: str) -> list[str]:
    """Split a command line roughly into its commands, without `cd`."""
    parts = [part.strip() for part in re.split(r"&&|\|\||[;|\n]", command)]
    return [part for part in parts if part and not re.fullmatch(r"cd \S+", part)]


def next_after_change(results: Results, is_change: ChangePredicate = is_tool_edit) -> int:
    """Return the index after the last call that changed a file; 0 if none did."""
    return max((at + 1 for at, (call, result) in enumerate(results) if is_change(call, result)), default=0)


def has_run_command(results: Results) -> bool:
    """Return whether a command ran that does more than read."""
    commands = (command_line(call) for call, result in results if result.code not in NOT_STARTED)
    return any(command and not is_inspection(command) for command in commands)


def check_results(results: Results, request: str = "") -> dict[str, ToolResult]:
    """Return the latest result by command, for the commands that show whether the work is right.

    Commands that were refused, could not start, only read, or never ended in time show nothing; neither does a script
    that exits with an error that the request asks for.
    """
    found: dict[str, ToolResult] = {}
    for call, result in results:
        command = command_line(call)
        if not command or result.code in NOT_STARTED or is_inspection(command) or not produced_result(result):
            continue
        if (result.code == "timeout" and command not in found) or _fails_as_requested(command, result, request):
            continue
        if is_check_command(re.sub(r"^cd \S+ *&& *", "", command)) or command in found:
            found.pop(command, None)
            found[command] = result
    return found


def produced_result(result: ToolResult) -> bool:
    """Return whether a command could start, its test program is installed and there was a test to run."""
    code = command_exit_code(result)
    output = result.data if isinstance(result.data, str) else ""
    if code in (126, 127) or (code == 1 and _RE.missing_module.search(output)):
        return False
    return not (code in (4, 5) and _RE.no_tests.search(output))


def _fails_as_requested(command: str, result: ToolResult, request: str) -> bool:
    if result.success or is_test_run(command) or not _RE.expects_failure.search(request):
        return False
    return "Traceback (most recent call last)" not in str(result.data)


def failed_check(results: Results, request: str = "") -> tuple[str, ToolResult] | None:
    """Return the latest check that failed and has not passed since, or None.

    Passing tests replace earlier failed ones that cover the same.
    """
    checks = list(check_results(results, request).items())
    passed = max((at for at, (line, result) in enumerate(checks) if result.success and is_test_run(line)), default=-1)
    failed = [
        (line, result)
        for at, (line, result) in enumerate(checks)
        if not result.success and not (at < passed and _is_covered(line, checks[passed][0]))
    ]
    return failed[-1] if failed else None


def _is_covered(failed: str, passed: str) -> bool:
    """Whether a failed test run was of the whole project, or of a file that also passed."""
    names, passed_names = (set(re.findall(r"[\w/]*test\w*(?=\.py|\b)", command)) for command in (failed, passed))
    names -= {"pytest", "unittest", "test", "tests"}
    return not names or bool(names & passed_names)


def stale_checks(results: Results, is_change: ChangePredicate = is_tool_edit, request: str = "") -> list[str]:
    """Return the commands that failed before the last change and have not run since."""
    rerun = check_results(results[next_after_change(results, is_change) :], request)
    checks = check_results(results, request)
    return [command for command, result in checks.items() if not result.success and command not in rerun]


def command_line(call: ToolCall) -> str:
    """Return the command line that a call runs; empty for other calls."""
    command = call.arguments.get("command") if call.name == COMMAND_TOOL else None
    return command.strip() if isinstance(command, str) else ""


def python_program() -> str:
    """Return the name of the Python program for command lines."""
    return "python3" if sys.platform != "win32" else "python"


def command_exit_code(result: ToolResult) -> int | None:
    """Return the exit code of a failed command; None for one that succeeded or was stopped."""
    match = re.match(r"exit code (\d+)", result.error or "")
    return int(match[1]) if match else None


_REQUEST_WORDS = {
    "ci": "install",
    "mkdir": "folder director",
    "rmdir": "folder director",
    "ln": "link",
    "chmod": "execut permission mode chmod",
    "touch": "file create touch",
    "pkill": "kill stop",
    "add": "add stage commit install depend",
    "checkout": "checkout branch switch discard",
    "switch": "switch branch",
    "config": "config set",
    "sync": "sync install depend",
    "get": "get install add depend",
}
"""Stems of the words of a request that asks for a command; the command's own name if not listed."""


class CommandEffects:
    """The effects of one run's calls."""

    def __init__(self, surveys: Mapping[str, CommandChangedFiles]) -> None:
        """`surveys`: call id → files changed by the command; without an entry for commands that only read."""
        self._surveys = surveys

    def changed_files(self, call: ToolCall, result: ToolResult) -> bool:
        """Return whether a call changed workspace files, by an edit or a command."""
        if result.changes:
            return True
        command, survey = command_line(call), self._surveys.get(call.id)
        if not command or survey is None or is_test_run(command):
            return False
        return bool(survey.changed or survey.deleted or (survey.created and not is_project_run(command)))

    def had_effect(self, results: Results, request: RequestReading) -> bool:
        """Return whether a call had an effect that the request may ask for; reading, testing and running had none."""
        return any(
            self.changed_files(call, result) or (result.success and self._had_other_effect(call, request))
            for call, result in results
        )

    def _had_other_effect(self, call: ToolCall, request: RequestReading) -> bool:
        """Whether a command created a file that the request names, or changed something outside the workspace."""
        command, survey = command_line(call), self._surveys.get(call.id)
        if not command or survey is None or is_test_run(command):
            return False
        if any(path.rsplit("/", 1)[-1] in request.text for path in survey.created):
            return True
        if INCOMPLETE in survey.unwatched and not (is_inspection(command) or is_project_run(command)):
            return True
        text = request.text.lower()
        for match in _RE.other_effects.finditer(command):
            verb = next(filter(None, match.groups())).split()[0]
            stems = _REQUEST_WORDS.get(verb, verb).split()
            if not request.paths or any(stem in text for stem in stems):
                return True
        return False
