"""Linking and walking, on both databases."""

import itertools
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.lineage import graph
from falaj.lineage.graph import Node, Walk, ancestors, descendants, link
from tests.lineage.room import EARLY, Room, dataset, model, run, version


def up(room: Room, node: Node, depth: int = 50, project: str = "alpha") -> Walk:
    return room.read(lambda work: ancestors(work, room.id_of(project), node, depth))


def down(room: Room, node: Node, depth: int = 50, project: str = "alpha") -> Walk:
    return room.read(lambda work: descendants(work, room.id_of(project), node, depth))


def ids(walk: Walk) -> set[str]:
    return {node.id for node in walk.nodes}


def test_a_version_knows_the_data_it_came_from_and_the_data_what_it_led_to(room: Room) -> None:
    chain = (dataset("iris"), run(1, "first"), model(1), version(7, "flowers v1"))
    room.link(*chain)
    assert up(room, chain[-1]).nodes == tuple(reversed(chain[:-1]))
    found = down(room, chain[0])
    assert found.nodes == chain[1:]
    assert found.distances == (1, 2, 3)
    assert [(edge.source, edge.target) for edge in found.edges] == list(itertools.pairwise(chain))
    assert not found.cut


def test_a_link_said_twice_is_one_link(room: Room) -> None:
    for _ in range(3):
        room.link(dataset("iris"), run(1))
    assert len(down(room, dataset("iris")).edges) == 1
    assert down(room, dataset("iris")).edges[0].at == EARLY + 1


def test_two_relations_between_the_same_two_are_two_links(room: Room) -> None:
    room.link(run(1), model(1), relation="output")
    room.link(run(1), model(1), relation="checkpoint")
    found = down(room, run(1))
    assert {edge.relation for edge in found.edges} == {"output", "checkpoint"}
    assert len(found.nodes) == 1


def test_the_newest_label_counts_and_no_label_takes_none_away(room: Room) -> None:
    room.link(dataset("iris"), run(1, "first name"))
    room.link(run(1, "second name"), model(1))
    room.link(run(1), model(2))
    assert down(room, dataset("iris"), depth=1).nodes == (run(1, "second name"),)


def test_a_long_label_is_cut_and_a_long_id_is_not(room: Room) -> None:
    """A dataset's name may have 500 letters, of four bytes each."""
    long = Node(kind="dataset", id="\N{DESERT}" * 500 + "@" + "d" * 36, label="x" * 5000)
    other = Node(kind="dataset", id="\N{CACTUS}" * 500 + "@" + "d" * 36)
    room.link(long, run(1))
    room.link(other, run(1))
    found = {node.id: node for node in up(room, run(1)).nodes}
    assert set(found) == {long.id, other.id}
    assert len(found[long.id].label) == graph.LONGEST_LABEL


def test_a_circle_ends_the_walk(room: Room) -> None:
    room.link(run(1), model(1), run(2), model(2), run(1))
    room.link(run(1), run(1))
    found = down(room, run(1))
    assert ids(found) == {node.id for node in (model(1), run(2), model(2))}
    assert not found.cut
    assert ids(up(room, run(1))) == ids(found)


def test_a_walk_says_when_it_stopped_at_its_depth(room: Room) -> None:
    chain = [run(number) for number in range(5)]
    room.link(*chain)
    assert [down(room, chain[0], depth).cut for depth in (1, 3, 4, 50)] == [True, True, False, False]
    assert ids(down(room, chain[0], 3)) == {node.id for node in chain[1:4]}


def test_no_walk_goes_deeper_than_the_limit(room: Room) -> None:
    room.link(*(run(number) for number in range(60)))
    found = down(room, run(0), depth=1000)
    assert len(found.nodes) == graph.DEEPEST
    assert found.cut


def test_a_walk_over_too_many_nodes_is_cut_and_keeps_the_newest(room: Room) -> None:
    hub, runs = dataset("everything"), [run(number) for number in range(graph.MOST_NODES + 10)]

    def link_all(work: UnitOfWork) -> None:
        for number, node in enumerate(runs):
            link(work, project=room.id_of("alpha"), source=hub, target=node, relation="input", now=Moment(EARLY + number))

    room.database.write(link_all)
    found = down(room, hub)
    assert (len(found.nodes), found.cut) == (graph.MOST_NODES, True)
    assert found.nodes[0] == runs[-1]
    assert all(edge.target in found.nodes for edge in found.edges)


def test_another_projects_nodes_and_links_are_not_there(room: Room) -> None:
    room.link(dataset("iris"), run(1), model(1))
    room.link(dataset("iris"), run(2), project="beta")
    assert down(room, dataset("iris"), project="beta").nodes == (run(2),)
    assert up(room, model(1), project="beta").nodes == ()
    assert ids(down(room, dataset("iris"))) == {run(1).id, model(1).id}


@pytest.mark.parametrize("odd", [Node(kind="person", id="x"), Node(kind="run", id="")])
def test_what_is_no_node_is_not_linked(room: Room, odd: Node) -> None:
    with pytest.raises(ValueError, match="a node is of one of the kinds"):
        room.link(odd, run(1))


def test_many_who_link_the_same_data_at_once_all_succeed(room: Room) -> None:
    """Each names the datasets in another order, so that they wait for each other crosswise."""
    together, failures = threading.Barrier(4), []
    shared = [dataset(f"d{number}") for number in range(6)]

    def work(number: int) -> None:
        try:
            together.wait()
            for node in shared[number:] + shared[:number]:
                room.link(node, run(number))
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert all(len(up(room, run(number)).nodes) == len(shared) for number in range(4))


PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs=PAIRS, start=st.integers(0, 7), depth=st.integers(1, 6))
def test_a_walk_finds_exactly_what_can_be_reached(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int, int]], start: int, depth: int
) -> None:
    room = Room(tmp_path_factory.mktemp("graph"))
    try:
        for source, target in pairs:
            room.link(run(source), run(target))
        found = down(room, run(start), depth)
        distances, rim = {start: 0}, {start}
        for step in range(1, depth + 1):
            rim = {target for source, target in pairs if source in rim} - distances.keys()
            distances |= dict.fromkeys(rim, step)
        beyond = {target for source, target in pairs if source in rim} - distances.keys()
        reached = dict(zip((int(node.id, 16) for node in found.nodes), found.distances, strict=True))
        assert reached == {node: step for node, step in distances.items() if node != start}
        assert found.cut == bool(beyond)
        inside = {number for number, step in distances.items() if step < depth}
        assert {(int(edge.source.id, 16), int(edge.target.id, 16)) for edge in found.edges} == {
            (source, target) for source, target in pairs if source in inside
        }
    finally:
        room.database.close()


def test_what_nobody_linked_came_from_nothing_and_led_to_nothing(room: Room) -> None:
    assert down(room, run(1)) == up(room, run(1)) == Walk(nodes=(), distances=(), edges=(), cut=False)
