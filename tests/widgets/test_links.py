from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.widgets.kit import INK
from widgets.links import _without_trailing, place_of, place_target, targets_of, url_target
from widgets.markdown import MarkdownStream, render_markdown

FILES = {"src/a.py": "/w/src/a.py", "README.md": "/w/READ ME#1.md"}


def links(source: str, width: int = 200) -> list[tuple[str, str]]:
    """Text and target of each hyperlink."""
    lines = render_markdown(source, width, INK, lambda name: FILES.get(name, ""))
    return [
        (segment.text, segment.style.link)
        for line in lines
        for segment in line.segments
        if segment.style is not None and segment.style.link
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("see https://a.b/c_d_e?x=1&y=2.", "https://a.b/c_d_e?x=1&y=2"),
        ("(https://a.b/A_(b))", "https://a.b/A_(b)"),
        ("'http://localhost:8080/'", "http://localhost:8080/"),
        ("`https://a.b/c`", "https://a.b/c"),
        ("HTTPS://A.B", "HTTPS://A.B"),
        ("<https://a.b/c>", "https://a.b/c"),
    ],
)
def test_urls_are_links(source: str, text: str) -> None:
    assert links(source) == [(text, text)]


def test_a_url_keeps_its_target_where_it_is_wrapped() -> None:
    url = "https://a.b/" + "x" * 60
    found = links(f"see {url} there", 30)
    assert "".join(text for text, _target in found) == url
    assert {target for _text, target in found} == {url}


@pytest.mark.parametrize(
    "source",
    [
        "https://google.com@evil.example/",
        "https://g\u043e\u043egle.com/",
        "https://",
        "https://[::1",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ssh://a.b/c",
        "a.b:80",
        "https://a.b/" + "x" * 3_000,
    ],
)
def test_what_could_disguise_its_target_is_no_link(source: str) -> None:
    assert links(source) == []


def test_a_label_cannot_disguise_its_target() -> None:
    assert links("[docs](https://a.b/c)") == [("docs", "https://a.b/c"), ("https://a.b/c", "https://a.b/c")]
    disguised = "[https://good.example](https://evil.example/x)"
    assert links(disguised) == [("https://evil.example/x", "https://evil.example/x")]
    assert "https://good.example (https://evil.example/x)" in render_markdown(disguised, 90, INK)[0].text
    assert links("[good.example](https://evil.example)") == [("https://evil.example", "https://evil.example")]
    assert links("<me@a.b>") == [("me@a.b", "mailto:me@a.b")]


@pytest.mark.parametrize(
    ("source", "text", "target"),
    [
        ("in src/a.py:12, and", "src/a.py:12", "file:///w/src/a.py#12"),
        ("in `src/a.py:12:3`", "src/a.py:12:3", "file:///w/src/a.py#12"),
        ("(src/a.py:12)", "src/a.py:12", "file:///w/src/a.py#12"),
        ("`src/a.py`", "src/a.py", "file:///w/src/a.py"),
        ("`README.md`", "README.md", "file:///w/READ%20ME%231.md"),
    ],
)
def test_places_in_files_are_links(source: str, text: str, target: str) -> None:
    assert links(source) == [(text, target)]


def test_links_to_files_are_links() -> None:
    target = "file:///w/src/a.py#5"
    assert links("[here](src/a.py#L5)") == [("here", target), ("src/a.py#L5", target)]


@pytest.mark.parametrize("source", ["nothing.py:12", "src/a.py", "time 12:30", "http:80", "`src/b.py`"])
def test_what_is_no_file_is_no_link(source: str) -> None:
    assert links(source) == []


@given(st.text(max_size=60), st.integers(0, 9_999))
def test_a_place_is_read_back(path: str, line: int) -> None:
    path = "/" + path.encode("utf-8", "replace").decode()
    target = place_target(path, line)
    assert target.isascii() and target.isprintable()
    assert place_of(target) == (path, line)


@given(st.text(max_size=80))
def test_a_target_has_no_control_characters(text: str) -> None:
    target = url_target("https://a.b/" + text)
    assert target.isascii() and target.isprintable() and " " not in target
    for found in targets_of(render_markdown("https://a.b/" + text, 40, INK)):
        assert found.isascii() and found.isprintable()


def test_a_stream_has_links_too() -> None:
    stream = MarkdownStream(lambda name: FILES.get(name, ""))
    for part in ("see src/", "a.py:1", "2 ", "\n\nand https://a.", "b"):
        stream.feed(part)
        stream.lines(60, INK)
    assert targets_of(stream.lines(60, INK)) == ["file:///w/src/a.py#12", "https://a.b"]


PARTS = st.lists(
    st.sampled_from(
        [
            "see src/a.py:12 and src/a.py",
            "`README.md`",
            "[label](src/a.py)",
            "- one `src/a.py`",
            "",
            "text " * 30,
            "# x",
        ]
    )
)


@given(PARTS, st.integers(8, 80))
def test_links_to_files_that_are_found_later_are_those_of_files_that_were_known(parts: list[str], width: int) -> None:
    known: dict[str, str] = {}
    text = "\n".join(parts)
    fresh, stream = (MarkdownStream(lambda name, files=files: files.get(name, "")) for files in (FILES, known))  # type: ignore[misc]  # a default
    for each in (fresh, stream):
        each.feed(text)
        each.lines(width, INK)
    known |= FILES
    stream.relink(FILES.keys())
    assert [line.segments for line in stream.lines(width, INK)] == [line.segments for line in fresh.lines(width, INK)]


def test_only_the_pieces_that_name_a_file_are_painted_again() -> None:
    looks: list[str] = []

    def locate(name: str) -> str:
        looks.append(name)
        return ""

    stream = MarkdownStream(locate)
    stream.feed("".join(f"In `file{number}.py`.\n\n" for number in range(100)))
    stream.lines(80, INK)
    looks.clear()
    assert stream.relink({"file7.py"}) and looks == ["file7.py"]
    assert not stream.relink({"other.py"}) and looks == ["file7.py"]


def test_brackets_behind_a_url_are_counted_once() -> None:
    searched = 0

    def note_call(_frame: object, event: str, called: object) -> None:
        nonlocal searched
        searched += event == "c_call" and getattr(called, "__name__", "") == "count"

    sys.setprofile(note_call)
    try:
        assert _without_trailing("http://a.b/" + ")" * 1_000) == "http://a.b/"
    finally:
        sys.setprofile(None)
    assert searched == 0  # each reads all of the text


def test_a_longer_text_than_a_target_is_no_link() -> None:
    assert links("http://a.b/" + ")" * 60_000) == []
    assert links("http://a.b/" + "x" * 3_000) == []
