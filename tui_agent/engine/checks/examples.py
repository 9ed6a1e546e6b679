"""The examples in a request: calls with the value or error they must produce (E5).

A sentence about a call states what is wanted ("should return 2"), what happens now ("returns 2"), or both ("returns 2
instead of 3"). A report alone is a wish if the function does not exist yet, and a fault if the request is about one.
Anything ambiguous is not tried, since a wrong check rejects correct work.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from tui_agent.engine.checks.example_calls import (
    STRAIGHT_QUOTES,
    ProjectCallable,
    RequestCall,
    counted_results,
    find_calls,
    find_closing_bracket,
    index_callables,
    mapped_values,
    read_literal,
)
from tui_agent.engine.checks.project_checks import python_program
from tui_agent.engine.checks.properties import fill_program, import_program
from tui_agent.engine.checks.request_reading import MAX_LENGTH
from tui_agent.protocols.python_source import defined_names, python_trees
from tui_agent.text import one_line
from tui_agent.text.patterns import Patterns

MAX_SENTENCES = 4
"""Sentences that may be about a call, including its own."""
MAX_EXAMPLES = 5
MAX_CALLS = 40
"""Calls of a request that are read."""
_RE = Patterns("tui_agent.engine.checks", "examples")

Relation = Literal["wanted", "unwanted", "waived", "current", "sign", "instead"]
"""What a statement says of a result: it is wanted, unwanted, or not required ("need not return"); the call has it now;
an arrow or `==` shows it; or another one comes instead of it."""


class Statement(msgspec.Struct, frozen=True):
    """A statement about the result of a call."""

    relation: Relation
    value: str = ""
    error: str = ""
    message: str | None = None
    printed: bool = False
    condition: str = ""
    """Why it is uncertain: `if`, a condition; `state`, a condition a trial may not meet; `not`, a negation."""

    @property
    def has_result(self) -> bool:
        return bool(self.value or self.error)


_EMPTY_VALUES = {"list": "[]", "tuple": "()", "dict": "{}", "dictionary": "{}", "set": "set()"}
_SIGN = re.compile(r"^[`\s)]*(?:==|=(?![=>])|=>|->|→|⇒)")
Span = tuple[int, int]


class RequestText:
    """A request with a copy of equal length, `masked`, in which strings and abbreviations contain no punctuation."""

    def __init__(self, text: str, classes: Collection[str]) -> None:
        self.text = text
        self.masked = re.sub(
            r"(?<!\w)(?:'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")(?!\w)",
            lambda match: f"'{'_' * (len(match[0]) - 2)}'",
            re.sub(r"\b([ei])\.([ge])\.", r"\1_\2_", text),
        )
        self._classes = classes

    def sentences(self, start: int, end: int) -> list[Span]:
        """Return the spans of the first sentences between two positions."""
        spans, at = [], start
        for match in _RE.sentence_end.finditer(self.masked, start, end):
            spans.append((at, match.start()))
            at = match.end()
        return [*spans, (at, end)][:MAX_SENTENCES]

    def sentence_start(self, start: int, at: int) -> int:
        """Return where the sentence at a position starts, not before `start`."""
        return max((match.end() for match in _RE.sentence_end.finditer(self.masked, start, at)), default=start)

    def match_statement(self, match: re.Match[str], relation: Relation, start: int, end: int) -> Statement:
        """Parse the statement introduced by a match within the span from `start` to `end`."""
        groups = match.groupdict()
        relation, at = _match_relation(match, relation), start + match.end()
        if relation == "wanted" and (negation := re.compile(r"\s+not\b").match(self.masked, at, end)) is not None:
            relation, at = "unwanted", negation.end()
        verb = groups.get("verb") or groups.get("order_verb") or ""
        statement = self.parse_statement(relation, verb, at, end)
        if relation == "unwanted" and verb in ("fail", "crash") and not statement.has_result:
            return Statement("unwanted", error="Exception")
        return statement

    def parse_statement(self, relation: Relation, verb: str, start: int, end: int) -> Statement:
        """Parse the value or error after a verb."""
        verb = verb.lower()
        if not _RE.raise_verb.match(verb):
            value, after = self.parse_literal(start, end)
            if value:
                rest = self.text[after:end]
                condition = _condition(rest.lstrip("` "))
                if relation == "current" and re.match(r"[`,\s]*(?:and )?not\b", rest):
                    condition = "not"
                if not condition and _RE.value_end.match(self.text, after, end) is None:
                    return Statement(relation)
                return Statement(relation, value, printed=verb.startswith(("print", "output")), condition=condition)
            if not re.match(r"give|gave|giving|yield|result|end|$", verb):
                return Statement(relation)
        return self._parse_error(relation, start, end)

    def parse_literal(self, start: int, end: int) -> tuple[str, int]:
        """Return the literal after a position as normalized Python source, and where it ends."""
        empty = _RE.empty_value.match(self.text, start, end)
        if empty is not None:
            return _EMPTY_VALUES.get(empty[1], "''"), empty.end()
        lead = _RE.value_lead.match(self.text, start, end)
        start = lead.end() if lead else start
        source = read_literal(self.text, start, end, _RE.number)
        value = ast.literal_eval(source) if source else ...
        return ("", start) if value is ... else (repr(value), start + len(source))

    def _parse_error(self, relation: Relation, start: int, end: int) -> Statement:
        match = _RE.error_name.match(self.text, start, end)
        name = (match[1] or "Exception") if match else ""
        if match is None or not (_is_error(name) or name in self._classes):
            return Statement(relation)
        after, message = match.end(), ""
        if self.text.startswith("(", after) and (closing := find_closing_bracket(self.text, after)) > 0:
            message, _ = self.parse_literal(after + 1, closing - 1)
            after = closing
        elif (lead := _RE.error_message.match(self.text, after, end)) is not None:
            message, after = self.parse_literal(lead.end(), end)
        rest = self.text[after:end].lstrip("`*' ")
        if re.match(r"or\b|/", rest):
            return Statement(relation)
        return Statement(relation, error=name, message=_exact_message(message), condition=_condition(rest))


def _is_error(name: str) -> bool:
    known = getattr(builtins, name, None)
    if isinstance(known, type):
        return issubclass(known, BaseException)
    return name.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt"))


def _match_relation(match: re.Match[str], relation: Relation) -> Relation:
    groups = match.groupdict()
    if groups.get("waived"):
        return "waived"
    return "unwanted" if groups.get("negated") or groups.get("negated_order") else relation


def _condition(rest: str) -> str:
    """Return the kind of condition that follows a value or an error; empty if there is none."""
    if re.match(r"in (?:that|this) case\b", rest):
        return ""
    if _RE.condition.match(rest) is None:
        return "state" if re.match(r"(?:unless|in|with|without|once|whenever|while)\b", rest) else ""
    return "state" if _RE.unknown_state.match(rest.partition(". ")[0]) else "if"


def _exact_message(literal: str) -> str | None:
    """Return the message that a literal denotes; None if it has placeholders or is not a string."""
    value = ast.literal_eval(literal) if literal else None
    return value if isinstance(value, str) and not re.search(r"\.\.\.|…|[{}<>]|%[sdr]", value) else None


# --- statements in order ------------------------------------------------------------------------


def _subject(call: RequestCall) -> str:
    names = "|".join(map(re.escape, call.names))
    return (
        rf"`?(?:it|this|that|(?:the|this) (?:function|method|call|result|output|answer|value)"
        rf"|(?:the (?:function|method) )?(?:{names})(?:\(\))?)`?"
    )


def _find_wishes(call: RequestCall, text: str) -> list[re.Match[str]]:
    """Return the phrases that demand something of a call, such as "make it return"."""
    subject = _subject(call)
    adverbs, base_verb, present_verb = (_RE.source(name) for name in ("adverbs", "base_verb", "present_verb"))
    patterns = (
        rf"\b(?:make|let|have|makes|lets) {subject}(?: in \S+)?(?P<negated> not| never)?{adverbs} {base_verb}",
        rf"\b(?:so|so that|such that|until|make sure|make sure that|ensure|ensure that) {subject}{adverbs}"
        rf" {present_verb}",
        rf"\b(?:change|fix|adapt|update|get|want|need|like|expect|rewrite|modify|correct) {subject}(?: in \S+)?"
        rf"(?: so as)?(?P<negated> not)? to{adverbs} {base_verb}",
    )
    return [match for pattern in patterns for match in re.finditer(pattern, text, re.IGNORECASE)]


def _statements_after(words: RequestText, call: RequestCall, end: int, known: Collection[str]) -> list[Statement]:
    """Return the statements after a call, up to `end`."""
    (start, stop), *others = words.sentences(call.end, end)
    sentence = words.masked[start:stop]
    found = _sentence_statements(words, call, (start, stop))
    reported = _RE.reported.match(sentence)
    sign = _SIGN.match(sentence)
    if reported is not None:
        found.insert(0, words.parse_statement("current", reported["verb"], start + reported.end(), stop))
    elif sign is not None:
        found.insert(0, words.parse_statement("sign", "", start + sign.end(), stop))
    is_report = reported or sign or _RE.failure_report.search(sentence)
    if any(item.relation in ("wanted", "unwanted") for item in found) or not is_report:
        return found
    reports_value = any(item.value for item in found if item.relation == "current")
    for span in others:
        if set(re.findall(r"[A-Za-z_]\w*", words.masked[slice(*span)])) & (set(known) - set(call.names)):
            break
        more = _sentence_statements(words, call, span, is_later=True)
        more = [item for item in more if not (item.condition and reports_value)]
        if more:
            return [*found, *more]
    return found


def _sentence_statements(
    words: RequestText, call: RequestCall, span: Span, *, is_later: bool = False
) -> list[Statement]:
    """Return the wishes of a sentence in order. `is_later`: it follows the call's own sentence and must refer to it."""
    sentence = words.masked[slice(*span)]
    head = re.compile(rf"^(?:{_RE.source('conjunctions')},? )*{_subject(call)}(?: in \S+)?,? *$", re.IGNORECASE)
    wishes = [
        match for match in _RE.modal_verb.finditer(sentence) if not is_later or head.match(sentence[: match.start()])
    ]
    wishes += [*_find_wishes(call, sentence), *_RE.expected.finditer(sentence)]
    direct = (_RE.imperative if is_later else _RE.infinitive).match(sentence)
    if direct is not None:
        ordered = re.search(r"\b(?:make|let|have)\s+`?$", words.masked[: call.start], re.IGNORECASE)
        if is_later or direct["to"] or ordered:  # "make f(1) return 2"
            wishes.append(direct)
    found = [(match.start(), words.match_statement(match, "wanted", *span)) for match in wishes]
    for match in _RE.instead_of.finditer(sentence):
        found.append((match.start(), words.match_statement(match, "instead", *span)))
    for at, statement in list(found):
        correction = _RE.correction.search(sentence, at + 1) if statement.relation == "unwanted" else None
        if correction is not None:
            found.append((correction.start(), words.match_statement(correction, "wanted", *span)))
    return [statement for _, statement in sorted(found, key=lambda item: item[0])]


