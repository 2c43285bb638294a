"""Probing, with a memory and a loader that are functions."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.training.probing import enough_workers, largest_batch


@given(st.integers(0, 5000), st.integers(1, 600), st.integers(1, 4096))
def test_the_largest_batch_fits_and_an_eighth_more_does_not(room, first, most):
    tried = []

    def fits(rows):
        tried.append(rows)
        return rows <= room

    found = largest_batch(fits, first=first, most=most)
    assert found <= min(room, most)
    assert all(rows <= most for rows in tried)
    assert len(tried) == len(set(tried)) <= 20
    if room >= 1:
        assert found >= 1
        assert min(room, most) < found + max(1, found // 8)


def test_a_loader_gets_as_many_processes_as_pay():
    assert enough_workers(lambda workers: min(100, 20 * max(1, workers)), cores=16) == 8
    assert enough_workers(lambda workers: 50, cores=16) == 0
    assert enough_workers(lambda workers: 20 * max(1, workers), cores=4) == 2


def test_a_loader_that_keeps_up_gets_no_more():
    asked = []

    def rate(workers):
        asked.append(workers)
        return 10 * (workers + 1)

    assert enough_workers(rate, cores=64, wanted=25) == 2
    assert asked == [0, 1, 2]
