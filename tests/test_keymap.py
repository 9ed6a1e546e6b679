from __future__ import annotations

import json

import pytest

from tui_agent import ROOT
from tui_agent.keys.key_names import KeyProblem, key_label
from tui_agent.keys.key_names import read_untyped_key as read_key
from tui_agent.keys.keymap import SESSION, SESSION_ACTIONS, Keymap

KEYS = SESSION.actions


def test_the_built_in_keys_are_in_order() -> None:
    built_in = Keymap()
    assert built_in.problems == []
    assert {name: built_in.keys[name] for name in SESSION_ACTIONS} == {one.name: one.keys for one in KEYS if one.name}
    assert all(read_key(key) == (key, "") for one in KEYS for key in one.keys)


def test_no_built_in_key_is_one_that_a_terminal_keeps_unless_there_is_another() -> None:
    kept = {"ctrl+b", "ctrl+p", "ctrl+w", "ctrl+s", "ctrl+q", "f10", "f11", "ctrl+shift+p"}
    assert {one.name for one in KEYS if one.keys and set(one.keys) <= kept} == set()


@pytest.mark.parametrize(
    ("word", "key"),
    [
        ("Ctrl-P", "ctrl+p"),
        ("F5", "f5"),
        ("esc", "escape"),
        ("shift + ctrl + up", "ctrl+shift+up"),
        ("PgUp", "pageup"),
        ("ctrl+-", "ctrl+minus"),
        ("Ctrl-_", "ctrl+underscore"),
    ],
)
def test_keys_are_read_as_people_write_them(word: str, key: str) -> None:
    assert read_key(word) == (key, "")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("x", "types a character"),
        ("shift+x", "types a character"),
        ("space", "types a character"),
        ("ctrl+m", "as `enter`"),
        ("ctrl+i", "as `tab`"),
        ("hyperdrive+x", "not a key"),
        ("", "not a key"),
        ("+", "types a character"),
        ("entre", "did you mean `enter`"),
        ("ctrl+\x1b", "not a key"),
    ],
)
def test_what_can_be_no_key_says_why(word: str, says: str) -> None:
    key, why = read_key(word)
    assert key == "" and says in why


def test_the_users_keys_take_the_place_of_the_built_in_ones() -> None:
    chosen = Keymap({"send": ["ctrl+s"], "newline": ["enter"], "details": ["f12"], "undo": ["alt+u"], "plan": []})
    assert chosen.problems == []
    assert chosen.keys["details"] == ("f12",) and chosen.keys["undo"] == ("alt+u",) and chosen.keys["plan"] == ()
    assert chosen.first_label("details") == "F12" and chosen.first_label("plan") == ""
    assert (chosen.keys["send"], chosen.keys["newline"]) == (("ctrl+s",), ("enter",))


@pytest.mark.parametrize(
    ("chosen", "name", "says", "kept"),
    [
        ({"detials": ["f12"]}, "detials", "did you mean `details`", {}),
        ({"zzz": ["f12"]}, "zzz", "is not an action", {}),
        ({"details": ["q"]}, "details", "types a character", {"details": ("ctrl+o",)}),
        ({"details": ["enter"]}, "details", "lists and fields", {"details": ("ctrl+o",)}),
        ({"details": ["f12"], "undo": ["f12"]}, "undo", "`F12` is the key of `details`; that one is used", {"details": ("f12",), "undo": ()}),
        ({"undo": ["f3"]}, "undo", "`F3` was the key of `plan`", {"undo": ("f3",), "plan": ()}),
        ({"steer": ["ctrl+o"]}, "steer", "`ctrl+o` was the key of `details`", {"steer": ("ctrl+o",), "details": ()}),
        ({"undo": ["ctrl+t"]}, "undo", "`ctrl+t` was the key of `steer`", {"undo": ("ctrl+t",), "steer": ()}),
        ({"palette": ["f12", "nokey"]}, "palette", "not a key", {"palette": ("f12",)}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_and_left_out(chosen, name, says, kept) -> None:
    found = Keymap(chosen)
    assert [(one.name, says in one.message) for one in found.problems] == [(name, True)]
    assert isinstance(found.problems[0], KeyProblem)
    assert {action: found.keys[action] for action in kept} == kept
    held = [key for action in SESSION_ACTIONS for key in found.keys[action]]
    assert len(held) == len(set(held))


def test_earlier_names_are_still_read() -> None:
    keymap = Keymap({"guide": ["f12"], "grants.take_back": ["z"], "models.take_back": ["f10"]})
    assert keymap.problems == []
    assert [keymap.keys[name] for name in ("steer", "grants.revoke", "models.reset")] == [("f12",), ("z",), ("f10",)]


def test_a_problem_has_the_name_that_the_user_wrote() -> None:
    keymap = Keymap({"guide": ["nokey"], "details": ["f12"], "progress.turn": ["f12"]})
    assert [problem.name for problem in keymap.problems] == ["guide", "progress.turn"]
    both = Keymap({"guide": ["nokey"], "steer": ["f12"]})
    assert [(problem.name, "earlier name of `steer`" in problem.message) for problem in both.problems] == [
        ("guide", True)
    ]
    assert both.keys["steer"] == ("f12",)


def test_an_earlier_name_keeps_its_place_in_the_file() -> None:
    keymap = Keymap({"details": ["f12"], "guide": ["f12"]})
    assert (keymap.keys["details"], keymap.keys["steer"]) == (("f12",), ("ctrl+t",))
    assert [problem.name for problem in keymap.problems] == ["guide"]


def test_two_actions_may_change_places_without_a_word() -> None:
    found = Keymap({"plan": ["f4"], "progress": ["f3"]})
    assert found.problems == []
    assert (found.keys["plan"], found.keys["progress"]) == (("f4",), ("f3",))


def test_keys_are_shown_as_people_read_them() -> None:
    assert [key_label(key) for key in ("escape", "ctrl+pageup", "shift+f5", "ctrl+minus")] == [
        "esc",
        "ctrl+pgup",
        "shift+F5",
        "ctrl+-",
    ]


def test_the_usual_actions_take_no_more_keys_than_in_the_best_of_the_others() -> None:
    table = json.loads((ROOT / "docs" / "keys_compared.json").read_text(encoding="utf-8"))
    assert len(table["rows"]) >= 15
    for row in table["rows"]:
        ours = [one[1:] if one[0] == "=" else Keymap().first_label(one) for one in row["ours"]]
        assert all(ours) and len(row["theirs"]) == len(table["columns"]), row["does"]
        assert len(ours) <= min(one[1] for one in row["theirs"] if one), row["does"]
