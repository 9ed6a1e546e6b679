"""What a request says by its words alone: whether something has to change, what is named, what can be tried.

No model is asked for this. What the words leave open is `unclear`, and the reply decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

import msgspec

from tui_agent.engine import request_words as words
from tui_agent.protocols.file_reply import named_paths

Kind = Literal["question", "change", "command", "unclear"]
Sign = Literal["change", "question", "command", "wish", ""]
"""What a sentence asks for; a wish is a fault or a demand that is only stated, and asks for a change unless a question
follows."""

SHORT = 400
"""Characters of a request that may be small enough to need no plan (E8)."""
SENTENCES = 3
_READ = 20_000
"""Characters of a request that are read."""


# --- names --------------------------------------------------------------------------------------

_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\.\w+)*)\((?!e?s\))")
_NAME = re.compile(
    r"(?<![\w./-])(--[A-Za-z][\w-]*|[A-Za-z_]\w*_\w+|[A-Z][A-Z0-9]*_[A-Z0-9_]+|[a-z]+[A-Z]\w*)(?![\w/-])"
)
_CONSTANT = re.compile(r"\b(?:constant|variable|setting)\s+(?:called\s+|named\s+)?[`'\"]?([A-Z][A-Z0-9_]+)\b")
_NAMING = (
    r"(?:functions?|methods?|class|def|called|named|option|flag|argument|parameter|variable|constant"
    r"|attribute|property|field|key)"
)
_CASES = re.compile(
    r"(?:(?:camel|snake|kebab|pascal|title|upper|lower|screaming|train|flat|dromedary)_?)+case|macOS|iOS"
    r"|iPhone|iPad|eBay|npmJS|jQuery|mypyC|pytestQt|vsCode|gRPC|pH|utf_?\d+|(?-i:[a-z]{2}_[A-Z]{2})",
    re.IGNORECASE,
)
"""Words that look like identifiers and are styles, products or languages."""
_ASIDE = re.compile(
    r"\b(?:without|not|instead of|unlike|like|such as|similar to|same as|rather than|never|e\.g\."
    r"|for example|as in|other than|called by|used by|calls? to|nor|no longer|don't|avoid)\s+(?:(?:\w+ing"
    r"|use|call|the|an?|any|all|functions?|methods?|options?|names?|words?|of|in)\s+)*[`'\"]?$",
    re.IGNORECASE,
)
"""What stands before a name that is an example, or that must not be there."""
_STRINGS = re.compile(r"(?<!named\s)(?<!called\s)(?<![\w])(?:'[^'\n]*'|\"[^\"\n]*\")(?!\w)")
_TOOLS = re.compile(
    r"\b(?:pytest|unittest|tox|nox|ruff|mypy|git|npm|pip|uv|cargo|go|make|black|flake8|coverage"
    r"|docker) (?:--?[\w=./-]+|[\w./:-]+ --?[\w=./-]+)(?:\s+--?[\w=./-]+)*"
)
"""A command of a tool with its own options, which are none of the project."""
_NO_NAMES = frozenset(("KeyboardInterrupt", "StopIteration", "SystemExit", "GeneratorExit", "O"))

_REMOVING = (
    r"remov(?:e|ed|al|ing)|delet(?:e|ed|ion|ing)|renam(?:e|ed|ing)|drop(?:ped|ping)?|mov(?:e|ed|ing)"
    r"|replac(?:e|ed|ing)|extract(?:ed|ing)?|split(?:ting)?|inlin(?:e|ed|ing)|merg(?:e|ed|ing)|combin(?:e|ed"
    r"|ing)|unify|unified|consolidate|fold|swap(?:ped|ping)?|get(?:ting)? rid of|convert(?:ed)?"
    r"|turn(?:ed)?\b[^.\n]{1,80}\binto|rid of|(?:chang|giv)(?:e|ed|ing)\b[^.\n]{0,60}\bnames?|(?:new|better"
    r"|other|different|clearer|shorter|speaking) names?|(?:is|be|are) (?:now )?(?:called|named)|(?:call"
    r"|name) it|collapse|eliminate"
)
_GOING = re.compile(
    rf"(?<![\w`.'\"/-])(?:{_REMOVING})(?![\w(`/]|\.\w|-\w)|\binstead\b"
    r"|\b(?:(?:um)?benenn|umbenenn|lösch|entfern|ersetz|verschieb|zusammenf|renomm|supprim|remplac|déplac"
    r"|fusionn|elimin|renombr|reemplaz|borr[ae]|quita|sustitu|rinomin|rimuov|cancella(?:re)?\b|sostitu|spost"
    r"|renome|remova\b|apag|substitu|cambi\w* (?:el|il|o) nom|change\w* le nom|mude? o nome)",
    re.IGNORECASE,
)
"""Words by which a definition may vanish."""
_WHAT_IT_DOES = re.compile(
    r"\b(?:functions?|methods?|options?|commands?|class|buttons?|endpoints?|tests?|flag|called|named|that|which"
    r"|def|the"
    r"|(?<!want )(?<!need )(?<!like )(?<!have )(?<!has )(?<!needs )(?<!us )(?<!is )(?<!are )(?<!you )(?<!try )"
    r"(?<!sure )to|can|could|may|for|when|while|after|before|on)\s+(?:correctly |be )?$",
    re.IGNORECASE,
)
"""What stands before such a word where it only says what something does: "a function to remove users"."""

# --- commands -----------------------------------------------------------------------------------

_QUOTED = re.compile(r"`([^`\n]+)`")
_RUNS = re.compile(
    r"(?:python[\d.]*|node|ruby|php|perl|bash|sh) [\w./-]+\.\w+|pytest\b"
    r"|python[\d.]* (?:-\w+ )*-m (?:unittest|pytest|doctest)\b|tox\b|nox\b|(?:npm|pnpm|yarn|bun) (?:run "
    r"|test)|cargo (?:test|check|build|clippy)|go (?:test|vet|build)|make\b|ruff\b|mypy\b|dotnet test|mvn "
    r"|gradle |\./gradlew |ctest\b|zig build|deno (?:test|check)|rspec\b|bundle exec|mix test|swift test"
)
_BEFORE = re.compile(
    r"^(?:[A-Za-z_]\w*=\S*\s+)*(?:(?:uv|poetry|pipenv|pdm|hatch|rye) run\s+)?(?:[^\s'\"]*\bbin/)?"
)
"""What may stand before a program's name: variables, the runner of a project's environment, a folder of programs."""
_BARE_RUN = re.compile(
    r"\b(python3? (?:-m (?:unittest|pytest)"
    r"(?: (?:--?\w[\w-]*|[\w-]*[./][\w./-]*\w|tests?(?:_\w+)?|\w+_tests?|discover)(?![\w./-]))?"
    r"|[\w./-]+\.py)(?:\s+(?:--?\w[\w-]*(?:=[\w./-]*\w)?|\d+|[\w./-]+\.\w+)(?![\w]))*)(?!\w)"
)
_TESTING = re.compile(
    r"(?:\S+ run )?(?:pytest\b|tox\b|nox\b|ruff\b|mypy\b|ctest\b|rspec\b|(?:npm|pnpm|yarn|bun) (?:run )?test"
    r"|python[\d.]* (?:-\w+ )*(?:-m (?:unittest|pytest|doctest)\b|\S*test\w*\.py)|cargo (?:test|check"
    r"|clippy)|go (?:test|vet)|make (?:test|check|lint)|mix test|swift test|dotnet test|deno (?:test|check))"
)
"""Commands that are named to be run, unless the words say otherwise."""
_CALLING = (
    r"(?:re-?run(?:ning)?|call(?:ing)?|execut(?:e|ing)|us(?:e|ing)|start(?:ing)?|launch(?:ing)?|invok(?:e"
    r"|ing)|touch)"
)
_FORBIDDEN = re.compile(
    r"\b(?:don't|do not|never|without|mustn't|must not|shouldn't|should not|not|avoid|instead of|rather than"
    r"|no need to|nicht|ohne|sans|sin|senza|sem)(?: (?:just|simply|ever|yet|try|have|need|you|to|actually))*"
    rf"(?: (?:run(?:ning)?|{_CALLING}))?(?: the)?(?: command| script| target)?\s*$",
    re.IGNORECASE,
)
_TOLD = words.either(
    r"\b(?:what|which|why|tell|document(?!ation)\w*|mention\w*|describ\w+|explain\w*|how (?:to|it|one|you"
    r"|people|users?|the \w+)|says?|shows?|showing|telling|stating|states|section|paragraph|heading|sentence"
    r"|note|example|badge|instructions?)\b",
    r"\b(?:is|are|be|was|were|been|gets?|usually|normally|often) (?:\w+ )?(?:run|used) (?:with|by|via|using"
    r"|as|through)\b",
    r"\b(?:started|launched|called|invoked|built|deployed|installed) (?:with|by|via|using|as|through|like)\b",
)
"""What makes a command one that is spoken of, unless a clause behind it says to run it."""
_CHECKED_WITH = re.compile(
    r"(?:^|\band\b|\bthen\b|[,;:])\s*(?:then |also |please |finally |that you )*(?:re-?run|run|execute"
    r"|verify|check|test|try|make sure|ensure)\b[^,;]*$",
    re.IGNORECASE,
)
_MADE = re.compile(
    r"\b(?:so that|such that|so|make sure(?: that)?|ensure(?: that)?|make|makes|let|lets|have|get|when|if"
    r"|that|until)(?: (?:the )?(?:command|script))?\s*$",
    re.IGNORECASE,
)
_PASSES = re.compile(
    r"\s*(?:(?:must|should|will|can|has to|to|all|again|tests?|does|still|now|finally"
    r"|is able to)\s+)*(?:pass|succeed|work|runs?\b|exits? (?:with )?(?:code |status )?0|goes? (?:through"
    r"|green)|is (?:green|clean|happy)|no longer|stops? (?:fail|crash)|not (?:fail|crash)|complete|finish"
    r"|without)",
    re.IGNORECASE,
)
_ENDS_OTHERWISE = words.either(
    r"\b(?:exit|status|return) (?:code|status)?\s*(?:with )?(?:code |status )?(?:of )?(?:[1-9]|non-?zero)",
    r"\bwith (?:code|status|an error|an exit|exit)\b|\bnon-?zero\b|\bsys\.exit\b|\berror message\b"
    r"|\b(?:nicht|pas)\b",
)
_DEMANDED = re.compile(r"\s*(?:must|should|has to|needs to|ought to|shall|will|to)\b", re.IGNORECASE)
_FAILING = re.compile(
    r"\s*(?:\w+ )?(?:crash|fail|hang|break|stop|raise|throw|gives?|prints?|returns?|says?|does not|doesn't)",
    re.IGNORECASE,
)
_TO_RUN = re.compile(
    r"(?:^\W*$|\b(?:run(?:ning)?|execut(?:e|ing)|re-?run|with|using|via|try|check|verify|test|through|start"
    r"|by|mit|avec|con|com|führe?|starte?|lance|exécute|ejecuta|esegui|execute"
    r"|command)\b)\W*(?:(?!that\b)\w+\W+){0,3}$",
    re.IGNORECASE,
)
_FOLLOWS = re.compile(
    r"\s*(?:$|[^\w\s]|(?:and|or|to|then|in|with|from|again|afterwards?|before|after|it|which|that|for|on|at"
    r"|as|until|works?|pass(?:es)?|fails?|must|should|has|is|does|will|when|if|so|once|twice|now|crashes"
    r"|runs?|succeeds?|but|still|prints?|gives|raises|because|while|by|aus|et|y|e|und)\b)"
)
"""What may stand behind a command without quotes; anything else may be a part of it."""


class Reading(msgspec.Struct, frozen=True):
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


def read_request(text: str) -> Reading:
    """Read a request. Takes time in proportion to its length; never raises."""
    prose = _prose(text)
    paths = named_paths(prose)
    return Reading(
        text=text,
        kind=kind_of(prose),
        paths=tuple(paths),
        names=tuple(_names(prose, paths)),
        commands=tuple(_commands(prose)),
        small=is_small(text),
    )


def _prose(text: str) -> str:
    return words.CODE.sub(" ", text[:_READ]).replace("’", "'")


# --- kind ---------------------------------------------------------------------------------------


def kind_of(text: str) -> Kind:
    """Whether a request wants an answer, a change, or a command to be run, as far as its words tell."""
    plain = words.MASKED.sub(_mask, _prose(text))
    about = _is_about_code(plain)
    found: set[Sign] = set()
    for sentence in _sentences(_joined(plain)):
        asked = "question" in found and "change" not in found
        sign = _sign(sentence.strip(), about)
        if sign == "change" and asked and words.STYLE.match(_bare(sentence)):
            continue
        found.add(sign)
    if "change" in found:
        return "change"
    if words.NOTHING.search(plain):
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
    return words.HEAD.sub("", sentence, count=1) if words.HEAD.match(sentence) else sentence


def _sign(sentence: str, about: bool) -> Sign:
    """What one sentence asks for; `about`: the request names a file or a part of a program."""
    if words.TAG.match(sentence) or words.RESTRICTION.match(sentence):
        return _later(sentence, about) if words.RESTRICTION.match(sentence) else ""
    other = _other_sign(sentence)
    if other:
        return other
    bare = _bare(sentence)
    modal = bare != sentence and words.MODAL.match(sentence) is not None
    if _is_answer(bare) or _is_answer(sentence):
        return "question"
    if gerund := words.GERUND.match(sentence):
        return "question" if words.ASKING.match(_infinitive(gerund.group(1))) else "change"
    asks = sentence.endswith("?")
    if _is_run(bare) and (modal or not asks):
        return _later(sentence, about) or "command"
    if (
        words.ASKING.match(bare)
        and not words.NOT_ASKING.match(bare)
        and not (about and words.BY_ITS_OBJECT.match(bare))
    ):
        return _later(sentence, about, asking=True) or "question"
    if _commands_change(bare, about) and (
        modal or not asks or not re.search(rf"\b(?:{words.WORD}|is|are)\b", bare)
    ):
        return "change"
    if asks and not modal:
        return _later(sentence, about, asking=True) or (
            "wish" if words.WISH_HEAD.match(sentence) else "question"
        )
    if asks:
        return "wish" if words.WISH_HEAD.match(sentence) and about else "question"
    return _later(sentence, about) or _stated(sentence, about)


def _is_answer(bare: str) -> bool:
    """Whether a summary, a list or the like is asked for, and no file that should hold it."""
    found = words.ANSWER.match(bare)
    if found is None or words.TARGET.search(bare):
        return False
    return found.group("given") is not None or not words.PROSE_FILE.search(bare)


def _is_run(bare: str) -> bool:
    """Whether a command, tests or a program are to be run."""
    if re.match(
        r"(?:check|verify|make sure|ensure) (?:that |if |whether )?(?:the |all |my )*(?:\w+ )?(?:tests?\b"
        r"|test suite|build\b)",
        bare,
        re.I,
    ):
        return re.search(r"\b(?:pass|succeed|work|green|run)", bare) is not None
    if re.match(
        r"(?:build|start) (?:an?|me|with|\w+ing)\b|test \w.* in (?:a new file )?`?(?:[\w-]+/)*test_\w+\.py"
        r"|test \w+ (?:is|are)\b",
        bare,
        re.I,
    ):
        return False
    return re.match(rf"(?:{words.RUNNING}){words.WHOLE}", bare, re.IGNORECASE) is not None


def _commands_change(bare: str, about: bool) -> bool:
    """Whether a sentence begins with a verb in the imperative that asks for a change."""
    if words.RESTRICTION.match(bare):
        return False
    if words.STRONG.match(bare):
        return about or not words.WORDING.match(bare)
    if not about:
        return False
    if words.DEALING.match(bare):
        return _is_exact(bare)
    if words.VERB.match(bare) or words.NOT_ASKING.match(bare):
        return True
    if words.BY_ITS_OBJECT.match(bare):
        return True
    verb = words.ARTICLE.match(bare)
    return (
        verb is not None
        and not words.NO_VERB.fullmatch(verb.group(1))
        and words.ASKING.match(bare) is None
        and _is_exact(bare)
    )


def _later(sentence: str, about: bool, *, asking: bool = False) -> Sign:
    """What a clause behind the first one asks for: only a change, else nothing."""
    parts = words.JOINTS.split(sentence)
    before = parts[0]
    for joint, clause in zip(parts[1::2], parts[2::2], strict=True):
        if _clause_changes(before[-300:], joint, clause.strip(), about, asking):
            return "change"
        before += joint + clause
    return ""


def _clause_changes(before: str, joint: str, clause: str, about: bool, asking: bool) -> bool:
    bare = _bare(clause)
    if words.RESTRICTION.match(clause) or _is_answer(bare) or words.ASKING.match(bare):
        return False
    if bare != clause and words.MODAL.search(clause) and _commands_change(bare, about):
        return True
    if words.MEND.match(bare) and (words.OBJECT.match(bare) or len(bare.split()) < 3):
        return "how to" not in before
    if not words.VERB.match(bare) or not (about or words.STRONG.match(bare)):
        return False
    first = joint[0] == "," and words.CONDITION.match(before) is not None
    if not words.OBJECT.match(bare) and not (
        first and re.match(r"\S+ (?!and |or |functions|methods)\w", bare)
    ):
        return False
    if asking and words.STYLE.match(bare) and joint[0] in ",;:":
        return False
    bound = ((asking and joint[0] != ";") or joint.strip() == "and") and "then" not in joint
    return not (bound and words.PARALLEL.search(before))


def _stated(sentence: str, about: bool) -> Sign:
    """Whether a sentence states a demand or a fault."""
    if words.STAYS.search(sentence) and re.match(
        r"(?:\w+ ){0,3}?(?:else|rest|other|nothing|code|behaviou?r)\b", sentence, re.I
    ):
        return ""
    if words.DEMAND.search(sentence):
        return "wish"
    if words.LACK.search(sentence) and _is_exact(sentence):
        return "wish"
    named = about or re.search(r"\bthe \w", sentence, re.IGNORECASE) is not None
    if words.FAULT.search(sentence) and (named or named_paths(sentence)):
        return "wish"
    if words.OTHER_WISH.search(sentence):
        return "wish"
    return ""


def _other_sign(sentence: str) -> Sign:
    """What a sentence in German, French, Spanish, Italian or Portuguese asks for, by its first word."""
    if words.NOTHING.match(sentence) or words.OTHER_RESTRICTION.match(sentence):
        return ""
    bare = words.OTHER_HEAD.sub("", sentence, count=1) if words.OTHER_HEAD.match(sentence) else sentence
    if words.OTHER_ASKING.match(bare):
        ordered = re.search(
            r"(?:,| und| et| y| e) (?:dann |puis |luego |poi |depois )?(.+)$", bare, re.IGNORECASE
        )
        return "change" if ordered and words.OTHER_VERB.match(ordered.group(1)) else "question"
    if words.OTHER_VERB.match(bare) and not words.STRONG.match(bare):
        return "change"
    if words.OTHER_COMMAND.match(bare) and not re.match(r"(?:start|execute) ", bare, re.IGNORECASE):
        return "command"
    if words.OTHER_MODAL.match(sentence) or bare != sentence:
        if re.search(
            r"\b(?:erklär|zeig|sag|beschreib|zusammenfass|auflist|expli[qc]|montrer|décrire|decir|mostrar"
            r"|spiegar|dir[em]|dizer)",
            bare,
        ):
            return "question"
        return "change" if words.OTHER_DOING.search(bare) else ""
    return ""


def _infinitive(stem: str) -> str:
    """The verb of an "…ing" without its ending, as far as the verbs of questions need it."""
    return {"mak": "make", "describ": "describe", "summariz": "summarize", "analyz": "analyze"}.get(
        stem.lower(), stem
    )


def _is_about_code(text: str) -> bool:
    """Whether a request names a file, an identifier, or a part of a program."""
    return _is_exact(text) or words.PART.search(text) is not None


def _is_exact(text: str) -> bool:
    """Whether a text names a file or an identifier."""
    return bool("`" in text or _CALLED.search(text) or _NAME.search(text) or named_paths(text))


def is_small(text: str) -> bool:
    """Whether a request is short and names one thing to do: no list, few sentences."""
    stripped = text.strip()
    if len(stripped) > SHORT or len(words.LIST.findall(stripped)) > 1 or "\n\n" in stripped:
        return False
    return len(_sentences(stripped)) <= SENTENCES


def listed(text: str) -> list[str]:
    """The items of a request that is a list of things to do; empty where it is none."""
    items = [line.strip() for line in text.splitlines() if words.LIST.match(line)]
    items = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", item) for item in items]
    doing = [item for item in items if _is_to_do(item)]
    return items if len(items) > 1 and len(doing) == len(items) else []


def _is_to_do(item: str) -> bool:
    bare = _bare(item)
    return _commands_change(bare, True) or _is_run(bare) or words.DEMAND.search(item) is not None


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<=[.!?])[\"')\]]*\s+|\n+", text.strip())
    parts = [re.sub(r"^(?:\d+[.)]|\[.?\])\s+", "", part.strip(" \t-*•>#")) for part in parts]
    return [part.strip(" \t\"'") for part in parts if part.strip(" \t-*•>#\"'")]


# --- names --------------------------------------------------------------------------------------


def _names(prose: str, paths: Collection[str]) -> list[str]:
    """Identifiers that a request names, without those that are examples or must not be there."""
    stems = {path.rsplit("/", 1)[-1].partition(".")[0] for path in paths}
    bare = _TOOLS.sub(lambda one: " " * len(one.group(0)), prose)
    plain = _STRINGS.sub(lambda one: " " * len(one.group(0)), bare)
    called = [
        (one.start(1), one.group(1)) for pattern in (_CALLED, _CONSTANT) for one in pattern.finditer(bare)
    ]
    named = [
        (one.start(1), one.group(1))
        for one in _NAME.finditer(plain)
        if not _CASES.fullmatch(one.group(1))
        or re.search(rf"\b{_NAMING}\s+[`'\"]?$", plain[max(0, one.start() - 30) : one.start()])
    ]
    wanted = [
        name
        for at, name in (*called, *named)
        if not _ASIDE.search(prose[max(0, at - 80) : at])
        and not name.endswith(("Error", "Exception"))
        and name not in stems
        and name not in _NO_NAMES
    ]
    return list(dict.fromkeys(wanted))


def names_to_go(text: str) -> frozenset[str]:
    """Names that a request lets go: all that it mentions where it removes, renames, merges or moves something."""
    for one in _GOING.finditer(text):
        if not _WHAT_IT_DOES.search(text[max(0, one.start() - 40) : one.start()]):
            return frozenset(re.findall(r"[A-Za-z_]\w*", text))
    return frozenset()


def speaks_of(text: str, stems: Collection[str]) -> bool:
    """Whether one of the words, or a form of it, stands in a text."""
    return re.search(rf"\b(?:{'|'.join(stems)})", text, re.IGNORECASE) is not None


# --- commands -----------------------------------------------------------------------------------


def runs_something(command: str) -> bool:
    """Whether a command line shows that something works: tests, builds, checks, a script of the project."""
    stripped = command.strip()
    return any(_RUNS.match(one) for one in (stripped, _BEFORE.sub("", stripped, count=1)))


def _commands(text: str) -> list[str]:
    """The commands that a request wants to be run and to succeed, in no case one that it forbids or only mentions."""
    text = text.replace("’", "'")
    quoted = [(one, one.group(1).strip()) for one in _QUOTED.finditer(text) if runs_something(one.group(1))]
    spared = _QUOTED.sub(lambda one: f"`{'·' * (len(one.group(0)) - 2)}`", text)
    bare = [
        (one, one.group(1)) for one in _BARE_RUN.finditer(spared) if _FOLLOWS.match(spared[one.end() :][:40])
    ]
    found = [
        command for one, command in (*quoted, *bare) if _is_to_be_run(*_around(spared, one), command, text)
    ]
    return list(dict.fromkeys(found))


def _around(text: str, one: re.Match[str]) -> tuple[str, str]:
    """What stands before and behind a command in its sentence; of commands in a row, before them all."""
    before = re.split(r"(?:[.!?;]\s|\n)", text[max(0, one.start() - 300) : one.start()])[-1]
    before = re.sub(r"(?:`·*`\s*(?:,|,?\s*(?:and|or|nor|und))\s*)+$", "", before)
    after = re.split(r"(?:[.!?;]\s|\n)", text[one.end() : one.end() + 200])[0]
    return before.lstrip(" \t-*•>0123456789.)"), after.rstrip(" .!?")


def _is_to_be_run(before: str, after: str, command: str, text: str) -> bool:
    if _FORBIDDEN.search(before) or re.match(r"\s*(?:nicht|pas)\b", after):
        return False
    told = _TOLD.search(before)
    if told is not None and not _CHECKED_WITH.search(before[told.end() :]):
        return False
    passes = _PASSES.match(after) is not None
    if _MADE.search(before) and not passes:
        failing = re.search(r"\b(?:when|if)\b.{0,20}$", before, re.IGNORECASE) is not None
        if not failing:
            return False
    if _ENDS_OTHERWISE.search(after) or (_DEMANDED.match(after) and not passes):
        return False
    if passes or _TESTING.match(_BEFORE.sub("", command, count=1)):
        return True
    if _FAILING.match(after):
        return not _ENDS_OTHERWISE.search(text)
    return _TO_RUN.search(before) is not None
