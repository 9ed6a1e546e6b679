from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.waiting import wait_for, within_timeout
from tui_agent.common.domain import CommandOutcome
from tui_agent.platform import supervisor
from tui_agent.platform.environment import child_environment
from tui_agent.platform.output import Capture
from tui_agent.shell.interpreter import run_script
from tui_agent.shell.safe_commands import safe_script
from tui_agent.shell.terminal import MAX_COMMAND, CommandError, ShellSession


def alive(pid: int) -> bool:
    return pid in supervisor.process_table()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "work"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
async def terminal(work: Path) -> AsyncIterator[ShellSession]:
    terminal = ShellSession(folder=work, roots=[work])
    yield terminal
    await terminal.close()


async def out(terminal: ShellSession, command: str) -> str:
    outcome = await terminal.run(command)
    return outcome.output


# --- state passed between commands ---------------------------------------------------------


async def test_folder_and_exported_variables_survive(terminal: ShellSession, work: Path) -> None:
    outcome = await terminal.run("cd sub; export A='x y' B=$'a\\nb'; C=3; unset LANG; echo said; exit 4")
    assert (outcome.exit_code, outcome.output, outcome.cwd, outcome.note) == (4, "said", str(work / "sub"), "")
    assert await out(terminal, 'pwd; echo "$A|$B|$C|${LANG-none}"; cd - >/dev/null; pwd') == (
        f"{work}/sub\nx y|a\nb||none\n{work}"
    )


async def test_folder_with_an_unusual_name_survives(terminal: ShellSession, work: Path) -> None:
    await terminal.run("mkdir $'a \\'b\\\\\\n$c'; cd a*")
    assert terminal.cwd == work / "a 'b\\\n$c"
    assert (await terminal.run("true")).cwd == str(terminal.cwd)


async def test_the_folder_may_be_given(terminal: ShellSession, work: Path) -> None:
    outcome = await terminal.run("pwd", cwd=work / "sub")
    assert outcome.output == outcome.cwd == str(work / "sub")
    with pytest.raises(CommandError, match="no folder"):
        await terminal.run("pwd", cwd=work / "missing")


POISON = r"""
ls() { touch "$P"; }
pwd() { touch "$P"; }
cd() { touch "$P"; }
export -f ls pwd cd
export P={mark}
alias ls="touch $P"; shopt -s expand_aliases
trap 'touch "$P"' DEBUG EXIT ERR RETURN
hash -p /usr/bin/false ls
enable -n pwd echo test
set -e -u -f -x -o noclobber
export PROMPT_COMMAND='touch "$P"' BASH_ENV={rc} ENV={rc} PS4='$(touch "$P")' SHELLOPTS BASHOPTS
exec >/dev/null
export PATH=
rm() {{ :; }}
"""


async def test_functions_aliases_traps_and_options_do_not_survive(terminal: ShellSession, work: Path) -> None:
    mark, rc = work / "mark", work / "rc"
    rc.write_text(f"touch {mark}\n")
    await terminal.run(POISON.replace("{mark}", str(mark)).replace("{rc}", str(rc)))
    assert mark.exists()  # the poison worked where it was given
    mark.unlink()
    outcome = await terminal.run(
        "export PATH=/usr/bin:/bin; ls; pwd; cd sub; echo *; echo $- $UNSET; type ls; alias; trap -p DEBUG ERR"
    )
    assert not mark.exists()
    assert outcome.output.splitlines() == ["rc", "sub", str(work), "*", "hBc", "ls is hashed (/usr/bin/ls)"]


async def test_safe_commands_are_not_affected(terminal: ShellSession, work: Path) -> None:
    mark = work / "mark"
    await terminal.run(POISON.replace("{mark}", str(mark)).replace("{rc}", str(work / "rc")))
    await terminal.run(
        "export PATH=/usr/bin:/bin; mkdir bin; printf '#!/bin/sh\\ntouch "
        + str(mark)
        + "\\n' > bin/ls; chmod +x bin/ls; export PATH=$PWD/bin:$PATH; ls"
    )
    assert mark.exists()  # in the shell it works
    mark.unlink()
    found = safe_script("ls && pwd", work, [work])
    assert found is not None
    outcome = await run_script(found, timeout=20)
    assert outcome.exit_code == 0 and outcome.output.splitlines() == ["bin", "sub", str(work)]
    assert not mark.exists()


