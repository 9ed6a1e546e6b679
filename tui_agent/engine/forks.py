"""A session that begins as a copy of another one (S3)."""

from __future__ import annotations

import os
from pathlib import Path

from tui_agent.safety.secrets import values_to_mask
from tui_agent.storage import catalog
from tui_agent.text import Mask


def forked(session: Path) -> Path:
    """The folder of a copy of the session in `session`, which may be running. Raises SessionError."""
    mask = Mask(values_to_mask(os.environ, None))
    return session.with_name(catalog.fork(catalog.look(session), mask=mask))
