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
from tui_agent.shell import familiar, named_files, wrapped_commands
from tui_agent.shell.grammar import MAX_LENGTH, unparsable_reason
from tui_agent.shell.interpreted_code import is_ordinary_code
from tui_agent.shell.programs import (
    CHANGING_PROGRAMS,
    note_temporary_outputs,
    rate_arguments,
    rate_program,
    reads_endlessly,
    report_deletion,
    report_evaluated_index,
    report_sent_secrets,
    report_unknown_targets,
)
from tui_agent.shell.safe_arguments import EVERYTHING, Selection, find_patterns
from tui_agent.shell.syntax import ParsedCommand, Pipeline, Redirect, SimpleCommand, Word, parse_shell
from tui_agent.shell.targets import (
    ENVIRONMENT,
    NEW_TEMPORARY,
    NamedPath,
    PathScope,
    finds_leftovers,
    names,
    report_write,
    severity_table,
)
from tui_agent.shell.variables import Variables, assignment_risk
from tui_agent.shell.wrapped_commands import Invocation

MAX_TEXT_DEPTH = 6
"""Levels of shell text within shell text (`bash -c "bash -c …"`) that are parsed."""
MAX_COMMAND_DEPTH = 24
"""Levels of commands within commands (`env env …`) that are rated."""
_MAX_PIECES = 100
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Pieces at the start and at the end of an unparsable text that are rated."""
_STANDARD_INPUT = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_CODE_FILE = re.compile(
    r"(^|/)([Mm]akefile|GNUmakefile|Dockerfile|Rakefile|Gemfile|Justfile|[^/]*\.(py|js|mjs|cjs|ts|sh|bash|rb|pl|php|lua|mk|"
    r"jar|war|toml|cfg|ini|json|gradle|kts|cmake|go|rs|c|h|so|exe|bin|run|yml|yaml|xml|tgz|gz|zip|tar|xz))$"
)
_ENDLESS = re.compile(
    r"\b(while\s+(:|true|\[\s*1\s*\]|\[\[ 1 \]\])|until\s+(false|! true))\s*(;|\n)|for\s*\(\([^;)]*;\s*;"
)
_ASSIGNING = ("read", "mapfile", "readarray", "getopts", "let")
"""Builtins that set variables to what only they know."""
_PAUSE = re.compile(r"\b(sleep|break|exit|return|read|wait)\b")
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
    unfamiliar: tuple[str, ...] = ()
    """Why it is not known what it does."""
    named_paths: tuple[NamedPath, ...] = ()
    writes_outside: bool = False  # outside the workspace


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
        unfamiliar=tuple(dict.fromkeys(rater.unfamiliar)),
        named_paths=tuple(dict.fromkeys(rater.scope.named)),
        writes_outside=rater.scope.writes_outside,
    )


class _Rater:
    """Collects the findings about one command line."""

    def __init__(self, scope: PathScope) -> None:
        self.scope = scope
        self.worst = Severity.NONE
        self.reasons: dict[Severity, list[str]] = {severity: [] for severity in Severity}
        self.always = False
        self.unfamiliar: list[str] = []
        self._variables = Variables()
        self._functions: set[str] = set()
        self._downloads: set[str] = set()
        self._built: set[str] = set()
        self._has_clone = False
        self._written: list[tuple[str, str]] = []
        self._find_words: Sequence[Word] = ()

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
        # In comments, quotes and quoted here-documents a backslash joins no lines: both readings count.
        joined = re.sub(r"(?<=[^\s\\])((?:\\\\)*)\\\n(?=\S)", r"\1", command)
        if joined != command:
            self._rate_reading(command, depth)
        self._rate_reading(joined, depth)

    def _rate_reading(self, command: str, depth: int) -> None:
        parsed = parse_shell(command)
        if parsed.problem:
            self.report(Severity.HIGH, parsed.problem, always=True)
            self._rate_pieces(command, depth)
        if re.search(r"\$\{[^}]*@P\}", command):
            self.report(Severity.HIGH, "A variable's text is expanded as a prompt, which can run commands.")
        for match in re.finditer(r"\$\{(\w+):?=", command):
            self._variables.assign(match[1], Word(source=match[0], text=None))
        for match in re.finditer(r"\$\(\s*<\s*([^\s)]+)\s*\)", command):
            for word in self._variables.expand(
                [Word(source=match[1], text=None if "$" in match[1] else match[1])], self.scope.folder
            ):
                self.scope.named.append(NamedPath(self.scope.absolute(word.text or "."), "cat"))
        if _ENDLESS.search(command) and not (_PAUSE.search(command) and "&" not in re.sub(r"&&|>&|&>", "", command)):
            self.report(Severity.HIGH, "A loop that never ends.")
        if re.search(r"\{-?\d+\.\.\d{6,}", command):
            self.report(Severity.HIGH, "It makes a huge number of words.")
        self._functions |= set(parsed.functions)
        self._report_fork_bombs(parsed)
        for pipeline in parsed.pipelines:
            self._written += wrapped_commands.written_texts(pipeline)
        for pipeline in parsed.pipelines:
            self._rate_pipeline(pipeline, depth)

    def _rate_pieces(self, command: str, depth: int) -> None:
        """Rate the parts of a text that can't be parsed as a whole, each by itself: they may hold something worse."""
        if unparsable_reason(command):  # its readable parts
            command = _CONTROL.sub(" ", command)
            self._rate_cut(command, depth)
        pieces = [piece.strip() for piece in re.split(r"[\n;&|(){}`]+", command)]
        pieces += [match[1].replace(",", " ") for match in re.finditer(r"\{([^{}\s]*,[^{}\s]*)\}", command)]
        pieces = list(dict.fromkeys(piece for piece in pieces if piece and piece != command.strip()))
        for piece in dict.fromkeys([*pieces[:_MAX_PIECES], *pieces[-_MAX_PIECES:]]):
            parsed = parse_shell(piece)
            for pipeline in () if parsed.problem else parsed.pipelines:
                self._rate_pipeline(pipeline, depth + 1)

    def _rate_cut(self, command: str, depth: int) -> None:
        """Rate text without control characters; of text that is too long, its beginning and its end."""
        size = MAX_LENGTH // 4  # a character has at most four bytes
        for part in (command,) if not unparsable_reason(command) else (command[:size], command[-size:]):
            parsed = parse_shell(part)
            for pipeline in parsed.pipelines:
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
                self._assign(name, value)
                self._rate_assignment(name, value, is_prefix=bool(command.words))
            is_silent = not command.words or command.words[0].text in (":", "true")
            for redirect in command.redirects:
                self._rate_redirect(redirect)
                target = redirect.target.source if redirect.target is not None else ""
                if is_silent and redirect.operator.endswith(">") and re.search(r"\$\{\w+[%#]", target):
                    self.report(Severity.HIGH, f"Empties files that are not known before it runs: {target}")
            if command.words:
                sources = (*pipeline.sources, *pipeline.commands[:index])
                self.rate_command(command.words, depth, sources, command.redirects, bool(command.assignments))
        if reads_endlessly(pipeline):
            self.report(Severity.HIGH, "It reads without an end, and fills memory or a disk.")
        report_sent_secrets(pipeline, self.report)
        self._downloads |= wrapped_commands.downloaded_files(pipeline)

    def rate_command(
        self,
        words: Sequence[Word],
        depth: int,
        sources: Sequence[SimpleCommand] = (),
        redirects: Sequence[Redirect] = (),
        assigns: bool = False,
    ) -> None:
        """Rate a simple command with its arguments."""
        for word in words:
            self._note_secret_variables(word)
        words = wrapped_commands.expand_braces(self._variables.expand(words, self.scope.folder))
        if not words:
            return
        program = words[0].text
        if program is None and re.fullmatch(r"\(.*\)", words[0].source, re.DOTALL):  # `time (make; make test)`
            self.rate_text(words[0].source[1:-1], depth + 1)
            return
        if program is None or (words[0].is_pattern and program not in ("[", "[[", "{")) or program == "{}":
            self.report(
                Severity.HIGH, f"The program's name is not known before it runs: {words[0].source}", always=True
            )
            return
        if depth > MAX_COMMAND_DEPTH:
            self.report(Severity.HIGH, "Commands are nested too deeply to be analyzed.")
            return
        if program in _RESERVED and words[0].source == program:
            self.report(Severity.HIGH, "The shell grammar could not read it.")
        if program in ("{", "}") or program in _RESERVED:
            while words[1:] and (match := re.match(r"(\w+)=(.*)", words[1].text or "")):
                self._rate_assignment(match[1], Word.literal(match[2]), is_prefix=True)
                words = [words[0], *words[2:]]
            if words[1:]:
                self.rate_command(words[1:], depth + 1, sources, redirects)
            return
        call = Invocation(program, words[1:], self.scope, self.report, depth, sources, redirects, assigns)
        start = len(self.scope.named)
        note_temporary_outputs(call)
        self._rate_call(call)
        named = self.scope.named[start:]
        self.scope.named[start:] = [path for path in named if not self.scope.is_own_temporary(path.path)]

    def _note_secret_variables(self, word: Word) -> None:
        """Note the use of a variable that probably holds a secret, or whose name is not known before it runs."""
        if word.text is not None or "$" not in word.source:
            return
        for match in re.finditer(r"\$\{?(!?)(\w+)", word.source):
            if match[1] or (named_files.names_secret(match[2]) and not self._variables.knows(match[2])):
                self.scope.named.append(NamedPath(f"${match[2]}", ENVIRONMENT))

    def _rate_call(self, call: Invocation) -> None:
        """Rate a program by its name or path."""
        written = call.program
        self._report_download(written)
        if not written.isascii() and _is_misleading(written):
            self.report(Severity.HIGH, f"The program's name looks like another one: {written}")
        call = familiar.under_listed_name(call)
        program = call.program
        if program in self._functions:
            named_files.report_names(call._replace(program="cat"))
            return
        if program in _ASSIGNING:
            for name in filter(str.isidentifier, call.texts):
                self._variables.assign(name, Word(source=f"${name}", text=None))
        path = self.scope.absolute(written)
        if program in names("compilers") or call.texts[:1] == ["build"]:
            self._built |= set(self.scope.temporary) - {NEW_TEMPORARY}
        if path in self._built:
            return
        if "/" in written and self.scope.is_outside(path) and not familiar.is_installed(path, self.scope.roots):
            self.report(Severity.HIGH, f"Runs a program outside the workspace: {written}", always=True)
        if program in names("privilege"):
            self.report(Severity.HIGH, f"{program} runs with other privileges.", always=True)
        if program in severity_table()["wrappers"]:
            self._rate_wrapper(call, written)
            return
        named_files.report_names(call)
        report_unknown_targets(call)
        self._report_prepared(call)
        if reason := familiar.unfamiliar_reason(call, written):
            self.unfamiliar.append(reason)
        if program in names("shells") or program in ("source", "."):
            self._rate_shell(call)
        elif program in ("eval", "alias", "trap"):
            self._rate_evaluation(call)
        elif program == "find":
            self._rate_find(call.arguments, call.depth)
        elif program in ("cd", "pushd"):
            self.scope.change_folder(next((a for a in call.arguments if not (a.text or "").startswith("-")), None))
        else:
            self._rate_program(call)

    def _report_prepared(self, call: Invocation) -> None:
        """Report a program that may run what the same command line downloaded or wrote."""
        if call.program in ("declare", "export", "local", "typeset") and any(
            word.text is None for word in call.arguments
        ):
            self.report(Severity.HIGH, f"{call.program} sets variables that are not known before it runs.")
        if call.program in familiar.words("text_all"):
            return
        for previous, argument in pairwise([Word.literal(""), *call.arguments]):
            is_script = re.match(r"-\w*[fE]$|--(file|exec|include|load)", previous.text or "")
            is_reader = call.program in familiar.words("readers")
            if argument.text is None and argument.source.startswith("<(") and (is_script or not is_reader):
                self.report(Severity.HIGH, f"{call.program} may run what another command prints.", always=True)
        is_fed = any("<<" in redirect.operator for redirect in call.redirects)
        last = call.texts[-1:] or [""]
        if is_fed and (re.fullmatch(r"-\w*f", last[0]) or call.program in ("docker", "podman", "docker-compose")):
            # the grammar loses a `-` in front of a here-document
            self.report(Severity.HIGH, f"{call.program} runs what the command gives it.", always=True)
        if call.program in familiar.words("readers") - {"source", "."}:
            return
        folder = self.scope.absolute(".")
        is_elsewhere = self.scope.is_outside(folder) and not self.scope.is_own_temporary(folder)
        if is_elsewhere and self.scope.folder.startswith(("/", "~")):
            self.report(
                Severity.MEDIUM, f"{call.program} works outside the workspace: {self.scope.folder}", always=True
            )
        if self._has_clone and call.program not in ("git", "cd", "tree", "ls"):
            self.report(Severity.HIGH, f"{call.program} may run what was downloaded.", always=True)
        is_kept = call.program in ("tar", "unzip", *names("network"))
        if not is_kept and any(re.search(_CODE_FILE, name) for name in self._downloads):
            self.report(Severity.HIGH, f"{call.program} may run what was downloaded.", always=True)
        if wrapped_commands.is_remote(call.sources) and call.program not in ("tee", "curl", "wget", *names("decoders")):
            self.report(Severity.HIGH, f"{call.program} gets what was downloaded or decoded.", always=True)
        for name, text in self._written:
            if not wrapped_commands.is_shell_text(name, text):
                runs_it = call.program in severity_table()["interpreters"] and name in call.texts
                if runs_it and not is_ordinary_code(call.program, text, self.scope):
                    self.report(Severity.HIGH, f"{call.program} runs what the command writes into a file.", always=True)
                continue
            rater = _Rater(PathScope(None, ()))
            rater.rate_text(text, 0)
            rater._rate_pieces(text, 0)
            if re.search(r"(\S.*?\S|\S)\s*&\s*\1", text):
                rater.report(Severity.CRITICAL, "It starts itself again and again.")
            if rater.always or rater.worst is Severity.CRITICAL:
                self.report(Severity.HIGH, f"{call.program} may run what the command writes into a file.", always=True)

    def _report_download(self, path: str) -> None:
        is_written = any(name == path for name, _ in self._written) or path in self._built
        if posixpath.normpath(path) in self._downloads or (self.scope.is_own_temporary(path) and not is_written):
            self.report(Severity.HIGH, f"Runs downloaded code: {path}", always=True)

    def _rate_program(self, call: Invocation) -> None:
        program, arguments = call.program, call.arguments
        rate_program(call)
        if call.texts[:1] == ["clone"]:
            self._has_clone = True
        if program in severity_table()["interpreters"]:
            if any(map(named_files.reads_secret, [*call.texts, call.input_text])):
                self.scope.named.append(NamedPath("the environment", ENVIRONMENT))
            if script := next((a.text for a in arguments if not (a.text or "-").startswith("-")), None):
                self._report_download(script)
            if any(r.target and r.target.source.startswith("<(") for r in call.redirects):
                self.report(Severity.HIGH, f"{program} may run what another command prints.", always=True)
        if program == "git":
            searched = [
                text
                for before, text in pairwise(["", *call.texts])
                if before in ("-S", "-G", "--grep") or text[:2] in ("-S", "-G")
            ]
            if "-p" in call.texts and any(map(named_files.names_secret, searched)):
                self.scope.named.append(NamedPath("the history of secrets", ENVIRONMENT))
            for text in wrapped_commands.git_commands(arguments):
                self._rate_inner_text(program, text, call.depth)
        elif program in ("at", "batch") and call.input_text:
            self.rate_text(call.input_text, call.depth + 1)
        elif program == "make" and re.search(
            r"(^| )-f( ?-| /dev/stdin)( |$)|(^| )-f$", " ".join(a.source for a in arguments)
        ):
            self.report(Severity.HIGH, "make runs rules from its standard input.")
            self._rate_pieces(call.input_text.replace(":", ";"), call.depth)

    def _rate_wrapper(self, call: Invocation, written: str) -> None:
        """Rate the command that a program such as `nice -n 5 CMD` runs."""
        program, arguments, depth = call.program, call.arguments, call.depth
        if program == "command" and arguments and arguments[0].text in ("-v", "-V"):
            return
        inner = wrapped_commands.wrapped_command(program, arguments)
        name = inner.words[0].text if inner and inner.words else ""
        downloads = program in names("downloaders") and name not in names("checks")
        if inner is None or program in names("rated_wrappers") or downloads:
            self._rate_program(call)
        is_own = inner is not None and bool(inner.words) and call.arguments[-1:] == list(inner.words)[-1:]
        own = call.arguments[: -len(inner.words)] if inner is not None and is_own else call.arguments
        named_files.report_names(
            call._replace(arguments=own, program=program if not is_own or program != "env" else "nice")
        )
        if inner is None or not inner.words:
            self._report_prepared(call)
        if is_own and program != "time" and (reason := familiar.unusual_option(call._replace(arguments=own))):
            self.unfamiliar.append(reason)
        is_rated = is_own and program in familiar.words("wrappers")
        if not is_rated and (reason := familiar.unfamiliar_reason(call, written)):
            self.unfamiliar.append(reason)
        if inner is None or (program == "env" and not inner.words and not inner.texts):
            return
        rate_arguments(call)
        for name, value in inner.assignments:
            self._assign(name, value)
            self._rate_assignment(name, value, is_prefix=True)
        folder = self.scope.folder
        if inner.folder:
            self.scope.change_folder(inner.folder)
        for text in inner.texts:
            self._rate_inner_text(program, text, depth)
        self._rate_wrapped(call, inner)
        self.scope.folder = folder

    def _rate_wrapped(self, call: Invocation, inner: wrapped_commands.WrappedCommand) -> None:
        program, arguments, depth, words = call.program, call.arguments, call.depth, list(inner.words)
        if program in ("watch", "parallel") and all(word.text is not None for word in words):
            self.rate_text(" ".join(word.text or "" for word in words), depth + 1)  # both pass it to a shell
        if program == "parallel" and not words and not inner.texts:
            self.report(Severity.HIGH, "parallel runs what it reads.", always=True)
        if (
            words
            and program in ("hatch", "pdm", "rye", "pipenv")
            and re.fullmatch(severity_table()["script_names"], words[0].text or "")
        ):
            self.report(Severity.MEDIUM, f"Runs the project's script {words[0].text}.")
            return
        if words and program in ("xargs", "parallel"):
            words = wrapped_commands.fill_placeholders(words, arguments, call.sources)
        elif program == "coproc" and words[1:] and words[1].text == "{":
            words = words[1:]
        if words:
            start = len(self.scope.named)
            self.rate_command(words, depth + 1, call.sources, call.redirects)
            if program in ("docker", "podman", "docker-compose"):
                inner_files = self.scope.named[start:]  # are those of the container
                self.scope.named[start:] = [name for name in inner_files if name[1] == ENVIRONMENT]
        elif not inner.texts and severity_table()["wrappers"][program].get("stdin"):
            self._rate_shell_input(call)

    def _rate_shell(self, call: Invocation) -> None:
        program, arguments = call.program, call.arguments
        texts = [argument.text for argument in arguments]
        for index, text in enumerate(texts, 1):
            if text is not None and re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text):
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
        if program == "fish" and re.search(r"\bset( -\w+)*\s*([;|\n]|$)", text or ""):
            self.scope.named.append(NamedPath("the environment", ENVIRONMENT))
        if text is None:
            self.report(Severity.HIGH, f"{program} runs text that is not known before it runs.")
        else:
            self.rate_text(text, depth + 1)

    def _rate_evaluation(self, call: Invocation) -> None:
        program, depth = call.program, call.depth
        texts = [argument.text for argument in call.arguments if argument.text is not None]
        if program == "trap" and (
            match := re.fullmatch(r"\"(kill \$\w+)\"", call.arguments[0].source if call.arguments else "")
        ):
            texts = [match[1]]
            self.rate_text(match[1], depth + 1)
        elif len(texts) != len(call.arguments):
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
        self._find_words = arguments
        texts = [argument.text or "" for argument in arguments]
        is_filter = wrapped_commands.FIND_FILTER.fullmatch
        if any(text == "-delete" and not is_filter(previous) for previous, text in pairwise(["", *texts])):
            targets = folders or [Word.literal(".")]
            report_deletion(targets, self.scope, self.report, is_partial=finds_leftovers(texts))
        for index, text in enumerate(texts, 1):
            if text in ("-fprint", "-fprint0", "-fprintf", "-fls") and arguments[index:]:
                report_write(arguments[index], self.scope, self.report)
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                self._rate_find_command(arguments[index:], folders, depth, finds_leftovers(texts))

    def _rate_find_command(self, arguments: Sequence[Word], folders: list[Word], depth: int, is_partial: bool) -> None:
        command = list(takewhile(lambda word: word.text not in (";", "+"), arguments))
        words = [word for word in command if word.text != "{}"]
        has_placeholder = len(command) > len(words)
        patterns = find_patterns([word.text or "" for word in self._find_words])
        if arguments and arguments[0].text == "{}":
            self.rate_command(arguments[:1], depth + 1)
        elif words:
            folders = folders or [Word.literal(".")]
            is_safe = is_partial and not any(self.scope.is_outside(self.scope.absolute(f.text or "~")) for f in folders)
            is_edit = words[0].text == "sed" and any(pattern.strip("*?.") for pattern in patterns)
            edited = [Word.literal(f"{folder.text}/found" if folder.text else "~") for folder in folders]
            found = [Word.literal("build/found")] if is_safe else edited if is_edit else folders
            if (
                is_safe
                or words[0].text in names("shells")
                or familiar.base_name(words[0].text or "") in familiar.words("readers")
            ):
                self.rate_command([*words, *(found if has_placeholder else [])], depth + 1)
                if has_placeholder and words[0].text not in ("wc", "ls", "stat", "file", "du"):
                    search = Selection(all_of=patterns)
                    self.scope.named += [
                        NamedPath(self.scope.absolute(folder.text or "."), words[0].text or "", search)
                        for folder in folders
                    ]
            else:
                self.rate_command([*words, *(found if has_placeholder else [])], depth + 1)
                if has_placeholder and words[0].text in CHANGING_PROGRAMS:
                    self.report(Severity.HIGH, f"{words[0].text} changes every file that find finds.", always=True)
            if words[0].text in ("rm", "unlink", "shred", "/bin/rm") and has_placeholder:
                report_deletion(folders, self.scope, self.report, is_partial=is_partial)

    def _rate_assignment(self, name: str, value: Word, *, is_prefix: bool) -> None:
        if f"{name}={value.text}" in names("harmless_git_env"):
            return
        report_evaluated_index((value.text or "", name), self.report)
        if reason := assignment_risk(name, value, self.scope, is_prefix=is_prefix):
            self.report(Severity.HIGH, reason)
        elif any(fnmatch.fnmatchcase(name, pattern) for pattern in names("loader_variables")):
            self.report(Severity.MEDIUM, f"{name} changes how programs are found or loaded.")

    def _assign(self, name: str, value: Word) -> None:
        if value.source.strip('"') not in (f"${name}", f"${{{name}}}"):
            self._note_secret_variables(value)
        for expanded in self._variables.expand([value], self.scope.folder) or [Word.literal("")]:
            self._variables.assign(name, expanded)

    def _rate_redirect(self, redirect: Redirect) -> None:
        target = redirect.target
        if target is None:
            return
        self._note_secret_variables(target)
        for expanded in self._variables.expand([target], self.scope.folder):
            self._rate_target(redirect, expanded)

    def _rate_target(self, redirect: Redirect, target: Word) -> None:
        text = target.text or ""
        if text.startswith(("/dev/tcp", "/dev/udp")):
            self.report(Severity.HIGH, "Opens a network connection.")
        elif ">" in redirect.operator and not re.fullmatch(r"&?\d+|-|/dev/(null|stdout|stderr|tty|fd/\d+)", text):
            if target.text is None:
                self.report(Severity.HIGH, f"Writes a file whose name is not known before it runs: {target.source}")
            elif target.is_pattern and re.search(r"[*?]", target.text):
                self.report(Severity.HIGH, f"Writes all files like {target.source}", always=True)
            report_write(target, self.scope, self.report)
        elif redirect.operator.endswith("<") and "<<" not in redirect.operator and not target.source.startswith("<("):
            if target.text is None:
                self.scope.named.append(NamedPath(self.scope.absolute("."), "<", EVERYTHING))
            self.scope.named.append(NamedPath(self.scope.absolute(target.display_text), "<"))


def _is_misleading(name: str) -> bool:
    """Return whether a name contains invisible characters, or letters that look like others."""
    categories = {unicodedata.category(letter) for letter in name}
    is_mixed = re.search(r"[a-zA-Z]", name) is not None and "/" not in name and "." not in name
    return "Cf" in categories or "Zs" in categories or unicodedata.normalize("NFKC", name) != name or is_mixed
