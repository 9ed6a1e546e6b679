"""A script: what the strict reader makes of shell text, and what is run without a shell."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

ListOperator: TypeAlias = Literal["", "&&", "||", ";"]


class Text(NamedTuple):
    """Literal text; quoted text holds no file name pattern."""

    text: str
    quoted: bool


class Variable(NamedTuple):
    """`$NAME`, or `${NAME OPERATOR ARGUMENT}`."""

    name: str
    operator: str
    argument: str
    quoted: bool


class Substitution(NamedTuple):
    """`$(…)`."""

    script: Script
    quoted: bool


class Choice(NamedTuple):
    """`{a,b}` or `{1..3}`: each option makes a word of its own."""

    options: tuple[str, ...]


class Quoted(NamedTuple):
    """`"…"`: one field, also if it is empty."""

    parts: tuple[Part, ...]


Part: TypeAlias = "Text | Variable | Substitution | Choice | Quoted"


class ScriptWord(NamedTuple):
    """A word: its parts, joined."""

    parts: tuple[Part, ...]
    source: str

    @property
    def literal(self) -> str | None:
        """The text of a word without expansions, else None."""
        texts = [part.text for part in _flat(self.parts) if isinstance(part, Text)]
        return "".join(texts) if len(texts) == len(_flat(self.parts)) else None


def _flat(parts: tuple[Part, ...]) -> list[Part]:
    return [inner for part in parts for inner in (_flat(part.parts) if isinstance(part, Quoted) else [part])]


class Redirects(NamedTuple):
    """Where the output of a command goes, and what it reads."""

    stdout: Literal["out", "err", "null"] = "out"
    stderr: Literal["out", "err", "null"] = "err"
    file: ScriptWord | None = None
    text: ScriptWord | None = None
    """Of a here-string."""


class Simple(NamedTuple):
    """A program with its arguments."""

    words: tuple[ScriptWord, ...]
    redirects: Redirects


class Assignment(NamedTuple):
    """`NAME=VALUE` as a command of its own."""

    name: str
    value: ScriptWord


class Group(NamedTuple):
    """`{ …; }` or `( … )`."""

    script: Script
    is_subshell: bool
    redirects: Redirects


class For(NamedTuple):
    """`for NAME in WORDS; do …; done`."""

    name: str
    words: tuple[ScriptWord, ...]
    body: Script
    redirects: Redirects


class ReadLoop(NamedTuple):
    """`while read -r NAMES; do …; done`."""

    names: tuple[str, ...]
    separators: str | None
    """The value of IFS in front of `read`; None if it is not set there."""
    is_raw: bool
    end: str
    """The character that ends a line."""
    body: Script
    redirects: Redirects


class If(NamedTuple):
    """Conditions with what they lead to; the last may be without a condition."""

    branches: tuple[tuple[Script | None, Script], ...]
    redirects: Redirects


class Test(NamedTuple):
    """`[[ … ]]`: words, and the operators `&&`, `||`, `!`, `(`, `)` as plain texts."""

    tokens: tuple[ScriptWord | str, ...]
    redirects: Redirects


Command: TypeAlias = "Simple | Assignment | Group | For | ReadLoop | If | Test"


class ScriptPipeline(NamedTuple):
    """Commands joined by pipes."""

    commands: tuple[Command, ...]
    is_negated: bool = False


class ScriptStep(NamedTuple):
    """A pipeline, and the operator that joins it to the step before."""

    operator: ListOperator
    pipeline: ScriptPipeline


Script: TypeAlias = tuple[ScriptStep, ...]


def simple_commands(script: Script) -> list[Simple]:
    """Return all simple commands of a script, those in bodies and substitutions included."""
    found: list[Simple] = []
    for step in script:
        for command in step.pipeline.commands:
            _collect(command, found)
    return found


def _collect(command: Command, found: list[Simple]) -> None:
    words: list[ScriptWord] = []
    match command:
        case Simple():
            found.append(command)
            words += command.words
        case Assignment():
            words.append(command.value)
        case Group():
            found += simple_commands(command.script)
        case For():
            words += command.words
            found += simple_commands(command.body)
        case ReadLoop():
            found += simple_commands(command.body)
        case If():
            for condition, body in command.branches:
                found += [*simple_commands(condition or ()), *simple_commands(body)]
        case Test():
            words += [token for token in command.tokens if isinstance(token, ScriptWord)]
    if not isinstance(command, Assignment):
        words += [word for word in (command.redirects.file, command.redirects.text) if word]
    for word in words:
        for part in _flat(word.parts):
            if isinstance(part, Substitution):
                found += simple_commands(part.script)
