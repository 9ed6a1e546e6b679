from __future__ import annotations

import functools
import json
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scenes import from_data
from tui_agent.common.domain import Action, FrozenValue, action_digest
from tui_agent.events import TABLE, Event, to_data

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@functools.cache
def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is Any:
        return JSON_VALUES
    if isinstance(kind, type) and issubclass(kind, FrozenValue | Event):
        hints = typing.get_type_hints(kind)
        names = kind.__struct_fields__
        return st.fixed_dictionaries({name: values_of(hints[name]) for name in names}).map(lambda d: kind(**d))
    origin = typing.get_origin(kind)
    if origin is dict:
        inner = values_of(typing.get_args(kind)[1])
        return st.dictionaries(st.text(max_size=5), inner, max_size=3)
    if origin is tuple:
        return st.lists(values_of(typing.get_args(kind)[0]), max_size=2).map(tuple)
    if origin is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if origin is not None:
        return st.one_of([values_of(inner) for inner in typing.get_args(kind)])
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    return st.from_type(kind)


@pytest.mark.parametrize("name", sorted(TABLE))
@given(data=st.data())
def test_every_event_survives_the_way_through_json(name: str, data: st.DataObject) -> None:
    event = data.draw(values_of(TABLE[name]))
    line = msgspec.json.encode(to_data(event))
    assert from_data(name, json.loads(line)) == event


@given(data=st.data())
def test_an_approval_is_bound_to_every_field_of_its_action(data: st.DataObject) -> None:
    first = data.draw(values_of(Action))
    second = data.draw(values_of(Action))
    assert (action_digest(first) == action_digest(second)) == (first == second)
