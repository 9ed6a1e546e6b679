"""How much harm a command can do: its severity, with reasons, and whether it must always be asked about (A1).

Every simple command of the text counts, wherever it stands; the worst one decides (R-10). What programs do is in
`severity.json`, what needs a look at their arguments in `programs.py`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from pathlib import Path

from tui_agent.domain import Noun, Severity
from tui_agent.shell import programs
from tui_agent.shell.places import Ground, names, table
from tui_agent.shell.syntax import Command, Parsed, Pipeline, Redirect, Word, parse

INNER_CAP = 6
"""Shell text within shell text (`bash -c "bash -c …"`) beyond which it is not read."""


class Rating(Noun, frozen=True, kw_only=True):
    """The verdict on a command line."""

    severity: Severity
    reasons: tuple[str, ...] = ()
    always_ask: bool = False
    touched: tuple[str, ...] = ()
    """Absolute paths that it would change, as far as they can be told."""


def classify(command: str, *, cwd: Path | None = None, roots: Sequence[Path] = ()) -> Rating:
    """Rate a command line that would start in `cwd`. Pure; takes milliseconds."""
    rater = _Rater(Ground(cwd, roots))
    rater.text(command, 0)
    return Rating(
        severity=rater.worst,
        reasons=tuple(dict.fromkeys(rater.reasons[rater.worst])),
        always_ask=rater.always,
        touched=tuple(dict.fromkeys(rater.ground.touched)),
    )


class _Rater:
    """Gathers the worst of what it is told."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.worst = Severity.NONE
        self.reasons: dict[Severity, list[str]] = {severity: [] for severity in Severity}
        self.always = False
        self._functions: set[str] = set()

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
            self.say(Severity.HIGH, "Commands are wrapped in commands too deeply to be read.")
            return
        parsed = parse(command)
        if parsed.problem:
            self.say(Severity.HIGH, parsed.problem)
        if re.search(r"\$\{[^}]*@P\}", command):
            self.say(Severity.HIGH, "A variable's text is expanded as a prompt, which can run commands.")
        self._functions |= set(parsed.functions)
        self._bomb(parsed)
        for pipeline in parsed.pipelines:
            self._pipeline(pipeline, depth)

    def _bomb(self, parsed: Parsed) -> None:
        for name in parsed.functions:
            calls = [c for c in parsed.commands if c.words and c.words[0].text == name]
            doubled = any(sum(c in calls for c in p.commands) > 1 for p in parsed.pipelines)
            if doubled or len(calls) > 2:
                self.say(
                    Severity.CRITICAL, f"A function that starts itself twice over ({name}): a fork bomb."
                )

    def _pipeline(self, pipeline: Pipeline, depth: int) -> None:
        for place, command in enumerate(pipeline.commands):
            for name, value in command.assignments:
                self._assignment(name, value, bool(command.words))
            for redirect in command.redirects:
                self._redirect(redirect)
            if command.words:
                before = pipeline.commands[:place]
                self.command(command.words, depth, before=before, redirects=command.redirects)
        programs.leaks(pipeline, self.say)

    def command(
        self,
        words: Sequence[Word],
        depth: int,
        *,
        before: Sequence[Command] = (),
        redirects: Sequence[Redirect] = (),
    ) -> None:
        """One simple command with its arguments."""
        program = words[0].text
        if program is None or (words[0].pattern and program not in ("[", "[[")):
            self.say(Severity.HIGH, f"The program's name is only known when it runs: {words[0].source}")
            return
        program = program.rsplit("/", 1)[-1] if "/" in program and not program.startswith("./") else program
        arguments = words[1:]
        if program in self._functions:
            return
        if program in names("privilege"):
            self.say(Severity.HIGH, f"{program} runs with other rights.", always=True)
        if program in table()["wrappers"]:
            self._wrapped(program, arguments, depth, before, redirects)
        elif program in names("shells"):
            self._shell(program, arguments, depth, before, redirects)
        elif program in ("eval", "alias", "trap"):
            self._evaluated(program, arguments, depth)
        elif program == "find":
            self._find(arguments, depth)
        elif program in ("cd", "pushd"):
            self.ground.move(next((a for a in arguments if not (a.text or "").startswith("-")), None))
        else:
            programs.rate(program, arguments, self.ground, self.say, fed=bool(before))

    def _wrapped(
        self,
        program: str,
        arguments: Sequence[Word],
        depth: int,
        before: Sequence[Command],
        redirects: Sequence[Redirect],
    ) -> None:
        """`nice -n 5 CMD`: what is wrapped is what counts."""
        if program == "command" and arguments and arguments[0].text in ("-v", "-V"):
            return
        entry = table()["wrappers"][program]
        rest, assignments, text = programs.unwrap(entry, arguments)
        for name, value in assignments:
            self._assignment(name, value, True)
        if text is not None:
            self.text(text, depth + 1)
        if program in ("watch", "parallel") and all(word.text is not None for word in rest):
            self.text(" ".join(word.text or "" for word in rest), depth + 1)  # both hand it to a shell
        if rest and program in ("xargs", "parallel") and not any("{}" in (word.text or "") for word in rest):
            rest = [*rest, *programs.read_in(before)]
        if rest:
            self.command(rest, depth + 1, before=before, redirects=redirects)

    def _shell(
        self,
        program: str,
        arguments: Sequence[Word],
        depth: int,
        before: Sequence[Command],
        redirects: Sequence[Redirect],
    ) -> None:
        texts = [argument.text for argument in arguments]
        for place, text in enumerate(texts):
            if text is not None and re.fullmatch(r"-[a-zA-Z]*c", text):
                inner = texts[place + 1] if place + 1 < len(texts) else ""
                self._inner(program, inner, depth)
                return
            if text in ("--version", "--help"):
                return
        if any(argument.text is None and argument.source.startswith("<(") for argument in arguments):
            self.say(Severity.HIGH, f"{program} runs what another command prints.", always=True)
        elif script := next((text for text in texts if text is None or not text.startswith(("-", "+"))), ""):
            self.say(Severity.MEDIUM, f"Runs the script {script}.")
        elif None in texts:
            self.say(Severity.HIGH, f"{program} runs something that is only known when it runs.")
        elif before:
            self.say(
                Severity.HIGH, f"{program} runs what another command prints.", always=programs.foreign(before)
            )
            if (literal := programs.printed(before)) is not None:
                self._inner(program, literal, depth)
        else:
            for redirect in redirects:
                self._inner(program, redirect.body or None, depth) if "<<" in redirect.operator else self.say(
                    Severity.MEDIUM, f"{program} reads commands from a file."
                )

    def _inner(self, program: str, text: str | None, depth: int) -> None:
        if text is None:
            self.say(Severity.HIGH, f"{program} runs text that is only known when it runs.")
        else:
            self.text(text, depth + 1)

    def _evaluated(self, program: str, arguments: Sequence[Word], depth: int) -> None:
        texts = [argument.text for argument in arguments]
        known = [text for text in texts if text is not None]
        if len(known) != len(texts):
            self.say(Severity.HIGH, f"{program} runs text that is only known when it runs.")
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
        if "-delete" in texts:
            programs.deletes(places or [Word(source=".", text=".")], self.ground, self.say, curated=True)
        if any(text.startswith("-f") and text not in ("-false", "-follow", "-fstype") for text in texts):
            self.say(Severity.MEDIUM, "find writes a file.")
        for place, text in enumerate(texts):
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                inner = arguments[place + 1 :]
                end = next((i for i, word in enumerate(inner) if word.text in (";", "+")), len(inner))
                if targets := [word for word in inner[:end] if word.text != "{}"]:
                    self.command([*targets, *(places if end > len(targets) else [])], depth + 1)

    def _assignment(self, name: str, value: Word, prefix: bool) -> None:
        if f"{name}={value.text}" in names("harmless_git_env"):
            return
        programs.evaluated((value.text or "",), self.say)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in names("loaders")):
            severity = Severity.HIGH if prefix else Severity.MEDIUM
            self.say(severity, f"{name} changes how programs are found or loaded.")

    def _redirect(self, redirect: Redirect) -> None:
        if ">" not in redirect.operator or redirect.target is None:
            if redirect.target is not None and (redirect.target.text or "").startswith(
                ("/dev/tcp", "/dev/udp")
            ):
                self.say(Severity.HIGH, "Opens a network connection.")
            return
        target = redirect.target
        if re.fullmatch(r"&?\d+|-|/dev/(null|stdout|stderr|tty|fd/\d+)", target.text or ""):
            return
        if (target.text or "").startswith(("/dev/tcp", "/dev/udp")):
            self.say(Severity.HIGH, "Opens a network connection.")
            return
        programs.writes(target, self.ground, self.say)
