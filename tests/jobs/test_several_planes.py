"""Several control planes over one database, each with an engine that it alone can reach: one decides, each acts for its own."""

import random
from collections import Counter

import pytest

from falaj.base.errors import Invalid
from falaj.governance.gate import token_hash
from falaj.governance.identity.store import tokens
from falaj.jobs.controller import Controller
from falaj.jobs.engines.engine import Launch, Seen
from falaj.jobs.keeping import LogKeeper
from falaj.jobs.operations.words import Resources
from falaj.jobs.store import attempts, tables
from falaj.jobs.store import engines as engine_store
from falaj.jobs.tending import Tender
from falaj.testing.timers import TimerEngine
from tests.jobs.cluster import QUICK, Cluster, HandClock, node, settle

ALL = Resources(cpus=4)  # of a host


class Picky(TimerEngine):
    """Does not take what it is told not to."""

    refuses = ""

    def start(self, launch: Launch) -> None:
        if self.refuses:
            raise Invalid(self.refuses)
        super().start(launch)


class Plane:
    """One control plane, which lives as long as it is stepped."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.engine = Picky(f"local-{name}", [node(f"host-{name}")], cluster.clock)
        self.controller = self._controller()
        self.tender = self._tender()
        self.logs = LogKeeper(
            cluster.database, cluster.blobs, {self.engine.name: self.engine}, cluster.clock, only=self.engine.name
        )

    def _controller(self) -> Controller:
        self.cluster.engines = {self.engine.name: self.engine}
        return self.cluster.controller()

    def _tender(self) -> Tender:
        return Tender(self.cluster.database, self.cluster.clock, self.engine, self.cluster.launcher(), QUICK)

    def step(self, *, leads: bool) -> None:
        """As its loops do."""
        if leads:
            settle(self.controller)
        if not self.controller.decides():
            self.tender.step()
        self.logs.step()

    def die(self) -> None:
        """By kill -9: what it knew is gone, and what runs goes on."""
        self.controller, self.tender = self._controller(), self._tender()

    def going(self) -> list[Seen]:
        return [seen for seen in self.engine.look() if seen.state != "ended"]


class Planes:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.a, self.b = Plane(cluster, "a"), Plane(cluster, "b")

    def run(self, seconds: int, *, leader: Plane, alive: tuple[Plane, ...]) -> None:
        assert isinstance(self.cluster.clock, HandClock)
        for _ in range(seconds):
            self.cluster.clock.forward(1)
            for plane in alive:
                plane.step(leads=plane is leader)

    def both(self, seconds: int, leader: Plane | None = None) -> None:
        self.run(seconds, leader=leader or self.a, alive=(self.a, self.b))

    def left(self) -> list[Seen]:
        return [*self.a.engine.look(), *self.b.engine.look()]


@pytest.fixture
def planes(small: Cluster) -> Planes:
    made = Planes(small)
    made.both(5)
    return made


def busy(planes: Planes, seconds: str = "60") -> str:
    """The job that runs at `b`, while `a` decides and has another."""
    cluster = planes.cluster
    jobs = [cluster.submit(seconds, resources=ALL) for _ in range(2)]
    planes.both(4)
    (there,) = [job for job in jobs if cluster.tries(job)[0].engine == "local-b"]
    return there


def test_jobs_run_on_the_engines_of_all_planes_and_each_is_touched_by_its_own_alone(cluster: Cluster) -> None:
    planes = Planes(cluster)
    planes.both(5)
    jobs = [cluster.submit("5", resources=ALL) for _ in range(4)]
    planes.both(25)
    assert cluster.states() == {"done": 4}
    assert {job: len(cluster.tries(job)) for job in jobs} == dict.fromkeys(jobs, 1)
    assert (len(planes.a.engine.starts), len(planes.b.engine.starts)) == (2, 2)
    assert planes.left() == []
    assert {row.name for row in cluster.rows(tables.nodes) if row.lost is None} == {"host-a", "host-b"}


def test_a_job_that_another_plane_starts_carries_a_token_that_holds(planes: Planes) -> None:
    job = busy(planes)
    (attempt,) = planes.cluster.tries(job)
    secret = planes.b.engine.launches[attempt.id].variables["FALAJ_TOKEN"]
    (token,) = [row for row in planes.cluster.rows(tokens) if row.id == attempt.token]
    assert (token.hash, token.revoked) == (token_hash(secret), None)


def test_nothing_is_concluded_about_a_plane_that_is_gone_for_a_short_time(planes: Planes) -> None:
    job = busy(planes)
    planes.b.die()
    planes.run(15, leader=planes.a, alive=(planes.a,))
    assert planes.cluster.job(job).state == "running"
    assert list(planes.cluster.database.read(engine_store.silent)) == ["local-b"]
    planes.both(60)
    assert planes.cluster.job(job).state == "done"
    assert len(planes.cluster.tries(job)) == 1
    assert planes.cluster.database.read(engine_store.silent) == {}


def test_another_plane_takes_over_what_runs_when_the_one_that_decided_is_gone(planes: Planes) -> None:
    job = busy(planes)
    planes.a.die()
    planes.run(10, leader=planes.b, alive=(planes.b,))
    planes.both(60, leader=planes.b)
    assert planes.cluster.states() == {"done": 2}
    assert len(planes.cluster.tries(job)) == 1
    assert (len(planes.a.engine.starts), len(planes.b.engine.starts)) == (1, 1)
    assert planes.left() == []


def test_a_job_of_a_plane_that_is_gone_for_long_runs_elsewhere_and_its_orphan_ends_as_soon_as_that_is_back(
    planes: Planes,
) -> None:
    cluster = planes.cluster
    job = busy(planes, "500")
    for other in [row.id for row in cluster.rows(tables.jobs) if row.id != job]:
        cluster.cancel(other)
    planes.both(3)
    planes.b.die()
    planes.run(40, leader=planes.a, alive=(planes.a,))
    assert [row.engine for row in cluster.tries(job)] == ["local-b", "local-a"]
    assert cluster.tries(job)[0].cause == "lost"
    assert len(planes.b.going()) == 1
    planes.both(2)
    assert planes.b.going() == []
    planes.both(10)
    assert (cluster.job(job).state, len(cluster.tries(job))) == ("running", 2)
    cluster.cancel(job)
    planes.both(5)
    assert cluster.job(job).state == "cancelled"
    assert planes.left() == []


def test_one_that_was_planned_for_a_plane_that_is_gone_never_begins_there(planes: Planes) -> None:
    cluster = planes.cluster
    jobs = [cluster.submit("30", resources=ALL) for _ in range(2)]
    planes.run(2, leader=planes.a, alive=(planes.a,))  # it is still believed to be there
    (planned,) = [job for job in jobs if cluster.tries(job) and cluster.tries(job)[0].engine == "local-b"]
    planes.run(60, leader=planes.a, alive=(planes.a,))
    planes.both(40)
    assert planes.b.engine.starts == []
    assert [row.cause for row in cluster.tries(planned)] == ["lost", "done"]
    assert cluster.states() == {"done": 2}


def test_a_cancelled_job_ends_within_its_grace_wherever_it_is_and_one_that_has_not_begun_never_does(planes: Planes) -> None:
    cluster = planes.cluster
    job = busy(planes, "500")
    cluster.cancel(job)
    planes.both(4)
    assert cluster.job(job).state == "cancelled"
    planes.b.engine.deaf = True
    other = cluster.submit("30", resources=ALL)
    planes.both(3)
    assert cluster.tries(other)[0].engine == "local-b"
    cluster.cancel(other)
    planes.both(3)
    planes.b.engine.deaf = False
    planes.both(5)
    assert cluster.job(other).state == "cancelled"
    assert len(planes.b.engine.starts) == 1
    assert len(planes.left()) == 1  # the one at `a` goes on


def test_what_an_engine_elsewhere_will_not_take_is_told_as_what_it_is(planes: Planes) -> None:
    cluster = planes.cluster
    planes.b.engine.refuses = "There is no such package."
    jobs = [cluster.submit("30", resources=ALL, retries=0) for _ in range(2)]
    planes.both(8)
    (refused,) = [job for job in jobs if cluster.tries(job)[0].engine == "local-b"]
    found = cluster.job(refused)
    assert (found.state, found.cause) == ("failed", "environment")
    assert "There is no such package" in found.words


def test_one_that_an_engine_elsewhere_will_not_start_for_long_is_tried_again(planes: Planes) -> None:
    cluster = planes.cluster
    planes.b.engine.deaf = True
    jobs = [cluster.submit("5", resources=ALL) for _ in range(2)]
    planes.both(50)
    assert cluster.states() == {"done": 2}
    (deaf,) = [job for job in jobs if cluster.tries(job)[0].engine == "local-b"]
    assert cluster.tries(deaf)[0].cause == "lost"
    assert "would not start it" in cluster.tries(deaf)[0].words


def test_one_that_an_engine_elsewhere_forgot_is_lost_once(planes: Planes) -> None:
    job = busy(planes, "30")
    planes.b.engine.lose(planes.b.engine.starts[0])
    planes.both(50)
    assert planes.cluster.job(job).state == "done"
    assert [row.cause for row in planes.cluster.tries(job)] == ["lost", "done"]


def test_a_report_that_cannot_be_read_is_as_if_it_had_not_come(planes: Planes) -> None:
    job = busy(planes)
    tend, planes.b.tender.step = planes.b.tender.step, lambda: None  # type: ignore[method-assign]
    for text in ("{", '{"seen": 1}', '{"seen": [], "nodes": []}'):
        planes.cluster.database.write(lambda work, text=text: engine_store.report(work, "local-b", text))  # type: ignore[misc]
        planes.both(2)
    assert planes.cluster.job(job).state == "running"
    planes.b.tender.step = tend  # type: ignore[method-assign]
    planes.both(60)
    assert (planes.cluster.job(job).state, len(planes.cluster.tries(job))) == ("done", 1)


def test_of_two_hosts_of_one_name_the_first_is_used_alone(small: Cluster) -> None:
    planes = Planes(small)
    planes.b.engine.take_away("host-b")
    planes.b.engine.bring(node("host-a"))
    planes.both(5)
    for _ in range(2):
        small.submit("5", resources=ALL)
    planes.both(20)
    assert small.states() == {"done": 2}
    assert (len(planes.a.engine.starts), planes.b.engine.starts) == (2, [])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_dies_and_whoever_decides_every_job_ends_once_and_runs_once_where_planes_live(
    seed: int, small: Cluster
) -> None:
    chance, planes = random.Random(seed), Planes(small)
    planes.both(3)
    jobs = [small.submit(str(chance.randrange(1, 30)), resources=Resources(cpus=2)) for _ in range(12)]
    for _ in range(25):
        alive = chance.choice([(planes.a, planes.b), (planes.b, planes.a), (planes.a,), (planes.b,)])
        for plane in (planes.a, planes.b):
            if plane not in alive or chance.random() < 0.2:
                plane.die()
        planes.run(chance.choice([1, 3, 6, 12, 30]), leader=chance.choice(alive), alive=alive)
        present = {row.id for row in small.database.read(attempts.going)}
        assert all(seen.attempt in present for plane in alive for seen in plane.going())
    planes.both(150)
    assert small.states() == {"done": len(jobs)}
    assert planes.left() == []
    ended = Counter(row.job for row in small.rows(tables.attempts) if row.cause == "done")
    assert ended == Counter(jobs)
