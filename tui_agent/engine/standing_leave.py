"""The standing leave that the user gave: listed, and taken back (R4.3)."""

from __future__ import annotations

import asyncio

from tui_agent.domain import Grant, Scope
from tui_agent.engine.workplace import Workplace
from tui_agent.events import GrantRevoked, Notice
from tui_agent.safety import grants as store
from tui_agent.safety.kept import CannotKeep


class StandingLeave:
    """What holds in this session: grants for it alone, and those for every session in this workspace."""

    def __init__(self, workplace: Workplace) -> None:
        self._workplace = workplace

    def listed(self) -> tuple[Grant, ...]:
        """Every grant once, in the order in which they were given."""
        return tuple(dict.fromkeys(self._workplace.grants))

    async def revoke(self, grant: Grant) -> bool:
        """Take a grant back: from now on it is asked again. False when there is no such grant, or it stays on disk.

        One that can't be taken out of the file holds no longer in this session; a notice says that it is still there.
        """
        place = self._workplace
        if grant not in place.grants:
            return False
        place.grants[:] = [one for one in place.grants if one != grant]
        place.stream.emit(GrantRevoked(grant=grant))
        if grant.scope is Scope.ALWAYS:
            try:
                await asyncio.to_thread(store.revoke, place.workspace, grant)
            except (CannotKeep, ValueError) as error:
                text = f"The rule is out of use for this session only: {error}"
                place.stream.emit(Notice(level="warning", text=text, code="grant.kept"))
                return False
        return True
