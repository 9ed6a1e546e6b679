"""Masking secrets in text, complete or streamed (A7): known values, and keys of recognizable form.

The two passes, values and then patterns, give the same result for every split of a stream. Both search for literal
prefixes first, which costs almost nothing in text without secrets.
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

MAX_LENGTH = 6400
"""No match except a PEM block is longer: every repetition below is bounded."""

LOOK_BACK = 2
"""Characters before a match that its pattern examines."""

TOKEN_CHARACTERS = string.ascii_letters + string.digits + "_-./+=~:@%!$&*?#^"
"""The characters of a key; any other one ends it."""

_TOKEN = rf"[{re.escape(TOKEN_CHARACTERS)}]"

# No character of the same word precedes; the n of a `\\n` in JSON is not part of the word.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"

KEY_PATTERNS: tuple[tuple[str, str, str], ...] = (
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
"""Label, literal prefix, pattern. The group `hide` is masked, or the whole match."""

_ASSIGNMENT = r"[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"

HEADER_PATTERNS: tuple[tuple[str, str, str], ...] = (
    (
        "authorization",
        "authorization",
        rf"authorization{_ASSIGNMENT}(?:bearer|basic|token|digest|apikey)[ \t]{{1,4}}(?P<hide>{_TOKEN}{{8,4096}})",
    ),
    ("bearer token", "bearer", _EDGE + rf"bearer[ \t]{{1,4}}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{20,4096}})"),
    ("API key", "api-key", rf"api-key{_ASSIGNMENT}(?=[a-z_\-]{{0,60}}[0-9])(?P<hide>{_TOKEN}{{16,512}})"),
    ("AWS secret key", "aws_secret_access_key", rf"aws_secret_access_key{_ASSIGNMENT}(?P<hide>[a-z0-9/+=]{{40,64}})"),
)
"""The same for keys recognized by what precedes them, ignoring case."""

OPEN_HEADER = re.compile(
    rf"(?i:(?:authorization|bearer|api-key|aws_secret_access_key)"
    rf"[\"']?[ \t]{{0,4}}[:=]?[ \t]{{0,4}}[\"']?(?:[a-z]{{0,6}}[ \t]{{1,4}})?{_TOKEN}{{0,4096}}\Z)"
)
"""A match of HEADER_PATTERNS that may continue after the end of the text."""

_PEM_LABEL = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_KEY_LINE = r"[^A-Za-z+/=]{0,16}[A-Za-z0-9+/=]"
_COMPLETE_PEM = rf"-----BEGIN {_PEM_LABEL}-----[\s\S]{{0,8192}}?-----END {_PEM_LABEL}-----"
PEM = (
    rf"(?:{_COMPLETE_PEM}"
    rf"|-----BEGIN {_PEM_LABEL}-----(?:(?:{_KEY_LINE}{{40,128}}){{1,60}}(?:{_KEY_LINE}{{1,128}})?)?)"
)
"""A private key, whatever precedes it on its lines; if the end is missing, as far as it looks like one."""

MAX_PEM_LENGTH = 9216
"""Maximum length of a PEM match."""

PEM_BEGIN = re.compile(rf"-----BEGIN(?:(?P<whole> {_PEM_LABEL}-----)|[A-Z0-9 ]{{0,60}}-{{0,5}})")
COMPLETE_PEM = re.compile(_COMPLETE_PEM)


MIN_VALUE_LENGTH = 4
"""Shorter values are not masked: they would occur everywhere."""

ELLIPSIS = "…"
"""Marks truncated text."""
MIN_TRUNCATED_LENGTH = 8
"""Minimum length of a truncated secret to be masked."""
MASKED = "⟨secret⟩"

_HEADER_PREFIXES = tuple(prefix for _, prefix, _ in HEADER_PATTERNS)
_MIN_LINE_LENGTH = 16
"""Lines of a multi-line value of at least this length are also masked separately."""

Secret: TypeAlias = tuple[int, int, str]
"""Start, end, and replacement."""

MaskPass: TypeAlias = "_ValuePass | _PatternPass"
"""A way to find secrets."""

Finder: TypeAlias = Callable[[str, int], int]
"""(text, start) → the next candidate position, or -1."""


class SecretMask:
    """Masks secrets: `values` maps displayed names to the secrets."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        self.add(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Mask these secrets too, from now on."""
        self._values |= values
        self.passes: tuple[MaskPass, ...] = (_ValuePass(self._values), _pattern_pass())
        self._prefixes = tuple({prefix for mask_pass in self.passes for prefix in mask_pass.prefixes})

    def mask(self, text: str, *, keep_lines: bool = False) -> str:
        """Replace each secret by `⟨secret NAME, 40 characters⟩`; `keep_lines` preserves the number of lines.

        Secrets truncated with an ellipsis are masked as well, as far as they can be recognized.
        """
        if not self._may_contain_secret(text):
            return text
        for mask_pass in self.passes:
            text = _replace(text, mask_pass.find(text, 0), keep_lines)
        return self._mask_truncated(text) if ELLIPSIS in text else text

    def _may_contain_secret(self, text: str) -> bool:
        """Quickly rule out texts without secrets."""
        for prefix in self._prefixes:  # not any(): a generator costs more than the searches
            if prefix in text:
                return True
        lower = text.lower()
        for prefix in _HEADER_PREFIXES:
            if prefix in lower:
                return True
        return ELLIPSIS in text

    def _mask_truncated(self, text: str) -> str:
        """Mask the beginnings of secrets right before an ellipsis."""
        head, *following = text.split(ELLIPSIS)
        parts = []
        for part in following:
            before = head.removesuffix(" [")  # as in "[… 500 more characters]"
            start = min(mask_pass.open_start(before, 0) for mask_pass in self.passes)
            truncated = before[start:]
            if len(truncated) >= MIN_TRUNCATED_LENGTH and not truncated.isalpha():
                head = before[:start] + MASKED + head[len(before) :]
            parts.append(head)
            head = part
        return ELLIPSIS.join([*parts, head])


