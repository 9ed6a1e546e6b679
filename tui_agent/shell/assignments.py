"""What variables that a command line sets can make its programs do (A1)."""

from __future__ import annotations

import fnmatch
import re

from tui_agent.shell.fragments import path_fragments
from tui_agent.shell.syntax import Word
from tui_agent.shell.targets import PathScope, names

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
    is_loader = any(fnmatch.fnmatchcase(name, pattern) for pattern in names("loader_variables"))
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
        for part in path_fragments(value)
        if part.startswith(("/", "~", "..", "$HOME"))
    ):
        return f"{name} leads outside the workspace."
    return _value_risk(name, text, is_loader=is_loader)


def _search_path_risk(name: str, text: str, scope: PathScope) -> str:
    entries = [entry for entry in re.split(r":", re.sub(r"[\"']", "", text)) if entry]
    own = [
        entry for entry in entries if entry not in (f"${name}", f"${{{name}}}") and not entry.startswith(f"${{{name}:")
    ]
    own = [entry.replace("${PWD}", "$PWD").replace("$PWD", scope.folder or ".") for entry in own]
    if any("$" in entry or scope.is_outside(scope.absolute(entry)) for entry in own):
        return f"{name} leads outside the workspace."
    is_current = any(scope.absolute(entry) in (scope.folder, ".", scope.absolute(".")) for entry in own)
    return f"{name} changes how programs are found." if name == "PATH" and (not own or is_current) else ""


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
