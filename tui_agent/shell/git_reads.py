"""Git commands: read-only ones, run by a git that runs nothing of the repository, and those that write (A1, A10, W11).

The settings of a repository can name programs. `platform/git.py` overrides these settings; here only arguments on an
allow-list pass, so that none switches one on, writes, or reads a file outside the workspace. What shows content is
asked first which files it would show.
"""

from __future__ import annotations

import asyncio
import os
import re
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tui_agent.common.domain import FrozenValue
from tui_agent.platform.git import Git
from tui_agent.platform.safe_open import follow_links
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe, Unknown, require
from tui_agent.shell.syntax import SimpleCommand, Word, parse_shell
from tui_agent.shell.wrapped_commands import operands
from tui_agent.text.patterns import read_table

QUESTION_SECONDS = 3.0
"""How long git may take to say which files a command would show."""

_table = partial(read_table, __package__, "git_reads.json")
_COMMIT = re.compile(r"[0-9a-f]{4,64}")
_URL_WITH_SECRET = re.compile(rb"://[^/@\s]+@")


class GitRead(FrozenValue, frozen=True, kw_only=True):
    """A git command that only reads."""

    cwd: Path
    work_tree: Path | None
    """The folder that holds `.git`; None outside of a repository."""
    arguments: tuple[str, ...]
    """Subcommand and arguments."""
    git: Git


def git_read(arguments: Sequence[str], cwd: Path, readable: Readable, git: Path | None) -> GitRead:
    """Return the command that the arguments of git mean. Raises NotSafe.

    `git`: the program, which is asked what a command would show.
    """
    remaining = list(arguments)
    while remaining and remaining[0] in ("--no-pager", "-P", "-C"):
        if remaining.pop(0) == "-C":
            require(bool(remaining) and not isinstance(remaining[0], Unknown))
            cwd = Path(follow_links(os.path.join(cwd, remaining.pop(0)))[0])
    require(readable.contains(cwd) and bool(remaining))
    name, *remaining = remaining
    entry = _table()["commands"].get(name)
    require(entry is not None)
    parsed = _GitArguments(entry, remaining)
    _check_verb(entry, parsed)
    work_tree = _work_tree(cwd, readable)
    kind = entry.get("content", "")
    shows = _shows_content(kind, parsed)
    for operand in parsed.operands if name not in ("config", "check-attr", "var") else ():
        _check_operand(operand, cwd, readable, shows=shows)
    verb = [parsed.verb] if parsed.verb else []
    if verb == ["show"] and name == "stash" and not parsed.options:
        verb.append("--stat")  # the default, but not with the options that are added
    read = GitRead(
        cwd=cwd,
        work_tree=work_tree,
        arguments=(name, *verb, *entry.get("add", "").split(), *parsed.arguments),
        git=Git(cwd, readable.roots, work_tree=work_tree),
    )
    if kind and work_tree is not None:
        require(readable.contains(work_tree) or not shows)
    _check_content(kind, read, parsed, readable, git)
    return read


def git_shows_content(arguments: Sequence[str]) -> bool | None:
    """Return whether git would show the content of files; None if the arguments are not known."""
    name = next(iter(operands("git", arguments)), "")
    entry: dict[str, Any] | None = _table()["commands"].get(name)
    if entry is None:
        return None
    try:
        return _shows_content(
            entry.get("content", ""), _GitArguments(entry, arguments[list(arguments).index(name) + 1 :])
        )
    except NotSafe:
        return None


def git_description(arguments: Sequence[str]) -> dict[str, str]:
    """Return the options of the subcommand among the arguments, as `read_arguments` takes them."""
    entry: dict[str, Any] = _table()["commands"].get(next(iter(operands("git", arguments)), ""), {})
    description = {key: entry[key] for key in ("short", "values") if key in entry} | {"operands": "paths"}
    others = {"optional": entry.get("attached", ""), "path_values": "L", "walks": entry.get("walks", "")}
    return description | others | {"long": " ".join(_long_options(entry))}


def _long_options(entry: dict[str, Any]) -> frozenset[str]:
    sets = " ".join(_table()[name] for name in entry.get("sets", "").split())
    return frozenset(f"{entry.get('long', '')} {sets}".split())


