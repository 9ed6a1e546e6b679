"""Rate how much harm a command can do: its severity, with reasons, and whether it always needs approval (A1).

Every simple command of the text counts, wherever it stands; the worst one decides. What programs do is in
`severity.json`, rules for their arguments in `programs.py`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise, takewhile
from pathlib import Path

from tui_agent.common.domain import FrozenValue, Severity
from tui_agent.shell import wrapped_commands
from tui_agent.shell.programs import (
    rate_arguments,
    rate_program,
    report_deletion,
    report_evaluated_index,
    report_sent_secrets,
)
from tui_agent.shell.syntax import ParsedCommand, Pipeline, Redirect, SimpleCommand, Word, parse_shell
from tui_agent.shell.targets import PathScope, names, report_write, severity_table
from tui_agent.shell.wrapped_commands import Invocation

MAX_TEXT_DEPTH = 6
"""Levels of shell text within shell text (`bash -c "bash -c …"`) that are parsed."""
MAX_COMMAND_DEPTH = 24
"""Levels of commands within commands (`env env …`) that are rated."""
_MAX_PIECES = 100
"""Pieces at the start and at the end of an unparsable text that are rated."""
_STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_RESERVED = frozenset(("do", "done", "then", "else", "elif", "fi", "esac", "in"))


class Rating(FrozenValue, frozen=True, kw_only=True):
    """The verdict on a command line."""

    severity: Severity
    reasons: tuple[str, ...] = ()
    always_ask: bool = False
    changed_paths: tuple[str, ...] = ()
    """Absolute paths that it would change, as far as they are known."""
    targets: tuple[str, ...] = ()
    """The same with those in the user's home, and with patterns."""


def classify_command(command: str, *, cwd: Path | None = None, roots: Sequence[Path] = ()) -> Rating:
    """Rate a command line that would start in `cwd`. Pure; takes milliseconds."""
    rater = _Rater(PathScope(cwd, roots))
    rater.rate_text(command, 0)
    return Rating(
        severity=rater.worst,
        reasons=tuple(dict.fromkeys(rater.reasons[rater.worst])),
        always_ask=rater.always,
        changed_paths=tuple(dict.fromkeys(rater.scope.changed_paths)),
        targets=tuple(dict.fromkeys(rater.scope.targets)),
    )