def _statements_before(words: RequestText, call: RequestCall, start: int) -> list[Statement]:
    """Return what a sentence says before its call: "return 0 for f([])"."""
    start = words.sentence_start(start, call.start)
    before = words.masked[start : call.start]
    preposition = _RE.for_call.search(before)
    wish = next(reversed([*_RE.wish_before.finditer(before), *_find_wishes(call, before)]), None)
    if wish is None or not (preposition or re.search(r"\b(?:for|on|when)\b", before[wish.end() :])):
        return []
    groups = wish.groupdict()
    verb = groups.get("verb") or groups.get("order_verb") or ""
    end = start + (preposition.start() if preposition else len(before))
    statement = words.parse_statement(_match_relation(wish, "wanted"), verb, start + wish.end(), end)
    return [statement] if statement.has_result and not statement.condition else []


def _interpreter_output(words: RequestText, call: RequestCall, end: int) -> list[Statement]:
    """Return the value on the line below a call after a `>>>` prompt."""
    line = words.text[: call.start].rpartition("\n")[2]
    below = re.compile(r"[ \t]*\n[ \t]*(?=\S)").match(words.text, call.end)
    if line.strip(" `\t") != ">>>" or below is None:
        return []
    line_end = words.text.find("\n", below.end())
    statement = words.parse_statement("sign", "", below.end(), min(end, line_end if line_end >= 0 else end))
    return [statement] if statement.value and not statement.condition else []


