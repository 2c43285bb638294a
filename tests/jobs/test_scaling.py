"""The laws of hosts on demand, over days that nobody would think of: the scheduler's own decisions, and imagined hosts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.base.values import value
from falaj.jobs.pools import moving
from falaj.jobs.pools.commands import Ended
from falaj.jobs.pools.moving import Sight
from falaj.jobs.pools.scaling import NOTHING, Want, is_short, steps, wants
from falaj.jobs.pools.values import ON_THE_WAY, Pool, PoolHost, of_pool
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.values import Job, Node, Queue, Quota, Rules, Running, Shape

RULES = Rules(least_run=0)
START = Moment(100 * SECOND)  # so early that a day is told in full where a law fails
OWN, OTHER = Queue(name="own", quotas={}), Queue(name="other", quotas={})


def pool_of(
    name: str = "burst", *, cpus: int = 4, most: int = 3, zone: str = "home", cards: tuple[str, ...] = (), **more
) -> Pool:
    host = Node(name="", zone=zone, cpu_milli=cpus * 1000, memory_mib=64_000, cards=cards)
    given = {"delay": 0, "cool_down": 3 * SECOND, "add": ("add", "{name}"), "remove": ("remove", "{name}"), **more}
    return Pool(name=name, engine="any", host=host, most=most, **given)


def job_of(id: str, *, cpus: int = 4, queue: str = "own", at: int = 0, zone: str = "home", **more) -> Job:
    shape = Shape(cpu_milli=cpus * 1000, memory_mib=100, gpus=more.pop("gpus", 0), models=more.pop("models", ()))
    submitted = Moment(START + at * SECOND)
    return Job(id=id, project="p", user="u", queue=queue, submitted=submitted, shape=shape, zones=(zone,), **more)


def facts_of(*waiting: Job, nodes: Sequence[Node] = (), running: Sequence[Running] = (), queues=(OWN, OTHER)) -> Facts:
    return Facts(nodes=tuple(nodes), queues=tuple(queues), waiting=waiting, running=tuple(running))


def needed(pool: Pool, facts: Facts, *hosts: PoolHost) -> int:
    return wants([pool], hosts, facts, RULES, Moment(START + 60 * SECOND))[pool.name].hosts


def host_of(name: str, state: moving.State = "ready", pool: str = "burst", **more) -> PoolHost:
    return PoolHost(name=name, pool=pool, state=state, node=name if state == "ready" else "", **more)


# What is needed


def test_small_jobs_share_a_host_and_large_ones_get_one_each():
    assert needed(pool_of(), facts_of(*(job_of(f"j{number}", cpus=2) for number in range(4)))) == 2
    assert needed(pool_of(), facts_of(*(job_of(f"j{number}", cpus=3) for number in range(2)))) == 2


def test_there_are_never_more_than_the_most():
    assert needed(pool_of(most=2), facts_of(*(job_of(f"j{number}") for number in range(9)))) == 2


def test_a_gang_gets_all_of_its_hosts_or_none():
    assert needed(pool_of(most=3), facts_of(job_of("gang", count=3))) == 3
    assert needed(pool_of(most=2), facts_of(job_of("gang", count=3))) == 0


def test_a_gang_uses_what_is_there_and_asks_for_the_rest():
    there = Node(name="n1", zone="home", cpu_milli=4000, memory_mib=64_000)
    want = wants([pool_of()], [], facts_of(job_of("gang", count=3), nodes=[there]), RULES, START)["burst"]
    assert want.hosts == 2
    assert "n1" in want.uses


def test_what_has_room_elsewhere_asks_for_none():
    there = Node(name="n1", zone="home", cpu_milli=8000, memory_mib=64_000)
    assert needed(pool_of(), facts_of(job_of("a"), job_of("b"), nodes=[there])) == 0


def test_what_waits_for_its_quota_asks_for_none():
    queue = replace(OWN, quotas={"cpu": Quota(nominal=4000)})
    assert needed(pool_of(), facts_of(job_of("a"), job_of("b"), job_of("c"), queues=[queue])) == 1


@pytest.mark.parametrize(
    "job",
    [
        job_of("away", zone="away"),
        job_of("large", cpus=5),
        job_of("gpu", gpus=1),
        job_of("model", gpus=1, models=("H100",)),
        job_of("later", not_before=Moment(START + 600 * SECOND)),
        job_of("stranger", queue="other"),
    ],
    ids=lambda job: job.id,
)
def test_what_its_hosts_could_not_run_now_asks_for_none(job: Job):
    cards = ("L4",) if job.shape.models else ()
    assert needed(pool_of(cards=cards, queues=("own",)), facts_of(job)) == 0


def test_the_first_pool_is_asked_and_the_next_only_for_what_it_cannot_give():
    small, large = pool_of("small", cpus=4, most=1), pool_of("large", cpus=8, most=5)
    jobs = [job_of("a", cpus=4), job_of("b", cpus=4), job_of("c", cpus=8)]
    found = wants([small, large], [], facts_of(*jobs), RULES, START)
    assert (found["small"].hosts, found["large"].hosts) == (1, 2)
    failing = host_of("small-1", "adding", "small", tries=2)
    found = wants([small, large], [failing], facts_of(jobs[0]), RULES, START)
    assert (found["small"].hosts, found["large"].hosts) == (1, 1), "what fails again and again is not relied on"


def test_a_gang_that_no_pool_could_take_alone_gets_hosts_of_several():
    one, two = pool_of("one", most=1), pool_of("two", most=5)
    found = wants([one, two], [], facts_of(job_of("gang", count=6)), RULES, START)
    assert (found["one"].hosts, found["two"].hosts) == (1, 5)
    found = wants([one, two], [], facts_of(job_of("gang", count=7)), RULES, START)
    assert (found["one"].hosts, found["two"].hosts) == (0, 0)


# What follows


def test_one_on_its_way_is_enough():
    assert steps(pool_of(), [host_of("a", "starting")], Want(hosts=1), {}, 10**9).add == 0
    assert steps(pool_of(), [host_of("a", "starting")], Want(hosts=2), {}, 10**9).add == 1


def test_nobody_hurries_before_the_delay_is_over():
    pool = pool_of(delay=5 * SECOND)
    assert steps(pool, [], Want(hosts=1), {}, 5 * SECOND - 1).add == 0
    assert steps(pool, [], Want(hosts=1), {}, 5 * SECOND).add == 1


def test_the_least_are_there_whatever_happens():
    assert steps(pool_of(least=2), [], NOTHING, {}, -1).add == 2
    own = [host_of("a"), host_of("b"), host_of("c")]
    idle = {"a": 5 * SECOND, "b": 9 * SECOND, "c": 5 * SECOND}
    assert steps(pool_of(least=2), own, NOTHING, idle, -1).drain == ("b",), "the one that was idle for the longest"


def test_one_that_is_not_quite_gone_still_counts():
    going = [host_of("a", "removing"), host_of("b", "draining"), host_of("c", "gone")]
    assert steps(pool_of(most=2, least=2), going, Want(hosts=2), {}, 10**9).add == 0
    assert steps(pool_of(most=3, least=2), going, Want(hosts=2), {}, 10**9).add == 1


def test_one_on_which_something_is_about_to_start_stays():
    want = Want(uses=frozenset({"a"}))
    assert steps(pool_of(), [host_of("a"), host_of("b")], want, {"a": 9**9, "b": 9**9}, -1).drain == ("b",)


def test_one_that_could_not_be_added_is_given_up_when_nobody_needs_it():
    failed = host_of("a", "adding", tries=1)
    assert steps(pool_of(), [failed], NOTHING, {}, -1).give_up == ("a",)
    assert steps(pool_of(), [failed], Want(hosts=1), {}, -1).give_up == ()
    assert steps(pool_of(), [host_of("a", "adding")], NOTHING, {}, -1).give_up == (), "it may come yet, and go when it is idle"


# Days


@value
class Day:
    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    arrivals: tuple[tuple[int, Job, int], ...]  # when, what, for how many seconds
    slow: int  # seconds that a host takes to come
    failing: frozenset[int]  # seconds at which commands fail


@st.composite
def days(draw: st.DrawFn) -> Day:
    pools = []
    for name in draw(st.sampled_from([("one",), ("one", "two")])):
        most = draw(st.integers(1, 4))
        pools.append(
            pool_of(
                name,
                cpus=draw(st.integers(1, 6)),
                most=most,
                least=draw(st.integers(0, most)),
                queues=draw(st.sampled_from([(), ("own",)])),
                delay=draw(st.integers(0, 3)) * SECOND,
                cool_down=draw(st.integers(0, 6)) * SECOND,
            )
        )
    nodes = tuple(Node(name=f"n{n}", zone="home", cpu_milli=3000, memory_mib=64_000) for n in range(draw(st.integers(0, 1))))
    arrivals = []
    for number in range(draw(st.integers(0, 8))):
        at, count = draw(st.integers(0, 20)), draw(st.integers(1, 3))
        queue, cpus = draw(st.sampled_from(["own", "other"])), draw(st.integers(1, 6))
        job = job_of(f"job{number}", cpus=cpus, queue=queue, at=at, count=count, least=draw(st.integers(0, count)))
        arrivals.append((at, job, draw(st.integers(1, 10))))
    failing = draw(st.frozensets(st.integers(0, 15), max_size=6))
    return Day(pools=tuple(pools), nodes=nodes, arrivals=tuple(arrivals), slow=draw(st.integers(0, 5)), failing=failing)


class Played:
    """A day, second by second, with laws that hold in each of them."""

    def __init__(self, day: Day) -> None:
        self.day = day
        self.second = 0
        self.hosts: dict[str, PoolHost] = {}
        self.came: dict[str, int] = {}  # when a host was added
        self.since: dict[tuple[str, str], int] = {}
        self.waiting: dict[str, Job] = {}
        self.running: dict[str, tuple[Running, int]] = {}
        self.ended = set[str]()
        self.acts: list[tuple[int, str]] = []

    @property
    def now(self) -> Moment:
        return Moment(START + self.second * SECOND)

    def play(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second += 1
            self._jobs()
            for host in list(self.hosts.values()):
                self._move(host)
            self._scale()

    def nodes(self) -> list[Node]:
        own = {pool.name: pool for pool in self.day.pools}
        there = [host for host in self.hosts.values() if host.state in ("ready", "draining")]
        mine = [replace(own[host.pool].host, name=host.name, open=host.state == "ready") for host in there]
        return [*self.day.nodes, *mine]

    def facts(self) -> Facts:
        running = [one for one, _ in self.running.values()]
        return facts_of(*self.waiting.values(), nodes=self.nodes(), running=running)

    def busy(self) -> set[str]:
        return {seat.node for one, _ in self.running.values() for seat in one.placement}

    def is_at_rest(self) -> bool:
        return all(
            [host.state for host in of_pool(pool, self.hosts.values())] == ["ready"] * pool.least for pool in self.day.pools
        )

    def _jobs(self) -> None:
        for at, job, _ in self.day.arrivals:
            if at == self.second - 1:
                self.waiting[job.id] = job
        for id, (_, until) in list(self.running.items()):
            if until <= self.second:
                del self.running[id]
                self.ended.add(id)
        if not self.waiting:
            return
        takes = {job.id: seconds for _, job, seconds in self.day.arrivals}
        for start in self.facts().scheduler(RULES).decide(self.now).starts:
            job = self.waiting.pop(start.job)
            running = Running(job=job, placement=start.placement, started=self.now)
            self.running[job.id] = (running, self.second + takes[job.id])

    def _move(self, host: PoolHost) -> None:
        pool = next(pool for pool in self.day.pools if pool.name == host.pool)
        ended = None
        if host.state in ("adding", "removing") and host.not_before <= self.now:
            ended = Ended(doing=host.state, trouble="no" if self.second in self.day.failing else "")
        there = host.state in ("ready", "draining") or (
            host.state == "starting" and self.second - self.came[host.name] >= self.day.slow
        )
        node = host.name if there else ""
        sight = Sight(node=node, known=there, draining=True, busy=host.name in self.busy(), ended=ended)
        moved = moving.move(pool, host, sight, self.now).host
        if moved is None:
            del self.hosts[host.name]
            return
        if moved.state == "removing" and host.state != "removing":
            assert host.name not in self.busy(), "what has work is never given back"
        self.hosts[host.name] = moved

    def _scale(self) -> None:
        pools, hosts = self.day.pools, list(self.hosts.values())
        found = wants(pools, hosts, self.facts(), RULES, self.now)
        for pool in pools:
            own = of_pool(pool, hosts)
            idle = {
                host.name: self._lasts(host.name, holds=host.state == "ready" and host.name not in self.busy()) for host in own
            }
            want = found[pool.name]
            todo = steps(pool, own, want, idle, self._lasts(pool.name, holds=is_short(own, want)))
            self._check(pool, own, want, todo.add, todo.drain, todo.give_up)
            for name in todo.drain:
                self.hosts[name] = replace(self.hosts[name], state="draining")
            for name in todo.give_up:
                self.hosts[name] = moving.given_up(self.hosts[name], self.now).host or self.hosts[name]
            for _ in range(todo.add):
                name = f"{pool.name}-{len(self.came)}"
                self.came[name] = self.second
                self.hosts[name] = host_of(name, "adding", pool.name)
            self.acts += [(self.second, "act")] * (todo.add + len(todo.drain) + len(todo.give_up))

    def _lasts(self, name: str, *, holds: bool) -> int:
        if not holds:
            self.since.pop((name, ""), None)
            return -1
        return (self.second - self.since.setdefault((name, ""), self.second)) * SECOND

    def _check(
        self, pool: Pool, own: list[PoolHost], want: Want, add: int, drain: Sequence[str], give_up: Sequence[str]
    ) -> None:
        alive = [host for host in own if host.state in (*ON_THE_WAY, "ready")]
        coming = [host for host in alive if host.state in ON_THE_WAY]
        assert len([host for host in own if host.state != "gone"]) + add <= pool.most
        left = len(alive) + add - len(drain) - len(give_up)
        assert left >= min(pool.least, len(alive) + add), "never fewer than the least by its own doing"
        assert not (set(drain) & self.busy())
        if add and len(alive) >= pool.least:
            assert want.hosts > len(coming), "none is added where those on their way would do"


@given(days())
@settings(max_examples=25, deadline=None)
def test_on_any_day_bounds_hold_work_is_let_be_and_all_that_can_run_does(day: Day):
    played = Played(day)
    played.play(22)
    able = {job.id for _, job, _ in day.arrivals if could_run(day, job)}
    # Long enough for everything to come, run one after the other, fail a few times, and go.
    for _ in range(40 + 25 * len(day.arrivals) + 100):
        if played.ended >= able and played.is_at_rest():
            break
        played.play(1)
    assert played.ended >= able, "what hosts that can be had could run does run"
    assert played.is_at_rest(), "idle hosts go, down to the least"


def could_run(day: Day, job: Job) -> bool:
    most = [node for pool in day.pools if pool.serves(job) for node in pool.imagined(pool.most)]
    return not facts_of(job, nodes=[*day.nodes, *most]).scheduler(RULES).could_ever(job)


@given(days())
@settings(max_examples=10, deadline=None)
def test_the_same_demand_does_not_make_hosts_come_and_go(day: Day):
    forever = replace(day, arrivals=tuple((0, job, 10**6) for _, job, _ in day.arrivals), failing=frozenset())
    played = Played(forever)
    played.play(40)
    acts = len(played.acts)
    played.play(25)
    assert len(played.acts) == acts, "after a while nothing is done any more"
