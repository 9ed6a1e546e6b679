"""Removing terminal control from text, complete or streamed (A6), and showing what is invisible (A9)."""

from __future__ import annotations

import re
import unicodedata

STRING_LIMIT = 4096
"""Maximum length of an unterminated control string (OSC, DCS, APC, PM, SOS) that is removed."""

_PARAMETERS, _INTERMEDIATES = 256, 16

# Sequences are removed completely: ECMA-48 §5.4 (CSI), §5.6 (control strings), ECMA-35 §13.2 (other escapes), each in
# its 7-bit and 8-bit form. An unfinished one matches as far as it goes. A line feed ends a control string, so that a
# stray introducer, common in mojibake, costs at most a line.
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
_CARRIAGE_RETURNS = re.compile(r"\r+\n?")
_LEADING_LINE_END = re.compile(r"\r*\n?")
_OPENER = re.compile(r"[\x1b\x90\x98\x9b\x9d-\x9f]")
_SGR = re.compile(r"[0-9;:]{0,64}")


def clean(text: str, *, colors: bool = False) -> str:
    """Remove all terminal control: C0 except tab and line feed, DEL, C1, and complete escape sequences.

    Line ends become `\\n`, lone surrogates U+FFFD. `colors` keeps well-formed SGR sequences (as `ESC [ … m`).
    """
    if not _needs_cleaning(text):
        return text
    return _normalize_line_ends(_strip(text, colors))


class Cleaner:
    """Like `clean()` for a stream; the result does not depend on how the text is split.

    Holds back at most an unfinished sequence (a little over STRING_LIMIT characters).
    """

    def __init__(self, colors: bool = False) -> None:
        self._colors = colors
        self._pending = ""
        self._after_return = False

    def feed(self, text: str) -> str:
        """Return the clean text that `text` adds."""
        if not self._pending and not self._after_return and not _needs_cleaning(text):
            return text
        text = self._pending + text
        cut = _unfinished(text)
        self._pending = text[cut:]
        return self._convert_lines(_strip(text[:cut], self._colors))

    def flush(self) -> str:
        """Return what was held back, and reset the cleaner."""
        flushed = self._convert_lines(_strip(self._pending, self._colors))
        self._pending = ""
        self._after_return = False
        return flushed

    def _convert_lines(self, text: str) -> str:
        if not text:
            return text
        if self._after_return:
            leading = _LEADING_LINE_END.match(text)
            assert leading is not None  # it matches the empty string
            self._after_return = leading.end() == len(text) and not text.endswith("\n")
            text = text[leading.end() :]
            if not text:
                return text
        self._after_return = text.endswith("\r")
        return _normalize_line_ends(text)


def _needs_cleaning(text: str) -> bool:
    pattern = _SUSPECT_ASCII if text.isascii() else _SUSPECT
    return pattern.search(text) is not None


def _strip(text: str, colors: bool) -> str:
    text = _REMOVED.sub(_keep_color if colors else "", text)
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _normalize_line_ends(text: str) -> str:
    return _CARRIAGE_RETURNS.sub("\n", text) if "\r" in text else text


def _unfinished(text: str) -> int:
    """Return the start of a sequence that may continue beyond `text`, or the length of `text`."""
    at = max(0, len(text) - STRING_LIMIT - _PARAMETERS)
    if at:  # step back to a position that is certainly outside a sequence
        at = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    while opener := _OPENER.search(text, at):
        match = _REMOVED.match(text, opener.start())
        assert match is not None  # every opener begins a sequence
        if match.end() == len(text) and not (match["final"] or match["ended"] or match["letter"]):
            return match.start()
        at = match.end()
    return len(text)


def _keep_color(match: re.Match[str]) -> str:
    if match["final"] != "m" or match["intermediates"]:
        return ""
    parameters = match["parameters"]
    if not _SGR.fullmatch(parameters) or _conceals(parameters):
        return ""
    return f"\x1b[{parameters}m"


def _conceals(parameters: str) -> bool:
    """True if an SGR sequence conceals text (8), which must stay visible."""
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


# --- invisible and misleading characters -------------------------------------------------------------------

LONG_GAP = 20
"""Spaces inside a line from which on they are shown as a count."""

LONG_INDENT = 80
"""The same at the start of a line, where code may be deeply indented."""

# Invisible characters other than format characters: fillers, joiners, blank letters.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef\ufffc"
# Format characters (Cf: bidi controls, zero-width, tags …), line separators, and blanks other than the space.
_FORMAT = (
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SPACE = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_HIDDEN = re.compile(f"[{_BLANK}{_FORMAT}{_SPACE}\ud800-\udfff]")
_SHOWN_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = re.compile(rf"(?<=[^ \n]) {{{LONG_GAP},}}|(?:(?<=\n)|\A) {{{LONG_INDENT},}}")

_INVISIBLE_TO_USERS = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e00ff]")

