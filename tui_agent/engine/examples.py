"""What a request itself says can be tried: a call in it with the value that it must give, or the error (E5).

A sentence about a call wants something ("should return 2"), reports something ("returns 2"), or both ("returns 2
instead of 3"). What only reports is a wish where the function is still to be written, and a fault where the request is
about one; where neither is plain nothing is tried, since a wrong check refuses right work.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from tui_agent.engine.example_calls import STRAIGHT, Call, Known, calls_in, known_in
from tui_agent.engine.example_counts import counts_in
from tui_agent.engine.example_pairs import pairs_in
from tui_agent.engine.example_words import (
    AGAINST,
    BREAK,
    MODALS,
    REPORT,
    Said,
    Words,
    doctest,
    stated,
    stated_before,
    wishes,
)
from tui_agent.engine.project_checks import python
from tui_agent.engine.properties import loading
from tui_agent.protocols.python_source import definitions, parsed
from tui_agent.text import one_line

LIMIT = 5
"""Examples that are tried."""
LONGEST = 20_000
"""Characters of a request that are read."""
CALLS = 40
"""Calls that are looked at."""


class Example(msgspec.Struct, frozen=True):
    """A call and what has to come of it."""

    call: str
    module: str
    function: str
    """The names of the module that the call uses, the first one first."""
    want: str = ""
    """The value as Python writes it."""
    wrong: str = ""
    """The value that it gives now and must not give."""
    error: str = ""
    """The class of the error that it has to raise."""
    message: str | None = None
    never: str = ""
    """The class of the error that it must not raise."""
    printed: bool = False
    """The value is a text that it prints."""

    @property
    def command(self) -> str:
        """A command that succeeds where the example holds, prints what came instead, and ends with `UNTRIED` where
        nothing could be tried."""
        return f"{python()} -B -c {_quoted(self._script())}"

    @property
    def expected(self) -> str:
        """What has to come of it, for people and models."""
        does = "print" if self.printed else "return"
        if self.error:
            given = f"({self.message!r})" if self.message is not None else ""
            return f"{self.call} must raise {_an(self.error)}{given}"
        if self.never:
            return f"{self.call} must not raise {_an(self.never)}"
        if self.want:
            return f"{self.call} must {does} {self.want}"
        return f"{self.call} must not {does} {self.wrong}"

    def _script(self) -> str:
        listing = "_got = list(itertools.islice(_got, 1000)) if hasattr(_got, '__next__') else _got"
        return (
            f"# {one_line(self.expected)}\n"
            f"{loading(self.module, self.function.split())}"
            f"{_NEAR if re.search(r'[0-9]', self.want) else ''}"
            "_said = io.StringIO()\n"
            "try:\n"
            "    with contextlib.redirect_stdout(_said):\n"
            f"        _got = {self.call}\n"
            f"        {listing}\n"
            "except BaseException as _error:\n"
            "    _kinds = [one.__name__ for one in type(_error).__mro__]\n"
            f"{self._caught()}"
            "    if 'EOFError' in _kinds or 'SystemExit' in _kinds:\n"
            "        _untried('it reads its input or ends the program')\n"
            "    raise\n"
            "if hasattr(_got, '__await__'):\n"
            "    _untried('it is asynchronous')\n"
            f"{self._test()}"
        )

    def _caught(self) -> str:
        """What an error means, as the lines of a program."""
        if self.never:
            return f"    sys.exit('it raised ' + repr(_error) if {self.never!r} in _kinds else 0)\n"
        if not self.error:
            return ""
        same = "True" if self.message is None else f"{self.message!r} in (str(_error), *_error.args)"
        return f"    if {self.error!r} in _kinds:\n        sys.exit(0 if {same} else 'it raised ' + repr(_error))\n"

    def _test(self) -> str:
        """What a result means, as the lines of a program."""
        if self.never:
            return ""
        told = "'it returned ' + repr(_got)[:300]"
        if self.printed:
            told = "'it printed ' + repr(_said.getvalue())[:300]"
            good = f"str({self.want}) in _said.getvalue() or _got == {self.want}"
        elif self.error:
            good = "False"
        elif not self.want:
            good = f"repr(_got) != {self.wrong!r}"
        elif self.wrong and _same(self.want, self.wrong):
            good = f"repr(_got) == {self.want!r}"
        else:
            good = f"_near(_got, {self.want})" if re.search(r"[0-9]", self.want) else f"_got == {self.want}"
        return f"if not ({good}):\n    sys.exit({told})\n"


_NEAR = """\
def _near(a, b):
    if isinstance(a, float) or isinstance(b, float):
        try:
            return math.isclose(a, b, abs_tol=1e-12)
        except (TypeError, ValueError, OverflowError):
            return a == b
    if type(a) is type(b) and isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_near(a[one], b[one]) for one in b)
    return a == b
