"""What a request lets go of a file, and how a reply stands for what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from tui_agent.protocols.source_lines import source_lines
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "removals")

_LONGEST = 120
"""Characters of such a line at most."""


class AllowedRemovals(msgspec.Struct, frozen=True):
    """What may vanish by a request."""

    request: str
    going: Collection[str] = ()
    """Names of definitions that may."""

    @property
    def anew(self) -> bool:
        """Whether a file may become another altogether."""
        return _RE.anew.search(self.request) is not None

    @property
    def less(self) -> bool:
        """Whether the request takes something away at all."""
        return self.otherwise or _RE.less.search(self.request) is not None

    @property
    def otherwise(self) -> bool:
        """Whether most lines of a file may become others."""
        return self.anew or _RE.otherwise.search(self.request) is not None

    def lets(self, name: str, new: Iterable[str] = ()) -> bool:
        """Whether what is called `name` may vanish, where the `new` names come."""
        if self.anew or name in self.going:
            return True
        return self.names(name) and (_RE.less.search(self.request) is not None or any(self.names(one) for one in new))

    def held(self, gone: Iterable[str], new: Iterable[str] = ()) -> list[str]:
        """Those of the names that may not vanish. Where fewer are new, none of these is another's new name."""
        gone, new = list(gone), list(new)
        new = new if len(new) >= len(gone) else []
        return [name for name in gone if not self.lets(name, new)]

    def names(self, name: str) -> bool:
        """Whether the request names it."""
        bare = name.strip(" #.:*`")
        return bool(bare) and re.search(rf"(?<!\w){re.escape(bare)}(?!\w)", self.request, re.I) is not None


def omission_lines(text: str, old: str, *, headings: bool = False) -> list[int]:
    """Numbers, from 0, of the lines that stand for what a reply leaves out of the file `old`. `headings`: a line that
    begins with # is none."""
    there = {line.strip() for line in source_lines(old)}
    return [
        at
        for at, line in enumerate(source_lines(text))
        if line.strip() not in there and is_omission(line) and not (headings and line.startswith("#"))
    ]


def is_omission(line: str) -> bool:
    """Whether a line stands for others: `# ... existing code ...`, `<!-- rest of the page -->`, three dots alone."""
    stripped = line.strip()
    return 0 < len(stripped) <= _LONGEST and _RE.mark.fullmatch(stripped) is not None
