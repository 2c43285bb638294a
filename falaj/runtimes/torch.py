"""Programs of `torch.export`, by torch: as they are on the CPU, compiled and captured as CUDA graphs on a GPU."""

import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from falaj.runtimes.checking import make_check, solid
from falaj.runtimes.datatypes import DTYPES
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable, Rejected
from falaj.runtimes.probing import first_axis_is_free, keeps_rows_apart
from falaj.runtimes.torch_files import Program, Ref, Step, Tensor, Weight, Word, read_program

# Numbers of the exported program's schema.
_DTYPES: Final = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
    28: torch.uint16,
    34: torch.uint32,
    35: torch.uint64,
}
_DATATYPES: Final = {
    1: "UINT8",
    2: "INT8",
    3: "INT16",
    4: "INT32",
    5: "INT64",
    6: "FP16",
    7: "FP32",
    8: "FP64",
    12: "BOOL",
    28: "UINT16",
    34: "UINT32",
    35: "UINT64",
}
_BFLOAT16: Final = 13  # numpy has none: it leaves as FP32
_HALVES: Final = (6, _BFLOAT16)
_ROUNDING: Final = 0.02  # of a network in half precision: kernels for another number of rows add in another order
_MEMORY_FORMATS: Final = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}
_STRIDED: Final = 7
_MODULES: Final[dict[str, Any]] = {"_operator": operator, "math": math, "torch": torch}
_FAILURES: Final = (RuntimeError, ValueError, TypeError, IndexError, MemoryError, NotImplementedError)
_LARGEST: Final = 64  # rows of a captured batch, unless the placement says otherwise

Module = Callable[..., Any]


def load(files: ModelFiles, placement: Placement) -> "TorchEngine | CudaEngine":
    if placement.device == "gpu" and not torch.cuda.is_available():
        raise DeviceMissing("torch finds no CUDA device here")
    program = read_program(files.contents[files.main])
    device = torch.device("cuda" if placement.device == "gpu" else "cpu")
    try:
        module = build(program, device)
    except _FAILURES as error:
        raise NotLoadable(f"torch cannot build {files.main}: {_reason(error)}") from error
    if placement.device == "gpu":
        return CudaEngine(program, module, largest=placement.batch or _LARGEST)
    torch.set_num_threads(placement.threads or 1)  # of the whole process: torch knows no other
    return TorchEngine(program, module)


def build(program: Program, device: torch.device) -> torch.fx.GraphModule:
    """The program as a module of torch's own operations."""
    root, graph = torch.nn.Module(), torch.fx.Graph()
    nodes: dict[str, Any] = {tensor.name: graph.placeholder(tensor.name) for tensor in program.inputs}
    stored: dict[int, Any] = {}  # weights that are one in the file stay one
    for number, (name, weight) in enumerate(program.weights.items()):
        root.register_buffer(f"w{number}", _weight(weight, device, stored))
        nodes[name] = graph.get_attr(f"w{number}")
    for step in program.steps:
        given, named = _resolved(list(step.given), nodes, device), _resolved(dict(step.named), nodes, device)
        answer = graph.call_function(_target(step.target), tuple(given), named)
        _name_answers(step, answer, nodes, graph)
    graph.output(tuple(nodes[name] for name in program.made))
    graph.eliminate_dead_code()
    graph.lint()
    return torch.fx.GraphModule(root, graph)


def _name_answers(step: Step, answer: Any, nodes: dict[str, Any], graph: torch.fx.Graph) -> None:
    if step.several:
        nodes.update({name: graph.call_function(operator.getitem, (answer, at)) for at, name in enumerate(step.made)})
    elif step.made:
        nodes[step.made[0]] = answer


def _weight(weight: Weight, device: torch.device, stored: dict[int, Any]) -> torch.Tensor:
    dtype = _DTYPES[weight.dtype]
    flat = stored.get(id(weight.content))
    if flat is None:
        # A copy in a bytearray: torch wants memory it may write, and the file's is shared.
        content = bytearray(weight.content)
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        flat = stored[id(weight.content)] = flat.to(device)
    return torch.as_strided(flat.view(dtype), weight.shape, weight.strides, weight.offset)  # within the memory, or it raises


def _target(name: str) -> Any:
    first, *rest = name.split(".")
    found = _MODULES[first]
    for part in rest:
        found = getattr(found, part)
    return found


