from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.platform.encoding import NotText, decode, decodings, read_as


@given(st.binary(max_size=200))
def test_every_decoding_is_reversible(data: bytes) -> None:
    try:
        found = decodings(data)
    except NotText:
        return
    assert found
    for candidate in found:
        assert candidate.codec.bom + candidate.codec.encode(candidate.text) == data


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=100))
def test_utf8_is_proof_and_stands_alone(text: str) -> None:
    (found,) = decodings(text.encode("utf-8"))
    assert (found.text, found.codec.name, found.codec.guessed) == (text, "utf-8", False)


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_a_byte_order_mark_decides(name: str) -> None:
    data = "\ufeffé\r\nb".encode(name)
    found = decode(data)
    assert (found.text, found.codec.name) == ("é\r\nb", name)
    assert found.codec.bom == "\ufeff".encode(name)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Das hört sich schön an\n", "latin-1"),
        ("it’s “naïve” – né\n", "cp1252"),
        ("日本語のテキストです。\n", "cp932"),
        ("这是一个中文测试文件。\n", "gb18030"),
    ],
)
def test_likely_encodings_come_first(text: str, encoding: str) -> None:
    found = decode(text.encode(encoding))
    assert (found.text, found.codec.name, found.codec.guessed) == (text, encoding, True)


def test_broken_bytes_in_utf8_are_preserved() -> None:
    found = decode("ü ö ä 日本\n".encode() + b"\xff\n")
    assert found.text == "ü ö ä 日本\n\udcff\n"


@pytest.mark.parametrize("data", [b"\0", b"a\0b", "ab".encode("utf-16-le"), b"\x7fELF\0\0"])
def test_nul_is_not_text(data: bytes) -> None:
    with pytest.raises(NotText):
        decode(data)


def test_decoding_in_a_given_encoding() -> None:
    assert read_as(b"\xef\xbb\xbfa", "utf-8") == "a"
    assert read_as(b"\xff\xfea\0", "utf-16") == "a"
    assert read_as(b"\xe4", "latin-1") == "ä"
    assert read_as(b"\xe4", "utf-8") == "\ufffd"
    with pytest.raises(LookupError):
        read_as(b"", "base64")
