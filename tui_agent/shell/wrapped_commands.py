"""Invocations of programs: the command that a wrapper such as `sudo` runs (A1), and what is piped into it."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from itertools import dropwhile, pairwise
from typing import Any, NamedTuple

from msgspec.structs import replace

from tui_agent.common.domain import FrozenValue
from tui_agent.shell.syntax import Pipeline, Redirect, SimpleCommand, Word
from tui_agent.shell.targets import PathScope, ReportSeverity, finds_leftovers, names, report_write, severity_table

_SPLIT_STRING = re.compile(r"(?:-[0-9a-zA-Z]*S|--split-string=)(.+)", re.DOTALL)
_BRACES = re.compile(r"(?<!\$)\{([^{}]*,[^{}]*|[a-zA-Z]\.\.[a-zA-Z])\}")
_COMPOSE_OPTIONS = ("-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory")
_UNKNOWN_INPUT = Word(source="what it reads", text=None)
FIND_FILTER = re.compile(r"-(i?name|i?path|i?regex|[acm](time|min)|newer\w*|size|empty|i?lname|perm|user|inum)")


class Invocation(NamedTuple):
    """A program that is called, by the name that its rules are listed under."""

    program: str
    arguments: Sequence[Word]
    scope: PathScope
    report: ReportSeverity
    depth: int
    """Number of commands around it."""
    sources: Sequence[SimpleCommand]
    """Commands whose output is piped into it."""
    redirects: Sequence[Redirect]
    assigns: bool = False
    """Whether assignments are among its arguments, as of `export`."""

    @property
    def texts(self) -> list[str]:
        """The arguments as texts; as they are written where the text is unknown."""
        return [argument.text if argument.text is not None else argument.source for argument in self.arguments]

    @property
    def input_text(self) -> str:
        """Its standard input, if that is literal."""
        return literal_input(self.sources, self.redirects)

    def split(self) -> tuple[list[Word], list[str]]:
        """Return operands and options."""
        targets: list[Word] = []
        options: list[str] = []
        only_operands = False
        for argument, text in zip(self.arguments, self.texts, strict=True):
            if text == "--" and not only_operands:
                only_operands = True
            elif text.startswith("-") and len(text) > 1 and not only_operands:
                options.append(text)
            else:
                targets.append(argument)
        return targets, options

    def report_write(self, target: Word) -> None:
        """Report that it creates or overwrites `target`."""
        report_write(target, self.scope, self.report)


class WrappedCommand(FrozenValue, frozen=True, kw_only=True):
    """What a wrapper runs, and with what."""

    words: tuple[Word, ...] = ()
    """The command as words."""
    texts: tuple[str | None, ...] = ()
    """Commands as shell text; None for one that is not known before it runs."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """Variables that the wrapper sets."""
    folder: Word | None = None
    """The folder that the wrapper changes to."""


def wrapped_command(program: str, arguments: Sequence[Word]) -> WrappedCommand | None:
    """Return what a wrapper of the table runs; None if it runs nothing with these arguments."""
    entry = severity_table()["wrappers"][program]
    words = list(arguments)
    if "subs" in entry:
        after = _after_subcommand(program, words, entry["subs"].split())
        if after is None:
            return None
        words = after
    if "after" in entry:
        marks = entry["after"].split()
        tail = list(dropwhile(lambda word: word.text not in marks, words))
        if not tail:
            return None
        command = tail[1:]
        if len(command) == 1 and " " in (command[0].text or ""):
            return WrappedCommand(texts=(command[0].text,))
        adds_input = program.startswith("fd") and command
        return WrappedCommand(words=(*command, _UNKNOWN_INPUT) if adds_input else tuple(command))
    texts = _option_texts(words, entry)
    if entry.get("only_text"):
        return WrappedCommand(texts=tuple(texts)) if texts else None
    inner = _without_options(entry, words)
    if entry.get("shell") and inner.words:
        is_known = all(word.text is not None for word in inner.words)
        texts.append(" ".join(word.text or "" for word in inner.words) if is_known else None)
        return WrappedCommand(assignments=inner.assignments, texts=tuple(texts))
    return replace(inner, texts=(*inner.texts, *texts))


def operands(program: str, texts: Sequence[str]) -> list[str]:
    """Return what is neither an option nor the value of a general option (`git -C sub push`): the subcommand first."""
    result: list[str] = []
    remaining = list(texts)
    options_with_value = severity_table()["subcommands"].get(program, {}).get("takes", "").split()
    while remaining:
        text = remaining.pop(0)
        if (text in options_with_value and not result) or (result == ["compose"] and text in _COMPOSE_OPTIONS):
            del remaining[:1]
        elif not text.startswith("-"):
            result.append(text)
    return result


def _after_subcommand(program: str, words: list[Word], subcommands: list[str]) -> list[Word] | None:
    """Return the words after a subcommand that runs something."""
    texts = [word.display_text for word in words]
    command = operands(program, texts)
    if command[:1] in (["compose"], ["container"]):
        command = command[1:]
    if not command or command[0] not in subcommands:
        return None
    return words[texts.index(command[0]) + 1 :]


def _option_texts(words: list[Word], entry: dict[str, Any]) -> list[str | None]:
    """Return the values of the options that take shell text."""
    options = entry.get("text", "").split()
    values: list[str | None] = []
    for index, word in enumerate(words, 1):
        text = word.display_text
        if not text.startswith("-") and not (entry.get("only_text") or entry.get("anywhere")):
            break
        letters = re.fullmatch(r"-[a-zA-Z]*([a-zA-Z])", text)
        name, equals, value = text.partition("=")
        if text in options or (letters and f"-{letters[1]}" in options):
            values += [following.text for following in words[index : index + 1]]
        elif equals and name in options:
            values.append(value if word.text else None)
    return values


def _without_options(entry: dict[str, Any], arguments: list[Word]) -> WrappedCommand:
    """Remove the wrapper's own options, assignments and operands, and note what they change."""
    remaining = list(arguments)
    assignments: list[tuple[str, Word]] = []
    texts: list[str | None] = []
    folder = entrypoint = None
    is_env = entry.get("assignments")
    long_options, folder_options = entry.get("long", "").split(), entry.get("moves", "").split()
    while remaining:
        word = remaining[0].text or ""
        following = remaining[1] if len(remaining) > 1 else None
        if word == "--":
            remaining.pop(0)
            break
        if is_env and re.match(r"\w+=", word or remaining[0].source):
            name, _, value = (word or remaining[0].source).partition("=")
            assignments.append((name, Word.literal(value)))
        elif len(word) > 1 and word.startswith("-"):
            name, equals, value = word.partition("=")
            is_short = not word.startswith("--") and len(word) == 2
            takes_value = word in long_options or (is_short and word[1] in entry.get("values", ""))
            if word == "--entrypoint":
                entrypoint = following if takes_value else None
            if following and word in folder_options:
                folder, takes_value = following, True
            elif equals and name.startswith("--") and name in folder_options:
                folder = Word.literal(value)
            if is_env and following and re.fullmatch(r"-[a-zA-Z0-9]*S|--split-string", word):
                texts.append(following.text)
                takes_value = True
            elif is_env and (attached := _SPLIT_STRING.match(word)):
                texts.append(attached[1])
            if takes_value and following:
                remaining.pop(0)
        else:
            break
        remaining.pop(0)
    remaining = remaining[entry.get("skip", 0) :]
    return WrappedCommand(
        words=tuple([entrypoint, *remaining] if entrypoint else remaining),
        texts=tuple(texts),
        assignments=tuple(assignments),
        folder=folder,
    )


