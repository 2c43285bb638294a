"""XGBoost models in JSON or UBJSON.

Predictions go through its C interface, as `inplace_predict` does, without describing the same array anew in Python.
"""

import ctypes
import json
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import xgboost

from falaj.runtimes.checking import make_check, solid
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable
from falaj.runtimes.xgboost_files import checked

_PREDICT: Final = 0
_ARRAY: Final = b'{"data":[%d,true],"shape":[%d,%d],"typestr":"<f4","version":3}'
_MOST_FEATURES: Final = 1_000_000


def load(files: ModelFiles, placement: Placement) -> "XgboostEngine":
    if placement.device == "gpu" and not xgboost.build_info().get("USE_CUDA"):
        raise DeviceMissing("this XGBoost is built without CUDA; run on the CPU")
    content = files.contents[files.main]
    if content[:1] != b"{":  # both formats begin so; the old binary one, and pickles, do not
        raise NotLoadable(f"{files.main} is neither JSON nor UBJSON: save the model by booster.save_model('model.json')")
    model = checked(content)
    try:
        booster = xgboost.Booster()
        booster.load_model(bytearray(model))
        device = "cuda" if placement.device == "gpu" else "cpu"
        booster.set_param({"nthread": placement.threads or 1, "device": device})
        features = booster.num_features()
    except (xgboost.core.XGBoostError, ValueError, TypeError, KeyError) as error:
        raise NotLoadable(f"XGBoost cannot load {files.main}: {str(error).strip().splitlines()[0][:500]}") from error
    if not 1 <= features <= _MOST_FEATURES:
        raise NotLoadable(f"an XGBoost model of {features} features cannot be")
    return XgboostEngine(booster, features=features, device=placement.device)


class XgboostEngine:
    """Also `Columned`, where the model was trained with names."""

    batches = True

    def __init__(self, booster: Any, *, features: int, device: str) -> None:
        self.device = device
        self.columns: tuple[str, ...] = tuple(booster.feature_names or ())
        self.inputs = (TensorSpec(name="input", datatype="FP32", shape=(-1, features)),)
        self._check = make_check(self.inputs, batches=True)
        self._booster = booster
        self._handle: Any = booster.handle
        library = xgboost.core._LIB
        self._last_error = library["XGBGetLastError"]
        self._last_error.restype = ctypes.c_char_p
        self._predict = library["XGBoosterPredictFromDense"]
        self._predict.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_void_p] * 4]
        wanted = {"type": _PREDICT, "training": False, "iteration_begin": 0, "iteration_end": 0, "cache_id": 0}
        self._wanted = json.dumps(wanted | {"missing": float("nan"), "strict_shape": False}).encode()
        self._shape = ctypes.POINTER(ctypes.c_uint64)()
        self._axes = ctypes.c_uint64()
        self._answer = ctypes.POINTER(ctypes.c_float)()
        self._told = (ctypes.byref(self._shape), ctypes.byref(self._axes), ctypes.byref(self._answer))
        try:
            answer = self.run([np.zeros((2, features), np.float32)])[0]
        except EngineFailed as error:
            raise NotLoadable(f"the XGBoost model cannot predict: {error}") from error
        self.outputs = (TensorSpec(name="predict", datatype="FP32", shape=(-1, *answer.shape[1:])),)

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        if self._handle is None:
            raise EngineFailed("the engine is closed")
        given = solid(arrays[0])
        described = _ARRAY % (given.ctypes.data, *given.shape)
        if self._predict(self._handle, described, self._wanted, None, *self._told):
            raise EngineFailed(f"XGBoost failed: {(self._last_error() or b'').decode(errors='replace').strip()[:500]}")
        shape = self._shape[: self._axes.value]
        # Copied: the memory is XGBoost's, and the next run writes over it.
        return (np.ctypeslib.as_array(self._answer, tuple(shape)).copy(),)

    def close(self) -> None:
        self._handle = self._booster = None
