from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.platform.encoding import NotText
from tui_agent.tools import tolerant_text
from tui_agent.tools.base import ToolError
from tui_agent.tools.edit_file import edit_bytes
from tui_agent.tools.matching import Replacement, candidate_region, locate
from tui_agent.tools.tolerant_text import View


def apply(text: str, places: tuple[Replacement, ...]) -> str:
    """`text` with all replacements made."""
    for place in reversed(places):
        text = text[: place.start] + place.text + text[place.end :]
    return text


def edit(text: str, old: str, new: str, replace_all: bool = False) -> str:
    """The new text, or the error's code in angle brackets."""
    try:
        return apply(text, locate(text, old, new, replace_all).replacements)
    except ToolError as error:
        return f"<{error.code}>"


def check(cases: list[tuple[str, str, str, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("text", "old", "new", "wanted"), cases)


@check(
    [
        ("m\r\nn\r\n", "m", "m\nx", "m\r\nx\r\nn\r\n"),
        ("m\r\nn\r\no\r\n", "m\nn\n", "M\nN\n", "M\r\nN\r\no\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "\nX", "a\r\nX\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "", "a\r\nc\r\n"),
        ("m\nn\n", "m\r\nn\r\n", "M\r\nN\r\n", "M\nN\n"),
        ("m\nn\n", "m", "M\r\nN", "M\nN\nn\n"),
        ("a\rb\rc\r", "a\nb\n", "A\nB\nX\n", "A\rB\rX\rc\r"),
        ("1\r\n2\n3\r\n4\n", "2\n3\n", "2\nX\n", "1\r\n2\nX\r\n4\n"),
        ("1\r\n2\n3\r\n", "1\n2\n3\n", "0\n1\n2\n3\n", "0\r\n1\r\n2\n3\r\n"),
        ("1\r\n2\n3\r\n", "2", "2\nx", "1\r\n2\nx\n3\r\n"),
        ("1\r\n2\n3\r\n", "3", "3\nx", "1\r\n2\n3\r\nx\r\n"),
        ("a\rb\nc\n", "a\rb", "a\rz", "a\rz\nc\n"),
        ("a\r\nb\r\n", "a\r\nb\r\n", "a\nb\n", "a\nb\n"),
        ("a\u2028b\x0bc\n", "c", "d", "a\u2028b\x0bd\n"),
    ]
)
def test_line_ends_of_the_file_stay(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new) == wanted


@check(
    [
        ("a\nb", "b\n", "c\n", "a\nc"),
        ("a\nb", "b", "b\nc", "a\nb\nc"),
        ("a\nb\n", "b\n", "", "a\n"),
        ("a\r\nb", "a\nb\n", "c\nd\n", "c\r\nd"),
    ]
)
def test_the_end_of_the_file_stays_as_it_is(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new) == wanted


@check(
    [
        ("a  \nb\nc\n", "a\nb\n", "A\nB\n", "A\nB\nc\n"),
        ("foo()\nbar\n", "foo()  \nbar", "x\nbar", "x\nbar\n"),
        ("foo().x\nfoo()\n", "foo()  ", "y()", "foo().x\ny()\n"),
        ("foo() \nx\n", "foo()  ", "y()", "y()\nx\n"),
        ("a\n  \nb\n", "a\n\nb\n", "c\n", "c\n"),
        ("x  =   1\n", "x = 1", "x = 2", "x = 2\n"),
        ("a\tb\n", "a b", "c", "c\n"),
        ("x\n\n\ny\n", "x\n\ny\n", "z\n", "z\n"),
        ('f("a  b",   c)\n', 'f("a  b", c)', "x", "x\n"),
        ("it's  a  dog's  life\n", "it's a dog's life", "x", "x\n"),
        ('3"  and  4\n', '3" and 4', "x", "x\n"),
    ]
)
def test_blanks_may_differ(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new) == wanted


@check(
    [
        (
            "class A:\n    def f(self):\n        if x:\n            y()\n",
            "def f(self):\n    if x:\n        y()\n",
            "def f(self):\n    if z:\n        y()\n        w()\n",
            "class A:\n    def f(self):\n        if z:\n            y()\n            w()\n",
        ),
        (
            "def f():\n    if x:\n        y()\n",
            "        def f():\n            if x:\n                y()\n",
            "        def g():\n            pass\n",
            "def g():\n    pass\n",
        ),
        ("{\n\tgo()\n\tgo2()\n}\n", "    go()\n    go2()\n", "    a()\n    b()\n", "{\n\ta()\n\tb()\n}\n"),
        (
            "{\n\tif (x) {\n\t\tgo();\n\t}\n}\n",
            "    if (x) {\n        go();\n    }\n",
            "    if (x) {\n        if (y) {\n            go();\n        }\n    }\n",
            "{\n\tif (x) {\n\t\tif (y) {\n\t\t\tgo();\n\t\t}\n\t}\n}\n",
        ),
        (
            "{\n\tgo();\n\tgo2();\n}\n",
            "go();\ngo2();\n",
            "if (x) {\n    go();\n}\n",
            "{\n\tif (x) {\n\t\tgo();\n\t}\n}\n",
        ),
        (
            "def f():\n  a()\n  b()\n",
            "\ta()\n\tb()\n",
            "\ta()\n\tif x:\n\t\tb()\n",
            "def f():\n  a()\n  if x:\n    b()\n",
        ),
        ("def k():\r\n    m()\r\n    n()\r\n", "m()\nn()\n", "m()\no()\n", "def k():\r\n    m()\r\n    o()\r\n"),
        ("def k():\n    m()\n\n    n()\n", "m()\n\nn()", "m()\n\no()", "def k():\n    m()\n\n    o()\n"),
        ("def k():\n    m()\n    n()", "m()\nn()\n", "m()\no()\n", "def k():\n    m()\n    o()"),
        ("\tfoo()\n", "    foo()\n", "    bar()\n    baz()\n", "\tbar()\n\tbaz()\n"),
    ]
)
def test_a_shifted_block_gets_the_indentation_of_the_file(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new) == wanted


@check(
    [
        ("p(“a”)\n", 'p("a")', 'p("b")', 'p("b")\n'),
        ('p("a")\n', "p(“a”)", 'p("z")', 'p("z")\n'),
        ("a – b\n", "a - b", "a + b", "a + b\n"),
        ("a\u00a0b\n", "a b", "c", "c\n"),
        ("wait…\n", "wait...", "go", "go\n"),
        ("a\u200bb\n", "ab", "c", "c\n"),
        ("e\u0301te\u0301\nb\n", "été", "x", "x\nb\n"),
        ("été\n", "e\u0301te\u0301", "x", "x\n"),
        ("\u1112\u1161\u11ab\n", "한", "x", "x\n"),
        ("def k():\n    p(“a”)\n    q()\n", 'p("a")\nq()\n', 'p("b")\nq()\n', 'def k():\n    p("b")\n    q()\n'),
        ("“a”  b\nx\n", '"a" b\nx\n', "c\n", "c\n"),
    ]
)
def test_look_alikes_may_differ(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new) == wanted


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("n = 1\nm = 2\nk = 3\n", "n = 1\nm = 7\nk = 3\n"),
        ("start\nsecret\nstop\n", "start\nstop\n"),
        ("a == b\n", "a = b"),
        ("n = -1\nm = 2\n", "n = 1\nm = 2\n"),
        ("Foo\n", "foo"),
        ("a # x\nb\n", "a\nb\n"),
        ("x=1\n", "x = 1"),
        ("a\n\nb\n", "a\nb\n"),
        ("a\nb\n", "a\n\nb\n"),
        ("x = 12\n", "x =  1"),
        ("сopy\n", "copy"),
        ("Ａ\n", "A"),
        ("if a:\n    b()\nc()\n", "    if a:\n    b()\n    c()\n"),
        ("def f():\n    b()\n", "def f():\n        b()\n"),
        ("e\u0301 \nb\n", "e\nb\n"),
        ("x = 'a  b'\n", "x = 'a b'"),
        ('p(f"a\tb")\n', 'p(f"a b")'),
        ("p(“a b”)\n", 'p("a  b")'),
        ("", "a"),
    ],
)
def test_nothing_is_guessed(text: str, old: str) -> None:
    assert edit(text, old, "new") == "<not_found>"


