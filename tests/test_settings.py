from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from tui_agent import settings
from tui_agent.settings import Settings, document
from tui_agent.settings.checking import setting_fields, setting_paths
from tui_agent.settings.model import HEADINGS
from tui_agent.settings.tightening import rule_for


@pytest.fixture
def user(tmp_path):
    return tmp_path / "config.yaml"


@pytest.fixture
def workspace(tmp_path):
    return tmp_path / ".tui-agent.yaml"


def load(user=None, workspace=None, environ=None, **flags):
    return settings.load_settings(user, workspace, environ or {}, flags)


def only(loaded):
    (problem,) = loaded.problems
    return problem


def test_defaults():
    loaded = load()
    assert loaded.settings == Settings()
    assert loaded.problems == () and loaded.sources == {}
    assert loaded.settings.approval_mode == "ask"
    assert loaded.settings.iterations.direct == 25


def test_a_missing_file_is_no_problem(user):
    assert load(user).problems == ()


def test_a_file_is_read(user):
    user.write_text(
        "model: qwen\ntimeouts:\n  command: 45\ntools_off: [web]\nsandbox: off\nlanguage_servers: {python: [pylsp]}\n"
    )
    loaded = load(user)
    assert not loaded.problems
    assert loaded.settings.model == "qwen"
    assert loaded.settings.timeouts.command == 45
    assert loaded.settings.tools_off == ("web",)
    assert loaded.settings.sandbox == "off"
    assert loaded.settings.language_servers == {"python": ("pylsp",)}
    assert loaded.sources["timeouts.command"] == f"{user}, line 3"


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        ("model: a\naproval_mode: auto\n", 2, "aproval_mode", "did you mean `approval_mode`"),
        ("\n\napproval-mode: auto\n", 3, "approval-mode", "did you mean `approval_mode`"),
        ("approval_mode: readonly\n", 1, "approval_mode", "'ask', 'auto-edit', 'auto' or 'read-only', not 'readonly'"),
        ("auto_run: 1\n", 1, "auto_run", "true or false, not 1"),
        ("planning: 'yes'\n", 1, "planning", "true or false, not 'yes'"),
        ("model: 7\n", 1, "model", "a string (in quotes), not 7"),
        ("model: ''\n", 1, "model", "at least 1"),
        ("timeouts: {}\niterations:\n  direct: many\n", 3, "iterations.direct", "a whole number, not 'many'"),
        ("iterations:\n  direct: 0\n", 2, "iterations.direct", "at least 1, not 0"),
        ("timeouts:\n  comand: 1\n", 2, "timeouts.comand", "did you mean `command`"),
        ("timeouts: 5\n", 1, "timeouts", "a group of settings, not 5"),
        ("command_max: 5\n", 1, "command_max", "timeouts.command_max"),
        ("tools_off: web\n", 1, "tools_off", "a list, not 'web'"),
        ("tools_off:\n  - a\n  - 3\n", 1, "tools_off", "a string"),
        ("keys:\n  undo: f5\n  redo: 3\n", 3, "keys.redo", "a key such as"),
        ("token: sk-123\n", 1, "token", "LLM_AUTH_TOKEN"),
        ("api_key: sk-123\n", 1, "api_key", "token_file"),
        ("base_url: ftp://x\n", 1, "base_url", "http:// or https://"),
        ("model: a\nmodel: b\n", 2, "model", "set twice; line 1 is used"),
        ("model: !!python/object:os.system x\n", 1, "model", "can't be read"),
        ("plan_cache_days: 2001-99-99\n", 1, "plan_cache_days", "can't be read"),
        ("? [a, b]\n: c\n", 1, "", "must be a word"),
        ("model: a\n  bad: indent\n", 2, "", "not valid YAML"),
        ("model: 'open\n", 2, "", "not valid YAML"),
        ("- a\n- b\n", 1, "", "name: value"),
        ("just words\n", 1, "", "name: value"),
        ("model: a\n---\nmodel: b\n", 2, "", "not valid YAML"),
        ("a: &x [1]\nb: *x\n", 2, "", "aliases"),
        ("keys: " + "[" * 40 + "\n", 1, "", "nested too deeply"),
        ("model: a\nkeys: \x01\n", 2, "", "does not allow"),
    ],
)
def test_mistakes_are_named_by_line_and_field(user, text, line, field, said):
    user.write_text(text)
    problem = only(load(user))
    assert problem.file == str(user)
    assert (problem.line, problem.field) == (line, field)
    assert said in problem.message
    assert str(problem).startswith(f"{user}, line {line}: ")
    assert "sk-123" not in str(problem)


