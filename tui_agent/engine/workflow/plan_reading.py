"""Parsing of the JSON that models return in the staged workflow: lenient in form, strict in meaning (W1, W2, W4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from msgspec.structs import replace

from tui_agent.common.workplan import Alternative, Check, Classification, InstructionPlan, PlanStep
from tui_agent.protocols.repair import UnreadableJson, repair_json

THOUGHT_TOOLS = frozenset({"", "analyze", "analyse", "analysis", "think", "none", "null", "n/a", "-"})
"""Tool names of a step that uses no tool."""
SHOW_DIFF = "show_diff"
"""Tool name of the step that shows the changes of the run to the user."""
MIN_CONFIDENCE = 0.5
"""A plan or step with a lower confidence is invalid (W4)."""
MAX_STEPS = 12
_CONFIDENCE_WORDS = {"high": 0.9, "medium": 0.7, "moderate": 0.7, "low": 0.4, "certain": 1.0}
_MAX_BRACES = 40
"""Opening braces tried as the start of the object."""

ToolResolver = Callable[[str, dict[str, Any]], "tuple[str, bool, str]"]
"""(tool name as written, arguments) → (canonical name, whether it only reads, fault or empty)."""


class InvalidPlan(ValueError):
    """A reply contains no valid plan; `faults` are the reasons, as sentences for the model."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(" ".join(self.faults))


def find_object(text: str, keys: Iterable[str]) -> dict[str, Any]:
    """Return the first JSON object in `text` that has one of `keys`; prose, fences and reasoning are skipped.

    The object may be nested under one key of another (`{"plan": {…}}`). Raises UnreadableJson.
    """
    wanted = frozenset(keys)
    start = text.find("{")
    for _ in range(_MAX_BRACES):
        if start < 0:
            break
        try:
            parsed = repair_json(text[start:])
        except UnreadableJson:
            start = text.find("{", start + 1)
            continue
        value = parsed.value
        for candidate in (value, *(value.values() if isinstance(value, dict) else ())):
            if isinstance(candidate, dict) and wanted & candidate.keys():
                return candidate
        start = text.find("{", start + max(1, parsed.end))
    raise UnreadableJson(f"there is no JSON object with {' or '.join(sorted(wanted))} in it")


def parse_classification(text: str) -> Classification | None:
    """Return the classification in a dispatcher's reply (W1), or None without a valid intent.

    Other invalid fields get the more careful value."""
    try:
        fields = find_object(text, ("intent", "needs_write", "complexity", "task_type"))
    except UnreadableJson:
        return None
    intent = _literal("intent", fields.get("intent"))
    if intent is None:
        return None
    needs_write = fields.get("needs_write")
    if isinstance(needs_write, str):
        needs_write = needs_write.strip().lower() in ("true", "yes", "1")
    return Classification(
        intent=intent,
        needs_write=needs_write if isinstance(needs_write, bool) else True,
        task_type=_literal("task_type", fields.get("task_type")) or "coding",
        complexity=_literal("complexity", fields.get("complexity")) or "moderate",
        reasoning=value_text(fields.get("reasoning"))[:500],
    )


def parse_plan(text: str, resolve_tool: ToolResolver) -> InstructionPlan:
    """Return the plan in a reply, in the format of W2 or as an older `task_list`. Raises InvalidPlan.

    Only the arguments that are present are checked; missing ones are filled in when the step is executed.
    """
    try:
        fields = find_object(text, ("steps", "task_list"))
    except UnreadableJson as error:
        raise InvalidPlan([f"The reply is no plan: {error}."]) from None
    rows = fields.get("steps", fields.get("task_list"))
    faults: list[str] = []
    if not isinstance(rows, list) or not rows:
        raise InvalidPlan(["`steps` must be a list of at least one step."])
    if len(rows) > MAX_STEPS:
        faults.append(f"The plan has {len(rows)} steps; {MAX_STEPS} is the most. Join or drop some.")
    steps = [_step(number, row, resolve_tool, faults) for number, row in enumerate(rows[:MAX_STEPS], 1)]
    faults.extend(
        f"Step {step.number} has confidence {step.confidence:g}, below {MIN_CONFIDENCE:g}: find a surer way."
        for step in steps
        if step.confidence < MIN_CONFIDENCE
    )
    if faults:
        raise InvalidPlan(faults)
    steps = _mark_prerequisites(steps, rows)
    stated = _confidence(fields.get("confidence"))
    if stated is not None and stated < MIN_CONFIDENCE:
        raise InvalidPlan([f"The plan has confidence {stated:g}, below {MIN_CONFIDENCE:g}: find a surer way."])
    return InstructionPlan(
        approach=value_text(fields.get("approach") or fields.get("strategy")),
        prerequisites=value_texts(fields.get("prerequisites")),
        steps=tuple(steps),
        check=_check(fields.get("verification")),
        alternatives=_alternatives(fields.get("alternatives")),
        confidence=min(step.confidence for step in steps) if stated is None else stated,
    )


