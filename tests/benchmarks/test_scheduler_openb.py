"""The replay counts what it should, on a made-up cluster small enough to count by hand."""

import pytest

from benchmarks import scheduler_openb
from falaj.jobs.scheduler.values import Node, Shape

HOSTS = [Node(name=f"n{number}", zone="openb", cpu_milli=8000, memory_mib=8000, cards=("A100",) * 2) for number in range(5)]


def replayed(shapes: list[Shape]) -> scheduler_openb.Replay:
    return scheduler_openb.replay(scheduler_openb.Openb(HOSTS, shapes), 1, scheduler_openb.room_of)


def test_whole_cards_are_all_given_out_and_the_rest_is_refused() -> None:
    done = replayed([Shape(cpu_milli=1000, memory_mib=1000, gpus=1)])
    assert (done.decisions, done.refused) == (13, 3)
    assert done.unallocated[50] == pytest.approx(50)
    assert done.unallocated[100] == done.unallocated[130] == pytest.approx(0)


def test_what_no_other_part_fits_beside_stays_unallocated() -> None:
    done = replayed([Shape(cpu_milli=1000, memory_mib=1000, gpus=1, gpu_milli=800)])
    assert done.decisions - done.refused == 10
    assert done.unallocated[104] == pytest.approx(20)


def test_a_scheduler_that_starts_nothing_leaves_everything_unallocated() -> None:
    openb = scheduler_openb.Openb(HOSTS, [Shape(cpu_milli=1000, memory_mib=1000, gpus=1)])
    figures = scheduler_openb.measure(lambda nodes: lambda job: False, openb, [1, 2])
    assert figures["openb_unallocated_pct"] == 100
