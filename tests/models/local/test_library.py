from __future__ import annotations

import errno
import hashlib
import os
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.doubles.gguf import gguf_bytes, write_gguf
from tui_agent.common import paths
from tui_agent.models.local import library, parts
from tui_agent.models.local.library import LibraryError
from tui_agent.platform.locks import FileLock


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUI_AGENT_HOME", str(tmp_path / "state"))
    return paths.ensure_private_dir(paths.models_dir())


def names() -> list[str]:
    return [file.name for file in library.local_files()]


def test_files_of_the_folder_are_listed_with_what_is_known_of_them(folder: Path) -> None:
    path = write_gguf(folder / "small.gguf")
    library.record(path, origin="https://example.org/small.gguf", sha256="ab")
    write_gguf(folder / "Other.GGUF")
    (folder / "notes.txt").write_text("x")
    (folder / "empty.gguf").mkdir()
    other, small = library.local_files()
    assert (other.name, other.origin, other.managed) == ("Other", "", True)
    assert (small.name, small.origin, small.sha256) == ("small", "https://example.org/small.gguf", "ab")
    assert small.size == path.stat().st_size
    assert oct(folder.stat().st_mode)[-3:] == "700"


def test_a_lost_or_damaged_index_loses_no_model(folder: Path) -> None:
    path = write_gguf(folder / "small.gguf")
    library.record(path, origin="x", sha256="ab")
    for content in (b"", b"{", b'[{"path": 1}]', b"\xff"):
        (folder / "index.json").write_bytes(content)
        assert names() == ["small"]
    library.record(path, origin="again")
    assert library.local_files()[0].origin == "again"


def test_what_was_known_of_a_replaced_file_no_longer_counts(folder: Path) -> None:
    path = write_gguf(folder / "small.gguf")
    library.record(path, origin="x", sha256="ab")
    path.write_bytes(gguf_bytes(data=640))
    (file,) = library.local_files()
    assert (file.origin, file.sha256) == ("", "")


def test_a_model_in_several_files_is_listed_once_all_are_there(folder: Path) -> None:
    write_gguf(folder / "big-00001-of-00002.gguf")
    assert names() == []
    write_gguf(folder / "big-00002-of-00002.gguf")
    (file,) = library.local_files()
    assert (file.name, file.path.name) == ("big", "big-00001-of-00002.gguf")
    assert file.size == 2 * file.path.stat().st_size
    library.remove("big")
    assert not list(folder.glob("*.gguf"))


def test_an_incomplete_download_is_not_a_model(folder: Path) -> None:
    part = paths.ensure_private_dir(library.parts_dir() / "half.gguf")
    write_gguf(part / "half.gguf")
    assert names() == [] and library.find("half") is None


