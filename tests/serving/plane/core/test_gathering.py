"""What becomes one batch is put together as it comes, where the device likes to have it."""

import numpy as np
import pytest

from falaj.base.errors import Invalid
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Ask, Given
from falaj.serving.plane.core.gathering import Gathering, nowhere
from falaj.serving.plane.core.inputs import Inputs

SPECS = (TensorSpec(name="large", datatype="FP32", shape=(-1, 8)), TensorSpec(name="small", datatype="INT8", shape=(-1,)))


class Favourite:
    """Memory that remembers what was put where; too good for less than a hundred bytes."""

    def __init__(self, length):
        self.array, self.puts = np.zeros(length, np.uint8), []

    def put(self, parts, at):
        joined = b"".join(parts)
        self.puts.append((at, len(joined)))
        self.array[at : at + len(joined)] = np.frombuffer(joined, np.uint8)


class Device:
    def __init__(self):
        self.given = []

    def memory(self, length):
        if length < 100:
            return None
        self.given.append(Favourite(length))
        return self.given[-1]


def item(inputs, *rows, as_list=False):
    large, small = np.array([[row] * 8 for row in rows], "<f4"), np.nan_to_num(np.array(rows)).astype(np.int8)
    datas = (large.ravel().tolist(), small.tolist()) if as_list else (large.tobytes(), small.tobytes())
    shapes = ((len(rows), 8), (len(rows),))
    given = [Given(spec.name, spec.datatype, shape, data) for spec, shape, data in zip(SPECS, shapes, datas, strict=True)]
    found, count, tails, weight = inputs.check(given)
    return Ask(token="", endpoint="e", given=given, reply=None, arrived=0.0), None, count, found, tails, weight


@pytest.mark.parametrize("as_list", [False, True])
def test_rows_are_copied_as_they_come_and_are_one_array_in_the_end(as_list):
    inputs, device = Inputs(SPECS, batches=True, nan="allow"), Device()
    first, second = item(inputs, 1, 2), item(inputs, 3, as_list=as_list)
    gathering = Gathering(inputs, first[4], 16, device.memory, 0.0)
    assert gathering.is_early
    gathering.add([first], 2)
    gathering.add([second], 1)
    large, small = gathering.arrays()
    assert large.tolist() == [[float(row)] * 8 for row in (1, 2, 3)]
    assert small.tolist() == [1, 2, 3]
    (memory,) = device.given  # the other input is too small for it
    assert np.shares_memory(large, memory.array)
    assert memory.puts == [(0, 64), (64, 32)]
    assert (gathering.batch, gathering.rows) == ([first, second], 3)


def test_a_device_without_favourites_gets_all_at_once():
    inputs = Inputs(SPECS, batches=True, nan="allow")
    one = item(inputs, 1, 2)
    gathering = Gathering(inputs, one[4], 16, nowhere, 0.0)
    gathering.add([one], 2)
    assert not gathering.is_early
    assert [array.shape for array in gathering.arrays()] == [(2, 8), (2,)]


def test_what_is_wrong_with_one_is_told_when_all_are_asked_for():
    inputs, device = Inputs(SPECS, batches=True, nan="refuse"), Device()
    ask, grant, rows, (_, small), tails, weight = item(inputs, 1, as_list=True)
    gathering = Gathering(inputs, tails, 16, device.memory, 0.0)
    gathering.add([(ask, grant, rows, (["no number"] * 8, small), tails, weight)], 1)
    gathering.add([item(inputs, 2)], 1)
    with pytest.raises(Invalid, match="no number"):
        gathering.arrays()
    gathering = Gathering(inputs, tails, 16, device.memory, 0.0)
    gathering.add([item(inputs, float("nan"))], 1)
    with pytest.raises(Invalid, match="NaN"):
        gathering.arrays()