class StreamMasker:
    """Like `SecretMask.mask()` for a stream; holds back what may be the beginning of a secret."""

    def __init__(self, mask: SecretMask) -> None:
        self._streams = [_PassStream(mask_pass) for mask_pass in mask.passes]

    def feed(self, text: str) -> str:
        """Return the masked text that `text` adds."""
        for stream in self._streams:
            text = stream.feed(text)
        return text

    def flush(self) -> str:
        """Return what was held back, masked, and reset the masker."""
        text = ""
        for stream in self._streams:
            text = stream.feed(text) + stream.flush()
        return text


def _replace(text: str, secrets: Iterator[Secret], keep_lines: bool) -> str:
    out: list[str] = []
    position = 0
    for start, end, replacement in secrets:
        out += text[position:start], replacement
        position = end
        if keep_lines:
            out += [f"\n{line[:1]}{MASKED}" for line in text[start:end].split("\n")[1:]]
    return "".join((*out, text[position:])) if out else text


class _PassStream:
    """A pass over a stream."""

    def __init__(self, mask_pass: MaskPass) -> None:
        self._pass = mask_pass
        self._held = ""
        self._returned = 0
        """Length of the part of `_held` already returned, kept because patterns look back."""

    def feed(self, text: str) -> str:
        return self._advance(text, final=False) if text else ""

    def flush(self) -> str:
        text = self._advance("", final=True)
        self._held, self._returned = "", 0
        return text

    def _advance(self, text: str, *, final: bool) -> str:
        text = self._held + text
        position = self._returned
        cut = len(text) if final else self._pass.open_start(text, position)
        out: list[str] = []
        for start, end, replacement in self._pass.find(text, position):
            if start >= cut:
                break
            out += text[position:start], replacement
            position = end
            if end > cut:
                cut = self._pass.open_start(text, end)
        out.append(text[position:cut])
        context = max(0, cut - LOOK_BACK)
        self._held, self._returned = text[context:], cut - context
        return "".join(out)


