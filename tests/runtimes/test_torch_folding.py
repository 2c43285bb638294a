"""Normalisations become part of the convolutions before them, and nobody can tell from the answers."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from falaj.cli.deferred import Deferred
from falaj.runtimes.engine import ModelFiles, Placement
from falaj.runtimes.loading import load
from falaj.runtimes.torch_files import Program, Ref, Step, Tensor, Weight, read_program
from falaj.runtimes.torch_folding import folded

torch: Any = Deferred("torch")  # collected also where it is not installed
FLOAT, HALF, BFLOAT16 = 7, 6, 13
KINDS = {FLOAT: "<f4", HALF: "<f2"}
GIVEN = (Ref(name="x"), Ref(name="w"))
NORM = (Ref(name="c"), Ref(name="factor"), Ref(name="offset"), Ref(name="mean"), Ref(name="variance"), False, 0.1, 1e-5, True)


def weight(numbers, dtype=FLOAT):
    array = np.asarray(numbers, np.float32)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    content = (array.view("<u4") >> 16).astype("<u2") if dtype == BFLOAT16 else array.astype(KINDS[dtype])
    return Weight(dtype=dtype, shape=array.shape, strides=strides, offset=0, content=content.tobytes())


def step(target, given, made, axes=4, **named):
    target = f"torch.ops.aten.{target}.default"
    return Step(target=target, given=given, named=named, made=(made,), several=False, axes=axes)


def program(*, convolution=None, norm=None, after=(), made=("n",), dtype=FLOAT, variance=(4.0, 0.25), **weights):
    known = {
        "w": weight(np.arange(1.0, 5.0).reshape(2, 2, 1, 1), dtype),
        **{name: weight(numbers) for name, numbers in (("factor", [2.0, 1.0]), ("offset", [0.5, -0.5]), ("mean", [1.0, 2.0]))},
        "variance": weight(variance),
        **weights,
    }
    return Program(
        inputs=(Tensor(name="x", dtype=FLOAT, shape=(-1, 2, 4, 4)),),
        weights=known,
        steps=(convolution or step("conv2d", GIVEN, "c"), norm or step("batch_norm", NORM, "n"), *after),
        outputs=(Tensor(name="n", dtype=FLOAT, shape=(-1, 2, 4, 4)),),
        made=made,
    )


def numbers(one):
    if one.dtype == BFLOAT16:
        return (np.frombuffer(one.content, "<u2").astype("<u4") << 16).view("<f4").reshape(one.shape)
    return np.frombuffer(one.content, KINDS[one.dtype]).reshape(one.shape)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, BFLOAT16])
def test_the_convolution_multiplies_and_adds_what_the_norm_did(dtype):
    found = folded(program(dtype=dtype))
    (only,) = found.steps
    assert only.target == "torch.ops.aten.conv2d.default"
    assert only.made == ("n",)
    assert only.given[0] == Ref(name="x")
    given, bias = (found.weights[ref.name] for ref in only.given[1:3])
    assert given.dtype == bias.dtype == dtype
    assert numbers(given).reshape(2, 2) == pytest.approx(np.array([[1.0, 2.0], [6.0, 8.0]]), rel=0.01)
    assert numbers(bias) == pytest.approx(np.array([-0.5, -4.5]), rel=0.01)
    assert found.weights.keys() == {ref.name for ref in only.given[1:3]}


def test_what_else_the_convolution_is_told_stays():
    convolution = step("conv2d", (*GIVEN, Ref(name="bias"), [2, 2], [1, 1]), "c")
    (only,) = folded(program(convolution=convolution, bias=weight([1.0, 1.0]))).steps
    assert only.given[3:] == ([2, 2], [1, 1])


def test_a_norm_that_was_taken_apart_by_torch_is_folded_too():
    given = (*NORM[:5], 0.1, 1e-5)
    several = replace(step("_native_batch_norm_legit_no_training", given, "n"), made=("n", "m", "r"), several=True)
    convolution = step("convolution", (*GIVEN, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), "c")
    (only,) = folded(program(convolution=convolution, norm=several)).steps
    assert (only.made, only.several) == (("n",), False)
    used = step("relu", (Ref(name="m"),), "u")
    assert len(folded(program(convolution=convolution, norm=several, after=(used,))).steps) == 3


def test_names_that_are_taken_stay_what_they_are():
    taken = weight([7.0, 7.0])
    after = (step("add", (Ref(name="n"), Ref(name="n_weight")), "sum"),)
    found = folded(program(after=after, made=("sum",), n_weight=taken))
    assert found.weights["n_weight"] == taken
    assert found.steps[0].given[1] == Ref(name="n_weight_")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"after": (step("relu", (Ref(name="c"),), "r"),)}, id="somebody else needs what the convolution made"),
        pytest.param({"made": ("c", "n")}, id="it is an output"),
        pytest.param({"norm": step("batch_norm", (*NORM[:5], True, *NORM[6:]), "n")}, id="the norm learns"),
        pytest.param({"norm": step("batch_norm", (*NORM[:3], None, None, *NORM[5:]), "n")}, id="of the batch itself"),
        pytest.param({"norm": step("batch_norm", (*NORM[:4], Ref(name="x"), *NORM[5:]), "n")}, id="the variance is computed"),
        pytest.param({"norm": step("batch_norm", NORM[:5], "n")}, id="the norm is cut short"),
        pytest.param({"convolution": step("conv2d", GIVEN, "c", axes=3)}, id="without rows"),
        pytest.param({"convolution": step("conv_transpose2d", GIVEN, "c")}, id="the other way round"),
        pytest.param({"convolution": step("conv2d", (GIVEN[0], GIVEN[0]), "c")}, id="the weight is computed"),
        pytest.param({"convolution": step("conv2d", GIVEN, "c", groups=2)}, id="said by name"),
        pytest.param({"variance": (-1.0, 1.0)}, id="no root"),
        pytest.param({"variance": (1.0,)}, id="another number of channels"),
        pytest.param({"dtype": HALF, "factor": weight([1e9, 1.0])}, id="more than the datatype holds"),
        pytest.param({"w": replace(weight(np.ones((2, 2, 1, 1))), offset=9)}, id="beyond the memory"),
        pytest.param({"w": replace(weight(np.ones((2, 2, 1, 1))), dtype=5)}, id="whole numbers"),
    ],
)
def test_what_cannot_be_folded_stays_as_it_is(other):
    given = program(**other)
    assert folded(given).steps == given.steps


def test_bfloat16_is_rounded_to_the_nearest():
    found = folded(program(dtype=BFLOAT16, variance=(1.0, 1.0), factor=weight([1.0 + 2**-8 + 2**-12, 1.0 + 2**-9])))
    scaled = numbers(found.weights["n_weight"]).reshape(2, 2)
    assert scaled[0, 0] == 1.0 + 2**-7
    assert scaled[1, 1] == 4.0


@pytest.mark.heavy
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_folded_network_answers_as_torch_does(dtype, channels_last):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding="valid", bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(inplace=True),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=2),
        torch.nn.BatchNorm2d(8, affine=False),
        torch.nn.Flatten(),
    )
    for module in network:
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                module.weight.data.uniform_(-2, 2)
                module.bias.data.uniform_(-1, 1)
    network = network.eval().to(getattr(torch, dtype))
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
    rows = torch.randn(4, 3, 16, 16)
    dynamic = [{0: torch.export.Dim("rows", min=1, max=64)}]

    class Cast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, x):
            return self.network(x.to(getattr(torch, dtype)))

    with torch.no_grad():
        exported, expected = torch.export.export(Cast(), (rows,), dynamic_shapes=dynamic), Cast()(rows)
    file = io.BytesIO()
    torch.export.save(exported, file)
    read = read_program(file.getvalue())
    targets = [one.target for one in folded(read).steps]
    assert sum("batch_norm" in one.target for one in read.steps) == 2
    assert not any("batch_norm" in one for one in targets)
    kept = [one.strides for one in folded(read).weights.values() if one.shape == (8, 3, 3, 3)]
    assert kept == [(27, 1, 9, 3) if channels_last else (27, 9, 3, 1)]
    engine = load(ModelFiles(runtime="torch", main="m", contents={"m": file.getvalue()}), Placement())
    (given,) = engine.run([rows.numpy()])
    tolerance = 1e-5 if dtype == "float32" else 0.02
    assert np.abs(given - expected.float().numpy()).max() <= tolerance * expected.abs().max().item()
