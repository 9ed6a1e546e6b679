"""What a request lets go of a file, and how a reply stands for what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from tui_agent.protocols.source_lines import lines_of

_LESS = re.compile(
    r"\b(?:remov|delet|renam|drop|mov(?:e|ing)\b|replac|extract|split|inlin|(?:get|getting) rid|merg|strip|cut\b"
    r"|uninstall|without\b|comment(?:ed|ing)? out|exclud|discard|prune|trim)"
    r"|\binstead of\b|\bput\b[^.\n]{0,80}?\binto\b",
    re.IGNORECASE,
)
"""Words by which what a request names may vanish."""
_FILE = (
    r"(?:(?:the|its|all|of|whole|entire|complete) +)*"
    r"(?:file|page|readme|document|contents?\b|[\w/-]+\.[A-Za-z]\w{0,5}\b)"
)
_ANEW = re.compile(
    rf"\bfrom scratch\b|\bstart(?:ing)? over\b|\b(?:rewr[io]t\w*|clear|empty|reset|overwr[io]t\w*) +(?:out +)?{_FILE}"
    r"|(?<![\w/-])[\w/-]+\.[A-Za-z]\w{0,5} +(?:\w+ +){0,2}(?:contain|hold|ha[sv]e?|say|read|consist)s?(?: +of)?"
    r" +(?:only|just|exactly|nothing but)\b"
    rf"|\b(?:replace|change) +(?:the|all|its)?(?: *(?:whole|entire|complete))? *contents?\b",
    re.IGNORECASE,
)
"""Words by which a file may become another altogether."""
_OTHERWISE = re.compile(
    r"\b(?:rewr[io]t|overwr[io]t|shorten|simplif|condens|minif|minimi|translat|restructur|reorgani|clean|slim|summar"
    r"|truncat|compress|concise|clear|empty|reset|shorter|only\b|just\b|exactly\b|nothing but|contents?\b)",
    re.IGNORECASE,
)
"""Words by which most lines of a file may become others, or fewer."""
_DOTS = r"(?:\.{3,}|…|\[(?:\.{3,}|…)\])"
_THING = (
    r"(?:code|file|contents?|class|functions?|methods?|config(?:uration)?|page|document|program|script|module|imports?"
    r"|styles?|stylesheet|rules|keys|settings|options|entries|fields|sections?|tests?|definitions?|implementation"
    r"|html|css|json|markup|body|text|lines?|stuff|data|readme|things?|elements?|items|values)"
)
_TAIL = (
    r"(?: (?:goes )?here|(?: (?:is|are|stays?|remains?|continues?))* ?(?:the same|unchanged|as (?:it is|is|before))"
    r"|(?: stays?| remains?))"
)
_REST = rf"(?:the |your )?(?:rest|remainder)(?: of (?:the |your |this )?(?:[\w.-]+ )?{_THING})?"
_OTHERS = (
    rf"(?:the |your |all |keep )*(?:existing|other|remaining|previous|original|old) (?:[\w.-]+ )?{_THING}"
)
_EXISTING = (
    r"(?:the |your |all |keep )*existing (?:[\w.-]+ )?"
    r"(?:code|file|contents?|page|html|markup|css|json|config(?:uration)?|text|styles?)"
)
_SAME = r"(?:same|unchanged|as) (?:as )?(?:before|above)|(?:remains? )?unchanged|no changes?(?: here)?"
_SAID = rf"(?:(?:{_REST}|{_OTHERS}){_TAIL}?|{_SAME})"
_PLAIN = rf"(?:(?:{_REST}|{_EXISTING}){_TAIL}?|{_OTHERS}{_TAIL}|{_SAME})"
"""What says so without dots: a heading over other tests says less."""
_OPEN = r"(?:#+|//+|/\*+|<!--|--|;|\{/\*|\*|%|\()"
_MARK = re.compile(
    rf"\s*(?:{_OPEN}\s*)?(?:{_DOTS}\s*\(?(?:{_SAID})?\)?\s*(?:{_DOTS})?|{_OPEN}\s*(?:{_PLAIN}|{_SAID}\s*{_DOTS})"
    rf"|\(?{_SAID}\s*{_DOTS})[\s.,:)]*(?:\*/\}}?|-->)?\s*",
    re.IGNORECASE,
)
"""A line that stands for others."""
_LONGEST = 120
"""Characters of such a line at most."""


class Leave(msgspec.Struct, frozen=True):
    """What may vanish by a request."""

    request: str
    going: Collection[str] = ()
    """Names of definitions that may."""

    @property
    def anew(self) -> bool:
        """Whether a file may become another altogether."""
        return _ANEW.search(self.request) is not None

    @property
    def less(self) -> bool:
        """Whether the request takes something away at all."""
        return self.otherwise or _LESS.search(self.request) is not None

    @property
    def otherwise(self) -> bool:
        """Whether most lines of a file may become others."""
        return self.anew or _OTHERWISE.search(self.request) is not None

    def lets(self, name: str, new: Iterable[str] = ()) -> bool:
        """Whether what is called `name` may vanish, where the `new` names come."""
        if self.anew or name in self.going:
            return True
        return self.names(name) and (
            _LESS.search(self.request) is not None or any(self.names(one) for one in new)
        )

    def held(self, gone: Iterable[str], new: Iterable[str] = ()) -> list[str]:
        """Those of the names that may not vanish. Where fewer are new, none of these is another's new name."""
        gone, new = list(gone), list(new)
        new = new if len(new) >= len(gone) else []
        return [name for name in gone if not self.lets(name, new)]

    def names(self, name: str) -> bool:
        """Whether the request names it."""
        bare = name.strip(" #.:*`")
        return bool(bare) and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", self.request, re.I) is not None


def marks(text: str, old: str, *, headings: bool = False) -> list[int]:
    """Numbers, from 0, of the lines that stand for what a reply leaves out of the file `old`. `headings`: a line that
    begins with # is none."""
    there = {line.strip() for line in lines_of(old)}
    return [
        at
        for at, line in enumerate(lines_of(text))
        if line.strip() not in there and is_mark(line) and not (headings and line.startswith("#"))
    ]


def is_mark(line: str) -> bool:
    """Whether a line stands for others: `# ... existing code ...`, `<!-- rest of the page -->`, three dots alone."""
    stripped = line.strip()
    return 0 < len(stripped) <= _LONGEST and _MARK.fullmatch(stripped) is not None
