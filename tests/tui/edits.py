"""Approval requests for edits, in every state of their dialog."""

from __future__ import annotations

from tests.doubles.session import FakeSession
from tests.scenes import build
from tests.tui.kit import app_for
from tui_agent.common.domain import Action, Diff, EditAction, Grant, Scope
from tui_agent.events import Record
from tui_agent.text import SecretMask
from tui_agent.tools.diffs import diff_bytes
from tui_agent.tui.app import TuiAgentApp
from widgets.edit_modal import EditModal

OLD = '''\
"""Exports rows."""

from exporter.table import as_table


def export(rows, fmt="table"):
    return as_table(rows)


def columns(rows):
    names = []
    for row in rows:
        for name in row:
            if name not in names:
                names.append(name)
    return names


def main(argv=None):
    options = parse(argv)
    rows = load(options.path)
    print(export(rows))
    return 0
'''
NEW = '''\
"""Exports rows as a table or as JSON."""

import json

from exporter.table import as_table


def export(rows, fmt="table", *, indent=None):
    if fmt == "json":
        return json.dumps(list(rows), indent=indent)
    return as_table(rows)


def columns(rows):
    names = []
    for row in rows:
        for name in row:
            if name not in names:
                names.append(name)
    return names


def main(argv=None):
    options = parse(argv)
    rows = load(options.path)
    print(export(rows, options.fmt))
    return 0
'''
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
GRANTS = (
    Grant(kind="edit", pattern="src/export.py", scope=Scope.SESSION),
    Grant(kind="edit", pattern="src/*.py", scope=Scope.ALWAYS),
)


def edit_action(old: str | None = OLD, new: str = NEW, *, splittable: bool = True, context: int = 3) -> EditAction:
    before = None if old is None else old.encode()
    diff: Diff = diff_bytes("src/export.py", before, new.encode(), context)
    return EditAction(
        path="/home/ada/exporter/src/export.py",
        display="src/export.py",
        before="0" * 64,
        after="1" * 64,
        diff=diff,
        splittable=splittable,
    )


def approval_records(action: Action, *grants: Grant) -> list[Record]:
    scene = build.Scene().opened().ask("add a --json flag to the export command").reply()
    call = scene.call("write_file", path="src/export.py")
    scene.end("", call).start(call, "src/export.py")
    return scene.request(action, "Approval mode ask: edits inside the workspace", *grants).records


def edit_app(
    action: Action | None = None, *grants: Grant, mask: SecretMask | None = None, **more: object
) -> tuple[TuiAgentApp, FakeSession]:
    app, session = app_for(approval_records(action or edit_action(), *(grants or GRANTS)), **more)  # type: ignore[arg-type]  # its own
    if mask is not None:
        session.mask = mask
    return app, session


def edit_dialog(app: TuiAgentApp) -> EditModal:
    assert isinstance(app.screen, EditModal)
    return app.screen


def long_texts(count: int) -> tuple[str, str]:
    """Return two texts of `count` lines that differ in every third line."""
    old = [f"def function_{n}(value, other={n}): return value * {n} + other" for n in range(count)]
    new = [
        line.replace("value", "amount", 1) if n % 3 == 0 else line + "  # kept" if n % 5 == 0 else line
        for n, line in enumerate(old)
    ]
    return "\n".join(old) + "\n", "\n".join(new) + "\n"
