from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults import evasions
from tests.faults.kit import command, reject, run_calls
from tui_agent.common.domain import RunAction, Severity
from tui_agent.safety.roots import Roots
from tui_agent.shell.safe_commands import assess_command

BENIGN = r"""
ls -la --time-style=long-iso
ls -1 src tests
ls src/*.py
cat README.md
cat -A setup.cfg
cat README.md src/app.py | wc -c
head -n 40 src/app.py
head -c 512 README.md
tail -n 25 log.txt
tail -n +3 log.txt | head -n 5
wc -l src/app.py src/util.py
wc -w README.md
grep -n "import" src/app.py
grep -rn "TODO" src
grep -rln "class " src tests
grep -c "^def " src/util.py
grep -iE "error|warn" log.txt | tail -n 20
grep -A 4 -n "def main" src/app.py
grep -rn --include="*.py" "print(" src
grep -v "^#" setup.cfg
find . -name "*.py" -not -path "./tests/*"
find src -type f -size +1k
find . -maxdepth 2 -type d
find tests -name "test_*.py" | sort
find . -newer README.md -name "*.txt"
sort -u log.txt
sort -t, -k2 -n data.csv | head -n 3
cut -d, -f2 data.csv | sort | uniq -c | sort -rn
cut -c 1-20 log.txt
tr "a-z" "A-Z"
cat data.csv | tr "," "\n"
stat README.md
stat -c "%s %n" src/app.py
file data.csv
pwd
pwd && ls
echo done
echo "--- app ---"; cat src/app.py
printf "%s\n" one two three
date -u +%FT%TZ
date
basename src/app.py
dirname src/app.py
diff -u src/app.py src/util.py
diff README.md setup.cfg || true
cmp src/app.py src/util.py
comm -12 data.csv log.txt
du -sh src
du -ah --max-depth=1 .
df -h .
sed -n "10,30p" src/app.py
paste -d, data.csv log.txt
nl README.md | head
od -A x -t x1 data.csv | head -n 4
md5sum data.csv
sha256sum README.md
realpath src/app.py
uname -sr
cat missing.txt 2>/dev/null || echo none
git status
""".strip().splitlines()


@pytest.fixture
def place(workspace: Path) -> Path:
    (workspace.parent / "far.txt").write_text("far\n")
    for name in ("src", "tests", "keys"):
        (workspace / name).mkdir()
    for name in (
        "README.md",
        "setup.cfg",
        "src/app.py",
        "src/util.py",
        "log.txt",
        "data.csv",
        "notes.txt",
        "tests/test_a.py",
    ):
        (workspace / name).write_text("one\ntwo\n")
    return workspace


def with_secrets(place: Path) -> Path:
    (place / ".env").write_text("KEY=1\n")
    (place / "keys" / "id_rsa").write_text("KEY\n")
    (place / "link").symlink_to(place.parent)
    (place / "inner.link").symlink_to(".env")
    return place


def rated(text: str, place: Path) -> RunAction:
    return assess_command(text, place, [place], Roots([place]).holds_credentials)


def test_g04_commands_that_read_hardly_ever_ask(place: Path) -> None:
    assert len(set(BENIGN)) == len(BENIGN) >= 60
    asks = [text for text in BENIGN if not rated(text, place).safe]
    assert len(asks) <= len(BENIGN) * 0.05, asks


async def test_g04_in_a_session_they_run(place: Path) -> None:
    story = await run_calls(place, *map(command, BENIGN), answer=reject, at_once=8)
    asked = [story.decision(key) for key in story.order].count("ask")
    assert len(story.order) == len(BENIGN) and asked <= len(BENIGN) * 0.05
    assert len(story.executed) == len(BENIGN) - asked


def every() -> list[str]:
    return list(
        dict.fromkeys(
            [*evasions.doing(), *evasions.lent(), *evasions.carried(), *evasions.showing(), *evasions.other()]
        )
    )


def test_g03_no_evasive_command_runs_unasked(place: Path) -> None:
    with_secrets(place)
    assert len(evasions.doing()) >= 280 and len(every()) >= 900
    assert [text for text in every() if rated(text, place).safe] == []


def test_g07_what_is_too_large_or_unreadable_is_high(place: Path) -> None:
    lines = [
        *evasions._LARGE,
        *(text for text in evasions._LOOKS if text.startswith(("ls '", 'ls "', "ls $(", "((", "if"))),
    ]
    assert [text[:40] for text in lines if rated(text, place).severity.rank < Severity.HIGH.rank] == []


def test_g05_g06_what_hides_an_effect_is_never_called_harmless(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    fired, harmless = [], []
    for text in evasions.doing():
        (folder / "src").mkdir(parents=True)
        (folder / "notes.txt").write_text("one\ntwo\n")
        subprocess.run(
            ["bash", "--norc", "-c", text], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(folder)},
        )  # fmt: skip
        if list(folder.glob("pwned*")) or not (folder / "notes.txt").exists():
            fired.append(text)
            if assess_command(text, folder, [folder]).severity is Severity.NONE:
                harmless.append(text)
        shutil.rmtree(folder)
    assert len(fired) >= 240  # the others lack their program here
    assert harmless == []


async def test_g03_in_a_session_none_runs(place: Path) -> None:
    with_secrets(place)
    before = sorted(os.listdir(place))
    sample = [text for text in every()[::11] if len(text) < 4_000 and "\ud800" not in text]
    story = await run_calls(place, *map(command, sample), answer=reject, at_once=8)
    assert len(sample) >= 80 and len(story.order) == len(sample)
    assert story.executed == []
    assert {story.decision(key) for key in story.order} <= {"ask", "none"}
    assert sorted(os.listdir(place)) == before
