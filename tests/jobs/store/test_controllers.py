"""Which controller may write, which documents hold, and which nodes there are."""

from falaj.jobs.store import controllers, news, nodes, queues
from tests.jobs.cluster import START, Cluster


def test_only_the_last_to_take_over_counts_its_turns(cluster: Cluster):
    first = cluster.database.write(controllers.take_over)
    assert cluster.database.write(lambda work: controllers.count(work, first))
    second = cluster.database.write(controllers.take_over)
    assert second == first + 1
    assert not cluster.database.write(lambda work: controllers.count(work, first))
    assert cluster.database.write(lambda work: controllers.count(work, second))
    assert cluster.database.read(controllers.epoch) == second


def test_a_serial_is_taken_once_and_the_newest_document_holds(cluster: Cluster):
    def add(serial: int, document: str) -> bool:
        return cluster.database.write(lambda work: queues.add(work, serial=serial, document=document, by="", now=START))

    assert cluster.database.read(queues.newest) is None
    assert [add(1, "a"), add(2, "b"), add(2, "c")] == [True, True, False]
    newest = cluster.database.read(queues.newest)
    assert newest is not None
    assert (newest.serial, newest.document) == (2, "b")
    assert [row.document for row in cluster.database.read(lambda work: queues.history(work, 10))] == ["b", "a"]
    assert [kind for _, kind, _ in cluster.database.read(lambda work: news.first(work, 10))] == ["queues"] * 2


def test_what_an_engine_says_of_a_node_does_not_end_its_draining(cluster: Cluster):
    row = {"name": "n", "engine": "e", "zone": "home", "facts": "{}", "seen": 1}

    def drain(name: str) -> bool:
        return cluster.database.write(lambda work: nodes.drain(work, name, draining=True, stopping=True, now=START))

    assert not drain("n")
    cluster.database.write(lambda work: nodes.put(work, [row]))
    assert drain("n")
    cluster.database.write(lambda work: nodes.lose(work, ["n"], START))
    cluster.database.write(lambda work: nodes.put(work, [row | {"seen": 2}]))
    found = cluster.database.read(lambda work: nodes.find(work, "n"))
    assert found is not None
    assert (found.seen, bool(found.draining), bool(found.stopping), found.lost) == (2, True, True, None)


def test_past_use_is_replaced_by_what_is_newer(cluster: Cluster):
    row = {"queue": "q", "project": "p", "user": "u", "resource": "cpu", "amount": 1.0, "at": 1}
    cluster.database.write(lambda work: queues.remember(work, [row, row | {"user": "v"}]))
    cluster.database.write(lambda work: queues.remember(work, [row | {"amount": 5.0, "at": 2}]))
    found = cluster.database.read(queues.past)
    assert [(one.user, one.amount, one.at) for one in found] == [("u", 5.0, 2), ("v", 1.0, 1)]
