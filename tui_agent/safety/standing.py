"""Standing leave: what a grant covers, and which ones a question offers (A4, R-14)."""

from __future__ import annotations

import os
import re
import shlex

import msgspec

from tui_agent.domain import Action, Editing, Grant, Reading, Running, Scope
from tui_agent.safety import globs

# Programs that run whatever they are given, reach other machines, or change what is installed: never "always".
_NEVER = frozenset((
    "sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "ash", "rbash", "pwsh",
    "powershell", "python", "python2", "python3", "pypy", "pypy3", "ipython", "perl", "ruby", "irb",
    "node", "nodejs", "deno", "bun", "ts-node", "tsx", "php", "lua", "luajit", "java", "jshell",
    "groovy", "scala", "kotlin", "swift", "Rscript", "R", "julia", "ghci", "runghc", "racket", "guile",
    "sbcl", "clojure", "erl", "elixir", "iex", "awk", "gawk", "mawk", "nawk", "osascript", "tclsh",
    "expect", "gdb", "lldb", "sudo", "doas", "su", "pkexec", "runuser", "run0", "env", "xargs",
    "parallel", "nice", "ionice", "nohup", "timeout", "stdbuf", "setsid", "script", "watch", "time",
    "command", "builtin", "exec", "eval", "source", ".", "chroot", "unshare", "nsenter", "systemd-run",
    "strace", "ltrace", "flock", "entr", "at", "batch", "crontab", "curl", "wget", "aria2c", "ssh",
    "scp", "sftp", "rsync", "ftp", "telnet", "nc", "ncat", "netcat", "socat", "mosh", "gh", "glab",
    "hub", "aws", "gcloud", "az", "kubectl", "helm", "terraform", "ansible", "ansible-playbook",
    "docker", "podman", "nerdctl", "docker-compose", "vagrant", "pip", "pip3", "pipx", "easy_install",
    "conda", "mamba", "micromamba", "apt", "apt-get", "aptitude", "dpkg", "yum", "dnf", "rpm", "pacman",
    "zypper", "apk", "brew", "port", "snap", "flatpak", "gem", "nix", "nix-env", "nix-shell",
    "nix-build", "npx", "pnpx", "bunx", "uvx", "corepack", "cpan", "cpanm", "luarocks", "find", "fd",
    "sed", "vi", "vim", "nvim", "emacs", "nano", "ed", "ex", "tee", "dd", "rm", "rmdir", "mv", "shred",
    "chmod", "chown", "ln", "install", "mount", "umount", "kill", "pkill",
))  # fmt: skip
_INSTALLERS = frozenset((
    "npm", "pnpm", "yarn", "uv", "poetry", "pdm", "hatch", "rye", "cargo", "go", "bundle", "composer",
    "mix", "dotnet", "mvn", "gradle",
))  # fmt: skip
_HARMLESS = frozenset((
    "test", "t", "run", "lint", "check", "build", "fmt", "format", "vet", "clippy", "doc", "version",
    "tree", "list",
))  # fmt: skip
"""First arguments with which an installer only does what the project says."""
_GIT = frozenset((
    "status", "diff", "log", "show", "branch", "add", "commit", "stash", "blame", "describe",
    "rev-parse", "ls-files",
))  # fmt: skip
_VERSIONED = re.compile(r"[\d.]+$")
_SYNTAX = re.compile(r"[<>$`(){}\[\]*?!~#\n\r\\]|(?<!&)&(?!&)")
_SEPARATORS = frozenset({"&&", "||", ";", "|"})
_STANDS_FOR = re.compile("[\u2400-\u2426]|<U\\+|⟨")
"""In a shown path: may stand for another character, so that two files can be shown alike."""


