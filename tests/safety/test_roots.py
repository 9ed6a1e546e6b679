from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_agent.safety.roots import PathError, Roots


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    home = Path(os.path.realpath(tmp_path)) / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("TUI_AGENT_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def work(tmp_path):
    work = Path(os.path.realpath(tmp_path)) / "work"
    (work / "src").mkdir(parents=True)
    return work


def test_a_target_shows_where_it_leads(work):
    (work / "link").symlink_to("src")
    target = Roots([work]).resolve("link/new.py")
    assert target.path == work / "src/new.py"
    assert target.display == "src/new.py"
    assert not (target.outside or target.protected or target.sensitive or target.credentials)
    assert Roots([work]).resolve(".").display == "."
    outside = Roots([work]).resolve("/etc/hostname")
    assert outside.outside and outside.display == str(outside.path)


def test_relative_paths_start_at_the_first_folder(work):
    assert Roots([work / "src", work]).resolve("x").path == work / "src/x"
    assert Roots([work / "src"]).resolve("../x").path == work / "x"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("a\0b", "nul"),
        ("a/" * 3000, "too_long"),
        ("x" * 256, "too_long"),
        ("é" * 128, "too_long"),
        ("loop", "loop"),
        ("loop/x", "loop"),
        ("\ud800", "encoding"),
    ],
)
def test_invalid_paths(work, path, code):
    (work / "loop").symlink_to("loop")
    with pytest.raises(PathError) as caught:
        Roots([work]).resolve(path)
    assert caught.value.code == code
    assert Roots([work]).holds_credentials(path)


def test_chains_of_links_have_the_kernels_bound(work):
    (work / "l0").symlink_to("src")
    for number in range(1, 60):
        (work / f"l{number}").symlink_to(f"l{number - 1}")
    roots = Roots([work])
    assert roots.resolve("l39/x").path == work / "src/x"
    with pytest.raises(PathError):
        roots.resolve("l50")


def test_several_roots_have_unique_names(tmp_path, work):
    other = work.parent / "other"
    twin = work.parent / "deep/work"
    for folder in (other, twin):
        folder.mkdir(parents=True)
    roots = Roots([work, other, twin])
    assert roots.names == ("work", "other", "work-2")
    assert roots.resolve("other/a.py").path == other / "a.py"
    assert roots.resolve("./other/a.py").display == "other/a.py"
    assert roots.resolve("work-2/a.py").path == twin / "a.py"
    assert roots.resolve("src/a.py").display == "work/src/a.py"
    assert roots.resolve(str(other)).display == "other"
    assert roots.resolve("other/../x").display == str(other.parent / "x")
    assert roots.resolve("other/../x").outside
    assert Roots([work]).resolve("work/a.py").path == work / "work/a.py"


def test_a_path_without_a_root_name_is_in_the_first_root_or_the_only_other_match(work):
    other, third = work.parent / "other", work.parent / "third"
    for folder, names in ((work, ["both.py"]), (other, ["both.py", "one.py", "twin.py"]), (third, ["twin.py"])):
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).touch()
    roots = Roots([work, other, third])
    assert roots.resolve("both.py").display == "work/both.py"
    assert roots.resolve("one.py").display == "other/one.py"
    assert roots.resolve("new.py").display == "work/new.py"
    assert roots.resolve(".").display == "work"
    with pytest.raises(PathError, match=r"other/twin\.py, third/twin\.py") as caught:
        roots.resolve("twin.py")
    assert caught.value.code == "ambiguous"


def test_name_of_a_single_root_is_removed_if_that_leads_to_something(work):
    (work / "src/a.py").touch()
    roots = Roots([work])
    assert roots.resolve("work").path == roots.resolve("./work/").path == work
    assert roots.resolve("work/src/a.py").display == "src/a.py"
    assert roots.resolve("work/new.py").display == "work/new.py"
    (work / "work/src").mkdir(parents=True)
    assert roots.resolve("work/src/a.py").display == "work/src/a.py"
    assert roots.resolve("work/../../x").outside


