"""Programs in the languages of awk, sed and jq that only print."""

from __future__ import annotations

import pytest

from tui_agent.shell.filters import awk_only_prints, jq_only_prints, sed_only_prints, yq_only_prints


@pytest.mark.parametrize(
    "program",
    [
        "{print $1}",
        "$3 > 100",
        "{ if ($2 > 5) print $1, $2 }",
        'length > 120 {print FILENAME":"FNR}',
        "{n[$0]++} END {for (a in n) print n[a], a}",
        "{x = $1 / 2; print x / 3}",
        'BEGIN {FS="\\t"} {printf "%-20s %s\\n", $1, $3}',
        "/[[:space:]]+x/ {print}",
        "!seen[$0]++",
        "{print (1 > 2)}",
        '{gsub(/>/, ""); print}',
        "/a|b/ && $2 ~ /^c/ {print; next}",
    ],
)
def test_awk_that_prints(program: str) -> None:
    assert awk_only_prints(program)


@pytest.mark.parametrize(
    "program",
    [
        '{print > "out"}',
        "{print $1 > 5}",
        '{print >> "out"}',
        '{print (1)(2) > "out"}',
        'BEGIN{for (i = 1; i < 3; i++) print i > "out"}',
        '{print | "sh"}',
        '{"id" | getline}',
        'BEGIN{system("id")}',
        'BEGIN{system ("id")}',
        'BEGIN{while ((getline l < "/etc/passwd") > 0) print l}',
        'BEGIN{print ENVIRON["KEY"]}',
        'BEGIN{ARGV[1]="/etc/passwd"; ARGC=2} {print}',
        '@load "filefuncs"',
        'BEGIN{f="system"; @f("id")}',
        '/[/] "/ ; system("id") ; "/"/',
        'BEGIN{while(1) x = x "a"}',
        'BEGIN{for(;;) x = x "a"}',
        '{print $1 |& "sh"}',
        'function f() { print > "out" } {f()}',
    ],
)
def test_awk_that_does_more(program: str) -> None:
    assert not awk_only_prints(program)


@pytest.mark.parametrize(
    "script",
    [
        "1,5p",
        "$p",
        "/class A/,/^class /p",
        "/^#/d",
        "s/, /\\n/g",
        "10,20{p;q}",
        "5q",
        "s|a|b|g;s,x,y,",
        "/a/!d",
        "y/ab/cd/",
    ],
)
def test_sed_that_prints(script: str) -> None:
    assert sed_only_prints(script)


@pytest.mark.parametrize(
    "script",
    [
        *("w out", "/x/w out", "s/a/b/w out", "s/a/b/gw out", "s/a/b/e", "1e id", "e", "r .env", "R .env", "W out"),
        *("p;w out", "1,5{p;w out\n}", "s/[/]/x/w out", "/[/]/w out", "s/[^]/]/x/;w out", "a text", "F;w out"),
        *("s/a/b/;e", "s/x/y/me", "s,a,b,w out", "}", "{p"),
    ],
)
def test_sed_that_does_more(script: str) -> None:
    assert not sed_only_prints(script)


@pytest.mark.parametrize(("program", "expected"), [(".", True), (".scripts | keys[]", True), (".env", True)])
def test_jq_that_prints(program: str, expected: bool) -> None:
    assert jq_only_prints(program) is expected


@pytest.mark.parametrize(
    "program",
    ["env", "$ENV", "env.KEY", '"\\(env.KEY)"', 'include "x"; .', 'import "x" as x; .', "[repeat(1)]", "$__loc__"],
)
def test_jq_that_does_more(program: str) -> None:
    assert not jq_only_prints(program)


@pytest.mark.parametrize("program", ['load(".env")', "env(KEY)", "strenv(KEY)", ".a = 1"])
def test_yq_that_does_more(program: str) -> None:
    assert not yq_only_prints(program)
