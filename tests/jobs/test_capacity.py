"""What cards and hosts do, recorded and shown as it is; what stands out about what runs; and what the report makes of it."""

import re
from dataclasses import replace

import pytest

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.base.values import Nothing
from falaj.jobs.capacity import CapacityService
from falaj.jobs.engines.engine import CardUse
from falaj.jobs.nodes import NodeService
from falaj.jobs.operations.nodes import Capacity, Node, ReadCapacity
from falaj.jobs.operations.words import Resources
from falaj.jobs.pools.showing import PoolView
from falaj.jobs.store import tables
from tests.jobs.asking import context_of, facts_of, standing
from tests.jobs.cluster import START, Cluster, node, run, settle

ONE_GPU = Resources(cpus=1, memory_mib=1000, gpus=1)
OWNERS = (("queue", "default"), ("project", "default"), ("node", "gpus"))
COMPUTES = CardUse(busy=0.6, memory_mib=81_559, memory_used_mib=40_000)
RESTS = CardUse(busy=0.0, memory_mib=81_559, memory_used_mib=512)


def hosts(cluster: Cluster) -> dict[str, Node]:
    service, context = NodeService(standing(cluster), PoolView(())), context_of(cluster)
    listed = cluster.database.read(lambda work: service.list(replace(context, work=work), Nothing(), facts_of(cluster)))
    return {one.name: one for one in listed.items}


def report(cluster: Cluster, days: int = 14, of: str = "", name: str = "") -> Capacity:
    service, context = CapacityService(standing(cluster)), context_of(cluster)
    asked = ReadCapacity(days=days, of=of, name=name)
    made: Capacity = cluster.database.read(lambda work: service.report(replace(context, work=work), asked, facts_of(cluster)))
    return made


@pytest.fixture
def gpus(cluster: Cluster) -> Cluster:
    cluster.timers.bring(node("gpus", cards=["H100", "H100", "H100"]))
    cluster.timers.card_uses = {"gpus": [COMPUTES, RESTS, None]}
    return cluster


def test_what_each_card_does_is_shown_as_it_is(gpus: Cluster):
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.submit("3600", resources=ONE_GPU)
    run(gpus, controller, 15)
    first, second, third = hosts(gpus)["gpus"].cards
    assert (first.held, first.busy, first.memory_mib, first.memory_used_mib) == (1.0, 0.6, 81_559, 40_000)
    assert (second.held, second.busy, second.measured) == (0.0, 0.0, True)
    assert (third.measured, third.memory_mib) == (False, 0)
    gpus.timers.card_uses = {"gpus": [replace(COMPUTES, busy=0.9), RESTS, None]}
    run(gpus, controller, 12)
    assert hosts(gpus)["gpus"].cards[0].busy == 0.9


def test_a_card_that_is_held_and_rests_is_told_with_since_when(gpus: Cluster):
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.submit("3600", resources=ONE_GPU)
    run(gpus, controller, 30)
    gpus.timers.card_uses = {"gpus": [replace(RESTS, memory_used_mib=81_000), RESTS, None]}
    run(gpus, controller, 60)
    assert hosts(gpus)["gpus"].cards[0].idle_since is None  # for so short a time it is nobody's matter
    run(gpus, controller, 240)
    host, now = hosts(gpus)["gpus"], gpus.clock.now()
    since = host.cards[0].idle_since
    assert since is not None
    assert now - since == pytest.approx(300 * SECOND, abs=3 * SECOND)
    assert host.cards[1].idle_since is None  # nobody holds it
    assert host.flags == ("GPU 0 is held and has done nothing for 5 min.", "The memory of GPU 0 is 99% full.")
    gpus.timers.card_uses = {"gpus": [COMPUTES, RESTS, None]}
    run(gpus, controller, 12)
    assert hosts(gpus)["gpus"].flags == ()


def test_what_each_card_did_is_written_every_minute_and_one_at_rest_once(gpus: Cluster):
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.submit("90", resources=ONE_GPU)
    run(gpus, controller, 100)
    gpus.timers.card_uses = {"gpus": [RESTS, RESTS, None]}
    run(gpus, controller, 240)
    rows = sorted(gpus.rows(tables.card_utilisation), key=lambda row: row.at)
    assert {row.card for row in rows} == {0}
    assert [row.at for row in rows] == [START + many * MINUTE for many in (1, 2, 3)]
    assert [(row.model, row.held, row.memory_mib) for row in rows[:1]] == [("H100", 1.0, 81_559)]
    assert [round(row.busy, 1) for row in rows] == [0.6, 0.4, 0.0]
    (card,) = [one for one in report(gpus).used if one.kind == "gpu"]
    assert card.name == "gpus GPU 0 (H100)"
    assert card.gpu_seconds == 60
    assert card.gpu_idle_seconds == pytest.approx(24)


def test_the_report_shows_the_hour_that_runs_and_what_runs_in_it(gpus: Cluster):
    gpus.timers.busy_cards = 0.25
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.submit("3600", resources=ONE_GPU)
    run(gpus, controller, 200)
    found = report(gpus)
    (hour,) = found.points
    assert (hour.at, hour.gpus) == (START, 3)
    assert 0 < hour.gpus_busy < hour.gpus_held <= 1
    by_project = next(one for one in found.used if one.kind == "project")
    assert (by_project.name, by_project.jobs) == ("default", 1)
    assert by_project.gpu_seconds == pytest.approx(199, abs=3)
    assert by_project.gpu_busy_seconds == pytest.approx(by_project.gpu_seconds / 4, rel=0.15)
    assert by_project.gpu_idle_seconds == by_project.gpu_seconds - by_project.gpu_busy_seconds
    assert {one.name for one in found.used if one.kind == "node"} == {"gpus"}
    assert {one.kind for one in found.used} == {"queue", "project", "user", "node", "gpu"}
    run(gpus, controller, 3600, each=10)
    ended = next(one for one in report(gpus).used if one.kind == "project")
    assert (ended.gpu_seconds, ended.jobs) == (3600, 1)  # what it came to in the end, and once


