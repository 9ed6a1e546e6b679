"""tui-agent: a coding agent for the terminal that runs on your own model."""

from __future__ import annotations

import signal
import sys

_is_program = sys.argv[0] == "-m" or sys.argv[0].endswith("tui-agent")
if _is_program and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl+C ends the program without a traceback, until a front end handles the signal. Nothing else is imported
    # before, as imports take most of the start.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from pathlib import Path  # noqa: E402  # after Ctrl+C can do no harm

__version__ = "0.1.0"

_PACKAGE = Path(__file__).resolve().parent
_BUNDLED = _PACKAGE / "_lib"

ROOT: Path = _BUNDLED if _BUNDLED.is_dir() else _PACKAGE.parent
"""Where `widgets/` and `styles/` lie: inside an installed wheel, or the checkout."""
