"""Making visible what a reader of a dialog would otherwise not see (A9, R-17, R-31)."""

from __future__ import annotations

import re
import unicodedata

from tui_agent.text.cleaning import clean

LONG_GAP = 20
"""Spaces within a line, after other text, from which on they are counted instead of shown."""

LONG_INDENT = 80
"""The same at the beginning of a line, where code has every right to some."""

# Characters that show nothing although they are no format characters: fillers, joiners, blank letters.
_BLANK = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef\ufffc"
)
# Format characters (Cf: bidi controls, zero-width, tags …), line separators and blanks other than the space.
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SPACE = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_HIDDEN = re.compile(f"[{_BLANK}{_FORMAT}{_SPACE}\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = re.compile(rf"(?<=[^ \n]) {{{LONG_GAP},}}|(?:(?<=\n)|\A) {{{LONG_INDENT},}}")

_UNSEEN = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e00ff]")

# Words in which ASCII letters stand beside letters of a script that looks like them (UTS 39, "mixed script").
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")
_LABEL = re.compile(r"\w+")
_ALIKE = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff\u1d00-\u1d7f\ua4d0-\ua4ff\uab70-\uabbf\u2100-\u214f"
    "\u2010-\u2015\u2024\u2044\u2212\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]"
)
_PUNCTUATION_ALIKE = re.compile(
    "[\u2024\u2044\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]"
)
# Latin letters and digits in another dress: full width, mathematical.
_DISGUISED = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5\U0001d7ce-\U0001d7ff]")
_EAST_ASIAN = re.compile("[\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LATIN = re.compile("[A-Za-z]")
# Cyrillic, Greek and Armenian letters whose glyphs are those of Latin ones.
_TWINS = frozenset("авеіїјкмнорсѕтухԁԛԝһӏАВЕЅІЈКМНОРСТУХҮԌԚԜοανιυκρτχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսցհղ")


def visible(text: str, *, lookalikes: bool = True) -> str:
    """`text` for a dialog: nothing is removed, and all that would not be seen is shown.

    Controls become `␛`, `␍` …, C1, bidi, zero-width, tag and blank characters `<U+202E>`, long gaps
    `⟨2000 spaces⟩`; tab and line feed stay. With `lookalikes` (commands, paths, hosts) letters that pose as Latin
    ones become `<U+0430>` as well. Never empty lines or columns: what it returns is free of terminal control.
    """
    text = reveal(_CONTROL.sub(_control, text))
    if lookalikes and not text.isascii():
        text = _WORD.sub(_unmask_word, text)
    if " " * LONG_GAP not in text:
        return text
    return _GAP.sub(lambda gap: f"⟨{len(gap[0])} spaces⟩", text)


def reveal(text: str) -> str:
    """`text` with bidi, zero-width, tag and blank characters shown as `<U+202E>` (R-31).

    What scripts and emoji need stays: joiners between letters of scripts that join, a variation selector or joiner
    after an emoji.
    """
    if text.isascii():
        return text
    return _HIDDEN.sub(_hidden, text)


def marked_hidden(text: str) -> str:
    """`text` for a model: bidi controls, zero-width characters and tags, which no user sees, as `<U+202E>` (R-31).

    Joiners and odd blanks stay, since text in many scripts needs them.
    """
    return text if text.isascii() else _UNSEEN.sub(lambda found: code_point(found[0]), text)


def one_line(text: str, limit: int = 80) -> str:
    """`text` on one line of at most `limit` characters: clean, blanks joined, the invisible shown, cut with `…`."""
    line = reveal(" ".join(clean(text[: limit * 16]).split()))
    if len(line) > limit or len(text) > limit * 16:
        return line[: max(0, limit - 1)].rstrip() + "…"
    return line


def code_point(character: str) -> str:
    """`<U+202E>`."""
    return f"<U+{ord(character):04X}>"


def _control(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\x7f":
        return "␡"
    return chr(0x2400 + ord(character)) if character < "\x20" else code_point(character)


def _hidden(found: re.Match[str]) -> str:
    text, at = found.string, found.start()
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if found[0] in "\ufe0e\ufe0f" and _emoji(before):
        return found[0]
    if found[0] == "\u200d" and (_emoji(before) or before == "\ufe0f") and _emoji(after):
        return found[0]
    if found[0] in "\u200c\u200d" and _joins(before) and _joins(after):
        return found[0]
    return code_point(found[0])


def _emoji(character: str) -> bool:
    return (
        bool(character)
        and character > "\u00a8"
        and unicodedata.category(character) in ("So", "Sk", "Sm", "Po")
    )


def _joins(character: str) -> bool:
    return "\u0620" <= character <= "\u0dff"


def _unmask_word(found: re.Match[str]) -> str:
    word = _DISGUISED.sub(lambda one: code_point(one[0]), found[0])
    if not _ALIKE.search(word) or not _LATIN.search(found[0]):
        return word
    if not _EAST_ASIAN.search(word):
        word = _PUNCTUATION_ALIKE.sub(lambda one: code_point(one[0]), word)
    return _LABEL.sub(_unmask_label, word)


def _unmask_label(found: re.Match[str]) -> str:
    label = found[0]
    letters = [one for one in label if one.isalpha() and not one.isascii()]
    if letters and (_LATIN.search(label) or all(one in _TWINS for one in letters)):
        return _ALIKE.sub(lambda one: code_point(one[0]), label)
    return label
