from __future__ import annotations

import os
from pathlib import Path

import pytest

from tui_agent.lsp.languages import code_files, commands, language_of_file, languages
from tui_agent.lsp.pool import CHANGED, CREATED, DELETED, FileWatch
from tui_agent.platform.programs import find_program, path_outside


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_table_is_complete() -> None:
    known = languages({})
    names = [name for one in known for name in (one.name, *one.aliases)]
    suffixes = [suffix for one in known for suffix in one.suffixes]
    assert len(names) == len(set(names))
    assert len(suffixes) == len(set(suffixes))
    assert all(one.servers and one.title and one.suffixes for one in known)
    assert {"python", "typescript", "go", "rust", "c"} <= set(names)


def test_files_and_their_languages() -> None:
    known = languages({})
    for name, language, own in (
        ("a.PY", "python", "python"),
        ("a.tsx", "typescript", "typescriptreact"),
        ("a.js", "typescript", "javascript"),
        ("a.h", "c", "c"),
        ("a.cpp", "c", "cpp"),
    ):
        found = language_of_file(Path(name), known)
        assert found is not None
        assert (found.name, found.id_of(Path(name))) == (language, own)
    assert language_of_file(Path("Makefile"), known) is None


def test_user_command_replaces_the_built_in_ones() -> None:
    known = languages({"Python": ("mine", "--stdio"), "javascript": ("other",), "nim": ("nimlsp",)})
    by_name = {one.name: one for one in known}
    assert by_name["python"].servers == (("mine", "--stdio"),)
    assert by_name["typescript"].servers == (("other",),)
    found = language_of_file(Path("x.nim"), known)
    assert found is not None
    assert found.servers == (("nimlsp",),)


def test_programs_in_the_workspace_are_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, outside = tmp_path / "work", tmp_path / "bin"
    planted = program(work / "node_modules" / ".bin", "pyright-langserver")
    linked = tmp_path / "links"
    linked.mkdir()
    (linked / "pyright-langserver").symlink_to(planted)
    places = [str(planted.parent), str(linked), ".", "", str(outside)]
    monkeypatch.chdir(planted.parent)
    monkeypatch.setenv("PATH", os.pathsep.join(places))
    python = next(one for one in languages({}) if one.name == "python")
    assert commands(python, [work]) == ()
    real = program(outside, "pyright-langserver")
    (command,) = commands(python, [work])
    assert command.program == str(real)
    assert command.argv == ("pyright-langserver", "--stdio")
    assert find_program(str(planted), [work]) is None
    assert find_program(str(real), [work]) == real
    assert find_program("bin/pyright-langserver", [work]) is None
    assert path_outside([work], os.environ["PATH"]) == os.pathsep.join([str(linked), str(outside)])


def test_the_first_servers_are_the_preferred_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pylsp", "jedi-language-server"):
        program(tmp_path / "bin", name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    python = next(one for one in languages({}) if one.name == "python")
    assert [command.argv[0] for command in commands(python, [])] == ["pylsp", "jedi-language-server"]


def test_code_files_in_top_folders_come_first_without_installed_ones(tmp_path: Path) -> None:
    for name in ("z.py", "a/b.py", "a/.hidden.py", "node_modules/x.py", ".git/y.py", "a/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link.py").symlink_to(tmp_path / "z.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [os.path.relpath(entry.path, tmp_path) for entry in code_files(tmp_path, frozenset({".py"}))]
    assert found == ["z.py", "a/b.py"]
    assert list(code_files(tmp_path, frozenset({".py"}), max_entries=1)) == []


def test_changes_on_disk_are_found(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("1")
    watch = FileWatch(tmp_path, frozenset({".py"}))
    watch.commit(first := watch.survey())
    assert first.changes == []
    (tmp_path / "a.py").write_text("12")
    (tmp_path / "b.py").unlink()
    (tmp_path / "c.py").touch()
    (tmp_path / "d.txt").touch()
    for _ in range(2):  # the same until it is kept
        survey = watch.survey()
        changes = {(os.path.basename(path), kind) for path, kind in survey.changes}
        assert changes == {("a.py", CHANGED), ("b.py", DELETED), ("c.py", CREATED)}
    watch.commit(survey)
    assert watch.survey().changes == []


def test_file_beyond_the_walk_limit_does_not_count_as_deleted(tmp_path: Path) -> None:
    (tmp_path / "z.py").write_text("1")
    watch = FileWatch(tmp_path, frozenset({".py"}), max_entries=4)
    watch.commit(watch.survey())
    for name in "abcd":
        (tmp_path / f"{name}.py").touch()
    watch.commit(survey := watch.survey())
    assert {(os.path.basename(path), kind) for path, kind in survey.changes} == {(f"{n}.py", 1) for n in "abcd"}
    (tmp_path / "z.py").write_text("12")
    watch.commit(survey := watch.survey())
    assert survey.changes == [(str(tmp_path / "z.py"), CHANGED)]
    (tmp_path / "z.py").unlink()
    assert watch.survey().changes == [(str(tmp_path / "z.py"), DELETED)]
