from __future__ import annotations

import itertools

import msgspec
import pytest

from tui_agent.common.domain import (
    ApprovalMode,
    Diff,
    EditAction,
    Grant,
    Mode,
    ReadAction,
    RunAction,
    Scope,
    Severity,
    TrustAction,
)
from tui_agent.safety.policy import judge
from tui_agent.settings import Settings

ASK, EDIT, AUTO, READ = ApprovalMode.ASK, ApprovalMode.AUTO_EDIT, ApprovalMode.AUTO, ApprovalMode.READ_ONLY
MODES = (ASK, EDIT, AUTO, READ)


def reading(**more):
    return ReadAction(path="/w/a.py", display="a.py", **more)


def editing(display="src/a.py", **more):
    return EditAction(
        path=f"/w/{display}", display=display, diff=Diff(path=display, kind="modify"), before="0", after="1", **more
    )


def running(severity="medium", command="make test", **more):
    return RunAction(command=command, cwd="/w", severity=Severity(severity), **more)


def decide(action, approval_mode, mode=Mode.DIRECT, grants=(), **more):
    chosen = Settings(**more.pop("chosen", {}))
    return judge(action, mode=mode, approval_mode=approval_mode, settings=chosen, grants=grants, **more)


MATRIX = {
    "read inside": (reading(), "run run run run"),
    "read credentials": (reading(credentials=True), "ask ask ask refuse"),
    "read outside": (reading(outside=True), "ask ask ask refuse"),
    "edit": (editing(), "ask run run refuse"),
    "edit sensitive": (editing(sensitive=True), "ask ask ask refuse"),
    "edit protected": (editing(protected=True), "ask ask ask refuse"),
    "edit protected and sensitive": (editing(protected=True, sensitive=True), "ask ask ask refuse"),
    "edit outside": (editing(outside=True), "ask ask ask refuse"),
    "unasked": (running("none", safe=True), "run run run run"),
    "none": (running("none"), "ask ask run refuse"),
    "medium": (running("medium"), "ask ask run refuse"),
    "medium that claims to be unasked": (running("medium", safe=True), "ask ask run refuse"),
    "high": (running("high"), "ask ask ask refuse"),
    "critical": (running("critical"), "ask ask ask refuse"),
    "always ask": (running("none", safe=True, always_ask=True), "ask ask ask refuse"),
}
CELLS = [
    (name, action, mode, cell)
    for name, (action, row) in MATRIX.items()
    for mode, cell in zip(MODES, row.split(), strict=True)
]


@pytest.mark.parametrize(
    ("action", "mode", "cell"), [cell[1:] for cell in CELLS], ids=[f"{name}-{mode}" for name, _, mode, _ in CELLS]
)
def test_the_matrix(action, mode, cell):
    verdict = decide(action, mode)
    assert verdict.decision == cell
    assert verdict.rule and not verdict.rule.endswith(".")
    assert bool(verdict.grants) <= (cell == "ask")


@pytest.mark.parametrize("mode", Mode)
def test_read_only_modes_are_never_looser_and_block_every_change(mode):
    for name, approval in itertools.product(MATRIX, MODES):
        is_never_looser_and_blocks_every_change(mode, MATRIX[name][0], approval)


def is_never_looser_and_blocks_every_change(mode, action, approval):
    plain, here = decide(action, approval).decision, decide(action, approval, mode=mode)
    order = ["run", "ask", "refuse"]
    assert order.index(here.decision) >= order.index(plain)
    if mode.reads_only and (
        isinstance(action, EditAction) or (isinstance(action, RunAction) and here.decision != "run")
    ):
        assert here.decision == "refuse"
        assert f"{mode} mode" in here.rule or approval is READ
    if not mode.reads_only or isinstance(action, ReadAction):
        assert here.decision == plain


def test_a_refusal_tells_the_model_what_to_do_instead():
    assert "describe the change" in decide(editing(), ASK, mode=Mode.CHAT).rule
    assert "reading tools" in decide(running(), AUTO, mode=Mode.REVIEW).rule
    assert "continue without" in decide(reading(outside=True), READ).rule