def _resolved(given: Any, nodes: Mapping[str, Any], device: torch.device) -> Any:
    if isinstance(given, Ref):
        return nodes[given.name]
    if isinstance(given, list):
        return [_resolved(one, nodes, device) for one in given]
    if isinstance(given, dict):
        return {name: _resolved(one, nodes, device) for name, one in given.items()}
    if not isinstance(given, Word):
        return given
    if given.kind == "dtype":
        return _DTYPES[given.number]
    if given.kind == "memory_format":
        return _MEMORY_FORMATS[given.number]
    if given.kind == "layout" and given.number != _STRIDED:
        raise NotLoadable("the program uses sparse tensors, which are not supported")
    return torch.strided if given.kind == "layout" else device


class TorchEngine:
    """On the CPU."""

    device = "cpu"

    def __init__(self, program: Program, module: Module) -> None:
        self._prepare(program)
        self._module: Module | None = module
        self._settle()

    def _prepare(self, program: Program) -> None:
        self.inputs = tuple(_spec(tensor, "input") for tensor in program.inputs)
        self.outputs = tuple(_spec(tensor, "output") for tensor in program.outputs)
        self._widened = [tensor.dtype == _BFLOAT16 for tensor in program.outputs]
        entries = program.lookups()
        self._bounds = [(number, entries[one.name]) for number, one in enumerate(program.inputs) if one.name in entries]
        self._most = min([tensor.most for tensor in program.inputs if tensor.most], default=0)
        self._rounding = _ROUNDING if any(weight.dtype in _HALVES for weight in program.weights.values()) else 0.0
        self.batches = False
        self._check = make_check(self.inputs, batches=False)

    def _settle(self) -> None:
        if first_axis_is_free(self.inputs) and first_axis_is_free(self.outputs):
            self.batches = keeps_rows_apart(self.inputs, self.run, rounding=self._rounding)
            self._check = make_check(self.inputs, batches=self.batches)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        for number, entries in self._bounds:
            if arrays[number].size and not 0 <= int(arrays[number].min()) <= int(arrays[number].max()) < entries:
                raise Rejected(f"input {self.inputs[number].name} must lie between 0 and {entries - 1}")
        if self.batches and self._most and len(arrays[0]) > self._most:
            return self._in_pieces(arrays)
        try:
            with torch.inference_mode():
                return self._answers(arrays)
        except IndexError as error:
            raise Rejected(f"the model cannot take these inputs: {_reason(error)}") from error
        except _FAILURES as error:
            raise EngineFailed(f"the model failed: {_reason(error)}") from error

    def _in_pieces(self, arrays: Sequence[Array]) -> Sequence[Array]:
        starts = range(0, len(arrays[0]), self._most)
        pieces = [self.run([array[start : start + self._most] for array in arrays]) for start in starts]
        return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]

    def _answers(self, arrays: Sequence[Array]) -> list[Array]:
        if self._module is None:
            raise EngineFailed("the engine is closed")
        # Copies: the program may write over what it is given.
        return self._owned(self._module(*[torch.tensor(solid(array)) for array in arrays]))

    def _owned(self, answers: Sequence[torch.Tensor]) -> list[Array]:
        """Copies: an answer may be a view of a weight, of another answer, or of memory that the next run writes to."""
        return [np.array((one.float() if wide else one).numpy()) for one, wide in zip(answers, self._widened, strict=True)]

    def close(self) -> None:
        self._module = None


