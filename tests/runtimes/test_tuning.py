"""What is learned about a model when it is loaded."""

import time

import numpy as np
import pytest

from falaj.runtimes.engine import Placement, TensorSpec
from falaj.runtimes.errors import EngineFailed
from falaj.runtimes.tuning import Tuned, load_tuned, on_threads_that_pay, single_rows, tune
from tests.runtimes.models import converted, files


class Clockwork:
    """An engine that takes exactly as long as it is told, by a clock that only it moves."""

    device = "cpu"
    inputs = (TensorSpec(name="x", datatype="FP32", shape=(-1, 4)),)
    outputs = (TensorSpec(name="y", datatype="FP32", shape=(-1,)),)

    def __init__(self, each, every=0.0, *, batches=True, most=10**6):
        self.each, self.every, self.batches, self.most = each, every, batches, most
        self.now = 0.0
        self.asked = []

    def run(self, arrays):
        rows = len(arrays[0])
        if rows > self.most:
            raise EngineFailed("out of memory")
        self.asked.append(rows)
        self.now += self.every + rows * self.each
        return [np.zeros(rows, np.float32)]

    def close(self):
        pass

    def tuned(self, **settings):
        return tune(self, timer=lambda: self.now, **{"objective_s": 0.1, **settings})


def test_a_model_whose_rows_all_cost_the_same_is_asked_for_one():
    assert Clockwork(each=1e-5).tuned().batch == 1


def test_a_model_with_a_cost_for_every_call_is_asked_for_many():
    engine = Clockwork(each=1e-6, every=1e-5)
    tuned = engine.tuned()
    assert tuned.batch == 128  # 128 rows reach 96 % of what 256 reach
    assert tuned.one_row_s == pytest.approx(1.1e-5)
    assert tuned.row_s_at_batch == pytest.approx(1e-6 + 1e-5 / 128)


def test_no_batch_takes_longer_than_the_objective():
    engine = Clockwork(each=1e-4, every=1e-3)
    tuned = engine.tuned(objective_s=0.003, budget_s=10)
    assert tuned.batch * 1e-4 + 1e-3 <= 0.003
    assert tuned.batch == 16


def test_a_slow_model_does_not_take_longer_to_measure_than_the_budget():
    engine = Clockwork(each=0.05)
    engine.tuned(objective_s=10)
    assert max(engine.asked) == 1
    assert engine.now < 0.5


def test_a_model_of_single_rows_is_asked_for_one():
    engine = Clockwork(each=1e-6, every=1e-5, batches=False)
    assert engine.tuned().batch == 1
    assert set(engine.asked) == {1}


def test_a_batch_that_does_not_fit_ends_the_search():
    assert Clockwork(each=1e-6, every=1e-3, most=20).tuned().batch == 16


def test_a_model_that_takes_nothing_made_up_is_left_as_it_is():
    assert Clockwork(each=1e-6, most=0).tuned() == Tuned()


def test_a_small_model_is_tuned_in_a_moment_and_ready():
    model = files("onnx", "m.onnx", m_onnx=converted(zipmap=False))
    started = time.monotonic()
    engine, tuned = load_tuned(model, Placement(), objective_s=0.1)
    assert time.monotonic() - started < 3  # 0.1 on a quiet machine
    assert tuned.threads == 1
    assert tuned.batch > 1
    assert 0 < tuned.row_s_at_batch < tuned.one_row_s < 0.01
    engine.close()


def test_threads_that_were_asked_for_are_kept():
    model = files("onnx", "m.onnx", m_onnx=converted(zipmap=False))
    engine, tuned = load_tuned(model, Placement(threads=2), objective_s=0.1)
    assert tuned.threads == 2
    engine.close()


@pytest.mark.parametrize(("each", "rows"), [(1e-6, 400), (0.01, 100), (0.1, 20), (1.0, 5)])
def test_so_many_single_rows_are_timed_as_there_is_time_for(each, rows):
    engine = Clockwork(each=each)
    times = single_rows(engine, timer=lambda: engine.now)
    assert times == pytest.approx([each] * len(times))
    assert rows <= len(times) <= rows + 1
    assert set(engine.asked) == {1}
    assert single_rows(Clockwork(each=each, most=0)) == ()


class Threaded(Clockwork):
    """As fast as its threads make it."""

    def __init__(self, threads, each):
        super().__init__(each)
        self.threads, self.closed = threads, False

    def close(self):
        self.closed = True


def chosen(row_seconds, cores=4):
    """How many threads it ends up with, and on how many it was tried; `row_seconds` by threads, none where it cannot be had."""
    made = []

    def load_on(threads):
        if threads not in row_seconds:
            raise EngineFailed("out of memory")
        made.append(Threaded(threads, row_seconds[threads]))
        return made[-1]

    engine, found = on_threads_that_pay(load_on, lambda one: one.tuned(), cores)
    assert found.one_row_s == pytest.approx(row_seconds[engine.threads])
    assert [one.closed for one in made] == [one is not engine for one in made]
    return engine.threads, [one.threads for one in made]


def test_a_slow_model_gets_the_cores_that_make_it_faster():
    assert chosen({1: 0.02, 4: 0.006}) == (4, [1, 4])


def test_cores_that_hardly_help_are_left_to_others():
    assert chosen({1: 0.02, 4: 0.018}) == (1, [1, 4])


def test_a_fast_model_or_a_single_core_is_not_even_tried_on_several_threads():
    assert chosen({1: 0.0005, 4: 0.0001}) == (1, [1])
    assert chosen({1: 0.02, 4: 0.006}, cores=1) == (1, [1])


def test_a_model_that_cannot_be_had_on_several_threads_runs_on_one():
    assert chosen({1: 0.02}) == (1, [1])
