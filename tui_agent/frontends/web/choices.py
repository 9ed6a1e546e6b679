"""What the page lets the user choose from: models, sessions, the commands of the menu, and files for `@` mentions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from tui_agent.common import paths
from tui_agent.common.domain import Fault
from tui_agent.engine.api import SessionApi
from tui_agent.frontends.session_commands import SESSION_COMMANDS, SESSION_ROLE
from tui_agent.keys import keymap
from tui_agent.mentions.syntax import format_mention, typed_mention
from tui_agent.storage.catalog import list_sessions
from tui_agent.text import make_visible, one_line

if TYPE_CHECKING:
    from tui_agent.engine.session import Session

SESSIONS_MAX = 200
"""Newest sessions that are listed."""
NAME_MAX = 100
"""Characters of the name of a model."""
KEY_CONTEXTS = ("approval", "review", "conflict", "summary")
"""Requests that have keys on the page, too."""
PAGE_COMMANDS = (*keymap.COMMANDS, keymap.Command("status", "session, model, use of the context window"))
"""What can be typed after a `/`: as on the screen, which shows the status all the time."""
LISTING_SECONDS = 2.0
"""Seconds that a completion waits for the list of files."""
MENTIONS_SHOWN = 30
"""Files that a completion offers."""


async def model_choices(session: Session) -> dict[str, Any]:
    """Return the models of all servers as `rows` with `id` and `label`, and the `current` one. Raises ValueError.

    The id of a model of another server is `server:model`.
    """
    result, others = await asyncio.gather(session.models.listed(), session.models.other_models())
    if isinstance(result, Fault) and not others:
        raise ValueError(result.full_message)
    own = () if isinstance(result, Fault) else result
    current = (await session.models.current()).get(SESSION_ROLE, ("", False))[0]
    rows = [{"id": model.name, "label": _shown(model.name), "note": _shown(model.label)} for model in own]
    rows += [{"id": name, "label": _shown(name), "note": ""} for name in others]
    return {"rows": rows, "current": current, "endpoint": _shown(session.models.endpoint)}


async def session_choices(session: Session, can_open: bool) -> dict[str, Any]:
    """Return the sessions of the workspace as `rows`, newest first; see `can_open` of the page."""
    workspace = Path((await session.trust.states())[0].folder)

    def read() -> list[dict[str, Any]]:
        entries = [each for each in list_sessions(paths.data_dir(), workspace) if each.first_message or each.title]
        return [
            {
                "id": entry.id,
                "label": session.mask.mask(_shown(entry.title or entry.first_message)),
                "changed": datetime.fromtimestamp(entry.changed, UTC).isoformat(),
                "problem": make_visible(entry.problem),
                "command": f"tui-agent --resume {entry.id}",
            }
            for entry in entries[:SESSIONS_MAX]
        ]

    return {"rows": await asyncio.to_thread(read), "current": session.id, "can_open": can_open}


def _shown(text: str) -> str:
    return make_visible(one_line(text, NAME_MAX))


def typing_data() -> dict[str, Any]:
    """Return `commands` with name, description and arguments, `keys` (context → action → characters), and `key_texts`
    (context → action → description, with the title of the context as `""`).

    `runs_here` of a command says whether the server carries it out; the page knows those that only change itself.
    """
    commands = [{**to_builtins(each), "runs_here": each.name in SESSION_COMMANDS} for each in PAGE_COMMANDS]
    texts = {
        name: {"": context.title} | {action.name: action.description for action in context.actions}
        for name in KEY_CONTEXTS
        for context in (keymap.CONTEXTS[name],)
    }
    return {"commands": commands, "keys": {name: _characters(name) for name in KEY_CONTEXTS}, "key_texts": texts}


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
