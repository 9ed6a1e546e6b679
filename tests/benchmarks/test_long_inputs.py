"""Nothing that comes from outside takes long, however it is made: the work grows with the length, never with its square."""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import corpora_adapters
from tests.benchmarks.timing import within
from tests.doubles.fake_tool_context import FakeToolContext
from tests.engine.test_examples_read import FILES
from tests.engine.test_mentions import index
from tests.models.test_framing import frames
from tests.protocols.replies import CALL
from tests.protocols.test_streaming import OFFERED
from tests.test_corpora import CORPORA, content, expand
from tests.tools.calling import call
from tests.tools.conftest import ctx as ctx
from tests.tools.test_matching import BIG, edit
from tui_agent.engine.checks.examples import examples_in
from tui_agent.engine.checks.request_reading import read_request
from tui_agent.engine.checks.request_scope import asks_for_tests_only
from tui_agent.engine.checks.static_checks import find_problems
from tui_agent.mentions.files import CHUNK_NAMES
from tui_agent.mentions.syntax import MAX_MENTIONS, mentions
from tui_agent.models.framing import NdjsonLines, Splitter, SseEvents
from tui_agent.plan import markdown
from tui_agent.protocols.file_reply import read_file_reply
from tui_agent.protocols.parser import ReplyParser, parse_reply
from tui_agent.safety import globs
from tui_agent.text import clean
from tui_agent.tools.diffs import diff_bytes, line_changes


def test_large_files_are_checked_in_time() -> None:
    old = "".join(f"def f{n}(a):\n\n    x = a  # note {n}\n\n    return x\n\n\n" for n in range(3_500))
    new = old.replace("return x", "return x + 1").replace("f9(", "g9(").replace("  # note 77\n", "\n")
    with within(30):
        find_problems(read_request("Rename f9 in a.py to g9"), {"a.py": old, "b.py": old}, {"a.py": new})
    with within(15):
        for text in (
            "rename " * 5_000,
            "add a test " * 3_000,
            "( " * 9_000,
            "fix the tests and " * 2_000,
            "a.b/c" * 4_000,
        ):
            find_problems(read_request(text), {"a.py": "X = 1\n"}, {"a.py": "X = 2\n"})
            asks_for_tests_only(text)


def test_a_long_request_is_read_in_no_time() -> None:
    with within(10):
        for text in ("add " * 5000, "and fix it, " * 1600, "`a` or " * 2800, "that to the " * 1600, "a b. " * 4000):
            read_request(text)


@pytest.mark.parametrize(
    "text",
    [
        "fizz(" * 4_000,
        "fizz(1) " * 2_500,
        "fizz(1) should return " + "[" * 15_000,
        "fizz(1) returns " + "not " * 5_000,
        "add(1, 2) in " + "a.b" * 6_000,
        "'a " * 6_000 + "fizz(3) should be 2",
        "make it " * 2_500 + "fizz(3) should now now now be 2",
        "a.b." * 5_000 + "fizz(1)",
        "add it and " * 1_500 + "fizz(3, unit=1) is 3",
        "fizz(1) is 2, expected " * 800,
        "return if when for " * 900 + "fizz(3)",
    ],
    ids=lambda text: text[:12],
)
def test_long_requests_are_read_fast(text: str) -> None:
    with within(2):
        examples_in(text, FILES)


def test_long_messages_are_read_quickly() -> None:
    with within(10):
        for text in ("@" + "." * 400_000, "@a" * 200_000, "```\n" * 100_000, '@"' * 200_000, "@a,)" * 100_000):
            mentions(text)
    assert len(mentions("@a.py " * 100)) == MAX_MENTIONS


@pytest.mark.parametrize(
    "line",
    [
        "[" + " " * 200_000,
        "- [" + " " * 200_000,
        "### 2025-01-01" + " " * 200_000 + "x",
        "**" + " " * 200_000,
        "[no " * 50_000,
        "```a\n" * 50_000,
    ],
    ids=["bracket", "box", "date", "bold", "placeholder", "fences"],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    text = "".join(
        f"## {name}\n{line}\n" for name in ("Goal", "Acceptance Criteria", "Decisions Made", "Execution Log")
    )
    with within(2.5):
        markdown.parse(f"---\na: {' ' * 200_000}x\n---\n{text}")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 200 + "b", "a" * 4000),
        ("**/a/" * 60 + "b", "a/" * 2000),
        ("{a,b}" * 40, "a" * 40),
        ("{" * 3000, "{" * 3000),
        ("{a," * 400 + "}" * 400, "a"),
        ("[" * 3000, "[" * 3000),
    ],
)
def test_matching_is_quick_whatever_the_pattern(pattern: str, path: str) -> None:
    with within(5):
        globs.matches(pattern, path)


@pytest.mark.parametrize("size", [1024, 10_000_100])
@pytest.mark.parametrize("kind", [NdjsonLines, SseEvents])
def test_c19_a_long_line_costs_linear_time(kind: type[Splitter], size: int) -> None:
    body = b'data: "' + b"x" * 10_000_000 + b'"\n\n'
    with within(5):
        (frame,) = frames(kind(), (body[at : at + size] for at in range(0, len(body), size)))
    assert len(frame.data) >= 10_000_000