def git_commands(arguments: Sequence[Word]) -> list[str | None]:
    """Return shell text in arguments of git: aliases with `!`, `bisect run`, `submodule foreach`, `rebase --exec`."""
    texts = [word.display_text for word in arguments]
    words = operands("git", texts)
    commands: list[str | None] = [text.partition("!")[2] for text in texts if re.match(r"alias\.[\w-]+=!", text)]
    if words[:1] == ["config"]:
        commands += [text[1:] for text in texts if text.startswith("!")]
    for subcommand, verb in (("bisect", "run"), ("submodule", "foreach")):
        if words[:2] == [subcommand, verb]:
            command = [*dropwhile(lambda text: text.startswith("-"), texts[texts.index(verb) + 1 :])]
            is_shell = len(command) == 1 or subcommand == "submodule"
            commands.append(" ".join(command) if is_shell else shlex.join(command))
    if words[:1] == ["rebase"]:
        commands += [command for text, command in pairwise(texts) if text in ("-x", "--exec")]
        commands += [text.partition("=")[2] for text in texts if text.startswith("--exec=")]
    return commands


def expand_braces(words: Sequence[Word]) -> list[Word]:
    """Replace words with `{a,b}` by the words that they become."""
    expanded: list[Word] = []
    for word in words:
        if word.text is None or not word.is_pattern or word.source != word.text or not _BRACES.search(word.text):
            expanded.append(word)
            continue
        texts = [word.text]
        for _ in range(4):
            texts = [expansion for text in texts[:64] for expansion in _expand_first(text)]
        expanded += [Word.literal(text, is_pattern=True) for text in texts if text]
    return expanded


