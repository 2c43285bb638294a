"""What holds whatever comes: random clusters, queues and jobs, played through with every plan checked against the facts."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.jobs.scheduler.values import CARD, Cohort, Job, Node, Plan, Queue, Quota, Rules, Running
from tests.jobs.scheduler.clusters import START, Cluster, a_job, a_node

ZONES = ("here", "there")
Coming = tuple[Job, int, int]
Draw = Callable[[st.SearchStrategy[Any]], Any]


class World:
    """A cluster, and jobs with when they come and how long they take."""

    def __init__(self, cluster: Cluster, coming: list[Coming]) -> None:
        self.cluster, self.coming = cluster, coming

    def __repr__(self) -> str:
        made = self.cluster
        return "\n".join(map(repr, (made.rules, *made.nodes.values(), *made.queues.values(), *self.coming)))


@st.composite
def worlds(draw: Draw, *, jobs: int = 14) -> World:
    nodes = [
        a_node(f"n{number}", cards=draw(st.integers(1, 8)), zone=draw(st.sampled_from(ZONES)), cpu=8)
        for number in range(draw(st.integers(1, 3)))
    ]
    cohorts = [Cohort(name="root", quotas={}), Cohort(name="branch", parent="root", quotas={})]
    limit = st.one_of(st.none(), st.integers(0, 6).map(lambda cards: cards * CARD))
    queues = [
        Queue(
            name=f"q{number}",
            cohort=draw(st.sampled_from(("", "root", "branch"))),
            quotas={"gpu": Quota(nominal=draw(st.integers(0, 6)) * CARD, borrow=draw(limit), lend=draw(limit))}
            if draw(st.booleans())
            else {},
            weight=draw(st.sampled_from((0, 500, 1000, 3000))),
            order=draw(st.sampled_from(("fifo", "shortest"))),
            preempt=draw(st.booleans()),
            reclaim=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    rules = Rules(
        least_run=draw(st.sampled_from((0, MINUTE))),
        look=draw(st.sampled_from((1, 100))),
        longest_wait=draw(st.sampled_from((DAY, 7 * DAY))),
    )
    cluster = Cluster(nodes=nodes, queues=queues, cohorts=cohorts, rules=rules)
    cluster.slow_to_stop = draw(st.booleans())
    coming = [
        draw(a_coming(f"j{number:02d}", [queue.name for queue in queues])) for number in range(draw(st.integers(1, jobs)))
    ]
    return World(cluster, sorted(coming, key=lambda entry: entry[1]))


@st.composite
def a_coming(draw: Draw, name: str, queues: list[str]) -> Coming:
    at = START + draw(st.integers(0, 5)) * 10 * MINUTE
    count = draw(st.sampled_from((1, 1, 1, 2, 3)))
    takes = draw(st.sampled_from((SECOND, 5 * MINUTE, HOUR, 30 * HOUR)))
    job = a_job(
        name,
        queue=draw(st.sampled_from(queues)),
        at=at,
        gpus=draw(st.sampled_from((0, 1, 1, 2, 4))),
        count=count,
        least=draw(st.integers(0, count)),
        priority=draw(st.sampled_from((0, 0, 5, 50))),
        duration=draw(st.sampled_from((0, takes))),
        user=draw(st.sampled_from(("ann", "bob"))),
        zones=draw(st.sampled_from((ZONES, ZONES[:1], ZONES[1:]))),
        preemptible=draw(st.sampled_from((True, True, False))),
        grace=draw(st.sampled_from((0, 30 * SECOND))),
    )
    return job, at, takes


def play(cluster: Cluster, coming: list[Coming], check: Callable[[Cluster, Plan], None] | None = None) -> None:
    if check is not None:
        decide = cluster.decide

        def checked() -> Plan:
            plan = decide()
            check(cluster, plan)
            return plan

        cluster.decide = checked  # type: ignore[method-assign]
    for job, at, takes in coming:
        if at > cluster.now:
            cluster.advance(at - cluster.now)
        cluster.submit(job, takes=takes)
    cluster.advance(2 * DAY)


def gpus_of(running: Running) -> int:
    return running.job.shape.gpus * CARD * len(running.placement)


def keeps_quotas(cluster: Cluster, _plan: Plan) -> None:
    """By sums of its own, from what runs alone."""
    used = dict.fromkeys(cluster.queues, 0)
    for running in cluster.running.values():
        used[running.job.queue] += gpus_of(running)
    trees: dict[str, list[Queue]] = {}
    for queue in cluster.queues.values():
        trees.setdefault("tree" if queue.cohort else queue.name, []).append(queue)
    for queues in trees.values():
        if not any(queue.quotas for queue in queues):
            continue
        nominal = {queue.name: queue.quotas["gpu"].nominal if queue.quotas else 0 for queue in queues}
        assert sum(used[name] for name in nominal) <= sum(nominal.values())
        for queue in queues:
            quota = queue.quotas.get("gpu", Quota(nominal=0))
            kept = 0 if quota.lend is None else max(0, quota.nominal - quota.lend)
            others = [one for one in queues if one.name != queue.name]
            assert quota.borrow is None or used[queue.name] <= quota.nominal + quota.borrow
            assert queue.cohort or used[queue.name] <= quota.nominal
            assert sum(used[one.name] for one in others) <= sum(nominal.values()) - kept


def keeps_rooms(cluster: Cluster, plan: Plan) -> None:
    taken: dict[tuple[str, int], int] = {}
    for running in cluster.running.values():
        for seat in running.placement:
            assert cluster.nodes[seat.node].zone in running.job.zones, "a zone is absolute"
            assert len(seat.cards) == running.job.shape.gpus
            for card in seat.cards:
                taken[seat.node, card] = taken.get((seat.node, card), 0) + CARD
    assert all(amount <= CARD for amount in taken.values())
    for start in plan.starts:
        job = cluster.running[start.job].job
        assert (job.least or job.count) <= len(start.placement) <= job.count, "a gang is whole"


def stops_are_lawful(cluster: Cluster, plan: Plan) -> None:
    for stop in plan.stops:
        victim = cluster.running[stop.job]
        claimant = cluster.jobs[stop.for_job]
        assert victim.job.preemptible
        assert victim.started + cluster.rules.least_run <= plan.at
        assert stop.until == plan.at + victim.job.grace
        if victim.job.queue == claimant.queue:
            assert cluster.queues[claimant.queue].preempt
            assert victim.job.priority <= claimant.priority
        else:
            assert cluster.queues[claimant.queue].reclaim


def tells_sentences(_cluster: Cluster, plan: Plan) -> None:
    told = [one.reason for one in (*plan.starts, *plan.stops, *plan.resizes)]
    for words in (*told, *(wait.sentence for wait in plan.waits)):
        assert (words[0].isupper(), words[-1]) == (True, "."), words
        assert not re.search(r"\b1 (\w+ )?(jobs|tasks|cores|GPUs)\b", words), words


@settings(max_examples=20)
@given(worlds())
def test_what_a_plan_tells_people_are_sentences(world: World) -> None:
    play(world.cluster, world.coming, tells_sentences)


@settings(max_examples=60)
@given(worlds())
def test_quotas_are_never_exceeded_beyond_borrowing(world: World) -> None:
    play(world.cluster, world.coming, keeps_quotas)


@settings(max_examples=60)
@given(worlds())
def test_gangs_are_whole_zones_absolute_and_seats_taken_once(world: World) -> None:
    play(world.cluster, world.coming, keeps_rooms)


@settings(max_examples=60)
@given(worlds())
def test_every_stop_has_a_right_behind_it_and_rounds_come_to_rest(world: World) -> None:
    play(world.cluster, world.coming, stops_are_lawful)


@settings(max_examples=50)
@given(worlds())
def test_nobody_is_stopped_in_a_circle(world: World) -> None:
    """With lengths known, nobody is stopped for one that was stopped for it."""
    cluster, coming = world.cluster, world.coming
    play(cluster, [(replace(job, duration=takes), at, takes) for job, at, takes in coming])
    within = [
        (victim, claimant) for victim, claimant in cluster.stopped if cluster.jobs[victim].queue == cluster.jobs[claimant].queue
    ]
    assert not [pair for pair in within if pair[::-1] in within]


@settings(max_examples=50)
@given(worlds())
def test_the_same_facts_give_the_same_plans(world: World) -> None:
    cluster, coming = world.cluster, world.coming
    again = Cluster(nodes=cluster.nodes.values(), queues=cluster.queues.values(), cohorts=cluster.cohorts, rules=cluster.rules)
    again.slow_to_stop = cluster.slow_to_stop
    play(cluster, coming)
    play(again, coming)
    assert cluster.plans == again.plans


@settings(max_examples=60)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(0, 120),
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_nominal_share_is_reclaimable_within_the_grace_period(
    own: int, other: int, grace: int, sizes: list[int], slow: bool
) -> None:
    total = own + other
    queues = [
        Queue(name=name, cohort="team", quotas={"gpu": Quota(nominal=cards * CARD)})
        for name, cards in (("own", own), ("other", other))
    ]
    cluster = Cluster(nodes=[a_node(cards=total)], queues=queues, cohorts=[Cohort(name="team", quotas={})])
    cluster.slow_to_stop = slow
    for number, gpus in enumerate(sizes):
        cluster.submit(
            a_job(f"o{number}", queue="other", gpus=min(gpus, total), priority=100, grace=grace * SECOND), takes=100 * HOUR
        )
    cluster.settle()
    cluster.advance(MINUTE)
    cluster.submit(a_job("mine", queue="own", gpus=own, at=cluster.now), takes=HOUR)
    asked = cluster.now
    cluster.advance(grace * SECOND + SECOND)
    assert cluster.started["mine"] <= asked + grace * SECOND


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 90)), min_size=5, max_size=40), st.sampled_from(("fifo", "shortest"))
)
def test_nobody_starves_beyond_the_bound(stream: list[tuple[int, int]], order: str) -> None:
    """One of low standing that needs the whole host, under a stream that could go on without it for ever."""
    rules = Rules(longest_wait=6 * HOUR, aging=1000 * DAY)
    cluster = Cluster(nodes=[a_node()], queues=[Queue(name="default", quotas={}, order=order)], rules=rules)  # type: ignore[arg-type]
    poor = a_job("poor", gpus=8, priority=-50, duration=MINUTE)
    cluster.submit(poor, takes=MINUTE)
    number = 0
    while cluster.now < START + 10 * HOUR and "poor" not in cluster.started:
        for gpus, minutes in stream:
            cluster.submit(a_job(f"s{number}", gpus=gpus, priority=50, duration=minutes * MINUTE, at=cluster.now))
            number += 1
        cluster.advance(30 * MINUTE)
    assert cluster.started["poor"] <= START + 6 * HOUR + 3 * HOUR


@settings(max_examples=50)
@given(worlds(jobs=10), st.integers(0, 3), st.integers(0, 12), st.booleans())
def test_a_scheduler_built_from_a_snapshot_decides_like_the_one_that_lived(
    world: World, hours: int, after: int, declared: bool
) -> None:
    """Where lengths are declared, places in the future are the same too: else they are guesses, which change with time."""
    cluster = world.cluster
    cluster.rules = replace(cluster.rules, look=100, reservations=cluster.rules.reservations if declared else 0)
    cluster.scheduler = cluster.fresh()
    cluster.slow_to_stop = False
    for job, at, takes in world.coming:
        if at > cluster.now:
            cluster.advance(at - cluster.now)
        cluster.submit(replace(job, user="ann", duration=takes if declared else job.duration), takes=takes)
    cluster.advance(hours * HOUR)
    cluster.now = Moment(cluster.now + after * 10 * MINUTE)
    cluster.let_end()
    lived, built = cluster.scheduler.decide(cluster.now), cluster.rebuilt().decide(cluster.now)
    assert [start.job for start in lived.starts] == [start.job for start in built.starts]
    assert {stop.job for stop in lived.stops} == {stop.job for stop in built.stops}


def test_nodes_that_come_and_go_leave_no_trace() -> None:
    cluster = Cluster(nodes=[a_node()], queues=[Queue(name="default", quotas={})])
    for number in range(3):
        cluster.scheduler.put_node(Node(name=f"x{number}", zone="here", cpu_milli=0, memory_mib=0))
        cluster.scheduler.drop_node(f"x{number}")
    cluster.scheduler.drop_node("never there")
    cluster.submit(a_job("j"))
    cluster.settle()
    assert list(cluster.running) == ["j"]
