"""The command line of the ways to use a session, and how every `--help` looks. Loads nothing but argparse (R23.1)."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from tui_agent import __version__

Sections: TypeAlias = Mapping[str, str | Mapping[str, str]]
"""Title → text, or rows of two columns."""
WIDEST = 80
"""Columns of a help page at most."""
PICK = ""
"""`--resume` without an id."""
MODES = ("agent", "direct", "chat", "plan", "explore", "review", "deep-explore")
"""Values of `--mode` (W11)."""
APPROVALS = ("ask", "auto-edit", "auto", "read-only")
"""Values of `--approval-mode` (A2)."""
PROVIDERS = ("ollama", "openai", "scripted")

FILES = {
    "~/.config/tui-agent/config.yaml": "your settings",
    "~/.config/tui-agent/models.json": "what you know of your models",
    "~/.local/share/tui-agent/sessions/": "one folder a session",
    "~/AGENTS.md, AGENTS.md": "your rules, and those of the project",
    ".tui-agent.yaml": "a trusted project may tighten settings",
}
ENVIRONMENT = {
    "OLLAMA_HOST": "where Ollama is; default: localhost:11434",
    "LLM_BASE_URL": "an OpenAI-compatible server, which is then taken",
    "LLM_DEFAULT_MODEL": "name of its model",
    "LLM_AUTH_TOKEN": "its key; never written to disk, never given to a command",
    "TUI_AGENT_HOME": "one folder for settings and sessions alike",
    "TUI_AGENT_…": "any setting, such as TUI_AGENT_MODE=direct",
    "NO_COLOR": "no colour",
}
COMMANDS = {
    "exec": "work on one task without a screen, for scripts and CI",
    "repl": "line by line: a plain terminal, a screen reader, a pipe",
    "web": "in a browser on this machine; --tui: this screen in it",
    "desktop": "the page in a window of its own",
    "sessions": "list, search, rename, fork, export or delete sessions",
    "undo": "take back what the agent did to files",
    "doctor": "look at server, model, files, terminal; say what to do",
    "reliability": "measure which way of asking fits a model",
    "stats": "success, planning, checks, failures, tokens in numbers",
    "settings": "print a config.yaml that explains every setting",
    "rules": "write ~/AGENTS.md, your rules, from a template",
}
"""Every command, and what it is for."""
EXAMPLES = {
    "tui-agent --demo": "a scratch project, no server needed",
    "tui-agent": "in this folder, with Ollama",
    "tui-agent -C ~/app --model NAME": "in that folder, with this model",
    "tui-agent --continue": "go on with the last session here",
    "tui-agent --base-url http://localhost:8080/v1 --provider openai": "",
}
EXEC_EXAMPLES = {
    'tui-agent exec "make the failing test pass" --approve edits': "",
    'tui-agent exec "explain src/app.py" --json | jq .type': "",
    "git diff | tui-agent exec - --mode review": "the task from a pipe",
    'tui-agent exec --continue "now the other one"': "",
    "tui-agent exec --demo --approve all": "try it without a server",
}
EXIT_CODES = """\
0 done   1 failed   2 wrong usage   3 refused or needs a person
4 model unreachable   5 limit reached   130 interrupted"""
ANSWERS = """\
{"verdict": "approve"}                            the oldest open request
{"id": "a-…", "verdict": "reject", "text": "…"}   a certain one, with a reason
{"id": "q-…", "verdict": "reply", "text": "…"}    the answer to a question"""


class HelpPage(argparse.RawDescriptionHelpFormatter):
    """A page as man shows one: at most 80 columns, an option's value once, text as it was written."""

    def __init__(self, prog: str) -> None:
        columns = min(WIDEST, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=26, width=max(40, columns) - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def rows(pairs: Mapping[str, str], lead: str = "") -> str:
    """Two columns; a left side that is too long for that has a line alone."""
    wide = min(36, max((len(left) for left, right in pairs.items() if right), default=0)) + 2
    lines = []
    for left, right in pairs.items():
        fits = len(left) + 2 <= wide
        lines.append(f"{lead}{left:{wide}}{right}".rstrip() if fits else f"{lead}{left}")
        if right and not fits:
            lines.append(f"{lead}{'':{wide}}{right}")
    return "\n".join(lines)


def page(command: str, about: str, usage: Iterable[str], sections: Sections) -> argparse.ArgumentParser:
    """The parser of `tui-agent COMMAND` ("" for none), with a page: purpose, options, then `sections` by title.

    `usage` are the lines behind the name; a section is text, or rows of two columns.
    """
    name = f"tui-agent {command}".strip()
    parts = []
    for title, text in sections.items():
        body = text if isinstance(text, str) else rows(text)
        parts.append(f"{title}:\n" + "\n".join(f"  {line}".rstrip() for line in body.splitlines()))
    parser = argparse.ArgumentParser(
        prog=name,
        usage="\n       ".join(f"{name} {line}".rstrip() for line in usage),
        description=about,
        epilog="\n\n".join(parts),
        formatter_class=HelpPage,
    )
    parser._positionals.title = "arguments"
    return parser


def add_session_options(parser: argparse.ArgumentParser, *, approvals: bool = True) -> None:
    """The options of everything that opens a session."""
    _add_where(parser)
    add_server_options(parser)
    session = parser.add_argument_group("session")
    earlier = session.add_mutually_exclusive_group()
    earlier.add_argument(
        "--continue", dest="resume_last", action="store_true", help="go on with the last session here"
    )
    earlier.add_argument(
        "--resume",
        nargs="?",
        const=PICK,
        metavar="ID",
        help="go on with a session, named by its id or the beginning of it; on the screen without one: from a list",
    )
    earlier.add_argument("--fork", metavar="ID", help="go on in a copy of a session, which stays as it is")
    session.add_argument(
        "--mode",
        choices=MODES,
        metavar="MODE",
        help="how messages are worked on: agent (plans first), direct, or one that changes nothing: chat, plan, "
        "explore, review, deep-explore; default: setting `mode`, else agent",
    )
    if approvals:
        session.add_argument(
            "--approval-mode",
            choices=APPROVALS,
            metavar="MODE",
            help="who is asked when: ask, auto-edit, auto or read-only; default: setting `approval_mode`, else ask",
        )
    session.add_argument(
        "--max-iterations",
        type=int,
        metavar="N",
        help="replies of the model to one message in direct mode; default: setting `iterations.direct`, else 25",
    )


def _add_where(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where")
    where.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="the folder to work in; default: the current one"
    )
    where.add_argument(
        "--add-root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="another folder that belongs to it; may be given several times",
    )
    where.add_argument(
        "--trust",
        action="store_true",
        help="trust this folder without being asked: read its AGENTS.md and settings",
    )
    where.add_argument(
        "--demo",
        action="store_true",
        help="work on a small project in a scratch folder, with a scripted model",
    )


def add_server_options(parser: argparse.ArgumentParser, *, model: bool = True) -> None:
    """The options that say which model is meant."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--provider",
        choices=PROVIDERS,
        metavar="KIND",
        help="kind of server: ollama, openai (all that speak its protocol) or scripted; default: openai where "
        "LLM_BASE_URL is set, else ollama",
    )
    group.add_argument(
        "--base-url", metavar="URL", help="address of the server; default: OLLAMA_HOST or LLM_BASE_URL"
    )
    if model:
        group.add_argument(
            "--model", metavar="NAME", help="its model; default: as settings or models.json say"
        )
    group.add_argument(
        "--context-window",
        type=int,
        metavar="TOKENS",
        help="size of the window to ask for; default: as models.json says",
    )
    group.add_argument(
        "--scenarios",
        type=Path,
        metavar="FILE",
        help="what `--provider scripted` plays; default: the demonstration",
    )


def build_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent` without a command."""
    about = (
        "A coding agent for the terminal that runs on your own model. It reads and edits\n"
        "your project, runs commands, and asks before anything changes.\n\n"
        "Without a command it opens the screen in the current folder.\n\n"
        f"commands, each with a --help of its own:\n{rows(COMMANDS, '  ')}"
    )
    sections: Sections = {
        "examples": EXAMPLES,
        "exit codes": "0 you left   1 it could not go on   2 wrong usage, or no terminal\n128+N ended by signal N",
        "files": FILES,
        "environment": ENVIRONMENT,
    }
    parser = page("", about, ["[OPTION]...", "COMMAND [OPTION]..."], sections)
    parser.add_argument(
        "--version", action="version", version=f"tui-agent {__version__}", help="say which it is"
    )
    parser.add_argument(
        "--reset-tty", action="store_true", help="put a terminal in order that was left broken"
    )
    add_session_options(parser)
    return parser


def build_exec_parser() -> argparse.ArgumentParser:
    """The parser of `tui-agent exec`."""
    about = (
        "Work on one task without a screen, for scripts and CI: what is said and done is\n"
        "printed as plain text, or every event as a line of JSON."
    )
    sections: Sections = {
        "examples": EXEC_EXAMPLES,
        "answers, for --answers": ANSWERS,
        "exit codes": EXIT_CODES,
        "environment": ENVIRONMENT,
    }
    parser = page("exec", about, ["[OPTION]... TASK", "[OPTION]... -"], sections)
    parser.add_argument(
        "task",
        nargs="?",
        metavar="TASK",
        help="what to do; `-` reads it from standard input; --demo brings its own",
    )
    alone = parser.add_argument_group("without a person")
    alone.add_argument(
        "--approve",
        choices=("none", "safe", "edits", "all"),
        metavar="WHAT",
        default="safe",
        help="what may happen: none (nothing that asks), safe (reading commands), edits (those too), all (but what "
        "always asks); default: safe",
    )
    alone.add_argument(
        "--accept-plan", action="store_true", help="carry out plans that somebody would have to look at"
    )
    alone.add_argument(
        "--accept-summary", action="store_true", help="take the summary of the work into plan_doc.md"
    )
    alone.add_argument(
        "--answers", action="store_true", help="read answers as JSON lines from standard input; see below"
    )
    alone.add_argument("--json", action="store_true", help="print every event as a line of JSON")
    add_session_options(parser, approvals=False)
    return parser


def bare_parser(command: str, about: str, sections: Sections) -> argparse.ArgumentParser:
    """The parser of a command that takes no options."""
    return page(command, about, [""], sections)
