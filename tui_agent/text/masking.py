"""Hiding secrets in text, whole or as a stream (A7): known values and the shapes of known kinds of key.

Two passes, values then shapes, each of which gives the same result for every split of a stream. Both look for literal
beginnings first, which costs next to nothing in text that has none.
"""

from __future__ import annotations

import heapq
import json
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias
from urllib.parse import quote

from tui_agent.text.cleaning import clean

LONGEST = 6400
"""No match but a PEM block is longer than this: every repetition below is bounded."""

LOOK_BACK = 2
"""Characters before a match that its pattern looks at."""

TOKEN_CHARACTERS = string.ascii_letters + string.digits + "_-./+=~:@%!$&*?#^"
"""All that a key may consist of; whatever else ends it."""

_TOKEN = rf"[{re.escape(TOKEN_CHARACTERS)}]"

# Nothing that could belong to the same word stands before; the n of a `\\n` in JSON does not belong to it.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"

SHAPES: tuple[tuple[str, str, str], ...] = (
    ("API key", "sk-", _EDGE + r"sk-(?=[A-Za-z\-_]{0,60}[0-9])[A-Za-z0-9_\-]{16,256}"),
    ("API key", "sk_live_", r"sk_live_[A-Za-z0-9]{16,256}"),
    ("API key", "rk_live_", r"rk_live_[A-Za-z0-9]{16,256}"),
    ("API key", "gsk_", _EDGE + r"gsk_[A-Za-z0-9]{32,128}"),
    ("API key", "xai-", _EDGE + r"xai-[A-Za-z0-9]{40,128}"),
    ("API key", "AIza", r"AIza[A-Za-z0-9_\-]{35}"),
    ("API key", "SG.", _EDGE + r"SG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,64}"),
    ("API key", "dop_v1_", r"dop_v1_[a-f0-9]{64}"),
    ("API key", "shpat_", r"shpat_[A-Fa-f0-9]{32}"),
    *(("GitHub token", f"gh{kind}_", _EDGE + rf"gh{kind}_[A-Za-z0-9]{{20,255}}") for kind in "pousr"),
    ("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    ("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_\-]{16,128}"),
    *(("AWS key", start, _EDGE + rf"{start}[A-Z0-9]{{16}}(?![A-Za-z0-9])") for start in ("AKIA", "ASIA")),
    ("Slack token", "xox", _EDGE + r"xox[abeprs]-[A-Za-z0-9\-]{10,255}"),
    ("Slack token", "xapp-", r"xapp-[A-Za-z0-9\-]{10,255}"),
    ("Google token", "ya29.", r"ya29\.[A-Za-z0-9_\-]{20,1024}"),
    ("npm token", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_\-]{40,512}"),
    ("Hugging Face token", "hf_", _EDGE + r"hf_[A-Za-z0-9]{30,128}"),
    ("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_\-]{8,1024}\.eyJ[A-Za-z0-9_\-]{8,4000}\.[A-Za-z0-9_\-]{8,1024}"),
    ("password in a URL", "://", r"://[A-Za-z0-9_.~%+\-]{0,64}:(?P<hide>[A-Za-z0-9_.~%+\-=:!$&*?#^]{3,256})@"),
)
"""Label, the literal it begins with, pattern. What is hidden is the group `hide`, or all of it."""

_IS = r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"

HEADERS: tuple[tuple[str, str, str], ...] = (
    (
        "authorization",
        "authorization",
        rf"authorization{_IS}(?:bearer|basic|token|digest|apikey)[ \t]{{1,4}}(?P<hide>{_TOKEN}{{8,4096}})",
    ),
    ("bearer token", "bearer", _EDGE + rf"bearer[ \t]{{1,4}}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{20,4096}})"),
    ("API key", "api-key", rf"api-key{_IS}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{16,512}})"),
    ("AWS secret key", "aws_secret_access_key", rf"aws_secret_access_key{_IS}(?P<hide>[a-z0-9/+=]{{40,64}})"),
)
"""The same for keys that are told by what stands before them; letters of either case."""

OPEN_HEADER = re.compile(
    rf"(?i:(?:authorization|bearer|api-key|aws_secret_access_key)"
    rf"[\"']?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}[\"']?(?:[a-z]{{0,6}}[ \t]{{1,4}})?{_TOKEN}{{0,4096}}\Z)"
)
"""One of HEADERS that may go on after the end of the text."""

