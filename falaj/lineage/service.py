"""The handlers: the graph around one node, and the export."""

from typing import cast

from falaj.base.pages import cursor_after, read_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.lineage import operations as declared
from falaj.lineage import store
from falaj.lineage.events import Records, events_of
from falaj.lineage.graph import Edge, Node, Walk, ancestors, descendants, known

NOWHERE = Walk(nodes=(), distances=(), edges=(), cut=False)


class LineageService:
    def __init__(self, records: Records) -> None:
        self._records = records

    def bindings(self) -> list[Bound]:
        return [bind(declared.SHOW_GRAPH, self.graph), bind(declared.LIST_EVENTS, self.events)]

    def graph(self, context: Context, request: declared.ShowGraph) -> declared.Graph:
        work, project = context.work, context.required_project.id
        start = known(work, project, Node(kind=request.kind, id=request.id))
        if start is None:
            return declared.Graph(nodes=(), edges=(), cut=False)
        up = ancestors(work, project, start, request.depth) if request.direction != "down" else NOWHERE
        down = descendants(work, project, start, request.depth) if request.direction != "up" else NOWHERE
        distances = {start: 0}
        for walk, sign in ((up, -1), (down, 1)):
            for node, distance in zip(walk.nodes, walk.distances, strict=True):
                # In a circle a node lies both ways: the shorter one counts.
                if node not in distances or distance < abs(distances[node]):
                    distances[node] = sign * distance
        edges = dict.fromkeys((*up.edges, *down.edges))
        return declared.Graph(
            nodes=tuple(_shown(node, distance) for node, distance in sorted(distances.items(), key=lambda item: abs(item[1]))),
            edges=tuple(_drawn(edge) for edge in edges),
            cut=up.cut or down.cut,
        )

    def events(self, context: Context, request: declared.ListEvents) -> declared.Events:
        after = (int(request.since or 0), "")
        if request.cursor:
            at, key = read_cursor(request.cursor, int, str)
            after = (int(at), str(key))
        found = store.nodes_by_time(context.work, context.required_project.id, "run", after=after, limit=request.limit + 1)
        events, taken = events_of(context, self._records, found[: request.limit]) if found else ([], 0)
        following = cursor_after(found[taken - 1].at, found[taken - 1].key) if taken < len(found) else ""
        return declared.Events(items=tuple(events), next=following)


def _shown(node: Node, distance: int) -> declared.GraphNode:
    return declared.GraphNode(kind=_kind(node), id=node.id, label=node.label, distance=distance)


def _drawn(edge: Edge) -> declared.GraphEdge:
    return declared.GraphEdge(source=_ref(edge.source), target=_ref(edge.target), relation=edge.relation, at=edge.at)


def _ref(node: Node) -> declared.NodeRef:
    return declared.NodeRef(kind=_kind(node), id=node.id)


def _kind(node: Node) -> declared.Kind:
    """`link` takes no others."""
    return cast(declared.Kind, node.kind)
