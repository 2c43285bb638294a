"""LiteRT models are looked through before LiteRT sees them."""

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from falaj.runtimes.engine import Placement
from falaj.runtimes.errors import EngineFailed, NotLoadable, Rejected
from falaj.runtimes.litert import load
from falaj.runtimes.litert_files import checked
from falaj.runtimes.probing import probes
from tests.runtimes.litert_models import dense
from tests.runtimes.models import BIAS, ROWS, WEIGHTS, files, softmax

WHOLE = dense(WEIGHTS, BIAS)


def changed(change: Callable[[Any], None]) -> bytes:
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(WHOLE, 0))
    change(model)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def setting(path: str, found: Any) -> Callable[[Any], None]:
    """Of the model or something in it: `subgraphs.0.tensors.1.buffer`."""
    *way, last = path.split(".")

    def change(model: Any) -> None:
        for name in way:
            model = model[int(name)] if name.isdigit() else getattr(model, name)
        setattr(model, last, found)

    return change


def numbers(*them: int) -> Any:
    return np.array(them, np.int32)


def quantized(scales: int, axis: int) -> Any:
    made = schema.QuantizationParametersT()
    made.scale, made.zeroPoint = np.ones(scales, np.float32), np.zeros(scales, np.int64)
    made.quantizedDimension = axis
    return made


def branching(then: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        options = schema.IfOptionsT()
        options.thenSubgraphIndex = options.elseSubgraphIndex = then
        model.operatorCodes[1].builtinCode = model.operatorCodes[1].deprecatedBuiltinCode = schema.BuiltinOperator.IF
        step = model.subgraphs[0].operators[1]
        step.builtinOptionsType, step.builtinOptions = schema.BuiltinOptions.IfOptions, options

    return change


def test_what_is_written_anew_answers_as_before_and_its_weights_are_aligned():
    written, lasting = checked(WHOLE)
    assert not lasting
    assert schema.Model.GetRootAs(written, 0).Buffers(1).DataAsNumpy().ctypes.data % 16 == (
        np.frombuffer(written, np.uint8).ctypes.data % 16
    )
    assert checked(written) == (written, False)
    engine = load(files("litert", "m", m=WHOLE), Placement())
    assert np.allclose(engine.run([ROWS])[0], softmax(ROWS), atol=1e-5)


@pytest.mark.parametrize(
    ("path", "found", "words"),
    [
        ("subgraphs.0.tensors.1.buffer", 9, "buffer 9"),
        ("subgraphs.0.tensors.1.shape", numbers(3, 2**20), "bytes for a tensor"),
        ("subgraphs.0.tensors.3.shape", numbers(2**20, 2**20), "not possible"),
        ("subgraphs.0.tensors.3.shape", numbers(-5, 3), "not possible"),
        ("subgraphs.0.tensors.0.shapeSignature", numbers(2**31 - 1, 6), "two shapes"),
        ("subgraphs.0.tensors.1.type", schema.TensorType.RESOURCE, "type"),
        ("subgraphs.0.tensors.1.sparsity", schema.SparsityParametersT(), "sparse"),
        ("subgraphs.0.tensors.1.quantization", quantized(7, 0), "scales"),
        ("subgraphs.0.tensors.1.quantization", quantized(3, -1), "scales"),
        ("subgraphs.0.inputs", numbers(77), "input 77"),
        ("subgraphs.0.outputs", numbers(-1), "nothing is in"),
        ("subgraphs.0.operators.0.inputs", numbers(0, 1, 99), "tensor 99"),
        ("subgraphs.0.operators.0.inputs", numbers(0, -1, 2), "tensor -1"),
        ("subgraphs.0.operators.0.inputs", numbers(0), "takes 1"),
        ("subgraphs.0.operators.0.inputs", numbers(4, 1, 2), "before anything is in it"),
        ("subgraphs.0.operators.0.outputs", numbers(), "makes 0"),
        ("subgraphs.0.operators.0.opcodeIndex", 5, "kind of step 5"),
        ("subgraphs.0.operators.0.largeCustomOptionsOffset", 64, "one file"),
        ("operatorCodes.1.builtinCode", schema.BuiltinOperator.VAR_HANDLE, "VAR_HANDLE"),
        ("operatorCodes.1.builtinCode", schema.BuiltinOperator.CUSTOM + 5000, "kind 5032"),
        ("operatorCodes.1.builtinCode", schema.BuiltinOperator.SLICE, "takes 1"),
        ("buffers.1.offset", 8, "one file"),
    ],
)
def test_what_leads_nowhere_is_refused(path: str, found: Any, words: str):
    with pytest.raises(NotLoadable, match=words):
        checked(changed(setting(path, found)))


@pytest.mark.parametrize(("then", "words"), [(0, "calls itself"), (1, "graph 1"), (-1, "graph -1")])
def test_a_branch_leads_to_another_graph(then: int, words: str):
    with pytest.raises(NotLoadable, match=words):
        checked(changed(branching(then)))


def test_one_part_that_is_named_many_times_over_is_refused_soon():
    builder = flatbuffers.Builder(1024)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(WHOLE, 0))
    graph = model.subgraphs[0].Pack(builder)
    schema.ModelStartSubgraphsVector(builder, 100_000)
    for _ in range(100_000):
        builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    with pytest.raises(NotLoadable, match="more parts than room"):
        checked(bytes(builder.Output()))


