from __future__ import annotations

import functools
import os
import stat
from pathlib import Path

import pytest

from tests.doubles.fake_tool_context import FakeToolContext
from tests.tools.calling import call
from tui_agent.common.domain import EditAction, ReadAction
from tui_agent.platform.files import sha256_of
from tui_agent.tools.wording import MAX_RESULT_SIZE


def put(ctx: FakeToolContext, name: str, data: bytes | str) -> Path:
    path = ctx.roots[0] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
    return path


# --- read_file ---


async def test_read_gives_numbered_lines_and_remembers_the_hash(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.py", "one\ntwo\n")
    result = await call(ctx, "read_file", path="a.py")
    assert result.data == "1\tone\n2\ttwo"
    assert ctx.last_seen(path) == sha256_of(b"one\ntwo\n")
    assert ctx.actions == []


async def test_read_a_part_says_which_and_how_to_go_on(ctx: FakeToolContext) -> None:
    put(ctx, "a", "".join(f"l{number}\n" for number in range(1, 11)))
    result = await call(ctx, "read_file", path="a", start_line=3, end_line=4)
    assert result.data == "3\tl3\n4\tl4\n[lines 3-4 of 10; go on with start_line=5]"
    assert (await call(ctx, "read_file", path="a", start_line=0, end_line=1)).data.startswith("1\tl1\n[")
    assert (await call(ctx, "read_file", path="a", start_line=9)).data == "9\tl9\n10\tl10\n[lines 9-10 of 10]"


async def test_read_beyond_the_end_and_backwards(ctx: FakeToolContext) -> None:
    put(ctx, "a", "x\n")
    result = await call(ctx, "read_file", path="a", start_line=5)
    assert result.code == "out_of_range" and "1 lines" in str(result.error)
    assert (await call(ctx, "read_file", path="a", start_line=5, end_line=2)).code == "bad_arguments"


async def test_read_long_files_in_parts_with_progress(ctx: FakeToolContext) -> None:
    lines = [f"line number {number} of many, with some text behind it" for number in range(1, 3001)]
    put(ctx, "a", "\n".join(lines) + "\n")
    seen: list[str] = []
    start = 1
    for _ in range(20):
        result = await call(ctx, "read_file", path="a", start_line=start)
        assert len(result.data) < MAX_RESULT_SIZE + 200
        body, _, note = result.data.rpartition("\n[")
        seen += [line.partition("\t")[2] for line in body.split("\n")]
        if "go on with" not in note:
            break
        start = int(note.rpartition("=")[2].rstrip("]"))
    assert seen == lines
    assert ctx.outputs[0] == "100 lines read\n"


async def test_read_very_long_lines_are_cut_and_counted(ctx: FakeToolContext) -> None:
    put(ctx, "a", "x" * 5000 + "\nshort\n")
    result = await call(ctx, "read_file", path="a")
    assert "… [3,000 more characters]\n2\tshort" in result.data


async def test_read_names_binary_folders_and_missing_files(ctx: FakeToolContext) -> None:
    put(ctx, "p.png", b"\x89PNG\r\n\x1a\n\0\0")
    put(ctx, "src/main.py", "")
    os.mkfifo(ctx.roots[0] / "pipe")
    result = await call(ctx, "read_file", path="p.png")
    assert result.code == "binary" and "PNG image (10 bytes)" in str(result.error)
    result = await call(ctx, "read_file", path="src")
    assert result.code == "not_regular" and "list_files" in str(result.error)
    result = await call(ctx, "read_file", path="src/man.py")
    assert result.code == "file_not_found" and "main.py" in str(result.error)
    assert (await call(ctx, "read_file", path="pipe")).code == "not_regular"
    assert (await call(ctx, "read_file", path="src/main.py")).data == "[the file is empty]"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("é\n".encode("latin-1"), "1\té\n[probably latin-1]"),
        (b"\xef\xbb\xbfa\n", "1\ta\n[utf-8 with BOM]"),
        (b"\xff\xfe" + "é\r\n".encode("utf-16-le"), "1\té\n[utf-16-le with BOM; CRLF line ends]"),
        (b"a\r\nb\n", "1\ta\n2\tb\n[mixed line ends]"),
        (b"a\rb\r", "1\ta\n2\tb"),
        (b"a", "1\ta\n[no newline at the end]"),
        ("ü 日 ü 日\n".encode() + b"\xff\n", "1\tü 日 ü 日\n2\t\\udcff\n[probably utf-8 with invalid bytes]"),
    ],
)
async def test_read_finds_the_encoding_and_says_what_lines_hide(ctx: FakeToolContext, data: bytes, shown: str) -> None:
    put(ctx, "a", data)
    assert (await call(ctx, "read_file", path="a")).data == shown


