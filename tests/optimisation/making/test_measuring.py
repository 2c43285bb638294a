"""What is measured of a model: figures that hang together, from a process of its own."""

import json
from dataclasses import replace

import numpy as np
import pytest

from falaj.optimisation.making import measuring, timing
from falaj.optimisation.making.measuring import compare, measure
from falaj.optimisation.making.steps import STEPS
from falaj.optimisation.making.timing import BATCHES, Clocks, Course, EnergyMeter, timed
from falaj.optimisation.making.values import CannotBeMade, Made, Sample
from tests.optimisation.making.models import (
    booster,
    conv,
    conv_material,
    digits,
    slow,
    slow_rows,
    table,
    two_input_rows,
    two_inputs,
)


def test_models_are_measured_in_turn_in_one_process():
    small = STEPS["int8"](conv(), "", conv_material())
    first, second = compare([conv(), small], digits()[1], seconds=0.3, price=0.04)
    for found, made in ((first, conv()), (second, small)):
        assert found.size == made.size
        assert found.batch in BATCHES
        assert 0 < found.p50_low <= found.p50_ms <= found.p50_high
        assert found.p50_ms <= found.p99_ms <= found.p99_high
        assert found.rows_per_s > 500 / found.p50_ms  # the best batch is not much worse than one row at a time
        assert found.cost == pytest.approx(0.04 * 1e6 / found.rows_per_s / 3600)
        assert found.memory > 0
        assert found.joules > 0
        assert "RAPL" in found.energy or "W a busy core" in found.energy


def test_what_has_no_way_to_the_gpu_is_measured_on_the_processor_and_says_so():
    """LightGBM has none anywhere."""
    rows = Sample(inputs=(table()[0],))
    (found,) = compare([booster()], rows, seconds=0.1, price=0.04, gpu_price=4.0, device="gpu")
    assert found.device == "cpu"
    assert found.cost == pytest.approx(0.04 * 1e6 / found.rows_per_s / 3600)
    assert "GPU" not in found.energy


def test_what_runs_on_a_gpu_costs_that_as_well_and_its_energy_is_told_to_be_without_it(monkeypatch):
    course = Course(conv(), digits()[1], 1)
    monkeypatch.setattr(course.engine, "device", "gpu")
    (one,) = timed([course], seconds=0.1, watts=10.0, clocks=Clocks(wall=Clock(), worked=Clock(), busy=Clock()))
    assert one.energy.endswith(", without the GPU")
    told = json.loads(json.dumps(measuring._told(one))) | {"memory": 1}
    found = measuring._measured(conv(), told, 1, 0.04, 4.0)
    assert found.device == "gpu"
    assert found.cost == pytest.approx(4.04 * 1e6 / found.rows_per_s / 3600)


def test_a_model_of_several_inputs_is_measured():
    assert measure(two_inputs(), two_input_rows(), seconds=0.1).rows_per_s > 0


def test_a_model_that_takes_a_quarter_of_a_second_for_a_row_is_measured():
    """By as many rows as there is time for; what it takes of memory is known once and for all."""
    first, second = compare([slow(), slow()], slow_rows(256), seconds=0.1, memory=[123])
    assert (first.memory, first.batch) == (123, 1)
    assert second.memory > slow().size
    assert second.p50_ms > 50
    assert second.p50_low <= second.p50_ms <= second.p99_high


def test_what_takes_seconds_for_a_row_is_not_measured_and_says_how_many(monkeypatch):
    monkeypatch.setattr(timing, "_SLOWEST", 0.01)
    with pytest.raises(CannotBeMade, match=r"a row takes it 0\.\d+ seconds; what takes more than 0.01 is not measured"):
        Course(slow(), slow_rows(), 1)


def test_a_slow_model_is_asked_in_fewer_blocks():
    course = Course(conv(), digits()[1], 1)
    clocks = Clocks(wall=Clock(), worked=Clock(), busy=Clock())
    course.row = 0.5
    assert len(timing._latencies([course], 0.1, clocks)[0]) == timing._LEAST_BLOCKS
    course.row = 0.0001
    assert len(timing._latencies([course], 0.1, clocks)[0]) == timing.BLOCKS


