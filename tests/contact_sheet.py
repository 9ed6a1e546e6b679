"""All snapshots on one page: `python -m tests.contact_sheet` writes `contact-sheet/index.html`, and sheets as PNG where
`rsvg-convert` and `montage` are installed."""

from __future__ import annotations

import html
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHEET = ROOT / "contact-sheet"
A_SHEET = 16
"""Snapshots on one PNG."""

PAGE = """<!doctype html><meta charset="utf-8"><title>snapshots</title>
<style>body{{font:13px sans-serif;display:grid;grid-template-columns:repeat(auto-fill,minmax(560px,1fr));gap:16px}}
img{{width:100%}}figure{{margin:0}}</style>
{figures}
"""


def snapshots() -> list[Path]:
    return sorted((ROOT / "snapshots").rglob("*.svg"))


def write_page(found: list[Path]) -> Path:
    figures = []
    for path in found:
        name = html.escape(path.relative_to(ROOT / "snapshots").as_posix())
        figures.append(f'<figure><figcaption>{name}</figcaption><img src="../snapshots/{name}"></figure>')
    page = SHEET / "index.html"
    page.write_text(PAGE.format(figures="\n".join(figures)), encoding="utf-8")
    return page


def write_sheets(found: list[Path]) -> int:
    pngs = []
    for number, path in enumerate(found):
        png = SHEET / f"{number:03}.png"
        subprocess.run(["rsvg-convert", "-w", "800", str(path), "-o", str(png)], check=True)
        pngs.append(str(png))
    sheets = [pngs[at : at + A_SHEET] for at in range(0, len(pngs), A_SHEET)]
    for number, some in enumerate(sheets, start=1):
        target = SHEET / f"sheet-{number}.png"
        subprocess.run(["montage", *some, "-tile", "4x", "-geometry", "600x+4+4", str(target)], check=True)
    for old in pngs:
        Path(old).unlink()
    return len(sheets)


def main() -> None:
    shutil.rmtree(SHEET, ignore_errors=True)
    SHEET.mkdir()
    found = snapshots()
    print(f"{len(found)} snapshots: {write_page(found)}")
    if shutil.which("rsvg-convert") and shutil.which("montage"):
        print(f"{write_sheets(found)} sheets in {SHEET}")


if __name__ == "__main__":
    main()
