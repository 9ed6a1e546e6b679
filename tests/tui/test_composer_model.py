from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tui_agent import events as e
from tui_agent.engine.core.state import EngineState
from tui_agent.engine.session import MessageQueue
from tui_agent.events import Event, Record
from tui_agent.tui import composer_files
from tui_agent.tui.composer import QUEUE_EVENTS, Composer
from tui_agent.tui.outbox import Outbox
from widgets.composer_history import NO_DRAFT, Chips, DraftText, InputHistory
from widgets.prompt_input import ComposerHost, PromptInput

ID = "2026-01-05T09:00:00.000+0000"


class FakeEngine:
    """A session's queue and journal: what is emitted is durable later."""

    def __init__(self, journal: list[Event]) -> None:
        self.journal = journal
        self.replay_end = len(journal)
        self.pending: list[Event] = []
        self.state = EngineState()
        self.queue = MessageQueue(self.state, self.emit, self.start_next)
        self.busy = False
        self.id = ID
        for event in journal:
            self.state.fold(event)

    @property
    def texts(self) -> dict[str, str]:
        return {one.id: one.text for one in self.state.queue}

    def emit(self, event: Event) -> None:
        self.pending.append(event)
        self.state.fold(event)

    async def send(self, text: str, *, steering: bool = False, message: str = "", before: str = "") -> str:
        if self.busy or self.texts:
            self.emit(e.MessageQueued(id=message, text=text, steering=steering))
            self.queue.move(message, before)
            self.start_next()
        else:
            self.say(message, text)
        return message

    def say(self, key: str, text: str, steering: bool = False) -> None:
        self.busy = True
        self.emit(e.UserMessageAdded(id=key, text=text, steering=steering))

    def start_next(self) -> None:
        if not self.busy and self.texts:
            self.say(*next(iter(self.texts.items())))

    def withdraw_message(self, message: str) -> bool:
        there = message in self.texts
        if there:
            self.emit(e.MessageWithdrawn(id=message))
        return there


class FakePrompt:
    """The composer without a screen: its values, and what its keys do with them."""

    def __init__(self) -> None:
        self.chips, self.input_history = Chips(), InputHistory()
        self.host: ComposerHost
        self.posted: PromptInput.Submitted | None = None
        self.text = ""
        self.loaded = False

    @property
    def draft(self) -> DraftText:
        return self.chips.to_draft(self.text)

    menu = None
    stashed = NO_DRAFT

    def change(self, text: str) -> None:
        """The screen tells of it when it comes to that."""
        self.text = text
        asyncio.get_running_loop().call_soon(self.on_text_area_changed)

    def put(self, draft: DraftText) -> None:
        self.change(self.chips.adopt(draft))

    texts_to_save: Any = PromptInput.texts_to_save
    on_text_area_changed: Any = PromptInput.on_text_area_changed
    open_menu: Any = PromptInput.open_menu
    add_to_history: Any = PromptInput.add_to_history
    move_to_history: Any = PromptInput.move_to_history
    _browse: Any = PromptInput._browse
    _submit_command: Any = PromptInput._submit_command
    _record: Any = PromptInput._record
    _set_text = change
    _restore_stashed: Any = PromptInput._restore_stashed

    def clear(self) -> None:
        self.change("")

    def post_message(self, message: PromptInput.Submitted | PromptInput.CommandChosen) -> None:
        if isinstance(message, PromptInput.Submitted):
            self.posted = message
        else:
            self.change("")

    Submitted = PromptInput.Submitted
    CommandChosen = PromptInput.CommandChosen
    action_submit: Any = PromptInput.action_submit


class World:
    """One life of the program over a journal and a disk."""

    def __init__(self, journal: list[Event]) -> None:
        self.jobs: list[asyncio.Task[Any]] = []
        self.engine = FakeEngine(journal)
        self.prompt = FakePrompt()
        self.app = SimpleNamespace(
            hints=SimpleNamespace(show=lambda text: None),
            view=SimpleNamespace(busy=True),
            screen=None,
            session=None,
            watch=lambda *what, **how: None,
            work=self._start,
            prompt=self.prompt,
            call_later=lambda do: do(),
        )
        self.composer = Composer(cast(Any, self.app))
        self.seq = 0

    def _start(self, job: Callable[..., Coroutine[Any, Any, Any]], *given: object) -> None:
        self.jobs.append(asyncio.get_running_loop().create_task(job(*given)))

    async def open(self) -> None:
        self.composer.open(cast(Any, self.engine))
        for event in self.engine.journal:
            self._look_at(event)
        await self.rest()

    def _look_at(self, event: Event) -> None:
        self.seq += 1
        record = Record(seq=self.seq, at="", event=event)
        if isinstance(event, e.SessionOpened):
            self.composer.on_session_opened(record)
        elif isinstance(event, QUEUE_EVENTS):
            self.composer.on_message(record)
        if self.seq >= self.engine.replay_end:
            self.composer.on_history_replayed()

    async def rest(self) -> None:
        while self.jobs:
            jobs, self.jobs = self.jobs, []
            await asyncio.gather(*jobs)
        self.composer._executor.submit(bool).result()  # the history is written

    def flush(self) -> None:
        pending, self.engine.pending = self.engine.pending, []
        for event in pending:
            self.engine.journal.append(event)
            self._look_at(event)


