"""The files that a command names or reads, and which of them hold credentials or lie outside the roots (A2).

They are judged as for the tool `read_file`.
"""

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

from tui_agent.common.domain import Severity
from tui_agent.shell.familiar import base_name, familiar_table, matches_any, words
from tui_agent.shell.fragments import path_fragments
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import severity_table
from tui_agent.shell.wrapped_commands import Invocation


@cache
def _text_options(program: str) -> frozenset[str]:
    """Return the options of a program whose value is text, not the name of a file."""
    table = familiar_table()["text_options"]
    return frozenset(next((table[key] for key in table if program in key.split()), "").split())


def named_files(call: Invocation) -> list[tuple[str, bool]]:
    """Return the file names in the arguments, and whether the program only reads or names that one."""
    name = base_name(call.program)
    if name in words("text_all") | words("no_file_names"):
        return []
    options = _text_options(name)
    is_reader = name in words("readers") and not _changes_in_place(name, call.texts)
    creates = name == "git" and not words("git_creates").isdisjoint(call.texts)
    is_input = is_reader or (name in words("inputs") and not creates)
    skips_first = name in words("text_first")
    letters = severity_table()["interpreters"].get(name, "")
    result: list[tuple[str, bool]] = []
    operands: list[tuple[Word, str]] = []
    roots = call.scope.roots
    arguments = list(call.arguments)
    if name == "find":  # the commands that it runs are rated by themselves
        arguments = list(itertools.takewhile(lambda word: not re.match(r"-(exec|ok)", word.text or ""), arguments))
    previous = ""
    for word, text in zip(arguments, call.texts, strict=False):
        is_code = letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print|--command", previous)
        if skips_first and re.fullmatch(r"-\w*[ef]|--(regexp|file|expression|files|type-list|from-file)", previous):
            skips_first = False
        if is_code or (previous in options and not _looks_absolute(text)):
            pass
        elif text.startswith("-") and len(text) > 1:
            is_text = text.partition("=")[0] in options
            writes = not is_reader or _OUTPUT_OPTION.match(text) is not None
            result += [(part, not writes) for part in ([] if is_text else path_fragments(word, roots))]
        elif name == "git" and "@{" in text:
            pass
        elif skips_first:
            skips_first = False
        else:
            operands.append((word, previous))
        previous = text
    for number, (word, before) in enumerate(operands, 1):
        is_value = before.startswith("-") and name not in ("git", "docker", "bash", "sh") and not is_reader
        is_source = name in words("sources_first") and number < len(operands)
        if (name in words("sources_first") and _TARGET_FOLDER.fullmatch(before)) or (name == "xxd" and number > 1):
            is_source, is_value = False, True
        if is_reader and _OUTPUT_OPTION.fullmatch(before):
            is_value = True
        target = _link_target(word, operands[-1][0]) if is_source and name == "ln" else word
        parts = path_fragments(target, roots)
        result += [(part, (is_input and not is_value) or is_source) for part in parts]
    return [(part, reads) for part, reads in result if name != "git" or not _is_revision(part)]


_TARGET_FOLDER = re.compile(r"-[a-zA-Z]*t|--t[a-z-]*")
_OUTPUT_OPTION = re.compile(r"-[a-zA-Z]*o(?=$|[./~$\"'])|--(o|report)[a-z-]*")


def _changes_in_place(name: str, texts: list[str]) -> bool:
    return name in ("sed", "yq", "perl", "ruby", "sort") and any(re.match(r"-[a-zA-Z]*i|--in-?place", t) for t in texts)


def _link_target(word: Word, link: Word) -> Word:
    """Return what a symbolic link will lead to: a relative target starts in the folder of the link."""
    if word.text is None or link.text is None or word.text.startswith(("/", "~", "-")):
        return word
    return Word.literal(posixpath.join(posixpath.dirname(link.text), word.text))


def _is_revision(part: str) -> bool:
    """Return whether an argument of git is a revision or a pattern rather than a path that leads out."""
    return (
        "/../" not in part
        and not _looks_absolute(part)
        and re.fullmatch(r".*~\d*|:?/.*|[\w/@^-]+\.\.\.?.*", part) is not None
    )


def _looks_absolute(text: str) -> bool:
    return re.match(r"~|/\w+/|\.\./|\$HOME|\"?\$\{?HOME|/dev/", text) is not None and " " not in text