def test_a_job_whose_cards_do_nothing_is_told_to_its_owner_and_in_the_report(gpus: Cluster):
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.timers.busy_cards = 0.0
    job = gpus.submit("7200", resources=ONE_GPU)
    run(gpus, controller, 9 * 60, each=2)
    assert "odd" not in gpus.told(job)
    run(gpus, controller, 3 * 60, each=2)
    assert gpus.told(job).count("odd") == 1
    assert "Its GPUs have done nothing for 11 min." in gpus.words(job)
    run(gpus, controller, 5 * 60, each=2)
    assert gpus.told(job).count("odd") == 1  # once
    (flag,) = report(gpus).flags
    assert flag.startswith(f"Job {job[-8:]} of project default: Its GPUs have done nothing for 1")
    settle(gpus.controller())  # one that takes over knows what was said
    run(gpus, gpus.controller(), 120, each=2)
    assert gpus.told(job).count("odd") == 1


def test_a_job_close_to_the_end_of_its_memory_is_told(cluster: Cluster):
    controller = cluster.controller()
    cluster.timers.memory_mib = 970
    job = cluster.submit("600", resources=Resources(cpus=1, memory_mib=1000))
    roomy = cluster.submit("600", resources=Resources(cpus=1, memory_mib=2000))
    run(cluster, controller, 130)
    assert "It took 970 of the 1000 MiB of memory it asked for; beyond them it is ended." in cluster.words(job)
    assert "odd" not in cluster.told(roomy)


def test_a_job_unlike_others_of_its_kind_is_told(cluster: Cluster):
    controller = cluster.controller()
    for _ in range(3):
        cluster.submit("120", kin="k", resources=Resources(cpus=1))
    run(cluster, controller, 130, each=2)
    assert cluster.states() == {"done": 3}
    usual = cluster.timers._used
    job, other = cluster.submit("3600", kin="k"), cluster.submit("3600", kin="new")
    run(cluster, controller, 299, each=5)
    cluster.timers._used = lambda told, seconds: replace(usual(told, seconds), cpu_seconds=seconds / 20)
    run(cluster, controller, 400, each=5)
    told = cluster.words(job)
    assert any(words.startswith("It keeps 0.1 CPUs busy; others of its kind kept 1.0.") for words in told)
    run(cluster, controller, 400, each=5)
    assert any(words.endswith("others of its kind took 2 min.") for words in cluster.words(job))
    assert "odd" not in cluster.told(other)


def test_a_host_that_is_silent_is_told_and_then_lost(cluster: Cluster):
    controller = cluster.controller()
    run(cluster, controller, 30)
    assert report(cluster).flags == ()
    cluster.clock.moment = Moment(cluster.clock.moment + 70 * SECOND)  # nobody looks
    assert hosts(cluster)["n1"].flags[0].startswith("Silent for ")
    assert any(flag.startswith("The host n1 is silent: last heard of 1.") for flag in report(cluster).flags)
    cluster.timers.reachable = False
    run(cluster, controller, 60)
    assert hosts(cluster)["n1"].state == "lost"
    assert any(flag.startswith("The host n1 is lost: last heard of ") for flag in report(cluster).flags)


def test_use_over_time_is_told_of_a_queue_a_project_and_a_host(gpus: Cluster):
    gpus.timers.busy_cards = 0.5
    controller = gpus.controller()
    run(gpus, controller, 2)
    for _ in range(4):
        gpus.submit("119", resources=ONE_GPU)
    run(gpus, controller, 100, each=2)
    queue, project, host = (report(gpus, 1, of=of, name=name).points for of, name in OWNERS)
    for points in (queue, project):
        assert (points[-1].cpus, points[-1].gpus) == (12, 3)
        assert (points[-1].gpus_held, points[-1].waiting) == (3, 1)
        assert points[-1].gpus_busy == pytest.approx(1.5, rel=0.1)
    assert (host[-1].cpus, host[-1].gpus, host[-1].gpus_held) == (4, 3, 3)
    run(gpus, controller, 600, each=2)
    assert [round(point.gpus_held, 2) for point in report(gpus, 1, of="queue", name="default").points] == [2.0, 0.0, 0.0]
    at_rest = report(gpus, 1, of="node", name="gpus").points
    assert {(point.cpus, point.gpus) for point in at_rest} == {(4, 3)}  # what it has, at rest too
    assert at_rest[-1].cpus_held == 0


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ("queue", "There is no queue 'nobody'; there are default."),
        ("project", "There is no project 'nobody'; those with jobs are default."),
        ("node", "There is no host 'nobody'; there are gpus, n1, n2."),
    ],
)
def test_use_of_what_is_not_there_is_refused_with_what_is(gpus: Cluster, of: str, words: str):
    controller = gpus.controller()
    run(gpus, controller, 2)
    gpus.submit("600")
    run(gpus, controller, 100, each=2)
    with pytest.raises(NotFound, match=f"^{re.escape(words)}$"):
        report(gpus, of=of, name="nobody")