def _step(number: int, row: Any, resolve_tool: ToolResolver, faults: list[str]) -> PlanStep:
    fields = as_fields(row, "description")
    if fields is None:
        faults.append(f"Step {number} must be an object with a description.")
        return PlanStep(number=number, description="")
    description = value_text(_first(fields, "description", "purpose", "action", "title", "task"))
    if not description:
        faults.append(f"Step {number} needs a `description`.")
    arguments = _first(fields, "args", "arguments", "params", "parameters")
    if arguments is not None and not isinstance(arguments, dict):
        faults.append(f"Step {number}: `args` must be an object.")
        arguments = None
    tool, reads_only = value_text(fields.get("tool") or fields.get("tool_name")).strip(), True
    if tool.lower() in THOUGHT_TOOLS:
        tool, arguments = "", {}
    elif tool != SHOW_DIFF:
        tool, reads_only, fault = resolve_tool(tool, arguments or {})
        if fault:
            faults.append(f"Step {number}: {fault}")
    critical = fields.get("critical")
    confidence = _confidence(fields.get("confidence"))
    return PlanStep(
        number=number,
        description=description,
        tool=tool,
        arguments=dict(arguments or {}),
        expected=value_text(_first(fields, "expected_outcome", "expected", "outcome")),
        fallback=value_text(_first(fields, "error_handling", "fallback", "on_error")),
        confidence=0.8 if confidence is None else confidence,
        critical=critical if isinstance(critical, bool) else not reads_only,
        subtask=fields.get("subtask") is True,
    )


def _mark_prerequisites(steps: list[PlanStep], rows: list[Any]) -> list[PlanStep]:
    """Return the steps; one that a later step depends on is critical, unless its row says whether it is."""
    marked: list[PlanStep] = []
    for step, row in zip(steps, rows, strict=False):
        stated = isinstance(row, Mapping) and isinstance(row.get("critical"), bool)
        needed = not stated and any(_depends_on(later, step) for later in steps[step.number :])
        marked.append(replace(step, critical=True) if needed else step)
    return marked


def _depends_on(later: PlanStep, step: PlanStep) -> bool:
    """Return whether a later step mentions this one by number, or shares an argument with it."""
    if f"step {step.number}" in f"{later.description} {later.expected}".lower():
        return True
    values = {value for value in step.arguments.values() if isinstance(value, str) and len(value) > 2}
    return any(isinstance(value, str) and value in values for value in later.arguments.values())


def _check(value: Any) -> Check:
    fields = as_fields(value, "criteria")
    if fields is None:
        return Check()
    command = value_text(_first(fields, "check_command", "command"))
    return Check(command=command, criteria=value_text(_first(fields, "success_criteria", "criteria")))


def _alternatives(value: Any) -> tuple[Alternative, ...]:
    alternatives = []
    for row in value[:5] if isinstance(value, list) else ():
        fields = as_fields(row, "approach")
        if fields is None or not (approach := value_text(fields.get("approach"))):
            continue
        confidence = _confidence(fields.get("confidence"))
        alternatives.append(
            Alternative(
                approach=approach,
                when=value_text(_first(fields, "when_to_use", "when")),
                confidence=0.5 if confidence is None else confidence,
            )
        )
    return tuple(alternatives)


def _confidence(value: Any) -> float | None:
    """Return a number from 0 to 1 for a number, a percentage or a word; None for anything else."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _CONFIDENCE_WORDS:
            return _CONFIDENCE_WORDS[word]
        try:
            value = float(word.rstrip("%").strip()) / (100 if word.endswith("%") else 1)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    fraction = value / 100 if 1 < value <= 100 else float(value)
    return fraction if 0 <= fraction <= 1 else None


def _literal(field: str, value: Any) -> Any:
    """Return the value if the field of a classification allows it, otherwise None."""
    allowed: tuple[str, ...] = get_args(get_type_hints(Classification)[field])
    word = str(value).strip().lower()
    return word if word in allowed else None


def as_fields(value: Any, key: str) -> Mapping[str, Any] | None:
    """Return a JSON object; a string becomes an object with that `key`, and other values None."""
    if isinstance(value, str):
        return {key: value}
    return value if isinstance(value, Mapping) else None


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def value_text(value: Any) -> str:
    """Return a JSON value as text; the items of a list are joined."""
    if isinstance(value, list):
        return "; ".join(value_texts(value))
    return value.strip() if isinstance(value, str) else ("" if value is None else str(value))


def value_texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list, or of a single value, without empty ones."""
    rows = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(value_text, rows)))
