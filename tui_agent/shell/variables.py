"""The variables of a command line: what they hold as far as its text tells, and what setting them does (A1)."""

from __future__ import annotations

import fnmatch
import itertools
import re
import shlex
from collections.abc import Sequence
from functools import partial

from tui_agent.shell.named_files import path_fragments, written_text
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import NEW_TEMPORARY, PathScope
from tui_agent.shell.targets import names as listed

_REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(%%?|##?)([^{}$`]*))?\})")
_NEW_FOLDER = re.compile(r"\$\(\s*mktemp( -d| -t \w+| -p /tmp| --suffix=[\w.]+)*\s*\)")
_CURRENT_FOLDER = re.compile(r"\$\(\s*(?:{0})\s*\)|`\s*(?:{0})\s*`".format("pwd|git rev-parse --show-toplevel"))
_MAX_TEXTS = 64
"""Texts that one word may expand to."""


class Variables:
    """The values that each variable gets anywhere in a command line."""

    def __init__(self) -> None:
        self._values: dict[str, list[Word]] = {}

    def assign(self, name: str, value: Word) -> None:
        """Note one more value of a variable."""
        self._values.setdefault(name.rstrip("+"), []).append(value)

    def knows(self, name: str) -> bool:
        """Return whether the command line itself sets the variable."""
        return name in self._values

    def expand(self, words: Sequence[Word], folder: str) -> list[Word]:
        """Replace words by what they expand to in `folder`, an absolute path or empty; unknown ones stay."""
        return [expanded for word in words for expanded in self._expand(word, folder)]

    def _expand(self, word: Word, folder: str) -> list[Word]:
        if word.text is not None:
            return [word]
        source = word.source
        if folder.startswith("/"):
            source = _CURRENT_FOLDER.sub(lambda _: shlex.quote(folder), source)
        source = _NEW_FOLDER.sub(NEW_TEMPORARY, source)
        if "$(" in source or "`" in source or "<(" in source or "'" in source:
            return [word]
        names = list(dict.fromkeys(match[1] or match[2] for match in _REFERENCE.finditer(source)))
        if not names:
            return [word] if source == word.source else _split(source)
        choices = [self._texts(name, folder) for name in names]
        if not all(choices) or "$" in _REFERENCE.sub("", source):
            return [word]
        results: list[Word] = []
        for texts in itertools.islice(itertools.product(*choices), _MAX_TEXTS):
            values = dict(zip(names, texts, strict=True))
            results += _split(_REFERENCE.sub(partial(_value, values), source))
        return results

    def _texts(self, name: str, folder: str) -> list[str]:
        """Return the values of a variable; none if one of them is not known."""
        values = self._values.get(name)
        if values is None:
            return {"HOME": ["~"], "PWD": [folder] if folder.startswith("/") else [], "OLDPWD": ["~-"]}.get(name, [])
        texts = [value.text for value in values]
        return [text for text in texts if text is not None] if None not in texts else []


def _value(values: dict[str, str], match: re.Match[str]) -> str:
    """Return what a reference stands for: of `${file%.js}` one name for what a pattern in `file` matches."""
    value, sign, pattern = values[match[1] or match[2]], match[3], match[4] or ""
    if not sign:
        return value
    value = re.sub(r"[*?]", "_", value)
    expression = fnmatch.translate(pattern)
    cuts = range(len(value) + 1) if sign in ("%%", "#") else range(len(value), -1, -1)
    if sign[0] == "%":
        return next((value[:cut] for cut in cuts if re.match(expression, value[cut:])), value)
    return next((value[cut:] for cut in cuts if re.match(expression, value[:cut])), value)


def _split(text: str) -> list[Word]:
    try:
        words = shlex.split(text) if '"' not in text else ["".join(shlex.split(text.replace(" ", "\0")))]
    except ValueError:
        return [Word(source=text, text=None)]
    return [Word.literal(word.replace("\0", " "), is_pattern=any(c in word for c in "*?[{~")) for word in words]


# --- what setting a variable does ---

_NODE_OPTIONS = re.compile(
    r"(--(max-old-space-size|max-semi-space-size)=\d+|--(no-warnings|experimental-vm-modules|openssl-legacy-provider)"
    r"|--(enable-source-maps|trace-warnings)|\s)+"
)
_FLAGS = re.compile(r"\w*(FLAGS|OPTS|OPTIONS|ADDOPTS|ARGS)")
_RISKY_FLAG = re.compile(
    r"-(B|wrapper|fplugin|specs|Xclang|load|javaagent|agent\w+|toolexec|exec|vettool|ldflags.*ext|C ?linker|p |c "
    r"|-pdbcls|-to-command|-use-compress|-file|f |-plugin|-init-script|I ?/|-checkpoint|-rsh|e )|[;|`$]|@"
)
_PROGRAMS = re.compile(
    r"(?i)CC|CXX|CPP|LD|AR|AS|M4|SHELL|MAKE|PAGER|EDITOR|VISUAL|BROWSER|TERMINAL|DIFF|LESSOPEN|LESSCLOSE|\w*_(COMMAND|CMD|PROGRAM|EDITOR|PAGER|WRAPPER|SHELL|"
    r"ASKPASS|LAUNCHER|HOOKS?|SSH|RSH|LINKER|RUNNER|PLUGINS?|CC|CXX)|EXINIT|VIMINIT|MYVIMRC|INPUTRC|LESS|MORE|MANOPT|GREP_OPTIONS|TAR_OPTIONS|UNZIP|UNZIPOPT|ZIPOPT|GZIP|BZIP2?|XZ_OPT|XZ_DEFAULTS|RSYNC_RSH"
)


_HARMLESS_GIT = re.compile(r"GIT_(AUTHOR|COMMITTER)_\w+|GIT_(MERGE_AUTOEDIT|PAGER)")
_MACHINES = re.compile(r"(?i)PROXY|INDEX|REGISTRY|MIRROR|DOCKER_HOST|KUBE")


def assignment_risk(name: str, value: Word, scope: PathScope, *, is_prefix: bool) -> str:
    """Return what the variable may do to programs; empty if nothing is known.

    `is_prefix`: it is set for a program, or exported. Other variables matter only if a shell or a loader reads them.
    """
    text = value.text if value.text is not None else value.source
    name = name.rstrip("+").partition("[")[0]
    if text.strip('"') in (f"${name}", f"${{{name}}}"):
        return ""
    is_loader = any(fnmatch.fnmatchcase(name, pattern) for pattern in listed("loader_variables"))
    is_prompt = fnmatch.fnmatchcase(name, "PS[0-4]") or name == "PROMPT_COMMAND"
    if is_prompt and (name == "PROMPT_COMMAND" or re.search(r"\$\(|`", text)):
        return f"{name} holds commands that the shell runs."
    if not (is_prefix or is_loader) or is_prompt or (name == "IFS" and is_prefix):
        return ""
    if name == "IFS":
        return "IFS changes how the shell splits words."
    if name == "NODE_OPTIONS":
        return "" if _NODE_OPTIONS.fullmatch(text) else "NODE_OPTIONS may load code."
    if name in ("PYTHONPATH", "NODE_PATH", "PATH", "RUBYLIB", "PERL5LIB"):
        return _search_path_risk(name, text, scope)
    if any(
        scope.is_outside(scope.absolute(part))
        for part in path_fragments(written_text(value), scope.roots)
        if not _is_tool_folder(part) and part.startswith(("/", "~", "..", "$HOME"))
    ):
        return f"{name} leads outside the workspace."
    return _value_risk(name, text, is_loader=is_loader)


def _search_path_risk(name: str, text: str, scope: PathScope) -> str:
    entries = [entry for entry in re.split(r":", re.sub(r"[\"']", "", text)) if entry]
    own = [
        entry for entry in entries if entry not in (f"${name}", f"${{{name}}}") and not entry.startswith(f"${{{name}:")
    ]
    own = [entry for entry in own if not (name == "PATH" and _is_tool_folder(entry))]
    own = [entry.replace("${PWD}", "$PWD").replace("$PWD", scope.folder or ".") for entry in own]
    if any("$" in entry or scope.is_outside(scope.absolute(entry)) for entry in own):
        return f"{name} leads outside the workspace."
    is_current = any(scope.absolute(entry) in (scope.folder, ".", scope.absolute(".")) for entry in own)
    is_empty = not own and "$PATH" not in text.replace("{", "").replace("}", "")
    return f"{name} changes how programs are found." if name == "PATH" and (is_empty or is_current) else ""


def _is_tool_folder(entry: str) -> bool:
    entry = re.sub(r"^(\$HOME|\$\{HOME\})(?=/)", "~", entry)
    return ".." not in entry and any(fnmatch.fnmatchcase(entry, pattern) for pattern in listed("tool_folders"))


def _value_risk(name: str, text: str, *, is_loader: bool) -> str:
    if is_loader and name not in ("EDITOR", "VISUAL", "GIT_PAGER", "PAGER") and not name.startswith("GIT_"):
        return f"{name} changes how programs are found or loaded."
    if name.startswith("GIT_") and not _HARMLESS_GIT.fullmatch(name):
        return f"{name} changes how programs are found or loaded."
    if _PROGRAMS.fullmatch(name) and re.search(r"[\s;|&$`/]|^-", text):
        return f"{name} may run another program."
    if _FLAGS.fullmatch(name) and _RISKY_FLAG.search(text):
        return f"{name} may run another program."
    if _MACHINES.search(name) and re.search(r"://(?!localhost|127\.)", text):
        return f"{name} leads to another machine."
    return f"{name} defines a function." if name.startswith("BASH_FUNC") or "()" in text else ""
