"""The composer's ties to the disk, the session and the queue: nothing typed is lost, nothing is sent twice (U8)."""

from __future__ import annotations

import asyncio
import os
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from tui_agent.events import (
    MessageChanged,
    MessageMoved,
    MessageQueued,
    MessageWithdrawn,
    Record,
    SessionOpened,
    UserMessageAdded,
)
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.mention_completion import MentionCompletion
from tui_agent.tui.outbox import ComposerState, Outbox
from widgets.composer_history import ENTRIES, DraftText
from widgets.composer_host import ComposerHost
from widgets.prompt_input import PromptInput
from widgets.request_view import call_later_once

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi

T = TypeVar("T")

QUEUE_EVENTS = (MessageQueued, MessageChanged, MessageMoved, MessageWithdrawn, UserMessageAdded)
"""Events that change the queue."""
GONE = "that message was just sent"
"""A message is not in the queue any more."""
PAUSE = 0.5
"""Seconds from a change until it is written (at most 1)."""
SHARE = 4
"""A write is followed by at least so many times its own duration without one."""
RETRY = 5.0
"""Seconds after a write that failed until the next."""
AHEAD = 0.5
"""Seconds that taking a message back waits for the disk."""


class Composer:
    """Saves the composer's text beside the session; takes messages back from the queue."""

    def __init__(self, app: BaseApp, *, draft: str = "") -> None:
        """`draft` is the text to start with."""
        self.app = app
        self.prompt = prompt = app.prompt
        self._initial_draft = draft
        self.outbox = Outbox()
        self._session: SessionApi | None = None
        self._early: list[PromptInput.Submitted] = []
        """Sent before there was a session."""
        self._workspace = ""
        self.folder = ""
        """Where the session is going to work, as far as it is known before it is open."""
        self.exit_message = ""
        """A line for the user at exit about text that was typed before any session was open."""
        self._new: list[DraftText] = []
        """What is new in the history and not in its file."""
        self._disk = ThreadPoolExecutor(1, "composer")
        """One thread for all files: no write comes before an earlier one, or over a later one."""
        self._ready = False
        """What an earlier process left was read, so that it may be written over."""
        self._recovering = False
        self._failing = False
        """The last write failed."""
        self._dirty = False
        self._taking = False
        """A queued message is about to become the draft: the file says so already, and must not be overwritten."""
        self._timer: TimerHandle | None = None
        self._pause = PAUSE
        self.completion = MentionCompletion(app, prompt)
        prompt.host = ComposerHost(
            say=app.hints.say,
            changed=self.changed,
            send=self._send,
            remembered=self._add_to_history,
            past=self._load_history,
            key=self.completion.take,
            take_back=self._take_newest,
            edit_elsewhere=self.open_editor,
        )

    # --- the session ---

    def insert_initial_draft(self) -> None:
        """Put the text to start with into the composer."""
        self.prompt.take_typed(self._initial_draft)
        self._initial_draft = ""

    def open(self, session: SessionApi) -> list[PromptInput.Submitted]:
        """The session is open. Returns what was submitted before."""
        self._session = session
        self.completion.open()
        self._ready = session.begins == 0  # a new one has nothing of an earlier process
        if self._dirty:
            self.changed(False)
        early, self._early = self._early, []
        return early

    def _send(self, text: str) -> str:
        message = self.outbox.send(text, beside=not self.prompt.parked.blank)
        self.changed(True)
        return message

    def done(self, message: str) -> None:
        """This was a shell command of the user, not a message."""
        self.outbox.discard(message)
        self.changed(True)

    def submit(self, message: PromptInput.Submitted) -> None:
        """Send a message; without a session as soon as there is one."""
        if self._session is None:
            self._early.append(message)
            return
        place = self.outbox.pop_place(message.message)
        steering = (message.steering or place.steering) and self.app.view.busy
        before = next((one for one in place.behind if one in self.outbox.queue), "")
        send = partial(self._session.send, steering=steering, message=message.message, before=before)
        self.app.work(send, message.text)

    def on_session_opened(self, record: Record) -> None:
        """The workspace is known, and with it the file of the history."""
        assert isinstance(record.event, SessionOpened)
        self._workspace = record.event.workspace
        self._add_to_history(())

    def on_message(self, record: Record) -> None:
        """The queue changed, or a message was delivered and needs no saving any more."""
        if self.outbox.take(record.event):
            self.changed(False)
        if (refresh := getattr(self.app.screen, "refresh_queue", None)) is not None:
            refresh()

    def past_is_read(self) -> None:
        """All records of earlier processes came: look once for what one of them left in the composer."""
        if self._session is not None and not self._ready and not self._recovering:
            self._recovering = True
            self.app.work(self._recover, self._session)

    async def _recover(self, session: SessionApi) -> None:
        """Offer again what an earlier process left in the composer."""
        from tui_agent.tui import external_editor as files

        kept = await self._in_order(files.read_state, session.id)
        left = await self._in_order(files.find_editor_files, session.id)
        texts, aside, withdraw = self.outbox.recover(kept)
        for message in withdraw:
            session.withdraw_message(message)
        for one in aside:
            self.prompt.remember(one)
        if texts:
            self._restore_texts(texts)
        self._ready = True
        self.changed(False)
        if new := [text for _path, text in left if text.rstrip("\n") != kept.draft.whole.rstrip("\n")]:
            for text in new:
                self.prompt.remember(DraftText(text=text))
            self.app.hints.say("the text from your editor is in the history · up")
        written = await self._in_order(self._append)
        if written and left:
            await self._in_order(files.remove_editor_files, left)

    def _restore_texts(self, texts: list[DraftText]) -> None:
        if self.prompt.text:
            for one in texts:
                self.prompt.remember(one)
            self.app.hints.say("the unsent text is in the history · up")
        else:
            whole = "\n\n".join(self.prompt.chips.adopt(one) for one in texts)
            self.prompt.put(self.prompt.chips.within(whole))
            self.app.hints.say("not sent")

    # --- on disk ---

    def changed(self, at_once: bool) -> None:
        """What must survive is another now; it is written soon, `at_once` without waiting."""
        self._dirty = True
        if not self.prompt.text:
            self.outbox.draft_cleared()
        if not self._ready:
            return
        if at_once and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            write = partial(self.app.work, self._write)
            self._timer = call_later_once(0.0 if at_once else self._pause, self.app, write)

    def save_now(self) -> None:
        """Write it, here and now: the program is about to end."""
        from tui_agent.tui.external_editor import write_state

        kept = self._state()
        if self._session is not None and self._ready:
            self._disk.submit(write_state, self._session.id, kept).result()
            self._append_now()
            return
        # What an earlier process left was not read: what was typed meanwhile goes to the history of the folder.
        texts = (*kept.aside, kept.draft, DraftText(text=self._initial_draft))
        self._new += [one for one in texts if not one.blank]
        if self._new and self._append_now():
            self.exit_message = "Your draft is saved: up restores it in the next session here."

    def save_edited(self, text: str) -> bool:
        """The program ends while an editor has the draft: what it saved goes to the history, here and now. False when
        it has to stay in its file."""
        from tui_agent.tui.external_editor import fits

        self._new.append(DraftText(text=text))
        return self._append_now() and fits(text)

    def _append_now(self) -> bool:
        return not self._new or self._disk.submit(self._append).result()

    def _state(self) -> ComposerState:
        return self.outbox.state(*self.prompt.kept())

    def _in_order(self, do: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        """Blocking work on the composer's files, in the order of the calls."""
        return asyncio.get_running_loop().run_in_executor(self._disk, do, *arguments)

    async def _write(self, kept: ComposerState | None = None) -> bool:
        """Write `kept`, or the current state. False when that failed; then it is retried."""
        from tui_agent.tui.external_editor import write_state

        if kept is None:
            self._timer = None
            if self._taking or not self._dirty:
                return True
            self._dirty, kept = False, self._state()
        if self._session is None:
            return True
        begun = monotonic()
        written = await self._in_order(write_state, self._session.id, kept)
        self._pause = max(PAUSE, SHARE * (monotonic() - begun)) if written else RETRY
        if not written:
            if not self._failing:
                self.app.hints.say("draft not saved · retrying")
            self.changed(False)
        self._failing = not written
        return written

    def _add_to_history(self, new: Iterable[DraftText]) -> None:
        self._new += new
        if self._workspace and self._new:
            self._disk.submit(self._append)

    def _append(self) -> bool:
        """Write what is new into the history, in the thread; what fails stays for the next time."""
        from tui_agent.tui import external_editor as files

        where = self._workspace or (os.path.realpath(self.folder) if self.folder else "")
        new = [*self._new]
        if new and not (where and files.append_history(where, new)):
            del self._new[:-ENTRIES]
            return False
        del self._new[: len(new)]
        return True

    async def _load_history(self) -> list[DraftText]:
        from tui_agent.tui.external_editor import read_history

        return await self._in_order(read_history, self._workspace) if self._workspace else []

    # --- the queue ---

    async def _take_newest(self) -> DraftText | None:
        newest = self.outbox.newest_queued()
        return None if newest is None else await self._take_back(newest[0])

    async def _take_back(self, message: str) -> DraftText | None:
        """A message of the queue: on disk as a draft first, then out of the queue. None when it is not there."""
        session, text = self._session, self.outbox.queue.get(message)
        if session is None or text is None:
            self.app.hints.say(GONE)
            return None
        if not await self._save_as_draft(message):
            self.app.hints.say("not withdrawn: it can't be saved as a draft")
            return None
        order = session.queue.order()
        if not session.withdraw_message(message):
            self.app.hints.say(GONE)
            self.changed(True)
            return None
        self.prompt.set_aside()
        place = next((place for place, one in enumerate(order) if one[0] == message), len(order))
        self.outbox.edit_queued(message, text, [one for one, _ in order[place + 1 :]], (message, True) in order)
        self.app.hints.say("withdrawn from the queue")
        return DraftText(text=text)

    async def _save_as_draft(self, message: str) -> bool:
        """A message of the queue is on disk as the draft; False when that failed. A slow disk is not waited for."""
        if not self._ready:
            return True
        draft, aside = self.prompt.kept()
        aside = [one for one in (*aside, draft) if not one.blank]
        ahead = asyncio.ensure_future(self._write(self.outbox.state_taking(message, aside)))
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
            from widgets.queue_panel import QueuePanel

            queue = self._session.queue
            self.app.push_screen(QueuePanel(self.app.view, queue, edit=self.edit_queued, withdraw=self.withdraw))

    def withdraw(self, message: str) -> None:
        """Out of the queue; it stays in the history."""
        text = self.outbox.queue.get(message)
        if text is not None and self._session is not None and self._session.withdraw_message(message):
            self.prompt.remember(DraftText(text=text))
            self.app.hints.say("withdrawn · it is in the history · up")
        else:
            self.app.hints.say(GONE)

    def edit_queued(self, message: str) -> None:
        """A queued message becomes the draft; the current draft is set aside."""

        async def edit() -> None:
            if (draft := await self._take_back(message)) is not None:
                self.prompt.put(draft)

        self.app.work(edit)

    # --- the user's own editor ---

    def open_editor(self) -> None:
        """Edit the draft in `$VISUAL` or `$EDITOR`; the terminal is the editor's until it ends."""
        from tui_agent.tui.external_editor import edit_draft

        self.app.work(edit_draft, self.app, self._folder(), self.save_edited)

    def _folder(self) -> Path | None:
        from tui_agent.tui.external_editor import session_folder

        return session_folder(self._session.id) if self._session is not None else None
