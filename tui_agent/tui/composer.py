"""The composer's ties to the disk, the session and the queue: nothing typed is lost, nothing is sent twice (U8)."""

from __future__ import annotations

import asyncio
import os
from asyncio import TimerHandle, to_thread
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from tui_agent.events import Record, SessionOpened
from tui_agent.tui import queue
from tui_agent.tui.mentions import Mentioning
from tui_agent.tui.outbox import Kept, Outbox
from widgets.drafting import Written
from widgets.later import after
from widgets.prompt_input import PromptInput
from widgets.ties import Ties

if TYPE_CHECKING:
    from textual.worker import WorkType

    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.composer_files import Desk
    from tui_agent.tui.door import SessionDoor

PAUSE = 0.5
"""Seconds from a change until it is written (R11.2: at most 1)."""
SHARE = 4
"""A write is followed by at least so many times its own duration without one."""
RETRY = 5.0
"""Seconds after a write that failed until the next."""
AHEAD = 0.5
"""Seconds that taking a message back waits for the disk."""


class Composer:
    """Keeps what stands in the composer on disk, beside the session; takes messages back from the queue."""

    def __init__(self, app: TuiAgentApp, prompt: PromptInput) -> None:
        self.app = app
        self.prompt = prompt
        self.outbox = Outbox()
        self._session: SessionDoor | None = None
        self._early: list[PromptInput.Submitted] = []
        """Sent before there was a session."""
        self._workspace = ""
        self.folder = ""
        """Where the session is going to work, as far as it is known before it is open."""
        self.saved_words = ""
        """What the user is told at the end of what was typed for no session."""
        self._unwritten = False
        """Something is new in the history and not in its file."""
        self._ready = False
        """What an earlier process left was read, so that it may be written over."""
        self._recovering = False
        self._on_disk = False
        """There may be a file."""
        self._failing = False
        """The last write failed."""
        self._dirty = False
        self._taking = False
        """A message is about to become the draft: what is on disk says so, and stays until it is."""
        self._timer: TimerHandle | None = None
        self._pause = PAUSE
        self._writing = asyncio.Lock()
        self.mentioning = Mentioning(app, prompt)
        prompt.ties = Ties(
            say=app.hints.say,
            changed=self.changed,
            send=self._send,
            remembered=self._remembered,
            past=self._past,
            key=self.mentioning.take,
            take_back=self._take_newest,
            edit_elsewhere=self.open_editor,
        )

    @cached_property
    def _desk(self) -> Desk:
        from tui_agent.tui.composer_files import Desk

        return Desk()

    def _do(self, work: Callable[[], Awaitable[object]]) -> None:
        """Called later, if at all: a coroutine made by now would be left unused when the screen ends first."""
        self.app.run_worker(cast("WorkType[Any]", work), exit_on_error=False)

    # --- the session ---

    def open(self, session: SessionDoor) -> None:
        """The session is there: what was sent before goes to it."""
        self._session = session
        self.mentioning.open()
        self._ready = session.begins == 0  # a new one has nothing of an earlier process
        early, self._early = self._early, []
        for message in early:
            self.app.on_prompt_input_submitted(message)
        if self._dirty:
            self.changed(False)

    def _send(self, text: str) -> str:
        message = self.outbox.send(text, beside=not self.prompt.parked.blank)
        self.changed(True)
        return message

    def done(self, message: str) -> None:
        """This one was no message for the session: a command of the user's own."""
        self.outbox.done(message)
        self.changed(True)

    def submit(self, message: PromptInput.Submitted) -> None:
        """Send a message; without a session as soon as there is one."""
        if self._session is None:
            self._early.append(message)
            return
        place = self.outbox.came_from(message.message)
        steering = (message.steering or place.steering) and self.app.view.busy
        before = next((one for one in place.behind if one in self.outbox.queue), "")
        self.app._work(
            self._session.send(message.text, steering=steering, message=message.message, before=before)
        )

    def look_at(self, record: Record) -> None:
        """A record arrived: a message that it holds needs no keeping any more."""
        event = record.event
        if isinstance(event, SessionOpened):
            self._workspace = event.workspace
            self._remembered(())
        if self.outbox.take(event):
            self.changed(False)
        if isinstance(event, queue.CHANGES):
            queue.look_at(self.app)
        session = self._session
        if session is not None and not self._ready and not self._recovering and record.seq >= session.begins:
            self._recovering = True
            self._do(partial(self._recover, session))

    async def _recover(self, session: SessionDoor) -> None:
        """Offer again what an earlier process left in the composer."""
        from tui_agent.tui import composer_files as files

        kept = await to_thread(files.read_kept, session.id)
        left = await to_thread(files.left_by_editors, session.id)
        self._on_disk = not kept.empty
        texts, aside, withdraw = self.outbox.recover(kept)
        for message in withdraw:
            session.withdraw_message(message)
        for one in aside:
            self.prompt.remember(one)
        if texts:
            self._offer(texts)
        self._ready = True
        self.changed(False)
        if new := [text for _path, text in left if text.rstrip("\n") != kept.draft.whole.rstrip("\n")]:
            for text in new:
                self.prompt.remember(Written(text=text))
            self.app.hints.say("what your editor had saved is in the history · up")
        if left and await self._append():
            await to_thread(files.forget_lent, left)

    def _offer(self, texts: list[Written]) -> None:
        if self.prompt.text:
            for one in texts:
                self.prompt.remember(one)
            self.app.hints.say("what was not sent is in the history · up")
        else:
            whole = "\n\n".join(self.prompt.chips.adopt(one) for one in texts)
            self.prompt.put(self.prompt.chips.within(whole))
            self.app.hints.say("this was not sent")

    # --- on disk ---

    def changed(self, at_once: bool) -> None:
        """What must survive is another now; it is written soon, `at_once` without waiting."""
        self._dirty = True
        if not self.prompt.text:
            self.outbox.emptied()
        if not self._ready:
            return
        if at_once and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = after(0.0 if at_once else self._pause, self.app, self._save)

    def save_now(self) -> None:
        """Write it, here and now: the program is about to end."""
        kept = self._kept()
        if self._session is None or not self._ready:
            texts = (*kept.aside, kept.draft, Written(text=self.app._draft))
            self._save_without_session([one for one in texts if not one.blank])
        elif self._on_disk or not kept.empty:
            self._desk.keep(self._session.id, kept, self._desk.number())
        if self._unwritten:
            self._append_now()

    def _save_without_session(self, texts: list[Written]) -> None:
        """No session was opened, or what an earlier process left in it was not read: what was typed meanwhile goes to
        the history of the folder."""
        if not (texts or self._unwritten):
            return
        self._desk.remember(texts)
        if self._append_now():
            self.saved_words = "What you typed is kept: up brings it back in the next session here."

    def _append_now(self) -> bool:
        where = self._workspace or (os.path.realpath(self.folder) if self.folder else "")
        self._unwritten = not (where and self._desk.append(where))
        return not self._unwritten

    def keep_edited(self, text: str) -> bool:
        """The program ends while an editor has the draft: what it saved goes to the history, here and now. False when
        it has to stay in its file."""
        from tui_agent.tui.composer_files import fits

        self._desk.remember([Written(text=text)])
        return self._append_now() and fits(text)

    def _kept(self) -> Kept:
        return self.outbox.kept(*self.prompt.kept())

    def _save(self) -> None:
        self._timer = None
        if self._dirty:
            self._do(self._write)

    async def _write(self, kept: Kept | None = None) -> bool:
        """Write `kept`, or what there is to keep by now. False when that failed; then it is tried again."""
        async with self._writing:
            if self._session is None or (kept is None and (self._taking or not self._dirty)):
                return True
            if kept is None:
                self._dirty, kept = False, self._kept()
            if kept.empty and not self._on_disk:
                return True
            self._on_disk = self._on_disk or not kept.empty
            begun = monotonic()
            written = await to_thread(self._desk.keep, self._session.id, kept, self._desk.number())
            self._pause = max(PAUSE, SHARE * (monotonic() - begun)) if written else RETRY
            self._on_disk = not (written and kept.empty)
        if not written:
            if not self._failing:
                self.app.hints.say("what you type can't be saved just now · it is tried again")
            self.changed(False)
        self._failing = not written
        return written

    def _remembered(self, new: Iterable[Written]) -> None:
        if texts := [*new]:
            self._desk.remember(texts)
            self._unwritten = True
        if self._workspace and self._unwritten:
            self._do(self._append)

    async def _append(self) -> bool:
        async with self._writing:
            written = await to_thread(self._desk.append, self._workspace)
            self._unwritten = self._unwritten and not written
            return written

    async def _past(self) -> list[Written]:
        from tui_agent.tui import composer_files as files

        async with self._writing:
            return await to_thread(files.read_past, self._workspace) if self._workspace else []

    # --- the queue ---

    async def _take_newest(self) -> Written | None:
        newest = self.outbox.newest_queued()
        return None if newest is None else await self._take_back(newest[0])

    async def _take_back(self, message: str) -> Written | None:
        """A message of the queue: on disk as a draft first, then out of the queue. None when it is not there."""
        session, text = self._session, self.outbox.queue.get(message)
        if session is None or text is None:
            self.app.hints.say(queue.GONE)
            return None
        if not await self._is_kept(message):
            self.app.hints.say("not taken back: it can't be saved as a draft")
            return None
        order = session.queue.order()
        if not session.withdraw_message(message):
            self.app.hints.say(queue.GONE)
            self.changed(True)
            return None
        self.prompt.set_aside()
        place = next((place for place, one in enumerate(order) if one[0] == message), len(order))
        self.outbox.took(message, text, [one for one, _ in order[place + 1 :]], (message, True) in order)
        self.app.hints.say("taken back from the queue")
        return Written(text=text)

    async def _is_kept(self, message: str) -> bool:
        """A message of the queue is on disk as the draft; False when that failed. A slow disk is not waited for."""
        if not self._ready:
            return True
        draft, aside = self.prompt.kept()
        aside = [one for one in (*aside, draft) if not one.blank]
        ahead = asyncio.ensure_future(self._write(self.outbox.taking(message, aside)))
        self._taking = True
        try:
            return await asyncio.wait_for(asyncio.shield(ahead), AHEAD)
        except TimeoutError:
            return True
        finally:
            self._taking = False

    def show_queue(self) -> None:
        """Every message that waits."""
        if self._session is not None:
            queue.show(self, self._session)

    def edit_queued(self, message: str) -> None:
        """A message of the queue becomes the draft; the one that is there is set aside."""

        async def edit() -> None:
            if (draft := await self._take_back(message)) is not None:
                self.prompt.put(draft)

        self._do(edit)

    # --- the user's own editor ---

    def open_editor(self) -> None:
        """Edit the draft in `$VISUAL` or `$EDITOR`; the terminal is the editor's until it ends."""
        from tui_agent.tui.lending import edit_draft

        self._do(partial(edit_draft, self.app, self.prompt, self._folder()))

    def _folder(self) -> Path | None:
        from tui_agent.tui.composer_files import session_folder

        return session_folder(self._session.id) if self._session is not None else None
