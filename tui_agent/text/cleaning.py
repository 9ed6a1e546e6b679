"""Taking terminal control out of text, whole or as a stream (A6), and showing what a reader would not see (A9)."""

from __future__ import annotations

import re
import unicodedata

STRING_LIMIT = 4096
"""Characters that a control string (OSC, DCS, APC, PM, SOS) may swallow when its end never comes."""

_PARAMETERS, _INTERMEDIATES = 256, 16

# A sequence goes whole: ECMA-48 §5.4 (CSI), §5.6 (control strings), ECMA-35 §13.2 (other escapes), each in its 7-bit
# and 8-bit form. One that lacks its end matches too, as far as it goes. A line feed ends a control string, so that a
# stray introducer (mojibake is full of them) costs a line at most.
_CSI = (
    rf"(?:\x1b\[|\x9b)(?P<parameters>[0-?]{{0,{_PARAMETERS}}})"
    rf"(?P<intermediates>[ -/]{{0,{_INTERMEDIATES}}})(?P<final>[@-~]?)"
)
_STRING = (
    rf"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x18\x1a\x1b\x9c\r\n]{{0,{STRING_LIMIT}}}"
    r"(?P<ended>\x1b\\|[\x07\x18\x1a\x9c]?)"
)
_ESCAPE = rf"\x1b[ -/]{{0,{_INTERMEDIATES}}}(?P<letter>[0-~]?)"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c]"
_REMOVED = re.compile(f"{_CSI}|{_STRING}|{_ESCAPE}|{_CONTROL}+")

_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_SUSPECT_ASCII = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_RETURN = re.compile(r"\r+\n?")
_LATE_RETURN = re.compile(r"\r*\n?")
_OPENER = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_SGR = re.compile(r"[0-9;:]{0,64}")


def clean(text: str, *, colors: bool = False) -> str:
    """`text` without any terminal control: C0 but tab and line feed, DEL, C1 and escape sequences whole.

    Line ends become `\\n`, lone surrogates U+FFFD. With `colors` the well-formed SGR sequences stay (as `ESC [ … m`).
    """
    if not _suspicious(text):
        return text
    return _end_lines(_strip(text, colors))


class Cleaner:
    """The same as `clean()` for text that comes in pieces: any split gives the same result.

    Holds back at most an unfinished sequence (a little over STRING_LIMIT characters).
    """

    def __init__(self, colors: bool = False) -> None:
        self._colors = colors
        self._held = ""
        self._after_return = False

    def feed(self, text: str) -> str:
        """What `text` adds to the clean text."""
        if not self._held and not self._after_return and not _suspicious(text):
            return text
        text = self._held + text
        cut = _unfinished(text)
        self._held = text[cut:]
        return self._lines(_strip(text[:cut], self._colors))

    def flush(self) -> str:
        """What was held back and is text after all; the cleaner is as new afterwards."""
        rest = self._lines(_strip(self._held, self._colors))
        self._held = ""
        self._after_return = False
        return rest

    def _lines(self, text: str) -> str:
        if not text:
            return text
        if self._after_return:
            late = _LATE_RETURN.match(text)
            assert late is not None  # it can match nothing
            self._after_return = late.end() == len(text) and not text.endswith("\n")
            text = text[late.end() :]
            if not text:
                return text
        self._after_return = text.endswith("\r")
        return _end_lines(text)


def _suspicious(text: str) -> bool:
    pattern = _SUSPECT_ASCII if text.isascii() else _SUSPECT
    return pattern.search(text) is not None


def _strip(text: str, colors: bool) -> str:
    text = _REMOVED.sub(_keep_color if colors else "", text)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _end_lines(text: str) -> str:
    return _RETURN.sub("\n", text) if "\r" in text else text


def _unfinished(text: str) -> int:
    """Where a sequence begins that may go on beyond the end of `text`; its length when there is none."""
    at = max(0, len(text) - STRING_LIMIT - _PARAMETERS)
    if at:  # never start inside a sequence: step back to a place that is surely outside of one
        at = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    while opener := _OPENER.search(text, at):
        found = _REMOVED.match(text, opener.start())
        assert found is not None  # every opener begins a sequence
        if found.end() == len(text) and not (found["final"] or found["ended"] or found["letter"]):
            return found.start()
        at = found.end()
    return len(text)


