"""Run in a pseudo terminal by the tests: the real screen on a recorded session. Arguments: scene, what goes wrong.

With `--demo` for the scene it is the whole program, and the keys F5 to F10 make it fail.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from tests.doubles.session import FakeSession
from tests.doubles.terminal import enable_stack_dumps
from tests.scenes import build, load
from tui_agent import events as e
from tui_agent.common.domain import Answer
from tui_agent.common.paths import data_dir
from tui_agent.events import Record
from tui_agent.tui import run
from tui_agent.tui.app import TuiAgentApp
from tui_agent.tui.run import run_tui


class Broken(FakeSession):
    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        secret = "local-variable-0815"
        raise RuntimeError(f"it broke after {len(secret)} characters")


class Slow(FakeSession):
    async def close(self, reason: str = "user") -> None:
        await asyncio.sleep(60)


class Threaded(FakeSession):
    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        threading.Thread(target=fail, args=("a thread",)).start()
        return await super().send(text)


class Refusing(FakeSession):
    def answer(self, request_id: str, answer: Answer) -> bool:
        raise ValueError("the handler broke")


class Told(FakeSession):
    """Shows what the composer sent, with what a screen would not show."""

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        return await super().send(f"sent {text!a}")


class Resumed(Told):
    """One that an earlier process left."""

    def __init__(self, records: list[Record] | None = None) -> None:
        super().__init__(records)
        self.replay_end = len(self.records)


class Flowing(FakeSession):
    """Says three hundred lines, one every ten milliseconds; or with `pace` 0 all of them at once."""

    pace = 0.01

    async def follow(self, after: int = 0) -> AsyncGenerator[Record, None]:
        self.push(e.RunStarted(message_id="m", mode="direct", model="m"), run="r9")
        self.push(e.ReplyStarted(model="m", iteration=1, messages=1, estimate=1), node="r99", run="r9")
        talk = asyncio.create_task(self._talk())
        async for record in super().follow(after):
            yield record
        talk.cancel()

    async def _talk(self) -> None:
        for number in range(300):
            self.push(e.TextDelta(text=f"flow {number} " + "and so on " * 5 + "\n\n"), node="r99", run="r9")
            if self.pace:
                await asyncio.sleep(self.pace)
        text = "the flow ends"
        self.push(e.TextDelta(text=text), node="r99", run="r9")
        self.push(e.ReplyEnded(text="flow"), node="r99", run="r9")
        self.push(e.RunEnded(outcome="done", text=text, ms=3000), run="r9")


class Flowed(Flowing):
    pace = 0.0


class Noted(Flowing):
    """Leaves a file when all of it is said."""

    pace = 0.002

    async def _talk(self) -> None:
        await super()._talk()
        (data_dir() / "over").touch()


KINDS = {
    "noted": Noted,
    "flowing": Flowing,
    "flowed": Flowed,
    "handler": Refusing,
    "": FakeSession,
    "broken": Broken,
    "slow": Slow,
    "threaded": Threaded,
    "told": Told,
    "resumed": Resumed,
}


def fail(what: str) -> None:
    raise RuntimeError(f"{what} broke")


class FailingApp(TuiAgentApp):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"break('{how}')", show=False, priority=True)
        for key, how in {
            "f5": "key",
            "f6": "worker",
            "f7": "thread_worker",
            "f8": "input",
            "f9": "exit",
            "f10": "unmount",
        }.items()
    ]
    unmount_fails = False

    def action_break(self, how: str) -> None:
        getattr(self, f"break_{how}")()

    def break_key(self) -> None:
        fail("a key")

    def break_worker(self) -> None:
        async def work() -> None:
            await asyncio.sleep(0)
            fail("a worker")

        self.run_worker(work())

    def break_thread_worker(self) -> None:
        self.run_worker(lambda: fail("a thread worker"), thread=True)

    def break_input(self) -> None:
        def process_message(message: Any) -> None:
            fail("the input")

        assert self._driver is not None
        self._driver.process_message = process_message  # type: ignore[method-assign]  # the next key fails

    def break_exit(self) -> None:
        sys.exit(3)

    def break_unmount(self) -> None:
        self.unmount_fails = True
        self.exit(0)

    def on_unmount(self) -> None:
        if self.unmount_fails:
            fail("the end")


def linked_records(workspace: str) -> list[Record]:
    """A session in a folder, with a reply that names a line of a file and a URL."""
    text = "The bug is in app.py:12, see https://example.com/a for why."
    return build.Scene().opened(workspace=workspace).ask("why").reply().write(text).end(text).done().records


async def open_session() -> FakeSession:
    if sys.argv[1] == "--hostile":
        from tests.doubles import hostile
        from tests.tui.test_hostile import cleaned

        records = hostile.hostile_session(hostile.hostile_texts(300, 7))
        return FakeSession(records if sys.argv[2] == "raw" else cleaned(records))
    if sys.argv[1] == "links":
        return KINDS["".join(sys.argv[2:])](linked_records(os.environ["PLACE"]))
    if sys.argv[2:] == ["locked"]:
        from tui_agent.engine.options import SessionOpenError

        raise SessionOpenError("Another tui-agent has this session open.", 2)
    if sys.argv[2:] == ["late"]:
        from tui_agent.engine.options import SessionOpenError

        while not (data_dir() / "go").exists():  # noqa: ASYNC110 - the test makes it
            await asyncio.sleep(0.02)
        raise SessionOpenError("The session can't be opened.", 2)
    return KINDS["".join(sys.argv[2:])](load(sys.argv[1]))


if __name__ == "__main__":
    if "TUI_AGENT_NO_STACKS" not in os.environ:
        enable_stack_dumps()
    if sys.argv[1] == "--demo":
        from tui_agent import __main__ as program

        vars(run)["TuiAgentApp"] = FailingApp  # the same app with six more keys
        vars(program)["_delete_sessions"] = lambda workspace: None  # the tests read its journal
        sys.exit(program.main(["--demo"]))
    code = run_tui(open_session, folder=".")
    sys.exit(code if isinstance(code, int) else 0)
