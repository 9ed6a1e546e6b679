"""A model that does its work but for the noise: replies are spoilt at a rate, by seed, until the model is told why.

What is spoilt follows from the request alone: the same conversation meets the same fault, so asking again blindly
gets the same bad reply. Only faults of the transport pass by themselves.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from benchmarks.noise.draft import Draft, draft_of, in_writing
from benchmarks.noise.families import FAMILIES, Family, repeating, strikes
from benchmarks.noise.reading import Standing, standing
from tui_agent.mock_server.replies import ResponderReply
from tui_agent.models.scenario_matching import ScriptedReply, choose_reply, from_wire, reply_at, text_of
from tui_agent.models.scenarios import Scenarios

_PASSED_MAX = 10_000
"""How many faults that passed are remembered."""
_CHAIN_MAX = 50
"""Faults one after the other before one step, at most."""


class NoiseError(ValueError):
    """Noise can't be made so; the message says why."""


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """How noisy a model is. Raises NoiseError for what can't be."""

    rate: float
    """Share of the replies that are spoilt, 0 to 1."""
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
    """Answers from scenarios, with noise. Remembers only which faults of the transport were met."""

    def __init__(self, scenarios: Scenarios, noise: Noise) -> None:
        self.scenarios = scenarios
        self._noise = noise
        self._families = [family for name, family in FAMILIES.items() if name in noise.families]
        self._passed: OrderedDict[str, None] = OrderedDict()

    def answer(self, payload: Mapping[str, Any]) -> ResponderReply:
        """The reply to a request body in OpenAI's or Ollama's form."""
        conversation = from_wire(payload)
        messages = payload.get("messages")
        given = [one for one in (messages if isinstance(messages, list) else ()) if isinstance(one, Mapping)]
        place = standing(given, self.scenarios, conversation)
        if place is None:
            return ResponderReply(choice=choose_reply(self.scenarios, conversation))
        choice = reply_at(place.scenario, place.index, place.latest, conversation)
        right = draft_of(choice, payload)
        spoilt, family = self._spoilt(place, right, payload)
        fault = spoilt.fault if spoilt is not None else None
        return ResponderReply(choice=_as_choice(choice, spoilt or right), family=family, fault=fault)

    def _spoilt(self, place: Standing, right: Draft, payload: Mapping[str, Any]) -> tuple[Draft | None, str]:
        """The fault that stands now: each that was cured, or has passed, makes room for the next draw."""
        told = iter(place.told)
        for number in range(_CHAIN_MAX):
            key = f"{self._noise.seed}\0{place.words}\0{place.index}\0{number}"
            rng = Random(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest())
            family = self._drawn(rng, right, place.index)
            if family is None:
                return None, ""
            draft = self._made(family, rng, right, place, payload)
            if family.passes:
                if not self._met(key):
                    return draft, family.name
            elif not any(family.cure(heard, draft) for heard in told):
                return draft, family.name
            elif draft.rest and _last_said(payload) == draft.content.strip():
                return draft.but(content=draft.rest, rest="", reason=None), ""
        return None, ""

    def _drawn(self, rng: Random, right: Draft, index: int) -> Family | None:
        if rng.random() >= self._noise.rate:
            return None
        fitting = [family for family in self._families if strikes(family, right, index)]
        return rng.choice(fitting) if fitting else None

    def _made(self, family: Family, rng: Random, right: Draft, place: Standing, payload: Mapping[str, Any]) -> Draft:
        if family.name == "repeat":
            before = reply_at(place.scenario, place.index - 1, place.latest, from_wire(payload))
            return repeating(right, before.calls)
        return family.spoil(right, rng)

    def _met(self, key: str) -> bool:
        """Whether a fault was met before; from now on it was."""
        if key in self._passed:
            return True
        self._passed[key] = None
        if len(self._passed) > _PASSED_MAX:
            self._passed.popitem(last=False)
        return False


def _last_said(payload: Mapping[str, Any]) -> str:
    """The model's own newest message: a reply is continued only where the request holds its beginning."""
    for one in reversed(payload["messages"]):
        if isinstance(one, Mapping) and one.get("role") == "assistant":
            return text_of(one.get("content")).strip()
    return ""


def _as_choice(choice: ScriptedReply, draft: Draft) -> ScriptedReply:
    text = in_writing(draft)
    response = msgspec.structs.replace(
        choice.step.response, content=text.content, thinking=text.thinking, finish_reason=text.reason
    )
    step = msgspec.structs.replace(choice.step, response=response)
    return msgspec.structs.replace(choice, step=step, calls=text.calls)