"""
"""Whether two values are equal, sums of fractions nearly so."""


def _same(one: str, other: str) -> bool:
    return bool(ast.literal_eval(one) == ast.literal_eval(other))


def _an(error: str) -> str:
    return "an error" if error == "Exception" else error


def _quoted(script: str) -> str:
    """A script as one word of a shell, in double quotes where nothing in it means anything there."""
    return shlex.quote(script) if re.search(r'["$`\\!]', script) else f'"{script}"'


# --- what follows from it -----------------------------------------------------------------------

_FAULT = re.compile(
    r"\b(?:bugs?|buggy|wrong(?:ly)?|incorrect(?:ly)?|faults?|faulty|mistakes?|mistaken(?:ly)?|broken|defects?"
    r"|not (?:right|correct)|off by one|misbehav\w*)\b",
    re.IGNORECASE,
)
_REPAIR = re.compile(r"\b(?:fix|repair|correct|mend|solve|debug)\b", re.IGNORECASE)
_PURPOSE = re.compile(
    r"\b(?:(?:so|such|check|verify) that|so(?=\s+`?$)|ensures?|make sure|makes sure|guarantee|until)\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:should|must|expect\w*|wanted|assert)\b", re.IGNORECASE)
_SUBORDINATE = re.compile(
    r"\b(?:if|when|whenever|because|since|although|why|whether|once|as|does|did)\s+`?$", re.I
)
_MAKING = r"(?:add|write|create|implement|define|introduce|provide|build|make|need|want|code)"
_MADE = r"(?:functions?|methods?|helpers?|class(?:es)?|predicates?|routines?|generators?)"


class _Context(msgspec.Struct, frozen=True):
    """What the request says around a call."""

    meant: bool
    """The call's function is to be written, or the sentence says what for something is done."""
    subordinate: bool
    fault_before: bool
    fault_after: bool
    supposed: bool


def _parts(call: Call) -> tuple[list[str], list[str], int]:
    """The functions, classes and methods that a call uses, its keywords, and how many arguments are in their places."""
    tree = ast.parse(call.text, mode="eval").body
    every = list(ast.walk(tree))
    names = [*call.names, *(one.attr for one in every if isinstance(one, ast.Attribute))]
    keywords = [one.arg for one in every if isinstance(one, ast.keyword) and one.arg]
    simple = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == call.names[0]
    return names, keywords, len(tree.args) if simple and isinstance(tree, ast.Call) else 0


