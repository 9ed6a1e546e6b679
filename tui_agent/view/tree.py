"""The progress tree, built from the `node` and `parent` of records (U3).

The cost per record is constant, plus the depth of the tree for requests. Parallel read-only calls are grouped in a
batch node, which takes one line.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tui_agent import events as e
from tui_agent.common.workplan import PlanStep
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
EXECUTION = "execution"
"""Name of the stage that executes the steps of the plan."""


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
        children = tree.nodes[parent].children
        children.insert(len(children) - (len(tree.planned) if parent == tree.execution else 0), index)
        node.depth = tree.nodes[parent].depth + 1
        view.changes.nodes.add(parent)
    view.changes.nodes.add(index)
    return index


def begin_stage(view: SessionView, record: e.Record, key: str, stage: str, title: str) -> None:
    """Add a stage; the one that executes the plan gets its steps."""
    tree = view.tree
    index = begin_node(view, record, "stage", key, title)
    tree.nodes[index].stage = stage
    if stage == EXECUTION:
        tree.execution, tree.planned = index, []
        replace_planned(view, view.plan_steps, count=0)
        view.plan_steps = ()


def replace_planned(view: SessionView, steps: Sequence[PlanStep], *, count: int | None = None) -> None:
    """Replace the first `count` planned steps, by default all, by the steps of a new plan."""
    tree = view.tree
    if tree.execution < 0:
        return
    stage = tree.nodes[tree.execution]
    count = len(tree.planned) if count is None else count
    others = stage.children[: len(stage.children) - len(tree.planned)]
    first = len(tree.nodes)
    tree.nodes += [ProgressNode("step", "", step.description, tree.execution, stage.depth + 1) for step in steps]
    tree.planned = [*range(first, len(tree.nodes)), *tree.planned[count:]]
    stage.children[:] = [*others, *tree.planned]
    started = max((tree.nodes[child].number for child in others), default=0)
    for number, index in enumerate(tree.planned, started + 1):
        tree.nodes[index].status, tree.nodes[index].number = "planned", number
    view.changes.nodes |= {tree.execution, *tree.planned}


def begin_step(view: SessionView, record: e.Record, event: e.StepStarted) -> None:
    """Start the planned step that is due, or else add one."""
    tree, step, item = view.tree, event.step, view.indexes.get(record.node, -1)
    due = len(tree.planned) - (event.of - step.number)
    if step.number and 0 < due <= len(tree.planned):  # steps before it were left out
        stage, index = tree.nodes[tree.execution], tree.planned[due - 1]
        left_out = set(tree.planned[: due - 1])
        stage.children[:] = [child for child in stage.children if child not in left_out]
        del tree.planned[:due]
        node = tree.nodes[index]
        node.id, node.title, node.item, node.status = record.node, step.description, item, "running"
        node.started_at = epoch_seconds(record.at)
        tree.indexes[record.node] = index
        tree.running[index] = None
        view.changes.nodes |= {index, tree.execution}
    else:
        index = begin_node(view, record, "step", record.node, step.description, item=item)
    tree.nodes[index].number = step.number


def skip_planned(view: SessionView) -> None:
    """Mark the planned steps as not executed: the execution has ended."""
    tree = view.tree
    for index in tree.planned:
        tree.nodes[index].status = "skipped"
    view.changes.nodes.update(tree.planned)
    tree.planned, tree.execution = [], -1


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

    Running nodes, planned steps and the newest run stay.
    """
    tree, kept, planned = view.tree, set[int](), set(view.tree.planned)
    for index, node in enumerate(tree.nodes):
        stays = index in tree.running or index in planned or index in tree.roots[-1:]
        ancestor = index if node.item >= items or stays else -1
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
    tree.planned = [moved[index] for index in tree.planned]
    tree.execution = moved.get(tree.execution, -1)
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
    skip_planned(view)
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
