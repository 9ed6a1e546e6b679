"""The progress tree, built from the `node` and `parent` of records (U3).

The cost per record is constant, plus the depth of the tree for requests. Parallel read-only calls are grouped in a
batch node, which takes one line.
"""

from __future__ import annotations

from collections.abc import Collection

from tui_agent import events as e
from tui_agent.view.change import epoch_seconds
from tui_agent.view.items import NodeKind, NodeStatus, ProgressNode, ProgressTree, ReplyItem, SessionView, ToolItem

OUTCOMES: dict[str, NodeStatus] = {
    "done": "ok",
    "ok": "ok",
    "interrupted": "interrupted",
    "refused": "refused",
    "rejected": "refused",
    "skipped": "skipped",
}
"""Outcome of a run, stage or step → status of its node; any other outcome is `failed`."""


def begin_node(
    view: SessionView, record: e.Record, kind: NodeKind, key: str, title: str = "", *, item: int = -1, agent: str = ""
) -> int:
    """Add a node below the record's parent, or below the call of the sub-agent `agent`. Returns its index."""
    tree = view.tree
    parent = tree.indexes.get(agent or record.parent, -1)
    if parent < 0 and kind != "run":
        parent = tree.indexes.get(record.run, -1)
    node = ProgressNode(kind, key, title, parent, started_at=epoch_seconds(record.at), item=item)
    index = len(tree.nodes)
    tree.nodes.append(node)
    tree.indexes[key] = index
    tree.running[index] = None
    if parent < 0:
        tree.roots.append(index)
    else:
        tree.nodes[parent].children.append(index)
        node.depth = tree.nodes[parent].depth + 1
        view.changes.nodes.add(parent)
    view.changes.nodes.add(index)
    return index


def begin_run(view: SessionView, record: e.Record, event: e.RunStarted) -> None:
    """Add the node of a run, titled with its message."""
    message = view.item(event.message_id)
    title = message.text if isinstance(message, e.UserMessageAdded) else ""
    begin_node(view, record, "run", record.run or event.message_id, title)


def begin_call(view: SessionView, record: e.Record, event: e.ToolStarted) -> None:
    """Add a call; a read-only one joins a running read-only sibling in a batch node."""
    tree, item = view.tree, view.indexes.get(event.call.id, -1)
    index = begin_node(view, record, "call", event.call.id, event.title, item=item, agent=event.agent)
    node = tree.nodes[index]
    siblings = tree.nodes[node.parent].children if node.parent >= 0 and _is_read_only(view, node) else []
    previous = siblings[-2] if len(siblings) > 1 else -1
    if previous < 0 or previous not in tree.running:
        return
    batch = tree.nodes[previous]
    if batch.kind == "call" and _is_read_only(view, batch):
        first, previous = previous, len(tree.nodes)
        batch = ProgressNode(
            "batch", f"{batch.id}+", batch.title, node.parent, batch.depth, started_at=batch.started_at
        )
        tree.nodes.append(batch)
        tree.running[previous] = None
        siblings[-2] = previous
        _move(tree, first, previous)
    elif batch.kind != "batch":
        return
    siblings.pop()
    _move(tree, index, previous)
    view.changes.nodes |= {previous, *batch.children, batch.parent}


def _move(tree: ProgressTree, index: int, parent: int) -> None:
    node = tree.nodes[index]
    node.parent, node.depth = parent, tree.nodes[parent].depth + 1
    tree.nodes[parent].children.append(index)


def _is_read_only(view: SessionView, node: ProgressNode) -> bool:
    item = view.items[node.item] if node.item >= 0 else None
    return isinstance(item, ToolItem) and item.reads_only and item.call.name != "run_subagent"