def report_names(call: Invocation) -> None:
    """Note the files that a command names or reads, and report those that it may write outside the workspace."""
    scope, label = call.scope, _reader_label(call)
    operands = named_files(call)
    for number, (part, reads) in enumerate(operands, 1):
        path = scope.absolute(part)
        is_outside = scope.is_outside(path) and not scope.is_own_temporary(path)
        is_target = call.program in words("sources_first") and number == len(operands)
        scope.named.append((path, "touch" if is_target else label))
        if not reads:
            scope.note_change(path)
        if is_outside and not reads and not matches_any(path, "harmless_outputs"):
            call.report(Severity.MEDIUM, f"May write outside the workspace: {part}", always=True)
        elif is_outside and call.program not in words("readers") and not matches_any(path, "system_reads"):
            call.report(Severity.MEDIUM, f"Works outside the workspace: {part}", always=True)
    _note_trees(call, [scope.absolute(part) for part, _ in operands])
    _note_scripts(call)
    if _dumps_environment(call):
        scope.named.append(("the environment", ENVIRONMENT))


ENVIRONMENT = "environment"
"""Label of what shows variables of the environment."""
_NAME_OPTIONS = re.compile(
    r"--(stat|name-only|name-status|oneline|shortstat|numstat|format.*|pretty.*|quiet)|-q|-\d+|-s|-n"
)


def _reader_label(call: Invocation) -> str:
    """Return the program that the names of files are noted for: `ls` for a git command that shows only names."""
    if call.program != "git":
        return call.program
    texts = call.texts
    subcommand = next(
        (text for text in texts if text in words("git_names_only") or text in ("log", "diff", "show")), ""
    )
    shows_content = any(re.match(r"-[a-z]*[pu]\b|-L|-S|--patch|--cc|-U", text) for text in texts)
    only_names = subcommand == "log" or any(_NAME_OPTIONS.fullmatch(text) for text in texts)
    is_names = subcommand in words("git_names_only") or (subcommand in ("log", "diff", "show") and only_names)
    return "ls" if subcommand and is_names and not shows_content else "git"


def _note_trees(call: Invocation, paths: list[str]) -> None:
    """Note folders whose files a command reads, with a glob that their names match."""
    texts, name = call.texts, call.program
    short = "".join(text[1:] for text in texts if re.fullmatch(r"-[a-zA-Z.]+", text))
    is_recursive = (
        (name in ("grep", "egrep", "fgrep", "zgrep") and ("r" in short or "R" in short or "--recursive" in texts))
        or (name == "rg" and ("." in short or "u" in short or "--hidden" in texts or "--no-ignore" in texts))
        or (name == "ag" and "u" in short)
        or (name == "git" and "grep" in texts and ("--no-index" in texts or "--untracked" in texts))
        or (name == "tar" and re.match(r"-?-?c", texts[0] if texts else "") is not None)
        or (name in ("zip", "cp", "rsync", "scp") and re.search("[rRa]", short) is not None)
    )
    is_unknown = any(argument.text is None for argument in call.arguments) and name in words("readers")
    if is_unknown and name not in words("names_only") and name not in words("tree_names_only"):
        call.scope.named.append((call.scope.absolute("."), f"tree:{_listed_pattern(call)}"))
    if is_recursive:
        includes = [text.partition("=")[2] for text in texts if text.startswith("--include=")]
        folders = [] if name == "git" else [path for path in paths if not path.rpartition("/")[2].startswith("-")]
        folders = folders or [call.scope.absolute(".")]
        for folder in folders[:-1] if name in ("cp", "rsync") and folders[1:] else folders:
            call.scope.named += [(folder, f"tree:{pattern}") for pattern in includes or ["*"]]


def _listed_pattern(call: Invocation) -> str:
    """Return a glob for the files that an earlier command of the pipe lists for this one; empty if it is harmless."""
    listing = [word.text or "" for word in call.sources[0].words] if call.sources else []
    if listing[:2] == ["git", "ls-files"] and not {"-o", "--others"} & set(listing):
        return ""
    if listing[:1] in (["grep"], ["rg"]):
        return ""
    return find_pattern(listing) if listing[:1] == ["find"] else "*"


def find_pattern(texts: Sequence[str]) -> str:
    """Return the glob that the names must match which a `find` finds."""
    patterns = [pattern for option, pattern in pairwise(texts) if option in ("-name", "-iname")]
    return patterns[0] if len(patterns) == 1 and not {"!", "-not", "-o"} & set(texts) else "*"


def _note_scripts(call: Invocation) -> None:
    """Note the files that a script of awk or sed reads."""
    if call.program in ("awk", "gawk", "mawk", "sed"):
        for text in call.texts:
            for match in re.finditer(r"<\s*\"([^\"]+)\"|(?:^|[;$\d/}])[rR]\s+(\S+)", text):
                call.scope.named.append((call.scope.absolute(match[1] or match[2]), call.program))


_SECRET_NAME = re.compile(r"(?i)TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL|PRIVATE_KEY|ACCESS_KEY|AUTH\b|_KEY\b")
_ENVIRONMENT_CODE = re.compile(
    r"\bENVIRON\b|\bos\.environ\b(?!\[|\.get)|process\.env\b(?![.\[])|%ENV|ENV\.(to_h|each|inspect)"
    r"|\bp ENV\b|getenv|phpinfo"
)


