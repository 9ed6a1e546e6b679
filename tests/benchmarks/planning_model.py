"""A scripted model of middling wit for the task suite. It knows nothing but the request that it gets.

What it does follows from the request's text: asked for prerequisites it mostly thinks of them, else rarely; after a
failure it repeats the call once and then gives up, unless the request shows what failed, the class of the error, and
what is needed first. Whether anything plans is not known to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.noise.reading import Heard, heard
from benchmarks.planning.tasks import CHECK, Move, Task
from tui_agent.engine.core.prompts import prompt
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenario_matching import ScriptedCall, ScriptedReply, from_wire, text_of
from tui_agent.models.scenarios import Response, Scenarios, ScenarioStep

TRAITS_FILE = Path(__file__).with_name("planning_model.json")
_NUMBER = re.compile(r"Task (\d+):")
_STEP = re.compile(r"^Step \d+: (.*)", re.MULTILINE)
_INSTEAD = "Do this instead:"
_ROLES = ("classify", "plan_steps", "diagnose", "verify_step", "summarize")
_WORDS = {"not_found": ("not_found", "not found", "does not exist")}
"""How a class of errors is named, where not only by its own name."""
GAVE_UP = "I could not do it"


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How clever the model is, in shares from 0 to 1."""

    foresight_asked: float
    """It thinks of what is needed first, where the request speaks of prerequisites."""
    foresight_unasked: float
    """The same where it does not."""
    fallback: float
    """The other way that it names for a step is one that helps."""
    insight: float
    """Asked why, and told what failed and the class of the error, it finds what is needed first."""
    bad_plan: float
    """Its first plan names a tool that does not exist."""
    no_plan: float
    """It gives no plan at all."""
    unsure: float
    """It calls its plan unsure."""


def traits() -> Traits:
    """Those of the benchmark."""
    return msgspec.json.decode(TRAITS_FILE.read_bytes(), type=Traits)


class PlanningModel:
    """Answers as dispatcher, planner, worker and summarizer. Keeps nothing between two requests."""

    def __init__(self, tasks: Iterable[Task], wit: Traits, seed: int = 0) -> None:
        self.scenarios = Scenarios()
        self._tasks = {task.number: task for task in tasks}
        self._wit = wit
        self._seed = seed

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        """The reply to a request body in OpenAI's or Ollama's form."""
        messages = [one for one in payload.get("messages", ()) if isinstance(one, Mapping)]
        system = "\n".join(text_of(one.get("content")) for one in messages if one.get("role") == "system")
        rest = "\n".join(text_of(one.get("content")) for one in messages if one.get("role") != "system")
        if asked := from_wire(payload).task:  # beside the conversation
            system = asked
        role = next((name for name in _ROLES if prompt(name).splitlines()[0] in system), "")
        task = self._task(rest)
        if role == "summarize":
            return _says(json.dumps({"log_entry": {"action": "Did the task", "result": "✓ done"}}))
        if role == "verify_step":
            return _says(json.dumps({"met": GAVE_UP not in (asked or rest), "evidence": "the record"}))
        if task is None:
            return _says("I do not know this task.")
        match role:
            case "classify":
                return _says(_sorted(task))
            case "plan_steps":
                again = "can't be carried out" in system
                return _says(self._plan(task, system, rest, again=again))
            case "diagnose":
                return _says(self._diagnosis(task, rest))
        return self._work(task, messages, system)

    def _task(self, text: str) -> Task | None:
        found = _NUMBER.search(text)
        if found is not None:
            return self._tasks.get(int(found[1]))
        keys = [(key, task) for task in self._tasks.values() for key in map(_key, task.moves) if key in text]
        return max(keys, key=lambda pair: len(pair[0]), default=("", None))[1]

    def _has(self, task: Task, trait: str) -> bool:
        share: float = getattr(self._wit, trait)
        return Random(f"{self._seed}:{task.number}:{trait}").random() < share

    def _foresees(self, task: Task, asking: str) -> bool:
        """Whether it thinks of the need by itself, before anything failed."""
        asked = "prerequisite" in asking
        return task.need is not None and self._has(task, "foresight_asked" if asked else "foresight_unasked")

    # --- asked for one object ---

    def _plan(self, task: Task, system: str, asked: str, *, again: bool) -> str:
        """`again`: its first plan came back with what was wrong with it."""
        if self._has(task, "no_plan"):
            return "I would look at the files first and then decide."
        failed = asked.partition("What failed")[2]
        knows = _shows(task, failed) if failed else self._foresees(task, system)
        moves = [task.need, *task.moves] if task.need is not None and knows else list(task.moves)
        rows = [self._row(task, move, number) for number, move in enumerate(moves, 1)]
        if self._has(task, "bad_plan") and not again:
            rows[0] = {**rows[0], "tool": "teleport"}
        plan = {
            "approach": "the short way",
            "prerequisites": [task.need.says] if task.need is not None and knows else [],
            "steps": rows,
            "verification": {"check_command": CHECK, "success_criteria": "it prints passed"},
            "confidence": 0.55 if self._has(task, "unsure") else 0.85,
        }
        return json.dumps(plan)

    def _row(self, task: Task, move: Move, number: int) -> dict[str, Any]:
        helps = task.need is not None and self._has(task, "fallback")
        way = f"First this: {task.needed}. Then the step again." if helps else "Look at what it says."
        return {
            "step_number": number,
            "description": move.says,
            "tool": move.tool,
            "args": {} if move.open else move.arguments,
            "expected_outcome": "it ends well",
            "error_handling": way,
            "confidence": 0.85,
            "critical": True,
        }

    def _diagnosis(self, task: Task, record: str) -> str:
        if task.need is None or not _names_class(task, record) or not self._has(task, "insight"):
            return json.dumps({"cause": "it failed", "prerequisite": "", "strategy": "do it with more care"})
        return json.dumps(
            {
                "cause": f"what the {task.error_class} error asks for is not there",
                "prerequisite": task.needed,
                "strategy": f"{task.needed}, and then what failed once more",
            }
        )

    # --- at work ---

    def _work(self, task: Task, messages: Sequence[Mapping[str, Any]], system: str) -> ResponderReply:
        start = next(
            place
            for place, one in enumerate(messages)
            if one.get("role") == "user" and _NUMBER.search(text_of(one.get("content")))
        )
        told = list(heard(list(messages[start:])))
        newest = max((place for place, one in enumerate(told) if _is_step(one)), default=-1)
        since, moves, count_from = 0, list(task.moves), 0
        if newest >= 0:
            since = newest + 1
            moves, again = _of_step(task, told[: newest + 1])
            count_from = 0 if again else since
        elif self._foresees(task, system) and task.need is not None:
            moves.insert(0, task.need)
        return self._next(task, moves, told, since, count_from, len(messages))

    def _next(
        self, task: Task, moves: list[Move], told: list[Heard], since: int, count_from: int, number: int
    ) -> ResponderReply:
        """The first of the moves that is not done, what it needs first, or the closing words."""
        seen = bool(task.evidence) and any(task.evidence in one.text for one in told)
        for move in moves:
            given = move.after if seen and move.after else move.arguments
            tries = [place for place, one in enumerate(told) if _is(one, move.tool, given)]
            if (last := [place for place in tries if place >= count_from]) and told[last[-1]].good:
                continue
            failed = [place for place in tries if not told[place].good]
            if failed and task.need is not None:
                window = "\n".join(one.text for one in told[failed[0] :])
                done = any(_is(one, task.need.tool, task.need.arguments) and one.good for one in told[failed[0] :])
                if _shows(task, window) and not done:
                    return _calls(task.need.tool, task.need.arguments, number)
            if sum(place >= since for place in failed) < 2:
                return _calls(move.tool, given, number)
            return _says(f"{GAVE_UP}: {told[failed[-1]].text[:200]}")
        found = f" What it showed: {task.evidence}" if seen else ""  # of a step's results no more is passed on
        return _says(f"{moves[-1].says if moves else 'The step'}: that is done.{found}")


