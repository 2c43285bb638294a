"""One engine standing in for another."""

import numpy as np
import pytest

from falaj.runtimes.engine import ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable, Rejected
from falaj.runtimes.fallback import FIRST_PAUSE, Fallback, load_with_fallback
from tests.runtimes.models import lightgbm_booster

ROW = [np.ones((1, 2), np.float32)]


class Device:
    """Makes engines that answer with their own number, while it is well."""

    inputs = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)

    def __init__(self, name, *, there=True, output="y"):
        self.name, self.there, self.well, self.made = name, there, True, []
        self.outputs = (TensorSpec(name=output, datatype="FP32", shape=(-1,)),)

    def __call__(self):
        if not self.there:
            raise DeviceMissing("gone")
        self.made.append(Made(self))
        return self.made[-1]


class Made:
    batches = True

    def __init__(self, device):
        self.of, self.closed = device, 0
        self.inputs, self.outputs, self.device = device.inputs, device.outputs, device.name

    def run(self, arrays):
        assert not self.closed
        if arrays[0].shape != (1, 2):
            raise Rejected("shape")
        if not self.of.well or np.isnan(arrays[0]).any():
            raise EngineFailed(f"{self.of.name} failed")
        return [np.array([len(self.of.made)], np.float32)]

    def close(self):
        self.closed += 1


@pytest.fixture
def world():
    """A GPU, a CPU, a clock that is moved by hand, and what was put aside to be done."""

    class World:
        now = 0.0
        gpu, cpu = Device("gpu"), Device("cpu")
        aside: list = []

        def fallback(self):
            return Fallback([self.gpu, self.cpu], now=lambda: self.now, aside=self.aside.append)

    world = World()
    world.gpu, world.cpu, world.aside = Device("gpu"), Device("cpu"), []
    return world


def test_the_first_answers_while_it_is_well(world):
    engine = world.fallback()
    engine.run(ROW)
    assert engine.device == "gpu"


def test_a_failure_is_answered_by_the_next_and_nobody_notices(world):
    engine = world.fallback()
    world.gpu.well = False
    assert engine.run(ROW)[0].tolist() == [1]
    assert engine.device == "cpu"
    assert world.gpu.made[0].closed == 1


def test_the_first_comes_back_when_it_is_well_again(world):
    engine = world.fallback()
    world.gpu.well = False
    engine.run(ROW)
    world.gpu.well = True
    engine.run(ROW)
    assert not world.aside
    world.now += FIRST_PAUSE
    engine.run(ROW)
    engine.run(ROW)
    assert engine.device == "cpu"  # nobody waits for it to be made
    (mend,) = world.aside
    mend()
    engine.run(ROW)
    assert engine.device == "gpu"
    assert len(world.gpu.made) == 2


def test_one_that_stays_unwell_is_asked_less_and_less_often(world):
    engine = world.fallback()
    world.gpu.well, world.gpu.there = False, False
    engine.run(ROW)
    tries = []
    for _ in range(600):
        world.now += 10
        engine.run(ROW)
        if world.aside:
            world.aside.pop()()
            tries.append(world.now)
    gaps = np.diff(tries)
    assert gaps[0] < gaps[1] < gaps[2]
    assert gaps[-1] == 600
    assert engine.device == "cpu"


def test_what_none_can_answer_counts_against_none(world):
    engine = world.fallback()
    with pytest.raises(EngineFailed):
        engine.run([np.full((1, 2), np.nan, np.float32)])
    engine.run(ROW)
    assert engine.device == "gpu"


def test_what_is_rejected_is_not_asked_again(world):
    engine = world.fallback()
    with pytest.raises(Rejected):
        engine.run([np.ones((1, 3), np.float32)])
    engine.run(ROW)
    assert engine.device == "gpu"


def test_a_device_that_is_not_there_at_first_is_looked_for_later(world):
    world.gpu.there = False
    engine = world.fallback()
    assert engine.device == "cpu"
    world.gpu.there = True
    world.now += FIRST_PAUSE
    engine.run(ROW)
    world.aside.pop()()
    engine.run(ROW)
    assert engine.device == "gpu"


def test_nothing_there_is_told_as_the_last_said_it(world):
    world.gpu.there = world.cpu.there = False
    with pytest.raises(DeviceMissing):
        world.fallback()


def test_variants_that_differ_cannot_stand_in_for_each_other(world):
    world.cpu = Device("cpu", output="z")
    with pytest.raises(NotLoadable, match="different tensors"):
        world.fallback()
    assert world.gpu.made[0].closed == world.cpu.made[0].closed == 1


def test_one_that_is_made_while_all_is_closed_is_closed_too(world):
    engine = world.fallback()
    world.gpu.well = False
    engine.run(ROW)
    world.now += FIRST_PAUSE
    engine.run(ROW)
    engine.close()
    world.aside.pop()()
    assert all(made.closed for made in (*world.gpu.made, *world.cpu.made))
    with pytest.raises(EngineFailed, match="closed"):
        engine.run(ROW)


def test_placements_become_engines_in_their_order():
    booster = lightgbm_booster()
    model = ModelFiles(runtime="lightgbm", main="m", contents={"m": booster.model_to_string().encode()})
    rows = np.zeros((2, 6))
    for placements in ([Placement()], [Placement(device="gpu"), Placement()]):
        engine = load_with_fallback(model, placements)
        assert engine.device == "cpu"
        np.testing.assert_allclose(engine.run([rows])[0], booster.predict(rows))
        engine.close()


def test_the_spare_one_is_the_second_as_long_as_both_are_well(world):
    engine = world.fallback()
    spare = engine.spare()
    assert spare.is_there
    world.gpu.well = False
    assert spare.run(ROW)[0].tolist() == [1]
    assert not world.gpu.made[0].closed
    engine.run(ROW)
    assert not spare.is_there  # the first failed: the second has its work
    assert spare.run(ROW)[0].tolist() == [1]
    world.gpu.well, world.now = True, FIRST_PAUSE
    engine.run(ROW)
    world.aside.pop()()
    assert spare.is_there


def test_a_spare_one_is_closed_with_the_fallback_and_not_before(world):
    engine = world.fallback()
    spare = engine.spare()
    spare.close()
    engine.run(ROW)
    assert spare.run(ROW)[0].tolist() == [1]
    engine.close()
    assert not spare.is_there
    with pytest.raises(EngineFailed):
        spare.run(ROW)
