"""The syntax of mentions: `@path`, `@"path with blanks"`, `@path:L10-L50` (H7). Does not access files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

MAX_MENTIONS = 20
"""Maximum mentions of a message."""
MAX_PUNCTUATION = 8
"""Maximum characters at the end of a mention that may be punctuation of the sentence."""

MAX_TYPED = 1_000
"""Characters before the cursor that are searched for a mention."""

_TYPED = re.compile(
    r"""(?<![A-Za-z0-9._%+\-@/\\"'`=&\#])@(?:"(?P<quoted>(?:[^"\\\n]|\\["\\])*)|(?P<plain>(?:[^\s"<>|`@][^\s"<>|`]*)?))\Z"""
)
_TYPED_LINES = re.compile(r"[^:]:(?:L?\d*(?:-L?\d*)?)?\Z")
_MENTION = re.compile(
    r"""(?<![A-Za-z0-9._%+\-@/\\"'`=&\#])@(?:"(?P<quoted>(?:[^"\\\n]|\\["\\])+)"(?P<lines>:L\d{1,9}(?:-L?\d{1,9})?)?"""
    r"""|(?P<plain>[^\s"<>|`@][^\s"<>|`]{0,1023}))"""
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_REST_OF_LINE = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LINES = re.compile(r"(?s)(?P<path>.+):L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_TRAILING = ".,;:!?)]}'*_…。，、；：！？）」』】》”’"
_SUFFIX = re.compile(
    r"\.(?:py|pyi|js|jsx|mjs|ts|tsx|json|ya?ml|toml|ini|cfg|md|rst|txt|html?|css|scss|sh|sql|csv|xml|c|h|cc|cpp|hpp|cs"
    r"|go|rs|java|kt|rb|php|lua|swift|vue|lock|log|ipynb|pdf|png|svg)\Z"
)


class MentionTarget(msgspec.Struct, frozen=True):
    """A file, or lines of it, that a mention may refer to."""

    path: str
    first: int | None = None
    """First line; None for the whole file."""
    last: int | None = None
    text: str = ""
    """The text of the mention, including the @."""


class Mention(msgspec.Struct, frozen=True):
    """An @ that may mention a file."""

    start: int
    """Index in the message."""
    targets: tuple[MentionTarget, ...]
    """Possible targets, longest first: a trailing period may or may not belong to the name."""
    certain: bool
    """Whether it certainly refers to a file, so that a missing one is reported. Otherwise it may be a decorator or an
    npm scope, and is a mention only if the file exists."""


class TypedMention(NamedTuple):
    """A mention that is being typed."""

    start: int
    """Index of the `@` in the text."""
    query: str
    """What was typed of the name."""


def typed_mention(text: str) -> TypedMention | None:
    """Return the mention at the end of `text`, the part of a line before the cursor; None once line numbers follow."""
    match = _TYPED.search(text, max(0, len(text) - MAX_TYPED))
    if match is None or (match["plain"] and _TYPED_LINES.search(match["plain"])):
        return None
    return TypedMention(match.start(), match["plain"] or _unescaped(match["quoted"] or ""))


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the first MAX_MENTIONS mentions of a message, ignoring fenced code."""
    result: list[Mention] = []
    code = _fenced(text)
    for match in _MENTION.finditer(text):
        if any(start <= match.start() < end for start, end in code):
            continue
        mention = _quoted(match) if match["quoted"] else _plain(match)
        if mention is not None:
            result.append(mention)
        if len(result) == MAX_MENTIONS:
            break
    return tuple(result)


def format_mention(path: str, first: int | None = None, last: int | None = None) -> str:
    """Return a mention of `path`, and of its lines `first` to `last`, quoted if needed."""
    lines = "" if first is None else f":L{first}" + ("" if last is None else f"-L{last}")
    plain = f"@{path}{lines}"
    parsed = mentions(plain)
    expected = MentionTarget(path, first, first if last is None else last, plain)
    if len(parsed) == 1 and parsed[0].targets[0] == expected and path[-1:] not in _TRAILING:
        return plain
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{escaped}"{lines}'


def _unescaped(quoted: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", quoted)


def _quoted(match: re.Match[str]) -> Mention:
    path = _unescaped(match["quoted"])
    return Mention(match.start(), (MentionTarget(path, *_numbers(match["lines"] or ""), match[0]),), True)


def _plain(match: re.Match[str]) -> Mention | None:
    targets: dict[tuple[str, int | None, int | None], MentionTarget] = {}
    for token in _without_punctuation(match["plain"]):
        for target in _targets(token):
            if re.search(r"\w", target.path) or target.path == "./":
                targets.setdefault((target.path, target.first, target.last), target)
    if not targets:
        return None
    return Mention(match.start(), tuple(targets.values()), _is_certain(match["plain"], match.string[match.end() :]))


def _targets(token: str) -> Iterator[MentionTarget]:
    if (lines := _LINES.fullmatch(token)) is not None:
        yield MentionTarget(lines["path"], *_numbers(token[len(lines["path"]) :]), f"@{token}")
    yield MentionTarget(token, text=f"@{token}")


def _without_punctuation(token: str) -> Iterator[str]:
    """Yield the token, then shorter ones without what may belong to the sentence."""
    for candidate in (token, *_cut_at_separators(token)):
        shortest = max(0, len(candidate.rstrip(_TRAILING)), len(candidate) - MAX_PUNCTUATION)
        yield from (candidate[:end] for end in range(len(candidate), shortest - 1, -1) if end)


def _cut_at_separators(token: str) -> Iterator[str]:
    for separator in (r"[^\x00-\x7f]", "'", r"\(", ",", r"\)"):
        match = re.search(separator, token)
        if match is not None and match.start():
            yield token[: match.start()]


def _numbers(lines: str) -> tuple[int | None, int | None]:
    """Return the line numbers of `:L10-L50` in ascending order, from 1."""
    numbers = [max(1, int(number)) for number in re.findall(r"\d+", lines)]
    return (min(numbers), max(numbers)) if numbers else (None, None)


def _is_certain(token: str, following: str) -> bool:
    token = token.rstrip(_TRAILING)
    if following.startswith("(") or "(" in token:
        return False
    if _LINES.fullmatch(token) or token.startswith(("./", "../", "/", "~/")):
        return True
    suffix = _SUFFIX.search(token.rpartition("/")[2])
    return suffix is not None or token.count("/") > 1


def _fenced(text: str) -> list[tuple[int, int]]:
    """Return start and end of fenced code blocks; an unclosed one extends to the end of the text."""
    blocks: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and _REST_OF_LINE.match(text, fence.end()):
            blocks.append((opening.start(), fence.end()))
            opening = None
    if opening is not None:
        blocks.append((opening.start(), len(text)))
    return blocks
