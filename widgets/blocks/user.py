"""What the user said, and the commands they ran themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.keymap import key_of
from tui_agent.view import ShellItem, UserItem
from widgets import ansi
from widgets.blocks.base import Block
from widgets.ink import Ink, Line, chop, indent, line, wrap

SHELL_LINES = 20
"""Lines of a `!command`'s output that show until it is unfolded."""


class UserBlock(Block[UserItem]):
    """A message behind the accent bar."""

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """The message as typed; blanks and line ends kept."""
        spans = [(self.item.text.rstrip(), ink.strong)]
        if self.item.steering:
            spans.append(("  while working", ink.muted))
        return indent(wrap(spans, width - 2), [("▌ ", ink.accent)])

    def plain(self) -> str:
        """The message."""
        return self.item.text


class ShellBlock(Block[ShellItem]):
    """A `!command` with its output."""

    def paint(self, width: int, ink: Ink) -> Sequence[Line]:
        """Command, output, exit code if there was a failure."""
        item = self.item
        lines = indent(chop([(item.command, ink.strong)], width - 4), [("▌ ", ink.accent), ("! ", ink.muted)])
        output = item.output.rstrip("\n").split("\n") if item.output else []
        shown = output if self.open else output[-SHELL_LINES:]
        gutter = [("  │ ", ink.faint)]
        if len(shown) < len(output):
            lines.append(
                line(
                    *gutter,
                    (f"… {len(output) - len(shown)} lines above · {key_of('details')} shows them", ink.muted),
                )
            )
        for one in shown:
            lines += indent(chop(list(ansi.spans(one, ink, ink.muted)), width - 4), gutter)
        if item.exit_code:
            lines.append(line(*gutter, (f"exit code {item.exit_code}", ink.bad)))
        return lines

    def plain(self) -> str:
        """Command and output."""
        return f"$ {self.item.command}\n{ansi.plain(self.item.output)}"
