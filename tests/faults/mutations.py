"""Damage to a session's folder, of every kind that disks, editors, programs and people do."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tui_agent.storage.lines import MAX_LINE

JOURNAL = "events.jsonl"
FILES = (JOURNAL, "chat_history.log", "session.json", "plan_doc.md", "lock", "blobs")


def flip_bits(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 3) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def cut(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randint(0, len(data))])


def cut_begin(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[chance.randint(0, len(data)) :])


def remove_middle(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    begin = chance.randint(0, len(data))
    path.write_bytes(data[:begin] + data[begin + chance.randint(1, 900) :])


def zeros_within(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    begin, size = chance.randint(0, len(data)), chance.choice((1, 512, 4096))
    path.write_bytes(data[:begin] + bytes(min(size, len(data) - begin)) + data[begin + size :])


def zeros_at_end(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes() + bytes(chance.choice((1, 4096, 100_000))))


def rubbish(path: Path, chance: random.Random) -> None:
    data = path.read_bytes()
    begin = chance.randint(0, len(data))
    path.write_bytes(data[:begin] + chance.randbytes(chance.randint(1, 300)) + data[begin:])


def empty(path: Path, chance: random.Random) -> None:
    path.write_bytes(b"")


def gone(path: Path, chance: random.Random) -> None:
    path.unlink()


def in_lines(work: Callable[[list[bytes], random.Random], None]) -> Callable[[Path, random.Random], None]:
    def mutation(path: Path, chance: random.Random) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        if lines:
            work(lines, chance)
        path.write_bytes(b"".join(lines))

    mutation.__name__ = work.__name__
    return mutation


def swapped(lines: list[bytes], chance: random.Random) -> None:
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def shuffled(lines: list[bytes], chance: random.Random) -> None:
    chance.shuffle(lines)


def doubled(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randint(0, len(lines)), chance.choice(lines))


def removed(lines: list[bytes], chance: random.Random) -> None:
    del lines[chance.randrange(len(lines))]


def glued(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = lines[at].rstrip(b"\n")


def torn_within(lines: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = lines[at][: chance.randint(0, len(lines[at]))]


def blank(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randint(0, len(lines)), chance.choice((b"\n", b"\r\n", b"  \n", b"{}\n", b"null\n", b"[]\n")))


def deep(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randint(0, len(lines)), b"[" * 100_000 + b"\n")


def windows_ends(lines: list[bytes], chance: random.Random) -> None:
    lines[:] = [line.replace(b"\n", b"\r\n") for line in lines]


def forged_number(lines: list[bytes], chance: random.Random) -> None:
    lines.append(b'{"v":1,"seq":999999999999999999999999,"type":"user.said","data":{}}\n')


def huge(path: Path, chance: random.Random) -> None:
    with open(path, "ab") as file:
        file.truncate(file.tell() + MAX_LINE + 10)
        file.write(b"\n")


def recoded(path: Path, chance: random.Random) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    path.write_bytes(text.encode(chance.choice(("utf-16", "latin-1", "utf-8-sig")), "replace"))


def a_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def a_link(path: Path, chance: random.Random) -> None:
    aside = path.parent.parent / f"elsewhere-{path.name}"
    path.rename(aside)
    path.symlink_to(aside)


def a_dead_link(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nothing")


def a_pipe(path: Path, chance: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


ON_FILES: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_bits, cut, cut_begin, remove_middle, zeros_within, zeros_at_end, rubbish, empty, recoded,
    *map(in_lines, (swapped, shuffled, doubled, removed, glued, torn_within, blank, deep, windows_ends, forged_number)),
)  # fmt: skip
"""What leaves a file."""
OTHERS = (gone, a_folder, a_link, a_dead_link, a_pipe)
"""What leaves something else; a journal that is no file any more is no session."""


def mutate(folder: Path, chance: random.Random, rare: int = 40) -> list[str]:
    """Damage the session in `folder` at one to four places; what was done, for a message."""
    done = []
    for _ in range(chance.randint(1, 4)):
        name = chance.choice((JOURNAL, JOURNAL, JOURNAL, *FILES))
        path = folder / name
        if name == "blobs":
            shutil.rmtree(path, ignore_errors=True)
            if chance.random() < 0.5:
                path.write_bytes(b"no folder")
            done.append("no blobs")
            continue
        if path.is_symlink() or not path.is_file():
            continue
        if chance.randrange(rare) == 0:
            work: Callable[[Path, random.Random], None] = huge
        elif name != JOURNAL and chance.random() < 0.3:
            work = chance.choice(OTHERS)
        else:
            work = chance.choice(ON_FILES)
        work(path, chance)
        done.append(f"{name}: {work.__name__}")
    return done