async def test_read_in_a_named_encoding(ctx: FakeToolContext) -> None:
    put(ctx, "a", "Привет\n".encode("koi8_r"))
    assert (await call(ctx, "read_file", path="a", encoding="koi8-r")).data == "1\tПривет"
    for wrong in ("nonsense", "base64"):
        assert (await call(ctx, "read_file", path="a", encoding=wrong)).code == "bad_arguments"


async def test_read_outside_and_of_credentials_asks(
    ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x"
    outside.write_text("far\n")
    put(ctx, ".env", "KEY=1\n")
    ctx.credentials = {".env"}
    assert (await call(ctx, "read_file", path=str(outside))).data == "1\tfar"
    assert (await call(ctx, "read_file", path=".env")).success
    asked = [(action.outside, action.credentials) for action in ctx.actions if isinstance(action, ReadAction)]
    assert asked == [(True, False), (False, True)]
    ctx.refuse = True
    assert (await call(ctx, "read_file", path=".env")).code == "refused"


async def test_write_does_not_confirm_a_guess_at_what_needs_leave_to_read(
    ctx: FakeToolContext, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "x"
    outside.write_text("far\n")
    put(ctx, ".env", "KEY=1\n")
    ctx.credentials = {".env"}
    for path, guess in ((".env", "KEY=1\n"), (str(outside), "far\n")):
        right = await call(ctx, "write_file", path=path, content=guess)
        wrong = await call(ctx, "write_file", path=path, content="other\n")
        assert right == wrong and right.code == "not_read"


async def test_read_files_too_large_to_hold_are_streamed(ctx: FakeToolContext) -> None:
    path = ctx.roots[0] / "big"
    with path.open("wb") as file:
        file.write("é first\r\n".encode())
        file.write(b"x" * (20 * 1024 * 1024) + b"\n")
        file.write(b"last")
    result = await call(ctx, "read_file", path="big")
    lines = result.data.split("\n")
    assert lines[0] == "1\té first"
    assert lines[1].startswith("2\txxx") and lines[1].endswith("… [20,969,520 more characters]")
    assert lines[2] == "3\tlast"
    assert lines[3] == "[large file, 20,971,535 bytes]"
    assert ctx.last_seen(path) is None
    assert (await call(ctx, "read_file", path="big", start_line=3)).data.startswith("3\tlast\n[lines 3-3 of 3;")
    assert (await call(ctx, "read_file", path="big", start_line=4)).code == "out_of_range"
    assert (await call(ctx, "edit_file", path="big", old_string="last", new_string="x")).code == "too_large"


# --- write_file ---


async def test_write_makes_folders_and_asks_with_the_diff(ctx: FakeToolContext) -> None:
    result = await call(ctx, "write_file", path="x/y/a.py", content="one\ntwo\n")
    path = ctx.roots[0] / "x/y/a.py"
    assert path.read_bytes() == b"one\ntwo\n"
    assert result.data == "Created x/y/a.py (+2 -0)"
    (editing,) = ctx.actions
    assert isinstance(editing, EditAction) and editing.before is None and editing.diff.kind == "create"
    assert [change.kind for change in result.changes] == ["create"]
    assert ctx.last_seen(path) == sha256_of(b"one\ntwo\n")


async def test_write_refused_changes_nothing(ctx: FakeToolContext) -> None:
    ctx.refuse = True
    assert (await call(ctx, "write_file", path="x/a", content="1")).code == "refused"
    assert os.listdir(ctx.roots[0]) == []


async def test_write_over_an_unread_file_is_refused_with_advice(ctx: FakeToolContext) -> None:
    path = put(ctx, "a", "theirs\n")
    result = await call(ctx, "write_file", path="a", content="mine\n")
    assert result.code == "not_read" and "Read it first" in str(result.error)
    assert path.read_bytes() == b"theirs\n"
    await call(ctx, "read_file", path="a")
    assert (await call(ctx, "write_file", path="a", content="mine\n")).success
    assert (await call(ctx, "write_file", path="a", content="mine again\n")).success


async def test_write_over_an_empty_file_is_free(ctx: FakeToolContext) -> None:
    put(ctx, "a", "")
    assert (await call(ctx, "write_file", path="a", content="x\n")).success


async def test_write_over_a_file_that_changed_is_refused(ctx: FakeToolContext) -> None:
    path = put(ctx, "a", "one\n")
    await call(ctx, "read_file", path="a")
    path.write_text("theirs\n")
    assert (await call(ctx, "write_file", path="a", content="mine\n")).code == "changed"
    ctx.mark_seen(path, sha256_of(b"theirs\n"))
    ctx.on_permit = [lambda: put(ctx, "a", "theirs again\n")]
    assert (await call(ctx, "write_file", path="a", content="mine\n")).code == "changed"
    assert path.read_text() == "theirs again\n"


async def test_write_of_the_same_content_asks_nobody(ctx: FakeToolContext) -> None:
    put(ctx, "a", "same\n")
    result = await call(ctx, "write_file", path="a", content="same\n")
    assert result.success and result.changes == () and ctx.actions == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\ny\n"),
        (b"\xff\xfe" + "a\r\n".encode("utf-16-le"), b"\xff\xfe" + "x\r\ny\r\n".encode("utf-16-le")),
        (b"a\r\nb\n", b"x\ny\n"),
    ],
)
async def test_write_keeps_line_ends_and_encoding_of_the_old_file(
    ctx: FakeToolContext, before: bytes, after: bytes
) -> None:
    path = put(ctx, "a", before)
    await call(ctx, "read_file", path="a")
    assert (await call(ctx, "write_file", path="a", content="x\ny\n")).success
    assert path.read_bytes() == after


