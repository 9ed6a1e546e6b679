"""An editor in a process of its own: reads the file, thinks, writes its own version of it, never looking back."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path


def edit(text: str, number: int) -> str:
    """Add what only the user writes: a criterion, a note in a section of their own, or both."""
    criterion = f"- [ ] user criterion {number}\n"
    at = text.index("## Decisions Made")
    text = text[:at].rstrip("\n") + "\n" + criterion + "\n" + text[at:]
    return text.rstrip("\n") + f"\nnote {number} of the user ✎\n"


def main(path: Path, count: int, seed: int) -> None:
    """Make `count` saves, each when a line is given: some in place, some by renaming; some at once, some after
    thinking. A line is given back for each."""
    chance = random.Random(seed)
    print("ready", flush=True)
    for number in range(count):
        sys.stdin.readline()
        while True:
            text = path.read_text(encoding="utf-8")
            if "## Decisions Made" in text:
                break
        if chance.random() < 0.5:
            time.sleep(chance.random() * 0.01)
        data = edit(text, number).encode()
        if chance.random() < 0.5:
            beside = path.with_name(".editor-swap")
            beside.write_bytes(data)
            os.replace(beside, path)
        else:
            half = len(data) // 2
            with open(path, "wb", buffering=0) as file:
                file.write(data[:half])
                file.write(data[half:])
        print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
