"""From files to an engine. Each runtime's library is imported when it is first asked for, by its own file alone."""

import importlib
from typing import Any, Final

from falaj.runtimes.engine import Engine, ModelFiles, Placement
from falaj.runtimes.errors import EngineMissing, NotLoadable
from falaj.runtimes.hosts import this_host
from falaj.runtimes.settings import check_host, check_settings

# Which of our files runs what, and which library it stands on; the last stands on whatever its models need, elsewhere.
BACKENDS: Final[dict[str, tuple[str, str]]] = {
    "onnx": ("falaj.runtimes.onnx", "onnxruntime"),
    "openvino": ("falaj.runtimes.openvino", "openvino"),
    "litert": ("falaj.runtimes.litert", "ai_edge_litert"),
    "lightgbm": ("falaj.runtimes.lightgbm", "lightgbm"),
    "xgboost": ("falaj.runtimes.xgboost", "xgboost"),
    "torch": ("falaj.runtimes.torch", "torch"),
    "python": ("falaj.runtimes.isolated", ""),
}


def load(files: ModelFiles, placement: Placement) -> Engine:
    """Raises `NotLoadable`, `EngineMissing` or `DeviceMissing`. Whoever calls has checked where the files came from."""
    if files.runtime not in BACKENDS:
        raise NotLoadable(f"there is no runtime {files.runtime!r}, only {', '.join(BACKENDS)}")
    if files.main not in files.contents:
        raise NotLoadable(f"the model's file {files.main!r} is not among its files: {', '.join(sorted(files.contents))}")
    check_settings(files)
    if "needs" in files.settings:
        check_host(files, this_host())
    engine: Engine = _backend(files.runtime).load(files, placement)
    return engine


def _backend(runtime: str) -> Any:
    module, library = BACKENDS[runtime]
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in (library, module):
            raise  # the library is there, and broken: its own words help more
        extra = "train" if runtime == "torch" else "runtimes"
        raise EngineMissing(f"models for {runtime} need {library}: pip install 'falaj[{extra}]'") from None
