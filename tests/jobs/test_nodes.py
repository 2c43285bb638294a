"""Hosts: what they have and what is taken of it, and giving one a rest."""

import pytest

from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.jobs.operations import jobs, nodes
from falaj.jobs.operations.nodes import Node
from falaj.jobs.operations.words import Resources
from tests.jobs.yard import PROJECT, Yard


def only(yard: Yard) -> Node:
    (found,) = yard.when(lambda: yard.call(nodes.LIST_NODES, Nothing()).items, bool)
    assert isinstance(found, Node)
    return found


@pytest.fixture
def host(yard: Yard) -> Node:
    """Nothing runs on it, and it takes jobs."""
    node = only(yard)
    yard.call(nodes.RESUME_NODE, nodes.Resume(node=node.name))
    ready: Node = yard.when(lambda: only(yard), lambda found: (found.jobs, found.state) == (0, "ready"))
    return ready


def test_a_host_says_what_it_has_and_what_is_free(yard: Yard, host: Node):
    assert (host.engine, host.zone, host.flags) == ("local", "home", ())
    assert (host.cpus_free, host.memory_mib_free) == (host.cpus, host.memory_mib)
    job = yard.submit("sleep", "60", resources=Resources(cpus=0.5, memory_mib=100), grace=0).job
    yard.running(job.id)
    held = yard.when(lambda: only(yard), lambda found: found.jobs == 1)
    assert held.cpus_free == host.cpus - 0.5
    assert held.memory_mib_free == host.memory_mib - 100
    assert [place.node for place in yard.show(job.id).places] == [host.name]
    yard.cancel(job.id)


def test_a_host_that_drains_lets_what_runs_go_on_and_starts_nothing_new(yard: Yard, host: Node):
    running = yard.submit("sleep", "60", grace=0).job
    yard.running(running.id)
    yard.when(lambda: only(yard), lambda found: found.jobs == 1)
    assert yard.call(nodes.DRAIN_NODE, nodes.Drain(node=host.name, reason="new fan")).state == "draining"
    waiting = yard.submit("true").job
    why = yard.when(lambda: yard.why(waiting.id), lambda found: found.rule == "room")
    assert why.state == "waiting"
    assert yard.show(running.id).state == "running"
    yard.cancel(running.id)
    assert yard.when(lambda: only(yard), lambda found: found.jobs == 0).state == "drained"
    assert yard.show(waiting.id).state == "waiting"
    yard.call(nodes.RESUME_NODE, nodes.Resume(node=host.name))
    assert yard.ended(waiting.id).state == "done"


def test_what_gives_back_to_a_host_that_drains_runs_again_later_at_no_cost_to_its_retries(yard: Yard, host: Node):
    script = (
        "echo try $FALAJ_TRY; trap 'echo gives back; exit 1' TERM; test $FALAJ_TRY = 2 && exit 0; while :; do sleep 0.05; done"
    )
    job = yard.submit("sh", "-c", script, retries=0).job
    yard.when(lambda: yard.log(job.id), lambda text: "try 1" in text)
    yard.call(nodes.DRAIN_NODE, nodes.Drain(node=host.name, stop=True))
    yard.when(lambda: yard.show(job.id), lambda found: found.state == "waiting")
    yard.call(nodes.RESUME_NODE, nodes.Resume(node=host.name))
    assert yard.ended(job.id).state == "done"
    tries = yard.call(jobs.LIST_ATTEMPTS, jobs.OneJob(project=PROJECT, job=job.id)).items
    assert [(one.number, one.code) for one in tries] == [(2, 0), (1, 1)]
    assert yard.log(job.id, attempt=1).splitlines()[0::2] == ["try 1", "gives back"]  # the shell says what ended between them
    assert yard.log(job.id, attempt=2) == yard.log(job.id) == "try 2\n"


@pytest.mark.parametrize(
    ("operation", "request_of"), [(nodes.DRAIN_NODE, nodes.Drain), (nodes.RESUME_NODE, nodes.Resume)], ids=["drain", "resume"]
)
def test_a_host_that_is_not_there_is_not_found(yard: Yard, operation: object, request_of: type):
    state = yard.state()
    with pytest.raises(NotFound, match="There is no host 'gpu-7'; `falaj node list` shows those there are"):
        yard.call(operation, request_of(node="gpu-7"))  # type: ignore[arg-type]
    assert yard.state() == state
