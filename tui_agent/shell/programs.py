"""What the small scripts say that `sed`, `awk` and interpreters get as an argument: do they run or write something?"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from tui_agent.common.domain import Severity
from tui_agent.shell.syntax import Pipeline, Word
from tui_agent.shell.targets import TEMPORARY, WIPES, PathScope, ReportSeverity, TargetKind, names, target_table, writes
from tui_agent.shell.wrapped_commands import operands

if TYPE_CHECKING:
    import ast

_SED_ADDRESS = re.compile(r"(?:\d+|\$|[,!~+{};\s])+")
_SED_PLAIN = re.compile(r"[=dDgGhHlnNpPxzFqQ]\s*\d*|[btT:][^;\n}]*|[rR][^\n]*|#[^\n]*|[aic](?:\\\n|[^\n])*")
_JS_SAYS = re.compile(r"""(console\.log\()?(["'][^"'`]*["']|[\w\s+*/.,%-])*\)?;?""")
_PERL_SAYS = re.compile(r"""(print|puts|p|say|echo)\b[^;`(|]*;?""")


def sed(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """`sed`: in place, and the `w` and `e` of its script."""
    scripts = [texts[place + 1] for place, text in enumerate(texts[:-1]) if text in ("-e", "--expression")]
    scripts += [text.partition("=")[2] for text in texts if text.startswith("--expression=")]
    operands = [place for place, text in enumerate(texts) if not text.startswith("-") or text == "-"]
    if any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts):
        say(MEDIUM, "Changes files in place.")
        for place in operands if scripts else operands[1:]:
            named = arguments[place].source.startswith(("/", "~", '"$', "$"))
            writes(arguments[place], ground, say) if named else ground.spot(arguments[place])
    if not scripts and not any(re.match(r"-[nErsuz]*f|--file", text) for text in texts):
        scripts = [texts[place] for place in operands[:1]]
    for script in scripts:
        files, runs, read = _sed_script(script)
        if runs:
            say(HIGH, "sed runs another program.")
        for name in files:
            writes(Word(source=name, text=name), ground, say)
        if not read:
            say(MEDIUM, "The sed script could not be read.")


def _sed_script(script: str) -> tuple[list[str], bool, bool]:
    """Files it writes, whether it runs something, whether it was read to its end."""
    files: list[str] = []
    runs, at = False, 0
    while at < len(script):
        letter = script[at]
        if found := _SED_ADDRESS.match(script, at) or _SED_PLAIN.match(script, at):
            at = found.end()
        elif letter in "/\\":
            at += letter == "\\"
            end = _past(script, at, 1)
            if end is None:
                return files, runs, False
            at = end + len(re.match(r"[IM]*", script[end:])[0])  # type: ignore[index]  # an empty match is a match
        elif letter in "sy":
            end = _past(script, at + 1, 2)
            if end is None:
                return files, runs, False
            flags = re.compile(r"[gpiImM\d]*(e?)[gpiImM\d]*(?:w\s*([^\n]+))?").match(script, end)
            assert flags
            runs |= bool(flags[1]) and letter == "s"
            files += [flags[2].strip()] if flags[2] else []
            at = flags.end()
        elif letter in "wWe":
            end = script.find("\n", at) if "\n" in script[at:] else len(script)
            runs |= letter == "e"
            files += [script[at + 1 : end].strip()] if letter != "e" else []
            at = end
        else:
            return files, runs, False
    return files, runs, True


def _past(script: str, at: int, parts: int) -> int | None:
    """Behind the delimiter that ends the last of the parts; the first delimiter is at `at`."""
    if at >= len(script):
        return None
    delimiter, inside = script[at], False
    place = at + 1
    while place < len(script) and parts:
        letter = script[place]
        if letter == "\\":
            place += 1
        elif inside:
            inside = letter != "]"
        elif letter == delimiter:
            parts -= 1
        elif letter == "[" and "]" in script[place + 2 :]:
            inside = True
            place += script[place + 1 : place + 2] in ("]", "^")
        place += 1
    return None if parts else place


def awk(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """`awk`: pipes, `system()` and files of its program; what stands in its strings and patterns is data."""
    for text in texts:
        said = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        said = re.sub(r"(^|[~(,!&|;{}\n])(\s*)/(?:[^/\\\n]|\\.)*/", r"\1\2", said)
        if re.search(
            r"system\s*\(|(?<!\|)\|(?!\|)\s*(getline|\"|&|\w|\()|/inet/|@load", said + text * ("/inet/" in text)
        ):
            say(HIGH, "awk runs another program.")
        elif re.search(r"print[^;}]*>", said) or text in ("-i", "inplace"):
            say(MEDIUM, "awk writes a file.")
            for name in re.findall(r'>\s*"([^"]+)"', text):
                writes(Word(source=name, text=name), ground, say)
    if any(argument.text is None for argument in arguments[:1]):
        say(MEDIUM, "The awk program is not known before it runs.")


def interpreter(program: str, arguments: Sequence[Word], say: ReportSeverity, fed: bool, given: str) -> None:
    """An interpreter with code in its arguments, a script, a module, or `given` on its input."""
    letters = target_table()["interpreters"][program]
    for place, argument in enumerate(arguments):
        text = argument.text or ""
        if letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print|-[cC]ommand", text):
            _code(program, arguments[place + 1].text if place + 1 < len(arguments) else "", say)
            return
        if text == "-m" and place + 1 < len(arguments):
            _module(arguments[place + 1].text or "", [a.text or "" for a in arguments[place + 2 :]], say)
            return
        if text not in ("-", "/dev/stdin") and (not text.startswith("-") or argument.text is None):
            foreign = argument.text is None and argument.source.startswith("<(")
            say(HIGH if foreign else MEDIUM, f"{program} runs {argument.source}", always=foreign)
            return
    if given and not fed:
        _code(program, given, say)
    say(HIGH if fed else MEDIUM, f"{program} runs its standard input.", always=fed)


def _code(program: str, code: str | None, say: ReportSeverity) -> None:
    if code and _only_says(program, code):
        return
    risky = code is None or re.search(target_table()["code"], code)
    say(HIGH if risky else MEDIUM, f"{program} runs code from its arguments.")


def _only_says(program: str, code: str) -> bool:
    """Whether the code does nothing but print what it holds itself."""
    if program.startswith(("python", "pypy")):
        import ast

        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return all(_harmless(node) for node in ast.walk(tree))
    if program in ("node", "nodejs", "bun"):
        return _JS_SAYS.fullmatch(code.strip()) is not None
    return program in ("perl", "ruby", "php") and _PERL_SAYS.fullmatch(code.strip()) is not None


def _harmless(node: ast.AST) -> bool:
    import ast

    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in names("printing")
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("_") or node.attr in ("__version__", "__file__", "__name__")
    return not isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.While | ast.Delete | ast.Lambda | ast.Assign
    )


def _module(module: str, rest: list[str], say: ReportSeverity) -> None:
    checks = "pytest unittest mypy ruff flake8 pylint black isort doctest compileall json.tool tokenize ast dis pydoc"
    reads = module == "pip" and rest[:1] in (["list"], ["show"], ["freeze"], ["check"])
    say(NONE if module in checks.split() or reads else MEDIUM, f"Runs the module {module}.")


_SORT_INTO = re.compile(r"(?:-[bcCdfghiMmnrRsuVz]*o|--o(?:utput|utpu|utp|ut|u|)(?:=|$))(.*)", re.DOTALL)
_WIDE = re.compile(
    r"0*[24-7]\d{3}|0*1?\d?\d?[2367]|[augo]*[+=][rwxX]*s[rwxXst]*|[ugo]*[ao][ugo]*[+=][rxXst]*w[rwxXst]*|\+rwx"
)
NONE, MEDIUM, HIGH, CRITICAL = Severity.NONE, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def rate_program(
    program: str,
    arguments: Sequence[Word],
    ground: PathScope,
    say: ReportSeverity,
    *,
    fed: bool = False,
    given: str = "",
) -> None:
    """Rate one program that wraps no other. `fed`: something is piped into it; `given`: that, if it is literal."""
    texts = [argument.text if argument.text is not None else argument.source for argument in arguments]
    if texts in (["--version"], ["-V"], ["--help"], ["-v"], ["-version"], ["version"]):
        return
    if (reads := target_table()["reads"].get(program)) is not None and re.search(reads, " ".join(texts)):
        return
    _by_table(program, texts, say)
    _by_text(program, texts, say)
    if program in target_table()["interpreters"]:
        interpreter(program, arguments, say, fed, given)
    if special := _SPECIAL.get(program):
        special(arguments, [*texts, given] if given and special is _sql else texts, ground, say)


def _by_table(program: str, texts: list[str], say: ReportSeverity) -> None:
    base = program.split(".", 1)[0]
    if program in names("critical") or base in ("mkfs", "newfs"):
        image = base.startswith("mk") and re.fullmatch(r"[\w./-]*\.(img|iso|raw|ext\d|bin|qcow2)", (texts or [""])[-1])
        image = image if image and not texts[-1].startswith("/dev/") else None
        say(MEDIUM if image else CRITICAL, f"{program} rewrites disks.", always=not image)
        return
    entry = target_table()["subcommands"].get(program)
    if entry is not None:
        words = operands(program, texts)
        if words[1:] and words[0] in ("run", "run-script") and _SPECIAL.get(program) is _packages:
            return
        word = words[0] if words else (texts[0] if texts else "")
        said = ["_".join(words[:2]), word] if words[1:] else [word]
        for one in said:
            for severity in (HIGH, NONE, MEDIUM):
                if one in entry.get(severity.value, "").split() or entry.get(severity.value) == "*":
                    say(severity, f"{program} {one}".replace("_", " ").strip())
                    return
        say(MEDIUM, f"{program} {word}".strip())
        return
    if texts[:1] in (["publish"], ["destroy"]):
        say(HIGH, f"{program} {texts[0]}")
    if program in _SPECIAL or program in target_table()["interpreters"] or program in names("none"):
        return
    say(HIGH if program in names("high") else MEDIUM, f"{program} can change things.")


def rate_by_table(program: str, arguments: Sequence[Word], say: ReportSeverity) -> None:
    """What the table says of some arguments of a program."""
    _by_text(program, [argument.text or argument.source for argument in arguments], say)


def _by_text(program: str, texts: list[str], say: ReportSeverity) -> None:
    """What only some arguments of a program do."""
    entry = target_table()["harms"].get(program, {})
    entry = target_table()["harms"][entry["like"]] if "like" in entry else entry
    for severity, pattern in entry.items():
        if re.search(pattern, " ".join(texts)):
            found = Severity(severity)
            say(found, f"{program} {texts[0] if texts else ''}".strip(), always=found is CRITICAL)


def is_deletion(targets: Sequence[Word], ground: PathScope, say: ReportSeverity, *, curated: bool = False) -> None:
    """Folders go with all that is in them. `curated`: not everything in them, so ordinary places are no alarm."""
    far = (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP, *(() if curated else (TargetKind.ABOVE,)))
    for target in targets:
        spot, text = ground.spot(target), target.text or ""
        if spot in WIPES:
            say(CRITICAL, f"Deletes {spot.value}: {target.source}", always=True)
        elif spot in far or (spot is TargetKind.OUTSIDE and not curated and not text.startswith(TEMPORARY)):
            say(HIGH, f"Deletes {spot.value}: {target.source}", always=True)
        elif re.search(r"(^|/)\.git/?$", text):
            say(HIGH, f"Deletes the history of the project: {target.source}", always=True)
        else:
            say(MEDIUM, f"Deletes {target.source}", always=spot is not TargetKind.BUILD and not curated)


def _rm(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    targets, options = _operands(arguments, texts)
    recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r[a-z]*|--no-p[a-z-]*", o) for o in options)
    if recursive:
        is_deletion(targets, ground, say)
        return
    for target in targets:
        everything = ground.spot(target) in WIPES and "*" in target.source
        say(CRITICAL if everything else MEDIUM, f"Deletes {target.source}", always=everything)
        if ground.spot(target) in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP, TargetKind.DISK):
            say(HIGH, f"Deletes {target.source}", always=True)


def _mv(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    targets, _ = _operands(arguments, texts)
    for target in targets[:-1]:
        if (spot := ground.spot(target)) in WIPES or (spot is TargetKind.ABOVE and "*" not in target.source):
            say(CRITICAL if spot in WIPES else HIGH, f"Moves {spot.value}: {target.source}", always=True)
        elif spot in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP):
            say(HIGH, f"Moves {spot.value}: {target.source}", always=True)
    _cp(arguments, texts, ground, say)


def _cp(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    targets, _ = _operands(arguments, texts)
    for target in targets[-1:]:
        writes(target, ground, say)


def _all_written(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    for target in _operands(arguments, texts)[0]:
        writes(target, ground, say)


def _shred(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    say(HIGH, "Destroys files beyond recovery.")
    _all_written(arguments, texts, ground, say)


def _dd(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    for text in texts:
        if text.startswith("of="):
            writes(Word(source=text[3:], text=text[3:]), ground, say)


def _chmod(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    targets, options = _operands(arguments, texts)
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", option) for option in options):
        wipes = any(ground.spot(target) in WIPES for target in targets[1:])
        say(CRITICAL if wipes else HIGH, "Changes permissions of a whole tree.", always=True)
    elif any(_WIDE.fullmatch(part) for text in texts for part in text.split(",")):
        say(HIGH, "Gives permissions to everybody, or sets the user id.")
    elif any(ground.spot(target) in (TargetKind.INSIDE_SYSTEM, TargetKind.STARTUP, *WIPES) for target in targets[1:]):
        say(HIGH, "Changes permissions of a system file or of keys.", always=True)
    else:
        say(MEDIUM, "Changes permissions.")


def _kill(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    hard = any(
        re.fullmatch(r"-(9|KILL|SIGKILL|[sn]9|sKILL)|KILL|SIGKILL|--signal=(KILL|9|SIGKILL)", t) for t in texts
    ) or any(pair in (("-s", "9"), ("-n", "9"), ("--signal", "9")) for pair in pairwise(texts))
    listing = texts[:1] == ["-l"]
    say(NONE if listing else HIGH if hard or "-1" in texts[1:] else MEDIUM, "Ends processes.")


def _packages(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """npm and its kin: `run test` and `run lint` are checks."""
    words = [text for text in texts if not text.startswith("-")]
    if words[:1] in (["run"], ["run-script"]) and len(words) > 1:
        check = re.match(r"(test|lint|check|typecheck|type-check|format:check|coverage)\b", words[1])
        say(NONE if check else MEDIUM, f"Runs the project's script {words[1]}.")


def _docker(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    if "prune" in texts or any(re.match(r"--privileged|--pid=host|--net(work)?=host|--cap-add", t) for t in texts):
        say(HIGH, "Docker with privileged access, or deleting unused data.")
    for place, text in enumerate(texts):
        mount = text.partition("=")[2] or (texts[place + 1] if place + 1 < len(texts) else "")
        if re.match(r"(-v|--volume|--mount)\b", text) and re.match(
            r"(/|~|/etc|/var/run[^:]*):|.*\b(source|src)=(/|~|/etc|/var/run[^,]*)(,|$)", mount
        ):
            say(HIGH, f"Mounts host files into a container: {mount}")


def _curl(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    say(MEDIUM, "Accesses the network.")
    for place, text in enumerate(texts):
        if text in ("-o", "--output", "-O", "--output-document") and place + 1 < len(arguments):
            target = arguments[place + 1]
            if target.text != "-" and not (target.text or "-").startswith(("-", "http")):
                writes(target, ground, say)
    if "-P" in texts or "--directory-prefix" in texts:
        _unpacked(arguments, texts, ground, say)


def _rsync(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    say(MEDIUM, "Copies files.")
    if any(re.match(r"-[a-zA-Z]*e$|--rsh|--rsync-path|--delete|--remove-source", text) for text in texts):
        say(HIGH, "rsync runs another program, or deletes.")
    if any(text.startswith("--del") for text in texts):
        is_deletion(_operands(arguments, texts)[0][-1:], ground, say)
    _cp(arguments, texts, ground, say)


def _tar(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    if any(
        re.match(r"--(checkpoint-action|to-command|use-compress-program|rsh-command|info-script)|-[IF]", t)
        for t in texts
    ):
        say(HIGH, "tar runs another program.")
    elif not (texts and re.fullmatch(r"-?[vzjJaf]*t[vzjJaf]*|--list", texts[0])):
        say(MEDIUM, "Packs or unpacks files.")
        _unpacked(arguments, texts, ground, say)


def _unzip(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    say(MEDIUM, "Unpacks files.")
    _unpacked(arguments, texts, ground, say)


def _unpacked(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """The folder that `tar -C`, `unzip -d` and `wget -P` fill."""
    for place, text in enumerate(texts[:-1]):
        if text in ("-C", "-d", "-P", "--directory", "--directory-prefix"):
            writes(arguments[place + 1], ground, say)


def _sql(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    said = re.sub(r"(?<=[\s(=,])'[^']*'", "''", " ".join(texts))
    rate_by_table = re.search(
        r"\b(drop|truncate|delete\s+from|alter|grant|flushall|flushdb|dropdatabase|deletemany)\b|\\!|\.(shell|system)\b",
        said,
        re.IGNORECASE,
    )
    say(HIGH if rate_by_table else MEDIUM, "Changes a database." if rate_by_table else "Accesses a database.")


def _cloud(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    said = " ".join([text for text in texts if not text.startswith("-")][:3])
    rate_by_table = re.search(r"\b(delete|terminate|remove|rm|rb|destroy|purge|put|create|sync|cp|mv)(?=\b|-)", said)
    say(HIGH if rate_by_table else MEDIUM, "Changes cloud resources." if rate_by_table else "Accesses the cloud.")


def _github(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    words = operands("gh", texts)[:2]
    if words[1:] and (words[1] in ("delete", "archive", "transfer", "merge") or words == ["repo", "create"]):
        say(HIGH, f"gh {' '.join(words)}", always=True)
    if words[:1] == ["api"] and any(re.match(r"-X|--method|-f|-F|--field|--input", text) for text in texts):
        say(HIGH, "Changes something on GitHub.")


def _crontab(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    listing = texts == ["-l"]
    say(NONE if listing else HIGH, "Changes scheduled jobs.", always=not listing)


def _evaluating(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """Builtins that look up variables by text evaluate what is in its brackets."""
    evaluates_text(texts, say)


def evaluates_text(texts: Sequence[str], say: ReportSeverity) -> None:
    """Text that names a variable, or may come to do so: the index in it is evaluated."""
    if any("$(" in text or "`" in text for text in texts if "[" in text):
        say(HIGH, "A variable's index runs a command.")


def _man(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    if any(re.match(r"-[a-zA-Z]*[PH]|--(pager|html)", text) for text in texts):
        say(HIGH, "man runs another program.")


def _printf(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    if texts[:1] == ["-v"]:
        _evaluating(arguments, texts, ground, say)


def _ordered(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    for place, text in enumerate(texts):
        if re.match(r"--compress-program", text):
            say(HIGH, "sort runs another program.")
        elif (given := _SORT_INTO.fullmatch(text)) is not None:
            if given[1]:
                writes(Word(source=given[1], text=given[1]), ground, say)
            elif place + 1 < len(arguments):
                writes(arguments[place + 1], ground, say)


def _uniq(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    for target in _operands(arguments, texts)[0][1:]:
        if not (target.text or "").isdigit():  # else the value of an option
            writes(target, ground, say)


def _operands(arguments: Sequence[Word], texts: list[str]) -> tuple[list[Word], list[str]]:
    targets: list[Word] = []
    options: list[str] = []
    ended = False
    for argument, text in zip(arguments, texts, strict=True):
        if text == "--" and not ended:
            ended = True
        elif text.startswith("-") and len(text) > 1 and not ended:
            options.append(text)
        else:
            targets.append(argument)
    return targets, options


def sends_secrets(pipeline: Pipeline, say: ReportSeverity) -> None:
    """Credentials and the network in one pipeline."""
    commands = (*pipeline.fed, *pipeline.commands)
    words = [word.text or word.source for command in commands for word in command.words]
    words += [r.target.text or r.target.source for c in commands for r in c.redirects if r.target and "<" in r.operator]
    programs = [command.words[0].text or "" for command in commands if command.words]
    if not names("network") & set(programs):
        return
    environment = any(len(c.words) == 1 and c.words[0].text in ("env", "printenv", "set") for c in commands[:-1])
    if environment or any(re.search(target_table()["credentials"], word) for word in words):
        say(HIGH, "Credentials may leave the machine.", always=True)


Rule = Callable[[Sequence[Word], list[str], PathScope, ReportSeverity], None]
_PROGRAMS = re.compile(
    r"(?i:core\.(sshcommand|fsmonitor|hookspath|askpass|gitproxy|alternaterefscommand)|credential\.(.*\.)?helper|"
    r"diff\.(.*\.)?(external|textconv|command)|filter\..*|(merge|diff)tool\..*|gpg\.(.*\.)?program|include(if)?\..*|"
    r"url\..*|uploadpack\..*|receive\..*|protocol\..*|init\.templatedir)"
)


def _git(arguments: Sequence[Word], texts: list[str], ground: PathScope, say: ReportSeverity) -> None:
    """Rate the arguments of git."""
    words = operands("git", texts)
    word = words[0] if words else ""
    start = texts.index(word) if word else len(texts)
    for place, text in enumerate(texts):
        if (text in ("-c", "--config-env", "--exec-path") and place < start) or text.startswith(
            ("--exec-path=", "--config-env=")
        ):
            value = texts[place + 1] if place + 1 < len(texts) else ""
            if not value.startswith(("color.", "user.", "advice.", "core.quotepath")):
                say(HIGH, f"Overrides git's configuration: {value}")
        if re.match(r"--(upload-pack|receive-pack|exec|ext-diff|textconv|open-files-in-pager|output)\b", text):
            say(HIGH, f"git runs or writes something else: {text}")
    rest = texts[start + 1 :]
    severity, pattern = target_table()["git"].get(word, ("", ""))
    dry = word == "clean" and any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run", text) for text in rest)
    if word == "clean":
        say(MEDIUM if dry else HIGH, f"git {word}")
    if pattern and not dry and (found := next((text for text in rest if re.fullmatch(pattern, text)), None)):
        say(Severity(severity), f"git {word} {found}", always=word in ("push", "filter-branch", "reflog"))
    if word in ("filter-branch", "filter-repo", "rebase", "update-ref"):
        say(HIGH, f"git {word} rewrites history.", always=True)
    if word == "config":
        _config(words[1:], say)
    _lists(word, rest, say)


def _config(words: list[str], say: ReportSeverity) -> None:
    """Some settings of git are programs that it runs."""
    key, value = [*(words[1:] if words[:1] == ["set"] else words), "", ""][:2]
    shell = value.startswith("!") or re.search(r"[\s;|&`$/]", value)
    if value and (
        _PROGRAMS.fullmatch(key) or (shell and re.match(r"(?i)alias\.|core\.(pager|editor)|pager\.|sequence\.", key))
    ):
        say(HIGH, f"git would run the command in the setting {key}.", always=True)


def _lists(word: str, rest: list[str], say: ReportSeverity) -> None:
    """Subcommands that read or write, depending on what follows."""
    named = [text for text in rest if not text.startswith("-")]
    if (word in ("branch", "tag") and named and not re.search(r"list|contains|merged|points", " ".join(rest))) or (
        word == "config" and len(named) > 1 and named[0] not in ("get", "list")
    ):
        # settings of git are programs: what changes them is asked for as a change of .git/config would be
        say(MEDIUM, f"git {word} changes the repository.", always=word == "config")
    elif word == "stash" and named[:1] not in (["list"], ["show"]):
        say(MEDIUM, "git stash changes the work tree.")
    elif word == "worktree" and named[:1] not in ([], ["list"]):
        say(MEDIUM, "git worktree changes the work trees.")
    elif word == "reset":
        say(MEDIUM, "git reset moves the branch.")


_SPECIAL: dict[str, Rule] = {
    "rm": _rm, "rmdir": _all_written, "unlink": _rm, "mv": _mv, "cp": _cp, "ln": _cp, "install": _cp, "dd": _dd,
    "tee": _all_written, "touch": _all_written, "mkdir": _all_written, "truncate": _all_written, "shred": _shred,
    "chmod": _chmod, "chown": _chmod, "chgrp": _chmod, "kill": _kill, "killall": _kill, "pkill": _kill, "git":
    _git, "npm": _packages, "pnpm": _packages, "yarn": _packages, "bun": _packages, "docker": _docker,
    "podman": _docker, "curl": _curl, "wget": _curl, "rsync": _rsync, "tar": _tar, "sed": sed, "awk":
    awk, "gawk": awk, "mawk": awk, "unzip": _unzip, "mongo": _sql, "mariadb": _sql,
    "psql": _sql, "mysql": _sql, "sqlite3": _sql, "mongosh": _sql, "redis-cli": _sql, "aws": _cloud, "gh":
    _github, "gsutil": _cloud, "crontab": _crontab, "printf": _printf, "test": _evaluating, "[": _evaluating,
    "sort": _ordered, "man": _man, "uniq": _uniq, "[[": _evaluating, "read": _evaluating, "unset": _evaluating,
    "let": _evaluating, "declare": _evaluating,
}  # fmt: skip