_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_KEY_LINE = r"[^A-Za-z+/=]{0,16}[A-Za-z0-9+/=]"
_PEM_WHOLE = rf"-----BEGIN {_NAME}-----[\s\S]{{0,8192}}?-----END {_NAME}-----"
PEM = (
    rf"(?:{_PEM_WHOLE}"
    rf"|-----BEGIN {_NAME}-----(?:(?:{_KEY_LINE}{{40,128}}){{1,60}}(?:{_KEY_LINE}{{1,128}})?)?)"
)
"""A private key, whatever stands at the beginning of its lines; without its end as far as it looks like one."""

PEM_LONGEST = 9216
"""No PEM match is longer."""

PEM_BEGIN = re.compile(rf"-----BEGIN(?:(?P<whole> {_NAME}-----)|[A-Z0-9 ]{{0,60}}-{{0,5}})")
PEM_ENDED = re.compile(_PEM_WHOLE)


SHORTEST = 4
"""Values shorter than this are not masked: they would be found everywhere."""

CUT = "…"
"""What stands where a text was cut."""
TELLING = 8
"""Characters of a cut secret from which on it is worth hiding."""
HIDDEN = "⟨secret⟩"

_HEADERS = tuple(start for _, start, _ in HEADERS)
_LINE = 16
"""Lines of a many-line value that are at least this long are masked on their own too."""

Secret: TypeAlias = tuple[int, int, str]
"""Where it begins and ends, and what is shown instead."""

Pass: TypeAlias = "_Values | _Shapes"
"""One way to find secrets."""

Finder: TypeAlias = Callable[[str, int], int]
"""(text, start) → where something begins at or after `start`; -1 for nowhere."""


class SecretMask:
    """Knows what to hide: `values` maps the name that is shown to the secret itself."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.passes: tuple[Pass, ...] = (_Values(values), _shapes())
        self._beginnings = tuple({start for one in self.passes for start in one.beginnings})

    def mask(self, text: str, *, keep_lines: bool = False) -> str:
        """`text` with each secret as `⟨secret NAME, 40 characters⟩`; with `keep_lines` no line of it goes away.

        What an ellipsis cut off is masked as well, as far as it can be told.
        """
        if not self._may_hold(text):
            return text
        for one in self.passes:
            text = _replaced(text, one.find(text, 0), keep_lines)
        return self._mask_cut(text) if CUT in text else text

    def _may_hold(self, text: str) -> bool:
        """A quick look at what nearly all texts hold nothing of."""
        for start in self._beginnings:  # not any(): a generator costs more than the searches
            if start in text:
                return True
        lower = text.lower()
        for start in _HEADERS:
            if start in lower:
                return True
        return CUT in text

    def _mask_cut(self, text: str) -> str:
        """The beginnings of secrets that stand right before an ellipsis."""
        head, *rest = text.split(CUT)
        parts = []
        for part in rest:
            before = head.removesuffix(" [")  # as in "[… 500 more characters]"
            begin = min(one.opened(before, 0) for one in self.passes)
            cut = before[begin:]
            if len(cut) >= TELLING and not cut.isalpha():
                head = before[:begin] + HIDDEN + head[len(before) :]
            parts.append(head)
            head = part
        return CUT.join([*parts, head])


class StreamMasker:
    """Like `SecretMask.mask()` for a stream; holds back what may be the beginning of a secret."""

    def __init__(self, mask: SecretMask) -> None:
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


def _replaced(text: str, secrets: Iterator[Secret], keep_lines: bool) -> str:
    out: list[str] = []
    at = 0
    for begin, end, shown in secrets:
        out += text[at:begin], shown
        at = end
        if keep_lines:
            out += [f"\n{line[:1]}{HIDDEN}" for line in text[begin:end].split("\n")[1:]]
    return "".join((*out, text[at:])) if out else text


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
        cut = len(text) if final else self._pass.opened(text, at)
        out: list[str] = []
        for begin, end, shown in self._pass.find(text, at):
            if begin >= cut:
                break
            out += text[at:begin], shown
            at = end
            if end > cut:
                cut = self._pass.opened(text, end)
        out.append(text[at:cut])
        context = max(0, cut - LOOK_BACK)
        self._held, self._shown = text[context:], cut - context
        return "".join(out)


class _Beginnings:
    """Where secrets may begin in a text: the finders' places in order, the earlier finder first at the same place."""

    def __init__(self, text: str, start: int, finders: Sequence[Finder]) -> None:
        self._text = text
        self._finders = finders
        places = ((finder(text, start), rank) for rank, finder in enumerate(finders))
        self._heap = [(place, rank) for place, rank in places if place >= 0]
        heapq.heapify(self._heap)

    def next(self, start: int) -> tuple[int, int] | None:
        """The next place at or after `start`, with the finder's rank; each is given once."""
        while self._heap:
            place, rank = self._heap[0]
            after = self._finders[rank](self._text, max(start, place + 1))
            if after < 0:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (after, rank))
            if place >= start:
                return place, rank
        return None


