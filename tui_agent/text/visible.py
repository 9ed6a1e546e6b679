"""Showing what is invisible or misleading in a text (A9). `characters.json` is the table for all outlets."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

from tui_agent.text.characters import (
    AUTHORITY,
    MAX_COMBINING,
    MAX_RUN,
    Column,
    character_set,
    hidden,
    imitating,
    imitating_letters,
    kept_length,
    marked,
    reversed_run,
    suspects,
)
from tui_agent.text.cleaning import clean, code_point
from tui_agent.text.masking import SecretMask, StreamMasker

LONG_GAP = 20
"""Spaces inside a line from which on they are shown as a count."""
LONG_INDENT = 80
"""The same at the start of a line, where code may be deeply indented."""
LONG_TABS = 8
"""Tabs from which on they are shown as a count."""

_SHOWN_MARKS, _LONG_RUN = 8, 16
"""Marks that are shown of a run, if it is longer than this."""
_BYTE_ORDER_MARK = "\ufeff"
_CUT = "…"
_BIDI_MARKS = "\u061c\u200e\u200f"
_CONTEXT = MAX_COMBINING + 3
"""Characters that decide whether the next one is kept; `://` is among them."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = re.compile(rf"(?<=[^ \n]) {{{LONG_GAP},}}|(?:(?<=\n)|\A) {{{LONG_INDENT},}}|(?<=[^\t\n])\t{{{LONG_TABS},}}")


def displayable(text: str) -> str:
    """Return text for reading on any outlet: clean, and with invisible characters marked."""
    return reveal(clean(text))


def reveal(text: str, *, start: bool = True) -> str:
    """Mark what can't be seen in text for reading, as `<U+202E>`, and what imitates the letters of a host.

    What scripts and emoji need stays where they need it. Long runs of marks are counted. A byte order mark at the
    beginning is removed, if `start`. Takes clean text.
    """
    if text.isascii() and "://" not in text:
        return text
    if start and text.startswith(_BYTE_ORDER_MARK):
        text = text[1:]
    return _reveal(text, 0, "text")


def strip_invisible(text: str) -> str:
    """Return clean text, such as one pasted into a field, without the characters that `reveal` marks."""
    return text if text.isascii() else _reveal(text, 0, "text", show=lambda run: "")


def make_visible(text: str, *, lookalikes: bool = True) -> str:
    """Mark everything invisible or misleading in a text that must be seen exactly. Nothing is removed.

    Controls, blanks other than the space, and what `reveal` marks become `<U+001B>`; long gaps `⟨2000 spaces⟩`; tab
    and line feed stay. `lookalikes` (for commands, paths, hosts) also marks letters and signs that imitate Latin ones.
    The result is free of terminal control.
    """
    return _make_visible(text, words=lookalikes, quotes=lookalikes)


def _make_visible(text: str, *, words: bool, quotes: bool) -> str:
    text = _CONTROL.sub(_code_point, text)
    if not text.isascii() or "://" in text:
        text = _reveal(text, 0, "exact")
        if quotes and imitating("quotes").search(text):
            text = _mark_quotes(text)
        if words and not text.isascii():
            text = _WORD.sub(_mark_lookalikes, text)
    if " " * LONG_GAP not in text and "\t" * LONG_TABS not in text:
        return text
    return _GAP.sub(lambda gap: _count(len(gap[0]), "tab" if gap[0][0] == "\t" else "space"), text)


def visible_name(text: str, *, lookalikes: bool = True) -> str:
    """Return a file's name or path on one line with everything invisible marked, blanks at its ends included.

    `lookalikes` as in `make_visible`.
    """
    text = _make_visible(text, words=lookalikes, quotes=False)
    text = text.replace("\n", code_point("\n")).replace("\t", code_point("\t"))
    inner = text.strip(" ")
    if len(inner) == len(text):
        return text
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    if not inner:
        return _count(before, "space")
    return f"{_count(before, 'space')}{inner}{_count(after, 'space')}"


def mark_invisible(text: str) -> str:
    """Mark bidi controls, zero-width characters and tags, which users can't see, as `<U+202E>`, for models.

    Joiners and unusual blanks stay, since text in many scripts needs them.
    """
    return text if text.isascii() else marked("model").sub(_code_point, text)


def one_line(text: str, limit: int = 80, *, exact: bool = False) -> str:
    """Return `text` on one line of at most `limit` characters: displayable, blanks collapsed, cut with `…`.

    `exact` (for commands and paths) marks what `make_visible` marks.
    """
    beginning = text[: limit * 16]
    line = " ".join((make_visible(beginning) if exact else displayable(beginning)).split())
    if len(line) > limit or len(text) > limit * 16:
        return line[: max(0, limit - 1)].rstrip() + "…"
    return line


