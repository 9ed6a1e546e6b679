"""The files that a command names or reads: judged as for the tool `read_file` (A2)."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable

from tui_agent.common.domain import Severity
from tui_agent.shell.familiar import base_name, matches_any, words
from tui_agent.shell.git_reads import git_description, git_shows_content
from tui_agent.shell.safe_arguments import EVERYTHING, Arguments, Selection, find_folders, find_patterns, read_arguments
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import ENVIRONMENT, NamedPath, severity_table
from tui_agent.shell.wrapped_commands import Invocation

_ADDRESS = re.compile(r"\b(?!file:)[a-zA-Z][\w+.-]*://[^\s'\"]*|\b(?:jsr|npm|github|git\+\w+):\S*")
_LONG_OPTION = re.compile(r"--?[\w.-]*=(.*)", re.DOTALL)
_SHORT_OPTION = re.compile(r"-{1,2}[\w-]*?([./~$].*)", re.DOTALL)
_SEPARATORS = re.compile(r"[=,:@{}|;<>()'\"%]+|(?<=\S)\s+")


def written_text(word: Word) -> str:
    """Return the text of a word; where that is unknown, what is written, without quotes."""
    return word.text if word.text is not None else re.sub(r"[\"']", "", word.source)


def path_fragments(text: str, roots: Iterable[str] = ()) -> list[str]:
    """Return the parts of an argument that may name a file; of text with blanks only what looks like a path.

    The name of a folder in `roots` is not split, whatever characters it contains.
    """
    text = _ADDRESS.sub("", text.replace("file://", ""))
    parts: list[str] = []
    if option := _LONG_OPTION.fullmatch(text):
        text = option[1]
    elif text.startswith("-"):
        option = _SHORT_OPTION.fullmatch(text)
        text = option[1] if option else ",".join(_SEPARATORS.split(text)[1:])
    if not text:
        return []
    has_blanks = re.search(r"\s", text) is not None
    if not has_blanks or text.startswith(("/", "~/", "../")):
        parts.append(text)
    for root in filter(_SEPARATORS.search, roots):
        text = text.replace(f"{root}/", "./")
    for piece in _SEPARATORS.split(text):
        option = _SHORT_OPTION.fullmatch(piece)
        part = option[1] if option else piece
        if part and (not has_blanks or part.startswith(("/", "~/", "../", "$HOME"))):
            parts.append(part)
    return list(dict.fromkeys(parts))


def named_files(call: Invocation, arguments: Arguments) -> list[tuple[str, bool]]:
    """Return the file names in the arguments, and whether the program only reads or names that one."""
    name = base_name(call.program)
    is_reader = name in words("readers") and not _changes_in_place(name, call.texts)
    creates = name == "git" and not words("git_creates").isdisjoint(call.texts)
    is_input = is_reader or (name in words("inputs") and not creates)
    letters = severity_table()["interpreters"].get(name, "")
    result: list[tuple[str, bool]] = []
    operands: list[tuple[str, str]] = []
    roots, before = call.scope.roots, ""
    for role, text in arguments.found:
        is_code = letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print|--command", before)
        if role == "pattern" or is_code or (name == "git" and "@{" in text):
            pass
        elif role == "unknown":
            writes = not is_reader or _OUTPUT_OPTION.match(text) is not None
            result += [(part, not writes) for part in path_fragments(text, roots)]
        elif role == "output":
            result.append((text, False))
        elif role == "path":
            result += [(part, is_reader) for part in path_fragments(text, roots)]
        elif role == "operand" or _looks_absolute(text) or (name == "curl" and text.startswith("@")):
            operands.append((text, before if role == "operand" else "-"))
        before = text if role == "unknown" else ""
    for number, (text, before) in enumerate(operands, 1):
        is_value = before.startswith("-") and name not in ("git", "docker", "bash", "sh") and not is_reader
        is_source = name in words("sources_first") and number < len(operands)
        if name in words("sources_first") and _TARGET_FOLDER.fullmatch(before):
            is_source, is_value = False, True
        if is_reader and _OUTPUT_OPTION.fullmatch(before):
            is_value = True
        target = _link_target(text, operands[-1][0]) if is_source and name == "ln" else text
        parts = path_fragments(target, roots)
        result += [(part, (is_input and not is_value) or is_source) for part in parts]
    return [(part, reads) for part, reads in result if name != "git" or not _is_revision(part)]


def _arguments(call: Invocation) -> Arguments:
    """Return what the arguments of a command are, without those of the commands that a `find` runs."""
    name, texts = base_name(call.program), [written_text(word) for word in call.arguments]
    if name in words("text_all") | words("no_file_names"):
        return Arguments((), None, False)
    if name == "find":  # the commands that it runs are rated by themselves
        texts = list(itertools.takewhile(lambda text: not re.match(r"-(exec|ok)", text), texts))
    return read_arguments(name, texts, git_description(texts) if name == "git" else None)


_TARGET_FOLDER = re.compile(r"-[a-zA-Z]*t|--t[a-z-]*")
_OUTPUT_OPTION = re.compile(r"-[a-zA-Z]*o(?=$|[./~$\"'])|--(o|report)[a-z-]*")


def _changes_in_place(name: str, texts: list[str]) -> bool:
    return name in ("sed", "yq", "perl", "ruby") and any(re.match(r"-[a-zA-Z]*i|--in-?place", t) for t in texts)


def _link_target(target: str, link: str) -> str:
    """Return what a symbolic link will lead to: a relative target starts in the folder of the link."""
    return target if target.startswith(("/", "~", "-", "$")) else posixpath.join(posixpath.dirname(link), target)


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
    scope, label, arguments = call.scope, _reader_label(call), _arguments(call)
    operands = named_files(call, arguments)
    for number, (part, reads) in enumerate(operands, 1):
        path = scope.absolute(part)
        is_outside = scope.is_outside(path) and not scope.is_own_temporary(path)
        is_target = call.program in words("sources_first") and number == len(operands)
        scope.named.append(NamedPath(path, "touch" if is_target else label))
        if not reads:
            scope.note_change(path)
        if is_outside and not reads and not matches_any(path, "harmless_outputs"):
            scope.writes_outside = True
            call.report(Severity.MEDIUM, f"May write outside the workspace: {part}", always=True)
        elif is_outside and call.program not in words("readers") and not matches_any(path, "system_reads"):
            call.report(Severity.MEDIUM, f"Works outside the workspace: {part}", always=True)
    _note_searches(call, arguments)
    _note_scripts(call)
    if _dumps_environment(call):
        scope.named.append(NamedPath("the environment", ENVIRONMENT))


def _reader_label(call: Invocation) -> str:
    """Return the program that the names of files are noted for: `ls` for a git command that shows only names."""
    if call.program != "git":
        return call.program
    shows_content = git_shows_content(call.texts)
    if shows_content is None:
        shows_content = words("git_names_only").isdisjoint(call.texts)
    return "git" if shows_content else "ls"


def _note_searches(call: Invocation, arguments: Arguments) -> None:
    """Note folders whose files a command reads."""
    name, scope = call.program, call.scope
    reads_names = name in words("readers") and name not in words("names_only") | words("tree_names_only")
    if reads_names and any(word.text is None and not word.source.startswith("<(") for word in call.arguments):
        scope.named += _listed(call)
    # `rg x` leaves out hidden files and those that git ignores: what is left is the project's.
    if arguments.search is None or not arguments.search.hidden:
        return
    if arguments.reads_pipe and (call.sources or any("<" in redirect.operator for redirect in call.redirects)):
        return
    operands = [text for role, text in arguments.found if role == "operand" and name != "git"]
    for folder in operands[:-1] if name in ("cp", "rsync", "scp") and operands[1:] else operands or ["."]:
        scope.named.append(NamedPath(scope.absolute(folder), name, arguments.search))


_LISTS_OTHERS = re.compile(r"-[a-z]*[oi]|--(others|ignored)")
_LISTS_HIDDEN = re.compile(r"-[a-zA-Z]*[u.]|--(hidden|no-ignore|unrestricted)|-[a-zA-Z]*r[a-zA-Z]*$")


def _listed(call: Invocation) -> list[NamedPath]:
    """Return where the files lie that an earlier command of the pipe lists for this one; nothing if it is harmless."""
    listing = [word.text or "" for word in call.sources[0].words] if call.sources else []
    is_tracked = listing[:2] == ["git", "ls-files"] and not any(map(_LISTS_OTHERS.match, listing))
    if is_tracked or (listing[:1] in (["grep"], ["rg"]) and not any(map(_LISTS_HIDDEN.match, listing))):
        return []
    is_find = listing[:1] == ["find"]
    search = Selection(all_of=find_patterns(listing)) if is_find else EVERYTHING
    folders = find_folders(listing[1:]) if is_find else []
    return [NamedPath(call.scope.absolute(folder), call.program, search) for folder in folders or ["."]]


def _note_scripts(call: Invocation) -> None:
    """Note the files that a script of awk or sed reads."""
    if call.program in ("awk", "gawk", "mawk", "sed"):
        for text in call.texts:
            for match in re.finditer(r"<\s*\"([^\"]+)\"|(?:^(?:-\w*e|--e[a-z]*=)?|[;$\d/{}])\s*[rR]\s*(\S+)", text):
                call.scope.named.append(NamedPath(call.scope.absolute(match[1] or match[2]), call.program))


_SECRET_NAME = re.compile(
    r"(?i)TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL|PRIVATE_KEY|ACCESS_KEY|WEBHOOK"
    r"|(AUTH|_KEY|_PASS|[A-Z]_PWD|_DSN|_JWT)\b"
)
_ENVIRONMENT_CODE = re.compile(
    r"\bENVIRON\b|\bos\.environ\b(?!\[|\.get)|process\.env\b(?![.\[])|%ENV|ENV\.(to_h|each|inspect)"
    r"|\bp ENV\b|getenv|phpinfo"
)
_ENVIRONMENT_NAME = re.compile(r"(?:\bprocess\.env|\bENV|\benviron(?:\.get)?|\bgetenv)[.\[({\"']+(\w+)")
_ENVIRONMENT_ARGUMENTS = re.compile(r"php (-i|--info) |cmake -E environment |direnv export |dotenv (.* )?(get|list) ")


def names_secret(name: str) -> bool:
    """Return whether a variable probably holds a secret, by its name."""
    return _SECRET_NAME.search(name) is not None


_READ_VARIABLE = re.compile(
    r"""(?:environ(?:\.get\(|\[)|getenv\(|\bENV(?:\.fetch\(|\[))\s*["'](\w+)|process\.env(?:\.|\[["'])(\w+)"""
)


def reads_secret(code: str) -> bool:
    """Return whether code reads a variable of the environment that probably holds a secret."""
    read = [match[1] or match[2] for match in _READ_VARIABLE.finditer(code)]
    return any(map(names_secret, read)) or re.search(r"\bimport environ\b", code) is not None


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
        case "envsubst":
            return not names or any(map(names_secret, names))
        case "php" | "cmake" | "direnv" | "dotenv":
            return _ENVIRONMENT_ARGUMENTS.match(f"{name} {' '.join(texts)} ") is not None
    is_code = name in severity_table()["interpreters"] or name in ("awk", "gawk", "mawk", "jq")
    return is_code and any(
        _ENVIRONMENT_CODE.search(text) or any(map(names_secret, _ENVIRONMENT_NAME.findall(text))) for text in texts
    )
