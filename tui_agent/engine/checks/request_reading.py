"""What a request says by its words alone: whether something has to change, what is named, what can be tried.

No model is asked for this. What the words leave open is `unclear`, and the reply decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

import msgspec

from tui_agent.protocols.file_reply import named_paths
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "request")

NUMBERS = {
    name: at
    for at, name in enumerate(("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
}
"""Small numbers that are written as words."""


def number_in(text: str) -> int:
    """A number in digits, or one of those words in capitals or not."""
    return int(text) if text.isdecimal() else NUMBERS[text.lower()]


Kind = Literal["question", "change", "command", "unclear"]
Sign = Literal["change", "question", "command", "wish", ""]
"""What a sentence asks for; a wish is a fault or a demand that is only stated, and asks for a change unless a question
follows."""

SHORT = 400
"""Characters of a request that may be small enough to need no plan (E8)."""
SENTENCES = 3
READ = 6_000
"""Characters of a request in which its names and limits are looked for."""
LONGEST = 20_000
"""Characters of a request that are read."""


# --- names --------------------------------------------------------------------------------------

_NO_NAMES = frozenset(("KeyboardInterrupt", "StopIteration", "SystemExit", "GeneratorExit", "O"))


# --- commands -----------------------------------------------------------------------------------


class RequestReading(msgspec.Struct, frozen=True):
    """A request as its words can be read."""

    text: str
    kind: Kind
    paths: tuple[str, ...] = ()
    """Relative paths of files that it names."""
    names: tuple[str, ...] = ()
    """Functions, options and other identifiers that it names and that have to be there when it is done."""
    commands: tuple[str, ...] = ()
    """Commands that it names to be run: each must succeed when the work is done."""
    small: bool = False
    """It names one small thing: no plan is needed (E8)."""


def read_request(text: str) -> RequestReading:
    """Read a request. Takes time in proportion to its length; never raises."""
    prose = _prose(text)
    paths = named_paths(prose)
    return RequestReading(
        text=text,
        kind=_kind(prose),
        paths=tuple(paths),
        names=tuple(_names(prose, paths)),
        commands=tuple(_commands(prose)),
        small=is_small(text),
    )


def request_prose(text: str, most: int = READ, *, of: int = 3 * READ) -> str:
    """A request without the code that it shows: at most so many characters, out of the first `of`."""
    return _RE.code.sub(" ", text[:of])[:most]


def _prose(text: str) -> str:
    return request_prose(text, LONGEST, of=LONGEST).replace("’", "'")


# --- kind ---------------------------------------------------------------------------------------


def request_kind(text: str) -> Kind:
    """Whether a request wants an answer, a change, or a command to be run, as far as its words tell."""
    return _kind(_prose(text))


def _kind(prose: str) -> Kind:
    plain = _RE.masked.sub(_mask, prose)
    about = _is_about_code(plain)
    found: set[Sign] = set()
    for sentence in _sentences(_joined(plain)):
        asked = "question" in found and "change" not in found
        sign = _sign(sentence.strip(), about)
        if sign == "change" and asked and _RE.style.match(_bare(sentence)):
            continue
        found.add(sign)
    if "change" in found:
        return "change"
    if _RE.nothing.search(plain):
        return "question"
    if "command" in found:
        return "command"
    if "question" in found:
        return "question"
    return "change" if "wish" in found else "unclear"


def _mask(quoted: re.Match[str]) -> str:
    text = quoted.group(0)
    return f"{text[0]}{' '.join(named_paths(text)) or '…'}{text[-1]}"


def _joined(text: str) -> str:
    """A text without the ends of lines that only wrap a sentence."""
    return re.sub(r"(?<=[\w,])[ \t]*\n[ \t]*(?=[a-z])", " ", text)


def _bare(sentence: str) -> str:
    """A sentence without what may stand before its verb."""
    return _RE.head.sub("", sentence, count=1) if _RE.head.match(sentence) else sentence


def _sign(sentence: str, about: bool) -> Sign:
    """What one sentence asks for; `about`: the request names a file or a part of a program."""
    if _RE.tag.match(sentence) or _RE.restriction.match(sentence):
        return _later(sentence, about) if _RE.restriction.match(sentence) else ""
    other = _other_sign(sentence)
    if other:
        return other
    bare = _bare(sentence)
    modal = bare != sentence and _RE.modal.match(sentence) is not None
    if _is_answer(bare) or _is_answer(sentence):
        return "question"
    if gerund := _RE.gerund.match(sentence):
        return "question" if _RE.asking.match(_infinitive(gerund.group(1))) else "change"
    asks = sentence.endswith("?")
    if _is_run(bare) and (modal or not asks):
        return _later(sentence, about) or "command"
    if _RE.asking.match(bare) and not _RE.not_asking.match(bare) and not (about and _RE.by_its_object.match(bare)):
        return _later(sentence, about, asking=True) or "question"
    if _commands_change(bare, about) and (
        modal or not asks or not re.search(rf"\b(?:{_RE.source('word')}|is|are)\b", bare)
    ):
        return "change"
    if asks and not modal:
        return _later(sentence, about, asking=True) or ("wish" if _RE.wish_head.match(sentence) else "question")
    if asks:
        return "wish" if _RE.wish_head.match(sentence) and about else "question"
    return _later(sentence, about) or _stated(sentence, about)


def _is_answer(bare: str) -> bool:
    """Whether a summary, a list or the like is asked for, and no file that should hold it."""
    found = _RE.answer.match(bare)
    if found is None or _RE.target.search(bare):
        return False
    return found.group("given") is not None or not _RE.prose_file.search(bare)


def _is_run(bare: str) -> bool:
    """Whether a command, tests or a program are to be run."""
    if _RE.verified.match(bare):
        return re.search(r"\b(?:pass|succeed|work|green|run)", bare) is not None
    return _RE.no_run.match(bare) is None and _RE.run.match(bare) is not None


def _commands_change(bare: str, about: bool) -> bool:
    """Whether a sentence begins with a verb in the imperative that asks for a change."""
    if _RE.restriction.match(bare):
        return False
    if _RE.strong.match(bare):
        return about or not _RE.wording.match(bare)
    if not about:
        return False
    if _RE.dealing.match(bare):
        return _is_exact(bare)
    if _RE.verb.match(bare) or _RE.not_asking.match(bare):
        return True
    if _RE.by_its_object.match(bare):
        return True
    verb = _RE.article.match(bare)
    return (
        verb is not None
        and not _RE.no_verb.fullmatch(verb.group(1))
        and _RE.asking.match(bare) is None
        and _is_exact(bare)
    )


def _later(sentence: str, about: bool, *, asking: bool = False) -> Sign:
    """What a clause behind the first one asks for: only a change, else nothing."""
    parts = _RE.joints.split(sentence)
    before = parts[0]
    for joint, clause in zip(parts[1::2], parts[2::2], strict=True):
        if _clause_changes(before[-300:], joint, clause.strip(), about, asking):
            return "change"
        before += joint + clause
    return ""


def _clause_changes(before: str, joint: str, clause: str, about: bool, asking: bool) -> bool:
    bare = _bare(clause)
    if _RE.restriction.match(clause) or _is_answer(bare) or _RE.asking.match(bare):
        return False
    if bare != clause and _RE.modal.search(clause) and _commands_change(bare, about):
        return True
    if _RE.mend.match(bare) and (_RE.object.match(bare) or len(bare.split()) < 3):
        return "how to" not in before
    if not _RE.verb.match(bare) or not (about or _RE.strong.match(bare)):
        return False
    first = joint[0] == "," and _RE.condition.match(before) is not None
    if not _RE.object.match(bare) and not (first and re.match(r"\S+ (?!and |or |functions|methods)\w", bare)):
        return False
    if asking and _RE.style.match(bare) and joint[0] in ",;:":
        return False
    bound = ((asking and joint[0] != ";") or joint.strip() == "and") and "then" not in joint
    return not (bound and _RE.parallel.search(before))


def _stated(sentence: str, about: bool) -> Sign:
    """Whether a sentence states a demand or a fault."""
    if _RE.stays.search(sentence) and _RE.the_rest.match(sentence):
        return ""
    if _RE.demand.search(sentence) or (_RE.lack.search(sentence) and _is_exact(sentence)):
        return "wish"
    named = about or re.search(r"\bthe \w", sentence, re.IGNORECASE) is not None
    faulty = _RE.fault.search(sentence) and (named or named_paths(sentence))
    return "wish" if faulty or _RE.other_wish.search(sentence) else ""


def _other_sign(sentence: str) -> Sign:
    """What a sentence in German, French, Spanish, Italian or Portuguese asks for, by its first word."""
    if _RE.nothing.match(sentence) or _RE.other_restriction.match(sentence):
        return ""
    bare = _RE.other_head.sub("", sentence, count=1) if _RE.other_head.match(sentence) else sentence
    if _RE.other_asking.match(bare):
        ordered = re.search(r"(?:,| und| et| y| e) (?:dann |puis |luego |poi |depois )?(.+)$", bare, re.IGNORECASE)
        return "change" if ordered and _RE.other_verb.match(ordered.group(1)) else "question"
    if _RE.other_verb.match(bare) and not _RE.strong.match(bare):
        return "change"
    if _RE.other_command.match(bare) and not re.match(r"(?:start|execute) ", bare, re.IGNORECASE):
        return "command"
    if _RE.other_modal.match(sentence) or bare != sentence:
        if _RE.other_telling.search(bare):
            return "question"
        return "change" if _RE.other_doing.search(bare) else ""
    return ""


def _infinitive(stem: str) -> str:
    """The verb of an "…ing" without its ending, as far as the verbs of questions need it."""
    return {"mak": "make", "describ": "describe", "summariz": "summarize", "analyz": "analyze"}.get(stem.lower(), stem)


def _is_about_code(text: str) -> bool:
    """Whether a request names a file, an identifier, or a part of a program."""
    return _is_exact(text) or _RE.part.search(text) is not None


def _is_exact(text: str) -> bool:
    """Whether a text names a file or an identifier."""
    return bool("`" in text or _RE.called.search(text) or _RE.name.search(text) or named_paths(text))


def is_small(text: str) -> bool:
    """Whether a request is short and names one thing to do: no list, few sentences."""
    stripped = text.strip()
    if len(stripped) > SHORT or len(_RE.list.findall(stripped)) > 1 or "\n\n" in stripped:
        return False
    return len(_sentences(stripped)) <= SENTENCES


def list_items(text: str) -> list[str]:
    """The items of a request that is a list of things to do; empty where it is none."""
    items = [line.strip() for line in text.splitlines() if _RE.list.match(line)]
    items = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", item) for item in items]
    doing = [item for item in items if _is_to_do(item)]
    return items if len(items) > 1 and len(doing) == len(items) else []


def _is_to_do(item: str) -> bool:
    bare = _bare(item)
    return _commands_change(bare, True) or _is_run(bare) or _RE.demand.search(item) is not None


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<=[.!?])[\"')\]]*\s+|\n+", text.strip())
    parts = [re.sub(r"^(?:\d+[.)]|\[.?\])\s+", "", part.strip(" \t-*•>#")) for part in parts]
    return [part.strip(" \t\"'") for part in parts if part.strip(" \t-*•>#\"'")]


# --- names --------------------------------------------------------------------------------------


def _names(prose: str, paths: Collection[str]) -> list[str]:
    """Identifiers that a request names, without those that are examples or must not be there."""
    stems = {path.rsplit("/", 1)[-1].partition(".")[0] for path in paths}
    bare = _RE.tools.sub(lambda one: " " * len(one.group(0)), prose)
    plain = _RE.strings.sub(lambda one: " " * len(one.group(0)), bare)
    called = [(one.start(1), one.group(1)) for pattern in (_RE.called, _RE.constant) for one in pattern.finditer(bare)]
    named = [
        (one.start(1), one.group(1))
        for one in _RE.name.finditer(plain)
        if not _RE.cases.fullmatch(one.group(1))
        or re.search(rf"\b{_RE.source('naming')}\s+[`'\"]?$", plain[max(0, one.start() - 30) : one.start()])
    ]
    wanted = [
        name
        for at, name in (*called, *named)
        if not _RE.aside.search(prose[max(0, at - 80) : at])
        and not name.endswith(("Error", "Exception"))
        and name not in stems
        and name not in _NO_NAMES
    ]
    return list(dict.fromkeys(wanted))


def removable_names(text: str) -> frozenset[str]:
    """Names that a request lets go: all that it mentions where it removes, renames, merges or moves something."""
    for one in _RE.going.finditer(text):
        if not _RE.what_it_does.search(text[max(0, one.start() - 40) : one.start()]):
            return frozenset(re.findall(r"[A-Za-z_]\w*", text))
    return frozenset()


def mentions_any(text: str, stems: Collection[str]) -> bool:
    """Whether one of the words, or a form of it, stands in a text."""
    return re.search(rf"\b(?:{'|'.join(stems)})", text, re.IGNORECASE) is not None


# --- commands -----------------------------------------------------------------------------------


def runs_something(command: str) -> bool:
    """Whether a command line shows that something works: tests, builds, checks, a script of the project."""
    stripped = command.strip()
    return any(_RE.runs.match(one) for one in (stripped, _RE.before.sub("", stripped, count=1)))


def _commands(text: str) -> list[str]:
    """The commands that a request wants to be run and to succeed, in no case one that it forbids or only mentions."""
    quoted = [(one, one.group(1).strip()) for one in _RE.quoted.finditer(text) if runs_something(one.group(1))]
    spared = _RE.quoted.sub(lambda one: f"`{'·' * (len(one.group(0)) - 2)}`", text)
    bare = [(one, one.group(1)) for one in _RE.bare_run.finditer(spared) if _RE.follows.match(spared[one.end() :][:40])]
    found = [command for one, command in (*quoted, *bare) if _is_to_be_run(*_around(spared, one), command, text)]
    return list(dict.fromkeys(found))


def _around(text: str, one: re.Match[str]) -> tuple[str, str]:
    """What stands before and behind a command in its sentence; of commands in a row, before them all."""
    before = re.split(r"(?:[.!?;]\s|\n)", text[max(0, one.start() - 300) : one.start()])[-1]
    before = re.sub(r"(?:`·*`\s*(?:,|,?\s*(?:and|or|nor|und))\s*)+$", "", before)
    after = re.split(r"(?:[.!?;]\s|\n)", text[one.end() : one.end() + 200])[0]
    return before.lstrip(" \t-*•>0123456789.)"), after.rstrip(" .!?")


def _is_to_be_run(before: str, after: str, command: str, text: str) -> bool:
    if _RE.forbidden.search(before) or re.match(r"\s*(?:nicht|pas)\b", after):
        return False
    told = _RE.told.search(before)
    if told is not None and not _RE.checked_with.search(before[told.end() :]):
        return False
    passes = _RE.passes.match(after) is not None
    if _RE.made.search(before) and not passes:
        failing = re.search(r"\b(?:when|if)\b.{0,20}$", before, re.IGNORECASE) is not None
        if not failing:
            return False
    if _RE.ends_otherwise.search(after) or (_RE.demanded.match(after) and not passes):
        return False
    if passes or _RE.testing.match(_RE.before.sub("", command, count=1)):
        return True
    if _RE.failing.match(after):
        return not _RE.ends_otherwise.search(text)
    return _RE.to_run.search(before) is not None
