"""Saves the composer's draft, sends messages and edits the queue: nothing is lost, nothing is sent twice (U8)."""

from __future__ import annotations

import asyncio
import os
from asyncio import TimerHandle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from tui_agent import events as e
from tui_agent.tui.base_app import BaseApp
from tui_agent.tui.mention_completion import MentionCompletion
from tui_agent.tui.outbox import ComposerState, Outbox
from widgets.composer_history import MAX_ENTRIES, DraftText
from widgets.prompt_input import ComposerHost, PromptInput

if TYPE_CHECKING:
    from tui_agent.engine.api import SessionApi

T = TypeVar("T")

QUEUE_EVENTS = (e.MessageQueued, e.MessageChanged, e.MessageMoved, e.MessageWithdrawn, e.UserMessageAdded)
"""Events that change the queue."""
ALREADY_SENT = "that message was just sent"
SAVE_DELAY = 0.15
"""Seconds from the first unsaved change until it is saved."""
MAX_SAVE_DELAY = 0.25
"""The same on a slow disk."""
IDLE_FACTOR = 2
"""After a save, the next one waits at least this many times its duration, up to `MAX_SAVE_DELAY`."""
RETRY_DELAY = 5.0
"""Seconds until a failed save is retried."""
MAX_DISK_WAIT = 0.5
"""Seconds that withdrawing a message waits for the disk."""


