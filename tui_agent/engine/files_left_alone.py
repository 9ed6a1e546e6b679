"""Files that a request says are to stay as they are: "do not change test_x.py", "leave the other files as they are"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tui_agent.engine.name_checks import is_test, prose
from tui_agent.protocols.file_blocks import PATH
from tui_agent.protocols.file_reply import named_paths

_OTHERS = "\x01"
"""Stands for words that mean all files but those that the request names."""
_TESTS = "\x02"
"""Stands for words that mean the tests."""
_FILE = "\x03"
"""Stands before and behind the number of a file that is named."""
_OTHER_FILES = re.compile(
    r"\b(?:(?:any|all|none) of (?:the )?other files"
    r"|(?:all |any |both )?(?:of )?(?:the |my |your )?(?:other|remaining) (?:\w+ )?files?"
    r"|the rest of the files|(?:any|every) other (?:\w+ )?files?)\b",
    re.IGNORECASE,
)
_ALL_TESTS = re.compile(
    r"\b(?:(?:any |all )?(?:of )?(?:the |my |our |those |these |existing )+)?(?:unit )?tests?"
    r"(?: (?:files?|cases?|code))?\b(?! (?:in|for|of|that|which)\b)(?!['’]s)",
    re.IGNORECASE,
)
_CHANGING = r"(?:chang|touch|edit|modif|alter|rewrit|overwrit|adapt|adjust|weaken|writ)\w*"
_THING = f"[`'\"(]?(?:{_FILE}\\d+{_FILE}(?!['’]s)|{_OTHERS}|{_TESTS})[`'\")]?"
_FILLER = r"(?:(?:the|my|our|a|any|all|of|both|either|file|files|module|contents?|anything|existing|in|or|and|nor)\s+)*"
_LIST = rf"{_FILLER}{_THING}(?:(?:\s*,\s*(?:and\s+|or\s+|nor\s+)?|\s+(?:and|or|nor)\s+){_FILLER}{_THING})*"
_NO_LIMIT = r"(?!,?\s*(?:except|beyond|more than|unless|until|other than|but only))"
_AS_IS = (
    r"(?:exactly\s+|just\s+)?(?:as (?:it|they|is|are)\b|alone\b|untouched|unchanged|unmodified|intact|the same\b"
    r"|like (?:it|they) (?:is|are)\b)"
)
_IMPERATIVE = r"(?:^|[.;:,!?\n(–—-]\s*|\b(?:and|but|so|please|just|also|then|pls)\s+)"
_ITSELF = rf"change\b(?!\s+(?:[{_FILE}{_OTHERS}{_TESTS}]|the\b|an?\b|any|its|it\b|how|what))"
"""A file that "must not change"; one that must not change something is a program."""
_RIGHT = r"(?:(?:is|are) (?:right|correct|fine|ok|okay|good),?\s+(?:(?:and|so)\s+)?(?:(?:it|they)\s+)?)?"
_MODAL = r"(?:must|should|shall|may|can|need|needs|has|have|is|are|do|does)\s*(?:to\s+)?"
_FORBIDDEN = re.compile(
    rf"(?:{_IMPERATIVE}(?:do not|don't|dont|never)"
    r"|\byou (?:must not|mustn't|should not|shouldn't|may not|can't|cannot))"
    rf"\s+(?:\w+\s+)?{_CHANGING}\s+(?P<object>{_LIST}){_NO_LIMIT}"
    rf"|\b(?:without\s+{_CHANGING}|avoid\s+{_CHANGING}|no (?:changes|edits) (?:to|in))\s+(?P<what>{_LIST}){_NO_LIMIT}",
    re.IGNORECASE,
)
_LEFT = re.compile(rf"\b(?:leave|leaving|keep|keeping)\s+(?P<what>{_LIST})\s+{_AS_IS}", re.IGNORECASE)
_STAYS = re.compile(
    rf"(?P<what>{_LIST})\s+{_RIGHT}(?:{_MODAL}(?:(?:not|n't|never)\s+(?:need\s+)?(?:to\s+)?(?:be\s+{_CHANGING}|{_ITSELF})"
    rf"|(?:stay|remain|be left|be kept|keep)\s+{_AS_IS})"
    rf"|(?:stays?|remains?)\s+{_AS_IS}|(?:mustn't|shouldn't|can't|needn't)\s+(?:be\s+{_CHANGING}|{_ITSELF})){_NO_LIMIT}",
    re.IGNORECASE,
)
_ONLY = re.compile(
    rf"\b(?:(?:only|just)\s+(?:change|edit|touch|modify)\s+(?P<first>{_LIST})"
    rf"|(?:change|edit|touch|modify)\s+only\s+(?P<last>{_LIST}))",
    re.IGNORECASE,
)
_EVERYWHERE = re.compile(
    r"\beverywhere\b|\bcallers?\b|\bwherever\b|\bacross\b|\ball (?:its )?(?:uses|usages|imports)\b",
    re.IGNORECASE,
)


def files_left_alone(request: str, files: Collection[str]) -> frozenset[str]:
    """Those of `files` (relative paths) that a request says are not to be changed."""
    text = prose(request).replace("’", "'")
    named: list[str] = []

    def numbered(one: re.Match[str]) -> str:
        named.append(one.group(0).removeprefix("./"))
        return f"{_FILE}{len(named) - 1}{_FILE}"

    masked = PATH.sub(numbered, text)
    masked = _ALL_TESTS.sub(_TESTS, _OTHER_FILES.sub(_OTHERS, masked))
    found = (one for pattern in (_FORBIDDEN, _LEFT, _STAYS) for one in pattern.finditer(masked))
    said = [what for one in found for what in one.groups() if what]
    left = {path for what in said for path in _matching(_named_in(what, named), files)}
    if any(_TESTS in what for what in said):
        left |= {path for path in files if is_test(path)}
    only = [one.group("first") or one.group("last") for one in _ONLY.finditer(masked)]
    if (only or any(_OTHERS in what for what in said)) and not _EVERYWHERE.search(text):
        meant = [name for what in only for name in _named_in(what, named)] or [
            name for name in named_paths(text) if name not in left
        ]
        spoken_of = set(_matching(meant, files))
        if spoken_of:
            left |= set(files) - spoken_of
    return frozenset(left)


def _named_in(what: str, named: list[str]) -> list[str]:
    return [named[int(number)] for number in re.findall(f"{_FILE}(\\d+){_FILE}", what)]


def _matching(names: Iterable[str], files: Collection[str]) -> list[str]:
    """The files that are meant by names, which may be the ends of paths."""
    return [path for path in files for name in names if path == name or path.endswith(f"/{name}")]
