"""LiteRT (TensorFlow Lite) models, by its interpreter."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from falaj.runtimes.checking import make_check
from falaj.runtimes.datatypes import BYTES, datatype_of
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable
from falaj.runtimes.litert_files import checked
from falaj.runtimes.probing import first_axis_is_free, keeps_rows_apart


def load(files: ModelFiles, placement: Placement) -> "LitertEngine":
    if placement.device != "cpu":
        raise DeviceMissing("LiteRT models run on the CPU here")
    content = files.contents[files.main]
    if content[4:8] != b"TFL3":
        raise NotLoadable(f"{files.main} is not a LiteRT model: those have TFL3 at their fifth byte")
    try:
        written, lasting = checked(content)
        interpreter = Interpreter(model_content=written, num_threads=placement.threads or 1)
        interpreter.allocate_tensors()
        return LitertEngine(interpreter, forgets=lasting)
    except (ValueError, RuntimeError, TypeError, KeyError, MemoryError) as error:
        raise NotLoadable(f"LiteRT cannot load {files.main}: {str(error).strip()[:500]}") from error


class LitertEngine:
    device = "cpu"

    """`forgets` says that the model has tensors that would last from one call to the next, which may be somebody else's."""

    def __init__(self, interpreter: Any, *, forgets: bool = False) -> None:
        self._interpreter, self._forgets = interpreter, forgets
        given, made = interpreter.get_input_details(), interpreter.get_output_details()
        names = _signature_names(interpreter)
        self.inputs = tuple(_spec(detail, names) for detail in given)
        self.outputs = tuple(_spec(detail, names) for detail in made)
        self._input_numbers = [detail["index"] for detail in given]
        self._output_numbers = [detail["index"] for detail in made]
        self._shapes = [tuple(int(length) for length in detail["shape"]) for detail in given]
        self.batches = False
        self._check = make_check(self.inputs, batches=False)
        if first_axis_is_free(self.inputs) and first_axis_is_free(self.outputs):
            self.batches = keeps_rows_apart(self.inputs, self.run)
            self._check = make_check(self.inputs, batches=self.batches)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        interpreter = self._interpreter
        if interpreter is None:
            raise EngineFailed("the engine is closed")
        try:
            shapes = [array.shape for array in arrays]
            if shapes != self._shapes:
                self._shapes = []  # until all of it is done: what fails in the middle is done anew
                for number, shape in zip(self._input_numbers, shapes, strict=True):
                    interpreter.resize_tensor_input(number, shape, strict=True)
                interpreter.allocate_tensors()
                self._shapes = shapes
            for number, array in zip(self._input_numbers, arrays, strict=True):
                interpreter.set_tensor(number, array)
            if self._forgets:
                interpreter.reset_all_variables()
            interpreter.invoke()
            return [np.asarray(interpreter.get_tensor(number)) for number in self._output_numbers]
        except (ValueError, RuntimeError, MemoryError) as error:
            self._shapes = []
            raise EngineFailed(f"the model failed: {str(error).strip()[:500]}") from error

    def close(self) -> None:
        self._interpreter = None


def _signature_names(interpreter: Any) -> dict[int, str]:
    """What the one signature calls the tensors; their own names are the converter's."""
    signatures = list(interpreter.get_signature_list())
    if len(signatures) != 1:
        return {}
    runner = interpreter.get_signature_runner(signatures[0])
    return {
        detail["index"]: name
        for details in (runner.get_input_details(), runner.get_output_details())
        for name, detail in details.items()
    }


def _spec(detail: Any, names: dict[int, str]) -> TensorSpec:
    name = names.get(detail["index"], detail["name"])
    datatype = datatype_of(np.dtype(detail["dtype"]))
    if datatype is None or datatype == BYTES:
        raise NotLoadable(f"{name} is {np.dtype(detail['dtype'])}, which is not supported here")
    signature = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    return TensorSpec(name=name, datatype=datatype, shape=tuple(int(length) for length in signature))
