"""How a command that prints ends: what went wrong is told in a line, never as a traceback (rule 7)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

INTERRUPTED = 130


def tell(text: str) -> None:
    """One line to stderr, in the program's name; what it quotes can't steer the terminal."""
    from tui_agent.text import clean, reveal

    line = f"tui-agent: {reveal(clean(text))}\n"
    sys.stderr.write(line.encode("utf-8", "replace").decode())


def ended(work: Callable[[], int], codes: Mapping[type[Exception], int]) -> int:
    """The exit code of `work`; an error that `codes` holds is told and has that code, Ctrl+C has 130."""
    try:
        return work()
    except tuple(codes) as error:
        tell(str(error))
        return next(code for kind, code in codes.items() if isinstance(error, kind))
    except BrokenPipeError:
        _leave_stdout()  # nobody reads on
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped.\n")
        return INTERRUPTED


def printed(work: Callable[[], int]) -> int:
    """The exit code of `work`, once all that it printed has left; 0 where a reader had enough before the end, 1 where
    the output, or something else on a disk, could not be written, which is told."""
    try:
        code = work()
    except BrokenPipeError:
        _leave_stdout()
        return 0
    except OSError as error:
        return _unwritten(error)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_stdout()
    except OSError as error:
        return _unwritten(error)
    return code


def _unwritten(error: OSError) -> int:
    _leave_stdout()
    where = f"{error.filename}: " if error.filename is not None else "the output can't be written: "
    tell(f"{where}{error.strerror or error}")
    return 1


def _leave_stdout() -> None:
    """What is still held back goes nowhere, so that the end of the program does not fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
