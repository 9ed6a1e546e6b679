"""How much harm a command can do: its severity, with reasons, and whether it must always be asked about (A1).

Every simple command of the text counts, wherever it stands; the worst one decides. What programs do is in
`severity.json`, what needs a look at their arguments in `programs.py`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tui_agent.common.domain import FrozenValue, Severity
from tui_agent.shell import programs, wrapped_commands
from tui_agent.shell.syntax import ParsedCommand, Pipeline, Redirect, SimpleCommand, Word, parse_shell
from tui_agent.shell.targets import PathScope, names, target_table, writes

INNER_CAP = 6
"""Shell text within shell text (`bash -c "bash -c …"`) beyond which it is not read."""
WRAPPED_CAP = 24
"""Commands within commands (`env env …`) beyond which they are not read."""
_PIECES = 100
"""Pieces at the start and at the end of a text that could not be read as a whole which are looked at."""
_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_RESERVED = frozenset(("do", "done", "then", "else", "elif", "fi", "esac", "in"))


class Rating(FrozenValue, frozen=True, kw_only=True):
    """The verdict on a command line."""

    severity: Severity
    reasons: tuple[str, ...] = ()
    always_ask: bool = False
    touched: tuple[str, ...] = ()
    """Absolute paths that it would change, as far as they can be told."""


def classify_command(command: str, *, cwd: Path | None = None, roots: Sequence[Path] = ()) -> Rating:
    """Rate a command line that would start in `cwd`. Pure; takes milliseconds."""
    rater = _Rater(PathScope(cwd, roots))
    rater.text(command, 0)
    return Rating(
        severity=rater.worst,
        reasons=tuple(dict.fromkeys(rater.reasons[rater.worst])),
        always_ask=rater.always,
        touched=tuple(dict.fromkeys(rater.ground.touched)),
    )


class _Call(NamedTuple):
    """A program that is called, by the name that counts."""

    program: str
    arguments: Sequence[Word]
    depth: int
    """How many commands it stands in."""
    before: Sequence[SimpleCommand] = ()
    """What is piped into it."""
    redirects: Sequence[Redirect] = ()


class _Rater:
    """Gathers the worst of what it is told."""

    def __init__(self, ground: PathScope) -> None:
        self.ground = ground
        self.worst = Severity.NONE
        self.reasons: dict[Severity, list[str]] = {severity: [] for severity in Severity}
        self.always = False
        self._functions: set[str] = set()
        self._fetched: set[str] = set()

    def say(self, severity: Severity, reason: str, *, always: bool = False) -> None:
        """One finding."""
        if severity.rank > self.worst.rank:
            self.worst = severity
        if severity is not Severity.NONE:
            self.reasons[severity].append(reason)
        self.always |= always

    def text(self, command: str, depth: int) -> None:
        """Shell text, at the top or inside of a command."""
        if depth > INNER_CAP:
            self.say(Severity.HIGH, "Commands are nested too deeply to be analyzed.")
            return
        parsed = parse_shell(command)
        if parsed.problem:
            self.say(Severity.HIGH, parsed.problem)
            self._in_pieces(command, depth)
        if re.search(r"\$\{[^}]*@P\}", command):
            self.say(Severity.HIGH, "A variable's text is expanded as a prompt, which can run commands.")
        self._functions |= set(parsed.functions)
        self._bomb(parsed)
        for pipeline in parsed.pipelines:
            self._pipeline(pipeline, depth)

    def _in_pieces(self, command: str, depth: int) -> None:
        """What can't be read as a whole may still hold what is worse: its parts are looked at, each by itself."""
        pieces = [piece.strip() for piece in re.split(r"[\r\n;&|(){}`\0]+", command)]
        pieces += [found[1].replace(",", " ") for found in re.finditer(r"\{([^{}\s]*,[^{}\s]*)\}", command)]
        pieces = list(dict.fromkeys(piece for piece in pieces if piece and piece != command.strip()))
        for piece in dict.fromkeys([*pieces[:_PIECES], *pieces[-_PIECES:]]):
            parsed = parse_shell(piece)
            for pipeline in () if parsed.problem else parsed.pipelines:
                self._pipeline(pipeline, depth + 1)

    def _bomb(self, parsed: ParsedCommand) -> None:
        for name in parsed.functions:
            calls = [c for c in parsed.commands if c.words and c.words[0].text == name]
            doubled = any(sum(c in calls for c in p.commands) > 1 for p in parsed.pipelines)
            if doubled or len(calls) > 2:
                self.say(Severity.CRITICAL, f"A function that calls itself twice ({name}): a fork bomb.")

    def _pipeline(self, pipeline: Pipeline, depth: int) -> None:
        for place, command in enumerate(pipeline.commands):
            for name, value in command.assignments:
                self._assignment(name, value, bool(command.words))
            for redirect in command.redirects:
                self._redirect(redirect)
            if command.words:
                before = (*pipeline.fed, *pipeline.commands[:place])
                self.command(command.words, depth, before, command.redirects)
        programs.sends_secrets(pipeline, self.say)
        self._fetched |= wrapped_commands.is_downloaded(pipeline)

    def command(
        self,
        words: Sequence[Word],
        depth: int,
        before: Sequence[SimpleCommand] = (),
        redirects: Sequence[Redirect] = (),
    ) -> None:
        """One simple command with its arguments."""
        words = wrapped_commands.braced(words)
        program = words[0].text
        if program is None or (words[0].pattern and program not in ("[", "[[", "{")) or program == "{}":
            self.say(Severity.HIGH, f"The program's name is not known before it runs: {words[0].source}")
            return
        if depth > WRAPPED_CAP:
            self.say(Severity.HIGH, "Commands are nested too deeply to be analyzed.")
            return
        if program in _RESERVED and words[0].source == program:
            self.say(Severity.HIGH, "The shell grammar could not read it.")
        if program in ("{", "}") or program in _RESERVED:
            if words[1:]:
                self.command(words[1:], depth + 1, before, redirects)
            return
        self._named(_Call(program, words[1:], depth, before, redirects))

    def _named(self, call: _Call) -> None:
        """A program by its name or path."""
        written = call.program
        if posixpath.normpath(written) in self._fetched:
            self.say(Severity.HIGH, f"Runs downloaded code: {written}", always=True)
        if not written.isascii() and _misleading(written):
            self.say(Severity.HIGH, f"The program's name looks like another one: {written}")
        path = posixpath.normpath(written)
        program = path.rsplit("/", 1)[-1] if "/" in path else written
        if path in ("gradlew", "mvnw"):
            program = path[:-1]
        elif written.startswith("./") and "/" not in path:
            program = written
        if program in self._functions:
            return
        call = call._replace(program=program)
        if program in names("privilege"):
            self.say(Severity.HIGH, f"{program} runs with other privileges.", always=True)
        if program in target_table()["wrappers"]:
            self._wrapped(call)
        elif program in names("shells") or program in ("source", "."):
            self._shell(call)
        elif program in ("eval", "alias", "trap"):
            self._evaluated(call)
        elif program == "find":
            self._find(call.arguments, call.depth)
        elif program in ("cd", "pushd"):
            self.ground.move(next((a for a in call.arguments if not (a.text or "").startswith("-")), None))
        else:
            self._rated(call)

    def _rated(self, call: _Call) -> None:
        """A program that the tables tell about."""
        program, arguments, depth, before, redirects = call
        given = wrapped_commands.given_script(before, redirects)
        programs.rate_program(program, arguments, self.ground, self.say, fed=bool(before), given=given)
        if program in target_table()["interpreters"]:
            self._script(next((a.text for a in arguments if not (a.text or "-").startswith("-")), None))
            if any(r.target and r.target.source.startswith("<(") for r in redirects):
                self.say(Severity.HIGH, f"{program} may run what another command prints.", always=True)
        if program == "git":
            for text in wrapped_commands.git_texts(arguments):
                self._inner(program, text, depth)
        elif program in ("at", "batch") and given:
            self.text(given, depth + 1)
        elif program == "make" and re.search(r"(^| )-f( ?-| /dev/stdin)?( |$)", " ".join(a.source for a in arguments)):
            self.say(Severity.HIGH, "make runs rules from its standard input.")
            self._in_pieces(given.replace(":", ";"), depth)

    def _script(self, script: str | None) -> None:
        if script and posixpath.normpath(script) in self._fetched:
            self.say(Severity.HIGH, f"Runs downloaded code: {script}", always=True)

    def _wrapped(self, call: _Call) -> None:
        """`nice -n 5 CMD`: what is wrapped is what counts."""
        program, arguments, depth, before, redirects = call
        if program == "command" and arguments and arguments[0].text in ("-v", "-V"):
            return
        inner = wrapped_commands.wrapped_command(program, arguments)
        name = inner.words[0].text if inner and inner.words else ""
        getting = program in names("getting") and name not in names("checks")
        if inner is None or program in names("carriers_themselves") or getting:
            self._rated(call)
        if inner is None:
            return
        programs.rate_by_table(program, arguments, self.say)
        for name, value in inner.assignments:
            self._assignment(name, value, True)
        here = self.ground.folder
        if inner.folder:
            self.ground.move(inner.folder)
        for text in inner.texts:
            self._inner(program, text, depth)
        rest = list(inner.words)
        if program in ("watch", "parallel") and all(word.text is not None for word in rest):
            self.text(" ".join(word.text or "" for word in rest), depth + 1)  # both hand it to a shell
        if rest and program in ("xargs", "parallel"):
            rest = wrapped_commands.fill_placeholders(rest, arguments, before)
        elif program == "coproc" and rest[1:] and rest[1].text == "{":
            rest = rest[1:]
        if rest:
            self.command(rest, depth + 1, before, redirects)
        elif not inner.texts and target_table()["wrappers"][program].get("stdin"):
            self._fed(call)
        self.ground.folder = here

    def _shell(self, call: _Call) -> None:
        program, arguments = call.program, call.arguments
        texts = [argument.text for argument in arguments]
        for place, text in enumerate(texts):
            if text is not None and re.fullmatch(r"-[a-zA-Z]*c", text):
                inner = texts[place + 1] if place + 1 < len(texts) else ""
                self._inner(program, inner, call.depth)
                return
            if text in ("--version", "--help"):
                return
        if program not in ("source", ".") and "-n" in texts and call.before == () and len(texts) > 1:
            return  # it only reads the script
        self._script(next((text for text in texts if text and not text.startswith("-")), None))
        if any(argument.text is None and argument.source.startswith("<(") for argument in arguments):
            self.say(Severity.HIGH, f"{program} runs what another command prints.", always=True)
        elif script := next((t for t in texts if t is None or (not t.startswith(("-", "+")) and t not in _INPUT)), ""):
            self.say(Severity.MEDIUM, f"Runs the script {script}.")
        elif None in texts:
            self.say(Severity.HIGH, f"{program} runs something that is not known before it runs.")
        else:
            self._fed(call)

    def _fed(self, call: _Call) -> None:
        """A shell that reads its commands from its input."""
        program, _, depth, before, redirects = call
        if before:
            self.say(
                Severity.HIGH, f"{program} runs what another command prints.", always=wrapped_commands.is_remote(before)
            )
            if (literal := wrapped_commands.printed_text(before)) is not None:
                self._inner(program, literal, depth)
            return
        for redirect in redirects:
            if "<<" in redirect.operator:
                self._inner(program, redirect.body or None, depth)
            elif redirect.target is not None and redirect.target.source.startswith("<("):
                self.say(Severity.HIGH, f"{program} runs what another command prints.", always=True)
            else:
                self.say(Severity.MEDIUM, f"{program} reads commands from a file.")

    def _inner(self, program: str, text: str | None, depth: int) -> None:
        if text is None:
            self.say(Severity.HIGH, f"{program} runs text that is not known before it runs.")
        else:
            self.text(text, depth + 1)

    def _evaluated(self, call: _Call) -> None:
        program, depth = call.program, call.depth
        texts = [argument.text for argument in call.arguments]
        known = [text for text in texts if text is not None]
        if len(known) != len(texts):
            self.say(Severity.HIGH, f"{program} runs text that is not known before it runs.")
        elif program == "eval":
            self.text(" ".join(known), depth + 1)
        elif program == "alias":
            for text in known:
                self.text(text.partition("=")[2], depth + 1)
        elif known and not known[0].startswith("-"):
            self.text(known[0], depth + 1)

    def _find(self, arguments: Sequence[Word], depth: int) -> None:
        places = []
        for argument in arguments:
            if (argument.text or "").startswith(("-", "(", "!")):
                break
            places.append(argument)
        texts = [argument.text or "" for argument in arguments]
        tests = [
            t
            for place, t in enumerate(texts)
            if not place or not wrapped_commands.NARROWING.fullmatch(texts[place - 1])
        ]
        narrow = any(wrapped_commands.NARROWING.fullmatch(text) for text in texts)
        walked = places or [Word(source=".", text=".")]
        if "-delete" in tests:
            programs.is_deletion(walked, self.ground, self.say, curated=narrow or walked[0].text == ".")
        for place, text in enumerate(texts):
            if text in ("-fprint", "-fprint0", "-fprintf", "-fls") and arguments[place + 1 :]:
                writes(arguments[place + 1], self.ground, self.say)
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                inner = arguments[place + 1 :]
                end = next((i for i, word in enumerate(inner) if word.text in (";", "+")), len(inner))
                targets = [word for word in inner[:end] if word.text != "{}"]
                if inner and inner[0].text == "{}":
                    self.command(inner[:1], depth + 1)
                elif targets:
                    self.command([*targets, *(places if end > len(targets) else [])], depth + 1)
                    if targets[0].text in ("rm", "unlink", "shred", "/bin/rm") and end > len(targets):
                        programs.is_deletion(places, self.ground, self.say, curated=True)

    def _assignment(self, name: str, value: Word, prefix: bool) -> None:
        if f"{name}={value.text}" in names("harmless_git_env"):
            return
        programs.evaluates_text((value.text or "",), self.say)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in names("loaders")):
            severity = Severity.HIGH if prefix else Severity.MEDIUM
            self.say(severity, f"{name} changes how programs are found or loaded.")

    def _redirect(self, redirect: Redirect) -> None:
        if ">" not in redirect.operator or redirect.target is None:
            if redirect.target is not None and (redirect.target.text or "").startswith(("/dev/tcp", "/dev/udp")):
                self.say(Severity.HIGH, "Opens a network connection.")
            return
        target = redirect.target
        if re.fullmatch(r"&?\d+|-|/dev/(null|stdout|stderr|tty|fd/\d+)", target.text or ""):
            return
        if (target.text or "").startswith(("/dev/tcp", "/dev/udp")):
            self.say(Severity.HIGH, "Opens a network connection.")
            return
        writes(target, self.ground, self.say)


def _misleading(name: str) -> bool:
    """Whether a name holds what can't be seen, or letters that look like others."""
    kinds = {unicodedata.category(letter) for letter in name}
    mixed = re.search(r"[a-zA-Z]", name) is not None and "/" not in name and "." not in name
    return "Cf" in kinds or "Zs" in kinds or unicodedata.normalize("NFKC", name) != name or mixed