def test_what_cannot_be_run_is_told():
    broken = Made(runtime="onnx", file="m", files={"m": b"no model"})
    with pytest.raises(CannotBeMade, match="cannot be measured: what was made cannot be loaded"):
        measure(broken, digits()[1], seconds=0.1)


class Clock:
    """Each look at it takes a millisecond, or as long as it is told."""

    def __init__(self, by=0.001):
        self.now, self._by = 0.0, by

    def __call__(self):
        self.now += self._by
        return self.now


def test_a_rate_is_rows_by_time_and_the_smallest_of_equal_batches_wins():
    courses = [Course(conv(), digits()[1], 1)]
    (found,) = timed(courses, seconds=0.5, watts=10.0, clocks=Clocks(wall=Clock(), worked=Clock(), busy=Clock()))
    assert found.p50.at == pytest.approx(1.0)
    assert found.batch == 256
    assert found.rows_per_s == pytest.approx(256_000)


@pytest.mark.parametrize("cores", [1, 2])
def test_energy_is_estimated_from_what_all_busy_cores_worked(cores, monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "EnergyMeter", lambda: EnergyMeter(tmp_path))
    clocks = Clocks(wall=Clock(), worked=Clock(), busy=Clock(by=0.001 * cores))
    (found,) = timed([Course(conv(), digits()[1], 1)], seconds=0.5, watts=10.0, clocks=clocks)
    assert found.rows_per_s == pytest.approx(256_000)
    assert found.joules == pytest.approx(1000 / 256_000 * 10 * cores)
    assert found.energy == "estimated from 10 W a busy core"


def test_a_variant_on_two_threads_costs_the_work_of_both():
    """However soon they are done: it is the same work, and some waiting for each other."""
    alone, both = compare([conv(), replace(conv(), settings={"threads": "2"})], digits()[1], seconds=0.5)
    assert both.joules > 0.8 * alone.joules


def test_batches_are_no_larger_than_the_rows_there_are():
    assert Course(conv(), digits()[1].part(0, 40), 1).batches() == [1, 4, 16]


def test_rows_are_new_from_run_to_run():
    course = Course(conv(), digits()[1].part(0, 100), 1)
    first, second = course.taken(30)[0], course.taken(30)[0]
    assert not np.array_equal(first, second)
    assert len(course.taken(60)[0]) == 60


def test_energy_is_read_from_the_processor_where_it_tells(tmp_path):
    assert not EnergyMeter(tmp_path).is_there
    for package, joules in (("intel-rapl:0", 3), ("intel-rapl:1", 4)):
        (tmp_path / package).mkdir()
        (tmp_path / package / "energy_uj").write_text(f"{joules}000000\n")
    meter = EnergyMeter(tmp_path)
    assert meter.is_there
    assert meter.read() == 7.0


@pytest.mark.parametrize("runs", [400, 1000, 4000])
def test_what_99_of_100_keep_to_is_rarely_beyond_its_interval(runs):
    """Runs by chance, of which it is known what 99 of 100 keep to."""
    random, known = np.random.default_rng(0), float(np.exp(0.2 * 2.3263))
    ends = [timing._quantile(list(random.lognormal(0, 0.2, (timing.BLOCKS, runs // timing.BLOCKS))), 0.99) for _ in range(100)]
    assert sum(one.high >= known for one in ends) >= 95


def test_a_slow_model_is_asked_often_enough_to_know_its_slowest():
    course = Course(conv(), digits()[1], 1)
    clocks = Clocks(wall=Clock(), worked=Clock(), busy=Clock())
    assert len(timing._block(course, 1, 0.004, clocks).times) < 10
    assert len(timing._block(course, 1, 0.004, clocks, least=20).times) == 20
    assert len(timing._block(course, 1, 0.001, clocks, least=20).times) < 20  # within bounds
