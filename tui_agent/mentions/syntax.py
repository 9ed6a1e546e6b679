"""How a message names files: `@path`, `@"path with blanks"`, `@path:L10-L50` (H7). Pure text, nothing is looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MOST = 20
"""Mentions of one message that are looked up."""
SIGNS = 8
"""Signs at the end of a mention that may belong to the sentence."""

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
    """One way to read a mention."""

    path: str
    first: int | None = None
    """First line that is meant; None for the whole file."""
    last: int | None = None
    text: str = ""
    """What stands in the message, its @ included."""


class Mention(msgspec.Struct, frozen=True):
    """An @ that may name a file."""

    start: int
    """Where in the message it stands."""
    places: tuple[LineRange, ...]
    """What it may mean, the longest first: the full stop of a sentence may be part of a name, or not."""
    certain: bool
    """It can hardly mean anything but a file, so that a missing one is worth a word. Otherwise it may be a decorator,
    an npm scope or a nickname, and is a mention only where such a file exists."""


def mentions(text: str) -> tuple[Mention, ...]:
    """The mentions in a message, in order, MOST of them at the most; fenced code holds none."""
    found: list[Mention] = []
    code = _fenced(text)
    for match in _MENTION.finditer(text):
        if any(start <= match.start() < end for start, end in code):
            continue
        mention = _quoted(match) if match["quoted"] else _plain(match)
        if mention is not None:
            found.append(mention)
        if len(found) == MOST:
            break
    return tuple(found)


def format_mention(path: str, first: int | None = None, last: int | None = None) -> str:
    """The mention of `path`, and of its lines `first` to `last`, that `mentions` reads as just that."""
    lines = "" if first is None else f":L{first}" + ("" if last is None else f"-L{last}")
    plain = f"@{path}{lines}"
    read = mentions(plain)
    meant = LineRange(path, first, first if last is None else last, plain)
    if len(read) == 1 and read[0].places[0] == meant and path[-1:] not in _TRAILING:
        return plain
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'@"{escaped}"{lines}'


def _quoted(match: re.Match[str]) -> Mention:
    path = re.sub(r'\\(["\\])', r"\1", match["quoted"])
    first, last = _numbers(match["lines"] or "")
    return Mention(match.start(), (LineRange(path, first, last, match[0]),), True)


def _plain(match: re.Match[str]) -> Mention | None:
    places: dict[tuple[str, int | None, int | None], LineRange] = {}
    for token in _shorter(match["plain"]):
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


def _shorter(token: str) -> Iterator[str]:
    """The token as it stands, then without what may belong to the sentence around it."""
    for whole in (token, *_cut(token)):
        least = max(0, len(whole.rstrip(_TRAILING)), len(whole) - SIGNS)
        yield from (whole[:end] for end in range(len(whole), least - 1, -1) if end)


def _cut(token: str) -> Iterator[str]:
    foreign = re.search(r"[^\x00-\x7f]", token)
    if foreign is not None and foreign.start():
        yield token[: foreign.start()]
    for sign in ("'", "(", ",", ")"):
        at = token.find(sign)
        if at > 0:
            yield token[:at]


def _numbers(lines: str) -> tuple[int | None, int | None]:
    """`:L10-L50` as numbers, the smaller one first, counted from 1."""
    numbers = [max(1, int(one)) for one in re.findall(r"\d+", lines)]
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
    """Where blocks of code begin and end; one without an end reaches to the end of the text."""
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
