"""What a request says by its words alone: whether something has to change, what is named, what can be tried.

No model is asked for this. What the words leave open is `unclear`, and the reply decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

import msgspec

from tui_agent.protocols.file_reply import named_paths

Kind = Literal["question", "change", "command", "unclear"]

SHORT = 400
"""Characters of a request that may be small enough to need no plan (E8)."""
SENTENCES = 3
_CHANGING = (
    "accept|add|adapt|adjust|allow|append|apply|avoid|bump|change|clean|comment|convert|copy|correct|create|decouple"
    "|delete|deprecate|disable|document|drop|edit|enable|ensure|escape|export|expose|extend|extract|fix|format|generate"
    "|give|handle|ignore|implement|improve|inline|insert|install|introduce|let|localize|make|mark|memoize|mend|merge"
    "|migrate|modify|move|optimize|optimise|pin|port|prepend|prevent|raise|reduce|refactor|reformat|remove|rename"
    "|reorder|repair|replace|return|reverse|rewrite|round|save|set|simplify|skip|solve|sort|speed|split|strip|support"
    "|swap|switch|translate|turn|type|uncomment|update|upgrade|use|validate|wrap|write"
)
_RUNNING = "run|execute|start|launch|build|compile|test|commit|push|check|verify"
_POLITE = (
    r"(?:please[,:]?|(?:can|could|would|will) you(?: please)?|now|then|also|and|just|let's|you should|you must"
    r"|i want you to|i need you to|i'd like you to|go ahead and|first)"
)
_IMPERATIVE = re.compile(rf"^(?:{_POLITE}\s+)*(?:{_CHANGING})\b", re.IGNORECASE)
_WORDING = re.compile(
    rf"^(?:{_POLITE}\s+)*(?:write|give|make|create|generate|translate|improve|round|sort|type|return|use|convert|turn"
    r"|split|let|mark|set|correct)\b",
    re.IGNORECASE,
)
"""Verbs that also ask for words alone: "write a haiku"."""
_PART = re.compile(
    r"\b(?:file|folder|function|method|class|module|package|script|program|project|code|tests?|test suite|option|flag"
    r"|argument|parameter|variable|constant|field|column|table|section|heading|docstring|comment|readme|changelog"
    r"|config(?:uration)?|settings?|page|button|endpoint|api|command|import|bug|error|type hints?|loop|query|database"
    r"|branch|commit|version|dependency|dependencies|server|app|application|website|site|game|tool|library|cli|it|them)\b",
    re.IGNORECASE,
)
_COMMAND = re.compile(rf"^(?:{_POLITE}\s+)*(?:{_RUNNING})\b", re.IGNORECASE)
_DEMAND = re.compile(
    r"\b(?:must|should|has to|have to|needs? to|ought to|shall)\b"
    r"|\b(?:fix|repair|solve|correct) (?:it|this|that|them|the)\b|\b(?:i|we) (?:want|need|would like|'d like)\b"
    r"|\bi'd like\b",
    re.IGNORECASE,
)
_FAULT = re.compile(
    r"\b(?:fails?|crash(?:es)?|breaks?|hangs?|is wrong|is broken|is missing|are missing|does not work|doesn't work"
    r"|instead of|by mistake|off by one)\b",
    re.IGNORECASE,
)
"""What a report of a fault says; of a file that is named it asks for a repair."""
_NOTHING = re.compile(
    r"\b(?:do not|don't|without|never) (?:chang|edit|modify|modif|touch|writ|creat)\w* "
    r"(?:anything|any files?|any code|files|the code|the project|code)\b(?! else| except| but| beside)"
    r"|\bchange nothing\b(?! else| except| but)|\bonly (?:answer|explain|tell|describe)\b"
    r"|\bjust (?:answer|explain|tell me)\b|\bread[- ]only\b|\bno (?:changes|edits)\b",
    re.IGNORECASE,
)
_ASKING = re.compile(
    r"^(?:and |so |but )?(?:what|which|where|when|who|whom|whose|why|how|have a look|explain"
    r"|describe|tell me|show me|list|find|summari[sz]e|compare)\b",
    re.IGNORECASE,
)
_CLAUSES = re.compile(r"[,;:] |\band\b|\bthen\b")
_GOING = (
    "remov",
    "delet",
    "renam",
    "drop",
    "mov",
    "replac",
    "extract",
    "split",
    "inlin",
    "rid of",
    "merg",
    "instead",
)
"""How words begin by which a definition may vanish."""
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LIST = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+\S", re.MULTILINE)
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\.\w+)*)\(")
_NAME = re.compile(
    r"(?<![\w./-])(--[A-Za-z][\w-]*|[A-Za-z_]\w*_\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|[a-z]+[A-Z]\w*)(?![\w/-])"
)
_QUOTED = re.compile(r"`([^`\n]+)`")
_RUNS = re.compile(
    r"(?:python[\d.]*|node|ruby|php|perl|bash|sh) [\w./-]+\.\w+|pytest\b"
    r"|python[\d.]* (?:-\w+ )*-m (?:unittest|pytest|doctest)\b"
    r"|tox\b|nox\b|(?:npm|pnpm|yarn|bun) (?:run |test)|cargo (?:test|check|build|clippy)|go (?:test|vet|build)|make\b"
    r"|ruff\b|mypy\b|dotnet test|mvn |gradle |\./gradlew |ctest\b|zig build|deno (?:test|check)|rspec\b|bundle exec"
    r"|mix test|swift test"
)
_BEFORE = re.compile(
    r"^(?:[A-Za-z_]\w*=\S*\s+)*(?:(?:uv|poetry|pipenv|pdm|hatch|rye) run\s+)?(?:[^\s'\"]*\bbin/)?"
)
"""What may stand before a program's name: variables, the runner of a project's environment, a folder of programs."""
_BARE_RUN = re.compile(r"\b(python3? (?:-m (?:unittest|pytest)(?: [\w./-]+)?|[\w./-]+\.py))\b")


class Reading(msgspec.Struct, frozen=True):
    """A request as its words can be read."""

    text: str
    kind: Kind
    paths: tuple[str, ...] = ()
    """Relative paths of files that it names."""
    names: tuple[str, ...] = ()
    """Functions, options and other identifiers that it names."""
    commands: tuple[str, ...] = ()
    """Commands that it names to show that the work is done."""
    small: bool = False
    """It names one small thing: no plan is needed (E8)."""


def read_request(text: str) -> Reading:
    """Read a request. Takes time in proportion to its length; never raises."""
    prose = _CODE.sub(" ", text[:20_000])
    names = [one.group(1) for one in _CALLED.finditer(prose)] + [
        one.group(1) for one in _NAME.finditer(prose)
    ]
    paths = named_paths(prose)
    stems = {path.rsplit("/", 1)[-1].partition(".")[0] for path in paths}
    wanted = [
        name
        for name in dict.fromkeys(names)
        if not name.endswith(("Error", "Exception")) and name not in stems
    ]
    return Reading(
        text=text,
        kind=kind_of(prose),
        paths=tuple(paths),
        names=tuple(wanted),
        commands=tuple(_commands(prose)),
        small=is_small(text),
    )


def kind_of(text: str) -> Kind:
    """Whether a request wants an answer, a change, or a command to be run, as far as its words tell."""
    if _NOTHING.search(text):
        return "question"
    found: set[Kind] = set()
    for sentence in _sentences(text):
        clauses = [] if sentence.endswith("?") else _CLAUSES.split(sentence)
        doing = [clause.strip() for clause in (sentence, *clauses) if _IMPERATIVE.match(clause.strip())]
        if any(not _WORDING.match(one) or _is_about_code(text) for one in doing):
            found.add("change")
        elif sentence.endswith("?") or _ASKING.match(sentence):
            found.add("question")
        elif _COMMAND.match(sentence):
            found.add("command")
        elif _DEMAND.search(sentence) or (_FAULT.search(sentence) and named_paths(text)):
            found.add("change")
    for kind in ("change", "question", "command"):
        if kind in found:
            return kind
    return "unclear"


def _is_about_code(text: str) -> bool:
    """Whether a request names a file, an identifier, or a part of a program."""
    named = _CALLED.search(text) or _NAME.search(text) or _PART.search(text)
    return named is not None or bool(named_paths(text))


def is_small(text: str) -> bool:
    """Whether a request is short and names one thing to do: no list, few sentences."""
    stripped = text.strip()
    if len(stripped) > SHORT or len(_LIST.findall(stripped)) > 1 or "\n\n" in stripped:
        return False
    return len(_sentences(stripped)) <= SENTENCES


def listed(text: str) -> list[str]:
    """The items of a request that is a list of things to do; empty where it is none."""
    items = [line.strip() for line in text.splitlines() if _LIST.match(line)]
    items = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", item) for item in items]
    doing = [
        item for item in items if _IMPERATIVE.match(item) or _COMMAND.match(item) or _DEMAND.search(item)
    ]
    return items if len(items) > 1 and len(doing) == len(items) else []


def names_to_go(text: str) -> frozenset[str]:
    """Names that a request lets go: all that it mentions where it removes, renames or moves something."""
    if not speaks_of(text, _GOING):
        return frozenset()
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


def speaks_of(text: str, words: Collection[str]) -> bool:
    """Whether one of the words, or a form of it, stands in a text."""
    return re.search(rf"\b(?:{'|'.join(words)})", text, re.IGNORECASE) is not None


def runs_something(command: str) -> bool:
    """Whether a command line shows that something works: tests, builds, checks, a script of the project."""
    stripped = command.strip()
    return any(_RUNS.match(one) for one in (stripped, _BEFORE.sub("", stripped, count=1)))


def _commands(text: str) -> list[str]:
    found = [one.group(1).strip() for one in _QUOTED.finditer(text) if runs_something(one.group(1))]
    bare = [one.group(1) for one in _BARE_RUN.finditer(_QUOTED.sub(" ", text))]
    return list(dict.fromkeys([*found, *bare]))


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<=[.!?])\s+|\n+", text.strip())
    return [part.strip(" \t-*•>#\"'") for part in parts if part.strip(" \t-*•>#\"'")]