def names_secret(name: str) -> bool:
    """Return whether a variable probably holds a secret, by its name."""
    return _SECRET_NAME.search(name) is not None


def _dumps_environment(call: Invocation) -> bool:
    """Return whether a command shows all variables of the environment, or one that probably holds a secret."""
    texts, name = call.texts, call.program
    names = [text for text in texts if not text.startswith("-")]
    match name:
        case "printenv":
            return not names or any(map(names_secret, names))
        case "env":
            return "--version" not in texts and "--help" not in texts and "-i" not in texts
        case "set":
            return not texts
        case "export" | "declare" | "typeset" | "readonly":
            return (not names and bool(set(texts) <= {"-p", "-x", "-xp", "-px"}) and not call.assigns) or any(
                map(names_secret, names if "-p" in texts else [])
            )
    is_code = name in severity_table()["interpreters"] or name in ("awk", "gawk", "mawk", "jq")
    return is_code and any(_ENVIRONMENT_CODE.search(text) for text in texts)


# --- on the disk ---

MAX_ENTRIES = 20_000
"""Files in a folder that are looked at; with more, the folder counts as one with credentials."""
_PASSED_OVER = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__"))
_COMMON_SECRETS = (".env", ".env.local", ".npmrc", ".netrc", "id_rsa", "credentials.json")
_MAX_MATCHES = 500
"""File names that a pattern may match before it counts as one with credentials."""


def read_files(
    named: Iterable[tuple[str, str]], roots: Sequence[Path], has_credentials: Callable[[Path], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the named files with credentials, and those outside the roots. Reads the disk: call it in a thread."""
    real_roots = [Path(os.path.realpath(root)) for root in roots]
    credentials: list[str] = []
    outside: list[str] = []
    for path, program in dict.fromkeys(named):
        if program == ENVIRONMENT:
            credentials.append(path)
            continue
        if program.startswith("tree:"):
            credentials += _secrets_below(path, program.removeprefix("tree:"), has_credentials)
            continue
        names = _matches(path)
        if program not in words("names_only"):
            credentials += [name for name in names if _is_secret(name, real_roots, has_credentials)]
        walks = program in ("find", "du", "tree", "rg", "grep", "fd", "ag")
        outside += [
            name
            for name in names
            if name.startswith(("/", "~")) and ((walks and name in ("/", "/etc")) or _is_outside(name, real_roots))
        ]
    return tuple(dict.fromkeys(credentials)), tuple(dict.fromkeys(outside))


def _secrets_below(folder: str, pattern: str, has_credentials: Callable[[Path], bool]) -> list[str]:
    """Return a file with credentials below a folder that the glob matches; the folder itself if it is too large."""
    if not pattern or not folder.startswith("/"):
        return []
    count = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _PASSED_OVER]
        count += len(files)
        if count > MAX_ENTRIES:
            return [folder]
        for name in fnmatch.filter(files, pattern):
            if has_credentials(Path(parent, name)):
                return [os.path.join(parent, name)]
    return []


def _matches(path: str) -> list[str]:
    """Return the files that a name stands for: itself, or what its pattern matches as in a shell."""
    if not any(character in path for character in "*?["):
        return [path]
    folder, _, name = path.rpartition("/")
    guessed = [
        f"{folder}/{secret}" for secret in _COMMON_SECRETS if name[:1] == secret[:1] and fnmatch.fnmatch(secret, name)
    ]
    found = guessed + list(islice(glob.iglob(path, recursive=False), _MAX_MATCHES))
    return [path, *found]


def _is_secret(path: str, roots: Sequence[Path], has_credentials: Callable[[Path], bool]) -> bool:
    if not path.startswith("/"):
        return False
    if has_credentials(Path(path)):
        return not os.path.isdir(path)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return False
    return status.st_nlink > 1 and not os.path.isdir(path) and _is_linked_secret(path, status, roots, has_credentials)


def _is_linked_secret(
    path: str, status: os.stat_result, roots: Sequence[Path], has_credentials: Callable[[Path], bool]
) -> bool:
    """Return whether a file with several names has one that holds credentials, in its folder or in a root."""
    folders = [os.path.dirname(path), *map(str, roots)]
    for folder in dict.fromkeys(folders):
        try:
            entries = list(islice(os.scandir(folder), 5000))
        except OSError:
            continue
        if any(entry.inode() == status.st_ino and has_credentials(Path(entry.path)) for entry in entries):
            return True
    return False


def _is_outside(path: str, roots: Sequence[Path]) -> bool:
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in words("system_reads")):
        return False
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return True
    if any(Path(real).is_relative_to(root) for root in roots):
        return False
    return not any(fnmatch.fnmatchcase(real, pattern) for pattern in words("system_reads"))
