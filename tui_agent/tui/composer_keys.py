"""Keys of the user's own in the composer, and vi's where they are wanted. Loaded when there are any."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual.events import Key

from tui_agent import keymap

if TYPE_CHECKING:
    from tui_agent.tui.app import TuiAgentApp
    from tui_agent.tui.vim import Vim
    from widgets.prompt_input import PromptInput

Take = Callable[[Key], Awaitable[bool]]


class ComposerKeys:
    """Stands before the composer: a key of the user's becomes the one that the composer knows."""

    def __init__(self, prompt: PromptInput, behind: Take) -> None:
        """`behind` is asked first, as before: what a list takes is never changed."""
        self.prompt = prompt
        self.behind = behind
        self.standing: dict[str, str] = {}
        self.vim: Vim | None = None

    async def take(self, event: Key) -> bool:
        """True for a key that is done with."""
        if await self.behind(event):
            return True
        menu = self.prompt.menu
        if menu is not None and menu.display:
            return False
        if self.vim is not None and self.vim.take(event):
            return True
        stands = self.standing.get(event.key)
        if stands is None:
            return False
        if not stands:
            self._plain(event.key)
            return True
        event.key, event.character = stands, None
        return False

    def _plain(self, key: str) -> None:
        """Of a key that lost its meaning, what it means in every text."""
        if key == "up":
            self.prompt.action_cursor_up()
        elif key == "down":
            self.prompt.action_cursor_down()


def hold(app: TuiAgentApp, *, vim: bool) -> None:
    """From now on the composer takes the keys of the keymap that holds."""
    prompt = app._prompt
    now = getattr(prompt.ties.key, "__self__", None)
    if not isinstance(now, ComposerKeys):
        now = ComposerKeys(prompt, prompt.ties.key)
        prompt.ties = prompt.ties._replace(key=now.take)
    now.standing = keymap.current().standing_for()
    if vim != (now.vim is not None):
        if now.vim is not None:
            now.vim.off()
        from tui_agent.tui.vim import Vim

        now.vim = Vim(prompt) if vim else None
