from __future__ import annotations

import random
import string

from widgets.lone_keys import LONE_SECONDS, TypingFilter

ACTING = set("aAsrwxnpevuotbd123456789kgcq")
"""Letters that act in one dialog or another; the others act nowhere."""
TYPED = string.ascii_letters + string.digits + " .,;:!?'-/()"


def run(keys: list[tuple[str, float]]) -> tuple[str, str]:
    """What is text, and what acts, of keys with the seconds before each. Held keys are released as the app does."""
    filter: TypingFilter[tuple[int, str]] = TypingFilter()
    text, acted, now = "", "", 0.0
    for index, (character, gap) in enumerate(keys):
        if gap >= LONE_SECONDS and filter.held is not None and filter.release(held := filter.held):
            acted += held[1]
        now += gap
        name, typed = ("enter", "") if character == "\n" else (character, character)
        for use in filter.press((index, character), name, typed, now, holds=True):
            text, acted = (text + use.key[1], acted) if use.is_text else (text, acted + use.key[1])
    if filter.held is not None:
        acted += filter.held[1]
    return text, acted


def test_ten_thousand_sequences_typed_at_20_to_200_ms_a_key_decide_nothing_and_are_complete() -> None:
    dice = random.Random(17)
    for _sequence in range(10_000):
        characters = [dice.choice(TYPED) for _key in range(dice.randint(3, 12))]
        if dice.random() < 0.3:
            characters.append("\n")
        pace = dice.choice([(0.02, 0.02), (0.2, 0.2), (0.02, 0.2)])
        text, acted = run([(character, dice.uniform(*pace)) for character in characters])
        assert (text, acted) == ("".join(characters), "")


def test_a_key_held_down_decides_nothing() -> None:
    assert run([("a", 0.03)] * 100) == ("a" * 100, "")


def test_a_key_that_stands_alone_acts_and_the_run_after_it_is_text() -> None:
    assert run([("a", 5), ("r", 0.3), ("w", 5), ("a", 0.1), ("\n", 0.1)]) == ("wa\n", "ar")


def test_arrows_act_at_once_and_enter_when_it_stands_alone() -> None:
    filter: TypingFilter[str] = TypingFilter()
    for name in ("down", "escape"):
        assert [use.is_text for use in filter.press(name, name, "", 1.0, holds=True)] == [False]
    assert run([("\n", 5), ("\n", 5)]) == ("", "\n\n")
    assert run([("\n", 5), ("a", 0.2), ("\n", 0.2)]) == ("\na\n", "")


def test_a_held_key_is_text_if_an_arrow_follows_and_gone_after_backspace() -> None:
    filter: TypingFilter[str] = TypingFilter()
    assert filter.press("a", "a", "a", 1.0, holds=True) == []
    assert [(use.key, use.is_text) for use in filter.press("down", "down", "", 1.1, holds=True)] == [
        ("a", True),
        ("down", False),
    ]
    assert filter.press("a", "a", "a", 2.0, holds=True) == []
    assert filter.press("backspace", "backspace", "", 2.1, holds=True) == []
    assert filter.held is None


def test_letters_for_a_text_field_are_never_held() -> None:
    filter: TypingFilter[str] = TypingFilter()
    for number in range(20):
        assert [use.is_text for use in filter.press("a", "a", "a", number * 0.1, holds=False)] == [False]