def covers(grant: Grant, action: Action, *, exactly: bool) -> bool:
    """Whether `grant` is leave for `action`. With `exactly` only a grant for this very file counts, no wider glob."""
    if isinstance(action, Running):
        return (
            grant.kind == "run"
            and grant.pattern == action.command
            and grant.cwd == action.cwd
            and grant.env_changes == action.env_changes
            and (grant.scope is not Scope.ALWAYS or may_always(action.command))
        )
    if isinstance(action, Reading | Editing):
        kind = "read" if isinstance(action, Reading) else "edit"
        if grant.kind != kind or _STANDS_FOR.search(action.display):
            return False
        return grant.pattern == literal(action.display) or (
            not exactly and globs.matches(grant.pattern, action.display)
        )
    return False


def offers(action: Action, *, exactly: bool) -> tuple[Grant, ...]:
    """What "for this session" and "always" would store for `action`."""
    if isinstance(action, Running):
        exact = Grant(
            kind="run",
            pattern=action.command,
            cwd=action.cwd,
            env_changes=action.env_changes,
            scope=Scope.SESSION,
        )
        if action.env_changes or not may_always(action.command):
            return (exact,)
        return exact, msgspec.structs.replace(exact, scope=Scope.ALWAYS)
    if isinstance(action, Reading | Editing) and _STANDS_FOR.search(action.display):
        return ()
    if isinstance(action, Reading):
        grants = [Grant(kind="read", pattern=literal(action.display), scope=Scope.SESSION)]
        if not action.credentials:
            grants.append(Grant(kind="read", pattern=literal(action.display), scope=Scope.ALWAYS))
        return tuple(grants)
    if isinstance(action, Editing):
        same = literal(action.display)
        wide = same if exactly else _neighbours(action.display)
        return (
            Grant(kind="edit", pattern=same, scope=Scope.SESSION),
            Grant(kind="edit", pattern=wide, scope=Scope.ALWAYS),
        )
    return ()


def sentence(grant: Grant) -> str:
    """A grant in words, for user and journal."""
    how = {Scope.ONCE: "once", Scope.SESSION: "for this session", Scope.ALWAYS: "always"}[grant.scope]
    what = {"read": "reading", "edit": "edits of", "run": "the command"}[grant.kind]
    where = f" in {grant.cwd}" if grant.cwd else ""
    given = f" with {', '.join(grant.env_changes)}" if grant.env_changes else ""
    return f"You allowed {how}: {what} {grant.pattern}{where}{given}"


def literal(path: str) -> str:
    """A glob that matches `path` and nothing else."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def may_always(command: str) -> bool:
    """Whether `command` may be allowed once and for all: plain words, and no program that runs or fetches others."""
    if _SYNTAX.search(command) or not command.isprintable():
        return False
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return False
    commands: list[list[str]] = [[]]
    for word in words:
        if word in _SEPARATORS:
            commands.append([])
        elif set(word) <= set("|&;"):
            return False
        else:
            commands[-1].append(word)
    return all(_may_always(one) for one in commands)


def _may_always(words: list[str]) -> bool:
    if not words or "=" in words[0]:
        return False
    name, rest = os.path.basename(words[0]), words[1:]
    program = _VERSIONED.sub("", name)
    if program in _NEVER or name in _NEVER:
        return False
    if program == "git":
        return bool(rest) and rest[0] in _GIT
    if program in _INSTALLERS:
        return bool(rest) and rest[0].partition(":")[0] in _HARMLESS and not _runs_other(rest)
    return True


def _runs_other(rest: list[str]) -> bool:
    """True for `uv run python …`: the installer starts a program that may not be allowed always itself."""
    return rest[0] == "run" and any(_VERSIONED.sub("", os.path.basename(word)) in _NEVER for word in rest[1:])


def _neighbours(display: str) -> str:
    """The files of the same folder and kind as `display`; itself where that would be everything at the top."""
    folder, slash, name = display.rpartition("/")
    suffix = os.path.splitext(name)[1]
    if not slash or not suffix:
        return literal(display)
    return f"{literal(folder)}/*{literal(suffix)}"
