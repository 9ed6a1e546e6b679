"""What the program can tell of a request by its words: its kind, and its plan where it is a list (E8)."""

from __future__ import annotations

import os

import msgspec

from tui_agent.engine.request_reading import Reading, kind_of, listed
from tui_agent.workplan import Classified, InstructionPlan, PlanStep

SMALL = 240
"""Characters of a request that needs no plan."""


def classified_by_words(reading: Reading, why: str) -> Classified:
    """How a request is to be worked on, without a model call; `why` there is none."""
    if reading.kind == "question":
        return Classified(
            intent="analyze", needs_write=False, task_type="analysis", complexity="simple", reasoning=why
        )
    return Classified(
        intent="modify" if reading.kind == "change" else "mixed",
        needs_write=reading.kind == "change",
        complexity="simple",
        reasoning=why,
    )


def by_words(found: Classified, request: str) -> Classified:
    """How a model sorted a request, where its words do not say otherwise: one that plainly asks for a change is never
    only looked into."""
    if found.intent != "analyze" or found.guessed or kind_of(request) != "change":
        return found
    return msgspec.structs.replace(found, intent="mixed", needs_write=True)


def names_one_small_change(reading: Reading, folder: str) -> bool:
    """Whether a request asks in a sentence or two for a change in one file that is there: it needs no plan (E8)."""
    if reading.kind != "change" or not reading.small or len(reading.text) > SMALL or len(reading.paths) != 1:
        return False
    return os.path.isfile(os.path.join(folder, reading.paths[0]))


def listed_plan(text: str) -> InstructionPlan | None:
    """The plan that a request is: a step for each item of its list; None where it is no list of things to do."""
    items = listed(text)
    if not items:
        return None
    steps = tuple(
        PlanStep(number=number, description=item, confidence=1.0, critical=True)
        for number, item in enumerate(items, 1)
    )
    return InstructionPlan(approach="The steps of the request, in its order", steps=steps, confidence=1.0)
