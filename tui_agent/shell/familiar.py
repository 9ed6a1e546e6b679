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
from pathlib import Path
from typing import Any

from tui_agent.platform.programs import trusted_program
from tui_agent.shell.interpreted_code import is_ordinary_code
from tui_agent.shell.programs import publishing_reason
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import names, severity_table
from tui_agent.shell.wrapped_commands import Invocation
from tui_agent.text.patterns import read_table

familiar_table = partial(read_table, __package__, "familiar.json")

MAX_SHOWN = 60
"""Characters of a program's name that are shown."""
_SYSTEM_FOLDER = re.compile(r"(/usr(/local)?/s?bin|/s?bin|/opt/homebrew/bin|/home/linuxbrew/\.linuxbrew/bin)/[^/]+")
_RELATIVE_PROGRAM = re.compile(r"[\w.@+-]+(/[\w.@+-]+)+")
_VERSION = re.compile(r"(-?[\d.]+)$")
_PACKAGE_VERSION = re.compile(r"(?<!^)@[\w.^~-]+$")


@cache
def words(key: str) -> frozenset[str]:
    """Return a blank-separated list of the table as a set."""
    return frozenset(familiar_table()[key].split())


@cache
def _entries() -> dict[str, dict[str, Any]]:
    """Return the rules by program."""
    entries: dict[str, dict[str, Any]] = {tool: {"deny": familiar_table()["tool_deny"]} for tool in words("tools")}
    for programs, entry in familiar_table()["programs"].items():
        if programs:
            entries |= dict.fromkeys(programs.split(), entry)
        else:
            entries |= {program: {} for program in entry["any"].split()}
    return entries


def base_name(program: str) -> str:
    """Return a program's name without its version: `python3.11`, `gcc-13`, `prettier@3`."""
    if program in _entries():
        return program
    base = _VERSION.sub("", program)
    package = _PACKAGE_VERSION.sub("", program)
    return base if base in words("versioned") else package if package in _entries() else program


def unfamiliar_reason(call: Invocation, written: str) -> str:
    """Return why a command is not known as ordinary work; empty if it is. `written`: the program as it is called."""
    name = base_name(call.program.removeprefix("./"))
    entry = _entries().get(name)
    if written.startswith("./") and written[2:] in words("readers") | words("text_all"):
        return f"{written} is not the program {name}, but a file of the workspace."
    if call.texts in (["--version"], ["-V"], ["--help"], ["-h"], ["-version"], ["version"], ["help"]):
        return ""
    if entry is None:
        is_own = _RELATIVE_PROGRAM.fullmatch(written) is not None and "/../" not in f"/{written}/"
        if not is_own and not (written.startswith("/") and not call.scope.is_outside(written)):
            return f"It is not known what {call.program[:MAX_SHOWN]} does."
        entry = {}
    texts = _comparable_texts(call, entry)
    text = " ".join(texts)
    if any(word.source == "what it reads" for word in call.arguments) and not words("git_changes").isdisjoint(texts):
        return f"It is not known what {call.program} changes."
    if "local_deny" in entry and _is_local(call.texts):
        return f"{call.program} may read or write elsewhere." if re.search(entry["local_deny"], text) else ""
    if "allow" in entry and not re.search(entry["allow"], text):
        return f"It is not known what {call.program} does with these arguments."
    if name in words("text_all") or "allow" in entry:
        return _risky_part(call, entry)
    if name in ("find", "fd", "fdfind"):
        return ""  # their commands are rated
    return unusual_option(call)


def _risky_part(call: Invocation, entry: dict[str, Any]) -> str:
    """Return what an entry of the table says against the arguments; empty if nothing."""
    if "packages" in entry and (package := _unknown_package(entry, call.texts)):
        return f"It is not known what the package {package} does."
    texts = _comparable_texts(call, entry)
    text = " ".join([*texts, call.input_text] if entry.get("input") else texts)
    denied = re.search(entry["deny"], text) if "deny" in entry else None
    if denied and "publish" in denied[0]:
        return publishing_reason(call.program)
    if denied and "discards" in entry and re.search(entry["discards"], text):
        return f"{call.program} may discard work that is not committed."
    return f"{call.program} may write elsewhere or run something with {denied[0].strip()!r}." if denied else ""


def _comparable_texts(call: Invocation, entry: dict[str, Any]) -> list[str]:
    """Return the arguments as the table compares them: relative to the folder, ordinary code as `CODE`."""
    if call.program in ("git", "sed"):  # in their words a blank means nothing
        return [re.sub(r"\s", "_", text) for text in call.texts]
    options = entry.get("code", "").split()
    language = base_name(call.program)
    folder = re.compile(rf"{re.escape(call.scope.folder)}(?=[/:]|$)" if call.scope.folder else r"(?!)")
    texts = []
    for previous, text in itertools.pairwise(["", *call.texts]):
        option, equals, code = text.partition("=")
        if previous in options and text[:1] != "-" and is_ordinary_code(language, text, call.scope):
            texts.append("CODE")
        elif equals and option in options and is_ordinary_code(language, code, call.scope):
            texts.append(f"{option}=CODE")
        else:
            texts.append(folder.sub(".", text))
    return texts


