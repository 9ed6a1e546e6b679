from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import re, sys
from tui_agent.tui.base_app import preload_for_run
preload_for_run()
loaded, compiled, compile = set(sys.modules), [], re.compile
re.compile = lambda *args: compiled.append(args) or compile(*args)
from tui_agent.engine.checks.request_reading import read_request
from tui_agent.tools.registry import default_tools
read_request("Fix the bug in src/a.py, so that the tests pass.")
default_tools().specs()
print(sorted(set(sys.modules) - loaded), compiled)
"""


def test_a_first_message_finds_everything_loaded_that_was_prepared_while_it_was_typed() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert output == "[] []\n"
