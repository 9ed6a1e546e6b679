"""The progress tree: runs, replies, batches of tool calls, and sub-agents (U3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from time import time

from textual import events
from textual.message import Message

from tui_agent.text import one_line
from tui_agent.view.items import Item, ProgressNode, ReplyItem, SessionView, StepItem, ToolItem
from widgets.blocks.base import SHORT, format_duration
from widgets.dialog_keys import Keys
from widgets.line_view import ListView
from widgets.lone_keys import TakesLetters
from widgets.styled_text import Line, Span, TextStyles, fitted_spans, highlighted_line, line, width_of
from widgets.words import WORDS

SUBAGENT = "run_subagent"
"""The tool whose calls start a sub-agent."""


def batch_title(tools: Sequence[ToolItem], running: bool) -> str:
    """Return the title of a batch of calls, with the number of calls of each kind."""
    kinds: dict[str, list[ToolItem]] = {}
    for tool in tools:
        kinds.setdefault(WORDS.call_kinds.get(tool.call.name, ""), []).append(tool)
    if "code" in kinds:
        return _batch_part("code", tools, running)
    unclassified = kinds.pop("", []) if len(kinds) > 1 else []
    parts = [_batch_part(kind, calls, running) for kind, calls in kinds.items()]
    return ", ".join([*parts, f"{len(unclassified)} more"] if unclassified else parts)


def _batch_part(kind: str, tools: Sequence[ToolItem], running: bool) -> str:
    running_title, finished_title, noun = WORDS.batches[kind]
    count = len({str(tool.title) for tool in tools}) if kind == "editing" else len(tools)
    noun = {"searches": "search"}.get(noun, noun[:-1]) if count == 1 else noun
    title = running_title if running else finished_title
    return f"{title}{'' if title.endswith(' ') else ' '}{count} {noun}"


def work_title(tools: Sequence[ToolItem]) -> str:
    """Return the title of a reply without text whose calls are of one kind; otherwise an empty string."""
    kinds = {WORDS.call_kinds.get(tool.call.name, "") for tool in tools}
    has_title = len(tools) > 1 and kinds in ({"editing"}, {"commands"}, {"delegating"})
    return batch_title(tools, any(tool.status == "running" for tool in tools)) if has_title else ""


def call_title(item: ToolItem, styles: TextStyles) -> list[Span]:
    """Paint verb and object of a call, or title and description of a sub-agent."""
    title = one_line(item.title, 200, exact=item.call.name != SUBAGENT)
    if item.call.name == SUBAGENT:
        name, dash, description = title.partition(" — ")
        return [(name, styles.text), (dash + description, styles.muted)]
    verb = WORDS.call_verbs.get(item.call.name, one_line(item.call.name, 60))
    label = [(verb + " ", styles.text), (title, styles.muted)] if title != item.call.name else [(verb, styles.text)]
    return [*label, (" · recovered", styles.muted)] if item.call.recovered else label


MAX_RUNS = 60
"""Maximum number of runs listed."""
MAX_CHILDREN = 300
"""Maximum number of children listed per node."""
KEYS = Keys("progress")


class ToolTree(TakesLetters, ListView[int]):
    """A tree whose nodes can be collapsed, shown in the transcript, and, for sub-agents, stopped."""

    @dataclass
    class Chosen(Message):
        """An item of the transcript was chosen."""

        item: int

    def __init__(
        self,
        view: SessionView,
        *,
        now: Callable[[], float] = time,
        stop: Callable[[str], None] = lambda node: None,
        id: str | None = None,
    ) -> None:
        """`stop` stops the sub-agent of a call, given by its id."""
        super().__init__(self._row_lines, id=id)
        self.view = view
        self.now = now
        self._stop = stop
        self.rows: Sequence[int] = ()
        """Node index of each line; -1 stands for omitted runs or nodes."""
        self.user_choices: dict[str, bool] = {}
        """Id of a node → whether the user collapsed (or expanded) it."""
        self._node_count = 0

    # --- what the router calls ---

    def show(self, changed: Iterable[int]) -> None:
        """Update added or changed nodes."""
        nodes, following = self.view.tree.nodes, self.scroll_offset.y >= self.max_scroll_y
        if len(nodes) > self._node_count or any(nodes[index].status != "running" for index in changed):
            self._node_count = len(nodes)
            self._lay_out()
        if not self.has_focus and following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        self.repaint()

    def reset(self) -> None:
        """Clear the tree before all nodes are replaced."""
        self._node_count = 0
        self.set_rows([])

    def _item(self, index: int) -> Item | None:
        """Return the item of a node; None for a node that only groups others."""
        node = self.view.tree.nodes[index]
        return self.view.items[node.item] if node.item >= 0 else None

    @property
    def chosen_item(self) -> Item | None:
        """Item at the cursor if the tree has the focus."""
        return self._item(self._current_index) if self.has_focus and self._current_index >= 0 else None

    def _is_subagent(self, index: int) -> bool:
        item = self._item(index)
        return isinstance(item, ToolItem) and item.call.name == SUBAGENT

    @property
    def follows_cursor(self) -> bool:
        """See ListView: without focus, the end is followed instead."""
        return self.has_focus

    @property
    def _current_index(self) -> int:
        """Node index at the cursor; -1 for none."""
        return -1 if self.current is None else self.current

    @property
    def stoppable(self) -> str:
        """Call id of the running sub-agent that the selected node belongs to; empty if there is none."""
        index, nodes = self._current_index, self.view.tree.nodes
        while index >= 0:
            if self._is_subagent(index):
                return nodes[index].id if nodes[index].status == "running" else ""
            index = nodes[index].parent
        return ""

    def tick(self) -> None:
        """Update running times, once a second."""
        if self.display and self.view.tree.running:
            self.repaint()

    # --- rows ---

    def _lay_out(self) -> None:
        current, roots = self._current_index, self.view.tree.roots
        rows = [-1] if len(roots) > MAX_RUNS or self.view.older else []
        for root in roots[-MAX_RUNS:]:
            rows.extend(self._visible_nodes(root))
        self.set_rows(rows, rows.index(current) if current in rows else len(rows) - 1)

    def _visible_nodes(self, index: int) -> Iterator[int]:
        yield index
        if not self.collapsed(index):
            children = self.view.tree.nodes[index].children
            if len(children) > MAX_CHILDREN:
                yield -1
            for child in children[-MAX_CHILDREN:]:
                yield from self._visible_nodes(child)

    def collapsed(self, index: int) -> bool:
        """Return whether the children of a node are hidden: by default for earlier runs, batches and finished
        sub-agents."""
        tree = self.view.tree
        node = tree.nodes[index]
        default = node.kind == "batch" or (node.parent < 0 and index != tree.roots[-1])
        default = default or (node.status != "running" and self._is_subagent(index))
        return self.user_choices.get(node.id, default)

    # --- painting ---

    def _row_lines(self, index: int, selected: bool, width: int, styles: TextStyles) -> list[Line]:
        """Paint the line of a node."""
        if index < 0:
            return [line(("… earlier", styles.muted))]
        node = self.view.tree.nodes[index]
        highlighted = self.has_focus and selected
        symbol, role = ("?", "warn") if node.pending_requests else WORDS.call_symbols[node.status]
        if node.kind == "reply" and node.status == "ok":
            symbol, role = "·", "muted"
        head: list[Span] = [("  " * min(node.depth, 6), styles.text), (symbol + " ", getattr(styles, role))]
        right = self._measure(node, styles)
        if highlighted and self.stoppable == node.id:
            right += [(f"  {key}", styles.text) for key in [KEYS.label("stop_subagent")] if key]
            right += [(" stops it", styles.muted)] if KEYS.label("stop_subagent") else []
        if node.children and self.collapsed(index):
            right.append((" ▸", styles.muted))
        room = max(0, width - width_of(head) - width_of(right) - 1)
        label = fitted_spans(self._label(node, styles), room)
        gap = max(1, width - width_of(head) - width_of(label) - width_of(right))
        spans = [*head, *label, (" " * gap, styles.text), *right]
        return [highlighted_line(spans, styles) if highlighted else line(*spans)]

    def _label(self, node: ProgressNode, styles: TextStyles) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        if node.kind == "batch":
            return [(batch_title(self._calls(node), node.status == "running"), styles.text)]
        if isinstance(item, ToolItem):
            return call_title(item, styles)
        if isinstance(item, ReplyItem):
            text: list[Span] = [(self._reply_text(item, node), styles.muted)]
            return [*text, (" · not usable", styles.warn)] if item.rejected else text
        if isinstance(item, StepItem):
            return self._step_label(item, styles)
        return [(one_line(node.title, 200) or node.kind, styles.strong if node.parent < 0 else styles.text)]

    @staticmethod
    def _step_label(item: StepItem, styles: TextStyles) -> list[Span]:
        number: list[Span] = [(f"{item.step.number} ", styles.muted)] if item.step.number else []
        return [*number, (one_line(item.step.description, 200), styles.text)]

    def _reply_text(self, reply: ReplyItem, node: ProgressNode) -> str:
        if reply.role and not reply.agent:
            return reply.purpose
        for text in reply.text.text[:2000].split("\n"):
            if text.strip():
                return one_line(text.strip().lstrip("#>*- "), 200)
        if reply is self.view.reply:
            return self.view.reply_phase[0] or "working"
        title = work_title(self._calls(node))
        return title or ("thought" if reply.reasoning.size else "next step" if reply.call_count else "no answer")

    def _calls(self, node: ProgressNode) -> list[ToolItem]:
        nodes, items = self.view.tree.nodes, self.view.items
        children = [items[nodes[child].item] for child in node.children if nodes[child].item >= 0]
        return [child for child in children if isinstance(child, ToolItem)]

    def _measure(self, node: ProgressNode, styles: TextStyles) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        spans: list[Span] = []
        if isinstance(item, ToolItem) and item.changes:
            added, removed = sum(c.added for c in item.changes), sum(c.removed for c in item.changes)
            spans = [(f"+{added} ", styles.ok), (f"−{removed}", styles.bad)]
        elif isinstance(item, StepItem) and item.recoveries:
            methods = dict.fromkeys(
                "fallback" if recovery.by == "fallback" else "new plan" for _after, recovery in item.recoveries
            )
            spans = [(", ".join(methods), styles.warn)]
        if node.pending_requests:
            return [*spans, (" waits" if spans else "waits", styles.warn)]
        ms = node.ms if node.status != "running" else int(max(0.0, self.now() - node.started_at)) * 1000
        if node.status in ("refused", "interrupted") and ms < SHORT:
            return [*spans, (" " + node.status if spans else node.status, styles.muted)]
        if ms < SHORT:
            return spans
        return [*spans, ("  " if spans else "", styles.text), (format_duration(ms), styles.muted)]

    # --- keys ---

    def take_focus(self) -> None:
        """See ListView; moves to the last line."""
        super().take_focus()
        self.move_to(len(self.rows) - 1)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.repaint()

    def leaves(self, event: events.Key) -> bool:
        """Return whether a key is a character that is not handled by the tree."""
        return event.is_printable and not self._action_for(event)

    def holds(self, event: events.Key) -> bool:
        """Return whether a key is a character that acts if it stands alone."""
        return event.is_printable and self._action_for(event) in ("stop_subagent", "toggle", "show")

    def take_text(self, event: events.Key) -> None:
        """Return to the composer with a typed character."""
        self.post_message(self.Left(event.character or "\n"))

    def _action_for(self, event: events.Key) -> str:
        """Return the action of a key; the stop key is an ordinary character if nothing can be stopped."""
        action = KEYS.action_for(event)
        return "" if action == "stop_subagent" and not self.stoppable else action

    def on_key(self, event: events.Key) -> None:
        """Handle a key; characters without an action go to the composer."""
        action = self._action_for(event)
        if self.move_for(action):
            pass
        elif action in ("collapse", "expand", "toggle"):
            self._set_collapsed(None if action == "toggle" else action == "collapse")
        elif action == "show":
            self._show_in_transcript()
        elif action == "stop_subagent":
            self._stop(self.stoppable)
        elif event.character and event.is_printable:
            self.post_message(self.Left(event.character))
        else:
            return
        event.stop()
        event.prevent_default()

    def _set_collapsed(self, collapse: bool | None) -> None:
        """Collapse, expand, or toggle (None). On a leaf, collapsing moves to the parent and toggling shows it."""
        index = self._current_index
        if index < 0:
            return
        node = self.view.tree.nodes[index]
        if node.children and collapse is not self.collapsed(index):
            self.user_choices[node.id] = not self.collapsed(index)
            self._lay_out()
        elif collapse and node.parent in self.rows:
            self.move_to(self.rows.index(node.parent))
        elif collapse is None:
            self._show_in_transcript()

    def _show_in_transcript(self) -> None:
        index = self._current_index
        tree = self.view.tree
        while index >= 0 and tree.nodes[index].item < 0 and tree.nodes[index].children:
            index = tree.nodes[index].children[0]
        if index >= 0 and tree.nodes[index].item >= 0:
            self.post_message(self.Chosen(tree.nodes[index].item))

    def on_list_view_clicked(self, message: ListView.Clicked) -> None:
        """Toggle a node with children, show a leaf in the transcript."""
        message.stop()
        self.move_to(message.index)
        if self._current_index >= 0 and self.view.tree.nodes[self._current_index].children:
            self._set_collapsed(None)
        else:
            self._show_in_transcript()

    def on_resize(self) -> None:
        """Stay at the end unless focused."""
        if not self.has_focus:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
