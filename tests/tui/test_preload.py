from __future__ import annotations

import subprocess
import sys
from ast import literal_eval

PROGRAM = """
import re, sys, threading
from tui_agent.tui.base_app import preload_for_run
preload_for_run()
[thread.join() for thread in threading.enumerate() if thread.daemon]  # that reads the lexer
loaded, compiled, compile = set(sys.modules), [], re.compile
re.compile = lambda *args: compiled.append(args) or compile(*args)
from tui_agent.engine.checks.request_reading import read_request
from tui_agent.tools.registry import default_tools
read_request("Fix the bug in src/a.py, so that the tests pass.")
default_tools().specs()
print(sorted(set(sys.modules) - loaded), compiled)
"""

PROMPT = """
import sys
import tui_agent.tui.run, tui_agent.engine.opening, tui_agent.models.connect, tui_agent.models.openai
from tui_agent.platform.lean_imports import import_without
import_without("httpx", "_main", "main")
print(sorted({name.partition(".")[0] for name in sys.modules} | set(sys.modules)))
"""
NOT_AT_THE_PROMPT = {
    "charset_normalizer", "click", "configparser", "importlib.resources", "jinja2", "linkify_it", "markdown_it", "pathspec", "pyflakes",
    "pygments", "starlette", "tui_agent.engine.checks.request_reading", "tui_agent.engine.loop.loop", "tui_agent.engine.workflow.workflow", "tui_agent.export",
    "tui_agent.lsp", "tui_agent.protocols.file_reply", "tui_agent.tools.registry", "uvicorn", "watchfiles", "websockets", "yaml", "zipfile",
}  # fmt: skip
"""Modules that an idle session does not need: some of them are prepared once a message has begun."""


def test_an_idle_session_holds_only_what_it_shows() -> None:
    output = subprocess.run([sys.executable, "-c", PROMPT], capture_output=True, text=True, check=True).stdout
    assert NOT_AT_THE_PROMPT & set(literal_eval(output)) == set()


def test_a_first_message_finds_everything_loaded_that_was_prepared_while_it_was_typed() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert output == "[] []\n"