def test_what_is_right_counts_beside_what_is_wrong(user):
    user.write_text("model: a\nnonsense: 1\ntimeouts: {command: -1, tool: 7}\nkeys: {undo: 1, redo: f5}\n")
    loaded = load(user)
    assert len(loaded.problems) == 3
    assert loaded.settings.model == "a"
    assert loaded.settings.timeouts.tool == 7
    assert loaded.settings.timeouts.command == 30
    assert loaded.settings.keys == {"redo": ("f5",)}


def test_a_byte_order_mark_and_crlf_are_fine(user):
    user.write_bytes(b"\xef\xbb\xbfmodel: a\r\nmode: chat\r\n")
    assert load(user).settings.mode == "chat"


def test_what_is_not_utf8_names_the_line(user):
    user.write_bytes(b"model: a\ntheme: caf\xe9\n")
    assert (only(load(user)).line, only(load(user)).message) == (2, "is not UTF-8 text here")


def test_a_huge_file_is_refused_at_once(user):
    user.write_bytes(b"# " + b"x" * 10_000_000)
    assert "10,000,002 bytes" in only(load(user)).message


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{a: " * 50_000, "a: 1\n" * 40_000, "x: " + "9" * 100_000, "k: [" + "1," * 90_000 + "]"]
)
def test_hostile_yaml_is_bounded(user, text):
    user.write_text(text)
    assert load(user).problems


def test_what_is_no_file_never_blocks(user, workspace):
    os.mkfifo(user)
    workspace.mkdir()
    loaded = load(user, workspace)
    assert [problem.file for problem in loaded.problems] == [str(user), str(workspace)]


def test_names_from_the_file_are_shown_without_control(user):
    user.write_text('"\\e[31mx\\u202e": 1\n')
    assert only(load(user)).field == "\\x1b[31mx\\u202e"


def test_environment_and_flags_win_in_this_order(user):
    user.write_text("mode: chat\nmodel: a\ntheme: light\n")
    environ = {
        "TUI_AGENT_MODE": "plan",
        "TUI_AGENT_TIMEOUTS_COMMAND": "60",
        "TUI_AGENT_TOOLS_OFF": "a, b",
        "TUI_AGENT_PLANNING": "false",
        "TUI_AGENT_THEME": "",
    }
    loaded = settings.load_settings(user, None, environ, {"mode": "review", "model": None})
    assert not loaded.problems
    assert loaded.settings.mode == "review"
    assert loaded.settings.model == "a"
    assert loaded.settings.timeouts.command == 60
    assert loaded.settings.tools_off == ("a", "b")
    assert loaded.settings.planning is False
    assert loaded.settings.theme == "light"
    assert loaded.sources["planning"] == "environment (TUI_AGENT_PLANNING)"
    assert loaded.sources["mode"] == "command line"


def test_mistakes_in_environment_and_flags_are_named():
    loaded = load(None, None, {"TUI_AGENT_APPROVAL_MODE": "yolo"}, **{"iterations.direct": "0"})
    assert [(problem.file, problem.field) for problem in loaded.problems] == [
        ("environment (TUI_AGENT_APPROVAL_MODE)", "approval_mode"),
        ("command line", "iterations.direct"),
    ]


def test_the_llm_variables_count_for_an_openai_server(user):
    llm = {"LLM_BASE_URL": "http://b/v1", "LLM_DEFAULT_MODEL": "m", "LLM_SMALL_FAST_MODEL": "s"}
    user.write_text("base_url: http://a:11434\nmodel: x\n")
    chosen = load(user, None, llm).settings
    assert (chosen.provider, chosen.base_url, chosen.model, chosen.small_model) == (None, "http://b/v1", "m", "s")
    user.write_text("provider: ollama\nbase_url: http://a:11434\nmodel: x\n")
    chosen = load(user, None, llm).settings
    assert (chosen.provider, chosen.base_url, chosen.model) == ("ollama", "http://a:11434", "x")
    chosen = load(user, None, llm, provider="openai", base_url="http://c/v1", model="mine").settings
    assert (chosen.provider, chosen.base_url, chosen.model) == ("openai", "http://c/v1", "mine")
    assert load(None, None, {"LLM_DEFAULT_MODEL": "m"}).settings.model == "m"


def test_an_address_that_ends_in_v1_is_openai(user):
    user.write_text("base_url: http://localhost:8080/v1/\n")
    assert load(user).settings.provider == "openai"


LOOSENING = {
    "provider": "scripted",
    "base_url": "http://evil.test",
    "token_env": "HOME",
    "token_file": "/etc/passwd",
    "model": "evil",
    "mode": "direct",
    "approval_mode": "auto",
    "auto_run": True,
    "auto_approve_sensitive_edits": True,
    "auto_approve_high": True,
    "plan_auto_approve": True,
    "sandbox": "off",
    "sandbox_network": True,
    "sensitive_patterns": {"**/*": True},
    "pass_env": ["AWS_SECRET_ACCESS_KEY"],
    "language_servers": {"python": ["./evil"]},
    "language_servers_on": True,
    "iterations": {"direct": 1000},
    "timeouts": {"command": 9999.0, "command_max": 86400.0, "idle": 1.0},
    "keys": {"approve": "space"},
    "git_branch": True,
}


