"""Hiding secrets in text, whole or as a stream (A7, R-35): known values and the shapes of known kinds of key.

Two passes, values then shapes, each of which gives the same result for every split of a stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Protocol
from urllib.parse import quote

from tui_agent.text.cleaning import clean
from tui_agent.text.shapes import (
    HEADERS,
    LONGEST,
    LOOK_BACK,
    OPEN_HEADER,
    PEM,
    PEM_BEGIN,
    PEM_ENDED,
    PEM_LONGEST,
    SHAPES,
    TOKEN_CHARACTERS,
)

SHORTEST = 4
"""Values shorter than this are not masked: they would be found everywhere."""

_LINE = 16
"""Lines of a many-line value that are at least this long are masked on their own too."""


class Mask:
    """Knows what to hide: `values` maps the name that is shown to the secret itself."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.passes: tuple[Pass, ...] = (_Values(values), _shapes())

    def mask(self, text: str) -> str:
        """`text` with each secret as `⟨secret NAME, 40 characters⟩`."""
        for one in self.passes:
            text = one.whole(text)
        return text


class Masker:
    """The same as `Mask.mask()` for text that comes in pieces; holds back what may be the beginning of a secret."""

    def __init__(self, mask: Mask) -> None:
        self._stages = [_Stage(one) for one in mask.passes]

    def feed(self, text: str) -> str:
        """What `text` adds to the masked text."""
        for stage in self._stages:
            text = stage.feed(text)
        return text

    def flush(self) -> str:
        """What was held back, masked; the masker is as new afterwards."""
        text = ""
        for stage in self._stages:
            text = stage.feed(text) + stage.flush()
        return text


class Pass(Protocol):
    """One way to find secrets."""

    def search(self, text: str, start: int) -> re.Match[str] | None:
        """The first secret at or after `start`."""
        ...

    def shown(self, found: re.Match[str]) -> str:
        """What stands in its place."""
        ...

    def opened(self, text: str, start: int) -> int:
        """Where a secret may begin, at or after `start`, that the end of `text` cuts off; len(text) if nowhere."""
        ...

    def whole(self, text: str) -> str:
        """All of `text` masked."""
        ...


class _Stage:
    """A pass over a stream."""

    def __init__(self, one: Pass) -> None:
        self._pass = one
        self._held = ""
        self._shown = 0
        """How much of `_held` has been given out: kept because patterns look back."""

    def feed(self, text: str) -> str:
        return self._advance(text, final=False) if text else ""

    def flush(self) -> str:
        rest = self._advance("", final=True)
        self._held, self._shown = "", 0
        return rest

    def _advance(self, text: str, *, final: bool) -> str:
        text = self._held + text
        at = self._shown
        out: list[str] = []
        while True:
            cut = len(text) if final else self._pass.opened(text, at)
            found = self._pass.search(text, at)
            if found is None or found.start() >= cut:
                break
            out += text[at : found.start()], self._pass.shown(found)
            at = found.end()
        out.append(text[at:cut])
        context = max(0, cut - LOOK_BACK)
        self._held, self._shown = text[context:], cut - context
        return "".join(out)


def _placeholder(name: str, secret: str) -> str:
    return f"⟨secret {name}, {len(secret)} characters⟩"


class _Values:
    """Known values, as they are and as JSON and URLs write them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._forms: dict[str, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                self._forms.setdefault(form, f"{clean(name)}, {len(value)} characters")
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._pattern.search(text, start) if self._pattern else None

    def shown(self, found: re.Match[str]) -> str:
        return f"⟨secret {self._forms[found[0]]}⟩"

    def opened(self, text: str, start: int) -> int:
        cut = len(text)
        for form in self._forms:
            at = text.find(form[0], max(start, len(text) - len(form) + 1))
            while -1 < at < cut:
                if form.startswith(text[at:]):
                    cut = at
                at = text.find(form[0], at + 1)
        return cut

    def whole(self, text: str) -> str:
        if self._pattern is None or not any(form in text for form in self._forms):
            return text
        return self._pattern.sub(self.shown, text)


def _forms(value: str) -> set[str]:
    forms = {value, value.strip(), clean(value)}
    if "\n" in value:
        forms.update(line.strip() for line in value.splitlines() if len(line.strip()) >= _LINE)
    for form in tuple(forms):
        written = form.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        forms |= {
            json.dumps(written)[1:-1],
            json.dumps(written, ensure_ascii=False)[1:-1],
            quote(written, safe=""),
        }
    return {form for form in forms if len(form) >= SHORTEST}


class _Shapes:
    """Keys that can be told by their form."""

    def __init__(self) -> None:
        kinds = [("private key", PEM), *((label, pattern) for label, _, pattern in SHAPES)]
        kinds += [(label, f"(?i:{pattern})") for label, _, pattern in HEADERS]
        self._labels = {f"k{number}": label for number, (label, _) in enumerate(kinds)}
        parts = [
            f"(?P<k{number}>{pattern.replace('(?P<hide>', f'(?P<k{number}_hide>')})"
            for number, (_, pattern) in enumerate(kinds)
        ]
        self._pattern = re.compile("|".join(parts))
        self._starts = tuple(start for _, start, _ in SHAPES)
        self._start = re.compile("|".join(map(re.escape, self._starts)))
        self._headers = tuple(start for _, start, _ in HEADERS)
        literals = (*self._starts, "-----BEGIN", *self._headers)
        self._beginnings = frozenset(one[:size].lower() for one in literals for size in range(1, len(one)))
        self._longest_beginning = max(map(len, self._beginnings))

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._pattern.search(text, start)

    def shown(self, found: re.Match[str]) -> str:
        kind = found.lastgroup or ""
        hide = f"{kind}_hide" if f"{kind}_hide" in found.re.groupindex else kind
        (first, last), (begin, end) = found.span(hide), found.span()
        text = found.string
        return text[begin:first] + _placeholder(self._labels[kind], text[first:last]) + text[last:end]

    def opened(self, text: str, start: int) -> int:
        ends = [self._open_token(text, start), self._open_header(text, start), self._open_pem(text, start)]
        tail = text[max(start, len(text) - self._longest_beginning) :].lower()
        ends += [len(text) - size for size in range(1, len(tail) + 1) if tail[-size:] in self._beginnings]
        return min(ends)

    def _open_token(self, text: str, start: int) -> int:
        """Where the first shape begins within the run of key characters at the end."""
        at = max(start, len(text) - LONGEST)
        run = at + len(text[at:].rstrip(TOKEN_CHARACTERS))
        found = self._start.search(text, run)
        return found.start() if found else len(text)

    def _open_header(self, text: str, start: int) -> int:
        found = OPEN_HEADER.search(text, max(start, len(text) - LONGEST))
        return found.start() if found else len(text)

    def _open_pem(self, text: str, start: int) -> int:
        at = text.find("-----BEGIN", max(start, len(text) - PEM_LONGEST))
        while at >= 0:
            begins = PEM_BEGIN.match(text, at)
            if begins and (begins.end() == len(text) or begins["whole"]) and not PEM_ENDED.match(text, at):
                return at
            at = text.find("-----BEGIN", at + 1)
        return len(text)

    def whole(self, text: str) -> str:
        if not any(start in text for start in (*self._starts, "-----BEGIN")):
            lower = text.lower()
            if not any(start in lower for start in self._headers):
                return text
        return self._pattern.sub(self.shown, text)


@cache
def _shapes() -> _Shapes:
    return _Shapes()
