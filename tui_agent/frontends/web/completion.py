"""What typing on the page needs: the commands of the menu, the keys of requests, and files for `@` mentions."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from tui_agent.engine.api import SessionApi
from tui_agent.frontends.session_commands import SESSION_COMMANDS
from tui_agent.keys import keymap
from tui_agent.mentions.syntax import format_mention, typed_mention
from tui_agent.text import make_visible

KEY_CONTEXTS = ("approval", "review", "conflict")
"""Requests that have keys on the page, too."""
PAGE_COMMANDS = (*keymap.COMMANDS, keymap.Command("status", "session, model, use of the context window"))
"""What can be typed after a `/`: as on the screen, which shows the status all the time."""
LISTING_SECONDS = 2.0
"""Seconds that a completion waits for the list of files."""
MENTIONS_SHOWN = 30
"""Files that a completion offers."""


def typing_data() -> dict[str, Any]:
    """Return `commands` with name, description and arguments, and `keys`: context → action → characters.

    `runs_here` of a command says whether the server carries it out; the page knows those that only change itself.
    """
    commands = [{**to_builtins(each), "runs_here": each.name in SESSION_COMMANDS} for each in PAGE_COMMANDS]
    return {"commands": commands, "keys": {name: _characters(name) for name in KEY_CONTEXTS}}


def _characters(context: str) -> dict[str, list[str]]:
    keys = keymap.current().keys
    actions = [action.name for action in keymap.CONTEXTS[context].actions]
    return {name: [key for key in keys[f"{context}.{name}"] if len(key) == 1] for name in actions}


async def find_files(session: SessionApi, before: str) -> dict[str, Any]:
    """Complete the mention at the end of `before`, the part of a line in front of the cursor.

    Returns `start`, the index of its @ (-1: nothing is mentioned), `names` with the text that replaces the mention,
    `listing` if files are still being listed, and a `note` if some are missing.
    """
    mention, search = typed_mention(before), getattr(session, "mentions", None)
    if mention is None or search is None:
        return {"start": -1, "names": [], "note": "", "listing": False}
    found = await search.search(mention.query, LISTING_SECONDS)
    names = [{"name": make_visible(name), "text": format_mention(name)} for name in found.names[:MENTIONS_SHOWN]]
    return {"start": mention.start, "names": names, "note": found.note, "listing": found.listing}
