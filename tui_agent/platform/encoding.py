"""Decode files reversibly: encoding the text again gives exactly the same bytes."""

from __future__ import annotations

import codecs
import re
from typing import Literal

import msgspec

from tui_agent.text.patterns import read_table

_BOMS = (
    # UTF-32 first: its little-endian mark begins like that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_EAST_ASIAN = ("cp932", "gb18030", "euc_jp", "big5", "cp949")
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_C1 = re.compile(rb"[\x80-\x9f]")
_UTF8 = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_WESTERN_LETTERS = re.compile("[A-Za-zÀ-ÖØ-öø-ÿŒœŠšŽžŸ]")
_WESTERN_MARKS = frozenset("‚„…‘’“”•–—«»€£©®°±·§™\u00a0")
MAX_SAMPLE = 256 * 1024
"""Bytes that a guess is based on."""


class NotText(Exception):
    """The bytes are not text. `str()` tells what they seem to be."""


class Codec(msgspec.Struct, frozen=True):
    """The encoding of a file."""

    name: str
    bom: bytes = b""
    errors: str = "strict"
    """`surrogateescape` decodes bytes that are not UTF-8 to lone surrogates."""
    guessed: bool = False
    """Whether nothing in the file proves the encoding."""
    weak: bool = False
    """Whether there is not even a guess: reliable only for bytes that are the same in every encoding."""

    def encode(self, text: str) -> bytes:
        """Encode text of the file, without byte order mark. Raises UnicodeEncodeError."""
        return text.encode(self.name, self.errors)

    def encode_new(self, text: str) -> bytes:
        """Encode text that is new to the file, in which lone surrogates are not allowed."""
        return text.encode(self.name)

    @property
    def is_multibyte(self) -> bool:
        """Whether it is an East Asian encoding, in which an ASCII byte may be half of a character."""
        return self.name in _EAST_ASIAN

    @property
    def label(self) -> str:
        """Name for people, such as `utf-16-le with BOM`; empty for UTF-8."""
        if self.errors != "strict":
            return "utf-8 with invalid bytes"
        if self.bom:
            return f"{self.name} with BOM"
        return "" if self.name == "utf-8" else self.name


class Decoded(msgspec.Struct, frozen=True):
    """A file's text without byte order mark; `codec.bom + codec.encode(text)` gives exactly its bytes."""

    text: str
    codec: Codec


def decode(data: bytes) -> Decoded:
    """Decode `data` in its most likely encoding. Raises NotText."""
    return decodings(data)[0]


def decodings(data: bytes) -> list[Decoded]:
    """Return all plausible decodings, the most likely first; just one if the bytes prove it. Raises NotText."""
    for bom, name in _BOMS:
        if data.startswith(bom) and (decoded := _decode(data, Codec(name, bom))) is not None:
            return [decoded]
    if b"\0" in data:
        raise NotText(describe_binary(data))
    decoded = _decode(data, Codec("utf-8"))
    return [decoded] if decoded is not None else _legacy_decodings(data)


def read_as(data: bytes, encoding: str) -> str:
    """Decode `data` in a given encoding; invalid bytes become U+FFFD. Raises LookupError."""
    info = codecs.lookup(encoding)
    if not info._is_text_encoding:
        raise LookupError(f"unknown encoding: {encoding}")
    for bom, name in _BOMS:
        if data.startswith(bom) and info.name.replace("_", "-") in (name, name[:6], "utf-8-sig"):
            return data[len(bom) :].decode(name, "replace")
    return data.decode(encoding, "replace")


def describe_binary(data: bytes, kind: Literal["files", "output"] = "files") -> str:
    """Return in words what data is that is not text; the tables for files and for output differ in their wording."""
    signatures = read_table(__package__, "signatures.json")[kind]
    return next((name for prefix, name in signatures.items() if data.startswith(bytes.fromhex(prefix))), "binary data")


def _decode(data: bytes, codec: Codec) -> Decoded | None:
    try:
        text = data[len(codec.bom) :].decode(codec.name, codec.errors)
        if codec.bom + codec.encode(text) != data:
            return None
    except UnicodeError:
        return None
    return Decoded(text, codec)


def _legacy_decodings(data: bytes) -> list[Decoded]:
    """Return decodings of bytes that have no byte order mark and are not UTF-8."""
    names: list[str] = []
    guess = _guess(data)
    if guess is not None:
        names.append(guess)
    if _C1.search(data) is None:
        names.append("latin-1")
    names += ["cp1252", *_EAST_ASIAN, "cp1251", "koi8_r"]
    weak = guess is None
    legacy = [_decode(data, Codec(name, guessed=True, weak=weak)) for name in dict.fromkeys(names)]
    broken_utf8 = _decode(data, Codec("utf-8", errors="surrogateescape", guessed=True))
    sequences = _UTF8.findall(data)
    stray = len(_NON_ASCII.findall(data)) - sum(map(len, sequences))
    # With a few broken bytes it is still UTF-8.
    is_utf8 = len(sequences) >= max(stray, 1)
    decodings = [broken_utf8, *legacy] if is_utf8 else [*legacy, broken_utf8]
    return [decoded for decoded in decodings if decoded is not None]


def _guess(data: bytes) -> str | None:
    """Return the most likely legacy encoding; Western if the text looks so, as statistics fail on short samples."""
    try:
        western = data.decode("cp1252")
    except UnicodeDecodeError:
        western = None
    if western is not None and _looks_western(western):
        return "latin-1" if _C1.search(data) is None else "cp1252"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:MAX_SAMPLE]).best()
    name = "" if best is None else best.encoding
    name = {"shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949"}.get(name, name)
    return name if name in (*_EAST_ASIAN, "cp1251", "koi8_r") else None


def _looks_western(text: str) -> bool:
    """Return whether letters beyond ASCII are next to ASCII letters, like accents in a Latin script."""
    sample = text[:MAX_SAMPLE]
    non_ascii = [index for index, character in enumerate(sample) if character > "\x7f"]
    letters = [index for index in non_ascii if sample[index] not in _WESTERN_MARKS]
    adjacent = [i for i in letters or non_ascii if re.search("[A-Za-z]", sample[max(0, i - 1) : i + 2])]
    if not letters:
        return bool(adjacent)
    return sum(1 for index in adjacent if _WESTERN_LETTERS.match(sample[index])) * 2 >= len(letters)
