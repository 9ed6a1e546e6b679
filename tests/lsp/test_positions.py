from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.lsp.positions import Encoding, ServerLines, from_units, path_of, to_units, uri_of

WIDTHS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), st.data())
@settings(max_examples=150)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_columns_round_trip(encoding: Encoding, line: str, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, len(line)))
    units = to_units(line, column, encoding)
    assert units == len(line[:column].encode(WIDTHS[encoding])) // UNIT[encoding]
    assert from_units(line, units, encoding) == column


def test_units_inside_a_character_and_beyond_the_end() -> None:
    assert from_units("a😀b", 2, "utf-16") == 1
    assert from_units("a😀b", 3, "utf-16") == 2
    assert from_units("a😀b", 3, "utf-8") == 1
    assert from_units("a😀b", 99, "utf-16") == 3
    assert from_units("", 5, "utf-8") == 0


def test_lines_end_as_the_protocol_says() -> None:
    lines = ServerLines("a\r\nb\rc\n\x0bd\x85e")
    assert [lines[number] for number in range(len(lines))] == ["a", "b", "c", "\x0bd\x85e"]
    assert lines[-1] == lines[99] == ""


@given(st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=30))
@settings(max_examples=100)
def test_paths_round_trip(name: str) -> None:
    path = f"/work/{name}/x.py" if name not in (".", "..") else "/work/x.py"
    assert path_of(uri_of(path)) == path


def test_undecodable_names_and_invalid_uris() -> None:
    assert path_of(uri_of("/w/\udcff#?% x.py")) == "/w/\udcff#?% x.py"
    assert path_of("file://localhost/w/a%20b.py") == "/w/a b.py"
    assert path_of("file:/w/a%20b.py") == "/w/a b.py"
    assert path_of("file:///w/../etc/x") == "/etc/x"
    for odd in ("untitled:1", "http://x/y", "file://", "file:", "file:x/y", "file://x", None, 7, "file:///a%00b"):
        assert path_of(odd) == ""
