"""What can be asked about where things came from and what they led to."""

from typing import Annotated, Any, Final, Literal

from falaj.base.clock import Moment
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.pages import Cursor, Limit
from falaj.base.values import Message, Name, Range, Text, value

Kind = Literal["dataset", "view", "run", "model", "version", "variant", "endpoint"]
NodeId = Annotated[str, Text(shortest=1, longest=1000)]
Direction = Literal["up", "down", "both"]
Depth = Annotated[int, Range(least=1, most=50)]


@value
class ShowGraph(Message):
    """`up` is what it came from, `down` what came from it. A dataset's id is `name@digest`; a `model` is a logged one."""

    project: Name
    kind: Kind
    id: NodeId
    direction: Direction = "both"
    depth: Depth = 10


@value
class NodeRef(Message):
    kind: Kind
    id: str


@value
class GraphNode(Message):
    """`distance` is the number of steps from the node asked about: below zero on the way up, above on the way down."""

    kind: Kind
    id: str
    label: str
    distance: int


@value
class GraphEdge(Message):
    """`target` came from `source`."""

    source: NodeRef
    target: NodeRef
    relation: str
    at: Moment


@value
class Graph(Message):
    """The node asked about comes first, nearer ones before farther ones; nothing at all where it is linked to nothing.

    `cut` says that there is more than is shown: ask with more depth, or from one of the nodes at the rim.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    cut: bool


@value
class ListEvents(Message):
    """Runs that were first linked to something at or after `since`; all of them without it."""

    project: Name
    since: Moment | None = None
    limit: Limit = 100
    cursor: Cursor = ""


@value
class Events(Message):
    """OpenLineage events (specification 2-0-2), one for each run, in the order in which the runs were first linked."""

    items: tuple[dict[str, Any], ...]
    next: str = ""


_READ: Final = Permission(name="lineage.read", group=Group.READ)

SHOW_GRAPH: Final = Operation(
    name="lineage.graph",
    summary="Show what a dataset, feature view, run, model, version or endpoint came from and led to.",
    method="GET",
    path="projects/{project}/lineage",
    request=ShowGraph,
    result=Graph,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)
LIST_EVENTS: Final = Operation(
    name="lineage.events",
    summary="Export a project's lineage as OpenLineage events.",
    method="GET",
    path="projects/{project}/lineage/events",
    request=ListEvents,
    result=Events,
    permission=_READ,
    scope=Scope.PROJECT,
    record=Record.PLAIN_READ,
)

OPERATIONS: Final = (SHOW_GRAPH, LIST_EVENTS)
