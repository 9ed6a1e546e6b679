"""The settings themselves. Every field has a type, a default, a range where it needs one, and one sentence."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

import tui_agent.settings.without_plugins  # noqa: F401  # before pydantic makes the first model


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _switch(value: Any) -> Any:
    """YAML 1.1 reads a bare `on` or `off` as a truth value; these fields mean the word."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _some_keys(value: Any) -> Any:
    """`f5`, `ctrl+p, f2`, a list of such, or `none`."""
    if value is None:
        return ()
    if isinstance(value, str):
        words = [word for word in (part.strip() for part in value.split(",")) if word]
        return () if [word.lower() for word in words] == ["none"] else tuple(words)
    return _tuple(value)


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_tuple)]
Command: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=1)]
Keys: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_some_keys)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=86_400)]
Rounds: TypeAlias = Annotated[int, Field(ge=1, le=1_000)]


class Part(BaseModel):
    """Base of the settings and their groups: exact types, unknown keys are errors, never changed once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Roles(Part):
    """Models of single roles; a role without one uses the session's model."""

    dispatcher: Name | None = Field(None, description="Model that classifies a request.")
    planning: Name | None = Field(None, description="Model that plans the steps.")
    execution: Name | None = Field(None, description="Model that carries out the steps.")
    summary: Name | None = Field(None, description="Model that sums up the work.")
    title: Name | None = Field(None, description="Model that names the session.")


class Iterations(Part):
    """How often the model may be called for one message, by mode."""

    direct: Rounds = Field(25, description="Calls in direct mode.")
    step: Rounds = Field(10, description="Calls for one step of a plan.")
    chat: Rounds = Field(10, description="Calls in chat mode.")
    plan: Rounds = Field(10, description="Calls in plan mode.")
    explore: Rounds = Field(10, description="Calls in explore mode.")
    review: Rounds = Field(15, description="Calls in review mode.")
    deep_explore: Rounds = Field(20, description="Calls in deep-explore mode.")
    subagent: Rounds = Field(10, description="Calls of one sub-agent.")


class Timeouts(Part):
    """Limits in seconds."""

    connect: Seconds = Field(10.0, description="To reach the model server.")
    first_byte_local: Seconds = Field(600.0, description="Until a server on this machine begins its reply.")
    first_byte_remote: Seconds = Field(120.0, description="Until a remote server begins its reply.")
    idle: Seconds = Field(120.0, description="Without any byte from the server.")
    progress_local: Seconds = Field(
        600.0, description="Without text, thought or call from a server on this machine."
    )
    progress_remote: Seconds = Field(180.0, description="Without text, thought or call from a remote server.")
    tool: Seconds = Field(5.0, description="For a tool that keeps no time of its own.")
    command: Seconds = Field(30.0, description="For a command unless the model asks for another limit.")
    command_max: Seconds = Field(600.0, description="The longest limit that the model may ask for.")
    planning: Seconds = Field(
        120.0, description="For planning without progress, loading of the model not counted."
    )
    diagnostics: Seconds = Field(3.0, description="To wait for diagnostics after a write.")


class Caps(Part):
    """How much is kept or shown."""

    head_lines: int = Field(
        15, ge=0, le=10_000, description="First lines of a command's output that the model gets."
    )
    tail_lines: int = Field(
        85, ge=1, le=10_000, description="Last lines of a command's output that the model gets."
    )
    read_lines: int = Field(
        2_000, ge=10, le=100_000, description="Lines of a file that one reading gives the model."
    )
    attachment_characters: int = Field(
        8_000, ge=100, le=1_000_000, description="Characters of an attached file."
    )
    search_matches: int = Field(200, ge=1, le=10_000, description="Matches that one search gives the model.")
    reply_tokens: int = Field(4_096, ge=64, le=1_000_000, description="Tokens of one reply of the model.")
    undo_file_bytes: int = Field(
        100 << 20, ge=0, le=1 << 40, description="Bytes of a file that is kept for undo; a larger one asks."
    )
    undo_bytes: int = Field(
        1 << 30,
        ge=0,
        le=1 << 50,
        description="Bytes that one session keeps for undo; when they are used up, it asks.",
    )


class Log(Part):
    """How much of the past the model gets."""

    entries: int = Field(
        10, ge=0, le=1_000, description="Entries of the plan's log that the model gets in full."
    )
    user_messages: int = Field(5, ge=1, le=100, description="User messages that stay in the history.")


