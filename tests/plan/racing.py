"""An editor in a separate process: reads the file, waits, and writes its version without checking for changes."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path


def edit(text: str, number: int) -> str:
    """Add a criterion and a note in the user's own section."""
    criterion = f"- [ ] user criterion {number}\n"
    at = text.index("## Decisions Made")
    text = text[:at].rstrip("\n") + "\n" + criterion + "\n" + text[at:]
    return text.rstrip("\n") + f"\nnote {number} of the user ✎\n"


def main(path: Path, count: int, seed: int) -> None:
    """Save `count` times, once per input line: in place or by renaming, immediately or with a delay.

    Prints a line for each save.
    """
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
