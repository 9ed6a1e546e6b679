"""Run in a pseudo terminal by the tests: the real screen on a recorded session. Arguments: scene, what goes wrong."""

from __future__ import annotations

import sys
import threading

from tests.doubles.session import FakeSession
from tests.scenes import load
from tui_agent.domain import Answer
from tui_agent.tui.run import run_tui


class Broken(FakeSession):
    async def send(self, text: str, *, steering: bool = False) -> str:
        secret = "local-variable-0815"
        raise RuntimeError(f"it broke after {len(secret)} characters")


class Slow(FakeSession):
    async def close(self, reason: str = "user") -> None:
        import asyncio

        await asyncio.sleep(60)


class Threaded(FakeSession):
    async def send(self, text: str, *, steering: bool = False) -> str:
        def fail() -> None:
            raise RuntimeError("a thread broke")

        threading.Thread(target=fail).start()
        return await super().send(text)


class Refusing(FakeSession):
    def answer(self, request_id: str, answer: Answer) -> bool:
        raise ValueError("the handler broke")


KINDS = {"handler": Refusing, "": FakeSession, "broken": Broken, "slow": Slow, "threaded": Threaded}


async def open_session() -> FakeSession:
    if sys.argv[2:] == ["locked"]:
        from tui_agent.engine.wishes import CannotOpen

        raise CannotOpen("Another tui-agent has this session open.", 2)
    return KINDS["".join(sys.argv[2:])](load(sys.argv[1]))


if __name__ == "__main__":
    sys.exit(run_tui(open_session))
