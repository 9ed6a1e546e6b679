"""An edit of a file's bytes: read as text, matched, and written back so that nothing outside the match changes."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import msgspec

from tui_agent.common.domain import FileChange, Mode, ToolResult
from tui_agent.platform.encoding import Decoded, NotText, decodings
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import bytes_of, name_of, permit_read
from tui_agent.tools.matching import MatchedPlace, locate


class Edited(msgspec.Struct, frozen=True):
    """The outcome of an edit that was worked out but not written yet."""

    content: bytes
    rung: str
    count: int
    lines: tuple[int, ...]
    """Line numbers of the first places."""


def edit_bytes(data: bytes, old: str, new: str, replace_all: bool = False) -> Edited:
    """`data` with `old` replaced by `new`. Raises ToolError, codes as for `locate` and `binary`, `encoding`."""
    try:
        candidates = decodings(data)
    except NotText as error:
        raise ToolError(f"The file is {error}, not text; it can't be edited as text.", "binary") from error
    if old.isascii():
        # The likeliest reading decides: in a wrong one, ASCII could match half of another character.
        _check_halves(candidates, old)
        candidates = candidates[:1]
    first_fault: ToolError | None = None
    for reading in candidates:
        try:
            return _write_back(data, reading, locate(reading.text, old, new, replace_all))
        except ToolError as fault:
            if fault.code != "not_found":
                raise
            first_fault = first_fault or fault
    raise first_fault or ToolError("old_string was not found.", "not_found")


def _check_halves(candidates: list[Decoded], old: str) -> None:
    first = candidates[0]
    if first.codec.weak and any(one.codec.wide and old not in one.text for one in candidates) and old in first.text:
        raise ToolError(
            "The file's encoding is unknown, and in some encodings old_string would match half of a character. "
            "Take a longer old_string.",
            "encoding",
        )


def _write_back(data: bytes, reading: Decoded, found: MatchedPlace) -> Edited:
    codec, text = reading.codec, reading.text
    pieces = [codec.bom]
    at = 0
    for place in found.places:
        pieces.append(codec.encode(text[at : place.start]))
        try:
            pieces.append(codec.encode_new(place.replacement))
        except UnicodeEncodeError as error:
            wrong = error.object[error.start : error.end].encode("utf-8", "backslashreplace").decode()
            raise ToolError(
                f"The file is written in {codec.label or 'utf-8'}, which has no {wrong!r}. Write it in another way.",
                "encoding",
            ) from error
        at = place.end
    head, tail = codec.bom + codec.encode(text[: found.places[0].start]), codec.encode(text[at:])
    if not data.startswith(head) or not data.endswith(tail):
        raise ToolError("The file's encoding can't be edited safely in this place.", "encoding")
    return Edited(b"".join([*pieces, tail]), found.rung, len(found.places), found.lines)


ATTEMPTS = 3
"""How often an edit is worked out anew when the file changes while somebody decides."""


class EditFileArgs(Args):
    """See edit_file.md."""

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class EditFile(Tool[EditFileArgs]):
    """Replaces text in a file."""

    name: ClassVar[str] = "edit_file"
    args = EditFileArgs
    reads_only: ClassVar[bool] = False
    modes: ClassVar[tuple[Mode, ...]] = (Mode.AGENT, Mode.DIRECT)
    timeout: ClassVar[float | None] = 30.0

    async def run(self, args: EditFileArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path)
        await permit_read(ctx, target)
        for attempt in range(1, ATTEMPTS + 1):
            file = await bytes_of(target)
            seen = ctx.seen(target.path)
            if attempt == 1 and seen is not None and seen != file.sha256:
                raise ToolError(
                    f"{name_of(target)} changed on disk since you last saw it. Read it again, then edit.", "changed"
                )
            edited = await asyncio.to_thread(edit_bytes, file.data, args.old_string, args.new_string, args.replace_all)
            try:
                written = await ctx.edit(target, file.data, edited.content)
            except ToolError as fault:
                if fault.code != "changed" or attempt == ATTEMPTS:
                    raise
                ctx.output("The file changed meanwhile; working the edit out again.\n")
                continue
            text = f"{_summary(written.change, edited)} {written.note}"
            return ToolResult(success=True, data=text, changes=(written.change,))
        raise AssertionError("unreachable")


def _summary(change: FileChange, edited: Edited) -> str:
    lines = ", ".join(map(str, dict.fromkeys(edited.lines[:5]))) + (" …" if len(edited.lines) > 5 else "")
    places = f"{edited.count:,} places, from line {edited.lines[0]}" if edited.count > 5 else f"line {lines}"
    how = "matched exactly" if edited.rung == "exactly" else f"matched by overlooking {edited.rung}"
    return f"Edited {change.display} at {places}; {how}"


TOOLS = (EditFile(),)