# Words that mix ASCII letters with look-alike letters of other scripts (UTS 39, "mixed script").
_WORD = re.compile(r"\S*[^\x00-\x7f]\S*")
_LABEL = re.compile(r"\w+")
_LOOKALIKE = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff\u1d00-\u1d7f\ua4d0-\ua4ff\uab70-\uabbf\u2100-\u214f"
    "\u2010-\u2015\u2024\u2044\u2212\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]"
)
_LOOKALIKE_PUNCTUATION = re.compile(
    "[\u2024\u2044\u2215\u29f8\ua789\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff5e]"
)
# Latin letters and digits in full-width or mathematical form.
_DISGUISED = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d6a5\U0001d7ce-\U0001d7ff]")
_EAST_ASIAN = re.compile("[\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LATIN = re.compile("[A-Za-z]")
# Cyrillic, Greek and Armenian letters with the same glyphs as Latin ones.
_IDENTICAL_GLYPHS = frozenset("авеіїјкмнорсѕтухԁԛԝһӏАВЕЅІЈКМНОРСТУХҮԌԚԜοανιυκρτχΑΒΕΖΗΙΚΜΝΟΡΤΥΧօոսցհղ")


def make_visible(text: str, *, lookalikes: bool = True) -> str:
    """Make everything invisible or misleading in a text visible, for dialogs. Nothing is removed.

    Controls become `␛`, `␍` …; C1, bidi, zero-width, tag and blank characters `<U+202E>`; long gaps `⟨2000 spaces⟩`;
    tab and line feed stay. `lookalikes` (for commands, paths, hosts) also shows letters that imitate Latin ones as
    `<U+0430>`. The result is free of terminal control.
    """
    text = reveal(_SHOWN_CONTROL.sub(_show_control, text))
    if lookalikes and not text.isascii():
        text = _WORD.sub(_show_lookalikes, text)
    if " " * LONG_GAP not in text:
        return text
    return _GAP.sub(lambda gap: f"⟨{len(gap[0])} spaces⟩", text)


def reveal(text: str) -> str:
    """Show bidi, zero-width, tag and blank characters as `<U+202E>`.

    Joiners between letters of joining scripts, and variation selectors and joiners after an emoji, stay.
    """
    if text.isascii():
        return text
    return _HIDDEN.sub(_show_hidden, text)


def mark_invisible(text: str) -> str:
    """Show bidi controls, zero-width characters and tags, which users can't see, as `<U+202E>`, for models.

    Joiners and unusual blanks stay, since text in many scripts needs them.
    """
    return text if text.isascii() else _INVISIBLE_TO_USERS.sub(lambda match: code_point(match[0]), text)


def one_line(text: str, limit: int = 80) -> str:
    """Return `text` on one line of at most `limit` characters: clean, blanks collapsed, cut with `…`."""
    line = reveal(" ".join(clean(text[: limit * 16]).split()))
    if len(line) > limit or len(text) > limit * 16:
        return line[: max(0, limit - 1)].rstrip() + "…"
    return line


def code_point(character: str) -> str:
    """Return `<U+202E>`."""
    return f"<U+{ord(character):04X}>"


def _show_control(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\x7f":
        return "␡"
    return chr(0x2400 + ord(character)) if character < "\x20" else code_point(character)


def _show_hidden(match: re.Match[str]) -> str:
    text, at = match.string, match.start()
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if match[0] in "\ufe0e\ufe0f" and _is_emoji(before):
        return match[0]
    if match[0] == "\u200d" and (_is_emoji(before) or before == "\ufe0f") and _is_emoji(after):
        return match[0]
    if match[0] in "\u200c\u200d" and _is_joining(before) and _is_joining(after):
        return match[0]
    return code_point(match[0])


def _is_emoji(character: str) -> bool:
    return bool(character) and character > "\u00a8" and unicodedata.category(character) in ("So", "Sk", "Sm", "Po")


def _is_joining(character: str) -> bool:
    return "\u0620" <= character <= "\u0dff"


def _show_lookalikes(match: re.Match[str]) -> str:
    word = _DISGUISED.sub(lambda letter: code_point(letter[0]), match[0])
    if not _LOOKALIKE.search(word) or not _LATIN.search(match[0]):
        return word
    if not _EAST_ASIAN.search(word):
        word = _LOOKALIKE_PUNCTUATION.sub(lambda letter: code_point(letter[0]), word)
    return _LABEL.sub(_show_lookalike_letters, word)


def _show_lookalike_letters(match: re.Match[str]) -> str:
    label = match[0]
    letters = [letter for letter in label if letter.isalpha() and not letter.isascii()]
    if letters and (_LATIN.search(label) or all(letter in _IDENTICAL_GLYPHS for letter in letters)):
        return _LOOKALIKE.sub(lambda letter: code_point(letter[0]), label)
    return label


def pluralize(number: int, noun: str) -> str:
    """Format a count with its noun, such as `1 file` or `3 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