def test_new_lines_left_of_the_margin_are_refused() -> None:
    assert edit("if x:\n    y()\n    z()\n", "        y()\n        z()\n", "y()\n        z()\n") == "<not_found>"


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("q\nq\n", "q"),
        ("aaa\n", "aa"),
        ("a  b\na   b\n", "a b"),
        ("a \nb\na  \nb\n", "a\nb\n"),
        ("if a:\n  m()\n  n()\nif b:\n    m()\n    n()\n", "m()\nn()\n"),
        ("“a”\n‟a”\n", '"a"'),
        ("a\r\nb\na\r\nb\n", "a\nb"),
    ],
)
def test_two_matches_are_ambiguous(text: str, old: str) -> None:
    assert edit(text, old, "new") == "<not_unique>"


def test_a_stricter_level_decides_before_a_more_tolerant_one() -> None:
    assert edit("a  b\na b\n", "a b", "c") == "a  b\nc\n"
    assert edit('“x”\n"x"\n', '"x"', "c") == "“x”\nc\n"


def test_new_text_is_literal() -> None:
    for new in ("$&!", "\\1", "\\g<0>", "$1", "%s", "{x}", "\\n"):
        assert edit("A\n", "A", new) == f"{new}\n"
    assert edit("f(x)*\n", "f(x)*", "g(x)+") == "g(x)+\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "wanted"),
    [
        ("k k\n", "k", "j", "j j\n"),
        ("aaa\n", "aa", "b", "ba\n"),
        ("a\nb\r\na\r\nb\n", "a\nb", "c", "c\r\nc\n"),
        ("  a()\n  b()\n    a()\n    b()\n", "a()\nb()\n", "c()\n", "  c()\n    c()\n"),
        ("a\r\nb\r\n", "\r\n", "\n", "a\nb\n"),
        ("a\n", "z", "b", "<not_found>"),
    ],
)
def test_replace_all(text: str, old: str, new: str, wanted: str) -> None:
    assert edit(text, old, new, True) == wanted


