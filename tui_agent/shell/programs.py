"""What programs do with their arguments, as far as it matters for the severity of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tui_agent.domain import Severity
from tui_agent.shell import git
from tui_agent.shell.places import WIPES, Ground, Say, Spot, names, table
from tui_agent.shell.syntax import Command, Pipeline, Word

_SPLIT = re.compile(r"(?:-[0-9a-zA-Z]*S|--split-string=)(.+)", re.DOTALL)
_SORT_INTO = re.compile(r"(?:-[bcCdfghiMmnrRsuVz]*o|--o(?:utput|utpu|utp|ut|u|)(?:=|$))(.*)", re.DOTALL)
NONE, MEDIUM, HIGH, CRITICAL = Severity.NONE, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def rate(program: str, arguments: Sequence[Word], ground: Ground, say: Say, *, fed: bool = False) -> None:
    """Rate one program that wraps no other. `fed`: something is piped into it."""
    texts = [argument.text if argument.text is not None else argument.source for argument in arguments]
    if texts in (["--version"], ["-V"], ["--help"], ["-v"], ["-version"], ["version"]):
        return
    _by_table(program, texts, say)
    if program in table()["interpreters"]:
        _interpreter(program, arguments, say, fed)
    if special := _SPECIAL.get(program):
        special(arguments, texts, ground, say)


def _by_table(program: str, texts: list[str], say: Say) -> None:
    base = program.split(".", 1)[0]
    if program in names("critical") or base in ("mkfs", "newfs"):
        say(CRITICAL, f"{program} rewrites disks.", always=True)
        return
    entry = table()["subcommands"].get(program)
    if entry is not None:
        words = [text for text in texts if not text.startswith("-")]
        if words[1:] and words[0] in ("run", "run-script") and _SPECIAL.get(program) is _packages:
            return
        word = words[0] if words else (texts[0] if texts else "")
        for severity in (HIGH, NONE, MEDIUM):
            if word in entry.get(severity.value, "").split() or entry.get(severity.value) == "*":
                say(severity, f"{program} {word}".strip())
                return
        say(MEDIUM, f"{program} {word}".strip())
        return
    if program in _SPECIAL or program in table()["interpreters"] or program in names("none"):
        return
    say(HIGH if program in names("high") else MEDIUM, f"{program} can change things.")


def unwrap(
    entry: dict[str, Any], arguments: Sequence[Word]
) -> tuple[Sequence[Word], list[tuple[str, Word]], str | None]:
    """Of a wrapper's arguments: the command it runs, the variables it sets, and shell text it was given."""
    rest = list(arguments)
    assignments: list[tuple[str, Word]] = []
    text: str | None = None
    values = entry.get("values", "")
    while rest:
        word = rest[0].text or ""
        if word == "--":
            rest.pop(0)
            break
        if entry.get("assignments") and re.match(r"\w+=", word or rest[0].source):
            name, _, value = (word or rest[0].source).partition("=")
            assignments.append((name, Word(source=value, text=value)))
        elif len(word) > 1 and word.startswith("-"):
            takes = not word.startswith("--") and len(word) == 2 and word[1] in values
            if word in ("-S", "--split-string", "-c") and len(rest) > 1:
                text = rest[1].text or "$UNKNOWN"
                takes = True
            elif entry.get("assignments") and (glued := _SPLIT.match(word)):
                text = glued[1]
            if takes and len(rest) > 1:
                rest.pop(0)
        else:
            break
        rest.pop(0)
    return rest[entry.get("skip", 0) :], assignments, text


def writes(target: Word, ground: Ground, say: Say) -> None:
    """A file is created or overwritten."""
    match ground.spot(target):
        case Spot.DISK | Spot.ROOT:
            say(CRITICAL, f"Writes to a device: {target.source}", always=True)
        case Spot.INSIDE_SYSTEM | Spot.SYSTEM:
            say(HIGH, f"Writes to a system file: {target.source}", always=True)
        case Spot.STARTUP:
            say(HIGH, f"Changes a start-up file or keys: {target.source}", always=True)
        case Spot.OUTSIDE | Spot.HOME:
            harmless = (target.text or "").startswith(("/tmp/", "/var/tmp/", "/dev/shm/"))
            say(MEDIUM, f"Writes outside the workspace: {target.source}", always=not harmless)
        case _:
            say(MEDIUM, f"Writes {target.source}")


