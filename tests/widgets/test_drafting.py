from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widgets import composer_history
from widgets.composer_history import (
    NO_DRAFT,
    Chips,
    DraftText,
    InputHistory,
    becomes_chip,
    can_expand,
    format_text_size,
)


def draft(text: str) -> DraftText:
    return DraftText(text=text)


def test_a_paste_becomes_chip_by_its_lines_or_its_characters() -> None:
    assert becomes_chip("x\n" * 19)
    assert becomes_chip("x" * 2_000)
    assert not becomes_chip("x\n" * 18)
    assert not can_expand("x" * 10_000)
    assert can_expand("x\n" * 10_000)


def test_sizes_in_words() -> None:
    assert [format_text_size("x" * 3_000), format_text_size("x\n" * 120), format_text_size("xy\n" * 400_000)] == [
        "3,000 characters",
        "120 lines, 240 B",
        "400,000 lines, 1.2 MB",
    ]


@given(st.lists(st.tuples(st.text("ab ⟦⟧\n", max_size=8), st.text("xy\n⟦⟧", max_size=30)), max_size=5))
def test_what_is_sent_holds_every_paste_where_its_chip_stood(parts: list[tuple[str, str]]) -> None:
    chips = Chips()
    text = "".join(typed + chips.add(paste) for typed, paste in parts)
    assert chips.to_draft(text).full_text == "".join(typed + paste for typed, paste in parts)


def test_a_paste_that_looks_like_a_chip_is_not_taken_for_one() -> None:
    chips = Chips()
    first = chips.add("secret")
    second = chips.add(f"before {first} behind")
    assert chips.to_draft(second).full_text == f"before {first} behind"


def test_chips_of_another_composer_never_take_over_ours() -> None:
    chips, other = Chips(), Chips()
    own, others = chips.add("our text"), other.add("another1")
    assert own == others
    both = own + chips.adopt(other.to_draft(others))
    assert chips.to_draft(both).full_text == "our textanother1"
    assert chips.adopt(other.to_draft(f"x{others}")) != f"x{own}"
    assert chips.adopt(chips.to_draft(own)) == own


def test_old_pastes_are_forgotten_but_none_that_is_wanted(monkeypatch) -> None:
    monkeypatch.setattr(composer_history, "MAX_CHIP_CHARACTERS", 100)
    shown: list[DraftText] = []
    chips = Chips(lambda: shown)
    labels = [chips.add("0" * 60)]
    shown.append(chips.to_draft(labels[0]))
    labels += [chips.add(str(number) * 60) for number in range(1, 4)]
    assert list(chips.texts) == [labels[0], labels[3]]
    both = chips.adopt(
        DraftText(text="⟦paste 7 · x⟧⟦paste 8 · x⟧", chips={"⟦paste 7 · x⟧": "a" * 60, "⟦paste 8 · x⟧": "b" * 60})
    )
    assert chips.to_draft(both).full_text == "a" * 60 + "b" * 60


def test_a_text_from_elsewhere_leaves_what_is_shown_and_the_draft_behind_it() -> None:
    history = InputHistory()
    for text in ("one", "two"):
        history.record(draft(text))
    assert history.step(-1, draft("draft")) == draft("two")
    assert history.step(-1, draft("two!")) == draft("one")
    assert history.add(draft("three")) == [draft("three")]
    assert history.add(draft("three")) == []
    assert history.unsent_draft() == draft("draft")
    assert history.step(1, draft("one")) == draft("two!")
    assert history.step(1, draft("two!")) == draft("three")
    assert history.step(1, draft("three")) == draft("draft")
    assert history.add(draft("four")) == [draft("four")]
    assert history.step(-1, draft("draft?")) == draft("four")
    assert history.step(1, draft("four")) == draft("draft?")


def test_looking_back_and_forth_restores_the_draft_and_what_was_changed() -> None:
    history = InputHistory()
    for text in ("one", "two"):
        history.record(draft(text))
    assert history.step(-1, draft("draft")) == draft("two")
    assert history.step(-1, draft("two!")) == draft("one")
    assert history.step(-1, draft("one")) is None
    assert history.step(1, draft("one")) == draft("two!")
    assert history.hidden_texts() == [draft("draft")]
    assert history.step(1, draft("two!")) == draft("draft")
    assert history.step(1, draft("draft")) is None
    assert history.record(draft("draft")) == [draft("two!"), draft("draft")]


def test_sending_an_old_message_leaves_the_draft() -> None:
    history = InputHistory()
    history.record(draft("one"))
    history.step(-1, draft("draft"))
    assert history.unsent_draft() == draft("draft")
    history.record(draft("one"))
    assert history.entries == [draft("one")]
    assert history.unsent_draft() == NO_DRAFT


def test_what_earlier_sessions_wrote_comes_before_and_once() -> None:
    history = InputHistory()
    history.record(draft("now"))
    assert history.step(-1, draft("draft")) == draft("now")
    history.load([draft("a"), draft("b"), draft("a"), draft("now"), draft(" ")])
    assert [one.text for one in history.entries] == ["b", "a", "now"]
    assert history.step(-1, draft("now")) == draft("a")
    assert history.step(1, draft("a")) == draft("now")
    assert history.step(1, draft("now")) == draft("draft")


@given(st.lists(st.one_of(st.sampled_from([-1, 1]), st.text("ab", min_size=1, max_size=3), st.none())))
def test_no_way_through_the_history_loses_a_text(steps: list[int | str | None]) -> None:
    history, shown = InputHistory(), NO_DRAFT
    typed: set[str] = set()
    for step in steps:
        if isinstance(step, int):
            shown = history.step(step, shown) or shown
        elif isinstance(step, str):
            shown = draft(f"{shown.text}{step}{len(typed)}.")
            typed.add(f"{step}{len(typed)}.")
        elif not shown.blank:
            left = history.unsent_draft()
            history.record(shown)
            shown = left
        there = [one.text for one in (*history.entries, *history.hidden_texts(), shown)]
        assert all(any(text in one for one in there) for text in typed)
