"""Reference C: like B, with up to seven candidates.

A candidate counts if it changes something, parses, passes the tests and contains the names in the request. The first
one that occurs twice is used, else the most frequent one.
"""

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
    changed_files,
    first_messages,
    parse_files,
    post,
    read_project,
    write_files,
)

CANDIDATES = 7
MAX_TOKENS = 900
FIRST_SEED = 11


def candidate(base_url: str, messages: Messages, temperature: float, seed: int) -> str:
    """The text of a reply; "" if it was aborted because it repeats itself."""
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
                if _repeats_itself(text):
                    return ""
    return text


def _repeats_itself(text: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 40 and Counter(lines).most_common(1)[0][1] > 8:
        return True
    return len(text) > 400 and text[-60:] * 3 in text


def names_in(prompt: str) -> list[str]:
    """The functions, files and options that the request names."""
    names = [
        word
        for word in re.findall(r"[A-Za-z_][\w.-]*\w", prompt)
        if ("_" in word or re.search(r"\.\w{1,4}$", word) or re.search(rf"(?<![\w.]){re.escape(word)}\(", prompt))
        and not word.endswith(("Error", "Exception"))
        and not word.isupper()
    ]
    return names + re.findall(r"(?<!\w)--\w[\w-]*", prompt)


def faults(changed: Files, prompt: str) -> str:
    """The faults of the candidate that was just written; "" for none."""
    errors, current = [], read_project()
    for name, text in changed.items():
        if name.endswith(".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                errors.append(f"{name}: {error}")
    content = "\n".join(current.values()) + "\n".join(current)
    errors += [
        f"The request names {name}, but it is nowhere in the project now."
        for name in dict.fromkeys(names_in(prompt))
        if name not in content and name.split(".")[0] not in content
    ]
    if not errors and any(re.match(r"test_.*\.py$", Path(name).name) for name in current):
        command = [sys.executable, "-B", "-m", "unittest"]
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if process.returncode not in (0, 5):
            errors.append((process.stdout + process.stderr)[-900:])
    return "\n".join(errors)


def restore(original: Files) -> None:
    """Restore the project."""
    for name in read_project():
        if name not in original:
            Path(name).unlink()
    write_files(original)


def work(base_url: str, prompt: str) -> int:
    """Work on the request in the current folder; return the exit code."""
    original = read_project()
    first = messages = first_messages(original, prompt)
    votes: Counter[str] = Counter()
    for number in range(CANDIDATES):
        text = candidate(base_url, messages, 0 if number == 0 else 0.7, FIRST_SEED + number)
        changed, messages = changed_files(parse_files(text, original), original), first
        if number == 0 and text and not changed and "```" not in text:
            print(text)
            return 0 if "?" in prompt or "nly answer" in prompt else NOT_DONE
        if not changed:
            continue
        restore(original)
        write_files(changed)
        if errors := faults(changed, prompt):
            feedback = f"That is not right yet:\n{errors}\n\nReply with the complete corrected files."
            messages = [*first, {"role": "assistant", "content": text}, {"role": "user", "content": feedback}]
            continue
        key = json.dumps(sorted(changed.items()))
        votes[key] += 1
        if votes[key] == 2:
            break
    restore(original)
    if not votes:
        print("not done")
        return NOT_DONE
    write_files(dict(json.loads(votes.most_common(1)[0][0])))
    print(f"{len(votes)} candidates, the best came {max(votes.values())} times")
    return 0


def main() -> int:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="reference-votes", description=__doc__)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("prompt")
    options = parser.parse_args()
    return work(options.base_url, options.prompt)