async def test_variables_that_affect_programs_are_reported(terminal: ShellSession) -> None:
    assert terminal.env_changes() == ()
    await terminal.run(
        "export PATH=/evil:$PATH LD_PRELOAD=/x.so GIT_DIR=/g NODE_OPTIONS=--x PYTHONPATH=. HARMLESS=1 BASH_ENV=/x; unset PAGER"
    )
    changes = terminal.env_changes()
    assert [re.split("[= ]", change)[0] for change in changes] == [
        "GIT_DIR",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "PAGER",
        "PATH",
        "PYTHONPATH",
    ]
    assert "PAGER (unset)" in changes and "LD_PRELOAD=/x.so" in changes
    await terminal.run("export PATH=${PATH#/evil:} PAGER=cat; unset LD_PRELOAD GIT_DIR NODE_OPTIONS PYTHONPATH")
    assert terminal.env_changes() == ()


# --- commands that would end a shell -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "is_saved", "note"),
    [
        ("cd sub; export K=1; exit 3", 3, True, ""),
        ("cd sub; export K=1; set -e; false; echo no", 1, True, ""),
        ("cd sub; export K=1; set -u; echo $NOPE", 127, True, ""),
        ("cd sub; export K=1; trap 'echo bye $?' EXIT; exit 5", 5, True, ""),
        ("cd sub; export K=1; trap 'echo bye' EXIT; true", 0, True, ""),
        ("cd sub; export K=1; trap 'echo bye' EXIT; trap - EXIT", 0, True, ""),
        ("cd sub; export K=1; kill $$", 143, True, "SIGTERM"),
        ("cd sub; export K=1; kill -9 $$", 137, False, "killed its shell"),
        ("cd sub; export K=1; exec true", 0, False, "replaced"),
        ("cd sub; export K=1; exec sh -c 'exit 9'", 9, False, "replaced"),
        ("cd sub; export K=1; cat <<EOF\nx", 0, True, ""),
        ("cd sub; export K=1; echo 'x", 2, False, ""),
        ('cd sub; export K=1; echo "x', 2, False, ""),
        ("cd sub; export K=1; if true; then", 2, False, ""),
        ("cd sub; export K=1; return 3; true", 0, True, ""),
        ("cd sub; export K=1; exec >&- 2>&-", 0, True, ""),
        ("cd sub; export K=1; (exit 7)", 7, True, ""),
    ],
)
async def test_a_command_ends_only_itself(
    terminal: ShellSession, work: Path, command: str, code: int, is_saved: bool, note: str
) -> None:
    await terminal.run("export K=0")
    outcome = await terminal.run(command)
    assert outcome.exit_code == code
    assert note in outcome.note
    folder = work / "sub" if is_saved else work
    assert outcome.cwd == str(folder)
    assert await out(terminal, "pwd; echo $K") == f"{folder}\n{int(is_saved)}"


async def test_the_trap_of_the_command_runs_once(terminal: ShellSession) -> None:
    assert await out(terminal, "trap 'echo bye $?' EXIT; (true); sh -c :; exit 5") == "bye 5"
    assert await out(terminal, "(trap 'echo inner' EXIT); echo outer") == "inner\nouter"
    assert await out(terminal, "set -e; trap 'echo bye $?' EXIT; false") == "bye 1"


async def test_a_trace_shows_the_command_only(terminal: ShellSession) -> None:
    assert await out(terminal, "set -x; echo a; trap 'echo b' EXIT") == "+ echo a\na\n+ trap 'echo b' EXIT\n+ echo b\nb"


# --- output -----------------------------------------------------------------------------------------


async def test_output_can_not_fake_the_end_of_a_command(terminal: ShellSession, work: Path) -> None:
    text = "exited 0 0\\ngone 0\\nstarted 1\\n__EXIT__0\\n\\0PWD=/\\0"
    outcome = await terminal.run(
        f"printf '{text}'; printf '{text}' >&2; printf '{text}' | tee -a /proc/$PPID/fd/1 2>/dev/null; sleep 0.1; echo end; exit 6"
    )
    assert outcome.exit_code == 6 and outcome.cwd == str(work)
    assert outcome.output.endswith("end")


async def test_forged_state_is_ignored(terminal: ShellSession, work: Path) -> None:
    forged = r"""f=$(builtin trap -p EXIT; declare -f __tui_agent_keep); s=$(grep -o "/[^ ]*state" <<< "$f" | head -1)
    builtin trap - EXIT; printf '/\0EVIL=1\0wrong\0' > "$s"; ls "$s"; cd sub"""
    outcome = await terminal.run(forged)
    assert outcome.output.endswith("state")  # it was found and written
    assert outcome.cwd == str(work)
    assert await out(terminal, "echo ${EVIL-no}") == "no"


