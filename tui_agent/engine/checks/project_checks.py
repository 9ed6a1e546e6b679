"""The project's own test command, and the commands that show whether work is right (E2, E5)."""

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

COMMANDS = "run_terminal_command"
_LARGEST = 200_000
"""Bytes of a project file that is read."""
_NO_TEST = "no test specified"
_NOT_RUN = (126, 127)
"""Exit codes of a command that can't be started: it shows nothing of the work."""
NOT_STARTED = frozenset(("refused", "interrupted", "unknown_tool", "bad_arguments", "too_many"))
"""Codes of a call whose command was not started, or did not end by itself."""


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
Alters = Callable[[ToolCall, ToolResult], bool]
"""Whether a call changed a file."""


def by_tools(call: ToolCall, result: ToolResult) -> bool:
    """Whether a call is an edit that was made; what commands change is not seen."""
    return bool(result.changes)


def only_looks(command: str) -> bool:
    """Whether a command line only looks, as a whole: nothing is written, deleted or run by it."""
    plain = re.sub(r"\d?>&\d|\d?>>?\s*/dev/null", " ", command)
    if re.search(r"[<>`]|\$\(|\s-(?:delete|exec\w*|i\b|o\b|fprint\w*)|git branch +[^-\s]", plain):
        return False
    return all(_RE.looking.match(one.strip()) for one in _parts(plain))


def only_tests(command: str) -> bool:
    """Whether a command line tests, and does nothing else but look."""
    plain = re.sub(r"\d?>&\d|\d?>>?\s*/dev/null", " ", command)
    parts = _parts(plain)
    if ">" in plain or not any(_RE.tests.match(one) for one in parts):
        return False
    return all(_RE.tests.match(one) or _RE.looking.match(one) for one in parts)


def only_runs(command: str) -> bool:
    """Whether a command line runs something of the project, and does nothing else but look."""
    parts = _parts(command)
    return bool(parts) and all(is_check_command(one) or _RE.looking.match(one) for one in parts)


def _parts(command: str) -> list[str]:
    """The commands of a line, roughly; changes of the folder are left out."""
    found = [one.strip() for one in re.split(r"&&|\|\||[;|\n]", command)]
    return [one for one in found if one and not re.fullmatch(r"cd \S+", one)]


def last_change(done: Done, altered: Alters = by_tools) -> int:
    """The place in `done` behind the last call that changed a file; 0 where none did."""
    return max((at + 1 for at, (call, result) in enumerate(done) if altered(call, result)), default=0)


def ran_something(done: Done) -> bool:
    """Whether a command was run that does more than look."""
    return any(
        command_of(call) and result.code not in NOT_STARTED and not only_looks(command_of(call))
        for call, result in done
    )


def checks_of(done: Done, text: str = "") -> dict[str, ToolResult]:
    """Command → how it ended last, of the commands in `done` that show whether work is right.

    A command that was refused or could not be started shows nothing, and neither does one that only looks, nor one that
    never ended before it ran out of time. `text`: the request; a script that fails in an orderly way is none where that
    is what it asks for.
    """
    found: dict[str, ToolResult] = {}
    for call, result in done:
        command = command_of(call)
        if not command or result.code in NOT_STARTED:
            continue
        if only_looks(command) or not ran(result) or (result.code == "timeout" and command not in found):
            continue
        if _ends_as_asked(command, result, text):
            continue
        if is_check_command(_without_cd(command)) or command in found:
            found.pop(command, None)
            found[command] = result
    return found


def ran(result: ToolResult) -> bool:
    """Whether a command got as far as to show something: it could be started, its test program is there, and there was
    a test to run."""
    code = command_exit_code(result)
    said = result.data if isinstance(result.data, str) else ""
    if code in _NOT_RUN or (code == 1 and _RE.no_module.search(said)):
        return False
    return not (code in (4, 5) and _RE.no_tests.search(said))


