from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.corpora_adapters import decide
from tui_agent.common.domain import ApprovalMode, Mode, RunAction
from tui_agent.safety.policy import judge, offered_grants
from tui_agent.safety.roots import Roots
from tui_agent.settings import Settings
from tui_agent.shell.familiar import familiar_table
from tui_agent.shell.safe_commands import assess_command

FAMILIES = Path(__file__).parent / "families"
WORKSPACE = "/home/me/proj"


def family(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((FAMILIES / f"{name}.json").read_text("utf-8"))
    return table


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")


def test_harmful_commands_ask() -> None:
    """A command that asks in auto mode asks in all modes, so that only the others are judged again."""
    commands = family("harmful")["commands"]
    running = [command for command in commands if decide(command, "auto", WORKSPACE, False) == "run"]
    assert len(running) <= len(commands) // 100, running
    assert [
        c for c in running if any(decide(c, mode, WORKSPACE, False) == "run" for mode in ("ask", "auto-edit"))
    ] == []


def test_a_sandbox_lets_no_harmful_command_run_that_asks_without_one() -> None:
    for command in family("harmful")["commands"][::20]:
        assert decide(command, "auto", WORKSPACE, True) == decide(command, "auto", WORKSPACE, False)


def test_unusual_ways_to_write_run_or_send_ask_in_auto_mode() -> None:
    commands = family("unusual_ways")["commands"]
    assert [command for command in commands if decide(command, "auto", WORKSPACE, False) == "run"] == []


def test_commands_in_text_that_the_grammar_misreads_ask() -> None:
    commands = family("misread")["commands"]
    assert [command for command in commands if decide(command, "auto", WORKSPACE, False) == "run"] == []


@pytest.mark.parametrize(
    "command",
    [
        "ls # note\nls", "echo a \\\n b", "git commit -m 'costs 5$ today'", "cat <<'E'\n\\begin{x}\nE", "x=(1 2); ls # ok",
        "grep -n '#' src/a.py", "echo a#b", "echo 'a\n\\b'", "ls \\\n  -la \\\n  src",
    ],
)  # fmt: skip
def test_text_that_looks_like_it_but_is_read_well_runs(command: str) -> None:
    assert decide(command, "auto", WORKSPACE, False) == "run"


@pytest.mark.parametrize(
    "command",
    [
        "cat < $(echo .env)", 'cat < "$1"', "sed 'r.env' README.md", "sed '1,2r.env' README.md", "sed -e'r .env' README.md",
        "jq -n '[env]'", "jq -n '{a:env}'", "cat .e{n..n}v", "cat ~/../other/x", "GLOBIGNORE=x; cat *",
        "x=README.md; read x <<< .env; cat $x", "x=.e; x+=nv; cat $x", "x=; : ${x:=.env}; cat $x",
        "x=$API_KEY; echo $x", "echo $DB_PASS", "rg --files --hidden | xargs cat",
        "git ls-files -oi --exclude-standard | xargs cat", "grep -d recurse X .", "grep -drecurse X .",
        "rg --type-add 'e:.env*' -te X", "git commit -F .env",
    ],
)  # fmt: skip
def test_names_that_are_only_known_when_it_runs_ask_where_credentials_lie(tmp_path: Path, command: str) -> None:
    (tmp_path / ".env").write_text("API_KEY=1\n")
    assert decide(command, "auto", str(tmp_path), False) == "ask"
    assert decide(command, "ask", str(tmp_path), False) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "rbenv exec rm -rf src", "pyenv exec rm -rf src", "asdf exec sh -c 'rm -rf src'", "cross-env X=1 rm -rf src",
        "volta run rm -rf src", "pixi run rm -rf src", "tsx -e 'fs.rmSync(\"src\",{recursive:true})'",
        "npx ts-node -e 'fs.rmSync(\"src\",{recursive:true})'", "gh pr create --fill", "gh pr comment 1 -b x",
    ],
)  # fmt: skip
def test_what_starts_other_programs_is_judged_by_them(command: str) -> None:
    assert decide(command, "auto", WORKSPACE, False) == "ask"


@pytest.mark.parametrize("name", ["ordinary", "ecosystems"])
def test_ordinary_work_runs_in_auto_mode(name: str) -> None:
    commands = family(name)["commands"]
    asked = [command for command in commands if decide(command, "auto", WORKSPACE, False) != "run"]
    assert len(asked) <= len(commands) // 100, asked


