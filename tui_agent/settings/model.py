"""The settings model: every field has a type, a default, a range if necessary, and a description."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tui_agent.common.domain import EffortLevel

ADDRESS: Final = r"^https?://[^\s]+$"
"""What the address of a model server looks like."""
_PLUGIN_LOADER = "pydantic.plugin._loader"

# Disable pydantic's plugins before the first model is created: searching for them costs a megabyte per start, and their
# code would run. If pydantic renames its loader, it merely searches again.
if _PLUGIN_LOADER not in sys.modules:
    _no_plugins = ModuleType(_PLUGIN_LOADER)
    vars(_no_plugins)["get_plugins"] = tuple
    sys.modules[_PLUGIN_LOADER] = _no_plugins


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _bool_to_switch(value: Any) -> Any:
    """Map the booleans that YAML 1.1 reads for a bare `on` or `off` back to strings."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


def _parse_keys(value: Any) -> Any:
    """Parse `f5`, `ctrl+p, f2`, a list of keys, or `none`."""
    if value is None:
        return ()
    if isinstance(value, str):
        words = [word for word in (part.strip() for part in value.split(",")) if word]
        return () if [word.lower() for word in words] == ["none"] else tuple(words)
    return _to_tuple(value)


def _not_taken(name: str) -> str:
    if name == "local":
        raise PydanticCustomError("taken", "can't be the name of a server: it stands for the models of this program")
    return name


Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_to_tuple)]
Command: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_to_tuple), Field(min_length=1)]
Keys: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_parse_keys)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
Effort: TypeAlias = Annotated[EffortLevel, BeforeValidator(_bool_to_switch)]
RoleEffort: TypeAlias = Annotated[EffortLevel | None, BeforeValidator(_bool_to_switch)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=86_400)]
ServerName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=40), AfterValidator(_not_taken)
]
Rounds: TypeAlias = Annotated[int, Field(ge=1, le=1_000)]


class SettingsGroup(BaseModel):
    """Base of the settings and their groups: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ServerSettings(SettingsGroup):
    """A further model server."""

    base_url: str = Field(max_length=2_000, pattern=ADDRESS, description="Address of the server.")
    provider: Literal["ollama", "openai"] | None = Field(
        None, description="Kind of server; default: openai if the address ends in /v1, else ollama."
    )
    token_env: str | None = Field(
        None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Environment variable with the token for this server."
    )
    token_file: str | None = Field(None, description="File with the token, read instead of the variable.")

    @property
    def kind(self) -> Literal["ollama", "openai"]:
        """The provider, from the address if it is not set."""
        return self.provider or ("openai" if self.base_url.rstrip("/").endswith("/v1") else "ollama")


class RoleModels(SettingsGroup):
    """Models per role; a role without one uses the session's model."""

    dispatcher: Name | None = Field(None, description="Model that classifies a request.")
    planning: Name | None = Field(None, description="Model that plans the steps.")
    execution: Name | None = Field(None, description="Model that executes the steps.")
    summary: Name | None = Field(None, description="Model that writes the summary.")
    title: Name | None = Field(None, description="Model that names the session.")


class RoleEfforts(SettingsGroup):
    """Reasoning effort per role; a role without one uses `effort`."""

    dispatcher: RoleEffort = Field(
        None, description="Effort for classifying a request and judging a step; off unless set."
    )
    planning: RoleEffort = Field(None, description="Effort for planning the steps.")
    execution: RoleEffort = Field(None, description="Effort for executing the steps.")
    summary: RoleEffort = Field(None, description="Effort for writing the summary.")
    title: RoleEffort = Field(None, description="Effort for naming the session; off unless set.")
    explorer: RoleEffort = Field(None, description="Effort of sub-agents.")


class Iterations(SettingsGroup):
    """Maximum number of model calls per message, by mode."""

    direct: Rounds = Field(25, description="Model calls in direct mode.")
    step: Rounds = Field(10, description="Model calls for one step of a plan.")
    chat: Rounds = Field(10, description="Model calls in chat mode.")
    plan: Rounds = Field(10, description="Model calls in plan mode.")
    explore: Rounds = Field(10, description="Model calls in explore mode.")
    review: Rounds = Field(15, description="Model calls in review mode.")
    deep_explore: Rounds = Field(20, description="Model calls in deep-explore mode.")
    subagent: Rounds = Field(10, description="Model calls of one sub-agent.")


