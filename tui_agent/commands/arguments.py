"""The command line: every parser and `--help` page is built from arguments.json. Imports little, for a quick start."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, cast

from tui_agent import __version__
from tui_agent.common.suggestions import did_you_mean

TABLE_FILE = Path(__file__).with_name("arguments.json")
MAX_WIDTH = 80
"""Maximum width of a help page in columns."""
PICK = ""
"""Value of `--resume` without an id: pick a session from the list."""
STRATEGIES = ("native", "json", "xml", "files")
"""Values of `--strategies`."""

Options: TypeAlias = Iterable[str | list[str]]
"""Keys of options in arguments.json; those in an inner list are mutually exclusive."""


class HelpPage(argparse.RawDescriptionHelpFormatter):
    """A help page like a man page: at most 80 columns, an option's value shown once, text not rewrapped."""

    def __init__(self, prog: str) -> None:
        columns = min(MAX_WIDTH, shutil.get_terminal_size().columns)
        super().__init__(prog, max_help_position=26, width=max(40, columns) - 2)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors suggest what was meant."""

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> argparse.Namespace:  # type: ignore[override]  # one of its overloads
        """Parse the arguments; ends the program with exit code 2 if they are wrong."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            first = unknown[0].partition("=")[0]
            if first.startswith("-"):
                self.error(f"unknown option `{first}`{did_you_mean(first, self.option_names())}")
            takes_text = any(not action.option_strings for action in self._actions)
            rest = "Put a text of several words in quotes." if takes_text else f"{self.prog} takes only options."
            self.error(f"too many arguments: {' '.join(unknown)}. {rest}")
        return cast(argparse.Namespace, parsed)

    def option_names(self) -> list[str]:
        """The documented names of all options."""
        return [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            known = f"{', '.join(choices[:-1])} or {choices[-1]}"
            raise argparse.ArgumentError(
                action, f"must be {known}, not `{value}`{did_you_mean(str(value), choices, 0.6)}"
            )


def command_names() -> list[str]:
    """The subcommands, in the order of the help page."""
    return [name for name in _table()["commands"] if name]


def command_parser(command: str) -> argparse.ArgumentParser:
    """The parser of `tui-agent COMMAND`; "" is the program without a command, which opens the screen."""
    entry = _table()["commands"][command]
    about = "\n".join(entry["about"])
    if not command:
        summaries = {name: _table()["commands"][name]["summary"] for name in command_names()}
        about += "\n" + _two_columns(summaries, "  ")
    name = f"tui-agent {command}".strip()
    parser = CommandParser(
        prog=name,
        usage="\n       ".join(f"{name} {line}".rstrip() for line in entry["usage"]),
        description=about,
        epilog="\n\n".join(_section(title, body) for title, body in entry["sections"].items()),
        formatter_class=HelpPage,
    )
    _add_groups(parser, entry)
    if inner := entry.get("commands"):
        title = "commands, each with its own --help"
        subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title=title, prog=name)
        for subcommand, subentry in inner.items():
            summary = subentry["summary"]
            subparser = subparsers.add_parser(
                subcommand,
                usage=f"{name} {subcommand} [OPTION]... {subentry['usage']}".rstrip(),
                help=summary,
                description=f"{summary[0].upper()}{summary[1:]}.",
                formatter_class=HelpPage,
            )
            _add_groups(subparser, subentry)
    return parser


def with_default_command(command: str, arguments: list[str]) -> list[str]:
    """Prepend the default subcommand if the arguments name none: `sessions` means `sessions list`."""
    entry = _table()["commands"][command]
    if "default" not in entry or (arguments and (arguments[0] in ("-h", "--help") or not arguments[0].startswith("-"))):
        return arguments
    return [entry["default"], *arguments]


