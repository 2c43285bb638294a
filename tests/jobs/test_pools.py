"""Hosts that come when jobs need them and go when nobody does: real commands, a real database, the real controller."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from falaj.base.clock import SECOND
from falaj.base.errors import Invalid
from falaj.governance.ledger.leaves import decode
from falaj.governance.ledger.store import leaves
from falaj.jobs.controller import SHIPPED_RULES, Controller
from falaj.jobs.explaining import Explainer
from falaj.jobs.nodes import NodeService
from falaj.jobs.operations.jobs import OneJob, Why
from falaj.jobs.operations.nodes import Node
from falaj.jobs.operations.scheduling import SCALE
from falaj.jobs.operations.words import Resources
from falaj.jobs.pools.outlook import PoolOutlook
from falaj.jobs.pools.showing import PoolView
from falaj.jobs.pools.values import Pool, PoolHost
from falaj.jobs.scheduler.values import Job
from falaj.jobs.standing import job_of
from falaj.jobs.store import nodes, tables
from tests.jobs.asking import context_of, facts_of, standing
from tests.jobs.cluster import Cluster, HandClock, settle
from tests.jobs.provider import HOST, ProvidedEngine, hosts_of, keeper_of, provided


class Burst:
    """A cluster without hosts, its controller, and what keeps its pools."""

    def __init__(self, folder: Path, *pools: Pool, postgres_url: str | None = None) -> None:
        self.clock = HandClock()
        self.folder = folder
        self.pools = pools
        self.engine = ProvidedEngine("timers", folder / "made", self.clock)
        self.cluster = Cluster(folder, self.clock, postgres_url, engines={"timers": self.engine})
        self.controller: Controller = self.cluster.controller(real=True)
        self.keeper = keeper_of(self.cluster, folder, *pools)

    def close(self) -> None:
        self.keeper.close()
        self.cluster.database.close()

    def turn(self, times: int = 1) -> None:
        """A second goes by, everybody looks once, and commands are given the time to end."""
        for _ in range(times):
            self.clock.forward(1)
            settle(self.controller)
            self.keeper.step()
            if any(host.state in ("adding", "removing") for host in self.hosts()):
                time.sleep(0.01)

    def until(self, *states: str, turns: int = 200) -> list[PoolHost]:
        for _ in range(turns):
            if [host.state for host in self.hosts()] == list(states):
                return self.hosts()
            self.turn()
        raise AssertionError(f"never {states}: {self.hosts()}")

    def hosts(self) -> list[PoolHost]:
        return hosts_of(self.cluster)

    def made(self) -> list[str]:
        return sorted(file.stem for file in (self.folder / "made").glob("*.host"))

    def recorded(self) -> list[str]:
        rows = sorted((row for row in self.cluster.rows(leaves) if row.operation == SCALE.name), key=lambda row: row.id)
        said = [str(decode(row.record).facts["action"]) for row in rows]
        return [action for action in said if action != "added"]  # its engine may have it before its command has ended

    def shown(self) -> list[Node]:
        service = NodeService(standing(self.cluster), PoolView(self.pools))
        return self.cluster.database.read(lambda work: self._listed(service, work))

    def _listed(self, service: NodeService, work: Any) -> list[Node]:
        context = context_of(self.cluster)
        object.__setattr__(context, "work", work)
        return list(service.list(context, None, facts_of(self.cluster)).items)  # type: ignore[arg-type]

    def explainer(self) -> Explainer:
        outlook = PoolOutlook(self.cluster.database, self.pools)
        return Explainer(self.cluster.database, standing(self.cluster), SHIPPED_RULES, outlook)

    def why(self, job: str) -> Why:
        return self.explainer().why(context_of(self.cluster), OneJob(project="default", job=job))

    def order(self, **fields: Any) -> Job:
        """As a submission would hold it against everything."""
        job = self.cluster.submit("5", **fields)
        found = job_of(self.cluster.job(job))
        self.cluster.cancel(job)
        self.turn()
        return found


@pytest.fixture
def burst(tmp_path: Path) -> Iterator[Burst]:
    made = Burst(tmp_path, provided(tmp_path))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def on_both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Burst]:
    url = request.getfixturevalue("postgres_tables_url") if request.param == "postgres" else None
    made = Burst(tmp_path, provided(tmp_path), postgres_url=url)
    yield made
    made.close()


def test_from_no_host_one_comes_for_a_job_and_goes_after_its_cool_down(on_both: Burst):
    burst = on_both
    job = burst.cluster.submit("20")
    (host,) = burst.until("ready")
    assert burst.made() == [host.name]
    assert host.name.startswith("burst-")
    burst.turn(22)
    assert burst.cluster.job(job).state == "done"
    burst.turn(20)
    assert [one.state for one in burst.hosts()] == ["ready"], "it has not been idle for long enough"
    burst.until("gone")
    assert burst.made() == []
    burst.until()
    assert burst.cluster.rows(tables.nodes) == []
    assert burst.recorded() == ["add", "ready", "drain", "remove", "removed", "gone"]
    assert len(burst.cluster.tries(job)) == 1


def test_many_jobs_get_as_many_hosts_as_they_fill_and_no_more_than_the_most(burst: Burst):
    jobs = [burst.cluster.submit("15", resources=Resources(cpus=2)) for _ in range(4)]
    burst.until("ready", "ready")
    more = [burst.cluster.submit("15", resources=Resources(cpus=4)) for _ in range(4)]
    burst.until("ready", "ready", "ready")
    assert len(burst.made()) == 3
    burst.until()
    assert {burst.cluster.job(job).state for job in (*jobs, *more)} == {"done"}


def test_the_least_are_there_before_any_job_is_and_stay(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, least=1, cool_down=0))
    (host,) = burst.until("ready")
    burst.turn(5)
    assert burst.hosts() == [host]
    burst.close()


# What goes wrong


def test_a_command_that_fails_is_run_again_for_the_same_host_after_a_pause(tmp_path: Path):
    pool = provided(tmp_path)
    (tmp_path / "pattern").rename(tmp_path / "later")
    burst = Burst(tmp_path, pool)
    job = burst.cluster.submit("5")
    burst.turn(3)
    (host,) = burst.hosts()
    assert (host.state, host.tries) == ("adding", 1)
    assert host.trouble.startswith("cp: it ended with 1: cp: cannot stat")
    (shown,) = burst.shown()
    assert (shown.name, shown.state, shown.pool) == (host.name, "starting", "burst")
    assert shown.flags[0].startswith("Adding it failed (1), again at 2026-11-15T09:00:")
    told = burst.why(job)
    assert told.rule == "room"
    assert "A host of pool burst is asked for, and that failed once; it is tried again at 09:00:" in told.sentence
    assert "cannot stat" not in told.sentence, "what a command says is for operators"
    (tmp_path / "later").rename(tmp_path / "pattern")
    (ready,) = burst.until("ready")
    assert (ready.name, ready.tries, ready.trouble) == (host.name, 0, "")
    burst.close()


def test_a_command_that_does_not_end_is_killed_and_run_again(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, add=("sh", "-c", "sleep 60", "{name}"), command_within=SECOND // 20))
    burst.cluster.submit("5")
    burst.turn(2)
    time.sleep(0.1)
    burst.turn(2)
    (host,) = burst.hosts()
    assert (host.tries, host.trouble) == (1, "sh: it did not end in time")
    burst.close()


def test_a_command_that_is_not_there_is_said_to_be_so(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, add=("/no/such/command", "{name}")))
    burst.cluster.submit("5")
    burst.turn(3)
    assert burst.hosts()[0].trouble == "/no/such/command cannot be run: No such file or directory"
    burst.close()


def test_one_that_could_not_be_added_goes_when_its_job_is_cancelled(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, add=("false", "{name}")))
    job = burst.cluster.submit("5")
    burst.turn(3)
    burst.cluster.cancel(job)
    burst.until()
    assert burst.recorded()[-3:] == ["remove", "removed", "gone"]
    burst.close()


def test_one_that_its_engine_never_has_is_given_back_and_asked_for_anew(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, add=("true", "{name}")))
    burst.cluster.submit("5")
    (first,) = burst.until("starting")
    burst.turn(55)
    assert [host.name for host in burst.hosts()] == [first.name]
    burst.turn(15)
    names = {host.name for host in burst.hosts()}
    assert len(names) == 1
    assert first.name not in names
    burst.close()


def test_one_that_is_lost_is_given_back_and_another_takes_its_place(burst: Burst):
    job = burst.cluster.submit("400")
    (first,) = burst.until("ready")
    burst.turn(2)
    (burst.folder / "made" / f"{first.name}.host").unlink()
    burst.engine.lose(burst.engine.starts[0])
    burst.turn(60)
    (second,) = burst.hosts()
    assert (second.state, second.name != first.name) == ("ready", True)
    assert burst.cluster.job(job).state == "running"
    assert [row.name for row in burst.cluster.rows(tables.nodes)] == [second.name]


def test_while_its_engine_does_not_answer_nothing_is_added_or_given_back(burst: Burst):
    burst.cluster.submit("5")
    burst.until("ready")
    burst.turn(8)
    burst.engine.reachable = False
    burst.cluster.submit("5", resources=Resources(cpus=4), name="another")
    recorded = burst.recorded()
    burst.turn(100)
    assert burst.recorded() == recorded
    assert len(burst.made()) == 1
    burst.engine.reachable = True
    burst.until()


def test_hosts_that_have_less_than_was_declared_do_not_come_one_after_the_other(tmp_path: Path):
    pool = provided(tmp_path)
    (tmp_path / "pattern").write_text(json.dumps({"cpu_milli": 3000}))
    burst = Burst(tmp_path, pool)
    large = burst.cluster.submit("5", resources=Resources(cpus=4))
    burst.until("ready")
    burst.turn(10)
    assert burst.recorded() == ["add", "ready"]
    assert burst.cluster.job(large).state == "waiting"
    (shown,) = burst.shown()
    assert shown.flags == ("Not what pool burst says: 3 of 4 CPUs.",)
    assert "on its way" not in burst.why(large).sentence
    again = keeper_of(burst.cluster, tmp_path, provided(tmp_path, host=HOST))  # whoever starts anew remembers it
    burst.keeper = again
    burst.until()
    burst.turn(10)
    assert burst.recorded() == ["add", "ready", "drain", "remove", "removed", "gone"]
    burst.close()


# Going


def test_a_host_that_drains_stays_when_somebody_resumes_it_or_a_job_was_quicker(burst: Burst):
    burst.cluster.submit("1")
    burst.until("ready")
    (host,) = burst.until("draining")
    now = burst.clock.now()
    burst.cluster.database.write(lambda work: nodes.drain(work, host.node, draining=False, stopping=False, now=now))
    burst.turn()
    assert [one.state for one in burst.hosts()] == ["ready"]
    assert burst.recorded()[-1] == "keep"
    burst.until("draining")
    # The controller had not heard of it yet, and this one had come.
    burst.cluster.database.write(lambda work: nodes.drain(work, host.node, draining=False, stopping=False, now=now))
    burst.cluster.submit("60")
    settle(burst.controller)
    burst.cluster.database.write(lambda work: nodes.drain(work, host.node, draining=True, stopping=False, now=now))
    burst.turn(40)
    assert [one.state for one in burst.hosts()] == ["ready"]
    assert burst.made() == [host.name]


def test_nothing_is_given_back_before_the_controller_has_heard_that_it_drains(burst: Burst):
    burst.cluster.submit("1")
    burst.until("draining")
    for _ in range(5):
        burst.clock.forward(1)
        burst.keeper.step()
    assert [host.state for host in burst.hosts()] == ["draining"]
    assert len(burst.made()) == 1
    burst.until("gone")


def test_a_host_that_goes_is_shown_until_its_engine_has_forgotten_it(burst: Burst):
    burst.cluster.submit("1")
    burst.until("ready")
    (shown,) = burst.shown()
    assert (shown.pool, shown.state, shown.flags) == ("burst", "ready", ())
    burst.until("gone")
    assert [(one.pool, one.state) for one in burst.shown()] == [("burst", "going")]
    burst.until()
    assert burst.shown() == []


def test_hosts_of_a_pool_that_is_not_in_the_settings_any_more_are_left_alone_and_shown(burst: Burst):
    burst.cluster.submit("1")
    burst.until("ready")
    burst.keeper, burst.pools = keeper_of(burst.cluster, burst.folder, provided(burst.folder, "other")), ()
    burst.turn(60)
    assert [one.flags for one in burst.shown()] == [("Its pool burst is not in the settings any more: give it back by hand.",)]


# Two at once


def test_one_whose_time_is_over_writes_nothing(burst: Burst):
    burst.turn()
    other = keeper_of(burst.cluster, burst.folder, *burst.pools)
    burst.cluster.submit("5")
    burst.clock.forward(1)
    settle(burst.controller)
    other.step()
    assert len(burst.hosts()) == 1
    burst.keeper.step()  # finds out
    assert len(burst.hosts()) == 1
    other.close()


# What is told to those who wait


def test_what_only_a_pool_could_run_is_taken_and_told_how_far_that_is(burst: Burst):
    now, order = burst.clock.now(), burst.order()
    planned = burst.explainer().planned(order, now)
    assert planned.forecast.reason == (
        "No host that is there now could take it. A host of pool burst is asked for, should it still wait in 0 s."
    )
    with pytest.raises(Invalid, match="One task asks for 5 CPUs, and the largest host of its zones has 4 CPUs; ask for less"):
        burst.explainer().planned(burst.order(resources=Resources(cpus=5)), now)
    with pytest.raises(Invalid, match="It asks for 4 tasks at once, and an idle cluster seats 3 in its zones"):
        burst.explainer().planned(burst.order(resources=Resources(cpus=4), tasks=4), now)


def test_one_that_waits_is_told_of_the_host_that_comes_or_that_the_pool_has_no_more(tmp_path: Path):
    burst = Burst(tmp_path, provided(tmp_path, add=("true", "{name}"), most=1))
    job = burst.cluster.submit("5")
    (host,) = burst.until("starting")
    burst.turn(7)
    assert burst.why(job).sentence == (
        f"No host that is there now could take it. Host {host.name} of pool burst is on its way, for 7 s now."
    )
    (tmp_path / "made" / f"{host.name}.host").write_text("{}")
    burst.until("ready")
    held = burst.cluster.submit("500", resources=Resources(cpus=4))
    burst.turn(8)
    assert burst.cluster.job(held).state == "running"
    waits = burst.cluster.submit("5")
    burst.turn(2)
    told = burst.why(waits)
    assert told.rule == "room"
    assert told.sentence.startswith("No host has room now for 1 core")
    assert told.sentence.endswith(" Pool burst has as many hosts as it may have (1), so none is added.")
    burst.close()
