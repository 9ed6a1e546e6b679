"""Check a script, and run it, without a shell: each program is started with an argument list that was checked (A1, T2).

A check walks through the whole script, both branches of every condition; text that only becomes known when the script
runs is `Unknown`. When it runs, every argument list is checked once more, right before its program starts.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tui_agent.common.domain import CommandOutcome
from tui_agent.platform.output import Capture
from tui_agent.platform.proc import Confinement, Stage, finished_process, signal_name
from tui_agent.shell.argument_lists import BUILTINS, ArgumentLists, Prepared, own_environment, run_builtin
from tui_agent.shell.conditions import Condition, Term, Token
from tui_agent.shell.execution import Buffer, ScriptExecution, Sink
from tui_agent.shell.readable import Readable
from tui_agent.shell.safe_arguments import NotSafe, Unknown, require
from tui_agent.shell.script import (
    Assignment,
    Choice,
    Command,
    For,
    Group,
    If,
    Part,
    Quoted,
    ReadLoop,
    Redirects,
    Script,
    ScriptPipeline,
    ScriptWord,
    Simple,
    Substitution,
    Test,
    Text,
    Variable,
)

MAX_ROUNDS = 1000
"""Rounds of a loop, and pipelines that one script may run."""
MAX_TEXT = 64 * 1024
"""Characters of a variable."""
MAX_WORD = 128 * 1024
"""Characters of a word."""
MAX_PATTERN_TEXT = 4096
"""Characters of a variable of which a beginning or an end is removed."""
MAX_CHOICES = 1000
"""Words that the braces of one word may stand for."""
MAX_INPUT = 4 << 20
"""Bytes of a file that is read as input."""
_VARIABLES = re.compile(
    r"HOME|USER|LOGNAME|PATH|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|TMPDIR|XDG_\w+_HOME|XDG_RUNTIME_DIR|VIRTUAL_ENV"
    r"|CONDA_PREFIX|CONDA_DEFAULT_ENV|GOPATH|GOROOT|GOBIN|JAVA_HOME|CARGO_HOME|RUSTUP_HOME|NVM_DIR|NVM_BIN|PYENV_ROOT|ANDROID_HOME"
    r"|EDITOR|PAGER|CC|CXX|NIX_PATH"
)
"""Variables of the environment that are shown unasked."""
_ASSIGNABLE = re.compile(
    r"[a-z]\w*|(?!.*(PATH|IFS|ENV|OPT|COMMAND|HIST|PROMPT|EDITOR|PAGER|_)|PS\d|BASH|LC|LESS|SHELL)[A-Z]\w*", re.ASCII
)

T = TypeVar("T")


class SafeScript(NamedTuple):
    """A script that may run without approval."""

    script: Script
    cwd: Path
    readable: Readable
    git: bool
    """Whether git may look at the workspace."""


def check_script(safe: SafeScript, *, asks_git: bool = True) -> None:
    """Raise NotSafe unless the script may run without approval. `asks_git`: git may be asked what it would show."""
    require(safe.readable.contains(safe.cwd))
    interpreter = Interpreter(safe, None, asks_git=asks_git)
    try:
        interpreter.run(safe.script, None, Sink()).send(None)
    except StopIteration:
        return
    raise AssertionError("a check does not wait")


async def run_script(
    safe: SafeScript, *, timeout: float, capture: Capture | None = None, confinement: Confinement | None = None
) -> CommandOutcome:
    """Run a script for `timeout` seconds in all.

    Nothing of the session's shell reaches it. Cancelling kills what was started. A program that can't be started
    counts as in a shell: 127 or 126.
    """
    capture = capture or Capture()
    execution = ScriptExecution(capture, time.monotonic() + timeout, confinement)
    interpreter = Interpreter(safe, execution)
    timed_out, notes = False, []
    try:
        await interpreter.run(safe.script, None, Sink())
    except TimeoutError:
        timed_out = True
    except (NotSafe, OSError, ValueError):
        interpreter.status = 126
        notes.append(f"Stopped before {interpreter.shown}: it needs approval. Call it as a command of its own.")
    outcome = await finished_process(capture, interpreter.status, cwd=interpreter.cwd, timed_out=timed_out)
    notes += [outcome.note] if outcome.note else []
    if timed_out:
        notes.append(f"Stopped after {timeout:g} s; the command was killed.")
    elif name := signal_name(outcome.exit_code):
        notes.append(f"Exit code {outcome.exit_code}: ended by {name}.")
    return replace(outcome, note="\n".join(notes))


Data = bytes | Unknown | None
"""What a command reads on its standard input."""


class Interpreter:
    """Runs one script; without an `execution` it only checks it."""

    def __init__(self, safe: SafeScript, execution: ScriptExecution | None, *, asks_git: bool = True) -> None:
        self._readable = safe.readable
        self._execution = execution
        self._lists = ArgumentLists(safe.readable, git=safe.git, asks_git=asks_git)
        self._environment = own_environment()
        self._started = 0
        self.variables: dict[str, str] = {}
        self.cwd = safe.cwd
        self.status: int | None = 0
        self.shown = "the first command"
        """The latest command, for messages."""

    @property
    def is_check(self) -> bool:
        """Whether nothing is run."""
        return self._execution is None

    async def in_thread(self, function: Callable[..., T], *arguments: object, **options: object) -> T:
        """Call what reads the disk; a check is already in a thread."""
        if self._execution is None:
            return function(*arguments, **options)
        return await asyncio.to_thread(function, *arguments, **options)

    async def run(self, script: Script, data: Data, sink: Sink) -> None:
        """Run the steps in order, as their operators say."""
        for step in script:
            if (step.operator == "&&" and self.status) or (step.operator == "||" and self.status == 0):
                continue
            await self._pipeline(step.pipeline, data, sink)
            data = None
            if self.is_check:
                self.status = None
            elif step.pipeline.is_negated:
                self.status = int(not self.status)

    # --- pipelines ---

    async def _pipeline(self, pipeline: ScriptPipeline, data: Data, sink: Sink) -> None:
        self._count()
        items = [(command, await self._argv(command)) for command in pipeline.commands]
        before = self.cwd, dict(self.variables)
        index = 0
        while index < len(items):
            end = index + 1
            if _is_program(*items[index]):
                while end < len(items) and _is_program(*items[end]) and not _has_input(items[end][0]):
                    end += 1
            target = sink if end == len(items) else Sink(Buffer(), sink.err)
            command, argv = items[index]
            data = await self._input(command.redirects, data) if not isinstance(command, Assignment) else data
            if _is_program(command, argv):
                await self._programs(items[index:end], data, target)
            else:
                await self._internal(command, argv, data, target)
            if len(items) > 1:
                self.cwd, self.variables = before[0], dict(before[1])
            if end < len(items):
                data = self._result(items[index:end], data, target)
            index = end

    def _result(self, items: Sequence[tuple[Command, list[str]]], data: Data, target: Sink) -> Data:
        """Return what a part of a pipeline wrote: the input of the next one."""
        if not self.is_check:
            assert isinstance(target.out, Buffer)
            return bytes(target.out.data)
        if isinstance(data, Unknown):
            return data
        return Unknown("\0", self._lists.lists_cleanly(items[0][1], self.cwd))

    async def _input(self, redirects: Redirects, data: Data) -> Data:
        if redirects.text:
            text = await self._text(redirects.text)
            return text if isinstance(text, Unknown) else f"{text}\n".encode()
        if not redirects.file:
            return data
        names = await self._fields([redirects.file])
        require(len(names) == 1)
        name = names[0]
        if isinstance(name, Unknown):
            require(name.is_clean)
            return Unknown("\0", True)
        return await self.in_thread(self._read, name)

    def _read(self, name: str) -> Data:
        path = self._readable.resolve(self.cwd, name)
        require(self._readable.may_read(path, files_only=True))
        if self.is_check:
            return Unknown("\0", self._lists.lists_cleanly([], self.cwd))
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            data = file.read(MAX_INPUT + 1)
        require(len(data) <= MAX_INPUT)
        return data

    async def _programs(self, items: Sequence[tuple[Command, list[str]]], data: Data, sink: Sink) -> None:
        stages: list[Stage] = []
        environment: dict[str, str] = {}
        for command, argv in items:
            self.shown = f"`{' '.join(argv)[:80]}`"
            is_piped = bool(stages) or data is not None
            prepared = await self.in_thread(self._lists.prepare, argv, self.cwd, is_piped=is_piped)
            tree = "GIT_WORK_TREE"
            require(environment.get(tree) in (None, prepared.environment.get(tree, environment.get(tree))))
            environment |= prepared.environment
            assert isinstance(command, Simple)
            stages.append(await self._stage(prepared, command.redirects))
        if self._execution is not None:
            assert not isinstance(data, Unknown)
            self.status = await self._execution.execute(stages, self.cwd, environment, data, sink)

    async def _stage(self, prepared: Prepared, redirects: Redirects) -> Stage:
        argv = prepared.argv
        if prepared.git is not None and self._execution is not None:
            options = await prepared.git.options(Path(prepared.program))
            require(options is not None)
            argv = (argv[0], *(options or ()), *argv[1:])
        return Stage(
            program=prepared.program,
            argv=argv,
            discards_stdout=redirects.stdout == "null",
            discards_stderr=redirects.stderr == "null",
            joins_stderr=redirects.stderr == "out",
            redirects_stdout=redirects.stdout == "err",
        )

    def _count(self) -> None:
        self._started += 1
        require(self._started <= MAX_ROUNDS)

    # --- what needs no program, or several ---

    async def _internal(self, command: Command, argv: list[str], data: Data, sink: Sink) -> None:
        match command:
            case Simple():
                await self._simple(command, argv, data, sink.with_redirects(command.redirects))
            case Assignment(name, value):
                text = await self._text(value)
                self._assign({name: text})
                self.status = 0
            case Group(script, is_subshell, redirects):
                before = self.cwd, dict(self.variables)
                await self.run(script, data, sink.with_redirects(redirects))
                if is_subshell:
                    self.cwd, self.variables = before
            case For():
                await self._for(command, sink.with_redirects(command.redirects))
            case ReadLoop():
                await self._read_loop(command, data, sink.with_redirects(command.redirects))
            case If():
                await self._if(command, sink.with_redirects(command.redirects))
            case Test():
                await self._test(command)

    async def _simple(self, command: Simple, argv: list[str], data: Data, sink: Sink) -> None:
        self.shown = f"`{' '.join(argv)[:80]}`"
        if argv[0] == "xargs":
            await self._each(*self._lists.xargs(argv[1:], data), sink)
        elif argv[0] == "find":
            await self._find(argv, sink)
        else:
            output, errors, status = await self.in_thread(
                run_builtin, argv, self.cwd, self._readable, is_check=self.is_check
            )
            if argv[0] == "cd" and not status:
                self.cwd, output = Path(output), ""
            self.status = status
            self._write(sink, output, errors)

    def _write(self, sink: Sink, output: str, errors: str = "") -> None:
        if self._execution is not None:
            self._execution.write(sink.out, output.encode("utf-8", "surrogateescape"))
            self._execution.write(sink.err, errors.encode("utf-8", "surrogateescape"))

    async def _find(self, argv: list[str], sink: Sink) -> None:
        """Run `find … -exec`: list the files first, and check each argument list before its program starts."""
        listing, inner, is_single = self._lists.find_exec(argv)
        command = Simple((), Redirects(stderr="err"))
        target = Sink(Buffer(), sink.err)
        await self._programs([(command, listing)], None, target)
        data = self._result([(command, listing)], None, target)
        files: list[str] = [data] if isinstance(data, Unknown) else _split(data or b"", "\0")
        if is_single:
            lists = [[word.replace("{}", file) if word == "{}" else word for word in inner] for file in files]
        else:
            lists = [[*inner[:-1], *files[start : start + 1000]] for start in range(0, len(files), 1000)]
        if self.is_check:
            lists = [[Unknown(word, data.is_clean) if "\0" in word else word for word in words] for words in lists]  # type: ignore[union-attr]  # a check knows no file
        await self._each(lists, sink)
        self.status = 0

    async def _each(self, lists: Sequence[list[str]], sink: Sink) -> None:
        status = 0
        for argv in lists:
            self._count()
            command = Simple((), Redirects())
            require(bool(argv) and argv[0] not in ("xargs", "find", "cd"))
            if _is_program(command, argv):
                await self._programs([(command, argv)], None, sink)
            else:
                await self._simple(command, argv, None, sink)
            status = status or (123 if self.status else 0)
        self.status = status

    async def _for(self, loop: For, sink: Sink) -> None:
        self.status = 0
        values = await self._fields(loop.words)
        require(len(values) <= MAX_ROUNDS)
        for value in values:
            self._assign({loop.name: value})
            await self.run(loop.body, None, sink)

    async def _read_loop(self, loop: ReadLoop, data: Data, sink: Sink) -> None:
        self.status = 0
        if isinstance(data, Unknown):
            self._assign(dict.fromkeys(loop.names, data))
            await self.run(loop.body, None, sink)
            return
        lines = _split(data or b"", loop.end)
        require(len(lines) <= MAX_ROUNDS)
        for line in lines:
            self._assign(_read_fields(line, loop))
            await self.run(loop.body, None, sink)

    async def _if(self, command: If, sink: Sink) -> None:
        for condition, body in command.branches:
            if condition is not None:
                await self.run(condition, None, sink)
                if self.status:
                    self.status = 0
                    continue
            await self.run(body, None, sink)
            if not self.is_check:
                return

    async def _test(self, command: Test) -> None:
        tokens: list[Token] = []
        for token in command.tokens:
            if isinstance(token, ScriptWord):
                text = await self._text(token)
                field = _Field()
                for part in token.parts:
                    field.add(await self._value(part), is_pattern=isinstance(part, Text) and not part.quoted)
                is_pattern = field.has_pattern
                require(not is_pattern or not (field.has_quoted_pattern or "[" in text or "\\" in text))
                tokens.append(Term(text, text if is_pattern else None))
            else:
                tokens.append(token)
        self.status = int(not await self.in_thread(Condition(tokens, self._locate).holds))

    def _locate(self, name: str) -> str:
        self._readable.check_name(self.cwd, name)
        return os.path.join(self.cwd, name)

    # --- words ---

    async def _argv(self, command: Command) -> list[str]:
        """Return the argument list of a simple command."""
        if not isinstance(command, Simple):
            return []
        argv = await self._fields(command.words)
        require(bool(argv) and not isinstance(argv[0], Unknown) and not command.words[0].source.startswith("$"))
        return argv

    async def _fields(self, words: Sequence[ScriptWord]) -> list[str]:
        """Expand words as a shell does: braces, variables, substitutions, and file name patterns."""
        fields: list[str] = []
        for word in words:
            choices = [part.options if isinstance(part, Choice) else (part,) for part in word.parts]
            require(prod(map(len, choices)) <= MAX_CHOICES)
            for parts in product(*choices):
                fields += await self._word([Text(part, False) if isinstance(part, str) else part for part in parts])
        return fields

    async def _word(self, parts: Sequence[Part]) -> list[str]:
        fields: list[_Field] = []
        for part in parts:
            value = await self._value(part)
            is_split = isinstance(part, Variable | Substitution) and not part.quoted and not isinstance(value, Unknown)
            if not is_split:
                if not fields:
                    fields.append(_Field())
                fields[-1].add(value, is_pattern=isinstance(part, Text) and not part.quoted)
                continue
            require(not any(character in value for character in "*?[\\"))
            pieces = value.split()
            if value[:1].isspace() and fields:
                fields.append(_Field())
            for number, piece in enumerate(pieces):
                if number or not fields:
                    fields.append(_Field())
                fields[-1].add(piece, is_pattern=False)
            if pieces and value[-1:].isspace():
                fields.append(_Field())
        return [text for field in fields if field.exists for text in await self._expanded(field)]

    async def _expanded(self, field: _Field) -> list[str]:
        text = field.text
        if not field.has_pattern or isinstance(text, Unknown):
            return [text]
        require(not field.has_quoted_pattern)
        return await self.in_thread(self._readable.expand, self.cwd, text)

    async def _text(self, word: ScriptWord) -> str:
        """Return a word as one text: without splitting, and without file names."""
        return _join([await self._value(part) for part in word.parts])

    async def _value(self, part: Part) -> str:
        match part:
            case Text(text, _):
                return text
            case Quoted(parts):
                return _join([await self._value(inner) for inner in parts])
            case Variable():
                return self._variable(part)
            case Substitution(script, _):
                return await self._substituted(script)
        raise NotSafe

    async def _substituted(self, script: Script) -> str:
        before = self.cwd, dict(self.variables)
        buffer = Buffer()
        await self.run(script, None, Sink(buffer))
        self.cwd, self.variables = before
        if not self.is_check:
            return bytes(buffer.data).decode("utf-8", "surrogateescape").replace("\0", "").rstrip("\n")
        first = script[0].pipeline.commands[0]
        argv = [word.literal or "" for word in first.words] if isinstance(first, Simple) else []
        if argv == ["pwd"] and len(script) == len(script[0].pipeline.commands) == 1:
            return str(self.cwd)
        return Unknown("\0", self._lists.lists_cleanly(argv, self.cwd))

    def _assign(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            require(bool(_ASSIGNABLE.fullmatch(name)) and name not in self._environment)
            require(len(value) <= MAX_TEXT)
        self.variables |= values

    def _variable(self, part: Variable) -> str:
        value = self._lookup(part.name)
        require(not part.operator or value is None or len(value) <= MAX_PATTERN_TEXT)
        if part.operator in (":-", "-"):
            return part.argument if value is None or (value == "" and part.operator == ":-") else value
        if not part.operator or value is None or isinstance(value, Unknown):
            return value or ""
        longest = len(part.operator) == 2
        ends = range(len(value) + 1)
        if part.operator.startswith("#"):
            matches = [end for end in ends if fnmatch.fnmatchcase(value[:end], part.argument)]
            return value[(max(matches) if longest else min(matches)) :] if matches else value
        matches = [end for end in ends if fnmatch.fnmatchcase(value[end:], part.argument)]
        return value[: min(matches) if longest else max(matches)] if matches else value

    def _lookup(self, name: str) -> str | None:
        if name == "?":
            return Unknown("\0", True) if self.status is None else str(self.status)
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return str(self.cwd)
        if name == "OSTYPE":
            return "linux-gnu" if os.uname().sysname == "Linux" else os.uname().sysname.lower()
        require(bool(_VARIABLES.fullmatch(name)))
        return self._environment.get(name)


class _Field:
    """One argument in the making."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self.has_pattern = False
        self.has_quoted_pattern = False

    def add(self, value: str, *, is_pattern: bool) -> None:
        """Append text; `is_pattern`: its `*`, `?` and `[` are those of a file name pattern."""
        special = any(character in value for character in "*?[")
        self.has_pattern |= special and is_pattern
        self.has_quoted_pattern |= special and not is_pattern
        self._values.append(value)

    @property
    def exists(self) -> bool:
        """Whether anything was appended, be it an empty text in quotes."""
        return bool(self._values)

    @property
    def text(self) -> str:
        """The text so far."""
        return _join(self._values)


