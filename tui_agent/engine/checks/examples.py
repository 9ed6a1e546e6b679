"""What a request itself says can be tried: a call in it with the value that it must give, or the error (E5).

A sentence about a call wants something ("should return 2"), reports something ("returns 2"), or both ("returns 2
instead of 3"). What only reports is a wish where the function is still to be written, and a fault where the request is
about one; where neither is plain nothing is tried, since a wrong check refuses right work.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from tui_agent.engine.checks.example_calls import (
    STRAIGHT,
    STRING,
    Call,
    Known,
    calls_in,
    closed,
    counts_in,
    known_in,
    pairs_in,
)
from tui_agent.engine.checks.project_checks import python
from tui_agent.engine.checks.properties import fill_program, import_program
from tui_agent.protocols.python_source import defined_names, python_trees
from tui_agent.text import one_line
from tui_agent.text.patterns import Patterns

FOLLOWING = 3
"""Sentences after the one with the call that may still speak of it."""


class Statement(msgspec.Struct, frozen=True):
    """One statement."""

    how: str
    """want, not, now (it reports), sign (an arrow or ==), instead."""
    value: str = ""
    error: str = ""
    message: str | None = None
    printed: bool = False
    only_if: str = ""
    """What makes it uncertain: a condition ("if"), one that may not be met in a trial ("state"), or "not"."""

    @property
    def readable(self) -> bool:
        return bool(self.value or self.error)


_EMPTIES = {"list": "[]", "tuple": "()", "dict": "{}", "dictionary": "{}", "set": "set()"}
_SIGN = re.compile(r"^[`\s)]*(?P<verb>==|=(?![=>])|=>|->|→|⇒)")


class RequestText:
    """A request whose strings and brackets can be stepped over: `plain` has the same length as `text`."""

    def __init__(self, text: str, classes: Collection[str]) -> None:
        self.text = text
        self.plain = re.sub(r"\b([ei])\.([ge])\.", r"\1_\2_", text)
        self.plain = re.sub(
            r"(?<!\w)(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")(?!\w)",
            lambda one: f"'{'_' * (len(one.group(0)) - 2)}'",
            self.plain,
        )
        self._classes = classes

    def sentences(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where the sentences between two places start and end, the first ones."""
        found, at = [], start
        for one in _RE.sentence_end.finditer(self.plain, start, end):
            found.append((at, one.start()))
            at = one.end()
        return [*found, (at, end)][: FOLLOWING + 1]

    def sentence_start(self, begin: int, at: int) -> int:
        """Where the sentence starts that a place stands in, from `begin` on."""
        return max((one.end() for one in _RE.sentence_end.finditer(self.plain, begin, at)), default=begin)

    def said(self, how: str, verb: str, at: int, end: int) -> Statement:
        """A statement whose value or error stands behind its verb."""
        verb = verb.lower()
        printed = verb.startswith(("print", "output"))
        if not _RE.raising.match(verb):
            value, after = self.literal(at, end)
            if value:
                ended = _RE.end.match(self.text, after, end)
                only_if = _condition(self.text[after:end].lstrip("` "))
                if how == "now" and re.match(r"[`,\s]*(?:and )?not\b", self.text[after:end]):
                    only_if = "not"
                if ended is not None or only_if:
                    return Statement(how, value=value, printed=printed, only_if=only_if)
                return Statement(how)
            if not re.match(r"give|gave|giving|yield|result|end|$", verb):
                return Statement(how)
        return self._error(how, at, end)

    def literal(self, at: int, end: int) -> tuple[str, int]:
        """The literal behind a place as Python writes it, and where it ends."""
        empty = _RE.empty.match(self.text, at, end)
        if empty is not None:
            return _EMPTIES.get(empty.group(1), "''"), empty.end()
        lead = _RE.lead.match(self.text, at, end)
        at = lead.end() if lead else at
        if at >= end:
            return "", at
        string = STRING.match(self.text, at, end) or _RE.number.match(self.text, at, end)
        after = string.end() if string else -1
        if string is None and (self.text[at] in "[{(" or self.text.startswith("set()", at)):
            after = closed(self.text, at + 3 * self.text.startswith("set()", at))
        if after < 0 or after > end:
            return "", at
        try:
            value = ast.literal_eval(self.text[at:after])
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            return "", at
        return ("", at) if value is ... else (repr(value), after)

    def _error(self, how: str, at: int, end: int) -> Statement:
        found = _RE.error.match(self.text, at, end)
        name = (found.group(1) or "Exception") if found else ""
        if found is None or not (self._is_error(name) or name in self._classes):
            return Statement(how)
        after, message = found.end(), None
        if self.text.startswith("(", after) and (end_of := closed(self.text, after)) > 0:
            message, _ = self.literal(after + 1, end_of - 1)
            after = end_of
        elif (given := _RE.message.match(self.text, after, end)) is not None:
            message, after = self.literal(given.end(), end)
        rest = self.text[after:end].lstrip("`*' ")
        if re.match(r"or\b|/", rest):
            return Statement(how)
        exact = _text(message) if message else None
        return Statement(how, error=name, message=exact, only_if=_condition(rest))

    def _is_error(self, name: str) -> bool:
        known = getattr(builtins, name, None)
        if isinstance(known, type):
            return issubclass(known, BaseException)
        return name.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt"))