class RevealingStream:
    """Like `reveal()` for a stream of clean text; the result does not depend on how the text is split.

    Holds back a run of invisible characters and an unfinished host, at most a few thousand characters.
    """

    def __init__(self) -> None:
        self._held = ""
        self._context = ""
        """The end of what was returned, as received, after a right-to-left letter if the line has one."""
        self._started = False

    def feed(self, text: str) -> str:
        """Return the displayable text that `text` adds."""
        if not self._held and not self._context.endswith("/") and "/" not in text and _is_plain(text, "text"):
            self._remember(text)  # the usual token
            return text
        return self._advance(self._held + text, final=False)

    def flush(self) -> str:
        """Return what was held back, and reset the stream."""
        text = self._advance(self._held, final=True)
        self._held, self._context, self._started = "", "", False
        return text

    def _advance(self, text: str, *, final: bool) -> str:
        if not self._started and text.startswith(_BYTE_ORDER_MARK) and (final or len(text) > 1):
            text = text[1:]
            self._started = True
        at = len(self._context)
        known = self._context + text
        end = len(known)
        if not final:
            end -= max(_open_run(known, at), _open_authority(known, at))
        self._held = known[end:]
        self._remember(known[at:end])
        return _reveal(known[:end], at, "text")

    def _remember(self, text: str) -> None:
        if not text:
            return
        self._started = True
        if text.isascii() and self._context.isascii():
            self._context = (self._context + text)[-_CONTEXT:]
            return
        line = (self._context + text).rsplit("\n", 1)[-1]
        letter = "" if line.isascii() else _first_right_to_left(line)
        self._context = letter + line[-_CONTEXT:] if letter else line[-_CONTEXT:]


class DisplayStream:
    """Clean text as a stream for an outlet: secrets masked, invisible characters marked."""

    def __init__(self, mask: SecretMask) -> None:
        self._masker = StreamMasker(mask)
        self._revealing = RevealingStream()

    def feed(self, text: str) -> str:
        """Return the text that `text` adds."""
        return self._revealing.feed(self._masker.feed(text))

    def flush(self) -> str:
        """Return what was held back, and reset the stream."""
        return self._revealing.feed(self._masker.flush()) + self._revealing.flush()


def _open_run(text: str, at: int) -> int:
    """Return the length of the end of `text[at:]` whose display depends on what follows it."""
    if text[-1:].isascii():
        return 0
    run = reversed_run().match(text[: -MAX_RUN - _CONTEXT : -1])
    assert run is not None  # it matches the empty string
    length = run.end()
    if length <= MAX_COMBINING and not marked("text").search(text, len(text) - length):
        return 0  # accents
    return min(length, len(text) - at) % MAX_RUN


def _open_authority(text: str, at: int) -> int:
    """Return the length of the unfinished host at the end of `text[at:]`."""
    start = text.rfind("://", max(0, at - 3)) + 3
    return len(text) - start if start > 2 and AUTHORITY.fullmatch(text, start) else 0


# --- characters --------------------------------------------------------------------------------------------


def _code_point(match: re.Match[str]) -> str:
    return code_point(match[0])


def _count(number: int, noun: str) -> str:
    return f"⟨{number} {noun}{'' if number == 1 else 's'}⟩" if number else ""


def _mark_run(run: str) -> str:
    if len(run) <= _LONG_RUN:
        return "".join(map(code_point, run))
    return "".join(map(code_point, run[:_SHOWN_MARKS])) + f"⟨{len(run) - _SHOWN_MARKS:,} more invisible characters⟩"


def _is_plain(text: str, column: Column) -> bool:
    """Whether nothing of the text is shown differently."""
    return "://" not in text and (text.isascii() or not suspects(column).search(text))


def _reveal(text: str, start: int, column: Column, show: Callable[[str], str] = _mark_run) -> str:
    """Show the hidden characters of `text[start:]` with `show`; what is before decides which are."""
    if _is_plain(text, column):
        return text[start:]
    line_starts: dict[int, int] = {}
    out, at = [], start
    for match in hidden(column).finditer(text, start):
        out.append(text[at : match.start()])
        at = match.end()
        if match["authority"] is not None:
            out.append(match[0] if show is not _mark_run else _show_authority(match, column))
        elif match["combining"] is not None:
            out.append(f"⟨{len(match[0])} more combining marks⟩")
        else:
            out.append(_show_run(match, column, show, line_starts))
    return "".join((*out, text[at:]))


def _show_run(match: re.Match[str], column: Column, show: Callable[[str], str], line_starts: dict[int, int]) -> str:
    """Mark the characters of a run, except those in legitimate use."""
    out: list[str] = []
    text, at = match.string, match.start()
    begin = at
    while at < match.end():
        length = kept_length(text, at, column)
        if not length and column == "text" and text[at] in _BIDI_MARKS and _is_right_to_left(text, at, line_starts):
            length = 1
        if length:
            out += show(text[begin:at]), text[at : at + length]
            begin = at + length
        at += length or 1
    return "".join((*out, show(text[begin:at])))


