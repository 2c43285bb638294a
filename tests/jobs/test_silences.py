"""While an engine does not answer, nobody is told that its hosts are ready or that a job starts now."""

from dataclasses import replace

import pytest

from falaj.base.clock import SECOND
from falaj.base.values import Nothing
from falaj.jobs.nodes import NodeService
from falaj.jobs.operations.nodes import Node
from falaj.jobs.pools.showing import PoolView
from tests.jobs.asking import context_of, eta, explainer, facts_of, standing, why
from tests.jobs.cluster import START, Cluster, run, settle
from tests.jobs.test_explaining import is_sentence, planned_job

SINCE = "2026-11-15T09:00:02Z"


def hosts(cluster: Cluster) -> list[Node]:
    service, context, facts = NodeService(standing(cluster), PoolView(())), context_of(cluster), facts_of(cluster)
    return cluster.database.read(lambda work: list(service.list(replace(context, work=work), Nothing(), facts).items))


@pytest.fixture
def broken(small: Cluster) -> Cluster:
    """Its engine answered two seconds after the start for the last time."""
    controller = small.controller(real=True)
    settle(controller)
    run(small, controller, 2)
    assert {host.state for host in hosts(small)} == {"ready"}
    small.timers.reachable = False
    run(small, controller, 5)
    return small


def test_its_hosts_are_silent_and_say_since_when(broken: Cluster) -> None:
    found = hosts(broken)
    assert {host.state for host in found} == {"silent"}
    assert {host.flags for host in found} == {(f"Its engine timers does not answer since {SINCE}.",)}


def test_a_job_is_told_so_before_and_after_it_was_submitted(broken: Cluster) -> None:
    plan = explainer(broken).planned(planned_job(broken), broken.clock.now())
    assert plan.places == ()
    words = f"Nothing starts on 2 hosts: their engine timers does not answer since {SINCE}."
    assert words in plan.forecast.reason
    job = broken.submit("5")
    told = why(broken, job)
    assert (told.rule, words in told.sentence, is_sentence(told.sentence)) == ("engine", True, True)
    assert (told.hints, plan.remarks) == ((), ())
    assert words in eta(broken, job).reason


def test_it_is_still_told_once_its_hosts_are_lost_and_nothing_is_once_it_answers_again(broken: Cluster) -> None:
    controller = broken.controller(real=True)
    run(broken, controller, 30)
    assert {(host.state, host.flags) for host in hosts(broken)} == {
        ("lost", (f"Its engine timers does not answer since {SINCE}.",))
    }
    job = broken.submit("5")
    assert f"does not answer since {SINCE}." in why(broken, job).sentence
    assert "does not answer" in explainer(broken).planned(planned_job(broken), broken.clock.now()).forecast.reason
    broken.timers.reachable = True
    run(broken, controller, 3)
    assert {(host.state, host.flags) for host in hosts(broken)} == {("ready", ())}
    run(broken, controller, 10)
    assert broken.job(job).state == "done"
    assert explainer(broken).planned(planned_job(broken), broken.clock.now()).places != ()


def test_a_moment_without_an_answer_is_nobodys_news(small: Cluster) -> None:
    controller = small.controller()
    settle(controller)
    small.timers.reachable = False
    run(small, controller, 2)
    assert {host.state for host in hosts(small)} == {"ready"}
    assert small.clock.now() == START + 2 * SECOND
