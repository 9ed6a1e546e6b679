from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.text import Cleaner, StreamMasker, clean, make_visible, one_line, reveal
from tui_agent.text.cleaning import STRING_LIMIT

ESC = "\x1b"

PAYLOADS = {
    "osc 52 bell": "\x1b]52;c;aGVsbG8=\x07",
    "osc 52 st": "\x1b]52;c;aGVsbG8=\x1b\\",
    "osc 52 c1 st": "\x1b]52;c;aGVsbG8=\x9c",
    "osc 8-bit": "\x9d0;title\x07",
    "osc title": "\x1b]0;title\x07",
    "osc link": "\x1b]8;;http://evil.test\x1b\\",
    "osc notify": "\x1b]9;hello\x07",
    "clear": "\x1b[2J\x1b[H",
    "report": "\x1b[6n",
    "alternate screen": "\x1b[?1049l",
    "csi 8-bit": "\x9b2J",
    "dcs": "\x1bP1;2|payload\x1b\\",
    "dcs 8-bit": "\x90payload\x9c",
    "apc": "\x1b_payload\x1b\\",
    "apc 8-bit": "\x9fpayload\x9c",
    "pm": "\x1b^payload\x1b\\",
    "pm 8-bit": "\x9epayload\x9c",
    "sos": "\x1bXpayload\x1b\\",
    "sos 8-bit": "\x98payload\x9c",
    "reset": "\x1bc",
    "charset": "\x1b(0",
    "nested": "\x1b]0;\x1b[31m",
    "colour": "\x1b[31m",
    "csi with blank": "\x1b[0 q",
    "controls": "\x00\x07\x08\x0b\x0c\x7f\x85\x8d",
    "cancelled": "\x1b]0;x\x18",
    "key modes": "\x1b[>4;2m",
}

pieces = st.sampled_from(
    [
        *PAYLOADS.values(),
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x90",
        "\x9b",
        "\x9c",
        "\\",
        "m",
        "0",
        ";",
        "[",
        "]",
        "a",
        "é",
        "\n",
        "\r",
        "\r\n",
        " ",
        "\ud800",
        "😀",
    ]
)
hostile = st.one_of(st.lists(pieces, max_size=12).map("".join), st.text(max_size=40))


def in_pieces(machine: Cleaner | StreamMasker, text: str, cuts: list[int]) -> str:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return "".join(machine.feed(text[a:b]) for a, b in pairwise(edges)) + machine.flush()


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_clean_removes_complete_sequences(payload):
    assert clean(f"before{payload}after") == "beforeafter"


@pytest.mark.parametrize(
    "opener", ["\x1b]", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x9d", "\x90", "\x9f", "\x9e", "\x98"]
)
def test_an_unterminated_string_removes_a_bounded_part_of_one_line(opener):
    assert clean(f"a{opener}rest of the line\nnext") == "a\nnext"
    assert clean("a" + opener + "x" * (STRING_LIMIT + 5)) == "a" + "x" * 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb", "a\nb"),
        ("a\rb", "a\nb"),
        ("a\r\r\nb", "a\nb"),
        ("a\r\n\r\nb", "a\n\nb"),
        ("a\r\x1b[K\nb", "a\nb"),
        ("a\tb\nc", "a\tb\nc"),
        ("\ud800x\udfff", "<U+D800>x<U+DFFF>"),
        ("line\u2028sep\u0085x", "line\u2028sepx"),
        ("", ""),
    ],
)
def test_clean_line_ends_and_surrogates(text, expected):
    assert clean(text) == expected


def test_colours_keeps_well_formed_sgr_only():
    saved = "\x1b[1;31mred\x1b[0m \x1b[38;5;8mgrey\x1b[m \x1b[38;2;8;8;8mx \x1b[4:3mwavy"
    assert clean(saved, colors=True) == saved
    assert clean("\x9b32mgreen", colors=True) == "\x1b[32mgreen"
    for dropped in (
        "\x1b[?1m",
        "\x1b[>4;2m",
        "\x1b[1 m",
        "\x1b[2J",
        "\x1b[8m",
        "\x1b[0;8m",
        "\x1b[1;38;5;1;8m",
        "\x1b[" + "1;" * 60 + "m",
    ):
        assert clean(f"a{dropped}b", colors=True) == "ab", dropped