def _join(values: Sequence[str]) -> str:
    unknown = [value for value in values if isinstance(value, Unknown)]
    require(sum(map(len, values)) <= MAX_WORD)
    text = "".join(values)
    return Unknown(text, all(value.is_clean for value in unknown)) if unknown else text


def _is_program(command: Command, argv: Sequence[str]) -> bool:
    if not isinstance(command, Simple) or not argv:
        return False
    return argv[0] not in BUILTINS and argv[0] != "xargs" and not (argv[0] == "find" and "-exec" in argv)


def _has_input(command: Command) -> bool:
    return isinstance(command, Simple) and bool(command.redirects.file or command.redirects.text)


def _split(data: bytes, end: str) -> list[str]:
    """Return the lines of `data`, which end in `end`."""
    lines = data.decode("utf-8", "surrogateescape").split(end)
    return lines[:-1] if not lines[-1] or end == "\0" else lines


def _read_fields(line: str, loop: ReadLoop) -> dict[str, str]:
    """Return what `read` assigns."""
    require("\0" not in line and (loop.is_raw or "\\" not in line))
    separators = " \t\n" if loop.separators is None else loop.separators.replace("\\t", "\t")
    if not separators.strip():
        blanks = separators or None
        line = line.strip(separators) if separators else line
        values = [line] if blanks is None else re.split(f"[{separators}]+", line, maxsplit=len(loop.names) - 1)
    else:
        values = line.split(separators, len(loop.names) - 1)
    return {name: values[index] if index < len(values) else "" for index, name in enumerate(loop.names)}
