"""A scripted model of medium ability for the task suite, which depends only on the request that it gets.

Asked for prerequisites, it mostly thinks of them, otherwise rarely. After a failure it repeats the call once and then
gives up, unless the request shows what failed, the class of the error, and the remedy. It does not know whether
planning is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.noise.reading import Reaction, read_reactions
from benchmarks.planning.tasks import CHECK, SolutionCall, Task
from tui_agent.engine.core.prompts import prompt
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenario_matching import ScriptedCall, ScriptedReply, from_wire, text_of
from tui_agent.models.scenarios import Response, Scenarios, ScenarioStep

TRAITS_FILE = Path(__file__).with_name("planning_model.json")
_NUMBER = re.compile(r"Task (\d+):")
_STEP = re.compile(r"^Step \d+: (.*)", re.MULTILINE)
_RETRY_MARK = "Do this instead:"
_ROLES = ("classify", "plan_steps", "diagnose", "verify_step", "summarize")
_ERROR_NAMES = {"not_found": ("not_found", "not found", "does not exist")}
"""Error class → texts that name it, if not only its own name."""
GAVE_UP = "I could not do it"


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """The abilities of the model, as probabilities."""

    foresight_asked: float
    """It thinks of the remedy if the request mentions prerequisites."""
    foresight_unasked: float
    """The same if the request does not."""
    fallback: float
    """The fallback that it names for a step helps."""
    insight: float
    """It finds the remedy when it is asked for a diagnosis with the failure and its error class."""
    bad_plan: float
    """Its first plan names a tool that does not exist."""
    no_plan: float
    """It returns no plan."""
    unsure: float
    """It reports low confidence in its plan."""


def traits() -> Traits:
    """The traits used by the benchmark."""
    return msgspec.json.decode(TRAITS_FILE.read_bytes(), type=Traits)


class PlanningModel:
    """Answers as dispatcher, planner, agent and summarizer, without state between requests."""

    def __init__(self, tasks: Iterable[Task], model_traits: Traits, seed: int = 0) -> None:
        self.scenarios = Scenarios()
        self._tasks = {task.number: task for task in tasks}
        self._traits = model_traits
        self._seed = seed

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        """The reply to a request body in OpenAI's or Ollama's form."""
        messages = [message for message in payload.get("messages", ()) if isinstance(message, Mapping)]
        system = "\n".join(text_of(message.get("content")) for message in messages if message.get("role") == "system")
        conversation = "\n".join(
            text_of(message.get("content")) for message in messages if message.get("role") != "system"
        )
        if request := from_wire(payload).task:  # a request outside the conversation
            system = request
        role = next((name for name in _ROLES if prompt(name).splitlines()[0] in system), "")
        task = self._task(conversation)
        if role == "summarize":
            return _text_reply(json.dumps({"log_entry": {"action": "Did the task", "result": "✓ done"}}))
        if role == "verify_step":
            return _text_reply(json.dumps({"met": GAVE_UP not in (request or conversation), "evidence": "the record"}))
        if task is None:
            return _text_reply("I do not know this task.")
        match role:
            case "classify":
                return _text_reply(_classification(task))
            case "plan_steps":
                is_retry = "can't be carried out" in system
                return _text_reply(self._plan(task, system, conversation, is_retry=is_retry))
            case "diagnose":
                return _text_reply(self._diagnosis(task, conversation))
        return self._work(task, messages, system)

    def _task(self, text: str) -> Task | None:
        found = _NUMBER.search(text)
        if found is not None:
            return self._tasks.get(int(found[1]))
        keys = [(key, task) for task in self._tasks.values() for key in map(_key, task.solution) if key in text]
        return max(keys, key=lambda pair: len(pair[0]), default=("", None))[1]

    def _has(self, task: Task, trait: str) -> bool:
        share: float = getattr(self._traits, trait)
        return Random(f"{self._seed}:{task.number}:{trait}").random() < share

    def _foresees(self, task: Task, system: str) -> bool:
        """Whether it thinks of the remedy before anything failed."""
        trait = "foresight_asked" if "prerequisite" in system else "foresight_unasked"
        return task.remedy is not None and self._has(task, trait)

    # --- structured replies ---

    def _plan(self, task: Task, system: str, request: str, *, is_retry: bool) -> str:
        """`is_retry`: the first plan was returned with an error."""
        if self._has(task, "no_plan"):
            return "I would look at the files first and then decide."
        failed = request.partition("What failed")[2]
        knows_remedy = _shows_remedy(task, failed) if failed else self._foresees(task, system)
        solution = [task.remedy, *task.solution] if task.remedy is not None and knows_remedy else list(task.solution)
        steps = [self._plan_step(task, call, number) for number, call in enumerate(solution, 1)]
        if self._has(task, "bad_plan") and not is_retry:
            steps[0] = {**steps[0], "tool": "teleport"}
        plan = {
            "approach": "the short way",
            "prerequisites": [task.remedy.description] if task.remedy is not None and knows_remedy else [],
            "steps": steps,
            "verification": {"check_command": CHECK, "success_criteria": "it prints passed"},
            "confidence": 0.55 if self._has(task, "unsure") else 0.85,
        }
        return json.dumps(plan)

    def _plan_step(self, task: Task, call: SolutionCall, number: int) -> dict[str, Any]:
        has_fallback = task.remedy is not None and self._has(task, "fallback")
        error_handling = (
            f"First this: {task.remedy_text}. Then the step again." if has_fallback else "Look at what it says."
        )
        return {
            "step_number": number,
            "description": call.description,
            "tool": call.tool,
            "args": {} if call.is_open else call.arguments,
            "expected_outcome": "it ends well",
            "error_handling": error_handling,
            "confidence": 0.85,
            "critical": True,
        }

    def _diagnosis(self, task: Task, record: str) -> str:
        if task.remedy is None or not _names_class(task, record) or not self._has(task, "insight"):
            return json.dumps({"cause": "it failed", "prerequisite": "", "strategy": "do it with more care"})
        return json.dumps(
            {
                "cause": f"what the {task.error_class} error asks for is not there",
                "prerequisite": task.remedy_text,
                "strategy": f"{task.remedy_text}, and then what failed once more",
            }
        )

    # --- work ---

    def _work(self, task: Task, messages: Sequence[Mapping[str, Any]], system: str) -> ResponderReply:
        start = next(
            index
            for index, message in enumerate(messages)
            if message.get("role") == "user" and _NUMBER.search(text_of(message.get("content")))
        )
        reactions = list(read_reactions(list(messages[start:])))
        newest = max((index for index, reaction in enumerate(reactions) if _is_step(reaction)), default=-1)
        step_start, solution, count_from = 0, list(task.solution), 0
        if newest >= 0:
            step_start = newest + 1
            solution, is_retry = _calls_of_step(task, reactions[: newest + 1])
            count_from = 0 if is_retry else step_start
        elif self._foresees(task, system) and task.remedy is not None:
            solution.insert(0, task.remedy)
        return self._next(task, solution, reactions, step_start, count_from, len(messages))

    def _next(
        self,
        task: Task,
        solution: list[SolutionCall],
        reactions: list[Reaction],
        step_start: int,
        count_from: int,
        number: int,
    ) -> ResponderReply:
        """The first call that is not done, its remedy, or the final text."""
        has_evidence = bool(task.evidence) and any(task.evidence in reaction.text for reaction in reactions)
        for call in solution:
            arguments = call.corrected if has_evidence and call.corrected else call.arguments
            attempts = [
                index for index, reaction in enumerate(reactions) if _is_result_of(reaction, call.tool, arguments)
            ]
            if (last := [index for index in attempts if index >= count_from]) and reactions[last[-1]].succeeded:
                continue
            failed = [index for index in attempts if not reactions[index].succeeded]
            if failed and task.remedy is not None:
                window = "\n".join(reaction.text for reaction in reactions[failed[0] :])
                done = any(
                    _is_result_of(reaction, task.remedy.tool, task.remedy.arguments) and reaction.succeeded
                    for reaction in reactions[failed[0] :]
                )
                if _shows_remedy(task, window) and not done:
                    return _call_reply(task.remedy.tool, task.remedy.arguments, number)
            if sum(index >= step_start for index in failed) < 2:
                return _call_reply(call.tool, arguments, number)
            return _text_reply(f"{GAVE_UP}: {reactions[failed[-1]].text[:200]}")
        found = (
            f" What it showed: {task.evidence}" if has_evidence else ""
        )  # the only result of a step that is passed on
        return _text_reply(f"{solution[-1].description if solution else 'The step'}: that is done.{found}")


def _calls_of_step(task: Task, reactions: list[Reaction]) -> tuple[list[SolutionCall], bool]:
    """The calls that the newest step requires, and whether it is a retry after a failure."""
    text = reactions[-1].text
    is_retry = _RETRY_MARK in text
    described = next((found[1] for reaction in reversed(reactions) if (found := _STEP.search(reaction.text))), "")
    candidates = [*([task.remedy] if task.remedy is not None else ()), *task.solution]
    index = next((index for index, call in enumerate(candidates) if call.description in described), None)
    if index is None:
        return (list(task.solution) if is_retry else []), is_retry
    if is_retry and candidates[index] in task.solution:
        return list(task.solution[: task.solution.index(candidates[index]) + 1]), is_retry
    return [candidates[index]], is_retry


def _is_step(reaction: Reaction) -> bool:
    return reaction.source == "program" and (_RETRY_MARK in reaction.text or _STEP.search(reaction.text) is not None)


def _is_result_of(reaction: Reaction, tool: str, arguments: Mapping[str, Any]) -> bool:
    return reaction.source == "result" and reaction.name == tool and reaction.arguments == arguments


def _shows_remedy(task: Task, text: str) -> bool:
    """Whether a text about a failure names the error class and the remedy."""
    needs = task.remedy_text in text or (bool(task.evidence) and task.evidence in text)
    return needs and _names_class(task, text)


def _names_class(task: Task, text: str) -> bool:
    name = task.error_class
    return any(word in text.lower() for word in _ERROR_NAMES.get(name, (name, name.replace("_", " "))))


def _key(call: SolutionCall) -> str:
    return str(next(iter(call.arguments.values())))


def _classification(task: Task) -> str:
    return json.dumps(
        {
            "intent": "modify",
            "needs_write": True,
            "task_type": "coding",
            "complexity": "simple" if task.simple else "moderate",
            "reasoning": "it changes files",
        }
    )


def _text_reply(text: str) -> ResponderReply:
    return ResponderReply(
        choice=ScriptedReply(scenario="", index=0, step=ScenarioStep(response=Response(content=text)))
    )


def _call_reply(tool: str, arguments: Mapping[str, Any], number: int) -> ResponderReply:
    call = ScriptedCall(id=f"call_mock_{number}", name=tool, raw=json.dumps(arguments, ensure_ascii=False))
    return ResponderReply(
        choice=ScriptedReply(scenario="", index=0, step=ScenarioStep(response=Response()), calls=(call,))
    )
