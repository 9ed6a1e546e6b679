"""What a critical command would destroy is counted, within bounds, before it is asked for (A1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui_agent.common.domain import RunAction, Severity
from tui_agent.engine.host import harm as harm_module
from tui_agent.engine.host.harm import count_harm
from tui_agent.events.narration import harm_texts


def wipe(command: str, cwd: Path) -> RunAction:
    return RunAction(command=command, cwd=str(cwd), severity=Severity.CRITICAL)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "ada"
    (home / "notes" / "deep").mkdir(parents=True)
    for number in range(5):
        (home / "notes" / "deep" / f"{number}.txt").write_bytes(b"x" * 100)
    (home / ".hidden").write_bytes(b"y" * 50)
    (home / "loop").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.mark.parametrize("command", ["rm -rf ~/", "rm -rf ~", 'rm -rf "$HOME"', "rm -rf ~/*", "cd / && rm -rf ~/"])
def test_files_below_the_target_are_counted_without_following_links(home: Path, tmp_path: Path, command: str) -> None:
    harm = count_harm(wipe(command, tmp_path), [tmp_path], sandboxed=False)
    links = 1
    assert (harm.files - links, harm.complete, harm.word) == (6, True, "ada")
    assert harm.bytes >= 550
    text = " ".join(harm_texts(harm))
    assert "7 files" in text and str(home) in text and "Not sandboxed" in text


def test_counting_stops_at_the_bound_and_says_so(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harm_module, "MAX_FILES", 3)
    harm = count_harm(wipe("rm -rf ~/", home), [home], sandboxed=True)
    assert harm.files == 3 and not harm.complete
    assert "at least 3 files" in harm_texts(harm)[0] and "in the sandbox" in harm_texts(harm)[1]


def test_a_command_without_a_path_and_several_paths_are_confirmed_by_the_same_words(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    assert count_harm(wipe(":(){ :|:& };:", tmp_path), [tmp_path], sandboxed=False).word == "run it"
    both = count_harm(wipe("rm -rf one two", tmp_path), [tmp_path], sandboxed=False)
    assert (both.word, both.files, len(both.targets)) == ("run it", 0, 2)
    assert "no files were counted" in harm_texts(both)[0]
