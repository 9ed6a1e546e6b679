from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.waiting import wait_for, within_timeout
from tui_agent.common.domain import CommandOutcome
from tui_agent.platform import supervisor
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Stage
from tui_agent.shell.execution import ScriptExecution, Sink
from tui_agent.shell.interpreter import run_script
from tui_agent.shell.safe_commands import safe_script


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("")
    return tmp_path.resolve()


async def run(command: str, work: Path) -> CommandOutcome:
    found = safe_script(command, work, [work])
    assert found is not None
    return await run_script(found, timeout=30)


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("cat a.txt", "one\ntwo\nthree", 0),
        ("cat a.txt | grep t | wc -l", "2", 0),
        ("true && echo yes || echo no", "yes", 0),
        ("false && echo yes || echo no", "no", 0),
        ("false && echo a && echo b; echo c", "c", 0),
        ("true || echo a || echo b", "", 0),
        ("echo a; false", "a", 1),
        ("cat missing 2>/dev/null || echo gone", "gone", 0),
        ("cat a.txt >/dev/null; echo x", "x", 0),
        ("cat missing &>/dev/null", "", 1),
        ("false | true", "", 0),
        ("true | false", "", 1),
        ("echo 'a  b' c\\ d \"e'f\"", "a  b c d e'f", 0),
        ("ls *.txt", "a.txt", 0),
        ("cat", "", 0),
        ("grep -c e a.txt; grep nothing a.txt", "2", 1),
        ("cat missing 2>&1 | wc -l", "1", 0),
        ("cat missing 2>/dev/null | wc -l", "0", 0),
        ("cat missing |& grep -c missing", "1", 0),
        ("echo x >&2 | wc -c", "x\n0", 0),
        ("wc -l < a.txt", "3", 0),
        ("wc -w <<< 'one two'", "2", 0),
        ("! grep -q none a.txt && echo absent", "absent", 0),
        ("{ cat a.txt; echo four; } | tail -2", "three\nfour", 0),
        ("(cd sub && ls); ls *.txt", "b.txt\na.txt", 0),
        ('for f in *.txt sub/*; do echo "$f: $(wc -l < $f)"; done', "a.txt: 3\nsub/b.txt: 0", 0),
        ("for i in {1..3}; do echo $i; done | sort -r", "3\n2\n1", 0),
        ("if [ -f a.txt ]; then echo yes; else echo no; fi", "yes", 0),
        ("if grep -q none a.txt; then echo yes; elif [[ -d sub && ! -e x ]]; then echo other; fi", "other", 0),
        ("if false; then echo a; fi; echo $?", "0", 0),
        ("test -e missing; echo $?", "1", 0),
        ("[[ abc == a* ]] && echo pattern", "pattern", 0),
        ("[ 3 -gt 2 -a -d sub ] && echo both", "both", 0),
        ('cat a.txt | while read -r x; do echo "<$x>"; done', "<one>\n<two>\n<three>", 0),
        ("printf 'a,b\\n' | while IFS=, read -r x y; do echo $y$x; done", "ba", 0),
        (
            "find . -name '*.txt' -print0 | while IFS= read -r -d '' f; do basename \"$f\"; done | sort",
            "a.txt\nb.txt",
            0,
        ),
        ('n=$(wc -l < a.txt); [ "$n" -gt 2 ] && echo many', "many", 0),
        ("f=a.txt; echo ${f%.txt} ${f##*.} ${f:-none}", "a txt a.txt", 0),
        ("echo $(cat a.txt)", "one two three", 0),
        ('echo "$(cat a.txt)"', "one\ntwo\nthree", 0),
        ("find . -name '*.txt' | sort | xargs cat | tail -1", "three", 0),
        ("printf 'a.txt\\n' | xargs -I{} cat {} | head -1", "one", 0),
        ("find . -name a.txt -exec grep -c e {} \\;", "2", 0),
        ("find . -type f -exec cat {} + | wc -l", "3", 0),
        ("awk '{print NR, $1}' a.txt | sed -n 2p", "2 two", 0),
        ("timeout 5 cat a.txt | head -1", "one", 0),
        ("bun --version || echo missing", "bun: The program can't be started: No such file or directory.\nmissing", 0),
    ],
)
async def test_operators_pipes_and_redirections(work: Path, command: str, output: str, code: int) -> None:
    outcome = await run(command, work)
    assert (outcome.output, outcome.exit_code, outcome.cwd) == (output, code, str(work))


async def test_no_shell_is_used(work: Path) -> None:
    outcome = await run("echo '$(touch x)' '`touch x`' '; touch x' \"*\"", work)
    assert outcome.output == "$(touch x) `touch x` ; touch x *"
    assert not (work / "x").exists()


async def test_the_environment_is_minimal(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{work}:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(work))
    monkeypatch.setenv("GREP_OPTIONS", "-v")
    capture = Capture()
    stage = Stage(program="/usr/bin/env", argv=("env",))
    await ScriptExecution(capture, 1e9, None).execute([stage], work, {}, None, Sink())
    output = bytes(capture.rings.head).decode()
    names = {line.split("=")[0] for line in output.splitlines()}
    assert names <= {"PATH", "TERM", "TZ", "LANG"} | {name for name in names if name.startswith("LC_")}
    assert "PATH=/usr/local/bin:/usr/bin:/bin" in output.splitlines()


async def test_timeout_covers_all_steps(work: Path) -> None:
    found = safe_script("echo x; sleep 300; echo x", work, [work])
    assert found is not None
    outcome = await within_timeout(run_script(found, timeout=1))
    assert outcome.timed_out and outcome.exit_code is None and outcome.output == "x" and "1 s" in outcome.note


async def test_cancelling_kills(work: Path) -> None:
    before = set(supervisor.descendants(os.getpid()))
    slow = safe_script("sleep 300", work, [work])
    assert slow is not None
    running = asyncio.create_task(run_script(slow, timeout=60))

    def new() -> set[int]:
        return set(supervisor.descendants(os.getpid())) - before

    await wait_for(lambda: len(new()) >= 2)
    started = new()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_for(lambda: not started & set(supervisor.process_table()))


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("cat list.txt | while read -r f; do cat $f; done", "cat .env"),
        ("cat list.txt | xargs cat", "cat a.txt .env"),
        ("for f in $(cat list.txt); do head -1 $f; done", "head -1 .env"),
        ("cat outside.txt | while read -r f; do cat $f; done", "cat /etc/passwd"),
        ("cat options.txt | while read -r o; do sort $o a.txt; done", "sort -osub/b.txt a.txt"),
    ],
)
async def test_what_is_known_late_is_checked_when_it_runs(work: Path, command: str, left: str) -> None:
    (work / "list.txt").write_text("a.txt\n.env\n")
    (work / "outside.txt").write_text("/etc/passwd\n")
    (work / "options.txt").write_text("-osub/b.txt\n")
    (work / ".env").write_text("KEY=secret")
    found = safe_script(command, work, [work])  # as if the file had been planted after the check
    assert found is not None
    found.readable.names_credentials = lambda path: path.endswith("/.env")
    outcome = await run_script(found, timeout=30)
    assert outcome.exit_code == 126 and f"`{left}`" in outcome.note and "needs approval" in outcome.note
    assert "secret" not in outcome.output and "root:" not in outcome.output
    assert (work / "sub" / "b.txt").read_text() == ""


async def test_cd_moves_the_script(work: Path) -> None:
    outcome = await run("cd sub && ls", work)
    assert (outcome.output, outcome.cwd) == ("b.txt", str(work / "sub"))
    assert (await run("(cd sub); cd sub | cat; ls *.txt", work)).cwd == str(work)
