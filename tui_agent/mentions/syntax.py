"""The syntax of mentions: `@path`, `@"path with blanks"`, `@path:L10-L50` (H7). Does not access files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MAX_MENTIONS = 20
"""Maximum mentions of a message."""
MAX_PUNCTUATION = 8
"""Maximum characters at the end of a mention that may be punctuation of the sentence."""

_MENTION = re.compile(
    r"""(?<![A-Za-z0-9._%+\-@/\\"'`=&\#])@(?:"(?P<quoted>(?:[^"\\\n]|\\["\\])+)"(?P<lines>:L\d{1,9}(?:-L?\d{1,9})?)?"""
    r"""|(?P<plain>[^\s"<>|`@][^\s"<>|`]{0,1023}))"""
)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_ENDS = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LINES = re.compile(r"(?s)(?P<path>.+):L(?P<first>\d{1,9})(?:-L?(?P<last>\d{1,9}))?")
_TRAILING = ".,;:!?)]}'*_…。，、；：！？）」』】》”’"
_ENDING = re.compile(
    r"\.(?:py|pyi|js|jsx|mjs|ts|tsx|json|ya?ml|toml|ini|cfg|md|rst|txt|html?|css|scss|sh|sql|csv|xml|c|h|cc|cpp|hpp|cs"
    r"|go|rs|java|kt|rb|php|lua|swift|vue|lock|log|ipynb|pdf|png|svg)"
)


class LineRange(msgspec.Struct, frozen=True):
    """A possible reading of a mention."""

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
    places: tuple[LineRange, ...]
    """Possible readings, longest first: a trailing period may or may not belong to the name."""
    certain: bool
    """It surely means a file, so a missing one is reported. Otherwise it may be a decorator or an npm scope, and is a
    mention only if the file exists."""


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the first MAX_MENTIONS mentions of a message, ignoring fenced code."""
    found: list[Mention] = []
    code = _fenced(text)
    for match in _MENTION.finditer(text):
        if any(start <= match.start() < end for start, end in code):
            continue
        mention = _quoted(match) if match["quoted"] else _plain(match)
        if mention is not None:
            found.append(mention)
        if len(found) == MAX_MENTIONS:
            break
    return tuple(found)


def format_mention(path: str, first: int | None = None, last: int | None = None) -> str:
    """Return a mention of `path`, and of its lines `first` to `last`, quoted if needed."""
    lines = "" if first is None else f":L{first}" + ("" if last is None else f"-L{last}")
    plain = f"@{path}{lines}"
    read = mentions(plain)
    expected = LineRange(path, first, first if last is None else last, plain)
    if len(read) == 1 and read[0].places[0] == expected and path[-1:] not in _TRAILING:
        return plain
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{escaped}"{lines}'


def _quoted(match: re.Match[str]) -> Mention:
    path = re.sub(r'\\(["\\])', r"\1", match["quoted"])
    first, last = _numbers(match["lines"] or "")
    return Mention(match.start(), (LineRange(path, first, last, match[0]),), True)


def _plain(match: re.Match[str]) -> Mention | None:
    places: dict[tuple[str, int | None, int | None], LineRange] = {}
    for token in _without_punctuation(match["plain"]):
        for place in _readings(token):
            if re.search(r"\w", place.path) or place.path == "./":
                places.setdefault((place.path, place.first, place.last), place)
    if not places:
        return None
    return Mention(match.start(), tuple(places.values()), _certain(match["plain"], match.string[match.end() :]))


def _readings(token: str) -> Iterator[LineRange]:
    lines = _LINES.fullmatch(token)
    if lines is not None:
        first, last = _numbers(token[len(lines["path"]) :])
        yield LineRange(lines["path"], first, last, f"@{token}")
    yield LineRange(token, None, None, f"@{token}")


def _without_punctuation(token: str) -> Iterator[str]:
    """Yield the token, then shorter ones without what may belong to the sentence."""
    for candidate in (token, *_cut_at_sign(token)):
        shortest = max(0, len(candidate.rstrip(_TRAILING)), len(candidate) - MAX_PUNCTUATION)
        yield from (candidate[:end] for end in range(len(candidate), shortest - 1, -1) if end)


def _cut_at_sign(token: str) -> Iterator[str]:
    foreign = re.search(r"[^\x00-\x7f]", token)
    if foreign is not None and foreign.start():
        yield token[: foreign.start()]
    for sign in ("'", "(", ",", ")"):
        at = token.find(sign)
        if at > 0:
            yield token[:at]


def _numbers(lines: str) -> tuple[int | None, int | None]:
    """Return the line numbers of `:L10-L50` in ascending order, from 1."""
    numbers = [max(1, int(number)) for number in re.findall(r"\d+", lines)]
    if not numbers:
        return None, None
    return min(numbers), max(numbers)


def _certain(token: str, after: str) -> bool:
    token = token.rstrip(_TRAILING)
    if after.startswith("(") or "(" in token:
        return False
    if _LINES.fullmatch(token) or token.startswith(("./", "../", "/", "~/")):
        return True
    name = token.rpartition("/")[2]
    ending = _ENDING.search(name)
    if ending is not None and ending.end() == len(name):
        return True
    return token.count("/") > 1


def _fenced(text: str) -> list[tuple[int, int]]:
    """Return start and end of fenced code blocks; an unclosed one extends to the end of the text."""
    blocks: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and _ENDS.match(text, fence.end()):
            blocks.append((opened.start(), fence.end()))
            opened = None
    if opened is not None:
        blocks.append((opened.start(), len(text)))
    return blocks
