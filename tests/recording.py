"""The README's recording: `python -m tests.recording` plays the demo in a terminal of its own and writes
`docs/screenshots/demo.svg`, a picture that moves by style sheet alone. Not as root: the screen would warn of it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from functools import partial
from html import escape
from itertools import groupby
from pathlib import Path

import pyte

from tests.doubles.terminal import Terminal
from tests.test_demo_pty import ASKED, DONE, LONG, gone, started

FILE = Path(__file__).resolve().parents[1] / "docs" / "screenshots" / "demo.svg"
SIZE = (100, 30)
CELL, LINE, EDGE = 9.0, 19.0, 14.0
"""Of one cell, and around all: units of the picture."""
INK, PAPER = "#d6d9df", "#14161a"
"""Of the dark theme."""

FRAMES = {"task": 2.5, "plan": 5.0, "edit": 5.0, "command": 3.5, "summary": 5.5, "done": 4.5}
"""How long each is shown, in seconds."""


async def recorded() -> list[str]:
    """The frames, by keys alone."""
    frames = []
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "home", "AGENTS.md")  # so that none are offered in the picture
        rules.parent.mkdir()
        rules.write_text("Be brief.\n", encoding="utf-8")
        async with started(Path(folder), "--demo", size=SIZE, COLORTERM="truecolor") as program:
            await program.wait_for_text("Find the bug", LONG)
            await program.wait_for_text("you are asked before a file changes", LONG)
            await program.wait_until_quiet(0.5)
            frames.append(drawn(program))
            program.type("\r")
            for title, key in ASKED:
                await program.wait_for_dialog(title, LONG)
                await program.wait_until_quiet(0.7)
                frames.append(drawn(program))
                program.type(key)
                while not await program.occurs(partial(gone, program, title), 3):
                    program.type(key)  # it showed the rest of a long plan before
            await program.wait_for_text(DONE, LONG)
            await program.wait_until_quiet(0.5)
            frames.append(drawn(program))
            program.type("\x04")
            await program.end(LONG)
    return frames


def drawn(program: Terminal) -> str:
    """What the terminal shows, as text and rectangles."""
    screen = program.screen
    rows = ([screen.buffer[row][column] for column in range(screen.columns)] for row in range(screen.lines))
    return "".join(part for row, cells in enumerate(rows) for part in _line(row, cells))


def _line(row: int, cells: list[pyte.screens.Char]) -> Iterator[str]:
    y = EDGE + row * LINE
    at = 0
    for (ink, paper, bold), run in groupby(cells, key=_look):
        text = "".join(cell.data for cell in run)
        x, wide = EDGE + at * CELL, len(text) * CELL
        at += len(text)
        if paper != PAPER:
            yield f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{LINE:g}" fill="{paper}"/>'
        if text.strip():
            shown = text.rstrip()
            x += (len(shown) - len(shown.lstrip())) * CELL
            shown = shown.lstrip()
            weight = ' font-weight="bold"' if bold else ""
            yield (
                f'<text x="{x:g}" y="{y + LINE * 0.74:g}" fill="{ink}"{weight}'
                f' textLength="{len(shown) * CELL:g}">{escape(shown)}</text>'
            )


def _look(cell: pyte.screens.Char) -> tuple[str, str, bool]:
    ink, paper = _color(cell.fg, INK), _color(cell.bg, PAPER)
    return (paper, ink, cell.bold) if cell.reverse else (ink, paper, cell.bold)


def _color(name: str, default: str) -> str:
    return default if name == "default" else f"#{name}"


def animated(frames: list[str], seconds: list[float]) -> str:
    """One picture: each frame is seen in its turn, for ever."""
    whole = sum(seconds)
    width, height = SIZE[0] * CELL + 2 * EDGE, SIZE[1] * LINE + 2 * EDGE
    rules, groups = [], []
    begin = 0.0
    for number, (frame, lasts) in enumerate(zip(frames, seconds, strict=True)):
        first, last = 100 * begin / whole, 100 * (begin + lasts) / whole
        begin += lasts
        before = "" if number == 0 else "0%{visibility:hidden}"
        after = "" if number == len(frames) - 1 else f"{last:.2f}%{{visibility:hidden}}"
        rules.append(f"@keyframes f{number}{{{before}{first:.2f}%{{visibility:visible}}{after}}}")
        rules.append(f".f{number}{{animation:f{number} {whole:g}s step-end infinite}}")
        groups.append(f'<g class="f{number}" visibility="hidden">{frame}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" font-size="15"'
        f' shape-rendering="crispEdges" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" xml:space="preserve">'
        f"<style>text{{white-space:pre}}{''.join(rules)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>{"".join(groups)}</svg>\n'
    )


async def main() -> None:
    frames = await recorded()
    FILE.write_text(animated(frames, list(FRAMES.values())), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
