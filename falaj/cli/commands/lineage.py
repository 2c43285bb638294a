"""`falaj lineage`: what came from what, drawn here or exported for other programs."""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, TypeAlias

import typer

from falaj.base.errors import NotFound
from falaj.cli.choosing import ID, LOGGED_MODEL, InProject, id_of, moment_of, newest_version_of, project_of, version_id_of
from falaj.cli.command import Commands
from falaj.cli.layout import Branch, Layout
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import STANDARD, save
from falaj.datasets.operations.features import SHOW_VIEW, OneView
from falaj.lineage.operations import LIST_EVENTS, SHOW_GRAPH, Graph, GraphEdge, Kind, ListEvents, NodeRef, ShowGraph
from falaj.registry.operations.versions import FIND_VERSION, FindVersion
from falaj.tracking.operations.models import SHOW_LOGGED_MODEL, OneLoggedModel
from falaj.tracking.operations.runs import SHOW_RUN, OneRun

commands = Commands("What came from what: data, runs, models, versions, endpoints.")
Depth = Annotated[int, typer.Option(help="How many steps to follow.", min=1, max=50)]
Key: TypeAlias = tuple[str, str]
AT_ONCE = 1000


@commands.command("show")
def show(
    terminal: Terminal,
    kind: Annotated[Kind, typer.Argument(help="What it is.", show_default=False)],
    id: Annotated[
        str,
        typer.Argument(
            help="Its id; a dataset's is NAME@DIGEST. A version may be MODEL/3, a registered model's name is its newest one.",
            show_default=False,
        ),
    ],
    depth: Depth = 10,
    project: InProject = "",
) -> None:
    """Draw what something came from and what came from it.

    Example: falaj lineage show version card-fraud/3 --project fraud
    """
    chosen = project_of(terminal, project)
    draw(terminal, chosen, *_meant(terminal, chosen, kind, id), depth)


@commands.command("export")
def export(
    terminal: Terminal,
    file: Annotated[str, typer.Argument(help="Where to write it; - is standard output.", show_default=False)] = STANDARD,
    since: Annotated[
        str, typer.Option(help="Only runs linked from this time on, e.g. 2026-11-15T09:30:00Z.", show_default=False)
    ] = "",
    project: InProject = "",
) -> None:
    """Export a project's lineage as OpenLineage events, one JSON document to a line.

    Example: falaj lineage export events.ndjson --project fraud
    """
    start = moment_of(since) if since else None
    chosen = project_of(terminal, project)

    def lines() -> Iterator[bytes]:
        cursor = ""
        while True:
            page = terminal.call(LIST_EVENTS, ListEvents(project=chosen, since=start, limit=AT_ONCE, cursor=cursor))
            for event in page.items:
                yield (json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
            cursor = page.next
            if not cursor:
                return

    size = save(lines(), file)
    if file == STANDARD:
        sys.stdout.buffer.flush()
    else:
        terminal.told({"file": file, "size": size}, f"Wrote {size:,} bytes to {file}.", file)


def draw(terminal: Terminal, project: str, kind: Kind, id: str, depth: int) -> None:
    """Show the graph around one thing, as a tree; `falaj model lineage` draws versions with it too."""
    graph = terminal.call(SHOW_GRAPH, ShowGraph(project=project, kind=kind, id=id, depth=depth))
    if not graph.nodes:
        _require(terminal, project, kind, id)
    terminal.show(graph, _tree)


def _meant(terminal: Terminal, project: str, kind: Kind, given: str) -> tuple[Kind, str]:
    """What the graph knows by the name that people know."""
    lowered = given.strip().lower()
    if kind == "run":
        return kind, id_of(kind, given)
    if kind == "view" and not ID.fullmatch(lowered):
        return kind, terminal.call(SHOW_VIEW, OneView(project=project, view=given)).id
    if kind == "model" and LOGGED_MODEL.fullmatch(lowered):
        return kind, lowered
    if kind == "model" and "/" not in given:
        return "version", newest_version_of(terminal, project, given)
    if kind == "version" and not any(mark in given for mark in "/@") and not ID.fullmatch(lowered):
        return kind, newest_version_of(terminal, project, given)
    if kind in ("model", "version"):
        return "version", version_id_of(terminal, project, given)
    return kind, given


def _require(terminal: Terminal, project: str, kind: Kind, id: str) -> None:
    """What is linked to nothing is either alone or not there at all. Data and endpoints are known by their links only."""
    try:
        if kind == "run":
            terminal.call(SHOW_RUN, OneRun(project=project, run=id))
        elif kind == "model":
            terminal.call(SHOW_LOGGED_MODEL, OneLoggedModel(project=project, model=id))
        elif kind == "version":
            terminal.call(FIND_VERSION, FindVersion(project=project, id=id))
        else:
            raise NotFound(id)
    except NotFound:
        raise NotFound(f"The {kind} {id} is not known here.") from None


def _tree(layout: Layout, graph: Graph) -> None:
    if not graph.nodes:
        layout.line("It is linked to nothing: nothing is known of where it came from or where it led.")
        return
    names: dict[Key, str] = {(node.kind, node.id): _name(node.kind, node.id, node.label) for node in graph.nodes}
    start: Key = (graph.nodes[0].kind, graph.nodes[0].id)
    sides = [
        ("came from", _side(graph, names, start, lambda edge: (edge.target, edge.source))),
        ("led to", _side(graph, names, start, lambda edge: (edge.source, edge.target))),
    ]
    below = tuple(Branch(label=words, below=branches) for words, branches in sides if branches)
    layout.tree(Branch(label=names[start], below=below))
    if graph.cut:
        layout.line("There is more than is drawn: ask with more --depth, or from one of the outer ones.")


def _name(kind: str, id: str, label: str) -> str:
    return f"{kind} {label} ({id})" if label and label != id else f"{kind} {id}"


def _side(
    graph: Graph, names: dict[Key, str], start: Key, ends: Callable[[GraphEdge], tuple[NodeRef, NodeRef]]
) -> tuple[Branch, ...]:
    """The branches below `start` in one direction; each thing is followed once, however many ways lead to it."""
    onward: dict[Key, list[tuple[Key, str]]] = {}
    for edge in graph.edges:
        here, there = ends(edge)
        onward.setdefault((here.kind, here.id), []).append(((there.kind, there.id), edge.relation))
    seen: set[Key] = set()

    def grow(key: Key) -> tuple[Branch, ...]:
        if key in seen:
            return ()
        seen.add(key)
        return tuple(
            Branch(label=f"{names.get(end, ' '.join(end))}, {relation}", below=grow(end))
            for end, relation in onward.get(key, ())
        )

    return grow(start)