def _of_step(task: Task, told: list[Heard]) -> tuple[list[Move], bool]:
    """The moves that the newest step asks for, and whether it goes on after a failure."""
    text = told[-1].text
    again = _INSTEAD in text
    described = next((found[1] for one in reversed(told) if (found := _STEP.search(one.text))), "")
    every = [*([task.need] if task.need is not None else ()), *task.moves]
    place = next((place for place, move in enumerate(every) if move.says in described), None)
    if place is None:
        return (list(task.moves) if again else []), again
    if again and every[place] in task.moves:
        return list(task.moves[: task.moves.index(every[place]) + 1]), again
    return [every[place]], again


def _is_step(one: Heard) -> bool:
    return one.source == "program" and (_INSTEAD in one.text or _STEP.search(one.text) is not None)


def _is(one: Heard, tool: str, given: Mapping[str, Any]) -> bool:
    return one.source == "result" and one.name == tool and one.given == given


def _shows(task: Task, text: str) -> bool:
    """Whether a text about a failure names the class of the error and what is needed first."""
    needs = task.needed in text or (bool(task.evidence) and task.evidence in text)
    return needs and _names_class(task, text)


def _names_class(task: Task, text: str) -> bool:
    name = task.error_class
    return any(word in text.lower() for word in _WORDS.get(name, (name, name.replace("_", " "))))


def _key(move: Move) -> str:
    return str(next(iter(move.arguments.values())))


def _sorted(task: Task) -> str:
    return json.dumps(
        {
            "intent": "modify",
            "needs_write": True,
            "task_type": "coding",
            "complexity": "simple" if task.simple else "moderate",
            "reasoning": "it changes files",
        }
    )


def _says(text: str) -> ResponderReply:
    return ResponderReply(
        choice=ScriptedReply(scenario="", index=0, step=ScenarioStep(response=Response(content=text)))
    )


def _calls(tool: str, given: Mapping[str, Any], number: int) -> ResponderReply:
    call = ScriptedCall(id=f"call_mock_{number}", name=tool, raw=json.dumps(given, ensure_ascii=False))
    return ResponderReply(
        choice=ScriptedReply(scenario="", index=0, step=ScenarioStep(response=Response()), calls=(call,))
    )
