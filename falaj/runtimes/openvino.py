"""Models in OpenVINO's intermediate representation, an XML file and its weights, by OpenVINO."""

import posixpath
from collections.abc import Sequence
from typing import Any, Final

import openvino

from falaj.runtimes.checking import make_check, solid
from falaj.runtimes.datatypes import BYTES, DTYPES, datatype_of
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable
from falaj.runtimes.probing import QUANTISED, first_axis_is_free, keeps_rows_apart
from falaj.runtimes.settings import threads_of

_DEVICES: Final = {"cpu": "CPU", "gpu": "GPU"}


def load(files: ModelFiles, placement: Placement) -> "OpenvinoEngine":
    content = files.contents[files.main]
    if not content.lstrip()[:5].startswith(b"<"):  # OpenVINO would also take other formats, and those may name further files
        raise NotLoadable(f"{files.main} is not XML: save the model by openvino.save_model(model, 'model.xml')")
    weights = files.contents.get(posixpath.splitext(files.main)[0] + ".bin", b"")
    core, device = openvino.Core(), _DEVICES[placement.device]
    if not any(name.partition(".")[0] == device for name in core.available_devices):
        raise DeviceMissing(f"OpenVINO finds no {device} here, only {', '.join(core.available_devices)}")
    # In full precision unless asked: on some processors OpenVINO would otherwise compute in bfloat16 by itself.
    precision = files.settings.get("precision", "f32")
    settings = {"NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    if device == "CPU":
        settings |= {"INFERENCE_NUM_THREADS": str(threads_of(files, placement)), "ENABLE_CPU_PINNING": "NO"}
    try:
        compiled = core.compile_model(core.read_model(content, weights), device, settings)
        coarse = precision != "f32" or b'type="FakeQuantize"' in content
        return OpenvinoEngine(compiled, device=placement.device, rounding=QUANTISED if coarse else 0.0)
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        raise NotLoadable(f"OpenVINO cannot load {files.main}: {_reason(error)}") from error


class OpenvinoEngine:
    def __init__(self, compiled: Any, *, device: str, rounding: float = 0.0) -> None:
        self.device = device
        self.inputs = tuple(_spec(port, f"input{number}") for number, port in enumerate(compiled.inputs))
        self.outputs = tuple(_spec(port, f"output{number}") for number, port in enumerate(compiled.outputs))
        self.batches = False
        self._request: Any = compiled.create_infer_request()
        self._check = make_check(self.inputs, batches=False)
        if first_axis_is_free(self.inputs) and first_axis_is_free(self.outputs):
            self.batches = keeps_rows_apart(self.inputs, self.run, rounding=rounding)
            self._check = make_check(self.inputs, batches=self.batches)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        request = self._request
        if request is None:
            raise EngineFailed("the engine is closed")
        held = {number: solid(array) for number, array in enumerate(arrays)}  # read from where they are, until it is done
        try:
            return list(request.infer(held, share_inputs=True).to_tuple())
        except (RuntimeError, ValueError, MemoryError) as error:
            raise EngineFailed(f"the model failed: {_reason(error)}") from error

    def close(self) -> None:
        self._request = None


def _spec(port: Any, otherwise: str) -> TensorSpec:
    name = port.get_any_name() if port.get_names() else otherwise
    kind, partial = port.get_element_type(), port.get_partial_shape()
    datatype = datatype_of(kind.to_dtype()) if kind.is_static() and kind.get_type_name() != "bf16" else None
    if datatype is None or datatype == BYTES or (DTYPES[datatype].itemsize * 8 != kind.bitwidth and datatype != "BOOL"):
        raise NotLoadable(f"{name} is {kind.get_type_name()}, which is not supported; convert the model to f32 or integers")
    if partial.rank.is_dynamic:
        raise NotLoadable(f"{name} has no shape; convert the model with the number of axes of each input and output")
    shape = tuple(-1 if length.is_dynamic else length.get_length() for length in partial)
    return TensorSpec(name=name, datatype=datatype, shape=shape)


def _reason(error: Exception) -> str:
    """OpenVINO tells the place in its own source first, and the reason last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and not line.startswith("Exception from")]
    return "; ".join(lines)[:500] or "no reason given"
