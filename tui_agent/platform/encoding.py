"""Text and bytes of files: decoding that can always be undone exactly."""

from __future__ import annotations

import codecs
import re

import msgspec

_BOMS = (
    # UTF-32 first: its little-endian mark begins like the one of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_EAST_ASIAN = ("cp932", "gb18030", "euc_jp", "big5", "cp949")
_HIGH = re.compile(rb"[\x80-\xff]")
_C1 = re.compile(rb"[\x80-\x9f]")
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_WESTERN_LETTERS = re.compile("[A-Za-zÀ-ÖØ-öø-ÿŒœŠšŽžŸ]")
_WESTERN_MARKS = frozenset("‚„…‘’“”•–—«»€£©®°±·§™\u00a0")
GUESS_CAP = 256 * 1024
"""Bytes that are looked at for a guess."""


class NotText(Exception):
    """The bytes are no text. `str()` says what they seem to be."""


class Codec(msgspec.Struct, frozen=True):
    """How the text of one file becomes its bytes and back."""

    name: str
    bom: bytes = b""
    errors: str = "strict"
    """`surrogateescape` keeps bytes that are no UTF-8 as lone surrogates."""
    guessed: bool = False
    """True when nothing in the file proves the encoding."""
    weak: bool = False
    """True when not even a guess speaks for it: good for bytes that are the same in every encoding."""

    def encode(self, text: str) -> bytes:
        """The bytes of a piece of text, without byte order mark. Raises UnicodeEncodeError."""
        return text.encode(self.name, self.errors)

    def encode_new(self, text: str) -> bytes:
        """The bytes of text that is new to the file: nothing may be smuggled in as lone surrogates."""
        return text.encode(self.name)

    @property
    def wide(self) -> bool:
        """True for the East Asian encodings, in which an ASCII byte may be half of a character."""
        return self.name in _EAST_ASIAN

    @property
    def label(self) -> str:
        """What a person is told, such as `utf-16-le with BOM`; empty for plain UTF-8."""
        if self.errors != "strict":
            return "utf-8 with invalid bytes"
        if self.bom:
            return f"{self.name} with BOM"
        return "" if self.name == "utf-8" else self.name


class Decoded(msgspec.Struct, frozen=True):
    """A file's text, without byte order mark; `codec.bom + codec.encode(text)` gives back the very bytes."""

    text: str
    codec: Codec


def decode(data: bytes) -> Decoded:
    """The text of `data`, by proof where there is one and else by a guess that can be undone.

    Raises NotText for what is no text at all.
    """
    return decodings(data)[0]


def decodings(data: bytes) -> list[Decoded]:
    """All sensible readings of `data` as text, the likeliest first; just one where the bytes prove it.

    Every reading encodes back to exactly `data`. Raises NotText.
    """
    for bom, name in _BOMS:
        if data.startswith(bom) and (found := _read(data, Codec(name, bom))) is not None:
            return [found]
    if b"\0" in data:
        raise NotText(describe_encoding(data))
    found = _read(data, Codec("utf-8"))
    return [found] if found is not None else _unproved(data)


def read_as(data: bytes, encoding: str) -> str:
    """`data` read in an encoding that somebody named; what does not fit becomes U+FFFD. Raises LookupError."""
    info = codecs.lookup(encoding)
    if not info._is_text_encoding:
        raise LookupError(f"unknown encoding: {encoding}")
    for bom, name in _BOMS:
        if data.startswith(bom) and info.name.replace("_", "-") in (name, name[:6], "utf-8-sig"):
            return data[len(bom) :].decode(name, "replace")
    return data.decode(encoding, "replace")


def describe_encoding(data: bytes) -> str:
    """A word for bytes that are no text."""
    for start, word in _KNOWN:
        if data.startswith(start):
            return word
    return "binary data"


_KNOWN = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"\0asm", "a WebAssembly module"),
    (b"RIFF", "a RIFF media file"),
)


def _read(data: bytes, codec: Codec) -> Decoded | None:
    try:
        text = data[len(codec.bom) :].decode(codec.name, codec.errors)
        if codec.bom + codec.encode(text) != data:
            return None
    except UnicodeError:
        return None
    return Decoded(text, codec)


def _unproved(data: bytes) -> list[Decoded]:
    """Readings of bytes that are neither marked nor UTF-8: each is undone exactly, none is certain."""
    names: list[str] = []
    guess = _guess(data)
    if guess is not None:
        names.append(guess)
    if _C1.search(data) is None:
        names.append("latin-1")
    names += ["cp1252", *_EAST_ASIAN, "cp1251", "koi8_r"]
    weak = guess is None
    found = [_read(data, Codec(name, guessed=True, weak=weak)) for name in dict.fromkeys(names)]
    mostly = _read(data, Codec("utf-8", errors="surrogateescape", guessed=True))
    sequences = _UTF8.findall(data)
    stray = len(_HIGH.findall(data)) - sum(map(len, sequences))
    # A few broken bytes in a file that else is UTF-8: it is UTF-8.
    first = mostly is not None and len(sequences) >= max(stray, 1)
    readings_found = ([mostly] if first else []) + found + ([] if first else [mostly])
    return [one for one in readings_found if one is not None]


def _guess(data: bytes) -> str | None:
    """The likeliest legacy encoding; Western where the text looks so, because short samples fool statistics."""
    try:
        western = data.decode("cp1252")
    except UnicodeDecodeError:
        western = None
    if western is not None and _looks_western(western):
        return "latin-1" if _C1.search(data) is None else "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:GUESS_CAP]).best()
    name = "" if best is None else best.encoding
    name = {"shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949"}.get(name, name)
    return name if name in (*_EAST_ASIAN, "cp1251", "koi8_r") else None


def _looks_western(text: str) -> bool:
    """True when the letters beyond ASCII stand among ASCII letters, as accents and quotes in a Latin script do."""
    sample = text[:GUESS_CAP]
    high = [at for at, one in enumerate(sample) if one > "\x7f"]
    letters = [at for at in high if sample[at] not in _WESTERN_MARKS]
    near = [at for at in letters or high if any("a" <= one.lower() <= "z" for one in sample[max(0, at - 1) : at + 2])]
    if not letters:
        return bool(near)
    return sum(1 for at in near if _WESTERN_LETTERS.match(sample[at])) * 2 >= len(letters)
