"""Probing, with a memory and a loader that are functions."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.training.probing import LoaderSearch, largest_batch


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


def _found(waited, computed, cores):
    """The numbers of processes that were tried, for a loader of which `waited(workers)` is felt."""
    search, tried = LoaderSearch(cores), [0]
    for _ in range(200):
        found = search.told(waited(tried[-1]), computed(tried[-1]))
        if found is not None and found.workers != tried[-1]:
            tried.append(found.workers)
    assert search.done
    return tried


def _beside(loading, computing):
    return lambda workers: loading if not workers else max(0.0, loading / workers - computing)


def test_a_loader_gets_as_many_processes_as_hide_it():
    assert _found(_beside(0.05, 0.02), lambda workers: 0.02, cores=16) == [0, 3]
    assert _found(_beside(0.05, 0.02), lambda workers: 0.02, cores=3) == [0, 2]


def test_a_loader_that_is_slower_in_a_process_gets_more():
    assert _found(lambda workers: 0.05 if not workers else max(0.0, 0.1 / workers - 0.02), lambda workers: 0.02, cores=16) == [
        0,
        3,
        6,
    ]


def test_a_loader_that_takes_no_time_stays_in_the_training_s_own_process():
    assert _found(lambda workers: 0.0005, lambda workers: 0.0001, cores=16) == [0]
    assert _found(lambda workers: 0.01, lambda workers: 1.0, cores=16) == [0]


def test_processes_that_take_the_training_s_cores_are_taken_back():
    assert _found(lambda workers: 0.01 if not workers else 0.0, lambda workers: 0.05 * (1 + workers), cores=8) == [0, 1, 0]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.integers(1, 128))
def test_a_search_ends_within_the_cores(loading, computing, slower, cores):
    tried = _found(_beside(loading, computing), lambda workers: computing * (1 + slower * workers), cores)
    assert max(tried) <= max(1, cores - 1)
    assert len(tried) <= 10
