"""The progress tree: what a run is made of, by each record's `node` and `parent` alone (U3).

A record costs a constant: the node it is about, and the nodes above it when somebody is asked. Calls that only read
and go on side by side share a node, so that a batch takes one line.
"""

from __future__ import annotations

from tui_agent import events as e
from tui_agent.view.change import EXPLORER, seconds
from tui_agent.view.items import ReplyItem, SessionView, ToolItem, UserItem
from tui_agent.view.nodes import Node, NodeKind, NodeStatus, Tree

OUTCOMES: dict[str, NodeStatus] = {
    "done": "ok",
    "ok": "ok",
    "interrupted": "interrupted",
    "refused": "refused",
    "rejected": "refused",
    "skipped": "skipped",
}
"""How a run or a stage ended → how its node looks; everything else failed."""


def grow(view: SessionView, record: e.Record) -> tuple[int, ...]:
    """Bring the tree up to date with a record that was folded; returns the places of the nodes that changed."""
    tree = view.tree
    match record.event:
        case e.RunStarted() as event:
            return _begin(tree, record, "run", record.run or event.message_id, _said(view, event.message_id))
        case e.StageEntered() as event:
            return _begin(tree, record, "stage", _stage_id(record, event.stage), event.title or event.stage)
        case e.ReplyStarted() as event:
            return _reply(view, record, event)
        case e.ToolStarted() as event:
            return _call(view, record, event)
        case e.ReplyEnded() | e.ToolFinished():
            return _item_ended(view, record)
        case e.StageLeft() as event:
            return _end(tree, _stage_id(record, event.stage), OUTCOMES.get(event.outcome, "failed"), event.ms)
        case e.RunEnded() as event:
            return _run_ended(tree, record, event)
        case e.ApprovalAsked() | e.QuestionAsked() | e.ApprovalAnswered() | e.QuestionAnswered():
            return _asked(view, record)
        case e.SessionOpened() | e.SessionClosed() | e.SessionRecovered() | e.SessionForked():
            return _abandon(tree, tuple(tree.running))
        case _:
            return _grow_more(view, record)


def _grow_more(view: SessionView, record: e.Record) -> tuple[int, ...]:
    """Steps of a plan, what is asked about it, and replies that could not be used."""
    tree = view.tree
    match record.event:
        case e.StepStarted() as event:
            item = view.places.get(record.node, -1)
            return _begin(tree, record, "step", record.node, event.step.description, item=item)
        case e.StepFinished() as event:
            return _end(tree, record.node, OUTCOMES.get(event.outcome, "failed"), event.ms)
        case e.StepVerified() | e.StepRecovering():
            place = tree.places.get(view.step.id, -1) if view.step is not None else -1
            return (place,) if place >= 0 else ()
        case e.PlanProposed() | e.PlanReviewed() | e.SummaryOffered() | e.SummarySettled():
            return _asked(view, record)
        case e.ReplyRejected():
            place = tree.places.get(record.node, -1)
            return (place,) if place >= 0 else ()
        case _:
            return ()


def _said(view: SessionView, message: str) -> str:
    item = view.items[view.places[message]] if message in view.places else None
    return item.text if isinstance(item, UserItem) else ""


def _stage_id(record: e.Record, stage: str) -> str:
    return record.node or f"{record.run}/{stage}"


def _begin(
    tree: Tree,
    record: e.Record,
    kind: NodeKind,
    key: str,
    title: str = "",
    *,
    item: int = -1,
    agent: str = "",
) -> tuple[int, ...]:
    """Add a node below the record's parent, or below the call that sent the sub-agent `agent`."""
    above = tree.places.get(agent or record.parent, -1)
    if above < 0 and kind != "run":
        above = tree.places.get(record.run, -1)
    place = _add(tree, Node(kind, key, title, above, began=seconds(record.at), item=item))
    return (place,) if above < 0 else (place, above)


def _add(tree: Tree, node: Node) -> int:
    place = len(tree.nodes)
    tree.nodes.append(node)
    tree.places[node.id] = place
    tree.running[place] = None
    if node.parent < 0:
        tree.roots.append(place)
    else:
        above = tree.nodes[node.parent]
        above.children.append(place)
        node.depth = above.depth + 1
    return place


def _reply(view: SessionView, record: e.Record, event: e.ReplyStarted) -> tuple[int, ...]:
    if event.role == EXPLORER:
        return ()  # listed when it has ended, if it says anything
    return _begin(view.tree, record, "reply", record.node, item=view.places.get(record.node, -1))


def _call(view: SessionView, record: e.Record, event: e.ToolStarted) -> tuple[int, ...]:
    tree, item = view.tree, view.places.get(event.call.id, -1)
    changed = _begin(tree, record, "call", event.call.id, event.title, item=item, agent=event.agent)
    node = tree.nodes[changed[0]]
    if _reads(view, node) and node.parent >= 0:
        return changed + _join_batch(view, changed[0])
    return changed


