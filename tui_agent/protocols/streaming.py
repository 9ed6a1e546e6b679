"""What of a reply may be shown while it still streams in: never markup of calls, never a signal (C4)."""

from __future__ import annotations

from collections.abc import Sequence

from tui_agent.domain import ToolSpec
from tui_agent.protocols.parser import Assembly, Parsed, Protocol
from tui_agent.protocols.segments import Segmenter


class TextStream:
    """Holds back what may still become the markup of a call or a signal, and gives out the rest at once.

    What `feed` and `finish` gave out, joined, is the text of the parse, however the reply was cut. The one exception
    is a thought that closes without ever having been opened: what was shown of it stays shown.
    """

    def __init__(
        self, tools: Sequence[ToolSpec], *, protocol: Protocol = "native", attempts: bool = False
    ) -> None:
        """`attempts`: a reply that is nothing but JSON calling unknown tools counts as their calls, not as text."""
        self._segmenter = Segmenter()
        self._assembly = Assembly(tools, protocol, attempts=attempts)

    def feed(self, text: str) -> str:
        """What may be shown now."""
        return "".join(self._assembly.add(piece) for piece in self._segmenter.feed(text))

    def finish(self) -> tuple[str, Parsed]:
        """The rest to show, and the parse of the whole."""
        rest = "".join(self._assembly.add(piece) for piece in self._segmenter.finish())
        rest += self._assembly.finish()
        return rest, self._assembly.parsed()
