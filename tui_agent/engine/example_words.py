"""What a request says of a call in it: what it wants, what it reports, what it rules out (E5).

Each statement is read from its own words, and a value only where nothing behind it makes it something else: "2 items",
"2 or 3" and "about 2" are not the value 2.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection

import msgspec

from tui_agent.engine.example_calls import STRING, Call, closed

FOLLOWING = 3
"""Sentences after the one with the call that may still speak of it."""


class Said(msgspec.Struct, frozen=True):
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


_ADVERB = (
    r"(?:\s+(?:now|also|still|always|instead|actually|rather|just|simply|only|then|therefore|again|correctly|both"
    r"|each|all))*"
)
_DO = (
    r"(?P<verb>return|be|give|yield|equal|produce|print|output|become|evaluate to|result in|come out as|raise|throw"
    r"|fail with|fail|crash)\b"
)
_DOES = (
    r"(?P<verb>returns|returned|is|gives|gave|yields|equals|produces|prints|outputs|becomes|evaluates to|results in"
    r"|comes out as|ends in|ends with|raises|raised|throws|(?:fails|failed|crashes|crashed|breaks|dies) with(?: an?)?"
    r"|will (?:return|give|raise)|would (?:return|give|raise))(?![\w-])"
)
_DOING = r"(?P<verb>returning|giving|yielding|raising|throwing|being|printing|failing with|crashing with)?"
_MODAL = (
    r"(?P<off>\bnot |n't )?\b(?:should|must|shall|(?:ought|has|have|needs?|supposed|expected|meant) to)"
    r"(?P<no>n't| not| never)?"
)
_RAISING = re.compile(r"raise|threw|throw|fail|crash|break|die|ends? ")
_CONDITION = re.compile(r"(?:if|when|for|on|where)\b")
_STATE = re.compile(
    r".*\b(?:files?|exists?|found|missing|set|environment|folder"
    r"|directory|network|connection|arguments?|options?|flags?|given|passed|called|used|run|started|other|another)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Conditions of which nobody knows whether they are met when the call is tried."""
_LITERAL_NEXT = r"(?:['\"\d\[{]|-\d|True\b|False\b|None\b)"
_END = re.compile(
    r"[`'\")\]*]*(?:\s*$|[ \t]*\n(?=\s*(?:[A-Z>*#`-]|\d+[.)]|$|\n))"
    rf"|\s*(?:\.(?!\w)|[!?;:](?!\w)|\)|,(?!\s*(?:and |or )?{_LITERAL_NEXT})|[—–(#]|- "
    rf"|(?:and|but)\b(?!\s+{_LITERAL_NEXT})"
    r"|(?:instead|not|rather|because|since|whereas|although|though|even though|so|then|too|now|again|which|today"
    r"|currently|at the moment|right now|wrongly|incorrectly|in (?:that|this) case"
    r"|as (?:before|well|now|expected|it|in))\b))"
)
"""What may stand behind a value: "2 items" is not the value 2."""
_LEAD = re.compile(
    r"[\s:`*]*(?:(?:exactly|just|simply|the|an?|value|string|text|list|number|tuple|dict|dictionary|set|integer|float)"
    r"\s+)*[`*]*"
)
_EMPTY = re.compile(r"[\s`*]*an? empty (list|string|text|str|dict|dictionary|tuple|set)\b")
_EMPTIES = {"list": "[]", "tuple": "()", "dict": "{}", "dictionary": "{}", "set": "set()"}
_NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]*\w)|(?:True|False|None)\b")
_ERROR = re.compile(r"[\s`*]*(?:an? |the |its own )?`?(?:([A-Z]\w*)|(?:error|exception)\b)")
_MESSAGE = re.compile(r"[`\s,]*(?:with (?:the |a )?(?:message|text)|saying|and says)[\s:`]*")
_GAP = (
    r"^[`'\")*]*[\s,(:–—-]*(?:(?:in|from|of|inside) [`\w./-]+\s*)?"
    r"(?:(?:now|currently|still|also|always|already|then|just|correctly|wrongly|incorrectly|only|even|e_g_,?)\s+)*"
)
_NOW = re.compile(_GAP + _DOES)
_SIGN = re.compile(r"^[`\s)]*(?P<verb>==|=(?![=>])|=>|->|→|⇒)")
_TO = re.compile(rf"^[`\s]*(?P<to>to )?{_ADVERB}\s*{_DO}")
MODALS = re.compile(rf"{_MODAL}{_ADVERB}\s+{_DO}", re.IGNORECASE)
_EXPECTED = re.compile(
    r"\b(?:expect(?:ed|ing)?|the (?:right|correct) (?:value|result|answer|output))(?: (?:value|result|output|answer))?"
    r"(?: (?:is|was|would be))?(?=[\s:])(?! to\b)(?P<verb>)",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"^(?:[Pp]lease,? |[Ii]nstead,? |[Jj]ust |[Cc]atch (?:it|that|this)(?: error)? and )*"
    r"(?P<verb>[Rr]eturn|[Rr]aise|[Gg]ive|[Yy]ield|[Pp]rint|[Tt]hrow)\b"
)
_INSTEAD = re.compile(rf"\b(?:instead of|rather than)\s+(?:it )?{_DOING}", re.IGNORECASE)
_BUT = re.compile(rf"\b(?:but|and)(?: rather| instead)?(?: {_DO})?", re.IGNORECASE)
AGAINST = re.compile(
    r"\b(?:but|instead|although|though|when it|whereas|while|however|rather)\b", re.IGNORECASE
)
_LINK = (
    r"(?:but|and|so|instead|however|then|afterwards|after (?:the|this|your) change|from now on|in that case)"
)
REPORT = re.compile(
    r"\b(?:fails?|failed|crash\w*|breaks?|dies|blows up|throws?|raises?|raised|divides by zero"
    r"|gets? an? (?:\w*Error|error|exception)|is (?:wrong|broken)|goes wrong"
    r"|(?:does not|doesn't) work)\b"
)
BREAK = re.compile(r"(?<=[.!?;])[)`'\"*]*\s+|\n[ \t]*\n|\n(?=[ \t]*(?:[-*•]|\d+[.)])\s)")