def sharing(times: int, add: Callable[[flatbuffers.Builder], tuple[int, int]]) -> bytes:
    """A model of so many tensors and as many steps: each the very same one, as `add` gives them."""
    builder = flatbuffers.Builder(1024)
    buffer = schema.BufferT().Pack(builder)
    lists = []
    for part in (*add(builder), buffer):
        builder.StartVector(4, times, 4)
        for _ in range(times):
            builder.PrependUOffsetTRelative(part)
        lists.append(builder.EndVector())
    tensors, steps, buffers = lists
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    schema.SubGraphAddOperators(builder, steps)
    graph = schema.SubGraphEnd(builder)
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    codes = schema.OperatorCodeT()
    codes.builtinCode = schema.BuiltinOperator.RESHAPE
    code = codes.Pack(builder)
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(code)
    kinds = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddVersion(builder, 3)
    schema.ModelAddOperatorCodes(builder, kinds)
    schema.ModelAddSubgraphs(builder, graphs)
    schema.ModelAddBuffers(builder, buffers)
    builder.Finish(schema.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.mark.parametrize("what", ["name", "scales", "options"])
def test_one_long_list_or_text_that_many_parts_name_is_not_written_for_each_of_them(what: str):
    """Of less than a megabyte there would be gigabytes."""
    length, tensor, step = 100_000, schema.TensorT(), schema.OperatorT()
    tensor.shape = numbers(length)
    tensor.quantization = quantized(length if what == "scales" else 1, 0)
    tensor.name = "x" * length if what == "name" else "x"
    tensor.isVariable = True  # something is in it from the start
    step.inputs, step.outputs = numbers(0), numbers(1)
    step.builtinOptionsType, step.builtinOptions = schema.BuiltinOptions.ReshapeOptions, schema.ReshapeOptionsT()
    step.builtinOptions.newShape = np.ones(length if what == "options" else 1, np.int32)
    assert len(checked(sharing(2, lambda builder: (tensor.Pack(builder), step.Pack(builder))))[0]) > length
    many = sharing(100, lambda builder: (tensor.Pack(builder), step.Pack(builder)))
    assert len(many) < 20 * length
    with pytest.raises(NotLoadable, match="more parts than room"):
        checked(many)


def test_a_model_of_very_many_graphs_is_refused_before_they_are_looked_through():
    def change(model: Any) -> None:
        model.subgraphs *= 1001

    with pytest.raises(NotLoadable, match="1001 graphs"):
        checked(changed(change))


def test_numbers_changed_anywhere_in_the_file_are_never_the_end():
    """Such as made LiteRT itself end the process."""
    chance, refused = random.Random(11), 0
    for _ in range(1500):
        damaged = bytearray(WHOLE)
        at = chance.randrange(0, len(damaged) - 4) // 4 * 4
        damaged[at : at + 4] = struct.pack("<i", chance.choice([-1, 0, 1, 2**31 - 1, -(2**31), 65535, 1 << 20, 49, 65, 100]))
        try:
            engine = load(files("litert", "m", m=bytes(damaged)), Placement())
            with suppress(EngineFailed, Rejected):
                engine.run(probes(engine.inputs, 2))
        except NotLoadable:
            refused += 1
    assert refused > 200
