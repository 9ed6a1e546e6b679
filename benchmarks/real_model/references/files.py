"""Reference B: the files go into the request, whole files come back, are checked, and are asked for anew if need be."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.real_model.references.project import NOT_DONE, ask, blocks, changes, opening, project, write

TURNS = 4
MAX_TOKENS = 1500
UNCHANGED = (
    "Nothing changed: these are the files as they were. Look for what the request asks for, "
    "and reply with the files changed."
)


def trouble_with(changed: Iterable[str]) -> str:
    """What compiler and tests say against the files; empty when nothing."""
    for name in changed:
        if name.endswith(".py"):
            command = [sys.executable, "-m", "py_compile", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.stderr[-800:]
    if any(re.match(r"test_.*\.py$|.*_test\.py$", Path(name).name) for name in project()):
        command = [sys.executable, "-B", "-m", "unittest"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode not in (0, 5):
            return (done.stdout + done.stderr)[-1200:]
    return ""


def work(base_url: str, prompt: str) -> int:
    """Work on the request in the current folder. Returns the exit code."""
    known = project()
    messages = opening(known, prompt)
    for turn in range(TURNS):
        text = ask(base_url, messages, MAX_TOKENS)
        messages.append({"role": "assistant", "content": text})
        found = blocks(text, known)
        changed = changes(found, known)
        if not changed and found and turn < TURNS - 1:
            messages.append({"role": "user", "content": UNCHANGED})
            continue
        if not changed:
            print(text)
            return NOT_DONE if found else 0
        write(changed)
        trouble = trouble_with(changed)
        print("wrote", *changed, "|", trouble[-200:], flush=True)
        if not trouble:
            return 0
        again = f"Checking the change gave:\n{trouble}\n\nReply with the complete corrected files."
        messages.append({"role": "user", "content": again})
    return NOT_DONE


def main() -> int:
    """Read the command line and work."""
    parser = argparse.ArgumentParser(prog="reference-files", description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("prompt")
    options = parser.parse_args()
    return work(options.base_url, options.prompt)