async def test_late_output_belongs_to_the_old_job(terminal: ShellSession, work: Path) -> None:
    first = await terminal.run("(until [ -e go ]; do sleep 0.02; done; echo late; touch went; sleep 300) & echo now")
    assert first.output == "now" and "job 1" in first.note
    second = await terminal.run("touch go; until [ -e went ]; do sleep 0.02; done; echo mine")
    assert second.output == "mine"
    async with asyncio.timeout(20):
        while not (third := await terminal.run("true")).note:
            pass
    assert third.output == "" and "job 1" in third.note and "late" in third.note
    assert (await terminal.run("true")).note == ""


# --- time-out, cancelling, jobs -----------------------------------------------------------------------


async def test_time_out(terminal: ShellSession, work: Path) -> None:
    outcome = await terminal.run("export K=1; cd sub; echo partly; echo $$ > pid; trap '' TERM; sleep 300", timeout=1.0)
    assert outcome.timed_out and outcome.exit_code is None and outcome.output == "partly"
    assert "Stopped after 1 s" in outcome.note and outcome.cwd == str(work)
    assert not alive(int((work / "sub" / "pid").read_text()))
    assert await out(terminal, "echo ok") == "ok"


async def test_a_cancelled_command_is_dead_and_the_shell_usable(terminal: ShellSession, work: Path) -> None:
    running = asyncio.create_task(terminal.run("echo $$ > pid; sleep 300"))
    await wait_for(lambda: (work / "pid").exists() and (work / "pid").read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_for(lambda: not alive(int((work / "pid").read_text())))
    assert await out(terminal, "echo x") == "x"


async def test_jobs_are_listed_and_end_with_the_shell(terminal: ShellSession) -> None:
    outcome = await within_timeout(terminal.run("sleep 301 & sleep 302 & echo up"))
    assert outcome.output == "up"
    await terminal.run("(setsid sleep 303 >/dev/null 2>&1 &)")
    first, second = terminal.jobs()
    assert (first.id, second.id) == (1, 2)
    assert first.program.startswith("sleep 30") and len(first.pids) == 2
    assert all(alive(pid) for pid in (*first.pids, *second.pids))
    await terminal.run(f"kill {' '.join(map(str, first.pids))}")
    await wait_for(lambda: [job.id for job in terminal.jobs()] == [2])
    assert "job 1" in (await terminal.run("true")).note
    await terminal.close()
    assert not any(alive(pid) for pid in second.pids)


async def test_a_job_whose_end_is_reported_late_counts_as_ended(terminal: ShellSession) -> None:
    await within_timeout(terminal.run("sleep 304 & echo up"))
    (job,) = terminal.jobs()
    (supervisor,) = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in job.pids}
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(job.pids[0], signal.SIGKILL)
    await wait_for(lambda: not terminal.jobs())
    asyncio.get_running_loop().call_later(0.2, os.kill, supervisor, signal.SIGCONT)
    assert "job 1" in (await within_timeout(terminal.run("true"))).note


async def test_closing_kills_what_runs(work: Path) -> None:
    terminal = ShellSession(folder=work)
    running = asyncio.create_task(terminal.run("echo $$ > pid; sleep 300"))
    await wait_for(lambda: (work / "pid").exists() and (work / "pid").read_text())
    await terminal.close()
    await wait_for(lambda: not alive(int((work / "pid").read_text())))  # killed, it may still be on its way out
    assert (await running).interrupted
    with pytest.raises(CommandError, match="closed"):
        await terminal.run("true")


async def test_commands_wait_for_each_other(terminal: ShellSession) -> None:
    await asyncio.gather(*(terminal.run(f"echo {n} >> log; sleep 0.05; echo {n} >> log") for n in range(3)))
    assert await out(terminal, "uniq -c log | wc -l; wc -l < log") == "3\n6"


async def test_folder_outside_is_reported(terminal: ShellSession) -> None:
    outcome = await terminal.run("cd /")
    assert outcome.cwd == "/" and "outside the workspace" in outcome.note
    assert (await terminal.run("cd usr")).cwd == "/usr"


async def test_deleted_folder_is_reported(terminal: ShellSession, work: Path) -> None:
    outcome = await terminal.run("mkdir gone; cd gone; rmdir ../gone")
    assert outcome.cwd == str(work) and "is gone" in outcome.note
    await terminal.run("cd sub")
    (work / "sub").rmdir()
    outcome = await terminal.run("pwd")
    assert outcome.output == str(work) and "is gone" in outcome.note


