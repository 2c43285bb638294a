"""How many rows a model runs at once."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.plane.core.sizes import MOST_ROWS, BatchSize


def run(size: BatchSize, seconds_of, times: int = 2000, *, more: bool = True) -> None:
    for _ in range(times):
        rows = size.size
        size.observe(rows, seconds_of(rows), more)


def test_under_load_a_batch_grows_while_a_row_gets_cheaper_by_it():
    size = BatchSize(1, 0.001, objective=1.0, longest=0.5)
    run(size, lambda rows: 0.001 + 0.00001 * rows)
    assert size.size >= 512


def test_a_batch_does_not_grow_where_that_makes_nothing_cheaper():
    size = BatchSize(4, 0.001, objective=10.0, longest=5.0)
    run(size, lambda rows: 0.001 * rows)
    assert size.size <= 8


def test_a_slow_first_run_of_a_new_size_is_not_held_against_it():
    size, first = BatchSize(32, 0.00005, objective=0.1, longest=0.05), {32}

    def seconds(rows: int) -> float:
        slow = rows not in first
        first.add(rows)
        return 0.02 if slow else 0.0008 + 0.00003 * rows

    run(size, seconds, times=400)
    assert size.size >= 128


def test_a_batch_does_not_grow_while_nobody_waits():
    size = BatchSize(8, 0.001, objective=1.0, longest=0.5)
    run(size, lambda rows: 0.001 + 0.00001 * rows, more=False)
    assert size.size == 8


def test_a_batch_shrinks_where_larger_ones_cost_more_for_each_row():
    size = BatchSize(64, 0.0001, objective=10.0, longest=5.0)
    for rows in (16, 32, 64):
        size.observe(rows, 0.0001 * rows * (2 if rows > 16 else 1), False)
    run(size, lambda rows: 0.0001 * rows * (2 if rows > 16 else 1))
    assert size.size <= 32


@given(
    st.integers(1, MOST_ROWS),
    st.floats(1e-6, 0.05),
    st.floats(1e-7, 0.05),
    st.floats(0.001, 1.0),
)
def test_what_is_learned_stays_within_what_a_run_may_take(start: int, once: float, each: float, longest: float):
    size = BatchSize(start, once + each, objective=2 * longest, longest=longest)
    run(size, lambda rows: once + each * rows, times=300)
    assert 1 <= size.size <= MOST_ROWS
    assert size.size == 1 or once + each * size.size <= longest * 1.01


def test_a_machine_that_became_slower_is_noticed():
    size = BatchSize(64, 0.0001, objective=0.02, longest=0.01)
    run(size, lambda rows: 0.0001 * rows, times=100)
    run(size, lambda rows: 0.001 * rows, times=200)
    assert size.size * 0.001 <= 0.011


def test_so_many_may_wait_as_meet_the_objective():
    size = BatchSize(4, 0.01, objective=0.1, longest=0.05)
    run(size, lambda rows: 0.01 * rows, times=50)
    assert 9 <= size.rows_allowed <= 11
    size.aim(0.2, 0.1)
    assert 18 <= size.rows_allowed <= 21
    assert abs(size.wait(10) - 0.1) < 0.01


def test_a_start_that_would_take_too_long_is_not_taken():
    assert BatchSize(64, 0.01, objective=0.1, longest=0.05).size <= 5


def test_one_run_that_was_interrupted_changes_nothing():
    size = BatchSize(32, 0.00001, objective=0.1, longest=0.002)
    run(size, lambda rows: 0.00001 * rows, times=50, more=False)
    size.observe(32, 0.5, False)
    assert size.size == 32
    assert size.wait(100) < 0.002


def test_a_model_of_which_nothing_is_known_is_let_show_what_it_can():
    size = BatchSize(1, 0.0, objective=0.1, longest=0.05)
    assert size.rows_allowed > 0
    size.observe(1, 0.02, False)
    assert size.rows_allowed == 5