def _condition(rest: str) -> str:
    """Whether what stands behind a value or an error is a condition, and of which kind; empty for none."""
    if re.match(r"in (?:that|this) case\b", rest):
        return ""
    if _RE.condition.match(rest) is None:
        return "state" if re.match(r"(?:unless|in|with|without|once|whenever|while)\b", rest) else ""
    return "state" if _RE.state.match(rest.partition(". ")[0]) else "if"


def _text(literal: str) -> str | None:
    """The message that a literal stands for; None where it only shows what the message is like."""
    value = ast.literal_eval(literal)
    return value if isinstance(value, str) and not re.search(r"\.\.\.|…|[{}<>]|%[sdr]", value) else None


# --- statements in order ------------------------------------------------------------------------


def _subject(call: Call) -> str:
    names = "|".join(map(re.escape, call.names))
    return (
        rf"`?(?:it|this|that|(?:the|this) (?:function|method|call|result|output|answer|value)"
        rf"|(?:the (?:function|method) )?(?:{names})(?:\(\))?)`?"
    )


def wish_patterns(call: Call) -> tuple[re.Pattern[str], ...]:
    subject = _subject(call)
    adverb, do, does = (_RE.source(name) for name in ("adverb", "do", "does"))
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"\b(?:make|let|have|makes|lets) {subject}(?: in \S+)?(?P<no> not| never)?{adverb} {do}",
            rf"\b(?:so|so that|such that|until|make sure|make sure that|ensure|ensure that) {subject}{adverb} {does}",
            rf"\b(?:change|fix|adapt|update|get|want|need|like|expect|rewrite|modify|correct) {subject}(?: in \S+)?"
            rf"(?: so as)?(?P<no> not)? to{adverb} {do}",
        )
    )


def statements_after(words: RequestText, call: Call, end: int, known: Collection[str]) -> list[Statement]:
    """The statements behind a call, up to `end`."""
    first, *others = words.sentences(call.end, end)
    sentence = words.plain[first[0] : first[1]]
    found = _in_sentence(words, call, first)
    now = _RE.now.match(sentence)
    sign = _SIGN.match(sentence)
    if now is not None:
        found.insert(0, words.said("now", now.group("verb"), first[0] + now.end(), first[1]))
    elif sign is not None:
        found.insert(0, words.said("sign", "", first[0] + sign.end(), first[1]))
    report = _RE.report.search(sentence) is not None
    if any(one.how in ("want", "not") for one in found) or not (report or now or sign):
        return found
    about_value = any(one.value for one in found if one.how == "now")
    for start, stop in others:
        plain = words.plain[start:stop]
        if set(re.findall(r"[A-Za-z_]\w*", plain)) & (set(known) - set(call.names)):
            break
        more = _in_sentence(words, call, (start, stop), follows=True)
        more = [one for one in more if not (one.only_if and about_value)]
        if more:
            return [*found, *more]
    return found


