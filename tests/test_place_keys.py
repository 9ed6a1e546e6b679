from __future__ import annotations

import re
from pathlib import Path

import pytest

from tui_agent import settings
from tui_agent.keys.key_names import key_label, pressed_key, read_key, read_untyped_key
from tui_agent.keys.keymap import (
    CONTEXT_ACTIONS,
    CONTEXTS,
    EDITING_KEYS,
    EXIT_KEYS,
    NAVIGATION_KEYS,
    SESSION_ACTIONS,
    Keymap,
    assignment_problem,
)

PLACES = CONTEXTS.values()


def test_every_action_has_a_name_a_description_and_keys_that_mean_nothing_else_there() -> None:
    built_in = Keymap()
    assert built_in.problems == []
    assert {name: built_in.keys[name] for name in CONTEXT_ACTIONS} == {
        name: action.keys for name, (_place, action) in CONTEXT_ACTIONS.items()
    }
    for name, (place, action) in CONTEXT_ACTIONS.items():
        assert re.fullmatch(r"[a-z_]+\.[a-z_]+", name) and action.description and action.keys, name
        assert not action.help_text or sum(one.help_text == action.help_text for one in place.actions) > 1, name
        for key in action.keys:
            assert read_key(key) == (key, "") and assignment_problem(place, action, key) == "", (name, key)
            assert built_in.action_for(place.name, key) == action.name
    assert sum(len(place.actions) for place in PLACES) == len(CONTEXT_ACTIONS)
    assert all(fixed.keys and fixed.description and fixed.reason for place in PLACES for fixed in place.fixed)
    assert all(place.title and (place.actions or place.fixed) for place in PLACES)
    assert {place.inherits for place in PLACES} - {""} <= {place.name for place in PLACES}


def test_every_action_can_have_another_key_and_none() -> None:
    chosen = {
        f"{place.name}.{one.name}": f"{'shift' if place.name == 'panel' else 'ctrl'}+f{number}"
        for place in PLACES
        for number, one in enumerate(place.actions, start=1)
    }
    other = Keymap({name: [key] for name, key in chosen.items()})
    assert other.problems == []
    for name, (place, action) in CONTEXT_ACTIONS.items():
        key = chosen[name]
        assert other.keys[name] == (key,) and other.action_for(place.name, key) == action.name
        assert all(other.action_for(place.name, one) != action.name for one in action.keys)
    none = Keymap({name: [] for name in CONTEXT_ACTIONS})
    assert none.problems == [] and not any(none.keys[name] for name in CONTEXT_ACTIONS)


def test_no_key_that_moves_goes_on_types_or_leads_out_can_be_made_to_decide() -> None:
    for name, (place, action) in CONTEXT_ACTIONS.items():
        never = {*EXIT_KEYS, *(one for fixed in place.fixed for one in fixed.reserved)}
        never |= NAVIGATION_KEYS - {*action.keys} if action.is_decision else set()
        if action.allows_characters is False or (place.has_text_input and action.allows_characters is None):
            built_in = {key for one in place.actions for key in one.keys}
            never |= {"a", "Z", "plus", "space", *(EDITING_KEYS - built_in if place.has_text_input else ())}
        for key in never:
            found = Keymap({name: [key]})
            assert [one.name for one in found.problems] == [name], (name, key)
            assert found.keys[name] == action.keys
    deciding = {name for name, (_place, action) in CONTEXT_ACTIONS.items() if action.is_decision}
    assert deciding >= {"approval.approve_once", "review.approve", "summary.discard", "sessions.delete"}