def drop_nodes(view: SessionView, items: int) -> None:
    """Follow the removal of the first `items` items: drop nodes with none of the others at or below them.

    Running nodes and the newest run stay.
    """
    tree, kept = view.tree, set[int]()
    for index, node in enumerate(tree.nodes):
        ancestor = index if node.item >= items or index in tree.running or index in tree.roots[-1:] else -1
        while ancestor >= 0 and ancestor not in kept:
            kept.add(ancestor)
            ancestor = tree.nodes[ancestor].parent
    moved = {index: number for number, index in enumerate(sorted(kept))}
    tree.nodes = [tree.nodes[index] for index in moved]
    for node in tree.nodes:
        node.item, node.parent = max(-1, node.item - items), moved.get(node.parent, -1)
        node.children = [moved[child] for child in node.children if child in moved]
    tree.roots = [moved[index] for index in tree.roots if index in moved]
    tree.running = {moved[index]: None for index in tree.running}
    tree.indexes = {key: moved[index] for key, index in tree.indexes.items() if index in moved}
    view.changes.nodes = {moved[index] for index in view.changes.nodes if index in moved}


def node_changed(view: SessionView, key: str) -> None:
    """Mark a node as changed."""
    if key in view.tree.indexes:
        view.changes.nodes.add(view.tree.indexes[key])


def end_node(view: SessionView, key: str, status: NodeStatus, ms: int) -> None:
    """End a node, and with the last call of a batch also the batch, with the worst status of its calls."""
    tree, index = view.tree, view.tree.indexes.get(key, -1)
    if index < 0:
        return
    node = tree.nodes[index]
    node.status, node.ms = status, ms
    tree.running.pop(index, None)
    view.changes.nodes.add(index)
    if node.parent < 0 or tree.nodes[node.parent].kind != "batch":
        return
    batch = tree.nodes[node.parent]
    statuses = [tree.nodes[child].status for child in batch.children]
    if "running" not in statuses:
        batch.status = next((status for status in ("failed", "interrupted", "refused") if status in statuses), "ok")
        batch.ms = max(tree.nodes[child].ms for child in batch.children)
        tree.running.pop(node.parent, None)
    view.changes.nodes.add(node.parent)


def end_call(view: SessionView, record: e.Record) -> None:
    """End the node of the record's call."""
    item = view.item(record.node)
    if isinstance(item, ToolItem):
        if item.id not in view.tree.indexes:  # the records before a truncated start are missing
            begin_node(view, record, "call", item.id, item.title, item=view.indexes[record.node])
        end_node(view, item.id, item.status, item.ms)


def end_reply(view: SessionView, record: e.Record) -> None:
    """End the node of the record's reply; a reply of a sub-agent gets its node now, if it has any text."""
    item = view.item(record.node)
    if isinstance(item, ReplyItem):
        if item.agent and (item.text.size or item.reasoning.size):
            begin_node(view, record, "reply", item.id, item=view.indexes[record.node], agent=item.agent)
        status: NodeStatus = "interrupted" if item.interrupted else "failed" if item.fault is not None else "ok"
        end_node(view, item.id, status, item.ms)


def end_run_node(view: SessionView, record: e.Record, event: e.RunEnded) -> None:
    """End the node of a run; nodes in it that are still running were interrupted."""
    tree, index = view.tree, view.tree.indexes.get(record.run, -1)
    if index < 0:
        return
    abandon_nodes(view, [running for running in tree.running if running != index and _within(tree, running, index)])
    node = tree.nodes[index]
    ms = event.ms or round((epoch_seconds(record.at) - node.started_at) * 1000)
    end_node(view, node.id, OUTCOMES.get(event.outcome, "failed"), ms)


def _within(tree: ProgressTree, index: int, ancestor: int) -> bool:
    while index >= 0 and index != ancestor:
        index = tree.nodes[index].parent
    return index == ancestor


def abandon_nodes(view: SessionView, indexes: Collection[int]) -> None:
    """Mark nodes as interrupted."""
    for index in indexes:
        view.tree.nodes[index].status = "interrupted"
        view.tree.nodes[index].pending_requests = 0
        view.tree.running.pop(index, None)
    view.changes.nodes.update(indexes)


def count_requests(view: SessionView, key: str) -> None:
    """Update the number of pending requests of a node and its ancestors."""
    nodes, index = view.tree.nodes, view.tree.indexes.get(key, -1)
    if index < 0:
        return
    added = sum(request.node == key for request in view.pending.values()) - nodes[index].pending_requests
    while added and index >= 0:
        nodes[index].pending_requests = max(0, nodes[index].pending_requests + added)
        view.changes.nodes.add(index)
        index = nodes[index].parent