@pytest.mark.parametrize("mode", MODES)
def test_settings_change_only_their_own_cells(mode):
    for chosen in ({"auto_run": False}, {"auto_approve_sensitive_edits": True}, {"auto_approve_high": True}):
        for sandboxed in (False, True):
            for name, (action, _) in MATRIX.items():
                plain = decide(action, mode).decision
                got = decide(action, mode, chosen=chosen, sandboxed=sandboxed).decision
                expected = {
                    ("auto_run", "unasked", ASK): "ask",
                    ("auto_approve_sensitive_edits", "edit sensitive", EDIT): "run",
                    ("auto_approve_sensitive_edits", "edit sensitive", AUTO): "run",
                    ("auto_approve_high", "high", AUTO): "run" if sandboxed else "ask",
                }.get((next(iter(chosen)), name, mode), plain)
                assert got == expected, (chosen, name)


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("mode", MODES)
def test_offered_grants_cover_the_action(name, mode):
    action = MATRIX[name][0]
    verdict = decide(action, mode)
    assert len({grant.scope for grant in verdict.grants}) == len(verdict.grants)
    for grant in verdict.grants:
        again = decide(action, mode, grants=(grant,))
        assert again.decision == "run"
        assert grant.pattern in again.rule


@pytest.mark.parametrize("name", MATRIX)
@pytest.mark.parametrize("mode", MODES)
def test_no_grant_covers_protected_paths_or_always_ask(name, mode):
    action = MATRIX[name][0]
    grants: list[Grant] = [
        msgspec.convert({"kind": kind, "pattern": pattern, "cwd": cwd, "scope": scope}, Grant)
        for kind, pattern, cwd in (
            ("edit", "**", None),
            ("edit", "src/a.py", None),
            ("read", "**", None),
            ("run", "make test", "/w"),
            ("run", "**", "/w"),
        )
        for scope in Scope
    ]
    before, after = decide(action, mode).decision, decide(action, mode, grants=grants).decision
    if name in ("edit protected", "edit protected and sensitive", "critical", "always ask") or before != "ask":
        assert after == before
    else:
        assert after in ("run", "ask")


def test_glob_grant_covers_only_ordinary_edits():
    wide = Grant(kind="edit", pattern="src/**", scope=Scope.SESSION)
    assert decide(editing(), ASK, grants=(wide,)).decision == "run"
    assert decide(editing("lib/a.py"), ASK, grants=(wide,)).decision == "ask"
    for more in ({"sensitive": True}, {"protected": True}, {"outside": True}):
        assert decide(editing(**more), ASK, grants=(wide,)).decision == "ask"
    exact = Grant(kind="edit", pattern="src/a.py", scope=Scope.SESSION)
    assert decide(editing(sensitive=True), ASK, grants=(exact,)).decision == "run"
    assert decide(editing(protected=True), ASK, grants=(exact,)).decision == "ask"
    assert decide(reading(credentials=True), ASK, grants=(Grant(kind="read", pattern="**"),)).decision == "ask"


def test_grants_offered_for_an_edit():
    session, always = decide(editing(), ASK).grants
    assert (session.pattern, session.scope) == ("src/a.py", Scope.SESSION)
    assert (always.pattern, always.scope) == ("src/*.py", Scope.ALWAYS)
    assert decide(editing("README.md"), ASK).grants[1].pattern == "README.md"
    assert decide(editing("a[1]*.py"), ASK).grants[0].pattern == r"a\[1\]\*.py"
    assert decide(editing("src/package.json", sensitive=True), ASK).grants[1].pattern == "src/package.json"
    assert decide(editing(protected=True), ASK).grants == ()


def test_a_grant_for_a_command_is_exact():
    session, always = decide(running(), ASK).grants
    assert (session.pattern, session.cwd) == ("make test", "/w") == (always.pattern, always.cwd)
    for other in ("make test ", "make  test", "make test > f", "make test && rm x", "FOO=1 make test", "make"):
        assert decide(running(command=other), ASK, grants=(session, always)).decision == "ask"
    elsewhere = RunAction(command="make test", cwd="/w/sub", severity=Severity.MEDIUM)
    assert decide(elsewhere, ASK, grants=(session, always)).decision == "ask"


