from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.settings.checking import setting_paths
from tui_agent.settings.document import SettingsEditError, parse_value, with_setting, without_setting, yaml_literal

FILE = """\
# mine
model: qwen   # the good one
mode: chat

timeouts:   # seconds
  command: 45
  # slow server
  idle: 300
tools_off: [web, lsp]
themes:
  mine:
    base: dark
unknown_thing: 7
roles: {title: small}
keys:
# none yet
"""


def set_to(where: str, word: str, text: str = FILE) -> str:
    path = tuple(where.split("."))
    value, wrong = parse_value(path, word)
    assert wrong == ""
    return with_setting(text, path, value)


@pytest.mark.parametrize(
    ("where", "word", "old", "new"),
    [
        ("model", "llama3:8b", "model: qwen   # the good one", "model: llama3:8b   # the good one"),
        ("timeouts.command", "60", "  command: 45", "  command: 60"),
        ("timeouts.tool", "9", "  idle: 300\n", "  idle: 300\n  tool: 9\n"),
        ("tools_off", "web", "[web, lsp]", '["web"]'),
        ("roles.title", "other", "{title: small}", "{title: other}"),
        ("roles.planning", "big", "{title: small}", "{title: small, planning: big}"),
        ("themes", "{a: {base: light}}", "themes:\n  mine:\n    base: dark\n", 'themes: {"a": {"base": "light"}}\n'),
        ("keys", "{undo: alt+u}", "keys:\n", 'keys: {"undo": "alt+u"}\n'),
        ("caps.reply_tokens", "999", "# none yet\n", "# none yet\ncaps:\n  reply_tokens: 999\n"),
        ("vim", "true", "# none yet\n", "# none yet\nvim: true\n"),
        ("sandbox", "off", "# none yet\n", '# none yet\nsandbox: "off"\n'),
    ],
)
def test_one_setting_changes_and_nothing_else(where: str, word: str, old: str, new: str) -> None:
    assert set_to(where, word) == FILE.replace(old, new)
    windows = FILE.replace("\n", "\r\n")
    assert set_to(where, word, windows) == windows.replace(old.replace("\n", "\r\n"), new.replace("\n", "\r\n"))


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        ("model", "model: qwen   # the good one\n", ""),
        ("timeouts.command", "  command: 45\n", ""),
        ("roles.title", "roles: {title: small}\n", ""),
        ("themes", "themes:\n  mine:\n    base: dark\n", ""),
        ("timeouts.tool", "", ""),
        ("vim", "", ""),
    ],
)
def test_a_setting_is_taken_out(where: str, old: str, new: str) -> None:
    assert without_setting(FILE, tuple(where.split("."))) == FILE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "where", "new"),
    [
        ("", "timeouts.tool", "timeouts:\n  tool: 9\n"),
        ("# nothing\n", "timeouts.tool", "# nothing\ntimeouts:\n  tool: 9\n"),
        ("mode: chat", "timeouts.tool", "mode: chat\ntimeouts:\n  tool: 9\n"),
        ("{mode: chat}", "timeouts.tool", "{mode: chat, timeouts: {tool: 9}}"),
        ("{}\n", "timeouts.tool", "{timeouts: {tool: 9}}\n"),
        ("timeouts: {}\n", "timeouts.tool", "timeouts: {tool: 9}\n"),
        ("timeouts: {idle: 5}", "timeouts.tool", "timeouts: {idle: 5, tool: 9}"),
        ("timeouts:\n    idle: 5", "timeouts.tool", "timeouts:\n    idle: 5\n    tool: 9\n"),
    ],
)  # fmt: skip
def test_files_of_all_forms(text: str, where: str, new: str) -> None:
    assert set_to(where, "9", text) == new


@pytest.mark.parametrize(
    "text", ["mode: [", "mode: chat\n---\nmode: plan\n", "- a\n", "model: &a x\nsmall_model: *a\n"]
)
def test_what_cannot_be_changed_safely_is_left(text: str) -> None:
    with pytest.raises(SettingsEditError):
        with_setting(text, ("vim",), True)


@pytest.mark.parametrize(
    ("where", "word", "says"),
    [
        ("mode", "fast", "must be"),
        ("timeouts.tool", "-1", "more than 0"),
        ("keys", "{undo: q}", "keys.undo: `q` types a character"),
        ("keys", "undo", "a group"),
        ("themes", "{a: {primary: blue}}", "must be a color"),
        ("base_url", "ftp://x", "http"),
    ],
)
def test_a_wrong_value_says_why(where: str, word: str, says: str) -> None:
    value, wrong = parse_value(tuple(where.split(".")), word)
    assert value is None and says in wrong


@given(
    st.lists(st.sampled_from(["# c", "", "mode: chat", "timeouts:", "  idle: 5", "  # in", "model: a  # b", "tools_off:", "  - x", "roles: {title: a}"]), max_size=10),
    st.sampled_from(setting_paths()),
    st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=12),
)  # fmt: skip
def test_any_edit_is_exact_or_refused(lines: list[str], where: tuple[str, ...], word: str) -> None:
    text = "\n".join(lines) + "\n"
    for change in (lambda: with_setting(text, where, word), lambda: without_setting(text, where)):
        try:
            new = change()
        except SettingsEditError:
            continue
        assert [line for line in new.splitlines() if line.startswith("#")] == [
            line for line in text.splitlines() if line.startswith("#")
        ]
    assert yaml.safe_load(yaml_literal(word)) == word
