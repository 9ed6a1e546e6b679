"""Reading what models return for the staged workflow: forgiving in form, strict in meaning (W1, W2, W4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from tui_agent.common.workplan import Alternative, Check, Classification, InstructionPlan, PlanStep
from tui_agent.protocols.repair import UnreadableJson, repair_json

THOUGHT_TOOLS = frozenset({"", "analyze", "analyse", "analysis", "think", "none", "null", "n/a", "-"})
"""Words that mean a step without a tool."""
SHOW_DIFF = "show_diff"
"""The step that shows the run's diff to the user."""
LEAST_CONFIDENCE = 0.5
"""Below it a plan is no plan (W4)."""
MOST_STEPS = 12
_WORDS = {"high": 0.9, "medium": 0.7, "moderate": 0.7, "low": 0.4, "certain": 1.0}
_TRIES = 40
"""Opening braces that are tried as the beginning of the object."""

Sketch = Callable[[str, dict[str, Any]], "tuple[str, bool, str]"]
"""(tool as written, arguments) → (real name, whether it only reads, what is wrong or empty)."""


class BadPlan(ValueError):
    """What came is no plan; `faults` says why, each in a sentence for the model."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(" ".join(self.faults))


def find_object(text: str, keys: Iterable[str]) -> dict[str, Any]:
    """The first JSON object in `text` that has one of `keys`, wherever prose, fences or thinking stand around it.

    An object that wraps it under one key (`{"plan": {…}}`) is opened. Raises Unreadable.
    """
    wanted = frozenset(keys)
    at = text.find("{")
    for _ in range(_TRIES):
        if at < 0:
            break
        try:
            reading = repair_json(text[at:])
        except UnreadableJson:
            at = text.find("{", at + 1)
            continue
        value = reading.value
        for one in (value, *(value.values() if isinstance(value, dict) else ())):
            if isinstance(one, dict) and wanted & one.keys():
                return one
        at = text.find("{", at + max(1, reading.end))
    raise UnreadableJson(f"there is no JSON object with {' or '.join(sorted(wanted))} in it")


def classified(text: str) -> Classification | None:
    """The dispatcher's reply (W1); None when it can't be used. Single bad values fall back to the careful side."""
    try:
        given = find_object(text, ("intent", "needs_write", "complexity", "task_type"))
    except UnreadableJson:
        return None
    intent = _one_of("intent", given.get("intent"))
    if intent is None:
        return None
    write = given.get("needs_write")
    if isinstance(write, str):
        write = write.strip().lower() in ("true", "yes", "1")
    return Classification(
        intent=intent,
        needs_write=write if isinstance(write, bool) else True,
        task_type=_one_of("task_type", given.get("task_type")) or "coding",
        complexity=_one_of("complexity", given.get("complexity")) or "moderate",
        reasoning=_text(given.get("reasoning"))[:500],
    )


def read_instruction_plan(text: str, sketch: Sketch) -> InstructionPlan:
    """An instruction plan in the form of W2, or a `task_list` in an older form. Raises BadPlan.

    `sketch` resolves tools and says whether the arguments that are given fit; what is missing of them is filled in
    when the step is carried out.
    """
    try:
        given = find_object(text, ("steps", "task_list"))
    except UnreadableJson as error:
        raise BadPlan([f"The reply is no plan: {error}."]) from None
    rows = given.get("steps", given.get("task_list"))
    faults: list[str] = []
    if not isinstance(rows, list) or not rows:
        raise BadPlan(["`steps` must be a list of at least one step."])
    if len(rows) > MOST_STEPS:
        faults.append(f"The plan has {len(rows)} steps; {MOST_STEPS} is the most. Join or drop some.")
    steps = [_step(number, row, sketch, faults) for number, row in enumerate(rows[:MOST_STEPS], 1)]
    faults.extend(
        f"Step {step.number} has confidence {step.confidence:g}, below {LEAST_CONFIDENCE:g}: find a surer way."
        for step in steps
        if step.confidence < LEAST_CONFIDENCE
    )
    if faults:
        raise BadPlan(faults)
    steps = _with_needs(steps, rows)
    lowest = min(step.confidence for step in steps)
    stated = _confidence(given.get("confidence"))
    if stated is not None and stated < LEAST_CONFIDENCE:
        raise BadPlan([f"The plan has confidence {stated:g}, below {LEAST_CONFIDENCE:g}: find a surer way."])
    return InstructionPlan(
        approach=_text(given.get("approach") or given.get("strategy")),
        prerequisites=_texts(given.get("prerequisites")),
        steps=tuple(steps),
        check=_check(given.get("verification")),
        alternatives=_alternatives(given.get("alternatives")),
        confidence=lowest if stated is None else stated,
    )


def _step(number: int, row: Any, sketch: Sketch, faults: list[str]) -> PlanStep:
    if isinstance(row, str):
        row = {"description": row}
    if not isinstance(row, Mapping):
        faults.append(f"Step {number} must be an object with a description.")
        return PlanStep(number=number, description="")
    description = _text(_first(row, "description", "purpose", "action", "title", "task"))
    if not description:
        faults.append(f"Step {number} needs a `description`.")
    arguments = _first(row, "args", "arguments", "params", "parameters")
    if arguments is not None and not isinstance(arguments, dict):
        faults.append(f"Step {number}: `args` must be an object.")
        arguments = None
    tool, reads_only = _text(row.get("tool") or row.get("tool_name")).strip(), True
    if tool.lower() in THOUGHT_TOOLS:
        tool, arguments = "", {}
    elif tool != SHOW_DIFF:
        tool, reads_only, fault = sketch(tool, arguments or {})
        if fault:
            faults.append(f"Step {number}: {fault}")
    critical = row.get("critical")
    confidence = _confidence(row.get("confidence"))
    return PlanStep(
        number=number,
        description=description,
        tool=tool,
        arguments=dict(arguments or {}),
        expected=_text(_first(row, "expected_outcome", "expected", "outcome")),
        fallback=_text(_first(row, "error_handling", "fallback", "on_error")),
        confidence=0.8 if confidence is None else confidence,
        critical=critical if isinstance(critical, bool) else not reads_only,
        subtask=row.get("subtask") is True,
    )


def _with_needs(steps: list[PlanStep], rows: list[Any]) -> list[PlanStep]:
    """Steps that a later one names by number or by what they work on are critical where the plan does not say."""
    done: list[PlanStep] = []
    for step, row in zip(steps, rows, strict=False):
        stated = isinstance(row, Mapping) and isinstance(row.get("critical"), bool)
        later = steps[step.number :]
        needed = not stated and not step.critical and any(_needs(other, step) for other in later)
        done.append(replace(step, critical=True) if needed else step)
    return done


def _needs(later: PlanStep, step: PlanStep) -> bool:
    if f"step {step.number}" in f"{later.description} {later.expected}".lower():
        return True
    ours = {value for key, value in step.arguments.items() if isinstance(value, str) and len(value) > 2}
    return any(isinstance(value, str) and value in ours for value in later.arguments.values())


def _check(given: Any) -> Check:
    if isinstance(given, str):
        return Check(criteria=given.strip())
    if not isinstance(given, Mapping):
        return Check()
    command = _text(_first(given, "check_command", "command"))
    return Check(command=command, criteria=_text(_first(given, "success_criteria", "criteria")))


def _alternatives(given: Any) -> tuple[Alternative, ...]:
    if not isinstance(given, list):
        return ()
    found = []
    for one in given[:5]:
        if isinstance(one, str) and one.strip():
            found.append(Alternative(approach=one.strip()))
        elif isinstance(one, Mapping) and _text(one.get("approach")):
            confidence = _confidence(one.get("confidence"))
            found.append(
                Alternative(
                    approach=_text(one.get("approach")),
                    when=_text(_first(one, "when_to_use", "when")),
                    confidence=0.5 if confidence is None else confidence,
                )
            )
    return tuple(found)


def _confidence(given: Any) -> float | None:
    """0 to 1 from a number, a percentage or a word; None when nothing usable was said."""
    if isinstance(given, str):
        word = given.strip().lower()
        if word in _WORDS:
            return _WORDS[word]
        try:
            given = float(word.rstrip("%").strip()) / (100 if word.endswith("%") else 1)
        except ValueError:
            return None
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    value = given / 100 if 1 < given <= 100 else float(given)
    return value if 0 <= value <= 1 else None


def _one_of(field: str, given: Any) -> Any:
    allowed: tuple[str, ...] = get_args(get_type_hints(Classification)[field])
    word = str(given).strip().lower() if given is not None else ""
    return word if word in allowed else None


def _first(row: Mapping[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _text(given: Any) -> str:
    if isinstance(given, list):
        return "; ".join(filter(None, map(_text, given)))
    return given.strip() if isinstance(given, str) else ("" if given is None else str(given))


def _texts(given: Any) -> tuple[str, ...]:
    rows = given if isinstance(given, list) else [given]
    return tuple(filter(None, map(_text, rows)))
