"""Reference C: like B, with up to seven candidates. One that changes something, parses, passes the tests and holds what
the request names counts; the first that comes twice is taken, else the most frequent."""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.real_model.references.project import (
    NOT_DONE,
    Files,
    Messages,
    blocks,
    changes,
    opening,
    post,
    project,
    write,
)

CANDIDATES = 7
MAX_TOKENS = 900
FIRST_SEED = 11


def candidate(base_url: str, messages: Messages, temperature: float, seed: int) -> str:
    """The text of one reply; empty when it goes round in circles, at which it is broken off."""
    body = {
        "model": "m",
        "messages": messages,
        "temperature": temperature,
        "seed": seed,
        "max_tokens": MAX_TOKENS,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    text = ""
    with post(base_url, body) as response:
        for raw in response:
            line = raw.decode().strip()
            if line.startswith("data: {"):
                for choice in json.loads(line[6:]).get("choices", []):
                    text += (choice.get("delta") or {}).get("content") or ""
                if _circles(text):
                    return ""
    return text


def _circles(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 40 and Counter(lines).most_common(1)[0][1] > 8:
        return True
    return len(text) > 400 and text[-60:] * 3 in text


def names_in(prompt: str) -> list[str]:
    """Functions, files, options that the request names."""
    names = [
        word
        for word in re.findall(r"[A-Za-z_][\w.-]*\w", prompt)
        if ("_" in word or re.search(r"\.\w{1,4}$", word) or re.search(rf"(?<![\w.]){re.escape(word)}\(", prompt))
        and not word.endswith(("Error", "Exception"))
        and not word.isupper()
    ]
    return names + re.findall(r"(?<!\w)--\w[\w-]*", prompt)


def faults(changed: Files, prompt: str) -> str:
    """What speaks against the candidate that was just written; empty when nothing."""
    found, now = [], project()
    for name, text in changed.items():
        if name.endswith(".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                found.append(f"{name}: {error}")
    everything = "\n".join(now.values()) + "\n".join(now)
    found += [
        f"The request names {name}, but it is nowhere in the project now."
        for name in dict.fromkeys(names_in(prompt))
        if name not in everything and name.split(".")[0] not in everything
    ]
    if not found and any(re.match(r"test_.*\.py$", Path(name).name) for name in now):
        command = [sys.executable, "-B", "-m", "unittest"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode not in (0, 5):
            found.append((done.stdout + done.stderr)[-900:])
    return "\n".join(found)


def restore(known: Files) -> None:
    """Make the project what it was."""
    for name in project():
        if name not in known:
            Path(name).unlink()
    write(known)


def work(base_url: str, prompt: str) -> int:
    """Work on the request in the current folder. Returns the exit code."""
    known = project()
    first = messages = opening(known, prompt)
    votes: Counter[str] = Counter()
    for number in range(CANDIDATES):
        text = candidate(base_url, messages, 0 if number == 0 else 0.7, FIRST_SEED + number)
        changed, messages = changes(blocks(text, known), known), first
        if number == 0 and text and not changed and "```" not in text:
            print(text)
            return 0 if "?" in prompt or "nly answer" in prompt else NOT_DONE
        if not changed:
            continue
        restore(known)
        write(changed)
        if wrong := faults(changed, prompt):
            again = f"That is not right yet:\n{wrong}\n\nReply with the complete corrected files."
            messages = [*first, {"role": "assistant", "content": text}, {"role": "user", "content": again}]
            continue
        key = json.dumps(sorted(changed.items()))
        votes[key] += 1
        if votes[key] == 2:
            break
    restore(known)
    if not votes:
        print("not done")
        return NOT_DONE
    write(dict(json.loads(votes.most_common(1)[0][0])))
    print(f"{len(votes)} candidates, the best came {max(votes.values())} times")
    return 0


def main() -> int:
    """Read the command line and work."""
    parser = argparse.ArgumentParser(prog="reference-votes", description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("prompt")
    options = parser.parse_args()
    return work(options.base_url, options.prompt)
