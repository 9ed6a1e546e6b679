"""What the commands of a run changed, by the looks at the workspace before and after each (E2).

A command that only looks or tests changes nothing, whatever it leaves behind; one that runs the project may write files
that are no work of the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tui_agent.checkpoints.survey import WHOLE
from tui_agent.domain import ToolCall, ToolResult
from tui_agent.engine.project_checks import Done, command_of, only_looks, only_runs, only_tests
from tui_agent.engine.request_reading import Reading
from tui_agent.events import CommandChanged

_BEYOND = re.compile(
    r"(?:^|[;&|]\s*)(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?"
    r"(?:(?:pip3?|uv(?:\s+pip)?|poetry|pipenv|pipx|conda|npm|pnpm|yarn|bun|apt|apt-get|dnf|brew|cargo|gem|go)"
    r"\s+(?:-\S+\s+)*"
    r"(install|add|remove|uninstall|upgrade|update|get|sync|ci)\b"
    r"|git\s+(?:-\S+\s+)*(add|commit|push|pull|fetch|merge|rebase|checkout|switch|branch\s+[^-\s]|tag\s+\S|stash"
    r"|reset|restore|clone|init|config\s+\S+\s+\S|remote\s+\S)"
    r"|(mkdir|rmdir|ln|chmod|chown|touch|kill|pkill)\b"
    r"|(?:docker|podman|kubectl|systemctl|service)\s+(?:-\S+\s+)*(?!ps|images|logs|get|status|describe)(\w+))"
)
"""Commands whose effect is not seen in the files of a project: what is installed, a repository, processes."""
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

    def __init__(self, seen: Mapping[str, CommandChanged]) -> None:
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

    def acted(self, done: Done, request: Reading) -> bool:
        """Whether something was done that may be what the request asks for: to look, to test, or to run the project is
        not."""
        return any(
            self.altered(call, result) or self._beyond_files(call, result, request) for call, result in done
        )

    def _beyond_files(self, call: ToolCall, result: ToolResult, request: Reading) -> bool:
        command = command_of(call)
        seen = self._seen.get(call.id)
        if not (command and result.success) or seen is None or only_tests(command):
            return False
        if any(path.rsplit("/", 1)[-1] in request.text for path in seen.created):
            return True
        if WHOLE in seen.unwatched and not (only_looks(command) or only_runs(command)):
            return True
        words = request.text.lower()
        for found in _BEYOND.finditer(command):
            verb = next((one for one in found.groups() if one), "").split()[:1]
            wanted = _SAID.get(verb[0], verb[0]).split() if verb else []
            if not request.paths or any(one in words for one in wanted):
                return True
        return False
