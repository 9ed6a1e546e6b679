"""What git commands do, as far as it matters for their severity. Which subcommands only read is in severity.json."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tui_agent.domain import Severity
from tui_agent.shell.carried import operands
from tui_agent.shell.places import Ground, Say
from tui_agent.shell.syntax import Word

MEDIUM, HIGH, CRITICAL = Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL

_HARM: dict[str, tuple[Severity, str]] = {
    "push": (HIGH, r"-[a-zA-Z]*f[a-zA-Z]*|--force.*|--mirror|--delete|-d|--prune|\+.*|:.+"),
    "reset": (HIGH, r"--hard|--merge|--keep"),
    "clean": (CRITICAL, r"-[a-zA-Z]*[xX][a-zA-Z]*"),
    "checkout": (HIGH, r"-[a-zA-Z]*f[a-zA-Z]*|--force"),
    "switch": (HIGH, r"-[a-zA-Z]*f[a-zA-Z]*|--force|--discard-changes"),
    "rm": (HIGH, r"-[a-zA-Z]*(r[a-zA-Z]*f|f[a-zA-Z]*r)[a-zA-Z]*"),
    "lfs": (HIGH, r"prune"),
    "difftool": (HIGH, r"-x|--extcmd.*"),
    "mergetool": (MEDIUM, r".*"),
    "clone": (HIGH, r"-u|-c|--config.*|--template.*|ext::.*|fd::.*"),
    "restore": (MEDIUM, r".*"),
    "branch": (HIGH, r"-D|-[dD].*f.*|-M|-f|--force"),
    "tag": (HIGH, r"-d|--delete|-f|--force"),
    "stash": (HIGH, r"drop|clear"),
    "reflog": (HIGH, r"expire|delete"),
    "remote": (MEDIUM, r"add|remove|rm|set-url|rename|prune"),
    "worktree": (HIGH, r"-f|--force"),
    "config": (MEDIUM, r"--(global|system|unset|unset-all|add|replace-all|edit|remove-section)|-e"),
    "submodule": (MEDIUM, r"foreach"),
    "commit": (MEDIUM, r"--amend"),
    "gc": (HIGH, r"--prune.*"),
    "bisect": (HIGH, r"run"),
    "grep": (HIGH, r"-O.*"),
}


_PROGRAMS = re.compile(
    r"(?i:core\.(sshcommand|fsmonitor|hookspath|askpass|gitproxy|alternaterefscommand)|credential\.(.*\.)?helper|"
    r"diff\.(.*\.)?(external|textconv|command)|filter\..*|(merge|diff)tool\..*|gpg\.(.*\.)?program|include(if)?\..*|"
    r"url\..*|uploadpack\..*|receive\..*|protocol\..*|init\.templatedir)"
)


def rate(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """Rate the arguments of git."""
    words = operands("git", texts)
    word = words[0] if words else ""
    start = texts.index(word) if word else len(texts)
    for place, text in enumerate(texts):
        if (text in ("-c", "--config-env", "--exec-path") and place < start) or text.startswith(
            ("--exec-path=", "--config-env=")
        ):
            value = texts[place + 1] if place + 1 < len(texts) else ""
            if not value.startswith(("color.", "user.", "advice.", "core.quotepath")):
                say(HIGH, f"Overrides git's configuration: {value}")
        if re.match(
            r"--(upload-pack|receive-pack|exec|ext-diff|textconv|open-files-in-pager|output)\b", text
        ):
            say(HIGH, f"git runs or writes something else: {text}")
    rest = texts[start + 1 :]
    pattern = _HARM.get(word)
    dry = word == "clean" and any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run", text) for text in rest)
    if word == "clean":
        say(MEDIUM if dry else HIGH, f"git {word}")
    if (
        pattern
        and not dry
        and (found := next((text for text in rest if re.fullmatch(pattern[1], text)), None))
    ):
        say(pattern[0], f"git {word} {found}", always=word in ("push", "filter-branch", "reflog"))
    if word in ("filter-branch", "filter-repo", "rebase", "update-ref"):
        say(HIGH, f"git {word} rewrites history.", always=True)
    if word == "config":
        _config(words[1:], say)
    _lists(word, rest, say)


def _config(words: list[str], say: Say) -> None:
    """Some settings of git are programs that it runs."""
    key, value = [*(words[1:] if words[:1] == ["set"] else words), "", ""][:2]
    shell = value.startswith("!") or re.search(r"[\s;|&`$/]", value)
    if value and (
        _PROGRAMS.fullmatch(key)
        or (shell and re.match(r"(?i)alias\.|core\.(pager|editor)|pager\.|sequence\.", key))
    ):
        say(HIGH, f"git would run what the setting {key} says.", always=True)


def _lists(word: str, rest: list[str], say: Say) -> None:
    """Subcommands that read or write, depending on what follows."""
    named = [text for text in rest if not text.startswith("-")]
    if (
        word in ("branch", "tag") and named and not re.search(r"list|contains|merged|points", " ".join(rest))
    ) or (word == "config" and len(named) > 1 and named[0] not in ("get", "list")):
        # settings of git are programs: what changes them is asked for as a change of .git/config would be
        say(MEDIUM, f"git {word} changes the repository.", always=word == "config")
    elif word == "stash" and named[:1] not in (["list"], ["show"]):
        say(MEDIUM, "git stash changes the work tree.")
    elif word == "worktree" and named[:1] not in ([], ["list"]):
        say(MEDIUM, "git worktree changes the work trees.")
    elif word == "reset":
        say(MEDIUM, "git reset moves the branch.")
