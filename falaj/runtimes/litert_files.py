"""LiteRT's format, read here first and written anew: LiteRT follows offsets and indices wherever the file says they lead.

What it gets to see is one file whose every index is of something that is there, and whose steps read only what was given or
made before them: what nobody wrote may be what somebody else left in the memory.
"""

import struct
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import flatbuffers  # type: ignore[import-untyped]
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers.builder import BuilderSizeError  # type: ignore[import-untyped]

from falaj.runtimes.errors import NotLoadable

_Kind: Final = schema.BuiltinOperator
_NO_TENSOR: Final = -1
_MOST_BYTES: Final = 2**31 - 1
_MOST_AXES: Final = 8
_MOST_GRAPHS: Final = 1000  # those that are called are looked for among all of them, again and again
_TIMES: Final = 4  # so many times as many bytes as the file has may its parts hold together: some are rightly shared
_ALIGNED: Final = 16
_SIZES: Final = {
    getattr(schema.TensorType, name): size
    for name, size in {
        "FLOAT64": 8,
        "FLOAT32": 4,
        "FLOAT16": 2,
        "BFLOAT16": 2,
        "BOOL": 1,
        "COMPLEX64": 8,
        "COMPLEX128": 16,
        **{f"{sign}INT{bits}": bits // 8 for sign in ("", "U") for bits in (8, 16, 32, 64)},
    }.items()
    if hasattr(schema.TensorType, name)
}
_INT4: Final = schema.TensorType.INT4
# What a step may be, by how many tensors it takes: LiteRT does not always count them. None of these keeps anything from one
# call to the next.
_TAKES: Final = {
    (1, 1): """ABS CEIL COS SIN EXP FLOOR LOG LOGISTIC NEG RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 ROUND RSQRT SQRT SQUARE TANH ELU
        HARD_SWISH LEAKY_RELU GELU SIGN SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION AVERAGE_POOL_2D
        MAX_POOL_2D L2_POOL_2D SPACE_TO_DEPTH DEPTH_TO_SPACE DEQUANTIZE QUANTIZE CAST ZEROS_LIKE SHAPE RANK SQUEEZE UNPACK
        LOGICAL_NOT UNIQUE FAKE_QUANT WHERE MATRIX_DIAG""",
    (1, 2): "RESHAPE",
    (1, 1000): "CONCATENATION PACK ADD_N",
    (2, 2): """ADD SUB MUL DIV FLOOR_DIV FLOOR_MOD POW MAXIMUM MINIMUM EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL
        LOGICAL_AND LOGICAL_OR SQUARED_DIFFERENCE PRELU GATHER GATHER_ND TRANSPOSE PAD MIRROR_PAD MEAN SUM REDUCE_PROD
        REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR EXPAND_DIMS TILE
        TOPK_V2 SPLIT FILL REVERSE_V2 REVERSE_SEQUENCE BATCH_MATMUL CUMSUM BROADCAST_TO EMBEDDING_LOOKUP ATAN2 SEGMENT_SUM""",
    (2, 3): "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED CONV_3D",
    (3, 3): """SLICE SELECT SELECT_V2 BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND SPLIT_V PADV2 RANGE SCATTER_ND DYNAMIC_UPDATE_SLICE
        UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN""",
    (3, 4): "TRANSPOSE_CONV CONV_3D_TRANSPOSE",
    (4, 4): "STRIDED_SLICE ONE_HOT SPARSE_TO_DENSE",
    (5, 5): "RNN UNIDIRECTIONAL_SEQUENCE_RNN NON_MAX_SUPPRESSION_V4",
    (6, 6): "NON_MAX_SUPPRESSION_V5",
    (20, 24): "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM",
    (1, 100): "IF WHILE",
}
_COUNTS: Final = {getattr(_Kind, name): count for count, names in _TAKES.items() for name in names.split()}
# The places that may be left empty; the recurrent ones may leave out any but the first.
_OPTIONAL: Final = {
    _Kind.FULLY_CONNECTED: {2},
    _Kind.CONV_2D: {2},
    _Kind.DEPTHWISE_CONV_2D: {2},
    _Kind.CONV_3D: {2},
    _Kind.TRANSPOSE_CONV: {3},
    _Kind.CONV_3D_TRANSPOSE: {3},
    _Kind.LSTM: set(range(1, 24)),
    _Kind.UNIDIRECTIONAL_SEQUENCE_LSTM: set(range(1, 24)),
}
# How many tensors a step makes, where it is not one; for some the tensors given decide, and LiteRT looks.
_MAKES: Final = {_Kind.TOPK_V2: 2, _Kind.UNIQUE: 2, _Kind.NON_MAX_SUPPRESSION_V4: 2, _Kind.NON_MAX_SUPPRESSION_V5: 3}
_MAKES_SEVERAL: Final = frozenset((_Kind.SPLIT, _Kind.SPLIT_V, _Kind.UNPACK, _Kind.IF, _Kind.WHILE))
_CALLS: Final = {_Kind.IF: schema.IfOptionsT, _Kind.WHILE: schema.WhileOptionsT}
_AT_LEAST_ONE: Final = ("stride", "dilation", "filter", "blockSize", "numSplits")


def checked(content: bytes) -> tuple[bytes, bool]:
    """The model, written anew, and whether it has tensors that last from one call to the next.

    Raises `NotLoadable` where it is damaged, or is more than a graph that answers by itself.
    """
    try:
        whole = schema.Model.GetRootAs(_Texts.of(content), 0)
        _measure(whole, len(content))
        model = schema.ModelT.InitFromObj(whole)
        if sum(_lengths(model)) > _TIMES * len(content):
            raise NotLoadable(_TOO_MUCH)
        _check(model)
        model.metadata = model.metadataBuffer = None
        lasting = any(tensor.isVariable for graph in model.subgraphs for tensor in graph.tensors)
        return packed(model, len(content)), lasting
    except NotLoadable:
        raise
    except (struct.error, ValueError, TypeError, IndexError, AttributeError, KeyError, OverflowError) as error:
        raise NotLoadable(f"the LiteRT model is damaged: {error!r}"[:300]) from error
    except (RecursionError, BuilderSizeError, MemoryError) as error:
        raise NotLoadable(f"the LiteRT model is damaged: {error!r}"[:300]) from error


def packed(model: Any, size: int) -> bytes:
    """A `ModelT` as a file, of about so many bytes."""
    builder = _Builder(size)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


class _Builder(flatbuffers.Builder):  # type: ignore[misc]
    """Weights begin where LiteRT's arithmetic wants them to."""

    def CreateNumpyVector(self, x: Any) -> Any:  # noqa: N802 - the library's name
        if x.dtype != np.uint8:
            return super().CreateNumpyVector(x)
        self.StartVector(1, x.size, _ALIGNED)
        self.head = self.Head() - x.size
        self.Bytes[self.Head() : self.Head() + x.size] = x.tobytes()
        self.vectorNumElems = x.size
        return self.EndVector()


_TOO_MUCH: Final = "the LiteRT model is damaged: it has more parts than room for them"


class _Texts(np.ndarray[Any, np.dtype[np.uint8]]):
    """A file of which texts, which are copied as they are read, are taken only so often: one may be named many times over."""

    left = 0

    @classmethod
    def of(cls, content: bytes) -> "_Texts":
        found = np.frombuffer(content, np.uint8).view(cls)
        found.left = _TIMES * len(content)
        return found

    def __getitem__(self, part: Any) -> Any:
        found = super().__getitem__(part)
        self.left -= found.size
        if self.left < 0:
            raise NotLoadable(_TOO_MUCH)
        return found


def _lengths(part: Any) -> Iterator[int]:
    """Bytes of all lists of numbers within, which are not copied yet."""
    if isinstance(part, np.ndarray):
        yield part.nbytes
    elif isinstance(part, list):
        for one in part:
            yield from _lengths(one)
    elif hasattr(part, "__dict__"):
        yield from _lengths(list(vars(part).values()))


def _measure(model: Any, size: int) -> None:
    """Every table takes some bytes of the file; where there are more of them than that, one is named many times over."""
    left = size // 4

    def spend(count: int) -> range:
        nonlocal left
        left -= count
        if left < 0:
            raise NotLoadable(_TOO_MUCH)
        return range(count)

    spend(model.OperatorCodesLength() + model.BuffersLength() + model.MetadataLength())
    for number in spend(model.SignatureDefsLength()):
        signature = model.SignatureDefs(number)
        spend(signature.InputsLength() + signature.OutputsLength())
    for number in spend(model.SubgraphsLength()):
        graph = model.Subgraphs(number)
        spend(graph.OperatorsLength())
        for place in spend(graph.TensorsLength()):
            spend(graph.Tensors(place).VariantTensorsLength())


def _check(model: Any) -> None:
    graphs, buffers = model.subgraphs or [], model.buffers or []
    if not graphs or not buffers or model.externalBuffers or any(one.offset or one.size for one in buffers):
        raise NotLoadable("the LiteRT model is not all in one file: convert it without external buffers")
    if len(graphs) > _MOST_GRAPHS:
        raise NotLoadable(f"the LiteRT model has {len(graphs)} graphs, and at most {_MOST_GRAPHS} are taken")
    codes = [_code(one) for one in model.operatorCodes or []]
    calls = [_check_graph(graph, codes, buffers, len(graphs)) for graph in graphs]
    if not _ends(calls):
        raise NotLoadable("the LiteRT model calls itself")
    for signature in model.signatureDefs or []:
        tensors = len(graphs[_index(signature.subgraphIndex, len(graphs), "graph")].tensors)
        for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
            _index(entry.tensorIndex, tensors, "tensor")


def _code(code: Any) -> int:
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number not in _COUNTS:
        name = next((name for name, one in vars(_Kind).items() if one == number), number)
        raise NotLoadable(f"the LiteRT model has a step of kind {name}, which is not supported here: convert the model to ONNX")
    return int(number)


def _check_graph(graph: Any, codes: Sequence[int], buffers: Sequence[Any], graphs: int) -> set[int]:
    """Gives the graphs that it calls."""
    tensors, calls = graph.tensors or [], set[int]()
    there = {place for place, tensor in enumerate(tensors) if _check_tensor(tensor, buffers)}
    there |= {_index(place, len(tensors), "input") for place in _numbers(graph.inputs)}
    for step in graph.operators or []:
        kind = codes[_index(step.opcodeIndex, len(codes), "kind of step")]
        calls |= _check_options(kind, step, graphs)
        taken, made = _numbers(step.inputs), _numbers(step.outputs)
        _check_counts(kind, len(taken), len(made))
        for position, place in enumerate(taken):
            if place == _NO_TENSOR and position in _OPTIONAL.get(kind, ()):
                continue
            if _index(place, len(tensors), "tensor") not in there:
                raise NotLoadable("the LiteRT model reads a tensor before anything is in it")
        there |= {_index(place, len(tensors), "tensor") for place in made}
        for place in _numbers(step.intermediates):
            _index(place, len(tensors), "tensor")
    if not set(_numbers(graph.outputs)) <= there:
        raise NotLoadable("the LiteRT model answers with a tensor that nothing is in")
    return calls


def _check_counts(kind: int, taken: int, made: int) -> None:
    least, most = _COUNTS[kind]
    right = made >= 1 if kind in _MAKES_SEVERAL else made == _MAKES.get(kind, 1)
    if not least <= taken <= most or not right:
        raise NotLoadable(f"the LiteRT model has a step of kind {kind} that takes {taken} tensors and makes {made}")


def _check_tensor(tensor: Any, buffers: Sequence[Any]) -> bool:
    """Whether something is in it from the start."""
    shape, content = _numbers(tensor.shape), buffers[_index(tensor.buffer, len(buffers), "buffer")].data
    signature = _numbers(tensor.shapeSignature)
    size = _SIZES.get(tensor.type)
    if size is None and tensor.type != _INT4:
        raise NotLoadable(f"the LiteRT model has a tensor of type {tensor.type}, which is not supported")
    if tensor.sparsity is not None or tensor.variantTensors or tensor.externalBuffer:
        raise NotLoadable("the LiteRT model has sparse tensors, or such as hold others: convert it without them")
    if len(shape) > _MOST_AXES or min(shape, default=0) < 0 or prod(shape) * (size or 1) > _MOST_BYTES:
        raise NotLoadable(f"the LiteRT model has a tensor of shape {shape[:_MOST_AXES]}, which is not possible")
    if signature and (
        len(signature) != len(shape) or any(one not in (-1, two) for one, two in zip(signature, shape, strict=True))
    ):
        raise NotLoadable("the LiteRT model has a tensor of two shapes")
    _check_quantization(tensor.quantization, shape)
    held = 0 if content is None else len(content)
    if held and held != (prod(shape) * size if size is not None else -(-prod(shape) // 2)):
        raise NotLoadable(f"the LiteRT model has {held} bytes for a tensor of shape {shape}")
    return bool(held or tensor.isVariable or not prod(shape))


def _check_quantization(quantization: Any, shape: Sequence[int]) -> None:
    if quantization is None:
        return
    scales, zeros = len(_numbers(quantization.scale)), len(_numbers(quantization.zeroPoint))
    axis = quantization.quantizedDimension
    each = shape[axis] if 0 <= axis < len(shape) else 1
    if quantization.details is not None or axis < 0 or zeros not in (0, scales) or scales not in (0, 1, each):
        raise NotLoadable("the LiteRT model has a tensor with other numbers of scales than it has channels")


def _check_options(kind: int, step: Any, graphs: int) -> set[int]:
    calls = set[int]()
    if kind in _CALLS and not isinstance(step.builtinOptions, _CALLS[kind]):
        raise NotLoadable("the LiteRT model has a branch that does not say where it leads")
    if step.largeCustomOptionsOffset or step.largeCustomOptionsSize:
        raise NotLoadable("the LiteRT model is not all in one file: convert it without large custom options")
    for options in (step.builtinOptions, step.builtinOptions2):
        for name, found in vars(options).items() if options is not None else ():
            if kind in _CALLS and name.endswith("SubgraphIndex"):
                calls.add(_index(found, graphs, "graph"))
            elif name.startswith(_AT_LEAST_ONE) and isinstance(found, int) and found < 1:
                raise NotLoadable(f"the LiteRT model has a step with {name} {found}")
    return calls


def _ends(calls: Sequence[set[int]]) -> bool:
    """Whether no graph comes to itself by calling others."""
    left = dict(enumerate(calls))
    while done := [number for number, called in left.items() if not called & left.keys()]:
        for number in done:
            del left[number]
    return not left


def _index(found: Any, count: int, what: str) -> int:
    number = int(found)
    if not 0 <= number < count:
        raise NotLoadable(f"the LiteRT model names {what} {number}, and has {count}")
    return number


def _numbers(found: Any) -> list[int]:
    return [] if found is None else [int(one) for one in found]