def _is_new(call: Call, plain: str, unsaid: bool) -> bool:
    """Whether a request asks for what a call uses; `unsaid`: nobody knows whether the project had it before."""
    called, keywords, _ = _parts(call)
    name = "|".join(map(re.escape, called))
    filling = r"(?:(?!(?:to|in|for|of|from|with|tests?)\b)[\w-]+\s+){0,4}"
    patterns = [
        rf"\b{_MAKING}\s+{filling}{_MADE}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\bwith\s+(?:an?|the|one|two|three)\s+{filling}{_MADE}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\b(?:implement|define|write|add|create)\s+`?(?:{name})\b",
        rf"\b(?:implement|define|create)\s+(?:`?\w+`?(?:,| and)\s+){{1,4}}`?(?:{name})\b",
    ]
    if keywords:
        added = "|".join(map(re.escape, keywords))
        patterns.append(
            rf"\b{_MAKING}\s+{filling}(?:arguments?|parameters?|options?|keywords?|flags?)\s+`?(?:{added})\b"
        )
    if unsaid:
        patterns.append(r"\b(?:add|implement|write|create|define) (?:it|them|(?:this|that) function)\b")
    return any(re.search(pattern, plain, re.IGNORECASE) for pattern in patterns)


def _was_missing(call: Call, files: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether a call uses a function, a method or an argument that the files did not have before."""
    called, keywords, placed = _parts(call)
    now = {name.rpartition(".")[2] for text in files.values() for name in definitions(text)}
    trees = [
        tree for path, text in before.items() if path.endswith(".py") and (tree := parsed(text)) is not None
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    had = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    if any(name in now and name not in {node.name for node in had} for name in called):
        return True
    taking = [
        node.args for node in had if not isinstance(node, ast.ClassDef) and node.name in (*called, "__init__")
    ]
    if not taking or any(isinstance(node, ast.ClassDef) and node.name in called for node in had):
        return False
    names = {one.arg for given in taking for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    open_ended = any(given.kwarg is not None for given in taking)
    most = max(len(given.posonlyargs) + len(given.args) + 99 * (given.vararg is not None) for given in taking)
    return (not open_ended and any(one not in names for one in keywords)) or placed > most


def _context(words: Words, call: Call, end: int, new: bool) -> _Context:
    start = 0
    for one in BREAK.finditer(words.plain, 0, call.start):
        start = one.end()
    before = words.plain[start : call.start]
    after = words.plain[call.end : end + 200]
    purpose = next(iter([*_PURPOSE.finditer(before)][-1:]), None)
    between = before[purpose.end() :] if purpose else ""
    aimed = purpose is not None and ("," not in between or "(" in between) and not _FAULT.search(between)
    return _Context(
        meant=new or aimed,
        subordinate=_SUBORDINATE.search(before) is not None,
        fault_before=_FAULT.search(words.plain[: call.start]) is not None,
        fault_after=_FAULT.search(after) is not None or _REPAIR.search(words.plain[call.end :]) is not None,
        supposed=_SUPPOSED.search(before) is not None,
    )


def _decided(call: Call, said: list[Said], around: _Context, contrary: bool) -> tuple[Example | None, bool]:
    """The example that follows, and whether it holds only where the request has no other."""
    example = Example(call=call.text, module=call.module, function=" ".join(call.names))
    current = next((one for one in said if one.how in ("now", "sign")), None)
    if any(one.how == "off" for one in said) or (current and around.subordinate and current.how == "now"):
        return None, False
    unwanted = next((one for one in said if one.how == "not"), None)
    other = next((one for one in said if one.how == "instead"), None)
    want = next((one for one in said if one.how == "want"), None)
    if want is None and current is not None and (around.meant or _is_wish(current, around, other)):
        want, unwanted = current, other
    elif want is None and current is not None and other is not None:
        want = other
    elif want is not None and current is None and unwanted is None:
        unwanted = other
    if current is not None and current.how == "now" and current is not want:
        unwanted = unwanted or current
    wrong = unwanted.value if unwanted else ""
    if want is not None and want.readable and want.only_if != "state":
        wrong = wrong if want.value and not want.printed else ""
        wanted = msgspec.structs.replace(
            example,
            want=want.value,
            error=want.error,
            message=want.message,
            printed=want.printed,
            wrong=wrong,
        )
        return wanted, False
    if unwanted is None or unwanted.only_if or unwanted.printed:
        return None, False
    if unwanted is not current:
        plain = want is None and unwanted.readable
        found = msgspec.structs.replace(example, wrong=wrong, never=unwanted.error)
        return (found if plain else None), False
    if not wrong or (want is not None and not contrary):
        return None, False
    known_wrong = want is not None or around.fault_before or around.fault_after
    return (msgspec.structs.replace(example, wrong=wrong) if known_wrong else None), want is None


def _is_wish(current: Said, around: _Context, other: Said | None) -> bool:
    """Whether an arrow or == shows what is wanted, and not what comes of a fault."""
    if current.how != "sign" or other is not None:
        return False
    return around.supposed or not (around.fault_before or around.fault_after)


def _raised_elsewhere(words: Words, call: Call) -> Said | None:
    """The one error that a request wants somewhere, of a call that it reports as failing."""
    found = {}
    for pattern in (MODALS, *wishes(call), re.compile(r"(?m)(?:^|\. )(?P<verb>Raise)\b")):
        for one in pattern.finditer(words.plain):
            if one.group("verb").lower() in ("raise", "throw", "fail with") and not (
                one.groupdict().get("no") or one.groupdict().get("off")
            ):
                said = words.said("want", "raise", one.end(), len(words.text))
                found[(said.error, said.message)] = said
    only = next(iter(found.values()), None)
    return only if len(found) == 1 and only is not None and only.error else None


def _read(
    words: Words, calls: list[Call], known: Collection[str], new: Callable[[Call], bool]
) -> Iterator[tuple[Example, bool]]:
    single = len({call.text for call in calls if call.text}) == 1
    for at, call in enumerate(calls[:CALLS]):
        if not call.text:
            continue
        end = calls[at + 1].start if at + 1 < len(calls) else len(words.text)
        said = doctest(words, call, end) or stated(words, call, end, known)
        if not any(one.how in ("want", "now", "sign") for one in said):
            said = [*stated_before(words, call, calls[at - 1].end if at else 0), *said]
        first = words.plain[call.end : words.sentences(call.end, end)[0][1]]
        failing = REPORT.search(first) is not None and not any(one.value for one in said)
        if single and failing and not any(one.how in ("want", "not", "instead") for one in said):
            said += filter(None, [_raised_elsewhere(words, call)])
        around = _context(words, call, end, new(call))
        contrary = AGAINST.search(first) is not None
        example, alone = _decided(call, said, around, contrary)
        if example is not None:
            yield example, alone and not single


def examples_in(
    request: str, files: Mapping[str, str], before: Mapping[str, str] | None = None
) -> list[Example]:
    """The examples in a request of functions that the Python files define (path → content).

    `before`: the files as they were; what they don't define is to be written, so what is said of it is wanted.
    """
    text = request[:LONGEST].translate(STRAIGHT)
    known = known_in(text, files)
    calls = calls_in(text, known)
    words = Words(text, [name for name, one in known.items() if one is not None and one.kind == "class"])

    def new(call: Call) -> bool:
        if _is_new(call, words.plain, unsaid=before is None):
            return True
        return before is not None and _was_missing(call, files, before)

    found: dict[str, Example | None] = {}
    for example, doubtful in _read(words, calls, known, new):
        earlier = found.get(example.call)
        if doubtful or example == earlier:
            continue
        if earlier is None:
            found.setdefault(example.call, example)
        elif bool(earlier.want or earlier.error) == bool(example.want or example.error):
            found[example.call] = None
        elif example.want or example.error:
            found[example.call] = example
    return [one for one in found.values() if one is not None][:LIMIT] or _others(text, files, known)


def _others(text: str, files: Mapping[str, str], known: Mapping[str, Known | None]) -> list[Example]:
    """What a request says of a function without a call that can be tried as it stands."""
    given = [(call.partition("(")[0], call, value) for _, call, value in pairs_in(text, files)]
    found = []
    for name, call, value in [*given, *counts_in(text, known)]:
        home = known.get(name)
        if home is not None:
            found.append(Example(call, home.module, name, want=value))
    return found[:LIMIT]
