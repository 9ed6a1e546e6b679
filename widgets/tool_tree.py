"""The progress tree: runs, steps of the plan, batches of tool calls, and sub-agents (U3).

A step takes one line, with its replies and calls below it when it is expanded. Stages take a line while they tell
something new; without a plan, each group of calls takes one.
"""

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
from widgets.markdown import plain_title
from widgets.styled_text import Line, Span, TextStyles, fitted_spans, highlighted_line, line, width_of
from widgets.words import WORDS

MIN_TITLE = 24
"""Width that a title needs at least; with less, a step does not show how it was recovered."""
PREPARING_STAGES = ("planning", "subtask", "recovery")
"""Stages that have a line until they succeed: the steps tell the rest."""
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
        self._depths: dict[int, int] = {}
        """Node index → depth of its line."""
        self._lines: dict[int, int] = {}
        """Node index → number of its line."""
        self._node_count = 0

    # --- what the router calls ---

    def show(self, changed: Iterable[int]) -> None:
        """Update added or changed nodes; nothing but their lines is painted if no line comes or goes."""
        nodes, following = self.view.tree.nodes, self.scroll_offset.y >= self.max_scroll_y
        if len(nodes) > self._node_count or any(nodes[index].status != "running" for index in changed):
            self._node_count = len(nodes)
            self._lay_out()
        self._repaint_nodes(changed)
        if not self.has_focus and following:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def _repaint_nodes(self, indexes: Iterable[int]) -> None:
        """Paint the lines of nodes, and of those they belong to."""
        nodes, stale = self.view.tree.nodes, set[int]()
        for changed in indexes:
            index = changed
            while 0 <= index < len(nodes):
                if (number := self._lines.get(index)) is not None:
                    stale.add(number)
                index = nodes[index].parent
        self.repaint_rows(stale)

    def reset(self) -> None:
        """Clear the tree before all nodes are replaced."""
        self._node_count = 0
        self._depths, self._lines = {}, {}
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
        if self.display:
            self._repaint_nodes(self.view.tree.running)

    # --- rows ---

    def _lay_out(self) -> None:
        current, roots = self._current_index, self.view.tree.roots
        placed = [(-1, 0)] if len(roots) > MAX_RUNS or self.view.older else []
        for root in roots[-MAX_RUNS:]:
            placed.extend(self._visible_nodes(root, 0, nested=False))
        rows, depths = [index for index, _depth in placed], dict(placed)
        if rows == self.rows and depths == self._depths:
            return
        self._depths, self._lines = depths, {index: number for number, index in enumerate(rows)}
        self.set_rows(rows, self._lines[current] if current in self._lines else len(rows) - 1)

    def _visible_nodes(self, index: int, depth: int, *, nested: bool) -> Iterator[tuple[int, int]]:
        """Yield nodes that have a line, with its depth; `nested` tells that a line above, such as a step's, was
        expanded to see them."""
        node = self.view.tree.nodes[index]
        if self._has_line(node, nested):
            yield index, depth
            if node.kind == "reply" and not self._is_group(node):
                pass  # what it calls stands below it, as its continuation
            elif self.collapsed(index):
                yield from self._going_on(node, depth + 1)
                return
            else:
                depth += 1
                nested = nested or node.kind in ("step", "stage") or self._is_subagent(index)
        children = node.children
        if len(children) > MAX_CHILDREN:
            yield -1, depth
        for child in children[-MAX_CHILDREN:]:
            yield from self._visible_nodes(child, depth, nested=nested)

    def _has_line(self, node: ProgressNode, nested: bool) -> bool:
        """Return whether a node has a line; the children of one without stand in its place."""
        if node.kind == "stage":
            return node.stage not in (*PREPARING_STAGES, "execution") or (
                node.stage != "execution" and node.status != "ok"
            )
        if node.kind == "reply" and not self._is_group(node):
            return nested and bool(self._reply_text(node))
        return True

    def _going_on(self, node: ProgressNode, depth: int) -> Iterator[tuple[int, int]]:
        """Yield what is shown of a collapsed step all the same: sub-agents and new plans that are being made."""
        nodes = self.view.tree.nodes
        if node.kind != "step" or not node.children:
            return
        for index in self.view.tree.running:
            if nodes[index].kind != "stage" and not self._is_subagent(index):
                continue
            if self._step_of(nodes[index]) is node:
                yield from self._visible_nodes(index, depth, nested=True)

    def _is_group(self, node: ProgressNode) -> bool:
        """Return whether a node is a reply that has a line as the title of its calls."""
        return node.kind == "reply" and len(node.children) > 1 and bool(work_title(self._calls(node)))

    def collapsed(self, index: int) -> bool:
        """Return whether the children of a node are hidden: by default for all but the newest run, groups of
        sub-agents, and running sub-agents outside of steps."""
        tree = self.view.tree
        node = tree.nodes[index]
        if self._is_subagent(index):
            default = node.status != "running" or self._step_of(node) is not None
        elif node.kind == "reply":
            default = not any(self._is_subagent(child) for child in node.children)
        else:
            default = node.kind not in ("run", "call") or (node.kind == "run" and index != tree.roots[-1])
        return self.user_choices.get(node.id, default)

    def _step_of(self, node: ProgressNode) -> ProgressNode | None:
        """Return the step that a node belongs to."""
        nodes = self.view.tree.nodes
        while node.parent >= 0 and node.kind != "step":
            node = nodes[node.parent]
        return node if node.kind == "step" else None

    def _is_expandable(self, node: ProgressNode) -> bool:
        """Return whether lines can be shown below a node."""
        return bool(node.children) and (node.kind != "reply" or self._is_group(node))

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
        indent = "  " * min(self._depths.get(index, node.depth), 6)
        head: list[Span] = [(indent, styles.text), (symbol + " ", getattr(styles, role))]
        right = self._right(index, highlighted, styles)
        if width - width_of(head) - width_of(right) < MIN_TITLE:
            right = self._right(index, highlighted, styles, recoveries=False)
        label = fitted_spans(self._label(node, styles), max(0, width - width_of(head) - width_of(right) - 1))
        gap = max(1, width - width_of(head) - width_of(label) - width_of(right))
        spans = [*head, *label, (" " * gap, styles.text), *right]
        return [highlighted_line(spans, styles) if highlighted else line(*spans)]

    def _right(self, index: int, highlighted: bool, styles: TextStyles, *, recoveries: bool = True) -> list[Span]:
        """Paint what stands at the right end: changes, time, the key that stops it, whether it can be expanded."""
        node = self.view.tree.nodes[index]
        right = self._measure(node, styles, recoveries=recoveries)
        if highlighted and self.stoppable == node.id and (key := KEYS.label("stop_subagent")):
            right += [(f"  {key}", styles.text), (" stops it", styles.muted)]
        if self._is_expandable(node) and self.collapsed(index):
            right.append((" ▸", styles.muted))
        return right

    def _label(self, node: ProgressNode, styles: TextStyles) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        if node.kind == "batch":
            return [(batch_title(self._calls(node), node.status == "running"), styles.text)]
        if isinstance(item, ToolItem):
            return call_title(item, styles)
        if isinstance(item, ReplyItem):
            text: list[Span] = [(self._reply_text(node), styles.muted)]
            return [*text, (" · not usable", styles.warn)] if item.rejected else text
        if node.kind == "step":
            number: list[Span] = [(f"{node.number} ", styles.muted)] if node.number else []
            style = styles.text if node.item >= 0 else styles.muted
            return [*number, (plain_title(node.title[:2000]) or "step", style)]
        return [(one_line(node.title, 200) or node.kind, styles.strong if node.parent < 0 else styles.text)]

    def _reply_text(self, node: ProgressNode) -> str:
        """Return the purpose of a reply, what it is doing, or its first words; empty if it only makes calls."""
        reply = self.view.items[node.item]
        if not isinstance(reply, ReplyItem):
            return ""
        if reply.role and not reply.agent:
            return reply.purpose
        if title := work_title(self._calls(node)):
            return title
        if text := _first_words(reply.text.text[:2000], grows=node.status == "running"):
            return text
        if reply is self.view.reply:
            return self.view.reply_phase[0] or "working"
        return "thought" if reply.reasoning.size else "" if reply.call_count else "no answer"

    def _calls(self, node: ProgressNode) -> list[ToolItem]:
        nodes, items = self.view.tree.nodes, self.view.items
        children = [items[nodes[child].item] for child in node.children if nodes[child].item >= 0]
        return [child for child in children if isinstance(child, ToolItem)]

    def _measure(self, node: ProgressNode, styles: TextStyles, *, recoveries: bool) -> list[Span]:
        item = self.view.items[node.item] if node.item >= 0 else None
        spans: list[Span] = []
        if isinstance(item, ToolItem) and item.changes:
            added, removed = sum(c.added for c in item.changes), sum(c.removed for c in item.changes)
            spans = [(f"+{added} ", styles.ok), (f"−{removed}", styles.bad)]
        elif isinstance(item, StepItem) and item.recoveries and recoveries:
            methods = dict.fromkeys(
                "fallback" if recovery.by == "fallback" else "new plan" for _after, recovery in item.recoveries
            )
            spans = [(", ".join(methods), styles.warn)]
        if node.pending_requests:
            return [*spans, (" waits" if spans else "waits", styles.warn)]
        if node.kind == "step" and node.item < 0:
            return [("not executed", styles.muted)] if node.status == "skipped" else []
        ms = node.ms if node.status != "running" else int(max(0.0, self.now() - node.started_at)) * 1000
        if node.status in ("refused", "interrupted") and ms < SHORT:
            return [*spans, (" " * bool(spans) + WORDS.not_done[node.status], styles.muted)]
        if ms < SHORT:
            return spans
        return [*spans, ("  " if spans else "", styles.text), (format_duration(ms), styles.muted)]

    # --- keys ---

    def key_hints(self) -> list[tuple[str, str]]:
        """Return the keys for the footer."""
        return [*KEYS.hints([("show", "open")]), ("esc", "back")]

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
            self._expand_or_show()
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
        nodes = self.view.tree.nodes
        node = nodes[index]
        above = node.parent
        while above >= 0 and above not in self._lines:
            above = nodes[above].parent
        if self._is_expandable(node) and collapse is not self.collapsed(index):
            self.user_choices[node.id] = not self.collapsed(index)
            self._lay_out()
            self.repaint()
        elif collapse and above >= 0:
            self.move_to(self._lines[above])
        elif collapse is None:
            self._show_in_transcript()

    def _show_in_transcript(self) -> None:
        index = self._current_index
        tree = self.view.tree
        while index >= 0 and tree.nodes[index].item < 0 and tree.nodes[index].children:
            index = tree.nodes[index].children[0]
        if index >= 0 and tree.nodes[index].item >= 0:
            self.post_message(self.Chosen(tree.nodes[index].item))

    def _expand_or_show(self) -> None:
        """Expand or collapse a step; show anything else in the transcript."""
        index = self._current_index
        is_step = index >= 0 and self.view.tree.nodes[index].kind in ("step", "stage")
        if is_step and self._is_expandable(self.view.tree.nodes[index]):
            self._set_collapsed(None)
        else:
            self._show_in_transcript()

    def on_list_view_clicked(self, message: ListView.Clicked) -> None:
        """Toggle a node with children, show a leaf in the transcript."""
        message.stop()
        self.move_to(message.index)
        if self._current_index >= 0 and self._is_expandable(self.view.tree.nodes[self._current_index]):
            self._set_collapsed(None)
        else:
            self._show_in_transcript()

    def on_resize(self) -> None:
        """Stay at the end unless focused."""
        if not self.has_focus:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)


def _first_words(text: str, *, grows: bool) -> str:
    """Return the title of a reply's text. One that grows is read as Markdown only up to the end of its first line,
    as it is painted with every token."""
    if not grows:
        return plain_title(text)
    first, line_feed, _rest = text.lstrip().partition("\n")
    return plain_title(first) if line_feed else one_line(first, 200)