def _literal(wanted: str) -> Finder:
    return lambda text, start: text.find(wanted, start)


def _any_case(wanted: str) -> Finder:
    pattern = re.compile(wanted, re.IGNORECASE | re.ASCII)

    def find(text: str, start: int) -> int:
        found = pattern.search(text, start)
        return found.start() if found else -1

    return find


class _Values:
    """Known values, as they are and as JSON and URLs write them."""

    def __init__(self, values: Mapping[str, str]) -> None:
        shown: dict[str, str] = {}
        for name, value in values.items():
            for form in _forms(value):
                shown.setdefault(form, f"⟨secret {clean(name)}, {len(value)} characters⟩")
        self._forms = sorted(shown.items(), key=lambda item: len(item[0]), reverse=True)
        self._finders = [_literal(form) for form, _ in self._forms]
        self.beginnings = tuple(form[:SHORTEST] for form, _ in self._forms)
        """Texts of which one stands at the beginning of each secret, headers apart."""

    def find(self, text: str, start: int) -> Iterator[Secret]:
        """The secrets from `start` on, in order, none within another."""
        beginnings = _Beginnings(text, start, self._finders)
        while found := beginnings.next(start):
            place, rank = found
            form, shown = self._forms[rank]
            start = place + len(form)
            yield place, start, shown

    def opened(self, text: str, start: int) -> int:
        """Where a secret may begin, at or after `start`, that the end of `text` cuts off; len(text) if nowhere."""
        cut = len(text)
        for form, _ in self._forms:
            at = text.find(form[0], max(start, len(text) - len(form) + 1))
            while -1 < at < cut:
                if form.startswith(text[at:]):
                    cut = at
                at = text.find(form[0], at + 1)
        return cut


def _forms(value: str) -> set[str]:
    forms = {value, value.strip(), clean(value)}
    if "\n" in value:
        forms.update(line.strip() for line in value.splitlines() if len(line.strip()) >= _LINE)
    for form in tuple(forms):
        written = form.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        forms |= {json.dumps(written)[1:-1], json.dumps(written, ensure_ascii=False)[1:-1], quote(written, safe="")}
    return {form for form in forms if len(form) >= SHORTEST}


class _Shapes:
    """Keys that can be told by their form."""

    def __init__(self) -> None:
        self._kinds = [("private key", re.compile(PEM))]
        self._kinds += [(label, re.compile(pattern)) for label, _, pattern in SHAPES]
        self._kinds += [(label, re.compile(pattern, re.IGNORECASE | re.ASCII)) for label, _, pattern in HEADERS]
        self.beginnings = literals = ("-----BEGIN", *(start for _, start, _ in SHAPES))
        headers = tuple(start for _, start, _ in HEADERS)
        self._exact = [_literal(one) for one in literals]
        self._finders = [*self._exact, *map(_any_case, headers)]
        self._headers = headers
        self._start = re.compile("|".join(map(re.escape, literals)))
        self._beginnings = frozenset(one[:size].lower() for one in (*literals, *headers) for size in range(1, len(one)))
        self._longest_beginning = max(map(len, self._beginnings))

    def find(self, text: str, start: int) -> Iterator[Secret]:
        lower = text.lower()
        finders = self._finders if any(one in lower for one in self._headers) else self._exact
        beginnings = _Beginnings(text, start, finders)
        while found := beginnings.next(start):
            place, rank = found
            label, pattern = self._kinds[rank]
            if matched := pattern.match(text, place):
                first, last = matched.span("hide" if "hide" in pattern.groupindex else 0)
                start = matched.end()
                hidden = f"⟨secret {label}, {last - first} characters⟩"
                yield place, start, f"{text[place:first]}{hidden}{text[last:start]}"

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


@cache
def _shapes() -> _Shapes:
    return _Shapes()