def _expand_first(text: str) -> list[str]:
    match = _BRACES.search(text)
    if match is None:
        return [text]
    choices = match[1].split(",")
    if len(choices) == 1:  # a range of letters
        first, last = sorted((ord(match[1][0]), ord(match[1][-1])))
        choices = list(map(chr, range(first, last + 1)))
    return [text[: match.start()] + choice + text[match.end() :] for choice in choices]


# --- pipes ---


def fill_placeholders(words: Sequence[Word], arguments: Sequence[Word], sources: Sequence[SimpleCommand]) -> list[Word]:
    """Add what `xargs` reads to its command, at the end or in place of `{}`."""
    texts = [word.text or "" for word in arguments[: len(arguments) - len(words)]]
    marks = [mark for text, mark in pairwise(texts) if text in ("-I", "-i", "--replace")]
    marks += [text[2:] for text in texts if text.startswith("-I") and text[2:]]
    mark = marks[0] if marks else "{}"
    if not any(mark in (word.text or "") for word in words):
        return [*words, *_xargs_words(sources, words[0].text)]
    if words[0].text == mark:
        return [Word(source=mark, text=None)]
    lines = [line.strip() for line in (printed_text(sources) or "").splitlines() if line.strip()]
    if words[0].text in names("shells"):
        lines = ["\n".join(lines)] if lines else []  # each is a command
    filled: list[Word] = []
    for word in words:
        if mark not in (word.text or ""):
            filled.append(word)
        elif lines:
            filled += [_printed_word((word.text or "").replace(mark, line)) for line in lines]
        elif word.text == mark:
            filled += _xargs_words(sources, words[0].text)
        else:
            is_narrow = bool(sources) and is_narrow_listing([word.text or "" for word in sources[0].words])
            filled.append(word if is_narrow or words[0].text not in names("shells") else _UNKNOWN_INPUT)
    return filled


def _printed_word(text: str) -> Word:
    return Word.literal(text, is_pattern=text.startswith("~"))


def _xargs_words(sources: Sequence[SimpleCommand], program: str | None) -> list[Word]:
    """Return what `xargs` adds to its command.

    That is the words that a single `echo` prints, or the folders outside the current one that a `find` or `ls` lists,
    or else one unknown word.
    """
    if (text := printed_text(sources)) is not None:
        return [_printed_word(word) for word in text.split()]
    words = sources[0].words if sources else ()
    texts = [word.text or "" for word in words]
    is_edit = program == "sed" and texts[:2] == ["git", "ls-files"] and any(re.search(r"\*\.\w+$", t) for t in texts)
    if is_edit or is_narrow_listing(texts):
        return [Word.literal("build/listed")]
    is_listing = bool(words) and words[0].text in ("find", "ls")
    if not is_listing or any(FIND_FILTER.fullmatch(word.text or "") for word in words):
        return [_UNKNOWN_INPUT]
    folders = [word for word in words[1:] if word.source.startswith(("/", "~", '"$', "$", ".."))]
    return [
        Word(source=f"{word.source}/*", text=None if word.text is None else f"{word.text}/*", is_pattern=True)
        for word in folders
    ] or [_UNKNOWN_INPUT]


def printed_text(sources: Sequence[SimpleCommand]) -> str | None:
    """Return what a single `echo`, `printf` or `cat <<X` prints, if it is literal."""
    if not sources:
        return None
    words = sources[-1].words
    texts = [word.text for word in words]
    if len(sources) != 1 or None in texts:
        return None
    if texts in ([], ["cat"]):  # nothing: a group with a here-document
        return literal_input((), sources[-1].redirects) or None
    arguments = [text for text in texts[1:] if text and text not in ("-e", "-n", "--")]
    if texts[0] == "printf" and arguments:
        template, *values = arguments
        template = template.replace("\\n", "\n")
        parts = re.split(r"%[sb]", template)
        if len(parts) == len(arguments):
            return "".join(text for pair in zip(parts, [*values, ""], strict=True) for text in pair)
        return " ".join([template, *values]).strip()
    return " ".join(arguments) if texts[0] == "echo" else None