@given(hostile)
def test_no_terminal_control_remains(text):
    left = clean(text)
    assert not [c for c in left if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f"]
    left.encode("utf-8")
    assert clean(left) == left


@given(hostile)
def test_text_without_control_is_unchanged(text):
    if not any(unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" for c in text):
        assert clean(text) == text


@given(hostile, st.lists(st.integers(min_value=0), max_size=8), st.booleans())
def test_cleaner_gives_the_same_for_every_split(text, cuts, colours):
    assert in_pieces(Cleaner(colours), text, cuts) == clean(text, colors=colours)


def test_cleaner_gives_the_same_for_every_split_at_the_limit():
    text = "a\x1b]" + "x" * (STRING_LIMIT + 3) + "\x1b[31mb\r\nc"
    for size in (1, 7, STRING_LIMIT - 1, STRING_LIMIT, STRING_LIMIT + 1, STRING_LIMIT + 2, STRING_LIMIT + 3):
        cleaner = Cleaner()
        actual = "".join(cleaner.feed(text[at : at + size]) for at in range(0, len(text), size)) + cleaner.flush()
        assert actual == clean(text)


def test_cleaner_returns_ordinary_text_immediately():
    cleaner = Cleaner()
    assert cleaner.feed("hello ") == "hello "
    assert cleaner.feed("wor\x1b[3") == "wor"
    assert cleaner.feed("1mld") == "ld"


def test_cleaner_can_be_used_again_after_flush():
    cleaner = Cleaner()
    assert cleaner.feed("a\r") + cleaner.flush() == "a\n"
    assert cleaner.feed("\nb") == "\nb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mb", "a<U+001B>[31mb"),
        ("a\rb\x7f\x00", "a<U+000D>b<U+007F><U+0000>"),
        ("a\x9bb", "a<U+009B>b"),
        ("rm \u202e-rf", "rm <U+202E>-rf"),
        ("a\u200bb\ufeffc\u2066d", "a<U+200B>b<U+FEFF>c<U+2066>d"),
        ("a\U000e0041b", "a<U+E0041>b"),
        ("a\u00a0b\u3164c", "a<U+00A0>b<U+3164>c"),
        ("\ud800", "<U+D800>"),
        ("tab\there\nnext", "tab\there\nnext"),
        ("ls" + " " * 2000 + ";rm -rf ~", "ls⟨2000 spaces⟩;rm -rf ~"),
        ("    indented", "    indented"),
        ("x\n" + " " * 300 + "rm", "x\n⟨300 spaces⟩rm"),
        ("a[i] and d['k'] [/x]", "a[i] and d['k'] [/x]"),
    ],
)
def test_visible_shows_invisible_characters(text, expected):
    assert make_visible(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("curl https://раypal.com", "curl https://<U+0440><U+0430>ypal.com"),
        ("curl https://аррӏе.com", "curl https://<U+0430><U+0440><U+0440><U+04CF><U+0435>.com"),
        ("ѕudo ls", "<U+0455>udo ls"),
        ("cat привет.py", "cat привет.py"),
        ("echo Привет, мир", "echo Привет, мир"),
        ("ｒｍ -rf x", "<U+FF52><U+FF4D> -rf x"),
        ("evil.test／path.ok.com", "evil.test<U+FF0F>path.ok.com"),
        ("naïve café 日本語", "naïve café 日本語"),
        ("# 日本語、API（v2）！", "# 日本語、API（v2）！"),
        ("Δx = 5 µs", "<U+0394>x = 5 µs"),
    ],
)
def test_visible_exposes_lookalike_letters(text, expected):
    assert make_visible(text) == expected


def test_reveal_keeps_joiners_of_scripts_and_emoji():
    for text in ("⚠️ careful", "👩‍💻", "می‌خواهم", "café", "e\u0301"):
        assert reveal(text) == text


@given(st.text())
def test_visible_text_has_no_control_and_is_stable(text):
    shown = make_visible(text)
    assert clean(shown) == shown
    assert reveal(shown) == shown


def test_the_mark_of_a_cut_is_not_marked_in_a_host():
    for text in ("curl http://…", "see http://local… for", "http://a…\nb"):
        assert reveal(text) == text
    assert reveal("http://a….example/") == "http://a<U+2026>.example/"
    assert make_visible("curl http://…") == "curl http://<U+2026>"
    command = "curl http://" + "a" * 200
    assert reveal(one_line(command, 40, exact=True)) == one_line(command, 40, exact=True)


def test_one_line():
    assert one_line("a\nb\t c\x1b[31m") == "a b c"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"
    assert one_line("name\u202egpj.exe") == "name<U+202E>gpj.exe"
    assert len(one_line("word " * 1_000_000)) <= 80
