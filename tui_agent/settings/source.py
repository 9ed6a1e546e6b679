"""Merging the sources of settings; later ones override: user file, workspace, environment, flags (G1, G2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.common.suggestions import did_you_mean
from tui_agent.settings.checking import check_settings, iter_set_values, nest_values, setting_paths
from tui_agent.settings.model import ServerSettings, Settings
from tui_agent.settings.screen import screen_problems, theme_problem
from tui_agent.settings.tightening import rule_for
from tui_agent.settings.tree import KeyPath, SettingsProblem, SettingsTree, parse_tree, printable, read_tree

PREFIX = "TUI_AGENT_"
"""Prefix of environment variables: `TUI_AGENT_` and the setting's name in capitals, with underscores for dots."""
HOME = "HOME"
"""Name after `PREFIX` of the folder of all files, which is no setting."""
TEST_VARIABLES = frozenset(
    [
        "ASCII",
        "CI",
        "COMPOSER",
        "DAEMONS",
        "DEATHS",
        "DEEP",
        "EARLY",
        "EXAMPLES",
        "EXPLORE",
        "FUZZED",
        "HUGE",
        "KILLS",
        "MUTATIONS",
        "POWER_LOSSES",
        "REAL_MODEL",
        "SLOW_PAGES",
        "SOAK",
        "TEST_BASE_URL",
        "TEST_MODEL",
        "TEST_PICTURES",
    ]
)
"""Names after `PREFIX` that only tests use (docs/testing.md): they are accepted, but never suggested."""


class LoadedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings, the problems found, and the source of every setting that is not a default."""

    settings: Settings
    problems: tuple[SettingsProblem, ...] = ()
    sources: dict[str, str] = {}

    @property
    def errors(self) -> tuple[SettingsProblem, ...]:
        """The problems that are errors, not values a workspace must not set."""
        return tuple(problem for problem in self.problems if not problem.ignored)


def load_settings(
    user_file: Path | None,
    workspace_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Load the settings from all sources. Invalid values are reported and skipped.

    Pass `workspace_file` only for a trusted folder (A8). `environ` defaults to the process's own; `flags` maps dotted
    names to values, None for flags not given.
    """
    environ = os.environ if environ is None else environ
    merger = _Merger()
    if user_file is not None:
        merger.merge(*read_tree(user_file))
    if workspace_file is not None:
        merger.tighten(*read_tree(workspace_file, follow=False))
    for key_path in setting_paths():
        variable = PREFIX + "_".join(key_path).upper()
        if text := environ.get(variable, "").strip():
            merger.merge(_tree_from_texts(f"environment ({variable})", {".".join(key_path): text}), [])
    merger.problems += _unknown_variables(environ)
    texts = {field: value for field, value in (flags or {}).items() if value is not None}
    merger.merge(_tree_from_texts("command line", texts), [])
    _choose_server(merger, environ)
    chosen = Settings.model_validate(nest_values(merger.values))
    merger.problems += theme_problem(chosen, merger.sources.get("theme", ""))
    return LoadedSettings(settings=chosen, problems=tuple(merger.problems), sources=merger.sources)


def tighten(loaded: LoadedSettings, workspace_file: Path) -> LoadedSettings:
    """Return the settings tightened by the file of a workspace that is trusted by now; nothing is loosened.

    Settings from the environment and the command line stay, as when everything is loaded. `problems` are those of the
    file alone; it may be missing.
    """
    merger = _Merger()
    merger.values = {key_path: reduce(getattr, key_path, loaded.settings) for key_path in setting_paths()}
    merger.sources = dict(loaded.sources)
    user_sources = ("environment", "command line")
    pinned = frozenset(field for field, source in loaded.sources.items() if source.startswith(user_sources))
    merger.tighten(*read_tree(workspace_file, follow=False), pinned=pinned)
    chosen = Settings.model_validate(nest_values(merger.values))
    return LoadedSettings(settings=chosen, problems=tuple(merger.problems), sources=merger.sources)