class Timeouts(SettingsGroup):
    """Limits in seconds."""

    connect: Seconds = Field(10.0, description="Seconds to connect to the model server.")
    first_byte_local: Seconds = Field(600.0, description="Seconds until a local server starts its reply.")
    first_byte_remote: Seconds = Field(120.0, description="Seconds until a remote server starts its reply.")
    idle: Seconds = Field(120.0, description="Seconds without any data from the server.")
    progress_local: Seconds = Field(600.0, description="Seconds without text, reasoning or call from a local server.")
    progress_remote: Seconds = Field(180.0, description="Seconds without text, reasoning or call from a remote server.")
    tool: Seconds = Field(5.0, description="Seconds for tools without their own limit.")
    command: Seconds = Field(30.0, description="Seconds for a command, unless the model requests another limit.")
    command_max: Seconds = Field(600.0, description="Longest limit that the model may request, in seconds.")
    planning: Seconds = Field(
        120.0, description="Seconds of planning without progress; loading the model does not count."
    )
    diagnostics: Seconds = Field(3.0, description="Seconds to wait for diagnostics after a write.")


class Caps(SettingsGroup):
    """Size limits."""

    head_lines: int = Field(15, ge=0, le=10_000, description="First lines of a command's output that the model gets.")
    tail_lines: int = Field(85, ge=1, le=10_000, description="Last lines of a command's output that the model gets.")
    read_lines: int = Field(2_000, ge=10, le=100_000, description="Lines of a file that one read returns to the model.")
    attachment_characters: int = Field(8_000, ge=100, le=1_000_000, description="Characters of an attached file.")
    search_matches: int = Field(200, ge=1, le=10_000, description="Matches that one search returns to the model.")
    reply_tokens: int = Field(4_096, ge=64, le=1_000_000, description="Tokens of one reply of the model.")
    undo_file_bytes: int = Field(
        100 << 20, ge=0, le=1 << 40, description="Largest file saved for undo, in bytes; larger ones need approval."
    )
    undo_bytes: int = Field(
        1 << 30,
        ge=0,
        le=1 << 50,
        description="Bytes that one session saves for undo; beyond that, edits need approval.",
    )


class Log(SettingsGroup):
    """How much history the model gets."""

    entries: int = Field(10, ge=0, le=1_000, description="Entries of the plan's log that the model gets in full.")
    user_messages: int = Field(5, ge=1, le=100, description="User messages that stay in the history.")


HEADINGS: Final = {
    "provider": "Models and their server",
    "mode": "What the agent may do",
    "planning": "Planning",
    "iterations": "Model calls for one message",
    "timeouts": "Time limits",
    "caps": "Size limits",
    "log": "History that the model gets",
    "language_servers_on": "Code intelligence, sub-agents, sessions",
    "theme": "Screen",
}
"""First setting, or group of settings, of each subject → its heading."""


