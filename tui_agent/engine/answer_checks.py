"""Whether an answer to "which function, and in which file?" names one that exists (E2)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tui_agent.protocols.python_source import definitions

_WHICH = r"(?:which|what|name (?:of )?the|tell me the)"
_ASKS_FOR_A_DEFINITION = re.compile(
    rf"\b{_WHICH} (?:\w+ )?(?:function|method|class)\b(?!s|es)", re.IGNORECASE
)
_ASKS_FOR_A_FILE = re.compile(
    rf"\b{_WHICH} (?:\w+ )?(?:file|module)\b(?!s)|\bwhere (?:is|are|does|do|can|in the)\b", re.IGNORECASE
)


def gaps(question: str, answer: str, files: Mapping[str, str]) -> list[str]:
    """What an answer lacks or has wrong, as sentences for the model. `files`: path → content, of what was shown."""
    defined: dict[str, set[str]] = {}
    for path, text in files.items():
        for name in definitions(text) if path.endswith(".py") else ():
            defined.setdefault(name.rpartition(".")[2], set()).add(path)
    names = [name for name in defined if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", answer)]
    paths = [path for path in files if _names_file(answer, path)]
    found = []
    if defined and not names and _ASKS_FOR_A_DEFINITION.search(question):
        found.append("Name the function or class that is asked for.")
    if _ASKS_FOR_A_FILE.search(question) and files and not paths:
        found.append("Name the file that is asked for.")
    asked_for_both = _ASKS_FOR_A_DEFINITION.search(question) and _ASKS_FOR_A_FILE.search(question)
    one_of_each = not found and len(names) == len(paths) == 1
    if asked_for_both and one_of_each and paths[0] not in defined[names[0]]:
        found.append(f"{names[0]} is defined in {', '.join(sorted(defined[names[0]]))}, not in {paths[0]}.")
    return found


def _names_file(answer: str, path: str) -> bool:
    base = path.rpartition("/")[2]
    if base == "__init__.py":
        return path in answer
    module = path.removesuffix(".py").replace("/", ".")
    dotted = (
        path.endswith(".py")
        and "." in module
        and re.search(rf"(?<!\w){re.escape(module)}(?!\w)", answer) is not None
    )
    return dotted or re.search(rf"(?<![\w-]){re.escape(base)}(?!\w)", answer) is not None
