"""What a session is called: by its user, else by the small model once the first run has ended (S3, W18)."""

from __future__ import annotations

import asyncio
import logging
import re

from tui_agent.domain import Fault, SystemMessage, UserMessage
from tui_agent.engine.finishing import finished
from tui_agent.engine.roles import Roles
from tui_agent.engine.state import SessionStream
from tui_agent.engine.stream import JournalBroken
from tui_agent.engine.workplace import Workplace
from tui_agent.events import RunEnded, SessionTitled
from tui_agent.storage.folder import SessionFolder
from tui_agent.text import one_line

log = logging.getLogger(__name__)

TITLE_MAX = 100
"""Characters of a title."""
MADE_MAX = 60
"""Characters of one that a model makes."""
TALK = 80
"""Characters from which on a line is talk and no title."""
IDLE = 1.0
"""Seconds after a run in which its user may go on before the model is asked for a title: what they want comes first."""
QUIET = 60.0
"""Seconds that the model may be silent."""
_GLEANED = 1_000
"""Characters of request and answer that a title is made of."""
_LABEL = re.compile(r"^(?:[#>*\-\s]*)(?:\*\*)?title(?:\*\*)?\s*[:：-]\s*", re.IGNORECASE)
_AROUND = " \t#*_`\"'“”„«»‹›.:"


class Naming:
    """Gives a session that is open in this process a title."""

    def __init__(
        self, stream: SessionStream, folder: SessionFolder, roles: Roles, workplace: Workplace
    ) -> None:
        self._stream = stream
        self._folder = folder
        self._roles = roles
        self._workplace = workplace
        self._task: asyncio.Task[None] | None = None
        self._answered = False

    async def rename(self, title: str) -> str:
        """Call the session so, from now on; returns the title as it is kept, empty when there was nothing in it and
        nothing changed. Raises JournalBroken."""
        title = one_line(title, TITLE_MAX)
        if title:
            self._stream.emit(SessionTitled(title=title))
            await self._stream.durable()
            await asyncio.to_thread(lambda: self._folder.save(title=title))
        return title

    def after(self, run: str, request: str, ended: RunEnded) -> None:
        """A run has ended: have a title made in the background, unless there is one. Without it, when it fails, and
        until then the session is called by the first words that were said."""
        place = self._workplace
        wanted = place.attended and place.settings.titles and self._roles.model.provider != "scripted"
        if wanted and not (self._stream.state.named or self._answered) and ended.outcome == "done":
            self._task = asyncio.create_task(self._name(run, request, ended.text))

    def pause(self) -> None:
        """The user goes on: the model is theirs."""
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """Ask no more."""
        self.pause()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _name(self, run: str, request: str, answer: str) -> None:
        try:
            await asyncio.sleep(IDLE)
            title = await self._made(run, request, answer)
            if title and not self._stream.state.named:
                await finished(self.rename(title))
        except JournalBroken as error:
            log.error("the title can't be saved: %s", error)
        except Exception:
            log.exception("no title was made")

    async def _made(self, run: str, request: str, answer: str) -> str:
        from tui_agent.engine.prompts import prompt
        from tui_agent.engine.structured import Question, Structured

        brain = await self._roles.brain()
        if isinstance(brain, RunEnded):
            return ""
        talk = f"The user:\n{request[:_GLEANED]}\n\nThe agent:\n{answer[:_GLEANED]}"
        messages = (SystemMessage(text=prompt("title")), UserMessage(text=talk))
        structured = Structured(run=run, stream=self._stream, roles=self._roles, brain=brain)
        said = await structured.ask("title", Question(alone=messages), parent=run, schema=None, quiet=QUIET)
        self._answered = not isinstance(said, Fault)
        return "" if isinstance(said, Fault) else title_in(said.text)


def title_in(text: str) -> str:
    """The title in a model's reply; empty where it holds none."""
    line = next((one.strip() for one in text.splitlines() if one.strip(_AROUND)), "")
    if len(line) > TALK or line.startswith(("{", "[", "<", "```")):
        return ""
    return one_line(_LABEL.sub("", line).strip(_AROUND), MADE_MAX)