class Settings(SettingsGroup):
    """All settings, by subject."""

    # --- model server
    provider: Literal["ollama", "openai", "local", "scripted"] | None = Field(
        None,
        description="Kind of model server; default: openai if LLM_BASE_URL is set, local for .gguf files, else ollama.",
    )
    base_url: str | None = Field(
        None,
        max_length=2_000,
        pattern=ADDRESS,
        description="Address of the model server; only the user's own settings, the environment and flags can set it.",
    )
    token_env: str = Field(
        "LLM_AUTH_TOKEN",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$",
        description="Environment variable with the token for the server, which is never stored here; empty: no token.",
    )
    token_file: str | None = Field(None, description="File with the token, read instead of the variable.")
    model: Name | None = Field(None, description="Model of the session; default: from models.json.")
    small_model: Name | None = Field(None, description="Model for short side tasks such as titles.")
    explorer_model: Name | None = Field(None, description="Model of sub-agents; default: the agent's own.")
    roles: RoleModels = Field(default_factory=RoleModels, description="Models for individual roles.")
    effort: Effort = Field(
        "default",
        description="How much models that reason do so before they answer: off, low, medium, high, or their default.",
    )
    efforts: RoleEfforts = Field(
        default_factory=RoleEfforts, description="Reasoning effort for individual roles, instead of `effort`."
    )
    context_window: int | None = Field(
        None, ge=1_024, le=10_000_000, description="Context window in tokens; default: from models.json."
    )
    keep_alive: str = Field(
        "30m", pattern=r"^(-1|0|\d+(ms|s|m|h))$", description="How long Ollama keeps the model loaded after a request."
    )
    temperature: float | None = Field(
        None, ge=0, le=2, description="Sampling temperature for all requests; default: by task."
    )
    servers: dict[ServerName, ServerSettings] = Field(
        default_factory=dict,
        description="More model servers by name, each with base_url, and provider, token_env or token_file if needed.",
    )
    find_servers: bool = Field(True, description="Look for model servers on this machine when models are listed.")

    # --- what the agent may do
    mode: Literal["agent", "direct", "chat", "plan", "explore", "review", "deep-explore"] = Field(
        "agent", description="Work mode of a new session."
    )
    approval_mode: Literal["ask", "auto-edit", "auto", "read-only"] = Field(
        "ask", description="What needs approval in a new session."
    )
    auto_run: bool = Field(True, description="Run read-only commands without asking.")
    auto_approve_sensitive_edits: bool = Field(
        False, description="In auto-edit and auto mode, edit sensitive files without asking."
    )
    auto_approve_high: bool = Field(
        False, description="In auto mode, run high-severity commands without asking while they are sandboxed."
    )
    sandbox: Annotated[Literal["off", "auto", "required"], BeforeValidator(_bool_to_switch)] = Field(
        "auto", description="Sandbox for commands: off, auto (if available) or required."
    )
    sandbox_network: bool = Field(False, description="Let sandboxed commands use the network.")
    sensitive_patterns: dict[str, bool] = Field(
        default_factory=dict,
        description="Globs added to the built-in list, last match wins: true is safe to edit, false needs approval.",
    )
    protected_patterns: Names = Field((), description="Additional globs of files whose changes always need approval.")
    tools_off: Names = Field((), description="Tools that are not offered to the model.")
    pass_env: Names = Field((), description="Additional environment variables that commands get.")

    # --- planning
    planning: bool = Field(True, description="Plan before working on a message in agent mode.")
    plan_depth: Literal["auto", "simple", "moderate", "complex"] = Field(
        "auto", description="Level of detail of plans; auto chooses it for each request."
    )
    plan_auto_approve: bool = Field(False, description="Run plans without review.")
    plan_fallback: bool = Field(True, description="If no valid plan is produced, carry out the request in one step.")
    plan_cache: bool = Field(True, description="Reuse successful plans for the same kind of request.")
    plan_cache_days: int = Field(7, ge=1, le=365, description="Days to keep a cached plan.")

    # --- limits
    iterations: Iterations = Field(default_factory=Iterations, description="Model calls for one message, by mode.")
    timeouts: Timeouts = Field(default_factory=Timeouts, description="Limits in seconds.")
    caps: Caps = Field(default_factory=Caps, description="Size limits.")
    log: Log = Field(default_factory=Log, description="How much history the model gets.")

    # --- code intelligence, sub-agents, titles, git
    language_servers_on: bool = Field(True, description="Start language servers in trusted folders.")
    language_servers: dict[str, Command] = Field(
        default_factory=dict, description="Command for a language's server, instead of the built-in one."
    )
    orchestrator: bool = Field(False, description="Delegate reading and searching to sub-agents.")
    titles: bool = Field(True, description="Let the small model name a session after its first run.")
    calibrate: bool = Field(
        True, description="Measure the best strategy when a local model is first used, until your first message."
    )
    snapshot_commands: bool = Field(
        True, description="Save the workspace before commands that may write, so that undo reverts what they change."
    )
    git_branch: bool = Field(False, description="Create a git branch before a session's first change.")

    # --- screen
    theme: Name = Field(
        "default",
        description="Colors: default (dark or light like your terminal), dark, light, high-contrast, ansi, or a name "
        "from `themes`.",
    )
    themes: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Custom themes: for each name, its `base` and the colors of its roles."
    )
    keys: dict[str, Keys] = Field(default_factory=dict, description="Custom keys for actions; `none` for no key.")
    vim: bool = Field(False, description="Vi keys in the composer; Alt with a letter is then Esc and that letter.")
    animation: bool = Field(True, description="Animate spinners and progress.")
    notifications: Annotated[
        Literal["off", "bell", "desktop", "desktop-777", "desktop-99"], BeforeValidator(_bool_to_switch)
    ] = Field(
        "bell",
        description="Notification while the terminal is in the background; desktop: OSC 9, 777 (foot) or 99 (kitty).",
    )
    notify_of: Annotated[tuple[Literal["questions", "ends", "failures"], ...], BeforeValidator(_to_tuple)] = Field(
        ("questions", "ends", "failures"), description="When to notify."
    )
    debug: bool = Field(False, description="Verbose debug log.")


def settings_subject(name: str) -> str:
    """Return the first setting of the subject of a setting, as in `HEADINGS`; empty for an unknown setting."""
    first, subject = name.partition(".")[0], ""
    for setting in Settings.model_fields:
        subject = setting if setting in HEADINGS else subject
        if setting == first:
            return subject
    return ""
