from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.safety import globs
from tui_agent.safety.policy import literal_glob


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", True),
        ("src/**", "source/a", False),
        ("src/", "src/a/b", True),
        ("src/**/x", "src/x", True),
        ("src/**/x", "src/a/b/x", True),
        ("**/a/**/b", "x/a/y/a/z/b", True),
        ("**/a/**/b", "x/a/y/c", False),
        ("**", "anything/at/all", True),
        ("**/*", ".env", True),
        ("*", ".hidden", True),
        ("a*b*c", "aXbYbZc", True),
        ("a*b*c", "aXbYbZ", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a?c", "ac", False),
        ("[abc].x", "b.x", True),
        ("[!abc].x", "b.x", False),
        ("[^abc].x", "d.x", True),
        ("[a-c0-9].x", "7.x", True),
        ("[]a].x", "].x", True),
        ("[!]a].x", "].x", False),
        ("[a-].x", "-.x", True),
        ("[abc", "[abc", True),
        ("*.{key,pem}", "x.pem", True),
        ("*.{key,pem}", "x.crt", False),
        ("{a,b}/{c,d{e,f}}", "b/df", True),
        ("{a,b}/{c,d{e,f}}", "b/d", False),
        ("x{,y}", "x", True),
        ("x{,y}", "xy", True),
        ("{src,lib}/**/*.py", "lib/a/b.py", True),
        ("{a/b,c}/d", "a/b/d", True),
        ("{only}", "{only}", True),
        ("{a,b", "{a,b", True),
        ("a}b", "a}b", True),
        ("{x}{a,b}", "{x}b", True),
        ("{{a,b},c}", "b", True),
        (r"\*.py", "*.py", True),
        (r"\*.py", "a.py", False),
        (r"\{a,b\}", "{a,b}", True),
        ("[{]x", "{x", True),
        ("./a", "a", True),
        ("a/b", "./a//b/", True),
        ("a/b", "a/./c/../b", True),
        ("/src/a", "src/a", True),
        ("src/a", "/src/a", True),
        ("**/*.lock", "a.lock.txt", False),
        ("**/.env", ".envrc", False),
        ("**/.env", "a/.env", True),
        ("a**b", "aXb", True),
        ("a**b", "a/b", False),
        ("[/]", "/", False),
    ],
)
def test_matches(pattern, path, expected):
    assert globs.matches(pattern, path) is expected


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        ([], "a", False),
        ([("**/*.key", False), ("**/test.key", True)], "t/test.key", False),
        ([("**/test.key", True), ("**/*.key", False)], "t/test.key", True),
        ([("**/.git/**", False)], ".GIT/config", True),
        ([("**/.env", False)], "a/.ＥＮＶ", True),
        ([("**/.env", False)], "a/.e\u200bnv", True),
        ([("**/.git/**", False)], "sub\\.git\\config", True),
        ([("**/*", False), ("**/*.md", True)], "A.MD", True),
        ([("**/.GIT/**", False)], ".git/x", True),
    ],
)
def test_asks(patterns, path, expected):
    assert globs.GlobList(patterns).needs_approval(path) is expected


names = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
relative = st.lists(names, min_size=1, max_size=5).map("/".join)


@given(relative)
def test_a_literal_matches_its_path_only(path):
    assert globs.matches(literal_glob(path), path)
    assert not globs.matches(literal_glob(path), path + "x")
    assert globs.matches("**", path)
    assert globs.matches("**/" + literal_glob(path), "deep/er/" + path)


@given(st.text(alphabet="ab*?[]{},/\\!-.", max_size=20), st.text(alphabet="ab/.{},", max_size=12))
def test_any_pattern_can_be_matched(pattern, path):
    assert globs.matches(pattern, path) in (True, False)
    assert globs.GlobList([(pattern, False)]).needs_approval(path) >= globs.matches(pattern, path)


def test_braces_with_a_thousand_alternatives() -> None:
    assert globs.GlobList([("{a,b}" * 10, False)]).needs_approval("ab" * 5)


@pytest.mark.parametrize("path", [".git./config", "a/.env. ", ".ssh ./id"])
def test_dots_and_blanks_at_the_end_of_a_name_are_ignored(path: str) -> None:
    assert globs.GlobList([("**/.git/**", False), ("**/.env", False), ("**/.ssh/**", False)]).needs_approval(path)
