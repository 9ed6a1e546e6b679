from __future__ import annotations

from rich.style import Style

from widgets.styled_text import TextStyles

INK = TextStyles(*(Style.parse(f"color({number})") for number in range(len(TextStyles._fields))))
"""A different colour for every role."""
