"""The progress tree: runs, stages, replies and calls with their state and time, one line each (U3).

Shown lines are a list of places in the view's tree: a new node at the end is one more line, everything else lays the
bounded list out anew. It has the focus only after the user asked for it, and gives it back at the first letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import time

from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message

from tui_agent.text import one_line
from tui_agent.view import Node, ReplyItem, SessionView, StepItem, ToolItem
from widgets.blocks.base import duration
from widgets.dialog_keys import Keys
from widgets.ink import Ink, Line, Span, fit, line, width_of
from widgets.line_view import LineView
from widgets.tree_words import SUBAGENT, batch, call, work

RUNS = 60
"""Runs that are listed; older ones are counted."""
CHILDREN = 300
"""Nodes that are listed below one node."""
SHORT = 100
"""Milliseconds under which a time is not worth a word."""

SYMBOLS = {
    "running": ("●", "accent"),
    "ok": ("✓", "ok"),
    "failed": ("✗", "bad"),
    "refused": ("⊘", "warn"),
    "interrupted": ("■", "warn"),
    "skipped": ("⊘", "muted"),
}
KEYS = Keys("progress")


class ToolTree(LineView):
    """Keyboard: from line to line, fold and unfold, show the thing in the transcript, stop a sub-agent."""

    @dataclass
    class Chosen(Message):
        """Show this item of the transcript."""

        item: int

    @dataclass
    class Left(Message):
        """The focus goes back to the composer, with what was typed."""

        text: str = ""

    def __init__(
        self,
        view: SessionView,
        *,
        now: Callable[[], float] = time,
        stop: Callable[[str], None] = lambda node: None,
        id: str | None = None,
    ) -> None:
        """`stop` is given the id of the call whose sub-agent is to be stopped."""
        super().__init__(id=id)
        self.view = view
        self.now = now
        self._stop = stop
        self._sent: set[int] = set()
        """Places of sub-agents that were seen at work: they fold when they end."""
        self.rows: list[int] = []
        """Places in the view's tree, a line each; -1 stands for runs or nodes that are left out."""
        self.selected = 0
        self.folds: dict[int, bool] = {}
        """What the user chose: place → folded."""
        self._known = 0

    # --- what the router calls ---

    def show(self, changed: Iterable[int]) -> None:
        """Nodes were added or changed."""
        changed = set(changed)
        following = self.scroll_offset.y >= self.max_scroll_y
        folding = self._note_subagents(changed)
        known, self._known = self._known, len(self.view.tree.nodes)
        for place in sorted({one for one in changed if one >= known}):
            if folding or not self._append(place):
                folding = True
                break
        if folding:
            self._lay_out()
        self.virtual_size = Size(self.columns, len(self.rows))
        if not self.has_focus and following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        self.refresh()

    def begin_anew(self) -> None:
        """Other nodes come, in other places."""
        self.rows, self.selected, self._known = [], 0, 0
        self.folds.clear()
        self._sent.clear()

    def _note_subagents(self, changed: Iterable[int]) -> bool:
        """Remember those that began; True when one ended, since what is below it folds."""
        ended = False
        for place in changed:
            if place in self._sent:
                if self.view.tree.nodes[place].status != "running":
                    self._sent.discard(place)
                    ended = True
            elif self._is_subagent(place) and self.view.tree.nodes[place].status == "running":
                self._sent.add(place)
        return ended

    def _is_subagent(self, place: int) -> bool:
        node = self.view.tree.nodes[place]
        item = self.view.items[node.item] if node.item >= 0 else None
        return isinstance(item, ToolItem) and item.call.name == SUBAGENT

    @property
    def stoppable(self) -> str:
        """Id of the call whose sub-agent, still at work, the selected line belongs to; empty where there is none."""
        place = self.rows[self.selected] if self.selected < len(self.rows) else -1
        nodes = self.view.tree.nodes
        while place >= 0:
            if self._is_subagent(place):
                return nodes[place].id if nodes[place].status == "running" else ""
            place = nodes[place].parent
        return ""

    def tick(self) -> None:
        """A second went by."""
        if self.display and self.view.tree.running:
            self.refresh()

    # --- which lines there are ---

    def _append(self, place: int) -> bool:
        """Add a line for a node at the very end; False when it stands elsewhere or others move."""
        nodes, roots = self.view.tree.nodes, self.view.tree.roots
        at, node, hidden = place, nodes[place], False
        if node.kind == "batch" or node.parent < 0:
            return False
        while node.parent >= 0:
            above = nodes[node.parent]
            if above.children[-1] != at or len(above.children) > CHILDREN:
                return False
            hidden = hidden or self.folded(node.parent)
            at, node = node.parent, above
        if roots[-1] != at:
            return False
        if not hidden:
            self.rows.append(place)
        return True

    def _lay_out(self) -> None:
        chosen = self.rows[self.selected] if self.selected < len(self.rows) else -1
        roots = self.view.tree.roots
        self.rows = [-1] if len(roots) > RUNS else []
        for root in roots[-RUNS:]:
            self.rows.extend(self._below(root))
        self.selected = self.rows.index(chosen) if chosen in self.rows else max(0, len(self.rows) - 1)

    def _below(self, place: int) -> Iterator[int]:
        yield place
        if not self.folded(place):
            children = self.view.tree.nodes[place].children
            if len(children) > CHILDREN:
                yield -1
            for child in children[-CHILDREN:]:
                yield from self._below(child)

    def folded(self, place: int) -> bool:
        """True when what is below a node is not listed: earlier runs, batches, and sub-agents that are at their end,
        until the user unfolds them."""
        tree = self.view.tree
        node = tree.nodes[place]
        default = node.kind == "batch" or (node.parent < 0 and place != tree.roots[-1])
        default = default or (node.status != "running" and self._is_subagent(place))
        return self.folds.get(place, default)

    # --- what a line says ---

    def line_at(self, y: int) -> Line | None:
        """The line of one node."""
        if not 0 <= y < len(self.rows):
            return None
        place, width, ink = self.rows[y], self.columns, self.ink
        if place < 0:
            return line(("… earlier", ink.muted))
        node = self.view.tree.nodes[place]
        chosen = self.has_focus and y == self.selected
        symbol, role = ("?", "warn") if node.asked else SYMBOLS[node.status]
        if node.kind == "reply" and node.status == "ok":
            symbol, role = "·", "muted"
        head: list[Span] = [("  " * min(node.depth, 6), ink.text), (symbol + " ", getattr(ink, role))]
        right = self._measure(node, ink)
        if chosen and self.stoppable == node.id:
            right += [(f"  {key}", ink.text) for key in [KEYS.of("stop_subagent")] if key]
            right += [(" stops it", ink.muted)] if KEYS.of("stop_subagent") else []
        if node.children and self.folded(place):
            right.append((" ▸", ink.muted))
        room = max(0, width - width_of(head) - width_of(right) - 1)
        label = self._label(node, ink)
        shown: list[Span] = []
        for text, style in label:
            if cut := fit(text, room - width_of(shown)):
                shown.append((cut, style))
        gap = max(1, width - width_of(head) - width_of(shown) - width_of(right))
        spans = [*head, *shown, (" " * gap, ink.text), *right]
        if not chosen:
            return line(*spans)
        ground = Style(bgcolor=ink.panel.bgcolor)
        return line(*((text, style + ground) for text, style in spans), fill=ink.panel)

    def _label(self, node: Node, ink: Ink) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        if node.kind == "batch":
            return [(batch(self._calls(node), node.status == "running"), ink.text)]
        if isinstance(item, ToolItem):
            return call(item, ink)
        if isinstance(item, ReplyItem):
            words: list[Span] = [(self._words(item, node), ink.muted)]
            return [*words, (" · not usable", ink.warn)] if item.rejected else words
        if isinstance(item, StepItem):
            return self._step(item, ink)
        return [(one_line(node.title, 200) or node.kind, ink.strong if node.parent < 0 else ink.text)]

    @staticmethod
    def _step(item: StepItem, ink: Ink) -> list[Span]:
        number: list[Span] = [(f"{item.step.number} ", ink.muted)] if item.step.number else []
        return [*number, (one_line(item.step.description, 200), ink.text)]

    def _words(self, reply: ReplyItem, node: Node) -> str:
        if reply.role and not reply.agent:
            return reply.does
        for text in reply.text.text[:2000].split("\n"):
            if text.strip():
                return one_line(text.strip().lstrip("#>*- "), 200)
        if reply is self.view.reply:
            return self.view.reply_phase[0] or "working"
        did = work(self._calls(node))
        return did or ("thought" if reply.thought.size else "next step" if reply.calls else "no answer")

    def _calls(self, node: Node) -> list[ToolItem]:
        nodes, items = self.view.tree.nodes, self.view.items
        below = [items[nodes[one].item] for one in node.children if nodes[one].item >= 0]
        return [one for one in below if isinstance(one, ToolItem)]

    def _measure(self, node: Node, ink: Ink) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        spans: list[Span] = []
        if isinstance(item, ToolItem) and item.changes:
            added, removed = sum(c.added for c in item.changes), sum(c.removed for c in item.changes)
            spans = [(f"+{added} ", ink.ok), (f"−{removed}", ink.bad)]
        elif isinstance(item, StepItem) and item.recoveries:
            ways = dict.fromkeys(
                "fallback" if one.by == "fallback" else "new plan" for one in item.recoveries
            )
            spans = [(", ".join(ways), ink.warn)]
        if node.asked:
            return [*spans, (" waits" if spans else "waits", ink.warn)]
        ms = node.ms if node.status != "running" else int(max(0.0, self.now() - node.began)) * 1000
        if node.status in ("refused", "interrupted") and ms < SHORT:
            return [*spans, (" " + node.status if spans else node.status, ink.muted)]
        if ms < SHORT:
            return spans
        return [*spans, ("  " if spans else "", ink.text), (duration(ms), ink.muted)]

    # --- keys ---

    def take_focus(self) -> None:
        """The user asked for it."""
        self.can_focus = True
        self.selected = max(0, len(self.rows) - 1)
        self.screen.set_focus(self)

    def on_blur(self) -> None:
        """Nothing but the key brings the focus here."""
        self.can_focus = False
        self.refresh()

    def leaves(self, event: events.Key) -> bool:
        """True for a letter that is not meant for the tree."""
        return event.is_printable and event.key != "space" and not self._means(event)

    def _means(self, event: events.Key) -> str:
        """What a key does on the selected line; what stops is a letter like others where nothing can be stopped."""
        action = KEYS.does(event)
        return "" if action == "stop_subagent" and not self.stoppable else action

    def on_key(self, event: events.Key) -> None:
        """Move, fold, show; letters go on to the composer."""
        moves = {"up": -1, "down": 1, "top": -len(self.rows), "bottom": len(self.rows)}
        action = self._means(event)
        if action in moves:
            self._select(self.selected + moves[action])
        elif action in ("fold", "unfold", "turn"):
            self._fold(None if action == "turn" else action == "fold")
        elif action == "show":
            self._choose()
        elif action == "stop_subagent":
            self._stop(self.stoppable)
        elif event.character and event.is_printable:
            self.post_message(self.Left(event.character))
        else:
            return
        event.stop()
        event.prevent_default()

    def _select(self, row: int) -> None:
        self.selected = max(0, min(len(self.rows) - 1, row))
        self.scroll_to_region(Region(0, self.selected, 1, 1), animate=False)
        self.refresh()

    def _fold(self, fold: bool | None) -> None:
        """Fold, unfold, or with None the other of the two; a leaf goes to the node above, or is shown."""
        place = self.rows[self.selected] if self.rows else -1
        if place < 0:
            return
        node = self.view.tree.nodes[place]
        if node.children and fold is not self.folded(place):
            self.folds[place] = not self.folded(place)
            self._lay_out()
            self.virtual_size = Size(self.columns, len(self.rows))
        elif fold and node.parent in self.rows:
            self._select(self.rows.index(node.parent))
        elif fold is None:
            self._choose()
        self.refresh()

    def _choose(self) -> None:
        place = self.rows[self.selected] if self.rows else -1
        tree = self.view.tree
        while place >= 0 and tree.nodes[place].item < 0 and tree.nodes[place].children:
            place = tree.nodes[place].children[0]
        if place >= 0 and tree.nodes[place].item >= 0:
            self.post_message(self.Chosen(tree.nodes[place].item))

    def on_click(self, event: events.Click) -> None:
        """A folded node unfolds, everything else is shown in the transcript."""
        row = self.scroll_offset.y + event.y - self.content_region.y + self.region.y
        if 0 <= row < len(self.rows):
            self.selected = row
            place = self.rows[row]
            if place >= 0 and self.view.tree.nodes[place].children:
                self._fold(None)
            else:
                self._choose()

    def repaint(self) -> None:
        """The theme changed."""
        self.refresh()

    def on_resize(self) -> None:
        """Another width: other places to cut, the same lines."""
        self.virtual_size = Size(self.columns, len(self.rows))
        if not self.has_focus:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
