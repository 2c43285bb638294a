"""An ONNX graph made ready to become one of LiteRT: folded for a number of rows that can be told from every other length.

The number is a factor of nothing else in the model. ONNX Runtime folds the graph for it, so that all arithmetic with shapes is
done; a length that has the number as a factor is then known for the free one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from onnx import ModelProto, helper, shape_inference

from falaj.base.values import value
from falaj.optimisation.making.folding import folded
from falaj.optimisation.making.litert_graphs import Fact
from falaj.optimisation.making.onnx_graphs import array_of, constants, input_names, told
from falaj.optimisation.making.values import Array, CannotBeMade

_PRIMES: Final = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069)
_AXES_AT_MOST: Final = 64  # of a constant that may yet be a shape
# Fusions whose result LiteRT has no operator for; norms and GELU, which it has or which are worth knowing, are left on.
_UNWANTED: Final = (
    *("MatMulAddFusion", "MatMulScaleFusion", "MatmulTransposeFusion", "MatMulActivationFusion", "DynamicQuantizeMatMulFusion"),
    *("GemmActivationFusion", "GemmSumFusion", "ConvActivationFusion", "ConvAddActivationFusion", "NchwcTransformer"),
    *("AttentionFusion", "EmbedLayerNormFusion", "SkipLayerNormFusion", "BiasSkipLayerNormFusion", "SimplifiedLayerNormFusion"),
    *("BiasGeluFusion", "QuickGeluFusion", "BiasSoftmaxFusion", "BiasDropoutFusion", "SliceConcatToSpaceToDepthFusion"),
    *("GatherToSplitFusion", "GatherSliceToSplitFusion", "GatherToSliceFusion", "GroupQueryAttentionFusion"),
)
# They make what has the shape of what they are given, and not every opset knows them.
_KEEP_SHAPE: Final = frozenset(["Gelu", "FastGelu", "LayerNormalization"])
_BROADCAST: Final = frozenset(["Add", "Sub", "Mul", "Div", "Where", "Min", "Max", "And", "Or", "Equal", "Less", "Greater"])


@value
class Ready:
    """`rows` is what stands for any number of rows, `facts` are of every value, and `origins` are the nodes as they were, by
    what they make: those know the line that made them."""

    model: Any
    rows: int
    facts: Mapping[str, Fact]
    origins: Mapping[str, Any]


def ready(model: Any, known: Iterable[str]) -> Ready:
    """Raises `CannotBeMade` where an operator is left that is not among those known, or a length that cannot be left open."""
    rows = _number_for_rows(model)
    origins = {name: node for node in model.graph.node for name in node.output}
    simple = folded(_with_rows(model, rows), level="extended", without=_UNWANTED)
    unknown = [origins.get(node.output[0], node) for node in simple.graph.node if node.op_type not in {*known, "Constant"}]
    if unknown:
        raise CannotBeMade(f"LiteRT has no operator for {told(unknown)}")
    _shrink_grown(simple, rows, origins)
    return Ready(model=simple, rows=rows, facts=_facts_of(simple), origins=origins)


def _number_for_rows(model: Any) -> int:
    """One that no length in the model has as a factor, so that the free axis can be told from the others."""
    taken = {length for tensor in constants(model.graph).values() for length in tensor.dims}
    for tensor in constants(model.graph).values():
        array = array_of(tensor)
        if array.dtype.kind == "i" and array.size <= _AXES_AT_MOST:
            taken |= {abs(int(one)) for one in array.ravel()}
    taken |= {axis.dim_value for one in model.graph.input for axis in one.type.tensor_type.shape.dim}
    found = next((prime for prime in _PRIMES if not any(length and length % prime == 0 for length in taken)), None)
    if found is None:
        raise CannotBeMade("the lengths of the model's axes leave no number that could stand for its rows")
    return found


def _with_rows(model: Any, rows: int) -> Any:
    fed, fixed = set(input_names(model.graph)), ModelProto()
    fixed.CopyFrom(model)
    for one in (one for one in fixed.graph.input if one.name in fed):
        for number, axis in enumerate(one.type.tensor_type.shape.dim):
            if axis.HasField("dim_value"):
                continue
            if number:
                raise CannotBeMade(
                    f"input {one.name} has a free axis beside its rows ({axis.dim_param or number}): export it with one length"
                )
            axis.dim_value = rows
    # What they say of free axes is no longer so; ONNX Runtime finds out what is.
    del fixed.graph.value_info[:]
    for one in fixed.graph.output:
        one.type.tensor_type.ClearField("shape")
    return fixed


def _shrink_grown(model: Any, rows: int, origins: Mapping[str, Any]) -> None:
    """Folding has laid out some constants for each row: where they only meet others number by number, one row of it does.

    Raises `CannotBeMade` for the others: they would fit one number of rows alone.
    """
    for tensor in model.graph.initializer:
        if not any(length and length % rows == 0 for length in tensor.dims):
            continue
        users = [node for node in model.graph.node if tensor.name in node.input]
        array = array_of(tensor)
        alike = array.shape[0] == rows and not any(length % rows == 0 for length in array.shape[1:]) and _is_repeated(array)
        if not alike or any(node.op_type not in _BROADCAST for node in users):
            named = told([origins.get(node.output[0], node) for node in users])
            raise CannotBeMade(
                f"a constant has come to have a length for each row, which cannot be left open in LiteRT: {named}"
            )
        tensor.dims[0] = 1
        tensor.raw_data = np.ascontiguousarray(array[:1]).tobytes()


def _is_repeated(array: Array) -> bool:
    return bool((array == array[:1]).all())


def _facts_of(model: Any) -> dict[str, Fact]:
    """Shapes and types of all values. What ONNX does not know of is passed through for it."""
    known = ModelProto()
    known.CopyFrom(model)
    del known.graph.node[:]
    for node in model.graph.node:
        same = node.op_type in _KEEP_SHAPE
        known.graph.node.append(helper.make_node("Identity", node.input[:1], node.output[:1]) if same else node)
    inferred = shape_inference.infer_shapes(known, data_prop=True).graph
    facts = {
        one.name: Fact(
            shape=tuple(axis.dim_value for axis in one.type.tensor_type.shape.dim),
            dtype=np.dtype(helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)),
        )
        for one in (*inferred.value_info, *inferred.input, *inferred.output)
        if one.type.tensor_type.elem_type
        and one.type.tensor_type.HasField("shape")
        and all(axis.HasField("dim_value") for axis in one.type.tensor_type.shape.dim)
    }
    arrays = {name: array_of(tensor) for name, tensor in constants(model.graph).items()}
    return facts | {name: Fact(shape=array.shape, dtype=array.dtype) for name, array in arrays.items()}