def _join_batch(view: SessionView, place: int) -> tuple[int, ...]:
    """A second read beside one that still goes on makes a batch; a third joins it."""
    tree = view.tree
    node = tree.nodes[place]
    siblings = tree.nodes[node.parent].children
    before = siblings[-2] if len(siblings) > 1 else -1
    if before < 0 or before not in tree.running:
        return ()
    batch = tree.nodes[before]
    if batch.kind == "call" and _reads(view, batch):
        first, batch = (
            before,
            Node("batch", f"{batch.id}+", batch.title, node.parent, batch.depth, began=batch.began),
        )
        before = len(tree.nodes)
        tree.nodes.append(batch)
        tree.running[before] = None
        siblings[-2] = before
        _move(tree, first, before)
    elif batch.kind != "batch":
        return ()
    siblings.pop()
    _move(tree, place, before)
    return (before, *batch.children, batch.parent)


def _move(tree: Tree, place: int, above: int) -> None:
    node = tree.nodes[place]
    node.parent, node.depth = above, tree.nodes[above].depth + 1
    tree.nodes[above].children.append(place)


def _reads(view: SessionView, node: Node) -> bool:
    item = view.items[node.item] if node.item >= 0 else None
    return isinstance(item, ToolItem) and item.reads_only and item.call.name != "run_subagent"


def _item_ended(view: SessionView, record: e.Record) -> tuple[int, ...]:
    place = view.places.get(record.node, -1)
    item = view.items[place] if place >= 0 else None
    if isinstance(item, ToolItem):
        if item.id not in view.tree.places:  # its beginning was never seen
            _begin(view.tree, record, "call", item.id, item.title, item=place)
        changed = _end(view.tree, item.id, item.status, item.ms)
        return changed + _end_batch(view.tree, changed[0]) if changed else ()
    if isinstance(item, ReplyItem):
        if item.agent and (item.text.size or item.thought.size):
            _begin(view.tree, record, "reply", item.id, item=place, agent=item.agent)
        bad = item.fault is not None
        return _end(
            view.tree, item.id, "interrupted" if item.interrupted else "failed" if bad else "ok", item.ms
        )
    return ()


def _end(tree: Tree, key: str, status: NodeStatus, ms: int) -> tuple[int, ...]:
    place = tree.places.get(key, -1)
    if place < 0:
        return ()
    node = tree.nodes[place]
    node.status, node.ms = status, ms
    tree.running.pop(place, None)
    return (place,)


def _end_batch(tree: Tree, child: int) -> tuple[int, ...]:
    """The batch ends with its last call, and as badly as the worst of them."""
    place = tree.nodes[child].parent
    if place < 0 or tree.nodes[place].kind != "batch":
        return ()
    batch = tree.nodes[place]
    states = [tree.nodes[one].status for one in batch.children]
    if "running" in states:
        return (place,)
    batch.status = next((one for one in ("failed", "interrupted", "refused") if one in states), "ok")
    batch.ms = max(tree.nodes[one].ms for one in batch.children)
    tree.running.pop(place, None)
    return (place,)


def _run_ended(tree: Tree, record: e.Record, event: e.RunEnded) -> tuple[int, ...]:
    place = tree.places.get(record.run, -1)
    if place < 0:
        return ()
    inside = tuple(one for one in tree.running if one != place and _within(tree, one, place))
    left = _abandon(tree, inside)
    node = tree.nodes[place]
    ms = event.ms or round((seconds(record.at) - node.began) * 1000)
    return left + _end(tree, node.id, OUTCOMES.get(event.outcome, "failed"), ms)


def _within(tree: Tree, place: int, above: int) -> bool:
    while place >= 0 and place != above:
        place = tree.nodes[place].parent
    return place == above


def _abandon(tree: Tree, places: tuple[int, ...]) -> tuple[int, ...]:
    for place in places:
        tree.nodes[place].status = "interrupted"
        tree.nodes[place].asked = 0
        tree.running.pop(place, None)
    return places


def _asked(view: SessionView, record: e.Record) -> tuple[int, ...]:
    """Whoever is above the call that waits shows that somebody is asked."""
    tree, place = view.tree, view.tree.places.get(record.node, -1)
    waits = sum(one.node == record.node for one in view.pending.values())
    if place < 0 or waits == tree.nodes[place].asked:
        return ()
    more = waits - tree.nodes[place].asked
    changed: list[int] = []
    while place >= 0:
        tree.nodes[place].asked = max(0, tree.nodes[place].asked + more)
        changed.append(place)
        place = tree.nodes[place].parent
    return tuple(changed)