class CudaEngine(TorchEngine):
    """On a GPU: every power of two up to `largest` rows is a captured graph, and what lies between is padded.

    A program without free rows is captured as it is. Also `Staging`: rows written into pinned memory reach the device
    without another copy.
    """

    device = "gpu"

    def __init__(self, program: Program, module: torch.fx.GraphModule, *, largest: int, compiling: bool = True) -> None:
        self._prepare(program)
        self._dtypes = [_DTYPES[tensor.dtype] for tensor in program.inputs]
        self._module = module
        self._captured: dict[int, _Captured] = {}
        self._staged: list[Array] = []
        self._settle()
        if self.batches:
            self._most = min(largest, self._most or largest)
            sizes = [1 << power for power in range(self._most.bit_length()) if 1 << power < self._most] + [self._most]
        else:
            sizes = [0]
        try:
            self._capture(module, sizes, compiling=compiling)
        except _FAILURES as error:
            raise EngineFailed(f"the program could not be prepared for the GPU: {_reason(error)}") from error

    def _capture(self, module: torch.fx.GraphModule, sizes: Sequence[int], *, compiling: bool) -> None:
        """Largest first, so that the smaller ones fit into the memory it took."""
        pool = torch.cuda.graph_pool_handle()
        for_any = torch.compile(module) if compiling else None
        for size in sorted(sizes, reverse=True):
            variants: list[tuple[Module, bool]] = [(module, False)]  # and whether its rows are to be compiled as open
            if for_any is not None:
                variants.append((for_any, size > 1))
            if compiling and size == max(sizes):
                # One more for exactly this size: under load nearly every batch is of it.
                variants.append((torch.compile(torch.fx.GraphModule(module, module.graph), dynamic=False), False))
            self._captured[size] = self._fastest(variants, size, pool)

    def _fastest(self, variants: Sequence[tuple[Module, bool]], size: int, pool: Any) -> "_Captured":
        found: list[_Captured] = []
        for variant, open_rows in variants:
            shapes = [self._shape(spec, size) for spec in self.inputs]
            host = [torch.zeros(shape, dtype=dtype) for shape, dtype in zip(shapes, self._dtypes, strict=True)]
            try:
                with torch.no_grad():
                    found.append(_Captured(variant, host, pool, open_rows=open_rows))
            except Exception:
                if not found:
                    raise
        return min(found, key=lambda captured: captured.seconds)

    @staticmethod
    def _shape(spec: TensorSpec, size: int) -> tuple[int, ...]:
        if -1 in spec.shape[1 if size else 0 :]:
            raise NotLoadable(f"input {spec.name} has shape {list(spec.shape)}: on a GPU only the number of rows may be open")
        return (size, *spec.shape[1:]) if size else spec.shape

    def _for(self, rows: int) -> "tuple[int, _Captured]":
        if not self.batches:
            return 0, self._captured[0]
        size = min(1 << (rows - 1).bit_length(), self._most)
        return size, self._captured[size]

    def stage(self, rows: int) -> Sequence[Array]:
        """At most as many rows as were captured; more come as plain memory."""
        if not self.batches or rows > self._most:
            return [np.empty((rows, *spec.shape[1:]), DTYPES[spec.datatype]) for spec in self.inputs]
        self._staged = [one.numpy()[:rows] for one in self._for(rows)[1].host]
        return self._staged

    def _answers(self, arrays: Sequence[Array]) -> list[Array]:
        if self._module is None:
            raise EngineFailed("the engine is closed")
        if not self._captured:  # while it is found out at load whether rows are kept apart
            given = [torch.tensor(solid(array), device="cuda") for array in arrays]
            return self._owned([one.cpu() for one in self._module(*given)])
        rows = len(arrays[0]) if self.batches else 0
        captured = self._for(rows)[1]
        staged, self._staged = self._staged, []
        for number, (array, host) in enumerate(zip(arrays, captured.host, strict=True)):
            if not (staged and array is staged[number]):
                target = host[:rows] if self.batches else host
                target.copy_(torch.from_numpy(solid(array) if array.flags.writeable else array.copy()))
        captured.replay()
        return self._owned([one[:rows] if self.batches else one for one in captured.answers])

    def close(self) -> None:
        self._captured = {}
        self._staged = []
        super().close()


class _Captured:
    """A CUDA graph of one batch size, with memory on both sides that never moves."""

    def __init__(self, module: Module, host: Sequence[torch.Tensor], pool: Any, *, open_rows: bool) -> None:
        self.host = [one.pin_memory() for one in host]
        self._given = [one.to("cuda") for one in host]
        if open_rows:
            for one in self._given:
                torch._dynamo.mark_dynamic(one, 0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warming up: libraries choose their kernels, compilers compile
            for _ in range(3):
                module(*self._given)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._made = module(*self._given)
        self.answers = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in self._made]
        self.seconds = self._measured()

    def _measured(self) -> float:
        self.replay()
        started = time.perf_counter()
        for _ in range(5):
            self.replay()
        return (time.perf_counter() - started) / 5

    def replay(self) -> None:
        for given, host in zip(self._given, self.host, strict=True):
            given.copy_(host, non_blocking=True)
        self._graph.replay()
        for answer, made in zip(self.answers, self._made, strict=True):
            answer.copy_(made, non_blocking=True)
        torch.cuda.current_stream().synchronize()


def _spec(tensor: Tensor, side: str) -> TensorSpec:
    datatype = "FP32" if tensor.dtype == _BFLOAT16 and side == "output" else _DATATYPES.get(tensor.dtype)
    if datatype is None:
        raise NotLoadable(f"{side} {tensor.name} is of a type that the protocol has no word for; cast it in the model")
    return TensorSpec(name=tensor.name, datatype=datatype, shape=tensor.shape)


def _reason(error: BaseException) -> str:
    return (str(error).strip().partition("\n")[0] or repr(error))[:500]
