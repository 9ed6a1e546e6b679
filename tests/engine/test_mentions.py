from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui_agent.common.errors import SearchStopped
from tui_agent.mentions.files import CHUNK_NAMES, Index, IndexBuilder, Listing
from tui_agent.mentions.search import MentionMatches, Mentions
from tui_agent.mentions.syntax import format_mention, mentions
from tui_agent.safety.roots import Roots

FILES = (
    "README.md",
    "src/engine/mentions.py",
    "src/engine/mention_index.py",
    "src/engine/ImportManager.py",
    "src/engine/menu/on.txt",
    "src/my notes.md",
    "tests/engine/test_mentions.py",
    "docs/a:b.md",
    ".github/ci.yml",
)


def index(names: Iterable[str]) -> Index:
    builder = IndexBuilder(threading.Event())
    builder.add(names)
    return builder.index()


def found(names: Iterable[str], query: str, recent: tuple[str, ...] = ()) -> list[str]:
    return index(names).search(query, recent, threading.Event())


def test_the_best_fit_comes_first() -> None:
    assert found(FILES, "ment")[:2] == ["src/engine/mentions.py", "src/engine/mention_index.py"]
    assert found(FILES, "MENTIONS.PY")[0] == "src/engine/mentions.py"
    assert found(FILES, "tesment") == ["tests/engine/test_mentions.py"]
    assert found(FILES, "iman")[0] == "src/engine/ImportManager.py"
    assert found(FILES, "engine/")[0] == "src/engine/"
    assert found(FILES, "src/engine/")[0] == "src/engine/"
    assert set(found(FILES, "src/engine/")[1:]) == {
        one for one in (*FILES, "src/engine/menu/") if one.startswith("src/engine/")
    }
    assert found(FILES, "notes")[0] == "src/my notes.md"
    assert found(FILES, "./src/engine/mentions.py")[0] == "src/engine/mentions.py"
    for nowhere in ("zz", "/src", "~/src", "../src"):
        assert found(FILES, nowhere) == []
    assert found(FILES, "")[:2] == ["docs/", "src/"]
    assert found(FILES, "", ("src/my notes.md",))[0] == "src/my notes.md"
    assert found(FILES, "ment", ("tests/engine/test_mentions.py",))[0] == "tests/engine/test_mentions.py"


def test_names_that_cannot_be_typed_are_left_out_and_others_can_be_mentioned() -> None:
    odd = ("a\nb", "a\x1b[2Jb", "a\u202eb", os.fsdecode(b"a\xff"))
    good = ('a "b".md', "a'b", "é.md", "日本/語.txt", "a\u202fb.png", "a(b).md", "İ/ı.py", "a\\b")
    assert sorted(found((*odd, *good), "a")) == sorted(one for one in good if "a" in one)
    for name in found((*odd, *good), ""):
        (read,) = mentions(f"see {format_mention(name)} there")
        assert read.targets[0].path == name


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text("abcAB_.é日 İ", min_size=1, max_size=12).map(lambda one: one.strip() or "x"), max_size=40),
    st.text("abcAB_.é日/", max_size=4),
)
def test_nothing_that_fits_is_missed_and_nothing_else_is_found(names: list[str], query: str) -> None:
    names = [f"{name}/{name}" if number % 3 else name for number, name in enumerate(names)]
    every = {*names, *(name.split("/")[0] + "/" for name in names if "/" in name)}

    def fits(name: str) -> bool:
        letters = iter(name.lower())
        return not query.startswith("/") and all(one in letters for one in query.lower())

    assert set(found(names, query)) == {name for name in every if fits(name)}


def test_many_names_are_searched_in_pieces_and_a_search_can_be_stopped() -> None:
    names = [f"folder{number % 50}/file_{number}.py" for number in range(5 * CHUNK_NAMES)]
    packed = index(names)
    assert packed.search("file_2047", (), threading.Event())[0] == "folder47/file_2047.py"
    stop = threading.Event()
    stop.set()
    with pytest.raises(SearchStopped):
        packed.search("file", (), stop)
    assert packed.search("f" * 200, (), threading.Event()) == []


# --- listing --------------------------------------------------------------------------------