def test_false_alarms_run_in_auto_mode() -> None:
    commands = family("false_alarms")["commands"]
    assert [command for command in commands if decide(command, "auto", WORKSPACE, False) != "run"] == []


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A workspace with the files and links of the family."""
    table, folder = family("credentials"), tmp_path / "app"
    for name in table["files"]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("key: nothing\n")
    for kind, name, target in table["links"]:
        if kind == "hard":
            os.link(folder / target, folder / name)
        else:
            (folder / name).symlink_to(target)
    return folder


@pytest.mark.parametrize("kind", ["credentials", "outside"])
def test_reading_credentials_and_outside_files_asks_in_every_mode(kind: str, app: Path) -> None:
    commands = family("credentials")[kind]
    actions = [assessed(command, app) for command in commands]
    for mode, decision in (("ask", "ask"), ("auto-edit", "ask"), ("auto", "ask"), ("read-only", "refuse")):
        verdicts = {
            action.command: judge(
                action, mode=Mode.AGENT, approval_mode=ApprovalMode(mode), settings=Settings(), sandboxed=True
            ).decision
            for action in actions
        }
        assert [command for command, verdict in verdicts.items() if verdict != decision] == []


def test_harmless_reads_are_not_rated_as_credentials(app: Path) -> None:
    actions = [assessed(command, app) for command in family("credentials")["harmless"]]
    assert [action.command for action in actions if action.credentials or action.outside or action.always_ask] == []


def assessed(command: str, workspace: Path) -> RunAction:
    roots = Roots([workspace])
    return assess_command(command, workspace, roots.folders, roots.holds_credentials, roots.is_protected)


@pytest.mark.parametrize("command", ["cat notes.txt", "grep -rn KEY .", "cat < .env", "cat .e*", "printenv"])
def test_the_dialog_names_the_file_and_offers_no_permanent_grant(command: str, app: Path) -> None:
    action = assessed(command, app)
    assert action.credentials and any(action.credentials[0] in reason for reason in action.reasons)
    assert all(grant.scope == "session" for grant in offered_grants(action, exactly=True))


def test_the_expressions_of_the_table_are_valid() -> None:
    for entry in familiar_table()["programs"].values():
        for key in ("allow", "deny", "local_deny"):
            re.compile(entry.get(key, ""))


def test_publishing_asks_and_its_trial_does_not() -> None:
    publishing = (
        "git push",
        "git push -u origin HEAD",
        "git -C . push origin x",
        "npm publish",
        "cargo publish",
        "twine upload dist/*",
    )
    assert [decide(command, "auto", WORKSPACE, True) for command in publishing] == ["ask"] * len(publishing)
    assert decide("git push --dry-run origin main", "auto", WORKSPACE, True) == "run"


def test_files_whose_names_awk_computes_ask() -> None:
    for program in (
        'BEGIN{f=".e" "nv"; while((getline l < f)>0) print l}',
        "BEGIN{ARGV[1]=x; ARGC=2} 1",
        "{getline < $1}",
    ):
        assert decide(f"awk '{program}'", "auto", WORKSPACE, True) == "ask"
    assert decide("""awk 'BEGIN{while((getline l < "a.txt")>0) print l} $1<5'""", "auto", WORKSPACE, True) == "run"


def test_a_package_runs_only_if_it_is_well_known() -> None:
    known = (
        "npm install zod",
        "pip install 'httpx[http2]>=0.27'",
        "uv add pytest_asyncio",
        "cargo add serde -F derive",
    )
    unknown = (
        "npm install reqeusts",
        "pip install httpxx",
        "uv add pytest-asynciio",
        "cargo add serd",
        "npx evil-tool",
    )
    assert [command for command in known if decide(command, "auto", WORKSPACE, False) != "run"] == []
    assert [command for command in unknown if decide(command, "auto", WORKSPACE, False) != "ask"] == []


def test_every_program_has_one_rule_in_the_table() -> None:
    names = [name for key in familiar_table()["programs"] for name in key.split()]
    names += [*familiar_table()["tools"].split(), *familiar_table()["programs"][""]["any"].split()]
    assert [name for name in set(names) if names.count(name) > 1] == []
