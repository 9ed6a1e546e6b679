"""ripgrep and our own search find the same, in the same order, in trees with everything that a file can be."""

from __future__ import annotations

import os
import shutil
import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.doubles.fake_tool_context import FakeToolContext
from tests.tools.calling import call
from tui_agent.common.domain import ToolResult
from tui_agent.tools.search_workspace import find_ripgrep

pytestmark = pytest.mark.needs("rg")

NAMES = st.sampled_from(
    [b"a", b"b.txt", b"a.txt", b"A", b"a b", b".hidden", b"-rf", b"\xff\xfe", "é.md".encode(), "日本".encode(), b"x\ny", b"[x]*", b"sub", b"deep", b"out", b"keep.log", b"z.log", b"\x1b[31m"]
)  # fmt: skip
WORDS = [
    "needle",
    "Needle",
    "NEEDLE",
    "nee dle",
    "é needle",
    "x" * 500 + "needle" + "y" * 500,
    "",
    "  ",
    "need",
    "le",
    "日本needle日本",
]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines))
)
CONTENTS = st.one_of(
    TEXTS.map(str.encode),
    TEXTS.map(lambda text: text.encode() + b"\n"),
    TEXTS.map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    TEXTS.map(lambda text: text.encode("utf-16")),
    TEXTS.map(lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
    TEXTS.map(lambda text: text.encode() + b"\nneedle\0\n"),
    TEXTS.map(lambda text: b"\0" + text.encode()),
    TEXTS.map(lambda text: text.encode("latin-1", "replace") + b"\xe9 needle\xff\n"),
)
RULES = st.lists(
    st.sampled_from(
        ["*.log", "!keep.log", "/out", "out/", "sub/a", "**/deep", "a*", "# x", "", "\\-rf", "!a.txt", "deep/*", "b.tx?", "*"]
    ),
    max_size=3,
).map("\n".join)  # fmt: skip
ENTRY = st.tuples(
    st.lists(NAMES, max_size=2), NAMES, st.one_of(CONTENTS, RULES, st.sampled_from([b"<link>", b"<folder>"]))
)
TREES = st.lists(ENTRY, max_size=8)
QUERIES = st.sampled_from(
    [("needle", False), ("Needle", False), ("é needle", False), ("nee dle", False), ("need", False), ("needle", True),
     (r"^needle", True), (r"needle$", True), (r"n\w+e", True), (r"NEEDLE|nee\sdle", True), (r"[[:alpha:]]+dle\b", True), (r"x{3,}needle", True), ("zzz", False),
     ("needle\nneedle", False), (r"needle\n+need", True)]
)  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("same")
    (folder / ".gitignore").write_text("*\n")  # above the root: counts for nothing
    yield folder
    shutil.rmtree(folder)


def build(root: bytes, tree: list[tuple[list[bytes], bytes, bytes | str]]) -> None:
    os.mkdir(root)
    for folders, name, content in tree:
        folder = os.path.join(root, *folders)
        try:
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, b".gitignore" if isinstance(content, str) else name)
            if content == b"<link>":
                os.symlink(root, path)
            elif content == b"<folder>":
                os.makedirs(path, exist_ok=True)
            else:
                with open(path, "wb") as file:
                    file.write(content.encode() if isinstance(content, str) else content)
        except OSError:
            continue  # the name is taken by a folder, or a file stands in the way


async def both(ctx: FakeToolContext, **arguments: object) -> tuple[ToolResult, ToolResult]:
    results = []
    for program in (find_ripgrep(ctx.roots), None):
        ctx.search_program = program
        results.append(await call(ctx, "search_workspace", **arguments))
    return results[0], results[1]


