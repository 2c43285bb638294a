"""All steps that need no torch, by the names that candidates are made of. `training.shrinking` has those that do."""

import importlib
import importlib.util
from typing import Final

from falaj.optimisation.making.values import CannotBeMade, Made, Material, Step
from falaj.runtimes.engine import ModelFiles
from falaj.runtimes.errors import NotLoadable
from falaj.runtimes.settings import check_settings


def as_it_is(made: Made, argument: str, material: Material) -> Made:
    """For whoever wants the file: a version that only Python can load was converted before it came here."""
    if made.runtime != "onnx":
        raise CannotBeMade(f"it is served as {made.runtime}, not as ONNX; of LightGBM and XGBoost, trees-onnx makes that")
    return Made(runtime=made.runtime, file=made.file, files=made.files, settings=made.settings, notes=(*made.notes, "as it is"))


def settings(made: Made, argument: str, material: Material) -> Made:
    """How it is to be run, e.g. `arena=off`; several stand beside each other with commas between."""
    pairs = [word.partition("=") for word in argument.split(",")]
    told = {**made.settings, **{word: given for word, _, given in pairs}}
    try:
        check_settings(ModelFiles(runtime=made.runtime, main=made.file, contents=made.files, settings=told))
    except NotLoadable as error:
        raise CannotBeMade(str(error)) from error
    notes = (*made.notes, f"run with {argument}")
    return Made(runtime=made.runtime, file=made.file, files=made.files, settings=told, notes=notes)


_FOR_WEIGHTS: Final = ("onnx", "onnx_ir", "onnxruntime")
_FOR_LITERT: Final = ("ai_edge_litert", "flatbuffers", "onnx", "onnxruntime")
# Where each is, and which libraries it stands on: they are imported when a step is first taken, for they take seconds.
_THERE: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "fold": ("folding", "fold", ("onnx", "onnxruntime")),
    "half": ("folding", "half", ("onnx", "onnxruntime")),
    "int8": ("ort_quantising", "int8", ("onnx", "onnxruntime")),
    "int8-weights": ("ort_quantising", "int8_weights", _FOR_WEIGHTS),
    "int4-weights": ("ort_quantising", "int4_weights", _FOR_WEIGHTS),
    "openvino": ("openvino_forms", "as_openvino", ("onnx", "openvino")),
    "openvino-half": ("openvino_forms", "half", ("onnx", "openvino")),
    "openvino-bf16": ("openvino_forms", "bf16", ("onnx", "openvino")),
    "openvino-int8": ("openvino_quantising", "int8", ("nncf", "onnx", "openvino")),
    "openvino-int8-weights": ("openvino_quantising", "int8_weights", ("nncf", "onnx", "openvino")),
    "openvino-int4-weights": ("openvino_quantising", "int4_weights", ("nncf", "onnx", "openvino")),
    "litert": ("litert_forms", "as_litert", _FOR_LITERT),
    "litert-int8": ("litert_forms", "int8", _FOR_LITERT),
    "trees": ("trees", "fewer_trees", ("onnx", "onnxruntime")),
    "trees-onnx": ("trees", "as_onnx", ("onnx", "onnxruntime")),
    "trees-masks": ("trees", "as_masks", ("onnx", "onnxruntime")),
}


def _step(module: str, function: str) -> Step:
    def take(made: Made, argument: str, material: Material) -> Made:
        found = importlib.import_module(f"falaj.optimisation.making.{module}")
        taken: Made = getattr(found, function)(made, argument, material)
        return taken

    return take


# Those whose libraries are installed here.
STEPS: Final[dict[str, Step]] = {
    name: _step(module, function)
    for name, (module, function, libraries) in _THERE.items()
    if all(importlib.util.find_spec(library) for library in libraries)
} | {"onnx": as_it_is, "settings": settings}