class _Candidates:
    """Iterates over candidate positions in order; at the same position the earlier finder comes first."""

    def __init__(self, text: str, start: int, finders: Sequence[Finder]) -> None:
        self._text = text
        self._finders = finders
        candidates = ((finder(text, start), rank) for rank, finder in enumerate(finders))
        self._heap = [(position, rank) for position, rank in candidates if position >= 0]
        heapq.heapify(self._heap)

    def next(self, start: int) -> tuple[int, int] | None:
        """Return the next position at or after `start` with the finder's rank; each is returned once."""
        while self._heap:
            position, rank = self._heap[0]
            after = self._finders[rank](self._text, max(start, position + 1))
            if after < 0:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (after, rank))
            if position >= start:
                return position, rank
        return None


def _literal(literal: str) -> Finder:
    return lambda text, start: text.find(literal, start)


def _any_case(literal: str) -> Finder:
    pattern = re.compile(literal, re.IGNORECASE | re.ASCII)

    def find(text: str, start: int) -> int:
        match = pattern.search(text, start)
        return match.start() if match else -1

    return find


class _ValuePass:
    """Known values, as they are and as written in JSON and URLs."""

    def __init__(self, values: Mapping[str, str]) -> None:
        replacements: dict[str, str] = {}
        for name, value in values.items():
            for form in _written_forms(value):
                replacements.setdefault(form, f"⟨secret {clean(name)}, {len(value)} characters⟩")
        self._written_forms = sorted(replacements.items(), key=lambda entry: len(entry[0]), reverse=True)
        self._finders = [_literal(form) for form, _ in self._written_forms]
        self.prefixes = tuple(form[:MIN_VALUE_LENGTH] for form, _ in self._written_forms)
        """Prefixes, one of which starts each secret (headers excluded)."""

    def find(self, text: str, start: int) -> Iterator[Secret]:
        """Yield the secrets from `start` on, in order, without overlaps."""
        candidates = _Candidates(text, start, self._finders)
        while candidate := candidates.next(start):
            position, rank = candidate
            form, replacement = self._written_forms[rank]
            start = position + len(form)
            yield position, start, replacement

    def open_start(self, text: str, start: int) -> int:
        """Return the first position from `start` on where the end of `text` may cut off a secret, or len(text)."""
        cut = len(text)
        for form, _ in self._written_forms:
            position = text.find(form[0], max(start, len(text) - len(form) + 1))
            while -1 < position < cut:
                if form.startswith(text[position:]):
                    cut = position
                position = text.find(form[0], position + 1)
        return cut


def _written_forms(value: str) -> set[str]:
    forms = {value, value.strip(), clean(value)}
    if "\n" in value:
        forms.update(line.strip() for line in value.splitlines() if len(line.strip()) >= _MIN_LINE_LENGTH)
    for form in tuple(forms):
        encoded = form.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        forms |= {json.dumps(encoded)[1:-1], json.dumps(encoded, ensure_ascii=False)[1:-1], quote(encoded, safe="")}
    return {form for form in forms if len(form) >= MIN_VALUE_LENGTH}


