"""The nodes of the progress tree: run, stage, step, reply, call, and the calls that went side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NodeKind: TypeAlias = Literal["run", "stage", "step", "reply", "call", "batch"]
NodeStatus: TypeAlias = Literal["running", "ok", "failed", "refused", "interrupted", "skipped"]


@dataclass(slots=True)
class Node:
    """One node. `parent` and `children` are places in `Tree.nodes`."""

    kind: NodeKind
    id: str
    title: str = ""
    parent: int = -1
    """-1 for a node at the top."""
    depth: int = 0
    status: NodeStatus = "running"
    began: float = 0.0
    """Seconds since the epoch."""
    ms: int = 0
    item: int = -1
    """Place in `SessionView.items` of what it stands for; -1 when there is none."""
    asked: int = 0
    """Requests below this node that wait for somebody."""
    children: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """All nodes in the order they came; only `grow` changes them."""

    nodes: list[Node] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """Id of a run, stage, step, reply or call → place in `nodes`."""
    running: dict[int, None] = field(default_factory=dict)
    """Places of the nodes that go on."""

    @property
    def last(self) -> Node | None:
        """The newest node at the top."""
        return self.nodes[self.roots[-1]] if self.roots else None
