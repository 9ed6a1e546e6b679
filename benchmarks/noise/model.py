"""A model whose replies are corrupted at a given rate, determined by a seed, until the request tells it the mistake.

The fault depends on the request alone: the same conversation gets the same corrupted reply, except for faults of the
transport, which occur once.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from benchmarks.noise.draft import Draft, draft_of, with_text_calls
from benchmarks.noise.families import FAMILIES, Family, can_corrupt, repeat_calls
from benchmarks.noise.reading import Progress, progress_of
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenario_matching import ScriptedReply, choose_reply, from_wire, reply_at, text_of
from tui_agent.models.scenarios import Scenarios

_PASSED_MAX = 10_000
"""Transient faults that are remembered."""
_CHAIN_MAX = 50
"""Maximum number of consecutive faults before a step."""


class NoiseError(ValueError):
    """Invalid noise options; the message says why."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How noisy a model is. Raises NoiseError for invalid values."""

    rate: float
    """Share of corrupted replies, 0 to 1."""
    seed: int = 0
    families: tuple[str, ...] = tuple(FAMILIES)

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise NoiseError(f"the rate of noise must be between 0 and 1, not {self.rate:g}")
        if unknown := [name for name in self.families if name not in FAMILIES]:
            raise NoiseError(f"no family of noise is called {unknown[0]}; there are {', '.join(FAMILIES)}")
        if not self.families:
            raise NoiseError("noise needs at least one family")


class NoisyModel:
    """Answers from scenarios, with noise. Its only state are the transient faults that have occurred."""

    def __init__(self, scenarios: Scenarios, noise: Noise) -> None:
        self.scenarios = scenarios
        self._noise = noise
        self._families = [family for name, family in FAMILIES.items() if name in noise.families]
        self._passed: OrderedDict[str, None] = OrderedDict()

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        """The reply to a request body in OpenAI's or Ollama's form."""
        conversation = from_wire(payload)
        listed = payload.get("messages")
        messages = [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, Mapping)]
        progress = progress_of(messages, self.scenarios, conversation)
        if progress is None:
            return ResponderReply(choice=choose_reply(self.scenarios, conversation))
        choice = reply_at(progress.scenario, progress.index, progress.latest, conversation)
        correct = draft_of(choice, payload)
        corrupted, family = self._corrupt(progress, correct, payload)
        fault = corrupted.fault if corrupted is not None else None
        return ResponderReply(choice=_scripted_reply(choice, corrupted or correct), family=family, fault=fault)

    def _corrupt(self, progress: Progress, correct: Draft, payload: Mapping[str, Any]) -> tuple[Draft | None, str]:
        """Return the current fault: one that was corrected or has passed is followed by the next draw."""
        reactions = iter(progress.unanswered)
        for number in range(_CHAIN_MAX):
            key = f"{self._noise.seed}\0{progress.message}\0{progress.index}\0{number}"
            rng = Random(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest())
            family = self._draw(rng, correct, progress.index)
            if family is None:
                return None, ""
            draft = self._apply(family, rng, correct, progress, payload)
            if family.is_transient:
                if not self._has_passed(key):
                    return draft, family.name
            elif not any(family.is_cured_by(reaction, draft) for reaction in reactions):
                return draft, family.name
            elif draft.remainder and _last_reply(payload) == draft.content.strip():
                return draft.replace(content=draft.remainder, remainder="", reason=None), ""
        return None, ""

    def _draw(self, rng: Random, correct: Draft, index: int) -> Family | None:
        if rng.random() >= self._noise.rate:
            return None
        candidates = [family for family in self._families if can_corrupt(family, correct, index)]
        return rng.choice(candidates) if candidates else None

    def _apply(
        self, family: Family, rng: Random, correct: Draft, progress: Progress, payload: Mapping[str, Any]
    ) -> Draft:
        if family.name == "repeat":
            previous = reply_at(progress.scenario, progress.index - 1, progress.latest, from_wire(payload))
            return repeat_calls(correct, previous.calls)
        return family.corrupt(correct, rng)

    def _has_passed(self, key: str) -> bool:
        """Whether a transient fault has occurred before; records it."""
        if key in self._passed:
            return True
        self._passed[key] = None
        if len(self._passed) > _PASSED_MAX:
            self._passed.popitem(last=False)
        return False


def _last_reply(payload: Mapping[str, Any]) -> str:
    """The model's latest message: a reply is continued only if the request contains its beginning."""
    for message in reversed(payload["messages"]):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            return text_of(message.get("content")).strip()
    return ""


def _scripted_reply(choice: ScriptedReply, draft: Draft) -> ScriptedReply:
    text = with_text_calls(draft)
    response = msgspec.structs.replace(
        choice.step.response, content=text.content, thinking=text.thinking, finish_reason=text.reason
    )
    step = msgspec.structs.replace(choice.step, response=response)
    return msgspec.structs.replace(choice, step=step, calls=text.calls)
