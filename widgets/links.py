"""Links in text: URLs and places in files become hyperlinks of the terminal (OSC 8).

A target is always one that was written visibly: no text can hide where it leads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from string import ascii_letters, digits
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from rich.style import Style

from widgets.styled_text import Line, Span

Locate: TypeAlias = Callable[[str], str]
"""Returns the absolute path of a file of the workspace that a text names; empty if there is none."""


def nowhere(text: str) -> str:
    """Find no file: the `Locate` where no workspace is known."""
    return ""


MAX_PATH: Final = 400
"""Maximum characters of a path in text."""
MAX_TARGET: Final = 2_000
"""Maximum characters of a target."""
URL: Final = re.compile(r"(?<![\w+.-])(?:https?://|mailto:)[^\s<>\"`\x00-\x1f\x7f-\x9f]{1,2000}", re.IGNORECASE)
PLACE: Final = re.compile(
    r"(?<![^\s`'\"<>()\[\]{},;|=])(?P<path>[^\s`'\"<>()\[\]{},;|:=]{1,400}):(?P<line>\d{1,7})(?::\d{1,5})?(?![\w/])"
)
"""A path with the number of a line, such as `src/app.py:12` or `src/app.py:12:3`."""
LINE_FRAGMENT: Final = re.compile(r"#L?(\d{1,7})(?:-L?\d{1,7})?$")
SCHEMES: Final = ("http", "https", "mailto")
HOST: Final = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
"""A host in ASCII: other letters can look like those of another host."""
TRAILING: Final = ".,;:!?'\"*_~"
"""Punctuation that ends a sentence, not a URL."""
SAFE_CHARACTERS: Final = ascii_letters + digits + "-._~:/?#[]@!$&'()*+,;=%"


class Place(NamedTuple):
    """A line of a file."""

    path: str
    """Absolute path."""
    line: int
    """From 1; 0 if none was named."""


def url_target(text: str) -> str:
    """Return a URL as the target of a hyperlink: http, https or mailto, in printable ASCII; empty if it is none."""
    try:
        parts = urlsplit(text)
    except ValueError:  # an invalid IPv6 address
        return ""
    if parts.scheme.lower() not in SCHEMES or len(text) > MAX_TARGET:
        return ""
    if parts.scheme.lower() == "mailto":
        valid = "@" in parts.path and not parts.netloc
    else:
        valid = HOST.fullmatch(parts.netloc) is not None  # no user: it can look like a host
    target = quote(text, safe=SAFE_CHARACTERS) if valid else ""
    return target if len(target) <= MAX_TARGET else ""


def place_target(path: str, line: int = 0) -> str:
    """Return the target of a hyperlink to a file, with the line as its fragment, as VS Code and kitty read it."""
    target = "file://" + quote(path)
    return f"{target}#{line}" if line else target


def place_of(target: str) -> Place | None:
    """Return the place that `place_target` made a target of; None for a URL."""
    if not target.startswith("file://"):
        return None
    path, _, line = target.removeprefix("file://").partition("#")
    return Place(unquote(path), int(line) if line.isdecimal() else 0)


def file_target(text: str, locate: Locate) -> str:
    """Return the target for the name of a file, with or without a line; empty if there is no such file."""
    if match := PLACE.fullmatch(text):
        path = locate(match["path"])
        return place_target(path, int(match["line"])) if path else ""
    fragment = LINE_FRAGMENT.search(text)
    path = locate(text[: fragment.start()] if fragment else text)
    return place_target(path, int(fragment[1]) if fragment else 0) if path else ""


@lru_cache(1_024)
def linked(style: Style, target: str, link: Style) -> Style:
    """Return `style` with a hyperlink to `target`, in the color of `link`."""
    return style + Style(color=link.color, underline=True, link=target)


def link_spans(text: str, style: Style, link: Style, locate: Locate, *, is_code: bool = False) -> list[Span]:
    """Return a text with hyperlinks for its URLs and places, in the color of `link`.

    In code, a whole text that names a file is one, too.
    """
    if ":" not in text and not is_code:
        return [(text, style)]
    if is_code and len(text) <= MAX_PATH and (target := file_target(text, locate)):
        return [(text, linked(style, target, link))]
    spans: list[Span] = []
    done = 0
    for begin, end, target in _targets(text, locate):
        spans += [(text[done:begin], style), (text[begin:end], linked(style, target, link))]
        done = end
    return [span for span in (*spans, (text[done:], style)) if span[0]]


def _targets(text: str, locate: Locate) -> Iterator[tuple[int, int, str]]:
    """Yield the range and the target of each link in `text`."""
    matches = [(match.start(), match) for pattern in (URL, PLACE) for match in pattern.finditer(text)]
    done = 0
    for begin, match in sorted(matches, key=lambda entry: entry[0]):
        if begin < done or len(match[0]) > MAX_TARGET:
            continue
        shown = _without_trailing(match[0]) if match.re is URL else match[0]
        target = url_target(shown) if match.re is URL else file_target(shown, locate)
        if target:
            done = begin + len(shown)
            yield begin, done, target


def _without_trailing(url: str) -> str:
    """Remove punctuation that belongs to the sentence, and closing brackets that were opened before the URL."""
    counts, end = Counter(url), len(url)
    while end:
        last = url[end - 1]
        opening = {")": "(", "]": "[", "}": "{"}.get(last)
        if last not in TRAILING and (opening is None or counts[opening] >= counts[last]):
            break
        counts[last] -= 1
        end -= 1
    return url[:end]


def looks_like_url(text: str) -> bool:
    """Return whether a text looks like the address of something, so that it must not lead elsewhere."""
    return bool(re.search(r"\w\.\w|://", text))


def target_at(line: Line, cell: int) -> str:
    """Return the target of the hyperlink at a cell of a line; empty if there is none."""
    for segment in line.segments:
        cell -= segment.cell_length
        if cell < 0:
            return (segment.style.link or "") if segment.style else ""
    return ""


def targets_of(lines: Sequence[Line]) -> list[str]:
    """Return the targets of all hyperlinks in lines, each once, in their order."""
    targets = (segment.style.link for line in lines for segment in line.segments if segment.style)
    return list(dict.fromkeys(target for target in targets if target))
