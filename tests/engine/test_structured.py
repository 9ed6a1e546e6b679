from __future__ import annotations

import pytest

from tui_agent.engine.loop.structured import has_object_start


@pytest.mark.parametrize(
    "text",
    [
        '{"intent": "modify"}',
        '  {\n  "steps": [',
        'Here is the plan:\n\n```json\n{"approach": "x"',
        'The plan: {"approach"',
        'Sure. {"approach"',
        '<plan>{"approach"',
        "{'approach': 'x'",
        '[{"step": 1',
        "{}",
    ],
)
def test_an_object_begins(text: str) -> None:
    assert has_object_start(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I think about it.",
        "```python\nout, i = [], 0\nwhile out:\n    out = {'a': 1}\n```",
        "- [x] done\n- [ ] open",
        "See [the guide](https://example.org).",
        "{not an object",
    ],
)
def test_words_and_code_are_none(text: str) -> None:
    assert not has_object_start(text)
