from __future__ import annotations

from rich.style import Style

from widgets.ink import Ink

INK = Ink(*(Style.parse(f"color({number})") for number in range(len(Ink._fields))))
"""A different colour for every role."""
