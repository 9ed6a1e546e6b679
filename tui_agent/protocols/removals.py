"""Which removals a request permits, and the lines by which a reply abbreviates a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from tui_agent.protocols.source_lines import source_lines
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.protocols", "removals")

_MAX_LENGTH = 120
"""Maximum length of an omission line, in characters."""


class AllowedRemovals(msgspec.Struct, frozen=True):
    """What a request permits to remove."""

    request: str
    removable: Collection[str] = ()
    """Names of definitions that may be removed."""

    @property
    def allows_rewrite(self) -> bool:
        """Whether a file may be replaced altogether."""
        return _RE.rewrite.search(self.request) is not None

    @property
    def allows_removal(self) -> bool:
        """Whether the request removes anything."""
        return self.allows_restructuring or _RE.removal.search(self.request) is not None

    @property
    def allows_restructuring(self) -> bool:
        """Whether most lines of a file may change."""
        return self.allows_rewrite or _RE.restructuring.search(self.request) is not None

    def permits(self, name: str, new: Iterable[str] = ()) -> bool:
        """Whether `name` may be removed while the `new` names are added."""
        if self.allows_rewrite or name in self.removable:
            return True
        return self.mentions(name) and (_RE.removal.search(self.request) is not None or any(map(self.mentions, new)))

    def unpermitted(self, removed: Iterable[str], new: Iterable[str] = ()) -> list[str]:
        """Return the names that may not be removed. If fewer are new, none of these counts as a renaming."""
        removed, new = list(removed), list(new)
        new = new if len(new) >= len(removed) else []
        return [name for name in removed if not self.permits(name, new)]

    def mentions(self, name: str) -> bool:
        """Whether the request mentions `name`."""
        stripped = name.strip(" #.:*`")
        return bool(stripped) and re.search(rf"(?<!\w){re.escape(stripped)}(?!\w)", self.request, re.I) is not None


def omission_lines(text: str, old: str, *, headings: bool = False) -> list[int]:
    """Return the zero-based numbers of the lines that stand for omitted parts of the file `old`. `headings`: lines that
    begin with # don't count."""
    old_lines = {line.strip() for line in source_lines(old)}
    return [
        number
        for number, line in enumerate(source_lines(text))
        if line.strip() not in old_lines and is_omission(line) and not (headings and line.startswith("#"))
    ]


def is_omission(line: str) -> bool:
    """Whether a line stands for others: `# ... existing code ...`, `<!-- rest of the page -->`, three dots alone."""
    stripped = line.strip()
    return 0 < len(stripped) <= _MAX_LENGTH and _RE.omission_line.fullmatch(stripped) is not None