class Example(msgspec.Struct, frozen=True):
    """A call and the result it must have."""

    call: str
    module: str
    names: tuple[str, ...]
    """The functions and classes of the module that the call uses."""
    want: str = ""
    """The value, as Python source."""
    wrong: str = ""
    """The value it returns now and must not return."""
    error: str = ""
    """The class of the error it must raise."""
    message: str | None = None
    never: str = ""
    """The class of the error it must not raise."""
    printed: bool = False
    """The value is text that it prints."""

    @property
    def is_positive(self) -> bool:
        """Whether it says what the result must be, not what it must not be."""
        return bool(self.want or self.error)

    @property
    def command(self) -> str:
        """A command that succeeds if the example holds and otherwise prints the actual result; its exit status is
        `UNTRIED` if the call can't be evaluated."""
        script = fill_program(
            "example",
            title=one_line(self.expected),
            load=import_program(self.module, self.names),
            near=fill_program("near") if re.search(r"[0-9]", self.want) else "",
            call=self.call,
            caught=self._error_check(),
            test=self._value_check(),
        )
        quoted = shlex.quote(script) if re.search(r'["$`\\!]', script) else f'"{script}"'
        return f"{python_program()} -B -c {quoted}"

    @property
    def expected(self) -> str:
        """The required result, for users and models."""
        verb = "print" if self.printed else "return"
        if self.error:
            arguments = f"({self.message!r})" if self.message is not None else ""
            return f"{self.call} must raise {_error_phrase(self.error)}{arguments}"
        if self.never:
            return f"{self.call} must not raise {_error_phrase(self.never)}"
        if self.want:
            return f"{self.call} must {verb} {self.want}"
        return f"{self.call} must not {verb} {self.wrong}"

    def _error_check(self) -> str:
        """Return the lines of the program that handle an error."""
        if self.never:
            return f"    sys.exit('it raised ' + repr(_error) if {self.never!r} in _kinds else 0)\n"
        if not self.error:
            return ""
        same = "True" if self.message is None else f"{self.message!r} in (str(_error), *_error.args)"
        return f"    if {self.error!r} in _kinds:\n        sys.exit(0 if {same} else 'it raised ' + repr(_error))\n"

    def _value_check(self) -> str:
        """Return the lines of the program that handle a result."""
        if self.never:
            return ""
        failure = "'it returned ' + repr(_got)[:300]"
        if self.printed:
            failure = "'it printed ' + repr(_said.getvalue())[:300]"
            condition = f"str({self.want}) in _said.getvalue() or _got == {self.want}"
        elif self.error:
            condition = "False"
        elif not self.want:
            condition = f"repr(_got) != {self.wrong!r}"
        elif self.wrong and ast.literal_eval(self.want) == ast.literal_eval(self.wrong):
            condition = f"repr(_got) == {self.want!r}"
        elif re.search(r"[0-9]", self.want):
            condition = f"_near(_got, {self.want})"
        else:
            condition = f"_got == {self.want}"
        return f"if not ({condition}):\n    sys.exit({failure})\n"