def literal_input(sources: Sequence[SimpleCommand], redirects: Sequence[Redirect]) -> str:
    """Return the literal standard input of a command, from a pipe or a here-document; empty if it is not known."""
    bodies = [redirect.body for redirect in redirects if "<<" in redirect.operator]
    return "\n".join(bodies) if bodies else (printed_text(sources) or "")


def is_remote(sources: Sequence[SimpleCommand]) -> bool:
    """Return whether what is piped comes from the network or from a decoder."""
    programs = names("network") | names("decoders")
    return any(word.text in programs for command in sources for word in command.words[:3])


def downloaded_files(pipeline: Pipeline) -> set[str]:
    """Return the files that the pipeline fills from the network or from a decoder."""
    files: set[str] = set()
    is_download = is_remote(pipeline.sources)
    for command in pipeline.commands:
        texts = [word.text or "" for word in command.words]
        names_of = [text.rsplit("/", 1)[-1] for text in texts[:6]]
        program = next((name for name in names_of if name in names("network")), names_of[0] if names_of else "")
        is_download |= program in names("decoders")
        if program in names("network"):
            is_download = True
            files |= _output_files(program, texts)
        if is_download:
            files |= {r.target.text or "" for r in command.redirects if r.target and ">" in r.operator}
            files |= set(texts[1:]) if program == "tee" else set()
    return {posixpath.normpath(name) for name in files if name and not name.startswith(("-", "/dev/"))}


def _output_files(program: str, texts: list[str]) -> set[str]:
    """Return the files that a network program writes."""
    addresses = [text for text in texts[1:] if not text.startswith("-")]
    files = [file for text, file in pairwise(texts) if re.fullmatch(r"-[a-zA-Z]*[oO]|--output(-document)?|--out", text)]
    files += [text.partition("=")[2] for text in texts if text.startswith("--output")]
    if program in ("wget", "aria2c") or any(re.fullmatch(r"-[a-zA-Z]*O|--remote-name", text) for text in texts):
        files += [address.rsplit("/", 1)[-1] for address in addresses if "/" in address]
    if program in ("scp", "rsync") and addresses:
        files += [addresses[-1], addresses[0].rsplit("/", 1)[-1]]
    return set(files)


def is_narrow_listing(texts: Sequence[str]) -> bool:
    """Return whether a command lists files of the workspace that it looked for, rather than all of them."""
    if any(text.startswith(("/", "~", "..")) for text in texts):
        return False
    if texts[:1] == ["find"]:
        return finds_leftovers(texts)
    is_search = texts[:1] in (["grep"], ["rg"], ["ag"]) or texts[:2] == ["git", "grep"]
    options = "".join(text[1:] for text in texts if re.fullmatch(r"-[a-zA-Z]+", text))
    pattern = next((text for text in texts[1:] if not text.startswith("-") and text != "grep"), "")
    return is_search and ("l" in options or "--files-with-matches" in texts) and len(re.findall(r"\w", pattern)) > 2


def written_texts(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return the files that the pipeline writes literal texts into, and the texts."""
    texts: list[tuple[str, str]] = []
    for index, command in enumerate(pipeline.commands):
        targets = [r.target.text or "" for r in command.redirects if ">" in r.operator and r.target is not None]
        program = command.words[0].text if command.words else ""
        if targets:
            start = next((i for i, w in enumerate(command.words) if w.text in ("echo", "printf")), 0)
            printed = (printed_text([replace(command, words=command.words[start:])]) or "").replace("\\t", "\t")
            texts.append((targets[-1], printed or literal_input(pipeline.commands[:index], command.redirects)))
        elif program in ("tee", "install", "cp", "dd", "sponge"):
            name = command.words[-1].text or ""
            texts.append((name, literal_input(pipeline.commands[:index], command.redirects)))
    return [(name, text) for name, text in texts if text]


_NO_SHELL_TEXT = (
    r"\.(py|pyi|ipynb|js|mjs|cjs|ts|mts|tsx|jsx|vue|svelte|json|jsonc|md|mdx|rst|txt|csv|css|scss|html|svg|xml|sql|go|rs|java|kt|scala|c|cc|"
    r"cpp|h|hpp|cs|fs|rb|php|ex|exs|erl|hs|ml|swift|dart|lua|jl|r|R|toml|yml|yaml|ini|graphql|proto|tf|snap|log|diff|patch)$"
)
"""Names of files whose text is no shell script."""


def is_shell_text(name: str, text: str) -> bool:
    """Return whether a text that is written into a file may be a script of the shell, or hold commands for it."""
    return re.search(_NO_SHELL_TEXT, name) is None or text.startswith("#!") or "go:generate" in text