def test_no_change_is_reported() -> None:
    assert edit("a\n", "a", "a") == "<no_change>"
    assert edit("a\r\nb\r\n", "a \nb\n", "a\nb\n") == "<no_change>"
    assert edit("a\r\nb\r\n", "a\nb\n", "a\r\nb\r\n") == "<no_change>"
    assert edit("a\n", "", "x") == "<empty_old>"


# --- feedback for the model ---


def message(text: str, old: str) -> str:
    with pytest.raises(ToolError) as error:
        locate(text, old, "new")
    return str(error.value)


def test_an_ambiguous_match_lists_its_lines() -> None:
    assert "at lines 1, 3." in message("q\nx\nq\n", "q")
    assert "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more" in message("q\n" * 50, "q")


def test_a_near_miss_names_the_missing_line_and_the_closest_region() -> None:
    text = (
        "".join(f"filler {number}\n" for number in range(40)) + "def area(w, h):\n    total = w * h\n    return total\n"
    )
    feedback = message(text, "def area(w, h):\n    total = w + h\n    return total\n")
    assert "nowhere in the file: total = w + h" in feedback
    assert "lines 41-43" in feedback
    assert "42\t    total = w * h" in feedback


def test_the_most_similar_line_is_shown() -> None:
    feedback = message("alpha\nresult = compute(first, second)\nomega\n", "result = compute(first, third)")
    assert "line 2:\n2\tresult = compute(first, second)" in feedback
    assert "Nothing in the file is like it" in message("alpha\n", "zzz = 1")