class Words:
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
        for one in BREAK.finditer(self.plain, start, end):
            found.append((at, one.start()))
            at = one.end()
        return [*found, (at, end)][: FOLLOWING + 1]

    def said(self, how: str, verb: str, at: int, end: int) -> Said:
        """A statement whose value or error stands behind its verb."""
        verb = verb.lower()
        printed = verb.startswith(("print", "output"))
        if not _RAISING.match(verb):
            value, after = self.literal(at, end)
            if value:
                ended = _END.match(self.text, after, end)
                only_if = _condition(self.text[after:end].lstrip("` "))
                if how == "now" and re.match(r"[`,\s]*(?:and )?not\b", self.text[after:end]):
                    only_if = "not"
                if ended is not None or only_if:
                    return Said(how, value=value, printed=printed, only_if=only_if)
                return Said(how)
            if not re.match(r"give|gave|giving|yield|result|end|$", verb):
                return Said(how)
        return self._error(how, at, end)

    def literal(self, at: int, end: int) -> tuple[str, int]:
        """The literal behind a place as Python writes it, and where it ends."""
        empty = _EMPTY.match(self.text, at, end)
        if empty is not None:
            return _EMPTIES.get(empty.group(1), "''"), empty.end()
        lead = _LEAD.match(self.text, at, end)
        at = lead.end() if lead else at
        if at >= end:
            return "", at
        string = STRING.match(self.text, at, end) or _NUMBER.match(self.text, at, end)
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

    def _error(self, how: str, at: int, end: int) -> Said:
        found = _ERROR.match(self.text, at, end)
        name = (found.group(1) or "Exception") if found else ""
        if found is None or not (self._is_error(name) or name in self._classes):
            return Said(how)
        after, message = found.end(), None
        if self.text.startswith("(", after) and (end_of := closed(self.text, after)) > 0:
            message, _ = self.literal(after + 1, end_of - 1)
            after = end_of
        elif (given := _MESSAGE.match(self.text, after, end)) is not None:
            message, after = self.literal(given.end(), end)
        rest = self.text[after:end].lstrip("`*' ")
        if re.match(r"or\b|/", rest):
            return Said(how)
        exact = _text(message) if message else None
        return Said(how, error=name, message=exact, only_if=_condition(rest))

    def _is_error(self, name: str) -> bool:
        known = getattr(builtins, name, None)
        if isinstance(known, type):
            return issubclass(known, BaseException)
        return name.endswith(("Error", "Exception", "Warning", "Exit", "Interrupt"))


def _condition(rest: str) -> str:
    """Whether what stands behind a value or an error is a condition, and of which kind; empty for none."""
    if re.match(r"in (?:that|this) case\b", rest):
        return ""
    if _CONDITION.match(rest) is None:
        return "state" if re.match(r"(?:unless|in|with|without|once|whenever|while)\b", rest) else ""
    return "state" if _STATE.match(rest.partition(". ")[0]) else "if"


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


def wishes(call: Call) -> tuple[re.Pattern[str], ...]:
    subject = _subject(call)
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"\b(?:make|let|have|makes|lets) {subject}(?: in \S+)?(?P<no> not| never)?{_ADVERB} {_DO}",
            rf"\b(?:so|so that|such that|until|make sure|make sure that|ensure|ensure that) {subject}{_ADVERB} {_DOES}",
            rf"\b(?:change|fix|adapt|update|get|want|need|like|expect|rewrite|modify|correct) {subject}(?: in \S+)?"
            rf"(?: so as)?(?P<no> not)? to{_ADVERB} {_DO}",
        )
    )


