"""Rate single programs by their arguments, with the tables of `severity.json` and a rule for each special program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from tui_agent.common.domain import Severity
from tui_agent.shell.interpreted_code import rate_interpreter
from tui_agent.shell.syntax import Pipeline, Word
from tui_agent.shell.targets import (
    CATASTROPHIC,
    TEMPORARY,
    PathScope,
    ReportSeverity,
    TargetKind,
    names,
    severity_table,
)
from tui_agent.shell.wrapped_commands import Invocation, operands

NONE, MEDIUM, HIGH, CRITICAL = Severity.NONE, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def rate_program(call: Invocation) -> None:
    """Rate a program that runs no other command."""
    texts, table = call.texts, severity_table()
    if texts in (["--version"], ["-V"], ["--help"], ["-v"], ["-version"], ["version"]):
        return
    if (reading := table["reads"].get(call.program)) is not None and re.search(reading, " ".join(texts)):
        return
    _rate_by_name(call)
    rate_arguments(call)
    if call.program in table["interpreters"]:
        rate_interpreter(call)
    if rule := _RULES.get(call.program):
        rule(call)


def _rate_by_name(call: Invocation) -> None:
    program, texts, table = call.program, call.texts, severity_table()
    base = program.split(".", 1)[0]
    if program in names("critical") or base in ("mkfs", "newfs"):
        last = (texts or [""])[-1]
        is_image = re.fullmatch(r"(?!/dev/)[\w./-]*\.(img|iso|raw|ext\d|bin|qcow2)", last)
        is_harmless = base.startswith("mk") and is_image is not None
        call.report(MEDIUM if is_harmless else CRITICAL, f"{program} rewrites disks.", always=not is_harmless)
    elif program in table["subcommands"]:
        _rate_subcommand(call)
    else:
        if texts[:1] in (["publish"], ["destroy"]):
            call.report(HIGH, f"{program} {texts[0]}")
        has_rules = program in _RULES or program in table["arguments"] or program in table["interpreters"]
        if not has_rules and program not in names("none"):
            call.report(HIGH if program in names("high") else MEDIUM, f"{program} can change things.")


def _rate_subcommand(call: Invocation) -> None:
    program, texts = call.program, call.texts
    entry = severity_table()["subcommands"][program]
    words = operands(program, texts)
    if words[1:] and words[0] in ("run", "run-script") and _RULES.get(program) is _packages:
        return
    subcommand = words[0] if words else (texts[0] if texts else "")
    for name in ["_".join(words[:2]), subcommand] if words[1:] else [subcommand]:
        for severity in (HIGH, NONE, MEDIUM):
            if name in entry.get(severity.value, "").split() or entry.get(severity.value) == "*":
                call.report(severity, f"{program} {name}".replace("_", " ").strip())
                return
    call.report(MEDIUM, f"{program} {subcommand}".strip())


def publishing_reason(program: str) -> str:
    """Return the reason to ask before a program makes something public."""
    return f"{program} publishes something to others."


def rate_arguments(call: Invocation) -> None:
    """Report what only some arguments of a program do, by the tables `harms`, `publishes` and `arguments`."""
    program, texts, table = call.program, call.texts, severity_table()
    entry = table["harms"].get(program, {})
    for severity, pattern in table["harms"].get(entry.get("like"), entry).items():
        if re.search(pattern, " ".join(texts)):
            reason = f"{program} {texts[0] if texts else ''}".strip()
            call.report(Severity(severity), reason, always=severity == CRITICAL.value)
    words = operands(program, texts)
    pattern = table["publishes"].get(program, "")
    if words and pattern and re.search(pattern, " ".join(texts[texts.index(words[0]) :])):
        call.report(MEDIUM, publishing_reason(program), always=True)
    for rule in table["arguments"].get(program, ()):
        _apply_rule(call, *rule)


def _apply_rule(
    call: Invocation, severity: str, reason: str, pattern: str = "", part: str = "each", always: bool = False
) -> None:
    """Report the finding of a rule of the table if the pattern is found in that part of the arguments."""
    if any(re.search(pattern, text) for text in _searched_texts(call, part)):
        call.report(Severity(severity), reason, always=always)


def _searched_texts(call: Invocation, part: str) -> list[str]:
    match part:
        case "each":  # with a rule without a pattern even if there are none
            return ["", *call.texts]
        case "operands":
            return [" ".join(operands(call.program, call.texts)[:3])]
        case "statements":
            return [re.sub(r"(?<=[\s(=,])'[^']*'", "''", " ".join([*call.texts, call.input_text]))]
        case _:
            return [" ".join(call.texts)]


_OUTPUT_OPTION = r"--?[\w-]*(out|output|profile|report|prof|log-?file)"
"""Options whose value is a file to write."""


def note_temporary_outputs(call: Invocation) -> None:
    """Note the temporary files that options such as `-o` name."""
    if call.program in severity_table()["interpreters"] or call.program in names("shells"):
        return
    operands = [target for target in call.split()[0] if not target.is_pattern]
    if call.program in ("tee", "mkdir") or (call.program == "rm" and call.texts[:1] in (["-f"], call.texts)):
        for target in operands:
            call.scope.note_temporary(target)
    elif operands and (call.program in ("cp", "rsync", "install") or call.texts[:1] == ["clone"]):
        call.scope.note_temporary(operands[-1])
    options = names("output_options") | frozenset(severity_table()["own_output_options"].get(call.program, "").split())
    for option, value in pairwise([*call.arguments, Word.literal("")]):
        name, equals, text = (option.text or "").partition("=")
        is_archive = call.program == "tar" and re.match(r"-?\w*c\w*f$", name)
        if is_archive or name in options or re.fullmatch(_OUTPUT_OPTION, name):
            call.scope.note_temporary(Word.literal(text) if equals else value)


def report_sent_secrets(pipeline: Pipeline, report: ReportSeverity) -> None:
    """Report credentials and a network program in one pipeline."""
    commands = (*pipeline.sources, *pipeline.commands)
    texts = [word.display_text for command in commands for word in command.words]
    texts += [
        r.target.display_text for command in commands for r in command.redirects if r.target and "<" in r.operator
    ]
    programs = {command.words[0].text or "" for command in commands if command.words}
    if not names("network") & programs:
        return
    environment = any(len(c.words) == 1 and c.words[0].text in ("env", "printenv", "set") for c in commands[:-1])
    if environment or any(re.search(severity_table()["credentials"], text) for text in texts):
        report(HIGH, "Credentials may leave the machine.", always=True)


def report_evaluated_index(texts: Sequence[str], report: ReportSeverity) -> None:
    """Report texts that name a variable with a command in its index, which the shell would evaluate."""
    if any("$(" in text or "`" in text for text in texts if "[" in text):
        report(HIGH, "A variable's index runs a command.")


# --- sed and awk ---

_SED_PART = r"(?:\\.|(?!(?P={0}))(?:\[[]^]?(?:\\.|[^]\\])*+\]|[^\\]))*+(?P={0})"
"""Text up to a delimiter, which is literal in brackets and after a backslash."""
_SED_COMMAND = re.compile(
    r"(?:\d+|\$|[,!~+{};\s])+|[=dDgGhHlnNpPxzFqQ]\s*\d*|[btT:][^;\n}]*|[rR][^\n]*|#[^\n]*|[aic](?:\\\n|[^\n])*"
    rf"|(?P<escaped>\\)?(?P<slash>(?(escaped)[^\\]|/)){_SED_PART.format('slash')}[IM]*"
    rf"|(?P<verb>[sy])(?P<mark>[^\\]){_SED_PART.format('mark') * 2}"
    r"[gpiImM\d]*(?P<execute>e?)[gpiImM\d]*(?:w\s*(?P<file>[^\n]+))?"
    r"|(?P<output>[wWe])(?P<line>[^\n]*)",
    re.DOTALL,
)


def _sed(call: Invocation) -> None:
    """Rate `sed` by its option for changes in place, and by the `w` and `e` of its script."""
    texts = call.texts
    scripts = [script for text, script in pairwise(texts) if text in ("-e", "--expression")]
    scripts += [text.partition("=")[2] for text in texts if text.startswith("--expression=")]
    files = [word for word, text in zip(call.arguments, texts, strict=True) if not text.startswith("-") or text == "-"]
    if any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts):
        call.report(MEDIUM, "Changes files in place.")
        for file in files if scripts else files[1:]:
            if file.source.startswith(("/", "~", '"$', "$")):
                call.report_write(file)
            else:
                call.scope.classify(file)
    if not scripts and not any(re.match(r"-[nErsuz]*f|--file", text) for text in texts):
        scripts = [word.text if word.text is not None else word.source for word in files[:1]]
    for script in scripts:
        written, runs_program, is_complete = _parse_sed(script)
        if runs_program:
            call.report(HIGH, "sed runs another program.")
        for name in written:
            call.report_write(Word.literal(name))
        if not is_complete:
            call.report(MEDIUM, "The sed script could not be read.")


def _parse_sed(script: str) -> tuple[list[str], bool, bool]:
    """Return the files that a script writes, whether it runs a program, and whether it was parsed to its end."""
    files: list[str] = []
    runs_program, position = False, 0
    while match := _SED_COMMAND.match(script, position):
        position = match.end()
        runs_program |= match["output"] == "e" or (match["verb"] == "s" and bool(match["execute"]))
        if match["file"] or match["output"] in ("w", "W"):
            files.append((match["file"] or match["line"]).strip())
    return files, runs_program, position == len(script)


def _awk(call: Invocation) -> None:
    """Rate `awk` by the pipes, `system()` calls and files of its program, outside of its strings and patterns."""
    for text in call.texts:
        code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        code = re.sub(r"(^|[~(,!&|;{}\n])(\s*)/(?:[^/\\\n]|\\.)*/", r"\1\2", code)
        if re.search(
            r"system\s*\(|(?<!\|)\|(?!\|)\s*(getline|\"|&|\w|\()|/inet/|@load", code + text * ("/inet/" in text)
        ):
            call.report(HIGH, "awk runs another program.")
        elif re.search(r"getline\b[^;}|<]*<\s*(?!\s*\"\")|\bARG[VC]\b", code):
            call.report(MEDIUM, "awk reads files whose names it computes.", always=True)
        elif re.search(r"print[^;}]*>", code) or text in ("-i", "inplace"):
            call.report(MEDIUM, "awk writes a file.")
            for name in re.findall(r'>\s*"([^"]+)"', text):
                call.report_write(Word.literal(name))
    if any(argument.text is None for argument in call.arguments[:1]):
        call.report(MEDIUM, "The awk program is not known before it runs.")


# --- files ---

_SORT_OUTPUT = re.compile(r"(?:-[bcCdfghiMmnrRsuVz]*o|--o(?:utput|utpu|utp|ut|u|)(?:=|$))(.*)", re.DOTALL)
_UNSAFE_MODE = re.compile(
    r"0*[24-7]\d{3}|0*1?\d?\d?[2367]|[augo]*[+=][rwxX]*s[rwxXst]*|[ugo]*[ao][ugo]*[+=][rxXst]*w[rwxXst]*|\+rwx"
)


def report_deletion(
    targets: Sequence[Word], scope: PathScope, report: ReportSeverity, *, is_partial: bool = False
) -> None:
    """Report that folders are deleted with all their content, or with `is_partial` only some files in them."""
    dangerous = (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP)
    for target in targets:
        kind, text = scope.classify(target), target.text or ""
        if kind in CATASTROPHIC or (kind is TargetKind.ABOVE and not is_partial):
            report(CRITICAL, f"Deletes {kind.value}: {target.source}", always=True)
        elif re.search(r"(^|/)\.git/?$", text) and not is_partial:
            report(CRITICAL, f"Deletes the history of the project: {target.source}", always=True)
        elif kind in dangerous or (kind is TargetKind.OUTSIDE and not is_partial and not text.startswith(TEMPORARY)):
            report(HIGH, f"Deletes {kind.value}: {target.source}", always=True)
        else:
            report(MEDIUM, f"Deletes {target.source}", always=kind is not TargetKind.BUILD and not is_partial)


CHANGING_PROGRAMS = names("changing")
"""Programs that change or remove the files that they are given."""


_EMPTIES = re.compile(
    r"(-n|1,\$|\$!|1!|1~1|0~1|/(\.|\.\*|\^|\$)/)?\s*[dDqQ]\s*|(1|2),\$\s*[dc].*|s[/|#]\.\*[/|#]\w*[/|#]\w*|-n|1d;.*"
)
"""Scripts of sed that delete all of a file, or print nothing of it."""


_ENDLESS_FILE = re.compile(r"/dev/(zero|u?random|full)")
_HUGE = re.compile(r"\{-?\d+\.\.\d{6,}|\d+(\.\d+)?[GTP]i?B?")


def reads_endlessly(pipeline: Pipeline) -> bool:
    """Return whether a pipeline reads a source without an end that nothing stops, or makes a huge number of words."""
    programs = [word.text or "" for command in pipeline.commands for word in command.words[:5]]
    texts = [word.display_text for command in pipeline.commands for word in command.words[1:]]
    texts += [r.target.display_text for c in pipeline.commands for r in c.redirects if r.target and "<" in r.operator]
    if any(_HUGE.match(text) and ("head" in programs or ".." in text) for text in texts):
        return True
    if "seq" in programs and any(re.fullmatch(r"\d{7,}", text) for text in texts):
        return True
    is_yes = any(command.words and command.words[0].text == "yes" for command in pipeline.commands)
    if not (is_yes or any(_ENDLESS_FILE.fullmatch(text) for text in texts)):
        return False
    limits = any(re.match(r"-N|-l ?\d|count=|--bytes|-c\d", text) for text in texts)
    return not ({"head", "cmp", "diff", "ls", "stat", "test", "[", "file"} & set(programs) or limits)


def report_unknown_targets(call: Invocation) -> None:
    """Report programs that change files which are not known before, or everything in the workspace."""
    if call.program not in CHANGING_PROGRAMS:
        return
    texts = call.texts
    if call.program in ("sed", "perl", "ruby") and not any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts):
        return
    if call.program == "sed" and any(_EMPTIES.fullmatch(text) for text in texts[:3]):
        call.report(HIGH, "Deletes the content of files.")
    targets = [word for word in call.arguments if not (word.text or "").startswith("-")]
    is_move = call.program in ("cp", "install", "ln")
    for target in targets[-1:] if is_move else targets:
        if target.text == "" or (target.text == "{}" and call.sources):
            continue  # `sed -i ''` of macOS, or what a search found
        if target.text is None:
            call.report(HIGH, f"{call.program} changes files that are not known before it runs.", always=True)
        elif (
            call.scope.classify(target) is TargetKind.ABOVE
            and (call.program not in ("mv", "cp", "ln", "tee") or "*" in target.text or target is targets[0])
            and (call.program != "cp" or "*" in target.text)
        ):
            call.report(HIGH, f"{call.program} changes everything in the workspace: {target.source}", always=True)
        elif (
            target.is_pattern
            and call.program in ("rm", "unlink", "truncate", "shred", "tee")
            and not _is_leftover(target)
        ):
            call.report(HIGH, f"{call.program} changes all files like {target.source}", always=True)


def _is_leftover(target: Word) -> bool:
    name = (target.text or "").rstrip("/").rpartition("/")[2]
    leftovers = frozenset(severity_table()["leftovers"].split()) | names("build_folders")
    return name in leftovers or (target.text or "").split("/")[0] in names("build_folders")


def _rm(call: Invocation) -> None:
    targets, options = call.split()
    if any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r[a-z]*|--no-p[a-z-]*", option) for option in options):
        report_deletion(targets, call.scope, call.report)
        return
    for target in targets:
        kind = call.scope.classify(target)
        if not target.is_pattern:
            call.scope.note_temporary(target)
        is_everything = kind in CATASTROPHIC and "*" in target.source
        call.report(CRITICAL if is_everything else MEDIUM, f"Deletes {target.source}", always=is_everything)
        if kind in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP, TargetKind.DISK):
            call.report(HIGH, f"Deletes {target.source}", always=True)


def _rimraf(call: Invocation) -> None:
    report_deletion(call.split()[0], call.scope, call.report)
    if any("*" in text for text in call.texts):
        call.report(HIGH, "Deletes all files that a pattern matches.", always=True)


def _mv(call: Invocation) -> None:
    targets, _ = call.split()
    for target in targets[:-1]:
        kind = call.scope.classify(target)
        if kind in CATASTROPHIC or (kind is TargetKind.ABOVE and "*" not in target.source):
            call.report(CRITICAL if kind in CATASTROPHIC else HIGH, f"Moves {kind.value}: {target.source}", always=True)
        elif kind in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP):
            call.report(HIGH, f"Moves {kind.value}: {target.source}", always=True)
    if targets and (targets[-1].text or "").startswith("/dev/"):
        call.report(HIGH, f"Moves to a device: {targets[-1].source}", always=True)
    _cp(call)


def _cp(call: Invocation) -> None:
    for target in call.split()[0][-1:]:
        call.report_write(target)


def _write_operands(call: Invocation) -> None:
    for target in call.split()[0]:
        call.report_write(target)


def _dd(call: Invocation) -> None:
    for text in call.texts:
        if text.startswith("of="):
            if re.search(r"[*?]", text):
                call.report(HIGH, f"dd writes all files like {text[3:]}", always=True)
            call.report_write(Word.literal(text[3:]))


def _sort(call: Invocation) -> None:
    for index, text in enumerate(call.texts, 1):
        if match := _SORT_OUTPUT.fullmatch(text):
            if match[1]:
                call.report_write(Word.literal(match[1]))
            elif index < len(call.arguments):
                call.report_write(call.arguments[index])


def _uniq(call: Invocation) -> None:
    for target in call.split()[0][1:]:
        if not (target.text or "").isdigit():  # else the value of an option
            call.report_write(target)


def _chmod(call: Invocation) -> None:
    targets, options = call.split()
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", option) for option in options):
        is_catastrophe = any(call.scope.classify(target) in CATASTROPHIC for target in targets[1:])
        call.report(CRITICAL if is_catastrophe else HIGH, "Changes permissions of a whole tree.", always=True)
    elif any(_UNSAFE_MODE.fullmatch(part) for text in call.texts for part in text.split(",")):
        call.report(HIGH, "Gives permissions to everybody, or sets the user id.")
    elif any(
        call.scope.classify(target) in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP, *CATASTROPHIC)
        for target in targets[1:]
    ):
        call.report(HIGH, "Changes permissions of a system file or of keys.", always=True)
    else:
        call.report(MEDIUM, "Changes permissions.")


def _curl(call: Invocation) -> None:
    for option, target in pairwise(call.arguments):
        is_output = option.display_text in ("-o", "--output", "-O", "--output-document")
        if is_output and not (target.text or "-").startswith(("-", "http")):
            call.report_write(target)
    if "-P" in call.texts or "--directory-prefix" in call.texts:
        _unpack(call)


def _rsync(call: Invocation) -> None:
    if any(text.startswith("--del") for text in call.texts):
        report_deletion(call.split()[0][-1:], call.scope, call.report)
    _cp(call)


def _tar(call: Invocation) -> None:
    texts = call.texts
    if any(
        re.match(r"--(checkpoint-action|to-command|use-compress-program|rsh-command|info-script)|-[IF]", text)
        for text in texts
    ):
        call.report(HIGH, "tar runs another program.")
    elif not (texts and re.fullmatch(r"-?[vzjJaf]*t[vzjJaf]*|--list", texts[0])):
        call.report(MEDIUM, "Packs or unpacks files.")
        _unpack(call)


def _unpack(call: Invocation) -> None:
    """Report the folder that `tar -C`, `unzip -d` and `wget -P` fill."""
    for option, folder in pairwise(call.arguments):
        if option.display_text in ("-C", "-d", "-P", "--directory", "--directory-prefix"):
            call.report_write(folder)


# --- packages, containers, servers ---


def _packages(call: Invocation) -> None:
    """Rate `run` of a package manager: `run test` and `run lint` are checks."""
    words = [text for text in call.texts if not text.startswith("-")]
    if words[:1] in (["run"], ["run-script"]) and len(words) > 1:
        is_check = re.match(r"(test|lint|check|typecheck|type-check|format:check|coverage)\b", words[1])
        call.report(NONE if is_check else MEDIUM, f"Runs the project's script {words[1]}.")


def _docker(call: Invocation) -> None:
    texts = call.texts
    for text, following in pairwise([*texts, ""]):
        mount = text.partition("=")[2] or following
        if re.match(r"(-v|--volume|--mount)\b", text) and re.match(
            r"(/|~|/etc|/var/run[^:]*):|.*\b(source|src)=(/|~|/etc|/var/run[^,]*)(,|$)", mount
        ):
            call.report(HIGH, f"Mounts host files into a container: {mount}")


def _gh(call: Invocation) -> None:
    words = operands("gh", call.texts)[:2]
    if words[1:] and (words[1] in ("delete", "archive", "transfer", "merge") or words == ["repo", "create"]):
        call.report(HIGH, f"gh {' '.join(words)}", always=True)
    if words[:1] == ["api"] and any(re.match(r"-X|--method|-f|-F|--field|--input", text) for text in call.texts):
        call.report(HIGH, "Changes something on GitHub.")


def _evaluate(call: Invocation) -> None:
    """Rate builtins that look up variables by name, and evaluate an index in it."""
    if call.program != "printf" or call.texts[:1] == ["-v"]:
        report_evaluated_index(call.texts, call.report)


# --- git ---

_GIT_COMMAND_SETTINGS = re.compile(r"(?i)alias\.|core\.(pager|editor)|pager\.|sequence\.")


def _git(call: Invocation) -> None:
    texts = call.texts
    words = operands("git", texts)
    subcommand = words[0] if words else ""
    start = texts.index(subcommand) if subcommand else len(texts)
    for index, (text, following) in enumerate(pairwise([*texts, ""])):
        overrides = (text in ("-c", "--config-env", "--exec-path") and index < start) or text.startswith(
            ("--exec-path=", "--config-env=")
        )
        if overrides and not following.startswith(("color.", "user.", "advice.", "core.quotepath")):
            call.report(HIGH, f"Overrides git's configuration: {following}")
        if re.match(r"--(upload-pack|receive-pack|exec|ext-diff|textconv|open-files-in-pager|output)\b", text):
            call.report(HIGH, f"git runs or writes something else: {text}")
    arguments = texts[start + 1 :]
    severity, pattern = severity_table()["git"].get(subcommand, ("", ""))
    is_dry_run = subcommand == "clean" and any(
        re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run", text) for text in arguments
    )
    if subcommand == "clean":
        call.report(MEDIUM if is_dry_run else HIGH, f"git {subcommand}")
    harmful = next((text for text in arguments if pattern and re.fullmatch(pattern, text)), "")
    if harmful and not is_dry_run:
        always = subcommand in ("push", "filter-branch", "reflog")
        call.report(Severity(severity), f"git {subcommand} {harmful}", always=always)
    if subcommand == "config":
        _git_config(words[1:], call.report)
    if change := severity_table()["git_changes"].get(subcommand):
        severity, reason, pattern, always = change
        words_only = (re.sub(r"\s", "_", text) or "_" for text in arguments)  # each argument is one word
        if re.search(pattern, " ".join(words_only)):
            call.report(Severity(severity), reason, always=always)


def _git_config(words: list[str], report: ReportSeverity) -> None:
    """Report a setting that makes git run a program."""
    if any(word.startswith("user.") for word in words) and len(words) > 1:
        report(MEDIUM, "git config changes the repository.")
    key, value = [*(words[1:] if words[:1] == ["set"] else words), "", ""][:2]
    is_command = value.startswith("!") or re.search(r"[\s;|&`$/]", value)
    if value and (
        re.fullmatch(severity_table()["git_program_settings"], key) or (is_command and _GIT_COMMAND_SETTINGS.match(key))
    ):
        report(HIGH, f"git would run the command in the setting {key}.", always=True)


_RULES: dict[str, Callable[[Invocation], None]] = {
    name: rule
    for programs, rule in (
        ("rm unlink", _rm),
        ("mv", _mv),
        ("cp ln install", _cp),
        ("rimraf", _rimraf),
        ("rmdir tee touch mkdir truncate shred", _write_operands),
        ("dd", _dd),
        ("sort", _sort),
        ("uniq", _uniq),
        ("chmod chown chgrp", _chmod),
        ("curl wget", _curl),
        ("rsync", _rsync),
        ("tar", _tar),
        ("unzip", _unpack),
        ("sed", _sed),
        ("awk gawk mawk", _awk),
        ("npm pnpm yarn bun", _packages),
        ("docker podman", _docker),
        ("gh", _gh),
        ("git", _git),
        ("test [ [[ read unset let declare printf", _evaluate),
    )
    for name in programs.split()
}
