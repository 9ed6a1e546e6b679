from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_agent.commands.calibration import CalibrationNotSaved, save_calibration, with_calibration
from tui_agent.models.catalog import Calibration, parse_catalog

FOUND = Calibration(strategy="files", date="2026-01-31", tokens_per_second=19.8, scores={"files": 1.0})
VALUE = '{"strategy": "files", "date": "2026-01-31", "tokensPerSecond": 19.8, "scores": {"files": 1.0}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "models": {"m": {"calibration": VALUE}}\n}'),
        ('{"models": {}}', '{"models": {\n  "m": {"calibration": VALUE}\n}}'),
        ('{"models": {"m": {"prompt": "x"}}}', '{"models": {"m": {"prompt": "x", "calibration": VALUE}}}'),
        (
            '{\n\t"models": {\n\t\t"a": {},\n\t\t"b": {"prompt" : "ä}"}\n\t}\n}\n',
            '{\n\t"models": {\n\t\t"a": {},\n\t\t"b": {"prompt" : "ä}"},\n\t\t"m": {"calibration": VALUE}\n\t}\n}\n',
        ),
        (
            '{"models": {"m:latest": {"calibration": {"old": [1]} , "prompt": ""}}, "x": 1}',
            '{"models": {"m:latest": {"calibration": VALUE , "prompt": ""}}, "x": 1}',
        ),
        (
            '{"models": {\r\n  "m": {\r\n    "prompt": "x"\r\n  }\r\n}}',
            '{"models": {\r\n  "m": {\r\n    "prompt": "x",\r\n    "calibration": VALUE\r\n  }\r\n}}',
        ),
    ],
)
def test_only_the_entry_changes(before: str, after: str) -> None:
    assert with_calibration(before, "m", FOUND) == after.replace("VALUE", VALUE)


@pytest.mark.parametrize("text", ["", "[]", '{"models": []}', '{"models": {"m": 1}}', '{"models": {'])
def test_a_file_that_is_not_as_it_should_be_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "models.json"
    path.write_text(text)
    with pytest.raises(CalibrationNotSaved):
        save_calibration(path, "m", FOUND)
    assert path.read_text() == text


names = st.sampled_from(["m", "m:latest", "models", "calibration", "b{", 'q"', "x"])
values = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
entries = st.dictionaries(names, st.dictionaries(names, values, max_size=3), max_size=3)


@given(entries, values, st.sampled_from([None, 1, "\t"]))
def test_all_else_is_the_same_afterwards(models: dict[str, object], more: object, indent: str | None) -> None:
    whole = {"x": more, "models": models, "y": more}
    again = json.loads(with_calibration(json.dumps(whole, indent=indent), "m", FOUND))
    name = "m" if "m" in models or "m:latest" not in models else "m:latest"
    assert again["models"][name].pop("calibration") == json.loads(VALUE)
    first = {**models, name: {**models.get(name, {})}}  # type: ignore[dict-item]  # entries are objects
    first[name].pop("calibration", None)  # type: ignore[attr-defined]  # as above
    assert again == {**whole, "models": first}


def test_what_is_kept_can_be_read_and_its_mistakes_are_named() -> None:
    read = parse_catalog(with_calibration('{"models": {}}', "m", FOUND))
    assert read.catalog is not None and read.catalog.entry("m").calibration == FOUND
    wrong = parse_catalog('{"models": {"m": {"calibration": {"strategy": "smoke", "odd": 1, "cachedShare": 2}}}}')
    assert [one.field for one in wrong.problems] == [
        "models.m.calibration.odd",
        "models.m.calibration.strategy",
        "models.m.calibration.cachedShare",
    ]
