"""What an exported document is made of, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from tui_agent.domain import Diff


class Prose(NamedTuple):
    """What somebody wrote, as markdown or as it comes. With `breaks` its lines end where they end."""

    text: str
    breaks: bool = False


class Text(NamedTuple):
    """A sentence or a few, without any markup."""

    text: str


class Code(NamedTuple):
    """Lines to be read as they are."""

    text: str
    language: str = ""


class Change(NamedTuple):
    """A change of a file."""

    diff: Diff


class Facts(NamedTuple):
    """Short things with a name each."""

    rows: tuple[tuple[str, str], ...]


class Fold(NamedTuple):
    """What most readers pass over."""

    title: str
    parts: tuple[Part, ...]


Part: TypeAlias = "Prose | Text | Code | Change | Facts | Fold"


class Section(NamedTuple):
    """One thing that happened. `tone` is `ok`, `bad`, `warn` or empty."""

    kind: str
    """`user`, `agent`, `tool`, `plan`, `step`, `summary`, `request`, `notice`, `shell`, `end`, `document`."""
    title: str = ""
    subject: str = ""
    """What it is about: a path, a command; set like code."""
    note: str = ""
    """How long it took, what was decided."""
    tone: str = ""
    parts: tuple[Part, ...] = ()


class Document(NamedTuple):
    """A session to be read."""

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: Iterable[Section]
    """Made as they are asked for, each time anew: all of them at once may be much."""
    messages: tuple[str, ...] = ()
    """The first words of each message of the user's, in the order of their sections."""
