"""What programs do with their arguments, as far as it matters for the severity of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from tui_agent.domain import Severity
from tui_agent.shell import git, scripts
from tui_agent.shell.carried import operands
from tui_agent.shell.places import TEMPORARY, WIPES, Ground, Say, Spot, names, table, writes
from tui_agent.shell.syntax import Pipeline, Word

_SORT_INTO = re.compile(r"(?:-[bcCdfghiMmnrRsuVz]*o|--o(?:utput|utpu|utp|ut|u|)(?:=|$))(.*)", re.DOTALL)
_WIDE = re.compile(
    r"0*[24-7]\d{3}|0*1?\d?\d?[2367]|[augo]*[+=][rwxX]*s[rwxXst]*|[ugo]*[ao][ugo]*[+=][rxXst]*w[rwxXst]*|\+rwx"
)
NONE, MEDIUM, HIGH, CRITICAL = Severity.NONE, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL


def rate(
    program: str, arguments: Sequence[Word], ground: Ground, say: Say, *, fed: bool = False, given: str = ""
) -> None:
    """Rate one program that wraps no other. `fed`: something is piped into it; `given`: that, if it is literal."""
    texts = [argument.text if argument.text is not None else argument.source for argument in arguments]
    if texts in (["--version"], ["-V"], ["--help"], ["-v"], ["-version"], ["version"]):
        return
    if (reads := table()["reads"].get(program)) is not None and re.search(reads, " ".join(texts)):
        return
    _by_table(program, texts, say)
    _by_text(program, texts, say)
    if program in table()["interpreters"]:
        scripts.interpreter(program, arguments, say, fed, given)
    if special := _SPECIAL.get(program):
        special(arguments, [*texts, given] if given and special is _sql else texts, ground, say)


def _by_table(program: str, texts: list[str], say: Say) -> None:
    base = program.split(".", 1)[0]
    if program in names("critical") or base in ("mkfs", "newfs"):
        image = base.startswith("mk") and re.fullmatch(
            r"[\w./-]*\.(img|iso|raw|ext\d|bin|qcow2)", (texts or [""])[-1]
        )
        image = image if image and not texts[-1].startswith("/dev/") else None
        say(MEDIUM if image else CRITICAL, f"{program} rewrites disks.", always=not image)
        return
    entry = table()["subcommands"].get(program)
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
    if program in _SPECIAL or program in table()["interpreters"] or program in names("none"):
        return
    say(HIGH if program in names("high") else MEDIUM, f"{program} can change things.")


def harm(program: str, arguments: Sequence[Word], say: Say) -> None:
    """What the table says of some arguments of a program."""
    _by_text(program, [argument.text or argument.source for argument in arguments], say)


def _by_text(program: str, texts: list[str], say: Say) -> None:
    """What only some arguments of a program do."""
    entry = table()["harms"].get(program, {})
    entry = table()["harms"][entry["like"]] if "like" in entry else entry
    for severity, pattern in entry.items():
        if re.search(pattern, " ".join(texts)):
            found = Severity(severity)
            say(found, f"{program} {texts[0] if texts else ''}".strip(), always=found is CRITICAL)


def deletes(targets: Sequence[Word], ground: Ground, say: Say, *, curated: bool = False) -> None:
    """Folders go with all that is in them. `curated`: not everything in them, so ordinary places are no alarm."""
    far = (Spot.INSIDE_SYSTEM, Spot.STARTUP, *(() if curated else (Spot.ABOVE,)))
    for target in targets:
        spot, text = ground.spot(target), target.text or ""
        if spot in WIPES:
            say(CRITICAL, f"Deletes {spot.value}: {target.source}", always=True)
        elif spot in far or (spot is Spot.OUTSIDE and not curated and not text.startswith(TEMPORARY)):
            say(HIGH, f"Deletes {spot.value}: {target.source}", always=True)
        elif re.search(r"(^|/)\.git/?$", text):
            say(HIGH, f"Deletes the history of the project: {target.source}", always=True)
        else:
            say(MEDIUM, f"Deletes {target.source}", always=spot is not Spot.BUILD and not curated)


def _rm(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    targets, options = _operands(arguments, texts)
    recursive = any(re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r[a-z]*|--no-p[a-z-]*", o) for o in options)
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
        elif spot in (Spot.INSIDE_SYSTEM, Spot.STARTUP):
            say(HIGH, f"Moves {spot.value}: {target.source}", always=True)
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
    elif any(_WIDE.fullmatch(part) for text in texts for part in text.split(",")):
        say(HIGH, "Gives rights to everybody, or to run as another user.")
    elif any(ground.spot(target) in (Spot.INSIDE_SYSTEM, Spot.STARTUP, *WIPES) for target in targets[1:]):
        say(HIGH, "Changes rights of a system file or of keys.", always=True)
    else:
        say(MEDIUM, "Changes rights.")


def _kill(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    hard = any(
        re.fullmatch(r"-(9|KILL|SIGKILL|[sn]9|sKILL)|KILL|SIGKILL|--signal=(KILL|9|SIGKILL)", t)
        for t in texts
    ) or any(pair in (("-s", "9"), ("-n", "9"), ("--signal", "9")) for pair in pairwise(texts))
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
            r"(/|~|/etc|/var/run[^:]*):|.*\b(source|src)=(/|~|/etc|/var/run[^,]*)(,|$)", mount
        ):
            say(HIGH, f"Gives a container the machine's files: {mount}")


def _curl(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(MEDIUM, "Reaches over the network.")
    for place, text in enumerate(texts):
        if text in ("-o", "--output", "-O", "--output-document") and place + 1 < len(arguments):
            target = arguments[place + 1]
            if target.text != "-" and not (target.text or "-").startswith(("-", "http")):
                writes(target, ground, say)
    if "-P" in texts or "--directory-prefix" in texts:
        _unpacked(arguments, texts, ground, say)


def _rsync(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(MEDIUM, "Copies files.")
    if any(re.match(r"-[a-zA-Z]*e$|--rsh|--rsync-path|--delete|--remove-source", text) for text in texts):
        say(HIGH, "rsync runs another program, or deletes.")
    if any(text.startswith("--del") for text in texts):
        deletes(_operands(arguments, texts)[0][-1:], ground, say)
    _cp(arguments, texts, ground, say)


def _tar(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    if any(
        re.match(r"--(checkpoint-action|to-command|use-compress-program|rsh-command|info-script)|-[IF]", t)
        for t in texts
    ):
        say(HIGH, "tar runs another program.")
    elif not (texts and re.fullmatch(r"-?[vzjJaf]*t[vzjJaf]*|--list", texts[0])):
        say(MEDIUM, "Packs or unpacks files.")
        _unpacked(arguments, texts, ground, say)


def _unzip(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    say(MEDIUM, "Unpacks files.")
    _unpacked(arguments, texts, ground, say)


def _unpacked(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    """The folder that `tar -C`, `unzip -d` and `wget -P` fill."""
    for place, text in enumerate(texts[:-1]):
        if text in ("-C", "-d", "-P", "--directory", "--directory-prefix"):
            writes(arguments[place + 1], ground, say)


def _sql(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    said = re.sub(r"(?<=[\s(=,])'[^']*'", "''", " ".join(texts))
    harm = re.search(
        r"\b(drop|truncate|delete\s+from|alter|grant|flushall|flushdb|dropdatabase|deletemany)\b|\\!|\.(shell|system)\b",
        said,
        re.IGNORECASE,
    )
    say(HIGH if harm else MEDIUM, "Changes a database." if harm else "Reaches a database.")


def _cloud(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    said = " ".join([text for text in texts if not text.startswith("-")][:3])
    harm = re.search(r"\b(delete|terminate|remove|rm|rb|destroy|purge|put|create|sync|cp|mv)(?=\b|-)", said)
    say(HIGH if harm else MEDIUM, "Changes something in the cloud." if harm else "Reaches the cloud.")


def _github(arguments: Sequence[Word], texts: list[str], ground: Ground, say: Say) -> None:
    words = operands("gh", texts)[:2]
    if words[1:] and (words[1] in ("delete", "archive", "transfer", "merge") or words == ["repo", "create"]):
        say(HIGH, f"gh {' '.join(words)}", always=True)
    if words[:1] == ["api"] and any(re.match(r"-X|--method|-f|-F|--field|--input", text) for text in texts):
        say(HIGH, "Changes something on GitHub.")


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


def leaks(pipeline: Pipeline, say: Say) -> None:
    """Credentials and the network in one pipeline."""
    commands = (*pipeline.fed, *pipeline.commands)
    words = [word.text or word.source for command in commands for word in command.words]
    words += [
        r.target.text or r.target.source
        for c in commands
        for r in c.redirects
        if r.target and "<" in r.operator
    ]
    programs = [command.words[0].text or "" for command in commands if command.words]
    if not names("network") & set(programs):
        return
    environment = any(
        len(c.words) == 1 and c.words[0].text in ("env", "printenv", "set") for c in commands[:-1]
    )
    if environment or any(re.search(table()["credentials"], word) for word in words):
        say(HIGH, "Credentials may leave the machine.", always=True)


Rule = Callable[[Sequence[Word], list[str], Ground, Say], None]
_SPECIAL: dict[str, Rule] = {
    "rm": _rm, "rmdir": _all_written, "unlink": _rm, "mv": _mv, "cp": _cp, "ln": _cp, "install": _cp, "dd": _dd,
    "tee": _all_written, "touch": _all_written, "mkdir": _all_written, "truncate": _all_written, "shred": _shred,
    "chmod": _chmod, "chown": _chmod, "chgrp": _chmod, "kill": _kill, "killall": _kill, "pkill": _kill, "git":
    git.rate, "npm": _packages, "pnpm": _packages, "yarn": _packages, "bun": _packages, "docker": _docker,
    "podman": _docker, "curl": _curl, "wget": _curl, "rsync": _rsync, "tar": _tar, "sed": scripts.sed, "awk":
    scripts.awk, "gawk": scripts.awk, "mawk": scripts.awk, "unzip": _unzip, "mongo": _sql, "mariadb": _sql,
    "psql": _sql, "mysql": _sql, "sqlite3": _sql, "mongosh": _sql, "redis-cli": _sql, "aws": _cloud, "gh":
    _github, "gsutil": _cloud, "crontab": _crontab, "printf": _printf, "test": _evaluating, "[": _evaluating,
    "sort": _ordered, "man": _man, "uniq": _uniq, "[[": _evaluating, "read": _evaluating, "unset": _evaluating,
    "let": _evaluating, "declare": _evaluating,
}  # fmt: skip
