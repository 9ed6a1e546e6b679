"""Against a real server: TUI_AGENT_TEST_BASE_URL, and if wanted TUI_AGENT_TEST_MODEL and LLM_AUTH_TOKEN."""

from __future__ import annotations

import os

import pytest

from tests.models.asking import TOOL, ask, make_request
from tui_agent.common.domain import AssistantMessage, ToolMessage, UserMessage
from tui_agent.models.base import Model
from tui_agent.models.connect import connect

BASE_URL = os.environ.get("TUI_AGENT_TEST_BASE_URL", "")
pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BASE_URL, reason="TUI_AGENT_TEST_BASE_URL names no server"),
]


async def chosen(model: Model) -> str:
    names = await model.list_models()
    assert isinstance(names, tuple), names
    return os.environ.get("TUI_AGENT_TEST_MODEL") or names[0]


async def test_text_is_streamed_and_counted():
    model = connect("openai", BASE_URL)
    reply = await ask(
        model, make_request(UserMessage(text="Say only: pong"), model=await chosen(model), max_tokens=512)
    )
    assert reply.text or reply.thought
    assert reply.stop in ("stop", "length")
    await model.aclose()


async def test_a_tool_is_called_and_its_result_understood():
    model = connect("openai", BASE_URL)
    name = await chosen(model)
    question = UserMessage(text="Call read_file with the path notes.txt, then tell me what it says.")
    reply = await ask(model, make_request(question, model=name, tools=(TOOL,), max_tokens=2048))
    assert [call.name for call in reply.calls] == ["read_file"]
    call = reply.calls[0]
    assert call.fault is None and call.arguments.get("path") == "notes.txt"
    history = (
        question,
        AssistantMessage(text=reply.text, calls=(call,), reasoning=reply.thought),
        ToolMessage(call_id=call.id, name=call.name, text="The password is swordfish."),
    )
    reply = await ask(model, make_request(*history, model=name, tools=(TOOL,), max_tokens=2048))
    assert "swordfish" in reply.text
    await model.aclose()
