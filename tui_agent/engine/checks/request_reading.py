"""What the wording of a request says: whether to change something, which names and commands it mentions.

No model is involved. A request whose wording leaves its kind open is `unclear`; then the reply decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

import msgspec

from tui_agent.protocols.file_reply import named_paths
from tui_agent.text.patterns import Patterns

_RE = Patterns("tui_agent.engine.checks", "request")

_NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def parse_count(text: str) -> int:
    """Parse digits or an English number word up to ten."""
    return int(text) if text.isdecimal() else _NUMBER_WORDS.index(text.lower())


RequestKind = Literal["question", "change", "command", "unclear"]
SentenceKind = Literal["change", "question", "command", "wish", ""]
"""What a sentence asks for. A wish only states a fault or a demand: a change, unless the request asks a question."""

MAX_SMALL_LENGTH = 400
"""Characters of a request that may need no plan (E8)."""
MAX_SMALL_SENTENCES = 3
MAX_PROSE = 6_000
"""Characters of prose searched for names and restrictions."""
MAX_LENGTH = 20_000
"""Characters of a request that are read."""

_BUILT_IN_NAMES = frozenset(("KeyboardInterrupt", "StopIteration", "SystemExit", "GeneratorExit", "O"))


class RequestReading(msgspec.Struct, frozen=True):
    """What the wording of a request says."""

    text: str
    kind: RequestKind
    paths: tuple[str, ...] = ()
    """Relative paths of the files it mentions."""
    names: tuple[str, ...] = ()
    """Functions, options and other identifiers that must exist when the work is done."""
    commands: tuple[str, ...] = ()
    """Commands that must succeed when the work is done."""
    small: bool = False
    """It asks for one small thing and needs no plan (E8)."""


def read_request(text: str) -> RequestReading:
    """Read a request in linear time; never raises."""
    prose = _full_prose(text)
    paths = named_paths(prose)
    return RequestReading(
        text=text,
        kind=_kind(prose),
        paths=tuple(paths),
        names=tuple(_wanted_names(prose, paths)),
        commands=tuple(_wanted_commands(prose)),
        small=is_small(text),
    )


@lru_cache(maxsize=8)
def request_prose(text: str) -> str:
    """Return the beginning of a request without its code blocks."""
    return _RE.code_block.sub(" ", text[: 3 * MAX_PROSE])[:MAX_PROSE]


def _full_prose(text: str) -> str:
    return _RE.code_block.sub(" ", text[:MAX_LENGTH]).replace("’", "'")


# --- kind ---------------------------------------------------------------------------------------


def request_kind(text: str) -> RequestKind:
    """Return whether a request wants an answer, a change or a command, as far as its wording tells."""
    return _kind(_full_prose(text))


def _kind(prose: str) -> RequestKind:
    masked = _RE.quoted_phrase.sub(_mask_quoted, prose)
    about_code = _is_about_code(masked)
    kinds: set[SentenceKind] = set()
    for sentence in _sentences(_unwrap(masked)):
        follows_question = "question" in kinds and "change" not in kinds
        kind = _sentence_kind(sentence.strip(), about_code)
        if kind == "change" and follows_question and _RE.answer_style.match(_strip_preamble(sentence)):
            continue
        kinds.add(kind)
    if "change" in kinds:
        return "change"
    if _RE.no_changes.search(masked):
        return "question"
    if "command" in kinds:
        return "command"
    if "question" in kinds:
        return "question"
    return "change" if "wish" in kinds else "unclear"


def _mask_quoted(match: re.Match[str]) -> str:
    text = match[0]
    return f"{text[0]}{' '.join(named_paths(text)) or '…'}{text[-1]}"


def _unwrap(text: str) -> str:
    """Join lines that were wrapped within a sentence."""
    return re.sub(r"(?<=[\w,])[ \t]*\n[ \t]*(?=[a-z])", " ", text)


def _strip_preamble(sentence: str, pattern: re.Pattern[str] | None = None) -> str:
    """Remove polite forms and the like from before the verb."""
    match = (pattern or _RE.preamble).match(sentence)
    return sentence[match.end() :] if match else sentence


def _sentence_kind(sentence: str, about_code: bool) -> SentenceKind:
    if _RE.restriction.match(sentence):
        return _later_change(sentence, about_code)
    if _RE.tag_question.match(sentence):
        return ""
    if kind := _foreign_kind(sentence):
        return kind
    core = _strip_preamble(sentence)
    has_modal = core != sentence and _RE.modal.match(sentence) is not None
    if _asks_for_text(core) or _asks_for_text(sentence):
        return "question"
    if gerund := _RE.gerund.match(sentence):
        return "question" if _RE.inquiry.match(_infinitive(gerund[1])) else "change"
    is_question = sentence.endswith("?")
    if _asks_for_run(core) and (has_modal or not is_question):
        return _later_change(sentence, about_code) or "command"
    is_change_by_object = about_code and _RE.change_by_object.match(core)
    if _RE.inquiry.match(core) and not _RE.not_inquiry.match(core) and not is_change_by_object:
        return _later_change(sentence, about_code, after_inquiry=True) or "question"
    if _commands_change(core, about_code) and (
        has_modal or not is_question or not re.search(rf"\b(?:{_RE.source('question_word')}|is|are)\b", core)
    ):
        return "change"
    if not is_question:
        return _later_change(sentence, about_code) or _statement_kind(sentence, about_code)
    is_wish = _RE.wish_start.match(sentence) and (about_code or not has_modal)
    later = "" if has_modal else _later_change(sentence, about_code, after_inquiry=True)
    return later or ("wish" if is_wish else "question")


def _asks_for_text(core: str) -> bool:
    """Whether a summary, a list or the like is requested as a reply and not as a file."""
    match = _RE.text_request.match(core)
    if match is None or _RE.output_target.search(core):
        return False
    return match["conversational"] is not None or not _RE.prose_file.search(core)


def _asks_for_run(core: str) -> bool:
    """Whether a command, a program or tests should be run."""
    if _RE.verify_tests.match(core):
        return re.search(r"\b(?:pass|succeed|work|green|run)", core) is not None
    return _RE.not_run.match(core) is None and _RE.run_verb.match(core) is not None


def _commands_change(core: str, about_code: bool) -> bool:
    """Whether a sentence begins with an imperative that requests a change."""
    if _RE.restriction.match(core):
        return False
    if _RE.change_verb.match(core):
        return about_code or not _RE.text_verb.match(core)
    if not about_code:
        return False
    if _RE.data_verb.match(core):
        return _names_code(core)
    if any(pattern.match(core) for pattern in (_RE.any_change_verb, _RE.not_inquiry, _RE.change_by_object)):
        return True
    verb = _RE.verb_before_article.match(core)
    return (
        verb is not None
        and not _RE.not_a_verb.fullmatch(verb[1])
        and _RE.inquiry.match(core) is None
        and _names_code(core)
    )


def _later_change(sentence: str, about_code: bool, *, after_inquiry: bool = False) -> Literal["change", ""]:
    """Return "change" if a clause after the first one requests it."""
    parts = _RE.clause_joints.split(sentence)
    before = parts[0]
    for joint, clause in zip(parts[1::2], parts[2::2], strict=True):
        if _clause_changes(before[-300:], joint, clause.strip(), about_code, after_inquiry):
            return "change"
        before += joint + clause
    return ""


def _clause_changes(before: str, joint: str, clause: str, about_code: bool, after_inquiry: bool) -> bool:
    core = _strip_preamble(clause)
    if _RE.restriction.match(clause) or _asks_for_text(core) or _RE.inquiry.match(core):
        return False
    if core != clause and _RE.modal.search(clause) and _commands_change(core, about_code):
        return True
    if _RE.repair_verb.match(core) and (_RE.verb_with_object.match(core) or len(core.split()) < 3):
        return "how to" not in before
    if not _RE.any_change_verb.match(core) or not (about_code or _RE.change_verb.match(core)):
        return False
    if not _RE.verb_with_object.match(core):
        follows_condition = joint[0] == "," and _RE.condition.match(before)
        if not (follows_condition and re.match(r"\S+ (?!and |or |functions|methods)\w", core)):
            return False
    if after_inquiry and _RE.answer_style.match(core) and joint[0] in ",;:":
        return False
    is_coordinated = ((after_inquiry and joint[0] != ";") or joint.strip() == "and") and "then" not in joint
    return not (is_coordinated and _RE.parallel_verbs.search(before))


def _statement_kind(sentence: str, about_code: bool) -> SentenceKind:
    """Return "wish" if a sentence states a demand or a fault."""
    if _RE.stays_same.search(sentence) and _RE.other_code.match(sentence):
        return ""
    if _RE.demand.search(sentence) or (_RE.negated.search(sentence) and _names_code(sentence)):
        return "wish"
    is_specific = about_code or re.search(r"\bthe \w", sentence, re.IGNORECASE) is not None
    is_faulty = _RE.fault.search(sentence) and (is_specific or named_paths(sentence))
    return "wish" if is_faulty or _RE.foreign_wish.search(sentence) else ""


def _foreign_kind(sentence: str) -> SentenceKind:
    """Classify a German, French, Spanish, Italian or Portuguese sentence by its first words."""
    if _RE.no_changes.match(sentence) or _RE.foreign_restriction.match(sentence):
        return ""
    core = _strip_preamble(sentence, _RE.foreign_preamble)
    if _RE.foreign_inquiry.match(core):
        clause = re.search(r"(?:,| und| et| y| e) (?:dann |puis |luego |poi |depois )?(.+)$", core, re.IGNORECASE)
        return "change" if clause and _RE.foreign_change_verb.match(clause[1]) else "question"
    if _RE.foreign_change_verb.match(core) and not _RE.change_verb.match(core):
        return "change"
    if _RE.foreign_run.match(core) and not re.match(r"(?:start|execute) ", core, re.IGNORECASE):
        return "command"
    if _RE.foreign_modal.match(sentence) or core != sentence:
        if _RE.foreign_tell_verb.search(core):
            return "question"
        return "change" if _RE.foreign_infinitive.search(core) else ""
    return ""


def _infinitive(stem: str) -> str:
    """Complete the stem of an "-ing" form, for the verbs of inquiries."""
    return {"mak": "make", "describ": "describe", "summariz": "summarize", "analyz": "analyze"}.get(stem.lower(), stem)


def _is_about_code(text: str) -> bool:
    """Whether a text mentions a file, an identifier or a part of a program."""
    return _names_code(text) or _RE.program_part.search(text) is not None


def _names_code(text: str) -> bool:
    """Whether a text mentions a file or an identifier."""
    return bool("`" in text or _RE.called_name.search(text) or _RE.identifier.search(text) or named_paths(text))


def is_small(text: str) -> bool:
    """Return whether a request is short and has no list and few sentences."""
    stripped = text.strip()
    if len(stripped) > MAX_SMALL_LENGTH or len(_RE.list_item.findall(stripped)) > 1 or "\n\n" in stripped:
        return False
    return len(_sentences(stripped)) <= MAX_SMALL_SENTENCES


def list_items(text: str) -> list[str]:
    """Return the items of a request that is a list of tasks; empty for any other request."""
    lines = [line.strip() for line in text.splitlines() if _RE.list_item.match(line)]
    items = [re.sub(r"^(?:[-*•]|\d+[.)])\s+", "", line) for line in lines]
    return items if len(items) > 1 and all(map(_is_task, items)) else []


def _is_task(item: str) -> bool:
    core = _strip_preamble(item)
    return _commands_change(core, True) or _asks_for_run(core) or _RE.demand.search(item) is not None


def _sentences(text: str) -> list[str]:
    parts = re.split(r"(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<=[.!?])[\"')\]]*\s+|\n+", text.strip())
    parts = [re.sub(r"^(?:\d+[.)]|\[.?\])\s+", "", part.strip(" \t-*•>#")) for part in parts]
    return [part.strip(" \t\"'") for part in parts if part.strip(" \t-*•>#\"'")]


# --- names --------------------------------------------------------------------------------------


def _wanted_names(prose: str, paths: Collection[str]) -> list[str]:
    """Return the identifiers mentioned, except examples and those that must not exist."""
    stems = {path.rsplit("/", 1)[-1].partition(".")[0] for path in paths}
    code = _RE.tool_options.sub(_blank, prose)
    unquoted = _RE.string_literals.sub(_blank, code)
    matches = [match for pattern in (_RE.called_name, _RE.named_constant) for match in pattern.finditer(code)]
    matches += [
        match
        for match in _RE.identifier.finditer(unquoted)
        if not _RE.not_identifier.fullmatch(match[1])
        or re.search(
            rf"\b{_RE.source('naming_words')}\s+[`'\"]?$", unquoted[max(0, match.start() - 30) : match.start()]
        )
    ]
    wanted = [
        match[1]
        for match in matches
        if not _RE.not_wanted.search(prose[max(0, match.start(1) - 80) : match.start(1)])
        and not match[1].endswith(("Error", "Exception"))
        and match[1] not in stems
        and match[1] not in _BUILT_IN_NAMES
    ]
    return list(dict.fromkeys(wanted))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def removable_names(text: str) -> frozenset[str]:
    """Return all identifiers of a request that removes, renames, merges or moves something; empty for any other."""
    for match in _RE.removal.finditer(text):
        if not _RE.purpose_clause.search(text[max(0, match.start() - 40) : match.start()]):
            return frozenset(re.findall(r"[A-Za-z_]\w*", text))
    return frozenset()


def mentions_any(text: str, stems: Collection[str]) -> bool:
    """Return whether a word of the text begins with one of the stems."""
    return re.search(rf"\b(?:{'|'.join(stems)})", text, re.IGNORECASE) is not None


# --- commands -----------------------------------------------------------------------------------


def is_check_command(command: str) -> bool:
    """Return whether a command line can show that something works: tests, a build, a linter, a project script."""
    stripped = command.strip()
    return any(_RE.check_command.match(text) for text in (stripped, _RE.command_prefix.sub("", stripped, count=1)))


def _wanted_commands(prose: str) -> list[str]:
    """Return the commands to run; not those that are forbidden or only mentioned."""
    found = [(match, match[1].strip()) for match in _RE.code_span.finditer(prose) if is_check_command(match[1])]
    masked = _RE.code_span.sub(lambda match: f"`{'·' * (len(match[0]) - 2)}`", prose)
    for match in _RE.unquoted_command.finditer(masked):
        if _RE.command_end.match(masked[match.end() :][:40]):
            found.append((match, match[1]))
    wanted = [command for match, command in found if _should_run(*_surroundings(masked, match), command, prose)]
    return list(dict.fromkeys(wanted))


def _surroundings(masked: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the parts of a command's sentence before and after it; before the first of several joined commands."""
    before = re.split(r"(?:[.!?;]\s|\n)", masked[max(0, match.start() - 300) : match.start()])[-1]
    before = re.sub(r"(?:`·*`\s*(?:,|,?\s*(?:and|or|nor|und))\s*)+$", "", before)
    after = re.split(r"(?:[.!?;]\s|\n)", masked[match.end() : match.end() + 200])[0]
    return before.lstrip(" \t-*•>0123456789.)"), after.rstrip(" .!?")


def _should_run(before: str, after: str, command: str, prose: str) -> bool:
    if _RE.forbidden_before.search(before) or re.match(r"\s*(?:nicht|pas)\b", after):
        return False
    documented = _RE.documented_before.search(before)
    if documented is not None and not _RE.run_clause.search(before[documented.end() :]):
        return False
    passes = _RE.passes_after.match(after) is not None
    is_failure_report = re.search(r"\b(?:when|if)\b.{0,20}$", before, re.IGNORECASE)
    if _RE.result_before.search(before) and not passes and not is_failure_report:
        return False
    if _RE.fails_on_purpose.search(after) or (_RE.demand_after.match(after) and not passes):
        return False
    if passes or _RE.test_program.match(_RE.command_prefix.sub("", command, count=1)):
        return True
    if _RE.fails_after.match(after):
        return not _RE.fails_on_purpose.search(prose)
    return _RE.run_before.search(before) is not None