@pytest.mark.parametrize(("name", "value"), LOOSENING.items(), ids=LOOSENING)
def test_a_workspace_never_loosens(workspace, name, value):
    workspace.write_text(yaml.safe_dump({name: value}))
    loaded = load(None, workspace)
    assert loaded.settings == Settings()
    if value is not True or name not in ("auto_run", "language_servers_on"):  # these are so already
        assert loaded.problems
    assert all(
        problem.ignored and problem.line and problem.message.startswith("ignored") for problem in loaded.problems
    )
    assert loaded.errors == ()


@pytest.mark.parametrize("name", sorted(".".join(where) for where in setting_paths() if not rule_for(".".join(where))))
def test_a_workspace_has_no_say_in_a_setting_without_a_rule(workspace, name):
    value: object = 7
    for part in reversed(name.split(".")):
        value = {part: value}
    workspace.write_text(yaml.safe_dump(value))
    loaded = load(None, workspace)
    assert loaded.settings == Settings()
    assert loaded.problems


def test_a_workspace_tightens(user, workspace):
    user.write_text(
        "approval_mode: auto\nauto_approve_high: true\nsensitive_patterns: {'a': true, 'b': true}\ntools_off: [x]\n"
    )
    workspace.write_text(
        "mode: review\napproval_mode: ask\nauto_approve_high: false\nauto_run: false\nsandbox: required\ntools_off: [y, x]\n"
        "sensitive_patterns: {'a': false}\nprotected_patterns: ['db/**']\niterations: {direct: 3}\ntimeouts: {command: 5}\n"
    )
    loaded = load(user, workspace)
    chosen = loaded.settings
    assert not loaded.problems
    assert (chosen.mode, chosen.approval_mode, chosen.auto_approve_high, chosen.auto_run) == (
        "review",
        "ask",
        False,
        False,
    )
    assert chosen.sandbox == "required"
    assert chosen.tools_off == ("x", "y")
    assert list(chosen.sensitive_patterns.items()) == [("b", True), ("a", False)]
    assert chosen.protected_patterns == ("db/**",)
    assert (chosen.iterations.direct, chosen.timeouts.command) == (3, 5)
    assert loaded.sources["sandbox"] == f"{workspace}, line 5"


def test_flags_and_environment_come_after_the_workspace(workspace):
    workspace.write_text("approval_mode: read-only\n")
    assert load(None, workspace, {"TUI_AGENT_APPROVAL_MODE": "ask"}).settings.approval_mode == "ask"
    assert load(None, workspace, None, approval_mode="auto").settings.approval_mode == "auto"


def test_a_workspace_file_that_is_a_link_is_not_followed(tmp_path, workspace):
    (tmp_path / "elsewhere").write_text("secret stuff: [")
    workspace.symlink_to("elsewhere")
    problem = only(load(None, workspace))
    assert "can't be read" in problem.message and "secret" not in str(problem)


def test_the_token_comes_from_the_variable_or_a_file(tmp_path):
    assert settings.read_token(Settings(), {"LLM_AUTH_TOKEN": " t "}) == ("t", None)
    assert settings.read_token(Settings(token_env="OTHER"), {"LLM_AUTH_TOKEN": "t"}) == (None, None)
    file = tmp_path / "token"
    file.write_text("from-file\n")
    file.chmod(0o600)
    assert settings.read_token(Settings(token_file=str(file)), {"LLM_AUTH_TOKEN": "t"}) == ("from-file", None)
    file.chmod(0o644)
    token, problem = settings.read_token(Settings(token_file=str(file)), {})
    assert token == "from-file" and problem is not None and problem.ignored and "chmod" in problem.message
    for broken in (tmp_path / "missing", tmp_path):
        token, problem = settings.read_token(Settings(token_file=str(broken)), {})
        assert token is None and problem is not None and not problem.ignored


SERVERS = """\
servers:
  studio: {base_url: "http://localhost:1234/v1"}
  office:
    base_url: http://10.0.0.5:11434
    token_env: OFFICE_KEY
"""


def test_servers_have_their_own_kind_and_token(user, tmp_path):
    file = tmp_path / "token"
    file.write_text("secret-2")
    file.chmod(0o600)
    user.write_text(f"{SERVERS}  cloud: {{base_url: 'https://example.com/v1', token_file: '{file}'}}\n")
    loaded = load(user)
    assert not loaded.problems
    servers = loaded.settings.servers
    assert [server.kind for server in servers.values()] == ["openai", "ollama", "openai"]
    environ = {"OFFICE_KEY": "secret-1", "LLM_AUTH_TOKEN": "secret-0"}
    tokens = {name: settings.read_token(server, environ)[0] for name, server in servers.items()}
    assert tokens == {"studio": None, "office": "secret-1", "cloud": "secret-2"}
    assert settings.read_tokens(loaded.settings, environ) == ("secret-0", "secret-1", "secret-2")