def test_large_texts_take_little_time() -> None:
    old = "".join(f"line {at % 50} of it\n" for at in range(12_000))
    with within(5):
        read_file_reply(f"```txt\n{old.replace('7', '8')}```", {"a.txt": old, "b.txt": old + "x"}, "Change 7 to 8.")
        read_file_reply(
            f"a.txt\n```\n{old.replace('7', '8')}```", {"a.txt": old.replace(chr(10), chr(13) + chr(10))}, "7 is 8."
        )


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ' * 100_000, "[" * 500_000, "{" * 500_000, "<tool_call>" * 50_000, "<tool_call>{" * 50_000,
        "```json\n{" * 50_000, "`" * 500_000, "a<think>" * 60_000, '{"a": "' + 'x" ' * 150_000, "</tool_call>" * 50_000,
        "[TOOL_CALLS] [{" * 30_000, (CALL + "\n") * 10_000, '{"name": "bash", ' * 30_000, "\\" * 500_000, " " * 500_000,
        "<tool_response> " * 30_000, "<｜tool▁call▁begin｜>" * 30_000, "`<|im_start|> " * 30_000, "<|im_start|>" * 40_000,
        "```tool_code\n" * 30_000, "```tool_code\nbash('" + "```\n" * 100_000, "<tool_code>" * 40_000,
        '<｜DSML｜invoke name="bash">' * 20_000, "<|tool_call_begin|>functions.bash:0" * 15_000, "<|a" * 150_000,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_hostile_text_takes_linear_time(text: str) -> None:
    part = text[: len(text) // 8]  # what grows with the square takes minutes all the same
    with within(4):
        stream = ReplyParser(OFFERED)
        for at in range(0, len(part), 64):
            stream.feed(part[at : at + 64])
        stream.finish()
        parse_reply(part, OFFERED)


@pytest.mark.parametrize("kind", ["shuffled", "other", "repeated", "inserted"])
def test_large_changes_do_not_take_long(kind: str) -> None:
    chance = random.Random(1)
    old = [f"line {number}\n" for number in range(20_000)]
    if kind == "shuffled":
        new = chance.sample(old, len(old))
    elif kind == "other":
        new = [f"new {number}\n" for number in range(20_000)]
    elif kind == "repeated":
        old = [chance.choice(["{\n", "}\n", "\n"]) for _ in range(20_000)]
        new = [chance.choice(["{\n", "}\n", "\n"]) for _ in range(20_000)]
    else:
        new = [line for number, line in enumerate(old) for line in ([line, "more\n"] if number % 50 == 0 else [line])]
    with within(10):
        list(line_changes(old, new))
    if kind == "inserted":
        diff = diff_bytes("f", "".join(old).encode(), "".join(new).encode())
        assert (diff.added, diff.removed) == (400, 0)


@pytest.mark.nightly
async def test_list_of_a_hundred_thousand_entries_is_quick(ctx: FakeToolContext) -> None:
    root = ctx.roots[0]
    (root / ".gitignore").write_text("*.o\nbuild/\n")
    (root / "big").mkdir()
    fd = os.open(root / "big", os.O_RDONLY)
    for number in range(100_000):
        os.close(os.open(f"{number}.txt", os.O_CREAT, dir_fd=fd))
    os.close(fd)
    with within(10):  # five times the promised 2 s
        data = (await call(ctx, "list_files", path="big")).data
    assert "[99,000 more]" in data or "cut after 2 s" in data  # as a busy machine is told


@pytest.mark.parametrize(
    ("text", "old"),
    [
        (BIG, "not there\nat all\n"),
        (BIG.replace("\n", "\r\n"), "line 40000 some text here\nline 40001 some text here\n"),
        (BIG.replace("\n", " \n\t"), "line 40000 some text here\nline 40001 some text here\n"),
        ("a" * 1_000_000, "a" * 1000 + "b"),
        ("a" * 1_000_000, "a" * 1000),
        ("}\n" * 100_000, "  }\n" * 1000 + "x\n"),
        (" }\n" * 100_000, "}\n" * 1000),
        (" }\n" * 50_000 + "  }\n" * 50_000, "}\n" * 999 + " }\n" * 999),
        (" " * 1_000_000 + "\nx\n", "y  \nx\n"),
        ((" " * 1000 + "\n") * 1000 + "q\n", "\n" * 998 + "\nq"),
        ("x=" + "1," * 2_000_000 + "\n", "1,2"),
        ("é“x” a  b\n" * 50_000, '"e nd"'),
        ("é“x” a  b\n" * 50_000 + "“end”  of\n", '"end" of'),
        ("word " * 200_000, "word  word\nend"),
        ("'" + "\\'  a" * 200_000, "'\\' a\\'  b"),
    ],
    ids=range(15),
)
def test_no_text_makes_it_slow(text: str, old: str) -> None:
    with within(25):
        edit(text, old, "new")
        edit(text, old, "new", True)


def test_clean_is_linear() -> None:
    for text in (
        "plain text, nothing to do\n" * 200_000,
        "\x1b[31mred\x1b[0m\r\n" * 100_000,
        "\x1b]" * 500_000,
        "\x1b[" + "1;" * 500_000,
    ):
        with within(5):
            clean(text)


async def test_a_longest_query_over_many_names_takes_no_time() -> None:
    packed = index([f"folder{number % 50}/file_{number}.py" for number in range(5 * CHUNK_NAMES)])
    with within(5):
        assert packed.search("f" * 200, (), threading.Event()) == []


TIMED = [
    case for case in json.loads((CORPORA / "edits.json").read_text(encoding="utf-8"))["cases"] if "time_limit_s" in case
]


@pytest.mark.parametrize("case", TIMED, ids=lambda case: case["id"])
def test_an_edit_takes_no_longer_than_its_case_says(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / case.get("filename", "file.txt")
    if (before := content(case, "before")) is not None:
        path.write_bytes(before)
    with within(case["time_limit_s"]):
        corpora_adapters.apply_edit(str(path), expand(case["old"]), expand(case["new"]), bool(case.get("replace_all")))