def test_a_grant_holds_for_its_variables_only():
    plain = decide(running(), ASK).grants
    changed = running(env_changes=("PATH=/w/bin:/usr/bin",))
    assert decide(changed, ASK, grants=plain).decision == "ask"
    (session,) = decide(changed, ASK).grants
    assert session.scope is Scope.SESSION
    verdict = decide(changed, ASK, grants=(session,))
    assert verdict.decision == "run" and "PATH=/w/bin:/usr/bin" in verdict.rule
    assert decide(running(), ASK, grants=(session,)).decision == "ask"


@pytest.mark.parametrize("shown", ["a␊b.py", "src/<U+202E>x.py", "src/a⟨20 spaces⟩b.py"])
def test_no_grant_for_an_ambiguous_display_name(shown):
    assert decide(editing(shown), ASK).grants == ()
    wide = Grant(kind="edit", pattern="**", scope=Scope.SESSION)
    assert decide(editing(shown), ASK, grants=(wide,)).decision == "ask"
    same = Grant(kind="read", pattern=shown, scope=Scope.SESSION)
    secret = ReadAction(path="/w/x", display=shown, credentials=True)
    assert decide(secret, ASK, grants=(same,)).decision == "ask"


NEVER_ALWAYS = [
    "python x.py", "python3.11 -m pytest", "/usr/bin/python3 x", "node a.js", "bash -c 'ls'", "sh x.sh", "perl -e 1", "sudo make", "env make", "env -S ls",
    "xargs rm", "pip install x", "pip3 install x", "npm install", "npm i x", "npm exec x", "npx x", "uv pip install x", "uv run python x", "uvx x", "apt install x",
    "cargo install x", "go install x", "gem install x", "curl x", "wget x", "ssh host", "git push", "git -c core.pager=x log", "git --exec-path=x log", "git",
    "git pull", "ls > f", "ls >> f", "cat < f", "FOO=1 make", "PATH=. make", "make $X", "make `x`", "make $(x)", "make &", "make | sh", "make && sudo x",
    "make; curl x", "make || bash", "make\nrm x", "(make)", "{ make; }", "rm *", "cat ~/x", "make 'open", "", "   ", "&& make", "make &&", "docker run x", "rm x",
    "find . -delete", "eval x", "source x", ". x", "make \u202e", "time make", "ls |& sh", "echo hi # x", "a\\b",
]  # fmt: skip
MAY_ALWAYS = [
    "make test",
    "pytest -q",
    "ruff check .",
    "cargo test",
    "npm test",
    "npm run build",
    "npm run test:unit",
    "git status",
    "git diff --stat && git log -3",
    "ls -la | head",
    "go vet ./src",
    "tox -e py311",
    'grep "a b" x.py',
    "uv run pytest",
]


@pytest.mark.parametrize("command", NEVER_ALWAYS)
def test_never_always(command):
    verdict = decide(running(command=command), ASK)
    assert [grant.scope for grant in verdict.grants] == [Scope.SESSION]
    forged = Grant(kind="run", pattern=command, cwd="/w", scope=Scope.ALWAYS)
    assert decide(running(command=command), ASK, grants=(forged,)).decision == "ask"


@pytest.mark.parametrize("command", MAY_ALWAYS)
def test_may_always(command):
    assert [grant.scope for grant in decide(running(command=command), ASK).grants] == [Scope.SESSION, Scope.ALWAYS]


def test_credentials_are_never_read_always():
    assert [grant.scope for grant in decide(reading(credentials=True), ASK).grants] == [Scope.SESSION]
    assert [grant.scope for grant in decide(reading(outside=True), ASK).grants] == [Scope.SESSION, Scope.ALWAYS]


def test_trust_always_needs_approval():
    for mode in MODES:
        assert decide(TrustAction(folder="/w"), mode, mode=Mode.CHAT).decision == "ask"
