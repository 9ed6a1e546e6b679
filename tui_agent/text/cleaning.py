"""Taking terminal control out of text, whole or as a stream (A6, R-30)."""

from __future__ import annotations

import re

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


def clean(text: str, *, colours: bool = False) -> str:
    """`text` without any terminal control: C0 but tab and line feed, DEL, C1 and escape sequences whole.

    Line ends become `\\n`, lone surrogates U+FFFD. With `colours` the well-formed SGR sequences stay (as `ESC [ … m`).
    """
    if not _suspicious(text):
        return text
    return _end_lines(_strip(text, colours))


class Cleaner:
    """The same as `clean()` for text that comes in pieces: any split gives the same result.

    Holds back at most an unfinished sequence (a little over STRING_LIMIT characters).
    """

    def __init__(self, colours: bool = False) -> None:
        self._colours = colours
        self._held = ""
        self._after_return = False

    def feed(self, text: str) -> str:
        """What `text` adds to the clean text."""
        if not self._held and not self._after_return and not _suspicious(text):
            return text
        text = self._held + text
        cut = _unfinished(text)
        self._held = text[cut:]
        return self._lines(_strip(text[:cut], self._colours))

    def flush(self) -> str:
        """What was held back and is text after all; the cleaner is as new afterwards."""
        rest = self._lines(_strip(self._held, self._colours))
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


def _strip(text: str, colours: bool) -> str:
    text = _REMOVED.sub(_keep_colour if colours else "", text)
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


def _keep_colour(found: re.Match[str]) -> str:
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