class Composer:
    """Connects the composer's widget with the session, the queue and the files of draft and history."""

    def __init__(self, app: BaseApp, *, draft: str = "") -> None:
        self.app = app
        self.prompt = prompt = app.prompt
        self._initial_draft = draft
        self.outbox = Outbox()
        self._session: SessionApi | None = None
        self._submitted_early: list[PromptInput.Submitted] = []
        """Messages submitted before the session was open."""
        self._workspace = ""
        self.folder = ""
        """The folder the session will work in, if known before it is open."""
        self.exit_message = ""
        """Message for the user at exit about text that was typed before any session was open."""
        self._unsaved_history: list[DraftText] = []
        self._executor = ThreadPoolExecutor(1, "composer")
        """A single thread for all files, so that writes keep their order."""
        self._recovered = False
        """The state of an earlier process was read, so that it may be overwritten."""
        self._recovering = False
        self._saved_early = False
        """There is a file with what was typed before the session was ready."""
        self._saved_nothing = True
        """No file has to be deleted when there is nothing to save."""
        self._save_failed = False
        self._dirty = False
        self._withdrawing = False
        """The saved draft is a message that is still being withdrawn; it must not be overwritten."""
        self._save_timer: TimerHandle | None = None
        self._save_delay = SAVE_DELAY
        self.completion = MentionCompletion(app, prompt)
        prompt.host = ComposerHost(
            show_hint=app.hints.show,
            on_change=self.schedule_save,
            send=self._send,
            on_history_added=self._add_to_history,
            load_history=self._load_history,
            handle_key=self.completion.on_key,
            withdraw_newest=self._withdraw_newest,
            open_editor=self.open_editor,
        )

    # --- the session ---

    def insert_initial_draft(self) -> None:
        """Insert the text that the composer starts with."""
        self.prompt.append_text(self._initial_draft)
        self._initial_draft = ""

    def open(self, session: SessionApi) -> list[PromptInput.Submitted]:
        """Attach the session. Returns what was submitted before."""
        self._session = session
        self.completion.open()
        self._recovered = session.replay_end == 0  # a new session has no earlier process
        if self._recovered:
            self.app.work(self._recover_early)
            if self._dirty or self._saved_early:
                self.schedule_save(self._saved_early)
        submitted, self._submitted_early = self._submitted_early, []
        return submitted

    def _send(self, text: str) -> str:
        message = self.outbox.send(text, keep_draft=not self.prompt.stashed.blank)
        self.schedule_save(True)
        return message

    def discard_message(self, message: str) -> None:
        """Forget a message that was a `!` command."""
        self.outbox.discard(message)
        self.schedule_save(True)

    def submit(self, message: PromptInput.Submitted) -> None:
        """Send a message, or keep it until the session is open."""
        if self._session is None:
            self._submitted_early.append(message)
            return
        place = self.outbox.pop_place(message.message)
        steering = (message.steering or place.steering) and self.app.view.busy
        before = next((id for id in place.later_ids if id in self.outbox.queue), "")
        send = partial(self._session.send, steering=steering, message=message.message, before=before)
        self.app.work(send, message.text)

    def on_session_opened(self, record: e.Record) -> None:
        """Note the workspace, which the history file depends on."""
        assert isinstance(record.event, e.SessionOpened)
        self._workspace = record.event.workspace
        self._add_to_history(())

    def on_message(self, record: e.Record) -> None:
        """Apply a change of the queue, or the delivery of a message."""
        if self.outbox.apply(record.event):
            self.schedule_save(False)
        if (refresh := getattr(self.app.screen, "refresh_queue", None)) is not None:
            refresh()

    def on_history_replayed(self) -> None:
        """Recover, once, what an earlier process left in the composer: all of its records are folded now."""
        if self._session is not None and not self._recovered and not self._recovering:
            self._recovering = True
            self.app.work(self._recover, self._session)

    async def _recover(self, session: SessionApi) -> None:
        from tui_agent.tui import composer_files as files

        saved = await self._run_in_thread(files.read_composer_state, session.id)
        editor_files = await self._run_in_thread(files.find_editor_files, session.id)
        unsent, stashed, withdraw = self.outbox.recover(saved)
        for message in withdraw:
            session.withdraw_message(message)
        for draft in stashed:
            self.prompt.add_to_history(draft)
        if unsent:
            self._restore_unsent(unsent)
        self._recovered, self._saved_nothing = True, False
        self.schedule_save(False)
        await self._recover_early()
        if new := [text for _path, text in editor_files if text.rstrip("\n") != saved.draft.full_text.rstrip("\n")]:
            for text in new:
                self.prompt.add_to_history(DraftText(text=text))
            self.app.hints.show("the text from your editor is in the history · up")
        if await self._run_in_thread(self._append_history) and editor_files:
            await self._run_in_thread(files.remove_editor_files, editor_files)

    async def _recover_early(self) -> None:
        """Recover what was typed in this folder while an earlier process was starting, and was killed."""
        from tui_agent.tui import composer_files as files

        abandoned = await self._run_in_thread(files.find_abandoned, self._early_folder)
        if drafts := [draft for _path, state in abandoned for draft in state.texts]:
            self._restore_unsent(drafts)
            self._dirty = True
            if not await self._save() or not await self._run_in_thread(self._append_history):
                return
        await self._run_in_thread(files.remove_files, [path for path, _state in abandoned])

    def _restore_unsent(self, drafts: list[DraftText]) -> None:
        if self.prompt.text:
            for draft in drafts:
                self.prompt.add_to_history(draft)
            self.app.hints.show("the unsent text is in the history · up")
        else:
            text = "\n\n".join(self.prompt.chips.adopt(draft) for draft in drafts)
            self.prompt.put(self.prompt.chips.to_draft(text))
            self.app.hints.show("not sent")

    # --- on disk ---

    def schedule_save(self, immediately: bool) -> None:
        """Save the changed state soon, or `immediately`."""
        self._dirty = True
        if not self.prompt.text:
            self.outbox.draft_cleared()
        if not self._recovered and not self._early_folder:
            return
        if immediately and self._save_timer is not None:
            self._save_timer.cancel()
            self._save_timer = None
        if self._save_timer is None:
            delay = 0.0 if immediately else self._save_delay
            self._save_timer = asyncio.get_running_loop().call_later(delay, self._save_changes)

    def save_now(self) -> None:
        """Save, blocking, before the program ends."""
        state = self._state()
        if self._session is not None and self._recovered:
            self._executor.submit(self._write, state).result()
            self._append_history_now()
            return
        # The state of an earlier process was not read and must stay: what was typed goes to the folder's history.
        drafts = (*state.aside, state.draft, DraftText(text=self._initial_draft))
        self._unsaved_history += [draft for draft in drafts if not draft.blank]
        if self._unsaved_history and self._append_history_now():
            self._executor.submit(self._write, ComposerState()).result()
            self.exit_message = "Your draft is saved: up restores it in the next session here."

    def save_editor_text(self, text: str) -> bool:
        """Add the text of an external editor to the history, blocking, before the program ends.

        Returns False if the text must stay in its file.
        """
        from tui_agent.tui.composer_files import fits_history

        self._unsaved_history.append(DraftText(text=text))
        return self._append_history_now() and fits_history(text)

    def _append_history_now(self) -> bool:
        return not self._unsaved_history or self._executor.submit(self._append_history).result()

    def _state(self) -> ComposerState:
        return self.outbox.state(*self.prompt.texts_to_save())

    def _run_in_thread(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    @property
    def _early_folder(self) -> str:
        """The folder that text is saved for until the session is ready."""
        return os.path.realpath(self.folder) if self.folder else self._workspace

    def _write(self, state: ComposerState) -> bool:
        """Save `state` for the session, or for the folder until the session is ready; in the thread."""
        from tui_agent.tui import composer_files as files

        if self._session is None or not self._recovered:
            self._saved_early = self._saved_early or not state.empty
            return not self._saved_early or files.write_early(self._early_folder, state)
        saved = files.write_state(self._session.id, state)
        if saved and self._saved_early:
            self._saved_early = not files.write_early(self._early_folder, ComposerState())
        return saved

    async def _save(self) -> bool:
        """Save the current state. On failure schedule a retry and return False."""
        saving = self._save_changes()
        return saving is None or (await saving)[0]

    def _save_changes(self) -> asyncio.Future[tuple[bool, float]] | None:
        """Begin to save what has changed, if anything has."""
        self._save_timer = None
        if self._withdrawing or not self._dirty:
            return None
        self._dirty = False
        state = self._state()
        if state.empty and self._saved_nothing and not self._saved_early:
            return None
        return self._begin_save(state)

    def _begin_save(self, state: ComposerState) -> asyncio.Future[tuple[bool, float]]:
        """Save in the thread, and schedule a retry if that fails. The result: whether it was saved, and the seconds."""
        self._saved_nothing = False

        def write() -> tuple[bool, float]:
            started = monotonic()
            return self._write(state), monotonic() - started

        saving = self._run_in_thread(write)
        saving.add_done_callback(partial(self._on_saved, state))
        return saving

    def _on_saved(self, state: ComposerState, saving: asyncio.Future[tuple[bool, float]]) -> None:
        if saving.cancelled():
            return
        saved, seconds = saving.result()
        self._saved_nothing = saved and state.empty
        self._save_delay = min(MAX_SAVE_DELAY, max(SAVE_DELAY, IDLE_FACTOR * seconds)) if saved else RETRY_DELAY
        if not saved:
            if not self._save_failed:
                self.app.call_later(partial(self.app.hints.show, "draft not saved · retrying"))
            self.schedule_save(False)
        self._save_failed = not saved

    def _add_to_history(self, drafts: Iterable[DraftText]) -> None:
        self._unsaved_history += drafts
        if self._workspace and self._unsaved_history:
            self._executor.submit(self._append_history)

    def _append_history(self) -> bool:
        """Append new entries to the history file, in the thread; after a failure they stay for the next time."""
        from tui_agent.tui.composer_files import append_history

        workspace = self._workspace or (os.path.realpath(self.folder) if self.folder else "")
        entries = [*self._unsaved_history]
        if entries and not (workspace and append_history(workspace, entries)):
            del self._unsaved_history[:-MAX_ENTRIES]
            return False
        del self._unsaved_history[: len(entries)]
        return True

    async def _load_history(self) -> list[DraftText]:
        from tui_agent.tui.composer_files import read_history

        return await self._run_in_thread(read_history, self._workspace) if self._workspace else []

    # --- the queue ---

    async def _withdraw_newest(self) -> DraftText | None:
        newest = self.outbox.newest_queued()
        return None if newest is None else await self._withdraw_to_draft(newest[0])

    async def _withdraw_to_draft(self, message: str) -> DraftText | None:
        """Save a queued message as the draft, then remove it from the queue; None if it is not there anymore."""
        session, text = self._session, self.outbox.queue.get(message)
        if session is None or text is None:
            self.app.hints.show(ALREADY_SENT)
            return None
        if not await self._save_as_draft(message):
            self.app.hints.show("not withdrawn: it can't be saved as a draft")
            return None
        order = session.queue.order()
        if not session.withdraw_message(message):
            self.app.hints.show(ALREADY_SENT)
            self.schedule_save(True)
            return None
        self.prompt.move_to_history()
        ids = [id for id, _steering in order]
        later = ids[ids.index(message) + 1 :] if message in ids else []
        self.outbox.edit_queued(message, text, later, (message, True) in order)
        self.app.hints.show("withdrawn from the queue")
        return DraftText(text=text)

    async def _save_as_draft(self, message: str) -> bool:
        """Save a queued message as the draft; False if that failed. Does not wait for a slow disk."""
        if not self._recovered:
            return True
        draft, stashed = self.prompt.texts_to_save()
        stashed = [text for text in (*stashed, draft) if not text.blank]
        save = self._begin_save(self.outbox.state_editing(message, stashed))
        self._withdrawing = True
        try:
            return (await asyncio.wait_for(asyncio.shield(save), MAX_DISK_WAIT))[0]
        except TimeoutError:
            return True
        finally:
            self._withdrawing = False

    def show_queue(self) -> None:
        """Open the panel of queued messages."""
        if self._session is not None:
            from widgets.queue_panel import QueuePanel

            queue = self._session.queue
            self.app.push_screen(QueuePanel(self.app.view, queue, edit=self.edit_queued, withdraw=self.withdraw))

    def withdraw(self, message: str) -> None:
        """Remove a message from the queue and keep it in the history."""
        text = self.outbox.queue.get(message)
        if text is not None and self._session is not None and self._session.withdraw_message(message):
            self.prompt.add_to_history(DraftText(text=text))
            self.app.hints.show("withdrawn · it is in the history · up")
        else:
            self.app.hints.show(ALREADY_SENT)

    def edit_queued(self, message: str) -> None:
        """Turn a queued message into the draft; the current draft is stashed."""

        async def edit() -> None:
            if (draft := await self._withdraw_to_draft(message)) is not None:
                self.prompt.put(draft)

        self.app.work(edit)

    # --- the external editor ---

    def open_editor(self) -> None:
        """Edit the draft in `$VISUAL` or `$EDITOR`, which gets the terminal until it ends."""
        from tui_agent.tui.composer_files import session_folder
        from tui_agent.tui.external_editor import edit_draft

        folder = session_folder(self._session.id) if self._session is not None else None
        self.app.work(edit_draft, self.app, folder, self.save_editor_text)