class _GitArguments:
    """Options and operands of one subcommand."""

    def __init__(self, entry: dict[str, Any], arguments: Sequence[str]) -> None:
        self._long = _long_options(entry)
        self._entry = entry
        self.options: set[str] = set()
        self.operands: list[str] = []
        self.is_unknown = False
        self.verb = ""
        self.arguments = list(arguments)
        """Without the verb."""
        verbs = entry.get("verbs", "").split()
        if self.arguments and self.arguments[0] in verbs:
            self.verb = self.arguments.pop(0)
        remaining = list(self.arguments)
        self.plain: list[str] = []
        """Arguments that do not choose an output format."""
        while remaining:
            word = remaining.pop(0)
            self.is_unknown |= isinstance(word, Unknown)
            if word == "--":
                self.plain += [word, *remaining]
                self.operands += remaining
                break
            if word.startswith("--"):
                self._parse_long(word, remaining)
            elif word.startswith("-") and len(word) > 1:
                self._parse_short(word, remaining)
            else:
                self.operands.append(word)
                self.plain.append(word)
        # Formats that call gpg, or print a whole object.
        require(not any(re.search(r"%(?:G|\((?:signature|raw))", word) for word in self.arguments))
        for word in self.arguments:  # a merge done again calls the drivers of the repository
            if word.startswith("--diff-merges"):
                require(
                    bool(
                        re.fullmatch(
                            r"--diff-merges=(?:off|none|on|m|first-parent|1|separate|combined|c|dense-combined|cc)",
                            word,
                        )
                    )
                )

    def _parse_long(self, word: str, remaining: list[str]) -> None:
        name, equals, _ = word[2:].partition("=")
        require(not isinstance(word, Unknown) or bool(equals))
        self.options.add(name)
        if equals:
            require(f"{name}=" in self._long or f"{name}?" in self._long)
            values: list[str] = []
        else:
            require(bool({name, f"{name}?", f"{name}="} & self._long))
            # It depends on the option whether the next word is its value; an operand is checked in any case.
            values = [remaining.pop(0)] if f"{name}=" in self._long and remaining else []
            self.operands += values
        if name not in _table()["format_options"].split():
            self.plain += [word, *values]

    def _parse_short(self, word: str, remaining: list[str]) -> None:
        require(not isinstance(word, Unknown))
        entry = self._entry
        if entry.get("number") and word[1:].isdigit():
            self.options.add("n")
            self.plain.append(word)
            return
        kept = ""
        for index, letter in enumerate(word[1:], 2):
            self.options.add(letter)
            if letter in entry.get("attached", "") + entry.get("values", ""):
                values = (
                    [remaining.pop(0)] if letter in entry.get("values", "") and not word[index:] and remaining else []
                )
                if letter == "L":
                    _, colon, file = (word[index:] or "".join(values)).rpartition(":")
                    self.operands += [file] if colon else []
                if letter not in "UMC" or self._entry.get("content") == "file":
                    self.plain += [f"-{kept}{word[index - 1 :]}", *values]
                return
            require(letter in entry.get("short", ""))
            kept += "" if letter in "pusWL" else letter
        if kept:
            self.plain.append(f"-{kept}")


def _check_verb(entry: dict[str, Any], parsed: _GitArguments) -> None:
    require(bool(parsed.verb) or not entry.get("required_verb"))
    if entry.get("verbs") and not parsed.verb and entry.get("most") != 0:
        # `git reflog expire` is another command.
        require(all(not re.fullmatch("expire|delete|drop|list|write|migrate", operand) for operand in parsed.operands))
    if "listing" in entry and parsed.operands:
        require(bool(parsed.options & set(entry["listing"].split())))
    if "most" in entry and not parsed.verb:
        require(len(parsed.operands) <= entry["most"])


def _check_operand(operand: str, cwd: Path, readable: Readable, *, shows: bool) -> None:
    if isinstance(operand, Unknown):
        require(operand.is_clean and operand.startswith("\0"))
        return
    for text in {operand, operand.rpartition(":")[2], operand.rpartition(")")[2].lstrip(":!/^")}:
        if not text:
            continue
        location = Path(follow_links(os.path.join(cwd, text))[0])
        if text.startswith(("/", "~")) or ".." in text.split("/"):
            require(readable.contains(location))
        require(not shows or not readable.has_credentials(os.path.join(cwd, text)))