def test_common_slips_are_named() -> None:
    assert "line numbers" in message("a = 1\nb = 2\n", "1\ta = 1\n2\tb = 2")
    assert "escaped twice" in message("a = 1\nb = 2\n", "a = 1\\nb = 2")
    assert "Only blanks differ" in message("x\np('a  b')\n", "p('a b')")


# --- bytes ---

ENCODINGS: dict[str, Callable[[str], bytes]] = {
    "utf-8": lambda text: text.encode("utf-8"),
    "utf-8 with BOM": lambda text: text.encode("utf-8-sig"),
    "utf-16-le with BOM": lambda text: b"\xff\xfe" + text.encode("utf-16-le"),
    "utf-16-be with BOM": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "cp1252": lambda text: text.replace("ж", "“é”").encode("cp1252"),
    "shift-jis": lambda text: text.replace("ж", "表示日本語").encode("cp932"),
    "invalid utf-8": lambda text: text.replace("ж", "\udcff\udcc3").encode("utf-8", "surrogateescape"),
}
ENDS = {"LF": "\n", "CRLF": "\r\n", "CR": "\r", "mixed": None}


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_only_the_edited_line_changes(encoding: str, ends: str, final: bool) -> None:
    encode = ENCODINGS[encoding]
    kinds = itertools.cycle(["\n", "\r\n", "\r"] if ENDS[ends] is None else [ENDS[ends]])
    separators = [str(next(kinds)) for _ in range(6)]

    def text_of(lines: list[str]) -> str:
        joined = "".join(line + end for line, end in zip(lines, separators, strict=True))
        return joined if final else joined[: -len(separators[-1])]

    lines = [f"ж {number} = value" for number in range(6)]
    for index in range(6):
        edited = [line.replace("value", "other") if number == index else line for number, line in enumerate(lines)]
        data = encode(text_of(lines))
        result = edit_bytes(data, f"{index} = value", f"{index} = other")
        assert result.content == encode(text_of(edited))
        assert edit_bytes(result.content, f"{index} = other", f"{index} = value").content == data


@pytest.mark.parametrize(
    ("data", "old", "new", "wanted"),
    [
        ("é = 1\nx\n".encode("latin-1"), "é = 1", "é = 2", "é = 2\nx\n".encode("latin-1")),
        ("äöü\nx = 2\n".encode("latin-1"), "x = 2", "x = é", "äöü\nx = é\n".encode("latin-1")),
        ("日本\nx = 1\n".encode("cp932"), "日本", "日本語", "日本語\nx = 1\n".encode("cp932")),
        ("Привет мир\nx\n".encode("cp1251"), "Привет", "Пока", "Пока мир\nx\n".encode("cp1251")),
        (b"ok \xff\nx = 1\n", "x = 1", "x = 2", b"ok \xff\nx = 2\n"),
        (
            "ü ö\n".encode() + b"\xff\nx\n",
            "x",
            "ß",
            "ü ö\n".encode() + "\udcff\nß\n".encode("utf-8", "surrogateescape"),
        ),
    ],
)
def test_legacy_encodings_are_preserved(data: bytes, old: str, new: str, wanted: bytes) -> None:
    assert edit_bytes(data, old, new).content == wanted


@pytest.mark.parametrize(
    ("data", "old", "new", "code"),
    [
        ("äöü\nx = 2\n".encode("latin-1"), "x = 2", "x = 😀", "encoding"),
        ("äöü\nx = 2\n".encode("latin-1"), "x = 2", "x = €", "encoding"),
        (b"a\n", "a", "\ud83d", "encoding"),
        ("日本語の表示です\n".encode("cp932"), "\\", "/", "not_found"),
        ("表\n".encode("cp932"), "\\", "/", "encoding"),
        (b"a\0b\n", "a", "x", "binary"),
        ("a\n".encode("utf-16-le"), "a", "x", "binary"),
    ],
)
def test_what_cannot_be_written_safely_is_refused(data: bytes, old: str, new: str, code: str) -> None:
    with pytest.raises(ToolError) as error:
        edit_bytes(data, old, new)
    assert error.value.code == code


