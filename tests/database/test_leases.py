"""Leases: one holder at a time, and a fence that grows with each new one."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.database.leases import acquire, release

START = Moment(1_800_000_000 * SECOND)


def at(seconds):
    return Moment(START + seconds * SECOND)


def ask(database, holder, *, now=START, name="sequencer", seconds=10):
    return database.write(lambda work: acquire(work, name, holder, now=now, duration=seconds * SECOND))


def test_the_first_to_ask_holds_it_and_others_do_not(database):
    assert ask(database, "a") == 1
    assert ask(database, "b") is None


def test_the_holder_renews_and_keeps_its_fence(database):
    assert ask(database, "a") == 1
    assert ask(database, "a", now=at(9)) == 1
    assert ask(database, "b", now=at(15)) is None


def test_an_expired_lease_is_taken_over_with_a_greater_fence(database):
    assert ask(database, "a") == 1
    assert ask(database, "b", now=at(11)) == 2
    assert ask(database, "a", now=at(12)) is None


def test_a_released_lease_need_not_be_waited_for(database):
    assert ask(database, "a") == 1
    database.write(lambda work: release(work, "sequencer", "a"))
    assert ask(database, "b") == 2


def test_only_the_holder_can_release(database):
    assert ask(database, "a") == 1
    database.write(lambda work: release(work, "sequencer", "b"))
    assert ask(database, "b") is None


def test_leases_of_different_names_do_not_meet(database):
    assert ask(database, "a", name="sequencer") == 1
    assert ask(database, "b", name="garbage") == 1


@pytest.mark.parametrize("state", ["never held", "expired"])
def test_of_many_who_ask_at_once_exactly_one_gets_it(database, state):
    for turn in range(8):
        name = f"lease-{turn}"
        if state == "expired":
            ask(database, "former", name=name)
        together = threading.Barrier(8)

        def one(number, name=name, together=together):
            together.wait()
            return ask(database, f"holder-{number}", name=name, now=at(60))

        with ThreadPoolExecutor(8) as pool:
            fences = list(pool.map(one, range(8)))
        assert [fence for fence in fences if fence is not None] == [1 if state == "never held" else 2]


def test_a_rival_that_came_first_but_has_not_committed_yet_wins_without_an_error(database):
    """The narrow case on Postgres: both look, both find nothing, both insert."""
    looked, answers = threading.Event(), []

    def slow(work):
        answers.append(acquire(work, "sequencer", "a", now=START, duration=10 * SECOND))
        looked.set()
        rival_waits.wait(0.5)

    rival_waits = threading.Event()
    first = threading.Thread(target=database.write, args=[slow])
    first.start()
    looked.wait(10)
    assert ask(database, "b") is None
    first.join()
    assert answers == [1]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 15), st.booleans()), max_size=15))
def test_a_fence_never_belongs_to_two_holders_and_never_shrinks(database, steps):
    database.write(lambda work: work.connection.exec_driver_sql("delete from database_leases"))
    now, owners, last = 0, {}, 0
    for holder, passed, lets_go in steps:
        now += passed
        fence = ask(database, holder, now=at(now))
        if fence is not None:
            assert fence >= last
            assert owners.setdefault(fence, holder) == holder
            last = fence
        if lets_go:
            database.write(lambda work, holder=holder: release(work, "sequencer", holder))
