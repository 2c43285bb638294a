"""The graph as callers see it."""

import pytest

from falaj.lineage.operations import Graph
from tests.lineage.room import Room, dataset, model, run, version


def distances(shown: Graph) -> dict[str, int]:
    return {node.label or node.id: node.distance for node in shown.nodes}


@pytest.fixture
def linked(room: Room) -> Room:
    room.link(dataset("iris"), run(1, "train"), model(1), version(7, "flowers v1"))
    room.link(dataset("iris"), run(2, "rival"))
    return room


def test_the_graph_has_both_directions_and_not_the_neighbours_others(linked: Room) -> None:
    shown = linked.graph(run(1))
    assert distances(shown) == {"train": 0, "iris @ d1": -1, "model 1": 1, "flowers v1": 2}
    assert shown.nodes[0].id == run(1).id
    assert [(edge.source.kind, edge.target.kind) for edge in shown.edges] == [
        ("dataset", "run"),
        ("run", "model"),
        ("model", "version"),
    ]
    assert not shown.cut


def test_a_direction_leaves_out_the_other(linked: Room) -> None:
    assert distances(linked.graph(run(1), direction="up")) == {"train": 0, "iris @ d1": -1}
    assert distances(linked.graph(run(1), direction="down")) == {"train": 0, "model 1": 1, "flowers v1": 2}


def test_a_shallow_graph_says_that_there_is_more(linked: Room) -> None:
    shown = linked.graph(run(1), depth=1)
    assert distances(shown) == {"train": 0, "iris @ d1": -1, "model 1": 1}
    assert shown.cut


def test_in_a_circle_each_node_and_link_is_shown_once(room: Room) -> None:
    room.link(run(1, "a"), run(2, "b"), run(3, "c"), run(1))
    shown = room.graph(run(1))
    assert distances(shown) == {"a": 0, "b": 1, "c": -1}
    assert len(shown.edges) == 3


def test_what_is_unknown_and_what_is_anothers_look_the_same(linked: Room) -> None:
    nothing = Graph(nodes=(), edges=(), cut=False)
    assert linked.graph(run(99)) == nothing
    assert linked.graph(run(1), project="beta") == nothing