def _ends_as_asked(command: str, result: ToolResult, text: str) -> bool:
    if result.success or only_tests(command) or not _RE.asks_for_failure.search(text):
        return False
    return "Traceback (most recent call last)" not in str(result.data)


def failed_check(done: Done, text: str = "") -> tuple[str, ToolResult] | None:
    """The newest check that failed and has not passed since; None where all passed that were run. Tests that pass
    settle what was run before to see the same in another way."""
    checks = list(checks_of(done, text).items())
    passed = max((at for at, (one, result) in enumerate(checks) if result.success and only_tests(one)), default=-1)
    failed = [
        (one, result)
        for at, (one, result) in enumerate(checks)
        if not result.success and not (at < passed and _same_sight(one, checks[passed][0]))
    ]
    return failed[-1] if failed else None


def _same_sight(failed: str, passed: str) -> bool:
    """Whether a test run that passed makes good one that failed before: the whole project's, or of the same files."""
    names = set(re.findall(r"[\w/]*test\w*(?=\.py|\b)", failed)) - {"pytest", "unittest", "test", "tests"}
    return not names or bool(names & set(re.findall(r"[\w/]*test\w*(?=\.py|\b)", passed)))


def stale_checks(done: Done, altered: Alters = by_tools, text: str = "") -> list[str]:
    """Commands that failed before the last change and were not run again since."""
    after = done[last_change(done, altered) :]
    again = checks_of(after, text)
    return [command for command, result in checks_of(done, text).items() if not result.success and command not in again]


def command_of(call: ToolCall) -> str:
    """The command line of a call that runs one; empty for any other call."""
    given = call.arguments.get("command") if call.name == COMMANDS else None
    return given.strip() if isinstance(given, str) else ""


def python() -> str:
    """The name under which Python is run in commands."""
    return "python3" if sys.platform != "win32" else "python"


def _without_cd(command: str) -> str:
    return re.sub(r"^cd \S+ *&& *", "", command)


def command_exit_code(result: ToolResult) -> int | None:
    """The exit code of a command that failed; None for one that went well or did not end by itself."""
    found = re.match(r"exit code (\d+)", result.error or "")
    return int(found.group(1)) if found else None


_SAID = {
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
"""Words of a request, or their beginnings, that ask for such a command; without an entry its own name."""


class CommandEffects:
    """The effects of one run's commands."""

    def __init__(self, seen: Mapping[str, CommandChangedFiles]) -> None:
        """`seen`: id of a call → what was other after it; nothing for one that may run unasked, since it only reads."""
        self._seen = seen

    def altered(self, call: ToolCall, result: ToolResult) -> bool:
        """Whether a call changed a file of the workspace, as an edit or by a command."""
        if result.changes:
            return True
        command, seen = command_of(call), self._seen.get(call.id)
        if not command or seen is None or only_tests(command):
            return False
        if seen.changed or seen.deleted:
            return True
        return bool(seen.created) and not only_runs(command)

    def acted(self, done: Done, request: RequestReading) -> bool:
        """Whether something was done that may be what the request asks for: to look, to test, or to run the project is
        not."""
        return any(self.altered(call, result) or self._beyond_files(call, result, request) for call, result in done)

    def _beyond_files(self, call: ToolCall, result: ToolResult, request: RequestReading) -> bool:
        command = command_of(call)
        seen = self._seen.get(call.id)
        if not (command and result.success) or seen is None or only_tests(command):
            return False
        if any(path.rsplit("/", 1)[-1] in request.text for path in seen.created):
            return True
        if INCOMPLETE in seen.unwatched and not (only_looks(command) or only_runs(command)):
            return True
        words = request.text.lower()
        for found in _RE.beyond.finditer(command):
            verb = next((one for one in found.groups() if one), "").split()[:1]
            wanted = _SAID.get(verb[0], verb[0]).split() if verb else []
            if not request.paths or any(one in words for one in wanted):
                return True
        return False