def model_flags(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings for `--provider`, `--base-url` and `--model`, as far as given.

    A model that is a file of weights needs no server: it is run by this program, unless one of the others is given.
    """
    given = {"provider": args.provider, "base_url": args.base_url, "model": args.model}
    flags: dict[str, str] = {name: value for name, value in given.items() if value is not None}
    if flags.keys() == {"model"} and flags["model"].endswith(".gguf"):
        flags = {"provider": "local", "model": os.path.abspath(os.path.expanduser(flags["model"]))}
    return flags


def without_word(parser: argparse.ArgumentParser, arguments: list[str], word: str) -> list[str]:
    """Return the arguments without the first one that is `word`, but not the value of an option."""
    places = [place for place, argument in enumerate(arguments) if argument == word]
    for place in places:
        marked = [*arguments[:place], "\0", *arguments[place + 1 :]]
        if parser.parse_known_args(marked)[0].draft[:1] == ["\0"]:
            return [*arguments[:place], *arguments[place + 1 :]]
    return arguments


def add_options(parser: argparse._ActionsContainer, options: Options) -> None:
    """Add options of arguments.json by key."""
    for option in options:
        if isinstance(option, list):
            add_options(parser.add_mutually_exclusive_group(), option)
            continue
        settings = dict(_table()["options"][option])
        names, aliases = settings.pop("names"), settings.pop("also", [])
        if "type" in settings:
            settings["type"] = _TYPES[settings["type"]]
        if settings.get("action") == "version":
            settings["version"] = f"tui-agent {__version__}"
        action = parser.add_argument(*names, **settings)
        if aliases:  # without a default, which would replace the value
            hidden = settings | {"dest": action.dest, "help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
            parser.add_argument(*aliases, **hidden)


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE_FILE.read_bytes())
    return table


def _add_groups(parser: argparse.ArgumentParser, entry: Mapping[str, Any]) -> None:
    """Add a command's option groups; `true` stands for the shared group with that title."""
    parser._positionals.title = "arguments"
    for title, options in entry["groups"].items():
        group = parser.add_argument_group(title) if title else parser
        add_options(group, _table()["groups"][title] if options is True else options)


def _section(title: str, body: Any) -> str:
    """A section in two columns or as lines of text; `true` stands for the shared section with that title."""
    body = _table()["sections"][title] if body is True else body
    text = _two_columns(body) if isinstance(body, dict) else body if isinstance(body, str) else "\n".join(body)
    return f"{title}:\n{textwrap.indent(text, '  ')}"


def _two_columns(rows: Mapping[str, str], indent: str = "") -> str:
    """Lay out two columns; a left side that is too long gets its own line."""
    width = min(36, max((len(left) for left, right in rows.items() if right), default=0)) + 2
    lines = []
    for left, right in rows.items():
        fits = len(left) + 2 <= width
        lines.append(f"{indent}{left:{width}}{right}".rstrip() if fits else f"{indent}{left}")
        if right and not fits:
            lines.append(f"{indent}{'':{width}}{right}")
    return "\n".join(lines)


# --- types of values ------------------------------------------------------------------------


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError(f"must be a number of seconds from more than 0 to 86400, not `{text}`")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"must be a number from 1 to 10000, not `{text}`")
    return int(text)


def _temperatures(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(",") if part.strip())
    if not values or not all(0 <= value <= 2 for value in values):
        raise argparse.ArgumentTypeError("must be comma-separated numbers from 0 to 2")
    return values


def _strategies(text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(",") if part.strip())
    if not values or not set(values) <= set(STRATEGIES):
        raise argparse.ArgumentTypeError(f"must be a comma-separated list of {', '.join(STRATEGIES)}")
    return values


_APPROVALS = {"safe": "ask", "edits": "auto-edit", "all": "auto"}
"""What `exec --approve` takes → the approval mode."""


def _approval_mode(text: str) -> str:
    return "ask" if text == "none" else _APPROVALS.get(text, text)


def _approve(text: str) -> str:
    modes = {mode: name for name, mode in _APPROVALS.items()} | {"read-only": "none"}
    return modes.get(text, text)


_TYPES: dict[str, Any] = {
    "path": Path,
    "int": int,
    "seconds": _seconds,
    "count": _count,
    "approval_mode": _approval_mode,
    "approve": _approve,
    "temperatures": _temperatures,
    "strategies": _strategies,
}