def _in_sentence(words: RequestText, call: Call, span: tuple[int, int], follows: bool = False) -> list[Statement]:
    """The wishes of one sentence in order; one that `follows` the call's own has to speak of it."""
    start, stop = span
    plain = words.plain[start:stop]
    found: list[tuple[int, Statement]] = []

    def take(one: re.Match[str], how: str) -> None:
        given = one.groupdict()
        how = "off" if given.get("off") else "not" if given.get("no") else how
        verb, at = given.get("verb") or "", start + one.end()
        if how == "want" and (denied := re.compile(r"\s+not\b").match(words.plain, at, stop)) is not None:
            how, at = "not", denied.end()
        said = words.said(how, verb, at, stop)
        if how == "not" and verb in ("fail", "crash") and not said.readable:
            said = Statement("not", error="Exception")
        found.append((one.start(), said))

    for one in _RE.modals.finditer(plain):
        head = re.compile(rf"^(?:{_RE.source('link')},? )*{_subject(call)}(?: in \S+)?,? *$", re.I)
        if not follows or head.match(plain[: one.start()]):
            take(one, "want")
    for pattern in wish_patterns(call):
        for one in pattern.finditer(plain):
            take(one, "want")
    for one in _RE.expected.finditer(plain):
        take(one, "want")
    if follows and (order := _RE.order.match(plain)) is not None:
        take(order, "want")
    direct = None if follows else _RE.to.match(plain)
    ordered = re.search(r"\b(?:make|let|have)\s+`?$", words.plain[: call.start], re.IGNORECASE)  # "make f(1) return 2"
    if direct is not None and (direct.group("to") or ordered):
        take(direct, "want")
    for one in _RE.instead.finditer(plain):
        take(one, "instead")
    for at, said in list(found):
        but = _RE.but.search(plain, at + 1) if said.how == "not" else None
        if but is not None:
            take(but, "want")
    return [said for _, said in sorted(found, key=lambda pair: pair[0])]


def statements_before(words: RequestText, call: Call, begin: int) -> list[Statement]:
    """What is said before a call in its sentence: "return 0 for f([])"."""
    start = words.sentence_start(begin, call.start)
    plain = words.plain[start : call.start]
    ended = _RE.for_call.search(plain)
    orders = [one for pattern in wish_patterns(call) for one in pattern.finditer(plain)]
    wish = next(iter([*_RE.last.finditer(plain), *orders][-1:]), None)
    if wish is None or (ended is None and not re.search(r"\b(?:for|on|when)\b", plain[wish.end() :])):
        return []
    given = wish.groupdict()
    stop = start + (ended.start() if ended else len(plain))
    how = "off" if given.get("off") else "not" if given.get("no") or given.get("no2") else "want"
    said = words.said(how, given.get("verb") or given.get("plain") or "", start + wish.end(), stop)
    return [said] if said.readable and not said.only_if else []


def doctest(words: RequestText, call: Call, end: int) -> list[Statement]:
    """The line below a call in a session of the interpreter."""
    line = words.text[: call.start].rpartition("\n")[2]
    below = re.compile(r"[ \t]*\n[ \t]*(?=\S)").match(words.text, call.end)
    if line.strip(" `\t") != ">>>" or below is None:
        return []
    stop = words.text.find("\n", below.end())
    stop = min(end, stop if stop >= 0 else len(words.text))
    said = words.said("sign", "", below.end(), stop)
    return [said] if said.value and not said.only_if else []


_RE = Patterns("tui_agent.engine.checks", "examples")

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
        return fill_program(
            "example",
            title=one_line(self.expected),
            load=import_program(self.module, self.function.split()),
            near=fill_program("near") if re.search(r"[0-9]", self.want) else "",
            call=self.call,
            caught=self._caught(),
            test=self._test(),
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


def _same(one: str, other: str) -> bool:
    return bool(ast.literal_eval(one) == ast.literal_eval(other))


def _an(error: str) -> str:
    return "an error" if error == "Exception" else error


def _quoted(script: str) -> str:
    """A script as one word of a shell, in double quotes where nothing in it means anything there."""
    return shlex.quote(script) if re.search(r'["$`\\!]', script) else f'"{script}"'


# --- what follows from it -----------------------------------------------------------------------


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
        rf"\b{_RE.source('making')}\s+{filling}{_RE.source('made')}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\bwith\s+(?:an?|the|one|two|three)\s+{filling}{_RE.source('made')}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\b(?:implement|define|write|add|create)\s+`?(?:{name})\b",
        rf"\b(?:implement|define|create)\s+(?:`?\w+`?(?:,| and)\s+){{1,4}}`?(?:{name})\b",
    ]
    if keywords:
        added = "|".join(map(re.escape, keywords))
        patterns.append(
            rf"\b{_RE.source('making')}\s+{filling}(?:arguments?|parameters?|options?|keywords?|flags?)\s+`?(?:{added})\b"
        )
    if unsaid:
        patterns.append(r"\b(?:add|implement|write|create|define) (?:it|them|(?:this|that) function)\b")
    return any(re.search(pattern, plain, re.IGNORECASE) for pattern in patterns)