def test_the_scratch_folder_is_inside_and_our_own_folders_are_protected(work, home):
    data = home / ".local/share/tui-agent"
    scratch = data / "sessions/x/scratch"
    scratch.mkdir(parents=True)
    roots = Roots([work], scratch=scratch)
    inside = roots.resolve(str(scratch / "a/note.txt"))
    assert not inside.outside and not inside.protected
    assert roots.resolve(str(scratch / ".env")).protected
    for path in (data / "sessions/x/events.jsonl", home / ".config/tui-agent/trust.json", home / ".config/tui-agent"):
        target = roots.resolve(str(path))
        assert target.outside and target.protected
    assert Roots([home]).resolve(".config/tui-agent/config.yaml").protected
    assert not Roots([data / "demo"]).resolve("main.py").protected


def test_tilde_is_the_home_folder_or_a_users(work, home):
    roots = Roots([work])
    me = pwd.getpwuid(os.getuid())
    assert roots.resolve("~/x").path == home / "x"
    assert roots.resolve(f"~{me.pw_name}/x").path == Path(os.path.realpath(me.pw_dir)) / "x"
    assert roots.resolve("~nobody-of-this-name/x").path == work / "~nobody-of-this-name/x"


PROTECTED = [
    ".git/config", ".GIT/config", ".Git/hooks/pre-commit", "sub/.git/HEAD", ".git", ".vscode/settings.json", ".idea/x", ".husky/pre-commit",
    ".githooks/pre-commit", ".local/bin/ls", ".nvim.lua", ".dir-locals.el",
    ".github/workflows/x.yml", ".env", ".env.local", ".envrc", ".ＥＮＶ", ".e\u200cnv", "sub/.ENV.Local", ".bashrc", ".zshenv", ".profile", ".ssh/config", ".npmrc",
    ".pypirc", ".netrc", "AGENTS.md", "agents.md", "sub/AGENTS.md", "CLAUDE.md", ".cursorrules", ".cursor/rules/x", ".tui-agent.yaml", ".gitconfig",
    ".mcp.json", ".devcontainer/devcontainer.json", ".gitattributes", "id_ed25519", "x.pem",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_protected_paths_also_when_absent_and_through_links(work, path):
    roots = Roots([work])
    assert roots.resolve(path).protected
    (work / "innocent").symlink_to(path)
    assert roots.resolve("innocent").protected
    assert not roots.resolve(path).outside


@pytest.mark.parametrize(
    "path",
    [
        "environment.py",
        "src/env.py",
        ".gitignore",
        "git/config",
        "agents.py",
        "docs/ssh.md",
        "keyboard.py",
        "profile",
        "README.md",
    ],
)
def test_ordinary_paths_are_not_protected(work, path):
    target = Roots([work]).resolve(path)
    assert not (target.protected or target.sensitive or target.credentials)


def test_a_protected_name_that_is_a_link_stays_protected(work):
    (work / "plain.txt").write_text("x")
    (work / ".env").symlink_to("plain.txt")
    assert Roots([work]).resolve(".env").protected
    (work / "dir").mkdir()
    (work / ".vscode").symlink_to("dir")
    assert Roots([work]).resolve(".vscode/settings.json").protected


def test_git_data_is_protected_everywhere(work):
    (work / "store").mkdir()
    (work / ".git").symlink_to("store")
    assert Roots([work]).resolve("store/config").protected
    tree, data = work / "tree", work / "elsewhere/worktrees/tree"
    data.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../elsewhere/worktrees/tree\n")
    (data / "commondir").write_text("../..\n")
    roots = Roots([work])
    assert roots.resolve("elsewhere/hooks/pre-commit").protected is False
    assert Roots([tree]).resolve("../elsewhere/hooks/pre-commit").protected
    assert Roots([tree]).resolve("../elsewhere/worktrees/tree/config").protected
    bare = work / "vendor/thing"
    (bare / "objects").mkdir(parents=True)
    (bare / "refs").mkdir()
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert roots.resolve(str(bare / "config")).protected
    assert roots.resolve(str(bare / "hooks/post-checkout")).protected


def test_a_hostile_git_file_only_tightens(work):
    (work / ".git").write_bytes(b"gitdir: \xff\0../../..\n" * 100)
    assert not Roots([work]).resolve("a.py").outside
    (work / ".git").unlink()
    os.mkfifo(work / ".git")
    assert not Roots([work]).resolve("a.py").protected


def test_sensitive_and_users_own_patterns(work):
    roots = Roots([work], sensitive={"package.json": True, "db/**": False}, protected=["migrations/**"])
    assert not roots.resolve("package.json").sensitive
    assert roots.resolve("sub/package.json").sensitive
    assert roots.resolve("DB/schema.sql").sensitive
    assert roots.resolve("Migrations/1.sql").protected
    assert Roots([work], sensitive={"**/*": True}).resolve(".env").protected


def test_credentials(work, home):
    roots = Roots([work])
    for path in (
        ".env",
        "sub/.env.production",
        "deploy/server.key",
        "~/.aws/credentials",
        "~/.ssh/id_rsa",
        "~/.netrc",
        "~/.config/gh/hosts.yml",
    ):
        assert roots.resolve(path).credentials and roots.holds_credentials(path), path
    for path in (
        ".env.example",
        ".env.sample",
        "src/env.py",
        "~/.ssh/known_hosts",
        "~/.ssh/id_rsa.pub",
        "package.json",
    ):
        assert not roots.resolve(path).credentials, path


def test_names_that_would_control_a_terminal_are_shown_escaped(work):
    odd = "a\x1b[31m\n\u202eb [red]"
    (work / odd).write_text("x")
    target = Roots([work]).resolve(odd)
    assert target.path.read_text() == "x"
    assert target.display == "a<U+001B>[31m<U+000A><U+202E>b [red]"
    raw = os.fsdecode(b"bad\xff")
    (work / raw).write_text("y")
    assert Roots([work]).resolve(raw).path.read_text() == "y"
    assert Roots([work]).resolve(raw).display == "bad<U+DCFF>"


def test_inside_outside_and_display(work):
    roots = Roots([work])
    assert not roots.resolve(str(work / "src/../x")).outside
    assert roots.resolve(str(work.parent)).outside
    assert roots.resolve(f"{work}-secret").outside
    assert roots.display(work / "a") == "a"


def test_a_workspace_reached_through_a_link_or_gone_works(work):
    (work.parent / "alias").symlink_to("work")
    roots = Roots([work.parent / "alias"])
    assert roots.folders == (work,)
    assert roots.resolve(str(work.parent / "alias/src/a")).display == "src/a"
    (work / "src").rmdir()
    work.rmdir()
    assert roots.resolve("a").path == work / "a"


steps = st.sampled_from(["..", ".", "", "src", "in", "out", "up", "abs", "home", "loop", "x", "dang", "a b", ".git"])


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(steps, min_size=1, max_size=8), st.booleans())
def test_resolution_agrees_with_the_kernel(work, parts, absolute):
    for name, leads_to in {
        "in": "src",
        "out": "../home",
        "up": "..",
        "abs": str(work.parent),
        "home": "/",
        "loop": "loop",
        "dang": "src/none",
        "src/back": "../src",
    }.items():
        if not os.path.lexists(work / name):
            (work / name).symlink_to(leads_to)
    path = ("/" if absolute else "") + "/".join(parts)
    if not path.strip():
        return
    try:
        target = Roots([work]).resolve(path)
    except PathError:
        return
    real = os.path.realpath(work / path)
    assert str(target.path) == real
    assert target.outside is (Path(real) != work and work not in Path(real).parents)


@pytest.mark.needs("git")
def test_a_real_worktree(work):
    def git(*words):
        environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(["git", *map(str, words)], env=environ, check=True, capture_output=True)

    main = work / "main"
    git("init", "-q", main)
    git("-C", main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", main, "worktree", "add", "-q", work / "tree")
    roots = Roots([work / "tree"])
    assert roots.resolve("../main/.git/hooks/pre-commit").protected
    assert roots.resolve("../main/.git/worktrees/tree/config").protected
    assert not roots.resolve("a.py").protected
