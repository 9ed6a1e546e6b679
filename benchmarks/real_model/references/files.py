"""Reference B: the request contains the files, the reply complete new ones, which are checked and corrected."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.real_model.references.project import (
    NOT_DONE,
    ask,
    changed_files,
    first_messages,
    parse_files,
    read_project,
    write_files,
)

TURNS = 4
MAX_TOKENS = 1500
UNCHANGED = (
    "Nothing changed: these are the files as they were. Look for what the request asks for, "
    "and reply with the files changed."
)


def check_changes(changed: Iterable[str]) -> str:
    """The errors of compiler and tests; "" for none."""
    for name in changed:
        if name.endswith(".py"):
            command = [sys.executable, "-m", "py_compile", name]
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode:
                return process.stderr[-800:]
    if any(re.match(r"test_.*\.py$|.*_test\.py$", Path(name).name) for name in read_project()):
        command = [sys.executable, "-B", "-m", "unittest"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if process.returncode not in (0, 5):
            return (process.stdout + process.stderr)[-1200:]
    return ""


def work(base_url: str, prompt: str) -> int:
    """Work on the request in the current folder; return the exit code."""
    files = read_project()
    messages = first_messages(files, prompt)
    for turn in range(TURNS):
        text = ask(base_url, messages, MAX_TOKENS)
        messages.append({"role": "assistant", "content": text})
        replied = parse_files(text, files)
        changed = changed_files(replied, files)
        if not changed and replied and turn < TURNS - 1:
            messages.append({"role": "user", "content": UNCHANGED})
            continue
        if not changed:
            print(text)
            return NOT_DONE if replied else 0
        write_files(changed)
        errors = check_changes(changed)
        print("wrote", *changed, "|", errors[-200:], flush=True)
        if not errors:
            return 0
        feedback = f"Checking the change gave:\n{errors}\n\nReply with the complete corrected files."
        messages.append({"role": "user", "content": feedback})
    return NOT_DONE


def main() -> int:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="reference-files", description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("prompt")
    options = parser.parse_args()
    return work(options.base_url, options.prompt)
