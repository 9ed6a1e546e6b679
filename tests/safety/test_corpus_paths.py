from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.corpora_adapters import check_path, match_patterns

CORPUS = json.loads((Path(__file__).parents[1] / "corpora/paths.json").read_text("utf-8"))
CASES = {case["id"]: case for case in CORPUS["cases"]}


@pytest.fixture
def base(tmp_path, monkeypatch):
    base = Path(os.path.realpath(tmp_path))
    for folder in CORPUS["tree"]["dirs"]:
        (base / folder).mkdir(parents=True, exist_ok=True)
    for name, text in CORPUS["tree"]["files"].items():
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_text(text, "utf-8")
    for link, target in CORPUS["tree"]["symlinks"].items():
        (base / link).symlink_to(target.replace("{base}", str(base)))
    monkeypatch.setenv("HOME", str(base / CORPUS["home"]))
    monkeypatch.chdir(base / CORPUS["workspace"])
    return base


def filled(text: str, base: Path) -> str:
    return (
        text.replace("{base}", str(base))
        .replace("{ws}", str(base / CORPUS["workspace"]))
        .replace("{home}", os.environ["HOME"])
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"] != "glob"])
def test_path(name, base):
    case = CASES[name]
    got = check_path(filled(case["workspace"], base), filled(case["path"], base), case["op"])
    assert got["allowed"] is case["allowed"], case["why"]
    if case["sensitive"] is not None and got["sensitive"] is not None:
        assert got["sensitive"] is case["sensitive"], case["why"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"] == "glob"])
def test_glob(name):
    case = CASES[name]
    assert match_patterns(case["patterns"], case["path"]) is case["sensitive"], case["why"]


MORE = {
    "src/../../proj/README.md": (True, False),
    "./src//app/./main.py": (True, False),
    "..foo/bar.py": (True, False),
    "café/menu.txt": (True, False),
    "dir with spaces/a b.txt": (True, False),
    "empty": (True, False),
    "empty/": (True, False),
    ".": (True, False),
    "{ws}": (True, False),
    "{ws}/": (True, False),
    "{base}/proj_link/src/env.py": (True, False),
    "src/keyboard.py": (True, False),
    "tokenizer.json": (True, False),
    ".gitignore": (True, False),
    "self/self/src/app/main.py": (True, False),
    "dangling_in": (True, False),
    "nope/../src/x.py": (True, False),
    "~literal.txt": (True, False),
    "notes.txt": (True, True),
    "self/.env": (True, True),
    "link_in/.env": (True, True),
    "link_in/../.git/config": (True, True),
    ".env": (True, True),
    ".env.local": (True, True),
    ".git": (True, True),
    ".GIT/config": (True, True),
    ".git/../.git/hooks/pre-commit": (True, True),
    "deploy/cert.pem": (True, True),
    "package.json": (True, True),
    "a/b/Cargo.lock": (True, True),
    ".github/workflows/ci.yml": (True, True),
    "AGENTS.md": (True, True),
    "..": (False, None),
    "../proj-evil/file.py": (False, None),
    "{ws}-evil/file.py": (False, None),
    "{ws}/../outside/secret.txt": (False, None),
    "link_out": (False, None),
    "link_out/new/file": (False, None),
    "link_file_out": (False, None),
    "dangling_out": (False, None),
    "chain1/secret.txt": (False, None),
    "link_home/.ssh/id_rsa": (False, True),
    "etc_link/passwd": (False, None),
    "self/../../outside": (False, None),
    "link_out/../proj-evil/file.py": (False, None),
    "nope/../../outside/secret.txt": (False, None),
    "~": (False, None),
    "~/.ssh/id_rsa": (False, True),
    "~root/x": (False, None),
    "/": (False, None),
    "//etc//passwd": (False, None),
    "/proc/self/environ": (False, None),
    "loop_a": (False, None),
    "loop_a/x": (False, None),
    "": (False, None),
    "a\0b": (False, None),
    "x" * 5000: (False, None),
}


@pytest.mark.parametrize("path", MORE, ids=lambda path: path[:40].encode("unicode_escape").decode())
@pytest.mark.parametrize("op", ["read", "write"])
def test_more_paths_of_the_same_kinds(path, op, base):
    allowed, sensitive = MORE[path]
    for workspace in ("{ws}", "{base}/proj_link"):
        got = check_path(filled(workspace, base), filled(path, base), op)
        assert got["allowed"] is allowed
        if sensitive is not None:
            assert got["sensitive"] is sensitive