_PACKAGE = re.compile(r"(@?[\w./*-]+?)(\[[\w,-]+\])?((@|==|>=|<=|~=|!=|~>|>|<|=|:)[\w.^~*,<>=!+-]*)?")


def _unknown_package(entry: dict[str, Any], texts: Sequence[str]) -> str:
    """Return the first package that a command would install and that is none of the well-known ones; else empty.

    Names that a model made up, or that differ from a well-known one by a letter, would run anybody's code.
    """
    starts = [index for index, text in enumerate(texts[:4]) if text in entry["adds"].split()]
    if not starts:
        return ""
    known = familiar_table()["packages"][entry["packages"]].lower().split()
    for previous, text in itertools.pairwise(texts[starts[0] :]):
        folder = r"\.\S*" if entry["packages"] == "npm" else r"(?!@)[\w./-]*/[\w./-]*|\.\.?(\[[\w,-]+\])?"
        is_folder = re.fullmatch(folder, text) is not None
        if (
            text.startswith("-")
            or previous in words("package_values")
            or (is_folder and entry["packages"] != "composer")
        ):
            continue
        match = _PACKAGE.fullmatch(text)
        name = match[1].lower().replace("_", "-") if match else ""
        if not name or not any(fnmatch.fnmatchcase(name, pattern.replace("_", "-")) for pattern in known):
            return text
    return ""


_LOCAL = re.compile(r"(https?://)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/\S*)?")


_VALUE_OPTION = re.compile(
    r"-[sSfLIivkNgG#]*[cbodHFTXuAmwK]|--(cookie|cookie-jar|output|data[a-z-]*|header|form|user|write-out|max-time)"
)


def _is_local(texts: Sequence[str]) -> bool:
    """Return whether all addresses among the arguments are of this machine."""
    addresses = [
        text
        for previous, text in itertools.pairwise(["", *texts])
        if re.match(r"\w+://|localhost|127\.|\[::1|[\w-]+(\.[\w-]+)+(:\d+|/|$)", text)
        and not (_VALUE_OPTION.fullmatch(previous) and "://" not in text)
    ]
    return bool(addresses) and all(map(_LOCAL.fullmatch, addresses))


def unusual_option(call: Invocation) -> str:
    """Return what an option may run besides the program, by its name; empty if nothing."""
    entry = _entries().get(base_name(call.program.removeprefix("./")))
    if entry is None:
        entry = {"deny": familiar_table()["script_deny"]}
    if reason := _risky_part(call, entry):
        return reason
    if "plain_options" in entry:
        return ""
    own = list(itertools.takewhile(lambda text: text != "--", _comparable_texts(call, entry)))
    for option, following in itertools.pairwise([*own, ""]):
        value = option.partition("=")[2] if "=" in option else following
        if re.match(familiar_table()["unusual_options"], option) and not _is_project_code(value):
            return f"{call.program} may run another program with {option.partition('=')[0]}."
    return ""


def _is_project_code(value: str) -> bool:
    """Return whether the value of an option names one program, module or file of the workspace, without arguments."""
    is_name = re.fullmatch(r"(?!.*\.\./)(\./)?[\w@][\w./@:+-]*", value) is not None and "://" not in value
    return (
        is_name
        and value not in severity_table()["interpreters"]
        and value not in names("shells") | names("unsafe_values")
    )


def under_listed_name(call: Invocation) -> Invocation:
    """Return a call with the program's name, and the form of its options, under which the tables list it."""
    written = call.program
    path = posixpath.normpath(written)
    program = path.rsplit("/", 1)[-1] if "/" in path else written
    if path in ("gradlew", "mvnw"):
        program = path[:-1]
    elif (written.startswith("./") and "/" not in path) or written.startswith("@"):
        program = written
    if base_name(program) in severity_table()["interpreters"]:
        program = base_name(program)
    arguments = call.arguments
    if program in ("dotnet", "msbuild"):  # `/p:A=b` is an option
        options = [re.fullmatch(r"/(\w+(?::\S*)?)", argument.text or "") for argument in arguments]
        arguments = [
            Word.literal(f"-{option[1]}") if option else argument
            for option, argument in zip(options, arguments, strict=True)
        ]
    return call._replace(program=program, arguments=arguments)


def is_installed(path: str, roots: Sequence[str]) -> bool:
    """Return whether a path outside the workspace is a known program that only the user and root can change."""
    if _SYSTEM_FOLDER.fullmatch(path):
        return True
    if base_name(path.rpartition("/")[2]) not in _entries():
        return False
    try:
        return trusted_program(path, [Path(root) for root in roots], ("/",)) is not None
    except OSError:
        return False


@cache
def _globs(key: str) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, words(key))))


def matches_any(name: str, key: str) -> bool:
    """Return whether a name matches one of the globs of the table."""
    return _globs(key).match(name) is not None
