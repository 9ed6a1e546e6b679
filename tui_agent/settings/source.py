"""Where settings come from, later wins: user file, workspace (tightening only), environment, flags (G1, G2)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tui_agent.settings.checking import as_groups, check_settings, set_values, setting_paths
from tui_agent.settings.model import Settings
from tui_agent.settings.screen import screen_problems, theme_problem
from tui_agent.settings.tightening import rule_for
from tui_agent.settings.tree import SettingsProblem, Tree, Where, parse_tree, read_tree

PREFIX = "TUI_AGENT_"
"""`TUI_AGENT_` and the setting's name in capitals, dots as underscores, sets it."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that hold, what was wrong on the way, and where each setting that is not a default came from."""

    settings: Settings
    problems: tuple[SettingsProblem, ...] = ()
    sources: dict[str, str] = {}

    @property
    def errors(self) -> tuple[SettingsProblem, ...]:
        """The problems that are mistakes, without what a workspace merely may not set."""
        return tuple(problem for problem in self.problems if not problem.ignored)


def load_settings(
    user_file: Path | None,
    workspace_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Loaded:
    """The settings from all places. What is wrong is left out and named; the rest counts.

    `workspace_file` only for a trusted folder (A8). `environ` defaults to the process's own; `flags` maps dotted
    names to values, None for flags that were not given.
    """
    environ = os.environ if environ is None else environ
    gathered = _Gathered()
    if user_file is not None:
        gathered.take(*read_tree(user_file))
    if workspace_file is not None:
        gathered.tighten(*read_tree(workspace_file, follow=False))
    for where in setting_paths():
        variable = PREFIX + "_".join(where).upper()
        if word := environ.get(variable, "").strip():
            gathered.take(_from_words(f"environment ({variable})", {".".join(where): word}), [])
    given = {field: value for field, value in (flags or {}).items() if value is not None}
    gathered.take(_from_words("command line", given), [])
    _choose_server(gathered, environ)
    chosen = Settings.model_validate(as_groups(gathered.values))
    gathered.problems += theme_problem(chosen, gathered.sources.get("theme", ""))
    return Loaded(settings=chosen, problems=tuple(gathered.problems), sources=gathered.sources)


def read_token(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> tuple[str | None, SettingsProblem | None]:
    """The token for the model server, from `token_file` or the variable named by `token_env`, and what is wrong."""
    environ = os.environ if environ is None else environ
    if settings.token_file is None:
        return environ.get(settings.token_env, "").strip() or None, None
    path = Path(settings.token_file).expanduser()
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            mode = os.fstat(handle).st_mode
            data = file.read(16_384) if stat.S_ISREG(mode) else b""
        token = data.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        return None, SettingsProblem(file=str(path), field="token_file", message=f"the token can't be read: {why}")
    if not token or "\n" in token:
        return None, SettingsProblem(file=str(path), field="token_file", message="must contain one line, the token")
    if mode & 0o077:
        message = "other users can read this file; `chmod 600` prevents that"
        return token, SettingsProblem(file=str(path), field="token_file", message=message, ignored=True)
    return token, None


class _Gathered:
    """Leaf values by dotted name, as they pile up."""

    def __init__(self) -> None:
        self.values: dict[Where, Any] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[SettingsProblem] = []

    def take(self, tree: Tree | None, problems: list[SettingsProblem]) -> None:
        """Let all that is right in `tree` count."""
        self.problems += problems
        if tree is None:
            return
        good, wrong = check_settings(tree)
        self.problems += wrong
        for where, value in set_values(good):
            self._set(where, value, tree)
        self.problems += screen_problems(good, tree)

    def tighten(self, tree: Tree | None, problems: list[SettingsProblem]) -> None:
        """Let what tightens in the workspace's `tree` count, and tell what does not."""
        self.problems += problems
        if tree is None:
            return
        good, wrong = check_settings(tree)
        self.problems += wrong
        defaults = Settings()
        for where, wanted in set_values(good):
            field = ".".join(where)
            rule = rule_for(field)
            if rule is None:
                self._ignore(tree, where, "only your own settings can set this, not a workspace")
                continue
            held = self.values.get(where, _default(defaults, where))
            value, why_not = rule(held, wanted)
            if why_not:
                self._ignore(tree, where, why_not)
            if value != held:
                self._set(where, value, tree)

    def _set(self, where: Where, value: Any, tree: Tree) -> None:
        self.values[where] = value
        line = tree.line(where)
        self.sources[".".join(where)] = tree.file if line is None else f"{tree.file}, line {line}"

    def _ignore(self, tree: Tree, where: Where, why: str) -> None:
        self.problems.append(
            SettingsProblem(
                file=tree.file, line=tree.line(where), field=".".join(where), message=f"ignored: {why}", ignored=True
            )
        )


def _default(defaults: Settings, where: Where) -> Any:
    value: Any = defaults
    for name in where:
        value = getattr(value, name)
    return value


def _from_words(file: str, given: Mapping[str, Any]) -> Tree:
    """A tree of values written as words: text stays text where text is wanted, else it is read as YAML."""
    values: dict[Where, Any] = {}
    for field, value in given.items():
        where = tuple(field.split("."))
        values[where] = read_word(where, value) if isinstance(value, str) else value
    return Tree(file=file, values=as_groups(values))


def read_word(where: Where, word: str) -> Any:
    """A value written as a word, such as in the environment: as it is where text is wanted, else read as YAML."""
    fits = (one for one in _readings(word) if not check_settings(Tree(file="", values=as_groups({where: one})))[1])
    return next(fits, word)


def _readings(word: str) -> Iterator[Any]:
    yield word
    for text in (word, f"[{word}]"):
        tree, _ = parse_tree("", f"value: {text}\n")
        if tree and "value" in tree.values:
            yield tree.values["value"]


def _choose_server(gathered: _Gathered, environ: Mapping[str, str]) -> None:
    """Let the environment's own names for a server count (M2): above the files, below `TUI_AGENT_…` and flags.

    They belong to an OpenAI-compatible server, so its address does not touch another provider's, and its models count
    for another provider only when no such server is named. Which provider an unset one means is G2's, at connecting.
    """
    url = environ.get("LLM_BASE_URL", "").strip()
    provider = gathered.values.get(("provider",))
    if provider is None and not url and str(gathered.values.get(("base_url",), "")).rstrip("/").endswith("/v1"):
        gathered.values["provider",] = provider = "openai"
    openai = provider == "openai" or (provider is None and bool(url))
    offered = {"base_url": "LLM_BASE_URL"} if openai else {}
    if openai or not url:
        offered |= {"model": "LLM_DEFAULT_MODEL", "small_model": "LLM_SMALL_FAST_MODEL"}
    for field, variable in offered.items():
        word = environ.get(variable, "").strip()
        stronger = gathered.sources.get(field, "").startswith(("environment", "command line"))
        if word and not stronger:
            gathered.take(_from_words(f"environment ({variable})", {field: word}), [])
