"""The graph: linking two things, and walking from one of them to all it came from or led to.

A walk is bounded and says where it was cut; it remembers where it has been, so a circle ends it like anything else.
"""

from collections.abc import Collection
from operator import attrgetter
from typing import Any, Final, get_args

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.lineage import store
from falaj.lineage.operations import Kind

KINDS: Final[tuple[str, ...]] = get_args(Kind)
DEEPEST: Final = 50
MOST_NODES: Final = 2000
MOST_EDGES: Final = 10_000
LONGEST_LABEL: Final = 300
_AT_ONCE: Final = 500


@value
class Node:
    """`id` is unique among its kind in a project: `name@digest` of a dataset, the id of anything else."""

    kind: str
    id: str
    label: str = ""


@value
class Edge:
    """`target` came from `source`."""

    source: Node
    target: Node
    relation: str
    at: Moment


@value
class Walk:
    """What a walk found, nearest first, without the node it began at; `distances` has one number for each of `nodes`.

    `cut` says that there is more.
    """

    nodes: tuple[Node, ...]
    distances: tuple[int, ...]
    edges: tuple[Edge, ...]
    cut: bool


def link(work: UnitOfWork, *, project: str, source: Node, target: Node, relation: str, now: Moment) -> None:
    """Record that `target` came from `source`. Said again it changes nothing, except that the newer labels count.

    `project` is a project's id. The caller has made sure that both are that project's.
    """
    for node in (source, target):
        if node.kind not in KINDS or not node.id:
            raise ValueError(f"a node is of one of the kinds {', '.join(KINDS)} and has an id, not {node!r}")
    first, last = (
        store.keep_node(work, project, kind=node.kind, id=node.id, label=node.label[:LONGEST_LABEL], now=now)
        for node in (source, target)
    )
    store.keep_edge(work, project, source=first, target=last, relation=relation, now=now)


def ancestors(work: UnitOfWork, project: str, node: Node, depth: int = DEEPEST) -> Walk:
    """Everything that the node came from, within `depth` steps."""
    return _walk(work, project, node, min(depth, DEEPEST), up=True)


def descendants(work: UnitOfWork, project: str, node: Node, depth: int = DEEPEST) -> Walk:
    """Everything that came from the node, within `depth` steps."""
    return _walk(work, project, node, min(depth, DEEPEST), up=False)


def made_of(work: UnitOfWork, project: str, nodes: Collection[Node]) -> tuple[Node, ...]:
    """What came from any of these directly, as much as a walk finds."""
    keys = sorted({store.key_of(node.kind, node.id) for node in nodes})
    found: dict[str, None] = {}
    for start in range(0, len(keys), _AT_ONCE):
        rows = store.edges_out_of(work, project, keys[start : start + _AT_ONCE], MOST_EDGES)
        found |= dict.fromkeys(row.target for row in rows)
        if len(found) > MOST_NODES:
            break
    some = list(found)[:MOST_NODES]
    named: dict[str, Node] = {}
    for start in range(0, len(some), _AT_ONCE):
        rows_of = store.nodes_with(work, project, some[start : start + _AT_ONCE])
        named |= {key: _node(row) for key, row in rows_of.items()}
    return tuple(named[key] for key in some if key in named)


def known(work: UnitOfWork, project: str, node: Node) -> Node | None:
    """The node under the label it is known by, or None where it is linked to nothing."""
    key = store.key_of(node.kind, node.id)
    row = store.nodes_with(work, project, [key]).get(key)
    return None if row is None else _node(row)


def _walk(work: UnitOfWork, project: str, node: Node, depth: int, *, up: bool) -> Walk:
    """Level by level: `rim` holds the nodes that the last step came to."""
    look, far_end = (store.edges_into, attrgetter("source")) if up else (store.edges_out_of, attrgetter("target"))
    start = store.key_of(node.kind, node.id)
    seen, rim, cut = {start: 0}, [start], False
    found: list[Any] = []
    for distance in range(1, depth + 1):
        room = MOST_EDGES - len(found)
        rows = look(work, project, rim, room + 1)
        cut = cut or len(rows) > room
        rim = []
        for row in rows[:room]:
            end = far_end(row)
            if end not in seen:
                if len(seen) > MOST_NODES:
                    cut = True
                    continue
                seen[end] = distance
                rim.append(end)
            found.append(row)
        if not rim:
            break
    else:
        cut = cut or any(far_end(row) not in seen for row in look(work, project, rim, MOST_EDGES))
    del seen[start]
    return _read(work, project, start, seen, found, cut)


def _read(work: UnitOfWork, project: str, start: str, seen: dict[str, int], rows: Collection[Any], cut: bool) -> Walk:
    named = {key: _node(row) for key, row in store.nodes_with(work, project, (start, *seen)).items()}
    edges = (Edge(source=named[row.source], target=named[row.target], relation=row.relation, at=Moment(row.at)) for row in rows)
    return Walk(nodes=tuple(named[key] for key in seen), distances=tuple(seen.values()), edges=tuple(edges), cut=cut)


def _node(row: Any) -> Node:
    return Node(kind=row.kind, id=row.id, label=row.label)