class ComposerAndQueue(RuleBasedStateMachine):
    """Every word is typed once, so that it can be told where it is."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.patch = pytest.MonkeyPatch()
        self.patch.setenv("TUI_AGENT_HOME", self.folder.name)
        (Path(self.folder.name) / "sessions" / ID).mkdir(parents=True)
        self.loop = asyncio.new_event_loop()
        self.count = 0
        self.free: set[str] = set()
        """Words that the user took out of the history again, or that a crash could take: they may be twice, or gone."""
        journal: list[Event] = [OPENED]
        self.world = World(journal)
        self.run(self.world.open)

    def run(self, job: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        async def done() -> None:
            await job()

        self.loop.run_until_complete(done())

    def act(self, do: Callable[[], object]) -> None:
        async def done() -> None:
            do()
            await asyncio.sleep(0)

        self.loop.run_until_complete(done())

    # --- what the user does ---

    @rule(more=st.integers(1, 3))
    def types(self, more: int) -> None:
        for _word in range(more):
            self.count += 1
            text = f"{self.world.prompt.text} w{self.count}."
            self.act(lambda text=text: self.world.prompt.change(text))  # type: ignore[misc]  # mypy and defaults

    @rule()
    def pastes(self) -> None:
        self.count += 1
        label = self.world.prompt.chips.add(f"w{self.count}." + "\nx" * 30 + "\n")
        self.act(lambda: self.world.prompt.change(self.world.prompt.text + label))

    @rule(steering=st.booleans())
    def enters(self, steering: bool) -> None:
        prompt = self.world.prompt
        if prompt.text.strip():

            async def enter() -> None:
                prompt.posted = None
                cast(Any, prompt).action_submit(steering)
                if prompt.posted is not None:  # an unknown command stays in the composer
                    self.world.composer.submit(prompt.posted)
                await asyncio.sleep(0)

            self.run(enter)
            self.run(self.world.rest)

    @rule()
    def queues(self) -> None:
        self.types(1)
        self.world.engine.busy = True
        self.enters(False)
        self.the_journal_is_written()

    @rule()
    def presses_ctrl_c(self) -> None:
        engine = self.world.engine
        if engine.busy:
            engine.busy = False  # a run that was stopped does not start the next one
        else:
            self.act(cast(Any, self.world.prompt).move_to_history)

    @rule()
    def lists_the_commands(self) -> None:
        self.act(cast(Any, self.world.prompt).open_menu)

    @rule()
    def takes_the_stroke_away(self) -> None:
        prompt = self.world.prompt
        if prompt.text == "/":
            self.act(lambda: prompt.change(""))

    @rule()
    def closes_the_list(self) -> None:
        prompt = self.world.prompt
        if prompt.text == "/" and not prompt.stashed.blank:
            self.act(cast(Any, prompt)._restore_stashed)

    @rule(place=st.integers(0, 3))
    def withdraws(self, place: int) -> None:
        engine = self.world.engine
        self.the_journal_is_written()
        for key, _steering in engine.queue.order()[place : place + 1]:
            self.act(partial(self.world.composer.withdraw, key))
            self.run(self.world.rest)

    @rule(dies=st.booleans())
    def takes_back(self, dies: bool) -> None:
        if dies:
            self.presses_ctrl_c()

        async def up() -> None:
            if not self.world.prompt.text and (back := await self.world.prompt.host.withdraw_newest()) is not None:
                self.world.prompt.put(back)

        self.run(up)
        if dies:
            self.it_dies(0)

    @rule(place=st.integers(0, 3), steps=st.sampled_from([-1, 1]))
    def moves(self, place: int, steps: int) -> None:
        engine = self.world.engine
        ids = [key for key, _ in engine.queue.order()]
        if 0 <= place + steps < len(ids) and place < len(ids):
            rest = [*ids]
            rest.insert(place + steps, rest.pop(place))
            before = (*rest[place + steps + 1 :], "")[0]
            assert engine.queue.move(ids[place], before)
            assert [key for key, _ in engine.queue.order()] == rest

    @rule(place=st.integers(0, 3))
    def means_it_otherwise(self, place: int) -> None:
        engine = self.world.engine
        for key, steering in engine.queue.order()[place : place + 1]:
            assert engine.queue.set_steering(key, not steering)
            assert (key, not steering) in engine.queue.order()

    @rule(place=st.integers(0, 3))
    def edits(self, place: int) -> None:
        engine, prompt = self.world.engine, self.world.prompt
        self.the_journal_is_written()
        before = engine.queue.order()
        if place >= len(before) or not engine.busy:
            return
        self.act(lambda: self.world.composer.edit_queued(before[place][0]))
        self.run(self.world.rest)
        self.types(1)
        words = prompt.text
        self.enters(False)
        after = engine.queue.order()
        assert engine.texts[after[place][0]] == words
        assert [one for n, one in enumerate(after) if n != place] == [*before[:place], *before[place + 1 :]]
        assert after[place][1] == before[place][1], "it is meant for another run than before"

    @rule()
    def a_run_asks_for_guidance(self) -> None:
        engine = self.world.engine
        for one in [one for one in engine.state.queue if one.steering and engine.busy]:
            engine.say(one.id, one.text, steering=True)

    @rule(by=st.sampled_from([-1, 1]))
    def looks_back(self, by: int) -> None:
        async def look() -> None:
            prompt = self.world.prompt
            if not prompt.loaded:
                prompt.loaded = True
                found = await prompt.host.load_history()
                prompt.input_history.load([prompt.chips.to_draft(prompt.chips.adopt(one)) for one in found])
            cast(Any, prompt)._browse(by)

        self.run(look)
        if self.world.prompt.input_history.position is not None:
            self.free |= self.words(self.world.prompt.draft.full_text)

    # --- what happens ---

    @rule()
    def a_run_ends(self) -> None:
        self.world.engine.busy = False
        self.world.engine.start_next()

    @rule()
    def the_journal_is_written(self) -> None:
        self.act(self.world.flush)

    @rule()
    def time_passes(self) -> None:
        self.act(lambda: self.world.composer.app.work(self.world.composer._save))
        self.run(self.world.rest)

    @rule(written=st.integers(0, 3))
    def it_dies(self, written: int) -> None:
        self.run(self.world.rest)
        engine = self.world.engine
        journal = engine.journal + engine.pending[:written]
        safe = self.words(self.disk(journal))
        self.free |= {f"w{number}." for number in range(1, self.count + 1)} - safe
        self.world = World(journal)
        self.run(self.world.open)

    # --- where the words are ---

    @staticmethod
    def words(text: str) -> set[str]:
        return {word + "." for word in re.split(r"[\s./]+", text.strip(" ./\n")) if word[:1] == "w"}

    def disk(self, journal: list[Event]) -> str:
        kept = composer_files.read_composer_state(ID)
        past = composer_files.read_history("/w")
        said = [one.text for one in journal if isinstance(one, e.UserMessageAdded | e.MessageQueued)]
        waiting = [one.text for one in kept.waiting]
        aside = [one.full_text for one in (*kept.aside, *past)]
        return " ".join([kept.draft.full_text, *waiting, *aside, *said])

    @invariant()
    def nothing_is_lost_and_nothing_is_twice(self) -> None:
        engine, prompt = self.world.engine, self.world.prompt
        said: dict[str, str] = {}
        for event in engine.journal + engine.pending:
            if isinstance(event, e.UserMessageAdded):
                assert event.id not in said, "a message was delivered twice"
                said[event.id] = event.text
        shown = prompt.draft.full_text
        aside = [
            one.full_text
            for one in (*prompt.input_history.entries, *prompt.texts_to_save()[1], *composer_files.read_history("/w"))
        ]
        sent = [*said.values(), *engine.texts.values()]
        for number in range(1, self.count + 1):
            word = f"w{number}."
            if word in self.free:
                continue
            drafts = (shown, prompt.stashed.full_text, prompt.input_history.unsent_draft().full_text)
            times = sum(word in self.words(text) for text in (*sent, *drafts))
            assert times <= 1, f"{word} is in several places"
            assert times or any(word in self.words(text) for text in aside), f"{word} is lost"

    @invariant()
    def the_order_of_the_queue_is_in_the_journal(self) -> None:
        engine, state = self.world.engine, EngineState()
        for event in engine.journal:
            state.fold(event)
        known = self.world.composer.outbox.queue
        assert list(known) == [one.id for one in state.queue]
        for event in engine.pending:
            state.fold(event)
        assert [(one.id, one.steering) for one in state.queue] == engine.queue.order()

    def teardown(self) -> None:
        self.run(self.world.rest)
        self.loop.close()
        self.patch.undo()
        self.folder.cleanup()


OPENED = e.SessionOpened(
    id=ID,
    version="0",
    workspace="/w",
    roots=(),
    provider="p",
    model="m",
    mode="direct",
    approval_mode="ask",
    trusted=True,
)

TestComposerAndQueue = ComposerAndQueue.TestCase
TestComposerAndQueue.settings = settings(
    max_examples=int(os.environ.get("TUI_AGENT_COMPOSER", "60")), stateful_step_count=30, deadline=None
)


WALKS: tuple[tuple[tuple[Any, ...], ...], ...] = (
    (("types", 2), ("enters", False), ("time_passes",), ("it_dies", 0)),
    (("types", 2), ("presses_ctrl_c",), ("it_dies", 0)),
    (("queues",), ("queues",), ("takes_back", False), ("it_dies", 0)),
    (("queues",), ("queues",), ("takes_back", False), ("it_dies", 1)),
    (("queues",), ("takes_back", False), ("types", 1), ("time_passes",), ("it_dies", 0), ("enters", True)),
    (("queues",), ("takes_back", False), ("enters", False), ("it_dies", 0)),
    (("queues",), ("takes_back", False), ("enters", False), ("it_dies", 1), ("time_passes",), ("it_dies", 0)),
    (("queues",), ("a_run_ends",), ("takes_back", False), ("it_dies", 1)),
    (("queues",), ("pastes",), ("time_passes",), ("presses_ctrl_c",), ("it_dies", 0), ("a_run_ends",)),
    (("queues",), ("queues",), ("queues",), ("moves", 2, -1), ("edits", 1), ("it_dies", 1), ("a_run_ends",)),
    (("queues",), ("queues",), ("means_it_otherwise", 1), ("types", 1), ("edits", 0), ("edits", 1)),
    (("queues",), ("queues",), ("moves", 0, 1), ("it_dies", 1), ("takes_back", True)),
    (("types", 2), ("lists_the_commands",), ("presses_ctrl_c",), ("it_dies", 0)),
    (("types", 2), ("lists_the_commands",), ("takes_the_stroke_away",), ("types", 1), ("enters", False)),
    (("types", 2), ("lists_the_commands",), ("types", 1), ("time_passes",), ("enters", False), ("it_dies", 3)),
    (("types", 2), ("lists_the_commands",), ("time_passes",), ("it_dies", 0), ("types", 1), ("enters", False)),
    (("queues",), ("takes_back", False), ("lists_the_commands",), ("types", 1), ("enters", False), ("it_dies", 1)),
    (("enters", False), ("queues",), ("types", 1), ("looks_back", -1), ("withdraws", 0), ("time_passes",)),
)


@pytest.mark.parametrize("walk", WALKS)
def test_the_ways_that_chance_seldom_goes(walk: tuple[tuple[Any, ...], ...]) -> None:
    machine = ComposerAndQueue()
    machine.begin()
    try:
        for name, *how in walk:
            getattr(machine, name)(*how)
            machine.nothing_is_lost_and_nothing_is_twice()
    finally:
        machine.teardown()


def said(text: str, key: str) -> e.UserMessageAdded:
    return e.UserMessageAdded(id=key, text=text)


def test_a_crash_between_sending_and_saving_does_not_offer_the_message_again() -> None:
    outbox = Outbox()
    on_disk = outbox.state(DraftText(text="hello wor"))
    key = outbox.send("hello world")
    later = Outbox()
    later.apply(said("hello world", key))
    assert later.recover(on_disk).unsent == []


def test_a_message_that_never_reached_the_journal_is_offered_before_the_draft() -> None:
    outbox = Outbox()
    outbox.send("first")
    on_disk = outbox.state(DraftText(text="second"))
    assert [one.text for one in Outbox().recover(on_disk).unsent] == ["first", "second"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_message_taken_back_is_a_draft_and_not_in_the_queue(durable: bool) -> None:
    outbox = Outbox()
    queued = e.MessageQueued(id="q", text="later")
    outbox.apply(queued)
    assert outbox.newest_queued() == ("q", "later")
    on_disk = outbox.state_editing("q")
    later = Outbox()
    later.apply(queued)
    if durable:
        later.apply(e.MessageWithdrawn(id="q"))
    recovered = later.recover(on_disk)
    assert [one.text for one in recovered.unsent] == ["later"]
    assert recovered.withdraw == ([] if durable else ["q"])


def test_a_message_that_was_on_its_way_when_it_was_taken_back_is_no_draft() -> None:
    outbox = Outbox()
    queued = e.MessageQueued(id="q", text="later")
    outbox.apply(queued)
    on_disk = outbox.state_editing("q")
    later = Outbox()
    for event in (queued, said("later", "q")):
        later.apply(event)
    assert later.recover(on_disk).unsent == []