@pytest.mark.parametrize(
    ("command", "code", "name"),
    [
        ("bash -c 'kill -SEGV $$'", 139, "SIGSEGV"),
        ("bash -c 'kill -KILL $$'", 137, "out of memory"),
        ("kill -ABRT $$", 134, "SIGABRT"),
    ],
)
async def test_the_signal_is_named(terminal: ShellSession, command: str, code: int, name: str) -> None:
    outcome = await terminal.run(command)
    assert outcome.exit_code == code and name in outcome.note


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo " + "x" * 1_000_000, "too_large"),
        ("echo " + "x" * 130_000, "too_large"),
        ("echo \0", "invalid"),
        ("echo \udcff", "invalid"),
        (" ", "invalid"),
    ],
    ids=["million", "argument", "nul", "surrogate", "empty"],
)
async def test_impossible_commands_are_refused(terminal: ShellSession, command: str, why: str) -> None:
    with pytest.raises(CommandError) as caught:
        await terminal.run(command)
    assert caught.value.code == why and str(caught.value)


async def test_the_longest_command_runs(terminal: ShellSession) -> None:
    outcome = await terminal.run("echo " + "x" * (MAX_COMMAND - 5) + "")
    assert outcome.exit_code == 0 and outcome.total_bytes == MAX_COMMAND - 4


@pytest.mark.parametrize("variables", [{}, {"LC_ALL": "C"}, {"LANG": "POSIX"}])
async def test_utf8_in_any_locale(work: Path, variables: dict[str, str]) -> None:
    terminal = ShellSession(folder=work, environment=child_environment({"PATH": os.environ["PATH"], **variables}))
    assert await out(terminal, 'mkdir \'Grüße ✓\'; cd G*; v=ü; echo "${#v} ü"; basename "$PWD"') == "1 ü\nGrüße ✓"
    assert terminal.cwd == work / "Grüße ✓"
    await terminal.close()


async def test_missing_shell_is_reported(work: Path) -> None:
    terminal = ShellSession(folder=work, shells=("/no/bash", "/no/sh"))
    with pytest.raises(CommandError, match="No shell was found") as caught:
        await terminal.run("true")
    assert caught.value.code == "no_shell"


async def test_the_users_shell_is_not_used(work: Path) -> None:
    terminal = ShellSession(folder=work, environment={**child_environment(), "SHELL": "/usr/bin/fish"})
    assert await out(terminal, "for x in 1 2; do echo $x; done; echo ${BASH_VERSION:+bash}") == "1\n2\nbash"
    await terminal.close()


async def test_sh_without_bash(work: Path) -> None:
    terminal = ShellSession(folder=work, shells=("/no/bash", "/bin/sh"))
    first = await terminal.run("cd sub; export A=1; exit 3")
    assert (first.exit_code, first.cwd) == (3, str(work / "sub"))
    second = await terminal.run("pwd; echo $A; echo 'unclosed")
    assert second.exit_code == 2
    assert await out(terminal, "pwd; echo $A") == f"{work}/sub\n1"
    await terminal.close()


# --- what programs get -----------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc/self/fd")
async def test_only_three_descriptors(terminal: ShellSession) -> None:
    assert (
        await out(
            terminal, "python3 -c \"import os; print([f for f in range(200) if os.path.exists(f'/proc/self/fd/{f}')])\""
        )
        == "[0, 1, 2]"
    )


async def test_no_input_and_no_terminal(terminal: ShellSession) -> None:
    outcome = await terminal.run(
        "cat; read x; python3 -; tty; git commit 2>&1 | tail -1; sudo -n true < /dev/tty", timeout=30
    )
    assert not outcome.timed_out and "not a tty" in outcome.output


async def test_the_environment_holds_no_secrets(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLM_AUTH_TOKEN", "GITHUB_TOKEN", "X_KEY"):
        monkeypatch.setenv(name, "canary")
    terminal = ShellSession(folder=work)
    text = await out(terminal, "env")
    assert "canary" not in text and "BASH_ENV" not in text and "TERM=dumb" in text
    await terminal.close()


async def test_long_output_is_shortened_and_saved(terminal: ShellSession, tmp_path: Path) -> None:
    file = tmp_path / "output.txt"
    outcome = await terminal.run("seq 1 1000", capture=Capture(spill=file))
    assert "[… 900 of 1,000 lines left out …]" in outcome.output and outcome.total_lines == 1000
    assert outcome.spill == str(file)
    assert Path(outcome.spill).read_text().split() == [str(n) for n in range(1, 1001)]
    assert (await terminal.run("seq 1 10", capture=Capture(spill=tmp_path / "other.txt"))).spill is None


async def test_nothing_is_left_in_the_temporary_folder(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    terminal = ShellSession(folder=work)
    outcomes: list[CommandOutcome] = [
        await terminal.run(command) for command in ("true", "exec true", "kill -9 $$", "'")
    ]
    await terminal.run("sleep 300", timeout=0.2)
    await terminal.close()
    assert len(outcomes) == 4 and [path.name for path in tmp_path.iterdir()] == ["work"]
