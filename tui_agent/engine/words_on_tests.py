"""What a request says of tests: whether new ones are wanted, whether those that are there may become others (E2)."""

from __future__ import annotations

import re
from typing import Literal

from tui_agent.engine.name_checks import prose
from tui_agent.engine.request_words import NUMBERS, number_in
from tui_agent.protocols.file_reply import named_paths

_TEST = (
    r"(?:(?:unit|regression|integration|smoke)?[- ]?tests?(?:[- ](?:cases?|files?|suites?|functions?|methods?"
    r"|class(?:es)?|modules?|coverage))?\b(?!\w)|(?:[\w-]+/)*test_\w+(?:\.py)?|(?:[\w-]+/)*\w+_test(?:\.py)?\b|assert(?:ion)?s?\b"
    r"|test(?:case|suite)s?\b)"
)
"""A test, or the file of one, as a request calls it."""
_STOPS = (
    "so|such|until|because|that|which|what|for|by|with|without|see|against|when|while|whenever|where|if|to|not|under"
    "|fail\\w*|broken|red|green|pass\\w*|shown|covered|tested|seen|described|found|caught|run|running|rerun|make|making"
    "|keep|check|verify|execute|leave|touch|ensure|sure"
)
"""Words behind which a test is no longer what the verb is about."""
_GAP = rf"(?:\s+(?!(?:{_STOPS})\b)[^\s,;:!?]+){{0,7}}?\s+"
_ADDING = "write|add|create|implement|generate|introduce|provide|need|needs|want|wants|missing|lacks?|cover"
_EDITING = (
    "fix|repair|correct|update|adapt|adjust|change|rewrite|improve|edit|modify|mend|clean|refactor|rename|convert|move"
    "|split|speed|simplify|delete|remove|drop|replace|skip|mark|parametri[sz]e|extend|port|migrate|merge|reorder|format"
    "|rework|tidy|document"
)
_CODING = (
    "accept|allow|apply|avoid|bump|append|copy|deprecate|disable|enable|escape|export|expose|extract|give|handle|ignore"
    "|inline|insert|install|make|optimi[sz]e|prevent|print|raise|reduce|reverse|return|round|set|solve|sort|strip"
    "|support|swap|switch|translate|turn|upgrade|validate|wrap"
)
_RUNNING = "run|execute|check|verify|ensure|use|keep|leave|put|save|start|test|do|don't|see|look|find|let"
_NEW = re.compile(rf"\b(?:{_ADDING}|extend)\b{_GAP}{_TEST}", re.IGNORECASE)
_EDITED = re.compile(
    rf"\b(?:{_EDITING})\b{_GAP}{_TEST}(?!\S*\s+(?:still\s+|now\s+)?(?:fail|pass))", re.IGNORECASE
)
_WRONG = re.compile(
    rf"{_TEST}(?:\s+(?:in|of|for)\s+\S+)?(?:\s+(?:itself|is|are|was|were|has|have|contains?|expects?|checks?|asserts?|simply"
    r"|just|plainly|really|a|an|the|now|there)){1,4}\s+(?:wrong|incorrect|outdated|out of date|stale|mistaken|obsolete"
    r"|typo|bug|mistake)\b"
    rf"|\b(?:wrong|incorrect|outdated|mistaken)\s+(?:{_TEST}|expectations?|expected|expects?)"
    r"|\bexpected\s+(?:value|result|output)s?\s+(?:\w+\s+){0,4}?(?:is|are)\s+(?:wrong|incorrect|outdated)"
    rf"|\b(?:bug|typo|mistake)\s+in\s+(?:the\s+|that\s+|this\s+)?{_TEST}"
    rf"|{_TEST}(?:\s+(?:itself|is|are))+\s+to\s+blame",
    re.IGNORECASE,
)
"""It says that a test is wrong, and not what it tests."""
_LEFT_ALONE = re.compile(
    r"\b(?:do not|don't|never|without)\s+(?:chang|touch|edit|modify|alter|adapt|weaken)\w*\s+(?:\S+\s+){0,3}?"
    rf"{_TEST}|\b(?:leave|keep)\s+(?:\S+\s+){{0,3}}?{_TEST}\s+(?:alone|untouched|unchanged|as)\b"
    rf"|{_TEST}\s+(?:is|are)\s+(?:right|correct|fine|ok(?:ay)?)\b",
    re.IGNORECASE,
)
"""It says that the tests stay."""
_OUTCOME = re.compile(
    r"\b(?:fail(?:s|ed|ing|ures?)?|pass(?:es|ed|ing)?|broken|breaks?|red|green|crash(?:es|ed|ing)?)\b",
    re.IGNORECASE,
)
_MAKE_PASS = re.compile(
    r"\b(?:make|get|let)\s+(?!sure\b)(?:\S+\s+){0,4}?(?:pass|green|succeed|work)\b", re.IGNORECASE
)
_SURE = re.compile(
    r"\b(?:make|be|making)\s+sure\b|\b(?:ensure|check|verify|see)\b|\b(?:they|it|all|these|those|tests?)\s+"
    r"(?:should|must|have to|need to|shall)\b|\bthat\s+(?:still\s+)?pass(?:es)?\b|\buntil\b",
    re.IGNORECASE,
)
_RESHAPING = re.compile(
    r"(?:rename|remove|delete|drop|move|replace|extract|split|inline|merge|convert|migrate|refactor|port)\b(?![(.])"
    r"|.*\b(?:renamed|moved|converted|migrated)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What a request does that tests have to follow."""
_VERB = rf"(?:{_ADDING}|{_EDITING}|{_CODING}|{_RUNNING})"
_CLAUSE = re.compile(
    rf"(?<=[.!?;:])\s+|\n+|,\s+(?:and\s+|then\s+|and then\s+|but\s+)?(?={_VERB}\b)"
    rf"|\s+(?:and then|and|then|but)\s+(?:also\s+)?(?={_VERB}\b)",
    re.IGNORECASE,
)
_POLITE = (
    r"(?:please,?|(?:can|could|would|will) you(?: please)?|now|then|also|and|just|you should|first|next)"
)
_BEGIN = re.compile(rf"^(?:[-*•]\s+|\d+[.)]\s+)?(?:{_POLITE}\s+)*", re.IGNORECASE)
_DOING = re.compile(
    rf"(?:[-*•]\s+|\d+[.)]\s+)?(?:{_POLITE}\s+)*(?P<verb>{_ADDING}|{_EDITING}|{_CODING})\b", re.IGNORECASE
)
_PRONOUN = re.compile(
    r"\s+(?:it|them|some|one|a few|both|this|that|these|those|three|two|at least)\b", re.IGNORECASE
)
_OBJECT = re.compile(
    r"(?:\s+(?!(?:to|in|into|with|and|of|for|that|which|by|from|on|using|function|method|class|option|flag|endpoint"
    rf"|command|helper|parameter|section|heading|chapter|paragraph|badge|target|job|step|link)\b)[^\s,;:!?]+){{0,6}}?\s+{_TEST}"
    rf"|(?:\s+(?:an?|the|new|another|python|separate))*\s+(?:file|module)(?:\s+\S+\.py)?\s+(?:with|for|of)\s+"
    rf"(?:\S+\s+){{0,4}}?{_TEST}"
    r"|(?:\s+(?!\S+\.\w)[^\s,;:!?]+){0,6}?\s+(?:in|to|of|from|into)\s+(?:the\s+)?(?:[\w-]+/)*(?:test_\w+|\w+_test)\.py\b",
    re.IGNORECASE,
)
"""What follows a verb that is about tests alone."""
_SAYS_SO = re.compile(
    rf"\b(?:needs?|wants?|lacks?|has no|have no|should have|there should be|there are no|missing)\s+"
    rf"(?:\S+\s+){{0,4}}?{_TEST}"
    rf"|{_TEST}(?:\s+\S+){{0,5}}?\s+(?:is|are)\s+missing",
    re.IGNORECASE,
)
_INSIDE = re.compile(
    r"\btests?\s+(?:in|into|to)\s+(?:the\s+)?(?!\S*test_|\S*_test\.|tests/)[\w./-]*\w\.\w+|\bdoctests?\b"
    r"|\bself[- ]tests?\b",
    re.IGNORECASE,
)
"""Tests that stand in a file of code."""
_OTHER_LANGUAGE = re.compile(
    r"\.(?:[mc]?js|[jt]sx?|go|rs|rb|java|kt|c|h|cpp|cs|php|swift|lua|sh|dart)$", re.IGNORECASE
)


_WORDS = "|".join(name for name, number in NUMBERS.items() if number > 1)
_NUMBER = rf"(?P<number>\d{{1,2}}|{_WORDS})"
_HOW_MANY = re.compile(
    rf"\b{_NUMBER}\s+(?:(?:more|new|unit|different|separate|small|short)\s+)*"
    r"(?P<each>test[- ](?:methods?|functions?|cases?)|tests?\b)"
    r"|(?:^|[,(–—-]\s*|\b(?:write|add|create)\s+)at least\s+(?P<bare>\d{1,2}|"
    rf"{_WORDS})(?=\s*(?:[,.;!]|$|and\b|of them\b|with\b))",
    re.IGNORECASE,
)


def wanted_tests(text: str) -> tuple[int, bool]:
    """How many new tests a request wants at least, 0 where it says no number; whether each is to be a function."""
    said = prose(text)
    if not (_NEW.search(said) or _SAYS_SO.search(said)):
        return 0, False
    found = _HOW_MANY.search(said)
    if found is None or re.search(
        r"\b(?:of|all|the|these|those|other|that|if|when|while)\s+$", said[: found.start()], re.IGNORECASE
    ):
        return 0, False
    each = (found["each"] or "").lower()
    return number_in(found["number"] or found["bare"]), each not in ("", "test", "tests")


def rule(text: str, *, renames: bool = False) -> Literal["free", "soft", "hard"]:
    """How a change of what a test demands is to be taken. `renames`: the request gives something another name.

    `hard`: the code is to be mended so that a test passes, or tests are to stay. `free`: they may be changed.
    """
    said = prose(text)
    if _LEFT_ALONE.search(said):
        return "hard"
    if _WRONG.search(said) or _NEW.search(said) or renames or _reshapes(said):
        return "free"
    mends = to_pass(said)
    if _EDITED.search(said):
        return "soft" if mends else "free"
    return "hard" if mends else "soft"


def only_tests(text: str) -> bool:
    """Whether a request wants new tests, or a test to be changed, and no other code to become another."""
    said = prose(text)
    wrong = _WRONG.search(said) is not None
    if _LEFT_ALONE.search(said) or _INSIDE.search(said):
        return False
    if any(_OTHER_LANGUAGE.search(path) for path in named_paths(said)) or (
        to_pass(said, new=True) and not wrong
    ):
        return False
    wanted = wrong or _SAYS_SO.search(said) is not None
    for clause in _CLAUSE.split(said):
        doing = _DOING.match(clause.strip())
        if doing is None or re.match(
            r"make\s+sure\b", doing["verb"] + clause.strip()[doing.end() :], re.IGNORECASE
        ):
            continue
        rest = clause.strip()[doing.end() :]
        if _OBJECT.match(rest):
            wanted = True
        elif not (wanted and _PRONOUN.match(rest)):
            return False
    return wanted


def _reshapes(said: str) -> bool:
    """Whether a sentence of a request begins with a verb that gives the code another shape, or says it has one."""
    return any(_RESHAPING.match(_BEGIN.sub("", one.strip(), count=1)) for one in _CLAUSE.split(said))


def to_pass(text: str, *, new: bool = False) -> bool:
    """Whether code is to be mended because a test fails. `new`: what new tests should do does not count."""
    said = prose(text)
    if _MAKE_PASS.search(said):
        return True
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", said):
        said_so = re.search(_TEST, sentence, re.IGNORECASE) and _OUTCOME.search(sentence)
        if said_so and not (new and (_SURE.search(sentence) or _NEW.search(sentence))):
            return True
    return False
