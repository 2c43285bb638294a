"""ONNX models, by ONNX Runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnxruntime

from falaj.runtimes.checking import make_check
from falaj.runtimes.datatypes import BYTES, DTYPES
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable, Rejected
from falaj.runtimes.onnx_files import external_files, inputs_without_shape
from falaj.runtimes.probing import QUANTISED, accepted_probe, first_axis_is_free, keeps_rows_apart, probes
from falaj.runtimes.settings import threads_of

_DATATYPES: Final = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": BYTES,
}
_MAPS: Final = {"seq(map(int64,tensor(float)))", "seq(map(string,tensor(float)))"}
_PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}
_FATAL: Final = 4  # ONNX Runtime writes to stderr what it also raises: the one place is enough


def load(files: ModelFiles, placement: Placement) -> "OnnxEngine":
    provider = _PROVIDERS[placement.device]
    if provider not in onnxruntime.get_available_providers():
        raise DeviceMissing(f"this ONNX Runtime has no {provider}: pip install onnxruntime-gpu, or run on the CPU")
    model, external = files.contents[files.main], external_files(files.main, files.contents)
    options = _session_options(threads_of(files, placement))
    if files.settings.get("arena") == "off":
        options.enable_cpu_mem_arena = False  # every run gets its memory anew: slower, and nothing is kept between runs
    if external:
        parts = list(external.values())
        options.add_external_initializers_from_files_in_memory(list(external), parts, [len(part) for part in parts])
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[provider], enable_fallback=0)
    except Exception as error:
        raise NotLoadable(f"ONNX Runtime cannot load {files.main}: {_first_line(error)}") from error
    engine = OnnxEngine(session, device=placement.device, rounding=_rounding_of(model))
    if any(not spec.shape for spec in engine.inputs) and (shapeless := inputs_without_shape(model)):
        raise NotLoadable(f"inputs without a shape: {', '.join(shapeless)}; export the model with the number of axes of each")
    engine.settle()
    return engine


def _rounding_of(model: bytes) -> float:
    """What answers may be off by for another number of rows: where values are rounded to few bits on the way, the last digit
    of a sum decides between two neighbours. Scales that are found while it runs are found over all rows: those rows are not
    apart, however near."""
    return QUANTISED if b"QuantizeLinear" in model and b"DynamicQuantizeLinear" not in model else 0.0


def _session_options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False  # it plans memory per shape, and batches have many
    options.log_severity_level = _FATAL
    # A thread that spins while it waits takes the core from the other workers.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.add_session_config_entry("session.load_model_format", "ONNX")
    return options


class OnnxEngine:
    """Also `Stoppable`, and `Labelled` where outputs are maps of classes to probabilities (scikit-learn's ZipMap)."""

    def __init__(self, session: Any, *, device: str, rounding: float = 0.0) -> None:
        self.device, self._rounding = device, rounding
        self.inputs: tuple[TensorSpec, ...] = tuple(_spec(argument, "input") for argument in session.get_inputs())
        self._arguments = session.get_outputs()
        self.outputs: tuple[TensorSpec, ...] = tuple(_spec(argument, "output") for argument in self._arguments)
        self.labels: Mapping[str, tuple[int | bytes, ...]] = {}
        self.batches = False
        self._input_names = [spec.name for spec in self.inputs]
        self._output_names = [spec.name for spec in self.outputs]
        self._options = onnxruntime.RunOptions()
        self._options.log_severity_level = _FATAL
        # The object under the session: the session itself keeps the model's bytes in memory for ever, and asks each time
        # what was settled at load. `run_with_ort_values` and bindings were measured too; both are slower from arrays.
        self._run: Any = session._sess.run
        self._check = make_check(self.inputs, batches=False)
        self._converts = any(spec.datatype == BYTES for spec in (*self.inputs, *self.outputs)) or self._has_maps()

    def _has_maps(self) -> bool:
        return any(argument.type in _MAPS for argument in self._arguments)

    def settle(self) -> None:
        """Finds out by asking what the file does not say: shapes of outputs, labels, whether rows are kept apart."""
        found = accepted_probe(self.inputs, self._settling_run)
        if found is None:
            if self._has_maps():
                raise NotLoadable("the model gives maps that cannot be read: convert it with options={'zipmap': False}")
            return
        given = self._settling_run(probes(self.inputs, 1, length=found[0], text=found[1]))
        self.outputs = tuple(self._settled(*pair) for pair in zip(self.outputs, given, strict=True))
        if first_axis_is_free(self.inputs) and first_axis_is_free(self.outputs):
            self.batches = keeps_rows_apart(self.inputs, self.run, rounding=self._rounding)
        self._check = make_check(self.inputs, batches=self.batches)

    def _settled(self, spec: TensorSpec, given: Array) -> TensorSpec:
        if spec.name in self.labels:
            return TensorSpec(name=spec.name, datatype="FP32", shape=(-1, given.shape[1]))
        # No shape in the file reads like a scalar's; what came out says how many axes there are.
        return (
            spec
            if len(spec.shape) == given.ndim
            else TensorSpec(name=spec.name, datatype=spec.datatype, shape=(-1,) * given.ndim)
        )

    def _settling_run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if self._has_maps():
            raw = self._ask(self._encoded(arrays))
            for argument, answer in zip(self._arguments, raw, strict=True):
                if argument.type in _MAPS:
                    self.labels = {**self.labels, argument.name: _labels_of(answer)}
        return self.run(arrays)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        if self._converts:
            return self._decoded(self._ask(self._encoded(arrays)))
        answers: Sequence[Array] = self._ask(arrays)
        return answers

    def _ask(self, arrays: Sequence[Array]) -> Any:
        try:
            return self._run(self._output_names, dict(zip(self._input_names, arrays, strict=True)), self._options)
        except Exception as error:
            raise self._meaning(error) from error

    def _meaning(self, error: Exception) -> Exception:
        if self._run is _closed:
            return EngineFailed("the engine is closed")
        if self._options.terminate:
            self._options.terminate = False
            return EngineFailed("the run was stopped: it took too long")
        if "INVALID_ARGUMENT" in str(error) or isinstance(error, UnicodeError):
            return Rejected(f"the model cannot take these inputs: {_first_line(error)}")
        return EngineFailed(f"the model failed: {_first_line(error)}")

    def _encoded(self, arrays: Sequence[Array]) -> list[Array]:
        return [_texts(array) if array.dtype == object else array for array in arrays]

    def _decoded(self, answers: Sequence[Any]) -> list[Array]:
        made = []
        for spec, answer in zip(self.outputs, answers, strict=True):
            if labels := self.labels.get(spec.name):
                made.append(_table(answer, len(labels)))
            elif spec.datatype == BYTES:
                made.append(_bytes(answer))
            else:
                made.append(answer)
        return made

    def stop(self) -> None:
        self._options.terminate = True

    def close(self) -> None:
        self._run = _closed


def _closed(*_: Any) -> Any:
    raise EngineFailed("the engine is closed")


def _spec(argument: Any, side: str) -> TensorSpec:
    if side == "output" and argument.type in _MAPS:
        return TensorSpec(name=argument.name, datatype="FP32", shape=(-1, -1))
    datatype = _DATATYPES.get(argument.type)
    if datatype is None:
        hint = "; convert it with options={'zipmap': False}" if "map(" in argument.type else ""
        raise NotLoadable(f"{side} {argument.name} is {argument.type}, which the protocol has no word for{hint}")
    shape = tuple(length if isinstance(length, int) and length >= 0 else -1 for length in argument.shape)
    return TensorSpec(name=argument.name, datatype=datatype, shape=shape)


def _texts(array: Array) -> Array:
    """What ONNX Runtime takes for texts; it would take bytes too, and read them as Python spells them."""
    made = np.empty(array.shape, dtype=object)
    try:
        made.reshape(-1)[:] = [text.decode() for text in array.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise Rejected(f"the model takes texts in UTF-8, and {error.object[:40]!r} is none") from error
    return made


def _bytes(array: Array) -> Array:
    made = np.empty(array.shape, dtype=object)
    made.reshape(-1)[:] = [str(text).encode() for text in array.reshape(-1).tolist()]
    return made


def _labels_of(answer: Any) -> tuple[int | bytes, ...]:
    """The keys, which every row has: they are classes, and ONNX Runtime gives them in order."""
    if not answer or not answer[0]:
        raise NotLoadable("the model gives empty maps: convert it with options={'zipmap': False}")
    return tuple(key.encode() if isinstance(key, str) else int(key) for key in answer[0])


def _table(answer: Any, width: int) -> Array:
    rows = [list(row.values()) for row in answer]
    if any(len(row) != width for row in rows):
        raise EngineFailed("the model gave maps of different lengths: convert it with options={'zipmap': False}")
    return np.array(rows, DTYPES["FP32"])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:500]