def tree(folder: Path) -> Path:
    for name in ("a.py", "src/b.py", "src/deep/c.py", "build/out.o", "src/x.log", "src/keep.log", ".env", ".git/HEAD"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (folder / ".gitignore").write_text("build/\n*.log\n")
    (folder / "src/.gitignore").write_text("!keep.log\n")
    (folder / "link.py").symlink_to("a.py")
    os.mkfifo(folder / "pipe")
    return folder


def listed(folder: Path, program: Path | None) -> set[str]:
    listing = Listing((folder,), program=program)
    if program is not None and not program.exists():
        listing._program = None
    return {name for names in listing.names(folder) for name in names}


KEPT = {"a.py", "src/b.py", "src/deep/c.py", "src/keep.log", ".env", ".gitignore", "src/.gitignore"}


@pytest.mark.needs("rg")
def test_ripgrep_lists_what_git_would_not_ignore(tmp_path: Path) -> None:
    assert listed(tree(tmp_path), None) == KEPT


def test_the_own_walk_lists_the_same(tmp_path: Path) -> None:
    assert listed(tree(tmp_path), tmp_path / "none") == KEPT


@pytest.mark.parametrize("program", [pytest.param(True, marks=pytest.mark.needs("rg")), False])
def test_what_lies_above_or_is_meant_for_others_hides_nothing(tmp_path: Path, program: bool) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    folder = tree(tmp_path / "work")
    for name in (".ignore", ".git/info/exclude"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("*.py\n")
    assert listed(folder, None if program else tmp_path / "none") == KEPT | {".ignore"}


class Asker:
    """Asks one question after the other and waits for the whole answer."""

    def __init__(self, finder: Mentions) -> None:
        self.finder = finder
        self.told: list[MentionMatches] = []

    async def ask(self, query: str) -> list[str]:
        whole: asyncio.Future[MentionMatches] = asyncio.get_running_loop().create_future()

        def tell(found: MentionMatches) -> None:
            self.told.append(found)
            if found.complete and not whole.done():
                whole.set_result(found)

        self.finder.find(query, tell)
        return list((await asyncio.wait_for(whole, 30)).names)


async def test_answers_follow_the_disk_and_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tree(tmp_path / "one"), tmp_path / "two"
    two.mkdir()
    (two / "z.py").write_text("")
    finder = Mentions(Roots((one,)), recent=lambda: [one / "src/b.py", tmp_path / "other"])
    asker = Asker(finder)
    try:
        assert (await asker.ask(""))[0] == "src/b.py"
        assert "src/deep/" in await asker.ask("de")
        finder.use("src/deep/c.py")
        assert (await asker.ask(""))[:2] == ["src/deep/c.py", "src/b.py"]
        (one / "fresh.py").write_text("")
        assert await asker.ask("fresh") == []
        monkeypatch.setattr("tui_agent.mentions.search.MAX_AGE", 0.0)
        finder._duration = 0.0
        while await asker.ask("fresh") != ["fresh.py"]:
            pass
    finally:
        await finder.close()
    finder.find("x", lambda _: pytest.fail("it is closed"))
    several = Mentions(Roots((one, two)))
    try:
        asker = Asker(several)
        assert await asker.ask("z.p") == ["two/z.py"]
        assert (await asker.ask("one/"))[0] == "one/"
    finally:
        await several.close()


async def test_a_listing_that_goes_on_is_searched_and_its_program_ends_with_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nprintf 'early.py\\0late.py\\0'\nexec sleep 7261\n")
    slow.chmod(0o755)
    monkeypatch.setattr("tui_agent.mentions.files.find_ripgrep", lambda _: slow)
    monkeypatch.setattr("tui_agent.mentions.search.FIRST_INDEX", 2)
    finder = Mentions(Roots((tmp_path,)))
    told: asyncio.Queue[MentionMatches] = asyncio.Queue()
    finder.find("early", told.put_nowait)
    first = await asyncio.wait_for(told.get(), 30)
    assert (first.names, first.listing, first.complete) == (("early.py",), True, False)
    finder.find("late", told.put_nowait)
    while (first := await asyncio.wait_for(told.get(), 30)).query != "late":
        pass
    assert first.names == ("late.py",)
    await asyncio.wait_for(finder.close(), 30)
    found = await asyncio.to_thread(subprocess.run, ["ps", "ax"], capture_output=True, text=True, check=True)
    assert "sleep 7261" not in found.stdout


@pytest.mark.parametrize("program", [None, Path("/nonexistent/rg")], ids=["ripgrep", "without"])
def test_caches_and_ignored_files_are_not_listed(program: Path | None, tmp_path: Path) -> None:
    for name in (
        "a/code.py",
        "a/__pycache__/code.cpython-311.pyc",
        "build/out.o",
        "node_modules/x/index.js",
        ".venv/bin/x",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("build\n")
    listing = Listing((tmp_path,), program=program)
    assert sorted(name for names in listing.names(tmp_path) for name in names) == [".gitignore", "a/code.py"]