def _work_tree(cwd: Path, readable: Readable) -> Path | None:
    """Return the folder with the `.git` that git would use. Raises NotSafe if that leads to another project's data."""
    for folder in (cwd, *cwd.parents):
        data = folder / ".git"
        try:
            mode = os.lstat(data).st_mode
        except OSError:
            continue
        if not stat.S_ISDIR(mode):
            require(_belongs_to(folder, readable))
        else:
            # These would lead to the data of another repository.
            require(not os.path.lexists(data / "commondir"))
            require(not any(os.path.islink(data / name) for name in ("objects", "refs", "packed-refs", "HEAD", "logs")))
        return folder
    return None


def _belongs_to(folder: Path, readable: Readable) -> bool:
    """Return whether the data behind a `.git` file or link is this work tree's."""
    link = folder / ".git"
    if link.is_symlink():
        return readable.contains(Path(os.path.realpath(link)))
    with open(link, "rb") as file:
        line = os.fsdecode(file.read(4096)).strip()
    data = Path(os.path.realpath(folder / line.removeprefix("gitdir:").strip()))
    if readable.contains(data):
        return True
    try:
        back = (data / "gitdir").read_text().strip()  # a linked work tree
    except OSError:
        return False
    return os.path.realpath(data / back) == os.path.realpath(link)


# --- what a command would show ---


def _shows_content(kind: str, parsed: _GitArguments) -> bool:
    table = _table()
    if kind in ("file", "grep", "object"):
        return True
    if kind == "stash" and parsed.verb == "show" and parsed.options:
        kind = "diff"
    if kind in ("diff", "log", "stash"):
        if parsed.options & set(table["shows_patch"].split()) or parsed.options & set("puUcWL"):
            return True
        if kind == "diff":
            return not parsed.options & {*table["no_patch"].split(), "s"}
    return False


def _check_content(kind: str, read: GitRead, parsed: _GitArguments, readable: Readable, git: Path | None) -> None:
    if kind == "config":
        _check_config(parsed)
    if kind == "object" and "p" in parsed.options and parsed.operands and ":" not in parsed.operands[0]:
        require(not parsed.is_unknown)
    if read.arguments[0] == "diff":
        files = [read.cwd / operand for operand in parsed.operands]
        tree = read.work_tree
        is_outside = tree is None or any(not Path(os.path.normpath(file)).is_relative_to(tree) for file in files)
        several = sum(map(os.path.lexists, files)) > 1
        if "no-index" in parsed.options or (several and is_outside):  # it compares files
            require(all(readable.contains(Path(os.path.realpath(file))) and not file.is_dir() for file in files))
            return
    if git is None or read.work_tree is None:
        return
    asked = _Question(read.git, git)
    if kind in ("addresses", "config"):
        output = asked.ask("config", "--null", "--get-regexp", r"^(remote|url|branch)\..*")
        require(not _URL_WITH_SECRET.search(output))
    elif _shows_content(kind, parsed):
        require(not parsed.is_unknown)
        _check_files(kind, read, parsed, readable, asked)


def _check_config(parsed: _GitArguments) -> None:
    table = _table()
    if "get-regexp" in parsed.options:
        require(len(parsed.operands) == 1 and bool(re.fullmatch(table["config_patterns"], parsed.operands[0])))
    else:
        require(len(parsed.operands) == 1 and bool(re.fullmatch(table["config_keys"], parsed.operands[0])))