class _Rater:
    """Collects the findings about one command line."""

    def __init__(self, scope: PathScope) -> None:
        self.scope = scope
        self.worst = Severity.NONE
        self.reasons: dict[Severity, list[str]] = {severity: [] for severity in Severity}
        self.always = False
        self._functions: set[str] = set()
        self._downloads: set[str] = set()

    def report(self, severity: Severity, reason: str, *, always: bool = False) -> None:
        """Add a finding."""
        if severity.rank > self.worst.rank:
            self.worst = severity
        if severity is not Severity.NONE:
            self.reasons[severity].append(reason)
        self.always |= always

    def rate_text(self, command: str, depth: int) -> None:
        """Rate shell text: the command line, or text that one of its commands runs."""
        if depth > MAX_TEXT_DEPTH:
            self.report(Severity.HIGH, "Commands are nested too deeply to be analyzed.")
            return
        parsed = parse_shell(command)
        if parsed.problem:
            self.report(Severity.HIGH, parsed.problem)
            self._rate_pieces(command, depth)
        if re.search(r"\$\{[^}]*@P\}", command):
            self.report(Severity.HIGH, "A variable's text is expanded as a prompt, which can run commands.")
        self._functions |= set(parsed.functions)
        self._report_fork_bombs(parsed)
        for pipeline in parsed.pipelines:
            self._rate_pipeline(pipeline, depth)

    def _rate_pieces(self, command: str, depth: int) -> None:
        """Rate the parts of a text that can't be parsed as a whole, each by itself: they may hold something worse."""
        pieces = [piece.strip() for piece in re.split(r"[\r\n;&|(){}`\0]+", command)]
        pieces += [match[1].replace(",", " ") for match in re.finditer(r"\{([^{}\s]*,[^{}\s]*)\}", command)]
        pieces = list(dict.fromkeys(piece for piece in pieces if piece and piece != command.strip()))
        for piece in dict.fromkeys([*pieces[:_MAX_PIECES], *pieces[-_MAX_PIECES:]]):
            parsed = parse_shell(piece)
            for pipeline in () if parsed.problem else parsed.pipelines:
                self._rate_pipeline(pipeline, depth + 1)

    def _report_fork_bombs(self, parsed: ParsedCommand) -> None:
        for name in parsed.functions:
            calls = [c for c in parsed.commands if c.words and c.words[0].text == name]
            pipes_to_itself = any(sum(c in calls for c in p.commands) > 1 for p in parsed.pipelines)
            if pipes_to_itself or len(calls) > 2:
                self.report(Severity.CRITICAL, f"A function that calls itself twice ({name}): a fork bomb.")

    def _rate_pipeline(self, pipeline: Pipeline, depth: int) -> None:
        for index, command in enumerate(pipeline.commands):
            for name, value in command.assignments:
                self._rate_assignment(name, value, is_prefix=bool(command.words))
            for redirect in command.redirects:
                self._rate_redirect(redirect)
            if command.words:
                sources = (*pipeline.sources, *pipeline.commands[:index])
                self.rate_command(command.words, depth, sources, command.redirects)
        report_sent_secrets(pipeline, self.report)
        self._downloads |= wrapped_commands.downloaded_files(pipeline)

    def rate_command(
        self,
        words: Sequence[Word],
        depth: int,
        sources: Sequence[SimpleCommand] = (),
        redirects: Sequence[Redirect] = (),
    ) -> None:
        """Rate a simple command with its arguments."""
        words = wrapped_commands.expand_braces(words)
        program = words[0].text
        if program is None or (words[0].is_pattern and program not in ("[", "[[", "{")) or program == "{}":
            self.report(Severity.HIGH, f"The program's name is not known before it runs: {words[0].source}")
            return
        if depth > MAX_COMMAND_DEPTH:
            self.report(Severity.HIGH, "Commands are nested too deeply to be analyzed.")
            return
        if program in _RESERVED and words[0].source == program:
            self.report(Severity.HIGH, "The shell grammar could not read it.")
        if program in ("{", "}") or program in _RESERVED:
            if words[1:]:
                self.rate_command(words[1:], depth + 1, sources, redirects)
            return
        self._rate_call(Invocation(program, words[1:], self.scope, self.report, depth, sources, redirects))

    def _rate_call(self, call: Invocation) -> None:
        """Rate a program by its name or path."""
        written = call.program
        self._report_download(written)
        if not written.isascii() and _is_misleading(written):
            self.report(Severity.HIGH, f"The program's name looks like another one: {written}")
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
            self.report(Severity.HIGH, f"{program} runs with other privileges.", always=True)
        if program in severity_table()["wrappers"]:
            self._rate_wrapper(call)
        elif program in names("shells") or program in ("source", "."):
            self._rate_shell(call)
        elif program in ("eval", "alias", "trap"):
            self._rate_evaluation(call)
        elif program == "find":
            self._rate_find(call.arguments, call.depth)
        elif program in ("cd", "pushd"):
            self.scope.change_folder(next((a for a in call.arguments if not (a.text or "").startswith("-")), None))
        else:
            self._rate_program(call)

    def _report_download(self, path: str) -> None:
        if posixpath.normpath(path) in self._downloads:
            self.report(Severity.HIGH, f"Runs downloaded code: {path}", always=True)

    def _rate_program(self, call: Invocation) -> None:
        program, arguments = call.program, call.arguments
        rate_program(call)
        if program in severity_table()["interpreters"]:
            if script := next((a.text for a in arguments if not (a.text or "-").startswith("-")), None):
                self._report_download(script)
            if any(r.target and r.target.source.startswith("<(") for r in call.redirects):
                self.report(Severity.HIGH, f"{program} may run what another command prints.", always=True)
        if program == "git":
            for text in wrapped_commands.git_commands(arguments):
                self._rate_inner_text(program, text, call.depth)
        elif program in ("at", "batch") and call.input_text:
            self.rate_text(call.input_text, call.depth + 1)
        elif program == "make" and re.search(r"(^| )-f( ?-| /dev/stdin)?( |$)", " ".join(a.source for a in arguments)):
            self.report(Severity.HIGH, "make runs rules from its standard input.")
            self._rate_pieces(call.input_text.replace(":", ";"), call.depth)

    def _rate_wrapper(self, call: Invocation) -> None:
        """Rate the command that a program such as `nice -n 5 CMD` runs."""
        program, arguments, depth = call.program, call.arguments, call.depth
        if program == "command" and arguments and arguments[0].text in ("-v", "-V"):
            return
        inner = wrapped_commands.wrapped_command(program, arguments)
        name = inner.words[0].text if inner and inner.words else ""
        downloads = program in names("downloaders") and name not in names("checks")
        if inner is None or program in names("rated_wrappers") or downloads:
            self._rate_program(call)
        if inner is None:
            return
        rate_arguments(call)
        for name, value in inner.assignments:
            self._rate_assignment(name, value, is_prefix=True)
        folder = self.scope.folder
        if inner.folder:
            self.scope.change_folder(inner.folder)
        for text in inner.texts:
            self._rate_inner_text(program, text, depth)
        words = list(inner.words)
        if program in ("watch", "parallel") and all(word.text is not None for word in words):
            self.rate_text(" ".join(word.text or "" for word in words), depth + 1)  # both pass it to a shell
        if words and program in ("xargs", "parallel"):
            words = wrapped_commands.fill_placeholders(words, arguments, call.sources)
        elif program == "coproc" and words[1:] and words[1].text == "{":
            words = words[1:]
        if words:
            self.rate_command(words, depth + 1, call.sources, call.redirects)
        elif not inner.texts and severity_table()["wrappers"][program].get("stdin"):
            self._rate_shell_input(call)
        self.scope.folder = folder

    def _rate_shell(self, call: Invocation) -> None:
        program, arguments = call.program, call.arguments
        texts = [argument.text for argument in arguments]
        for index, text in enumerate(texts, 1):
            if text is not None and re.fullmatch(r"-[a-zA-Z]*c", text):
                self._rate_inner_text(program, texts[index] if index < len(texts) else "", call.depth)
                return
            if text in ("--version", "--help"):
                return
        if program not in ("source", ".") and "-n" in texts and not call.sources and len(texts) > 1:
            return  # it only checks the script
        if script := next((text for text in texts if text and not text.startswith("-")), None):
            self._report_download(script)
        if any(argument.text is None and argument.source.startswith("<(") for argument in arguments):
            self.report(Severity.HIGH, f"{program} runs what another command prints.", always=True)
        elif script := next(
            (t for t in texts if t is None or (not t.startswith(("-", "+")) and t not in _STANDARD_INPUT)), ""
        ):
            self.report(Severity.MEDIUM, f"Runs the script {script}.")
        elif None in texts:
            self.report(Severity.HIGH, f"{program} runs something that is not known before it runs.")
        else:
            self._rate_shell_input(call)

    def _rate_shell_input(self, call: Invocation) -> None:
        """Rate a shell that reads its commands from its standard input."""
        program, depth, sources = call.program, call.depth, call.sources
        if sources:
            is_remote = wrapped_commands.is_remote(sources)
            self.report(Severity.HIGH, f"{program} runs what another command prints.", always=is_remote)
            if (text := wrapped_commands.printed_text(sources)) is not None:
                self._rate_inner_text(program, text, depth)
            return
        for redirect in call.redirects:
            if "<<" in redirect.operator:
                self._rate_inner_text(program, redirect.body or None, depth)
            elif redirect.target is not None and redirect.target.source.startswith("<("):
                self.report(Severity.HIGH, f"{program} runs what another command prints.", always=True)
            else:
                self.report(Severity.MEDIUM, f"{program} reads commands from a file.")

    def _rate_inner_text(self, program: str, text: str | None, depth: int) -> None:
        if text is None:
            self.report(Severity.HIGH, f"{program} runs text that is not known before it runs.")
        else:
            self.rate_text(text, depth + 1)

    def _rate_evaluation(self, call: Invocation) -> None:
        program, depth = call.program, call.depth
        texts = [argument.text for argument in call.arguments if argument.text is not None]
        if len(texts) != len(call.arguments):
            self._rate_inner_text(program, None, depth)
        elif program == "eval":
            self.rate_text(" ".join(texts), depth + 1)
        elif program == "alias":
            for text in texts:
                self.rate_text(text.partition("=")[2], depth + 1)
        elif texts and not texts[0].startswith("-"):
            self.rate_text(texts[0], depth + 1)

    def _rate_find(self, arguments: Sequence[Word], depth: int) -> None:
        folders = list(takewhile(lambda argument: not (argument.text or "").startswith(("-", "(", "!")), arguments))
        texts = [argument.text or "" for argument in arguments]
        is_filter = wrapped_commands.FIND_FILTER.fullmatch
        if any(text == "-delete" and not is_filter(previous) for previous, text in pairwise(["", *texts])):
            targets = folders or [Word.literal(".")]
            is_partial = any(map(is_filter, texts)) or targets[0].text == "."
            report_deletion(targets, self.scope, self.report, is_partial=is_partial)
        for index, text in enumerate(texts, 1):
            if text in ("-fprint", "-fprint0", "-fprintf", "-fls") and arguments[index:]:
                report_write(arguments[index], self.scope, self.report)
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                self._rate_find_command(arguments[index:], folders, depth)

    def _rate_find_command(self, arguments: Sequence[Word], folders: list[Word], depth: int) -> None:
        command = list(takewhile(lambda word: word.text not in (";", "+"), arguments))
        words = [word for word in command if word.text != "{}"]
        has_placeholder = len(command) > len(words)
        if arguments and arguments[0].text == "{}":
            self.rate_command(arguments[:1], depth + 1)
        elif words:
            self.rate_command([*words, *(folders if has_placeholder else [])], depth + 1)
            if words[0].text in ("rm", "unlink", "shred", "/bin/rm") and has_placeholder:
                report_deletion(folders, self.scope, self.report, is_partial=True)

    def _rate_assignment(self, name: str, value: Word, *, is_prefix: bool) -> None:
        if f"{name}={value.text}" in names("harmless_git_env"):
            return
        report_evaluated_index((value.text or "",), self.report)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in names("loader_variables")):
            severity = Severity.HIGH if is_prefix else Severity.MEDIUM
            self.report(severity, f"{name} changes how programs are found or loaded.")

    def _rate_redirect(self, redirect: Redirect) -> None:
        target = redirect.target
        if target is None:
            return
        text = target.text or ""
        if text.startswith(("/dev/tcp", "/dev/udp")):
            self.report(Severity.HIGH, "Opens a network connection.")
        elif ">" in redirect.operator and not re.fullmatch(r"&?\d+|-|/dev/(null|stdout|stderr|tty|fd/\d+)", text):
            report_write(target, self.scope, self.report)


def _is_misleading(name: str) -> bool:
    """Return whether a name contains invisible characters, or letters that look like others."""
    categories = {unicodedata.category(letter) for letter in name}
    is_mixed = re.search(r"[a-zA-Z]", name) is not None and "/" not in name and "." not in name
    return "Cf" in categories or "Zs" in categories or unicodedata.normalize("NFKC", name) != name or is_mixed