def read_tokens(settings: Settings, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the tokens of all servers that can be read, to mask them. Blocks briefly."""
    sources: tuple[Settings | ServerSettings, ...] = (settings, *settings.servers.values())
    return tuple(token for source in sources if (token := read_token(source, environ)[0]))


def read_token(
    settings: Settings | ServerSettings, environ: Mapping[str, str] | None = None
) -> tuple[str | None, SettingsProblem | None]:
    """Return the server's token from `token_file` or the variable named by `token_env`, and a problem, if any.

    The token is None if there is none, and empty if the settings say that the server gets none.
    """
    environ = os.environ if environ is None else environ
    if settings.token_file is None:
        none = "" if settings.token_env == "" else None
        return environ.get(settings.token_env or "", "").strip() or none, None
    path = Path(settings.token_file).expanduser()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            mode = os.fstat(fd).st_mode
            data = file.read(16_384) if stat.S_ISREG(mode) else b""
        token = data.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        return None, SettingsProblem(file=str(path), field="token_file", message=f"the token can't be read: {reason}")
    if not token or "\n" in token:
        return None, SettingsProblem(file=str(path), field="token_file", message="must contain one line, the token")
    if mode & 0o077:
        message = "other users can read this file; `chmod 600` prevents that"
        return token, SettingsProblem(file=str(path), field="token_file", message=message, ignored=True)
    return token, None


class _Merger:
    """Collects the values of the sources."""

    def __init__(self) -> None:
        self.values: dict[KeyPath, Any] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[SettingsProblem] = []

    def merge(self, tree: SettingsTree | None, problems: list[SettingsProblem]) -> None:
        """Merge all valid values of `tree`."""
        self.problems += problems
        if tree is None:
            return
        valid, problems_found = check_settings(tree)
        self.problems += problems_found
        for key_path, value in iter_set_values(valid):
            self._set(key_path, value, tree)
        self.problems += screen_problems(valid, tree)

    def tighten(
        self, tree: SettingsTree | None, problems: list[SettingsProblem], pinned: frozenset[str] = frozenset()
    ) -> None:
        """Merge the values of a workspace that tighten settings, and report the others; `pinned` fields stay.

        An error in its file never prevents a start. What an unreadable one says is unknown, so approval is asked for.
        """
        if tree is None:
            self.problems += [_ignored(problem) for problem in problems]
            if not problems:
                return
            tree = SettingsTree(file=problems[0].file, values={"approval_mode": "ask"})
            problems = []
        valid, problems_found = check_settings(tree)
        self.problems += [_ignored(problem) for problem in (*problems, *problems_found)]
        defaults: Any = Settings()
        for key_path, requested in iter_set_values(valid):
            field = ".".join(key_path)
            if field in pinned:
                continue
            rule = rule_for(field)
            if rule is None:
                self._report_ignored(tree, key_path, "only your own settings can set this, not a workspace")
                continue
            current = self.values.get(key_path, reduce(getattr, key_path, defaults))
            value, refusal = rule(current, requested)
            if refusal and tree.lines:
                self._report_ignored(tree, key_path, refusal)
            if value != current:
                self._set(key_path, value, tree)

    def _set(self, key_path: KeyPath, value: Any, tree: SettingsTree) -> None:
        self.values[key_path] = value
        line = tree.line(key_path)
        self.sources[".".join(key_path)] = tree.file if line is None else f"{tree.file}, line {line}"

    def _report_ignored(self, tree: SettingsTree, key_path: KeyPath, reason: str) -> None:
        self.problems.append(tree.problem(key_path, f"ignored: {reason}", ignored=True))


def _ignored(problem: SettingsProblem) -> SettingsProblem:
    """Return an error of a workspace's file as one that does not prevent a start."""
    if problem.ignored:
        return problem
    return msgspec.structs.replace(problem, message=f"ignored: {problem.message}", ignored=True)


def _tree_from_texts(file: str, texts: Mapping[str, Any]) -> SettingsTree:
    """Build a tree from texts: each is used as a string if the setting accepts one, else parsed as YAML."""
    values: dict[KeyPath, Any] = {}
    for field, value in texts.items():
        key_path = tuple(field.split("."))
        values[key_path] = parse_text(key_path, value) if isinstance(value, str) else value
    return SettingsTree(file=file, values=nest_values(values))


def parse_text(key_path: KeyPath, text: str) -> Any:
    """Parse the text of a setting, such as from the environment: a string if possible, else YAML."""
    accepted = (
        value
        for value in _interpretations(text)
        if not check_settings(SettingsTree(file="", values=nest_values({key_path: value})))[1]
    )
    return next(accepted, text)


def _interpretations(text: str) -> Iterator[Any]:
    yield text
    for candidate in (text, f"[{text}]"):
        tree, _ = parse_tree("", f"value: {candidate}\n")
        if tree and "value" in tree.values:
            yield tree.values["value"]


def _unknown_variables(environ: Mapping[str, str]) -> list[SettingsProblem]:
    """Return a problem for each variable that looks like a setting and is none; it does not prevent a start."""
    names = {"_".join(key_path).upper() for key_path in setting_paths()} | {HOME}
    accepted = {f"{PREFIX}{name}" for name in names | TEST_VARIABLES}
    unknown = [name for name in sorted(environ) if name.startswith(PREFIX) and name not in accepted]
    known = [f"{PREFIX}{name}" for name in sorted(names)]
    return [
        SettingsProblem(
            file=f"environment ({printable(name)})",
            message=f"ignored: there is no such setting{did_you_mean(name, known, 0.85)}",
            ignored=True,
        )
        for name in unknown
    ]


def _choose_server(merger: _Merger, environ: Mapping[str, str]) -> None:
    """Apply the general environment variables for a server (M2): they override files, but not `TUI_AGENT_…` and flags.

    They describe an OpenAI-compatible server: the address never applies to another provider, the models only if no such
    server is named. An unset provider is chosen when connecting (G2).
    """
    url = environ.get("LLM_BASE_URL", "").strip()
    provider = merger.values.get(("provider",))
    if provider is None and not url and str(merger.values.get(("base_url",), "")).rstrip("/").endswith("/v1"):
        merger.values["provider",] = provider = "openai"
    openai = provider == "openai" or (provider is None and bool(url))
    variables = {"base_url": "LLM_BASE_URL"} if openai else {}
    if openai or not url:
        variables |= {"model": "LLM_DEFAULT_MODEL", "small_model": "LLM_SMALL_FAST_MODEL"}
    for field, variable in variables.items():
        text = environ.get(variable, "").strip()
        is_overridden = merger.sources.get(field, "").startswith(("environment", "command line"))
        if text and not is_overridden:
            merger.merge(_tree_from_texts(f"environment ({variable})", {field: text}), [])
            if field == "base_url" and merger.values.get(("token_env",)) == "":
                del merger.values["token_env",]  # it is about the server of the file
                merger.sources.pop("token_env", None)