def _check_files(kind: str, read: GitRead, parsed: _GitArguments, readable: Readable, asked: _Question) -> None:
    """Ask git for the names of the files that the command would show."""
    name = read.arguments[0]
    assert read.work_tree is not None
    for operand in parsed.operands:
        # The content of a file can also be named by its hash.
        if kind != "grep" and _COMMIT.fullmatch(operand):
            is_commit = asked.ask("rev-parse", "--verify", "--quiet", f"{operand}^{{commit}}")
            require(bool(is_commit) or not asked.ask("cat-file", "-t", operand))
    plain = [word for word in parsed.plain if not word.startswith("-L")]
    if name == "show":  # a file of a commit is an operand, and was checked; the rest are commits
        plain = [word for word in plain if word.startswith(("-", ":/")) or ":" not in word or "{" in word]
        if len(plain) < len(parsed.plain) and all(word.startswith("-") for word in plain):
            return
    if kind in ("file", "object"):
        return
    if kind == "grep":
        output = asked.ask("grep", "--no-textconv", "--name-only", "-z", "--full-name", *parsed.plain)
        names = [line.rpartition(b":")[2] for line in output.split(b"\0")]
    else:
        verb = ["show"] if parsed.verb else []
        options = ["--name-only", "-z", "--no-renames"]
        options += ["--format="] if name in ("log", "show", "whatchanged") or parsed.verb == "list" else []
        options += ["-m"] if name != "diff" and parsed.verb != "show" else []
        options += ["-r"] if name == "diff-tree" else []
        if "L" in parsed.options:
            return  # its file is an operand
        output = asked.ask(name, *verb, "--no-ext-diff", "--no-textconv", *options, *plain)
        if not output:
            # Either it shows nothing, or git rejects these options together: then it is asked without them.
            rest = [word for word in plain if word == "--" or not word.startswith("-")]
            require(not asked.is_rejected or rest == plain or not asked.ask(name, *verb, *options, *rest))
        names = output.replace(b"\n", b"\0").split(b"\0")
    files = {os.fsdecode(raw) for raw in names if raw}
    require(not readable.have_credentials(os.path.join(read.work_tree, file) for file in files))


class _Question:
    """Asks git about a repository, in the thread that judges a command."""

    def __init__(self, git: Git, program: Path) -> None:
        self._git = git
        self._program = program
        self.is_rejected = False
        """Whether git has rejected the latest command."""

    def ask(self, *arguments: str) -> bytes:
        """Return the output of a command, empty if git rejects it. Raises NotSafe if it takes too long."""
        return asyncio.run(self._ask(arguments))

    async def _ask(self, arguments: tuple[str, ...]) -> bytes:
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                answer = await self._git.answer(self._program, *arguments)
        except TimeoutError:
            raise NotSafe from None
        if answer is None:
            raise NotSafe
        code, output = answer
        self.is_rejected = code > 1  # 1: nothing found
        return b"" if code else output


# --- commands that write ---


def changes_repository_only(command: str) -> bool:
    """Return whether a shell command consists of git commands that change a repository's own data (A10).

    Commands that only print, or create empty files and folders, may be among them. It is no judgment of what git does:
    hooks may run.
    """
    parsed = parse_shell(command)
    if parsed.problem or parsed.functions or not all(map(_is_harmless_here, parsed.commands)):
        return False
    return any(_git_verb(item.words) in _table()["writes"].split() for item in parsed.commands)


def _is_harmless_here(command: SimpleCommand) -> bool:
    table = _table()
    for redirect in command.redirects:
        target = redirect.target.text if redirect.target else ""
        if not redirect.operator.startswith("<<") and (target is None or ".git" in target):
            return False
    for name, value in command.assignments:
        if not re.match(table["writes_variables"], f"{name}={value.text}"):
            return False
    if not command.words or command.words[0].text in table["beside_writes"].split():
        return True
    verb = _git_verb(command.words)
    texts = [word.text for word in command.words[1:]]
    takes_text = verb in ("commit", "tag", "stash", "notes")
    is_known = all(word.text is not None or (takes_text and word.source[0] == '"') for word in command.words)
    never = re.compile(table["writes_never"])
    return (
        verb in {*table["writes"].split(), *table["commands"]}
        and is_known
        and not any(never.match(part) for text in texts if text for part in (text, f"{text}@{verb}"))
    )


def _git_verb(words: Sequence[Word]) -> str:
    """Return the subcommand of git; empty for another program, or unusual options before it."""
    texts = [word.text or "" for word in words]
    if texts[:1] != ["git"]:
        return ""
    remaining = texts[1:]
    while remaining and remaining[0].startswith("-"):
        option = remaining.pop(0)
        if option == "-c" and remaining and re.fullmatch(_table()["writes_settings"], remaining[0]):
            remaining.pop(0)
        elif option not in _table()["writes_options"].split():
            return ""
        elif option == "-C":
            del remaining[:1]
    return remaining[0] if remaining else ""