def deletes(targets: Sequence[Word], ground: Ground, say: Say, *, curated: bool = False) -> None:
    """Folders go with all that is in them. `curated`: not everything in them, so ordinary places are no alarm."""
    for target in targets:
        spot = ground.spot(target)
        if spot in WIPES:
            say(CRITICAL, f"Deletes {spot.value}: {target.source}", always=True)
        elif spot in (Spot.ABOVE, Spot.INSIDE_SYSTEM, Spot.STARTUP) and not (curated and spot is Spot.ABOVE):
            say(HIGH, f"Deletes {spot.value}: {target.source}", always=True)
        else:
            say(MEDIUM, f"Deletes {target.source}", always=spot is not Spot.BUILD and not curated)


def _rm(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    targets, options = _operands(arguments, texts)
    recursive = any(
        re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--recursive|--no-preserve-root", o) for o in options
    )
    if recursive:
        deletes(targets, ground, say)
        return
    for target in targets:
        everything = ground.spot(target) in WIPES and "*" in target.source
        say(CRITICAL if everything else MEDIUM, f"Deletes {target.source}", always=everything)
        if ground.spot(target) in (Spot.INSIDE_SYSTEM, Spot.STARTUP, Spot.DISK):
            say(HIGH, f"Deletes {target.source}", always=True)


def _mv(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    targets, _ = _operands(arguments, texts)
    for target in targets[:-1]:
        if (spot := ground.spot(target)) in WIPES or (spot is Spot.ABOVE and "*" not in target.source):
            say(CRITICAL if spot in WIPES else HIGH, f"Moves {spot.value}: {target.source}", always=True)
    _cp(arguments, texts, ground, say)


def _cp(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    targets, _ = _operands(arguments, texts)
    for target in targets[-1:]:
        writes(target, ground, say)


def _all_written(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    for target in _operands(arguments, texts)[0]:
        writes(target, ground, say)


def _shred(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(HIGH, "Destroys files beyond recovery.")
    _all_written(arguments, texts, ground, say)


def _dd(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    for text in texts:
        if text.startswith("of="):
            writes(Word(source=text[3:], text=text[3:]), ground, say)


def _chmod(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    targets, options = _operands(arguments, texts)
    if any(re.fullmatch(r"-[a-zA-Z]*R[a-zA-Z]*|--recursive", option) for option in options):
        wipes = any(ground.spot(target) in WIPES for target in targets[1:])
        say(CRITICAL if wipes else HIGH, "Changes rights of a whole tree.", always=True)
    elif any(re.fullmatch(r"[2467]\d{3}|0*777|[augo]*\+[rwx]*s[rwx]*|[ao]*\+rwx", text) for text in texts):
        say(HIGH, "Gives rights to everybody, or to run as another user.")
    else:
        say(MEDIUM, "Changes rights.")


def _kill(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    hard = any(
        re.fullmatch(r"-(9|KILL|SIGKILL|s9|sKILL)|KILL|SIGKILL|--signal=(KILL|9|SIGKILL)", t) for t in texts
    )
    listing = texts[:1] == ["-l"]
    say(NONE if listing else HIGH if hard or "-1" in texts[1:] else MEDIUM, "Ends processes.")


def _packages(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """npm and its kin: `run test` and `run lint` are checks."""
    words = [text for text in texts if not text.startswith("-")]
    if words[:1] in (["run"], ["run-script"]) and len(words) > 1:
        check = re.match(r"(test|lint|check|typecheck|type-check|format:check|coverage)\b", words[1])
        say(NONE if check else MEDIUM, f"Runs the project's script {words[1]}.")


def _docker(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if "prune" in texts or any(
        re.match(r"--privileged|--pid=host|--net(work)?=host|--cap-add", t) for t in texts
    ):
        say(HIGH, "Docker with rights over the machine, or deleting what is unused.")
    for place, text in enumerate(texts):
        mount = text.partition("=")[2] or (texts[place + 1] if place + 1 < len(texts) else "")
        if re.match(r"(-v|--volume|--mount)\b", text) and re.match(
            r"(.*(source|src)=)?(/|~|/etc|/var/run[^:]*):", mount
        ):
            say(HIGH, f"Gives a container the machine's files: {mount}")


def _curl(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(MEDIUM, "Reaches over the network.")
    for place, text in enumerate(texts):
        if text in ("-o", "--output", "-O", "--output-document") and place + 1 < len(arguments):
            target = arguments[place + 1]
            if target.text != "-" and not (target.text or "-").startswith(("-", "http")):
                writes(target, ground, say)


def _rsync(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(MEDIUM, "Copies files.")
    if any(re.match(r"-[a-zA-Z]*e$|--rsh|--rsync-path|--delete|--remove-source", text) for text in texts):
        say(HIGH, "rsync runs another program, or deletes.")
    _cp(arguments, texts, ground, say)


def _tar(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if any(
        re.match(r"--(checkpoint-action|to-command|use-compress-program|rsh-command|info-script)|-[IF]", t)
        for t in texts
    ):
        say(HIGH, "tar runs another program.")
    elif not (texts and re.fullmatch(r"-?[vzjJaf]*t[vzjJaf]*|--list", texts[0])):
        say(MEDIUM, "Packs or unpacks files.")


def _sed(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if any(re.match(r"-[a-zA-Z]*i|--in-place", text) for text in texts):
        say(MEDIUM, "Changes files in place.")
        for target in _operands(arguments, texts)[0]:
            ground.spot(target)
    if any(
        re.search(r"(^|[;{}\d$/])\s*[ew]\s*(\S|$)|/[gpiI0-9]*e[gpiI0-9]*$|[/|#]w\s", t)
        for t in texts
        if t[:1] != "-"
    ):
        say(
            MEDIUM if not any(re.search(r"(^|;)\s*\d*e\b|/[gpI]*e", t) for t in texts) else HIGH,
            "sed writes or runs.",
        )


def _awk(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    for text in texts:
        if re.search(r"system\s*\(|\|\s*(getline|\"|&)|\"\s*\|\s*getline|/inet/|@load", text):
            say(HIGH, "awk runs another program.")
        elif re.search(r"print[^;}]*>", text) or text in ("-i", "inplace"):
            say(MEDIUM, "awk writes a file.")
    if any(argument.text is None for argument in arguments[:1]):
        say(MEDIUM, "The awk program is only known when it runs.")


def _sql(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    harm = re.search(
        r"\b(drop|truncate|delete\s+from|alter|grant|flushall|flushdb)\b", " ".join(texts), re.IGNORECASE
    )
    say(HIGH if harm else MEDIUM, "Changes a database." if harm else "Reaches a database.")


def _cloud(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    harm = re.search(
        r"\b(delete|terminate|remove|rm|rb|destroy|purge|put|create|sync|cp|mv)\b", " ".join(texts)
    )
    say(HIGH if harm else MEDIUM, "Changes something in the cloud." if harm else "Reaches the cloud.")


def _crontab(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    listing = texts == ["-l"]
    say(NONE if listing else HIGH, "Changes what runs at set times.", always=not listing)


def _evaluating(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """Builtins that look up variables by text evaluate what is in its brackets."""
    evaluated(texts, say)


def evaluated(texts: Sequence[str], say: Say) -> None:
    """Text that names a variable, or may come to do so: the index in it is evaluated (G05)."""
    if any("$(" in text or "`" in text for text in texts if "[" in text):
        say(HIGH, "A variable's index runs a command.")


def read_in(before: Sequence[Command]) -> list[Word]:
    """What `xargs` adds to its command: the words that a lone `echo` prints, else one that nobody knows."""
    if before and (literal := printed(before)) is not None:
        return [Word(source=text, text=text) for text in literal.split()]
    return [Word(source="what it reads", text="its-input")]


def _man(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if any(re.match(r"-[a-zA-Z]*[PH]|--(pager|html)", text) for text in texts):
        say(HIGH, "man runs another program.")


def _printf(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if texts[:1] == ["-v"]:
        _evaluating(arguments, texts, ground, say)


def _ordered(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    for place, text in enumerate(texts):
        if re.match(r"--compress-program", text):
            say(HIGH, "sort runs another program.")
        elif (given := _SORT_INTO.fullmatch(text)) is not None:
            if given[1]:
                writes(Word(source=given[1], text=given[1]), ground, say)
            elif place + 1 < len(arguments):
                writes(arguments[place + 1], ground, say)


def _uniq(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    for target in _operands(arguments, texts)[0][1:]:
        if not (target.text or "").isdigit():  # else the value of an option
            writes(target, ground, say)


def _interpreter(program: str, arguments: Sequence[Word], say: Say, fed: bool) -> None:
    letters = table()["interpreters"][program]
    for place, argument in enumerate(arguments):
        text = argument.text or ""
        if letters and re.fullmatch(rf"-[a-zA-Z]*[{letters}]|--eval|--print", text):
            code = arguments[place + 1].text if place + 1 < len(arguments) else ""
            risky = code is None or re.search(table()["code"], code)
            say(HIGH if risky else MEDIUM, f"{program} runs code from its arguments.")
            return
        if text == "-m" and place + 1 < len(arguments):
            _module(arguments[place + 1].text or "", [a.text or "" for a in arguments[place + 2 :]], say)
            return
        if not text.startswith("-") or argument.text is None:
            foreign = argument.text is None and argument.source.startswith("<(")
            say(HIGH if foreign else MEDIUM, f"{program} runs {argument.source}", always=foreign)
            return
    say(HIGH if fed else MEDIUM, f"{program} runs what it is given on its input.", always=fed)


def _module(module: str, rest: list[str], say: Say) -> None:
    checks = "pytest unittest mypy ruff flake8 pylint black isort doctest compileall json.tool tokenize ast dis pydoc"
    reads = module == "pip" and rest[:1] in (["list"], ["show"], ["freeze"], ["check"])
    say(NONE if module in checks.split() or reads else MEDIUM, f"Runs the module {module}.")


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


def foreign(before: Sequence[Command]) -> bool:
    """Whether what flows on comes from the network or out of a decoder."""
    known = names("network") | names("decoders")
    return any(word.text in known for command in before for word in command.words[:3])


def printed(before: Sequence[Command]) -> str | None:
    """What a lone `echo` or `printf` would print, if it is literal."""
    words = before[-1].words
    texts = [word.text for word in words]
    if len(before) != 1 or not texts or texts[0] not in ("echo", "printf") or None in texts:
        return None
    return " ".join(text for text in texts[1:] if text and text not in ("-e", "-n"))


def leaks(pipeline: Pipeline, say: Say) -> None:
    """Credentials and the network in one pipeline."""
    words = [word.text or word.source for command in pipeline.commands for word in command.words]
    programs = {command.words[0].text for command in pipeline.commands if command.words}
    if programs & names("network") and any(re.search(table()["credentials"], word) for word in words):
        say(HIGH, "Credentials may leave the machine.", always=True)


Rule = Callable[[Sequence[Word], list[str], Ground, Say], None]
_SPECIAL: dict[str, Rule] = {
    "rm": _rm, "rmdir": _all_written, "unlink": _rm, "mv": _mv, "cp": _cp, "ln": _cp, "install": _cp, "dd": _dd,
    "tee": _all_written, "touch": _all_written, "mkdir": _all_written, "truncate": _all_written, "shred": _shred,
    "chmod": _chmod, "chown": _chmod, "chgrp": _chmod, "kill": _kill, "killall": _kill, "pkill": _kill, "git": git.rate,
    "npm": _packages, "pnpm": _packages, "yarn": _packages, "bun": _packages, "docker": _docker, "podman": _docker,
    "curl": _curl, "wget": _curl, "rsync": _rsync, "tar": _tar, "sed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk,
    "psql": _sql, "mysql": _sql, "sqlite3": _sql, "mongosh": _sql, "redis-cli": _sql, "aws": _cloud, "gh": _cloud,
    "gsutil": _cloud, "crontab": _crontab, "printf": _printf, "test": _evaluating, "[": _evaluating, "sort": _ordered,
    "man": _man, "uniq": _uniq, "[[": _evaluating, "read": _evaluating, "unset": _evaluating, "let": _evaluating,
    "declare": _evaluating,
}  # fmt: skip
