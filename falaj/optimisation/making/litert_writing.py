"""LiteRT's file format, written: tensors, the weights in them, steps and one signature. What the steps are is in
`litert_operators`; `runtimes.litert_files` reads the same format, and packs it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from falaj.optimisation.making.values import Array, CannotBeMade
from falaj.runtimes.litert_files import packed

NO_TENSOR: Final = -1
_VERSION: Final = 3
_LEVELS: Final = 127  # of int8, the same on both sides of zero
# A layer of fewer weights is no smaller in eight bits once its scales stand beside it.
_WORTH_ROUNDING: Final = 256
_DTYPES: Final = {
    np.dtype(name): getattr(schema.TensorType, word)
    for name, word in {
        "float16": "FLOAT16",
        "float32": "FLOAT32",
        "float64": "FLOAT64",
        "bool": "BOOL",
        **{f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)},
    }.items()
}
# Kinds whose meaning has grown since their first version, and in which the one written here came.
_VERSIONS: Final = {"FULLY_CONNECTED": 6}
_VERSIONS_OF_INT8: Final = {"FULLY_CONNECTED": 12, "CONV_2D": 5, "EMBEDDING_LOOKUP": 3}


def type_of(dtype: np.dtype[Any]) -> int:
    """LiteRT's number for it."""
    if dtype not in _DTYPES:
        raise CannotBeMade(f"LiteRT has no tensors of {dtype}")
    return int(_DTYPES[dtype])


class Writer:
    """One graph, step by step. A length that `rows` divides is of the free axis: the file has it for one row, and says that
    there may be more."""

    def __init__(self, *, rows: int, rounds: bool) -> None:
        self.rounded = 0  # layers whose weights are in eight bits
        self.steps: list[str] = []
        self._rows, self._rounds = rows, rounds
        self._graph, self._model = schema.SubGraphT(), schema.ModelT()
        self._graph.tensors, self._graph.operators = [], []
        self._model.buffers, self._model.operatorCodes = [schema.BufferT()], []  # the first is for what has no content
        self._codes: dict[tuple[str, int], int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def tensor(self, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> int:
        """Gives its number."""
        made = schema.TensorT()
        free = [bool(length) and length % self._rows == 0 for length in shape]
        made.name, made.type, made.buffer = name, type_of(dtype), 0
        made.shape = [length // self._rows if is_free else length for length, is_free in zip(shape, free, strict=True)]
        made.shapeSignature = [-1 if is_free else length for length, is_free in zip(shape, free, strict=True)]
        if not any(free):
            made.shapeSignature = None
        self._graph.tensors.append(made)
        return len(self._graph.tensors) - 1

    def constant(self, array: Array) -> int:
        """Once, however often it is asked for."""
        key = (str(array.dtype), array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self._filled(f"constant_{len(self._graph.tensors)}", array)
        return self._constants[key]

    def weights(self, array: Array) -> tuple[int, bool]:
        """The number, and whether they are in eight bits, with a scale for each of the channels along the first axis."""
        if not self._rounds or array.size < _WORTH_ROUNDING or array.dtype != np.float32:
            return self.constant(array), False
        others = tuple(range(1, array.ndim))
        scales = np.maximum(np.abs(array).max(axis=others, keepdims=True) / _LEVELS, np.finfo(np.float32).tiny)
        place = self._filled(f"weights_{len(self._graph.tensors)}", np.rint(array / scales).astype(np.int8))
        told = schema.QuantizationParametersT()
        told.scale = scales.ravel().astype(np.float32)
        told.zeroPoint = np.zeros(scales.size, np.int64)
        self._graph.tensors[place].quantization = told
        self.rounded += 1
        return place, True

    def step(
        self, kind: str, given: Sequence[int], made: int, options: str = "", fields: Mapping[str, Any] | None = None
    ) -> None:
        """`options` is the name of LiteRT's table for them, which `fields` are of."""
        rounded = len(given) > 1 and self._is_int8(given[1])
        version = (_VERSIONS_OF_INT8 if rounded else _VERSIONS).get(kind, 1)
        step = schema.OperatorT()
        step.opcodeIndex, step.inputs, step.outputs = self._code(kind, version), list(given), [made]
        if options:
            step.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            step.builtinOptions = getattr(schema, f"{options}T")()
            for name, told in (fields or {}).items():
                setattr(step.builtinOptions, name, told)
        self._graph.operators.append(step)
        self.steps.append(kind)

    def content(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> bytes:
        """The file; names are what the model is asked by."""
        signature = schema.SignatureDefT()
        signature.signatureKey = "serving_default"  # where LiteRT's own libraries look
        signature.inputs, signature.outputs = _mapped(inputs), _mapped(outputs)
        self._graph.inputs, self._graph.outputs = list(inputs.values()), list(outputs.values())
        self._model.version, self._model.description = _VERSION, "by Falaj"
        self._model.subgraphs, self._model.signatureDefs = [self._graph], [signature]
        return packed(self._model, sum(0 if one.data is None else len(one.data) for one in self._model.buffers))

    def _filled(self, name: str, array: Array) -> int:
        place = self.tensor(name, (), array.dtype)
        self._graph.tensors[place].shape = list(array.shape)  # never of rows, whatever divides it
        if array.size:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
            self._graph.tensors[place].buffer = len(self._model.buffers)
            self._model.buffers.append(buffer)
        return place

    def _is_int8(self, place: int) -> bool:
        return place != NO_TENSOR and bool(self._graph.tensors[place].type == schema.TensorType.INT8)

    def _code(self, kind: str, version: int) -> int:
        if (kind, version) not in self._codes:
            made = schema.OperatorCodeT()
            made.builtinCode = getattr(schema.BuiltinOperator, kind)
            made.deprecatedBuiltinCode = min(made.builtinCode, schema.BuiltinOperator.PLACEHOLDER_FOR_GREATER_OP_CODES)
            made.version = version
            self._codes[kind, version] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(made)
        return self._codes[kind, version]


def _mapped(places: Mapping[str, int]) -> list[Any]:
    listed = []
    for name, place in places.items():
        one = schema.TensorMapT()
        one.name, one.tensorIndex = name, place
        listed.append(one)
    return listed
