from __future__ import annotations

from tests.scenes import build
from tests.tui.kit import app_for, wait_until_rendered
from tui_agent import events as e
from tui_agent.common.domain import Diff, FileChange, Hunk, ToolResult
from tui_agent.common.symbols import Diagnostic
from tui_agent.events import Record

BROKEN = (
    Diagnostic(kind="error", line=2, message='"prize" is not defined', code="reportUndefinedVariable", new=True),
    Diagnostic(
        kind="error",
        line=2,
        message='Operator "*" not supported for types "Unknown" and "str"\n  in the order of a bill with a tax',
        new=True,
    ),
)


def change(name: str, old: str, new: str) -> tuple[FileChange, Diff]:
    hunk = Hunk(old_start=2, old_count=1, new_start=2, new_count=1, lines=(f"-{old}", f"+{new}"))
    diff = Diff(path=name, kind="modify", hunks=(hunk,), added=1, removed=1)
    made = FileChange(
        path=f"/w/{name}", display=name, kind="modify", added=1, removed=1, before="1" * 64, after="2" * 64
    )
    return made, diff


def written(scene: build.Scene, old: str, new: str, found: tuple[Diagnostic, ...] = ()) -> None:
    call = scene.call("edit_file", path="src/bill.py")
    scene.end("", call).start(call, "src/bill.py")
    made, diff = change("src/bill.py", old, new)
    scene.emit(e.FileChanged(change=made, diff=diff))
    if found:
        scene.emit(e.DiagnosticsReported(path=made.path, display=made.display, found=found))
    scene.finish(call, ToolResult(success=True, data="Edited.", changes=(made,)), 840)


def scene() -> list[Record]:
    made = build.Scene().opened().ask("Add the tax to the bill").reply()
    written(made, "    return price * count", "    return prize * count * TAX", BROKEN)
    made.reply()
    written(made, "    return prize * count * TAX", "    return price * count * TAX")
    return made.reply().write("The bill has its tax.").end("The bill has its tax.").done().records


def test_errors_after_a_write(snap_compare) -> None:
    app, _session = app_for(scene())
    assert snap_compare(app, terminal_size=(100, 26), run_before=wait_until_rendered)