def _error_phrase(error: str) -> str:
    return "an error" if error == "Exception" else error


# --- examples from statements -------------------------------------------------------------------


class _Context(msgspec.Struct, frozen=True):
    """What the request says around a call."""

    is_wish: bool
    """The call's function does not exist yet, or the sentence states a purpose."""
    is_subordinate: bool
    is_demanded: bool
    reports_fault: bool
    has_contrast: bool
    """The call's sentence contrasts its result with something else."""
    is_only_call: bool


def _call_parts(call: RequestCall) -> tuple[list[str], list[str], int]:
    """Return the names that a call uses, its keywords and its number of positional arguments."""
    tree = ast.parse(call.text, mode="eval").body
    nodes = list(ast.walk(tree))
    names = [*call.names, *(node.attr for node in nodes if isinstance(node, ast.Attribute))]
    keywords = [node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg]
    is_direct = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == call.names[0]
    return names, keywords, len(tree.args) if is_direct and isinstance(tree, ast.Call) else 0


def _is_requested(call: RequestCall, masked: str, *, pronouns: bool) -> bool:
    """Whether a request asks to write what a call uses. `pronouns`: "add it" counts, too."""
    names, keywords, _ = _call_parts(call)
    name = "|".join(map(re.escape, names))
    create, kind = _RE.source("create_verb"), _RE.source("callable_kind")
    words = r"(?:(?!(?:to|in|for|of|from|with|tests?)\b)[\w-]+\s+){0,4}"
    patterns = [
        rf"\b{create}\s+{words}{kind}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\bwith\s+(?:an?|the|one|two|three)\s+{words}{kind}\b[^.\n]{{0,40}}?\b(?:{name})\b",
        rf"\b(?:implement|define|write|add|create)\s+`?(?:{name})\b",
        rf"\b(?:implement|define|create)\s+(?:`?\w+`?(?:,| and)\s+){{1,4}}`?(?:{name})\b",
    ]
    if keywords:
        options = "(?:arguments?|parameters?|options?|keywords?|flags?)"
        patterns.append(rf"\b{create}\s+{words}{options}\s+`?(?:{'|'.join(map(re.escape, keywords))})\b")
    if pronouns:
        patterns.append(r"\b(?:add|implement|write|create|define) (?:it|them|(?:this|that) function)\b")
    return any(re.search(pattern, masked, re.IGNORECASE) for pattern in patterns)


