"""run_terminal_command: run a shell command after approval (T2)."""

from __future__ import annotations

from pydantic import Field

from tui_agent.common.domain import CommandOutcome, Mode, ToolResult
from tui_agent.platform.output import MAX_FILE
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError


class RunTerminalCommandArgs(Args):
    """See run_terminal_command.md."""

    command: str = Field(min_length=1)
    cwd: str | None = None
    timeout_seconds: float | None = Field(default=None, allow_inf_nan=False)


class RunTerminalCommand(Tool[RunTerminalCommandArgs]):
    """Runs a command. The call succeeds if the exit code is 0; the output is returned in any case."""

    name = "run_terminal_command"
    args = RunTerminalCommandArgs
    subject = "command"
    reads_only = False
    timeout = None
    modes = (Mode.AGENT, Mode.DIRECT, Mode.REVIEW)  # in review for what only reads (W11)

    async def run(self, args: RunTerminalCommandArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        if not args.command.strip():
            raise ToolError("command is empty.", "bad_arguments")
        cwd = _resolve_cwd(args.cwd, ctx)
        requested = ctx.command_timeout if args.timeout_seconds is None else round(args.timeout_seconds)
        timeout = max(1, min(requested, ctx.command_timeout_max))
        outcome = await ctx.run(args.command, cwd, timeout)
        notes = [outcome.note] if outcome.note else []
        if requested > timeout:
            notes.append(f"timeout_seconds was lowered to the limit of {timeout}")
        return _format_outcome(outcome, timeout, notes)


def _resolve_cwd(cwd: str | None, ctx: ToolContext) -> str:
    """Return the absolute folder, or an empty string for the shell's current one."""
    if cwd is None:
        return ""
    target = ctx.resolve(cwd)
    if not target.path.is_dir():
        raise ToolError(f"cwd {target.display} is not a folder.", "not_found")
    return str(target.path)


def _format_outcome(outcome: CommandOutcome, timeout: int, notes: list[str]) -> ToolResult:
    """Format output and notes, preceded by the exit code on success; failures are described in `error`."""
    if outcome.interrupted:
        status, code = "interrupted by the user", "interrupted"
    elif outcome.timed_out:
        status, code = f"stopped after {timeout} s; give a larger timeout_seconds if it needs longer", "timeout"
    elif outcome.exit_code is None:
        status, code = "ended without an exit code", "exit"
    else:
        status, code = f"exit code {outcome.exit_code}", "exit"
    if outcome.spill:
        spilled = "the full output is" if outcome.total_bytes <= MAX_FILE else f"its first {MAX_FILE >> 20} MiB are"
        notes.append(f"{outcome.total_lines:,} lines in all; {spilled} in {outcome.spill}")
    body = [outcome.output.rstrip("\n") or "(no output)", *(f"[{note}]" for note in notes)]
    if outcome.exit_code == 0 and not outcome.interrupted and not outcome.timed_out:
        return ToolResult(success=True, data="\n".join([status, *body]))
    return ToolResult(success=False, data="\n".join(body), error=status, code=code)


TOOLS = (RunTerminalCommand(),)