@settings(max_examples=20, deadline=None)
@given(TREES, QUERIES, st.integers(0, 2), st.sampled_from([None, None, "sub", "out", "sub/deep"]))
async def test_both_find_the_same(
    ground: Path,
    tree: list[tuple[list[bytes], bytes, bytes | str]],
    query: tuple[str, bool],
    context: int,
    directory: str | None,
) -> None:
    root = ground / "root"
    shutil.rmtree(root, ignore_errors=True)
    build(os.fsencode(root), tree)
    ctx = FakeToolContext(root.resolve())
    if directory is not None and not (root / directory).is_dir():
        directory = None
    theirs, ours = await both(ctx, query=query[0], is_regex=query[1], context=context, directory=directory)
    assert theirs == ours


@pytest.mark.parametrize("text", [b"needle\r\nother", b"other\r\nneedle\r", b"needle\r\n", b"a needle\rb\r\n"])
async def test_both_find_the_end_of_a_line_before_its_cr(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a").write_bytes(text)
    theirs, ours = await both(FakeToolContext(tmp_path.resolve()), query="needle$", is_regex=True)
    assert theirs == ours
    assert ("→" in ours.data) == (b"\rb" not in text)


async def test_both_have_the_same_limits(tmp_path: Path) -> None:
    ctx = FakeToolContext(tmp_path.resolve())
    (tmp_path / "many.txt").write_text("needle\n" * 150)
    (tmp_path / "next.txt").write_text("a\n" * 50 + "needle\n" * 50 + "b\n")
    (tmp_path / "wide.txt").write_text("é" * 5_000 + "needle" + "y" * 5_000)
    (tmp_path / "large.txt").write_bytes(b"needle\n" + b"x" * (10 << 20))
    (tmp_path / "line.txt").write_bytes(b"needle " + b"x" * (6 << 20))
    theirs, ours = await both(ctx, query="needle", context=2)
    assert theirs == ours
    assert theirs.data.count("→") == 153  # 100 of the first and 2 beside them, 50, and the wide one
    assert "large.txt" not in theirs.data
    assert "passed over" in theirs.data
    assert max(map(len, theirs.data.split("\n"))) < 450
    ctx.search_matches = 7
    theirs, ours = await both(ctx, query="needle")
    assert theirs == ours and theirs.data.count("→") == 7


async def test_a_folder_that_is_ignored_is_searched_when_it_is_named(tmp_path: Path) -> None:
    ctx = FakeToolContext(tmp_path.resolve())
    for name, text in (
        (".gitignore", "out/\n*.log\n"),
        ("out/a.txt", "needle"),
        ("out/b.log", "needle"),
        ("sub/a.log", "needle"),
        ("sub/in/a.txt", "needle"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for directory, found in (("out", ["out/a.txt", "out/b.log"]), ("sub", ["sub/in/a.txt"]), (None, ["sub/in/a.txt"])):
        theirs, ours = await both(ctx, query="needle", directory=directory)
        assert theirs == ours
        assert [line[3:-3] for line in theirs.data.split("\n") if line.startswith("──")] == found
    assert (await call(ctx, "list_files", path="out")).data == "a.txt\nb.log"
    assert (await call(ctx, "list_files", path="sub")).data == "in/\n  a.txt"


async def test_looking_around_works_with_both(tmp_path: Path) -> None:
    ctx = FakeToolContext(tmp_path.resolve())
    (tmp_path / "a.txt").write_text("foobar\nfoobaz\n")
    theirs, ours = await both(ctx, query="foo(?!bar)", is_regex=True)
    assert theirs == ours and theirs.data == "── a.txt ──\n→ 2: foobaz"


@pytest.mark.parametrize("query", ["a\0b", "\ud800"])
async def test_a_query_that_no_file_can_contain_is_reported(tmp_path: Path, query: str) -> None:
    assert (await call(FakeToolContext(tmp_path.resolve()), "search_workspace", query=query)).code == "bad_arguments"


async def test_results_are_streamed_during_the_search(tmp_path: Path) -> None:
    ctx = FakeToolContext(tmp_path.resolve())
    for letter in string.ascii_lowercase:
        (tmp_path / f"{letter}.txt").write_text("needle\n")
    theirs, ours = await both(ctx, query="needle")
    assert theirs == ours
    shown = "".join(ctx.outputs)
    assert shown == f"{theirs.data}\n{ours.data}\n"
