"""Removing terminal control from text, complete or streamed (A6)."""

from __future__ import annotations

import re

STRING_LIMIT = 4096
"""Maximum length of an unterminated control string (OSC, DCS, APC, PM, SOS) that is removed."""

_PARAMETERS, _INTERMEDIATES = 16384, 16
_C0 = r"\x00-\x08\x0b\x0c\x0e-\x17\x19\x1c-\x1f\x7f"

# Sequences are removed completely: ECMA-48 §5.4 (CSI), §5.6 (control strings), ECMA-35 §13.2 (other escapes), each in
# its 7-bit and 8-bit form. An unfinished one matches as far as it goes. A line feed ends a control string, so that a
# stray introducer, common in mojibake, costs at most a line. Controls within a CSI sequence don't end it.
_CSI = (
    rf"(?:\x1b\[|\x9b)(?P<parameters>[0-?{_C0}]{{0,{_PARAMETERS}}})"
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

    Line ends become `\\n`, lone surrogates a mark such as `<U+D800>`. `colors` keeps well-formed SGR sequences (as
    `ESC [ … m`).
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
    return text if text.isascii() else _SURROGATE.sub(lambda match: code_point(match[0]), text)


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


def code_point(character: str) -> str:
    """Return the mark of a character that can't be shown, such as `<U+202E>`."""
    return f"<U+{ord(character):04X}>"


def pluralize(number: int, noun: str) -> str:
    """Format a count with its noun, such as `1 file` or `3 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def file_size(count: int) -> str:
    """Return a number of bytes in a readable unit."""
    amount, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.1f} {unit}" if amount < 9.95 and unit != "B" else f"{amount:.0f} {unit}"


def with_full_stop(text: str) -> str:
    """Return `text` ending in punctuation, so that another sentence can follow."""
    return text if text.endswith((".", "!", "?", "…", '."', ".”", ".)")) else f"{text}."