@pytest.mark.parametrize(
    ("line", "field", "said"),
    [
        ("x: {base_url: 'http://h', token: abc}", "servers.x.token", "tokens are never stored in this file"),
        ("x: {base_url: 'http://h', tokenenv: ABC}", "servers.x.tokenenv", "tokens are never stored"),
        ("x: {base_url: 'http://h', providr: openai}", "servers.x.providr", "did you mean `provider`?"),
        ("x: {base_url: 'ftp://h'}", "servers.x.base_url", "must be an http:// or https:// address"),
        ("x: {provider: openai}", "servers.x", "needs `base_url`"),
        ("'a b': {base_url: 'http://h'}", "servers.a b", "must be letters, digits"),
        ("x: 3", "servers.x", "must be a group of settings"),
        ("local: {base_url: 'http://h'}", "servers.local", "it stands for the models of this program"),
    ],
)
def test_mistakes_in_a_server_are_named_and_the_others_are_used(user, line, field, said):
    user.write_text(f"{SERVERS}  {line}\n")
    loaded = load(user)
    assert {"studio", "office"} <= set(loaded.settings.servers)
    assert said in loaded.problems[0].message
    assert loaded.problems[0].field == field and loaded.problems[0].line == 6


def test_a_workspace_names_no_servers(workspace):
    workspace.write_text("servers: {x: {base_url: 'http://evil.example/v1'}}\nfind_servers: true\n")
    loaded = load(None, workspace)
    assert loaded.settings.servers == {}
    assert all("only your own settings" in problem.message for problem in loaded.problems)


def test_servers_are_written_as_one_line_of_yaml(user):
    user.write_text(SERVERS)
    value = load(user).settings.servers
    written, problem = document.parse_value(("servers",), document.yaml_literal(value))
    user.write_text(document.with_setting("", ("servers",), written))
    assert problem == "" and load(user).settings.servers == value


def test_keys_and_colours_that_cannot_be_are_told_and_nothing_else_suffers(user):
    user.write_text(
        "model: a\nkeys:\n  undo: q\n  detials: f5\n  plan: [f4, f5]\n  redo: none\n"
        "theme: mine\nthemes:\n  mine: {base: dark, primary: blue}\n"
    )
    loaded = load(user)
    assert loaded.errors == () and loaded.settings.model == "a"
    assert [(one.line, one.field) for one in loaded.problems] == [
        (3, "keys.undo"),
        (4, "keys.detials"),
        (5, "keys.plan"),
        (9, "themes.mine.primary"),
    ]
    assert "was the key of `progress`" in loaded.problems[2].message
    user.write_text("theme: gone\n")
    problem = only(load(user))
    assert problem.ignored and problem.field == "theme" and "high-contrast" in problem.message
    assert load(user, None, {"TUI_AGENT_THEME": "light"}).problems == ()


def test_settings_never_change_once_made():
    chosen = Settings()
    with pytest.raises(ValueError):
        chosen.approval_mode = "auto"  # type: ignore[misc]  # that it can't be set is the point


def test_every_setting_is_described_in_a_sentence():
    for where, field in setting_fields():
        description = field.description or ""
        assert description.endswith(".") and description[0].isupper() and len(description) <= 110, where


def test_the_example_sets_nothing_and_its_lines_can_be_used(user):
    text = document.example_config()
    assert all(line.startswith("#") or not line for line in text.splitlines())
    lines = [
        line[1:] for line in text.splitlines() if (line.startswith("#") and line[1:2] != " ") or line.startswith("#  ")
    ]
    user.write_text("\n".join(lines))
    loaded = load(user)
    assert not loaded.problems
    assert loaded.settings == Settings()
    assert len(yaml.safe_load(user.read_text())) == len(Settings.model_fields)


def test_the_table_names_every_setting():
    rows = document.settings_table().splitlines()[2:]
    headings = [row for row in rows if row.startswith("| **")]
    assert len(headings) == len(HEADINGS) and rows[0] in headings
    assert len(rows) - len(headings) == len(setting_paths())
    assert all(row.count(" | ") >= 4 for row in rows)


def test_the_real_files_of_a_folder_with_odd_names(tmp_path):
    folder = tmp_path / "with space Ü"
    folder.mkdir()
    (folder / "config.yaml").write_text("nope: 1\n")
    assert str(only(load(Path(folder / "config.yaml")))).startswith(f"{folder}/config.yaml, line 1: nope")