def _keep_color(found: re.Match[str]) -> str:
    if found["final"] != "m" or found["intermediates"]:
        return ""
    parameters = found["parameters"]
    if not _SGR.fullmatch(parameters) or _conceals(parameters):
        return ""
    return f"\x1b[{parameters}m"


def _conceals(parameters: str) -> bool:
    """True when an SGR sequence hides text (8): what is there must be seen."""
    if "8" not in parameters:
        return False
    numbers = parameters.split(";")
    at = 0
    while at < len(numbers):
        number = numbers[at].lstrip("0")
        if number == "8":
            return True
        if number in ("38", "48", "58") and at + 1 < len(numbers):
            at += {"5": 2, "2": 4}.get(numbers[at + 1].lstrip("0"), 0)
        at += 1
    return False


# --- what would not be seen -------------------------------------------------------------------

LONG_GAP = 20
"""Spaces within a line, after other text, from which on they are counted instead of shown."""

LONG_INDENT = 80
"""The same at the beginning of a line, where code has every right to some."""

# Characters that show nothing although they are no format characters: fillers, joiners, blank letters.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef\ufffc"
# Format characters (Cf: bidi controls, zero-width, tags …), line separators and blanks other than the space.
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SPACE = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_HIDDEN = re.compile(f"[{_BLANK}{_FORMAT}{_SPACE}\ud800-\udfff]")
_SHOWN_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = re.compile(rf"(?<=[^ \n]) {{{LONG_GAP},}}|(?:(?<=\n)|\A) {{{LONG_INDENT},}}")

_UNSEEN = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e00ff]")

# Words in which ASCII letters stand beside letters of a script that looks like them (UTS 39, "mixed script").
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")
_LABEL = re.compile(r"\w+")
_ALIKE = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff\u1d00-\u1d7f\ua4d0-\ua4ff\uab70-\uabbf\u2100-\u214f"
    "\u2010-\u2015\u2024\u2044\u2212\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]"
)
_PUNCTUATION_ALIKE = re.compile("[\u2024\u2044\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]")
# Latin letters and digits in another dress: full width, mathematical.
_DISGUISED = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5\U0001d7ce-\U0001d7ff]")
_EAST_ASIAN = re.compile("[\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LATIN = re.compile("[A-Za-z]")
# Cyrillic, Greek and Armenian letters whose glyphs are those of Latin ones.
_TWINS = frozenset("авеіїјкмнорсѕтухԁԛԝһӏАВЕЅІЈКМНОРСТУХҮԌԚԜοανιυκρτχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսցհղ")


def make_visible(text: str, *, lookalikes: bool = True) -> str:
    """`text` for a dialog: nothing is removed, and all that would not be seen is shown.

    Controls become `␛`, `␍` …, C1, bidi, zero-width, tag and blank characters `<U+202E>`, long gaps
    `⟨2000 spaces⟩`; tab and line feed stay. With `lookalikes` (commands, paths, hosts) letters that pose as Latin
    ones become `<U+0430>` as well. Never empty lines or columns: what it returns is free of terminal control.
    """
    text = reveal(_SHOWN_CONTROL.sub(_control, text))
    if lookalikes and not text.isascii():
        text = _WORD.sub(_unmask_word, text)
    if " " * LONG_GAP not in text:
        return text
    return _GAP.sub(lambda gap: f"⟨{len(gap[0])} spaces⟩", text)


def reveal(text: str) -> str:
    """`text` with bidi, zero-width, tag and blank characters shown as `<U+202E>`.

    What scripts and emoji need stays: joiners between letters of scripts that join, a variation selector or joiner
    after an emoji.
    """
    if text.isascii():
        return text
    return _HIDDEN.sub(_hidden, text)


def mark_invisible(text: str) -> str:
    """`text` for a model: bidi controls, zero-width characters and tags, which no user sees, as `<U+202E>`.

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
    return bool(character) and character > "\u00a8" and unicodedata.category(character) in ("So", "Sk", "Sm", "Po")


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


def pluralize(number: int, noun: str) -> str:
    """A number with its noun, such as `1 file` or `3 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
