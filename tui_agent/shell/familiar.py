"""Which commands are part of ordinary development work, so that auto mode runs them without a sandbox (A1, A4).

A program that `familiar.json` doesn't list is unfamiliar, whatever its arguments: nobody knows what it writes or runs.
"""

from __future__ import annotations

import fnmatch
import itertools
import posixpath
import re
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

from tui_agent.common.domain import Severity
from tui_agent.shell.fragments import path_fragments
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import severity_table
from tui_agent.shell.wrapped_commands import Invocation
from tui_agent.text.patterns import read_table

familiar_table = partial(read_table, __package__, "familiar.json")

_SYSTEM_FOLDER = re.compile(r"(/usr(/local)?/s?bin|/s?bin|/opt/homebrew/bin|/home/linuxbrew/\.linuxbrew/bin)/[^/]+")
_RELATIVE_PROGRAM = re.compile(r"[\w.@+-]+(/[\w.@+-]+)+")
_VERSION = re.compile(r"(-?[\d.]+)$")


@cache
def words(key: str) -> frozenset[str]:
    """Return a blank-separated list of the table as a set."""
    return frozenset(familiar_table()[key].split())


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return the rules by program."""
    entries: dict[str, dict[str, Any]] = {}
    for programs, entry in familiar_table()["programs"].items():
        if programs:
            entries |= dict.fromkeys(programs.split(), entry)
        else:
            entries |= {program: {} for program in entry["any"].split()}
    return entries


def base_name(program: str) -> str:
    """Return a program's name without its version: `python3.11`, `gcc-13`."""
    base = _VERSION.sub("", program)
    return base if program not in _entries() and base in words("versioned") else program


def unfamiliar_reason(call: Invocation, written: str) -> str:
    """Return why a command is not known as ordinary work; empty if it is. `written`: the program as it is called."""
    name = base_name(call.program.removeprefix("./"))
    entry = _entries().get(name)
    if call.texts in (["--version"], ["-V"], ["--help"], ["-h"], ["-version"], ["version"], ["help"]):
        return ""
    if entry is None:
        is_own = _RELATIVE_PROGRAM.fullmatch(written) is not None and "/../" not in f"/{written}/"
        if not is_own and not (written.startswith("/") and not call.scope.is_outside(written)):
            return f"It is not known what {call.program} does."
        entry = {}
    # in words of these programs a blank means nothing
    texts = [re.sub(r"\s", "_", text) for text in call.texts] if name in ("git", "sed") else call.texts
    text = " ".join(texts)
    if any(word.source == "what it reads" for word in call.arguments) and not words("git_changes").isdisjoint(texts):
        return f"It is not known what {call.program} changes."
    if "local_deny" in entry and _is_local(call.texts):
        return f"{call.program} may read or write elsewhere." if re.search(entry["local_deny"], text) else ""
    if "allow" in entry and not re.search(entry["allow"], text):
        return f"It is not known what {call.program} does with these arguments."
    if name in words("text_all") or "allow" in entry:
        deny = entry.get("deny")
        match = re.search(deny, text) if deny else None
        return f"{call.program} may write elsewhere or run something with {match[0].strip()!r}." if match else ""
    if name in ("find", "fd", "fdfind"):
        return ""  # their commands are rated
    return unusual_option(call)


_LOCAL = re.compile(r"(https?://)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/\S*)?")


def _is_local(texts: Sequence[str]) -> bool:
    """Return whether all addresses among the arguments are of this machine."""
    addresses = [text for text in texts if re.match(r"\w+://|localhost|127\.|\[::1|[\w-]+(\.[\w-]+)+(:\d+|/|$)", text)]
    return bool(addresses) and all(map(_LOCAL.fullmatch, addresses))


def unusual_option(call: Invocation) -> str:
    """Return what an option may run besides the program, by its name; empty if nothing."""
    deny = _entries().get(base_name(call.program), {}).get("deny")
    texts = [re.sub(r"\s", "_", text) for text in call.texts] if call.program in ("git", "sed") else call.texts
    if deny and (match := re.search(deny, " ".join(texts))):
        return f"{call.program} may write elsewhere or run something with {match[0].strip()!r}."
    for option in itertools.takewhile(lambda text: text != "--", call.texts):
        if re.match(familiar_table()["unusual_options"], option):
            return f"{call.program} may run another program with {option.partition('=')[0]}."
    return ""


def is_known_place(written: str) -> bool:
    """Return whether a program called by an absolute path is in a folder of the system."""
    return _SYSTEM_FOLDER.fullmatch(written) is not None


@cache
def _text_options(program: str) -> frozenset[str]:
    """Return the options of a program whose value is text, not the name of a file."""
    table = familiar_table()["text_options"]
    return frozenset(next((table[key] for key in table if program in key.split()), "").split())


def named_files(call: Invocation) -> list[tuple[str, bool]]:
    """Return the file names in the arguments, and whether the program only reads or names that one."""
    name = base_name(call.program)
    if name in words("text_all"):
        return []
    options = _text_options(name)
    is_reader = name in words("readers") and not _changes_in_place(name, call.texts)
    creates = name == "git" and not words("git_creates").isdisjoint(call.texts)
    is_input = is_reader or (name in words("inputs") and not creates)
    skips_first = name in words("text_first")
    letters = severity_table()["interpreters"].get(name, "")
    result: list[tuple[str, bool]] = []
    operands: list[tuple[Word, str]] = []
    previous = ""
    for word, text in zip(call.arguments, call.texts, strict=True):
        is_code = letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print|--command", previous)
        if skips_first and re.fullmatch(r"-\w*[ef]|--(regexp|file|expression|files|type-list|from-file)", previous):
            skips_first = False
        if is_code or (previous in options and not _looks_absolute(text)):
            pass
        elif text.startswith("-") and len(text) > 1:
            is_text = text.partition("=")[0] in options
            writes = not is_reader or _OUTPUT_OPTION.match(text) is not None
            result += [(part, not writes) for part in ([] if is_text else path_fragments(word))]
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
        parts = path_fragments(_link_target(word, operands[-1][0]) if is_source and name == "ln" else word)
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


def matches_any(name: str, key: str) -> bool:
    """Return whether a name matches one of the globs of the table."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in words(key))


def report_names(call: Invocation) -> None:
    """Note the files that a command names or reads, and report those that it may write outside the workspace."""
    scope, label = call.scope, _reader_label(call)
    operands = named_files(call)
    for number, (part, reads) in enumerate(operands, 1):
        path = scope.absolute(part)
        is_outside = scope.is_outside(path)
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
