"""edit_file: replace text in a file without changing any other byte."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from tui_agent.common.domain import FileChange, Mode, Target, ToolResult
from tui_agent.common.line_merge import merge_bytes
from tui_agent.platform.encoding import Decoded, NotText, decodings
from tui_agent.tools.base import Args, Tool, ToolContext, ToolError
from tui_agent.tools.file_access import display_name, permit_read, read_bytes
from tui_agent.tools.matching import EditMatch, locate


class ComputedEdit(msgspec.Struct, frozen=True):
    """A computed edit that is not written yet."""

    content: bytes
    level: str
    count: int
    lines: tuple[int, ...]
    """Line numbers of the first replacements."""


def edit_bytes(data: bytes, old: str, new: str, replace_all: bool = False) -> ComputedEdit:
    """Replace `old` by `new` in `data`. Raises ToolError with the codes of `locate` and `binary`, `encoding`."""
    try:
        candidates = decodings(data)
    except NotText as error:
        raise ToolError(f"The file is {error}, not text; it can't be edited as text.", "binary") from error
    if old.isascii():
        # Only the likeliest encoding counts: in a wrong one, ASCII text could match half of another character.
        _check_half_characters(candidates, old)
        candidates = candidates[:1]
    first_error: ToolError | None = None
    for decoded in candidates:
        try:
            return _write_back(data, decoded, locate(decoded.text, old, new, replace_all))
        except ToolError as error:
            if error.code != "not_found":
                raise
            first_error = first_error or error
    raise first_error or ToolError("old_string was not found.", "not_found")


def edit_changed(seen: bytes, data: bytes, old: str, new: str, replace_all: bool) -> tuple[ComputedEdit, bytes]:
    """Make an edit of the content `seen` in `data`, which another program has changed since.

    Returns the edit, and `seen` with it. Raises ToolError, also if both changed the same lines.
    """
    edited = edit_bytes(seen, old, new, replace_all)
    merged = merge_bytes(seen, edited.content, data)
    if merged is None or merged == data:
        raise ToolError("The same lines were changed.", "changed")
    return msgspec.structs.replace(edited, content=merged), edited.content


def _check_half_characters(candidates: list[Decoded], old: str) -> None:
    first = candidates[0]
    if (
        first.codec.weak
        and any(other.codec.is_multibyte and old not in other.text for other in candidates)
        and old in first.text
    ):
        raise ToolError(
            "The file's encoding is unknown, and in some encodings old_string would match half of a character. "
            "Take a longer old_string.",
            "encoding",
        )


def _write_back(data: bytes, decoded: Decoded, match: EditMatch) -> ComputedEdit:
    codec, text = decoded.codec, decoded.text
    pieces = [codec.bom]
    at = 0
    for item in match.replacements:
        pieces.append(codec.encode(text[at : item.start]))
        try:
            pieces.append(codec.encode_new(item.text))
        except UnicodeEncodeError as error:
            wrong = error.object[error.start : error.end].encode("utf-8", "backslashreplace").decode()
            raise ToolError(
                f"The file is written in {codec.label or 'utf-8'}, which has no {wrong!r}. Write it in another way.",
                "encoding",
            ) from error
        at = item.end
    head, tail = codec.bom + codec.encode(text[: match.replacements[0].start]), codec.encode(text[at:])
    if not data.startswith(head) or not data.endswith(tail):
        raise ToolError("The file's encoding can't be edited safely in this place.", "encoding")
    return ComputedEdit(b"".join([*pieces, tail]), match.level, len(match.replacements), match.lines)


MAX_ATTEMPTS = 3
"""Number of times an edit is recomputed when the file changes while the user decides."""


class EditFileArgs(Args):
    """See edit_file.md."""

    path: str
    old_string: str
    new_string: str
    replace_all: bool = False


class EditFile(Tool[EditFileArgs]):
    """Replaces text in a file."""

    name = "edit_file"
    args = EditFileArgs
    reads_only = False
    modes = (Mode.AGENT, Mode.DIRECT)
    timeout = 30.0

    async def run(self, args: EditFileArgs, ctx: ToolContext) -> ToolResult:
        """See Tool."""
        target = ctx.resolve(args.path)
        await permit_read(ctx, target)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            file = await read_bytes(target)
            seen = ctx.last_seen(target.path)
            has_changed = seen is not None and seen != file.sha256
            edited, expected = await asyncio.to_thread(_compute, ctx, target, file.data, args, has_changed, attempt)
            try:
                written = await ctx.edit(target, file.data, edited.content, **expected)
            except ToolError as error:
                if error.code != "changed" or attempt == MAX_ATTEMPTS:
                    raise
                ctx.output("The file changed meanwhile; working the edit out again.\n")
                continue
            text = f"{_summary(written.change, edited)} {written.note}"
            if expected:
                text += "\nThe file had changed on disk since you last saw it; other parts may differ."
            return ToolResult(success=True, data=text, changes=(written.change,))
        raise AssertionError("unreachable")


def _compute(
    ctx: ToolContext, target: Target, data: bytes, args: EditFileArgs, has_changed: bool, attempt: int
) -> tuple[ComputedEdit, dict[str, bytes]]:
    """Return the edit of `data`, and how `ctx.edit` is told what the model expects then. Raises ToolError."""
    if has_changed:
        with contextlib.suppress(ToolError):
            if (seen := ctx.seen_content(target.path)) is not None:
                edited, expected = edit_changed(seen, data, args.old_string, args.new_string, args.replace_all)
                return edited, {"expected": expected}
        if attempt == 1:
            raise ToolError(
                f"{display_name(target)} changed on disk since you last saw it. Read it again, then edit.", "changed"
            )
    return edit_bytes(data, args.old_string, args.new_string, args.replace_all), {}


def _summary(change: FileChange, edited: ComputedEdit) -> str:
    lines = ", ".join(map(str, dict.fromkeys(edited.lines[:5]))) + (" …" if len(edited.lines) > 5 else "")
    replacements = f"{edited.count:,} places, from line {edited.lines[0]}" if edited.count > 5 else f"line {lines}"
    method = "matched exactly" if edited.level == "exactly" else f"matched by overlooking {edited.level}"
    return f"Edited {change.display} at {replacements}; {method}"


TOOLS = (EditFile(),)