def test_models_are_found_by_name_and_path(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(folder / "Small.gguf")
    elsewhere = write_gguf(tmp_path / "else.gguf")
    for name in ("Small", "Small.gguf", "small", str(folder / "Small.gguf")):
        found = library.find(name)
        assert found is not None and found.managed and found.name == "Small"
    found = library.find(str(elsewhere))
    assert found is not None and not found.managed and found.path == elsewhere
    monkeypatch.chdir(tmp_path)
    found = library.find("else.gguf")
    assert found is not None and found.path == elsewhere
    assert library.find("else") is None and library.find(str(tmp_path / "none.gguf")) is None


def test_a_registered_file_is_listed_and_never_deleted(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    assert library.add(path) == library.add(path)
    (file,) = library.local_files()
    assert file.path == path and not file.managed
    library.remove("mine")
    assert names() == [] and path.exists()


def test_a_registered_file_that_is_gone_is_not_listed(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    library.add(path)
    path.unlink()
    assert names() == []


def test_a_copy_is_independent_of_the_original(folder: Path, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    content = path.read_bytes()
    file = library.add(path, copy=True)
    path.unlink()
    assert file.managed and file.sha256 == hashlib.sha256(content).hexdigest()
    assert (folder / "mine.gguf").read_bytes() == content
    assert str(path) in library.local_files()[0].origin


def test_names_with_braces_and_impossible_numbers_are_names(folder: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        write_gguf(tmp_path / f"a{{x}}{{0}}-0000{number}-of-00002.gguf")
    file = library.add(tmp_path / "a{x}{0}-00001-of-00002.gguf")
    assert file.name == "a{x}{0}" and file.size == 2 * file.path.stat().st_size
    for stem in ("x-00000-of-00000", "x-00000-of-00002", "x-00003-of-00002"):
        assert library.split_name(f"{stem}.gguf") == (stem, 1, 1)
        with pytest.raises(LibraryError, match="not a possible part"):
            library.add(write_gguf(tmp_path / f"{stem}.gguf"))
        library.remove(write_gguf(folder / f"{stem}.gguf").stem)


def test_a_copy_needs_space(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=200 << 20))
    with pytest.raises(LibraryError, match="more, but only") as failed:
        library.add(write_gguf(tmp_path / "mine.gguf"), copy=True)
    assert failed.value.code == "no_space" and not list(library.parts_dir().glob("*.copy"))


def test_a_stopped_copy_leaves_nothing_and_an_abandoned_one_is_removed(folder: Path, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    with pytest.raises(LibraryError, match="stopped"):
        library.add(path, copy=True, stopped=lambda: True)
    abandoned = paths.ensure_private_dir(library.parts_dir() / "mine.gguf.copy")
    (abandoned / "mine.gguf").write_bytes(b"half")
    with FileLock(library.parts_dir() / "mine.gguf.lock"):
        assert parts.incomplete_files() == [] and abandoned.exists()
        with pytest.raises(LibraryError, match="Another process"):
            library.add(path, copy=True)
    assert parts.incomplete_files() == [] and not abandoned.exists()
    assert names() == [] and library.add(path, copy=True).managed


@pytest.mark.parametrize("links", [True, False])
def test_moving_never_replaces_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    source, target = folder / "one", folder / "two"
    if not links:

        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    source.write_text("new")
    target.write_text("old")
    with pytest.raises(FileExistsError):
        library.move_new(source, target)
    assert target.read_text() == "old"
    target.unlink()
    library.move_new(source, target)
    assert target.read_text() == "new" and not source.exists()


def test_what_is_not_a_model_is_not_added(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("hello")
    for name, copy in (("text.gguf", False), ("text.gguf", True), ("none.gguf", False)):
        with pytest.raises(LibraryError):
            library.add(tmp_path / name, copy=copy)
    assert names() == [] and not list(folder.glob("*.gguf"))


def test_two_models_never_share_a_name(folder: Path, tmp_path: Path) -> None:
    write_gguf(folder / "small.gguf")
    with pytest.raises(LibraryError, match="already") as failed:
        library.add(write_gguf(tmp_path / "Small.gguf"))
    assert failed.value.code == "exists"


def test_a_model_in_use_is_not_removed(folder: Path) -> None:
    path = write_gguf(folder / "small.gguf")
    with pytest.raises(LibraryError, match="in use"):
        library.remove("small", in_use=path.__eq__)
    assert names() == ["small"]
    library.remove("small", in_use=lambda path: False)
    with pytest.raises(LibraryError, match="no model"):
        library.remove("small")


def test_a_file_outside_is_not_removed_by_its_path(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "mine.gguf")
    with pytest.raises(LibraryError, match="Delete the file yourself"):
        library.remove(str(path))
    assert path.exists()


def test_removing_a_link_leaves_its_target(folder: Path, tmp_path: Path) -> None:
    target = write_gguf(tmp_path / "mine.gguf")
    (folder / "linked.gguf").symlink_to(target)
    library.remove("linked")
    assert target.exists() and not (folder / "linked.gguf").is_symlink()


def test_models_in_installed_packages_are_listed_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "weights").mkdir(parents=True)
    (site / "weights" / "__init__.py").write_text("raise SystemExit('imported')")
    write_gguf(site / "weights" / "inside.gguf")
    info = site / "weights-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weights\nVersion: 1.0\n")
    (info / "RECORD").write_text("weights/__init__.py,,\nweights/inside.gguf,,\nweights-1.0.dist-info/RECORD,,\n")
    monkeypatch.syspath_prepend(str(site))
    assert metadata.distribution("weights").version == "1.0"
    assert names() == []
    (file,) = library.local_files(packages=True)
    assert (file.name, file.origin, file.managed) == ("inside", "package weights", False)
    assert library.find("inside") == file
    with pytest.raises(LibraryError, match="Uninstall the package weights"):
        library.remove("inside")