def _was_missing(call: RequestCall, files: Mapping[str, str], before: Mapping[str, str]) -> bool:
    """Whether a call uses a function, method or argument that the files did not have before."""
    used, keywords, positional = _call_parts(call)
    now = {name.rpartition(".")[2] for text in files.values() for name in defined_names(text)}
    nodes = [node for _, tree in python_trees(before) for node in ast.walk(tree)]
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if any(name in now and name not in classes | {node.name for node in functions} for name in used):
        return True
    signatures = [node.args for node in functions if node.name in (*used, "__init__")]
    if not signatures or classes & set(used):
        return False
    names = {item.arg for args in signatures for item in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    if any(name not in names for name in keywords) and all(args.kwarg is None for args in signatures):
        return True
    return positional > max(len(args.posonlyargs) + len(args.args) + 99 * bool(args.vararg) for args in signatures)


def _read_context(words: RequestText, call: RequestCall, end: int, *, is_new: bool, is_only_call: bool) -> _Context:
    before = words.masked[words.sentence_start(0, call.start) : call.start]
    purpose = next(reversed([*_RE.purpose.finditer(before)]), None)
    between = before[purpose.end() :] if purpose else ""
    has_purpose = purpose is not None and ("," not in between or "(" in between) and not _RE.fault.search(between)
    fault_after = _RE.fault.search(words.masked[call.end : end + 200]) or _RE.repair.search(words.masked[call.end :])
    return _Context(
        is_wish=is_new or has_purpose,
        is_subordinate=_RE.subordinate.search(before) is not None,
        is_demanded=_RE.demanded.search(before) is not None,
        reports_fault=bool(fault_after or _RE.fault.search(words.masked[: call.start])),
        has_contrast=_RE.contrast.search(words.masked[slice(*words.sentences(call.end, end)[0])]) is not None,
        is_only_call=is_only_call,
    )


def _resolve_example(call: RequestCall, statements: Iterable[Statement], context: _Context) -> Example | None:
    """Return the example that follows from the statements about a call, if it is clear."""
    example = Example(call.text, call.module, call.names)
    first: dict[Relation, Statement] = {}
    for statement in statements:
        first.setdefault("current" if statement.relation == "sign" else statement.relation, statement)
    wanted, unwanted, other, current = (first.get(name) for name in ("wanted", "unwanted", "instead", "current"))
    is_report = current is not None and current.relation == "current"
    if "waived" in first or (is_report and context.is_subordinate):
        return None
    if wanted is None and current is not None:
        shows_wish = not is_report and other is None and (context.is_demanded or not context.reports_fault)
        if context.is_wish or shows_wish:
            wanted, unwanted = current, other
        else:
            wanted = other
    elif wanted is not None and current is None:
        unwanted = unwanted or other
    if is_report and current is not wanted:
        unwanted = unwanted or current
    if wanted is not None and wanted.has_result and wanted.condition != "state":
        return msgspec.structs.replace(
            example,
            want=wanted.value,
            error=wanted.error,
            message=wanted.message,
            printed=wanted.printed,
            wrong=unwanted.value if unwanted and wanted.value and not wanted.printed else "",
        )
    if unwanted is None or unwanted.condition or unwanted.printed:
        return None
    if unwanted is not current:
        is_clear = wanted is None and unwanted.has_result
        return msgspec.structs.replace(example, wrong=unwanted.value, never=unwanted.error) if is_clear else None
    is_fault = context.has_contrast if wanted is not None else context.reports_fault and context.is_only_call
    return msgspec.structs.replace(example, wrong=unwanted.value) if unwanted.value and is_fault else None


def _error_wanted_elsewhere(words: RequestText, call: RequestCall) -> Statement | None:
    """Return the only error that a request wants anywhere, for a call that it reports as failing."""
    found = {}
    raises = re.compile(r"(?m)(?:^|\. )(?P<verb>Raise)\b")
    matches = [
        *_RE.modal_verb.finditer(words.masked),
        *_find_wishes(call, words.masked),
        *raises.finditer(words.masked),
    ]
    for match in matches:
        if match["verb"].lower() in ("raise", "throw", "fail with") and _match_relation(match, "wanted") == "wanted":
            statement = words.parse_statement("wanted", "raise", match.end(), len(words.text))
            found[statement.error, statement.message] = statement
    only = next(iter(found.values()), None)
    return only if len(found) == 1 and only is not None and only.error else None


def _find_examples(
    words: RequestText,
    calls: list[RequestCall],
    files: Mapping[str, str],
    known: Collection[str],
    before: Mapping[str, str] | None,
) -> Iterator[Example]:
    is_only_call = len({call.text for call in calls if call.text}) == 1
    for at, call in enumerate(calls[:MAX_CALLS]):
        if not call.text:
            continue
        end = calls[at + 1].start if at + 1 < len(calls) else len(words.text)
        statements = _interpreter_output(words, call, end) or _statements_after(words, call, end, known)
        relations = {item.relation for item in statements}
        if not relations & {"wanted", "current", "sign"}:
            statements = [*_statements_before(words, call, calls[at - 1].end if at else 0), *statements]
            relations = {item.relation for item in statements}
        sentence = words.masked[slice(*words.sentences(call.end, end)[0])]
        is_failing = _RE.failure_report.search(sentence) and not any(item.value for item in statements)
        if is_only_call and is_failing and not relations & {"wanted", "unwanted", "instead"}:
            statements += filter(None, [_error_wanted_elsewhere(words, call)])
        is_new = _is_requested(call, words.masked, pronouns=before is None) or (
            before is not None and _was_missing(call, files, before)
        )
        context = _read_context(words, call, end, is_new=is_new, is_only_call=is_only_call)
        example = _resolve_example(call, statements, context)
        if example is not None:
            yield example


def examples_in(request: str, files: Mapping[str, str], before: Mapping[str, str] | None = None) -> list[Example]:
    """Return the examples of functions that the Python files define (path → content).

    `before`: the files before the change. What they do not define is new, so statements about it are wishes.
    """
    text = request[:MAX_LENGTH].translate(STRAIGHT_QUOTES)
    callables = index_callables(text, files)
    classes = [name for name, item in callables.items() if item is not None and item.kind == "class"]
    words = RequestText(text, classes)
    found: dict[str, Example | None] = {}
    for example in _find_examples(words, find_calls(text, callables), files, callables, before):
        earlier = found.get(example.call)
        if earlier is None:
            found.setdefault(example.call, example)
        elif example != earlier and earlier.is_positive == example.is_positive:
            found[example.call] = None
        elif example.is_positive:
            found[example.call] = example
    examples = [example for example in found.values() if example is not None]
    return examples[:MAX_EXAMPLES] or _derived_examples(text, files, callables)


def _derived_examples(
    text: str, files: Mapping[str, str], callables: Mapping[str, ProjectCallable | None]
) -> list[Example]:
    """Return examples of functions that the request does not call with evaluable arguments."""
    found = [*mapped_values(text, files), *counted_results(text, callables)]
    homes = [(callables.get(name), name, call, value) for name, call, value in found]
    return [Example(call, home.module, (name,), want=value) for home, name, call, value in homes if home][:MAX_EXAMPLES]