def stated(words: Words, call: Call, end: int, known: Collection[str]) -> list[Said]:
    """The statements behind a call, up to `end`."""
    first, *others = words.sentences(call.end, end)
    sentence = words.plain[first[0] : first[1]]
    found = _in_sentence(words, call, first)
    now = _NOW.match(sentence)
    sign = _SIGN.match(sentence)
    if now is not None:
        found.insert(0, words.said("now", now.group("verb"), first[0] + now.end(), first[1]))
    elif sign is not None:
        found.insert(0, words.said("sign", "", first[0] + sign.end(), first[1]))
    report = REPORT.search(sentence) is not None
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


def _in_sentence(words: Words, call: Call, span: tuple[int, int], follows: bool = False) -> list[Said]:
    """The wishes of one sentence in order; one that `follows` the call's own has to speak of it."""
    start, stop = span
    plain = words.plain[start:stop]
    found: list[tuple[int, Said]] = []

    def take(one: re.Match[str], how: str) -> None:
        given = one.groupdict()
        how = "off" if given.get("off") else "not" if given.get("no") else how
        verb, at = given.get("verb") or "", start + one.end()
        if how == "want" and (denied := re.compile(r"\s+not\b").match(words.plain, at, stop)) is not None:
            how, at = "not", denied.end()
        said = words.said(how, verb, at, stop)
        if how == "not" and verb in ("fail", "crash") and not said.readable:
            said = Said("not", error="Exception")
        found.append((one.start(), said))

    for one in MODALS.finditer(plain):
        head = re.compile(rf"^(?:{_LINK},? )*{_subject(call)}(?: in \S+)?,? *$", re.I)
        if not follows or head.match(plain[: one.start()]):
            take(one, "want")
    for pattern in wishes(call):
        for one in pattern.finditer(plain):
            take(one, "want")
    for one in _EXPECTED.finditer(plain):
        take(one, "want")
    if follows and (order := _ORDER.match(plain)) is not None:
        take(order, "want")
    direct = None if follows else _TO.match(plain)
    if direct is not None and (direct.group("to") or _asked_before(words, call)):
        take(direct, "want")
    for one in _INSTEAD.finditer(plain):
        take(one, "instead")
    for at, said in list(found):
        but = _BUT.search(plain, at + 1) if said.how == "not" else None
        if but is not None:
            take(but, "want")
    return [said for _, said in sorted(found, key=lambda pair: pair[0])]


def _asked_before(words: Words, call: Call) -> bool:
    """Whether the words before a call order what is said behind it: "make f(1) return 2"."""
    return re.search(r"\b(?:make|let|have)\s+`?$", words.plain[: call.start], re.IGNORECASE) is not None


_FOR = re.compile(r"[`,]*\s+(?:for|from|on|when given|with|in case of|when|if)\s+(?:the call |calling )?`?$")
_LAST = re.compile(
    rf"(?:{_MODAL}{_ADVERB} {_DO}|(?P<begin>^|\b(?:it|to|and|please|,|:)\s)\s*(?P<no2>not )?"
    r"(?P<plain>return|give|yield|raise|throw)\b)",
    re.IGNORECASE,
)


def stated_before(words: Words, call: Call, begin: int) -> list[Said]:
    """What is said before a call in its sentence: "return 0 for f([])"."""
    start = begin
    for one in BREAK.finditer(words.plain, begin, call.start):
        start = one.end()
    plain = words.plain[start : call.start]
    ended = _FOR.search(plain)
    orders = [one for pattern in wishes(call) for one in pattern.finditer(plain)]
    wish = next(iter([*_LAST.finditer(plain), *orders][-1:]), None)
    if wish is None or (ended is None and not re.search(r"\b(?:for|on|when)\b", plain[wish.end() :])):
        return []
    given = wish.groupdict()
    stop = start + (ended.start() if ended else len(plain))
    how = "off" if given.get("off") else "not" if given.get("no") or given.get("no2") else "want"
    said = words.said(how, given.get("verb") or given.get("plain") or "", start + wish.end(), stop)
    return [said] if said.readable and not said.only_if else []


def doctest(words: Words, call: Call, end: int) -> list[Said]:
    """The line below a call in a session of the interpreter."""
    line = words.text[: call.start].rpartition("\n")[2]
    below = re.compile(r"[ \t]*\n[ \t]*(?=\S)").match(words.text, call.end)
    if line.strip(" `\t") != ">>>" or below is None:
        return []
    stop = words.text.find("\n", below.end())
    stop = min(end, stop if stop >= 0 else len(words.text))
    said = words.said("sign", "", below.end(), stop)
    return [said] if said.value and not said.only_if else []
