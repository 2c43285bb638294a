"""Logs outlive their engines: sealed, in the job's zone, for ever."""

from falaj.base.clock import DAY, Moment
from falaj.database.work import UnitOfWork
from falaj.governance.ledger.store import leaves
from falaj.jobs.listing import ListingService
from falaj.jobs.operations.jobs import LogPart, ReadLog
from falaj.jobs.operations.scheduling import KEEP_LOG
from falaj.jobs.store import tables
from falaj.storage.store import blobs
from tests.jobs.cluster import Cluster, run, settle
from tests.jobs.test_launching import context_in


def finished(cluster: Cluster, log: bytes) -> str:
    controller = cluster.controller()
    job = cluster.submit("1")
    settle(controller)
    cluster.timers.logs[cluster.timers.starts[-1]] = log
    run(cluster, controller, 2)
    return job


def kept(cluster: Cluster, job: str) -> bytes:
    def read(work: UnitOfWork) -> bytes:
        return b"".join(cluster.blobs.open(context_in(cluster, work), cluster.tries(job)[0].log).read())

    return cluster.database.read(read)


def test_the_log_of_an_ended_attempt_is_kept_and_its_engine_forgets_it(cluster: Cluster):
    long = b"a line\n" * 500_000  # more than is read at a time
    job = finished(cluster, long)
    assert cluster.tries(job)[0].log is None
    assert cluster.log_keeper().step() is False
    assert kept(cluster, job) == long
    assert cluster.timers.look() == []
    (blob,) = cluster.rows(blobs)
    assert (blob.zone, blob.project) == ("home", cluster.project)
    assert [row.project for row in cluster.rows(leaves) if row.operation == KEEP_LOG.name] == [cluster.project]


def test_an_empty_log_is_no_blob(cluster: Cluster):
    job = finished(cluster, b"")
    cluster.log_keeper().step()
    assert cluster.tries(job)[0].log == ""
    assert cluster.rows(blobs) == []
    assert cluster.timers.look() == []


def test_the_log_of_what_still_runs_is_left_alone(small: Cluster):
    controller = small.controller()
    small.submit("100")
    settle(controller)
    run(small, controller, 1)
    small.timers.logs[small.timers.starts[0]] = b"so far"
    small.log_keeper().step()
    assert [seen.state for seen in small.timers.look()] == ["running"]
    assert small.rows(tables.attempts)[0].log is None


def test_an_engine_that_does_not_answer_is_asked_again(small: Cluster):
    job = finished(small, b"words")
    keeper = small.log_keeper()
    small.timers.reachable = False
    keeper.step()
    assert small.tries(job)[0].log is None
    small.timers.reachable = True
    keeper.step()
    assert kept(small, job) == b"words"


def test_the_log_of_an_engine_that_never_comes_back_is_given_up_in_the_end(small: Cluster):
    job = finished(small, b"words")
    small.timers.reachable = False
    small.clock.moment = Moment(small.clock.moment + 8 * DAY)
    small.log_keeper().step()
    assert small.tries(job)[0].log == ""


def test_one_whose_log_was_kept_but_not_forgotten_is_forgotten_by_the_controller(small: Cluster):
    job = finished(small, b"words")
    forget, small.timers.forget = small.timers.forget, lambda _: None
    small.log_keeper().step()
    small.timers.forget = forget
    assert len(small.timers.look()) == 1
    run(small, small.controller(), 3)
    assert small.timers.look() == []
    assert kept(small, job) == b"words"


def test_many_logs_are_kept_one_walk_after_another(small: Cluster):
    controller = small.controller()
    for _ in range(8):
        small.submit("1")
    settle(controller)
    for number, attempt in enumerate(small.timers.starts):
        small.timers.logs[attempt] = b"%d" % number if number % 2 else b""
    run(small, controller, 2)
    small.log_keeper().step()
    assert small.timers.look() == []
    assert sorted(row.log != "" for row in small.rows(tables.attempts)) == [False] * 4 + [True] * 4


def test_a_try_that_its_engine_has_not_heard_of_yet_has_written_nothing(small: Cluster):
    small.timers.deaf = True
    job = small.submit("100")
    settle(small.controller())
    assert small.tries(job)
    listing = ListingService(small.database, small.blobs, small.engines)
    part = small.database.read(
        lambda work: listing.read_log(context_in(small, work), ReadLog(project=small.project, job=job, offset=3))
    )
    assert part == LogPart(text="", next=3, over=False)