def _was_missing(call: Call, files: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether a call uses a function, a method or an argument that the files did not have before."""
    called, keywords, placed = _parts(call)
    now = {name.rpartition(".")[2] for text in files.values() for name in defined_names(text)}
    nodes = [node for _, tree in python_trees(before) for node in ast.walk(tree)]
    had = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    if any(name in now and name not in {node.name for node in had} for name in called):
        return True
    taking = [node.args for node in had if not isinstance(node, ast.ClassDef) and node.name in (*called, "__init__")]
    if not taking or any(isinstance(node, ast.ClassDef) and node.name in called for node in had):
        return False
    names = {one.arg for given in taking for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    open_ended = any(given.kwarg is not None for given in taking)
    most = max(len(given.posonlyargs) + len(given.args) + 99 * (given.vararg is not None) for given in taking)
    return (not open_ended and any(one not in names for one in keywords)) or placed > most


def _context(words: RequestText, call: Call, end: int, new: bool) -> _Context:
    start = words.sentence_start(0, call.start)
    before = words.plain[start : call.start]
    after = words.plain[call.end : end + 200]
    purpose = next(iter([*_RE.purpose.finditer(before)][-1:]), None)
    between = before[purpose.end() :] if purpose else ""
    aimed = purpose is not None and ("," not in between or "(" in between) and not _RE.fault.search(between)
    return _Context(
        meant=new or aimed,
        subordinate=_RE.subordinate.search(before) is not None,
        fault_before=_RE.fault.search(words.plain[: call.start]) is not None,
        fault_after=_RE.fault.search(after) is not None or _RE.repair.search(words.plain[call.end :]) is not None,
        supposed=_RE.supposed.search(before) is not None,
    )


def _decided(call: Call, said: list[Statement], around: _Context, contrary: bool) -> tuple[Example | None, bool]:
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
            example, want=want.value, error=want.error, message=want.message, printed=want.printed, wrong=wrong
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


def _is_wish(current: Statement, around: _Context, other: Statement | None) -> bool:
    """Whether an arrow or == shows what is wanted, and not what comes of a fault."""
    if current.how != "sign" or other is not None:
        return False
    return around.supposed or not (around.fault_before or around.fault_after)


def _raised_elsewhere(words: RequestText, call: Call) -> Statement | None:
    """The one error that a request wants somewhere, of a call that it reports as failing."""
    found = {}
    for pattern in (_RE.modals, *wish_patterns(call), re.compile(r"(?m)(?:^|\. )(?P<verb>Raise)\b")):
        for one in pattern.finditer(words.plain):
            if one.group("verb").lower() in ("raise", "throw", "fail with") and not (
                one.groupdict().get("no") or one.groupdict().get("off")
            ):
                said = words.said("want", "raise", one.end(), len(words.text))
                found[(said.error, said.message)] = said
    only = next(iter(found.values()), None)
    return only if len(found) == 1 and only is not None and only.error else None


def _read(
    words: RequestText, calls: list[Call], known: Collection[str], new: Callable[[Call], bool]
) -> Iterator[tuple[Example, bool]]:
    single = len({call.text for call in calls if call.text}) == 1
    for at, call in enumerate(calls[:CALLS]):
        if not call.text:
            continue
        end = calls[at + 1].start if at + 1 < len(calls) else len(words.text)
        said = doctest(words, call, end) or statements_after(words, call, end, known)
        if not any(one.how in ("want", "now", "sign") for one in said):
            said = [*statements_before(words, call, calls[at - 1].end if at else 0), *said]
        first = words.plain[call.end : words.sentences(call.end, end)[0][1]]
        failing = _RE.report.search(first) is not None and not any(one.value for one in said)
        if single and failing and not any(one.how in ("want", "not", "instead") for one in said):
            said += filter(None, [_raised_elsewhere(words, call)])
        around = _context(words, call, end, new(call))
        contrary = _RE.against.search(first) is not None
        example, alone = _decided(call, said, around, contrary)
        if example is not None:
            yield example, alone and not single


def examples_in(request: str, files: Mapping[str, str], before: Mapping[str, str] | None = None) -> list[Example]:
    """The examples in a request of functions that the Python files define (path → content).

    `before`: the files as they were; what they don't define is to be written, so what is said of it is wanted.
    """
    text = request[:LONGEST].translate(STRAIGHT)
    known = known_in(text, files)
    calls = calls_in(text, known)
    words = RequestText(text, [name for name, one in known.items() if one is not None and one.kind == "class"])

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
    found = [*pairs_in(text, files), *counts_in(text, known)]
    given = [(known.get(name), name, call, value) for name, call, value in found]
    return [Example(call, home.module, name, want=value) for home, name, call, value in given if home][:LIMIT]