def _is_right_to_left(text: str, at: int, line_starts: dict[int, int]) -> bool:
    """Whether the line has a right-to-left letter before a mark, which is not repeated."""
    start = text.rfind("\n", 0, at) + 1
    if start not in line_starts:
        letter = _right_to_left().search(text, start)
        line_starts[start] = letter.start() if letter else len(text)
    return line_starts[start] < at and text[at - 1] not in _BIDI_MARKS


@cache
def _right_to_left() -> re.Pattern[str]:
    return re.compile(character_set("right_to_left"))


def _first_right_to_left(line: str) -> str:
    letter = _right_to_left().search(line)
    return letter[0] if letter else ""


# --- look-alikes -------------------------------------------------------------------------------------------

_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")
_LABEL = re.compile(r"\w+")
_LATIN = re.compile("[A-Za-z]")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|[^'"]+|['"]""")
_EAST_ASIAN_LETTER = "[\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3]"  # compiled on first use: that takes 2 ms
_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC")
_NAMED_HOST = re.compile(r"[\w-]+\.[a-z]{2,}", re.IGNORECASE)


def _show_authority(match: re.Match[str], column: Column) -> str:
    """Mark the characters of a host that imitate others; add the host that is meant where another one is seen.

    An ellipsis at the end of a text for reading is where it was cut.
    """
    authority, following = match[0], match.string[match.end() : match.end() + 300]
    cut = _CUT if column == "text" and not following[:1].strip() and authority.endswith(_CUT) else ""
    authority = authority.removesuffix(cut)
    shown = authority if authority.isascii() else "".join(map(_mark_label, re.split(r"([.@:]+)", authority)))
    user, at, host = authority.rpartition("@")
    notes = []
    if at and _NAMED_HOST.match(user):
        notes.append(f"⟨host {host.partition(':')[0] if host.isascii() else _mark_label(host)}⟩")
    if "xn--" in host.lower():
        notes.append(f"⟨{'.'.join(map(_decoded_label, host.partition(':')[0].split('.')))}⟩")
    note = "".join(notes)
    return (shown if following.startswith(note) else shown + note) + cut


def _decoded_label(label: str) -> str:
    if not label.lower().startswith("xn--"):
        return label
    try:
        decoded = label[4:].encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError):
        return f"{label}: not a valid name"
    return _mark_label(make_visible(decoded, lookalikes=False))


def _mark_label(label: str) -> str:
    """Mark the letters of a host's label that imitate others."""
    if label.isascii():
        return label
    scripts = {script for letter in label if letter.isalpha() and (script := _script(letter)) != "LATIN"}
    foreign = scripts - set(_EAST_ASIAN)
    letters = [letter for letter in label if letter.isalpha()]
    has_latin = any(_script(letter) == "LATIN" for letter in letters)
    is_mixed = len(foreign) + has_latin > 1 or bool(foreign and foreign != scripts)
    imitates = bool(letters) and all(letter in imitating_letters("identical_letters") for letter in letters)
    out = []
    for before, letter in zip("." + label, label, strict=False):
        suspect = not letter.isascii() and (
            not letter.isprintable()
            or (is_mixed and letter.isalpha() and _script(letter) in foreign)
            or imitates
            or letter in imitating_letters("latin_letters")
            or unicodedata.normalize("NFKC", letter).lower() != letter.lower()
            or (unicodedata.category(letter)[0] == "M" and before.isascii())
            or unicodedata.category(letter)[0] not in "LMN"
        )
        out.append(code_point(letter) if suspect else letter)
    return "".join(out)


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split(" ")[0]


def _mark_quotes(text: str) -> str:
    """Mark signs outside quotes that the shell does not take for what they look like."""
    return _QUOTED.sub(
        lambda part: part[0] if part[0][0] in "'\"" else imitating("quotes").sub(_code_point, part[0]), text
    )


def _mark_lookalikes(match: re.Match[str]) -> str:
    word = imitating("disguised").sub(_code_point, match[0])
    if not word.isprintable():
        word = "".join(code_point(c) if unicodedata.category(c) == "Cn" else c for c in word)
    if imitating("dashes").match(word) and word[1:2].isalnum():
        word = code_point(word[0]) + word[1:]
    is_sign = imitating("signs").fullmatch(word) is not None
    before = match.string[max(0, match.start() - LONG_GAP) : match.start()].rstrip(" \t")
    begins = word[0] in "-/" or before[-1:] in ("", "\n", ";", "|", "&", "(")
    if not is_sign and not (begins or _LATIN.search(match[0])):
        return word
    if is_sign or not re.search(_EAST_ASIAN_LETTER, word):
        word = imitating("signs").sub(_code_point, word)
    return _LABEL.sub(_mark_lookalike_letters, word)


def _mark_lookalike_letters(match: re.Match[str]) -> str:
    label = match[0]
    letters = [letter for letter in label if letter.isalpha() and not letter.isascii()]
    if letters and (_LATIN.search(label) or imitating_letters("identical_letters").issuperset(letters)):
        return imitating("letters").sub(_code_point, label)
    return label