# --- properties ---

pieces = st.sampled_from(
    [
        "a",
        "b",
        "foo",
        "1",
        "=",
        " ",
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\r",
        "“",
        '"',
        "\u00a0",
        "e\u0301",
        "é",
        "…",
        "-",
        "—",
        "",
    ]
)
texts = st.lists(pieces, max_size=25).map("".join)


@given(texts, texts, texts, st.booleans())
def test_only_matches_change_and_only_one_without_replace_all(text: str, old: str, new: str, every: bool) -> None:
    try:
        found = locate(text, old, new, every)
    except ToolError as error:
        assert error.code in ("empty_old", "no_change", "not_unique", "not_found")
        if old and old != new and text.count(old) == 1 and not every:
            assert error.code in ("no_change", "not_unique")
        return
    assert every or len(found.replacements) == 1
    at = 0
    for place in found.replacements:
        assert at <= place.start < place.end <= len(text)
        at = place.end
        # What was matched holds the same letters, digits and operators.
        assert normalized(text[place.start : place.end]) == normalized(old)
    result = apply(text, found.replacements)
    assert result.startswith(text[: found.replacements[0].start]) and result.endswith(text[at:])


def normalized(text: str) -> str:
    import unicodedata

    plain = unicodedata.normalize("NFC", text)
    for character, replacement in (("“", '"'), ("—", "-"), ("…", "..."), ("\u00a0", " ")):
        plain = plain.replace(character, replacement)
    return "".join(plain.split())


@given(st.binary(max_size=60), st.text(max_size=6), st.text(max_size=6), st.booleans())
def test_bytes_outside_the_match_never_change(data: bytes, old: str, new: str, every: bool) -> None:
    try:
        result = edit_bytes(data, old, new, every)
    except (ToolError, NotText):
        return
    # Undone the long way: what is left and right of the first and last difference is the old file's.
    start = next(
        (at for at, (old_byte, new_byte) in enumerate(zip(data, result.content, strict=False)) if old_byte != new_byte),
        None,
    )
    assert start is not None or len(data) != len(result.content)
    assert result.count >= 1


@given(st.integers(1, 8), st.lists(st.integers(0, 3), min_size=2, max_size=6), st.booleans())
def test_a_block_shifted_by_any_depth_is_found(depth: int, levels: list[int], tabs: bool) -> None:
    unit = "\t" if tabs else "    "
    block = [f"{unit * level}line{number}" for number, level in enumerate(levels)]
    body = "".join(f"{unit * depth}{line}\n" for line in block)
    text = f"head\n{body}tail\n"
    old, new = "\n".join(block) + "\n", "\n".join(f"{line}!" for line in block) + "\n"
    assert edit(text, old, new) == text.replace("\ntail", "\ntail").replace(body, body.replace("\n", "!\n"))


@given(texts, texts)
def test_no_match_lies_outside_the_candidate_region(text: str, old: str) -> None:
    if not old.strip():
        return
    start, end = candidate_region(text, old) or (0, -1)
    for parts in (
        tolerant_text.LINE_ENDS,
        tolerant_text.TRAILING_BLANKS,
        tolerant_text.BLANK_RUNS,
        tolerant_text.LOOK_ALIKES,
        tolerant_text.LOOK_ALIKES_AND_RUNS,
        tolerant_text.BLANK_GAPS,
    ):
        view, needle = View(text, parts), View(old, parts).text
        at = view.text.find(needle)
        while needle and at >= 0:
            span = view.span(at, at + len(needle))
            assert span is None or start <= span[0] <= span[1] <= end
            at = view.text.find(needle, at + 1)


def test_messages_can_always_be_encoded() -> None:
    for data, old in ((b"\xff ok \xfe\n", "\ud83d ok"), (b"ok \xff\n", "ok é")):
        with pytest.raises(ToolError) as error:
            edit_bytes(data, old, "x")
        str(error.value).encode("utf-8")


# --- time ---

BIG = "".join(f"line {number} some text here\n" for number in range(50_000))
