"""The progress tree: what a run is made of, by each record's `node` and `parent` alone (U3).

A record costs a constant: the node it is about, and the nodes above it when somebody is asked. Calls that only read
and go on side by side share a node, so that a batch takes one line.
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
"""How a run or a stage ended → how its node looks; everything else failed."""


def begin_node(
    view: SessionView, record: e.Record, kind: NodeKind, key: str, title: str = "", *, item: int = -1, agent: str = ""
) -> int:
    """Add a node below the record's parent, or below the call that sent the sub-agent `agent`. Returns its place."""
    tree = view.tree
    above = tree.places.get(agent or record.parent, -1)
    if above < 0 and kind != "run":
        above = tree.places.get(record.run, -1)
    node = ProgressNode(kind, key, title, above, began=epoch_seconds(record.at), item=item)
    place = len(tree.nodes)
    tree.nodes.append(node)
    tree.places[key] = place
    tree.running[place] = None
    if above < 0:
        tree.roots.append(place)
    else:
        tree.nodes[above].children.append(place)
        node.depth = tree.nodes[above].depth + 1
        view.changes.nodes.add(above)
    view.changes.nodes.add(place)
    return place


def begin_run(view: SessionView, record: e.Record, event: e.RunStarted) -> None:
    """The message is its title."""
    message = view.item(event.message_id)
    title = message.text if isinstance(message, e.UserMessageAdded) else ""
    begin_node(view, record, "run", record.run or event.message_id, title)


def begin_call(view: SessionView, record: e.Record, event: e.ToolStarted) -> None:
    """A second read beside a running one makes a batch; a third joins it."""
    tree, item = view.tree, view.places.get(event.call.id, -1)
    place = begin_node(view, record, "call", event.call.id, event.title, item=item, agent=event.agent)
    node = tree.nodes[place]
    siblings = tree.nodes[node.parent].children if node.parent >= 0 and _reads(view, node) else []
    before = siblings[-2] if len(siblings) > 1 else -1
    if before < 0 or before not in tree.running:
        return
    batch = tree.nodes[before]
    if batch.kind == "call" and _reads(view, batch):
        first, before = before, len(tree.nodes)
        batch = ProgressNode("batch", f"{batch.id}+", batch.title, node.parent, batch.depth, began=batch.began)
        tree.nodes.append(batch)
        tree.running[before] = None
        siblings[-2] = before
        _move(tree, first, before)
    elif batch.kind != "batch":
        return
    siblings.pop()
    _move(tree, place, before)
    view.changes.nodes |= {before, *batch.children, batch.parent}


def _move(tree: ProgressTree, place: int, above: int) -> None:
    node = tree.nodes[place]
    node.parent, node.depth = above, tree.nodes[above].depth + 1
    tree.nodes[above].children.append(place)


def _reads(view: SessionView, node: ProgressNode) -> bool:
    item = view.items[node.item] if node.item >= 0 else None
    return isinstance(item, ToolItem) and item.reads_only and item.call.name != "run_subagent"


def node_changed(view: SessionView, key: str) -> None:
    """Paint it anew."""
    if key in view.tree.places:
        view.changes.nodes.add(view.tree.places[key])


def end_node(view: SessionView, key: str, status: NodeStatus, ms: int) -> None:
    """A batch ends with its last call, and as badly as the worst of them."""
    tree, place = view.tree, view.tree.places.get(key, -1)
    if place < 0:
        return
    node = tree.nodes[place]
    node.status, node.ms = status, ms
    tree.running.pop(place, None)
    view.changes.nodes.add(place)
    if node.parent < 0 or tree.nodes[node.parent].kind != "batch":
        return
    batch = tree.nodes[node.parent]
    states = [tree.nodes[one].status for one in batch.children]
    if "running" not in states:
        batch.status = next((one for one in ("failed", "interrupted", "refused") if one in states), "ok")
        batch.ms = max(tree.nodes[one].ms for one in batch.children)
        tree.running.pop(node.parent, None)
    view.changes.nodes.add(node.parent)


def end_call(view: SessionView, record: e.Record) -> None:
    """The call of this record has its result."""
    item = view.item(record.node)
    if isinstance(item, ToolItem):
        if item.id not in view.tree.places:  # its beginning was never seen
            begin_node(view, record, "call", item.id, item.title, item=view.places[record.node])
        end_node(view, item.id, item.status, item.ms)


def end_reply(view: SessionView, record: e.Record) -> None:
    """The reply of this record is complete; that of a sub-agent is listed from now on, if it has any text."""
    item = view.item(record.node)
    if isinstance(item, ReplyItem):
        if item.agent and (item.text.size or item.thought.size):
            begin_node(view, record, "reply", item.id, item=view.places[record.node], agent=item.agent)
        bad = item.fault is not None
        end_node(view, item.id, "interrupted" if item.interrupted else "failed" if bad else "ok", item.ms)


def end_run_node(view: SessionView, record: e.Record, event: e.RunEnded) -> None:
    """What still went on in it was interrupted."""
    tree, place = view.tree, view.tree.places.get(record.run, -1)
    if place < 0:
        return
    abandon_nodes(view, [one for one in tree.running if one != place and _within(tree, one, place)])
    node = tree.nodes[place]
    ms = event.ms or round((epoch_seconds(record.at) - node.began) * 1000)
    end_node(view, node.id, OUTCOMES.get(event.outcome, "failed"), ms)


def _within(tree: ProgressTree, place: int, above: int) -> bool:
    while place >= 0 and place != above:
        place = tree.nodes[place].parent
    return place == above


def abandon_nodes(view: SessionView, places: Collection[int]) -> None:
    """They go on no longer."""
    for place in places:
        view.tree.nodes[place].status = "interrupted"
        view.tree.nodes[place].asked = 0
        view.tree.running.pop(place, None)
    view.changes.nodes.update(places)


def count_requests(view: SessionView, key: str) -> None:
    """Whoever is above the call that waits shows that somebody is asked."""
    nodes, place = view.tree.nodes, view.tree.places.get(key, -1)
    more = sum(one.node == key for one in view.pending.values()) - nodes[place].asked if place >= 0 else 0
    while more and place >= 0:
        nodes[place].asked = max(0, nodes[place].asked + more)
        view.changes.nodes.add(place)
        place = nodes[place].parent