class _PatternPass:
    """Keys recognized by their form."""

    def __init__(self) -> None:
        self._kinds = [("private key", re.compile(PEM))]
        self._kinds += [(label, re.compile(pattern)) for label, _, pattern in KEY_PATTERNS]
        self._kinds += [(label, re.compile(pattern, re.IGNORECASE | re.ASCII)) for label, _, pattern in HEADER_PATTERNS]
        self.prefixes = literals = ("-----BEGIN", *(prefix for _, prefix, _ in KEY_PATTERNS))
        self._exact = [_literal(prefix) for prefix in literals]
        self._finders = [*self._exact, *map(_any_case, _HEADER_PREFIXES)]
        self._start = re.compile("|".join(map(re.escape, literals)))
        self._partial_prefixes = frozenset(
            prefix[:size].lower() for prefix in (*literals, *_HEADER_PREFIXES) for size in range(1, len(prefix))
        )
        self._longest_partial = max(map(len, self._partial_prefixes))

    def find(self, text: str, start: int) -> Iterator[Secret]:
        lower = text.lower()
        finders = self._finders if any(prefix in lower for prefix in _HEADER_PREFIXES) else self._exact
        candidates = _Candidates(text, start, finders)
        while candidate := candidates.next(start):
            position, rank = candidate
            label, pattern = self._kinds[rank]
            if match := pattern.match(text, position):
                first, last = match.span("hide" if "hide" in pattern.groupindex else 0)
                start = match.end()
                masked = f"⟨secret {label}, {last - first} characters⟩"
                yield position, start, f"{text[position:first]}{masked}{text[last:start]}"

    def open_start(self, text: str, start: int) -> int:
        """As in `_ValuePass`."""
        starts = [self._open_key(text, start), self._open_header(text, start), self._open_pem(text, start)]
        tail = text[max(start, len(text) - self._longest_partial) :].lower()
        starts += [len(text) - size for size in range(1, len(tail) + 1) if tail[-size:] in self._partial_prefixes]
        return min(starts)

    def _open_key(self, text: str, start: int) -> int:
        """Return the start of the first pattern within the key characters at the end."""
        position = max(start, len(text) - MAX_LENGTH)
        run = position + len(text[position:].rstrip(TOKEN_CHARACTERS))
        match = self._start.search(text, run)
        return match.start() if match else len(text)

    def _open_header(self, text: str, start: int) -> int:
        match = OPEN_HEADER.search(text, max(start, len(text) - MAX_LENGTH))
        return match.start() if match else len(text)

    def _open_pem(self, text: str, start: int) -> int:
        position = text.find("-----BEGIN", max(start, len(text) - MAX_PEM_LENGTH))
        while position >= 0:
            match = PEM_BEGIN.match(text, position)
            if match and (match.end() == len(text) or match["whole"]) and not COMPLETE_PEM.match(text, position):
                return position
            position = text.find("-----BEGIN", position + 1)
        return len(text)


@cache
def _pattern_pass() -> _PatternPass:
    return _PatternPass()


SECRET_MARK = re.compile(r"⟨secret[^⟩\n]*⟩")
"""What stands for a masked secret."""


def restore_secrets(typed: str, proposed: str, mask: SecretMask) -> str:
    """Replace the secret marks left in `typed` with the secrets of `proposed`.

    Raises ValueError with a sentence for the user if that is ambiguous.
    """
    masked = mask.mask(proposed)
    if masked == proposed or not SECRET_MARK.search(typed):
        return typed
    secrets = _secrets_by_mark(masked, proposed)
    used = dict.fromkeys(secrets, 0)

    def secret(match: re.Match[str]) -> str:
        mark = match[0]
        if mark not in secrets:
            return mark
        index, values = used[mark], secrets[mark]
        used[mark] += 1
        if len(set(values)) == 1:
            return values[0]
        if typed.count(mark) != len(values):
            raise ValueError("it is unclear which of the hidden secrets to keep; keep all or none")
        return values[index]

    return SECRET_MARK.sub(secret, typed)


def _secrets_by_mark(masked: str, proposed: str) -> dict[str, list[str]]:
    """Return mark → the secrets it stands for, in order of appearance."""
    marks, between = SECRET_MARK.findall(masked), SECRET_MARK.split(masked)
    secrets: dict[str, list[str]] = {}
    start = len(between[0])
    for number, (mark, following) in enumerate(zip(marks, between[1:], strict=True), start=1):
        is_last = number == len(marks)
        end = len(proposed) - len(following) if is_last else proposed.find(following, start)
        if end < start or not (following or is_last):  # the end of adjacent secrets is unknown
            raise ValueError("a text with these secrets can't be edited here")
        secrets.setdefault(mark, []).append(proposed[start:end])
        start = end + len(following)
    return secrets
