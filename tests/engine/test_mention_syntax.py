from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.mentions.syntax import format_mention, mentions


def read(text: str) -> list[tuple[str, int | None, int | None]]:
    """The shortest reading of each mention: what is meant where no longer name exists."""
    return [(one.targets[-1].path, one.targets[-1].first, one.targets[-1].last) for one in mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("look at @src/a.py, please", [("src/a.py", None, None)]),
        ("(@a.py)", [("a.py", None, None)]),
        ("Is @README.md right?", [("README.md", None, None)]),
        ("@a.py's end", [("a.py", None, None)]),
        ("看@src/a.py的代码", [("src/a.py", None, None)]),
        ('see @"my file.md":L3-L5.', [("my file.md", 3, 5)]),
        (r'@"a \"b\".md"', [('a "b".md', None, None)]),
        ("@node_modules/@types/x.d.ts", [("node_modules/@types/x.d.ts", None, None)]),
        ("one @a.py\ntwo @b/", [("a.py", None, None), ("b/", None, None)]),
        ("mail me@example.org or a.b@c.py", []),
        ("@", []),
        ("@. @/ @@x", []),
        (r"\@a.py and `@a.py`", []),
        ('from "@app/x" import', []),
        ("```py\n@a.py\n```\n@b.py\n~~~\n@c.py", [("b.py", None, None)]),
        ("````\n```\n@a.py\n````\n@b.py", [("b.py", None, None)]),
    ],
)
def test_mentions_are_told_from_other_signs(text: str, found: list[tuple[str, int | None, int | None]]) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    ("text", "lines"),
    [("@a.py:L10-L50", (10, 50)), ("@a.py:L10-50", (10, 50)), ("@a.py:L7", (7, 7)), ("@a.py:L50-L10", (10, 50)), ("@a.py:L0", (1, 1))],
)  # fmt: skip
def test_lines_are_read(text: str, lines: tuple[int, int]) -> None:
    (mention,) = mentions(text)
    assert mention.targets[0].path == "a.py"
    assert (mention.targets[0].first, mention.targets[0].last) == lines
    assert mention.targets[-1].path == text[1:]  # a file may be called so


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("@property", False),
        ("@app.route('/x')", False),
        ("@pytest.fixture", False),
        ("@types/node", False),
        ("@nobody", False),
        ("@src/missing.py", True),
        ("@missing.md", True),
        ("@./x", True),
        ("@x:L3", True),
        ("@a/b/c", True),
        ('@"x"', True),
    ],
)
def test_only_what_must_be_a_file_is_worth_a_word_when_it_is_missing(text: str, certain: bool) -> None:
    (mention,) = mentions(text)
    assert mention.certain is certain


NAMES = st.text(alphabet=string.ascii_letters + string.digits + " .,:;'\"\\()[]@#-_é日本", min_size=1, max_size=20)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join).filter(lambda path: any(c.isalnum() for c in path))


@settings(max_examples=200)
@given(PATHS, st.none() | st.tuples(st.integers(1, 999), st.integers(0, 99)))
def test_what_is_written_is_read_again(path: str, lines: tuple[int, int] | None) -> None:
    first, last = (None, None) if lines is None else (lines[0], lines[0] + lines[1])
    for text in (format_mention(path, first, last), f"see {format_mention(path, first, last)} there"):
        (mention,) = mentions(text)
        place = mention.targets[0]
        assert (place.path, place.first, place.last) == (path, first, last)
        assert text[mention.start :].startswith(place.text)


@settings(max_examples=200)
@given(st.text(alphabet="@ab./:L1-\"\\ \n`~'(),é", max_size=60))
def test_every_reading_is_part_of_the_text(text: str) -> None:
    for mention in mentions(text):
        assert mention.targets
        for place in mention.targets:
            assert text[mention.start :].startswith(place.text)
            assert place.path
