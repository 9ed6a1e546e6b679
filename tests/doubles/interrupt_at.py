"""Runs `tui-agent` and interrupts it at one moment: `python -m tests.doubles.interrupt_at MOMENT FILE [ARGUMENT ...]`.

MOMENT is the number of function calls after which the process sends itself SIGINT, as Ctrl+C does; 0 for never. FILE is
created when it does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path


def main() -> None:
    moment, file, *arguments = int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    sys.argv = ["tui-agent", *arguments]
    import tui_agent  # noqa: F401  # the calls are counted from here on: its first lines handle the signal

    calls = count(1)

    def profile(_frame: object, event: str, _argument: object) -> None:
        if event == "call" and next(calls) == moment:
            sys.setprofile(None)
            threading.setprofile(None)
            file.touch()
            os.kill(os.getpid(), signal.SIGINT)

    if moment:
        threading.setprofile(profile)
        sys.setprofile(profile)
    from tui_agent.__main__ import main

    sys.exit(main())


if __name__ == "__main__":
    main()
