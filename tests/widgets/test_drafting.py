from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from widgets import composer_history
from widgets.composer_history import NO_DRAFT, Chips, DraftText, InputHistory, can_open, is_big, size_in_words


def written(text: str) -> DraftText:
    return DraftText(text=text)


def test_a_paste_is_big_by_its_lines_or_its_characters() -> None:
    assert is_big("x\n" * 19)
    assert is_big("x" * 2_000)
    assert not is_big("x\n" * 18)
    assert not can_open("x" * 10_000)
    assert can_open("x\n" * 10_000)


def test_sizes_in_words() -> None:
    assert [size_in_words("x" * 3_000), size_in_words("x\n" * 120), size_in_words("xy\n" * 400_000)] == [
        "3,000 characters",
        "120 lines, 240 B",
        "400,000 lines, 1.2 MB",
    ]


@given(st.lists(st.tuples(st.text("ab ⟦⟧\n", max_size=8), st.text("xy\n⟦⟧", max_size=30)), max_size=5))
def test_what_is_sent_holds_every_paste_where_its_chip_stood(parts: list[tuple[str, str]]) -> None:
    chips = Chips()
    text = "".join(typed + chips.add(paste) for typed, paste in parts)
    assert chips.within(text).whole == "".join(typed + paste for typed, paste in parts)


def test_a_paste_that_looks_like_a_chip_is_not_taken_for_one() -> None:
    chips = Chips()
    first = chips.add("secret")
    second = chips.add(f"before {first} behind")
    assert chips.within(second).whole == f"before {first} behind"


def test_chips_of_another_composer_never_take_over_ours() -> None:
    chips, other = Chips(), Chips()
    own, others = chips.add("our text"), other.add("another1")
    assert own == others
    both = own + chips.adopt(other.within(others))
    assert chips.within(both).whole == "our textanother1"
    assert chips.adopt(other.within(f"x{others}")) != f"x{own}"
    assert chips.adopt(chips.within(own)) == own


def test_old_pastes_are_forgotten_but_none_that_is_wanted(monkeypatch) -> None:
    monkeypatch.setattr(composer_history, "CHIPS_KEPT", 100)
    shown: list[DraftText] = []
    chips = Chips(lambda: shown)
    labels = [chips.add("0" * 60)]
    shown.append(chips.within(labels[0]))
    labels += [chips.add(str(number) * 60) for number in range(1, 4)]
    assert list(chips.texts) == [labels[0], labels[3]]
    both = chips.adopt(
        DraftText(text="⟦paste 7 · x⟧⟦paste 8 · x⟧", chips={"⟦paste 7 · x⟧": "a" * 60, "⟦paste 8 · x⟧": "b" * 60})
    )
    assert chips.within(both).whole == "a" * 60 + "b" * 60


def test_a_text_from_elsewhere_leaves_what_is_shown_and_the_draft_behind_it() -> None:
    history = InputHistory()
    for text in ("one", "two"):
        history.remember(written(text))
    assert history.step(-1, written("draft")) == written("two")
    assert history.step(-1, written("two!")) == written("one")
    assert history.add(written("three")) == [written("three")]
    assert history.add(written("three")) == []
    assert history.draft_left() == written("draft")
    assert history.step(1, written("one")) == written("two!")
    assert history.step(1, written("two!")) == written("three")
    assert history.step(1, written("three")) == written("draft")
    assert history.add(written("four")) == [written("four")]
    assert history.step(-1, written("draft?")) == written("four")
    assert history.step(1, written("four")) == written("draft?")


def test_looking_back_and_forth_restores_the_draft_and_what_was_changed() -> None:
    history = InputHistory()
    for text in ("one", "two"):
        history.remember(written(text))
    assert history.step(-1, written("draft")) == written("two")
    assert history.step(-1, written("two!")) == written("one")
    assert history.step(-1, written("one")) is None
    assert history.step(1, written("one")) == written("two!")
    assert history.elsewhere() == [written("draft")]
    assert history.step(1, written("two!")) == written("draft")
    assert history.step(1, written("draft")) is None
    assert history.remember(written("draft")) == [written("two!"), written("draft")]


def test_sending_an_old_message_leaves_the_draft() -> None:
    history = InputHistory()
    history.remember(written("one"))
    history.step(-1, written("draft"))
    assert history.draft_left() == written("draft")
    history.remember(written("one"))
    assert history.entries == [written("one")]
    assert history.draft_left() == NO_DRAFT


def test_what_earlier_sessions_wrote_comes_before_and_once() -> None:
    history = InputHistory()
    history.remember(written("now"))
    assert history.step(-1, written("draft")) == written("now")
    history.load([written("a"), written("b"), written("a"), written("now"), written(" ")])
    assert [one.text for one in history.entries] == ["b", "a", "now"]
    assert history.step(-1, written("now")) == written("a")
    assert history.step(1, written("a")) == written("now")
    assert history.step(1, written("now")) == written("draft")


@given(st.lists(st.one_of(st.sampled_from([-1, 1]), st.text("ab", min_size=1, max_size=3), st.none())))
def test_no_way_through_the_history_loses_a_text(steps: list[int | str | None]) -> None:
    history, shown = InputHistory(), NO_DRAFT
    typed: set[str] = set()
    for step in steps:
        if isinstance(step, int):
            shown = history.step(step, shown) or shown
        elif isinstance(step, str):
            shown = written(f"{shown.text}{step}{len(typed)}.")
            typed.add(f"{step}{len(typed)}.")
        elif not shown.blank:
            left = history.draft_left()
            history.remember(shown)
            shown = left
        there = [one.text for one in (*history.entries, *history.elsewhere(), shown)]
        assert all(any(text in one for one in there) for text in typed)
