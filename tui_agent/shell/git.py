"""What git commands do, as far as it matters for their severity. Which subcommands only read is in severity.json."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui_agent.domain import Severity
from tui_agent.shell.places import Ground, Say
from tui_agent.shell.syntax import Word

MEDIUM, HIGH, CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL

_HARM: dict[str, tuple[Severity, str]] = {
    "push": (HIGH, r"-[a-zA-Z]*f[a-zA-Z]*|--force.*|--mirror|--delete|-d|--prune|\+.*|:.+"),
    "reset": (HIGH, r"--hard|--merge|--keep"),
    "clean": (CRITICAL, r"-[a-zA-Z]*[xX][a-zA-Z]*"),
    "checkout": (MEDIUM, r"--|\.|-f|--force"),
    "restore": (MEDIUM, r".*"),
    "branch": (HIGH, r"-D|-[dD].*f.*|-M|--force"),
    "tag": (HIGH, r"-d|--delete|-f|--force"),
    "stash": (HIGH, r"drop|clear"),
    "reflog": (HIGH, r"expire|delete"),
    "remote": (MEDIUM, r"add|remove|rm|set-url|rename|prune"),
    "worktree": (MEDIUM, r"add|remove|move|prune"),
    "config": (MEDIUM, r"--(global|system|unset|unset-all|add|replace-all|edit|remove-section)|-e"),
    "submodule": (MEDIUM, r"foreach"),
    "commit": (MEDIUM, r"--amend"),
    "gc": (HIGH, r"--prune.*"),
    "bisect": (HIGH, r"run"),
    "grep": (HIGH, r"-O.*"),
}


def rate(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """Rate the arguments of git."""
    for place, text in enumerate(texts):
        if text in ("-c", "--config-env", "--exec-path") or text.startswith(
            ("--exec-path=", "--config-env=")
        ):
            value = texts[place + 1] if place + 1 < len(texts) else ""
            if not value.startswith(("color.", "user.", "advice.", "core.quotepath")):
                say(HIGH, f"Overrides git's configuration: {value}")
        if re.match(
            r"--(upload-pack|receive-pack|exec|ext-diff|textconv|open-files-in-pager|output)\b", text
        ):
            say(HIGH, f"git runs or writes something else: {text}")
    words = [text for text in texts if not text.startswith("-")]
    word = next((w for w in words if re.fullmatch(r"[a-z][a-z-]*", w)), "")
    rest = texts[texts.index(word) + 1 :] if word else []
    pattern = _HARM.get(word)
    if pattern and (found := next((text for text in rest if re.fullmatch(pattern[1], text)), None)):
        say(pattern[0], f"git {word} {found}", always=word in ("push", "filter-branch", "reflog"))
    if word in ("filter-branch", "filter-repo", "rebase", "update-ref"):
        say(HIGH, f"git {word} rewrites history.", always=True)
    _lists(word, rest, say)


def _lists(word: str, rest: list[str], say: Say) -> None:
    """Subcommands that read or write, depending on what follows."""
    operands = [text for text in rest if not text.startswith("-")]
    if (
        word in ("branch", "tag")
        and operands
        and not re.search(r"list|contains|merged|points", " ".join(rest))
    ) or (word == "config" and len(operands) > 1 and operands[0] not in ("get", "list")):
        # settings of git are programs: what changes them is asked for as a change of .git/config would be
        say(MEDIUM, f"git {word} changes the repository.", always=word == "config")
    elif word == "stash" and operands[:1] not in (["list"], ["show"]):
        say(MEDIUM, "git stash changes the work tree.")
    elif word == "reset":
        say(MEDIUM, "git reset moves the branch.")
