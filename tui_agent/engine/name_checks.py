"""Whether what a request asks for by name is there: new identifiers and new files (E2, E4).

A name counts as asked for only where it stands right behind a verb that creates; of any other one it is not clear.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice

from tui_agent.engine.request_reading import Reading
from tui_agent.engine.request_words import number_in
from tui_agent.protocols.python_source import bodies, definitions

Finding = tuple[str, bool]
"""A sentence for the model, and whether it is soft: it may be meant so."""
READ = 6_000
"""Characters of a request that are looked at."""


def words(text: str) -> frozenset[str]:
    """The words of a list of them."""
    return frozenset(re.findall(r"\S+", text))


STYLES = re.compile(
    r"(?:[a-z]+_case|[A-Z]+_CASE|SCREAMING_\w+|snake_\w*case|camelCase|CamelCase|PascalCase|lowerCamel\w*|UpperCamel\w*"
    r"|mixedCase|iOS|macOS|iPhone|iPad|eBay|jQuery|mkDocs|numPy|pyTest)$"
)
"""Words that look like identifiers and are none of a program."""
_LINKS = (
    "that|which|who|for|to|in|into|on|onto|with|without|from|by|like|using|uses?|of|as|when|if|where|while|so|because"
    "|before|after|via|than|not|calls?|calling|around|over|against|per|at|is|are|does|do|instead|similar|under|inside"
)
"""Words behind which a name is no longer what the verb creates."""
_GAP = rf"(?:(?!(?:{_LINKS})\b)[^\s.;:!?]+\s+)"
_THING = (
    "function|method|class|option|flag|constant|variable|decorator|helper|field|column|attribute|property|parameter"
    "|argument|generator|exception|enum|command|key|fixture|hook|component|type|interface|struct|test|file|module|one|it"
)
_CREATES = re.compile(
    rf"\b(?:add|create|write|implement|define|introduce|develop)\s+{_GAP}{{0,7}}[`'\"*]*$"
    rf"|\b(?:provide|support|accept|make|build|code|expose|offer|generate|needs?|gets?|takes?)\s+"
    rf"(?:an?|another|one|new|the\s+(?:new|option|flag))\s+{_GAP}{{0,6}}[`'\"*]*$"
    rf"|\b(?:add|create|write|implement|define|introduce|make|put|move|extract|new)\b[^.;!?]{{0,80}}"
    rf"\b(?:{_THING})(?:\s+(?:in|to|for)\s+\S+)?,?\s+(?:called|named)\s+[`'\"*]*$"
    rf"|\b(?:make|turn|extract|move|put|pull)\b[^.;!?]{{0,60}}\b(?:an?|the|into|in)\s+"
    rf"(?:new\s+|global\s+|module-level\s+)?(?:{_THING})\s+[`'\"*]*$"
    r"|\b(?:add|create|write|implement|define)\b.{0,80}\b(?:with|and|containing|contains|has)\s+(?:an?|the)\s+(?:\w+\s+)?"
    r"(?:function|method|class|option|constant|flag)\s+[`'\"*]*$"
    r"|\b(?:new|create|write|add|make)\b[^;!?\n]{0,80}?\w\.\w{1,5}\b[`'\"]?,?\s*(?:pls|plz|please)?,?\s*(?:with|having"
    r"|containing|that (?:has|contains|holds))\s+(?:(?:an?|the|one)\s+)?(?:(?:function|method|class)\s+)?[`'\"*]*$",
    re.IGNORECASE,
)
"""The words before a name that a request wants to be there."""
_NOT_MEANT = re.compile(
    r"\b(?:without|not|never|no|don't|doesn't|can't|cannot|instead of|rather than|in place of|like|unlike|similar to"
    r"|such as|as in|as|e\.g\.|called by|used by|avoid\w*|than|from|was|formerly|remov\w+|delet\w+|drop\w*|replac\w+"
    r"|rid of|old|except|renam\w+)"
    r"(?:\s+(?!(?:with|by|to|and|but|into|add|create|write)\b)[\w`'\"]+){0,3}\s*[`'\"(]*$",
    re.IGNORECASE,
)
"""The words before a name that is spoken of and not asked for."""
_CHANGES = "adapt|update|change|edit|modify|adjust|correct|extend|rewrite"
_SEVERAL = re.compile(r"\b(?:both|two|three|all of them|each of them)\b", re.IGNORECASE)
_FAULTS = (
    r"(?:also |still |always |never |wrongly )?(?:returns?|gives?|leaves?|makes?|crash\w*|fails?|raises?|adds?|keeps?"
    r"|los\w+|skips?|forgets?|ignores?|counts?|does|doesn't|is|drops?|misses|shows?|prints?|removes?|rounds?|sorts?|compares?)"
)
_NUMBERED = re.compile(
    r"\b(?P<number>two|three|2|3) (?:\w+ )?(?:bugs|faults|errors|mistakes|problems|issues|defects)\b",
    re.IGNORECASE,
)
_PATH = r"[`'\"]?([\w./-]+\.\w+)[`'\"]?"
_MOVE = re.compile(
    rf"\bmove\s+(?:the\s+)?(?:{_THING}|def)?\s*[`'\"]?(\w+)(?:\(\))?[`'\"]?\s+(?:out\s+of|from)\s+{_PATH}\s+(?:in)?to\s+"
    rf"(?:the\s+)?(?:new\s+)?(?:file\s+|module\s+)?{_PATH}",
    re.IGNORECASE,
)
READ_MOVES = 5
"""Moves of a request that are looked at."""
_DEFINING = re.compile(r"(?:function|method|def|class|helper|called|named)\s+$", re.IGNORECASE)
_SOURCE = words(
    "py pyi js mjs cjs ts jsx tsx go rs rb java kt c h cpp hpp cs php swift lua sh css scss html md rst"
)
_DATA = words("txt json jsonc yaml yml toml ini cfg csv xml sql svg log env")
_START = r"(?:^|[.!?;:]\s+|\n\s*|[-*]\s+|\d[.)]\s+|\b(?:please|you|now|then)\s+|\b(?:and|also|first),?\s+(?:also\s+)?)"
_NEW_FILE = re.compile(
    rf"{_START}(?:create|add|write|generate|make|start)\s+"
    rf"(?:(?!(?:{_LINKS}|tests?|functions?|class(?:es)?|methods?|sections?)\b)[^\s.;:!?]+\s+){{0,6}}[`'\"(*]*$"
    r"|\b(?:new|separate|own)\s+(?:[\w-]+\s+){0,2}?(?:file|module|script|page|document)\s+(?:called\s+|named\s+)?"
    r"[`'\"(*]*$",
    re.IGNORECASE,
)
"""The words before the path of a file that a request wants to be made."""
_AT_RUN_TIME = re.compile(
    r"\b(?:that|which|should|must|can|will|when|saves?|stores?|writes|creates|to)\s", re.IGNORECASE
)
"""Words of a sentence whose file may be one that the program makes when it runs."""
_INTO = re.compile(r"\b(?:in|into|to)\s+[`'\"(*]*$", re.IGNORECASE)
_MAKES = re.compile(rf"{_START}(?:write|add|put|move|extract|create|implement|split)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?;:]\s|\n")
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")


def prose(text: str) -> str:
    """A request without the code that it shows, as much of it as is looked at."""
    return re.sub(r"```.*?(?:```|\Z)", " ", text[: 3 * READ], flags=re.DOTALL)[:READ]


def is_test(path: str) -> bool:
    """Whether a Python file holds tests, by its name."""
    return _TEST_FILE.search(path) is not None


def is_path(text: str) -> bool:
    """Whether a word is the path of a file, and not an attribute of something."""
    ending = text.rpartition(".")[2].lower()
    return ("." in text and ending in _SOURCE | _DATA) or text in ("Makefile", "Dockerfile")


def missing(
    request: Reading, before: Mapping[str, str], after: Mapping[str, str], left_alone: Collection[str] = ()
) -> list[Finding]:
    """What the request asks for by name and is nowhere, before or now. An attribute counts by its last name.

    `left_alone`: files that must not change.
    """
    there = "\n".join([*after.values(), *after])
    was = "\n".join([*before.values(), *before])
    text = prose(request.text)
    found = []
    for name in request.names:
        parts = (name, name.rsplit(".", 1)[-1], name.split(".", 1)[0])
        if name in was or any(
            part and re.search(rf"(?<![\w]){re.escape(part)}(?!\w)", there) for part in parts
        ):
            continue
        soft = _name_is_soft(text, name)
        if soft is not None:
            found.append((f"{name} is nowhere", soft))
    for path in request.paths:
        if not _is_there(path, before, after):
            soft = _path_is_soft(text, path, "\n".join(after.values()))
            if soft is not None:
                found.append((f"the file {path} is not there", soft))
    for path in request.paths:
        same = path in before and before[path] == after.get(path)
        if same and path not in left_alone and _is_to_change(text, path):
            found.append((f"{path} has to change, too", False))
    return [*found, *_moves(text, after), *_untouched(text, before, after)]


def _untouched(text: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[Finding]:
    """Functions of which a request names a fault each, and that are as they were."""
    if not _SEVERAL.search(text):
        return []
    named: dict[str, list[bool]] = {}
    others: dict[str, bool] = {}
    numbered = _NUMBERED.search(text)
    faults = rf"(?:{_FAULTS}|(?:\w+ly )?[a-z]+[^s\W]s)" if numbered else _FAULTS
    for path, content in before.items():
        was = bodies(content) if path.endswith(".py") else {}
        now = bodies(after.get(path, "")) if was else {}
        for name, body in was.items():
            if re.search(rf"(?<![\w.`'\"]){re.escape(name)}(?:\(\))?\s+(?:{faults})\b", text):
                named.setdefault(name, []).append(now.get(name) == body)
            elif name in now and not re.search(rf"\b{re.escape(name.strip('_'))}\b", text):
                others[name] = others.get(name, False) or now[name] != body
    if len(named) < 2:
        return []
    found = [(f"{name} is still as it was", False) for name, same in named.items() if all(same)]
    if not found and numbered and len(named) == number_in(numbered["number"]):
        found = [
            (f"{name} works, and must stay as it is", True) for name, changed in others.items() if changed
        ]
    return found


def _is_to_change(text: str, path: str) -> bool:
    """Whether a request says in so many words that a file is to change."""
    said = re.search(
        rf"\b(?:{_CHANGES})\s+(?:also\s+|the\s+)?[`'\"]?{re.escape(path)}\b[^.;!?]*", text, re.IGNORECASE
    )
    return said is not None and re.search(r"\b(?:if|where|when|unless|need(?:ed)?)\b", said.group(0)) is None


def _moves(text: str, after: Mapping[str, str]) -> list[Finding]:
    """What is to be moved to another Python file, and still stands in the old one or not yet in the new one."""
    found: list[Finding] = []
    for one in islice(_MOVE.finditer(text), READ_MOVES):
        name, old, new = one.group(1), one.group(2), one.group(3)
        if old not in after or new not in after or old == new:
            continue
        if not name.isidentifier() or not new.endswith(".py"):
            continue
        if name not in definitions(after[new]):
            found.append((f"{new} does not define {name} yet", False))
        if name in definitions(after[old]):
            found.append((f"{name} still stands in {old}", False))
    return found


def file_of(module: str, importer: str, files: Collection[str]) -> str:
    """The Python file that a module's name stands for in the file `importer`; empty where it is none of `files`.

    Beside the project's folder, modules are looked for in `src` and beside the importing file.
    """
    if module.startswith("."):
        level = len(module) - len(module.lstrip("."))
        folders = ["/".join([*importer.split("/")[:-level], ""]).lstrip("/")]
        module = module[level:]
    else:
        folders = ["", "src/", "/".join([*importer.split("/")[:-1], ""]).lstrip("/")]
    stem = module.replace(".", "/")
    for folder in dict.fromkeys(folders):
        package = f"{folder}{stem}".rstrip("/")
        for name in (f"{package}.py", f"{package}/__init__.py".lstrip("/")):
            if name in files:
                return name
    return ""


def _name_is_soft(text: str, name: str) -> bool | None:
    """Whether a name that is not there may be missing all the same; None where nothing asks for it."""
    if STYLES.match(name):
        return None
    verdicts = set()
    for one in re.finditer(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text):
        lead = _lead(text, one.start())
        plural = re.match(r"\((?:s|es)\)", text[one.end() :])
        if _NOT_MEANT.search(lead) or (plural and not _DEFINING.search(lead)):
            continue
        verdicts.add(_CREATES.search(lead) is None)
    return min(verdicts) if verdicts else None


def _lead(text: str, end: int, size: int = 160) -> str:
    """The sentence before a place."""
    lead = text[max(0, end - size) : end]
    return lead[max((one.end() for one in _SENTENCE.finditer(lead)), default=0) :]


def _is_there(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a file is there, by its path, the end of it, or as a new file in another folder."""
    if path in after or any(one.endswith(f"/{path}") for one in after):
        return True
    base = path.rsplit("/", 1)[-1].lower()
    new = [one for one in after if one not in before]
    return base != "__init__.py" and any(one.rsplit("/", 1)[-1].lower() == base for one in new)


def _path_is_soft(text: str, path: str, there: str) -> bool | None:
    """As for names. A file that a program writes when it runs, or that is only spoken of, is not asked for."""
    ending = path.rsplit(".", 1)[-1].lower()
    if not is_path(path):
        return None
    verdicts = set()
    for one in re.finditer(rf"(?<![\w./-])(?:\./)?{re.escape(path)}(?![\w/])", text):
        lead = text[max(0, one.start() - 160) : one.start()]
        sentence = _lead(text, one.start())
        listed = re.match(r"[`'\"]?\s+(?:to|into)\s", text[one.end() :])
        if _NEW_FILE.search(lead) and not listed:
            verdicts.add(_AT_RUN_TIME.search(sentence) is not None or path.endswith("__init__.py"))
        elif _INTO.search(lead) and _MAKES.search(sentence) and ending in _SOURCE:
            verdicts.add(True)
    if True in verdicts and path.rsplit("/", 1)[-1] in there:
        verdicts.discard(True)
    return min(verdicts) if verdicts else None