async def test_write_of_half_a_character_is_an_error(ctx: FakeToolContext) -> None:
    assert (await call(ctx, "write_file", path="a", content="\ud83d")).code == "encoding"
    assert os.listdir(ctx.roots[0]) == []


# --- edit_file ---


async def test_edit_tells_rung_place_and_counts(ctx: FakeToolContext) -> None:
    path = put(ctx, "a.sh", "one\ntwo\nthree\n")
    path.chmod(0o755)
    result = await call(ctx, "edit_file", path="a.sh", old_string="two", new_string="2\n2b")
    assert result.data == "Edited a.sh at line 2; matched exactly (+2 -1)"
    assert path.read_bytes() == b"one\n2\n2b\nthree\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    (editing,) = ctx.actions
    assert isinstance(editing, EditAction) and editing.diff.hunks[0].lines[1:4] == ("-two", "+2", "+2b")
    put(ctx, "b", "a  \nb\n")
    result = await call(ctx, "edit_file", path="b", old_string="a\nb\n", new_string="A\nB\n")
    assert "matched by overlooking blanks at line ends" in result.data


async def test_edit_a_never_read_file_but_not_a_stale_one(ctx: FakeToolContext) -> None:
    path = put(ctx, "a", "one\ntwo\n")
    assert (await call(ctx, "edit_file", path="a", old_string="one", new_string="1")).success
    assert (await call(ctx, "edit_file", path="a", old_string="two", new_string="2")).success
    path.write_text("theirs 2\n")
    result = await call(ctx, "edit_file", path="a", old_string="2", new_string="3")
    assert result.code == "changed" and "Read it again" in str(result.error)
    assert path.read_text() == "theirs 2\n"


async def test_edit_is_worked_out_again_when_the_file_changes_while_somebody_decides(ctx: FakeToolContext) -> None:
    path = put(ctx, "a", "one\ntwo\n")
    ctx.on_permit = [lambda: put(ctx, "a", "zero\none\ntwo\n")]
    result = await call(ctx, "edit_file", path="a", old_string="two", new_string="2")
    assert result.data.startswith("Edited a at line 3")
    assert path.read_text() == "zero\none\n2\n"
    assert len(ctx.actions) == 2
    assert len({action.before for action in ctx.actions if isinstance(action, EditAction)}) == 2


async def test_edit_gives_up_on_a_file_that_never_rests(ctx: FakeToolContext) -> None:
    ctx.on_permit = [functools.partial(put, ctx, "a", f"{number}\ntwo\n") for number in range(9)]
    path = put(ctx, "a", "one\ntwo\n")
    result = await call(ctx, "edit_file", path="a", old_string="two", new_string="2")
    assert result.code == "changed"
    assert len(ctx.actions) == 3
    assert path.read_text() == "2\ntwo\n"


async def test_edit_errors_reach_the_model(ctx: FakeToolContext) -> None:
    put(ctx, "a", "one\none\n")
    put(ctx, "bin", b"a\0b")
    for old, code in (("one", "not_unique"), ("none", "not_found"), ("", "empty_old")):
        assert (await call(ctx, "edit_file", path="a", old_string=old, new_string="x")).code == code
    assert (await call(ctx, "edit_file", path="bin", old_string="a", new_string="x")).code == "binary"
    assert (await call(ctx, "edit_file", path="none", old_string="a", new_string="x")).code == "file_not_found"
    assert ctx.actions == []


async def test_edit_refused_leaves_the_file(ctx: FakeToolContext) -> None:
    path = put(ctx, "a", "one\n")
    ctx.refuse = True
    assert (await call(ctx, "edit_file", path="a", old_string="one", new_string="1")).code == "refused"
    assert path.read_text() == "one\n"
