"""Messages of the user, and commands they ran themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.events import UserMessageAdded, UserShellCommand
from tui_agent.keys.keymap import key_of
from widgets import ansi
from widgets.blocks.base import TranscriptBlock
from widgets.styled_text import Line, TextStyles, chop, indent, line, wrap

MAX_SHELL_LINES = 20
"""Lines of output of a `!command` shown while collapsed."""


class UserBlock(TranscriptBlock[UserMessageAdded]):
    """A message of the user, with a bar on its left."""

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint the message as typed."""
        spans = [(self.item.text.rstrip(), styles.strong)]
        if self.item.steering:
            spans.append(("  while working", styles.muted))
        return indent(wrap(spans, width - 2), [("▌ ", styles.accent)])

    def plain_text(self) -> str:
        """Return the message."""
        return self.item.text


class ShellBlock(TranscriptBlock[UserShellCommand]):
    """A `!command` with its output."""

    def paint(self, width: int, styles: TextStyles) -> Sequence[Line]:
        """Paint command, output, and the exit code of a failure."""
        item = self.item
        lines = indent(chop([(item.command, styles.strong)], width - 4), [("▌ ", styles.accent), ("! ", styles.muted)])
        output = item.output.rstrip("\n").split("\n") if item.output else []
        visible = output if self.open else output[-MAX_SHELL_LINES:]
        gutter = [("  │ ", styles.faint)]
        if len(visible) < len(output):
            lines.append(
                line(
                    *gutter,
                    (f"… {len(output) - len(visible)} lines above · {key_of('details')} shows them", styles.muted),
                )
            )
        for output_line in visible:
            lines += indent(chop(list(ansi.ansi_spans(output_line, styles, styles.muted)), width - 4), gutter)
        if item.exit_code:
            lines.append(line(*gutter, (f"exit code {item.exit_code}", styles.bad)))
        return lines

    def plain_text(self) -> str:
        """Return command and output."""
        return f"$ {self.item.command}\n{ansi.strip_ansi(self.item.output)}"