@pytest.mark.parametrize(
    ("chosen", "name", "says", "kept"),
    [
        ({"approval.reject": ["a"], "approval.approve_once": ["a"]}, "approval.approve_once", "`a` is the key of `approval.reject`", {"approval.reject": ("a",), "approval.approve_once": ()}),
        ({"approval.next_hunk": ["a"]}, "approval.next_hunk", "`a` was the key of `approval.approve_once`, which now has none", {"approval.approve_once": ()}),
        ({"summary.accept": ["y"]}, "summary.accept", "types a character there", {}),
        ({"summary.accept": ["ctrl+w"]}, "summary.accept", "edits text there", {}),
        ({"summary.accept": ["ctrl+o"]}, "summary.accept", "`ctrl+o` is the key of `details`, which works there too", {}),
        ({"plan.accept": ["y"]}, "plan.accept", "types a character there", {}),
        ({"approval.approve_once": ["space"]}, "approval.approve_once", "never decides", {}),
        ({"review.approve": ["3"]}, "review.approve", "is fixed there", {}),
        ({"pager.wrap": ["f1"]}, "pager.wrap", "`F1` is the key of `help`", {}),
        ({"details": ["alt+k"], "steps.move_up": ["alt+k"]}, "steps.move_up", "the key of `details`", {}),
        ({"details": ["shift+enter"], "search.newer": ["shift+enter"]}, "search.newer", "the key of `details`", {"search.newer": ("down",)}),
        ({"panel.down": ["x"]}, "panel.down", "`queue.withdraw` in that list", {"panel.down": ("x",)}),
        ({"aproval.approve_once": ["y"]}, "aproval.approve_once", "did you mean `approval.approve_once`", {}),
        ({"pager.next-match": ["m"]}, "pager.next-match", "did you mean `pager.next_match`", {}),
        ({"nowhere.zzz": ["m"]}, "nowhere.zzz", "is not an action", {}),
        ({"pager.wrap": ["hyperdrive"]}, "pager.wrap", "is not a key", {}),
    ],
)  # fmt: skip
def test_what_is_wrong_within_a_place_is_told_and_left_out(chosen, name, says, kept) -> None:
    found = Keymap(chosen)
    assert found.problems[0].name == name and says in found.problems[0].message
    assert {one: found.keys[one] for one in kept} == kept
    if name in CONTEXT_ACTIONS and not kept:
        assert found.keys[name] == CONTEXT_ACTIONS[name][1].keys
    for place in PLACES:
        held = [key for one in place.actions for key in found.keys[f"{place.name}.{one.name}"]]
        assert len(held) == len(set(held))


def test_places_keep_apart_and_actions_may_change_places_without_a_word() -> None:
    found = Keymap({"pager.next_match": ["p"], "pager.previous_match": ["n"], "approval.reject": ["n"], "approval.next_hunk": ["r"]})  # fmt: skip
    assert found.problems == []
    assert (found.action_for("pager", "n"), found.action_for("approval", "n")) == ("previous_match", "reject")
    assert {name for name in SESSION_ACTIONS if "." in name} == set()


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("y", "y"),
        ("Y", "Y"),
        ("shift+y", "Y"),
        ("?", "question_mark"),
        ("-", "minus"),
        ("+", "plus"),
        ("ф", "ф"),
        ("Space", "space"),
        ("Ctrl-G", "ctrl+g"),
    ],
)
def test_a_letter_is_a_key_where_nothing_is_typed(word: str, key: str) -> None:
    assert read_key(word) == (key, "")
    assert word in ("Ctrl-G",) or read_untyped_key(word)[0] == ""


def test_what_is_typed_counts_and_not_how() -> None:
    assert [pressed_key("shift+a", "A"), pressed_key("upper_a", "A"), pressed_key("full_stop", "."), pressed_key("space", " ")] == [
        "A", "A", "full_stop", "space",
    ]  # fmt: skip
    assert [pressed_key("alt+a", "a"), pressed_key("ctrl+a", "\x01"), pressed_key("enter", "\r")] == [
        "alt+a",
        "ctrl+a",
        "enter",
    ]
    assert [key_label("plus"), key_label("space"), key_label("pagedown"), key_label("ctrl+s")] == [
        "+",
        "space",
        "pgdn",
        "ctrl+s",
    ]


def test_conflicts_are_told_with_their_line_and_nothing_else_suffers(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "keys:\n  approval.approve_once: y\n  approval.reject: y\n  pager.wrap: [n, .]\n  summary.accept: g\n"
    )
    loaded = settings.load_settings(config, None, {}, {})
    assert [(one.line, one.field, one.ignored) for one in sorted(loaded.problems, key=lambda one: one.line or 0)] == [
        (3, "keys.approval.reject", True), (4, "keys.pager.wrap", True), (5, "keys.summary.accept", True),
    ]  # fmt: skip
    assert loaded.settings.keys["approval.approve_once"] == ("y",)