class Settings(Part):
    """All settings."""

    # --- model server
    provider: Literal["ollama", "openai", "scripted"] | None = Field(
        None,
        description="Kind of model server; without it, openai when LLM_BASE_URL is set, else ollama.",
    )
    base_url: str | None = Field(
        None,
        max_length=2_000,
        pattern=r"^https?://[^\s]+$",
        description="Address of the model server; only the user's own settings, the environment and flags can set it.",
    )
    token_env: str = Field(
        "LLM_AUTH_TOKEN",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the token for the server; the token itself never stands here.",
    )
    token_file: str | None = Field(
        None, description="File that holds the token, read instead of the variable."
    )
    model: Name | None = Field(
        None, description="Model of the session; without it, the default of models.json."
    )
    small_model: Name | None = Field(None, description="Model for short side tasks such as titles.")
    explorer_model: Name | None = Field(None, description="Model of sub-agents; without it, the agent's own.")
    roles: Roles = Field(default_factory=Roles, description="Models of single roles.")
    context_window: int | None = Field(
        None,
        ge=1_024,
        le=10_000_000,
        description="Tokens of the model's window; without it, as models.json says.",
    )
    keep_alive: str = Field(
        "30m",
        pattern=r"^(-1|0|\d+(ms|s|m|h))$",
        description="How long Ollama keeps the model loaded after a request.",
    )
    temperature: float | None = Field(
        None, ge=0, le=2, description="Sampling temperature for all requests; without it, as fits the task."
    )

    # --- what the agent may do
    mode: Literal["agent", "direct", "chat", "plan", "explore", "review", "deep-explore"] = Field(
        "agent", description="How a message is worked on at the start of a session."
    )
    approval_mode: Literal["ask", "auto-edit", "auto", "read-only"] = Field(
        "ask", description="Who is asked when, at the start of a session."
    )
    auto_run: bool = Field(True, description="Run commands without asking that can only read and print.")
    auto_approve_sensitive_edits: bool = Field(
        False, description="In auto-edit and auto mode, edit sensitive files without asking."
    )
    auto_approve_high: bool = Field(
        False, description="In auto mode, run high-severity commands without asking while they are sandboxed."
    )
    sandbox: Annotated[Literal["off", "auto", "required"], BeforeValidator(_switch)] = Field(
        "auto", description="Run commands in a sandbox: never, where there is one, or not at all without one."
    )
    sandbox_network: bool = Field(False, description="Let sandboxed commands use the network.")
    sensitive_patterns: dict[str, bool] = Field(
        default_factory=dict,
        description="Globs after the built-in list, last match wins: true is safe to edit, false asks.",
    )
    protected_patterns: Names = Field(
        (), description="Further globs of files whose change is always asked for."
    )
    tools_off: Names = Field((), description="Tools that the model does not get.")
    pass_env: Names = Field((), description="Further environment variables that commands get.")

    # --- planning
    planning: bool = Field(True, description="Plan before working on a message in agent mode.")
    plan_depth: Literal["auto", "simple", "moderate", "complex"] = Field(
        "auto", description="How finely requests are planned; auto takes it from the request."
    )
    plan_auto_approve: bool = Field(False, description="Carry out plans without showing them first.")
    plan_fallback: bool = Field(True, description="Without a valid plan, do the request in one step.")
    plan_cache: bool = Field(True, description="Use plans again that worked for the same kind of request.")
    plan_cache_days: int = Field(7, ge=1, le=365, description="Days that a cached plan is kept.")

    # --- limits
    iterations: Iterations = Field(
        default_factory=Iterations, description="Model calls for one message, by mode."
    )
    timeouts: Timeouts = Field(default_factory=Timeouts, description="Limits in seconds.")
    caps: Caps = Field(default_factory=Caps, description="How much is kept or shown.")
    log: Log = Field(default_factory=Log, description="How much of the past the model gets.")

    # --- code intelligence, sub-agents, titles, git
    language_servers_on: bool = Field(True, description="Start language servers in trusted folders.")
    language_servers: dict[str, Command] = Field(
        default_factory=dict,
        description="Command of the language server of a language, instead of the built-in one.",
    )
    orchestrator: bool = Field(False, description="Leave reading and searching to sub-agents.")
    titles: bool = Field(True, description="Have the small model name a session after its first run.")
    calibrate: bool = Field(
        True,
        description="Measure how to ask a local model that is used for the first time, until your first message.",
    )
    git_branch: bool = Field(False, description="Make a git branch for a session when it first writes.")

    # --- screen
    theme: Name = Field(
        "default", description="Colours: default, dark, light, high-contrast, ansi, or a name of `themes`."
    )
    themes: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        description="Themes of your own: for each name the `base` that it changes, and colours of its roles.",
    )
    keys: dict[str, Keys] = Field(
        default_factory=dict, description="Keys of actions, instead of the built-in ones; `none` for no key."
    )
    vim: bool = Field(False, description="Keys of vi in the composer.")
    animation: bool = Field(True, description="Move spinners and other signs of work.")
    notifications: Annotated[
        Literal["off", "bell", "desktop", "desktop-777", "desktop-99"], BeforeValidator(_switch)
    ] = Field(
        "bell",
        description="How you are called while the terminal is not in front; desktop: OSC 9, 777 (foot) or 99 (kitty).",
    )
    notify_of: Annotated[tuple[Literal["questions", "ends", "failures"], ...], BeforeValidator(_tuple)] = (
        Field(("questions", "ends", "failures"), description="What is announced.")
    )
    debug: bool = Field(False, description="Write more to the debug log.")
